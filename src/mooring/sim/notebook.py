"""`mooring.simulate`: a simulation as one Python call, for notebooks and tests of users.

It reads the same input as the command, but raises all problems at once instead of printing them.
"""

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import msgspec

from mooring.framework import config as configuration
from mooring.framework.config.feature_gates import parse_gates
from mooring.framework.plain import PlainPlugin
from mooring.framework.points import Plugin
from mooring.model.meta import KubeObject
from mooring.model.validation.problem import Problem
from mooring.scheduler.assembly import all_plugins
from mooring.sim.day import Day, DayReport
from mooring.sim.input_errors import InputError
from mooring.sim.reading.arrivals import Arrival, ArrivalsError, arrivals_of, parse_duration, read_arrivals
from mooring.sim.reading.documents import STDIN, STDIN_NAME
from mooring.sim.reading.manifests import Manifests, read
from mooring.sim.results import Report
from mooring.sim.simulation import UNTIL_NS, Simulation, note_ignored

__all__ = ["ArrivalsError", "InputError", "simulate"]

Source = str | os.PathLike[str]
Written = Mapping[str, Any]
"""A Kubernetes object, or a list of them, as a dictionary."""
Objects = Source | Written | Iterable[Source | Written]
Plugins = Iterable[type[Plugin] | type[PlainPlugin]]


@overload
def simulate(
    objects: Objects,
    config: Source | Mapping[str, Any] | None = None,
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
    config: Source | Mapping[str, Any] | None = None,
    explain: None = None,
    plugins: Plugins = (),
    *,
    story: str | None = None,
    arrivals: Source | Sequence[Written],
    until: float | str | None = None,
) -> DayReport: ...


def simulate(
    objects: Objects,
    config: Source | Mapping[str, Any] | None = None,
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
    manifests = _read(objects)
    if manifests.problems:
        raise InputError(manifests.problems)
    registry = all_plugins()
    for plugin in plugins:
        registry.register(plugin)
    items = [manifest.object for manifest in manifests.objects]
    settings = manifests.settings
    gates = parse_gates(settings.gates_text) if settings is not None else None
    chosen = _configuration(settings.configuration if config is None and settings is not None else config, gates)
    if arrivals is None:
        simulation = Simulation(items, chosen, registry, gates)
        report: Report | DayReport = simulation.run(explain, None, story, UNTIL_NS if until_ns is None else until_ns)
    else:
        report = Day(items, _arrivals(arrivals, items), chosen, registry, gates).run(until_ns, None, story)
    report.notes = note_ignored(manifests) + report.notes
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


def _read(objects: Objects) -> Manifests:
    """Files and dictionaries as one input; dictionaries are read as a JSON list. Raises TypeError for anything else."""
    listed = [objects] if isinstance(objects, str | os.PathLike | Mapping) else list(objects)
    for item in listed:
        if not isinstance(item, str | os.PathLike | Mapping):
            raise TypeError(f"objects are files, folders and dictionaries, not {item!r}")
    paths = [os.fspath(item) for item in listed if isinstance(item, str | os.PathLike)]
    written = [item for item in listed if isinstance(item, Mapping)]
    if not written:
        return read(paths)
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": written})
    manifests = read([*paths, STDIN], io.BytesIO(text))
    manifests.problems = [_as_dictionary(problem) for problem in manifests.problems]
    return manifests


def _as_dictionary(problem: Problem) -> Problem:
    """A problem without the file name: dictionaries are read as if they came from standard input."""
    if problem.file != STDIN_NAME:
        return problem
    return replace(problem, file="", line=0, where=problem.where.replace("document 1, item", "object"))


def _configuration(
    config: Source | Mapping[str, Any] | None, gates: Mapping[str, bool] | None
) -> configuration.KubeSchedulerConfiguration:
    if config is None:
        return configuration.default(feature_gates=gates)
    if isinstance(config, Mapping):
        return configuration.from_object(config, feature_gates=gates)
    with open(config, "rb") as file:
        return configuration.load(file.read(), os.fspath(config), feature_gates=gates)
