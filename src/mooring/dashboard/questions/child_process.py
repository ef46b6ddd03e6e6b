"""A process with pipes that the event loop reads and writes, and that starts without a copy of this one.

Hot: uvloop starts a process by `fork`, which copies the page tables: 30 ms for a scheduler that has 1.5 GiB. `subprocess`
uses `vfork`: 0.6 ms whatever the size.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

CHUNK = 1 << 16
_POLL_S = 0.005
"""How often the end of a process is looked for, after it has closed its pipes or was killed."""


class ChildProcess:
    """To be ended by `end`, whatever happens."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, bufsize=0, start_new_session=True
        )
        for each in self._pipes():
            os.set_blocking(each.fileno(), False)

    def _pipes(self) -> list[IO[bytes]]:
        process = self._process
        return [each for each in (process.stdin, process.stdout, process.stderr) if each is not None]

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    async def write(self, data: bytes) -> None:
        """Write all of it to standard input. Raises BrokenPipeError if the process does not read any more."""
        assert self._process.stdin is not None
        pipe, rest = self._process.stdin.fileno(), memoryview(data)
        while rest:
            try:
                rest = rest[os.write(pipe, rest) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _ready(pipe, loop.add_writer, loop.remove_writer)

    def close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def read_output(self) -> bytes:
        """The next bytes of standard output; empty at its end."""
        return await _read(self._process.stdout)

    async def read_errors(self) -> bytes:
        """The next bytes of standard error; empty at its end."""
        return await _read(self._process.stderr)

    async def wait(self) -> int:
        while (status := self._process.poll()) is None:
            await asyncio.sleep(_POLL_S)
        return status

    async def end(self) -> None:
        """Kill the process if it runs, and wait until it is gone."""
        if self._process.poll() is None:
            self._process.kill()
        await self.wait()
        for each in self._pipes():
            with suppress(OSError):
                each.close()


async def _read(pipe: IO[bytes] | None) -> bytes:
    assert pipe is not None
    while True:
        try:
            return os.read(pipe.fileno(), CHUNK)
        except BlockingIOError:
            loop = asyncio.get_running_loop()
            await _ready(pipe.fileno(), loop.add_reader, loop.remove_reader)


async def _ready(pipe: int, watch: Callable[..., None], forget: Callable[[int], bool]) -> None:
    """Wait until a pipe can be used."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(pipe, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        forget(pipe)
