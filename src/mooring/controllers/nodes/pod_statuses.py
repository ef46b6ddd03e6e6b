"""Parts of a pod's status: the statuses of its containers in each state of their life, and its conditions. Parts that
are equal in many pods are one object, which saves memory and time with 100,000 pods."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from mooring.api.json_objects import JsonObject
from mooring.kit.clock import NS_PER_S, in_seconds, moment_ns
from mooring.model.pod_spec import FINISHED_PHASES

# ---- Workload controllers read the status of a pod as one of five states, with readiness and availability.


State = Literal["ready", "unready", "terminating", "Succeeded", "Failed"]

ACTIVE: tuple[State, ...] = ("ready", "unready")
"""Neither finished nor being deleted: these pods count as replicas."""


def state_of(pod: JsonObject) -> State:
    """The state of a pod; each pod is in exactly one."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded" or phase == "Failed":
        return "Succeeded" if phase == "Succeeded" else "Failed"
    if pod["metadata"].get("deletionTimestamp"):
        return "terminating"
    return "ready" if _has_ready_condition(status) else "unready"


def is_active(pod: JsonObject) -> bool:
    return state_of(pod) in ACTIVE


def is_terminating(pod: JsonObject) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def phase_of(pod: JsonObject) -> str:
    phase: str = pod.get("status", {}).get("phase", "")
    return phase


def is_finished(pod: JsonObject) -> bool:
    return phase_of(pod) in FINISHED_PHASES


def is_ready(pod: JsonObject) -> bool:
    return _has_ready_condition(pod.get("status", {}))


def available_at_ns(pod: JsonObject, min_ready_s: int) -> int | None:
    """When a pod will have been, or had been, ready for minReadySeconds; None: it is not ready. 0 without
    minReadySeconds."""
    if not is_ready(pod):
        return None
    if not min_ready_s:
        return 0
    since = ready_since(pod)
    return moment_ns(since) + min_ready_s * NS_PER_S if since else None


def availability(pods: Iterable[JsonObject], min_ready_s: int, now_ns: int) -> tuple[int, int | None]:
    """The number of pods that are available, and when the next of the others will be; None if no other pod is ready."""
    moments = [at_ns for pod in pods if (at_ns := available_at_ns(pod, min_ready_s)) is not None]
    return sum(at_ns <= now_ns for at_ns in moments), min((at_ns for at_ns in moments if at_ns > now_ns), default=None)


