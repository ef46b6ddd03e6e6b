"""Defaulting: what every API server fills into a pod or a pod template, whatever else is in the cluster.

The twin of `model.pod_defaults` for plain JSON, which keeps the many fields that no scheduler reads.
"""

from collections.abc import Iterator
from typing import Any

from mooring.apiserver.lookups import JsonObject
from mooring.model.decode import decode_as
from mooring.model.pod import Pod
from mooring.model.pod_defaults import DEFAULT_SCHEDULER, round_up
from mooring.model.pod_defaults import complete_pod as complete_typed

_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": DEFAULT_SCHEDULER,
    "enableServiceLinks": True,
}
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_FILE_MODE = 0o644
_WITH_FILES = ("secret", "configMap", "downwardAPI", "projected")


def complete_pod(pod: JsonObject) -> None:
    spec = pod.setdefault("spec", {})
    complete_pod_spec(spec)
    _complete_pod_requests(pod)


def complete_pod_spec(spec: JsonObject) -> None:
    """In place, for pods and for the templates of what makes pods."""
    fill(spec, _SPEC)
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in containers_of(spec):
        _complete_container(container, bool(spec.get("hostNetwork")))
    round_up(spec.get("overhead"))
    for volume in spec.get("volumes", ()):
        _complete_volume(volume)


def containers_of(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def fill(target: JsonObject, defaults: dict[str, Any]) -> None:
    """Set what is missing; an empty string counts as missing, as it does to the server."""
    for key, value in defaults.items():
        if target.get(key) in (None, ""):
            target[key] = value


def _complete_container(container: JsonObject, host_network: bool) -> None:
    fill(container, _CONTAINER)
    fill(container, {"imagePullPolicy": _pull_policy(container.get("image", ""))})
    complete_resources(container.setdefault("resources", {}))
    for port in container.get("ports", ()):
        fill(port, {"protocol": "TCP"})
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)
    for name in _PROBES:
        if name in container:
            _complete_probe(container[name])
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {}).get("fieldRef")
        if source is not None:
            fill(source, {"apiVersion": "v1"})


def complete_resources(resources: JsonObject) -> None:
    """Requests that are not given are the limits, resource by resource."""
    for group in ("requests", "limits"):
        round_up(resources.get(group))
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _pull_policy(image: str) -> str:
    """A tag that may move (latest, or none) is pulled each time."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _complete_probe(probe: JsonObject) -> None:
    fill(probe, _PROBE)
    if "httpGet" in probe:
        fill(probe["httpGet"], {"path": "/", "scheme": "HTTP"})


def _complete_volume(volume: JsonObject) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in _WITH_FILES:
        if source in volume:
            fill(volume[source], {"defaultMode": _FILE_MODE})
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if template is not None:
        fill(template.setdefault("spec", {}), {"volumeMode": "Filesystem"})


def _complete_pod_requests(pod: JsonObject) -> None:
    """Requests of the pod as a whole follow from its containers and its limits: that rule is the model's."""
    whole = pod["spec"].get("resources")
    if not whole or not whole.get("limits"):
        return
    typed, _ = decode_as(Pod, pod)
    if typed is not None:
        complete_typed(typed)
        if typed.spec.resources is not None and typed.spec.resources.requests:
            whole["requests"] = dict(typed.spec.resources.requests)
