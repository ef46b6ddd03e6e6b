"""`mooring.simulate`: a simulation as one Python call, for notebooks and tests of users.

It reads the same input as the command, but raises all problems at once instead of printing them.
"""

from collections.abc import Sequence
from typing import overload

from mooring.answers.given_loads import arrivals_from, plan_from
from mooring.answers.loaded_cluster import Config, Objects, Plugins, Source, Written, load
from mooring.sim.day import Day, DayReport
from mooring.sim.generated_load import GeneratedLoad
from mooring.sim.input_errors import InputError
from mooring.sim.reading.arrivals import ArrivalsError, parse_duration
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
    generate: None = None,
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
    generate: None = None,
    until: float | str | None = None,
) -> DayReport: ...


@overload
def simulate(
    objects: Objects = (),
    config: Config | None = None,
    explain: None = None,
    plugins: Plugins = (),
    *,
    story: str | None = None,
    arrivals: None = None,
    generate: Source | Written,
    until: float | str | None = None,
) -> DayReport: ...


def simulate(
    objects: Objects = (),
    config: Config | None = None,
    explain: str | Sequence[str] | None = None,
    plugins: Plugins = (),
    *,
    story: str | None = None,
    arrivals: Source | Sequence[Written] | None = None,
    generate: Source | Written | None = None,
    until: float | str | None = None,
) -> Report | DayReport:
    """Place all pending pods of a cluster and report where each went; or let pods arrive over time.

    `objects` is a file or folder of manifests, several of them, or Kubernetes objects as dictionaries; `config` a
    KubeSchedulerConfiguration, as a file or as a dictionary. `explain` names pods to be explained node by node, `story`
    one whose story is to be told. `plugins` are registered beside those of Mooring, for a `config` that enables them.

    `arrivals` is a file, or a list of entries as such a file has them (docs/simulation.md); the report is then one of
    waiting times and utilisation. `generate` is a plan of a generated day, as a file or as a dictionary of its form; such a
    report names no pods. `until` ends the simulation: seconds of the simulated clock, or a duration ("24h").

    Raises InputError with every problem of the objects, ArrivalsError with those of the arrivals, LoadPlanError with those
    of the plan, ConfigError for the configuration, NoSuchPod for a pod that is not there.
    """
    until_ns = _until(until)
    _check_use(explain, arrivals, generate)
    cluster = load(objects, config, plugins)
    items, settings = cluster.objects, (cluster.config, cluster.registry, cluster.gates)
    if generate is not None:
        made = GeneratedLoad(plan_from(generate), items)
        day = Day([*items, *made.nodes], made, *settings, names_placements=False)
        report: Report | DayReport = day.run(made.over_ns if until_ns is None else until_ns, None, story)
    elif arrivals is not None:
        report = Day(items, arrivals_from(arrivals, items), *settings).run(until_ns, None, story)
    else:
        report = Simulation(items, *settings).run(explain, None, story, UNTIL_NS if until_ns is None else until_ns)
    report.notes = [*cluster.notes, *report.notes]
    return report


def _check_use(explain: object, arrivals: object, generate: object) -> None:
    if arrivals is not None and generate is not None:
        raise ValueError("generate: cannot be used with arrivals; choose one of the two")
    over_time = "arrivals" if arrivals is not None else "generate" if generate is not None else ""
    if over_time and explain is not None:
        raise ValueError(f"explain: cannot be used with {over_time}; story shows what happened to a pod")


def _until(until: float | str | None) -> int | None:
    until_ns = parse_duration(until)
    if until is not None and until_ns is None:
        raise ValueError(f"until: Invalid value: {until!r}: must be seconds, or a duration such as 90s, 15m, 24h")
    return until_ns
