"""Verdicts beside nominated pods, kept for the shapes and priorities that preempt again and again.

Where pods are nominated to a node, others have to fit beside them (what_if.py: leave_room). What comes of that depends on
the shape, the priority, and what is on the node and nominated to it, so it is asked again only for rows that were touched.
"""

from weakref import ref

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import Follower
from mooring.cluster.nodes.table import NodeTable
from mooring.model.pod import Pod
from mooring.model.shape import PodShape

_MOST = 16
"""For how many shapes and priorities columns are kept: as many as preemption keeps trials for."""


class CrowdedColumns:
    """The first rejection of each row and the codes behind it, both with the nominated pods of one priority or more."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._news = Follower(nodes.touches)
        self._layout = (-1, -1, -1)
        self.first: NDArray[np.int8] = np.zeros(0, np.int8)
        self.codes: dict[int, NDArray[np.int64]] = {}
        """By index of a filter that rejects rows with nominated pods: its codes for all rows."""

    def touched(self) -> list[int] | None:
        """The rows to be asked about again; None: all."""
        nodes = self._nodes
        layout = nodes.node_set_version, nodes.height, nodes.amounts.resources_version
        touched = self._news.news()
        if layout != self._layout:
            self._layout, touched = layout, None
        return touched

    def void(self) -> None:
        """Asking failed halfway: start over next time."""
        self._layout = (-1, -1, -1)


class CrowdedBook:
    """The columns of the shapes and priorities that were asked about last."""

    def __init__(self) -> None:
        self._kept: dict[tuple[ref[PodShape], int], CrowdedColumns | None] = {}
        """None: asked about once. Pods that all differ would only make columns that no other pod reads."""
        self._nodes: NodeTable | None = None

    def clear(self) -> None:
        self._kept.clear()

    def find(self, pod: Pod, nodes: NodeTable) -> CrowdedColumns | None:
        """The columns for pods of this shape and priority; None: nothing is kept for them, or for this table."""
        if nodes.is_fork:
            return None
        if nodes is not self._nodes:
            self._kept.clear()
            self._nodes = nodes
        key = (ref(pod.shape), pod.priority)  # a shape that is gone is not kept alive
        columns = None
        if key in self._kept:
            columns = self._kept.pop(key) or CrowdedColumns(nodes)
        self._kept[key] = columns  # last in the order of use
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]
        return columns
