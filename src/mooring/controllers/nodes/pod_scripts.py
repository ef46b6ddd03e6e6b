"""How a pod behaves on a simulated node: what its annotations say, and how long it takes to stop."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mooring.api.json_objects import JsonObject

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
