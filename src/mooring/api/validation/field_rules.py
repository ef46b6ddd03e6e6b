"""Validation rules that fields of many kinds share: names, labels, selectors, quantities, taints and tolerations.

A rule yields the problems that it finds at `path`. The rules are the API server's, as far as they affect scheduling.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from mooring.api.api_errors import Cause, field_required
from mooring.api.validation.problem import (
    AGAIN,
    NOTHING_THERE,
    Problem,
    Problems,
    at_key,
    in_brackets,
    invalid_at,
    show,
    show_text,
)
from mooring.model import names, node
from mooring.model.meta import MAX_INT32, MAX_INT64, LabelSelector, Requirement
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm, ResourceList, ResourceRequirements, Toleration
from mooring.model.quantity import NANO, QuantityText, parse
from mooring.model.selectors import INTEGER, parse_int64

EFFECTS = (node.NO_SCHEDULE, node.PREFER_NO_SCHEDULE, node.NO_EXECUTE)
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS = (*LABEL_OPERATORS, "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
EQUALITY_OPERATORS = ("Equal", "Exists")
QUANTITY_FORM = "a quantity of zero or more, e.g. 500m, 2 or 1.5Gi"
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_BRACKETED = (".requests", ".limits", ".capacity", ".allocatable")
"""Parity: the maps of amounts in which the server names a resource in brackets, whatever it is called."""
NOT_NEGATIVE = "must be greater than or equal to 0"
"""The server's words for a number below zero."""

# Hot: a cluster has few distinct keys and values but many pods; without a cache, names take half the time of validation.
_key_faults = lru_cache(maxsize=65536)(lambda text: "; ".join(names.qualified_name_faults(text)))
_value_faults = lru_cache(maxsize=65536)(lambda text: "; ".join(names.label_value_faults(text)))


def one_of(path: str, value: str | None, choices: Collection[str]) -> Problems:
    """A text that is empty, or one of the choices."""
    if value and value not in choices:
        yield Problem(path, show(value), ", ".join(choices))


def required(path: str, value: object, allowed: str, told: str | Cause = "") -> Problems:
    """A value that must be there; `told` is what the server reports besides, or instead."""
    if not value:
        yield Problem(path, NOTHING_THERE, allowed, told=field_required(path, told) if isinstance(told, str) else told)


def in_range(path: str, value: int | None, low: int, high: int = MAX_INT32, told: str | Cause = "") -> Problems:
    """A number from `low` to `high`. The message leaves the upper bound out if it is only the limit of the type."""
    if value is not None and not low <= value <= high:
        allowed = f"{low} or more" if high >= MAX_INT32 and value < low else f"between {low} and {high}"
        yield Problem(path, show(value), allowed, told=told)


def unique(
    places: Iterable[tuple[str, Hashable]], what: str, told: Callable[[str, Any], Cause] | None = None
) -> Problems:
    """`places` are (path, value); each value may occur once. Empty values are a problem of other rules. `told` makes what the
    server reports, where that is not path and value."""
    seen: set[Hashable] = set()
    for path, value in places:
        if value and value in seen:
            shown = ", ".join(map(show, value)) if isinstance(value, tuple) else show(value)
            yield Problem(path, f"{shown}{AGAIN}", f"each {what} once", told="" if told is None else told(path, value))
        seen.add(value)


def named(path: str, text: str, faults: Callable[[str], list[str]]) -> Problems:
    """A name of the form that `faults` checks."""
    if not text:
        yield Problem(path, NOTHING_THERE, "a name")
    elif found := faults(text):
        yield Problem(path, show(text), "; ".join(found))


def object_name(path: str, text: str) -> Problems:
    """The name of most kinds: a DNS subdomain, at most 253 characters."""
    return named(path, text, names.subdomain_faults)


def short_name(path: str, text: str) -> Problems:
    """The name of a namespace, a container or a volume: a DNS label, without dots, at most 63 characters."""
    return named(path, text, names.dns_label_faults)


def label_key(path: str, text: str) -> Problems:
    if not text:
        yield Problem(path, NOTHING_THERE, "a label key")
    elif fault := _key_faults(text):
        yield Problem(path, show(text), fault)


def label_value(path: str, text: str) -> Problems:
    if fault := _value_faults(text):
        yield Problem(path, show(text), fault)


def labels(path: str, written: Mapping[str, str] | None) -> Problems:
    """Hot: nearly all labels are valid, so that paths are built only for those with a fault. Parity: the server names the
    map."""
    for key, value in (written or {}).items():
        if _key_faults(key) or _value_faults(value):
            place = at_key(path, key)
            for problem in (*label_key(place, key), *label_value(place, value)):
                told = invalid_at(path, problem.found, problem.allowed)
                yield problem if problem.found == NOTHING_THERE else replace(problem, told=told)


