"""What a running scheduler believes, as a list of objects: `mooring simulate` reads it and makes the same decisions."""

from collections.abc import Iterator, Mapping

import msgspec

from mooring.framework.config.settings import settings_object
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import BY_STRUCT
from mooring.model.meta import KubeObject
from mooring.scheduler.scheduler import Scheduler


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
    spec = BY_STRUCT[type(item)]
    body: JsonObject = msgspec.to_builtins(item)
    if spec.makes_pods:
        body["spec"] = {**body.get("spec", {}), "replicas": 0}  # its pods are told themselves
    return {"apiVersion": spec.api_version, "kind": spec.kind, **body}
