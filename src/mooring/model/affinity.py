"""Pod affinity terms, compiled: which pods a term speaks of, in which namespaces, over which topology."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from mooring.kit.lazy import lazy
from mooring.model.label_set import LabelSet, LabelSetCases
from mooring.model.meta import int32
from mooring.model.pod_spec import Affinity, PodAffinity, PodAffinityTerm
from mooring.model.selectors import EVERYTHING, NOTHING, Selector, SelectorError, compile_selector

Labels = Mapping[str, str]
NO_LABELS: Labels = {}


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One term, its namespaces resolved as far as the pod that has it can tell."""

    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    topology_key: str

    def speaks_of(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod with these labels, in a namespace with those, is meant."""
        return (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class CarriedTerm:
    """A term by which a pod on a node can concern others: `kind` is affinity, anti or preferred."""

    kind: str
    term: AffinityTerm
    weight: int = 0


@dataclass(frozen=True, eq=False)
class PodTerms:
    """The four lists of a pod. A list that cannot be compiled is left empty and its fault noted.

    There is one for each shape and namespace, so identity is equality.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    """Preferred affinity, and preferred anti-affinity with its weight negated."""
    faults: tuple[str, ...] = ()

    @lazy
    def carried(self) -> tuple[CarriedTerm, ...]:
        """All of them, as the pods that are on nodes carry them; one that is listed twice is there twice."""
        return (
            *(CarriedTerm("anti", term) for term in self.anti_affinity),
            *(CarriedTerm("affinity", term) for term in self.affinity),
            *(CarriedTerm("preferred", weighted.term, weighted.weight) for weighted in self.preferred),
        )

    @lazy
    def affinity_keys(self) -> frozenset[str]:
        return frozenset(term.topology_key for term in self.affinity)

    @lazy
    def anti_affinity_keys(self) -> frozenset[str]:
        return frozenset(term.topology_key for term in self.anti_affinity)

    def want(self, label_set: LabelSet) -> bool:
        """Whether there are affinity terms, and all of them mean pods of this label set.

        Namespace selectors are tried against no labels at all: this is for hints, see there.
        """
        return bool(self.affinity) and self._wanted.get(label_set, lambda: _all_speak_of(self.affinity, label_set))

    def avoid(self, label_set: LabelSet) -> bool:
        """The same for anti-affinity terms."""
        return bool(self.anti_affinity) and self._avoided.get(
            label_set, lambda: _all_speak_of(self.anti_affinity, label_set)
        )

    @lazy
    def _wanted(self) -> LabelSetCases[bool]:
        return LabelSetCases(term.selector for term in self.affinity)

    @lazy
    def _avoided(self) -> LabelSetCases[bool]:
        return LabelSetCases(term.selector for term in self.anti_affinity)

    @property
    def fault(self) -> str | None:
        """The faults as upstream prints them, or None."""
        if not self.faults:
            return None
        return self.faults[0] if len(self.faults) == 1 else f"[{', '.join(self.faults)}]"


def _all_speak_of(terms: tuple[AffinityTerm, ...], label_set: LabelSet) -> bool:
    return all(term.speaks_of(label_set.namespace, label_set.labels, NO_LABELS) for term in terms)


T = TypeVar("T")


def compile_terms(affinity: Affinity | None, namespace: str) -> PodTerms:
    """The terms of a pod that lives in `namespace`."""
    if affinity is None:
        return PodTerms()
    faults: list[str] = []

    def attempt(build: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return build()
        except SelectorError as fault:
            if str(fault) not in faults:  # at most four
                faults.append(str(fault))
            return ()

    near, away = affinity.pod_affinity, affinity.pod_anti_affinity
    return PodTerms(
        attempt(lambda: _required(near, namespace)),
        attempt(lambda: _required(away, namespace)),
        attempt(lambda: _preferred(near, namespace, 1)) + attempt(lambda: _preferred(away, namespace, -1)),
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
    names = frozenset(term.namespaces or ())
    if not names and term.namespace_selector is None:
        names = frozenset((namespace,))
    return AffinityTerm(
        compile_selector(term.label_selector), names, compile_selector(term.namespace_selector), term.topology_key
    )


@dataclass(frozen=True, slots=True)
class PodPredicate:
    """A question about a pod that only its namespace and labels answer, so it is asked once for each label set."""

    selector: Selector
    namespaces: frozenset[str]
    anywhere: bool = False

    def holds(self, namespace: str, labels: Labels) -> bool:
        return (self.anywhere or namespace in self.namespaces) and self.selector.matches(labels)


def predicate_of(term: AffinityTerm, namespaces: Mapping[str, Labels]) -> PodPredicate:
    """An incoming pod's term against existing pods, its namespace selector resolved to names.

    Parity: after resolving, upstream still tries the namespace selector against no labels at all, so one built only
    from NotIn and DoesNotExist reaches every namespace, those it excludes included.
    """
    wanted = term.namespace_selector
    if wanted == EVERYTHING:
        return PodPredicate(term.selector, term.namespaces, anywhere=True)
    if wanted == NOTHING:
        return PodPredicate(term.selector, term.namespaces)
    named = (name for name, labels in namespaces.items() if wanted.matches(labels))
    return PodPredicate(term.selector, term.namespaces.union(named), wanted.matches(NO_LABELS))
