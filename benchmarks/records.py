"""Records of benchmark runs, in JSON: one file a run, benchmarks/results/2026-11-16T0312Z-04c325b.json, some 15 KB.

    format      1
    date        when the run began, in UTC
    commit      id, and whether code differed from it (`dirty`)
    machine     cpu, cores, memoryMiB, system, python, numpy, and the load average before the run
    runs        how often each workload ran
    workloads   one line for each: `workload` says what ran (cases.py), `parts` which tables and plots it belongs to.
                Of each run: perSecond (pods a second), p50us and p99us (µs of one decision), peakMiB (memory of the
                process, the scenario included). scheduled: how many of the pending pods were placed.
    memory      one line for each count of templates: a cluster with `nodes` and `pods`, of which `alive` have a template of
                their own, after pods of so many `templates` came and went. rssMiB is what the process holds then, peakMiB
                the most until then (template_memory.py).

benchmarks/results/baseline.json is a record as well: `make bench-baseline` measures and replaces it. `make bench` prints
ratios to it, and docs/performance.md shows it. A record that is worth keeping can be committed. A ratio compares code only
if both were measured on the same machine, with the same Python and NumPy; `differences` finds out, and `make bench` says so.
"""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from cases import Workload

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "results"
BASELINE = FOLDER / "baseline.json"
SCALE_RECORD = FOLDER / "scale.json"
"""Growth to 1,000,000 nodes (`bench.py --scale`)."""
FORMAT = 1
BUSY_LOAD = 0.5
"""A load before the run, from which on the other processes take so much of the machine that figures suffer."""
CODE = ("src", "benchmarks/*.py", "tests/conformance/workloads.py", "pyproject.toml")
"""The paths whose changes make a record dirty: others do not change a figure."""
_MEMORY_TOLERANCE = 0.05
"""A machine may report a little less memory after an update of its kernel."""


class RecordError(Exception):
    """A file that is no record; the message names it."""


class Commit(msgspec.Struct, frozen=True):
    """What was measured."""

    id: str
    dirty: bool


class Machine(msgspec.Struct, frozen=True, rename="camel"):
    """Where it was measured."""

    cpu: str
    cores: int
    memory_mib: int = msgspec.field(name="memoryMiB")
    system: str
    python: str
    numpy: str
    load_before: float

    def __str__(self) -> str:
        amounts = f"{self.cores} cores, {self.memory_mib / 1024:.0f} GiB"
        return f"{self.cpu}, {amounts}, {self.system}, Python {self.python}, NumPy {self.numpy}"


class Measurement(msgspec.Struct, frozen=True):
    """The figures of all runs of a workload."""

    workload: Workload
    parts: list[str]
    per_second: list[float] = msgspec.field(name="perSecond")
    p50_us: list[float] = msgspec.field(name="p50us")
    p99_us: list[float] = msgspec.field(name="p99us")
    peak_mib: list[float] = msgspec.field(name="peakMiB")
    scheduled: int

    @property
    def rate(self) -> float:
        """Pods a second: the median of the runs."""
        return median(self.per_second)

    @property
    def cost_us(self) -> float:
        """Of one pod."""
        return 1e6 / self.rate


class MemoryPoint(msgspec.Struct, frozen=True):
    """Memory after pods of so many different templates came and went."""

    nodes: int
    pods: int
    alive: int
    templates: int
    rss_mib: float = msgspec.field(name="rssMiB")
    peak_mib: float = msgspec.field(name="peakMiB")


class Record(msgspec.Struct):
    """All that a run found."""

    date: str
    commit: Commit
    machine: Machine
    runs: int
    workloads: list[Measurement] = msgspec.field(default_factory=list)
    memory: list[MemoryPoint] = msgspec.field(default_factory=list)
    format: int = FORMAT

    def part(self, name: str) -> list[Measurement]:
        return [each for each in self.workloads if name in each.parts]

    def rate_of(self, workload: Workload) -> float | None:
        """Pods a second; None if the workload was not measured."""
        return next((each.rate for each in self.workloads if each.workload == workload), None)


# ---- files


def read_record(path: Path) -> Record:
    """Raises RecordError."""
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError) as fault:
        raise RecordError(f"{path}: {getattr(fault, 'strerror', None) or fault}") from fault
    if record.format != FORMAT:
        raise RecordError(f"{path}: format {record.format}; this version reads {FORMAT}")
    if not all(_is_sound(each) for each in record.workloads):
        raise RecordError(f"{path}: a workload has no runs, or a rate that is not positive")
    return record


def _is_sound(measurement: Measurement) -> bool:
    lists = (measurement.per_second, measurement.p50_us, measurement.p99_us, measurement.peak_mib)
    return all(lists) and min(measurement.per_second) > 0


def write_record(record: Record, path: Path) -> None:
    """Write a file, with one line for each workload so that two records can be compared by eye."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text(record))


def as_text(record: Record) -> str:
    head: dict[str, Any] = msgspec.to_builtins(record)
    lists = {name: head.pop(name) for name in ("workloads", "memory")}
    lines = [f" {_json(name)}: {_json(value)}" for name, value in head.items()]
    for name, items in lists.items():
        rows = ",\n".join(f"  {_json(item)}" for item in items)
        lines.append(f" {_json(name)}: [\n{rows}\n ]" if items else f" {_json(name)}: []")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def file_name(record: Record) -> str:
    """`2026-11-16T0312Z-04c325b.json`; a record of changed code says so."""
    day, _, time = record.date.partition("T")
    minutes = time[:5].replace(":", "")
    return f"{day}T{minutes}Z-{record.commit.id[:7]}{'-dirty' if record.commit.dirty else ''}.json"


# ---- what a record says about itself


def new_record(runs: int) -> Record:
    """A record without figures; the load is that of this moment."""
    now = datetime.now(UTC)
    return Record(now.strftime("%Y-%m-%dT%H:%M:%SZ"), this_commit(), this_machine(), runs)


def this_commit(root: Path = ROOT) -> Commit:
    """`unknown` where there is no git or no repository."""
    try:
        head = _git(root, "rev-parse", "HEAD")
        return Commit(head, bool(_git(root, "status", "--porcelain", "--", *CODE)))
    except (OSError, subprocess.CalledProcessError):
        return Commit("unknown", True)


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def this_machine() -> Machine:
    return Machine(
        cpu_model(),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        f"{platform.system()} {platform.release()} {platform.machine()}",
        platform.python_version(),
        version("numpy"),
        round(os.getloadavg()[0], 2),
    )


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model as the system names it; what Python knows where there is no /proc."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def differences(here: Machine, there: Machine) -> list[str]:
    """What differs between two machines that changes figures: `cores: 2 here, 8 there`. The kernel's release may differ."""
    found = []
    for name in ("cpu", "cores", "memory_mib", "python", "numpy"):
        ours, theirs = getattr(here, name), getattr(there, name)
        if name == "memory_mib" and abs(ours - theirs) <= _MEMORY_TOLERANCE * max(ours, theirs):
            continue
        if ours != theirs:
            found.append(f"{name.replace('_mib', ' MiB')}: {ours} here, {theirs} there")
    return found


def parts_of(workload: Workload, parts: Mapping[str, Sequence[Workload]]) -> list[str]:
    """The names of the parts that a workload belongs to."""
    return [name for name, workloads in parts.items() if workload in workloads]
