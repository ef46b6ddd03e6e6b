"""TLS as a server: the certificate that we show, from files or made here, and the client certificates that we ask for."""

import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from mooring.apiclient.credentials.certificates import KeyPair, new_authority, sign_server
from mooring.apiclient.credentials.private_files import write_private
from mooring.kit.clock import Clock
from mooring.kit.logs import Log

PAIR_NAME = "kube-scheduler"


class CertificateError(Exception):
    """No certificate to serve with. The text says where it was looked for."""


Pair = Callable[[], KeyPair]
"""Gives the certificate to show now; asked at every handshake."""


def serving_pair(
    certificate: Path | None, key: Path | None, directory: Path | None, hosts: Sequence[str], clock: Clock, log: Log
) -> Pair:
    """From the files named, or from the directory, where it is made if it is missing, or made for this run alone."""
    if (certificate is None) != (key is None):
        raise CertificateError("--tls-cert-file and --tls-private-key-file must be given together")
    if certificate is not None and key is not None:
        return _from_files(certificate, key)
    if directory is None:
        log.info("Generated self-signed cert in-memory")
        pair = _made_here(hosts, clock)
        return lambda: pair
    certificate, key = directory / f"{PAIR_NAME}.crt", directory / f"{PAIR_NAME}.key"
    if not (certificate.exists() and key.exists()):
        _write(certificate, key, _made_here(hosts, clock))
        log.info("Generated self-signed cert", certificate=str(certificate), key=str(key))
    return _from_files(certificate, key)


def _made_here(hosts: Sequence[str], clock: Clock) -> KeyPair:
    """With the authority behind it, for those who want to trust just this server."""
    authority = new_authority(clock)
    pair = sign_server(authority, [host for host in hosts if host not in ("", "0.0.0.0", "::")], clock)
    return KeyPair(pair.certificate_pem + authority.certificate_pem, pair.key_pem)


def _write(certificate: Path, key: Path, pair: KeyPair) -> None:
    try:
        write_private(key, pair.key_pem)
        write_private(certificate, pair.certificate_pem)
    except OSError as error:
        raise CertificateError(f"--cert-dir: {certificate.parent} cannot be written: {error.strerror}") from None


def _from_files(certificate: Path, key: Path) -> Pair:
    def read() -> KeyPair:
        try:
            return KeyPair(certificate.read_bytes(), key.read_bytes())
        except OSError as error:
            raise CertificateError(f"{error.filename} cannot be read: {error.strerror}") from None

    return read


class ServerTls:
    """Contexts that follow their sources: whoever connects after a change meets the new certificate and authority."""

    def __init__(self, pair: Pair, client_authorities: Callable[[], bytes] | None, log: Log) -> None:
        """Without `client_authorities` nobody is asked for a certificate. Raises CertificateError."""
        self._pair = pair
        self._authorities = client_authorities
        self._log = log
        self._sources = self._look()
        self._current = _context(*self._sources, asks=client_authorities is not None)

    def context(self) -> ssl.SSLContext:
        """For listening. Each handshake is moved to the context of the moment."""
        first = _context(*self._sources, asks=self._authorities is not None)
        first.sni_callback = self._choose
        return first

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext) -> None:
        self._refresh()
        connection.context = self._current

    def _look(self) -> tuple[KeyPair, bytes]:
        return self._pair(), self._authorities() if self._authorities is not None else b""

    def _refresh(self) -> None:
        try:
            sources = self._look()
            if sources != self._sources:
                self._current = _context(*sources, asks=self._authorities is not None)
                self._sources = sources
                self._log.info("Reloaded the serving certificate or the client authorities")
        except CertificateError as error:
            # Certificate and key are two files: we may have looked while only one was replaced.
            self._log.warning("Keeping the previous serving certificate", err=str(error))


def _context(pair: KeyPair, authorities_pem: bytes, asks: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    # A resumed session would keep the identity of an authority that is no longer believed.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    if asks:
        context.verify_mode = ssl.CERT_OPTIONAL
        _believe(context, authorities_pem)
    _show(context, pair)
    return context


def _believe(context: ssl.SSLContext, authorities_pem: bytes) -> None:
    if not authorities_pem:
        return
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=authorities_pem.decode("ascii", errors="replace"))
    except (ssl.SSLError, ValueError):
        raise CertificateError("the client authorities are not PEM") from None


def _show(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Python reads certificates from files only, so they are in a private directory for a moment."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as scratch:
        certificate, key = Path(scratch, "server.crt"), Path(scratch, "server.key")
        write_private(certificate, pair.certificate_pem)
        write_private(key, pair.key_pem)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError):
            problem = "the serving certificate and its key are not PEM, or do not belong together"
            raise CertificateError(problem) from None


def _no_password() -> NoReturn:
    """Or else OpenSSL would ask at the terminal."""
    raise CertificateError("the key of the serving certificate is encrypted; give a key without a password")
