"""All lists of affinity terms that pods on nodes carry, and what they say about other pods together.

Pods with the same list of terms are counted together (carriers.py). What all lists say about a pod is a sum over those that
concern it. Terms such as `tenant NotIn (a)`, one for each tenant, concern the pods of all other tenants. They are counted as
differences (`PodTerms.counted`): one list for all tenants, which concerns every pod, minus one list for each tenant, which
concerns its own pods.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import msgspec

from mooring.cluster.tallies.carriers import KINDS, Carriers, Concern, concern_of
from mooring.cluster.tallies.tally import Tally
from mooring.model.affinity import CarriedTerm, Labels, PodTerms
from mooring.model.label_set import LabelSet
from mooring.model.pod import Pod
from mooring.model.traits import TraitIndex

_GONE = 64
"""So many lists of terms that nobody carries any more are no reason to look through all of them again."""

_FEW_NEW = 4
"""So many new lists are tried one by one."""


# ---- what all lists say about a pod


class TermsAbout(msgspec.Struct):
    """What the terms of pods on nodes say about pods of one label set, list by list."""

    label_set: LabelSet
    namespace_labels: Labels
    namespaces_version: int
    seen: int = 0
    """How many of the lists are looked at, in the order in which they came."""
    concerns: dict[int, Concern] = msgspec.field(default_factory=dict)
    """By number of a list that says something. The last pod with it may have left."""
    has_exclusions: bool = False
    """Whether one of these lists is subtracted from another one: then all together may say nothing."""

    def __bool__(self) -> bool:
        return bool(self.concerns)


class CarriedTerms:
    """All lists of terms that pods on nodes carry."""

    MOST_REMEMBERED = 1 << 18
    """Lists that are remembered for the label sets that they concern: 60 bytes each, and a label set counts as LABEL_SET of
    them. With more, the label sets that nobody asked about for longest are forgotten."""
    LABEL_SET = 16

    def __init__(self) -> None:
        self._capacity = 0
        self.carried: dict[tuple[CarriedTerm, ...], Carriers] = {}
        """By their terms: the pods that carry them. Lists that no pod carries any more are forgotten."""
        self.lists_of_kind: dict[str, int] = dict.fromkeys(KINDS, 0)
        """How many of them have terms of a kind. Hot: as a rule no list has terms of two of the kinds."""
        self._carriers: WeakKeyDictionary[PodTerms, list[Carriers]] = WeakKeyDictionary()
        """The same by shape and namespace, so that terms are compared once for these and not for each pod."""
        self._arrivals: list[Carriers] = []
        """In the order in which they came, those included that are gone since."""
        self._arrival_index: TraitIndex[int] = TraitIndex()
        """The positions in `_arrivals` by what their terms require of a pod: of hundreds of lists few concern a pod."""
        self.version = 0
        """Grows when pods come with terms that no pod on a node had."""
        self._gone = 0
        self._about: dict[LabelSet, TermsAbout] = {}
        """Least recently asked first."""
        self._remembered = 0
        """How much of MOST_REMEMBERED they take."""

    # ---- which pods carry them

    def add(self, pod: Pod, row: int, change: int) -> None:
        """Count a pod in (+1) or out (-1)."""
        terms = pod.shape.terms(pod.namespace)
        if not terms.carried:
            return
        lists = self._carriers.get(terms)
        if lists is None or any(carriers.is_gone for carriers in lists):
            lists = self._carriers[terms] = [self._carriers_of(each) for each in terms.counted]
        row_change = (row, change)
        for carriers in lists:
            carriers.tally.add(row_change)
            if not carriers.tally.total:
                self._forget(carriers)

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for carriers in self.carried.values():
            carriers.tally.grow(capacity)

    def begin_recount(self) -> None:
        """Count nothing; pods are about to be added. Tallies that somebody holds stay the same objects."""
        for carriers in self.carried.values():
            carriers.tally.clear()

    def end_recount(self) -> None:
        """All pods are added."""
        for carriers in [carriers for carriers in self.carried.values() if not carriers.tally.total]:
            self._forget(carriers)

    def fork(self) -> "CarriedTerms":
        other = CarriedTerms()
        other._capacity = self._capacity
        other.carried = {terms: carriers.fork() for terms, carriers in self.carried.items()}
        other.lists_of_kind = dict(self.lists_of_kind)
        other._number_arrivals()
        return other

    def _carriers_of(self, terms: tuple[CarriedTerm, ...]) -> Carriers:
        """Pods of other shapes may carry the same terms."""
        carriers = self.carried.get(terms)
        if carriers is None:
            carriers = self.carried[terms] = Carriers(terms, Tally(self._capacity))
            self._arrive(carriers)
            for kind in carriers.kinds:
                self.lists_of_kind[kind] += 1
        return carriers

    def _forget(self, carriers: Carriers) -> None:
        """The last pod left that carried these terms."""
        del self.carried[carriers.terms]
        carriers.is_gone = True
        for kind in carriers.kinds:
            self.lists_of_kind[kind] -= 1
        self._gone += 1
        if self._gone > max(len(self.carried), _GONE):
            self._gone = self._remembered = 0
            self._about.clear()
            self._number_arrivals()

    def _number_arrivals(self) -> None:
        """Leave out those that are gone."""
        self._arrivals, self._arrival_index = [], TraitIndex()
        for carriers in self.carried.values():
            self._arrive(carriers)

    def _arrive(self, carriers: Carriers) -> None:
        self.version += 1
        self._arrival_index.add(len(self._arrivals), carriers.required())
        self._arrivals.append(carriers)

    # ---- what they say about a pod

    def about(self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int) -> TermsAbout:
        """What the terms say about a pod of this label set. Do not write to it. Good until pods come or go."""
        about = self._about.pop(label_set, None)
        if about is None or about.namespaces_version != namespaces_version:
            self._remembered += self.LABEL_SET if about is None else -len(about.concerns)
            about = TermsAbout(label_set, namespace_labels, namespaces_version)
        if about.seen < len(self._arrivals):
            self._remembered -= len(about.concerns)
            self._look_at_new(about)
            self._remembered += len(about.concerns)
        self._about[label_set] = about
        while self._remembered > self.MOST_REMEMBERED and len(self._about) > 1:
            self._remembered -= self.LABEL_SET + len(self._about.pop(next(iter(self._about))).concerns)
        return about

    def _look_at_new(self, about: TermsAbout) -> None:
        arrivals, label_set = self._arrivals, about.label_set
        about.concerns = {number: concern for number, concern in about.concerns.items() if not arrivals[number].is_gone}
        new: Iterable[int] = range(about.seen, len(arrivals))
        if len(arrivals) - about.seen > _FEW_NEW:
            candidates = self._arrival_index.candidates(label_set)
            new = sorted(number for number in candidates if number >= about.seen)
        for number in new:
            if not arrivals[number].is_gone:
                concern = arrivals[number].concern(label_set, about.namespace_labels, about.namespaces_version)
                if concern:
                    about.concerns[number] = concern
                    about.has_exclusions |= arrivals[number].excludes
        about.seen = len(arrivals)

    def lists(self, about: TermsAbout) -> Iterator[tuple[Concern, Tally]]:
        """What each list says that says something, with the tally of the pods that carry it. It may be empty: the last pod
        left."""
        for number, concern in about.concerns.items():
            yield concern, self._arrivals[number].tally

    def number_of_anti_terms(
        self, terms: PodTerms, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int
    ) -> dict[str, int]:
        """How many required anti-affinity terms of one pod, which may be on no node, are about pods of a label set, by
        topology key. Keys may have none."""
        lists = self._carriers.get(terms)
        if lists is None:
            return concern_of(terms.carried, label_set, namespace_labels).anti
        found: Counter[str] = Counter()
        for carriers in lists:
            found.update(carriers.concern(label_set, namespace_labels, namespaces_version).anti)
        return found
