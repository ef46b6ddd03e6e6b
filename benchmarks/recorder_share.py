"""Which part of the CPU time of `mooring run` its recorder takes.

    python benchmarks/recorder_share.py FIGURES.json run --kubeconfig KUBECONFIG --record DIR

Runs the command given after FIGURES.json, and writes the figures when it ends (Ctrl-C, SIGTERM). On a busy machine two runs
differ by more than a recorder costs, so it is measured within one: by the CPU clock of the thread, around every call of the
recorder, and in the recorder's own thread. A look at that clock takes 0.6 µs, often more; what it takes at least is taken
off. Not counted is what a step costs before the recorder hears of it (0.2 µs).
"""

import atexit
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.cli.main import main as command_line
from mooring.state.recording.recorder import RunRecorder
from mooring.state.recording.run_files import RunFiles

now_ns = time.thread_time_ns
CLOCK_NS = min(-now_ns() + now_ns() for _ in range(1000))


class CpuTime:
    """Adds up the CPU time of methods."""

    def __init__(self) -> None:
        self.taken_ns: defaultdict[str, int] = defaultdict(int)
        self.calls: defaultdict[str, int] = defaultdict(int)

    def count(self, owner: type, name: str) -> None:
        """Count every call of a method from now on."""
        method: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any) -> Any:
            began_ns = now_ns()
            try:
                return method(*args)
            finally:
                self.taken_ns[name] += now_ns() - began_ns - CLOCK_NS
                self.calls[name] += 1

        setattr(owner, name, counted)

    def figures(self) -> dict[str, Any]:
        process_ns, recorder_ns = time.process_time_ns(), sum(self.taken_ns.values())
        measuring_ns = 2 * CLOCK_NS * sum(self.calls.values())
        return {
            "calls": dict(self.calls),
            "ms": {name: round(taken_ns / 1e6, 1) for name, taken_ns in self.taken_ns.items()},
            "process_ms": round(process_ns / 1e6),
            "share_percent": round(100 * recorder_ns / (process_ns - recorder_ns - measuring_ns), 1),
        }


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    path, sys.argv = Path(sys.argv[1]), ["mooring", *sys.argv[2:]]
    cpu_time = CpuTime()
    for name in ("took_in", "attempted", "released"):
        cpu_time.count(RunRecorder, name)
    cpu_time.count(RunFiles, "_write")
    atexit.register(lambda: path.write_text(json.dumps(cpu_time.figures(), indent=1) + "\n"))
    command_line()


if __name__ == "__main__":
    main()
