"""Kinds whose admission needs more than their KindSpec can hold: the admission of pods, or other objects of the
cluster.

All else about a kind is in its spec (`api/kinds`). A kind that is not listed here is ordinary.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from mooring.api.api_errors import Cause, internal_error
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.custom_resources import CUSTOM_RESOURCE_DEFINITION, name_new_definition
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import COMPOSITE_POD_GROUP, GROUP_PROTECTION, POD_GROUP, PRIORITY_CLASS
from mooring.api.kinds.storage import PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from mooring.api.kinds.workloads import JOB, SERVICE
from mooring.apiserver.admission.object_meta import Lookups, name_of
from mooring.apiserver.admission.pod_plugins import (
    admit_pod,
    check_only_default,
    finish_pod,
    give_priority,
    keep_priority,
)
from mooring.apiserver.admission.pod_updates import update_faults
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.workloads import PREEMPT_LOWER_PRIORITY
from mooring.rules.claims_and_volumes import GROUP_CLAIMS_GATE, default_storage_class
from mooring.rules.pod_admission import add_tolerations, drop_old_annotations
from mooring.rules.pod_defaults import complete_pod
from mooring.rules.workload_pods import job_labels

# ---- pod groups and groups of them


COMPOSITE_GATE, GROUP_GATE, POLICY_GATE = "CompositePodGroup", "GenericWorkload", "PodGroupPreemptionPolicy"


def protect(group: JsonObject, cluster: Lookups) -> None:
    """A new group is kept while it has pods."""
    if cluster.gates.get(GROUP_GATE, False):
        held = group["metadata"].get("finalizers", [])
        group["metadata"]["finalizers"] = [*held, *([] if GROUP_PROTECTION in held else [GROUP_PROTECTION])]


def _admit_priority(group: JsonObject, cluster: Lookups, kind: KindSpec, called: str) -> None:
    """Give a new group the priority of its class, and its preemption policy where that gate is on. Raises 403.

    Parity: a policy that is not given is PreemptLowerPriority before the class is looked at, so that a class with the policy
    Never takes only groups that say so too.
    """
    mismatch = (
        f"priority set in the {called} ({{}}) must match the priority computed ({{}}) based on the priority class set in the "
        "spec"
    )
    has_policy = cluster.gates.get(POLICY_GATE, False)
    if has_policy:
        group["spec"].setdefault("preemptionPolicy", PREEMPT_LOWER_PRIORITY)
    give_priority(kind, group, cluster, called, mismatch, has_policy)


# ---- services


SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
"""As kubeadm sets it up by default. No packet is ever sent there."""
NODE_PORTS = range(30_000, 32_768)
"""As kube-apiserver's default."""


