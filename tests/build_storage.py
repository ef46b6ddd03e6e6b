"""Builders of volumes, claims and what belongs to them, for tests: say what matters, leave out the rest."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mooring.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER = "csi.example.com"


def on(key: str, *values: str) -> list[dict[str, Any]]:
    """Terms of a node selector: nodes with one of these values of a label."""
    return [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]


def a_volume(
    name: str = "pv",
    *,
    size: str = "1Gi",
    class_name: str = "wait",
    modes: Sequence[str] = ("ReadWriteOnce",),
    terms: Any = None,
    claim: Mapping[str, Any] | None = None,
    phase: str = "Available",
    handle: str | None = None,
    labels: Mapping[str, str] | None = None,
    version: str = "1",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolume:
    """A CSI volume that can be used everywhere, or on the nodes of `terms`; another source in `spec` replaces CSI."""
    body: dict[str, Any] = {"capacity": {"storage": size}, "accessModes": list(modes), "storageClassName": class_name}
    if terms is not None:
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim is not None:
        body["claimRef"] = dict(claim)
    if handle != "":
        body["csi"] = {"driver": DRIVER, "volumeHandle": handle or name}
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "labels": dict(labels or {})}
    found = {"metadata": {**meta, **(metadata or {})}, "spec": {**body, **spec}, "status": {"phase": phase}}
    return msgspec.convert(found, PersistentVolume)


def a_claim(
    name: str = "claim",
    *,
    namespace: str = "default",
    size: str | None = "1Gi",
    class_name: str | None = "wait",
    modes: Sequence[str] = ("ReadWriteOnce",),
    volume: str = "",
    is_bound: bool | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "",
    version: str = "1",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """A claim; one with a volume is fully bound to it unless `is_bound` says otherwise."""
    marks = dict(annotations or {})
    if is_bound if is_bound is not None else bool(volume):
        marks["pv.kubernetes.io/bind-completed"] = "yes"
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version}
    body = {
        "accessModes": list(modes),
        "storageClassName": class_name,
        "volumeName": volume,
        "resources": {"requests": {} if size is None else {"storage": size}},
    }
    found = {
        "metadata": {**meta, "annotations": marks or None, **(metadata or {})},
        "spec": {**body, **spec},
        "status": {"phase": phase},
    }
    return msgspec.convert(found, PersistentVolumeClaim)


def a_class(
    name: str = "wait", *, mode: str | None = "WaitForFirstConsumer", provisioner: str = DRIVER, topologies: Any = None
) -> StorageClass:
    """A class whose claims wait for their pods. Topologies are lists of (label, values)."""
    terms = topologies and [
        {"matchLabelExpressions": [{"key": key, "values": list(values)} for key, values in term]} for term in topologies
    ]
    body = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "allowedTopologies": terms,
    }
    return msgspec.convert(body, StorageClass)


def a_csi_node(name: str = "n", *, annotations: Mapping[str, str] | None = None, **limits: int | None) -> CSINode:
    """What runs on a node: a driver (`csi_example_com`) with its limit, None for no limit."""
    drivers = [
        {"name": driver.replace("_", "."), "allocatable": None if limit is None else {"count": limit}}
        for driver, limit in limits.items()
    ]
    meta = {"name": name, "annotations": dict(annotations or {})}
    return msgspec.convert({"metadata": meta, "spec": {"drivers": drivers}}, CSINode)


def a_driver(name: str = DRIVER, **spec: Any) -> CSIDriver:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, CSIDriver)


def a_report(name: str = "room", *, class_name: str = "wait", **content: Any) -> CSIStorageCapacity:
    """A report of room: `capacity`, `maximumVolumeSize`, `nodeTopology` as in a manifest."""
    body = {"metadata": {"name": name, "namespace": "drivers"}, "storageClassName": class_name, **content}
    return msgspec.convert(body, CSIStorageCapacity)


def an_attachment(name: str = "va", *, node: str = "n", volume: str = "pv", attacher: str = DRIVER) -> VolumeAttachment:
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, VolumeAttachment)


def using(*claims: str) -> list[dict[str, Any]]:
    """The volumes of a pod that uses these claims."""
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)]
