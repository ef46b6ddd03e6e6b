"""Rules about volumes, claims and the pods that use them, on typed objects: how they refer to each other, which annotations
bind them, which zones a volume is in, and which disks cannot be used by two pods on a node.
"""

from collections.abc import Sequence

import msgspec

from mooring.model.meta import Requirement
from mooring.model.names import BETA_REGION, BETA_ZONE, REGION, ZONE
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm, Volume
from mooring.model.storage import (
    ClaimReference,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"

LOST = "Lost"
FILESYSTEM = "Filesystem"


class ClaimName(msgspec.Struct, frozen=True):
    """A claim that a pod uses. The claim of an ephemeral volume is named after pod and volume, and the pod must own it."""

    name: str
    is_ephemeral: bool = False


def claim_names(pod: Pod) -> list[ClaimName]:
    """The claims that a pod uses, in the order of its volumes."""
    names = []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            names.append(ClaimName(volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            names.append(ClaimName(f"{pod.name}-{volume.name}", is_ephemeral=True))
    return names


def named_claims(pod: Pod) -> list[str]:
    """The names of the claims that the pod's spec names: not those of ephemeral volumes, which end with the pod."""
    return [v.persistent_volume_claim.claim_name for v in pod.spec.volumes or () if v.persistent_volume_claim]


def ownership_fault(claim: PersistentVolumeClaim, pod: Pod) -> str | None:
    """Why a claim cannot serve an ephemeral volume of the pod, in upstream's words; None if the pod owns the claim.

    A claim of the same name that a user created holds other data, and must not be used by accident.
    """
    owner = claim.controller()
    if claim.namespace == pod.namespace and owner is not None and owner.uid == pod.uid:
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    """The node that the scheduler chose for a claim with delayed binding; the provisioner makes the volume for it."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


def is_kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for this claim. A reference without uid means any claim of that name."""
    held = volume.spec.claim_ref
    named = held is not None and (held.namespace, held.name) == (claim.namespace, claim.name)
    return held is not None and named and held.uid in ("", claim.uid)


def is_large_enough(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.capacity_nano >= claim.request_nano


def is_of_kind(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether volume mode and VolumeAttributesClass are those that the claim asks for; both have defaults."""
    spec, asked = volume.spec, claim.spec
    same_mode = (spec.volume_mode or FILESYSTEM) == (asked.volume_mode or FILESYSTEM)
    return same_mode and (spec.volume_attributes_class_name or "") == (asked.volume_attributes_class_name or "")


def kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with a reference to the claim; the same object if it already has it, so that callers write nothing."""
    held = volume.spec.claim_ref
    spec, metadata = volume.spec, volume.metadata
    if held is None or (held.namespace, held.name, held.uid) != (claim.namespace, claim.name, claim.uid):
        spec = msgspec.structs.replace(spec, claim_ref=reference_to(claim))
    annotations = metadata.annotations or {}
    if not is_kept_for(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        metadata = msgspec.structs.replace(metadata, annotations={**annotations, BOUND_BY_CONTROLLER: "yes"})
    if spec is volume.spec and metadata is volume.metadata:
        return volume
    kept = PersistentVolume(metadata=metadata, spec=spec, status=volume.status)
    kept.__dict__.update(volume.__dict__)  # the computed values (capacity, reach) do not depend on the claim
    return kept


def reference_to(claim: PersistentVolumeClaim) -> ClaimReference:
    return ClaimReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        resource_version=claim.metadata.resource_version or "",
    )


def made_for(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim with the annotation for the provisioner: the node that the volume must be usable on."""
    annotations = {**(claim.metadata.annotations or {}), SELECTED_NODE: node_name}
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return PersistentVolumeClaim(metadata=metadata, spec=claim.spec, status=claim.status)


# ---- zones
SUCCESSORS = {BETA_ZONE: ZONE, BETA_REGION: REGION}
"""The present name of each deprecated label; nodes and volumes may have either."""

DELIMITER = "__"
"""Separates the zones in the label of a volume that is in several."""

TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)

ZoneRule = tuple[str, frozenset[str]]
"""A label, and the values that a node may have for it."""


def zone_rules(volume: PersistentVolume) -> list[ZoneRule]:
    """The labels that a volume requires of nodes by its topology labels. A label with an empty element requires nothing, as
    upstream ignores a label that it cannot parse."""
    rules = []
    for key in TOPOLOGY_LABELS:
        if key in volume.labels:
            values = frozenset(value.strip() for value in volume.labels[key].split(DELIMITER))
            if "" not in values:
                rules.append((key, values))
    return rules


# ---- disks that pods name without a claim


def disks_of(pod: Pod) -> list[Volume]:
    """The volumes of a pod over which two pods on a node may conflict. Upstream's VolumeRestrictions knows four kinds."""
    return [
        volume
        for volume in pod.spec.volumes or ()
        if volume.gce_persistent_disk or volume.aws_elastic_block_store or volume.rbd or volume.iscsi
    ]


def collide(one: Volume, other: Volume) -> bool:
    """Whether both are the same disk and cannot be mounted by two pods on one node.

    | kind    | the same when                                      | side by side when read only |
    | GCE PD  | same name                                          | yes |
    | AWS EBS | same id                                            | no  |
    | iSCSI   | same target                                        | yes |
    | RBD     | same pool and image, and a monitor in common       | yes |
    """
    gce, ebs, iscsi, rbd = one.gce_persistent_disk, one.aws_elastic_block_store, one.iscsi, one.rbd
    disk = other.gce_persistent_disk
    if gce and disk and gce.pd_name == disk.pd_name and not (gce.read_only and disk.read_only):
        return True
    store = other.aws_elastic_block_store
    if ebs and store and ebs.volume_id == store.volume_id:
        return True
    target = other.iscsi
    if iscsi and target and iscsi.iqn == target.iqn and not (iscsi.read_only and target.read_only):
        return True
    image = other.rbd
    if not rbd or not image or (rbd.pool, rbd.image) != (image.pool, image.image):
        return False
    return bool(set(rbd.monitors or ()) & set(image.monitors or ())) and not (rbd.read_only and image.read_only)


# ---- CSI migration: how the volumes of in-tree plugins are translated to the CSI drivers that have replaced the plugins
#
# Upstream: k8s.io/csi-translation-lib. The scheduler needs the driver and its volume handle to count attached
# volumes, and the translated node affinity to know where a volume can be used.


MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
"""The annotation of a CSINode that lists the in-tree plugins that the kubelet leaves to drivers."""

_UNSPECIFIED = "UNSPECIFIED"
"""Upstream's placeholder for a project or zone that the in-tree volume does not name."""
_AWS_PREFIX = "aws://"


class InTree(msgspec.Struct, frozen=True):
    """An in-tree plugin: its field in volumes, its name, the driver that replaces it, and that driver's zone label."""

    field: str
    plugin: str
    driver: str
    is_on: bool = True
    """Whether the scheduler translates it. Parity: upstream has translators for two more that the scheduler never uses."""
    zone_label: str = ""
    """The driver's own label for zones; empty if translation leaves node affinity as it is."""


_IN_TREE = (
    InTree(
        "aws_elastic_block_store",
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        zone_label="topology.ebs.csi.aws.com/zone",
    ),
    InTree("gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", zone_label="topology.gke.io/zone"),
    InTree("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    InTree(
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        zone_label="topology.cinder.csi.openstack.org/zone",
    ),
    InTree("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
    InTree("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", is_on=False),
    InTree("vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", is_on=False),
)
_BY_PLUGIN = {each.plugin: each for each in _IN_TREE}
IN_TREE_PLUGINS = frozenset(_BY_PLUGIN)
DRIVERS = frozenset(each.driver for each in _IN_TREE)
"""The drivers that have replaced in-tree plugins."""


def in_tree_of(source: Volume | PersistentVolumeSpec) -> InTree | None:
    """The in-tree plugin of a volume, if a driver has replaced it."""
    return next((each for each in _IN_TREE if getattr(source, each.field) is not None), None)


def driver_of_provisioner(provisioner: str) -> str:
    """The driver that provisions for this provisioner; empty for an in-tree plugin that is not translated."""
    known = _BY_PLUGIN.get(provisioner)
    if known is None:
        return provisioner
    return known.driver if known.is_on else ""


def is_migrated(node: CSINode | None, in_tree: InTree) -> bool:
    """Whether the kubelet of the node leaves volumes of the plugin to the driver."""
    listed = ((node.metadata.annotations or {}) if node is not None else {}).get(MIGRATED_PLUGINS, "")
    return in_tree.is_on and in_tree.plugin in listed.split(",")


def handle_of(in_tree: InTree, source: Volume | PersistentVolumeSpec, zones: Sequence[str] = ()) -> str:
    """The driver's volume handle; empty if the volume cannot be translated, in which case it is not counted."""
    if not in_tree.is_on or translation_fault(source, zones) is not None:
        return ""
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store.volume_id)
    if source.gce_persistent_disk is not None:
        return _gce_handle(source.gce_persistent_disk.pd_name, zones)
    if source.azure_disk is not None:
        return source.azure_disk.disk_uri
    by_id = source.cinder or source.portworx_volume
    return by_id.volume_id if by_id is not None else ""


def zones_of(volume: PersistentVolume) -> list[str]:
    """The zones in a volume's labels. Parity: the deprecated label comes first."""
    label = volume.labels.get(BETA_ZONE) or volume.labels.get(ZONE, "")
    return label.split(DELIMITER) if label else []


def _ebs_handle(volume_id: str) -> str:
    """`aws://zone/vol-1` and `vol-1` are the same volume."""
    return volume_id.rpartition("/")[2] if volume_id.startswith(_AWS_PREFIX) else volume_id


def _gce_handle(disk: str, zones: Sequence[str]) -> str:
    """A disk in several zones is a regional disk."""
    if len(zones) > 1:
        return f"projects/{_UNSPECIFIED}/regions/{zones[0].rpartition('-')[0]}/disks/{disk}"
    return f"projects/{_UNSPECIFIED}/zones/{zones[0] if zones else _UNSPECIFIED}/disks/{disk}"


def translation_fault(source: Volume | PersistentVolumeSpec, zones: Sequence[str] = ()) -> str | None:
    """Why an in-tree volume cannot be translated, in upstream's words; None: it can be. An EBS volume fails if its URL names
    no volume, a GCE disk in several zones if these are not in one region (`us-east1-b` is in `us-east1`)."""
    ebs = source.aws_elastic_block_store
    if ebs is not None and ebs.volume_id.startswith(_AWS_PREFIX):
        name = ebs.volume_id.removeprefix(_AWS_PREFIX).partition("/")[2].strip("/")
        if not name.startswith("vol-") or "/" in name:
            return f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({ebs.volume_id})"
    if source.gce_persistent_disk is None or len(zones) < 2:
        return None
    for zone in zones:
        if zone.count("-") != 2:
            wanted = "{locale}-{region}-{zone}"
            return f"failed to get region from zones: zone in unexpected format, expected: {wanted}, got: {zone}"
    regions = sorted({zone.rpartition("-")[0] for zone in zones})
    if len(regions) == 1:
        return None
    found = " ".join(f"{region}:{{}}" for region in regions)
    return f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{found}]"


def translated_affinity(volume: PersistentVolume, in_tree: InTree) -> VolumeNodeAffinity | None:
    """The node affinity of an in-tree volume after translation: zones are under the driver's own label.

    Zones come from the affinity itself, or from the labels of the volume if the affinity names none. Parity: an affinity that
    asks for the label without a value, such as with Exists, names none.
    """
    affinity = volume.spec.node_affinity
    if not in_tree.zone_label:
        return affinity
    terms = list((affinity.required.node_selector_terms if affinity and affinity.required else None) or ())
    zone, region = _topology_labels(volume, terms)
    zones = sorted({name.strip() for name in volume.labels.get(zone, "").split(DELIMITER)} - {""})
    if _names_values(terms, zone):
        terms = [_renamed(term, zone, in_tree.zone_label) for term in terms]
    elif zones:
        wanted = Requirement(key=in_tree.zone_label, operator="In", values=zones)
        terms = [_with(term, wanted) for term in terms or [NodeSelectorTerm()]]
    if region == BETA_REGION and _names_values(terms, region):
        terms = [_renamed(term, region, REGION) for term in terms]
    if not terms and affinity is None:
        return None
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))


def _topology_labels(volume: PersistentVolume, terms: Sequence[NodeSelectorTerm]) -> tuple[str, str]:
    """The labels for zone and region that a volume uses, the present or the deprecated ones; its affinity comes first."""
    if _has_key(terms, ZONE):
        return ZONE, REGION
    if _has_key(terms, BETA_ZONE):
        return BETA_ZONE, BETA_REGION
    if ZONE in volume.labels:
        return ZONE, REGION
    return (BETA_ZONE, BETA_REGION) if BETA_ZONE in volume.labels else ("", "")


def _has_key(terms: Sequence[NodeSelectorTerm], key: str) -> bool:
    return any(line.key == key for term in terms for line in term.match_expressions or ())


def _names_values(terms: Sequence[NodeSelectorTerm], key: str) -> bool:
    return any(line.values for term in terms for line in term.match_expressions or () if line.key == key)


def _renamed(term: NodeSelectorTerm, old: str, new: str) -> NodeSelectorTerm:
    lines = [
        msgspec.structs.replace(line, key=new) if line.key == old else line for line in term.match_expressions or ()
    ]
    return msgspec.structs.replace(term, match_expressions=lines or None)


def _with(term: NodeSelectorTerm, line: Requirement) -> NodeSelectorTerm:
    return msgspec.structs.replace(term, match_expressions=[*(term.match_expressions or ()), line])
