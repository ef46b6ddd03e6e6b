"""Pod counts by row, kept up to date as pods come and go: how many pods of a node match a selector, or carry a term."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.tallies.carried_terms import CarriedTerms
from mooring.cluster.tallies.tally import PodCounts, Tally, TallyDifference
from mooring.model.affinity import PodPredicate, all_of
from mooring.model.label_set import LabelSet, LabelSetIndex, Trait, TraitIndex, required_traits
from mooring.model.pod import Pod
from mooring.model.selectors import LabelRule, Selector, as_difference

# ---- All pods on nodes at one moment, as columns: how many of them meet a predicate, without keeping a count of it.
#
# Kept tallies (tallies.py) suit pods with a handful of selectors. A pod with thousands would evict the tallies of all
# other pods, so its pods are counted here: each selector is one pass over arrays.


Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Members = Mapping[LabelSet, tuple[Mapping[int, int], Mapping[int, int]]]
"""By label set: the number of its pods by row, those that are being deleted apart from the others."""


class Census:
    """A count over label sets, made for one moment. Label sets have numbers; a mask over these says which are meant.

    Label sets are few compared with pods: the pods of a template share one.
    """

    def __init__(self, members: Members, capacity: int) -> None:
        self._capacity = capacity
        self._index: dict[tuple[str, str | None], list[int]] = {}
        """Numbers of label sets by label: (key, value), and (key, None) for any value."""
        self._namespaces: dict[str, list[int]] = {}
        for number, label_set in enumerate(members):
            self._namespaces.setdefault(label_set.namespace, []).append(number)
            for key, value in label_set.labels.items():
                self._index.setdefault((key, value), []).append(number)
                self._index.setdefault((key, None), []).append(number)
        self._size = len(members)
        self._settled = _flat(settled for settled, _ in members.values())
        self._terminating = _flat(terminating for _, terminating in members.values())

    def holding(self, predicate: PodPredicate) -> Mask:
        """The label sets whose pods meet a predicate."""
        found = self.matching(predicate.selector)
        return found if predicate.anywhere else found & self._within(predicate.namespaces)

    def matching(self, selector: Selector) -> Mask:
        """The label sets that a selector matches."""
        if selector.is_nothing:
            return np.zeros(self._size, np.bool_)
        found = np.ones(self._size, np.bool_)
        for rule in selector.rules:
            found &= self._admitted(rule)
        return found

    def count_all(self, predicates: Iterable[PodPredicate]) -> Ints:
        """By row, the pods that meet all the predicates."""
        meant = np.ones(self._size, np.bool_)
        for predicate in predicates:
            meant &= self.holding(predicate)
        return self.by_row(meant.astype(np.int64), with_terminating=True)

    def count_weighted(self, asks: Iterable[tuple[PodPredicate, int]]) -> tuple[Ints, Ints]:
        """By row, how often pods meet one of the predicates; and the same with each predicate times its weight."""
        plain, weighted = np.zeros(self._size, np.int64), np.zeros(self._size, np.int64)
        for predicate, weight in asks:
            meant = self.holding(predicate)
            plain += meant
            weighted += meant * weight
        return self.by_row(plain, with_terminating=True), self.by_row(weighted, with_terminating=True)

    def by_row(self, weights: Ints, with_terminating: bool) -> Ints:
        """The sum over the pods on each row, a pod counting as much as the weight of its label set."""
        total = _sum(self._settled, weights, self._capacity)
        return total + _sum(self._terminating, weights, self._capacity) if with_terminating else total

    def _within(self, namespaces: frozenset[str]) -> Mask:
        """The label sets of some namespaces. Goes through the shorter of the two lists: a selector may name
        thousands of namespaces, and a cluster have thousands."""
        found = np.zeros(self._size, np.bool_)
        listed, there = (
            (self._namespaces, namespaces) if len(self._namespaces) < len(namespaces) else (namespaces, None)
        )
        for namespace in listed:
            if there is None or namespace in there:
                found[self._namespaces.get(namespace, [])] = True
        return found

    def _admitted(self, rule: LabelRule) -> Mask:
        """Label selectors know In, NotIn, Exists and DoesNotExist."""
        is_negated = rule.operator in ("NotIn", "DoesNotExist")
        found = np.full(self._size, is_negated)
        for value in rule.values if rule.operator in ("In", "NotIn") else (None,):
            numbers = self._index.get((rule.key, value))
            if numbers is not None:
                found[numbers] = not is_negated
        return found


def _flat(rows_of_label_sets: Iterable[Mapping[int, int]]) -> tuple[NDArray[np.intp], NDArray[np.intp], Ints]:
    """Entry by entry: the number of the label set, the row, and how many pods."""
    entries = [(number, row, count) for number, rows in enumerate(rows_of_label_sets) for row, count in rows.items()]
    table = np.array(entries, np.int64).reshape(-1, 3)
    return table[:, 0].astype(np.intp), table[:, 1].astype(np.intp), table[:, 2].copy()


def _sum(entries: tuple[NDArray[np.intp], NDArray[np.intp], Ints], weights: Ints, capacity: int) -> Ints:
    """
    | label set   | row   | count | weights | capacity | sums  |
    | 0 1 0 | 0 0 1 | 2 1 4 | 10 1    | 3        | 21 40 0 |
    """
    label_sets, rows, counts = entries
    sums = np.zeros(capacity, np.int64)
    weight = weights[label_sets]
    chosen = np.flatnonzero(weight)
    np.add.at(sums, rows[chosen], weight[chosen] * counts[chosen])
    return sums


TallyKey = tuple[PodPredicate, bool]
"""Key of a tally: the predicate that counted pods meet, and whether terminating pods count."""

FEW_RULES = 128
"""A pod whose selectors have more rules than this, each selector counting as one more, should count for itself (`census`):
tallies are kept up to date with each pod that is placed, so others would pay for them, and there is room for 1,024."""


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
        self._predicate_index: TraitIndex[TallyKey] = TraitIndex()
        self._differences: dict[PodPredicate, tuple[PodPredicate, PodPredicate]] = {}
        """By predicate that excludes pods: the one without its exclusions, and the one of the excluded pods."""
        self._label_set_index = LabelSetIndex()
        """The label sets on nodes: a new tally looks only at those that can match."""
        self.terms = CarriedTerms()
        self.with_storage: dict[int, int] = {}
        """By row: how many of its pods have volumes that storage plugins look at; rows without such pods are missing."""
        self._census: Census | None = None

    def add(self, pod: Pod, row: int, change: int) -> None:
        """Count a pod in (+1) or out (-1)."""
        self._census = None
        self._count_label_set(pod.label_set, row, change, pod.is_terminating)
        if pod.spec.affinity is not None:
            self.terms.add(pod, row, change)
        if pod.spec.volumes is not None and pod.shape.has_storage:
            self._count_storage(row, change)

    def relabel(self, old: Pod, new: Pod, row: int) -> None:
        """Count a pod with the labels of `new` instead of those of `old`. Both have the same shape.

        Hot: terms and volumes follow from the shape. A pod with terms of its own would else take them along, and what is kept
        about terms would be void with each bind that is confirmed.
        """
        self._census = None
        self._count_label_set(old.label_set, row, -1, old.is_terminating)
        self._count_label_set(new.label_set, row, 1, new.is_terminating)

    def _count_storage(self, row: int, change: int) -> None:
        count = self.with_storage.get(row, 0) + change
        if count:
            self.with_storage[row] = count
        else:
            del self.with_storage[row]

    def add_many(self, pods: Sequence[Pod], rows: Sequence[int], change: int) -> None:
        """Count pods in (+1) or out (-1), as `add` does one by one; `rows` has the row of each."""
        self._census = None
        rows_of = defaultdict[LabelSet, list[int]](list)
        for pod, row in zip(pods, rows, strict=True):
            if pod.metadata.deletion_timestamp is not None:  # is_terminating
                self.add(pod, row, change)
                continue
            rows_of[pod.label_set].append(row)
            spec = pod.spec
            if spec.affinity is not None:
                self.terms.add(pod, row, change)
            if spec.volumes is not None and pod.shape.has_storage:
                self._count_storage(row, change)
        for label_set, counted in rows_of.items():
            for row, count in Counter(counted).items():
                self._count_label_set(label_set, row, change * count, terminating=False)

    def matching(self, predicates: tuple[PodPredicate, ...], with_terminating: bool) -> PodCounts:
        """The counts of pods that meet all the predicates. Good until pods come or go."""
        predicate = all_of(predicates)
        key = (predicate, with_terminating)
        tally = self._found(key)
        if tally is not None:
            return tally
        parts = self._as_difference(predicate)
        if parts is None:
            return self.tally(key)
        shared, excluded = parts
        return TallyDifference(self.tally((shared, with_terminating)), self.tally((excluded, with_terminating)))

    def tally(self, key: TallyKey) -> Tally:
        """The tally of a key, which is kept from now on."""
        tally = self._found(key)
        if tally is None:
            if len(self._predicates) >= self.LIMIT:
                self._drop(next(iter(self._predicates)))
            required = _required_by(key[0])
            tally = self._predicates[key] = self._count_anew(*key, required)
            self._predicate_index.add(key, required)
        return tally

    def _found(self, key: TallyKey) -> Tally | None:
        tally = self._predicates.pop(key, None)
        if tally is not None:
            self._predicates[key] = tally  # last in the order of use
        return tally

    def _as_difference(self, predicate: PodPredicate) -> tuple[PodPredicate, PodPredicate] | None:
        """Split a predicate into two whose counts are subtracted: the pods that a shared selector selects, minus those that
        an excluded selector selects. None if the selector has no such form."""
        found = self._differences.get(predicate)
        if found is not None:
            return found
        selectors = as_difference(predicate.selector)
        if selectors is None:
            return None
        if len(self._differences) >= self.LIMIT:
            self._differences.clear()
        namespaces, anywhere = predicate.namespaces, predicate.anywhere
        shared, excluded = (PodPredicate(selector, namespaces, anywhere) for selector in selectors)
        self._differences[predicate] = shared, excluded
        return shared, excluded

    def census(self) -> Census:
        """The pods on nodes as they are now, for those who have too many predicates to have them all tallied."""
        if self._census is None:
            members = {label_set: (where.rows, where.terminating) for label_set, where in self._label_sets.items()}
            self._census = Census(members, self._capacity)
        return self._census

    def rows_with_storage(self, height: int) -> Mask:
        """The rows with pods that have volumes which storage plugins look at."""
        found = np.zeros(height, np.bool_)
        found[list(self.with_storage)] = True
        return found

    def kept(self) -> Mapping[TallyKey, Tally]:
        """The tallies that are kept up to date."""
        return self._predicates

    def label_sets(self) -> Mapping[LabelSet, LabelSetRows]:
        """The label sets that pods on nodes have, and the rows of these pods."""
        return self._label_sets

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        self._census = None
        self.terms.grow(capacity)
        for tally in self._predicates.values():
            tally.grow(capacity)

    def count_anew(self, pods_on: Sequence[Sequence[Pod]]) -> None:
        """Forget all counts, and count these pods (by row). Tallies that somebody holds stay the same objects."""
        self._census = None
        self._label_sets.clear()
        self._label_set_index.clear()
        self.with_storage.clear()
        self.terms.begin_recount()
        for tally in self._predicates.values():
            tally.clear()
        for row, pods in enumerate(pods_on):
            for pod in pods:
                self.add(pod, row, 1)
        self.terms.end_recount()

    def fork(self) -> "PodTallies":
        """Copy for a what-if: pods can be counted in the copy without a change to this object."""
        other = PodTallies()
        other._capacity = self._capacity
        other._label_sets = {label_set: where.fork() for label_set, where in self._label_sets.items()}
        other._label_set_index = self._label_set_index.copy()
        other._predicates = {key: tally.fork() for key, tally in self._predicates.items()}
        for key in other._predicates:
            other._predicate_index.add(key, _required_by(key[0]))
        other.terms = self.terms.fork()
        other.with_storage = dict(self.with_storage)
        return other

    def check(self, pods_on: Sequence[Sequence[Pod]]) -> list[str]:
        """The tallies, and their sums by label value, that are not what a recount of these pods (by row) gives."""
        faults = []
        for (predicate, with_terminating), tally in self._predicates.items():
            counts = np.zeros(len(tally.counts), np.int32)
            for row, pods in enumerate(pods_on):
                counts[row] = sum(
                    predicate.holds(pod.namespace, pod.labels) and (with_terminating or not pod.is_terminating)
                    for pod in pods
                )
            if not np.array_equal(counts, tally.counts):
                faults.append(f"tally of {predicate} differs from a recount")
        kept = set(map(id, self._predicates.values()))
        links = (tally for where in self._label_sets.values() for tally, _ in where.tallies or ())
        if any(id(tally) not in kept for tally in links):
            faults.append("pods are counted in a tally that is not kept")
        faults += self.terms.check(pods_on)
        stored = {row: sum(pod.shape.has_storage for pod in pods) for row, pods in enumerate(pods_on)}
        if self.with_storage != {row: count for row, count in stored.items() if count}:
            faults.append("the rows with pods that have volumes differ from a recount")
        for tally in (*self._predicates.values(), *(carriers.tally for carriers in self.terms.carried.values())):
            faults += tally.check()
        return faults

    def _count_label_set(self, label_set: LabelSet, row: int, change: int, terminating: bool) -> None:
        """Add pods of a label set to a row or remove them (below 0), and update all tallies whose predicate the label set
        meets. Terminating pods are counted apart, because some tallies leave them out."""
        where = self._label_sets.get(label_set)
        if where is None:
            where = self._enter(label_set)
        rows = where.terminating if terminating else where.rows
        count = rows.get(row, 0) + change
        if count:
            rows[row] = count
        else:
            del rows[row]
        if where.tallies is None:
            where.tallies = self._links_of(label_set)
        row_change = (row, change)
        for tally, with_terminating in where.tallies:
            if with_terminating or not terminating:
                tally.add(row_change)
        if not where.rows and not where.terminating:
            del self._label_sets[label_set]
            self._label_set_index.remove(label_set)

    def _count_anew(self, predicate: PodPredicate, with_terminating: bool, required: list[Trait] | None) -> Tally:
        """A tally of the pods that are there now. Their label sets are linked with it."""
        tally = Tally(self._capacity)
        for label_set in self._label_sets_with(required):
            if not predicate.holds(label_set.namespace, label_set.labels):
                continue
            where = self._label_sets[label_set]
            for row_change in where.rows.items():
                tally.add(row_change)
            for row_change in where.terminating.items() if with_terminating else ():
                tally.add(row_change)
            if where.tallies is not None:
                where.tallies.append((tally, with_terminating))
        return tally

    def _label_sets_with(self, required: list[Trait] | None) -> Iterable[LabelSet]:
        """The label sets that have one of the traits; None stands for all label sets."""
        return self._label_sets if required is None else self._label_set_index.having(required)

    def _links_of(self, label_set: LabelSet) -> list[tuple[Tally, bool]]:
        return [
            (self._predicates[predicate, with_terminating], with_terminating)
            for predicate, with_terminating in self._predicate_index.candidates(label_set)
            if predicate.holds(label_set.namespace, label_set.labels)
        ]

    def _enter(self, label_set: LabelSet) -> LabelSetRows:
        """The first pod of a label set comes."""
        self._label_set_index.add(label_set)
        where = self._label_sets[label_set] = LabelSetRows()
        return where

    def _drop(self, key: TallyKey) -> None:
        """Count no longer what a key says. Hot: only label sets that may be linked with it are looked at, because with
        thousands of selectors each new tally takes the place of another."""
        del self._predicates[key]
        self._predicate_index.remove(key)
        for label_set in self._label_sets_with(_required_by(key[0])):
            self._label_sets[label_set].tallies = None


def _required_by(predicate: PodPredicate) -> list[Trait] | None:
    """Traits of which a pod must have at least one to meet the predicate; None: any pod may meet it."""
    return required_traits(predicate.selector, None if predicate.anywhere else predicate.namespaces)
