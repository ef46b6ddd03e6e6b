"""`mooring.simulate`: a simulation as one Python call."""

import io
import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mooring.app.assembly import all_plugins
from mooring.framework import config as configuration
from mooring.framework.plain import PlainPlugin
from mooring.framework.points import Plugin
from mooring.sim.manifest_files import STDIN
from mooring.sim.manifests import Manifests, read
from mooring.sim.simulation import InputError, Report, Simulation, note_ignored

__all__ = ["InputError", "simulate"]

Source = str | os.PathLike[str]
Written = Mapping[str, Any]
"""A Kubernetes object, or a list of them, as a dictionary."""


def simulate(
    objects: Source | Written | Iterable[Source | Written],
    config: Source | Mapping[str, Any] | None = None,
    explain: str | None = None,
    plugins: Iterable[type[Plugin] | type[PlainPlugin]] = (),
) -> Report:
    """Place all pending pods of a cluster and report where each went.

    `objects` is a file or folder of manifests, several of them, or Kubernetes objects as dictionaries; `config` a
    KubeSchedulerConfiguration, as a file or as a dictionary. `explain` names a pod to be explained node by node.
    `plugins` are registered beside those of Mooring, for a `config` that enables them. Raises InputError with every
    problem of the objects, ConfigError for the configuration, NoSuchPod for a pod that is not there to be explained.
    """
    manifests = _read(objects)
    if manifests.problems:
        raise InputError(manifests.problems)
    registry = all_plugins()
    for plugin in plugins:
        registry.register(plugin)
    items = [manifest.object for manifest in manifests.objects]
    report = Simulation(items, _configuration(config), registry).run(explain)
    report.notes = note_ignored(manifests) + report.notes
    return report


def _read(objects: Source | Written | Iterable[Source | Written]) -> Manifests:
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
    manifests.problems = [problem.at(_without_file(problem.where)) for problem in manifests.problems]
    return manifests


def _without_file(where: str) -> str:
    """Dictionaries are read as if they came from standard input; messages shall not say so."""
    return where.removeprefix("standard input: ").replace("document 1, item", "object")


def _configuration(config: Source | Mapping[str, Any] | None) -> configuration.KubeSchedulerConfiguration:
    if config is None:
        return configuration.default()
    if isinstance(config, Mapping):
        return configuration.from_object(config)
    with open(config, "rb") as file:
        return configuration.load(file.read(), os.fspath(config))
