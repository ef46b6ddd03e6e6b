"""What storage drivers call the volumes that pods use: (driver, handle). One volume counts once on a node."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from mooring.cluster.claims.storage_view import StorageView
from mooring.model.csi_migration import driver_of_provisioner, handle_of, in_tree_of, zones_of
from mooring.model.pod import Pod
from mooring.model.pod_spec import Volume
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.model.volumes import ownership_fault

VolumeHandle = tuple[str, str]
"""Driver and handle."""

NO_NAME = "PersistentVolumeClaim had no name"


@dataclass(slots=True)
class PodHandles:
    """The volumes of a pod, as far as drivers are concerned; `fault`: why that cannot be told."""

    handles: set[VolumeHandle] = field(default_factory=set)
    claims: list[str] = field(default_factory=list)
    """Keys of the claims that were looked up, found or not."""
    missing: str | None = None
    """Key of the first claim that is not there."""
    fault: str | None = None


def handles_of(storage: StorageView, pod: Pod) -> PodHandles:
    """Volume by volume, until one has a fault."""
    found = PodHandles()
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            found.fault = _add_claim(found, storage, pod, volume)
            if found.fault is not None:
                return found
        else:
            found.handles.update(_inline(volume))
    return found


def _add_claim(found: PodHandles, storage: StorageView, pod: Pod, volume: Volume) -> str | None:
    named = volume.persistent_volume_claim
    name = named.claim_name if named is not None else f"{pod.name}-{volume.name}"
    if not name:
        return NO_NAME
    key = f"{pod.namespace}/{name}"
    found.claims.append(key)
    claim = storage.claims.get(key)
    if claim is None:
        found.missing = found.missing or key
        return None
    fault = ownership_fault(claim, pod) if named is None else None
    handle = None if fault else handle_of_claim(storage, claim)
    if handle is not None:
        found.handles.add(handle)
    return fault


def handle_of_claim(storage: StorageView, claim: PersistentVolumeClaim) -> VolumeHandle | None:
    """By its volume; one that has none yet, by the driver that will make it."""
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return handle_of_volume(volume)
    storage_class = storage.classes.get(claim.class_name) if claim.class_name else None
    driver = driver_of_provisioner(storage_class.provisioner) if storage_class is not None else ""
    return (driver, f"unbound {claim.key}") if driver else None


def handle_of_volume(volume: PersistentVolume) -> VolumeHandle | None:
    if volume.spec.csi is not None:
        return _complete(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    in_tree = in_tree_of(volume.spec)
    if in_tree is None:
        return None
    return _complete(in_tree.driver, handle_of(in_tree, volume.spec, zones_of(volume)))


def _inline(volume: Volume) -> Iterator[VolumeHandle]:
    in_tree = in_tree_of(volume)
    handle = None if in_tree is None else _complete(in_tree.driver, handle_of(in_tree, volume))
    if handle is not None:
        yield handle


def _complete(driver: str, handle: str) -> VolumeHandle | None:
    return (driver, handle) if driver and handle else None
