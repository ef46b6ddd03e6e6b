"""Validation: the faults for which a 422 refuses an object, and what cannot be read at all.

`api.validate` finds the problems that every reader of manifests reports; a problem knows what kube-apiserver says of it.
Objects that clients write have faults of form as well: what kube-apiserver rejects although no decision depends on it. The
rules of form are in `rules.pod_form` and `rules.workload_form`. Here they meet the rules of metadata and of pod templates.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from mooring.api import api_errors as errors
from mooring.api.api_errors import Cause, field_forbidden, field_invalid, field_required, field_too_long
from mooring.api.decode import decode_as
from mooring.api.fields import type_of
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.custom_resources import CUSTOM_RESOURCE_DEFINITION
from mooring.api.kinds.devices import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from mooring.api.kinds.events import is_event
from mooring.api.kinds.pods import POD
from mooring.api.kinds.storage import PERSISTENT_VOLUME
from mooring.api.schema.typed_values import check_typed
from mooring.api.validate import validate
from mooring.api.validation.pod_rules import check_pod_spec
from mooring.apiserver.admission.object_meta import Lookups, name_of
from mooring.model.names import qualified_name_faults
from mooring.model.pod_spec import PodSpec
from mooring.rules.pod_admission import TOLERATION_OPERATORS, gated_operators
from mooring.rules.workload_form import CHANGE_FAULTS, FORM_FAULTS, NEW_FAULTS

_KUBERNETES = ("", "apps", "batch")
"""Groups with kinds whose finalizers have a domain."""
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
"""The finalizers without a domain that kube-apiserver knows."""


def form_faults(resource: KindSpec, old: JsonObject, new: JsonObject) -> list[Cause]:
    """The faults of a new object, for which `old` is empty, or of a change. A change that leaves the spec alone is not asked
    for more than its metadata."""
    faults = [*_metadata(resource, old.get("metadata") or {}, new["metadata"])]
    if old and old.get("spec") == new.get("spec"):
        return faults
    key = (resource.group, resource.kind)
    faults += NEW_FAULTS[key](new) if not old and key in NEW_FAULTS else ()
    if resource.pod_template:
        faults += _template(resource, new)
    faults += FORM_FAULTS[key](new) if key in FORM_FAULTS else ()
    return [*faults, *(CHANGE_FAULTS[key](old, new) if old and key in CHANGE_FAULTS else ())]


def _template(resource: KindSpec, item: JsonObject) -> Iterator[Cause]:
    """The rules of pods for the pods that a workload will make: a fault shows at once, and not in an event."""
    path = _spec_of_pods(resource)
    spec, problems = decode_as(PodSpec, at(item, path, {}))
    found = problems if spec is None else check_pod_spec(path, spec)
    yield from (problem.cause() for problem in found)


def _metadata(resource: KindSpec, old: JsonObject, new: JsonObject) -> Iterator[Cause]:
    for key in new.get("annotations") or ():
        yield from (field_invalid("metadata.annotations", key, why) for why in qualified_name_faults(key.lower()))
    finalizers = new.get("finalizers") or []
    for i, name in enumerate(finalizers):
        path = f"metadata.finalizers[{i}]"
        yield from (field_invalid(path, name, why) for why in qualified_name_faults(name))
        if "/" not in name and resource.group in _KUBERNETES and name not in _STANDARD_FINALIZERS:
            yield field_invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")
    added = [name for name in finalizers if name not in (old.get("finalizers") or [])]
    if old.get("deletionTimestamp") and added:
        shown = ", ".join(f'"{name}"' for name in added)
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
        yield field_forbidden("metadata.finalizers", why)
    for i, owner in enumerate(new.get("ownerReferences") or ()):
        missing = [part for part in ("apiVersion", "kind", "name", "uid") if not owner.get(part)]
        yield from (field_required(f"metadata.ownerReferences[{i}].{part}", "must not be empty") for part in missing)


# ---- Fields and changes that an API server admits only with a feature gate.
#
# Parity: what an object has already stays, whatever the gate: a gate may be switched off while objects use its
# fields.


CLEARING_GATE = "ClearingNominatedNodeNameAfterBinding"
"""The gate by which a pod loses its nomination when it is bound, and gets none afterwards."""
NODE_AFFINITY_GATE = "MutablePVNodeAffinity"
"""Whether the node affinity of a PersistentVolume may change once it is set."""

_GA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
}
"""Beta label -> the same label since it is stable: affinities may go from one to the other."""


def gated_faults(resource: KindSpec, old: JsonObject, new: JsonObject, cluster: Lookups) -> list[errors.Cause]:
    """Faults of a change; `old` is empty for a new object."""
    gates = cluster.gates
    return [*_comparisons(resource, old, new, gates), *_moved_volume(resource, old, new, gates)]


def status_gated_faults(resource: KindSpec, old: JsonObject, new: JsonObject, cluster: Lookups) -> list[errors.Cause]:
    """Faults of a change of the status: a pod that has its node is nominated to none."""
    if resource is not POD or not cluster.gates.get(CLEARING_GATE, True) or not at(old, "spec.nodeName"):
        return []
    after = at(new, "status.nominatedNodeName", "")
    if not after or after == at(old, "status.nominatedNodeName", ""):
        return []
    return [
        errors.field_forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    ]


def _comparisons(
    resource: KindSpec, old: JsonObject, new: JsonObject, gates: Mapping[str, bool]
) -> Iterator[errors.Cause]:
    """Tolerations of pods and pod templates that compare numbers."""
    path = _spec_of_pods(resource)
    if not path or any(gated_operators(at(old, path, {}), gates)):
        return
    for place, operator in gated_operators(at(new, path, {}), gates):
        yield errors.field_unsupported(f"{path}.{place}", operator, TOLERATION_OPERATORS)


def _spec_of_pods(resource: KindSpec) -> str:
    if resource is POD:
        return "spec"
    return ".".join((*resource.pod_template, "spec")) if resource.pod_template else ""


def _moved_volume(
    resource: KindSpec, old: JsonObject, new: JsonObject, gates: Mapping[str, bool]
) -> Iterator[errors.Cause]:
    """A volume that says which nodes reach it says so for good, unless the gate is on."""
    if resource is not PERSISTENT_VOLUME or gates.get(NODE_AFFINITY_GATE, False):
        return
    before, after = at(old, "spec.nodeAffinity"), at(new, "spec.nodeAffinity")
    if before is None or before == after or _with_ga_labels(before) == after:
        return
    why = "field is immutable, except for updating from beta label to GA"
    yield errors.Cause("FieldValueInvalid", f"Invalid value: {_in_go(after)}: {why}", "nodeAffinity")


def _with_ga_labels(affinity: JsonObject) -> JsonObject:
    """The affinity with the stable names of its labels."""
    text = json.dumps(affinity)
    made: JsonObject = json.loads(text, object_hook=_ga_key)
    return made


def _ga_key(entry: JsonObject) -> JsonObject:
    return {**entry, "key": _GA_LABELS.get(entry["key"], entry["key"])} if "key" in entry else entry


def _in_go(value: object) -> str:
    """Parity: the server shows its own type, whose fields begin with capitals."""

    def capitals(entry: JsonObject) -> JsonObject:
        return {key[:1].upper() + key[1:]: held for key, held in entry.items()}

    return json.dumps(json.loads(json.dumps(value), object_hook=capitals), separators=(",", ":"))


def check_form(resource: KindSpec, item: JsonObject) -> None:
    """Refuse what a server cannot even read: another kind, a field of the wrong type, text that is no quantity. Raises
    400."""
    kind, version = item.get("kind", resource.kind), item.get("apiVersion", resource.api_version)
    if (kind, version) != (resource.kind, resource.api_version):
        why = f"converting ({version}.{kind}) to ({resource.group or 'core'}.{resource.kind}): unknown conversion"
        raise _unreadable(resource, why, kind, version)
    check_typed(type_of(resource), item, resource.kind, resource.version)


def unreadable_field(resource: KindSpec) -> errors.ApiError:
    """The refusal of an object with a field that the table does not describe and that is not of the form it is read in."""
    return _unreadable(resource, "json: cannot unmarshal a field into its Go type")


def _unreadable(resource: KindSpec, why: str, kind: str = "", version: str = "") -> errors.ApiError:
    what = f'{kind or resource.kind} in version "{(version or resource.api_version).rpartition("/")[2]}"'
    return errors.bad_request(f"{what} cannot be handled as a {resource.kind}: {why}")


def check_valid(resource: KindSpec, item: JsonObject, more: list[errors.Cause] | None = None) -> None:
    """Refuse an object that breaks rules, with all the rules that it breaks: those of the model and `more`. Raises 422."""
    typed, problems = decode_as(resource.struct, item)
    if typed is not None:
        problems = validate(typed, resource.name_rule)
    faults = [*(problem.cause() for problem in problems), *(more or ())]
    if faults:
        # Parity: whichever group an event is written to, its faults are those of the core kind.
        group = "" if is_event(resource) else resource.group
        raise errors.invalid(resource.kind, name_of(item), faults, group)


# ---- CEL expressions that clients write into claims, templates and device classes: they must compile, have a type that fits,
# and not cost too much. Expressions that are stored already are not looked at again, as in kube-apiserver.

_CLAIMS = {RESOURCE_CLAIM.kind: "spec.devices", RESOURCE_CLAIM_TEMPLATE.kind: "spec.spec.devices"}
"""Where kinds have the requests for devices."""
_TOO_COMPLEX = "too complex, exceeds cost limit"
_ALL_TOO_COMPLEX = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
_LIST_GATE = "DRAListTypeAttributes"


def expression_faults(resource: KindSpec, old: JsonObject, new: JsonObject, gates: Mapping[str, bool]) -> list[Cause]:
    """The faults of new expressions; `old` is empty for a new object. The requests of claims and templates never change."""
    if resource is CUSTOM_RESOURCE_DEFINITION:
        from mooring.rules.custom_kinds import all_definition_faults

        return all_definition_faults(old, new)
    if resource.kind == DEVICE_CLASS.kind:
        selectors = at(new, "spec.selectors", [])
        return [] if selectors == at(old, "spec.selectors", []) else [*_selectors("spec.selectors", selectors, gates)]
    path = _CLAIMS.get(resource.kind)
    return [*_requests(path, at(new, path, {}), gates)] if path is not None and not old else []


def _requests(path: str, devices: JsonObject, gates: Mapping[str, bool]) -> Iterator[Cause]:
    """The faults of all requests of a claim. The derived attributes of a claim have one limit together."""
    from mooring.rules.device_expressions import MAX_COST

    total = 0
    for i, request in enumerate(devices.get("requests") or ()):
        place = f"{path}.requests[{i}]"
        ways = [(f"{place}.exactly", request["exactly"])] if request.get("exactly") else []
        ways += [(f"{place}.firstAvailable[{j}]", sub) for j, sub in enumerate(request.get("firstAvailable") or ())]
        for where, asked in ways:
            yield from _selectors(f"{where}.selectors", asked.get("selectors") or (), gates)
            for j, derived in enumerate(asked.get("derivedAttributes") or ()):
                cost, faults = _judged(
                    f"{where}.derivedAttributes[{j}].expression", derived.get("expression", ""), True, gates
                )
                total += cost
                yield from faults
    if total > MAX_COST:
        yield field_forbidden(path, _ALL_TOO_COMPLEX)


def _selectors(path: str, selectors: Sequence[JsonObject], gates: Mapping[str, bool]) -> Iterator[Cause]:
    for i, selector in enumerate(selectors):
        yield from _judged(f"{path}[{i}].cel.expression", at(selector, "cel.expression", ""), False, gates)[1]


def _judged(path: str, text: str, is_derived: bool, gates: Mapping[str, bool]) -> tuple[int, list[Cause]]:
    """The most that an expression can cost, and its faults. Other rules report an expression that is empty."""
    # Not at the start: CEL takes 30 ms, and most clusters have no expressions.
    from mooring.rules.device_expressions import MAX_BYTES, MAX_COST, new_expression

    if not text:
        return 0, []
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return 0, [field_too_long(path, MAX_BYTES)]
    found = new_expression(text, is_derived, gates.get(_LIST_GATE, False))
    if isinstance(found, str):
        return 0, [field_invalid(path, text, found)]
    return found, [field_forbidden(path, _TOO_COMPLEX)] if found > MAX_COST else []
