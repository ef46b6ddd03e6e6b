"""Defaulting and admission of every kind but Pod: one short function each, as far as clients can tell."""

from collections.abc import Callable, Mapping
from typing import Any

from mooring.apiserver.admission.limit_ranges import complete_limit_range
from mooring.apiserver.admission.pod_fields import complete_pod_spec, fill
from mooring.apiserver.lookups import JsonObject, Lookups, name_of
from mooring.model.api_errors import Cause, field_forbidden, field_invalid
from mooring.model.defaults import PREEMPT_LOWER_PRIORITY
from mooring.model.devices import EXACT_COUNT
from mooring.model.pod_defaults import round_up
from mooring.model.storage import IMMEDIATE

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)
_ROLLING = {"type": "RollingUpdate"}
_SPECS: Mapping[str, dict[str, Any]] = {
    "deployments": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "replicasets": {"replicas": 1},
    "replicationcontrollers": {"replicas": 1},
    "statefulsets": {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"},
    "daemonsets": {"revisionHistoryLimit": 10},
    "jobs": {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    },
    "cronjobs": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "services": {"type": "ClusterIP", "sessionAffinity": "None"},
    "persistentvolumes": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "persistentvolumeclaims": {"volumeMode": "Filesystem"},
}
_NEW_STATUS: Mapping[str, JsonObject] = {
    "namespaces": {"phase": "Active"},
    "persistentvolumes": {"phase": "Pending"},
    "persistentvolumeclaims": {"phase": "Pending"},
    "poddisruptionbudgets": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    "replicasets": {"replicas": 0},
    "replicationcontrollers": {"replicas": 0},
    "statefulsets": {"replicas": 0, "availableReplicas": 0},
    "daemonsets": {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0},
    "services": {"loadBalancer": {}},
    "volumeattachments": {"attached": False},
}
_PROTECTED = {
    "persistentvolumes": "kubernetes.io/pv-protection",
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
}


def complete(plural: str, item: JsonObject) -> None:
    """Defaulting, at creation and at every update."""
    if plural in _SPECS:
        fill(item.setdefault("spec", {}), _SPECS[plural])
    if plural in _DEFAULTING:
        _DEFAULTING[plural](item)


def new_status(plural: str) -> JsonObject:
    """The status that a new object gets, whatever its writer says."""
    return dict(_NEW_STATUS.get(plural, {}))


def admit_storage(plural: str, item: JsonObject, cluster: Lookups) -> None:
    """A claim gets the default class; claims and volumes are kept from vanishing while in use."""
    if plural in _PROTECTED:
        held = item["metadata"].get("finalizers", [])
        item["metadata"]["finalizers"] = [*held, *({_PROTECTED[plural]} - set(held))]
    if plural == "persistentvolumeclaims" and "storageClassName" not in item["spec"]:
        chosen = _default_class(cluster)
        if chosen and _CLASS_ANNOTATION not in item["metadata"].get("annotations", {}):
            item["spec"]["storageClassName"] = chosen


def select_own_pods(job: JsonObject) -> None:
    """A new job finds its pods by its uid, so that two jobs of one name, one after the other, do not share them."""
    spec = job["spec"]
    if spec.get("manualSelector") or "selector" in spec:
        return
    uid, name = job["metadata"]["uid"], name_of(job)
    own = {"controller-uid": uid, "job-name": name}
    labels = own | {f"batch.kubernetes.io/{key}": value for key, value in own.items()}
    meta = spec["template"]["metadata"]
    meta["labels"] = {**meta.get("labels", {}), **labels}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _default_class(cluster: Lookups) -> str:
    """The newest of the classes marked as default, then the first by name."""
    classes = sorted(cluster.storage_classes(), key=name_of)
    marked = [c for c in classes if c["metadata"].get("annotations", {}).get(_DEFAULT_CLASS) == "true"]
    newest = max(marked, key=lambda c: c["metadata"].get("creationTimestamp", ""), default=None)
    return name_of(newest) if newest else ""


def change_faults(plural: str, old: JsonObject, new: JsonObject) -> list[Cause]:
    """Changes of what is fixed for good."""
    faults = []
    if plural == "priorityclasses":
        if old.get("value", 0) != new.get("value", 0):
            faults.append(field_forbidden("value", "may not be changed in an update."))
        if old.get("preemptionPolicy") != new.get("preemptionPolicy"):
            faults.append(field_invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable"))
    for path in _FIXED.get(plural, ()):
        before, after = _at(old, path), _at(new, path)
        if before != after:
            faults.append(field_invalid(path, after, "field is immutable"))
    return faults


def _at(item: JsonObject, path: str) -> Any:
    found: Any = item
    for part in path.split("."):
        found = (found or {}).get(part)
    return found


_FIXED: Mapping[str, tuple[str, ...]] = {
    "deployments": ("spec.selector",),
    "replicasets": ("spec.selector",),
    "daemonsets": ("spec.selector",),
    "resourceclaims": ("spec",),
    "storageclasses": ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    "runtimeclasses": ("handler",),
    "resourceslices": ("spec.nodeName", "spec.driver", "spec.pool.name"),
}


def _node(node: JsonObject) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    for group in ("capacity", "allocatable"):
        round_up(status.get(group))
    for condition in status.get("conditions", ()):
        condition.setdefault("lastHeartbeatTime", None)
        condition.setdefault("lastTransitionTime", None)
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for key in _NODE_INFO:
        info.setdefault(key, "")


def _namespace(namespace: JsonObject) -> None:
    meta = namespace["metadata"]
    meta["labels"] = {**meta.get("labels", {}), _NAMESPACE_LABEL: name_of(namespace)}
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def _priority_class(priority_class: JsonObject) -> None:
    priority_class.setdefault("value", 0)
    fill(priority_class, {"preemptionPolicy": PREEMPT_LOWER_PRIORITY})


def _storage_class(storage_class: JsonObject) -> None:
    fill(storage_class, {"reclaimPolicy": "Delete", "volumeBindingMode": IMMEDIATE})


def _service(service: JsonObject) -> None:
    for port in service["spec"].get("ports", ()):
        fill(port, {"protocol": "TCP", "targetPort": port.get("port", 0)})


def _secret(secret: JsonObject) -> None:
    fill(secret, {"type": "Opaque"})


def _templated(workload: JsonObject) -> None:
    template = workload["spec"].setdefault("template", {})
    template.setdefault("metadata", {})
    complete_pod_spec(template.setdefault("spec", {}))


def _deployment(deployment: JsonObject) -> None:
    _templated(deployment)
    strategy = deployment["spec"].setdefault("strategy", {})
    fill(strategy, _ROLLING)
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": "25%", "maxSurge": "25%"})


def _stateful_set(stateful_set: JsonObject) -> None:
    _templated(stateful_set)
    strategy = stateful_set["spec"].setdefault("updateStrategy", {})
    fill(strategy, _ROLLING)
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"partition": 0})


