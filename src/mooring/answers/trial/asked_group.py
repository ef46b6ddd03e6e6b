"""A pod group that a question is about: its PodGroup, and its pods with and without nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from mooring.cluster.pods.pod_groups import gang_minimum
from mooring.framework.config.feature_gates import with_defaults
from mooring.inputs.input_errors import NoSuchPod
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import alike, some
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod
from mooring.model.workloads import GangPolicy, PodGroup

_OFF = (
    "the feature gate GenericWorkload is off, so that pods are scheduled one by one; "
    "add --feature-gates GenericWorkload=true,GangScheduling=true"
)


def has_groups(gates: Mapping[str, bool] | None) -> bool:
    """Whether the scheduler attempts the pods of a group together."""
    return with_defaults(gates)["GenericWorkload"]


@dataclass(frozen=True, slots=True)
class AskedGroup:
    """One group, as the cluster has it."""

    key: str
    declared: PodGroup | None
    """None: pods name the group, but there is no such object."""
    pending: Sequence[Pod] = field(default=(), repr=False)
    placed: Sequence[Pod] = field(default=(), repr=False)
    gates: Mapping[str, bool] = field(default_factory=dict, repr=False)

    @property
    def is_all_or_nothing(self) -> bool:
        """Whether it is a gang, and the scheduler heeds that."""
        return gang_minimum(self.declared, self.gates) is not None

    @property
    def min_count(self) -> int:
        """How many pods must fit before any of them goes: 1 if the group is no gang."""
        return gang_minimum(self.declared, self.gates) or 1

    @property
    def needed(self) -> int:
        """How many pods have to be on nodes for the group to count as placed: the minimum of a gang, else all."""
        return self.min_count if self.is_all_or_nothing else self.member_count

    @property
    def member_count(self) -> int:
        return len(self.pending) + len(self.placed)

    @property
    def is_placed(self) -> bool:
        """Whether enough pods run already."""
        return self.declared is not None and len(self.placed) >= max(self.needed, 1)

    def with_min_count(self, number: int) -> PodGroup:
        """The PodGroup with another minimum."""
        assert self.declared is not None
        policy = msgspec.structs.replace(self.declared.spec.scheduling_policy, gang=GangPolicy(number))
        spec = msgspec.structs.replace(self.declared.spec, scheduling_policy=policy)
        changed: PodGroup = msgspec.structs.replace(self.declared, spec=spec)
        return changed

    def with_pods(self, forms: Mapping[str, Pod]) -> "AskedGroup":
        """The group with other forms of some of its pods, by key."""
        return replace(self, pending=[forms.get(pod.key, pod) for pod in self.pending])


def asked_group(loaded: LoadedCluster, key: str) -> AskedGroup:
    """The group with this `namespace/name`."""
    declared = next((item for item in loaded.objects if isinstance(item, PodGroup) and item.key == key), None)
    pods = [pod for pod in loaded.pods() if pod.group_key == key]
    return AskedGroup(
        key,
        declared,
        [pod for pod in pods if not pod.spec.node_name],
        [pod for pod in pods if pod.spec.node_name],
        with_defaults(loaded.gates),
    )


def group_of(loaded: LoadedCluster, pod: Pod) -> AskedGroup | None:
    """The group that the scheduler attempts a pending pod with; None if it attempts the pod alone."""
    if pod.group_key is None or pod.spec.node_name or not has_groups(loaded.gates):
        return None
    return asked_group(loaded, pod.group_key)


def group_named(loaded: LoadedCluster, name: str, namespace: str = "") -> AskedGroup:
    """The group with this name. Raises NoSuchPod if it is not there, with similar names, or if groups are off."""
    if not has_groups(loaded.gates):
        raise NoSuchPod(f"PodGroup {name!r} cannot be explained: {_OFF}")
    keys = {item.key for item in loaded.objects if isinstance(item, PodGroup)}
    keys |= {pod.group_key for pod in loaded.pods() if pod.group_key is not None}
    wanted = f"{namespace}/{name}" if namespace and "/" not in name else name
    found = sorted(key for key in keys if wanted in (key, key.rpartition("/")[2]))
    if len(found) > 1:
        raise NoSuchPod(f"PodGroup {name!r} could be any of {some(found, 5)}: add its namespace")
    if not found:
        raise NoSuchPod(f"no PodGroup {wanted!r} among {len(keys)} groups{alike(wanted, _named(keys))}")
    return asked_group(loaded, found[0])


def _named(keys: set[str]) -> list[KubeObject]:
    split = [key.rpartition("/") for key in sorted(keys)]
    return [KubeObject(metadata=ObjectMeta(name=name, namespace=namespace)) for namespace, _, name in split]


def kind_of(pod: Pod) -> tuple[object, ...]:
    """What pods of a group have in common that are rejected for the same reason."""
    return pod.shape, pod.label_set, pod.priority
