"""Kinds whose admission needs more than their KindSpec can hold: the admission of pods, or other objects of the
cluster.

All else about a kind is in its spec (`api/kinds`). A kind that is not listed here is ordinary.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from mooring.api.api_errors import ApiError, Cause, field_invalid, field_unsupported, forbidden, internal_error
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import (
    GROUP_PROTECTION,
    GROUP_TEMPLATES,
    HIGHEST_USER_PRIORITY,
    POD_GROUP,
    PRIORITY_CLASS,
)
from mooring.api.kinds.storage import PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from mooring.api.kinds.workloads import JOB, SERVICE
from mooring.apiserver.admission.object_meta import Lookups, name_of
from mooring.apiserver.admission.pod_plugins import (
    admit_pod,
    check_only_default,
    class_priority,
    finish_pod,
    keep_priority,
)
from mooring.apiserver.admission.pod_updates import update_faults
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.workloads import DISRUPTED_ALONE, DISRUPTED_TOGETHER
from mooring.rules.claims_of_pods import GROUP_CLAIMS_GATE
from mooring.rules.pod_admission import add_tolerations
from mooring.rules.pod_defaults import complete_pod
from mooring.rules.volume_rules import default_storage_class
from mooring.rules.workload_pods import job_labels

# ---- Claims of pod groups (gate DRAWorkloadResourceClaims), and the protection of groups that have pods.


def admit_group_claims(old: JsonObject, new: JsonObject, cluster: Lookups) -> None:
    """A group gets claims of its own only with the gate; `old` is empty for a new one. Parity: claims that a group has stay,
    although the gate is off now."""
    if not cluster.gates.get(GROUP_CLAIMS_GATE, False) and not old.get("spec", {}).get("resourceClaims"):
        new.get("spec", {}).pop("resourceClaims", None)


def protect(group: JsonObject, cluster: Lookups) -> None:
    """A new group is kept while it has pods."""
    if cluster.gates.get("GenericWorkload", False):
        held = group["metadata"].get("finalizers", [])
        group["metadata"]["finalizers"] = [*held, *([] if GROUP_PROTECTION in held else [GROUP_PROTECTION])]


# ---- Admission of a PodGroup that names the template it was made from: the template must be there
# (PodGroupWorkloadExists).


def check_template(group: JsonObject, cluster: Lookups) -> None:
    """Refuse a group whose Workload, or the template in it, does not exist. Raises 403, in upstream's words."""
    named = at(group, "spec.podGroupTemplateRef.workload")
    if not named:
        return
    workload_name, template_name = named.get("workloadName", ""), named.get("podGroupTemplateName", "")
    workload = cluster.find(GROUP_TEMPLATES, workload_name, group["metadata"].get("namespace", ""))
    if workload is None:
        raise _forbid(group, f'PodGroup rejected: Workload "{workload_name}" not found')
    if "deletionTimestamp" in workload["metadata"]:
        raise _forbid(group, f'PodGroup rejected: Workload "{workload_name}" is being deleted')
    if template_name not in [template.get("name") for template in workload["spec"].get("podGroupTemplates", ())]:
        where = f'not found in Workload "{workload_name}"'
        raise _forbid(group, f'PodGroup rejected: PodGroupTemplate "{template_name}" {where}')


# ---- Priority and disruption mode of pod groups: how groups preempt each other. Gate WorkloadAwarePreemption.
#
# Without the gate the server drops these fields, but for groups that have them already.


GATE = "WorkloadAwarePreemption"
_FIELDS = ("disruptionMode", "priorityClassName", "priority")
_MODES = (DISRUPTED_ALONE, DISRUPTED_TOGETHER)


