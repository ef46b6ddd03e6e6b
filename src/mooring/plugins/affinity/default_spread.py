"""The selector that default spreading constraints use: what the pod's services and its controller select."""

from typing import cast

from mooring.cluster.cluster import Cluster
from mooring.model.pod import Pod
from mooring.model.selectors import EVERYTHING, Selector, compile_selector
from mooring.model.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

_SOURCES = (Service, ReplicationController, ReplicaSet, StatefulSet)


def selector_source_version(cluster: Cluster) -> int:
    """Grows whenever an object changes from which selectors are derived."""
    return sum(cluster.versions[kind] for kind in _SOURCES)


def derived_selector(cluster: Cluster, pod: Pod) -> Selector:
    """Selectors of all services that match the pod, and of its controller, taken together; empty if there are none."""
    pairs: dict[str, str] = {}
    for item in cluster.in_namespace(Service, pod.namespace):
        wanted = cast(Service, item).spec.selector
        if wanted is not None and all(pod.labels.get(key) == value for key, value in wanted.items()):
            pairs.update(wanted)
    selector = EVERYTHING
    owner = pod.controller()
    if owner is not None:
        key = f"{pod.namespace}/{owner.name}"
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = cluster.objects[ReplicationController].get(key)
            pairs.update((cast(ReplicationController, controller).spec.selector if controller else None) or {})
        elif owner.api_version == "apps/v1" and owner.kind in ("ReplicaSet", "StatefulSet"):
            kind = ReplicaSet if owner.kind == "ReplicaSet" else StatefulSet
            found = cluster.objects[kind].get(key)
            if found is not None:
                selector = compile_selector(cast(ReplicaSet | StatefulSet, found).spec.selector)
    return selector.with_equal(pairs)
