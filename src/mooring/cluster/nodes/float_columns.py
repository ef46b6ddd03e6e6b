"""Amounts of the node table as floats, for kernels that go over all rows.

Hot: for 5,000 rows a division of floats takes a fifth of one of 64-bit integers (2 and 10 µs a resource), and what does not
depend on the pod, such as how balanced a node is without it, is worked out for touched rows only.

Floats give the same answers as integers while amounts stay below `EXACT`, which `is_exact` says. Such numbers are floats
without rounding. A quotient of two of them that is no whole number is at least 1/EXACT away from the next one, and that is
more than rounding can carry a number below 128 (half a unit in its last place is 2^-47).
"""

from collections.abc import Sequence
from operator import le

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Floats, Mask, SmallInts, balance_of_floats, balance_of_two
from mooring.cluster.columns.resource_amounts import FEW_LINES
from mooring.cluster.nodes.table import NodeTable

PODS, FIRST_RESOURCE = 0, 1
"""Lines of `free`: the number of pods, and from there on the resources in the order of the other matrices."""

EXACT = 1 << 46
"""The amounts below which floats are as good as integers: 64 TiB of memory, or 70 billion cores, on one node."""

MAX_LINES = FEW_LINES
"""The resources with the first so many places have floats. Kernels compare integers for the others, which few nodes have:
10,000 resources as floats take 1.5 GB at 5,000 rows, and each pod that is placed would look at all of them."""

_RARELY = 64
"""If one row in so many changed, the least numbers are looked for again. So this takes some 0.3 µs a change."""


def take(matrix: Floats, rows: slice | NDArray[np.intp]) -> Floats:
    """The cells of some rows. Hot: for an array of rows `take` needs a fifth of the time that indexing needs."""
    return matrix[:, rows] if isinstance(rows, slice) else matrix.take(rows, axis=1)


