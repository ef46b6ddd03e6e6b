"""Nodes that came back whole from an extender are scored bare: without their pods, and without their images.

Parity: upstream builds them anew from what it was sent, and only nodes that extenders name keep what was known of them.
"""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.images import Images
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempt import Attempt
from mooring.framework.memo import ShapeMemo


def on_bare_nodes(attempt: Attempt, rows: NDArray[np.intp]) -> Attempt:
    """The same attempt, for scoring, on nodes as an extender knows them."""
    context = attempt.context.on(_bare(attempt.context.nodes, rows), attempt.context.state)
    return Attempt(attempt.runner, context, ShapeMemo())


def _bare(nodes: NodeTable, rows: NDArray[np.intp]) -> NodeTable:
    """A sketch with nothing on these rows. What is counted over all nodes by their labels stays as it is."""
    bare = nodes.sketch()
    bare.scored = nodes.scored.copy()
    for matrix in (bare.requested, bare.scored):
        matrix[:, rows] = 0
    bare.pod_count[rows] = 0
    bare.images = Images()
    for row in rows.tolist():
        bare.pods_on[row] = []
    return bare
