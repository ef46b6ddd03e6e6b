"""Label selectors and node selectors, compiled: hashable values that say whether labels, or a node, match.

Compiling validates as upstream does at scheduling time, with upstream's error texts: a selector from a server may be one
that an older version admitted.

Faults of selectors have the words of upstream's parsers, those of node selectors with the path to what is wrong. Plugins
report the faults of pods, volumes and claims, and the check of a configuration those of an added affinity.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from mooring.model.meta import LabelSelector, Requirement
from mooring.model.names import label_value_faults, qualified_name_faults
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm

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


def aggregated(faults: Iterable[str]) -> str:
    """Several faults in the form of Go's aggregated errors: equal ones once, and one alone as it is."""
    distinct = list(dict.fromkeys(faults))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


class SelectorError(ValueError):
    """A selector that upstream does not compile; the text is upstream's."""


class LabelRule(msgspec.Struct, frozen=True):
    """One requirement on one label."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()
    bound: int = 0
    """The number that Gt and Lt compare with."""

    def admits(self, value: str | None) -> bool:
        """Whether a label with this value meets the requirement; None stands for an object without the label.

        Parity: NotIn admits objects without the label; Gt and Lt admit no value that is not an integer.
        """
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt":
                number = parse_int64(value)
                return number is not None and number > self.bound
            case _:
                number = parse_int64(value)
                return number is not None and number < self.bound


class Selector(msgspec.Struct, frozen=True):
    """A compiled label selector: all rules must hold. Without rules it matches everything, unless it `is_nothing`."""

    rules: tuple[LabelRule, ...] = ()
    is_nothing: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.rules and not self.is_nothing

    @property
    def read_rules(self) -> tuple[LabelRule, ...]:
        """All rules that `matches` may try."""
        return self.rules

    def matches(self, labels: Mapping[str, str]) -> bool:
        for rule in self.rules:  # Hot: with thousands of selectors this is tried most of all; `all` takes twice as long
            if not rule.admits(labels.get(rule.key)):
                return False
        return not self.is_nothing

    def with_equal(self, pairs: Mapping[str, str]) -> "Selector":
        """This selector and, in addition, equality with each pair."""
        if self.is_nothing or not pairs:
            return self
        return Selector(self.rules + tuple(LabelRule(k, "In", frozenset((v,))) for k, v in pairs.items()))


NOTHING = Selector(is_nothing=True)
EVERYTHING = Selector()


def compile_selector(written: LabelSelector | None) -> Selector:
    """A label selector. Null matches nothing, `{}` matches everything. Raises SelectorError."""
    if written is None:
        return NOTHING
    rules = [compile_rule(key, "In", [value]) for key, value in (written.match_labels or {}).items()]
    for line in written.match_expressions or ():
        if line.operator not in SET_OPERATORS + KEY_OPERATORS:
            raise SelectorError(f'"{line.operator}" is not a valid label selector operator')
        rules.append(compile_rule(line.key, line.operator, line.values or []))
    return Selector(tuple(rules))


def compile_rule(key: str, operator: str, values: Sequence[str]) -> LabelRule:
    """One requirement. Raises SelectorError with all its faults, in the form of upstream's aggregated errors."""
    faults = list(rule_faults(key, operator, list(values) or None))
    if faults:
        raise SelectorError(aggregated(faults))
    bound = parse_int64(values[0]) if operator in ORDER_OPERATORS else None
    return LabelRule(key, operator, frozenset(values), bound or 0)


class FieldRule(msgspec.Struct, frozen=True):
    """One requirement on a field of a node. The only field is metadata.name; upstream reads any other as empty."""

    key: str
    value: str
    negated: bool

    def admits(self, node_name: str) -> bool:
        return ((node_name if self.key == "metadata.name" else "") == self.value) != self.negated


class NodeTerm(msgspec.Struct, frozen=True):
    """One term of a node selector: all its requirements must hold. A term with faults matches no node, and the plugins
    report them."""

    labels: tuple[LabelRule, ...] = ()
    fields: tuple[FieldRule, ...] = ()
    faults: tuple[str, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node matches. With an empty name the fields are not compared (see `without_fields`)."""
        if self.faults:
            return False
        return all(rule.admits(labels.get(rule.key)) for rule in self.labels) and (
            not name or all(rule.admits(name) for rule in self.fields)
        )


class NodeMatcher(msgspec.Struct, frozen=True):
    """A compiled node selector: one of its terms must match. Without terms it matches no node."""

    terms: tuple[NodeTerm, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return any(term.matches(name, labels) for term in self.terms)

    def faults(self) -> list[str]:
        return [fault for term in self.terms for fault in term.faults]


def compile_node_selector(written: NodeSelector) -> NodeMatcher:
    listed = enumerate(written.node_selector_terms or ())
    terms = (compile_node_term(term, f"nodeSelectorTerms[{i}]") for i, term in listed)
    return NodeMatcher(tuple(term for term in terms if term is not None))


def without_fields(matcher: NodeMatcher) -> NodeMatcher:
    """The selector without its requirements on fields, for callers that know only the labels of a node."""
    return NodeMatcher(tuple(NodeTerm(term.labels, faults=term.faults) for term in matcher.terms))


def compile_node_term(written: NodeSelectorTerm, path: str = "") -> NodeTerm | None:
    """A compiled term; None for an empty one, which upstream drops (it does not match every node). `path` leads to the term
    in the texts of its faults."""
    if not written.match_expressions and not written.match_fields:
        return None
    faults = tuple(term_faults(path, written))
    if faults:
        return NodeTerm(faults=faults)
    return NodeTerm(
        tuple(compile_rule(line.key, line.operator, line.values or []) for line in written.match_expressions or ()),
        tuple(
            FieldRule(line.key, (line.values or [""])[0], line.operator == "NotIn")
            for line in written.match_fields or ()
        ),
    )


# ---- Selectors that exclude pods, as the difference of two selectors that do not.
#
# A selector such as `tenant NotIn (a)` selects nearly every pod, and each tenant has a selector of its own. If each
# of them had a count of its own, each pod would be counted hundreds of times. But without their exclusions these
# selectors are all equal, so one count serves all of them. And each of them excludes few pods, which can be found by
# their labels.


_OPPOSITES = {"NotIn": "In", "DoesNotExist": "Exists"}


class ExcludedPods(Selector, frozen=True, kw_only=True):
    """Selects the pods that another selector excludes: all `rules` must hold, and at least one of `any_of`."""

    any_of: tuple[LabelRule, ...]

    @property
    def read_rules(self) -> tuple[LabelRule, ...]:
        return self.rules + self.any_of

    def matches(self, labels: Mapping[str, str]) -> bool:
        return super().matches(labels) and any(rule.admits(labels.get(rule.key)) for rule in self.any_of)


def as_difference(selector: Selector) -> tuple[Selector, ExcludedPods] | None:
    """The selector without its exclusions, and a selector of the pods that it excludes. None: it excludes no pods, or it
    selects none at all.

    | selector                          | without exclusions | excluded                           |
    | a NotIn (x)                       | everything         | a In (x)                           |
    | a NotIn (x), no label b, c In (y) | c In (y)           | c In (y), and a In (x) or b exists |
    """
    if selector.is_nothing:
        return None
    others, excluded = [], []
    for rule in selector.rules:
        opposite = _OPPOSITES.get(rule.operator)
        if opposite is None:
            others.append(rule)
        else:
            excluded.append(LabelRule(rule.key, opposite, rule.values))
    if not excluded:
        return None
    return Selector(tuple(others)), ExcludedPods(tuple(others), any_of=tuple(excluded))
