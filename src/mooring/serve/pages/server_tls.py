"""TLS of the pages: the serving certificate, from files or self-signed, and the authorities of client certificates.

Both may change while the process runs: certificates are rotated, and the cluster publishes new authorities. A handshake uses
what is current; a source that fails keeps what it had, so that a half-written file does not end the service.
"""

import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mooring.api.api_errors import ApiError
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import server_context, show_pair, trust_authorities
from mooring.apiclient.credentials import CredentialsError, KeyPair
from mooring.apiclient.http_requests import Unanswered
from mooring.kit.bounded_reading import read_file
from mooring.kit.clock import Clock
from mooring.kit.logs import Log
from mooring.kit.private_files import write_private

PAIR_NAME = "kube-scheduler"
"""Upstream names the files in --cert-dir like this."""


class CertificateError(Exception):
    """There is no usable serving certificate. The text names the file or flag."""


Pair = Callable[[], KeyPair]
"""Returns the current certificate; called at every handshake."""


def serving_pair(
    certificate: Path | None, key: Path | None, directory: Path | None, hosts: Sequence[str], clock: Clock, log: Log
) -> Pair:
    """The certificate from the two files, or from `directory`, where a self-signed one is written if it is missing; without
    either, a self-signed one in memory, which is made when it is first asked for. Raises CertificateError."""
    if (certificate is None) != (key is None):
        raise CertificateError("--tls-cert-file and --tls-private-key-file must be given together")
    if certificate is not None and key is not None:
        return _from_files(certificate, key)
    if directory is None:
        log.info("Generated self-signed cert in-memory")
        return cache(lambda: _made_here(hosts, clock))
    certificate, key = directory / f"{PAIR_NAME}.crt", directory / f"{PAIR_NAME}.key"
    if not (certificate.exists() and key.exists()):
        _write(certificate, key, _made_here(hosts, clock))
        log.info("Generated self-signed cert", certificate=str(certificate), key=str(key))
    return _from_files(certificate, key)


def _made_here(hosts: Sequence[str], clock: Clock) -> KeyPair:
    """A certificate with its authority appended, so that a client can trust this one server."""
    from mooring.apiclient.certificates import new_authority, sign_server  # Hot: 25 ms

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
    """Reads both files at every handshake, so that a rotated certificate is used without a restart."""

    def read() -> KeyPair:
        try:
            return KeyPair(read_file(certificate), read_file(key))
        except OSError as error:
            raise CertificateError(f"{error.filename} cannot be read: {error.strerror}") from None

    return read


class ServerTls:
    """The TLS context of the listener. Connections after a change get the new certificate and authorities."""

    def __init__(
        self, pair: Pair, client_authorities: Callable[[], bytes] | None, log: Log, at_once: bool = True
    ) -> None:
        """Without `client_authorities` the server requests no client certificates. It looks at the sources now, or at the
        first handshake if `at_once` is false. Raises CertificateError."""
        self._pair = pair
        self._authorities = client_authorities
        self._log = log
        self._sources = self._look() if at_once else None
        self._current = None if self._sources is None else self._context_of(self._sources)

    def context(self) -> ssl.SSLContext:
        """The context for the listener. Its SNI callback moves each handshake to the current context, so that it need not
        have a certificate itself."""
        first = (
            _bare_context(self._authorities is not None) if self._sources is None else self._context_of(self._sources)
        )
        first.sni_callback = self._choose
        return first

    def _context_of(self, sources: tuple[KeyPair, bytes]) -> ssl.SSLContext:
        return _context(*sources, asks=self._authorities is not None)

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext) -> None:
        self._refresh()
        if self._current is not None:
            connection.context = self._current

    def _look(self) -> tuple[KeyPair, bytes]:
        return self._pair(), self._authorities() if self._authorities is not None else b""

    def _refresh(self) -> None:
        """Look at the sources, and make a new context if they have changed. Errors keep the old one."""
        try:
            sources = self._look()
            if sources != self._sources:
                is_first, self._current = self._current is None, self._context_of(sources)
                self._sources = sources
                if not is_first:
                    self._log.info("Reloaded the serving certificate or the client authorities")
        except CertificateError as error:
            # Certificate and key are two files: only one of them may have been replaced so far.
            self._log.warning("Keeping the previous serving certificate", err=str(error))


