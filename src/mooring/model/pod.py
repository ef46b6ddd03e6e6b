"""Pod: metadata, spec and status, with the values that are computed from them once and shared.

Pods are replaced, not changed, when the cluster changes. Only the methods of Pod carry computed values from one form of a
pod to the next, because they know what each value depends on.
"""

import msgspec
from msgspec import field

from mooring.kit.lazy import lazy
from mooring.model.label_set import LabelSet, label_set_of
from mooring.model.meta import MAX_INT32, MIN_INT32, Condition, KubeObject, ObjectMeta, int32
from mooring.model.pod_spec import FINISHED_PHASES, ContainerStatus, NodeAllocatableClaimStatus, PodSpec, PodStatus
from mooring.model.requests import NO_STATUS, resize_status
from mooring.model.shape import PodShape, shape_annotations_of, shape_of, share

_replace = msgspec.structs.replace

_WORDS = {word: word for word in ("default-scheduler", "Pending", "Running", *FINISHED_PHASES)}
"""Words that nearly every pod has. Pods refer to these, because a text of its own takes 56 to 72 bytes."""


class Pod(KubeObject, dict=True, gc=True):
    """A pod. `shape` depends on its template alone and `label_set` on its namespace and labels; pods share both."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def priority(self) -> int:
        written = self.spec.priority
        if written is None or MIN_INT32 <= written <= MAX_INT32:  # Hot: without a call
            return written or 0
        return int32(written)

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        return self.status.phase in FINISHED_PHASES

    @property
    def is_resize_deferred(self) -> bool:
        """Whether the kubelet put a resize of the pod off, because its node has no room for it now. The first condition of
        the type counts."""
        pending = _pending_resizes(self.status)
        return bool(pending) and pending[0].reason == "Deferred"

    @property
    def group_key(self) -> str | None:
        """`namespace/name` of its PodGroup, or None. Hot: kept where there is one, because queue and gates ask for it some
        fifteen times a member; to make the text and its hash took 0.3 µs each time."""
        group = self.spec.scheduling_group
        if group is None or not group.pod_group_name:
            return None
        kept = self.__dict__
        found: str | None = kept.get("group_key")
        if found is None:
            found = kept["group_key"] = f"{self.metadata.namespace}/{group.pod_group_name}"
        return found

    @lazy
    def key(self) -> str:
        """`namespace/name`. Hot: kept, because it is asked for some ten times a pod, 0.2 µs each."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @lazy
    def id(self) -> str:
        """The key of the pod in caches and queues: its uid, or its name where a manifest has no uid. A pod that is deleted
        and created again under the same name is another pod."""
        return self.metadata.uid or self.key

    @lazy
    def shape(self) -> PodShape:
        shared = shared_spec_of(self)
        return _interned_shape(self) if shared is None else shared.shape_of(self)

    @lazy
    def label_set(self) -> LabelSet:
        """Pods of one label set share its namespace and labels too: with its own ones a pod takes 100 to 500 bytes more."""
        meta = self.metadata
        found = label_set_of(meta.namespace, meta.labels or {})
        meta.namespace = found.namespace
        labels = found.labels
        if meta.labels is not None and isinstance(labels, dict) and list(meta.labels) == list(labels):
            meta.labels = labels  # those in another order stay as they are written
        return found

    # ---- the next form of a pod

    def with_node(self, node_name: str) -> "Pod":
        """The pod as it looks on a node. Neither shape nor label set depends on the node."""
        pod = Pod(self.metadata, _replace(self.spec, node_name=node_name), self.status)
        pod.__dict__ = self.__dict__.copy()  # Hot: it takes 40 % less than to update an empty dictionary
        return pod

    def with_device_resources(self, taken: list[NodeAllocatableClaimStatus] | None) -> "Pod":
        """The pod whose devices take this from its node."""
        status = msgspec.structs.replace(self.status, node_allocatable_resource_claim_statuses=taken)
        return Pod(metadata=self.metadata, spec=self.spec, status=status)

    def with_status(self, status: PodStatus) -> "Pod":
        """The pod with another status. Its resources must be the same: the shape depends on them, and on nothing else in
        a status."""
        return self._next(Pod(metadata=self.metadata, spec=self.spec, status=status))

    def with_version(self, resource_version: str) -> "Pod":
        metadata = msgspec.structs.replace(self.metadata, resource_version=resource_version)
        return self._next(Pod(metadata=metadata, spec=self.spec, status=self.status))

    def with_name(self, name: str, uid: str) -> "Pod":
        """Another pod with the same labels, spec and status, which shares shape and label set (they are computed now)."""
        metadata = msgspec.structs.replace(self.metadata, name=name, uid=uid)
        other = Pod(metadata=metadata, spec=self.spec, status=self.status)
        other.__dict__.update(shape=self.shape, label_set=self.label_set)
        return other

    def inherit(self, old: "Pod") -> None:
        """Take the spec, the shape and the label set from an older form of this pod, as far as the change leaves them.

        Hot: most events change the status only. Measured over 5,000 pods with their shapes: 14 µs an event of 3.7 KB,
        and 26 µs without this; shared specs save memory too. Comparing the raw bytes of specs instead was slower,
        because each part of an object then has to be decoded separately.
        """
        node_name = self.spec.node_name
        self.spec.node_name = old.spec.node_name  # binding changes nothing else in a spec, so compare without it
        is_same = self.spec == old.spec
        self.spec.node_name = node_name
        if not is_same:
            return
        if node_name == old.spec.node_name:
            self.spec = old.spec
        else:
            share(self.spec, old.spec)
        if _hold_the_same(self.status, old.status):
            old._next(self)
            if self.metadata.labels != old.metadata.labels:
                # Binding can add labels (topology labels of the node); no other computed value depends on them.
                self.__dict__.pop("label_set", None)
            before, after = old.metadata.annotations, self.metadata.annotations
            if before != after and shape_annotations_of(before) != shape_annotations_of(after):
                self.__dict__.pop("shape", None)

    def _next(self, pod: "Pod") -> "Pod":
        """Give `pod` all values that are computed so far."""
        pod.__dict__.update(self.__dict__)
        return pod


