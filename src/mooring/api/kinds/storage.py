"""Persistent volumes, claims and storage classes, and the kinds by which CSI drivers report nodes and capacity."""

from collections.abc import Callable

from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import (
    AGE,
    NAME,
    UNSET,
    Cell,
    Column,
    KindSpec,
    Watch,
    count,
    field_cell,
    state_cell,
    wide,
)
from mooring.api.validation import claim_rules
from mooring.model import storage

_STORAGE = ("storage.k8s.io", "v1")
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_WAKES = Watch(wakes_pods=True, wakes_by_default=True)


def _access_modes(path: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: ",".join(short for mode, short in _MODES.items() if mode in at(item, path, ()))


def _if_bound(cell: Callable[[JsonObject, int], Cell]) -> Callable[[JsonObject, int], Cell]:
    """A cell that stays empty until the claim is bound."""
    return lambda claim, now_ns: cell(claim, now_ns) if at(claim, "spec.volumeName") else ""


def _class_of(item: JsonObject, _: int) -> Cell:
    """The deprecated annotation wins over the field, as everywhere."""
    old = at(item, "metadata.annotations", {}).get("volume.beta.kubernetes.io/storage-class")
    return str(at(item, "spec.storageClassName", "") if old is None else old)


def _claim_of(volume: JsonObject, _: int) -> Cell:
    claim = at(volume, "spec.claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _class_name(storage_class: JsonObject, _: int) -> Cell:
    """A class that is marked as default has `(default)` behind its name; the beta annotation counts, too."""
    annotations = at(storage_class, "metadata.annotations", {})
    prefixes = ("storageclass.kubernetes.io", "storageclass.beta.kubernetes.io")
    default = any(annotations.get(f"{prefix}/is-default-class") == "true" for prefix in prefixes)
    return f"{at(storage_class, 'metadata.name')}{' (default)' if default else ''}"


_ATTRIBUTES_CLASS = Column("VolumeAttributesClass", field_cell("spec.volumeAttributesClassName", UNSET))
_VOLUME_MODE = wide("VolumeMode", field_cell("spec.volumeMode", UNSET))

PERSISTENT_VOLUME = KindSpec(
    *("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",)),
    subresources=("status",),
    struct=storage.PersistentVolume,
    check=claim_rules.check_volume,
    watch=_WAKES,
    spec_defaults={"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    new_status={"phase": "Pending"},
    finalizer="kubernetes.io/pv-protection",
    columns=(
        NAME,
        Column("Capacity", field_cell("spec.capacity.storage", "0")),
        Column("Access Modes", _access_modes("spec.accessModes")),
        Column("Reclaim Policy", field_cell("spec.persistentVolumeReclaimPolicy")),
        Column("Status", state_cell("status.phase")),
        Column("Claim", _claim_of),
        Column("StorageClass", _class_of),
        _ATTRIBUTES_CLASS,
        Column("Reason", field_cell("status.reason")),
        AGE,
        _VOLUME_MODE,
    ),
)

PERSISTENT_VOLUME_CLAIM = KindSpec(
    *("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",)),
    subresources=("status",),
    struct=storage.PersistentVolumeClaim,
    check=lambda claim: claim_rules.check_claim_spec("spec", claim.spec),
    watch=_WAKES,
    spec_defaults={"volumeMode": "Filesystem"},
    new_status={"phase": "Pending"},
    finalizer="kubernetes.io/pvc-protection",
    returns_deleted=True,
    columns=(
        NAME,
        Column("Status", state_cell("status.phase")),
        Column("Volume", field_cell("spec.volumeName")),
        Column("Capacity", _if_bound(field_cell("status.capacity.storage", "0"))),
        Column("Access Modes", _if_bound(_access_modes("status.accessModes"))),
        Column("StorageClass", _class_of),
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
)

STORAGE_CLASS = KindSpec(
    *(*_STORAGE, "storageclasses", "StorageClass", False, ("sc",)),
    struct=storage.StorageClass,
    check=claim_rules.check_storage_class,
    watch=_WAKES,
    defaults={"reclaimPolicy": "Delete", "volumeBindingMode": storage.IMMEDIATE},
    fixed=("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    columns=(
        Column("Name", _class_name, format="name"),
        Column("Provisioner", field_cell("provisioner")),
        Column("ReclaimPolicy", field_cell("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", field_cell("volumeBindingMode", "Immediate")),
        Column("AllowVolumeExpansion", field_cell("allowVolumeExpansion", False)),
        AGE,
    ),
)

CSI_NODE = KindSpec(
    *(*_STORAGE, "csinodes", "CSINode", False),
    subresources=("status",),
    struct=storage.CSINode,
    check=claim_rules.check_csi_node,
    watch=_WAKES,
    needs_version=True,
    status_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
    columns=(NAME, Column("Drivers", count("spec.drivers"), type="integer"), AGE),
)

CSI_DRIVER = KindSpec(
    *(*_STORAGE, "csidrivers", "CSIDriver", False),
    struct=storage.CSIDriver,
    watch=_WAKES,
    has_generation=True,
    needs_version=True,
)

CSI_STORAGE_CAPACITY = KindSpec(
    *(*_STORAGE, "csistoragecapacities", "CSIStorageCapacity"),
    struct=storage.CSIStorageCapacity,
    check=claim_rules.check_capacity,
    watch=_WAKES,
    needs_version=True,
)

VOLUME_ATTACHMENT = KindSpec(
    *(*_STORAGE, "volumeattachments", "VolumeAttachment", False),
    subresources=("status",),
    struct=storage.VolumeAttachment,
    watch=Watch(wakes_pods=True),
    new_status={"attached": False},
    status_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
    needs_version=True,
)