class FloatColumns:
    """Follows a node table: call `refresh`, then read. All matrices are resources x rows, up to MAX_LINES and the height of
    the table."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.position = self._node_position = -1
        """How far the touches of rows, and those of nodes among them, are taken in."""
        self.version = -1
        """Version of the places of resources (`resources_version`) that the matrices have."""
        self._layout: tuple[int, ...] = ()
        """The sizes and places that the matrices fit; any change means to build them anew."""
        self.divisor: Floats = np.zeros((0, 0))
        """Allocatable amounts, at least 1: this avoids a division by zero if a node has nothing of a resource."""
        self.held: Floats = self.divisor
        """Sum of the requests of the pods on a node, in the units of the node table."""
        self.free: Floats = self.divisor
        """How many more pods the node takes (`PODS`), and what is allocatable less what is requested: one line more than the
        others, so that one comparison tells whether a pod fits."""
        self.free_percent: Floats = self.divisor
        """Allocatable amount minus the requests as scoring counts them, times 100."""
        self._least_free: list[float] = []
        """By line of `free`: no row has less. Some rows may have got more since."""
        self._least_scored_room: list[float] = []
        """Lower bounds for the lines of `free_percent`, divided by 100: no row has less."""
        self._changes = 0
        """Rows that changed since these two were the least numbers themselves."""
        self.lacks: Mask = np.zeros(0, np.bool_)
        """By resource: whether some node has nothing of it."""
        self._imbalances: dict[tuple[int, int], SmallInts] = {}
        """By (first, last) resource: what `imbalance` says."""
        self._divisors: tuple[NDArray[np.intp], slice, Floats] | None = None
        """Cache of the last answer of `divisor_of`, with its arguments."""
        self._scratch: Floats = self.divisor
        """For `sums`."""
        self._has_all: dict[tuple[int, int], bool] = {}
        """Cache of `has_all`."""
        self.is_exact = False
        """Whether all amounts are below EXACT. False: callers must use integers."""

    def refresh(self) -> None:
        """Bring the columns up to date with the table."""
        nodes = self.nodes
        if self.position == nodes.touches.end and self.version == nodes.amounts.resources_version:
            return
        self._divisors = None
        touched = nodes.touches.rows_since(self.position)
        if touched is not None and len(touched) == 1 and self._fits():
            self._put_sums(touched.item(0))  # Hot: as a rule a pod was placed, and nothing else happened
            self.position += 1
            self._changes += 1
        else:
            self._follow()

    def _fits(self) -> bool:
        """Whether nothing but pods on nodes can have changed."""
        nodes = self.nodes
        return (
            self._node_position == nodes.node_touches.end
            and self.version == nodes.amounts.resources_version
            and self.divisor.shape == (min(len(nodes.amounts.allocatable), MAX_LINES), nodes.height)
        )

    def _follow(self) -> None:
        """Bring the matrices up to date with the node table: single rows if few were touched, and everything if more than an
        eighth of them were or if the layout of the table changed."""
        nodes, amounts = self.nodes, self.nodes.amounts
        rows, changed = nodes.touches.since(self.position), self._changed_nodes()
        self.position, self._node_position = nodes.touches.end, nodes.node_touches.end
        self.version = amounts.resources_version
        places = amounts.resources_version, len(amounts.allocatable)
        layout = (nodes.capacity, nodes.height, *places)
        if rows is None or changed is None or layout != self._layout or len(rows) * 8 > nodes.height:
            self._layout = layout
            self._work_out_all()
            return
        for row in changed:
            self._put_node(row)
        for row in rows:
            self._put_sums(row)
        self._changes += len(rows)

    def _changed_nodes(self) -> list[int] | None:
        touches = self.nodes.node_touches
        return [] if self._node_position == touches.end else touches.since(self._node_position)

    def has_all(self, resources: slice) -> bool:
        """Whether every node has something of each of these resources."""
        key = resources.start, resources.stop
        found = self._has_all.get(key)
        if found is None:
            found = self._has_all[key] = not self.lacks[resources].any()
        return found

    def divisor_of(self, resources: slice, rows: slice | NDArray[np.intp]) -> Floats:
        """`divisor` of some resources and rows. Hot: two plugins ask about the same ones in turn."""
        if isinstance(rows, slice):
            return self.divisor[resources, rows]
        if self._divisors is None or self._divisors[0] is not rows or self._divisors[1] != resources:
            self._divisors = rows, resources, self.divisor[resources].take(rows, axis=1)
        return self._divisors[2]

    def sums(self, matrix: Floats, rows: slice | NDArray[np.intp], amounts: Floats) -> Floats:
        """The cells of some rows and these amounts together. The caller may write to it, until the next call.

        Hot: for all rows they are always in the same place: new memory for 5,000 rows takes 2 µs more.
        """
        if not isinstance(rows, slice):
            taken = matrix.take(rows, axis=1)
            taken += amounts
            return taken
        cells = matrix[:, rows]
        if self._scratch.shape != cells.shape:
            self._scratch = np.empty(cells.shape)
        return np.add(cells, amounts, out=self._scratch)

    def have_room(self, resources: slice, amounts: Sequence[float]) -> bool:
        """Whether so much is free of these resources, in `free`, on every row; False: perhaps not.

        Hot: as a rule pods fit on all nodes, and a few numbers tell so without a look at the rows.
        """
        return self._have(amounts, resources) or (self._find_least() and self._have(amounts, resources))

    def _have(self, amounts: Sequence[float], resources: slice) -> bool:
        least = self._least_free[FIRST_RESOURCE + resources.start : FIRST_RESOURCE + resources.stop]
        return all(map(le, amounts, least))

    def take_a_pod(self) -> bool:
        """Whether every row has room for one more pod; False: perhaps not."""
        return self._least_free[PODS] >= 1

    def have_scored_room(self, resources: slice, amounts: Sequence[float]) -> bool:
        """Whether every row has at least these amounts free as scoring counts them, in `free_percent`; False: perhaps not."""
        return all(map(le, amounts, self._least_scored_room[resources]))

    def _find_least(self) -> bool:
        """Look for the least numbers again, if enough rows changed for that to pay. False: they are what they were."""
        if self._changes * _RARELY < self.nodes.height:
            return False
        self._changes = 0
        self._least_free = self.free.min(1, initial=np.inf).tolist()
        self._least_scored_room = (self.free_percent.min(1, initial=np.inf) / 100).tolist()
        return True

    def imbalance(self, resources: slice) -> SmallInts:
        """150 less how balanced the use of two resources is on each row, without any other pod.

        How balanced it is with the pod, plus this, halved, is what the score of NodeResourcesBalancedAllocation is.
        """
        key = resources.start, resources.stop
        found = self._imbalances.get(key)
        if found is None:
            found = 150 - balance_of_floats(self.held[resources] / self.divisor[resources])
            self._imbalances[key] = found
        return found

    def _work_out_all(self) -> None:
        """Compute all matrices from the integer columns of the node table. `is_exact` becomes False if an amount is too large
        for exact floating-point numbers."""
        nodes, amounts, height = self.nodes, self.nodes.amounts, self.nodes.height
        allocatable, requested, scored = (
            matrix[:MAX_LINES, :height] for matrix in (amounts.allocatable, amounts.requested, amounts.scored)
        )
        # Hot: written in place, because new memory for 1,000,000 rows takes longer than to compute what is in it.
        shape = allocatable.shape
        self.divisor = np.maximum(allocatable, 1, out=np.empty(shape))
        self.held = requested.astype(np.float64)
        self.free = np.empty((len(allocatable) + FIRST_RESOURCE, height))
        np.subtract(nodes.allowed_pods[:height], nodes.pod_count[:height], out=self.free[PODS])
        np.subtract(allocatable, requested, out=self.free[FIRST_RESOURCE:])
        self.free_percent = np.subtract(allocatable, scored, out=np.empty(shape))
        self.free_percent *= 100
        self._changes = height
        self._find_least()
        self.lacks = ((allocatable == 0) & nodes.alive[:height]).any(1)
        self._imbalances.clear()
        self._has_all.clear()
        self.is_exact = all(
            column.max(initial=0) < EXACT and column.min(initial=0) > -EXACT
            for column in (allocatable, requested, scored)
        )

    def _put_node(self, row: int) -> None:
        """The node of a row changed. `lacks` and `is_exact` may only get stricter here; a full pass relaxes them."""
        allocatable = self.nodes.amounts.allocatable[:MAX_LINES, row]
        self.divisor[:, row] = np.maximum(allocatable, 1)
        self.held[:, row] = np.nan  # no sum: `_put_sums` is about to write all of them
        if self.nodes.alive[row]:
            self.lacks |= allocatable == 0
            self._has_all.clear()
        self.is_exact = self.is_exact and max(allocatable.tolist()) < EXACT

    def _put_sums(self, row: int) -> None:
        """Pods came to a row, or left it. Hot: one row after each pod that is placed, and most of its sums stay as they are;
        for a handful of numbers lists are faster than arrays."""
        nodes, amounts = self.nodes, self.nodes.amounts
        there, taken = amounts.allocatable[:MAX_LINES, row].tolist(), amounts.requested[:MAX_LINES, row].tolist()
        scored, before = amounts.scored[:MAX_LINES, row].tolist(), self.held[:, row].tolist()
        percent = self.free_percent[:, row].tolist()
        for place, all_ in enumerate(there):
            some, counted = taken[place], scored[place]
            room = all_ - counted
            if some == before[place] and room * 100 == percent[place]:
                continue
            self.held[place, row], self.free[FIRST_RESOURCE + place, row] = some, all_ - some
            self.free_percent[place, row] = room * 100
            if all_ - some < self._least_free[FIRST_RESOURCE + place]:
                self._least_free[FIRST_RESOURCE + place] = all_ - some
            if room < self._least_scored_room[place]:
                self._least_scored_room[place] = room
            if some >= EXACT or counted >= EXACT:
                self.is_exact = False
        pods_room = nodes.allowed_pods.item(row) - nodes.pod_count.item(row)
        self.free[PODS, row] = pods_room
        if pods_room < self._least_free[PODS]:
            self._least_free[PODS] = pods_room
        for (start, stop), column in self._imbalances.items():
            held = taken[start:stop]
            if held != before[start:stop]:
                column[row] = 150 - balance_of_two(held, [max(amount, 1) for amount in there[start:stop]])
