"""Pods, and the bindings that give them their nodes.

The spec has what a table can say of pods. Their admission is in `apiserver/admission/pod_*.py`, their defaults in
`pod_fields.py`, their way into the scheduler in `scheduler/intake.py`.
"""

from mooring.model.field_labels import OF_METADATA, labels_at, text_at
from mooring.model.json_objects import JsonObject, at
from mooring.model.kind_spec import POSTED, KindSpec, Watch
from mooring.model.pod import Pod
from mooring.model.tables.cells import NONE, field_cell
from mooring.model.tables.columns import AGE, NAME, Column, wide
from mooring.model.tables.pod_cells import FINISHED, pod_ready, pod_restarts, pod_state, readiness_gates
from mooring.model.validation.pod_rules import check_pod

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Parity: a pod that has finished leaves the watch, as if it were deleted."""


def _finished(pod: JsonObject) -> list[JsonObject]:
    phase = at(pod, "status.phase")
    return [FINISHED[phase]] if phase in FINISHED else []


POD = KindSpec(
    *("", "v1", "pods", "Pod", True, ("po",), ("all",)),
    subresources=("status", "binding", "eviction", "log", "ephemeralcontainers", "resize"),
    struct=Pod,
    check=check_pod,
    watch=Watch(is_required=True, field_selector=UNFINISHED, wakes_pods=True, wakes_by_default=True),
    has_generation=True,
    status_keeps=("ownerReferences",),
    returns_deleted=True,
    has_grace_period=True,
    field_labels={
        **OF_METADATA,
        **labels_at("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        **labels_at("status.phase", "status.nominatedNodeName"),
        "spec.hostNetwork": text_at("spec.hostNetwork", otherwise="false"),
        "spec.host": text_at("spec.nodeName"),
        "status.podIP": text_at("status.podIPs.ip", "status.podIP"),
        "status.podIPs": text_at("status.podIPs.ip", "status.podIP"),
    },
    columns=(
        NAME,
        Column("Ready", pod_ready),
        Column("Status", lambda pod, _: pod_state(pod).reason),
        Column("Restarts", pod_restarts),
        AGE,
        wide("IP", field_cell("status.podIP", NONE)),
        wide("Node", field_cell("spec.nodeName", NONE)),
        wide("Nominated Node", field_cell("status.nominatedNodeName", NONE)),
        wide("Readiness Gates", readiness_gates),
    ),
    row_conditions=_finished,
)

BINDING = KindSpec("", "v1", "bindings", "Binding", verbs=POSTED, atomic_maps=("target",))
