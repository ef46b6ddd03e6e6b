"""Throughput of workloads, each run in a process of its own; and how much memory one takes. `make bench` records it all.

python benchmarks/throughput.py                        three runs of each: best and median
python benchmarks/throughput.py --only basic,spread/100000 --runs 5
python benchmarks/throughput.py --queue                the same with queue and events in the loop, and with preemption
python benchmarks/throughput.py --json figures.json    the raw figures as well
python benchmarks/throughput.py --memory               peak memory with 5,000 nodes and 30,000 pods
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from cases import GANGS, LARGE, PREEMPTION, WORKLOADS, Workload, choose

MEBIBYTE = 1 << 20
Tell = Callable[[str], None]
"""Takes a line about progress."""


@dataclass(slots=True)
class Measured:
    """A workload with the figures of its runs, as `mooring bench` prints them, and the peak memory of each."""

    workload: Workload
    runs: list[dict[str, Any]] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)

    def rates(self) -> list[float]:
        return [run["perSecond"] for run in self.runs]

    def best(self) -> dict[str, Any]:
        return max(self.runs, key=lambda run: float(run["perSecond"]))


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    try:
        run(options)
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"throughput: {error}")


def run(options: argparse.Namespace) -> None:
    if options.memory:
        print(f"{LARGE}: {peak_memory_bytes(LARGE) / MEBIBYTE:.0f} MiB at the peak")
        return
    chosen = choose(offered(options.queue), options.only)
    measured = [measure(workload, options.runs) for workload in chosen]
    print(table(measured))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(entry) for entry in measured], indent=1) + "\n")


def offered(queue: bool) -> list[Workload]:
    return [*(replace(each, queue=True) for each in WORKLOADS), *PREEMPTION, *GANGS] if queue else list(WORKLOADS)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the throughput of `mooring bench` on every workload.")
    parser.add_argument("--runs", type=positive, default=3, metavar="N", help="how often to run each (default: 3)")
    parser.add_argument("--only", default="", metavar="KIND,...", help="only these kinds; KIND/NODES for one size")
    parser.add_argument("--queue", action="store_true", help="with queue, cache and events in the loop")
    parser.add_argument("--json", default="", metavar="FILE", help="write the raw figures of all runs here")
    parser.add_argument("--memory", action="store_true", help=f"measure peak memory instead, with {LARGE}")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {number}; allowed: 1 or more")
    return number


def measure(workload: Workload, runs: int, tell: Tell = tell) -> Measured:
    measured = Measured(workload)
    with tempfile.TemporaryDirectory() as folder:
        scenario = workload.write(Path(folder))
        for i in range(runs):
            tell(f"{workload}: run {i + 1} of {runs}")
            figures, peak_bytes = bench(workload, scenario)
            measured.runs.append(figures)
            measured.peak_bytes.append(peak_bytes)
    return measured


def bench(
    workload: Workload, scenario: Path, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], int]:
    """The figures of one run in a process of its own, and the most memory that it held, in bytes."""
    command = [sys.executable, "-m", "mooring.cli.main", "bench", *(["--queue"] if workload.queue else [])]
    printed, peak_bytes = run_measured([*command, str(scenario)], environment)
    figures: dict[str, Any] = json.loads(printed)
    return figures, peak_bytes


def run_measured(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[bytes, int]:
    """What a command prints, and its peak memory in bytes: of this child alone, not of others that were larger."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    with child.stdout:
        printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, child.args)
    return printed, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_memory_bytes(workload: Workload) -> int:
    """The most memory that a run held at any time, reading the scenario included."""
    return measure(workload, 1).peak_bytes[0]


def table(measured: Iterable[Measured]) -> str:
    """Pods a second, best and median, and the times of single decisions in the best run."""
    rows = [("WORKLOAD (nodes/placed/pending)", "BEST", "MEDIAN", "P50", "P99", "PLACED")]
    for entry in measured:
        best = entry.best()
        rates = (f"{best['perSecond']:,.0f}/s", f"{median(entry.rates()):,.0f}/s")
        times = (f"{best['p50us']:,.0f} µs", f"{best['p99us']:,.0f} µs")
        rows.append((str(entry.workload), *rates, *times, f"{best['scheduled']} of {best['pods']}"))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines; all columns but the first are numbers, on the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        lines.append("   ".join((first.ljust(widths[0]), *cells)))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