def label_selector(path: str, selector: LabelSelector | None) -> Problems:
    if selector is None:
        return
    yield from labels(f"{path}.matchLabels", selector.match_labels)
    for i, line in enumerate(selector.match_expressions or ()):
        yield from requirement(f"{path}.matchExpressions[{i}]", line, LABEL_OPERATORS)


def requirement(path: str, line: Requirement, operators: Collection[str]) -> Problems:
    """One requirement of a selector: its operator decides how many values it takes."""
    yield from label_key(f"{path}.key", line.key)
    if line.operator not in operators:
        told = "not a valid selector operator" if line.operator else ""
        yield Problem(f"{path}.operator", show_text(line.operator), ", ".join(operators), told=told)
        return
    values = line.values or []
    place = f"{path}.values"
    if line.operator in FIELD_OPERATORS:
        told = "must be specified when `operator` is 'In' or 'NotIn'"
        yield from required(place, values, f"one value or more with {line.operator}", told)
    elif line.operator in ("Exists", "DoesNotExist") and values:
        yield Problem(place, f"{len(values)} values", f"nothing with {line.operator}")
    elif line.operator in ("Gt", "Lt") and (len(values) != 1 or parse_int64(values[0]) is None):
        shown = show(values[0]) if len(values) == 1 else f"{len(values)} values"
        yield Problem(place, shown, f"one integer with {line.operator}")
    for i, value in enumerate(values):
        yield from label_value(f"{place}[{i}]", value)


def node_selector(path: str, selector: NodeSelector) -> Problems:
    terms = selector.node_selector_terms or []
    told = "must have at least one node selector term"
    yield from required(f"{path}.nodeSelectorTerms", terms, "one term or more", told)
    for i, term in enumerate(terms):
        yield from node_term(f"{path}.nodeSelectorTerms[{i}]", term)


def node_term(path: str, term: NodeSelectorTerm) -> Problems:
    for i, line in enumerate(term.match_expressions or ()):
        yield from requirement(f"{path}.matchExpressions[{i}]", line, NODE_OPERATORS)
    for i, line in enumerate(term.match_fields or ()):
        yield from _field_requirement(f"{path}.matchFields[{i}]", line)


def _field_requirement(path: str, line: Requirement) -> Problems:
    """The only field of nodes that a selector can read is metadata.name."""
    if line.key != "metadata.name":
        yield Problem(f"{path}.key", show_text(line.key), "metadata.name")
    if line.operator not in FIELD_OPERATORS:
        yield Problem(f"{path}.operator", show_text(line.operator), ", ".join(FIELD_OPERATORS))
    if len(line.values or ()) != 1:
        yield Problem(f"{path}.values", f"{len(line.values or ())} values", "one value")


def amount(text: QuantityText | None) -> int | None:
    """The quantity in nano-units; None if it is missing or not a quantity."""
    try:
        return None if text is None else parse(text)
    except ValueError:
        return None


def quantity(path: str, text: QuantityText | None, place: str = "") -> Problems:
    """A quantity of zero or more. It may be of any size, as in the API server: the scheduler clamps it when it counts.
    `place` is the path that the server has for it."""
    nano = amount(text)
    if text is not None and (nano is None or nano < 0):
        told = "" if nano is None else invalid_at(place or path, show(text), NOT_NEGATIVE)
        yield Problem(path, show(text), QUANTITY_FORM, told=told)


def quantities(path: str, written: ResourceList | None) -> Problems:
    """Resources by name, without a rule for the names: nodes may have any. Extended resources are whole numbers."""
    for name, text in (written or {}).items():
        nano = amount(text)
        is_split = nano is not None and nano % NANO > 0 and names.is_extended_resource(name)
        if nano is not None and 0 <= nano <= MAX_INT64 * NANO and not is_split and not _key_faults(name):
            continue
        place = at_key(path, name)
        yield from label_key(place, name)
        yield from quantity(place, text, in_brackets(path, name) if path.endswith(_BRACKETED) else place)
        if is_split:
            yield Problem(place, show(text), "a whole number", told="must be an integer")


def resources(path: str, written: ResourceRequirements | None) -> Problems:
    """Requests and limits of a container."""
    if written is None:
        return
    for part, group in (("limits", written.limits), ("requests", written.requests)):
        yield from quantities(f"{path}.{part}", group)
        for name in group or ():
            if name not in _NATIVE and "/" not in name and not name.startswith("hugepages-"):
                allowed = "cpu, memory, ephemeral-storage, hugepages-<size> or <domain>/<name>"
                why = "must be a standard resource type or fully qualified"
                told = invalid_at(in_brackets(f"{path}.{part}", name), show(name), why)
                yield Problem(at_key(f"{path}.{part}", name), show(name), allowed, told=told)
    yield from _within_limits(path, written)


