"""How to reach an API server, and as whom: what kubeconfig files and service accounts are read into, and which proxy
follows from it.
"""

import ipaddress
import logging
import os
import ssl
import tempfile
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from mooring.apiclient.credentials import ANONYMOUS, Credentials, CredentialsError, KeyPair


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Everything that a client needs to know. Its repr shows no secret, because logs may contain it."""

    server: str
    """The URL without a slash at the end; it may have a path."""
    authority_pem: bytes = field(default=b"", repr=False)
    """The certificate authorities to trust; empty for those that this machine trusts."""
    skips_verification: bool = False
    server_name: str = ""
    """The name to expect in the server's certificate, if it is not the host of the URL."""
    proxy_url: str = field(default="", repr=False)
    """Empty: HTTPS_PROXY, HTTP_PROXY and NO_PROXY decide."""
    credentials: Credentials = field(default=ANONYMOUS, repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers for user impersonation."""
    namespace: str = ""


# ---- proxies


def proxy_of(server: str, environment: Mapping[str, str] = os.environ) -> str:
    """The URL of the proxy by the environment, as Go's HTTP client reads it; empty for a direct connection, as to this
    machine itself."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    proxy = _variable(environment, f"{parts.scheme}_proxy")
    if not proxy or _is_local(host) or _is_exempt(host, parts.port, _variable(environment, "no_proxy")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_local(host: str) -> bool:
    address = _address(host)
    return address.is_loopback if address else host == "localhost"


def _is_exempt(host: str, port: int | None, no_proxy: str) -> bool:
    return any(_matches(entry.strip().lower(), host, port) for entry in no_proxy.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of NO_PROXY covers the host: `*`, an address, a network, a host with its subdomains, or
    `.subdomains-only`; a port may follow."""
    if entry == "*":
        return True
    address = _address(host)
    if address and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if entry.count(":") == 1:
        entry, _, entry_port = entry.partition(":")
        if entry_port != str(port):
            return False
    if address:
        return _address(entry.strip("[]")) == address
    suffix = entry.removeprefix("*")
    return host == entry or host.endswith(suffix if suffix.startswith(".") else f".{suffix}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# ---- TLS of clients: whom they trust, the certificate that they show, and sessions that later connections resume.


log = logging.getLogger(__name__)

_RESUMED_FOR_S = 3600.0
"""How long a session is resumed. After that a server has to present its certificate again: it may have expired."""


class TlsContexts:
    """The context for the present client certificate. Clients of one event loop that connect to the same server share it:
    to load the authorities of the machine takes 20 ms, and each resumes the sessions of the others."""

    def __init__(self, access: ConnectionSettings) -> None:
        self._access = access
        self._present: tuple[KeyPair | None, ssl.SSLContext] | None = None
        """The client certificate, None for none, and its context."""

    def of(self, pair: KeyPair | None) -> ssl.SSLContext:
        """The context for a certificate. It stays the same as long as the certificate does: aiohttp shares connections by
        context."""
        if self._present is None or self._present[0] != pair:
            try:
                self._present = pair, client_context(self._access, pair)
            except CredentialsError as error:
                if self._present is None:
                    raise
                # Certificate and key are two files: only one of them may have been replaced so far.
                log.warning("%s; the client continues with the previous certificate", error)
        return self._present[1]


class ResumingContext(ssl.SSLContext):
    """A client's context that resumes the session of an earlier connection to the same server.

    Hot: a scheduler opens 64 connections for binds at once, when those of its watches are open. A handshake that resumes a
    session exchanges no certificates. It takes two thirds of the instructions of a full one, or one third if the client
    would show a certificate (ADR 19).
    """

    _latest: "tuple[str, float, weakref.ref[ssl.SSLObject]] | None" = None
    """The latest connection: server name, when it was opened, and TLS itself, because tickets come after the handshake."""
    _resumable: tuple[str, float, ssl.SSLSession] | None = None
    """The session of one that did a full handshake."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """A server that does not know the session does a full handshake, as without it."""
        name, now_s = str(server_hostname), time.monotonic()
        self._learn()
        made = super().wrap_bio(
            incoming, outgoing, server_side, server_hostname, session or self._session_for(name, now_s)
        )
        self._latest = name, now_s, weakref.ref(made)
        return made

    def _learn(self) -> None:
        """Keep the session of the latest connection, if it is a new one: the server knows it, and may know no older one."""
        if self._latest is None:
            return
        name, opened_s, reference = self._latest
        tls = reference()
        if tls is not None and tls.version() is not None and not tls.session_reused:  # no version: handshake not over
            session = tls.session
            if session is not None and session.has_ticket:
                self._resumable, self._latest = (name, opened_s, session), None

    def _session_for(self, name: str, now_s: float) -> ssl.SSLSession | None:
        if self._resumable is None:
            return None
        known, since_s, session = self._resumable
        return session if known == name and now_s - since_s < _RESUMED_FOR_S else None


_UNUSABLE_PAIR = "the client certificate and its key are not PEM, or do not belong together"
_ENCRYPTED_KEY = "the key of the client certificate is encrypted; use a key without a password"


def client_context(access: ConnectionSettings, pair: KeyPair | None) -> ssl.SSLContext:
    """A context that trusts the given authority alone, or the authorities of this machine if none is given."""
    # Not create_default_context: since Python 3.13 it rejects authorities of old clusters, which Go accepts.
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if access.skips_verification:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.authority_pem:
        try:
            trust_authorities(context, access.authority_pem)
        except (ssl.SSLError, ValueError):
            raise CredentialsError(f"the certificate authority of {access.server} is not PEM") from None
    else:
        context.load_default_certs()
    if pair is not None:
        show_pair(context, pair, CredentialsError(_UNUSABLE_PAIR), CredentialsError(_ENCRYPTED_KEY))
    return context


def trust_authorities(context: ssl.SSLContext, authorities_pem: bytes) -> None:
    """Have a context trust the certificates of a list, as Go does: one whose own authority is not in the list is trusted
    too. Raises SSLError or ValueError if there is none."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Lines between certificates may be in any language, but `ssl` takes ASCII only.
    text = authorities_pem.decode("ascii", errors="replace").replace("\N{REPLACEMENT CHARACTER}", "?")
    context.load_verify_locations(cadata=text)


def server_context() -> ssl.SSLContext:
    """A context for a listener, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def show_pair(context: ssl.SSLContext, pair: KeyPair, unusable: Exception, encrypted: Exception) -> None:
    """Have a context show a certificate. Raises `unusable` for what is not PEM or does not belong together, and `encrypted`
    for a key with a password. Python reads certificates from files only, so they are in a private directory for a moment."""

    def ask_for_password() -> NoReturn:
        """Without this, OpenSSL would ask at the terminal."""
        raise encrypted

    with tempfile.TemporaryDirectory(prefix="mooring-") as scratch:
        certificate, key = Path(scratch, "pair.crt"), Path(scratch, "pair.key")
        certificate.write_bytes(pair.certificate_pem)
        key.write_bytes(pair.key_pem)
        try:
            context.load_cert_chain(certificate, key, password=ask_for_password)
        except (ssl.SSLError, ValueError):
            raise unusable from None
