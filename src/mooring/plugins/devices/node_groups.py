"""Which nodes see which devices, and how many: nodes that see the same are one group, for which devices are sought once.

A slice is for one node, for the nodes that a selector matches, for all nodes, or leaves it to each device. In a cluster
with network-attached devices thousands of nodes see the same pools, and one search answers for all of them.
"""

from collections.abc import Iterable, Sequence
from itertools import count

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.match import match_nodes
from mooring.cluster.nodes.table import NodeTable
from mooring.model.devices import Device, DeviceClass, DeviceId, PoolId, ResourceSlice
from mooring.model.pod_spec import NodeSelector
from mooring.model.selectors import aggregated, compile_node_selector
from mooring.plugins.devices.device_demand import DeviceFeatures
from mooring.plugins.devices.effort import CelFault
from mooring.plugins.devices.pools import DeviceInSlice, LikenessBook, PoolView, SliceView, gather_pools, view_of

Mask = NDArray[np.bool_]

_serials = count(1)

OPTIONAL_OPERATIONS = "DRAOptionalNodeOperations"
"""The feature that nodes declare whose kubelet can leave out calls of drivers."""


class BadSelector(Exception):
    """The node selector of a slice does not compile. Parity: then no pod can get devices."""


def declares_operations(nodes: NodeTable, rows: NDArray[np.intp] | slice) -> Mask:
    """Mask of the rows whose kubelet declares that it can leave out calls of drivers."""
    able = np.array([OPTIONAL_OPERATIONS in declared for declared in nodes.features.values], np.bool_)
    found: Mask = able[nodes.features.codes[rows]]
    return found


class NodeGroup(msgspec.Struct, eq=False):
    """Nodes that see the same devices. `serial` identifies the group for as long as nothing that it sees changes."""

    pools: Sequence[PoolView]
    hidden: frozenset[DeviceId]
    """Devices of visible slices that are not for these nodes (perDeviceNodeSelection)."""
    skips_operations: bool = False
    """Whether the kubelets of these nodes can leave out calls of drivers (gate DRAOptionalNodeOperations)."""
    sites: Sequence[DeviceInSlice] = ()
    """The devices to choose from, in the order of pools, slices and devices: it decides which device is picked first.
    """
    pool_book: dict[PoolId, PoolView] = msgspec.field(default_factory=dict)
    serial: int = msgspec.field(default_factory=lambda: next(_serials))

    def __post_init__(self) -> None:
        self.sites = tuple(site for pool in self.pools if pool.is_usable for site in pool.sites)
        self.pool_book = {pool.id: pool for pool in self.pools}


