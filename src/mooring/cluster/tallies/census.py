"""All pods on nodes at one moment, as columns: how many of them meet a predicate, without keeping a count of it.

Kept tallies (tallies.py) suit pods with a handful of selectors. A pod with thousands would evict the tallies of all
other pods, so its pods are counted here: each selector is one pass over arrays.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from mooring.model.affinity import PodPredicate
from mooring.model.label_set import LabelSet
from mooring.model.selectors import LabelRule, Selector

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
