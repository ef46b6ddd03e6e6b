"""The kinds that the embedded server serves: where they live, what they are called, how they are written."""

from collections.abc import Iterator
from dataclasses import dataclass, field

READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind under one group and version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    api_version: str = field(init=False)
    storage: str = field(init=False)
    """What objects are kept under: both event groups see the same objects."""

    def __post_init__(self) -> None:
        storage = "events" if self.plural == "events" else f"{self.group}/{self.plural}"
        object.__setattr__(self, "storage", storage)
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def path(self) -> str:
        """The prefix of its URLs: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"


def _core() -> Iterator[Resource]:
    yield Resource("", "v1", "namespaces", "Namespace", False, ("ns",), subresources=("status", "finalize"))
    yield Resource("", "v1", "nodes", "Node", False, ("no",), subresources=("status",))
    yield Resource(
        *("", "v1", "pods", "Pod", True, ("po",), ("all",)),
        subresources=("status", "binding", "eviction", "log", "ephemeralcontainers", "resize"),
    )
    yield Resource("", "v1", "services", "Service", True, ("svc",), ("all",), ("status",))
    yield Resource(
        "", "v1", "replicationcontrollers", "ReplicationController", True, ("rc",), ("all",), ("status", "scale")
    )
    yield Resource("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",), subresources=("status",))
    yield Resource(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",), subresources=("status",)
    )
    yield Resource("", "v1", "configmaps", "ConfigMap", True, ("cm",))
    yield Resource("", "v1", "secrets", "Secret")
    yield Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",))
    yield Resource("", "v1", "limitranges", "LimitRange", True, ("limits",))
    yield Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), subresources=("status",))
    yield Resource("", "v1", "endpoints", "Endpoints", True, ("ep",))
    yield Resource("", "v1", "events", "Event", True, ("ev",))


def _groups() -> Iterator[Resource]:
    apps = ("status", "scale")
    yield Resource("apps", "v1", "deployments", "Deployment", True, ("deploy",), ("all",), apps)
    yield Resource("apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), ("all",), apps)
    yield Resource("apps", "v1", "statefulsets", "StatefulSet", True, ("sts",), ("all",), apps)
    yield Resource("apps", "v1", "daemonsets", "DaemonSet", True, ("ds",), ("all",), ("status",))
    yield Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
    yield Resource("batch", "v1", "jobs", "Job", True, (), ("all",), ("status",))
    yield Resource("batch", "v1", "cronjobs", "CronJob", True, ("cj",), ("all",), ("status",))
    yield Resource(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), subresources=("status",)
    )
    yield Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",))
    yield Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", subresources=("status",))
    yield Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
    yield Resource("coordination.k8s.io", "v1", "leases", "Lease")
    yield Resource("events.k8s.io", "v1", "events", "Event", True, ("ev",))
    yield Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, ("sc",))
    yield Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
    yield Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
    yield Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
    yield Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, subresources=("status",))
    yield Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", subresources=("status",))
    yield Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
    yield Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
    yield Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
    yield from _kept_only()


def _kept_only() -> Iterator[Resource]:
    """Kinds that nothing here acts upon: they are kept, so that manifests which bring them can be applied."""
    rbac, networking = "rbac.authorization.k8s.io", "networking.k8s.io"
    yield Resource(rbac, "v1", "clusterroles", "ClusterRole", False)
    yield Resource(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
    yield Resource(rbac, "v1", "roles", "Role")
    yield Resource(rbac, "v1", "rolebindings", "RoleBinding")
    yield Resource(networking, "v1", "ingresses", "Ingress", True, ("ing",), subresources=("status",))
    yield Resource(networking, "v1", "ingressclasses", "IngressClass", False)
    yield Resource(networking, "v1", "networkpolicies", "NetworkPolicy", True, ("netpol",))
    yield Resource(
        *("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ("hpa",), ("all",)),
        subresources=("status",),
    )
    yield Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


RESOURCES: dict[tuple[str, str, str], Resource] = {(r.group, r.version, r.plural): r for r in (*_core(), *_groups())}
"""By group, version and plural name."""

BY_KIND: dict[tuple[str, str], Resource] = {(r.api_version, r.kind): r for r in RESOURCES.values()}
"""By apiVersion and kind."""
