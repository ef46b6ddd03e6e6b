"""The cluster that decisions are made on: the node table, and the other objects that plugins look up."""

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import msgspec

from mooring.api.kinds import WATCHED
from mooring.cluster.change_log import ChangeLog
from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.cluster.claims.device_objects import ServingClasses, TaintedSlices
from mooring.cluster.claims.storage_view import StorageView
from mooring.cluster.claims.volumes_on_nodes import VolumesOnNodes
from mooring.cluster.nodes.float_columns import FloatColumns
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.cluster.pods.pod_groups import GroupName, GroupTree, PodGroups, name_of
from mooring.model import devices
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec
from mooring.model.workloads import AnyPodGroup, CompositePodGroup, Namespace, PodGroup

# ---- Pods without the fields that a scheduler does not read, because the feature gate of a field is off.


class CountedPods:
    """Which fields of pods count, by the feature gates of the cluster.

    Upstream asks for the gate wherever it reads such a field. Here the field is taken off once, when a pod comes in: a
    shape then has nothing that depends on gates.
    """

    def __init__(self, gates: Mapping[str, bool]) -> None:
        """Gates that are not named have their defaults."""
        self._has_devices = gates.get("DRANodeAllocatableResources", False)
        self._has_pod_level = gates.get("PodLevelResources", True)
        self._resizes_pods = self._has_pod_level and gates.get("InPlacePodLevelResourcesVerticalScaling", True)
        self._has_label_keys = gates.get("MatchLabelKeysInPodTopologySpread", True)
        self._reads_all_specs = self._has_pod_level and self._has_label_keys

    def counted(self, pod: Pod) -> Pod:
        """The pod without what does not count; the pod itself where everything does."""
        if not self._has_devices and pod.status.node_allocatable_resource_claim_statuses is not None:
            pod = pod.with_device_resources(None)
        if not self._reads_all_specs:
            spec = self._counted_spec(pod.spec)
            pod = pod if spec is pod.spec else Pod(pod.metadata, spec, pod.status)
        if not self._resizes_pods and pod.status.resources is not None:
            status = msgspec.structs.replace(pod.status, resources=None, allocated_resources=None)
            pod = Pod(pod.metadata, pod.spec, status)
        return pod

    def _counted_spec(self, spec: PodSpec) -> PodSpec:
        """Spec without the fields whose feature gates are off: resources of the whole pod, and matchLabelKeys of spread
        constraints."""
        if not self._has_pod_level and spec.resources is not None:
            spec = msgspec.structs.replace(spec, resources=None)
        constraints = spec.topology_spread_constraints or ()
        if not self._has_label_keys and any(constraint.match_label_keys for constraint in constraints):
            plain = [msgspec.structs.replace(constraint, match_label_keys=None) for constraint in constraints]
            spec = msgspec.structs.replace(spec, topology_spread_constraints=plain)
        return spec


NO_LABELS: Mapping[str, str] = {}
"""The labels of a namespace that is not known."""


