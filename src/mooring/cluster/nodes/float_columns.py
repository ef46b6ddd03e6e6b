"""Amounts of the node table as floats, for kernels that go over all rows.

Hot: for 5,000 rows a division of floats takes a fifth of one of 64-bit integers (2 and 10 µs a resource), and what does not
depend on the pod, such as how balanced a node is without it, is worked out for touched rows only.

Floats give the same answers as integers while amounts stay below `EXACT`, which `is_exact` says. Such numbers are floats
without rounding. A quotient of two of them that is no whole number is at least 1/EXACT away from the next one, and that is
more than rounding can carry a number below 128 (half a unit in its last place is 2^-47).
"""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.kernels import Floats, Mask, SmallInts, balance_of_floats, balance_of_two
from mooring.cluster.nodes.table import NodeTable

EXACT = 1 << 46
"""The amounts below which floats are as good as integers: 64 TiB of memory, or 70 billion cores, on one node."""


def take(matrix: Floats, rows: slice | NDArray[np.intp]) -> Floats:
    """The cells of some rows. Hot: for an array of rows `take` needs a fifth of the time that indexing needs."""
    return matrix[:, rows] if isinstance(rows, slice) else matrix.take(rows, axis=1)


class FloatColumns:
    """Follows a node table: call `refresh`, then read. All matrices are resources x rows, up to the height of the table."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self._position = self._node_position = 0
        """How far the touches of rows, and those of nodes among them, are taken in."""
        self._version = -1
        """Of the places of resources."""
        self._layout: tuple[int, ...] = ()
        """The sizes and places that the matrices fit; any change means to build them anew."""
        self.divisor: Floats = np.zeros((0, 0))
        """What is allocatable, at least 1: where a node has nothing of a resource, nothing is divided by zero."""
        self.held: Floats = self.divisor
        """What is requested."""
        self.free_for_scores: Floats = self.divisor
        """What is allocatable less what scoring takes for requested."""
        self.lacks: Mask = np.zeros(0, np.bool_)
        """By resource: whether some node has nothing of it."""
        self._balances: dict[tuple[int, int], SmallInts] = {}
        """By (first, last) resource: how balanced each row is without another pod."""
        self.is_exact = False
        """Whether all amounts are below EXACT. False: callers must use integers."""

    def refresh(self) -> None:
        """Bring the columns up to date with the table."""
        nodes, amounts = self.nodes, self.nodes.amounts
        if self._layout and self._position == nodes.touches.end and self._version == amounts.resources_version:
            return  # Hot: two plugins ask in a decision
        rows, changed = nodes.touches.since(self._position), nodes.node_touches.since(self._node_position)
        self._position, self._node_position = nodes.touches.end, nodes.node_touches.end
        self._version = amounts.resources_version
        places = amounts.resources_version, len(amounts.allocatable)
        layout = (nodes.capacity, nodes.height, nodes.node_set_version, *places)
        if rows is None or changed is None or layout != self._layout or len(rows) * 8 > nodes.height:
            self._layout = layout
            self._work_out_all()
            return
        for row in changed:
            self._put_divisor(row)
        for row in rows:
            self._put_sums(row)

    def has_all(self, resources: slice) -> bool:
        """Whether every node has something of each of these resources."""
        return not self.lacks[resources].any()

    def balance(self, resources: slice) -> SmallInts:
        """How balanced the use of two resources is on each row, without any other pod."""
        key = resources.start, resources.stop
        found = self._balances.get(key)
        if found is None:
            found = self._balances[key] = balance_of_floats(self.held[resources] / self.divisor[resources])
        return found

    def _work_out_all(self) -> None:
        nodes, amounts, height = self.nodes, self.nodes.amounts, self.nodes.height
        allocatable = amounts.allocatable[:, :height]
        requested, scored = amounts.requested[:, :height], amounts.scored[:, :height]
        self.divisor = np.maximum(allocatable, 1).astype(np.float64)
        self.held = requested.astype(np.float64)
        self.free_for_scores = (allocatable - scored).astype(np.float64)
        self.lacks = ((allocatable == 0) & nodes.alive[:height]).any(1)
        self._balances.clear()
        self.is_exact = all(np.abs(column).max(initial=0) < EXACT for column in (allocatable, requested, scored))

    def _put_divisor(self, row: int) -> None:
        """The node of a row changed. `lacks` and `is_exact` may only get stricter here; a full pass relaxes them."""
        allocatable = self.nodes.amounts.allocatable[:, row]
        self.divisor[:, row] = np.maximum(allocatable, 1)
        if self.nodes.alive[row]:
            self.lacks |= allocatable == 0
        self.is_exact = self.is_exact and max(allocatable.tolist()) < EXACT

    def _put_sums(self, row: int) -> None:
        """Pods came to a row, or left it. Hot: one row after each pod that is placed."""
        amounts = self.nodes.amounts
        allocatable, requested = amounts.allocatable[:, row], amounts.requested[:, row]
        scored = amounts.scored[:, row]
        self.held[:, row] = requested
        self.free_for_scores[:, row] = allocatable - scored
        there, taken = self.divisor[:, row].tolist(), requested.tolist()
        for (start, stop), column in self._balances.items():
            column[row] = balance_of_two(taken[start:stop], there[start:stop])
        self.is_exact = self.is_exact and max(*taken, *scored.tolist()) < EXACT
