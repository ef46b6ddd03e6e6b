"""Where the pods of each run are, side by side, and which of them differ."""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Placements = Mapping[str, str | None]
"""Pod -> its node; None for a pod that has none in the end, because it is pending or was preempted. Of the pods that ran
before, only those that were preempted."""

PLACEMENTS = 200_000
"""Of runs with more pods only a digest of the placements is kept: they differ or not, but nobody says which."""

_NO_NODE, _NO_POD = -1, -2
"""In columns: a pod without a node, and a pod that this run does not have, because it has another load."""
_LARGEST_BYTES = 1 << 30
"""The most that placements of a results file may have when they are unpacked."""


def placements_digest(placements: Placements) -> str:
    """The same for the same nodes, in whatever order pods were placed."""
    total = hashlib.sha256()
    for pod, node in sorted(placements.items()):
        total.update(f"{pod} {node or ''}\n".encode())
    return total.hexdigest()[:16]


def pack(placements: Placements) -> str:
    """As a cell of a results file: some 3 bytes for each pod."""
    by_node: dict[str, list[str]] = {}
    for pod, node in placements.items():
        by_node.setdefault(node or "", []).append(pod)
    return base64.b64encode(zlib.compress(json.dumps(by_node).encode(), 6)).decode()


def unpack(cell: str) -> dict[str, str | None]:
    """Empty if the cell is. Raises ValueError for a cell that is not packed placements."""
    if not cell:
        return {}
    try:
        engine = zlib.decompressobj()
        text = engine.decompress(base64.b64decode(cell, validate=True), _LARGEST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    by_node: Any = json.loads(text)
    if not engine.eof or not isinstance(by_node, dict):
        raise ValueError("the placements are not complete")
    return {pod: node or None for node, pods in by_node.items() for pod in pods}


class PlacementTable:
    """A column of nodes for each run. Nodes are numbers, so that a hundred runs of 100,000 pods take 40 MB."""

    def __init__(self, before: Mapping[str, str]) -> None:
        """`before` has the nodes of the pods that ran already; runs name only those of them that they preempted."""
        self._before = before
        self._pods: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._names: list[str] = []
        self._columns: list[NDArray[np.int32]] = []

    def add(self, placements: Placements) -> None:
        """The next run."""
        pods, number = self._pods, self._number
        for pod in placements:
            pods.setdefault(pod, len(pods))
        column = np.full(len(pods), _NO_POD, np.int32)
        column[[pods[pod] for pod in placements]] = [number(node) for node in placements.values()]
        self._columns.append(column)

    def _number(self, node: str | None) -> int:
        if node is None:
            return _NO_NODE
        found = self._nodes.setdefault(node, len(self._nodes))
        if found == len(self._names):
            self._names.append(node)
        return found

    def _matrix(self) -> NDArray[np.int32]:
        """Runs x pods. A pod that a run does not name is where it was before, or not there."""
        before = [self._number(self._before[pod]) if pod in self._before else _NO_POD for pod in self._pods]
        missing = np.array(before, np.int32)
        matrix = np.tile(missing, (len(self._columns), 1))
        for row, column in zip(matrix, self._columns, strict=True):
            head = row[: len(column)]
            head[column != _NO_POD] = column[column != _NO_POD]
        return matrix

    def moved(self) -> list[int]:
        """For each run how many pods have another node than in the first run, of the pods that both have."""
        matrix = self._matrix()
        both = (matrix != _NO_POD) & (matrix[:1] != _NO_POD)
        return [int(count) for count in np.count_nonzero(both & (matrix != matrix[:1]), axis=1)]

    def differences(self) -> list[tuple[str, list[str | None]]]:
        """The pods whose nodes differ between runs that have the pod, by name, with the node in each run."""
        matrix = self._matrix()
        there = matrix != _NO_POD
        highest = np.where(there, matrix, np.iinfo(np.int32).min).max(0)
        lowest = np.where(there, matrix, np.iinfo(np.int32).max).min(0)
        keys = [*self._pods]
        places = sorted(np.flatnonzero(highest > lowest).tolist(), key=keys.__getitem__)
        return [(keys[place], self._shown(matrix[:, place].tolist())) for place in places]

    def _shown(self, column: Sequence[int]) -> list[str | None]:
        return [self._names[number] if number >= 0 else None for number in column]
