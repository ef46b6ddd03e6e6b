"""Which of the existing volumes a claim would get on each node: the smallest that suits the claim and reaches the node.

Volumes of a class stand on a shelf by size, so "the smallest" is the lowest rank. Claims are served by size, the
smallest first, and no volume is chosen twice on a node; both are upstream's rules (findMatchingVolumes), and the result
on each node is the same as if the claims were served there alone.

With few claims each one is served for all nodes at once, and what the claims before it took is excluded row by row. The
cost grows with the square of the number of claims, so many claims are handed out place by place instead (hand_out).
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.shelf import NONE, Shelf, lowest_of_groups, lowest_untaken
from mooring.cluster.nodes.match import match_nodes
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Codes, Rows
from mooring.framework.contract.status import PluginError
from mooring.model.selectors import NodeMatcher, SelectorError, compile_selector
from mooring.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim, reach_of
from mooring.model.volumes import (
    FILESYSTEM,
    InTree,
    in_tree_of,
    is_kept_for,
    is_large_enough,
    is_migrated,
    is_of_kind,
    translated_affinity,
    translation_fault,
    zones_of,
)

# ---- Which nodes can use a volume.
#
# The *reach* of a PersistentVolume is its node affinity; for in-tree volumes whose CSI driver has taken over on a
# node it is the affinity translated to the driver's labels. Many volumes share a reach, so masks over the nodes are
# kept by matcher.


Mask = NDArray[np.bool_]


class ReachMasks:
    """Masks over all rows by matcher; all are dropped when any node changes."""

    LIMIT = 512
    """Masks kept at once: at 5,000 nodes 2.5 MB. Local volumes, which have a reach each, are matched by label value
    instead."""

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


OUT_OF_REACH, NO_SUCH_VOLUME = 1, 8
"""Codes of rows; bits beside those of pod_volumes.py, because a node may fail for several reasons at once."""


def bound_codes(
    context: SchedulingContext, claims: Sequence[PersistentVolumeClaim], rows: Rows, reaches: ReachMasks
) -> Codes:
    """For each row the code of the first claim whose volume cannot be used there."""
    codes = np.zeros(len(context.nodes.alive[rows]), np.int64)
    for claim in claims:
        volume = context.cluster.storage.volume(claim.spec.volume_name)
        if volume is None:
            codes[codes == 0] = NO_SUCH_VOLUME
            break
        _raise_fault(context, volume, np.arange(context.nodes.height)[rows][codes == 0])
        reached = rows_in_reach(context, volume, rows, reaches)
        if reached is not None:
            codes[~reached] = OUT_OF_REACH
    return codes


def _raise_fault(context: SchedulingContext, volume: PersistentVolume, rows: NDArray[np.intp]) -> None:
    """Parity: an in-tree volume that cannot be translated is an error where the driver has taken over."""
    in_tree = in_tree_of(volume.spec) if volume.spec.csi is None else None
    fault = None if in_tree is None else translation_fault(volume.spec, zones_of(volume))
    if in_tree is not None and fault is not None and _migrated_rows(context, in_tree)[rows].any():
        raise PluginError(f"could not translate pv: {fault}")


def rows_in_reach(
    context: SchedulingContext, volume: PersistentVolume, rows: Rows, reaches: ReachMasks
) -> NDArray[np.bool_] | None:
    """Rows on which the volume can be used; None: all. On rows where the CSI driver has taken over, its labels decide."""
    found = None if volume.reach is None else reaches.of(context.nodes, volume.reach)[rows]
    in_tree = in_tree_of(volume.spec) if volume.spec.csi is None else None
    if in_tree is None or not in_tree.zone_label:
        return found
    migrated = _migrated_rows(context, in_tree)[rows]
    translated = reach_of(translated_affinity(volume, in_tree))
    by_driver = np.ones(len(migrated), np.bool_) if translated is None else reaches.of(context.nodes, translated)[rows]
    return np.where(migrated, by_driver, True if found is None else found)


def is_in_reach(volume: PersistentVolume, labels: dict[str, str], node: CSINode | None) -> bool:
    """Whether the volume can be used on one node: PreBind checks again before it goes on."""
    in_tree = in_tree_of(volume.spec) if volume.spec.csi is None else None
    reach = volume.reach
    if in_tree is not None and is_migrated(node, in_tree):
        reach = reach_of(translated_affinity(volume, in_tree))
    return reach is None or reach.matches("", labels)


def _migrated_rows(context: SchedulingContext, in_tree: InTree) -> NDArray[np.bool_]:
    """Rows whose CSINode says that the in-tree plugin is migrated to its CSI driver."""
    migrated = np.zeros(context.nodes.height, np.bool_)
    for node in context.cluster.storage.nodes.values():
        row = context.nodes.row_book.get(node.name)
        if row is not None and is_migrated(node, in_tree):
            migrated[row] = True
    return migrated


Ranks = NDArray[np.int64]
"""Places on a shelf."""

Masks = dict[NodeMatcher, NDArray[np.bool_]]

KEPT = -1
"""Instead of a rank: the volume that is kept for the claim."""

FEW_CLAIMS = 16
"""Up to so many claims the first way is used. Pods of StatefulSets have one to three; the second way is there for
limits."""


class VolumeChoice(msgspec.Struct):
    """The volume of a claim on each of the rows asked about."""

    claim: PersistentVolumeClaim
    shelf: Shelf
    kept: PersistentVolume | None
    by_place: Ranks
    """Rank on the shelf, or KEPT, or NONE."""
    place_of: NDArray[np.intp] | None = None
    """For each row where to look; None: there is a rank for each. Thousands of claims share it."""

    @property
    def ranks(self) -> Ranks:
        """Row by row."""
        ranks: Ranks = self.by_place if self.place_of is None else self.by_place[self.place_of]
        return ranks

    def rank_at(self, index: int) -> int:
        """The rank for one of the rows asked about, by its position."""
        return int(self.by_place[index if self.place_of is None else self.place_of[index]])

    def volume(self, index: int) -> PersistentVolume | None:
        """The volume itself; None: none of the existing ones."""
        rank = self.rank_at(index)
        if rank == NONE:
            return None
        return self.kept if rank == KEPT else self.shelf.volumes[rank]


def choose_volumes(
    context: SchedulingContext, claims: Sequence[PersistentVolumeClaim], rows: Rows, reaches: ReachMasks
) -> list[VolumeChoice]:
    """One choice for each claim, in ascending order of size."""
    ordered = sorted(claims, key=lambda claim: claim.request_nano)
    if len(ordered) > FEW_CLAIMS:
        return _choose_many(context, ordered, rows, reaches)
    choices: list[VolumeChoice] = []
    for claim in ordered:
        choices.append(_choose(context, claim, rows, reaches, choices))
    return choices


def _choose_many(
    context: SchedulingContext, claims: Sequence[PersistentVolumeClaim], rows: Rows, reaches: ReachMasks
) -> list[VolumeChoice]:
    """Choose volumes for many claims in one pass over claims and volumes. Claims of different classes have different shelves
    and do not compete.

    Claims that differ in size alone share their list of suitable ranks.
    """
    wanted: dict[Shelf, list[WantedVolume]] = {}
    fitting: dict[tuple[object, ...], Ranks] = {}
    places: list[tuple[PersistentVolumeClaim, Shelf, int]] = []
    for claim in claims:
        shelf = context.cluster.storage.shelf(claim.class_name)
        suits = fitting.get(_kind(claim))
        if suits is None:
            suits = fitting[_kind(claim)] = fitting_ranks(shelf, claim)
        line = wanted.setdefault(shelf, [])
        places.append((claim, shelf, len(line)))
        line.append(WantedVolume(suits, shelf.first_of_size(claim.request_nano), _kept(context, claim)))
    given = {shelf: hand_out(context.nodes, shelf, line, rows, reaches) for shelf, line in wanted.items()}
    return [
        VolumeChoice(claim, shelf, wanted[shelf][i].kept, given[shelf].ranks[i], given[shelf].place_of)
        for claim, shelf, i in places
    ]


def _kind(claim: PersistentVolumeClaim) -> tuple[object, ...]:
    """The properties of a claim that decide which volumes fit it, without its size."""
    asked = claim.spec
    modes = frozenset(asked.access_modes or ())
    selector = None if asked.selector is None else msgspec.json.encode(asked.selector)
    return claim.class_name, modes, asked.volume_mode, asked.volume_attributes_class_name, selector


def _choose(
    context: SchedulingContext,
    claim: PersistentVolumeClaim,
    rows: Rows,
    reaches: ReachMasks,
    before: Sequence[VolumeChoice],
) -> VolumeChoice:
    """One claim on all rows, with what the claims before it took excluded.

    Each row needs to see as many of the lowest ranks as there are rivals plus one: at least one of these is left.
    """
    shelf = context.cluster.storage.shelf(claim.class_name)
    rivals = [choice.ranks for choice in before if choice.shelf is shelf]
    kept = _kept(context, claim)
    fitting = fitting_ranks(shelf, claim)
    count = len(context.nodes.alive[rows])
    found = lowest_ranks_by_row(context, shelf, fitting, rows, len(rivals) + 1, reaches) if len(fitting) else []
    ranks = lowest_untaken(found, rivals, count)
    if kept is not None:
        # Parity: a volume that is kept for the claim is the only choice, also where it cannot be used. A pod that uses
        # the claim twice gets it once, and the second time another volume.
        again = [choice.ranks for choice in before if choice.kept is kept]
        is_taken = np.logical_or.reduce([column == KEPT for column in again]) if again else np.zeros(count, np.bool_)
        reached = np.ones(count, np.bool_) if kept.reach is None else reaches.of(context.nodes, kept.reach)[rows]
        ranks = np.where(is_taken, ranks, np.where(reached, KEPT, NONE))
    return VolumeChoice(claim, shelf, kept, ranks)


def _kept(context: SchedulingContext, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The volume that names the claim and suits it; of several the first by name. Upstream's pre-bound volume."""
    return next(
        (
            volume
            for volume in context.cluster.storage.kept_for(claim.key)
            if volume.class_name == claim.class_name
            and is_kept_for(volume, claim)
            and is_large_enough(volume, claim)
            and is_of_kind(volume, claim)
            and volume.metadata.deletion_timestamp is None
        ),
        None,
    )


