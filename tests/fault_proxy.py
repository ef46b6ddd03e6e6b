"""A proxy that stands between a scheduler and an API server and makes the way unreliable, the same way for each seed.

async with FaultProxy(server_url, Faults(lost_after=0.02), seed=7) as proxy:
    Access(proxy.url)

Writes are refused, lost before the server hears of them, or carried out while their answer is lost. Watches break off,
fall silent, expire, and tell things twice or out of order. What a server never does is not done either: an event that is
held back comes before the watch ends and before the next bookmark.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import msgspec

_END_OF_HEAD = b"\r\n\r\n"
_LONGEST_HEAD = 1 << 20
_MOST_PIECES = 8
_BACKLOG = 1024
"""More than clients have connections: beyond it the system would drop bytes, and send them again only after a second."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely each is: for a request, for a watch, or for one line of a watch."""

    late: float = 0.0
    """A request is passed on late, by up to `latency_s`."""
    latency_s: float = 0.05
    slow: float = 0.0
    """An answer comes in small pieces."""
    lost_before: float = 0.0
    """The connection is reset, and the server never heard of the request."""
    lost_after: float = 0.0
    """The connection is reset, and the server does what it was asked to."""
    overdue: float = 0.0
    """The server does what it was asked to, and its answer comes after `overdue_s`."""
    overdue_s: float = 3.0
    busy: float = 0.0
    """429 with Retry-After."""
    failing: float = 0.0
    """500."""
    unavailable: float = 0.0
    """503, with Retry-After every other time."""
    expired: float = 0.0
    """A watch is answered with 410."""
    cut: float = 0.0
    """After a line of a watch: it breaks off."""
    silent: float = 0.0
    """After a line of a watch: nothing comes any more, though the connection stands."""
    twice: float = 0.0
    """A line of a watch is told again a little later."""
    disordered: float = 0.0
    """A line of a watch is told after the next ones."""
    watch_s: float = math.inf
    """A watch ends in due form with the first line that comes so long after another: servers do that to slow readers."""


CALM = Faults()


@dataclass(frozen=True, slots=True)
class _Request:
    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        """`POST /path`."""
        return self.head.split(b"\r\n", 1)[0].decode().rpartition(" ")[0]

    @property
    def is_watch(self) -> bool:
        return b"watch=true" in self.head.split(b"\r\n", 1)[0]


