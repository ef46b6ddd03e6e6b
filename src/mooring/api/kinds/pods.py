"""Pods, the cells of their table, and the bindings that assign them to nodes.

Defaults and admission of pods are in `rules/pod_defaults.py`, `rules/pod_admission.py` and `apiserver/admission/pod_*.py`,
their way into the scheduler in `scheduler/intake.py`.
"""

from collections.abc import Iterator

import msgspec

from mooring.api.api_errors import (
    Cause,
    field_duplicate,
    field_forbidden,
    field_invalid,
    field_required,
    field_too_many,
)
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import (
    AGE,
    NAME,
    NONE,
    OF_METADATA,
    POSTED,
    Cell,
    Column,
    KindSpec,
    Watch,
    conditions,
    field_cell,
    labels_at,
    since,
    text_at,
    wide,
)
from mooring.api.validation.pod_rules import check_pod
from mooring.model.names import qualified_name_faults
from mooring.model.pod import Pod

# ---- Cells of pods: readiness, restarts, and the one word for the state that all its containers make up.


FINISHED: dict[str, JsonObject] = {
    phase: {"type": "Completed", "status": "True", "reason": phase, "message": message}
    for phase, message in (("Succeeded", "The pod has completed successfully."), ("Failed", "The pod failed."))
}
"""The condition of a table row, by the phase of a pod that has ended."""


class PodState(msgspec.Struct):
    """Status, ready containers and restarts of a pod, gathered from its containers.

    Upstream: printPod in pkg/printers/internalversion. The functions below follow its order of cases, which decides
    which of several reasons the column STATUS shows.
    """

    reason: str
    ready: int = 0
    restarts: int = 0
    restarted_at: str = ""

    def count(self, container: JsonObject) -> None:
        """Add the restarts of a container. Times of one format compare as texts."""
        self.restarts += container.get("restartCount", 0)
        self.restarted_at = max(self.restarted_at, at(container, "lastState.terminated.finishedAt", ""))


def pod_state(pod: JsonObject) -> PodState:
    """The state of a pod. Restarts of init containers count only until the pod is initialised, as upstream prints it."""
    state = PodState(at(pod, "status.reason") or at(pod, "status.phase", ""))
    gated = ("PodScheduled", "SchedulingGated")
    if any((each.get("type"), each.get("reason")) == gated for each in at(pod, "status.conditions", ())):
        state.reason = "SchedulingGated"
    sidecars = _sidecars(pod)
    initialising = _read_init_containers(pod, state, sidecars)
    if not initialising or conditions(pod).get("Initialized") == "True":
        state.restarts, state.restarted_at = 0, ""
        for container in at(pod, "status.initContainerStatuses", ()):
            if container["name"] in sidecars:
                state.count(container)
        _read_containers(pod, state)
    if at(pod, "metadata.deletionTimestamp"):
        _mark_deleted(pod, state)
    return state


def _sidecars(pod: JsonObject) -> set[str]:
    """Names of the init containers that keep running, which count as containers."""
    return {c["name"] for c in at(pod, "spec.initContainers", ()) if c.get("restartPolicy") == "Always"}


def _read_init_containers(pod: JsonObject, state: PodState, sidecars: set[str]) -> bool:
    """Whether an init container still has to finish. Then `reason` says how far it is, or why it fails."""
    for i, container in enumerate(at(pod, "status.initContainerStatuses", ())):
        state.count(container)
        ended = at(container, "state.terminated")
        if ended and not ended.get("exitCode"):
            continue
        if container["name"] in sidecars and container.get("started"):
            state.ready += bool(container.get("ready"))
            continue
        waiting = at(container, "state.waiting.reason", "PodInitializing")
        progress = f"{i}/{len(at(pod, 'spec.initContainers', ()))}"
        state.reason = f"Init:{_end(ended) if ended else progress if waiting == 'PodInitializing' else waiting}"
        return True
    return False