def ready_since(pod: JsonObject) -> str:
    """The time as written; empty: the pod is not ready, or the condition has no time."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return condition.get("lastTransitionTime") or ""
    return ""


def restarts_of(pod: JsonObject) -> int:
    """The restarts of the container that restarted most often."""
    held = pod.get("status", {}).get("containerStatuses", ())
    return max((container.get("restartCount", 0) for container in held), default=0)


def _has_ready_condition(status: JsonObject) -> bool:
    for condition in status.get("conditions", ()):
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return False


NOT_YET: JsonObject = {}
"""The last state of a container that has not ended before."""

_KILLED = 137
"""128 + SIGKILL, as container runtimes report it."""
# Reasons of waiting containers.
CREATING, INITIALISING = "ContainerCreating", "PodInitializing"


@lru_cache(maxsize=4096)
def image_id(image: str) -> str:
    """A digest that stands for the image: equal images have equal ids."""
    stem = image.split("@")[0]
    return f"{stem}@sha256:{sha256(image.encode()).hexdigest()}"


def started(pod: JsonObject, containers: Iterable[JsonObject], running: JsonObject, ready: bool) -> list[JsonObject]:
    """Statuses of containers that have just begun; `running` is their state. Hot: 0.6 µs a container."""
    uid = pod["metadata"]["uid"].replace("-", "")
    return [
        {
            "name": container["name"],
            "state": running,
            "lastState": NOT_YET,
            "ready": ready,
            "restartCount": 0,
            "image": container.get("image", ""),
            "imageID": image_id(container.get("image", "")),
            "containerID": f"containerd://{uid}{container_mark(container['name'], 0)}",
            "started": True,
        }
        for container in containers
    ]


@lru_cache(maxsize=4096)
def container_mark(name: str, restarts: int) -> str:
    """The part of a container id that tells the containers of a pod, and the restarts of a container, apart."""
    return sha256(f"{name} {restarts}".encode()).hexdigest()[:32]


def initialised(pod: JsonObject, containers: Iterable[JsonObject], now: str, running: JsonObject) -> list[JsonObject]:
    """Init containers of a pod that runs: they have completed, except sidecars, which go on running."""
    statuses = started(pod, containers, running, True)
    for container, status in zip(containers, statuses, strict=True):
        if container.get("restartPolicy") != "Always":
            status["state"] = {"terminated": _terminated(status["containerID"], now, now, 0)}
            status["started"] = False
    return statuses


def awaited(containers: Iterable[JsonObject], reason: str) -> list[JsonObject]:
    """Containers that are still to begin."""
    return [
        {
            "name": container["name"],
            "state": {"waiting": {"reason": reason}},
            "lastState": NOT_YET,
            "ready": False,
            "restartCount": 0,
            "image": container.get("image", ""),
            "imageID": "",
            "started": False,
        }
        for container in containers
    ]


def ended(statuses: Iterable[JsonObject], now: str, exit_code: int) -> list[JsonObject]:
    """Containers that will not run again."""
    return [_stopped(status) | {"state": {"terminated": _end_of(status, now, exit_code)}} for status in statuses]


def backing_off(statuses: Iterable[JsonObject], now: str, exit_code: int, delay_s: int) -> list[JsonObject]:
    """Containers that ended and are to begin again, but not yet."""
    why = f"back-off {_duration(delay_s)} restarting failed container"
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": why}}
    return [
        _stopped(status) | {"state": waiting, "lastState": {"terminated": _end_of(status, now, exit_code)}}
        for status in statuses
    ]


def restarted(uid: str, statuses: Iterable[JsonObject], running: JsonObject, ready: bool) -> list[JsonObject]:
    """Containers that begin again; how they ended is in their last state."""
    return [_restarted(uid.replace("-", ""), status, running, ready) for status in statuses]


def _restarted(mark: str, status: JsonObject, running: JsonObject, ready: bool) -> JsonObject:
    """One container, with a new id and one restart more."""
    restarts = status.get("restartCount", 0) + 1
    life = {"state": running, "ready": ready, "started": True, "restartCount": restarts}
    return {**status, **life, "containerID": f"containerd://{mark}{container_mark(status['name'], restarts)}"}


def killed(statuses: Iterable[JsonObject], now: str) -> list[JsonObject]:
    return ended(statuses, now, _KILLED)


def with_sidecars_ended(statuses: Iterable[JsonObject], now: str) -> list[JsonObject]:
    """Init containers of a finished pod: of them only sidecars were still running."""
    return [ended([status], now, 0)[0] if "running" in status["state"] else status for status in statuses]


def with_readiness(statuses: Iterable[JsonObject], ready: bool) -> list[JsonObject]:
    return [status if status.get("ready") == ready else {**status, "ready": ready} for status in statuses]


def _stopped(status: JsonObject) -> JsonObject:
    return {**status, "ready": False, "started": False}


def _end_of(status: JsonObject, now: str, exit_code: int) -> JsonObject:
    """The end of a container, now; a container that had ended before keeps that end."""
    held: JsonObject = status["state"].get("terminated") or status.get("lastState", {}).get("terminated") or {}
    running = status["state"].get("running")
    if running is None and held:
        return held
    begun = running["startedAt"] if running else now
    return _terminated(status.get("containerID", ""), begun, now, exit_code)


def _terminated(container_id: str, begun: str, now: str, exit_code: int) -> JsonObject:
    reason = "Error" if exit_code else "Completed"
    state: JsonObject = {"exitCode": exit_code, "reason": reason, "startedAt": begun, "finishedAt": now}
    return state | {"containerID": container_id} if container_id else state


def _duration(seconds: int) -> str:
    """A duration as Go writes it: 10s, 1m20s, 5m0s."""
    return f"{seconds // 60}m{seconds % 60}s" if seconds >= 60 else f"{seconds}s"


# Conditions of pods that kubelets write.
SANDBOX, INITIALIZED, READY, CONTAINERS_READY = "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"


@dataclass(slots=True)
class PodMoment:
    """The present, and the parts of statuses that all pods share that begin now."""

    now_ns: int
    now: str = ""
    running: JsonObject = field(default_factory=dict)
    _conditions: dict[tuple[int, str], list[JsonObject]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now = in_seconds(self.now_ns)
        self.running = {"running": {"startedAt": self.now}}

    def conditions(self, generation: int, unready: str = "") -> list[JsonObject]:
        """The conditions of a pod that begins now; `unready` says why it is not ready."""
        key = generation, unready
        if key not in self._conditions:
            self._conditions[key] = [
                pod_condition(SANDBOX, "True", self.now, generation),
                pod_condition(INITIALIZED, "True", self.now, generation),
                readiness(READY, unready, self.now, generation),
                readiness(CONTAINERS_READY, unready, self.now, generation),
            ]
        return self._conditions[key]


def pod_condition(condition_type: str, status: str, now: str, generation: int) -> JsonObject:
    """One condition; generation 0 leaves observedGeneration out."""
    condition: JsonObject = {"type": condition_type, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
    return condition | {"observedGeneration": generation} if generation else condition


def readiness(condition_type: str, unready: str, now: str, generation: int) -> JsonObject:
    """Ready or ContainersReady: true if there is no reason why not."""
    if not unready:
        return pod_condition(condition_type, "True", now, generation)
    return pod_condition(condition_type, "False", now, generation) | {
        "reason": "ContainersNotReady",
        "message": unready,
    }


def unready_text(spec: JsonObject) -> str:
    return f"containers with unready status: [{' '.join(container['name'] for container in spec['containers'])}]"
