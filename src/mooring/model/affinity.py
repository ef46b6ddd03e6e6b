"""Pod affinity and anti-affinity terms, compiled: which pods a term selects, in which namespaces, over which topology."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from mooring.kit.lazy import lazy
from mooring.model.label_set import LabelSet, LabelSetCases
from mooring.model.meta import int32
from mooring.model.pod_spec import Affinity, PodAffinity, PodAffinityTerm
from mooring.model.selectors import (
    EVERYTHING,
    NOTHING,
    Selector,
    SelectorError,
    aggregated,
    as_difference,
    compile_selector,
)

Labels = Mapping[str, str]
NO_LABELS: Labels = {}

MOST_NAMESPACES = 16
"""A term that lists more namespaces is counted as a whole: a list takes 1.6 KB, and a pod may list thousands."""


class AffinityTerm(msgspec.Struct, frozen=True):
    """One compiled term. `namespaces` holds the names that the term lists, or the pod's own namespace if it lists none and
    has no namespace selector. The selector still has to be tried on the labels of namespaces."""

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    topology_key: str

    def speaks_of(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether the term selects a pod with these labels, in a namespace with those labels."""
        is_in_namespace = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return is_in_namespace and self.selector.matches(labels)


class WeightedTerm(msgspec.Struct, frozen=True):
    """A preferred term; the weight is negative for anti-affinity."""

    weight: int
    term: AffinityTerm


class CarriedTerm(msgspec.Struct, frozen=True):
    """A term of a pod on a node, which can affect where other pods go: `kind` is affinity, anti or preferred."""

    kind: str
    term: AffinityTerm
    weight: int = 0
    sign: int = 1
    """-1: the term says which pods another term does not concern, and is subtracted from it (`PodTerms.counted`)."""


@dataclass(frozen=True, eq=False)
class PodTerms:
    """The four lists of terms of a pod. A list that does not compile is empty, and `faults` has the reason.

    There is one object for each shape and namespace (`PodShape.terms`), so identity is equality.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    """Preferred affinity, and preferred anti-affinity with its weight negated."""
    faults: tuple[str, ...] = ()

    @lazy
    def carried(self) -> tuple[CarriedTerm, ...]:
        """All terms, as tallies count them for pods on nodes. A term that the pod lists twice counts twice, as upstream."""
        return (
            *(CarriedTerm("anti", term) for term in self.anti_affinity),
            *(CarriedTerm("affinity", term) for term in self.affinity),
            *(CarriedTerm("preferred", weighted.term, weighted.weight) for weighted in self.preferred),
        )

    @lazy
    def counted(self) -> tuple[tuple[CarriedTerm, ...], ...]:
        """The terms as tallies count them, in lists that many pods have in common: up to three for terms with one
        namespace, and for each namespace of terms with several. They are the terms without exclusions; the other terms
        without their exclusions; and the pods that these exclude (`as_difference`)."""
        lists: dict[tuple[str, str], list[CarriedTerm]] = {}
        for carried in self.carried:
            selectors = as_difference(carried.term.selector)
            for namespace, each in _by_namespace(carried):
                if selectors is None:
                    lists.setdefault((namespace, "plain"), []).append(each)
                else:
                    lists.setdefault((namespace, "shared"), []).append(_with_selector(each, selectors[0]))
                    lists.setdefault((namespace, "excluded"), []).append(_with_selector(each, selectors[1], -1))
        return tuple(map(tuple, lists.values()))

    @lazy
    def affinity_keys(self) -> frozenset[str]:
        return frozenset(term.topology_key for term in self.affinity)

    @lazy
    def anti_affinity_keys(self) -> frozenset[str]:
        return frozenset(term.topology_key for term in self.anti_affinity)

    def want(self, label_set: LabelSet) -> bool:
        """Whether there are required affinity terms, and all of them select pods of this label set.

        For queueing hints. Parity: upstream's hints try namespace selectors on a namespace without labels.
        """
        return bool(self.affinity) and self._wanted.get(label_set, lambda: _all_speak_of(self.affinity, label_set))

    def avoid(self, label_set: LabelSet) -> bool:
        """Whether one of the required anti-affinity terms selects pods of this label set. For queueing hints, as `want`."""
        return bool(self.anti_affinity) and self._avoided.get(
            label_set, lambda: _any_speaks_of(self.anti_affinity, label_set)
        )

    @lazy
    def _wanted(self) -> LabelSetCases[bool]:
        return LabelSetCases(term.selector for term in self.affinity)

    @lazy
    def _avoided(self) -> LabelSetCases[bool]:
        return LabelSetCases(term.selector for term in self.anti_affinity)

    @property
    def fault(self) -> str | None:
        """The faults in the form of Go's aggregated errors, or None."""
        return aggregated(self.faults) if self.faults else None


def _with_selector(carried: CarriedTerm, selector: Selector, sign: int = 1) -> CarriedTerm:
    term = msgspec.structs.replace(carried.term, selector=selector)
    return CarriedTerm(carried.kind, term, carried.weight, sign)


