"""Disks that pods name without a claim: which two of them cannot be used side by side."""

from mooring.model.pod import Pod
from mooring.model.pod_spec import GceDisk, IscsiVolume, RbdVolume, Volume, VolumeById


def is_restricted(volume: Volume) -> bool:
    """Whether two pods may be in each other's way with such a volume."""
    kinds = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi)
    return any(kind is not None for kind in kinds)


def disks_of(pod: Pod) -> list[Volume]:
    return [volume for volume in pod.spec.volumes or () if is_restricted(volume)]


def collide(one: Volume, other: Volume) -> bool:
    """Whether both are the same disk, and not only to be read from.

    | kind    | the same when                                      | side by side when read only |
    | GCE PD  | same name                                          | yes |
    | AWS EBS | same id                                            | no  |
    | iSCSI   | same target                                        | yes |
    | RBD     | same pool and image, and a monitor in common       | yes |
    """
    return (
        _same_gce(one.gce_persistent_disk, other.gce_persistent_disk)
        or _same_ebs(one.aws_elastic_block_store, other.aws_elastic_block_store)
        or _same_iscsi(one.iscsi, other.iscsi)
        or _same_rbd(one.rbd, other.rbd)
    )


def _same_gce(one: GceDisk | None, other: GceDisk | None) -> bool:
    if one is None or other is None:
        return False
    return one.pd_name == other.pd_name and not (one.read_only and other.read_only)


def _same_ebs(one: VolumeById | None, other: VolumeById | None) -> bool:
    return one is not None and other is not None and one.volume_id == other.volume_id


def _same_iscsi(one: IscsiVolume | None, other: IscsiVolume | None) -> bool:
    if one is None or other is None:
        return False
    return one.iqn == other.iqn and not (one.read_only and other.read_only)


def _same_rbd(one: RbdVolume | None, other: RbdVolume | None) -> bool:
    if one is None or other is None or (one.read_only and other.read_only):
        return False
    monitors = set(one.monitors or ()) & set(other.monitors or ())
    return bool(monitors) and (one.pool, one.image) == (other.pool, other.image)
