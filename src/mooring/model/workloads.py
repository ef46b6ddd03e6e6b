"""Kinds beside Pod and Node that affect a decision: namespaces, owners of pods, priorities, budgets, pod groups.

ReplicaSets, StatefulSets, ReplicationControllers and Services are here for their selectors: default spread constraints
use them.
"""

from msgspec import field

from mooring.model.meta import Condition, KubeObject, LabelSelector, ObjectMeta, Wire, int32
from mooring.model.pod_spec import PodClaimStatus, PodResourceClaim, PodSpec, ResourceList, Toleration
from mooring.model.storage import PersistentVolumeClaim


class Namespace(KubeObject):
    """Only its labels are read, by namespace selectors."""


class SelectorMapSpec(Wire):
    """A spec whose selector is a plain map: Service and ReplicationController."""

    selector: dict[str, str] | None = None


class Service(KubeObject):
    spec: SelectorMapSpec = field(default_factory=SelectorMapSpec)


class ReplicationController(KubeObject):
    spec: SelectorMapSpec = field(default_factory=SelectorMapSpec)


class LabelSelectorSpec(Wire):
    """A spec whose selector is a label selector: ReplicaSet and StatefulSet."""

    selector: LabelSelector | None = None


class ReplicaSet(KubeObject):
    spec: LabelSelectorSpec = field(default_factory=LabelSelectorSpec)


class StatefulSet(KubeObject):
    spec: LabelSelectorSpec = field(default_factory=LabelSelectorSpec)


PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The priority classes that every API server creates, with their values."""


class PriorityClass(KubeObject):
    """Admission copies value and policy into pods; the scheduler reads only the pods."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class DisruptionBudgetSpec(Wire):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class DisruptionBudgetStatus(Wire):
    """disruptions_allowed is what preemption respects; a pod in disrupted_pods is already counted as evicted."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None
    conditions: list[Condition] | None = None


class PodDisruptionBudget(KubeObject):
    spec: DisruptionBudgetSpec = field(default_factory=DisruptionBudgetSpec)
    status: DisruptionBudgetStatus = field(default_factory=DisruptionBudgetStatus)


class GangPolicy(Wire):
    """All or nothing: the scheduler places no pod of the group before it can place `min_count` of them."""

    min_count: int = 0


class BasicPolicy(Wire):
    """The scheduler places the pods of the group independently."""


class GroupPolicy(Wire):
    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class GroupTopology(Wire):
    """All pods of the group go to nodes with one value of this label."""

    key: str = ""


class GroupConstraints(Wire):
    """Only with the gate TopologyAwareWorkloadScheduling. Parity: the API accepts at most one entry."""

    topology: list[GroupTopology] | None = None


class NoSettings(Wire):
    """The content of a mode without settings: `{}`."""


class DisruptionMode(Wire):
    """How preemption may evict the pods of a group: one of the two is set. A group without a mode is `single`."""

    single: NoSettings | None = None
    """Each pod may be evicted alone."""
    together: NoSettings | None = field(default=None, name="all")
    """All pods of the group are evicted, on all nodes, or none of them."""


class WorkloadReference(Wire):
    """The template of a Workload that a group was made from. No decision reads it."""

    workload_name: str = ""
    template_name: str = ""


class GroupTerms(Wire):
    """The fields that PodGroups, CompositePodGroups and their templates have in common."""

    scheduling_constraints: GroupConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    """Only with the gate PodGroupPreemptionPolicy."""


class AnyGroupSpec(GroupTerms):
    """The common part of the specs of PodGroups and CompositePodGroups."""

    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None
    """Only with the gate CompositePodGroup: the CompositePodGroup of the same namespace that the group is part of."""


class PodGroupSpec(AnyGroupSpec):
    """Spec of a PodGroup: how many pods must be placed together, and within which topology domain."""

    scheduling_policy: GroupPolicy = field(default_factory=GroupPolicy)
    resource_claims: list[PodResourceClaim] | None = None
    """Only with the gate DRAWorkloadResourceClaims: claims that the pods of the group share. Pods name the same claim or
    template by the same name."""


class CompositeGangPolicy(Wire):
    """All or nothing: no pod is placed before `min_group_count` of the groups fit."""

    min_group_count: int = 0


class CompositeGroupPolicy(Wire):
    basic: BasicPolicy | None = None
    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(AnyGroupSpec):
    """Spec of a CompositePodGroup: how many of its groups must be placed together, and within which topology domain."""

    scheduling_policy: CompositeGroupPolicy = field(default_factory=CompositeGroupPolicy)


class CompositePodGroupStatus(Wire):
    conditions: list[Condition] | None = None


class PodGroupStatus(Wire):
    conditions: list[Condition] | None = None
    resource_claim_statuses: list[PodClaimStatus] | None = None


class AnyPodGroup(KubeObject):
    """The common part of PodGroups and CompositePodGroups."""

    spec: AnyGroupSpec = field(default_factory=AnyGroupSpec)

    @property
    def priority(self) -> int:
        """The priority of the group as one, whatever the priorities of its pods."""
        written = self.spec.priority
        return 0 if written is None else int32(written)

    @property
    def topology_key(self) -> str | None:
        """The label whose values are the domains, one of which holds all pods; None: the pods may go anywhere. Parity: the
        API accepts one label."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else None

    @property
    def is_disrupted_together(self) -> bool:
        """Whether preemption evicts all pods of the group or none of them."""
        mode = self.spec.disruption_mode
        return mode is not None and mode.together is not None

    @property
    def parent_key(self) -> str | None:
        """`namespace/name` of the CompositePodGroup that the group is part of; None: it names none."""
        parent = self.spec.parent_composite_pod_group_name
        return None if parent is None else f"{self.namespace}/{parent}"