def fitting_ranks(shelf: Shelf, claim: PersistentVolumeClaim) -> Ranks:
    """The volumes on the shelf that suit the claim, wherever they can be used: size, mode, access modes, attributes
    class, selector."""
    first = shelf.first_of_size(claim.request_nano)
    asked = claim.spec
    modes = frozenset(asked.access_modes or ())
    wanted = (asked.volume_mode or FILESYSTEM, asked.volume_attributes_class_name or "")
    suits = np.fromiter((fact[:2] == wanted and modes <= fact[2] for fact in shelf.fact_book), np.bool_)
    if not suits.any():
        return np.zeros(0, np.int64)
    ranks = first + np.flatnonzero(shelf.offered[first:] & suits[shelf.facts[first:]])
    if asked.selector is None or not len(ranks):
        return ranks
    try:
        selector = compile_selector(asked.selector)
    except SelectorError as fault:
        raise PluginError(f"error creating internal label selector for claim: {claim.key}: {fault}") from fault
    return np.array([rank for rank in ranks.tolist() if selector.matches(shelf.volumes[rank].labels)], np.int64)


def lowest_ranks_by_row(
    context: SchedulingContext, shelf: Shelf, ranks: Ranks, rows: Rows, depth: int, reaches: ReachMasks
) -> list[Ranks]:
    """Columns of ranks: among them are, for each row, the `depth` lowest ranks that reach it.

    Hot: volumes that are for the same nodes are looked at once, and those that go by one label are looked up by its
    value, so that 5,000 local volumes on 5,000 nodes take a few passes over columns.
    """
    nodes, count = context.nodes, len(context.nodes.alive[rows])
    table = lowest_of_groups(shelf.reach[ranks], ranks, len(shelf.reaches), depth)
    found = [np.full(count, rank, np.int64) for rank in table[:, 0].tolist() if rank != NONE]
    for key, keyed in shelf.keyed.items():
        column = nodes.labels.column(key)
        codes = np.tile(keyed.values.codes(column), depth)
        offered = table[:, keyed.reach].ravel()
        is_there = offered != NONE
        by_value = lowest_of_groups(codes[is_there], offered[is_there], column.width, depth)
        found += [layer[column.codes[rows]] for layer in by_value]
    for code in shelf.tangled:
        if table[0, code] != NONE:
            matcher = shelf.reaches[code]
            assert matcher is not None
            reached = reaches.of(nodes, matcher)[rows]
            found += [np.where(reached, rank, NONE) for rank in table[:, code].tolist() if rank != NONE]
    return found


