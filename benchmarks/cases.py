"""What is measured: the workloads of docs/performance.md, and the series that show how cost grows.

A workload is a scenario that a script writes (tests/conformance/workloads.py and the workloads_*.py beside this file) and
`mooring bench` runs.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
WRITERS = ("benchmarks", "tests/conformance")
"""The folders of a tree that have the scripts."""
MORE_KINDS = (
    *("selectors", "exclusive", "exclusions", "preemption", "preemptors"),
    *("gangs", "gang-racks", "group-preemption", "whole-groups"),
)


@dataclass(frozen=True, slots=True)
class Workload:
    """What a writer of workloads is asked for, and how the scenario is run."""

    kind: str
    nodes: int
    placed: int
    pending: int
    templates: int = 0
    """How many templates the pods are made from, in turn; 0: as the kind has it."""
    queue: bool = False
    """Whether queue, cache and events are in the measured loop."""

    def writer(self, root: Path = ROOT) -> list[str]:
        """The command that writes the scenario to standard output, with a script of this tree."""
        family, _, name = self.kind.partition("-")
        benchmarks, conformance = (root / folder for folder in WRITERS)
        if family in ("volumes", "devices"):
            script, amounts = benchmarks / f"workloads_{family}.py", (self.nodes, self.pending)
            return [sys.executable, str(script), name, *map(str, amounts)]
        templates = (self.templates,) if self.templates else ()
        script = (
            benchmarks / "workloads_more.py" if self.kind in MORE_KINDS or templates else conformance / "workloads.py"
        )
        amounts = (self.nodes, self.placed, self.pending, *templates)
        return [sys.executable, str(script), self.kind, *map(str, amounts)]

    def write(self, folder: Path, root: Path = ROOT) -> Path:
        """Write the scenario into a folder."""
        scenario = folder / "scenario.json"
        with scenario.open("wb") as out:
            subprocess.run(self.writer(root), stdout=out, check=True)
        return scenario

    def __str__(self) -> str:
        templates = f", {self.templates} template{'s' if self.templates > 1 else ''}" if self.templates else ""
        return f"{self.kind} {self.nodes}/{self.placed}/{self.pending}{templates}{' with queue' if self.queue else ''}"


WORKLOADS = (
    Workload("basic", 500, 500, 3000),
    Workload("basic", 5000, 1000, 3000),
    Workload("basic", 15000, 1000, 1000),
    Workload("basic", 100000, 1000, 3000),
    Workload("nodeaffinity", 5000, 1000, 2000),
    Workload("spread", 5000, 5000, 2000),
    Workload("spread", 100000, 5000, 2000),
    Workload("prefspread", 5000, 5000, 2000),
    Workload("anti", 5000, 1000, 1000),
    Workload("anti", 100000, 1000, 1000),
    Workload("affinity", 5000, 5000, 500),
    Workload("prefaffinity", 5000, 5000, 1000),
    Workload("mixed", 5000, 2000, 1000),
    Workload("mixed", 100000, 2000, 1000),
    Workload("unschedulable", 5000, 1000, 2000),
    Workload("requests", 5000, 1000, 3000),
    Workload("tenants", 5000, 1000, 3000),
    Workload("diverse", 5000, 1000, 3000),
    Workload("selectors", 5000, 1000, 3000),
    Workload("exclusive", 5000, 1000, 3000),
    Workload("exclusions", 5000, 1000, 3000),
    Workload("volumes-bound", 5000, 0, 2000),
    Workload("volumes-delayed", 5000, 0, 2000),
    Workload("volumes-local", 5000, 0, 2000),
    Workload("devices-selector", 5000, 0, 1000),
    Workload("devices-network", 5000, 0, 1000),
)
"""Decisions alone, with nothing else in the measured loop."""

PREEMPTION = (
    Workload("preemption", 5000, 20000, 1000, queue=True),
    Workload("preemptors", 5000, 20000, 1000, queue=True),
)
"""A preemptor is tried again once its victims are gone, so preemption needs the queue."""

GANGS = (
    Workload("gangs", 5000, 1000, 4000, queue=True),
    Workload("gang-racks", 5000, 1000, 4000, queue=True),
    Workload("group-preemption", 5000, 20000, 4000, queue=True),
    Workload("whole-groups", 5000, 20000, 4000, queue=True),
)
"""Pod groups are tried as the queue has them."""

_COMPARED_WITH_QUEUE = ("basic", "requests", "tenants", "diverse")

WITH_QUEUE = (
    *(replace(each, queue=True) for each in WORKLOADS if each.kind in _COMPARED_WITH_QUEUE and each.nodes == 5000),
    *PREEMPTION,
    *GANGS,
)

LARGE = Workload("basic", 5000, 30000, 1000)
"""Whose peak memory `throughput.py --memory` measures."""

# ---- growth: each series varies one number. Workloads of the tables are used where they fit, so they are measured once


def _by_nodes() -> Iterator[Workload]:
    for nodes in (1000, 5000, 20000, 100000):
        yield Workload("basic", nodes, 1000, 3000)
        yield Workload("tenants", nodes, 1000, 3000)
        yield Workload("spread", nodes, 5000, 2000)
        # A pod that wants a node without its like: 1,000 nodes with 1,000 such pods would have no room for others.
        yield Workload("anti", nodes, 1000 if nodes > 1000 else 0, 1000)
        yield Workload("mixed", nodes, 2000, 1000)


def _by_pods() -> Iterator[Workload]:
    for placed in (0, 5000, 30000):
        for kind, pending in (("basic", 3000), ("spread", 2000), ("mixed", 1000), ("diverse", 3000)):
            yield Workload(kind, 5000, placed, pending)


def _by_templates() -> Iterator[Workload]:
    """The kinds differ in what makes a template: its requests alone, or labels, spreading and affinity as well."""
    for kind in ("requests", "diverse"):
        for templates in (1, 10, 100, 400, 1000, 0):
            yield Workload(kind, 5000, 1000, 3000, templates)


GROWTH = {"nodes": tuple(_by_nodes()), "pods": tuple(_by_pods()), "templates": tuple(_by_templates())}
"""What varies -> the workloads that show it."""
SCALE = tuple(
    Workload(kind, nodes, 1000, 1000) for nodes in (10_000, 100_000, 1_000_000) for kind in ("basic", "spread", "mixed")
)
"""How the cost of a decision grows up to 1,000,000 nodes. A record of its own: it takes a quarter of an hour and 3 GiB."""
PARTS = {"workloads": (*WORKLOADS, *WITH_QUEUE), **GROWTH}
"""All parts of a record (records.py), but for `memory`."""


def choose(offered: Iterable[Workload], only: str) -> list[Workload]:
    """The workloads of these kinds: `basic,spread/100000` are all of basic, and those of spread with 100,000 nodes.

    Exits if a kind is not offered.
    """
    offered = list(offered)
    names = only.split(",") if only else []
    unknown = [name for name in names if not any(is_named(each, (name,)) for each in offered)]
    if unknown:
        kinds = sorted({each.kind for each in offered})
        sys.exit(f"no such workload: {', '.join(unknown)}; there are {', '.join(kinds)}")
    return [each for each in offered if not names or is_named(each, names)]


def is_named(workload: Workload, names: Sequence[str]) -> bool:
    return workload.kind in names or f"{workload.kind}/{workload.nodes}" in names