def _read_containers(pod: JsonObject, state: PodState) -> None:
    """The first container that waits or has ended gives the pod its reason, so that the loop goes backwards."""
    running = False
    for container in reversed(at(pod, "status.containerStatuses", ())):
        state.count(container)
        waiting, ended = at(container, "state.waiting.reason"), at(container, "state.terminated")
        if waiting:
            state.reason = waiting
        elif ended is not None:
            state.reason = _end(ended)
        elif container.get("ready") and at(container, "state.running") is not None:
            running = True
            state.ready += 1
    if state.reason == "Completed" and running:
        state.reason = "Running" if conditions(pod).get("Ready") == "True" else "NotReady"


def _end(ended: JsonObject) -> str:
    signal = f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
    return ended.get("reason") or signal


def _mark_deleted(pod: JsonObject, state: PodState) -> None:
    """A pod that is being deleted is Terminating, or Unknown if its node is lost."""
    if at(pod, "status.reason") == "NodeLost":
        state.reason = "Unknown"
    elif at(pod, "status.phase") not in FINISHED:
        state.reason = "Terminating"


def pod_ready(pod: JsonObject, _: int) -> Cell:
    return f"{pod_state(pod).ready}/{len(at(pod, 'spec.containers', ())) + len(_sidecars(pod))}"


def pod_restarts(pod: JsonObject, now_ns: int) -> Cell:
    state = pod_state(pod)
    ago = f" ({since(state.restarted_at, now_ns)} ago)" if state.restarts and state.restarted_at else ""
    return f"{state.restarts}{ago}"


def readiness_gates(pod: JsonObject, _: int) -> Cell:
    gates, found = at(pod, "spec.readinessGates", ()), conditions(pod)
    passed = sum(found.get(gate["conditionType"]) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of upstream's scheduler. A pod that finishes leaves the watch with a DELETED event."""


def _finished(pod: JsonObject) -> list[JsonObject]:
    phase = at(pod, "status.phase")
    return [FINISHED[phase]] if phase in FINISHED else []


_MOST_RESPONDERS, _HIGHEST_RESPONDER = 10, 100_000
"""How many eviction responders a pod has at most, and the highest priority of one."""


def _responder_faults(pod: JsonObject) -> list[Cause]:
    """The faults of `spec.evictionResponders` (gate EvictionRequestAPI), which pods of groups may not have."""
    spec = pod.get("spec") or {}
    responders = spec.get("evictionResponders") or []
    if not responders:
        return []
    path = "spec.evictionResponders"
    faults = []
    if spec.get("schedulingGroup") is not None:
        faults.append(field_forbidden("spec.schedulingGroup", "may not be set when evictionResponders is set"))
    if len(responders) > _MOST_RESPONDERS:
        most = f"must have at most {_MOST_RESPONDERS} items"
        return [*faults, field_too_many(path, str(len(responders)), most)]
    names = [each.get("name", "") for each in responders]
    for i, each in enumerate(responders):
        if names[i] in names[:i]:
            faults.append(field_duplicate(f"{path}[{i}]", each))
        faults += _responder(f"{path}[{i}]", names[i], each.get("priority"))
    return faults


def _responder(path: str, name: str, priority: int | None) -> Iterator[Cause]:
    if not name:
        yield field_required(f"{path}.name")
    yield from (field_invalid(f"{path}.name", name, why) for why in (qualified_name_faults(name) if name else ()))
    if priority is None:
        yield field_required(f"{path}.priority")
    elif not 0 <= priority <= _HIGHEST_RESPONDER:
        bound = f"less than or equal to {_HIGHEST_RESPONDER}" if priority > 0 else "greater than or equal to 0"
        yield field_invalid(f"{path}.priority", priority, f"must be {bound}")


POD = KindSpec(
    *("", "v1", "pods", "Pod", True, ("po",), ("all",)),
    subresources=("status", "binding", "eviction", "log", "ephemeralcontainers", "resize"),
    struct=Pod,
    check=check_pod,
    faults=_responder_faults,
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

BINDING = KindSpec("", "v1", "bindings", "Binding", verbs=POSTED)
