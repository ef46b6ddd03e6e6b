"""What a kubelet says of its node: that it is ready, under no pressure, and what machine it is."""

from mooring.controllers.nodes.node_making import ARCH, DEFAULT_CAPACITY, HOSTNAME, OS
from mooring.model.json_objects import JsonObject
from mooring.rules.conditions import condition_of, with_condition

KUBELET_VERSION = "v1.36.4"

_READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_PRESSURES = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_INFO = {
    "kernelVersion": "6.12.0-mooring",
    "osImage": "Mooring simulated node",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kubeletVersion": KUBELET_VERSION,
}


def missing_labels(node: JsonObject) -> JsonObject:
    """Labels that every kubelet gives its node, as far as they are not there."""
    labels = node["metadata"].get("labels", {})
    usual = {HOSTNAME: node["metadata"]["name"], ARCH: "amd64", OS: "linux"}
    return {key: value for key, value in usual.items() if key not in labels}


def alive_status(node: JsonObject, is_new: bool, address: str, now: str) -> JsonObject:
    """The status of a living node. Only what is missing or unknown is said, so that users can put a node under pressure;
    a new node is ready whatever its manifest says. The same status comes back if there is nothing to say."""
    held = node.get("status", {})
    status = {**held, "conditions": _conditions(node, is_new, now)}
    if not held.get("addresses"):
        hostname = node["metadata"].get("labels", {}).get(HOSTNAME, node["metadata"]["name"])
        given = (("InternalIP", address), ("Hostname", hostname))
        status["addresses"] = [{"type": type, "address": text} for type, text in given]
    if not held.get("capacity") and not held.get("allocatable"):
        status |= {"capacity": dict(DEFAULT_CAPACITY), "allocatable": dict(DEFAULT_CAPACITY)}
    if not held.get("nodeInfo", {}).get("kubeletVersion"):
        status["nodeInfo"] = _info(node)
    return status


def _conditions(node: JsonObject, is_new: bool, now: str) -> list[JsonObject]:
    conditions: list[JsonObject] = list(node.get("status", {}).get("conditions", ()))
    for type, wanted, reason, message in (*_PRESSURES, _READY):
        known = condition_of(node, type)
        is_unheard = known is None or known.get("status") not in ("True", "False")
        if is_unheard or (is_new and type == "Ready"):
            told = {"type": type, "status": wanted, "lastHeartbeatTime": now, "reason": reason, "message": message}
            conditions = with_condition(conditions, told, now)
    return conditions


def _info(node: JsonObject) -> JsonObject:
    labels, uid = node["metadata"].get("labels", {}), node["metadata"]["uid"]
    machine = {"machineID": uid.replace("-", ""), "systemUUID": uid, "bootID": uid, "kubeProxyVersion": ""}
    system = {"operatingSystem": labels.get(OS, "linux"), "architecture": labels.get(ARCH, "amd64")}
    given = {key: value for key, value in node.get("status", {}).get("nodeInfo", {}).items() if value}
    return {**machine, **_INFO, **system, **given}
