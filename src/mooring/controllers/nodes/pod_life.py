"""The life of a pod on its node: what its status becomes, and when to look again. Pure: the pod and the time go in.

Three parts: starting (Pending -> Running), running (readiness, restarts, deadlines, finishing), and stopping after a
deletion. All containers of a pod behave alike: its script is for the pod. The script is what the annotations of the pod
say, and how long it takes to stop.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import deleted_ns
from mooring.controllers.control_loop import backoff
from mooring.controllers.nodes import pod_statuses
from mooring.controllers.nodes.pod_statuses import (
    CONTAINERS_READY,
    INITIALIZED,
    READY,
    SANDBOX,
    PodMoment,
    pod_condition,
    readiness,
    unready_text,
)
from mooring.controllers.nodes.simulated_nodes import Host
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.pod_spec import FINISHED_PHASES
from mooring.rules.conditions import condition_of, holds, with_condition

PREFIX = "mooring.dev/"
NEVER = "never"
"""The value of `run-seconds` for a pod that is to run until it is deleted, though its restart policy lets it end."""

_DEFAULT_STOP_S = 1.0
"""How long containers take to stop by default."""
_FIELDS = {
    "start_s": "start-seconds",
    "ready_s": "ready-seconds",
    "run_s": "run-seconds",
    "exit_code": "exit-code",
    "stop_s": "stop-seconds",
}
"""The annotations that change a script, by its fields."""
TASK_RUN_S = 5.0
"""How long pods run by default that are there to complete: those of Jobs, and any other with restartPolicy Never or OnFailure
(`helm test` waits for one). kwok's complete after some seconds as well."""


@dataclass(frozen=True, slots=True)
class Script:
    """The behaviour of one pod. Without `run_s` it runs until it is deleted, or for TASK_RUN_S unless it always restarts."""

    start_s: float = 0.0
    """From scheduling to Running."""
    ready_s: float = 0.0
    """From Running to Ready."""
    run_s: float | None = None
    """From Running to the end of its containers; None: see above."""
    exit_code: int = 0
    """The exit code of all its containers."""
    stop_s: float = _DEFAULT_STOP_S
    """From the end of the preStop hooks to the end of the containers."""

    @property
    def is_plain(self) -> bool:
        """Whether the pod, once it runs, needs no further look."""
        return self.run_s is None and not self.ready_s


def script_of(pod: JsonObject, usual: Script) -> Script:
    """The pod's own script; what it leaves open is as in `usual`. Values that do not parse count as not written."""
    if usual.run_s is None and pod["spec"].get("restartPolicy", "Always") != "Always":
        usual = replace(usual, run_s=TASK_RUN_S)
    annotations = pod["metadata"].get("annotations")
    if not annotations or not any(key.startswith(PREFIX) for key in annotations):
        return usual
    told: dict[str, Any] = {
        field: seconds for field, name in _FIELDS.items() if (seconds := _seconds(annotations, name)) is not None
    }
    if "exit_code" in told:
        told["exit_code"] = int(told["exit_code"])
    if annotations.get(f"{PREFIX}run-seconds") == NEVER:
        told["run_s"] = None
    return replace(usual, **told)


