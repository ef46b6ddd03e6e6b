"""Counts by row: of the pods that meet a predicate, and of the pods that carry a list of affinity terms; with sums
over node labels."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.labels import ABSENT, LabelColumn, LabelColumns, grown
from mooring.model.affinity import CarriedTerm, Labels
from mooring.model.label_set import LabelSet, LabelSetCases, SelectorIndex

Counts = NDArray[np.int32]
"""Numbers of pods by value of a label."""
RowCounts = NDArray[np.signedinteger[Any]]
"""Numbers of pods by row, in bytes until one does not fit: there may be a thousand tallies of every node, and as a rule a
node has no more than 110 pods. Compare them or sum them up; what is added to them or multiplied wants wider ones."""
_MOST_IN_BYTES = int(np.iinfo(np.int8).max)


_SPARSE = 8
"""Hot: with fewer pods than one on so many rows, only rows that have one are summed up: 8 µs for 5,000 rows instead of 40."""


class _Sums(msgspec.Struct):
    """The pods of a tally by value of a label."""

    version: int
    """Of the column: in another one rows have other values."""
    counts: Counts
    total: int
    """How many are on rows with the label."""


class Tally:
    """A count for each row, and its sums over the values of the node labels that were asked for.

    The sums are kept up to date pod by pod, because a decision about spreading needs them for every topology key.
    """

    LIMIT = 16
    """Labels whose sums are kept at once. As a rule pods ask for one or two (zone, host name); beyond the limit all
    are dropped, since a workload with that many keys would hardly use one twice."""

    def __init__(self, capacity: int) -> None:
        self.counts: RowCounts = np.zeros(capacity, np.int8)
        self._most = _MOST_IN_BYTES
        """The largest number that a count may be."""
        self.total = 0
        self._sums: dict[LabelColumn, _Sums] = {}

    def add(self, row: int, change: int) -> None:
        """Add a pod to a row, or take one away. Sums of an older version of a column are left alone: `by_value`
        makes them anew."""
        count = self.counts.item(row) + change
        if count > self._most:
            self._widen(count)
        self.counts[row] = count
        self.total += change
        for column, sums in self._sums.items():
            code = column.codes[row]
            if code != ABSENT and sums.version == column.version and code < len(sums.counts):
                sums.counts[code] += change
                sums.total += change

    def _widen(self, count: int) -> None:
        """Make room for a count that is too large for the present type."""
        integers = np.int16 if count <= np.iinfo(np.int16).max else np.int32
        self.counts, self._most = self.counts.astype(integers), int(np.iinfo(integers).max)

    def by_value(self, column: LabelColumn) -> Counts:
        """The count for each code of the label; rows without the label count nowhere. Do not write to it."""
        if column.is_nowhere:
            return np.zeros(column.width, np.int32)
        return self._sums_over(column).counts

    def is_any_on(self, column: LabelColumn) -> bool:
        """Whether any pod is on a row with the label."""
        return not column.is_nowhere and self._sums_over(column).total > 0

    def _sums_over(self, column: LabelColumn) -> "_Sums":
        sums = self._sums.get(column)
        if sums is not None and sums.version == column.version:
            if len(sums.counts) < column.width:
                sums.counts = grown(sums.counts, column.width)
            return sums
        if sums is None and len(self._sums) >= self.LIMIT:
            self._sums.clear()
        counts = self._sum_up(column)
        sums = self._sums[column] = _Sums(column.version, counts, int(counts.sum()))
        return sums

    def _sum_up(self, column: LabelColumn) -> Counts:
        if self.total * _SPARSE > len(self.counts):
            return sum_by_code(column.codes, self.counts, column.width).astype(np.int32)
        sums = np.zeros(column.width, np.int32)
        rows = (self.counts != 0).nonzero()[0]
        np.add.at(sums, column.codes.take(rows), self.counts.take(rows).astype(np.int32))
        sums[ABSENT] = 0
        return sums

    def clear(self) -> None:
        """Count nothing, before a recount."""
        self.counts[:] = 0
        self.total = 0
        self._sums.clear()

    def grow(self, capacity: int) -> None:
        self.counts = grown(self.counts, capacity)
        self._sums.clear()  # among them may be sums over columns that are kept no longer, which do not grow

    def fork(self) -> "Tally":
        """A copy for a what-if."""
        other = Tally(0)
        other.counts, other._most = self.counts.copy(), self._most
        other.total = self.total
        other._sums = {
            column: _Sums(sums.version, sums.counts.copy(), sums.total) for column, sums in self._sums.items()
        }
        return other


def sum_by_code(codes: NDArray[np.int32], counts: NDArray[np.signedinteger[Any]], width: int) -> NDArray[np.int64]:
    """Sums of counts over equal codes; code 0 (absent) sums to nothing.

    | codes  | counts  | width | sums    |
    | 1 2 1 0 | 3 1 2 9 | 4     | 0 5 1 0 |
    """
    sums = np.bincount(codes, counts, width).astype(np.int64)
    sums[ABSENT] = 0
    return sums


# ---- The affinity terms that pods on nodes carry, list by list, and what such a list says about other pods


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


class Carriers:
    """The pods on nodes that carry one list of terms: where they are, and which pods the terms concern.

    Of thousands of terms only those are tried whose labels the pod has, once for each case that its labels make.
    """

    def __init__(self, terms: tuple[CarriedTerm, ...], tally: Tally) -> None:
        self.terms = terms
        self.tally = tally
        self.is_gone = False
        """Whether the last of them has left."""
        self.selectors = selectors = [carried.term.selector for carried in terms]
        self._index: SelectorIndex[int] = SelectorIndex()
        for number, selector in enumerate(selectors):
            self._index.add(number, (selector,))
        self._concerns: LabelSetCases[Concern] = LabelSetCases(selectors)

    def concern(self, label_set: LabelSet, namespace_labels: Labels, namespaces_version: int) -> Concern:
        """What the terms say about pods of this label set. Do not write to it."""
        return self._concerns.get(label_set, lambda: self._concern_of(label_set, namespace_labels), namespaces_version)

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


def concern_of(terms: Iterable[CarriedTerm], label_set: LabelSet, namespace_labels: Labels) -> Concern:
    """Add up what these terms say about pods of a label set, term by term."""
    sums: dict[str, dict[str, int]] = {kind: defaultdict(int) for kind in ("anti", "affinity", "preferred")}
    for carried in terms:
        weight = carried.weight if carried.kind == "preferred" else 1
        if weight and carried.term.speaks_of(label_set.namespace, label_set.labels, namespace_labels):
            sums[carried.kind][carried.term.topology_key] += weight
    return Concern(dict(sums["anti"]), dict(sums["affinity"]), dict(sums["preferred"]))
