"""A server on loopback that keeps every request as it came, and answers byte by byte what a test wants.

async with a_recorder(script(said(201), None)) as recorder:
    ... Access(recorder.url) ...
assert recorder.requests[0].json == {...}
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.api.api_errors import ApiError
from mooring.apiclient.throttle import Timing


@dataclass(frozen=True)
class Recorded:
    method: str
    path: str
    headers: dict[str, str]
    """By names in lower case."""
    body: bytes
    connection: int
    """Which one it came on, counted from 1."""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


Answer = Callable[[Recorded], Awaitable[bytes | None]]
"""What is sent; None resets the connection."""


@dataclass
class Recorder:
    answer: Answer
    requests: list[Recorded] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0
    url: str = ""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        return [request.line for request in self.requests]

    def hang_up(self) -> None:
        """Close all connections, as a server does that has seen them idle for long."""
        for writer in self.writers:
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        number = self.connections
        self.writers.append(writer)
        try:
            with suppress(OSError, EOFError):
                while (answer := await self._answer(reader, number)) is not None:
                    writer.write(answer)
        except asyncio.CancelledError:
            pass
        finally:
            self.open -= 1
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, connection: int) -> bytes | None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, path, _ = first.split(" ")
        request = Recorded(method, path, headers, body, connection)
        self.requests.append(request)
        return await self.answer(request)


@asynccontextmanager
async def a_recorder(answer: Answer) -> AsyncIterator[Recorder]:
    recorder = Recorder(answer)
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0)
    recorder.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield recorder
    finally:
        server.close()
        for writer in recorder.writers:
            writer.transport.abort()
        await asyncio.sleep(0)


def nowhere() -> str:
    """A URL at which nobody listens."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


# ---- answers


def said(code: int = 200, body: Any = None, **headers: str) -> bytes:
    content = msgspec.json.encode(body if body is not None else {})
    lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(content)}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


def refused(error: ApiError, **headers: str) -> bytes:
    return said(error.code, error.status(), **headers)


def script(*answers: bytes | None, then: bytes | None = None) -> Answer:
    """One after the other, whoever asks."""
    left = list(answers)

    async def answer(request: Recorded) -> bytes | None:
        return left.pop(0) if left else then

    return answer


def always(answer: bytes) -> Answer:
    return script(then=answer)


@dataclass
class Time:
    """Passes only when someone sleeps."""

    now_s: float = 0.0
    slept_s: list[float] = field(default_factory=list)

    async def sleep(self, for_s: float) -> None:
        self.slept_s.append(for_s)
        self.now_s += for_s
        await asyncio.sleep(0)

    def timing(self) -> Timing:
        return Timing(lambda: self.now_s, self.sleep)
