"""Pod counts by row, kept up to date as pods come and go: how many pods of a node match a selector, or carry a term."""

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from mooring.cluster.pods.census import Census
from mooring.cluster.pods.tally import Carriers, Concern, Tally, concern_of
from mooring.model.affinity import CarriedTerm, Labels, PodPredicate, PodTerms
from mooring.model.label_set import LabelSet, SelectorIndex, required_labels
from mooring.model.pod import Pod
from mooring.model.selectors import Selector

TallyKey = tuple[tuple[PodPredicate, ...], bool]
"""What a tally counts: the pods that meet all of these; and whether those that terminate count."""

FEW_RULES = 128
"""A pod whose selectors have more rules than this, each selector counting as one more, should count for itself (`census`):
tallies are kept up to date with each pod that is placed, so others would pay for them, and there is room for 1,024."""

_GONE = 64
"""So many lists of terms that nobody carries any more are no reason to look through all of them again."""


def are_few(selectors: Iterable[Selector]) -> bool:
    """Whether these are few enough to be tallied."""
    return sum(1 + len(selector.rules) for selector in selectors) <= FEW_RULES


class LabelSetRows:
    """Where the pods of one label set are, and which tallies count them."""

    __slots__ = ("rows", "tallies", "terminating")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.terminating: dict[int, int] = {}
        self.tallies: list[tuple[Tally, bool]] | None = None

    def fork(self) -> "LabelSetRows":
        other = LabelSetRows()
        other.rows, other.terminating = dict(self.rows), dict(self.terminating)
        return other