class NodeGroups:
    """All groups, as of the last refresh. Groups that stay as they are stay the same objects."""

    def __init__(self, features: DeviceFeatures) -> None:
        self._features = features
        self._views: dict[str, SliceView] = {}
        """Slices by name, taken apart; reused while the object stays the same."""
        self._likenesses = LikenessBook()
        self._kept: dict[tuple[object, ...], NodeGroup] = {}
        """Groups of the last refresh by what they see."""
        self._stamp: tuple[object, ...] = ()
        self.version = 0
        """Grows when anything here changed."""
        self.groups: list[NodeGroup] = []
        self.group_of: NDArray[np.intp] = np.zeros(0, np.intp)
        """By row: which group the node belongs to."""
        self.groups_seeing: dict[PoolId, list[int]] = {}
        self.fault: str | None = None
        """Why no pod can get devices at all."""

    def refresh(self, cluster: Cluster) -> None:
        """Read slices and nodes again if any of them changed. Touches by pods do not count."""
        nodes = cluster.nodes
        stamp = (
            cluster.tainted_slices.version,
            nodes.node_touches.end,
            nodes.node_set_version,
            nodes.height,
            id(nodes),
        )
        if stamp == self._stamp:
            return
        self._stamp = stamp
        self.version += 1
        self._read(cluster.tainted_slices.all())
        try:
            self.fault = None
            self._arrange(nodes)
        except BadSelector as fault:
            self.fault = f"gather pool information: {fault}"

    def _read(self, slices: Iterable[ResourceSlice]) -> None:
        """Take the published ResourceSlices. The views of slices that did not change are kept."""
        before, self._views = self._views, {}
        for published in slices:
            view = before.get(published.name)
            if view is None or view.slice is not published:
                view = view_of(published, self._likenesses)
            self._views[published.name] = view

    def _arrange(self, nodes: NodeTable) -> None:
        """Sort the rows into groups: by the shared slices that they see, and by name where a node has slices of its
        own."""
        # `whole` has all slices of a pool, also those that no node sees: the pool is complete only with them.
        relevant = [view for view in self._views.values() if self._is_understood(view)]
        whole: dict[PoolId, list[SliceView]] = {}
        for view in self._views.values():
            whole.setdefault(view.pool, []).append(view)
        local: dict[str, list[SliceView]] = {}
        shared = []
        for view in relevant:
            name = view.slice.spec.node_name
            if name:
                local.setdefault(name, []).append(view)
            else:
                shared.append(_Reach.of(view, nodes))
        able = self._able_rows(relevant, nodes)
        kinds = _kinds_of_rows(shared, able, nodes.height)
        self.group_of = np.zeros(nodes.height, np.intp)
        self.groups, kept, index_of = [], {}, dict[tuple[int, str], int]()
        for row in np.flatnonzero(nodes.alive[: nodes.height]).tolist():
            name = nodes.names[row] if nodes.names[row] in local else ""
            place = (int(kinds[row]), name)
            if place not in index_of:
                key, group = self._group(local.get(name, ()), shared, row, whole, bool(able[row]))
                kept[key] = group
                index_of[place] = len(self.groups)
                self.groups.append(group)
            self.group_of[row] = index_of[place]
        self._kept = kept
        self.groups_seeing = {}
        for index, group in enumerate(self.groups):
            for pool_id in group.pool_book:
                self.groups_seeing.setdefault(pool_id, []).append(index)

    def _group(
        self,
        local: Sequence[SliceView],
        shared: Sequence["_Reach"],
        row: int,
        whole: dict[PoolId, list[SliceView]],
        skips_operations: bool,
    ) -> tuple[tuple[object, ...], NodeGroup]:
        """Build the group of nodes that see the same devices as the node of the row. A known group is returned again, so that
        its results stay valid."""
        reached = [reach for reach in shared if reach.is_seen_from(row)]
        seen = [*local, *(reach.view for reach in reached)]
        hidden = frozenset(device_id for reach in reached for device_id, mask in reach.devices.items() if not mask[row])
        pools = {view.pool for view in seen}
        # Everything that the group is made of: a slice that changed has another serial.
        key = (
            tuple(view.serial for view in seen),
            hidden,
            tuple(view.serial for pool_id in sorted(pools) for view in whole[pool_id]),
            skips_operations,
        )
        known = self._kept.get(key)
        if known is None:
            gathered = gather_pools(seen, whole, self._features)
            known = NodeGroup(gathered, hidden, skips_operations)
        return key, known

    def _is_understood(self, view: SliceView) -> bool:
        """Whether the slice says which nodes it is for, by a feature that is on, and has no other feature that is off."""
        spec = view.slice.spec
        if not self._features.partitionable and (spec.per_device_node_selection is not None or spec.shared_counters):
            return False
        if view.has_groups and not self._features.compatibility_groups:
            return False
        return bool(
            spec.node_name or spec.all_nodes or spec.node_selector is not None or spec.per_device_node_selection
        )

    def _able_rows(self, views: Sequence[SliceView], nodes: NodeTable) -> Mask:
        """Mask of the rows whose kubelet can leave out calls of drivers. It is empty where no slice asks for that, so that
        nodes that differ in nothing else stay one group."""
        is_asked = any(view.slice.spec.skip_node_operations for view in views)
        if not self._features.optional_node_operations or not is_asked:
            return np.zeros(nodes.height, np.bool_)
        return declares_operations(nodes, slice(0, nodes.height))


