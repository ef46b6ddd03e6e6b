"""Defaulting: what the API server fills into a pod or a pod template, independent of other objects of the cluster.

The values are those of upstream's pkg/apis/core/v1/defaults.go. The functions change plain JSON in place, so that the
many fields that no scheduler reads are kept.
"""

from collections.abc import Iterator, Mapping

from mooring.api.decode import decode_as
from mooring.api.json_objects import JsonObject, fill
from mooring.model.pod import Pod
from mooring.model.quantity import NANO, parse, round_up, to_milli
from mooring.model.requests import Accounting, Amounts, are_readable, effective_requests, is_pod_level

DEFAULT_SCHEDULER = "default-scheduler"

_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": DEFAULT_SCHEDULER,
}
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_FILE_MODE = 0o644
"""Upstream's mode of files that the kubelet projects into volumes; in JSON it is the decimal 420."""
_WITH_FILES = {"defaultMode": _FILE_MODE}
_VOLUMES: Mapping[str, JsonObject] = {
    **dict.fromkeys(("secret", "configMap", "downwardAPI", "projected"), _WITH_FILES),
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
"""Defaults by the source of a volume."""


def complete_pod(pod: JsonObject) -> None:
    """Default a pod. Requests, host ports and service links are set in pods only, never in templates of workloads."""
    spec = pod.setdefault("spec", {})
    fill(spec, {"enableServiceLinks": True})
    for container in containers_of(spec):
        complete_requests(container.setdefault("resources", {}))
        if spec.get("hostNetwork"):
            _take_host_ports(container)
    complete_pod_spec(spec)


def complete_pod_spec(spec: JsonObject) -> None:
    """Default what pods and pod templates share."""
    fill(spec, _SPEC)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1  # Parity: the shortest there is
    spec.setdefault("securityContext", {})
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in (*containers_of(spec), *(spec.get("ephemeralContainers") or ())):
        _complete_container(container)
    round_up(spec.get("overhead"))
    _round_resources(spec.get("resources"))
    for volume in spec.get("volumes", ()):
        _complete_volume(volume)


def containers_of(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def complete_requests(resources: JsonObject) -> None:
    """A request that is missing is the limit, resource by resource."""
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _round_resources(resources: JsonObject | None) -> None:
    if resources:
        round_up(resources.get("requests"))
        round_up(resources.get("limits"))


def _take_host_ports(container: JsonObject) -> None:
    """A container port in the network of the node is a port of the node, and NodePorts must count it."""
    for port in container.get("ports", ()):
        port["hostPort"] = port.get("hostPort") or port.get("containerPort", 0)


def _complete_container(container: JsonObject) -> None:
    """Set the defaults of a container as the API server does: pull policy, protocol of ports, probes, and field references.
    Requests and limits are rounded up."""
    fill(container, _CONTAINER)
    fill(container, {"imagePullPolicy": _pull_policy(container.get("image", ""))})
    _round_resources(container.setdefault("resources", {}))
    for port in container.get("ports", ()):
        fill(port, {"protocol": "TCP"})
    for name in _PROBES:
        if name in container:
            _complete_probe(container[name])
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {}).get("fieldRef")
        if source is not None:
            fill(source, {"apiVersion": "v1"})


def _pull_policy(image: str) -> str:
    """Images are pulled at each start if their tag may move (latest, or none); a digest never does."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _complete_probe(probe: JsonObject) -> None:
    fill(probe, _PROBE)
    if "httpGet" in probe:
        fill(probe["httpGet"], {"path": "/", "scheme": "HTTP"})


def _complete_volume(volume: JsonObject) -> None:
    """Set the defaults of a volume as the API server does. A volume without a source becomes an emptyDir."""
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    for source in _VOLUMES.keys() & volume.keys():
        fill(volume[source], _VOLUMES[source])
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "image" in volume:
        fill(volume["image"], {"pullPolicy": _pull_policy(volume["image"].get("reference", ""))})
    template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if template is not None:
        claim = template.setdefault("spec", {})
        fill(claim, {"volumeMode": "Filesystem"})
        _round_resources(claim.get("resources"))


def complete_whole(spec: JsonObject) -> None:
    """Default `spec.resources`, the resources of the pod as a whole. The API server does so after admission, when all
    containers have theirs.

    Its hugepages limits include those of the containers. A missing request of cpu or memory is the sum over the containers,
    any other missing request is the limit. A missing limit is the sum over the containers if all of them have one, but not
    less than the request.
    """
    whole = spec.get("resources") or {}
    requests, limits = dict(whole.get("requests") or {}), dict(whole.get("limits") or {})
    if not (requests or limits):
        return
    summed = _inside(spec, "limits")
    for name, nano in summed.items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, _write(nano))
    for name, nano in _inside(spec, "requests").items():
        if name in ("cpu", "memory"):
            requests.setdefault(name, _write(nano))
    requests = {**limits, **requests}
    for name in requests.keys() & summed.keys() - limits.keys():
        if is_pod_level(name) and all(name in _limits_of(each) for each in _all_containers(spec)):
            asked = parse(requests[name])
            limits[name] = requests[name] if asked > summed[name] else _write(summed[name])
    found = {"limits": limits, "requests": requests}
    spec["resources"] = {**whole, **{group: amounts for group, amounts in found.items() if amounts}}


def _all_containers(spec: JsonObject) -> Iterator[JsonObject]:
    yield from containers_of(spec)
    yield from spec.get("ephemeralContainers") or ()


def _limits_of(container: JsonObject) -> JsonObject:
    limits: JsonObject = (container.get("resources") or {}).get("limits") or {}
    return limits


def _inside(spec: JsonObject, group: str) -> Amounts:
    """The containers' requests or limits (`group`), added up as the scheduler adds up requests: sidecars run beside the
    containers, other init containers before them. Empty if a quantity is not readable; validation reports that."""
    bare = {
        kind: [
            {"restartPolicy": c.get("restartPolicy"), "resources": {"requests": c.get("resources", {}).get(group)}}
            for c in spec.get(kind, ())
        ]
        for kind in ("containers", "initContainers")
    }
    pod, _ = decode_as(Pod, {"spec": bare})
    return effective_requests(pod, Accounting(pod_level=False)) if pod is not None and are_readable(pod.spec) else {}


def _write(nano: int) -> str:
    """A quantity in whole units, or in thousandths, rounded up."""
    return str(nano // NANO) if nano % NANO == 0 else f"{to_milli(nano)}m"
