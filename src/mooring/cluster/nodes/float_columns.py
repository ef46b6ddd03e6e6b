"""Amounts of the node table as floats, for kernels that go over all rows.

Hot: for 5,000 rows a division of floats takes a fifth of one of 64-bit integers (2 and 10 µs a resource), and what does not
depend on the pod, such as how balanced a node is without it, is worked out for touched rows only.

Floats give the same answers as integers while amounts stay below `EXACT`, which `is_exact` says. Such numbers are floats
without rounding. A quotient of two of them that is no whole number is at least 1/EXACT away from the next one, and that is
more than rounding can carry a number below 128 (half a unit in its last place is 2^-47).
"""

import numpy as np

from mooring.cluster.change_log import Follower
from mooring.cluster.nodes.kernels import Floats, Ints, Mask, balance_of_floats
from mooring.cluster.nodes.table import NodeTable

EXACT = 1 << 46
"""The amounts below which floats are as good as integers: 64 TiB of memory, or 70 billion cores, on one node."""


class FloatColumns:
    """Follows a node table: call `refresh`, then read. All matrices are resources x rows, up to the height of the table."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self._news = Follower(nodes.touches)
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
        self._balances: dict[tuple[int, int], Ints] = {}
        """By (first, last) resource: how balanced each row is without another pod."""
        self.is_exact = False
        """Whether all amounts are below EXACT. False: callers must use integers."""

    def refresh(self) -> None:
        """Bring the columns up to date with the table."""
        nodes, amounts = self.nodes, self.nodes.amounts
        rows = self._news.news()
        places = amounts.resources_version, len(amounts.allocatable)
        layout = (nodes.capacity, nodes.height, nodes.node_set_version, *places)
        if rows is None or layout != self._layout or len(rows) * 8 > nodes.height:
            self._layout = layout
            self._work_out_all()
        else:
            for row in rows:
                self._work_out(row)

    def has_all(self, resources: slice) -> bool:
        """Whether every node has something of each of these resources."""
        return not self.lacks[resources].any()

    def balance(self, resources: slice) -> Ints:
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

    def _work_out(self, row: int) -> None:
        """Bring one row up to date. `lacks` and `is_exact` may only get stricter here; a full pass relaxes them."""
        nodes, amounts = self.nodes, self.nodes.amounts
        allocatable, requested, scored = (
            amounts.allocatable[:, row],
            amounts.requested[:, row],
            amounts.scored[:, row],
        )
        self.divisor[:, row] = np.maximum(allocatable, 1)
        self.held[:, row] = requested
        if nodes.alive[row]:
            self.lacks |= allocatable == 0
        self.free_for_scores[:, row] = allocatable - scored
        for (start, stop), column in self._balances.items():
            column[row] = balance_of_floats(
                self.held[start:stop, row : row + 1] / self.divisor[start:stop, row : row + 1]
            )[0]
        if self.is_exact:
            self.is_exact = max(allocatable.max(), requested.max(), scored.max()) < EXACT
