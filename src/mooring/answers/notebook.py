"""`mooring.simulate`: a simulation as one Python call, for notebooks and tests of users.

It reads the same input as the command, but raises all problems at once instead of printing them.
"""

import os
from collections.abc import Sequence
from typing import overload

from mooring.answers.loaded_cluster import Config, Objects, Plugins, Source, Written, load
from mooring.model.meta import KubeObject
from mooring.sim.day import Day, DayReport
from mooring.sim.input_errors import InputError
from mooring.sim.reading.arrivals import Arrival, ArrivalsError, arrivals_of, parse_duration, read_arrivals
from mooring.sim.results import Report
from mooring.sim.simulation import UNTIL_NS, Simulation

__all__ = ["ArrivalsError", "InputError", "simulate"]


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
    cluster = load(objects, config, plugins)
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