class PodTallies:
    """All tallies of a node table, found by what they count."""

    LIMIT = 1024
    """How many predicates are tallied at once; past that the least recently asked one is dropped."""

    def __init__(self) -> None:
        self._capacity = 0
        self._label_sets: dict[LabelSet, LabelSetRows] = {}
        self._predicates: dict[TallyKey, Tally] = {}
        self._predicate_index: SelectorIndex[TallyKey] = SelectorIndex()
        self._label_set_index: dict[tuple[str, str], dict[LabelSet, None]] = {}
        """The label sets on nodes by each of their labels: a new tally looks only at those that can match."""
        self._carried: dict[tuple[CarriedTerm, ...], Carriers] = {}
        """By their terms: the pods that carry them. Lists that no pod carries any more are forgotten."""
        self._carriers: WeakKeyDictionary[PodTerms, Carriers] = WeakKeyDictionary()
        """The same by shape and namespace, so that terms are compared once for these and not for each pod."""
        self._arrivals: list[Carriers] = []
        """In the order in which they came, those included that are gone since."""
        self._arrival_index: SelectorIndex[int] = SelectorIndex()
        """The positions in `_arrivals` by the labels that terms require: of hundreds of lists few concern a pod."""
        self.terms_version = 0
        """Grows when pods come with terms that no pod on a node had."""
        self._gone = 0
        self._matches: dict[LabelSet, tuple[int, int, list[tuple[Concern, Tally]]]] = {}
        self._census: Census | None = None

    def add(self, pod: Pod, row: int, change: int) -> None:
        """Count a pod in (+1) or out (-1)."""
        self._census = None
        self._count_label_set(pod, row, change)
        if pod.spec.affinity is not None:
            self._count_terms(pod, row, change)

    def matching(self, predicates: tuple[PodPredicate, ...], with_terminating: bool) -> Tally:
        """The tally of pods that meet all the predicates."""
        key = (predicates, with_terminating)
        tally = self._predicates.pop(key, None)
        if tally is None:
            if len(self._predicates) >= self.LIMIT:
                self._drop(next(iter(self._predicates)))
            tally = self._count_anew(predicates, with_terminating)
            self._predicate_index.add(key, (predicates[0].selector,))
        self._predicates[key] = tally  # last in the order of use
        return tally

    def census(self) -> Census:
        """The pods on nodes as they are now, for those who have too many predicates to have them all tallied."""
        if self._census is None:
            members = {label_set: (where.rows, where.terminating) for label_set, where in self._label_sets.items()}
            self._census = Census(members, self._capacity)
        return self._census

    def terms_about(
        self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int
    ) -> list[tuple[Concern, Tally]]:
        """What the terms of pods on nodes say about a pod of this label set, with the tally of the pods that have them.

        Terms whose last pod left may be among them, with an empty tally.
        """
        version, seen, found = self._matches.get(label_set, (-1, 0, []))
        if version != namespaces_version:
            seen, found = 0, []
        if seen < len(self._arrivals) or version != namespaces_version:
            found = [entry for entry in found if entry[1].total]
            for number in sorted(self._arrival_index.candidates(label_set.labels)):
                carriers = self._arrivals[number]
                if number < seen or carriers.is_gone:
                    continue
                concern = carriers.concern(label_set, namespace_labels, namespaces_version)
                if concern:
                    found.append((concern, carriers.tally))
            if len(self._matches) >= self.LIMIT:
                self._matches.clear()
            self._matches[label_set] = (namespaces_version, len(self._arrivals), found)
        return found

    def concern(
        self, terms: PodTerms, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int
    ) -> Concern:
        """What the terms of one pod, which may be on no node, say about pods of a label set."""
        carriers = self._carriers.get(terms)
        if carriers is None:
            return concern_of(terms.carried, label_set, namespace_labels)
        return carriers.concern(label_set, namespace_labels, namespaces_version)

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        self._census = None
        for tally in (*self._predicates.values(), *(carriers.tally for carriers in self._carried.values())):
            tally.grow(capacity)

    def count_anew(self, pods_on: Sequence[Sequence[Pod]]) -> None:
        """Forget all counts, and count these pods (by row). Tallies that somebody holds stay the same objects."""
        self._census = None
        self._label_sets.clear()
        self._label_set_index.clear()
        for tally in (*self._predicates.values(), *(carriers.tally for carriers in self._carried.values())):
            tally.clear()
        for row, pods in enumerate(pods_on):
            for pod in pods:
                self.add(pod, row, 1)
        for carriers in [carriers for carriers in self._carried.values() if not carriers.tally.total]:
            self._forget(carriers)

    def fork(self) -> "PodTallies":
        other = PodTallies()
        other._capacity = self._capacity
        other._label_sets = {label_set: where.fork() for label_set, where in self._label_sets.items()}
        other._label_set_index = {label: dict(members) for label, members in self._label_set_index.items()}
        other._predicates = {key: tally.fork() for key, tally in self._predicates.items()}
        for key in other._predicates:
            other._predicate_index.add(key, (key[0][0].selector,))
        other._carried = {terms: carriers.fork() for terms, carriers in self._carried.items()}
        other._number_arrivals()
        return other

    def _count_label_set(self, pod: Pod, row: int, change: int) -> None:
        where = self._label_sets.get(pod.label_set)
        if where is None:
            where = self._enter(pod.label_set)
        terminating = pod.is_terminating
        rows = where.terminating if terminating else where.rows
        count = rows.get(row, 0) + change
        if count:
            rows[row] = count
        else:
            del rows[row]
        if where.tallies is None:
            where.tallies = self._links_of(pod.label_set)
        for tally, with_terminating in where.tallies:
            if with_terminating or not terminating:
                tally.add(row, change)
        if not where.rows and not where.terminating:
            self._leave(pod.label_set)

    def _count_terms(self, pod: Pod, row: int, change: int) -> None:
        terms = pod.shape.terms(pod.namespace)
        if not terms.carried:
            return
        carriers = self._carriers.get(terms)
        if carriers is None or carriers.is_gone:
            carriers = self._carriers_of(terms)
        carriers.tally.add(row, change)
        if not carriers.tally.total:
            self._forget(carriers)

    def _carriers_of(self, terms: PodTerms) -> Carriers:
        """Pods of other shapes may carry the same terms."""
        carriers = self._carried.get(terms.carried)
        if carriers is None:
            carriers = self._carried[terms.carried] = Carriers(terms.carried, Tally(self._capacity))
            self._arrive(carriers)
        self._carriers[terms] = carriers
        return carriers

    def _forget(self, carriers: Carriers) -> None:
        """The last pod left that carried these terms."""
        del self._carried[carriers.terms]
        carriers.is_gone = True
        self._gone += 1
        if self._gone > max(len(self._carried), _GONE):
            self._gone = 0
            self._matches.clear()
            self._number_arrivals()

    def _number_arrivals(self) -> None:
        """Leave out those that are gone."""
        self._arrivals, self._arrival_index = [], SelectorIndex()
        for carriers in self._carried.values():
            self._arrive(carriers)

    def _arrive(self, carriers: Carriers) -> None:
        self.terms_version += 1
        self._arrival_index.add(len(self._arrivals), carriers.selectors)
        self._arrivals.append(carriers)

    def _count_anew(self, predicates: tuple[PodPredicate, ...], with_terminating: bool) -> Tally:
        """A tally of the pods that are there now. Their label sets are linked with it."""
        tally = Tally(self._capacity)
        for label_set in self._label_sets_for(predicates):
            if not _hold(predicates, label_set):
                continue
            where = self._label_sets[label_set]
            for row, count in where.rows.items():
                tally.add(row, count)
            for row, count in where.terminating.items() if with_terminating else ():
                tally.add(row, count)
            if where.tallies is not None:
                where.tallies.append((tally, with_terminating))
        return tally

    def _label_sets_for(self, predicates: tuple[PodPredicate, ...]) -> Iterable[LabelSet]:
        """Those that may meet the predicates."""
        labels = required_labels(predicates[0].selector)
        if labels is None:
            return self._label_sets
        return dict.fromkeys(found for label in labels for found in self._label_set_index.get(label, ()))

    def _links_of(self, label_set: LabelSet) -> list[tuple[Tally, bool]]:
        return [
            (self._predicates[predicates, with_terminating], with_terminating)
            for predicates, with_terminating in self._predicate_index.candidates(label_set.labels)
            if _hold(predicates, label_set)
        ]

    def _enter(self, label_set: LabelSet) -> LabelSetRows:
        """The first pod of a label set comes."""
        for label in label_set.labels.items():
            self._label_set_index.setdefault(label, {})[label_set] = None
        where = self._label_sets[label_set] = LabelSetRows()
        return where

    def _leave(self, label_set: LabelSet) -> None:
        del self._label_sets[label_set]
        for label in label_set.labels.items():
            members = self._label_set_index[label]
            del members[label_set]
            if not members:
                del self._label_set_index[label]

    def _drop(self, key: TallyKey) -> None:
        """Count no longer what a key says. Hot: only label sets that may be linked with it are looked at, because with
        thousands of selectors each new tally takes the place of another."""
        del self._predicates[key]
        self._predicate_index.remove(key)
        for label_set in self._label_sets_for(key[0]):
            self._label_sets[label_set].tallies = None


def _hold(predicates: tuple[PodPredicate, ...], label_set: LabelSet) -> bool:
    return all(predicate.holds(label_set.namespace, label_set.labels) for predicate in predicates)
