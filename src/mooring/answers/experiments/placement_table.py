"""Where the pods of each run are, side by side, and which of them differ."""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.kit.bounded_reading import BadGzip, inflated

Placements = Mapping[str, str | None]
"""Pod -> its node; None for a pod that has none in the end, because it is pending or was preempted. Of the pods that ran
before, only those that were preempted."""

PLACEMENTS = 200_000
"""Of runs with more pods only a digest of the placements is kept: they differ or not, but nobody says which."""

_NO_POD = -1
"""In columns: a pod that this run does not have, because it has another load."""
_BLOCK = 1 << 22
"""How many numbers of the table are looked at together."""
_LARGEST_BYTES = 128 << 20
"""The most that placements of a results file may have when they are unpacked: so many pods with the longest names."""


def placements_digest(placements: Placements) -> str:
    """A digest that is equal for equal nodes, in whatever order pods were placed."""
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
        by_node: Any = json.loads(inflated(base64.b64decode(cell, validate=True), _LARGEST_BYTES))
    except BadGzip as error:
        raise ValueError("the placements are not complete") from error
    if not isinstance(by_node, dict):
        raise ValueError("the placements are not complete")
    return {pod: node or None for node, pods in by_node.items() for pod in pods}


class PlacementTable:
    """A column of nodes for each run. Nodes are numbers, so that a hundred runs of 100,000 pods take 40 MB."""

    def __init__(self, before: Mapping[str, str]) -> None:
        """`before` has the nodes of the pods that ran already; runs name only those of them that they preempted."""
        self._before = before
        self._pods: dict[str, int] = {}
        self._nodes: dict[str | None, int] = {}
        self._names: list[str | None] = []
        """None, which stands for no node, has a number as well."""
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
        found = self._nodes.setdefault(node, len(self._nodes))
        if found == len(self._names):
            self._names.append(node)
        return found

    def _blocks(self) -> Iterator[tuple[int, NDArray[np.int32]]]:
        """Runs x pods, a block of pods at a time, each with the place of its first pod. A pod that a run does not name is
        where it was before, or not there."""
        before = [self._number(self._before[pod]) if pod in self._before else _NO_POD for pod in self._pods]
        size = max(_BLOCK // len(self._columns), 1)
        for begin in range(0, len(before), size):
            block = np.tile(np.array(before[begin : begin + size], np.int32), (len(self._columns), 1))
            for row, column in zip(block, self._columns, strict=True):
                part = column[begin : begin + size]
                np.copyto(row[: len(part)], part, where=part != _NO_POD)
            yield begin, block

    def moved(self) -> list[int]:
        """For each run how many pods have another node than in the first run, of the pods that both have."""
        counts = np.zeros(len(self._columns), np.int64)
        for _, block in self._blocks():
            both = (block != _NO_POD) & (block[:1] != _NO_POD)
            counts += np.count_nonzero(both & (block != block[:1]), axis=1)
        return [int(count) for count in counts]

    def differences(self, most: int) -> tuple[int, list[tuple[str, list[str | None]]]]:
        """How many pods have nodes that differ between the runs that have the pod; and `most` of them, by name, each with
        its node in each run."""
        keys, found = [*self._pods], list[tuple[str, list[int]]]()
        count = 0
        for begin, block in self._blocks():
            there = block != _NO_POD
            highest = np.where(there, block, np.iinfo(np.int32).min).max(0)
            lowest = np.where(there, block, np.iinfo(np.int32).max).min(0)
            places = np.flatnonzero(highest > lowest).tolist()
            count += len(places)
            found += ((keys[begin + place], block[:, place].tolist()) for place in places[: most - len(found)])
        return count, [(pod, self._shown(column)) for pod, column in sorted(found)]

    def _shown(self, column: Sequence[int]) -> list[str | None]:
        return [self._names[number] if number >= 0 else None for number in column]
