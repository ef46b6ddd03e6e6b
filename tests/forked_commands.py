"""Commands of `mooring` that run to their end, each in a process of its own: a fork of one that has imported everything.

A start costs 0.45 s of CPU time for imports, a fork nearly nothing. Tests of the start itself, and of servers that a test
talks to and stops, run `command()` of running_cluster.py.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str
    peak_bytes: int
    """The largest resident size, as the kernel counts it, with the modules of all commands."""


def run_mooring(*arguments: object, stdin: bytes = b"", environment: Mapping[str, str] = os.environ) -> Ran:
    """Run a command. Variables that Python reads when it starts (PYTHON...) have no effect in `environment`."""
    with tempfile.TemporaryDirectory(prefix="mooring-test-") as folder:
        streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
        for stream, content in zip(streams, (stdin, b"", b""), strict=True):
            stream.write_bytes(content)
        told = {
            "arguments": [*map(str, arguments)],
            "environment": dict(environment),
            "streams": [*map(str, streams)],
        }
        answer = _ask(_forking_process(), json.dumps(told).encode())
        stdout, stderr = (stream.read_bytes().decode() for stream in streams[1:])
        return Ran(answer["status"], stdout, stderr, answer["peak_bytes"])


@cache
def _forking_process() -> "subprocess.Popen[bytes]":
    """It ends with this process, which is the only one that can write to its standard input."""
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("forking_process.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUTF8": "1"},
        start_new_session=True,
        bufsize=0,
    )


def _ask(process: "subprocess.Popen[bytes]", request: bytes) -> dict[str, int]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(request + b"\n")
    if not select.select([process.stdout], [], [], PATIENCE_S)[0]:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _forking_process.cache_clear()
        raise TimeoutError(f"after {PATIENCE_S} s: {request.decode()[:200]}")
    answer: dict[str, int] = json.loads(process.stdout.readline())
    return answer
