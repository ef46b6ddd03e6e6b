"""Volumes for pods with many claims: they are handed out node by node, in one pass over claims and volumes.

With a few claims it is quicker to choose for all nodes at once and to look at what the claims before took
(volume_choice.py); that takes as many passes as there are claims before, for each claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.shelf import NONE, Shelf
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.points import Rows
from mooring.model.selectors import NodeMatcher
from mooring.model.storage import PersistentVolume
from mooring.plugins.volumes.reach import ReachMasks

Ranks = NDArray[np.int64]
Masks = dict[NodeMatcher, NDArray[np.bool_]]

KEPT = -1
"""In the place of a rank: the volume that is kept for the claim."""


@dataclass(slots=True)
class WantedVolume:
    """What one claim may have."""

    fitting: Ranks
    """Ranks that suit it, ascending. Claims that differ in size alone share it, so some may be too small."""
    first: int
    """The rank from which on volumes are large enough. It does not fall from one claim to the next."""
    kept: PersistentVolume | None
    """The volume that is kept for the claim, and then the only one."""


@dataclass(slots=True)
class _Line:
    """The volumes that suit some claims on one node, and how far they are handed out."""

    ranks: list[int]
    position: int = 0

    def take(self, first: int, taken: set[int]) -> int:
        """The next that is large enough and not taken. Those passed over are too small for later claims as well."""
        while self.position < len(self.ranks):
            rank = self.ranks[self.position]
            self.position += 1
            if rank >= first and rank not in taken:
                taken.add(rank)
                return rank
        return NONE


@dataclass(slots=True)
class _Place:
    """Nodes that are alike to all volumes: what is there for the claims."""

    reached: NDArray[np.bool_]
    """For each reach of the shelf."""
    kept_here: frozenset[int]
    """Ids of the kept volumes that can be used here."""
    taken: set[int] = field(default_factory=set)
    kept_taken: set[int] = field(default_factory=set)
    lines: dict[int, _Line] = field(default_factory=dict)

    def give(self, shelf: Shelf, wanted: WantedVolume) -> int:
        kept = wanted.kept
        if kept is not None and id(kept) not in self.kept_taken:
            if id(kept) not in self.kept_here:
                return NONE
            self.kept_taken.add(id(kept))
            return KEPT
        line = self.lines.get(id(wanted.fitting))
        if line is None:
            reaching = wanted.fitting[self.reached[shelf.reach[wanted.fitting]]]
            line = self.lines[id(wanted.fitting)] = _Line(reaching.tolist())
        return line.take(wanted.first, self.taken)


@dataclass(slots=True)
class Handout:
    """What each claim of one shelf gets, place by place."""

    place_of: NDArray[np.intp]
    """For each row asked about the number of its place: nodes of one place are alike to all volumes."""
    ranks: list[Ranks]
    """For each claim the rank of its volume in each place; KEPT or NONE."""


def hand_out(
    nodes: NodeTable, shelf: Shelf, claims: Sequence[WantedVolume], rows: Rows, reaches: ReachMasks
) -> Handout:
    """Serve the claims in this order: the smallest first."""
    kept = {id(wanted.kept): wanted.kept for wanted in claims if wanted.kept is not None}
    matchers = [shelf.reaches[code] for code in shelf.tangled] + [volume.reach for volume in kept.values()]
    masks = {matcher: reaches.of(nodes, matcher) for matcher in dict.fromkeys(matchers) if matcher is not None}
    place_of, examples = _alike(nodes, shelf, masks, rows)
    places = [_place(nodes, shelf, kept, masks, int(row)) for row in examples]
    ranks = [np.array([place.give(shelf, wanted) for place in places], np.int64) for wanted in claims]
    return Handout(place_of, ranks)


def _alike(nodes: NodeTable, shelf: Shelf, masks: Masks, rows: Rows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each row the number of its place, and for each place one of its rows."""
    every = np.arange(nodes.height)[rows]
    columns = [nodes.labels.column(key).codes[rows] for key in shelf.keyed] + [mask[rows] for mask in masks.values()]
    if not columns or not len(every):
        return np.zeros(len(every), np.intp), every[:1]
    _, examples, place_of = np.unique(np.array(columns, np.int32), axis=1, return_index=True, return_inverse=True)
    return place_of.ravel(), every[examples]


def _place(nodes: NodeTable, shelf: Shelf, kept: dict[int, PersistentVolume], masks: Masks, row: int) -> _Place:
    reached = np.zeros(len(shelf.reaches), np.bool_)
    reached[0] = True  # everywhere
    for key, keyed in shelf.keyed.items():
        column = nodes.labels.column(key)
        reached[keyed.reach[keyed.values.codes(column) == column.codes[row]]] = True
    for code in shelf.tangled:
        matcher = shelf.reaches[code]
        assert matcher is not None, "only the first reach is everywhere"
        reached[code] = masks[matcher][row]
    here = (known for known, volume in kept.items() if volume.reach is None or masks[volume.reach][row])
    return _Place(reached, frozenset(here))
