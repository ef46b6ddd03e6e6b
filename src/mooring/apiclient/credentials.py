"""Credentials of a client: tokens, passwords and certificates, fixed or in files that are read again after rotation."""

import asyncio
import base64
import json
import logging
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mooring.kit.bounded_reading import read_file
from mooring.kit.clock import NS_PER_S, Clock, SteadyClock, WallClock, moment_ns

log = logging.getLogger(__name__)

REREAD_AFTER_S = 60
"""client-go's interval. The kubelet rotates tokens at 80 % of their lifetime, so that a delay of a minute does no harm."""


class CredentialsError(Exception):
    """There are no usable credentials. The text names the source and never contains a secret."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


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


# ---- Credentials from an exec plugin: a program that a kubeconfig names (client.authentication.k8s.io). The client
# runs it, and runs it again when the credentials expire or the server rejects them.


V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
VERSIONS = (V1, V1BETA1)
TIME_LIMIT_S = 60.0
"""How long a program may run. Without a limit a program that waits for input would stop the scheduler."""
MAX_ANSWER_BYTES = 1 << 20
"""An ExecCredential has a few KiB."""
SHORTEST_USE_NS = 10 * NS_PER_S
"""How long credentials are used at least, whatever their expirationTimestamp says, unless the server rejects them. On a
machine whose clock is ahead all of them seem expired, and each request would run the program."""
_SHOWN_STDERR_BYTES = 1000
"""How much of the end of the program's stderr an error message shows."""
_LAST_WORDS_S = 1.0
"""How long the pipes of a killed program may take to close."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """The program as the kubeconfig describes it. `place` is the field of the kubeconfig, for messages."""

    place: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = V1
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    """The cluster for KUBERNETES_EXEC_INFO, if the kubeconfig sets provideClusterInfo."""
    time_limit_s: float = TIME_LIMIT_S


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    status: _ExecStatus | None = None


class ExecCredentials:
    """Runs the program when there is no valid grant. Requests that arrive meanwhile wait for the same run.

    The wall clock says how long new credentials are valid; from then on `clock` counts, whatever happens to the wall clock.
    """

    def __init__(self, plugin: ExecPlugin, clock: Clock | None = None, wall: Clock | None = None) -> None:
        self._plugin = plugin
        self._clock = clock or SteadyClock()
        self._wall = wall or WallClock()
        self._running = asyncio.Lock()
        self._grant: Grant | None = None
        self._ends_at_ns: int | None = None

    async def grant(self) -> Grant:
        async with self._running:
            has_ended = self._ends_at_ns is not None and self._clock.now_ns() >= self._ends_at_ns
            if self._grant is None or has_ended:
                answer = _parsed(self._plugin, await _run(self._plugin))
                self._grant, self._ends_at_ns = _grant_of(self._plugin, answer), self._end_ns(answer)
            return self._grant

    def _end_ns(self, answer: _ExecStatus) -> int | None:
        """When the program has to run again, on the steady clock."""
        expires_ns = _expiration_ns(self._plugin, answer)
        if expires_ns is None:
            return None
        return self._clock.now_ns() + max(expires_ns - self._wall.now_ns(), SHORTEST_USE_NS)

    def reject(self, grant: Grant) -> bool:
        if self._grant == grant:
            self._grant = None
        return True


async def _run(plugin: ExecPlugin) -> bytes:
    """Run the program and return what it prints. It gets no input, and a limited time."""
    process = await _started(plugin)
    try:
        async with asyncio.timeout(plugin.time_limit_s):
            output, complaint = await asyncio.gather(_read_start(process), _read_end(process))
            code = await process.wait()
    except TimeoutError:
        raise _error(plugin, f"did not end within {plugin.time_limit_s:g} s") from None
    finally:
        await _end(process)
    if len(output) > MAX_ANSWER_BYTES:
        raise _error(plugin, f"printed more than {MAX_ANSWER_BYTES} bytes")
    if code:
        raise _error(plugin, f"failed with exit code {code}", complaint)
    return output


async def _started(plugin: ExecPlugin) -> asyncio.subprocess.Process:
    """Start the exec plugin in its own session, without a terminal. Raises an error with the install hint if the command does
    not exist."""
    environment = {**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": _request(plugin)}
    try:
        return await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise _error(plugin, "is not installed", hint=plugin.install_hint) from None
    except (OSError, ValueError) as error:
        raise _error(plugin, f"cannot be run: {getattr(error, 'strerror', None) or type(error).__name__}") from None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave neither the process nor its pipes behind, whatever happened."""
    if process.returncode is None:
        _kill(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await process.communicate()


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the program and its children. It has a session of its own, so that no other process is in the group."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _read_start(process: asyncio.subprocess.Process) -> bytes:
    """The output, up to a little more than the limit. A program that prints more is killed; its pipe is still drained."""
    assert process.stdout is not None
    found = bytearray()
    while chunk := await process.stdout.read(1 << 16):
        if len(found) <= MAX_ANSWER_BYTES:
            found += chunk
        if len(found) > MAX_ANSWER_BYTES:
            _kill(process)
    return bytes(found)


async def _read_end(process: asyncio.subprocess.Process) -> bytes:
    """The end of stderr, where programs print what went wrong."""
    assert process.stderr is not None
    found = b""
    while chunk := await process.stderr.read(1 << 16):
        found = (found + chunk)[-_SHOWN_STDERR_BYTES:]
    return found


def _request(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    return json.dumps({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec})


def _parsed(plugin: ExecPlugin, output: bytes) -> _ExecStatus:
    """The status of the ExecCredential. Messages of the JSON parser contain no values, so they can be shown."""
    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _error(plugin, f"did not print an ExecCredential: {error}") from None
    if answer.kind != "ExecCredential":
        raise _error(plugin, "did not print an ExecCredential: its output has another kind")
    if answer.api_version != plugin.api_version:
        raise _error(plugin, f"printed another version than {plugin.api_version}, which the kubeconfig asks for")
    if answer.status is None:
        raise _error(plugin, "printed an ExecCredential without a status")
    return answer.status


def _grant_of(plugin: ExecPlugin, status: _ExecStatus) -> Grant:
    certificate, key = status.client_certificate_data, status.client_key_data
    if bool(certificate) != bool(key):
        raise _error(plugin, "printed only one of clientCertificateData and clientKeyData")
    if not status.token and not certificate:
        raise _error(plugin, "printed neither a token nor a client certificate")
    pair = KeyPair(certificate.encode(), key.encode()) if certificate and key else None
    return Grant(bearer(status.token.strip()) if status.token else "", pair)


def _expiration_ns(plugin: ExecPlugin, status: _ExecStatus) -> int | None:
    if not status.expiration_timestamp:
        return None
    try:
        return moment_ns(status.expiration_timestamp)
    except ValueError:
        raise _error(plugin, "printed an expirationTimestamp that is not an RFC 3339 time") from None


def _error(plugin: ExecPlugin, what: str, complaint: bytes = b"", hint: str = "") -> CredentialsError:
    told = complaint.decode(errors="replace").strip()
    message = f"{plugin.place}: the credential plugin {plugin.command!r} {what}"
    if told:
        message += f"; its error output: {told}"
    return CredentialsError(f"{message}\n\n{hint.strip()}" if hint.strip() else message)
