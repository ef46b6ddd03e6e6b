"""All lists of affinity terms that pods on nodes carry, and what they say about other pods together.

Pods with the same list of terms are counted together (carriers.py). What all lists say about a pod is a sum over those that
concern it. A term such as `tenant NotIn (a)` concerns the pods of all tenants but one, so that hundreds of lists concern each
pod. Then the sum is that of all lists, which is kept, less what the few others add to it.
"""

from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from mooring.cluster.nodes.kernels import Ints
from mooring.cluster.nodes.labels import ABSENT, LabelColumn, LabelColumns, grown
from mooring.cluster.pods.carriers import KINDS, NOTHING, Carriers, Concern, concern_of
from mooring.cluster.pods.tally import Tally
from mooring.model.affinity import CarriedTerm, Labels, PodTerms, Reach, is_in_reach
from mooring.model.label_set import LabelSet
from mooring.model.pod import Pod
from mooring.model.traits import TraitIndex

_GONE = 64
"""So many lists of terms that nobody carries any more are no reason to look through all of them again."""

_FEW_NEW = 4
"""So many new lists are tried one by one."""

_MANY_LISTS = 16
"""Where more lists than this concern a pod, and most lists do, their sum is worked out from that of all lists."""


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
    complement: "_Complement | None" = None
    """What `CarriedTerms.sums` needs besides, once it was asked."""

    def __bool__(self) -> bool:
        return bool(self.concerns)


class _Complement(msgspec.Struct):
    """How the sum of all lists that reach a pod differs from that of the lists that concern it."""

    reaches: set[Reach] = msgspec.field(default_factory=set)
    """Those that the pod is in."""
    keys: dict[str, set[str]] = msgspec.field(default_factory=lambda: {kind: set() for kind in KINDS})
    """By kind of term: the topology keys that the lists name."""
    seen: int = 0
    """How many of the lists are looked at."""
    missing: dict[int, Concern] = msgspec.field(default_factory=dict)
    """By number of a list: what it says about other pods in these reaches only."""
    is_large: bool = False
    """Whether so many lists are missing that it is faster to add up the others one by one. The fields above are empty
    then."""


class _SumOfAll(msgspec.Struct):
    """What all lists of a reach say, added up over their pods, by value of a topology label."""

    column: LabelColumn
    version: int
    """Of the column: in another one rows have other values."""
    counts: Ints