def _seconds(annotations: JsonObject, name: str) -> float | None:
    """A number of seconds, or None. The upper bound keeps times in the range of 64-bit nanoseconds."""
    try:
        seconds = float(annotations[PREFIX + name])
    except (KeyError, TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < 1e9 else None


# ---- Stopping: preStop hooks, then the containers, within the grace period.


SHORTEST_STOP_S = 2.0
"""Containers get so long even if the hooks have used up the grace period: the kubelet's minimum."""


def stop_time_s(pod: JsonObject, script: Script, grace_s: float) -> float:
    """From the deletion to the end. The hooks of all containers run at the same time, and end with the grace period."""
    if not grace_s:
        return 0.0
    hooks_s = min(max((0.0, *_hook_times_s(pod))), grace_s)
    return hooks_s + min(script.stop_s, max(grace_s - hooks_s, SHORTEST_STOP_S))


def _hook_times_s(pod: JsonObject) -> Iterator[float]:
    """The seconds that the preStop hooks of running containers take. A sleep takes its time; `exec` and `httpGet` take
    none, because nothing is executed."""
    running = {
        status["name"]
        for group in ("containerStatuses", "initContainerStatuses")
        for status in pod["status"].get(group, ())
        if "running" in status.get("state", {})
    }
    spec = pod["spec"]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        if container["name"] in running:
            hook = container.get("lifecycle", {}).get("preStop", {})
            yield float(hook.get("sleep", {}).get("seconds", 0))


# The kubelet's crash-loop backoff: 10 s, doubled up to five minutes.
FIRST_BACKOFF_S, LAST_BACKOFF_S = 10, 300
_FORGIVEN_AFTER_S = 2 * LAST_BACKOFF_S
"""A container that ran for so long restarts at once, as if it had never failed: the kubelet resets its backoff after
twice the maximum."""

_OURS = frozenset((SANDBOX, INITIALIZED, READY, CONTAINERS_READY))
"""Conditions that the kubelet owns; it keeps all others."""
_SCHEDULED = "PodScheduled"
_NOT_THE_KUBELETS = ("qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus")
"""Fields of a pod's status that the kubelet does not own and keeps when it rejects the pod."""

TakeAddress = Callable[[], str]
"""Gives out a pod address."""


class LifeStep(NamedTuple):
    """A step in the life of a pod."""

    status: JsonObject | None = None
    """The status to write; None: the present one is right."""
    again_ns: int | None = None
    """When to look again whatever happens; None: when the pod changes."""
    is_over: bool = False
    """Whether the kubelet deletes the pod for good, without grace."""


def next_step(pod: JsonObject, host: Host, take: TakeAddress, script: Script, moment: PodMoment) -> LifeStep:
    """The next step of a pod. `take` gives it an address if it comes to need one."""
    if pod["metadata"].get("deletionTimestamp"):
        return _stop(pod, script, moment)
    phase = pod["status"].get("phase")
    if phase == "Pending":
        return _start(pod, host, take, script, moment)
    return _go_on(pod, script, moment) if phase == "Running" else LifeStep()


# ---- beginning


def _start(pod: JsonObject, host: Host, take: TakeAddress, script: Script, moment: PodMoment) -> LifeStep:
    """Run the pod now, or show it as being created until its start time is over."""
    if script.start_s:
        due_ns = scheduled_ns(pod) + round(script.start_s * NS_PER_S)
        if moment.now_ns < due_ns:
            return LifeStep(_being_created(pod, host, moment), due_ns)
    # A plain pod needs no further look once it runs: with 100,000 pods that is most of the work saved.
    is_plain = script.is_plain and "readinessGates" not in pod["spec"] and "activeDeadlineSeconds" not in pod["spec"]
    status = _running(pod, host, take, script, moment)
    if is_plain:
        return LifeStep(status)
    return _then(pod, status, script, moment)


def _running(pod: JsonObject, host: Host, take: TakeAddress, script: Script, moment: PodMoment) -> JsonObject:
    """The status of a pod that starts. Hot: one dict, of which most parts are shared with all pods that start in this
    second."""
    spec, held = pod["spec"], pod["status"]
    generation = pod["metadata"].get("generation", 1)
    is_ready = not script.ready_s
    unready = "" if is_ready else unready_text(spec)
    status: JsonObject = {
        "observedGeneration": generation,
        "phase": "Running",
        "conditions": [*moment.conditions(generation, unready), *_kept_conditions(held, moment)],
        "startTime": held.get("startTime", moment.now),
    }
    _place(status, host)
    _connect(status, spec, held, host, take)
    if spec.get("initContainers"):
        inits = pod_statuses.initialised(pod, spec["initContainers"], moment.now, moment.running)
        status["initContainerStatuses"] = inits
    status["containerStatuses"] = pod_statuses.started(pod, spec["containers"], moment.running, is_ready)
    if "qosClass" in held:
        status["qosClass"] = held["qosClass"]
    return _with_others(held, status)


def _being_created(pod: JsonObject, host: Host, moment: PodMoment) -> JsonObject:
    """The status while containers are being created; unchanged if it says so already."""
    spec: JsonObject = pod["spec"]
    held: JsonObject = pod["status"]
    if held.get("containerStatuses"):
        return held
    generation, unready = pod["metadata"].get("generation", 1), unready_text(spec)
    conditions = [
        pod_condition(SANDBOX, "False", moment.now, generation),
        pod_condition(INITIALIZED, "True", moment.now, generation),
        readiness(READY, unready, moment.now, generation),
        readiness(CONTAINERS_READY, unready, moment.now, generation),
    ]
    status: JsonObject = {
        "observedGeneration": generation,
        "conditions": [*conditions, *_kept_conditions(held, moment)],
        "startTime": moment.now,
    }
    _place(status, host)
    if spec.get("initContainers"):
        inits = pod_statuses.awaited(spec["initContainers"], pod_statuses.INITIALISING)
        status["initContainerStatuses"] = inits
    status["containerStatuses"] = pod_statuses.awaited(spec["containers"], pod_statuses.CREATING)
    return {**held, **status}


def _place(status: JsonObject, host: Host) -> None:
    """Set the addresses of the node."""
    if host.address:
        status["hostIP"], status["hostIPs"] = host.address, host.addresses


def _connect(status: JsonObject, spec: JsonObject, held: JsonObject, host: Host, take: TakeAddress) -> None:
    """Set the address of the pod: that of the node with host network, its own otherwise."""
    if not spec.get("hostNetwork"):
        address = held.get("podIP") or take()
        status["podIP"], status["podIPs"] = address, [{"ip": address}]
    elif host.address:
        status["podIP"], status["podIPs"] = host.address, host.addresses


def _kept_conditions(held: JsonObject, moment: PodMoment) -> list[JsonObject]:
    """Conditions of other writers. PodScheduled is added where none is: pods with a node in their manifest have no
    scheduler."""
    kept = [condition for condition in held.get("conditions", ()) if condition["type"] not in _OURS]
    if not any(condition["type"] == _SCHEDULED for condition in kept):
        kept.append(pod_condition(_SCHEDULED, "True", moment.now, 0))
    return kept


def _with_others(held: JsonObject, status: JsonObject) -> JsonObject:
    """Add the entries that other writers own, such as claims and resizes; usually there are none. The nomination ends
    here."""
    others = [key for key in held if key not in status and key != "nominatedNodeName"]
    return status | {key: held[key] for key in others} if others else status


def scheduled_ns(pod: JsonObject) -> int:
    """When the pod was scheduled, or created if that is not noted."""
    scheduled = condition_of(pod, _SCHEDULED) or {}
    return moment_ns(scheduled.get("lastTransitionTime") or pod["metadata"]["creationTimestamp"])


# ---- running


def _go_on(pod: JsonObject, script: Script, moment: PodMoment) -> LifeStep:
    """A running pod: past its deadline, waiting for a restart, or running."""
    deadline_ns = _deadline_ns(pod)
    if deadline_ns is not None and moment.now_ns >= deadline_ns:
        return LifeStep(_past_deadline(pod, moment))
    statuses = pod["status"].get("containerStatuses") or ()
    if not statuses:
        return LifeStep(again_ns=deadline_ns)
    step = _wait_out(pod, script, moment) if "waiting" in statuses[0]["state"] else _run(pod, script, moment)
    return step._replace(again_ns=_sooner(step.again_ns, deadline_ns))


def _run(pod: JsonObject, script: Script, moment: PodMoment) -> LifeStep:
    """All containers of a pod begin and end together, so the first speaks for all."""
    running = pod["status"]["containerStatuses"][0]["state"].get("running")
    if running is None:
        return LifeStep()
    begun_ns = moment_ns(running["startedAt"])
    if script.run_s is not None:
        end_ns = begun_ns + round(script.run_s * NS_PER_S)
        if moment.now_ns >= end_ns:
            return _end(pod, script, moment, (moment.now_ns - begun_ns) // NS_PER_S)
    ready_ns = begun_ns + round(script.ready_s * NS_PER_S)
    status = _observed(pod, moment.now_ns >= ready_ns, moment)
    again_ns = None if script.run_s is None else end_ns
    if moment.now_ns < ready_ns:
        again_ns = _sooner(again_ns, ready_ns)
    return LifeStep(status if status != pod["status"] else None, again_ns)


def _end(pod: JsonObject, script: Script, moment: PodMoment, ran_s: int) -> LifeStep:
    """The containers ended: the pod is finished, or restarts after a backoff, as its restart policy says."""
    policy = pod["spec"].get("restartPolicy", "Always")
    if policy == "Never" or (policy == "OnFailure" and not script.exit_code):
        return LifeStep(_ended(pod, script.exit_code, moment))
    held = pod["status"]
    restarts = held["containerStatuses"][0].get("restartCount", 0)
    delay_s = 0 if ran_s >= _FORGIVEN_AFTER_S else backoff_s(restarts)
    statuses = pod_statuses.backing_off(held["containerStatuses"], moment.now, script.exit_code, delay_s)
    status = _with_readiness(pod, {**held, "containerStatuses": statuses}, unready_text(pod["spec"]), moment)
    return _then(pod, status, script, moment, delay_s)


def backoff_s(restarts: int) -> int:
    """How long a container waits before its next restart: the first time not at all, then longer each time."""
    return backoff(FIRST_BACKOFF_S, LAST_BACKOFF_S, restarts)


def _wait_out(pod: JsonObject, script: Script, moment: PodMoment, delay_s: int | None = None) -> LifeStep:
    """Restart the containers when their backoff is over. `delay_s` overrides the backoff."""
    held = pod["status"]["containerStatuses"]
    if delay_s is None:
        delay_s = backoff_s(held[0].get("restartCount", 0))
    ended = held[0].get("lastState", {}).get("terminated", {})
    due_ns = moment_ns(ended.get("finishedAt", moment.now)) + delay_s * NS_PER_S
    if moment.now_ns < due_ns:
        return LifeStep(again_ns=due_ns)
    statuses = pod_statuses.restarted(pod["metadata"]["uid"], held, moment.running, False)
    return _then(pod, {**pod["status"], "containerStatuses": statuses}, script, moment)


def _then(
    pod: JsonObject, status: JsonObject, script: Script, moment: PodMoment, delay_s: int | None = None
) -> LifeStep:
    """The step that follows `status` at once, as one step with it: the status is then written once, not twice."""
    changed = {**pod, "status": status}
    step = _go_on(changed, script, moment) if delay_s is None else _wait_out(changed, script, moment, delay_s)
    return step if step.status is not None else step._replace(status=status)


def _observed(pod: JsonObject, is_ready: bool, moment: PodMoment) -> JsonObject:
    """The status of a pod that goes on running: readiness, and images that were changed in its spec."""
    held, generation = pod["status"], pod["metadata"].get("generation", 1)
    statuses = pod_statuses.with_readiness(held["containerStatuses"], is_ready)
    if held.get("observedGeneration") != generation:
        statuses = _with_images(pod, statuses, moment)
    status = {**held, "observedGeneration": generation, "containerStatuses": statuses}
    return _with_readiness(pod, status, "" if is_ready else unready_text(pod["spec"]), moment)


def _with_images(pod: JsonObject, statuses: list[JsonObject], moment: PodMoment) -> list[JsonObject]:
    """A container whose image was changed begins again with the new one."""
    images = {container["name"]: container.get("image", "") for container in pod["spec"]["containers"]}
    return [
        status
        if images.get(status["name"], status["image"]) == status["image"]
        else _with_image(pod, status, images[status["name"]], moment)
        for status in statuses
    ]


def _with_image(pod: JsonObject, status: JsonObject, image: str, moment: PodMoment) -> JsonObject:
    """Restart one container with another image, without a backoff."""
    stopped = pod_statuses.backing_off([status], moment.now, 0, 0)
    (begun,) = pod_statuses.restarted(pod["metadata"]["uid"], stopped, moment.running, status["ready"])
    return {**begun, "image": image, "imageID": pod_statuses.image_id(image)}


def _with_readiness(pod: JsonObject, status: JsonObject, unready: str, moment: PodMoment) -> JsonObject:
    """Set Ready and ContainersReady. `unready` says why the containers are not; readiness gates also hold Ready back."""
    generation = pod["metadata"].get("generation", 1)
    shut = [gate["conditionType"] for gate in pod["spec"].get("readinessGates", ())]
    shut = [gate for gate in shut if not holds(pod, gate)]
    conditions = [
        readiness(READY, unready, moment.now, generation),
        readiness(CONTAINERS_READY, unready, moment.now, generation),
    ]
    if shut and not unready:
        why = f'corresponding condition of pod readiness gate "{shut[0]}" does not exist.'
        conditions[0] |= {"status": "False", "reason": "ReadinessGatesNotReady", "message": why}
    return {**status, "conditions": _replaced(status.get("conditions", ()), conditions, generation)}


def _replaced(held: Iterable[JsonObject], new: list[JsonObject], generation: int) -> list[JsonObject]:
    """All conditions in their order, with `new` ones set; conditions of the kubelet have observed this generation."""
    replaced = [{**c, "observedGeneration": generation} if c["type"] in _OURS else c for c in held]
    for condition in new:
        replaced = with_condition(replaced, condition, condition["lastTransitionTime"])
    return replaced


def _deadline_ns(pod: JsonObject) -> int | None:
    """When activeDeadlineSeconds is over; None: there is no deadline."""
    deadline_s = pod["spec"].get("activeDeadlineSeconds")
    begun = pod["status"].get("startTime")
    return moment_ns(begun) + deadline_s * NS_PER_S if deadline_s is not None and begun else None


# ---- ending


def _stop(pod: JsonObject, script: Script, moment: PodMoment) -> LifeStep:
    """Wait for the containers to stop, then delete. With finalizers the pod stays visible, and is marked as failed."""
    meta = pod["metadata"]
    grace_s = meta.get("deletionGracePeriodSeconds") or 0
    due_ns = deleted_ns(meta) + round(stop_time_s(pod, script, grace_s) * NS_PER_S)
    if moment.now_ns < due_ns:
        return LifeStep(again_ns=due_ns)
    # Without finalizers the API server removes the pod at once: no client would see another status.
    if not meta.get("finalizers") or pod["status"].get("phase") in FINISHED_PHASES:
        return LifeStep(is_over=bool(grace_s))
    return LifeStep(_killed(pod, moment), is_over=bool(grace_s))


def _killed(pod: JsonObject, moment: PodMoment) -> JsonObject:
    """The status of a pod whose containers are killed, such as a deleted one that finalizers keep: it has failed."""
    statuses = pod_statuses.killed(pod["status"].get("containerStatuses", ()), moment.now)
    return _finished(pod, "Failed", statuses, moment)


def _ended(pod: JsonObject, exit_code: int, moment: PodMoment) -> JsonObject:
    statuses = pod_statuses.ended(pod["status"]["containerStatuses"], moment.now, exit_code)
    return _finished(pod, "Failed" if exit_code else "Succeeded", statuses, moment)


def rejected(pod: JsonObject, reason: str, message: str, moment: PodMoment) -> JsonObject:
    """The status of a pod that its kubelet does not admit. None of its containers existed, so it has no statuses of
    them."""
    held = pod["status"]
    others = [condition for condition in held.get("conditions", ()) if condition["type"] not in _OURS]
    status = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}", "startTime": moment.now}
    kept = {key: held[key] for key in _NOT_THE_KUBELETS if key in held}
    return {**status, "conditions": others, **kept}


def _past_deadline(pod: JsonObject, moment: PodMoment) -> JsonObject:
    """The status of a pod that ran longer than activeDeadlineSeconds."""
    why = {"reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"}
    return _killed(pod, moment) | why


def _finished(pod: JsonObject, phase: str, statuses: list[JsonObject], moment: PodMoment) -> JsonObject:
    """The status of a pod in a final phase."""
    held, generation = pod["status"], pod["metadata"].get("generation", 1)
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    conditions = [
        pod_condition(SANDBOX, "False", moment.now, generation),
        pod_condition(READY, "False", moment.now, generation) | {"reason": reason},
        pod_condition(CONTAINERS_READY, "False", moment.now, generation) | {"reason": reason},
    ]
    status = {**held, "phase": phase, "observedGeneration": generation, "containerStatuses": statuses}
    status["conditions"] = _replaced(held.get("conditions", ()), conditions, generation)
    if "initContainerStatuses" in held:
        inits = held["initContainerStatuses"]
        status["initContainerStatuses"] = pod_statuses.with_sidecars_ended(inits, moment.now)
    return status


# ---- conditions


def _sooner(a_ns: int | None, b_ns: int | None) -> int | None:
    """The earlier of two times, of which each may be missing."""
    if a_ns is None or b_ns is None:
        return a_ns if b_ns is None else b_ns
    return min(a_ns, b_ns)
