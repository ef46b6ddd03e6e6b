"""Faults of selectors in the words of upstream's parsers. Those of node selectors have the path to what is wrong.

Plugins report the faults of pods, volumes and claims, and the check of a configuration those of an added affinity.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from mooring.model.meta import Requirement
from mooring.model.names import label_value_faults, qualified_name_faults
from mooring.model.pod_spec import NodeSelectorTerm

INTEGER = re.compile(r"[+-]?[0-9]+")
"""The texts that Go's ParseInt reads as a decimal number; whether it fits int64 is another question."""
SET_OPERATORS = ("In", "NotIn")
KEY_OPERATORS = ("Exists", "DoesNotExist")
MAX_INT64_DIGITS = 19
ORDER_OPERATORS = ("Gt", "Lt")
NODE_OPERATORS = SET_OPERATORS + KEY_OPERATORS + ORDER_OPERATORS
"""Operators that node selectors allow for labels, in upstream's order."""


def faults_of_values(operator: str, values: Sequence[str]) -> Iterator[tuple[str, str | list[str] | None, str]]:
    """Yield the errors in the number and the kind of the values: the place (`[0]`, or empty for all values), the wrong value,
    and upstream's text."""
    everything = list(values) or None
    if operator in SET_OPERATORS and not values:
        yield "", everything, "for 'in', 'notin' operators, values set can't be empty"
    elif operator in KEY_OPERATORS and values:
        yield "", everything, "values set must be empty for exists and does not exist"
    elif operator in ORDER_OPERATORS:
        if len(values) != 1:
            yield "", everything, "for 'Gt', 'Lt' operators, exactly one value is required"
        for i, value in enumerate(values):
            if parse_int64(value) is None:
                yield f"[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer"


def parse_int64(text: str | None) -> int | None:
    """A decimal int64 as Go's ParseInt reads it, or None: Python's int() accepts more (spaces, underscores, any size)."""
    if text is None or not INTEGER.fullmatch(text):
        return None
    if len(text.lstrip("+-0")) > MAX_INT64_DIGITS:
        return None  # int() refuses a text of thousands of digits, and takes minutes for millions
    number = int(text)
    return number if -(1 << 63) <= number < (1 << 63) else None


def term_faults(path: str, term: NodeSelectorTerm) -> Iterator[str]:
    """The faults of the lines about labels, then of those about fields. `path` leads to the term; it may be empty."""
    there = f"{path}." if path else ""
    for i, line in enumerate(term.match_expressions or ()):
        yield from _label_faults(f"{there}matchExpressions[{i}]", line)
    for i, line in enumerate(term.match_fields or ()):
        yield from _field_faults(f"{there}matchFields[{i}]", line)


def _label_faults(path: str, line: Requirement) -> Iterable[str]:
    """An unknown operator ends the check of the line, since the rest depends on it."""
    if line.operator not in NODE_OPERATORS:
        return [_unsupported(path, line.operator, NODE_OPERATORS)]
    return rule_faults(line.key, line.operator, line.values, f"{path}.")


def rule_faults(key: str, operator: str, values: list[str] | None, path: str = "") -> Iterator[str]:
    """The faults of one requirement on a label with a known operator. `path` ends with a point, or is empty."""
    faults = qualified_name_faults(key)
    if faults:
        yield _invalid(f"{path}key", key, "; ".join(faults))
    for place, value, why in faults_of_values(operator, values or ()):
        # An empty list that is written shows as one, and one that is left out as null.
        yield _invalid(f"{path}values{place}", values if value is None else value, why)
    for i, value in enumerate(values or ()):
        faults = label_value_faults(value)
        if faults:
            yield _invalid(f"{path}values[{i}][{key}]", value, "; ".join(faults))


def _field_faults(path: str, line: Requirement) -> Iterator[str]:
    """Fields are compared with exactly one value."""
    if line.operator not in SET_OPERATORS:
        yield _unsupported(path, line.operator, SET_OPERATORS)
    elif len(line.values or ()) != 1:
        yield _invalid(f"{path}.values", line.values, "must have one element")


def _invalid(path: str, value: str | list[str] | None, why: str) -> str:
    return f"{path}: Invalid value: {_shown(value)}: {why}"


def _unsupported(path: str, operator: str, supported: Iterable[str]) -> str:
    return (
        f"{path}.operator: Unsupported value: {_shown(operator)}: supported values: {', '.join(map(_shown, supported))}"
    )


def _shown(value: str | list[str] | None) -> str:
    """A value as Go's errors print it: JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def aggregated(faults: Sequence[str]) -> str:
    """Several faults in the form of Go's aggregated errors: equal ones once, and one alone as it is."""
    distinct = list(dict.fromkeys(faults))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