def _by_namespace(carried: CarriedTerm) -> list[tuple[str, CarriedTerm]]:
    """A term that lists a few namespaces as one term for each of them. Thousands of pods may each list namespaces of their
    own and one that all have in common: what they say about pods there is one list then, not thousands.

    Other terms are returned as they are, under no namespace.
    """
    term = carried.term
    if not 1 < len(term.namespaces) <= MOST_NAMESPACES or not term.namespace_selector.is_nothing:
        return [("", carried)]
    parts = ((name, msgspec.structs.replace(term, namespaces=frozenset((name,)))) for name in sorted(term.namespaces))
    return [(name, CarriedTerm(carried.kind, part, carried.weight, carried.sign)) for name, part in parts]


def _all_speak_of(terms: tuple[AffinityTerm, ...], label_set: LabelSet) -> bool:
    return all(term.speaks_of(label_set.namespace, label_set.labels, NO_LABELS) for term in terms)


def _any_speaks_of(terms: tuple[AffinityTerm, ...], label_set: LabelSet) -> bool:
    return any(term.speaks_of(label_set.namespace, label_set.labels, NO_LABELS) for term in terms)


T = TypeVar("T")


def compile_terms(affinity: Affinity | None, namespace: str) -> PodTerms:
    """The terms of a pod in `namespace`, which is what a term without namespaces means."""
    if affinity is None:
        return PodTerms()
    faults: list[str] = []

    def attempt(name: str, build: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return build()
        except SelectorError as fault:
            faults.append(f"{name}: {fault}")
            return ()

    near, away = affinity.pod_affinity, affinity.pod_anti_affinity
    return PodTerms(
        attempt("requiredAffinityTerms", lambda: _required(near, namespace)),
        attempt("requiredAntiAffinityTerms", lambda: _required(away, namespace)),
        attempt("preferredAffinityTerms", lambda: _preferred(near, namespace, 1))
        + attempt("preferredAntiAffinityTerms", lambda: _preferred(away, namespace, -1)),
        tuple(faults),
    )


def _required(group: PodAffinity | None, namespace: str) -> tuple[AffinityTerm, ...]:
    return tuple(_compile(term, namespace) for term in (group.required if group else None) or ())


def _preferred(group: PodAffinity | None, namespace: str, sign: int) -> tuple[WeightedTerm, ...]:
    return tuple(
        WeightedTerm(sign * int32(term.weight), _compile(term.pod_affinity_term, namespace))
        for term in (group.preferred if group else None) or ()
    )


def _compile(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    """A term without namespaces and without namespace selector means the pod's own namespace."""
    # An empty namespace selector ({}) selects all namespaces, a missing one none.
    names = frozenset(term.namespaces or ())
    if not names and term.namespace_selector is None:
        names = frozenset((namespace,))
    return AffinityTerm(
        compile_selector(term.label_selector), names, compile_selector(term.namespace_selector), term.topology_key
    )


@dataclass(frozen=True, slots=True)
class PodPredicate:
    """A predicate on the namespace and labels of a pod alone, so that tallies evaluate it once for each label set."""

    selector: Selector
    namespaces: frozenset[str]
    anywhere: bool = False
    _hash: int = field(init=False, repr=False, compare=False)
    """Hot: tallies are looked up by predicates, several times in an attempt; to go through selector and rules takes 1 µs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.selector, self.namespaces, self.anywhere)))

    def __hash__(self) -> int:
        return self._hash

    def holds(self, namespace: str, labels: Labels) -> bool:
        return (self.anywhere or namespace in self.namespaces) and self.selector.matches(labels)


NO_POD = PodPredicate(NOTHING, frozenset())
"""No pod meets it."""


def all_of(predicates: Sequence[PodPredicate]) -> PodPredicate:
    """One predicate for all of these: a pod meets it if it meets each of them."""
    if len(predicates) == 1:
        return predicates[0]
    selectors = [predicate.selector for predicate in predicates]
    if any(selector.is_nothing for selector in selectors):
        return NO_POD
    rules = dict.fromkeys(rule for selector in selectors for rule in selector.rules)
    sets = [predicate.namespaces for predicate in predicates if not predicate.anywhere]
    namespaces = sets[0].intersection(*sets[1:]) if sets else frozenset()
    return PodPredicate(Selector(tuple(rules)), namespaces, not sets)


def predicate_of(term: AffinityTerm, namespaces: Mapping[str, Labels]) -> PodPredicate:
    """The term of an incoming pod as a predicate on existing pods: its namespace selector is resolved to names."""
    wanted = term.namespace_selector
    if wanted == EVERYTHING:
        return PodPredicate(term.selector, term.namespaces, anywhere=True)
    if wanted == NOTHING:
        return PodPredicate(term.selector, term.namespaces)
    named = (name for name, labels in namespaces.items() if wanted.matches(labels))
    return PodPredicate(term.selector, term.namespaces.union(named))
