"""What a scheduler watches: eighteen resources, in all namespaces, and pod groups where it heeds them."""

from dataclasses import dataclass

from mooring.model import devices, storage, workloads
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Parity: a pod that has finished leaves the watch, as if it were deleted."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One resource: where it is served, and the struct that its objects are read into."""

    group: str
    version: str
    plural: str
    struct: type[KubeObject]
    field_selector: str = ""
    is_required: bool = False
    """Whether nothing can be scheduled without it. All others are taken for empty while a server refuses them."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        return f"/apis/{self.api_version}/{self.plural}" if self.group else f"/api/{self.version}/{self.plural}"

    @property
    def name(self) -> str:
        """As people and RBAC call it: `pods`, `replicasets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_STORAGE, _DEVICES = ("storage.k8s.io", "v1"), ("resource.k8s.io", "v1")

WATCHED: tuple[Watched, ...] = (
    Watched("", "v1", "nodes", Node, is_required=True),
    Watched("", "v1", "pods", Pod, UNFINISHED, is_required=True),
    Watched("", "v1", "namespaces", workloads.Namespace),
    Watched("", "v1", "services", workloads.Service),
    Watched("", "v1", "replicationcontrollers", workloads.ReplicationController),
    Watched("", "v1", "persistentvolumes", storage.PersistentVolume),
    Watched("", "v1", "persistentvolumeclaims", storage.PersistentVolumeClaim),
    Watched("apps", "v1", "replicasets", workloads.ReplicaSet),
    Watched("apps", "v1", "statefulsets", workloads.StatefulSet),
    Watched("policy", "v1", "poddisruptionbudgets", workloads.PodDisruptionBudget),
    Watched(*_STORAGE, "storageclasses", storage.StorageClass),
    Watched(*_STORAGE, "csinodes", storage.CSINode),
    Watched(*_STORAGE, "csidrivers", storage.CSIDriver),
    Watched(*_STORAGE, "csistoragecapacities", storage.CSIStorageCapacity),
    Watched(*_STORAGE, "volumeattachments", storage.VolumeAttachment),
    Watched(*_DEVICES, "resourceclaims", devices.ResourceClaim),
    Watched(*_DEVICES, "resourceslices", devices.ResourceSlice),
    Watched(*_DEVICES, "deviceclasses", devices.DeviceClass),
)
"""Later: devicetaintrules, which kube-scheduler watches behind a feature gate that is off by default."""

POD_GROUPS = Watched("scheduling.k8s.io", "v1alpha2", "podgroups", workloads.PodGroup)
"""Watched where pod groups are scheduled together."""