def give_addresses(service: JsonObject, others: Collection[JsonObject]) -> None:
    """Give a service its cluster IP, and node ports where its type has them, each different from those of the others.
    Raises 500 when there is none left."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    if spec.get("type") in ("NodePort", "LoadBalancer") and spec.get("allocateLoadBalancerNodePorts") is not False:
        _give_node_ports(spec, others)
    if not spec.get("clusterIP"):
        taken = {other.get("spec", {}).get("clusterIP") for other in others}
        hosts = (str(host) for host in SERVICE_NETWORK.hosts())
        spec["clusterIP"] = next((host for host in hosts if host not in taken), None)
        if spec["clusterIP"] is None:
            raise internal_error("failed to allocate a serviceIP: range is full")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _give_node_ports(spec: JsonObject, others: Collection[JsonObject]) -> None:
    """A free port of the nodes for every port that names none."""
    taken = {port.get("nodePort") for other in others for port in other.get("spec", {}).get("ports", ())}
    taken |= {port.get("nodePort") for port in spec.get("ports", ())}
    free = (number for number in NODE_PORTS if number not in taken)
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            port["nodePort"] = next(free, None)
            if port["nodePort"] is None:
                raise internal_error("failed to allocate a nodePort: range is full")


# ---- what is special


@dataclass(frozen=True, slots=True)
class Special:
    """The treatment of objects of a kind beyond its spec. Objects are changed in place."""

    complete: Callable[[JsonObject], None] | None = None
    """Defaulting, in place of that of the spec."""
    admit: Callable[[JsonObject, Lookups, str], None] = lambda item, cluster, now: None
    """A new object, with its defaults, at a time in RFC 3339."""
    change: Callable[[JsonObject, JsonObject, Lookups], list[Cause]] = lambda old, new, cluster: []
    """An old and a new object: admits the new one and returns why the server rejects it."""
    change_status: Callable[[JsonObject, JsonObject, Collection[str], Mapping[str, bool]], None] = (
        lambda old, new, emptied, gates: None
    )
    """An old object, one with a new status, the fields of the status that the writer made empty lists, and the gates."""
    allocate: Callable[[JsonObject, Collection[JsonObject]], None] | None = None
    """A valid new object, and all others of its kind: gives it what no two of them may have."""


def _admit_pod(pod: JsonObject, cluster: Lookups, now: str) -> None:
    """Admission plugins, then the strategy."""
    drop_old_annotations(pod["metadata"])
    admit_pod(pod, cluster)
    finish_pod(pod, now, cluster.gates)


def _change_pod(old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    """The faults of an update of a pod, after the admission plugins that run for updates."""
    keep_priority(old, new)
    drop_old_annotations(new["metadata"])
    if old["spec"].get("resources") and new["spec"].get("resources") is None:
        new["spec"]["resources"] = old["spec"]["resources"]  # a writer may not know the resources of whole pods
    add_tolerations(new["spec"])
    return update_faults(old, new)


_KEPT_STATUS = (
    *("observedGeneration", "qosClass", "resourceClaimStatuses", "extendedResourceClaimStatus"),
    "nodeAllocatableResourceClaimStatuses",
)
"""Fields that a writer of the status of a pod does not clear by leaving them out, because it may not know them."""


def _change_pod_status(old: JsonObject, new: JsonObject, emptied: Collection[str], gates: Mapping[str, bool]) -> None:
    """A writer that leaves a field out keeps it; an empty list clears it."""
    before, status = old.get("status", {}), new["status"]
    for key in _KEPT_STATUS:
        if before.get(key) and not status.get(key) and key not in emptied:
            status[key] = before[key]
    held: dict[Any, JsonObject] = {condition.get("type"): condition for condition in before.get("conditions", ())}
    for condition in status.get("conditions", ()):
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
        seen = held.get(condition.get("type"), {}).get("observedGeneration")
        if seen and not condition.get("observedGeneration"):
            condition["observedGeneration"] = seen


def _admit_claim(claim: JsonObject, cluster: Lookups, now: str) -> None:
    """A claim that names no class gets the default one."""
    if "storageClassName" not in claim["spec"]:
        chosen = default_storage_class(cluster.all(STORAGE_CLASS))
        if chosen and CLASS_ANNOTATION not in claim["metadata"].get("annotations", {}):
            claim["spec"]["storageClassName"] = chosen


def _admit_priority_class(priority_class: JsonObject, cluster: Lookups, now: str) -> None:
    check_only_default(priority_class, cluster)


def _change_priority_class(old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    check_only_default(new, cluster)
    return []


def _admit_job(job: JsonObject, cluster: Lookups, now: str) -> None:
    """A new job finds its pods by its uid, so that two jobs of one name, one after the other, do not share them."""
    spec = job["spec"]
    if spec.get("manualSelector") or "selector" in spec:
        return
    uid, name = job["metadata"]["uid"], name_of(job)
    meta = spec["template"]["metadata"]
    meta["labels"] = {**meta.get("labels", {}), **job_labels(name, uid)}
    # Parity: a job without labels has those of its template.
    job["metadata"].setdefault("labels", dict(meta["labels"]))
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _admit_pod_group(group: JsonObject, cluster: Lookups, now: str) -> None:
    if cluster.gates.get(GROUP_GATE, False):
        _admit_priority(group, cluster, POD_GROUP, "pod group")
    protect(group, cluster)


def _admit_composite(group: JsonObject, cluster: Lookups, now: str) -> None:
    if cluster.gates.get(COMPOSITE_GATE, False):
        _admit_priority(group, cluster, COMPOSITE_POD_GROUP, "composite pod group")


def _change_group(old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    """A group keeps its policy if the writer leaves it out. Parity: not its priority, so a writer that leaves that out is
    refused because it may not change."""
    held = old.get("spec", {}).get("preemptionPolicy")
    if held is not None:
        new["spec"].setdefault("preemptionPolicy", held)
    return []


def _change_group_status(old: JsonObject, new: JsonObject, emptied: Collection[str], gates: Mapping[str, bool]) -> None:
    """Without the gate, only groups that have claims have statuses of claims."""
    if not gates.get(GROUP_CLAIMS_GATE, False) and not old.get("spec", {}).get("resourceClaims"):
        new["status"].pop("resourceClaimStatuses", None)


_ORDINARY = Special()
"""Nothing special."""
_SPECIAL_KINDS: Mapping[KindSpec, Special] = {
    POD: Special(complete_pod, _admit_pod, _change_pod, _change_pod_status),
    PERSISTENT_VOLUME_CLAIM: Special(admit=_admit_claim),
    PRIORITY_CLASS: Special(admit=_admit_priority_class, change=_change_priority_class),
    JOB: Special(admit=_admit_job),
    POD_GROUP: Special(admit=_admit_pod_group, change=_change_group, change_status=_change_group_status),
    COMPOSITE_POD_GROUP: Special(admit=_admit_composite, change=_change_group),
    SERVICE: Special(allocate=give_addresses),
    CUSTOM_RESOURCE_DEFINITION: Special(allocate=name_new_definition),
}
_SPECIAL = {kind.storage: own for kind, own in _SPECIAL_KINDS.items()}
"""By storage: a kind is special in all its versions."""


def special(resource: KindSpec) -> Special:
    """The special treatment of a kind; nothing for most."""
    return _SPECIAL.get(resource.storage, _ORDINARY)
