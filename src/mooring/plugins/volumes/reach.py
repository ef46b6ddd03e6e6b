"""Which nodes can use a volume, as masks that are kept for as long as nodes stay as they are."""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.match import match_nodes
from mooring.cluster.nodes.table import NodeTable
from mooring.model.selectors import NodeMatcher

Mask = NDArray[np.bool_]


class ReachMasks:
    """Masks over all rows by matcher."""

    LIMIT = 512

    def __init__(self) -> None:
        self._made_of: tuple[object, int, int] | None = None
        self._masks: dict[NodeMatcher, Mask] = {}

    def of(self, nodes: NodeTable, matcher: NodeMatcher) -> Mask:
        """The rows that the matcher matches. Do not write to it."""
        made_of = (nodes.node_touches, nodes.node_touches.end, nodes.height)
        if made_of != self._made_of or len(self._masks) >= self.LIMIT:
            self._made_of = made_of
            self._masks.clear()
        mask = self._masks.get(matcher)
        if mask is None:
            mask = self._masks[matcher] = match_nodes(nodes, matcher, slice(0, nodes.height))
        return mask
