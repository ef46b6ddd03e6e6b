"""Spec and status of a pod, as far as a scheduler reads them. Names and meaning of the fields are upstream's core/v1."""

from typing import Protocol

from msgspec import field

from mooring.model.meta import Condition, LabelSelector, ObjectMeta, Requirement, Wire
from mooring.model.quantity import QuantityText

ResourceList = dict[str, QuantityText]

ALWAYS = "Always"
REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"
"""The names that all affinities have in JSON for their two lists."""


class ContainerClaim(Wire):
    """The entry of spec.resourceClaims whose devices the container uses."""

    name: str = ""


class ResourceRequirements(Wire):
    requests: ResourceList | None = None
    limits: ResourceList | None = None
    claims: list[ContainerClaim] | None = None


class ContainerPort(Wire):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class RestartRule(Wire):
    """Only validated; it affects no decision."""

    action: str = ""


class VolumeMount(Wire):
    """A volume in a container. Only options of its mount concern a scheduler: the kubelet must know them."""

    bind_mount_options: list[str] | None = None


class Container(Wire):
    """A container; an init container with restart policy Always is a sidecar, and runs beside the others."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    volume_mounts: list[VolumeMount] | None = None


class NodeSelectorTerm(Wire):
    """All requirements of a term must hold; one term of a selector is enough."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Wire):
    weight: int = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinitySpec(Wire):
    required: NodeSelector | None = field(default=None, name=REQUIRED_TERMS)
    preferred: list[PreferredSchedulingTerm] | None = field(default=None, name=PREFERRED_TERMS)


class PodAffinityTerm(Wire):
    """Pods that the selector selects, in these namespaces, on nodes with an equal label `topology_key`."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Wire):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(Wire):
    """podAffinity or podAntiAffinity: both have the same form."""

    required: list[PodAffinityTerm] | None = field(default=None, name=REQUIRED_TERMS)
    preferred: list[WeightedPodAffinityTerm] | None = field(default=None, name=PREFERRED_TERMS)


class Affinity(Wire):
    node_affinity: NodeAffinitySpec | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire, frozen=True):  # type: ignore[misc]  # mypy takes a Struct for a dataclass
    """Frozen, so that it can be a member of a set."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Wire):
    """Limits how unevenly matching pods spread over the values of the label `topology_key`."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class SchedulingGate(Wire):
    """While a pod has one, it is not scheduled."""

    name: str = ""


class SchedulingGroup(Wire):
    """The PodGroup, of the same namespace, that a pod is scheduled with."""

    pod_group_name: str = ""


class ClaimVolume(Wire):
    claim_name: str = ""
    read_only: bool = False


class ClaimSpec(Wire):
    """The storage that a PersistentVolumeClaim asks for. A storage class that is null means the default class, an empty one
    none."""

    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ClaimTemplate(Wire):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class EphemeralVolume(Wire):
    """A generic ephemeral volume. A controller creates its claim, which is named `<pod>-<volume>`."""

    volume_claim_template: ClaimTemplate | None = None


class ImageVolume(Wire):
    """An image that is mounted as a volume; ImageLocality counts it like the image of a container."""

    reference: str = ""


class CsiVolume(Wire):
    driver: str = ""


class GceDisk(Wire):
    pd_name: str = ""
    read_only: bool = False


class AzureDisk(Wire):
    disk_uri: str = field(default="", name="diskURI")


class VolumeById(Wire):
    """awsElasticBlockStore, cinder or portworxVolume: a scheduler reads only the id."""

    volume_id: str = field(default="", name="volumeID")


class IscsiVolume(Wire):
    iqn: str = ""
    read_only: bool = False


class RbdVolume(Wire):
    monitors: list[str] | None = None
    pool: str = ""
    image: str = ""
    read_only: bool = False


class OpaqueVolume(Wire):
    """azureFile or vsphereVolume: a scheduler reads only whether the volume has this source."""


class InTreeSources(Wire):
    """The sources that pods and persistent volumes share and that CSI drivers have replaced (model/volumes.py)."""

    gce_persistent_disk: GceDisk | None = None
    aws_elastic_block_store: VolumeById | None = None
    azure_disk: AzureDisk | None = None
    azure_file: OpaqueVolume | None = None
    cinder: VolumeById | None = None
    portworx_volume: VolumeById | None = None
    vsphere_volume: OpaqueVolume | None = None


class Volume(InTreeSources):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None
    csi: CsiVolume | None = None
    iscsi: IscsiVolume | None = None
    rbd: RbdVolume | None = None


class PodResourceClaim(Wire):
    """An entry of spec.resourceClaims of a pod or a pod group: names a claim, or a template that a controller creates a
    claim from."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Wire):
    """The fields that affect scheduling. `shape_of` must cover those that plugins read through the shape."""

    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    """Containers for debugging: nothing but what they need of the kubelet counts."""
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    overhead: ResourceList | None = None
    runtime_class_name: str | None = None
    resources: ResourceRequirements | None = None
    host_network: bool = False
    host_users: bool | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[PodResourceClaim] | None = None


class ContainerStatus(Wire):
    """The resources of a running container; they differ from its spec during a resize."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class PodClaimStatus(Wire):
    """The ResourceClaim that a controller created for an entry of spec.resourceClaims of a pod or a pod group; null if the
    entry needs none."""

    name: str = ""
    resource_claim_name: str | None = None


class RequestMapping(Wire):
    """Which request of the claim serves which extended resource of which container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedClaimStatus(Wire):
    """The claim that serves a pod's extended resources, and which request of it serves which container."""

    request_mappings: list[RequestMapping] | None = None
    resource_claim_name: str = ""


class MappedResource(Wire):
    """How much of a resource of the node the devices of a claim are."""

    name: str = ""
    quantity: QuantityText | None = None


class OverheadResource(Wire):
    """How much of a resource of the node it costs to use the devices of a claim."""

    name: str = ""
    per_pod: QuantityText | None = None
    per_container: QuantityText | None = None


class NodeAllocatableClaimStatus(Wire):
    """The amounts that devices of a claim take from the node's own resources, such as cpu, and the containers that use
    them."""

    resource_claim_name: str = ""
    containers: list[str] | None = None
    mapping: list[MappedResource] | None = None
    overhead: list[OverheadResource] | None = None


class PodStatus(Wire):
    """The part of a status that scheduling reads: phase, nomination, resources in force, and claims."""

    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: list[PodClaimStatus] | None = None
    extended_resource_claim_status: ExtendedClaimStatus | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableClaimStatus] | None = None


FINISHED_PHASES = ("Succeeded", "Failed")
"""Phases of pods that no longer hold resources of their node."""


class SpecAndStatus(Protocol):
    """The input of requests and of the shape. A Pod has both, and so does a PodShape, which stands for many pods."""

    spec: PodSpec
    status: PodStatus
