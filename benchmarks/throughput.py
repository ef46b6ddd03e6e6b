"""Throughput of every workload of docs/parity.md, each run in a process of its own; and how much memory one takes.

python benchmarks/throughput.py                        three runs of each: best and median
python benchmarks/throughput.py --only basic,spread --runs 5
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
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

WRITER = Path(__file__).parent.parent / "tests" / "conformance" / "workloads.py"
MORE = Path(__file__).parent / "workloads_more.py"
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Workload:
    """What a writer of workloads is asked for."""

    kind: str
    nodes: int
    placed: int
    pending: int

    @property
    def writer(self) -> Path:
        return MORE if self.kind in ("preemption", "preemptors") else WRITER

    def __str__(self) -> str:
        return f"{self.kind} {self.nodes}/{self.placed}/{self.pending}"


WORKLOADS = (
    Workload("basic", 500, 500, 3000),
    Workload("basic", 5000, 1000, 3000),
    Workload("basic", 15000, 1000, 1000),
    Workload("nodeaffinity", 5000, 1000, 2000),
    Workload("spread", 5000, 5000, 2000),
    Workload("prefspread", 5000, 5000, 2000),
    Workload("anti", 5000, 1000, 1000),
    Workload("affinity", 5000, 5000, 500),
    Workload("prefaffinity", 5000, 5000, 1000),
    Workload("mixed", 5000, 2000, 1000),
    Workload("unschedulable", 5000, 1000, 2000),
    Workload("requests", 5000, 1000, 3000),
    Workload("tenants", 5000, 1000, 3000),
    Workload("diverse", 5000, 1000, 3000),
)
WITH_QUEUE = (*WORKLOADS, Workload("preemption", 5000, 20000, 1000), Workload("preemptors", 5000, 20000, 1000))
"""A preemptor is tried again once its victims are gone, so preemption needs the queue."""
LARGE = Workload("basic", 5000, 30000, 1000)


@dataclass(slots=True)
class Measured:
    """A workload with the figures of its runs, as `mooring bench` prints them."""

    workload: Workload
    runs: list[dict[str, Any]] = field(default_factory=list)

    def rates(self) -> list[float]:
        return [run["perSecond"] for run in self.runs]

    def best(self) -> dict[str, Any]:
        return max(self.runs, key=lambda run: float(run["perSecond"]))


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
    offered = WITH_QUEUE if options.queue else WORKLOADS
    chosen = [w for w in offered if not options.only or w.kind in options.only.split(",")]
    if not chosen:
        sys.exit(f"no such workload: {options.only}; there are {', '.join(sorted({w.kind for w in offered}))}")
    measured = [measure(workload, options.runs, options.queue) for workload in chosen]
    print(table(measured))
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(entry) for entry in measured], indent=1) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the throughput of `mooring bench` on every workload.")
    parser.add_argument("--runs", type=positive, default=3, metavar="N", help="how often to run each (default: 3)")
    parser.add_argument("--only", default="", metavar="KIND,...", help="only these kinds of workload")
    parser.add_argument("--queue", action="store_true", help="with queue, cache and events in the loop")
    parser.add_argument("--json", default="", metavar="FILE", help="write the raw figures of all runs here")
    parser.add_argument("--memory", action="store_true", help=f"measure peak memory instead, with {LARGE}")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {number}; allowed: 1 or more")
    return number


def measure(workload: Workload, runs: int, queue: bool = False) -> Measured:
    measured = Measured(workload)
    with tempfile.TemporaryDirectory() as folder:
        scenario = write(workload, Path(folder))
        for i in range(runs):
            print(f"{workload}: run {i + 1} of {runs}", file=sys.stderr)
            measured.runs.append(bench(scenario, queue))
    return measured


def write(workload: Workload, folder: Path) -> Path:
    """Write the scenario of a workload."""
    scenario = folder / "scenario.json"
    amounts = (str(n) for n in (workload.nodes, workload.placed, workload.pending))
    with scenario.open("wb") as out:
        subprocess.run([sys.executable, str(workload.writer), workload.kind, *amounts], stdout=out, check=True)
    return scenario


def bench(scenario: Path, queue: bool = False) -> dict[str, Any]:
    """The figures of one run, in a process of its own."""
    done = subprocess.run(bench_command(scenario, queue), stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def bench_command(scenario: Path, queue: bool = False) -> list[str]:
    return [sys.executable, "-m", "mooring.cli.main", "bench", *(["--queue"] if queue else []), str(scenario)]


def peak_memory_bytes(workload: Workload) -> int:
    """The most memory that a run held at any time, reading the scenario included."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"{workload}: writing", file=sys.stderr)
        scenario = write(workload, Path(folder))
        print(f"{workload}: running", file=sys.stderr)
        child = subprocess.Popen(bench_command(scenario), stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)  # of this child alone: the one that wrote the scenario may be larger
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, child.args)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def table(measured: Iterable[Measured]) -> str:
    """Pods a second, best and median, and the times of single decisions in the best run."""
    rows = [("WORKLOAD (nodes/placed/pending)", "BEST", "MEDIAN", "P50", "P99", "PLACED")]
    for entry in measured:
        best = entry.best()
        rates = (f"{best['perSecond']:,.0f}/s", f"{median(entry.rates()):,.0f}/s")
        times = (f"{best['p50us']:,.0f} µs", f"{best['p99us']:,.0f} µs")
        rows.append((str(entry.workload), *rates, *times, f"{best['scheduled']} of {best['pods']}"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        lines.append("   ".join((first.ljust(widths[0]), *cells)))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
