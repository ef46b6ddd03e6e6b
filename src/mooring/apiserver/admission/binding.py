"""The binding subresource: how a pod gets its node, and everything that can stand against it."""

from mooring.apiserver.admission.object_meta import check_uid, precondition_failed
from mooring.apiserver.admission.pod_admission import add_topology
from mooring.apiserver.lookups import name_of
from mooring.model.api_errors import Cause, bad_request, conflict, field_required, field_unsupported, unexplained
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import RESOURCES
from mooring.rules.conditions import with_condition

PODS = RESOURCES["", "v1", "pods"]
_BINDING = "pods/binding"


def check_binding(name: str, binding: JsonObject) -> None:
    """What is wrong with the request whatever the pod: `name` is the pod's in the URL. Comes before the pod is read."""
    if name_of(binding) != name:
        raise bad_request("name in URL does not match name in Binding object")
    faults = _target_faults(binding.get("target") or {})
    if faults:
        texts = [str(fault) for fault in faults]
        raise unexplained(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _target_faults(target: JsonObject) -> list[Cause]:
    faults = []
    if target.get("kind") not in (None, "", "Node"):
        faults.append(field_unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        faults.append(field_required("target.name"))
    return faults


def bind(pod: JsonObject, binding: JsonObject, node: JsonObject | None, now: str) -> JsonObject:
    """The pod on its node; the node need not exist. Raises a conflict where the pod cannot have one (any more).

    Generation stays: the pod's owner changed nothing.
    """
    _check_pod(pod, binding.get("metadata") or {})
    given = binding.get("metadata") or {}
    meta = {**pod["metadata"]}
    _merge(meta, "annotations", given)
    _merge(meta, "labels", given)
    bound = {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": binding["target"]["name"]}}
    bound["status"] = _scheduled(pod.get("status", {}), now)
    add_topology(bound, node)
    return bound


def _check_pod(pod: JsonObject, expected: JsonObject) -> None:
    check_uid(PODS, pod, expected.get("uid"))
    version, held = expected.get("resourceVersion"), pod["metadata"].get("resourceVersion", "")
    if version and version != held:
        what = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {held}"
        raise precondition_failed(PODS, pod, what)
    why = _standing_against(pod)
    if why:
        raise conflict(_BINDING, name_of(pod), why)


def _standing_against(pod: JsonObject) -> str:
    name, spec = name_of(pod), pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if spec.get("schedulingGates") else ""


def _merge(meta: JsonObject, group: str, given: JsonObject) -> None:
    if given.get(group):
        meta[group] = {**meta.get(group, {}), **given[group]}


def _scheduled(status: JsonObject, now: str) -> JsonObject:
    """Parity: the condition is replaced whole, so that no reason, message or observedGeneration stays behind."""
    condition: JsonObject = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    changed = {**status, "conditions": with_condition(status.get("conditions", ()), condition, now)}
    changed.pop("nominatedNodeName", None)
    return changed