def shared_spec_of(pod: Pod) -> "SharedSpec | None":
    """The spec that a pod has in common with other pods, if that is known."""
    return pod.__dict__.get("shared_spec")


def _interned_shape(pod: Pod) -> PodShape:
    spec, status = pod.spec, pod.status
    spec.scheduler_name = _WORDS.get(spec.scheduler_name, spec.scheduler_name)
    status.phase = _WORDS.get(status.phase, status.phase)
    return shape_of(pod, pod.metadata.annotations)


class SharedSpec:
    """A spec that the pods of one template have in common, all but the node, with what follows from it.

    Hot: of 200,000 pods of 200 templates, each spec is decoded, checked and encoded for its shape once.
    """

    __slots__ = ("_shape", "_spec", "is_sound")

    def __init__(self, spec: PodSpec) -> None:
        self._spec = spec
        self._shape: PodShape | None = None
        """The shape of the pods with nothing in their status and annotations that shapes depend on."""
        self.is_sound = False
        """Whether validation has found that the spec has no problem."""

    def pod(self, metadata: ObjectMeta, node_name: str, status: PodStatus) -> Pod:
        """The pod with this spec on a node. It refers to the parts of the spec, which nothing changes in place."""
        status.phase = _WORDS.get(status.phase, status.phase)
        pod = Pod(metadata, _replace(self._spec, node_name=node_name), status)
        pod.__dict__["shared_spec"] = self
        return pod

    def shape_of(self, pod: Pod) -> PodShape:
        """The shape of a pod that has this spec."""
        if shape_annotations_of(pod.metadata.annotations) or resize_status(pod.status) is not NO_STATUS:
            return _interned_shape(pod)
        if self._shape is None:
            self._shape = _interned_shape(pod)
        else:
            share(pod.spec, self._shape.spec)
        return self._shape


def _hold_the_same(one: PodStatus, other: PodStatus) -> bool:
    """Whether two statuses agree in what the shape depends on: resources in force, a resize that is pending, what devices
    take."""
    return (
        one.resources == other.resources
        and one.allocated_resources == other.allocated_resources
        and one.node_allocatable_resource_claim_statuses == other.node_allocatable_resource_claim_statuses
        and _resources_in_force(one) == _resources_in_force(other)
        and _pending_resizes(one) == _pending_resizes(other)
    )


def _resources_in_force(status: PodStatus) -> list[ContainerStatus]:
    if status.container_statuses is None and status.init_container_statuses is None:
        return []
    containers = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return [c for c in containers if c.resources is not None or c.allocated_resources is not None]


def _pending_resizes(status: PodStatus) -> list[Condition]:
    return [condition for condition in status.conditions or () if condition.type == "PodResizePending"]


def without_nomination(pod: Pod) -> Pod:
    """The pod as it is if no node is promised to it."""
    return pod.with_status(_replace(pod.status, nominated_node_name=""))
