"""Commands of `mooring`, each in a process of its own: a fork of one that has imported everything.

A start costs 0.45 s of CPU time for imports, a fork nearly nothing. Tests of the start itself run `command()` of
running_cluster.py.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str
    peak_bytes: int
    """The largest resident size, as the kernel counts it, with the modules of all commands."""


class Started:
    """A command that runs: the part of `subprocess.Popen` that tests need."""

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told, "rb", buffering=0)
        self._ended: dict[str, int] | None = None
        self.pid = int(self._line(PATIENCE_S))

    def poll(self) -> int | None:
        """The exit status, or None while the command runs. A signal that ended it is a negative number."""
        if self._ended is None and self._is_told(0):
            self.wait(0)
        return None if self._ended is None else self._ended["status"]

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """The exit status."""
        if self._ended is None:
            self._ended = json.loads(self._line(timeout))
            self._told.close()
        return self._ended["status"]

    @property
    def peak_bytes(self) -> int:
        """The largest resident size of a command that has ended."""
        assert self._ended is not None
        return self._ended["peak_bytes"]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _is_told(self, timeout_s: float) -> bool:
        return bool(select.select([self._told], [], [], timeout_s)[0])

    def _line(self, timeout_s: float) -> bytes:
        """The next line of the pipe, which has two: the process id, and how the command ended."""
        if not self._is_told(timeout_s):
            raise TimeoutError(f"the command has not ended after {timeout_s} s")
        return self._told.readline()


def start_mooring(
    *arguments: object,
    stdout: "IO[Any] | int",
    stderr: "IO[Any] | int",
    stdin: "IO[Any] | int" = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> Started:
    """Start a command on open files or descriptors. Variables that Python reads when it starts (PYTHON...) have no effect
    in `environment`, which is that of this process where none is given."""
    told = {
        "arguments": [*map(str, arguments)],
        "environment": dict(os.environ if environment is None else environment),
        "directory": os.getcwd(),
        "ignored": [number for number in (signal.SIGHUP,) if signal.getsignal(number) == signal.SIG_IGN],
    }
    reading, writing = os.pipe()
    with open(os.devnull, "rb") as nothing:
        streams = [nothing if stream == subprocess.DEVNULL else stream for stream in (stdin, stdout, stderr)]
        numbers = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
        try:
            asked, _ = _forking_process()
            sent = socket.send_fds(asked, [content := json.dumps(told).encode() + b"\n"], [*numbers, writing])
            asked.sendall(content[sent:])
        finally:
            os.close(writing)
    return Started(reading)


def run_mooring(*arguments: object, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> Ran:
    """Run a command to its end."""
    with (
        tempfile.TemporaryFile(prefix="mooring-test-") as given,
        tempfile.TemporaryFile(prefix="mooring-test-") as stdout,
        tempfile.TemporaryFile(prefix="mooring-test-") as stderr,
    ):
        given.write(stdin)
        given.seek(0)
        started = start_mooring(*arguments, stdin=given, stdout=stdout, stderr=stderr, environment=environment)
        try:
            started.wait()
        finally:
            started.kill()
        for stream in (stdout, stderr):
            stream.seek(0)
        return Ran(started.wait(), stdout.read().decode(), stderr.read().decode(), started.peak_bytes)


def save_coverage() -> None:
    """Write which lines this process has run, where that is measured (`make coverage`). Otherwise each fork writes them
    again: the lines of all imports take 0.45 s of CPU time."""
    measuring = sys.modules.get("coverage")
    if measuring and (current := measuring.Coverage.current()):
        current.save()


@cache
def _forking_process() -> "tuple[socket.socket, subprocess.Popen[bytes]]":
    """The process that forks, and its socket. It ends with this process, which is the only one that can write to it."""
    ours, its = socket.socketpair()
    command = [sys.executable, str(Path(__file__).with_name("forking_process.py"))]
    with its:
        return ours, subprocess.Popen(
            command, stdin=its.fileno(), env={**os.environ, "PYTHONUTF8": "1"}, start_new_session=True
        )
