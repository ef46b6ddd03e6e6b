"""CEL expressions that clients write into claims, templates and device classes: they must compile, have a type that fits, and
not cost too much. Expressions that are stored already are not looked at again, as in kube-apiserver."""

from collections.abc import Iterator, Mapping, Sequence

from mooring.api.api_errors import Cause, field_forbidden, field_invalid, field_too_long
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.custom_resources import CUSTOM_RESOURCE_DEFINITION
from mooring.api.kinds.devices import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE

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
