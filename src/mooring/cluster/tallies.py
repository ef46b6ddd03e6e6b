"""Pod counts by row, kept up to date as pods come and go: how many pods of a node match a selector, or carry a term."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.labels import ABSENT, LabelColumn, grown
from mooring.model.affinity import CarriedTerm, Labels, PodPredicate, PodTerms
from mooring.model.pod import Pod
from mooring.model.shape import Kin


class Tally:
    """A count for each row, and its sums over the values of the node labels that somebody asked for."""

    def __init__(self, capacity: int) -> None:
        self.counts: NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.total = 0
        self._sums: dict[LabelColumn, tuple[int, NDArray[np.int64]]] = {}

    def add(self, row: int, change: int) -> None:
        self.counts[row] += change
        self.total += change
        for column, (version, sums) in self._sums.items():
            code = column.codes[row]
            if code != ABSENT and version == column.version and code < len(sums):
                sums[code] += change

    def by_value(self, column: LabelColumn) -> NDArray[np.int64]:
        """The count for each code of the label; rows without the label count nowhere. Do not write to it."""
        version, sums = self._sums.get(column, (-1, None))
        if sums is None or version != column.version:
            sums = sum_by_code(column.codes, self.counts, column.width)
        elif len(sums) < column.width:
            sums = grown(sums, column.width)
        else:
            return sums
        self._sums[column] = (column.version, sums)
        return sums

    def clear(self) -> None:
        self.counts[:] = 0
        self.total = 0
        self._sums.clear()

    def grow(self, capacity: int) -> None:
        self.counts = grown(self.counts, capacity)

    def fork(self) -> "Tally":
        other = Tally(0)
        other.counts = self.counts.copy()
        other.total = self.total
        other._sums = {column: (version, sums.copy()) for column, (version, sums) in self._sums.items()}
        return other


def sum_by_code(codes: NDArray[np.int32], counts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Sums of counts over equal codes; code 0 (absent) sums to nothing.

    | codes  | counts  | width | sums    |
    | 1 2 1 0 | 3 1 2 9 | 4     | 0 5 1 0 |
    """
    sums = np.bincount(codes, counts, width).astype(np.int64)
    sums[ABSENT] = 0
    return sums


class KinRows:
    """Where the pods of one kin are, and which tallies count them."""

    __slots__ = ("rows", "tallies", "terminating")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.terminating: dict[int, int] = {}
        self.tallies: list[tuple[Tally, bool]] | None = None

    def fork(self) -> "KinRows":
        other = KinRows()
        other.rows, other.terminating = dict(self.rows), dict(self.terminating)
        return other