class FaultProxy:
    """Listens on loopback inside `async with`. `faults` may be replaced at any time; `injected` counts what was done."""

    def __init__(self, server: str, faults: Faults, seed: int) -> None:
        url = urlsplit(server)
        assert url.scheme == "http" and url.hostname == "127.0.0.1" and url.port
        self._address = url.hostname, url.port
        self.faults = faults
        self.injected: Counter[str] = Counter()
        self.requests = 0
        self.writes: list[tuple[str, bytes, bytes]] | None = None
        """All writes (`POST /path`) with head and body, for whoever puts a list here."""
        self.allows: Callable[[str], bool] | None = None
        """Whether a request (`GET /path?query`) is allowed; without it all are. Others are answered with 403."""
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        await self._listen(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def outage(self, for_s: float) -> None:
        """Nobody listens for a while, and all connections are lost."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        await self._stop()
        await asyncio.sleep(for_s)
        await self._listen(port)
        self.injected["outage"] += 1

    async def _listen(self, port: int) -> None:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", port, limit=_LONGEST_HEAD, backlog=_BACKLOG
        )

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(
                OSError, EOFError, RuntimeError
            ):  # also those that we cause; uvloop has its own way to say it
                await _Line(self, reader, writer).carry()
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    # ---- for the lines

    def note(self, request: _Request) -> None:
        self.requests += 1
        if self.writes is not None and not request.line.startswith("GET"):
            self.writes.append((request.line, request.head, request.body))

    def strikes(self, fault: str) -> bool:
        """Whether it happens now."""
        likely: float = getattr(self.faults, fault)
        happens = likely > 0 and self._random.random() < likely
        self.injected[fault] += happens
        return happens

    def draw(self, most: float) -> float:
        return self._random.uniform(0, most)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self._address, limit=_LONGEST_HEAD)


class _Line:
    """One connection of a client, and one to the server that belongs to it."""

    def __init__(self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer

    async def carry(self) -> None:
        from_server, to_server = await self._proxy.connect()
        try:
            while True:
                request = await self._request()
                self._proxy.note(request)
                if self._proxy.strikes("late"):
                    await asyncio.sleep(self._proxy.draw(self._proxy.faults.latency_s))
                if not await self._interfere(request, to_server):
                    to_server.write(request.head + request.body)
                    await (self._watch if request.is_watch else self._answer)(from_server)
        finally:
            to_server.close()

    async def _request(self) -> _Request:
        head = await self._reader.readuntil(_END_OF_HEAD)
        return _Request(head, await self._reader.readexactly(_length(head) or 0))

    async def _interfere(self, request: _Request, to_server: asyncio.StreamWriter) -> bool:
        """Whether the client was answered, so that the server need not be. A reset ends it all."""
        proxy = self._proxy
        if proxy.allows is not None and not proxy.allows(request.line):
            return self._refuse(403, "Forbidden")
        if proxy.strikes("lost_before"):
            raise ConnectionResetError
        if not request.is_watch and proxy.strikes("lost_after"):
            to_server.write(request.head + request.body)
            await to_server.drain()
            raise ConnectionResetError
        if proxy.strikes("busy"):
            return self._refuse(429, "TooManyRequests", "Retry-After: 1\r\n")
        if proxy.strikes("failing"):
            return self._refuse(500, "InternalError")
        if proxy.strikes("unavailable"):
            return self._refuse(503, "ServiceUnavailable", "Retry-After: 1\r\n" if proxy.draw(1) < 0.5 else "")
        if request.is_watch and proxy.strikes("expired"):
            return self._refuse(410, "Expired")
        return False

    def _refuse(self, code: int, reason: str, more_headers: str = "") -> bool:
        status = {"kind": "Status", "status": "Failure", "reason": reason, "message": f"injected {code}", "code": code}
        body = msgspec.json.encode(status)
        head = f"HTTP/1.1 {code} {reason}\r\nContent-Length: {len(body)}\r\n{more_headers}\r\n"
        self._writer.write(head.encode() + body)
        return True

    # ---- answers

    async def _answer(self, from_server: asyncio.StreamReader) -> None:
        head = await from_server.readuntil(_END_OF_HEAD)
        length = _length(head)
        if length is not None:
            body = await from_server.readexactly(length)
        else:
            body = b"".join([_chunk(chunk) async for chunk in _chunks(from_server)]) + _chunk(b"")
        if self._proxy.strikes("overdue"):
            await asyncio.sleep(self._proxy.faults.overdue_s)
        if self._proxy.strikes("slow"):
            await self._send_slowly(head + body)
        else:
            self._writer.write(head + body)

    async def _send_slowly(self, data: bytes) -> None:
        cuts = sorted(int(self._proxy.draw(len(data))) for _ in range(_MOST_PIECES))
        for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
            self._writer.write(data[start:end])
            await asyncio.sleep(0.001)

    async def _watch(self, from_server: asyncio.StreamReader) -> None:
        head = await from_server.readuntil(_END_OF_HEAD)
        if _length(head) is not None:
            self._writer.write(head + await from_server.readexactly(_length(head) or 0))
            return
        self._writer.write(head)
        hangup = asyncio.ensure_future(self._reader.read(1))
        following = asyncio.ensure_future(self._follow(from_server))
        try:
            await asyncio.wait((hangup, following), return_when=asyncio.FIRST_COMPLETED)
        finally:
            following.cancel()
            hangup.cancel()
            await asyncio.gather(hangup, following, return_exceptions=True)
        raise ConnectionResetError  # what was read while we waited for the end belongs to the next request

    async def _follow(self, from_server: asyncio.StreamReader) -> None:
        mixer, ends_s = _Mixer(self._proxy), math.inf
        async for line in _lines(from_server):
            for told in mixer.mix(line):
                self._writer.write(_chunk(told))
            await self._writer.drain()
            ends_s = min(ends_s, time.monotonic() + self._proxy.faults.watch_s)
            if time.monotonic() >= ends_s:
                self._proxy.injected["watch_s"] += 1
                break
            is_cut, is_silent = self._proxy.strikes("cut"), self._proxy.strikes("silent")
            if is_cut or is_silent:
                self._writer.write(b"".join(map(_chunk, mixer.rest())))
                await self._writer.drain()
                await asyncio.sleep(0.01)  # or else the reset overtakes what was sent
            if is_cut:
                raise ConnectionResetError
            if is_silent:
                async for _ in _lines(from_server):
                    pass
                await asyncio.Event().wait()
        for told in mixer.rest():
            self._writer.write(_chunk(told))
        self._writer.write(_chunk(b""))
        await self._writer.drain()
        self._writer.close()
        await self._writer.wait_closed()


class _Mixer:
    """Holds lines of a watch back, and repeats some."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self._held: list[tuple[int, bytes]] = []
        """Lines with how many others are to come first."""

    def mix(self, line: bytes) -> list[bytes]:
        if line.startswith(b'{"type":"BOOKMARK"'):
            return [*self.rest(), line]
        due = [held for left, held in self._held if left == 0]
        self._held = [(left - 1, held) for left, held in self._held if left > 0]
        if self._proxy.strikes("disordered"):
            self._held.append((int(self._proxy.draw(3)), line))
            return due
        if self._proxy.strikes("twice"):
            self._held.append((int(self._proxy.draw(5)), line))
        return [line, *due]

    def rest(self) -> list[bytes]:
        held, self._held = [line for _, line in self._held], []
        return held


# ---- HTTP


def _length(head: bytes) -> int | None:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return None


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        data = await reader.readexactly(size + 2)
        if size == 0:
            return
        yield data[:size]


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a stream, with their ends."""
    rest = b""
    async for chunk in _chunks(reader):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
