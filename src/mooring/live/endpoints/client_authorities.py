"""Whose client certificates are believed: an authority in a file, or the one that the cluster publishes for this."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509

from mooring.apiclient.credentials.credentials import CredentialsError
from mooring.apiclient.request_errors import Unanswered
from mooring.apiclient.transport import Params
from mooring.kit.logs import Log
from mooring.model.api_errors import ApiError

CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
LOOK_AGAIN_S = 60.0
"""Upstream watches; authorities change so rarely that looking each minute does."""


class AuthorityError(Exception):
    """An authority that was asked for cannot be had."""


class ConfigMapClient(Protocol):
    """What of ApiClient is used."""

    async def get(self, path: str, params: Params | None = None) -> Any: ...


class ClientAuthorities:
    """PEM of all authorities, as it is now; empty if there is none. A source that fails keeps what it had."""

    def __init__(
        self, file: Path | None, client: ConfigMapClient | None, log: Log, is_lookup_needed: bool = False
    ) -> None:
        """`is_lookup_needed`: a ConfigMap that cannot be read is an error, not a warning."""
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
        """Looks at the file again, which costs little; the cluster is asked by `look_up`."""
        if self._file is not None:
            try:
                self._from_file = _read(self._file)
            except AuthorityError as error:
                self._log.warning("Keeping the previous client authority", err=str(error))
        return b"\n".join(filter(None, (self._from_file, self._from_cluster)))

    async def look_up(self) -> None:
        """Raises AuthorityError only where the lookup is needed."""
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
        """For as long as the server runs, as a task that is cancelled."""
        while True:
            await sleep(LOOK_AGAIN_S)
            await self.look_up()


def _read(file: Path) -> bytes:
    try:
        content = file.read_bytes()
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
    try:
        return bool(x509.load_pem_x509_certificates(content))
    except ValueError:
        return False
