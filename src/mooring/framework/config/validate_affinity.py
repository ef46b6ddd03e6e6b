"""Validation of the node affinity that a profile adds to its pods: whatever would not parse, with the path to it."""

from collections.abc import Iterator, Sequence

from mooring.framework.config.problems import invalid, unsupported
from mooring.model.meta import Requirement
from mooring.model.names import label_value_faults, qualified_name_faults
from mooring.model.pod_spec import NodeAffinitySpec, NodeSelectorTerm
from mooring.model.selectors import parse_int64

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


def affinity_problems(path: str, affinity: NodeAffinitySpec) -> Iterator[str]:
    """What upstream's parser says. Empty terms match nothing, preferences of weight 0 count for nothing: both pass."""
    if affinity.required is not None:
        terms = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for i, term in enumerate(affinity.required.node_selector_terms or ()):
            yield from _term_problems(f"{terms}[{i}]", term)
    for i, preferred in enumerate(affinity.preferred or ()):
        if preferred.weight != 0:
            # Parity: upstream leaves `.preference` out of this path.
            there = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
            yield from _term_problems(there, preferred.preference)


def _term_problems(path: str, term: NodeSelectorTerm) -> Iterator[str]:
    for i, line in enumerate(term.match_expressions or ()):
        yield from _label_problems(f"{path}.matchExpressions[{i}]", line)
    for i, line in enumerate(term.match_fields or ()):
        yield from _field_problems(f"{path}.matchFields[{i}]", line)


def _label_problems(path: str, line: Requirement) -> Iterator[str]:
    values = line.values or []
    if line.operator not in _LABEL_OPERATORS:
        yield unsupported(f"{path}.operator", line.operator, _LABEL_OPERATORS)
        return
    faults = qualified_name_faults(line.key)
    if faults:
        yield invalid(f"{path}.key", line.key, "; ".join(faults))
    yield from _values_problems(f"{path}.values", line.operator, values)
    for i, value in enumerate(values):
        faults = label_value_faults(value)
        if faults:
            yield invalid(f"{path}.values[{i}][{line.key}]", value, "; ".join(faults))


def _values_problems(path: str, operator: str, values: Sequence[str]) -> Iterator[str]:
    """How many values an operator takes, and of what kind."""
    shown = list(values) or None
    if operator in ("In", "NotIn"):
        if not values:
            yield invalid(path, shown, "for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield invalid(path, shown, "values set must be empty for exists and does not exist")
    else:
        if len(values) != 1:
            yield invalid(path, shown, "for 'Gt', 'Lt' operators, exactly one value is required")
        for i, value in enumerate(values):
            if parse_int64(value) is None:
                yield invalid(f"{path}[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")


def _field_problems(path: str, line: Requirement) -> Iterator[str]:
    if line.operator not in _FIELD_OPERATORS:
        yield unsupported(f"{path}.operator", line.operator, _FIELD_OPERATORS)
    elif len(line.values or ()) != 1:
        yield invalid(f"{path}.values", line.values, "must have one element")
