"""The affinity terms that pods on nodes carry: where the pods are, and what their terms say about other pods.

Pods with the same list of terms are counted together. What all lists say about a pod is a sum over those that concern it. A
term such as `tenant NotIn (a)` concerns the pods of all tenants but one, so that hundreds of lists concern each pod. Then the
sum is that of all lists, which is kept, less what the few others add to it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from mooring.cluster.nodes.kernels import Ints
from mooring.cluster.nodes.labels import ABSENT, LabelColumn, LabelColumns, grown
from mooring.cluster.pods.tally import Tally
from mooring.kit.lazy import lazy
from mooring.model.affinity import CarriedTerm, Labels, PodTerms
from mooring.model.label_set import LabelSet, LabelSetCases, SelectorIndex
from mooring.model.pod import Pod
from mooring.model.selectors import Selector

KINDS = ("anti", "affinity", "preferred")
"""Of terms, as CarriedTerm names them."""

Reach = tuple[frozenset[str], Selector]
"""Where a term looks for pods: the namespaces that it names, and a selector of others."""

_GONE = 64
"""So many lists of terms that nobody carries any more are no reason to look through all of them again."""

_FEW_RULES = 16
"""Lists whose selectors have up to so many rules, each selector counting as one more, are tried each time. What larger ones
say is remembered, for as many cases as they have rules: thousands of pods may carry a list of their own."""

_FEW_NEW = 4
"""So many new lists are tried one by one."""

_MANY_LISTS = 16
"""With more lists than this that concern a pod, most of which it may be, their sum is worked out from that of all lists."""


# ---- what a list of terms says


class Concern(msgspec.Struct):
    """What a list of terms says about pods of one label set, added up by topology key. It may say nothing."""

    anti: dict[str, int] = msgspec.field(default_factory=dict)
    """Required anti-affinity: how many terms."""
    affinity: dict[str, int] = msgspec.field(default_factory=dict)
    """Required affinity: how many terms."""
    preferred: dict[str, int] = msgspec.field(default_factory=dict)
    """Preferred affinity: the sum of the weights; anti-affinity has negative ones."""

    _present: "tuple[int, Concern] | None" = None
    """What `among` last returned, with the version of the label keys."""

    def __bool__(self) -> bool:
        """Whether the terms say anything about these pods."""
        return bool(self.anti or self.affinity or self.preferred)

    def among(self, labels: LabelColumns) -> "Concern":
        """What of it is about labels that nodes have: there may be thousands that none has. Do not write to it."""
        if self._present is None or self._present[0] != labels.keys_version:
            parts = (self.anti, self.affinity, self.preferred)
            anti, affinity, preferred = ({key: n for key, n in part.items() if labels.has(key)} for part in parts)
            self._present = (labels.keys_version, Concern(anti, affinity, preferred))
        return self._present[1]

    def of(self, kind: str) -> dict[str, int]:
        """What terms of one of the KINDS say."""
        found: dict[str, int] = getattr(self, kind)
        return found

    def without(self, said: "Concern") -> "Concern":
        """What this says beyond that."""
        anti, affinity, preferred = (_difference(self.of(kind), said.of(kind)) for kind in KINDS)
        return Concern(anti, affinity, preferred)


def _difference(numbers: dict[str, int], fewer: dict[str, int]) -> dict[str, int]:
    return {key: number - fewer.get(key, 0) for key, number in numbers.items() if number != fewer.get(key, 0)}


_NOTHING = Concern()


def concern_of(terms: Iterable[CarriedTerm], label_set: LabelSet, namespace_labels: Labels) -> Concern:
    """Add up what these terms say about pods of a label set, term by term."""
    namespace, labels = label_set.namespace, label_set.labels
    return _added_up(carried for carried in terms if carried.term.speaks_of(namespace, labels, namespace_labels))


def _added_up(terms: Iterable[CarriedTerm]) -> Concern:
    sums: dict[str, dict[str, int]] = {kind: defaultdict(int) for kind in KINDS}
    for carried in terms:
        weight = carried.weight if carried.kind == "preferred" else 1
        if weight:
            sums[carried.kind][carried.term.topology_key] += weight
    return Concern(dict(sums["anti"]), dict(sums["affinity"]), dict(sums["preferred"]))


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
        self._rules = sum(1 + len(each.term.selector.rules) + len(each.term.namespace_selector.rules) for each in terms)

    @lazy
    def by_reach(self) -> dict[Reach, Concern]:
        """What the terms of each reach would say about a pod that all of them select."""
        found: dict[Reach, list[CarriedTerm]] = {}
        for carried in self.terms:
            found.setdefault((carried.term.namespaces, carried.term.namespace_selector), []).append(carried)
        return {reach: _added_up(terms) for reach, terms in found.items()}

    def concern(self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int) -> Concern:
        """What the terms say about pods of this label set. Do not write to it."""
        if self._rules > _FEW_RULES:
            return self._cases.get(label_set, lambda: self._concern_of(label_set, namespace_labels), namespaces_version)
        if len(self.terms) > 1:
            return concern_of(self.terms, label_set, namespace_labels)
        # Hot: as a rule there is one, and then one object for all pods that it selects.
        is_meant = self.terms[0].term.speaks_of(label_set.namespace, label_set.labels, namespace_labels)
        return next(iter(self.by_reach.values())) if is_meant else _NOTHING

    @lazy
    def _cases(self) -> LabelSetCases[Concern]:
        return LabelSetCases(self.selectors, most=self._rules)

    @lazy
    def _index(self) -> SelectorIndex[int]:
        index: SelectorIndex[int] = SelectorIndex()
        for number, selector in enumerate(self.selectors):
            index.add(number, (selector,))
        return index

    def _concern_of(self, label_set: LabelSet, namespace_labels: Labels) -> Concern:
        candidates = (self.terms[number] for number in sorted(self._index.candidates(label_set.labels)))
        return concern_of(candidates, label_set, namespace_labels)

    def fork(self) -> "Carriers":
        other: Carriers = object.__new__(Carriers)
        other.__dict__.update(
            self.__dict__
        )  # what terms say about other pods does not depend on where their carriers are
        other.tally = self.tally.fork()
        return other


# ---- what all lists say about a pod


class TermsAbout(msgspec.Struct):
    """What the terms of pods on nodes say about pods of one label set, list by list."""

    label_set: LabelSet
    namespace_labels: Labels
    namespaces_version: int
    seen: int = 0
    """How many of the lists are looked at, in the order in which they came."""
    said: dict[int, Concern] = msgspec.field(default_factory=dict)
    """By number of a list that says something. The last pod with it may have left."""
    rest: "_Rest | None" = None
    """What `CarriedTerms.sums` needs besides, once it was asked."""

    def __bool__(self) -> bool:
        return bool(self.said)


class _Rest(msgspec.Struct):
    """How the sum of all lists that reach a pod differs from that of the lists that concern it."""

    reaches: set[Reach] = msgspec.field(default_factory=set)
    """Those that the pod is in."""
    keys: dict[str, set[str]] = msgspec.field(default_factory=lambda: {kind: set() for kind in KINDS})
    """By kind of term: the topology keys of what is said."""
    seen: int = 0
    """How many of the lists are looked at."""
    unsaid: dict[int, Concern] = msgspec.field(default_factory=dict)
    """By number of a list: what it says about other pods in these reaches only."""
    is_large: bool = False
    """Whether this is so much that it does not pay. The rest is empty then."""


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
        """How many of them have terms of a kind."""
        self._carriers: WeakKeyDictionary[PodTerms, Carriers] = WeakKeyDictionary()
        """The same by shape and namespace, so that terms are compared once for these and not for each pod."""
        self._arrivals: list[Carriers] = []
        """In the order in which they came, those included that are gone since."""
        self._arrival_index: SelectorIndex[int] = SelectorIndex()
        """The positions in `_arrivals` by the labels that terms require: of hundreds of lists few concern a pod."""
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
        self._arrivals, self._arrival_index = [], SelectorIndex()
        for carriers in self.carried.values():
            self._arrive(carriers)

    def _arrive(self, carriers: Carriers) -> None:
        self.version += 1
        self._arrival_index.add(len(self._arrivals), carriers.selectors)
        self._arrivals.append(carriers)

    # ---- what they say about a pod

    def about(self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int) -> TermsAbout:
        """What the terms say about a pod of this label set. Do not write to it. Good until pods come or go."""
        about = self._about.pop(label_set, None)
        if about is None or about.namespaces_version != namespaces_version:
            self._remembered += self.LABEL_SET if about is None else -len(about.said)
            about = TermsAbout(label_set, namespace_labels, namespaces_version)
        if about.seen < len(self._arrivals):
            self._remembered -= len(about.said)
            self._look_at_new(about)
            self._remembered += len(about.said)
        self._about[label_set] = about
        while self._remembered > self.MOST_REMEMBERED and len(self._about) > 1:
            self._remembered -= self.LABEL_SET + len(self._about.pop(next(iter(self._about))).said)
        return about

    def _look_at_new(self, about: TermsAbout) -> None:
        arrivals, label_set = self._arrivals, about.label_set
        about.said = {number: concern for number, concern in about.said.items() if not arrivals[number].is_gone}
        new: Iterable[int] = range(about.seen, len(arrivals))
        if len(arrivals) - about.seen > _FEW_NEW:
            candidates = self._arrival_index.candidates(label_set.labels)
            new = sorted(number for number in candidates if number >= about.seen)
        for number in new:
            if not arrivals[number].is_gone:
                concern = arrivals[number].concern(label_set, about.namespace_labels, about.namespaces_version)
                if concern:
                    about.said[number] = concern
        about.seen = len(arrivals)

    def lists(self, about: TermsAbout) -> Iterator[tuple[Concern, Tally]]:
        """What each list says that says something, with the tally of the pods that carry it. It may be empty: the last pod
        left."""
        for number, concern in about.said.items():
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
        if len(about.said) <= _MANY_LISTS:
            return None
        rest = self._rest_of(about)
        keys = sorted(filter(labels.has, rest.keys[kind]))
        if rest.is_large or len(keys) * len(rest.reaches) > self.MOST_SUMS:
            return None
        found = {}
        for key in keys:
            column = labels.column(key)
            counts: Ints = np.zeros(column.width, np.int64)
            for reach in rest.reaches:
                counts += self._sum_of_all(reach, kind, key, column)
            for number, unsaid in rest.unsaid.items():
                weight, tally = unsaid.of(kind).get(key), self._arrivals[number].tally
                if weight and tally.total:
                    counts -= np.multiply(tally.by_value(column), weight, dtype=np.int64)
            counts[ABSENT] = 0
            if counts.any():
                found[key] = column, counts
            elif kind == "preferred":
                return None  # no pods are there, or their weights cancel out: the lists can tell
        return found

    def _rest_of(self, about: TermsAbout) -> _Rest:
        """What `sums` needs, up to date with `about.said`."""
        rest = about.rest
        if rest is None or (rest.is_large and 2 * rest.seen <= about.seen):
            rest = about.rest = _Rest()
        if rest.is_large or rest.seen == about.seen:
            return rest
        rest.unsaid = {number: said for number, said in rest.unsaid.items() if not self._arrivals[number].is_gone}
        reaches: dict[Reach, bool] = {}
        for number in range(rest.seen, about.seen):
            carriers = self._arrivals[number]
            if carriers.is_gone:
                continue
            concern = about.said.get(number, _NOTHING)
            if concern is not _NOTHING:
                for kind in KINDS:
                    rest.keys[kind] |= concern.of(kind).keys()
            full = _in_reach(carriers, reaches, about)
            unsaid = _NOTHING if full is concern else full.without(concern)
            if unsaid:
                rest.unsaid[number] = unsaid
        rest.reaches.update(reach for reach, is_in in reaches.items() if is_in)
        rest.seen = about.seen
        numbers = (len(rest.reaches), *map(len, rest.keys.values()))
        if 2 * len(rest.unsaid) > len(about.said) or max(numbers) > self.MOST_SUMS:
            about.rest = rest = _Rest(seen=about.seen, is_large=True)
        return rest

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
            number = carriers.by_reach.get(reach, _NOTHING).of(kind).get(key)
            if number:
                rows, pods = carriers.tally.rows
                np.add.at(counts, column.codes.take(rows), number * pods.astype(np.int64))
        return counts


def _in_reach(carriers: Carriers, known: dict[Reach, bool], about: TermsAbout) -> Concern:
    """What a list would say about a pod of the same namespace that all terms select. `known`: which reaches it is in."""
    found = _NOTHING
    for reach, concern in carriers.by_reach.items():
        if reach not in known:
            namespaces, selector = reach
            known[reach] = about.label_set.namespace in namespaces or selector.matches(about.namespace_labels)
        if known[reach]:
            found = concern if found is _NOTHING else _together(found, concern)
    return found


def _together(one: Concern, other: Concern) -> Concern:
    anti, affinity, preferred = (
        {key: one.of(kind).get(key, 0) + other.of(kind).get(key, 0) for key in (*one.of(kind), *other.of(kind))}
        for kind in KINDS
    )
    return Concern(anti, affinity, preferred)
