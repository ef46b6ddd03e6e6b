"""How many devices serve an extended resource on each node, and how many of them are taken: what the resource plugins score
where the node itself has none of the resource (gate DRAExtendedResource)."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.cluster.cluster import Cluster
from mooring.model.devices import DeviceClass
from mooring.plugins.devices.effort import CelFault
from mooring.plugins.devices.node_groups import NodeGroup, NodeGroups
from mooring.plugins.devices.pools import DeviceInSlice

Counts = NDArray[np.int64]


class _Kept(msgspec.Struct):
    """Counts by group of nodes, and what they are for."""

    stamp: tuple[object, ...]
    counts: Counts
    """Devices and taken devices: 2 x groups."""


class DeviceTotals:
    """Counts for each class once, until slices, nodes or allocations change."""

    def __init__(self, groups: NodeGroups) -> None:
        self._groups = groups
        self._kept: dict[str, _Kept] = {}
        """By name of the class."""

    def of(self, cluster: Cluster, resource: str, rows: NDArray[np.intp]) -> Counts | None:
        """How many devices serve the resource on these rows, and how many of them are taken: 2 x rows. None: no class
        serves it."""
        device_class = cluster.serving_classes.get(resource)
        if device_class is None:
            return None
        self._groups.refresh(cluster)
        if self._groups.fault is not None:
            return None
        counts = self._counted(cluster.claims, device_class)
        found: Counts = (
            counts[:, self._groups.group_of[rows]] if counts.shape[1] else np.zeros((2, len(rows)), np.int64)
        )
        return found

    def _counted(self, ledger: ClaimLedger, device_class: DeviceClass) -> Counts:
        stamp = (self._groups.version, ledger.log.end, id(device_class))
        kept = self._kept.get(device_class.name)
        if kept is None or kept.stamp != stamp:
            counts = [count_devices(group, device_class, ledger) for group in self._groups.groups]
            kept = _Kept(stamp, np.array(counts, np.int64).reshape(-1, 2).T)
            self._kept = {**self._kept, device_class.name: kept} if len(self._kept) < MAX_CLASSES else {}
        return kept.counts


MAX_CLASSES = 64
"""Classes whose counts are kept: profiles name few resources."""


def count_devices(group: NodeGroup, device_class: DeviceClass, ledger: ClaimLedger) -> tuple[int, int]:
    """The devices of a class that nodes of a group see, and those of them that are taken. Parity: none, if a selector
    fails on any of them."""
    total = taken = 0
    for pool in group.pools:
        for site in pool.sites:
            if site.id in group.hidden:
                continue
            matches = _matches(site, device_class)
            if matches is None:
                return 0, 0
            total += matches
            is_taken = site.id in ledger.exclusive or site.id in ledger.shares or site.id in ledger.consumed
            taken += matches and is_taken
    return total, taken


def _matches(site: DeviceInSlice, device_class: DeviceClass) -> bool | None:
    """Whether the device meets all selectors of the class; None: one of them fails."""
    for selector in device_class.spec.selectors or ():
        if selector.cel is None:
            continue
        answer = site.likeness.known(selector.cel.expression)
        if answer is None:
            answer, _ = site.likeness.ask(selector.cel.expression)
        if isinstance(answer, CelFault):
            return None
        if not answer:
            return False
    return True
