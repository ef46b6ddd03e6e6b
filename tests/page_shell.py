"""A reader at a terminal: runs the sessions of a page one after another, in a directory with the files of a checkout.

What starts a server (`mooring up`, `mooring run`) is a terminal of its own: it goes on until the page ends. Pages show
servers on their usual ports, so one reader on a machine reads at a time.
"""

import fcntl
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import IO, Any, Self

from forked_commands import Started, start_mooring
from page_sessions import Session, as_pattern, saved_files
from programs import BASH

ROOT = Path(__file__).parent.parent
PATIENCE_S = 120.0
"""How long a command may take before a test gives up: far longer than it ever does."""
_OWN_TERMINAL = ("mooring up ", "mooring run ")
_FOR_SHELLS = re.compile(r"[|&;<>$`*?~\n]")

_CHANGING = (
    (r"/tmp/\S+/kubeconfig", "KUBECONFIG"),
    (r"\b(\w+-[a-z0-9]{8,10})-[a-z0-9]{5}\b", r"\1-NAME"),
    (r"(?m)^([IWE])\d{4} \S+ +\d+ (\w+\.py):\d+\]", r"\1 \2]"),
    (r'node="node-\d+"', 'node="NODE"'),
    (r"\S+_[0-9a-f]{8}-[0-9a-f-]{27}", "HOLDER"),
    (r"simulated in \S+ s", "simulated in TIME"),
    (r"\b\d+(m\d+)?s$", "AGE"),
    (r" {2,}", "  "),
)
"""What differs from run to run: names, times and widths of columns."""


def shape(text: str) -> str:
    """A text without what differs from run to run."""
    for pattern, shown in _CHANGING:
        text = re.sub(pattern, shown, text, flags=re.MULTILINE)
    return text


class PageShell:
    """Runs sessions. To be used in a `with`, which waits for other readers, and ends what still runs."""

    def __init__(self, home: Path, page: str) -> None:
        self._home = home
        self._turn = ExitStack()
        self._started: list[Started] = []
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "HOME": str(home), "TMPDIR": "/tmp"}
        self._environment.pop("KUBECONFIG", None)
        for folder in ("examples", "deploy"):
            (home / folder).symlink_to(ROOT / folder)
        for name, text in saved_files(page).items():
            (home / name).write_text(text)

    def __enter__(self) -> Self:
        lock = self._turn.enter_context((Path(tempfile.gettempdir()) / "mooring-page-reader.lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        return self

    def __exit__(self, *_: object) -> None:
        with self._turn:
            for process in reversed(self._started):
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE_S)

    def check(self, session: Session) -> None:
        """The command prints what the page shows, but for what differs from run to run."""
        expected = as_pattern(shape(session.printed))
        if session.command.startswith(_OWN_TERMINAL):
            self._start(session.command, expected)
            return
        printed = self._printed_by(session.command)
        assert re.fullmatch(expected, shape(printed.rstrip("\n"))), f"{session.command}\n{printed}"

    def _printed_by(self, command: str) -> str:
        """Both streams, as a terminal shows them. A fork runs what needs no shell: it takes half a second less."""
        with tempfile.TemporaryFile("w+") as output:
            if command.startswith("mooring ") and not _FOR_SHELLS.search(command):
                self._forked(command, output).wait(PATIENCE_S)
            else:
                subprocess.run(
                    [BASH.required(), "-c", command],
                    cwd=self._home,
                    env=self._environment,
                    stdout=output,
                    stderr=output,
                    timeout=PATIENCE_S,
                    check=False,
                )
            output.seek(0)
            return output.read()

    def _forked(self, command: str, output: IO[Any]) -> Started:
        words = shlex.split(command)[1:]
        with chdir(self._home):
            return start_mooring(*words, stdout=output, stderr=output, environment=self._environment)

    def _start(self, command: str, expected: str) -> None:
        """Wait until the server has printed what the page shows. The kubeconfig that it names counts from then on."""
        output = self._home / f"terminal-{len(self._started)}"
        with output.open("wb") as file:
            process = self._forked(command, file)
        self._started.append(process)
        deadline_s = time.monotonic() + PATIENCE_S
        while not re.search(f"^{expected}$", shape(output.read_text()), re.MULTILINE):
            assert process.poll() is None and time.monotonic() < deadline_s, f"{command}\n{output.read_text()}"
            time.sleep(0.1)
        told = re.search(r"export KUBECONFIG=(\S+)", output.read_text())
        if told is not None:
            self._environment["KUBECONFIG"] = told[1]