class Cluster:
    """State that an attempt reads. Pods without a node are not in it: they are in the queue."""

    def __init__(self, gates: Mapping[str, bool] | None = None) -> None:
        """`gates`: feature gates by name; one that is not named is off."""
        self.gates = gates or {}
        self.as_counted = CountedPods(self.gates).counted
        """Takes off a pod what does not count with these gates; every pod that comes in passes it."""
        self.nodes = NodeTable()
        self.nominated = NominatedLoad(self.nodes)
        """Pods that are promised a node: those of the same or a higher priority must still fit there."""
        self.objects: dict[type[KubeObject], dict[str, KubeObject]] = {
            spec.struct: {} for spec in WATCHED if spec.struct not in (Node, Pod)
        }
        """Objects that plugins look up, by kind and key. All watched kinds are here, except nodes and pods, which are in the
        node table."""
        if not self.gates.get("DRADeviceTaintRules", False):
            del self.objects[devices.DeviceTaintRule]  # manifests may have some: they taint nothing
        self.storage = StorageView(self.objects)
        self._volumes = VolumesOnNodes(self.storage, self.nodes)
        """This and the next follow one node table; in a fork they are made anew when first asked for."""
        self._floats = FloatColumns(self.nodes)
        self.claims = ClaimLedger(
            cast("dict[str, devices.ResourceClaim]", self.objects[devices.ResourceClaim]),
            self.gates.get("DRAWorkloadResourceClaims", False),
        )
        self.claims.on_devices = self.nodes.touch_totals
        self.serving_classes = ServingClasses()
        self.tainted_slices = TaintedSlices(
            cast("dict[str, devices.ResourceSlice]", self.objects[devices.ResourceSlice])
        )
        self.queues_resizes = self.gates.get("InPlacePodVerticalScalingSchedulerPreemption", False)
        """Whether pods on nodes are queued whose resize was deferred, so that room is made for them there."""
        self.groups = PodGroups() if self.gates.get("GenericWorkload", False) else None
        """The members of pod groups; None: pods are scheduled one by one, whatever group they name."""
        self.group_tree = GroupTree(
            self.objects[PodGroup], self.objects[CompositePodGroup], self.gates.get("CompositePodGroup", False)
        )
        self.group_changes: ChangeLog[GroupName] = ChangeLog()
        """Groups that came, changed or went."""
        self.namespace_labels: dict[str, Mapping[str, str]] = {}
        self.versions: dict[type[KubeObject], int] = dict.fromkeys(self.objects, 0)
        """Grows with each change of a kind: code that keeps what follows from its objects can tell that it is void."""

    def is_resize(self, pod: Pod) -> bool:
        """Whether the pod is scheduled for a resize that its kubelet deferred: it runs, and room may be made on its node."""
        return self.queues_resizes and pod.is_resize_deferred

    def fill(self, pods: Iterable[Pod]) -> None:
        """Place pods on the nodes that their specs name, as `put` does one by one; those that have finished are left out."""
        self.nodes.fill([self.as_counted(pod) for pod in pods if not pod.is_finished])

    def put(self, item: KubeObject) -> None:
        """Add or replace a node or one of the other objects; a pod that has a node is placed there."""
        if isinstance(item, Node):
            self.nodes.put_node(item)
        elif isinstance(item, Pod):
            if item.spec.node_name and not item.is_finished:
                self.nodes.place(self.as_counted(item), item.spec.node_name)
        elif type(item) in self.objects:
            before = self.objects[type(item)].get(item.key)
            self.objects[type(item)][item.key] = item
            self.versions[type(item)] += 1
            self.storage.changed(type(item), item.key)
            if isinstance(item, Namespace):
                self.namespace_labels[item.name] = item.labels
            elif isinstance(item, AnyPodGroup):
                self._group_changed(cast("AnyPodGroup | None", before), item)
            elif isinstance(item, devices.ResourceClaim):
                self.claims.changed(item.key)
            elif isinstance(item, devices.DeviceClass):
                self._class_changed(cast("devices.DeviceClass | None", before), item)
            elif isinstance(item, devices.ResourceSlice):
                self._slice_changed(item.key)
            elif isinstance(item, devices.DeviceTaintRule):
                self.tainted_slices.rule_changed(cast("devices.DeviceTaintRule | None", before), item)

    def remove(self, kind: type[KubeObject], key: str) -> None:
        """Remove one of the other objects; nothing happens when it is not there."""
        item = self.objects.get(kind, {}).pop(key, None)
        if item is not None:
            self.versions[kind] += 1
            self.storage.changed(kind, key)
            if kind is Namespace:
                del self.namespace_labels[key]
            elif isinstance(item, AnyPodGroup):
                self._group_changed(item, None)
            elif kind is devices.ResourceClaim:
                self.claims.changed(key)
            elif isinstance(item, devices.DeviceClass):
                self._class_changed(item, None)
            elif kind is devices.ResourceSlice:
                self._slice_changed(key)
            elif isinstance(item, devices.DeviceTaintRule):
                self.tainted_slices.rule_changed(item, None)

    def _group_changed(self, old: AnyPodGroup | None, new: AnyPodGroup | None) -> None:
        self.group_tree.changed(old, new)
        self.group_changes.note(name_of(cast(AnyPodGroup, new or old)))

    def _class_changed(self, old: devices.DeviceClass | None, new: devices.DeviceClass | None) -> None:
        """Which nodes can serve a resource depends on its device class. No single row can be named, so kept answers
        about all rows become void."""
        if self.serving_classes.changed(old, new):
            self.nodes.touch_all()

    def follow_devices(self) -> None:
        """From now on kept answers that read the sums of nodes become void when devices come, go or change hands.

        For profiles that score resources which devices serve; the others do not pay for it. A fork has the ledger of the
        cluster that it was made from, whose answers are kept.
        """
        self.claims.is_followed = True

    def _slice_changed(self, key: str) -> None:
        self.tainted_slices.slice_changed(key)
        if self.claims.is_followed:
            self.claims.on_devices()

    def labels_of_namespace(self, name: str) -> Mapping[str, str]:
        """Empty for a namespace that is not known, as in upstream's GetNamespaceLabelsSnapshot."""
        return self.namespace_labels.get(name, NO_LABELS)

    def pod_group(self, key: str) -> PodGroup | None:
        """The PodGroup of this namespace and name; None while it does not exist."""
        return cast("PodGroup | None", self.objects[PodGroup].get(key))

    def in_namespace(self, kind: type[KubeObject], namespace: str) -> Iterable[KubeObject]:
        """All objects of a kind in a namespace. A pass over all objects: for kinds of which there are few."""
        return (item for item in self.objects[kind].values() if item.namespace == namespace)

    def volumes_on_nodes(self) -> VolumesOnNodes:
        """The volumes that the pods of each node use, as of now."""
        if self._volumes.nodes is not self.nodes:
            self._volumes = VolumesOnNodes(self.storage, self.nodes)
        self._volumes.refresh()
        return self._volumes

    def float_columns(self) -> FloatColumns:
        """The amounts of the node table as floats, as of now."""
        if self._floats.nodes is not self.nodes:
            self._floats = FloatColumns(self.nodes)
        floats, nodes = self._floats, self.nodes
        if floats.position != nodes.touches.end or floats.version != nodes.amounts.resources_version:
            floats.refresh()  # Hot: two more plugins ask in a decision
        return floats

    def refresh_volumes_in_steps(self) -> Iterator[None]:
        """Bring the volumes of nodes up to date row by row: for the first time it takes long."""
        return self._volumes.refresh_in_steps()

    def make_columns_anew(self) -> None:
        """Drop the columns that follow the table: a fault was found. They are made again when they are next read."""
        self._floats = FloatColumns(self.nodes)
        self._volumes = VolumesOnNodes(self.storage, self.nodes)

    def take_apart(self) -> Iterator[None]:
        """Let go of everything, part by part. The cluster cannot be used any more, but its memory is free."""
        nodes = self.nodes
        columns = nodes.tallies, nodes.labels, nodes.images, nodes.ports, nodes.amounts, nodes.order
        for part in (*columns, nodes, self.storage, self.claims, self._volumes, self._floats, self):
            vars(part).clear()
            yield

    def fork(self) -> "Cluster":
        """A copy for a what-if about pods. Only the node table is copied: the other objects are shared, and must not
        change."""
        other: Cluster = object.__new__(Cluster)
        other.__dict__.update(self.__dict__)
        other.nodes = self.nodes.fork()
        return other


def object_in(cluster: Cluster, kind: type[KubeObject], key: str) -> KubeObject | None:
    """The object of any kind but pods with this key; None if the cluster has none."""
    if kind is Node:
        row = cluster.nodes.row_book.get(key)
        return None if row is None else cluster.nodes.nodes[row]
    return cluster.objects[kind].get(key)
