"""Preemption where sums alone decide: all nodes at once, and kept for the shape.

All pods of lower priority leave; then, in the order of their importance, each comes back if the pod still fits with it:
one round for each pod of the fullest node, over all nodes. It is exact because filters that read only sums cannot tell
which pods the sums are made of, and because nodes do not influence each other.

The outcome on a node depends on the pod's shape and priority, the pods on the node and those nominated to it, so it is
worked out again only for nodes that were touched.
"""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import Follower
from mooring.cluster.columns.resource_amounts import MAX_SUM
from mooring.cluster.nodes.ranks import PodRanks
from mooring.cluster.pods.nominated import Load, NominatedLoad
from mooring.framework.attempts.attempt import Attempt, Verdicts
from mooring.framework.attempts.refiltering import Batch, RowArray
from mooring.framework.kept.feasible import PASSED
from mooring.model.pod import Pod

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

NO_VICTIMS = -1
"""In `outcome`: no pod on the node has a lower priority. Otherwise it is PASSED, or the filter that still rejects."""

HARMS = 5
"""Rows of `harm`, in the order in which they count: budgets broken, highest priority, sum of priorities, number of
victims, start of the most important victim (negated: a later start is better)."""

PRIORITY_OFFSET = 1 << 31
"""Added to each priority before summing, as upstream does: priorities may be negative, and more victims must not look
better than fewer."""


class KeptDryRun:
    """Results of the dry run of preemption for pods of one shape and priority, node by node. All arrays have one place for
    each row."""

    def __init__(self, ranks: PodRanks) -> None:
        self._ranks = ranks
        self._news = Follower(ranks.nodes.touches, ranks.nodes.pod_touches)
        self._known: Flags
        """Rows whose outcome is up to date."""
        self.outcome: NDArray[np.int8]
        """NO_VICTIMS, PASSED, or the index of the filter that rejects with all lower pods gone."""
        self.code: Ints
        """The code of that filter."""
        self.victims: Flags
        """Positions x rows: which pod, by its rank in PodRanks, is a victim."""
        self.harm: Ints
        self._start_over()

    def refresh(self, attempt: Attempt, rows: RowArray, nominated: NominatedLoad | None) -> None:
        """Bring these rows up to date.

        The row that the pod itself is nominated to is never kept: its own nomination is left out of the load there,
        which is so for no other pod of the shape.
        """
        nodes = attempt.context.nodes
        self.settle()
        own = nominated.node_of(attempt.context.pod.id) if nominated else None
        own_row = nodes.row_book.get(own) if own is not None else None
        if own_row is not None:
            self._known[own_row] = False
        unknown = rows[~self._known[rows]]
        if len(unknown):
            load = nominated.load_beside(attempt.context.pod) if nominated else None
            self.try_rows(attempt, unknown, load)
            self._known[unknown] = True
        if own_row is not None:
            self._known[own_row] = False  # for other pods of this shape it is another matter

    def victims_on(self, row: int) -> tuple[Pod, ...]:
        """The victims on a row, the most important first."""
        pods = self._ranks.pods(row)
        return tuple(pods[position] for position in np.flatnonzero(self.victims[:, row]))

    def settle(self) -> None:
        """Forget what may not hold any more, and make room for all rows."""
        touched = self._news.news()
        if touched is None or self.victims.shape != self._ranks.priority.shape:
            self._start_over()
        else:
            self._known[touched] = False

    def _start_over(self) -> None:
        """Forget the outcomes of all rows, and fit the arrays to the present size of the table."""
        positions, capacity = self._ranks.priority.shape
        self._known = np.zeros(capacity, np.bool_)
        self.outcome = np.zeros(capacity, np.int8)
        self.code = np.zeros(capacity, np.int64)
        self.victims = np.zeros((positions, capacity), np.bool_)
        self.harm = np.zeros((HARMS, capacity), np.int64)

    def try_rows(self, attempt: Attempt, rows: RowArray, load: Load | None) -> None:
        """Work the rows out: all lower pods off, ask the filters, then reprieve."""
        lower = self._ranks.priority[:, rows] < attempt.context.pod.priority
        leaving = lower.sum(0)
        self.outcome[rows] = NO_VICTIMS
        rows, lower, leaving = rows[leaving > 0], lower[:, leaving > 0], leaving[leaving > 0]
        if not len(rows):
            return
        with Batch(attempt, rows, load) as batch:
            batch.shift(rows, -self.requests_of(rows, lower), -leaving)
            fits = self._note(rows, batch.ask(rows))
            rows, lower, leaving = rows[fits], lower[:, fits], leaving[fits]
            if len(rows):
                victims = self._reprieve(batch, rows, lower, leaving)
                self.victims[:, rows] = victims
                self.harm[:, rows] = self._harm_of(rows, victims)

    def _note(self, rows: RowArray, found: Verdicts) -> Flags:
        """Keep the verdicts with all lower pods gone. Returns where the pod fits then."""
        self.outcome[rows] = found.first
        for index, codes in found.codes.items():
            here = found.first == index
            self.code[rows[here]] = codes[here]
        fits: Flags = found.first == PASSED
        return fits

    def _reprieve(self, batch: Batch, rows: RowArray, lower: Flags, leaving: Ints) -> Flags:
        """Let pods come back, the most important of each node first. Returns the victims, by position and row.

        Positions are ordered by importance, so the lower pods of a row are consecutive: from `first`, `leaving` of them. In
        round `turn` each row that still has a pod tries its next one, and takes it off again where a filter rejects.
        """
        victims = np.zeros(lower.shape, np.bool_)
        first = lower.argmax(0)
        for turn in range(int(leaving.max())):
            active = np.flatnonzero(leaving > turn)
            here, positions = rows[active], first[active] + turn
            requests = self._ranks.request_in(positions, here)
            batch.shift(here, requests, np.ones(len(here), np.int64))
            stays_out = batch.ask(here).first != PASSED
            if stays_out.any():
                batch.shift(here[stays_out], -requests[:, stays_out], np.full(np.count_nonzero(stays_out), -1))
                victims[positions[stays_out], active[stays_out]] = True
        return victims

    def requests_of(self, rows: RowArray, lower: Flags) -> Ints:
        total = np.zeros((len(self._ranks.held), len(rows)), np.int64)
        for position in np.flatnonzero(lower.any(1)):
            total += self._ranks.request_in(np.full(len(rows), position), rows) * lower[position]
            np.minimum(total, MAX_SUM, out=total)  # as the sums of the table do, it stops there
        return total

    def _harm_of(self, rows: RowArray, victims: Flags) -> Ints:
        """The five measures by which candidates are ranked, the less the better, for each row."""
        priority = self._ranks.priority[:, rows]
        first = victims.argmax(0)
        highest = priority[first, np.arange(len(rows))]
        count = victims.sum(0)
        total = (priority * victims).sum(0) + count * PRIORITY_OFFSET
        # Positions are in order of importance, so the first victim is the longest running of the highest priority.
        started = self._ranks.start_ns[first, rows]
        return np.stack((np.zeros(len(rows), np.int64), highest, total, count, -started))
