"""The columns of each kind, as `kubectl get` knows them; those of priority 1 are shown by `-o wide` only."""

from collections.abc import Callable
from dataclasses import dataclass

from mooring.apiserver.store import JsonObject
from mooring.apiserver.tables.kind_cells import (
    FIRST_SEEN,
    LAST_SEEN,
    access_modes,
    claim,
    claim_state,
    class_name,
    cluster_ip,
    event_field,
    event_object,
    event_source,
    external_ip,
    first,
    if_bound,
    job_completions,
    job_duration,
    job_status,
    node_address,
    node_roles,
    node_status,
    ports_cell,
    storage_class,
    suspended,
)
from mooring.apiserver.tables.pod_cells import pod_ready, pod_restarts, pod_state, readiness_gates
from mooring.apiserver.tables.table_cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Cell,
    ago,
    at,
    count,
    field_cell,
    joined,
    labels_cell,
    ratio,
    selector,
    since,
    state_cell,
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `cell` reads it from an object at a moment in nanoseconds since 1970."""

    name: str
    cell: Callable[[JsonObject, int], Cell]
    priority: int = 0
    type: str = "string"
    format: str = ""

    def definition(self) -> JsonObject:
        shown = {"name": self.name, "type": self.type, "format": self.format, "description": self.name}
        return {**shown, "priority": self.priority}

    def read(self, item: JsonObject, now_ns: int) -> Cell:
        """The cell of an object. Kinds that nobody validates can hold anything: one odd object must not hide a list."""
        try:
            return self.cell(item, now_ns)
        except (AttributeError, KeyError, TypeError, ValueError):
            return "<invalid>"


def _wide(name: str, cell: Callable[[JsonObject, int], Cell]) -> Column:
    return Column(name, cell, priority=1)


def _number(name: str, path: str, otherwise: int = 0) -> Column:
    return Column(name, field_cell(path, otherwise), type="integer")


def _template(pod_spec: str, selects: str = "") -> tuple[Column, ...]:
    """The wide columns of a workload; `selects` is where its selector is, if that is shown."""
    containers = f"{pod_spec}.containers"
    shown = (_wide("Containers", joined(containers, "name")), _wide("Images", joined(containers, "image")))
    return (*shown, _wide("Selector", selector(selects))) if selects else shown


_NAME = Column("Name", field_cell("metadata.name"), format="name")

_AGE = Column("Age", ago("metadata.creationTimestamp"))

PLAIN = (_NAME, _AGE)

_POD_SPEC = "spec.template.spec"

_ATTRIBUTES = "VolumeAttributesClass"

_VOLUME_MODE = _wide("VolumeMode", field_cell("spec.volumeMode", UNSET))

_REPLICAS = (
    *(_NAME, _number("Desired", "spec.replicas", 1), _number("Current", "status.replicas")),
    *(_number("Ready", "status.readyReplicas"), _AGE),
)

_READY = Column("Ready", ratio("status.readyReplicas", "spec.replicas"))

COLUMNS: dict[str, tuple[Column, ...]] = {
    "Pod": (
        _NAME,
        Column("Ready", pod_ready),
        Column("Status", lambda pod, _: pod_state(pod).reason),
        Column("Restarts", pod_restarts),
        _AGE,
        _wide("IP", field_cell("status.podIP", NONE)),
        _wide("Node", field_cell("spec.nodeName", NONE)),
        _wide("Nominated Node", field_cell("status.nominatedNodeName", NONE)),
        _wide("Readiness Gates", readiness_gates),
    ),
    "Node": (
        _NAME,
        Column("Status", node_status),
        Column("Roles", node_roles),
        _AGE,
        Column("Version", field_cell("status.nodeInfo.kubeletVersion")),
        _wide("Internal-IP", node_address("InternalIP")),
        _wide("External-IP", node_address("ExternalIP")),
        _wide("OS-Image", field_cell("status.nodeInfo.osImage", UNKNOWN)),
        _wide("Kernel-Version", field_cell("status.nodeInfo.kernelVersion", UNKNOWN)),
        _wide("Container-Runtime", field_cell("status.nodeInfo.containerRuntimeVersion", UNKNOWN)),
    ),
    "Namespace": (_NAME, Column("Status", field_cell("status.phase")), _AGE),
    "Deployment": (
        *(_NAME, _READY, Column("Up-to-date", field_cell("status.updatedReplicas", 0))),
        *(Column("Available", field_cell("status.availableReplicas", 0)), _AGE, *_template(_POD_SPEC, "spec.selector")),
    ),
    "ReplicaSet": (*_REPLICAS, *_template(_POD_SPEC, "spec.selector")),
    "ReplicationController": (*_REPLICAS, *_template(_POD_SPEC), _wide("Selector", labels_cell("spec.selector"))),
    "StatefulSet": (_NAME, _READY, _AGE, *_template(_POD_SPEC)),
    "DaemonSet": (
        _NAME,
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        Column("Node Selector", labels_cell(f"{_POD_SPEC}.nodeSelector")),
        _AGE,
        *_template(_POD_SPEC, "spec.selector"),
    ),
    "Job": (
        *(_NAME, Column("Status", job_status), Column("Completions", job_completions)),
        *(Column("Duration", job_duration), _AGE, *_template(_POD_SPEC, "spec.selector")),
    ),
    "CronJob": (
        _NAME,
        Column("Schedule", field_cell("spec.schedule")),
        Column("Timezone", field_cell("spec.timeZone", NONE)),
        Column("Suspend", suspended),
        Column("Active", count("status.active"), type="integer"),
        Column("Last Schedule", ago("status.lastScheduleTime", NONE)),
        _AGE,
        *_template(f"spec.jobTemplate.{_POD_SPEC}", "spec.jobTemplate.spec.selector"),
    ),
    "Service": (
        *(_NAME, Column("Type", field_cell("spec.type", "ClusterIP")), Column("Cluster-IP", cluster_ip)),
        *(Column("External-IP", external_ip), Column("Port(s)", ports_cell), _AGE),
        _wide("Selector", labels_cell("spec.selector")),
    ),
    "PersistentVolume": (
        _NAME,
        Column("Capacity", field_cell("spec.capacity.storage", "0")),
        Column("Access Modes", access_modes("spec.accessModes")),
        Column("Reclaim Policy", field_cell("spec.persistentVolumeReclaimPolicy")),
        Column("Status", state_cell("status.phase")),
        Column("Claim", claim),
        Column("StorageClass", storage_class),
        Column(_ATTRIBUTES, field_cell("spec.volumeAttributesClassName", UNSET)),
        Column("Reason", field_cell("status.reason")),
        _AGE,
        _VOLUME_MODE,
    ),
    "PersistentVolumeClaim": (
        _NAME,
        Column("Status", state_cell("status.phase")),
        Column("Volume", field_cell("spec.volumeName")),
        Column("Capacity", if_bound(field_cell("status.capacity.storage", "0"))),
        Column("Access Modes", if_bound(access_modes("status.accessModes"))),
        Column("StorageClass", storage_class),
        Column(_ATTRIBUTES, field_cell("spec.volumeAttributesClassName", UNSET)),
        _AGE,
        _VOLUME_MODE,
    ),
    "StorageClass": (
        Column("Name", class_name, format="name"),
        Column("Provisioner", field_cell("provisioner")),
        Column("ReclaimPolicy", field_cell("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", field_cell("volumeBindingMode", "Immediate")),
        Column("AllowVolumeExpansion", field_cell("allowVolumeExpansion", False)),
        _AGE,
    ),
    "PriorityClass": (
        *(_NAME, Column("Value", field_cell("value", 0)), Column("Global-Default", field_cell("globalDefault", False))),
        *(_AGE, Column("PreemptionPolicy", field_cell("preemptionPolicy"))),
    ),
    "PodDisruptionBudget": (
        _NAME,
        Column("Min Available", lambda pdb, _: str(at(pdb, "spec.minAvailable", "N/A"))),
        Column("Max Unavailable", lambda pdb, _: str(at(pdb, "spec.maxUnavailable", "N/A"))),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ),
    "Event": (
        Column("Last Seen", lambda event, now_ns: since(first(event, *LAST_SEEN), now_ns)),
        Column("Type", field_cell("type")),
        Column("Reason", field_cell("reason")),
        Column("Object", event_object),
        _wide("Subobject", event_field("involvedObject.fieldPath", "regarding.fieldPath")),
        _wide("Source", event_source),
        Column("Message", event_field("message", "note")),
        _wide("First Seen", lambda event, now_ns: since(first(event, *FIRST_SEEN), now_ns)),
        _wide("Count", event_field("series.count", "count", "deprecatedCount", otherwise=1)),
        _wide("Name", field_cell("metadata.name")),
    ),
    "Lease": (_NAME, Column("Holder", field_cell("spec.holderIdentity")), _AGE),
    "ConfigMap": (_NAME, Column("Data", count("data", "binaryData")), _AGE),
    "Secret": (_NAME, Column("Type", field_cell("type", "Opaque")), Column("Data", count("data")), _AGE),
    "ServiceAccount": (_NAME, Column("Secrets", count("secrets")), _AGE),
    "RuntimeClass": (_NAME, Column("Handler", field_cell("handler")), _AGE),
    "CSINode": (_NAME, Column("Drivers", count("spec.drivers"), type="integer"), _AGE),
    "ResourceClaim": (_NAME, Column("State", claim_state), _AGE),
    "ResourceSlice": (
        *(_NAME, Column("Node", field_cell("spec.nodeName")), Column("Driver", field_cell("spec.driver"))),
        *(Column("Pool", field_cell("spec.pool.name")), _AGE),
    ),
}
