"""How long a pod takes to stop once it is deleted: its preStop hooks, then its containers, within its grace period."""

from collections.abc import Iterator

from mooring.controllers.nodes.pod_scripts import Script
from mooring.model.json_objects import JsonObject

SHORTEST_STOP_S = 2.0
"""Containers have so long for themselves even when the hooks have used up the grace period: kubelet's own minimum."""


def stop_time_s(pod: JsonObject, script: Script, grace_s: float) -> float:
    """From the request to the end. Hooks of all containers run side by side, and end with the grace period."""
    if not grace_s:
        return 0.0
    hooks_s = min(max((0.0, *_hook_times_s(pod))), grace_s)
    return hooks_s + min(script.stop_s, max(grace_s - hooks_s, SHORTEST_STOP_S))


def _hook_times_s(pod: JsonObject) -> Iterator[float]:
    """Of containers that run. A sleep takes its time; `exec` and `httpGet` take none, for nothing is really run."""
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