# ---- Many claims: nodes that are alike to all volumes form a place, and volumes are handed out place by place, in one
# pass over the claims. There are as many places as combinations of label values that volumes ask about, at most one for
# each node.


class WantedVolume(msgspec.Struct):
    """One claim as `hand_out` sees it."""

    fitting: Ranks
    """Ranks that suit it, ascending. Claims that differ in size alone share it, so some may be too small."""
    first: int
    """The rank from which on volumes are large enough. It does not fall from one claim to the next."""
    kept: PersistentVolume | None
    """The volume that is kept for the claim, and then the only one."""


class _Line(msgspec.Struct):
    """The volumes that suit some claims in one place, ascending, and how far they are handed out."""

    ranks: list[int]
    position: int = 0

    def take(self, first: int, taken: set[int]) -> int:
        """The next that is large enough and not taken. Those passed over are too small for later claims as well,
        because claims come in ascending order of size: so one walk over the line serves all claims."""
        while self.position < len(self.ranks):
            rank = self.ranks[self.position]
            self.position += 1
            if rank >= first and rank not in taken:
                taken.add(rank)
                return rank
        return NONE


class _Place(msgspec.Struct):
    """Nodes that are alike to all volumes: what is there for the claims."""

    reached: NDArray[np.bool_]
    """For each reach of the shelf."""
    kept_here: frozenset[int]
    """Ids of the kept volumes that can be used here."""
    taken: set[int] = msgspec.field(default_factory=set)
    """Ranks that a claim of this place has. Lines of different claims overlap, so each line has to ask."""
    kept_taken: set[int] = msgspec.field(default_factory=set)
    lines: dict[int, _Line] = msgspec.field(default_factory=dict)

    def give(self, shelf: Shelf, wanted: WantedVolume) -> int:
        """The rank for the next claim, KEPT or NONE. A claim that occurs twice gets its kept volume once."""
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


class Handout(msgspec.Struct):
    """Volumes that the claims of one shelf get, place by place."""

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
    """The place of one row. Reach 0 is that of volumes without node affinity."""
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
