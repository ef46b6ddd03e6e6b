"""Observations of agents: the nodes and the pod of a decision as arrays of numbers, and the actions that are open.

Nodes stand in the order of their names, so that an agent sees the same arrays in training, in a simulation and on a live
cluster, whatever the order in which the nodes came.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.points import Rows
from mooring.model.pod import Pod

Floats = NDArray[np.float32]
Observation = dict[str, NDArray[Any]]
"""By name of an array: `nodes`, `pod` and `action_mask`."""

SPARE_COLUMNS = 1
"""Columns of `nodes` beside the two of each resource: the share of pod slots that is free."""

LARGEST_REQUEST = 2.0
"""Requests beyond twice the largest node all look alike: they fit nowhere."""


class DecisionObserver:
    """Builds observations. What follows from the nodes alone is kept until a node changes.

    `nodes` has a row for each node: for each resource the allocatable and the free amount, as parts of the largest
    allocatable amount of a node; then the free share of pod slots. All are from -1 (overcommitted) to 1. `pod` has the
    request of each resource as a part of the same amount. `action_mask` is 1 where a node passed all filters; its last entry,
    "let the scores decide", is always 1.
    """

    def __init__(self, resources: Sequence[str] = ("cpu", "memory")) -> None:
        self.resources = tuple(resources)
        self.rows: NDArray[np.intp] = np.zeros(0, np.intp)
        """The rows of the node table in the order of the names of their nodes."""
        self._state: object = None
        self._seen: tuple[object, Floats, Floats] | None = None
        """The last observation, with the moment that it shows."""
        self._scale: NDArray[np.float64] = np.ones(len(self.resources))
        self._allocatable: NDArray[np.float64] = np.zeros((0, len(self.resources)))
        self._slots: NDArray[np.float64] = np.ones(0)
        self._place: NDArray[np.intp] = np.zeros(0, np.intp)

    def observe(self, nodes: NodeTable, pod: Pod, rows: Rows) -> Observation:
        """The observation for a pod that may go to these rows."""
        self.follow(nodes)
        mask = np.zeros(len(self.rows) + 1, np.int8)
        mask[self._place[rows]] = 1
        mask[-1] = 1
        # Hot: the environment looks at a pod before its attempt, and the plugin in the attempt. 40 µs for 100 nodes.
        moment = pod.id, nodes.touches.end, self._state
        if self._seen is None or self._seen[0] != moment:
            self._seen = moment, self._node_columns(nodes), self._requests(pod)
        return {"nodes": self._seen[1], "pod": self._seen[2], "action_mask": mask}

    def _node_columns(self, nodes: NodeTable) -> Floats:
        order, amounts = self.rows, nodes.amounts
        columns = np.empty((len(order), 2 * len(self.resources) + SPARE_COLUMNS), np.float32)
        for at, name in enumerate(self.resources):
            allocatable, scale = self._allocatable[:, at], self._scale[at]
            columns[:, 2 * at] = allocatable / scale
            columns[:, 2 * at + 1] = (allocatable - amounts.requested[amounts.resource(name)][order]) / scale
        columns[:, -1] = (self._slots - nodes.pod_count[order]) / np.maximum(self._slots, 1)
        return np.clip(columns, -1, 1, out=columns)

    def _requests(self, pod: Pod) -> Floats:
        asked = [pod.shape.request.get(name, 0) for name in self.resources]
        return np.minimum(asked / self._scale, LARGEST_REQUEST).astype(np.float32)

    def follow(self, nodes: NodeTable) -> None:
        """Work out what follows from the nodes, if one of them changed."""
        state = (id(nodes), nodes.node_set_version, nodes.node_touches.end, nodes.amounts.resources_version)
        if state == self._state:
            return
        indices = [nodes.amounts.resource(name) for name in self.resources]  # a resource may get its place only now
        state = (*state[:3], nodes.amounts.resources_version)
        self.rows = np.array([row for row in nodes.rows_by_name().tolist() if nodes.alive[row]], np.intp)
        columns = [nodes.amounts.allocatable[index][self.rows] for index in indices]
        self._allocatable = np.array(columns, np.float64).T.reshape(len(self.rows), len(indices))
        self._scale = np.maximum(self._allocatable.max(axis=0, initial=0), 1)
        self._slots = nodes.allowed_pods[self.rows].astype(np.float64)
        self._place = np.full(nodes.capacity, len(self.rows), np.intp)
        self._place[self.rows] = np.arange(len(self.rows))
        self._state = state
