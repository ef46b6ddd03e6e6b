"""Counts of the pods that a selector selects which excludes some: those of all pods, less those that it excludes.

A selector such as `tenant NotIn (a)` selects nearly every pod, and each tenant has one of its own. With a tally for each of
them, a pod would be counted hundreds of times. But few pods are excluded, and the selectors share the tally of all pods.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.labels import LabelColumn
from mooring.cluster.pods.tally import Counts, Tally
from mooring.model.affinity import PodPredicate
from mooring.model.selectors import LabelRule, Selector

_OPPOSITES = {"NotIn": "In", "DoesNotExist": "Exists"}

_MOST_EXCLUSIONS = 3
"""So many rules that exclude pods make eight tallies. A selector with more of them has a tally of its own."""

SignedPredicates = Sequence[tuple[int, PodPredicate]]
"""Predicates whose counts are to be added (1) or subtracted (-1)."""


def split(predicate: PodPredicate) -> SignedPredicates | None:
    """The predicates that count the same pods together, for a selector with rules that exclude pods. None: it has none.

    | selector                | the same                                                      |
    | a NotIn (x)             | everything - (a In (x))                                       |
    | a NotIn (x), b exists   | (b exists) - (a In (x), b exists)                             |
    | a NotIn (x), no label b | everything - (a In (x)) - (b exists) + (a In (x), b exists) |
    """
    others, excluded = [], []
    for rule in predicate.selector.rules:
        opposite = _OPPOSITES.get(rule.operator)
        if opposite is None:
            others.append(rule)
        else:
            excluded.append(LabelRule(rule.key, opposite, rule.values))
    if not 0 < len(excluded) <= _MOST_EXCLUSIONS:
        return None
    # What is excluded comes first: it is less common than what all selectors of this kind require.
    return [
        ((-1) ** count, PodPredicate(Selector((*chosen, *others)), predicate.namespaces, predicate.anywhere))
        for count in range(len(excluded) + 1)
        for chosen in combinations(excluded, count)
    ]


class TallyDifference:
    """What tallies count together, some added and some subtracted. Good until pods come or go."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[tuple[int, Tally]]) -> None:
        """The first is added, and no other counts a pod that it does not count."""
        self._parts = parts

    @property
    def total(self) -> int:
        return sum(sign * tally.total for sign, tally in self._parts)

    @property
    def counts(self) -> NDArray[np.int32]:
        """By row."""
        counts = self._parts[0][1].counts.astype(np.int32)
        for sign, tally in self._parts[1:]:
            if tally.total:
                rows, pods = tally.rows_and_counts
                counts[rows] += sign * pods.astype(np.int32)
        return counts

    def by_value(self, column: LabelColumn) -> Counts:
        """The count for each code of the label; rows without the label count nowhere."""
        found = self.by_value_if_any(column)
        return np.zeros(column.width, np.int32) if found is None else found

    def by_value_if_any(self, column: LabelColumn) -> Counts | None:
        """The same; None: no pod is on a row with the label."""
        first = self._parts[0][1].by_value_if_any(column)
        if first is None:
            return None
        found = first
        for sign, tally in self._parts[1:]:
            part = tally.by_value_if_any(column)
            if part is not None:
                found = found + part if sign > 0 else found - part
        return found if found is first or found.any() else None
