"""Persistent volumes, claims, storage classes and the objects of CSI drivers, as far as a scheduler reads them."""

from msgspec import field

from mooring.kit.lazy import lazy
from mooring.model.meta import KubeObject, LabelSelector, ObjectMeta, Wire
from mooring.model.pod_spec import ClaimSpec, InTreeSources, NodeSelector, ResourceList
from mooring.model.quantity import QuantityText, parse, to_int
from mooring.model.selectors import NodeMatcher, compile_node_selector, without_fields

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
IMMEDIATE = "Immediate"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""Deprecated, but upstream still reads it before the field."""


def _class_name(metadata: ObjectMeta, written: str | None) -> str:
    """The storage class. Parity: the annotation wins over the field, even if it is empty."""
    annotations = metadata.annotations or {}
    return annotations.get(CLASS_ANNOTATION, written or "")


class ClaimReference(Wire):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class VolumeNodeAffinity(Wire):
    required: NodeSelector | None = None


def reach_of(affinity: VolumeNodeAffinity | None) -> NodeMatcher | None:
    """The nodes that a volume with this affinity can be used on; None for all nodes.

    Parity: upstream ignores matchFields here, so that a term with nothing else matches every node.
    """
    if affinity is None or affinity.required is None:
        return None
    return without_fields(compile_node_selector(affinity.required))


class CsiSource(Wire):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(InTreeSources):
    """A volume has exactly one source: CSI, or one of the in-tree sources."""

    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None


class PhaseStatus(Wire):
    phase: str = ""


class PersistentVolume(KubeObject, dict=True, gc=True):
    """A volume. Capacity and reach are computed once, because every attempt with delayed binding reads them."""

    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PhaseStatus = field(default_factory=PhaseStatus)

    @lazy
    def reach(self) -> NodeMatcher | None:
        """The nodes that can use the volume, by their labels; None for all nodes."""
        return reach_of(self.spec.node_affinity)

    @lazy
    def capacity_nano(self) -> int:
        return parse((self.spec.capacity or {}).get("storage", 0))

    @property
    def class_name(self) -> str:
        return _class_name(self.metadata, self.spec.storage_class_name)


class PersistentVolumeClaim(KubeObject):
    """A request for storage; it is bound when it names a volume and has the annotation of the controller."""

    spec: ClaimSpec = field(default_factory=ClaimSpec)
    status: PhaseStatus = field(default_factory=PhaseStatus)

    @property
    def request_nano(self) -> int:
        asked = (self.spec.resources.requests if self.spec.resources else None) or {}
        return parse(asked.get("storage", 0))

    @property
    def class_name(self) -> str:
        return _class_name(self.metadata, self.spec.storage_class_name)


class TopologyRequirement(Wire):
    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(KubeObject):
    """How volumes of a class are provisioned; with WaitForFirstConsumer the scheduler chooses the node first."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverAllocatable(Wire):
    count: int | None = None


class NodeDriver(Wire):
    """A CSI driver on a node; without allocatable it can attach any number of volumes."""

    name: str = ""
    allocatable: DriverAllocatable | None = None


class CSINodeSpec(Wire):
    drivers: list[NodeDriver] | None = None


class CSINode(KubeObject):
    """The CSI drivers on the node of the same name, and how many volumes each can attach there."""

    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class CSIDriverSpec(Wire):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(KubeObject):
    """Settings of a driver: whether it reports capacity, and whether pods wait for it on each node."""

    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(KubeObject):
    """How much storage of a class a driver can still provision in one topology segment of the cluster."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None

    @property
    def largest_volume_bytes(self) -> int | None:
        """The largest volume that the driver can provision, if it says so; maximumVolumeSize is more precise."""
        limit = self.maximum_volume_size if self.maximum_volume_size is not None else self.capacity
        return None if limit is None else to_int(parse(limit))


class AttachmentSource(Wire):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Wire):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = field(default_factory=AttachmentSource)


class VolumeAttachment(KubeObject):
    """A volume that is being attached to a node, which counts against the limit of the driver."""

    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)