def _within_limits(path: str, written: ResourceRequirements) -> Problems:
    """Requests must not exceed limits. A server also requires a limit for each extended resource, which is not checked
    here because it changes no decision. Parity: the server names the map, and the resource only in its text."""
    limits, place = written.limits or {}, f"{path}.requests"
    for name, text in (written.requests or {}).items():
        asked, limit = amount(text), amount(limits.get(name))
        if asked is None or limit is None or asked == limit:
            continue
        is_exact = names.is_extended_resource(name) or name.startswith("hugepages-")
        if is_exact or asked > limit:
            allowed = f"{'equal to' if is_exact else 'at most'} its limit of {show(limits[name])}"
            rule = "must be equal to" if is_exact else "must be less than or equal to"
            told = invalid_at(place, show(text), f"{rule} {name} limit of {limits[name]}")
            yield Problem(at_key(place, name), show(text), allowed, told=told)


def taints(path: str, written: Collection[node.Taint] | None, effects: Collection[str] = EFFECTS) -> Problems:
    """A node may have a key several times, but each time with another effect."""
    for i, each in enumerate(written or ()):
        yield from taint(f"{path}[{i}]", each, effects)
    yield from unique(
        ((f"{path}[{i}]", (each.key, each.effect)) for i, each in enumerate(written or ())), "key with one effect"
    )


def taint(path: str, written: node.Taint, effects: Collection[str] = EFFECTS) -> Problems:
    yield from label_key(f"{path}.key", written.key)
    yield from label_value(f"{path}.value", written.value)
    if written.effect not in effects:
        yield Problem(f"{path}.effect", show_text(written.effect), ", ".join(effects))


def tolerations(path: str, written: Collection[Toleration] | None, effects: Collection[str] = EFFECTS) -> Problems:
    """Tolerations of devices, with the two operators that every API server knows."""
    for i, toleration in enumerate(written or ()):
        yield from _toleration(f"{path}[{i}]", toleration, effects, EQUALITY_OPERATORS)


def pod_tolerations(path: str, written: Collection[Toleration] | None) -> Problems:
    """Tolerations of pods. Lt and Gt have a rule here; `admission/admit.py` says whether a cluster knows them."""
    for i, toleration in enumerate(written or ()):
        operators = (
            EQUALITY_OPERATORS if toleration.operator not in node.COMPARISON_OPERATORS else node.COMPARISON_OPERATORS
        )
        yield from _toleration(f"{path}[{i}]", toleration, EFFECTS, operators)


def _toleration(path: str, toleration: Toleration, effects: Collection[str], operators: Collection[str]) -> Problems:
    """An empty key needs Exists and covers every taint; tolerationSeconds is for NoExecute only."""
    operator = toleration.operator or "Equal"
    if toleration.key:
        yield from label_key(f"{path}.key", toleration.key)
    elif operator in ("Equal", *node.COMPARISON_OPERATORS):
        told = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield Problem(f"{path}.operator", show(toleration.operator), "Exists, because the key is empty", told=told)
    yield from one_of(f"{path}.operator", operator, operators)
    yield from _tolerated_value(path, operator, toleration.value)
    yield from one_of(f"{path}.effect", toleration.effect, effects)
    if toleration.toleration_seconds is not None and toleration.effect != node.NO_EXECUTE:
        allowed = "NoExecute, because tolerationSeconds is set"
        told = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield Problem(f"{path}.effect", show_text(toleration.effect), allowed, told=told)


def _tolerated_value(path: str, operator: str, value: str) -> Problems:
    """The value of the toleration at `path`."""
    place = f"{path}.value"
    if operator == "Equal":
        yield from label_value(place, value)
    elif operator in node.COMPARISON_OPERATORS:
        yield from _compared_number(place, value)
    elif value:
        told = invalid_at(f"{path}.operator", show(value), "value must be empty when `operator` is 'Exists'")
        yield Problem(place, show(value), "nothing with Exists", told=told)


def _compared_number(path: str, value: str) -> Problems:
    """A decimal int64. Parity: upstream checks the form and the range, so that one value may break both rules."""
    if node.decimal_int64(value) is not None:
        return
    if not node.is_decimal(value):
        rule = "must be a valid decimal integer in canonical form" if value else "must be non-empty"
        yield Problem(path, show(value), rule)
    if parse_int64(value) is None:
        why = "value out of range" if INTEGER.fullmatch(value) else "invalid syntax"
        yield Problem(path, f"Invalid value: {show(value)}: strconv.ParseInt: parsing {show(value)}: {why}")
