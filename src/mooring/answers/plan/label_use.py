"""Labels of nodes that objects of a cluster name: nodes that differ in others only are alike to all of its pods."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mooring.inputs.offers.instance_types import ARCH, OS, OfferedNode
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, StorageClass
from mooring.model.workloads import Workload

ALWAYS = (ARCH, OS)
"""Labels that count although no pod names them: images are built for them."""


def labels_in_use(objects: Sequence[KubeObject]) -> set[str]:
    """The keys of node labels that pods, workloads, volumes and storage classes name: in node selectors and affinity, and as
    topologies."""
    found = {*ALWAYS}
    shapes: set[int] = set()
    for item in objects:
        if isinstance(item, Pod):
            if id(item.shape) not in shapes:
                shapes.add(id(item.shape))
                found.update(_keys(msgspec.to_builtins(item.spec)))
        elif isinstance(item, Workload | PersistentVolume | StorageClass):
            found.update(_keys(msgspec.to_builtins(item)))
    return found


def _keys(written: Any) -> Iterator[str]:
    """All keys below a value, however deep: of `nodeSelector`, of expressions with an operator, and topology keys. Keys of
    pod labels among them do no harm."""
    if isinstance(written, list):
        for each in written:
            yield from _keys(each)
    elif isinstance(written, Mapping):
        for name, value in written.items():
            if name == "nodeSelector" and isinstance(value, Mapping):
                yield from value
            elif name in ("key", "topologyKey") and isinstance(value, str):
                yield value
            else:
                yield from _keys(value)


def useful_labels(offered: Sequence[OfferedNode], objects: Sequence[KubeObject]) -> list[OfferedNode]:
    """The cheapest of the offers that are alike in everything but labels which no object names."""
    used = labels_in_use(objects)
    best: dict[tuple[Any, ...], OfferedNode] = {}
    for each in offered:
        labels = tuple(sorted((key, text) for key, text in each.labels.items() if key in used))
        taints = tuple(str(sorted(taint.items())) for taint in each.taints)
        amounts = tuple(sorted(each.allocatable.items()))
        key = labels, taints, amounts, each.limit, each.pool.name if each.pool is not None else None
        held = best.get(key)
        if held is None or (each.price or 0) < (held.price or 0):
            best[key] = each
    return [*best.values()]
