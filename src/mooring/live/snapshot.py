"""What a running scheduler believes, as a list of objects: `mooring simulate` reads it and makes the same decisions."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mooring.framework.config.settings import settings_object
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.model.kinds import KINDS, WORKLOADS
from mooring.model.meta import KubeObject
from mooring.scheduler.scheduler import Scheduler

JsonObject = dict[str, Any]

_KIND_OF = {kind.struct: kind for kind in KINDS.values()}


def snapshot(
    scheduler: Scheduler, config: KubeSchedulerConfiguration, gates: Mapping[str, bool] | None = None
) -> JsonObject:
    """What the next decision would count with, and the settings that it would be made by.

    Pods that are assumed on a node are shown on it.
    """
    return {
        "kind": "List",
        "apiVersion": "v1",
        "metadata": {},
        "items": [settings_object(config, gates), *(_written(item) for item in _believed(scheduler))],
    }


def _believed(scheduler: Scheduler) -> Iterator[KubeObject]:
    cluster = scheduler.cluster
    yield from (node for node in cluster.nodes.nodes if node is not None)
    for objects in cluster.objects.values():
        yield from objects.values()
    placed = {pod.id: pod for pod in cluster.nodes.pods()}
    yield from placed.values()
    yield from (pod for pod in scheduler.pods.values() if pod.id not in placed)


def _written(item: KubeObject) -> JsonObject:
    kind = _KIND_OF[type(item)]
    body: JsonObject = msgspec.to_builtins(item)
    if kind.name in WORKLOADS:
        body["spec"] = {**body.get("spec", {}), "replicas": 0}  # its pods are told themselves
    return {"apiVersion": kind.api_versions[0], "kind": kind.name, **body}