class CarriedTerms:
    """All lists of terms that pods on nodes carry."""

    MOST_REMEMBERED = 1 << 18
    """Lists that are remembered for the label sets that they concern: 60 bytes each, and a label set counts as LABEL_SET of
    them. With more, the label sets that nobody asked about for longest are forgotten."""
    LABEL_SET = 16
    MOST_SUMS = 32
    """Sums of all lists that are kept: as a rule terms name one or two topology keys."""

    def __init__(self) -> None:
        self._capacity = 0
        self.carried: dict[tuple[CarriedTerm, ...], Carriers] = {}
        """By their terms: the pods that carry them. Lists that no pod carries any more are forgotten."""
        self.lists_of_kind: dict[str, int] = dict.fromkeys(KINDS, 0)
        """How many of them have terms of a kind. Hot: as a rule no list has terms of two of the kinds."""
        self._carriers: WeakKeyDictionary[PodTerms, Carriers] = WeakKeyDictionary()
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
        self._sums: dict[Reach, dict[tuple[str, str], _SumOfAll]] = {}
        """By kind of term and topology key, of those that were asked for."""

    # ---- which pods carry them

    def add(self, pod: Pod, row: int, change: int) -> None:
        """Count a pod in (+1) or out (-1)."""
        terms = pod.shape.terms(pod.namespace)
        if not terms.carried:
            return
        carriers = self._carriers.get(terms)
        if carriers is None or carriers.is_gone:
            carriers = self._carriers_of(terms)
        carriers.tally.add((row, change))
        if self._sums:
            self._add_to_sums(carriers, row, change)
        if not carriers.tally.total:
            self._forget(carriers)

    def _add_to_sums(self, carriers: Carriers, row: int, change: int) -> None:
        for reach, concern in carriers.by_reach.items():
            for (kind, key), kept in self._sums.get(reach, {}).items():
                number = concern.of(kind).get(key)
                if number and kept.version == kept.column.version:
                    kept.counts[kept.column.codes[row]] += number * change

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        self._sums.clear()
        for carriers in self.carried.values():
            carriers.tally.grow(capacity)

    def begin_recount(self) -> None:
        """Count nothing; pods are about to be added. Tallies that somebody holds stay the same objects."""
        self._sums.clear()
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

    def _carriers_of(self, terms: PodTerms) -> Carriers:
        """Pods of other shapes may carry the same terms."""
        carriers = self.carried.get(terms.carried)
        if carriers is None:
            carriers = self.carried[terms.carried] = Carriers(terms.carried, Tally(self._capacity))
            self._arrive(carriers)
            for kind in carriers.kinds:
                self.lists_of_kind[kind] += 1
        self._carriers[terms] = carriers
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
        about.seen = len(arrivals)

    def lists(self, about: TermsAbout) -> Iterator[tuple[Concern, Tally]]:
        """What each list says that says something, with the tally of the pods that carry it. It may be empty: the last pod
        left."""
        for number, concern in about.concerns.items():
            yield concern, self._arrivals[number].tally

    def concern(
        self, terms: PodTerms, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int
    ) -> Concern:
        """What the terms of one pod, which may be on no node, say about pods of a label set."""
        carriers = self._carriers.get(terms)
        if carriers is None:
            return concern_of(terms.carried, label_set, namespace_labels)
        return carriers.concern(label_set, namespace_labels, namespaces_version)

    # ---- the same as a difference

    def sums(self, about: TermsAbout, kind: str, labels: LabelColumns) -> dict[str, tuple[LabelColumn, Ints]] | None:
        """What the lists say, added up over the pods that carry them, by value of each topology label that nodes have.

        None: the lists are few, or hardly more than half of those that reach the pod. Add them up one by one.
        """
        if len(about.concerns) <= _MANY_LISTS:
            return None
        complement = self._complement_of(about)
        keys = sorted(filter(labels.has, complement.keys[kind]))
        if complement.is_large or len(keys) * len(complement.reaches) > self.MOST_SUMS:
            return None
        found = {}
        for key in keys:
            column = labels.column(key)
            counts: Ints = np.zeros(column.width, np.int64)
            for reach in complement.reaches:
                counts += self._sum_of_all(reach, kind, key, column)
            for number, concern in complement.missing.items():
                weight, tally = concern.of(kind).get(key), self._arrivals[number].tally
                if weight and tally.total:
                    counts -= np.multiply(tally.by_value(column), weight, dtype=np.int64)
            counts[ABSENT] = 0
            if counts.any():
                found[key] = column, counts
            elif kind == "preferred":
                return None  # no pods are there, or their weights cancel out: the lists can tell
        return found

    def _complement_of(self, about: TermsAbout) -> _Complement:
        """What `sums` needs, up to date with `about.concerns`."""
        complement = about.complement
        if complement is None or (complement.is_large and 2 * complement.seen <= about.seen):
            complement = about.complement = _Complement()
        if complement.is_large or complement.seen == about.seen:
            return complement
        complement.missing = {
            number: missing for number, missing in complement.missing.items() if not self._arrivals[number].is_gone
        }
        reaches: dict[Reach, bool] = {}
        for number in range(complement.seen, about.seen):
            carriers = self._arrivals[number]
            if carriers.is_gone:
                continue
            concern = about.concerns.get(number, NOTHING)
            if concern is not NOTHING:
                for kind in KINDS:
                    complement.keys[kind] |= concern.of(kind).keys()
            full = _full_concern(carriers, reaches, about)
            missing = NOTHING if full is concern else full.without(concern)
            if missing:
                complement.missing[number] = missing
        complement.reaches.update(reach for reach, is_in in reaches.items() if is_in)
        complement.seen = about.seen
        numbers = (len(complement.reaches), *map(len, complement.keys.values()))
        if 2 * len(complement.missing) > len(about.concerns) or max(numbers) > self.MOST_SUMS:
            about.complement = complement = _Complement(seen=about.seen, is_large=True)
        return complement

    def _sum_of_all(self, reach: Reach, kind: str, key: str, column: LabelColumn) -> Ints:
        """What all lists of a reach say, as if they concerned every pod, by value of the label. Do not write to it."""
        kept = self._sums.get(reach, {}).get((kind, key))
        if kept is None or kept.column is not column or kept.version != column.version:
            if sum(map(len, self._sums.values())) >= self.MOST_SUMS:
                self._sums.clear()
            kept = _SumOfAll(column, column.version, self._add_up(reach, kind, key, column))
            self._sums.setdefault(reach, {})[kind, key] = kept
        if len(kept.counts) < column.width:
            kept.counts = grown(kept.counts, column.width)
        return kept.counts

    def _add_up(self, reach: Reach, kind: str, key: str, column: LabelColumn) -> Ints:
        counts: Ints = np.zeros(column.width, np.int64)
        for carriers in self.carried.values():
            number = carriers.by_reach.get(reach, NOTHING).of(kind).get(key)
            if number:
                rows, pods = carriers.tally.rows_and_counts
                np.add.at(counts, column.codes.take(rows), number * pods.astype(np.int64))
        return counts


def _full_concern(carriers: Carriers, known: dict[Reach, bool], about: TermsAbout) -> Concern:
    """What a list would say about a pod of the same namespace that all terms select. `known`: which reaches it is in."""
    found = NOTHING
    for reach, concern in carriers.by_reach.items():
        if reach not in known:
            known[reach] = is_in_reach(reach, about.label_set.namespace, about.namespace_labels)
        if known[reach]:
            found = concern if found is NOTHING else found.together(concern)
    return found
