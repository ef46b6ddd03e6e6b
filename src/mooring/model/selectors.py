"""Label selectors and node selectors, compiled: hashable values that say whether labels, or a node, match.

Compiling validates as upstream does at scheduling time, with upstream's error texts: a selector from a server may be one
that an older version admitted.
"""

from collections.abc import Mapping, Sequence

import msgspec

from mooring.model.meta import LabelSelector
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm
from mooring.model.selector_faults import (
    KEY_OPERATORS,
    ORDER_OPERATORS,
    SET_OPERATORS,
    aggregated,
    parse_int64,
    rule_faults,
    term_faults,
)


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
