"""`mooring.load` and `mooring.simulate`: questions about a cluster as Python calls, for notebooks and tests of users.

They read the same input as the commands, but raise all problems at once instead of printing them.
"""

import os
from collections.abc import Sequence
from typing import overload

from mooring.answers.cures.search import DECISIONS
from mooring.answers.explain.explain import explain, explain_workload
from mooring.answers.explain.explanation import PodExplanation, WorkloadExplanation
from mooring.answers.loaded_cluster import Config, LoadedCluster, Objects, Plugins, Source, Written
from mooring.answers.loaded_cluster import load as load_cluster
from mooring.answers.owners import pods_of_workload, workload_kind
from mooring.answers.settled import settled
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.sim.day import Day, DayReport
from mooring.sim.input_errors import InputError
from mooring.sim.reading.arrivals import Arrival, ArrivalsError, arrivals_of, parse_duration, read_arrivals
from mooring.sim.results import Report
from mooring.sim.simulated_cluster import count
from mooring.sim.simulation import UNTIL_NS, Simulation

__all__ = ["ArrivalsError", "InputError", "QuestionedCluster", "load", "simulate"]


class QuestionedCluster:
    """A cluster to ask about. Questions try what they need on copies: the cluster stays as it was loaded."""

    def __init__(self, loaded: LoadedCluster) -> None:
        self.loaded = loaded

    def __repr__(self) -> str:
        pods, pending = self.loaded.pods(), self.loaded.pending()
        nodes = sum(isinstance(item, Node) for item in self.loaded.objects)
        return f"<mooring cluster: {count(nodes, 'node')}, {count(len(pods), 'pod')}, {len(pending)} of them pending>"

    def settle(self) -> "QuestionedCluster":
        """The cluster after its scheduler has placed the pending pods, as far as they fit."""
        return QuestionedCluster(settled(self.loaded))

    def explain(
        self, pod: str, *, cures: bool = True, decisions: int = DECISIONS
    ) -> PodExplanation | WorkloadExplanation:
        """Why a pod (`name`, `namespace/name`) or a workload (`deployment/name`) is where it is, and what would place it."""
        kind, _, name = pod.partition("/")
        workload = workload_kind(kind) if name else None
        if workload is None:
            return explain(self.loaded, pod, cures=cures, decisions=decisions)
        namespace, _, own = name.rpartition("/")
        pods = pods_of_workload(self.loaded, workload, own, namespace)
        return explain_workload(self.loaded, pods, f"{workload} {name}", cures=cures, decisions=decisions)


def load(objects: Objects, config: Config | None = None, plugins: Plugins = ()) -> QuestionedCluster:
    """A cluster to ask questions about.

    `objects` is a file or folder of manifests or dumps, several of them, or Kubernetes objects as dictionaries; `config` a
    KubeSchedulerConfiguration, as a file or as a dictionary (a snapshot has its own). `plugins` are registered beside those
    of Mooring, for a `config` that enables them.

    Raises InputError with every problem of the objects, ConfigError for the configuration.
    """
    return QuestionedCluster(load_cluster(objects, config, plugins))


@overload
def simulate(
    objects: Objects,
    config: Config | None = None,
    explain: str | Sequence[str] | None = None,
    plugins: Plugins = (),
    *,
    story: str | None = None,
    arrivals: None = None,
    until: float | str | None = None,
) -> Report: ...


@overload
def simulate(
    objects: Objects,
    config: Config | None = None,
    explain: None = None,
    plugins: Plugins = (),
    *,
    story: str | None = None,
    arrivals: Source | Sequence[Written],
    until: float | str | None = None,
) -> DayReport: ...


def simulate(
    objects: Objects,
    config: Config | None = None,
    explain: str | Sequence[str] | None = None,
    plugins: Plugins = (),
    *,
    story: str | None = None,
    arrivals: Source | Sequence[Written] | None = None,
    until: float | str | None = None,
) -> Report | DayReport:
    """Place all pending pods of a cluster and report where each went; or let pods arrive over time.

    `objects` is a file or folder of manifests, several of them, or Kubernetes objects as dictionaries; `config` a
    KubeSchedulerConfiguration, as a file or as a dictionary. `explain` names pods to be explained node by node, `story`
    one whose story is to be told. `plugins` are registered beside those of Mooring, for a `config` that enables them.

    `arrivals` is a file, or a list of entries as such a file has them (docs/simulation.md); the report is then one of
    waiting times and utilisation. `until` ends the simulation: seconds of the simulated clock, or a duration ("24h").

    Raises InputError with every problem of the objects, ArrivalsError with those of the arrivals, ConfigError for the
    configuration, NoSuchPod for a pod that is not there.
    """
    until_ns = _until(until)
    if arrivals is not None and explain is not None:
        raise ValueError("explain: cannot be used with arrivals; story shows what happened to a pod")
    cluster = load_cluster(objects, config, plugins)
    items, settings = cluster.objects, (cluster.config, cluster.registry, cluster.gates)
    if arrivals is None:
        simulation = Simulation(items, *settings)
        report: Report | DayReport = simulation.run(explain, None, story, UNTIL_NS if until_ns is None else until_ns)
    else:
        report = Day(items, _arrivals(arrivals, items), *settings).run(until_ns, None, story)
    report.notes = [*cluster.notes, *report.notes]
    return report


def _until(until: float | str | None) -> int | None:
    until_ns = parse_duration(until)
    if until is not None and until_ns is None:
        raise ValueError(f"until: Invalid value: {until!r}: must be seconds, or a duration such as 90s, 15m, 24h")
    return until_ns


def _arrivals(arrivals: Source | Sequence[Written], objects: Sequence[KubeObject]) -> list[Arrival]:
    if isinstance(arrivals, str | os.PathLike):
        return read_arrivals(os.fspath(arrivals), objects)
    return arrivals_of(arrivals, objects)
