"""A shell in a terminal: keys go in, and what the line is after the Tab key comes out."""

import os
import pty
import select
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 30.0
START_OF_LINE, END_OF_LINE, TAB = b"\x01", b"\x05", b"\t"
_READY = "shell is ready"


class Terminal:
    """One end of a pseudo-terminal that a shell reads from."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unread = ""

    def type(self, keys: bytes) -> None:
        os.write(self._descriptor, keys)

    def read_until(self, text: str) -> str:
        """What the shell prints, up to this text."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self._unread:
            readable, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, f"{text!r} does not come after {self._unread!r}"
            self._unread += os.read(self._descriptor, 1 << 16).decode(errors="replace")
        before, _, self._unread = self._unread.partition(text)
        return before

    def completed(self, line: str) -> str:
        """The line after Tab. The shell is made to print it: what a terminal shows while one types is hard to read."""
        self.type(line.encode() + TAB + START_OF_LINE + b"printf '<%s\\n' '" + END_OF_LINE + b">'\r")
        self.read_until("\n<")
        return self.read_until(">").strip()


@contextmanager
def a_shell(command: list[str], folder: Path, environment: Mapping[str, str], first: str) -> Iterator[Terminal]:
    """An interactive shell that has run `first`."""
    child, descriptor = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, dict(environment))
    try:
        terminal = Terminal(descriptor)
        terminal.type(f"{first}; printf '%s%s\\n' '{_READY[:5]}' '{_READY[5:]}'\r".encode())
        terminal.read_until(_READY)
        yield terminal
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(descriptor)
        os.waitpid(child, 0)
