"""CSI migration: how the volumes of in-tree plugins are translated to the CSI drivers that have replaced the plugins.

Upstream: k8s.io/csi-translation-lib. The scheduler needs the driver and its volume handle to count attached volumes, and
the translated node affinity to know where a volume can be used.
"""

from collections.abc import Sequence

import msgspec

from mooring.model.meta import Requirement
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm, Volume
from mooring.model.storage import CSINode, PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from mooring.model.volumes import DELIMITER
from mooring.model.well_known_labels import BETA_REGION, BETA_ZONE, REGION, ZONE

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
    if not in_tree.is_on:
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
    """The zones in a volume's labels."""
    label = volume.labels.get(ZONE) or volume.labels.get(BETA_ZONE, "")
    return label.split(DELIMITER) if label else []


def _ebs_handle(volume_id: str) -> str:
    """`aws://zone/vol-1` and `vol-1` are the same volume."""
    return volume_id.rpartition("/")[2] if volume_id.startswith(_AWS_PREFIX) else volume_id


def _gce_handle(disk: str, zones: Sequence[str]) -> str:
    """A disk in several zones is a regional disk. Its zones must be of one region (`us-east1-b` is in `us-east1`)."""
    if len(zones) > 1:
        regions = {zone.rpartition("-")[0] for zone in zones}
        region = regions.pop()
        return "" if regions or not region else f"projects/{_UNSPECIFIED}/regions/{region}/disks/{disk}"
    return f"projects/{_UNSPECIFIED}/zones/{zones[0] if zones else _UNSPECIFIED}/disks/{disk}"


def translated_affinity(volume: PersistentVolume, in_tree: InTree) -> VolumeNodeAffinity | None:
    """The node affinity of an in-tree volume after translation: zones are under the driver's own label.

    Zones come from the affinity itself, or from the labels of the volume if the affinity names none.
    """
    affinity = volume.spec.node_affinity
    if not in_tree.zone_label:
        return affinity
    terms = list((affinity.required.node_selector_terms if affinity and affinity.required else None) or ())
    zone, region = _topology_labels(volume, terms)
    if _has_key(terms, zone):
        terms = [_renamed(term, zone, in_tree.zone_label) for term in terms]
    elif zone in volume.labels:
        zones = sorted(set(volume.labels[zone].split(DELIMITER)))
        wanted = Requirement(key=in_tree.zone_label, operator="In", values=zones)
        terms = [_with(term, wanted) for term in terms or [NodeSelectorTerm()]]
    if region == BETA_REGION and _has_key(terms, region):
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


def _renamed(term: NodeSelectorTerm, old: str, new: str) -> NodeSelectorTerm:
    lines = [
        msgspec.structs.replace(line, key=new) if line.key == old else line for line in term.match_expressions or ()
    ]
    return msgspec.structs.replace(term, match_expressions=lines or None)


def _with(term: NodeSelectorTerm, line: Requirement) -> NodeSelectorTerm:
    return msgspec.structs.replace(term, match_expressions=[*(term.match_expressions or ()), line])