def admit_priority(group: JsonObject, cluster: Lookups) -> None:
    """Give a new group its mode and the priority of its class. Raises 403 for a class that is missing, and for a group that
    brings another priority."""
    spec = group["spec"]
    if not cluster.gates.get(GATE, False):
        _drop(spec, {})
        return
    spec.setdefault("disruptionMode", DISRUPTED_ALONE)
    wanted = spec.get("priorityClassName") or ""
    given = class_priority(wanted, cluster)
    if given is None:
        raise _forbid(group, f"no PriorityClass with name {wanted} was found")
    if spec.get("priority", given.value) != given.value:
        raise _forbid(
            group,
            f"priority set in the pod group ({spec['priority']}) must match the priority computed ({given.value}) based on "
            "the priority class set in the spec",
        )
    spec["priority"] = given.value
    if given.class_name:
        spec["priorityClassName"] = given.class_name


def admit_changed_priority(old: JsonObject, new: JsonObject, cluster: Lookups) -> None:
    """Admit the mode and priority of a group that changes. Parity: nothing but the mode is filled in, so a writer that
    leaves the priority out is refused because it may not change."""
    if cluster.gates.get(GATE, False):
        new["spec"].setdefault("disruptionMode", DISRUPTED_ALONE)
    else:
        _drop(new["spec"], old["spec"])


def priority_faults(spec: JsonObject) -> list[Cause]:
    """The faults of mode and priority."""
    faults = []
    mode, priority = spec.get("disruptionMode", DISRUPTED_ALONE), spec.get("priority", 0)
    if mode not in _MODES:
        faults.append(field_unsupported("spec.disruptionMode", mode, _MODES))
    if isinstance(priority, int) and priority > HIGHEST_USER_PRIORITY:
        faults.append(
            field_invalid("spec.priority", priority, f"must be less than or equal to {HIGHEST_USER_PRIORITY}")
        )
    return faults


def _drop(spec: JsonObject, held: JsonObject) -> None:
    for field in _FIELDS:
        if not held.get(field):
            spec.pop(field, None)


def _forbid(group: JsonObject, why: str) -> ApiError:
    return forbidden(POD_GROUP.plural, name_of(group), why, POD_GROUP.group)


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
    change_status: Callable[[JsonObject, JsonObject], None] = lambda old, new: None
    """An old object and one with a new status."""
    allocate: Callable[[JsonObject, Collection[JsonObject]], None] | None = None
    """A valid new object, and all others of its kind: gives it what no two of them may have."""


def _admit_pod(pod: JsonObject, cluster: Lookups, now: str) -> None:
    """Admission plugins, then the strategy."""
    admit_pod(pod, cluster)
    finish_pod(pod, now, cluster.gates)


def _change_pod(old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    """The faults of an update of a pod, after the admission plugins that run for updates."""
    keep_priority(old, new)
    add_tolerations(new["spec"])
    return update_faults(old, new)


def _change_pod_status(old: JsonObject, new: JsonObject) -> None:
    """A writer that does not know observedGeneration or the QoS class does not clear them."""
    before, status = old.get("status", {}), new["status"]
    for key in ("observedGeneration", "qosClass"):
        if before.get(key) and not status.get(key):
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
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _admit_pod_group(group: JsonObject, cluster: Lookups, now: str) -> None:
    admit_priority(group, cluster)
    check_template(group, cluster)
    admit_group_claims({}, group, cluster)
    protect(group, cluster)


def _change_pod_group(old: JsonObject, new: JsonObject, cluster: Lookups) -> list[Cause]:
    admit_changed_priority(old, new, cluster)
    admit_group_claims(old, new, cluster)
    return []


_ORDINARY = Special()
"""Nothing special."""
_SPECIAL: Mapping[KindSpec, Special] = {
    POD: Special(complete_pod, _admit_pod, _change_pod, _change_pod_status),
    PERSISTENT_VOLUME_CLAIM: Special(admit=_admit_claim),
    PRIORITY_CLASS: Special(admit=_admit_priority_class, change=_change_priority_class),
    JOB: Special(admit=_admit_job),
    POD_GROUP: Special(admit=_admit_pod_group, change=_change_pod_group),
    SERVICE: Special(allocate=give_addresses),
}


def special(resource: KindSpec) -> Special:
    """The special treatment of a kind; nothing for most."""
    return _SPECIAL.get(resource, _ORDINARY)
