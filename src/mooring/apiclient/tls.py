"""TLS as a client of the API: whom we trust, and the certificate that we show."""

import ssl
import tempfile
from pathlib import Path
from typing import NoReturn

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials.certificates import KeyPair
from mooring.apiclient.credentials.credentials import CredentialsError


def client_context(access: ConnectionSettings, pair: KeyPair | None) -> ssl.SSLContext:
    """Trust the given authority alone, or this machine's authorities if none is given."""
    # Not create_default_context: from Python 3.13 on it refuses authorities of old clusters, which Go takes.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if access.skips_verification:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.authority_pem:
        _trust(context, access)
    else:
        context.load_default_certs()
    if pair is not None:
        _show(context, pair)
    return context


def _trust(context: ssl.SSLContext, access: ConnectionSettings) -> None:
    # As in Go, whatever is in the list is trusted, even if it is signed by something that is not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=access.authority_pem.decode("ascii", errors="replace"))
    except (ssl.SSLError, ValueError):
        raise CredentialsError(f"the certificate authority of {access.server} is not PEM") from None


def _show(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Python reads certificates from files only, so they are in a private directory for a moment."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as scratch:
        certificate, key = Path(scratch, "client.crt"), Path(scratch, "client.key")
        certificate.write_bytes(pair.certificate_pem)
        key.write_bytes(pair.key_pem)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError):
            raise CredentialsError(
                "the client certificate and its key are not PEM, or do not belong together"
            ) from None


def _no_password() -> NoReturn:
    """Or else OpenSSL would ask at the terminal."""
    raise CredentialsError("the key of the client certificate is encrypted; use a key without a password")
