"""`mooring.simulate`: a simulation as one Python call."""

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mooring.app.assembly import all_plugins
from mooring.framework import config as configuration
from mooring.framework.plain import PlainPlugin
from mooring.framework.points import Plugin
from mooring.model.problem import Problem
from mooring.sim.manifests import Manifests, read
from mooring.sim.simulation import Report, Simulation

Source = str | os.PathLike[str]


class InputError(ValueError):
    """Objects that cannot be used; `problems` has them all."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = list(problems)


def simulate(
    objects: Source | Iterable[Source | Mapping[str, Any]],
    config: Source | Mapping[str, Any] | None = None,
    explain: str | None = None,
    plugins: Iterable[type[Plugin] | type[PlainPlugin]] = (),
) -> Report:
    """Place all pending pods of a cluster and report where each went.

    `objects` is a file or folder of manifests, several of them, or Kubernetes objects as dictionaries; `config` a
    KubeSchedulerConfiguration, as a file or as a dictionary. `explain` names a pod to be explained node by node.
    `plugins` are registered beside those of Mooring, for a `config` that enables them. Raises InputError with every
    problem of the objects, and ConfigError for the configuration.
    """
    manifests = _read(objects)
    if manifests.problems:
        raise InputError(manifests.problems)
    registry = all_plugins()
    for plugin in plugins:
        registry.register(plugin)
    items = [manifest.object for manifest in manifests.objects]
    return Simulation(items, _configuration(config), registry).run(explain)


def _read(objects: Source | Iterable[Source | Mapping[str, Any]]) -> Manifests:
    if isinstance(objects, str | os.PathLike):
        return read([os.fspath(objects)])
    listed = list(objects)
    paths = [os.fspath(item) for item in listed if isinstance(item, str | os.PathLike)]
    items = [item for item in listed if isinstance(item, Mapping)]
    if not items:
        return read(paths)
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
    return read([*paths, "-"], io.BytesIO(text))


def _configuration(config: Source | Mapping[str, Any] | None) -> configuration.KubeSchedulerConfiguration:
    if config is None:
        return configuration.default()
    if isinstance(config, Mapping):
        return configuration.from_object(config)
    with open(config, "rb") as file:
        return configuration.load(file.read(), os.fspath(config))