class PodTallies:
    """All tallies of a node table, found by what they count."""

    LIMIT = 1024
    """How many predicates are tallied at once; past that the least recently asked one is dropped."""

    def __init__(self) -> None:
        self._capacity = 0
        self._kins: dict[Kin, KinRows] = {}
        self._predicates: dict[tuple[tuple[PodPredicate, ...], bool], Tally] = {}
        self._carried: dict[CarriedTerm, Tally] = {}
        self._carried_list: list[CarriedTerm] = []
        self._carriers: dict[PodTerms, list[Tally]] = {}
        self._matches: dict[Kin, tuple[int, int, list[tuple[CarriedTerm, Tally]]]] = {}

    def add(self, pod: Pod, row: int, change: int) -> None:
        """Count a pod in (+1) or out (-1)."""
        self._count_kin(pod, row, change)
        if pod.spec.affinity is not None:
            self._count_terms(pod, row, change)

    def matching(self, predicates: tuple[PodPredicate, ...], with_terminating: bool) -> Tally:
        """The tally of pods that meet all the predicates."""
        key = (predicates, with_terminating)
        tally = self._predicates.pop(key, None)
        if tally is None:
            tally = self._count_anew(predicates, with_terminating)
            if len(self._predicates) >= self.LIMIT:
                del self._predicates[next(iter(self._predicates))]
            self._reset_links()
        self._predicates[key] = tally  # last in the order of use
        return tally

    def terms_about(
        self, kin: Kin, namespace_labels: Labels, namespaces_version: int
    ) -> list[tuple[CarriedTerm, Tally]]:
        """The terms of pods on nodes that speak of a pod of this kin, each with the tally of the pods that have it.

        Terms whose last pod left may be among them, with an empty tally.
        """
        version, seen, found = self._matches.get(kin, (-1, 0, []))
        if version != namespaces_version:
            seen, found = 0, []
        if seen < len(self._carried_list) or version != namespaces_version:
            found = found + [
                (carried, self._carried[carried])
                for carried in self._carried_list[seen:]
                if carried.term.speaks_of(kin.namespace, kin.labels, namespace_labels)
            ]
            if len(self._matches) >= self.LIMIT:
                self._matches.clear()
            self._matches[kin] = (namespaces_version, len(self._carried_list), found)
        return found

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for tally in (*self._predicates.values(), *self._carried.values()):
            tally.grow(capacity)

    def count_anew(self, pods_on: Sequence[Sequence[Pod]]) -> None:
        """Forget all counts, and count these pods (by row). Tallies that somebody holds stay the same objects."""
        self._kins.clear()
        for tally in (*self._predicates.values(), *self._carried.values()):
            tally.clear()
        for row, pods in enumerate(pods_on):
            for pod in pods:
                self.add(pod, row, 1)

    def fork(self) -> "PodTallies":
        other = PodTallies()
        other._capacity = self._capacity
        other._kins = {kin: where.fork() for kin, where in self._kins.items()}
        other._predicates = {key: tally.fork() for key, tally in self._predicates.items()}
        other._carried = {carried: tally.fork() for carried, tally in self._carried.items()}
        other._carried_list = list(self._carried_list)
        return other

    def _count_kin(self, pod: Pod, row: int, change: int) -> None:
        where = self._kins.get(pod.kin)
        if where is None:
            where = self._kins[pod.kin] = KinRows()
        terminating = pod.is_terminating
        rows = where.terminating if terminating else where.rows
        count = rows.get(row, 0) + change
        if count:
            rows[row] = count
        else:
            del rows[row]
        if where.tallies is None:
            where.tallies = self._links_of(pod.kin)
        for tally, with_terminating in where.tallies:
            if with_terminating or not terminating:
                tally.add(row, change)
        if not where.rows and not where.terminating:
            del self._kins[pod.kin]

    def _count_terms(self, pod: Pod, row: int, change: int) -> None:
        terms = pod.shape.terms(pod.namespace)
        carriers = self._carriers.get(terms)
        if carriers is None:
            if len(self._carried_list) > 2 * self.LIMIT:
                self._drop_uncarried()
            carriers = self._carriers[terms] = [self._carriers_of(carried) for carried in terms.carried]
        for tally in carriers:
            tally.add(row, change)

    def _carriers_of(self, carried: CarriedTerm) -> Tally:
        tally = self._carried.get(carried)
        if tally is None:
            tally = self._carried[carried] = Tally(self._capacity)
            self._carried_list.append(carried)
        return tally

    def _drop_uncarried(self) -> None:
        """Forget terms that no pod has any more, unless that would gain little."""
        kept = {carried: tally for carried, tally in self._carried.items() if tally.total}
        if 2 * len(kept) < len(self._carried):
            self._carried, self._carried_list = kept, list(kept)
            self._carriers.clear()
            self._matches.clear()

    def _count_anew(self, predicates: tuple[PodPredicate, ...], with_terminating: bool) -> Tally:
        tally = Tally(self._capacity)
        for kin, where in self._kins.items():
            if all(predicate.holds(kin.namespace, kin.labels) for predicate in predicates):
                for row, count in where.rows.items():
                    tally.add(row, count)
                for row, count in where.terminating.items() if with_terminating else ():
                    tally.add(row, count)
        return tally

    def _links_of(self, kin: Kin) -> list[tuple[Tally, bool]]:
        return [
            (tally, with_terminating)
            for (predicates, with_terminating), tally in self._predicates.items()
            if all(predicate.holds(kin.namespace, kin.labels) for predicate in predicates)
        ]

    def _reset_links(self) -> None:
        for where in self._kins.values():
            where.tallies = None
