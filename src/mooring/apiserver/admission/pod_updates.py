"""Changes of a pod that exists: binding, the subresources that change one part, and plain updates.

A plain update may change little, and while the pod is gated only what narrows where it can go. `take_part` serves
namespaces (`finalize`) too.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from mooring.api import api_errors as errors
from mooring.api.json_objects import JsonObject
from mooring.api.kinds.pods import POD
from mooring.apiserver.admission.object_meta import check_uid, name_of, precondition_failed
from mooring.apiserver.admission.pod_plugins import add_topology
from mooring.model.names import subdomain_faults
from mooring.model.node import NO_EXECUTE
from mooring.model.pod_spec import REQUIRED_TERMS
from mooring.rules.conditions import with_condition
from mooring.rules.pod_admission import drop_old_annotations
from mooring.rules.pod_defaults import complete_whole

# ---- subresources that change one part


def take_part(subresource: str, old: JsonObject, new: JsonObject) -> JsonObject:
    """`old` with the part of `new` that the subresource is for."""
    spec, given = old.get("spec", {}), new.get("spec") or {}
    match subresource:
        case "ephemeralcontainers":
            taken = {**spec, "ephemeralContainers": given.get("ephemeralContainers") or []}
        case "resize":
            taken = {**spec, "containers": _resized(spec.get("containers", []), given.get("containers") or [])}
            complete_whole(taken)
        case "finalize":
            taken = {**spec, "finalizers": given.get("finalizers") or []}
        case _:
            raise errors.bad_request(f"{subresource} cannot be written")
    changed = {**old, "spec": taken}
    if taken != spec and "generation" in old["metadata"]:
        changed["metadata"] = {**old["metadata"], "generation": old["metadata"]["generation"] + 1}
    return changed


def _resized(held: list[JsonObject], given: list[JsonObject]) -> list[JsonObject]:
    """A container that is not named keeps what it has."""
    resources = {container.get("name"): container.get("resources") or {} for container in given}
    return [{**container, "resources": resources.get(container["name"], container["resources"])} for container in held]


# ---- binding


_BINDING = "pods/binding"
"""The resource that the conflict names."""


def check_binding(name: str, binding: JsonObject) -> None:
    """Refuse a Binding that is wrong whatever the pod. `name` is the pod's in the URL. Runs before the pod is read."""
    if name_of(binding) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    faults = _target_faults(binding.get("target") or {})
    if faults:
        texts = [str(fault) for fault in faults]
        raise errors.unexplained(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _target_faults(target: JsonObject) -> list[errors.Cause]:
    """A Binding names a node; upstream knows no other target."""
    faults = []
    if target.get("kind") not in (None, "", "Node"):
        faults.append(errors.field_unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        faults.append(errors.field_required("target.name"))
    elif target.get("kind") in (None, "", "Node"):
        faults += [errors.field_invalid("target.name", target["name"], why) for why in subdomain_faults(target["name"])]
    return faults


def bind(
    pod: JsonObject, binding: JsonObject, node: JsonObject | None, now: str, clears_nomination: bool = True
) -> JsonObject:
    """The pod on its node; the node need not exist. Raises a conflict where the pod cannot have one (any more).

    Generation stays: the pod's owner changed nothing. `clears_nomination` is the gate ClearingNominatedNodeNameAfterBinding.
    """
    _check_pod(pod, binding.get("metadata") or {})
    given = binding.get("metadata") or {}
    meta = {**pod["metadata"]}
    _merge(meta, "annotations", given)
    drop_old_annotations(meta)
    _merge(meta, "labels", given)
    bound = {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": binding["target"]["name"]}}
    bound["status"] = _scheduled(pod.get("status", {}), now)
    if clears_nomination:
        bound["status"].pop("nominatedNodeName", None)
    add_topology(bound, node)
    return bound


def _check_pod(pod: JsonObject, expected: JsonObject) -> None:
    """Refuse to bind another pod than the one that is meant, or one that cannot get a node. Raises 409."""
    check_uid(POD, pod, expected.get("uid"))
    version, held = expected.get("resourceVersion"), pod["metadata"].get("resourceVersion", "")
    if version and version != held:
        what = f"ResourceVersion in precondition: {version}, ResourceVersion in object meta: {held}"
        raise precondition_failed(POD, pod, what)
    why = _standing_against(pod)
    if why:
        raise errors.conflict(_BINDING, name_of(pod), why)


def _standing_against(pod: JsonObject) -> str:
    """Why the pod cannot get a node now; empty if it can."""
    name, spec = name_of(pod), pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    return f"pod {name} has non-empty .spec.schedulingGates" if spec.get("schedulingGates") else ""


def _merge(meta: JsonObject, group: str, given: JsonObject) -> None:
    """Add the labels or annotations of a Binding to the metadata of the pod."""
    if given.get(group):
        meta[group] = {**meta.get(group, {}), **given[group]}


def _scheduled(status: JsonObject, now: str) -> JsonObject:
    """Parity: the condition is replaced whole, so that no reason, message or observedGeneration stays behind."""
    condition: JsonObject = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    return {**status, "conditions": with_condition(status.get("conditions", ()), condition, now)}


# ---- updates

_TERMS = f"spec.affinity.nodeAffinity.{REQUIRED_TERMS}.nodeSelectorTerms"
"""The path that refusals name."""
_ALLOWED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
"""Parity: upstream's text, which kubectl shows."""

_CONTEXT_LINES = 3
"""As diff shows around a change."""
_SHOWN_LINES = 200
"""More lines of one change than this do not help a reader."""


def update_faults(old: JsonObject, new: JsonObject) -> list[errors.Cause]:
    """Why the server refuses this update of a pod; nothing where it does not. Both pods have their defaults."""
    held, wanted = old["spec"], new["spec"]
    counts = [*_container_counts(held, wanted)]
    if counts:
        return counts
    faults = [*_deadline(held, wanted), *_tolerations(held, wanted), *_gates(held, wanted)]
    is_gated = bool(held.get("schedulingGates"))
    if is_gated:
        faults += [*_node_selector(held, wanted), *_node_affinity(held, wanted)]
    munged = _munged(held, wanted, is_gated)
    if munged != held:
        faults.append(errors.field_forbidden("spec", f"{_ALLOWED}\n{_diff(held, munged)}"))
    return faults


def _munged(held: JsonObject, wanted: JsonObject, is_gated: bool) -> JsonObject:
    """The new spec with everything put back that may change: what still differs may not."""
    free = ["activeDeadlineSeconds", "tolerations", "schedulingGates", *(["nodeSelector"] if is_gated else [])]
    if held.get("terminationGracePeriodSeconds", 0) < 0 and wanted.get("terminationGracePeriodSeconds") == 1:
        free.append("terminationGracePeriodSeconds")
    munged = {key: value for key, value in wanted.items() if key not in free}
    munged |= {key: held[key] for key in free if key in held}
    for group in ("containers", "initContainers"):
        if group in munged:
            pairs = zip(munged[group], held.get(group, ()), strict=False)
            munged[group] = [_with_image(container, before.get("image")) for container, before in pairs]
    if is_gated:
        _put_back_required(held, munged)
    return munged


def _with_image(container: JsonObject, image: str | None) -> JsonObject:
    """The container with another image: None takes it away."""
    rest = {key: value for key, value in container.items() if key != "image"}
    return rest if image is None else {**rest, "image": image}


def _put_back_required(held: JsonObject, munged: JsonObject) -> None:
    """Required node affinity of a gated pod has checks of its own; an affinity that only holds it is put back whole."""
    affinity = json.loads(json.dumps(munged.get("affinity", {})))
    before = held.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED_TERMS)
    node_affinity = affinity.get("nodeAffinity", {})
    node_affinity.pop(REQUIRED_TERMS, None)
    if before is not None:
        node_affinity[REQUIRED_TERMS] = before
    if node_affinity or "nodeAffinity" in held.get("affinity", {}):
        affinity["nodeAffinity"] = node_affinity
    else:
        affinity.pop("nodeAffinity", None)
    munged.pop("affinity", None)
    if affinity or "affinity" in held:
        munged["affinity"] = affinity


def _diff(held: JsonObject, munged: JsonObject) -> str:
    """The difference of two specs, for the message. Later: kube-apiserver shows its Go struct, with other names and line
    numbers.

    One block from the first line that differs to the last: to find the shortest edit takes more than linear time.
    """
    before, after = (json.dumps(spec, indent=1, sort_keys=True).splitlines() for spec in (held, munged))
    start = _common(before, after)
    tail = _common(before[:start:-1], after[:start:-1])
    gone, new = before[start : len(before) - tail], after[start : len(after) - tail]
    first = max(start - _CONTEXT_LINES, 0)
    around = before[first:start], before[len(before) - tail :][:_CONTEXT_LINES]
    lengths = [sum(map(len, (around[0], part, around[1]))) for part in (gone, new)]
    lines = [f"@@ -{first + 1},{lengths[0]} +{first + 1},{lengths[1]} @@", *(f" {line}" for line in around[0])]
    lines += [*_shown("-", gone), *_shown("+", new), *(f" {line}" for line in around[1])]
    return "".join(f"{line}\n" for line in lines)


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((i for i, (old, new) in pairs if old != new), min(len(before), len(after)))


def _shown(sign: str, lines: Sequence[str]) -> Iterator[str]:
    """Lines with a sign in front, the first _SHOWN_LINES of them."""
    yield from (f"{sign}{line}" for line in lines[:_SHOWN_LINES])
    if len(lines) > _SHOWN_LINES:
        yield f"{sign}... and {len(lines) - _SHOWN_LINES} lines more"


def _container_counts(held: JsonObject, wanted: JsonObject) -> Iterator[errors.Cause]:
    """Containers cannot come or go."""
    for group in ("containers", "initContainers"):
        if len(held.get(group, ())) != len(wanted.get(group, ())):
            yield errors.field_forbidden(f"spec.{group}", "pod updates may not add or remove containers")


def _deadline(held: JsonObject, wanted: JsonObject) -> Iterator[errors.Cause]:
    """A deadline can be set once, and then only shortened."""
    place = "spec.activeDeadlineSeconds"
    before, after = held.get("activeDeadlineSeconds"), wanted.get("activeDeadlineSeconds")
    if before is None:
        return
    if after is None:
        yield errors.field_invalid(place, None, "must not update from a positive integer to nil value")
    elif after > before:
        yield errors.field_invalid(place, after, "must be less than or equal to previous value")


def _tolerations(held: JsonObject, wanted: JsonObject) -> Iterator[errors.Cause]:
    """Tolerations can be added; of one that is there only its seconds can change."""
    after = {_without_seconds(toleration) for toleration in wanted.get("tolerations", ())}
    if not all(_without_seconds(toleration) in after for toleration in held.get("tolerations", ())):
        yield errors.field_forbidden(
            "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
        )


def _without_seconds(toleration: JsonObject) -> frozenset[tuple[str, Any]]:
    """The fields of a toleration that may not change. Their values are plain ones."""
    is_timed = toleration.get("effect") == NO_EXECUTE
    return frozenset((key, value) for key, value in toleration.items() if not (is_timed and key == "tolerationSeconds"))


def _gates(held: JsonObject, wanted: JsonObject) -> Iterator[errors.Cause]:
    """Scheduling gates can only be removed: otherwise a pod could leave the queue that it is in."""
    before = {gate.get("name") for gate in held.get("schedulingGates", ())}
    for i, gate in enumerate(wanted.get("schedulingGates", ())):
        if gate.get("name") not in before:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            yield errors.field_forbidden(f"spec.schedulingGates[{i}].name", why)


def _node_selector(held: JsonObject, wanted: JsonObject) -> Iterator[errors.Cause]:
    """A gated pod's node selector can only get narrower: what placed it may rely on the lines that are there."""
    after = wanted.get("nodeSelector", {})
    if any(after.get(key) != value for key, value in held.get("nodeSelector", {}).items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield errors.field_invalid("spec.nodeSelector", after, why)


def _node_affinity(held: JsonObject, wanted: JsonObject) -> Iterator[errors.Cause]:
    """Terms are alternatives, so another term would widen the choice; another line in a term narrows it."""
    before, after = (
        spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED_TERMS, {}).get("nodeSelectorTerms", [])
        for spec in (held, wanted)
    )
    if not before:
        return
    if len(before) != len(after):
        yield errors.field_invalid(
            _TERMS, after, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        )
        return
    for i, (old_term, new_term) in enumerate(zip(before, after, strict=True)):
        if not _narrows(old_term, new_term):
            yield errors.field_invalid(
                f"{_TERMS}[{i}]", new_term, "only additions are allowed (no mutations or deletions)"
            )


def _narrows(old_term: JsonObject, new_term: JsonObject) -> bool:
    """Whether the new term has all lines of the old one, in their order, and perhaps more behind them."""
    if not old_term and new_term:
        return False  # An empty term matches nothing; a line in it would let nodes in.
    return all(
        new_term.get(group, [])[: len(old_term.get(group, []))] == old_term.get(group, [])
        for group in ("matchExpressions", "matchFields")
    )