class PodGroup(AnyPodGroup):
    """A group of pods that are scheduled together: the pods whose `schedulingGroup` names it."""

    spec: PodGroupSpec = field(default_factory=PodGroupSpec)
    status: PodGroupStatus = field(default_factory=PodGroupStatus)

    @property
    def min_count(self) -> int:
        """How many pods must fit before any of them goes; 1 for the basic policy."""
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_count


class CompositePodGroup(AnyPodGroup):
    """A group of PodGroups and CompositePodGroups that are scheduled together: those that name it as their parent."""

    spec: CompositePodGroupSpec = field(default_factory=CompositePodGroupSpec)
    status: CompositePodGroupStatus = field(default_factory=CompositePodGroupStatus)

    @property
    def min_count(self) -> int:
        """How many of its groups must fit before any of them goes; 1 for the basic policy."""
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_group_count


class LimitRangeItem(Wire):
    type: str = ""
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    min: ResourceList | None = None
    max: ResourceList | None = None


class LimitRangeSpec(Wire):
    limits: list[LimitRangeItem] | None = None


class LimitRange(KubeObject):
    """Default requests and limits of containers in a namespace; only admission reads it."""

    spec: LimitRangeSpec = field(default_factory=LimitRangeSpec)


class RuntimeOverhead(Wire):
    pod_fixed: ResourceList | None = None


class RuntimeScheduling(Wire):
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(KubeObject):
    """Overhead and placement of pods that name a container runtime; only admission reads it."""

    overhead: RuntimeOverhead | None = None
    scheduling: RuntimeScheduling | None = None


class PodTemplate(Wire):
    """The metadata and spec of the pods that a workload creates."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)


class Ordinals(Wire):
    """The first number of the pods of a StatefulSet."""

    start: int = 0


class WorkloadSpec(Wire):
    """The union of what workloads have: replicas, or the counts of a Job, or the claim templates of a StatefulSet."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    ordinals: Ordinals | None = None
    selector: LabelSelector | None = None
    template: PodTemplate = field(default_factory=PodTemplate)
    volume_claim_templates: list[PersistentVolumeClaim] | None = None


class WorkloadStatus(Wire):
    succeeded: int = 0
    conditions: list[Condition] | None = None


class Workload(KubeObject):
    """Any kind with a pod template. Only simulations read it: they have no controllers, and create the pods themselves."""

    kind: str = ""
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)
