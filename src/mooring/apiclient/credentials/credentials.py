"""Credentials of a client: tokens, passwords and certificates, fixed or in files that are read again after rotation."""

import base64
import logging
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from mooring.apiclient.credentials.certificates import KeyPair
from mooring.kit.bounded_reading import read_file
from mooring.kit.clock import NS_PER_S, Clock, SteadyClock

log = logging.getLogger(__name__)

REREAD_AFTER_S = 60
"""client-go's interval. The kubelet rotates tokens at 80 % of their lifetime, so that a delay of a minute does no harm."""


class CredentialsError(Exception):
    """There are no usable credentials. The text names the source and never contains a secret."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The credentials of one request: the Authorization header (empty for none) and a client certificate."""

    authorization: str = field(default="", repr=False)
    pair: KeyPair | None = None


class Credentials(Protocol):
    """A source of grants."""

    async def grant(self) -> Grant:
        """The present credentials. Raises CredentialsError."""
        ...

    def reject(self, grant: Grant) -> bool:
        """Report that the server rejected this grant (401). Returns whether a new grant may differ from it."""
        ...


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class RereadFile:
    """The content of a file that another program rotates. `field` is for messages: the place that names the file."""

    def __init__(self, path: Path, field: str = "", clock: Clock | None = None) -> None:
        self._path = path
        self._field = field
        self._clock = clock or SteadyClock()
        self._content: bytes | None = None
        self._read_at_ns = 0

    def content(self) -> bytes:
        now_ns = self._clock.now_ns()
        if self._content is None or now_ns - self._read_at_ns >= REREAD_AFTER_S * NS_PER_S:
            self._content, self._read_at_ns = self._read(), now_ns
        return self._content

    def forget(self) -> None:
        """Make the next call read the file."""
        self._read_at_ns = -REREAD_AFTER_S * NS_PER_S

    def _read(self) -> bytes:
        """The present content. While the file cannot be read, the last content stays in use: a rotation is not atomic
        everywhere."""
        try:
            found = read_file(self._path)
            problem = "" if found.strip() else "is empty"
        except OSError as error:
            found, problem = b"", f"cannot be read: {error.strerror}"
        if not problem:
            return found
        told = " ".join(filter(None, (f"{self._field}:" if self._field else "", str(self._path), problem)))
        if self._content is None:
            raise CredentialsError(told)
        log.warning("%s; the client continues with the previous content", told)
        return self._content


Secret = bytes | RereadFile
"""A fixed value, or a file."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Credentials that are fixed or in files; any part may be missing. A token wins over a password."""

    token: Secret | None = field(default=None, repr=False)
    certificate: Secret | None = field(default=None, repr=False)
    key: Secret | None = field(default=None, repr=False)
    password: tuple[str, str] | None = field(default=None, repr=False)
    """Username and password."""

    @property
    def is_fixed(self) -> bool:
        """Whether nothing of it is in a file, so that the grant never changes."""
        return not any(isinstance(secret, RereadFile) for secret in (self.token, self.certificate, self.key))

    async def grant(self) -> Grant:
        return self.now()

    def reject(self, grant: Grant) -> bool:
        """True if a file has changed since then; sending the same credentials again would not help."""
        for secret in (self.token, self.certificate, self.key):
            if isinstance(secret, RereadFile):
                secret.forget()
        return self.now() != grant

    def now(self) -> Grant:
        """As `grant`. Hot: for callers that send hundreds of requests a second, a call instead of a coroutine."""
        pair = None
        if self.certificate is not None and self.key is not None:
            pair = (_content(self.certificate), _content(self.key))
        return _granted(None if self.token is None else _content(self.token), pair, self.password)


@lru_cache(maxsize=4)
def _granted(token: bytes | None, pem: tuple[bytes, bytes] | None, password: tuple[str, str] | None) -> Grant:
    """Hot: the same object for the same secrets, so that a client sees at once that nothing has changed: 0.7 µs a request.
    It is kept for as few secrets as a process has at a time."""
    pair = KeyPair(*pem) if pem is not None else None
    if token is not None:
        return Grant(bearer(token.decode("latin-1").strip()), pair)
    return Grant(basic(*password) if password else "", pair)


ANONYMOUS = Identity()


def _content(secret: Secret) -> bytes:
    return secret.content() if isinstance(secret, RereadFile) else secret
