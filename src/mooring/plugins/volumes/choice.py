"""Which of the volumes that are there a claim would get on each node: the smallest that suits and reaches the node."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.offers import NONE, lowest_of_groups, lowest_untaken
from mooring.cluster.nodes.shelf import Shelf
from mooring.framework.context import SchedulingContext
from mooring.framework.points import Rows
from mooring.framework.status import PluginError
from mooring.model.selectors import SelectorError, compile_selector
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.model.volumes import FILESYSTEM, is_kept_for, is_large_enough, is_of_kind
from mooring.plugins.volumes.handout import KEPT, WantedVolume, hand_out
from mooring.plugins.volumes.reach import ReachMasks

Ranks = NDArray[np.int64]

FEW_CLAIMS = 16
"""Up to so many claims volumes are chosen for all nodes at once, each claim looking at what those before it took."""


@dataclass(slots=True)
class VolumeChoice:
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
        return int(self.by_place[index if self.place_of is None else self.place_of[index]])

    def volume(self, index: int) -> PersistentVolume | None:
        rank = self.rank_at(index)
        if rank == NONE:
            return None
        return self.kept if rank == KEPT else self.shelf.volumes[rank]


def choose_volumes(
    context: SchedulingContext, claims: Sequence[PersistentVolumeClaim], rows: Rows, reaches: ReachMasks
) -> list[VolumeChoice]:
    """The claims by size, the smallest first; no volume is chosen twice on a node."""
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
    """The same in one pass. Claims of different classes have different shelves and cannot take from each other."""
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
    """What of a claim decides which volumes suit it, but for its size."""
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
    shelf = context.cluster.storage.shelf(claim.class_name)
    rivals = [choice.ranks for choice in before if choice.shelf is shelf]
    kept = _kept(context, claim)
    fitting = fitting_ranks(shelf, claim)
    count = len(context.nodes.alive[rows])
    offers = offers_by_row(context, shelf, fitting, rows, len(rivals) + 1, reaches) if len(fitting) else []
    ranks = lowest_untaken(offers, rivals, count)
    if kept is not None:
        # Parity: a volume that is kept for the claim is the only choice, also where it cannot be used. A pod that uses
        # the claim twice gets it once, and the second time another volume.
        again = [choice.ranks for choice in before if choice.kept is kept]
        is_taken = np.logical_or.reduce([column == KEPT for column in again]) if again else np.zeros(count, np.bool_)
        reached = np.ones(count, np.bool_) if kept.reach is None else reaches.of(context.nodes, kept.reach)[rows]
        ranks = np.where(is_taken, ranks, np.where(reached, KEPT, NONE))
    return VolumeChoice(claim, shelf, kept, ranks)


def _kept(context: SchedulingContext, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The volume that names the claim and suits it; of several the first by name."""
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
    """The volumes on the shelf that suit the claim, wherever they can be used."""
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


def offers_by_row(
    context: SchedulingContext, shelf: Shelf, ranks: Ranks, rows: Rows, depth: int, reaches: ReachMasks
) -> list[Ranks]:
    """Columns of ranks: among them are, for each row, the `depth` lowest ranks that reach it.

    Hot: volumes that are for the same nodes are looked at once, and those that go by one label are looked up by its
    value, so that 5,000 local volumes on 5,000 nodes take a few passes over columns.
    """
    nodes, count = context.nodes, len(context.nodes.alive[rows])
    table = lowest_of_groups(shelf.reach[ranks], ranks, len(shelf.reaches), depth)
    offers = [np.full(count, rank, np.int64) for rank in table[:, 0].tolist() if rank != NONE]
    for key, keyed in shelf.keyed.items():
        column = nodes.labels.column(key)
        codes = np.tile(keyed.values.codes(column), depth)
        offered = table[:, keyed.reach].ravel()
        is_there = offered != NONE
        by_value = lowest_of_groups(codes[is_there], offered[is_there], column.width, depth)
        offers += [layer[column.codes[rows]] for layer in by_value]
    for code in shelf.tangled:
        if table[0, code] != NONE:
            matcher = shelf.reaches[code]
            assert matcher is not None
            reached = reaches.of(nodes, matcher)[rows]
            offers += [np.where(reached, rank, NONE) for rank in table[:, code].tolist() if rank != NONE]
    return offers
