"""How much of the nodes is idle by real use, and the part of it that typical pods cannot get."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.dashboard.slices import Sliced
from mooring.model.pod import Pod
from mooring.sim.fragmentation import Floats, TypicalRequests, WeighedShape, idle_amounts, weighed_shapes
from mooring.sim.gauge import MAIN

NodesInUse = Mapping[str, tuple[int, int]]
"""By node: milli-cpu and bytes of memory that its pods really use."""
REQUESTS = 32
"""The most frequent requests of pods stand for all: each is compared with all nodes."""
NOWHERE = 1 << 60
"""The row of a node that the table does not have."""
_STEP = 500
"""Pods or nodes that are read in one step of a slice: some 0.5 ms."""


class IdleShare(msgspec.Struct, frozen=True, rename="camel"):
    """Shares of one resource, on the nodes whose use is known."""

    idle: float
    """Of what is allocatable, what is not in use."""
    out_of_reach: float | None
    """Of what is idle, what typical pods cannot get (`fragmentation_by_use`); null if no pod says what people run."""


def idle_shares(table: NodeTable, pods: Sequence[Pod], in_use: NodesInUse) -> Sliced[dict[str, IdleShare]]:
    """By resource; without those of which nothing is allocatable. The amounts of requests alone say where a pod fits."""
    shapes: list[WeighedShape] = []
    for start in range(0, len(pods), _STEP):
        shapes += weighed_shapes((pod, 1) for pod in pods[start : start + _STEP])
        yield
    rows: list[int] = []
    for name in (names := list(in_use)):
        rows.append(table.row_book.get(name, NOWHERE))
        if len(rows) % _STEP == 0:
            yield
    typical = TypicalRequests(shapes, MAIN, REQUESTS)
    yield
    used = _used_by_row(table, np.array(rows, np.intp), np.array([in_use[name] for name in names], np.float64))
    out_of_reach = typical.fragmentation_by_use(table, used)
    found: dict[str, IdleShare] = {}
    for name, amounts in used.items():
        total = table.amounts.allocatable[table.amounts.resource(name), : table.height][~np.isnan(amounts)].sum()
        if total:
            found[name] = IdleShare(float(idle_amounts(table, name, amounts).sum() / total), out_of_reach[name])
    return found


def _used_by_row(table: NodeTable, rows: NDArray[np.intp], amounts: Floats) -> dict[str, Floats]:
    """Use of each row, by resource; NaN where that is not known. Rows that the table no longer has are left out."""
    used = np.full((len(MAIN), table.height), np.nan)
    there = rows < table.height
    used[:, rows[there]] = amounts.reshape(-1, len(MAIN))[there].T
    return dict(zip(MAIN, used, strict=True))