_UNUSABLE_PAIR = "the serving certificate and its key are not PEM, or do not belong together"
_ENCRYPTED_KEY = "the key of the serving certificate is encrypted; give a key without a password"


def _context(pair: KeyPair, authorities_pem: bytes, asks: bool) -> ssl.SSLContext:
    """A server context with this certificate; `asks` requests a client certificate but does not require one."""
    context = _bare_context(asks)
    if asks and authorities_pem:
        try:
            trust_authorities(context, authorities_pem)
        except (ssl.SSLError, ValueError):
            raise CertificateError("the client authorities are not PEM") from None
    show_pair(context, pair, CertificateError(_UNUSABLE_PAIR), CertificateError(_ENCRYPTED_KEY))
    return context


def _bare_context(asks: bool) -> ssl.SSLContext:
    """A server context without a certificate."""
    context = server_context()
    # A resumed session would keep the identity of an authority that is no longer trusted.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    if asks:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


# ---- authorities of client certificates: --client-ca-file, and the one that the cluster publishes


CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
LOOK_AGAIN_S = 60.0
"""How often the ConfigMap is read. Upstream watches it; authorities change so rarely that once a minute is enough."""


class AuthorityError(Exception):
    """An authority that the flags require cannot be read."""


class ClientAuthorities:
    """The PEM of all authorities; empty if there is none. A source that fails keeps its last content."""

    def __init__(self, file: Path | None, client: ApiClient | None, log: Log, is_lookup_needed: bool = False) -> None:
        """`is_lookup_needed`: a ConfigMap that cannot be read is an error instead of a warning."""
        self._file = file
        self._client = client
        self._log = log
        self._is_lookup_needed = is_lookup_needed
        self._from_file = b""
        self._from_cluster = b""
        if file is not None:
            self._from_file = _read(file)

    @property
    def has_sources(self) -> bool:
        return self._file is not None or self._client is not None

    def pem(self) -> bytes:
        """Reads the file each time (handshakes are rare); `look_up` reads the ConfigMap."""
        if self._file is not None:
            try:
                self._from_file = _read(self._file)
            except AuthorityError as error:
                self._log.warning("Keeping the previous client authority", err=str(error))
        return b"\n".join(filter(None, (self._from_file, self._from_cluster)))

    async def look_up(self) -> None:
        """Read the ConfigMap. Raises AuthorityError only if the flags require it and it was never read."""
        if self._client is None:
            return
        try:
            found = await self._client.get(CONFIG_MAP)
            self._from_cluster = _published(found)
        except (ApiError, Unanswered, CredentialsError, AuthorityError) as error:
            if self._is_lookup_needed and not self._from_cluster:
                raise AuthorityError(f"unable to load configmap based client authority: {error}") from None
            self._log.warning(
                "Unable to get configmap/extension-apiserver-authentication in kube-system", err=str(error)
            )

    async def keep_looking(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Call `look_up` each minute until cancelled."""
        while True:
            await sleep(LOOK_AGAIN_S)
            await self.look_up()


def _read(file: Path) -> bytes:
    """The content of --client-ca-file. Raises AuthorityError."""
    try:
        content = read_file(file)
    except OSError as error:
        raise AuthorityError(f"--client-ca-file: {file} cannot be read: {error.strerror}") from None
    if not _is_pem(content):
        raise AuthorityError(f"--client-ca-file: {file} holds no PEM certificate")
    return content


def _published(config_map: Any) -> bytes:
    data = config_map.get("data") if isinstance(config_map, dict) else None
    written = data.get("client-ca-file", "") if isinstance(data, dict) else ""
    content = str(written).encode()
    if content and not _is_pem(content):
        raise AuthorityError("its client-ca-file holds no PEM certificate")
    return content


def _is_pem(content: bytes) -> bool:
    from cryptography import x509  # Hot: 25 ms, and few name an authority

    try:
        return bool(x509.load_pem_x509_certificates(content))
    except ValueError:
        return False