def _daemon_set(daemon_set: JsonObject) -> None:
    _templated(daemon_set)
    strategy = daemon_set["spec"].setdefault("updateStrategy", {})
    fill(strategy, _ROLLING)
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), {"maxUnavailable": 1, "maxSurge": 0})


def _replication_controller(controller: JsonObject) -> None:
    _templated(controller)
    labels = controller["spec"]["template"]["metadata"].get("labels")
    if labels:
        controller["spec"].setdefault("selector", dict(labels))


def _job(job: JsonObject) -> None:
    spec = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    fill(spec, {"parallelism": 1})
    _templated(job)


def _claim(claim: JsonObject) -> None:
    _device_requests(claim.setdefault("spec", {}))


def _claim_template(template: JsonObject) -> None:
    _device_requests(template.setdefault("spec", {}).setdefault("spec", {}))


def _device_requests(spec: JsonObject) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        for asked in (*([request["exactly"]] if "exactly" in request else ()), *request.get("firstAvailable", ())):
            fill(asked, {"allocationMode": EXACT_COUNT})
            if asked["allocationMode"] == EXACT_COUNT:
                asked.setdefault("count", 1)


_DEFAULTING: Mapping[str, Callable[[JsonObject], None]] = {
    "nodes": _node,
    "namespaces": _namespace,
    "priorityclasses": _priority_class,
    "storageclasses": _storage_class,
    "services": _service,
    "secrets": _secret,
    "limitranges": complete_limit_range,
    "deployments": _deployment,
    "replicasets": _templated,
    "statefulsets": _stateful_set,
    "daemonsets": _daemon_set,
    "replicationcontrollers": _replication_controller,
    "jobs": _job,
    "resourceclaims": _claim,
    "resourceclaimtemplates": _claim_template,
}