class _Reach(msgspec.Struct, eq=False):
    """Which rows see a slice that is not tied to one node. None: all of them."""

    view: SliceView
    rows: Mask | None = None
    devices: dict[DeviceId, Mask] = msgspec.field(default_factory=dict)
    """The rows that each device is for, if the slice leaves that to its devices."""

    @classmethod
    def of(cls, view: SliceView, nodes: NodeTable) -> "_Reach":
        """Find the rows that can see a ResourceSlice: all rows, those that its node selector matches, or for each device
        those that the device names."""
        spec = view.slice.spec
        if spec.all_nodes:
            return cls(view)
        if spec.node_selector is not None:
            return cls(view, _matching(spec.node_selector, nodes, f"slice {view.slice.name}"))
        devices = {site.id: _device_rows(site.device, view, nodes) for site in view.sites}
        seen = np.zeros(nodes.height, np.bool_)
        for mask in devices.values():
            seen |= mask
        return cls(view, seen, devices)

    def is_seen_from(self, row: int) -> bool:
        return self.rows is None or bool(self.rows[row])


def _device_rows(device: Device, view: SliceView, nodes: NodeTable) -> Mask:
    """The rows that one device is for. A device that says nothing is for none."""
    if device.node_name:
        here: Mask = np.arange(nodes.height) == nodes.row_book.get(device.node_name, -1)
        return here
    if device.all_nodes or device.node_selector is None:
        return np.full(nodes.height, bool(device.all_nodes))
    return _matching(device.node_selector, nodes, f"device {device.name} in slice {view.slice.name}")


def _matching(selector: NodeSelector, nodes: NodeTable, what: str) -> Mask:
    """Mask of the rows that a node selector of a slice or device matches. Raises BadSelector with upstream's text if it does
    not parse."""
    matcher = compile_node_selector(selector)
    faults = matcher.faults()
    if faults:
        raise BadSelector(
            f"failed to perform node selection for {what}: failed to parse node selector: {aggregated(faults)}"
        )
    return match_nodes(nodes, matcher, slice(0, nodes.height))


def _kinds_of_rows(shared: Sequence[_Reach], able: Mask, height: int) -> NDArray[np.intp]:
    """A number for each row; rows that see the same slices and devices, and are able to do the same, have the same.

    | slice a   | slice b   | able      | kind    |
    | 1 1 0 0   | 1 1 1 0   | 0 0 0 0   | 2 2 1 0 |
    """
    masks = [mask for reach in shared if reach.rows is not None for mask in (reach.rows, *reach.devices.values())]
    if not height or not (masks or able.any()):
        return np.zeros(height, np.intp)
    masks.append(able)
    _, kinds = np.unique(np.array(masks), axis=1, return_inverse=True)
    return np.asarray(kinds, np.intp).reshape(height)


# ---- How many devices serve an extended resource on each node, and how many of them are taken: what the resource plugins
# score where the node itself has none of the resource.

Counts = NDArray[np.int64]


class DeviceTotals:
    """Counts for each class once, until slices, nodes or allocations change."""

    def __init__(self, groups: NodeGroups) -> None:
        self._groups = groups
        self._kept: dict[str, tuple[tuple[object, ...], Counts]] = {}
        """By name of the class, what the counts are for, and the counts: devices and taken devices, 2 x groups."""

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
        """Number of devices of a class, and of those that are taken, by group of nodes: 2 x groups. Counted again after
        slices, claims or the class changed."""
        stamp = (self._groups.version, ledger.log.end, id(device_class))
        kept = self._kept.get(device_class.name)
        if kept is None or kept[0] != stamp:
            counts = [count_devices(group, device_class, ledger) for group in self._groups.groups]
            kept = stamp, np.array(counts, np.int64).reshape(-1, 2).T
            self._kept = {**self._kept, device_class.name: kept} if len(self._kept) < MAX_CLASSES else {}
        return kept[1]


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
