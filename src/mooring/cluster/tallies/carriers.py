"""One list of affinity terms that pods on nodes carry: where these pods are, and what the terms say about other pods."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from mooring.cluster.columns.labels import LabelColumns
from mooring.cluster.tallies.tally import Tally
from mooring.kit.lazy import lazy
from mooring.model.affinity import AffinityTerm, CarriedTerm, Labels
from mooring.model.label_set import LabelSet, LabelSetCases
from mooring.model.traits import Trait, TraitIndex, required_traits

KINDS = ("anti", "affinity", "preferred")
"""Of terms, as CarriedTerm names them."""

_FEW_RULES = 16
"""Lists whose selectors have up to so many rules, each selector counting as one more, are tried each time. What larger ones
say is remembered, for as many cases as they have rules: thousands of pods may carry a list of their own."""


class Concern(msgspec.Struct):
    """What a list of terms says about pods of one label set, added up by topology key. It may say nothing."""

    anti: dict[str, int] = msgspec.field(default_factory=dict)
    """Required anti-affinity: how many terms."""
    affinity: dict[str, int] = msgspec.field(default_factory=dict)
    """Required affinity: how many terms."""
    preferred: dict[str, int] = msgspec.field(default_factory=dict)
    """Preferred affinity: the sum of the weights; anti-affinity has negative ones."""
    preferred_terms: dict[str, int] = msgspec.field(default_factory=dict)
    """Preferred affinity: how many terms."""

    _present: "tuple[int, Concern] | None" = None
    """What `among` last returned, with the version of the label keys."""

    def __bool__(self) -> bool:
        """Whether the terms say anything about these pods."""
        return bool(self.anti or self.affinity or self.preferred)

    def among(self, labels: LabelColumns) -> "Concern":
        """What of it is about labels that nodes have: there may be thousands that none has. Do not write to it."""
        if self._present is None or self._present[0] != labels.keys_version:
            parts = (self.anti, self.affinity, self.preferred, self.preferred_terms)
            there = ({key: number for key, number in part.items() if labels.has(key)} for part in parts)
            anti, affinity, preferred, preferred_terms = there
            self._present = (labels.keys_version, Concern(anti, affinity, preferred, preferred_terms))
        return self._present[1]

    def of(self, kind: str) -> dict[str, int]:
        """What terms of one of the KINDS say."""
        found: dict[str, int] = getattr(self, kind)
        return found

    def terms_of(self, kind: str) -> dict[str, int]:
        """How many terms of a kind there are. A term that is subtracted (`CarriedTerm.sign`) counts as -1."""
        return self.preferred_terms if kind == "preferred" else self.of(kind)


NOTHING = Concern()


def concern_of(terms: Iterable[CarriedTerm], label_set: LabelSet, namespace_labels: Labels) -> Concern:
    """Add up what these terms say about pods of a label set, term by term."""
    namespace, labels = label_set.namespace, label_set.labels
    return _added_up(carried for carried in terms if carried.term.speaks_of(namespace, labels, namespace_labels))


def _added_up(terms: Iterable[CarriedTerm]) -> Concern:
    sums: dict[str, dict[str, int]] = {kind: defaultdict(int) for kind in (*KINDS, "preferred_terms")}
    for carried in terms:
        key, sign = carried.term.topology_key, carried.sign
        if carried.kind != "preferred":
            sums[carried.kind][key] += sign
        elif carried.weight:
            sums["preferred"][key] += sign * carried.weight
            sums["preferred_terms"][key] += sign
    anti, affinity, preferred, preferred_terms = map(dict, sums.values())
    return Concern(anti, affinity, preferred, preferred_terms)


def _required_by(term: AffinityTerm) -> list[Trait] | None:
    return required_traits(term.selector, term.namespaces if term.namespace_selector.is_nothing else None)


class Carriers:
    """The pods on nodes that carry one list of terms: where they are, and which pods the terms concern.

    Of thousands of terms only those are tried whose labels the pod has, once for each case that its labels make.
    """

    def __init__(self, terms: tuple[CarriedTerm, ...], tally: Tally) -> None:
        self.terms = terms
        self.tally = tally
        self.is_gone = False
        """Whether the last of them has left."""
        self.selectors = [carried.term.selector for carried in terms]
        self.kinds = frozenset(carried.kind for carried in terms)
        self.excludes = any(carried.sign < 0 for carried in terms)
        """Whether the terms are subtracted from those of another list."""
        self._rules = sum(
            1 + len(each.term.selector.read_rules) + len(each.term.namespace_selector.rules) for each in terms
        )

    @lazy
    def _full(self) -> Concern:
        """What the terms say about a pod that all of them select."""
        return _added_up(self.terms)

    def concern(self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int) -> Concern:
        """What the terms say about pods of this label set. Do not write to it."""
        if self._rules > _FEW_RULES:
            return self._cases.get(label_set, lambda: self._concern_of(label_set, namespace_labels), namespaces_version)
        if len(self.terms) > 1:
            return concern_of(self.terms, label_set, namespace_labels)
        # Hot: as a rule there is one, and then one object for all pods that it selects.
        is_meant = self.terms[0].term.speaks_of(label_set.namespace, label_set.labels, namespace_labels)
        return self._full if is_meant else NOTHING

    @lazy
    def _cases(self) -> LabelSetCases[Concern]:
        return LabelSetCases(self.selectors, most=self._rules)

    @lazy
    def _index(self) -> TraitIndex[int]:
        index: TraitIndex[int] = TraitIndex()
        for number, required in enumerate(self._required):
            index.add(number, required)
        return index

    @lazy
    def _required(self) -> list[list[Trait] | None]:
        """By term: traits of which a pod must have at least one to be concerned; None: any pod may be."""
        return [_required_by(carried.term) for carried in self.terms]

    def _concern_of(self, label_set: LabelSet, namespace_labels: Labels) -> Concern:
        candidates = (self.terms[number] for number in sorted(self._index.candidates(label_set)))
        return concern_of(candidates, label_set, namespace_labels)

    def required(self) -> set[Trait] | None:
        """Traits of which a pod must have at least one to be concerned by a term; None: any pod may be."""
        found: set[Trait] = set()
        for required in self._required:
            if required is None:
                return None
            found.update(required)
        return found

    def fork(self) -> "Carriers":
        other: Carriers = object.__new__(Carriers)
        other.__dict__.update(
            self.__dict__
        )  # what terms say about other pods does not depend on where their carriers are
        other.tally = self.tally.fork()
        return other
