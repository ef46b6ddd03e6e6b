"""Who a client says it is: tokens, passwords and certificates, fixed or read again as someone rotates their files."""

import base64
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mooring.apiclient.credentials.certificates import KeyPair
from mooring.kit.clock import NS_PER_S, Clock, WallClock

log = logging.getLogger(__name__)

REREAD_AFTER_S = 60
"""As client-go does: the kubelet rotates tokens at 80 % of their life, so a minute late does no harm."""


class CredentialsError(Exception):
    """Credentials cannot be had. The text says where they were looked for and never holds a secret."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What one request shows: the Authorization header (empty: none) and a client certificate."""

    authorization: str = field(default="", repr=False)
    pair: KeyPair | None = None


class Credentials(Protocol):
    """Where grants come from."""

    async def grant(self) -> Grant: ...

    def reject(self, grant: Grant) -> bool:
        """The server did not take this grant: whether asking again may give a better one."""
        ...


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class RereadFile:
    """The content of a file that someone else replaces now and then. `field` is for messages: who named the file."""

    def __init__(self, path: Path, field: str = "", clock: Clock | None = None) -> None:
        self._path = path
        self._field = field
        self._clock = clock or WallClock()
        self._content: bytes | None = None
        self._read_at_ns = 0

    def content(self) -> bytes:
        now_ns = self._clock.now_ns()
        if self._content is None or not 0 <= now_ns - self._read_at_ns < REREAD_AFTER_S * NS_PER_S:
            self._content, self._read_at_ns = self._read(), now_ns
        return self._content

    def forget(self) -> None:
        """The next reader looks at the file again, whatever its age."""
        self._read_at_ns = -REREAD_AFTER_S * NS_PER_S

    def _read(self) -> bytes:
        """What is there now; while it cannot be read, what was there last."""
        try:
            found = self._path.read_bytes()
            problem = "" if found.strip() else "is empty"
        except OSError as error:
            found, problem = b"", f"cannot be read: {error.strerror}"
        if not problem:
            return found
        told = " ".join(filter(None, (f"{self._field}:" if self._field else "", str(self._path), problem)))
        if self._content is None:
            raise CredentialsError(told)
        log.warning("%s; what was read before is used", told)
        return self._content


Secret = bytes | RereadFile
"""Written down, or in a file."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Credentials that are written down or lie in files; any part may be missing."""

    token: Secret | None = field(default=None, repr=False)
    certificate: Secret | None = field(default=None, repr=False)
    key: Secret | None = field(default=None, repr=False)
    password: tuple[str, str] | None = field(default=None, repr=False)
    """Username and password."""

    async def grant(self) -> Grant:
        return self._now()

    def reject(self, grant: Grant) -> bool:
        """True if a file has changed since: showing the same thing twice would not help."""
        for secret in (self.token, self.certificate, self.key):
            if isinstance(secret, RereadFile):
                secret.forget()
        return self._now() != grant

    def _now(self) -> Grant:
        pair = None
        if self.certificate is not None and self.key is not None:
            pair = KeyPair(_content(self.certificate), _content(self.key))
        return Grant(self._authorization(), pair)

    def _authorization(self) -> str:
        if self.token is not None:
            return bearer(_content(self.token).decode("latin-1").strip())
        return basic(*self.password) if self.password else ""


ANONYMOUS = Identity()


def _content(secret: Secret) -> bytes:
    return secret.content() if isinstance(secret, RereadFile) else secret
