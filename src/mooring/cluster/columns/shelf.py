"""The volumes of one storage class that no claim has, as columns ordered by size.

VolumeBinding wants the smallest volume that satisfies a claim on each of thousands of nodes. Columns by rank turn this
into the lowest rank in a group.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.labels import LabelValues
from mooring.model.quantity import to_amount
from mooring.model.selectors import NodeMatcher
from mooring.model.storage import PersistentVolume
from mooring.model.volumes import FILESYSTEM

AVAILABLE = "Available"
"""The phase of a volume that may be bound."""

Facts = tuple[str, str, frozenset[str]]
"""Volume mode, attributes class and access modes."""

Codes = NDArray[np.int64]


def is_offered(volume: PersistentVolume) -> bool:
    """Whether a claim that is not named by the volume may have it."""
    is_free = volume.spec.claim_ref is None and volume.metadata.deletion_timestamp is None
    return is_free and volume.status.phase == AVAILABLE


class KeyedReach(msgspec.Struct):
    """Volumes that are for nodes with certain values of one label: reach code and value, pair by pair."""

    reach: Codes = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))
    values: LabelValues = msgspec.field(default_factory=LabelValues)


class Shelf:
    """Volumes by *rank*: the smallest first, and by name where sizes are equal. All columns are indexed by rank.

    A volume that is taken off the shelf keeps its rank, so that one that comes back finds its place.
    """

    def __init__(self) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._rank: dict[str, int] = {}
        self._is_sorted = True
        """False: the columns are void until `sort`."""
        self._sizes: list[int] = []
        self.volumes: list[PersistentVolume] = []
        self.offered: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Whether the volume can still be had."""
        self.amounts: NDArray[np.int64] = np.zeros(0, np.int64)
        """Size of the volume."""
        self.facts: Codes = np.zeros(0, np.int64)
        """Code of what a claim compares besides size and nodes: a position in `fact_book`."""
        self.fact_book: dict[Facts, int] = {}
        self.reach: Codes = np.zeros(0, np.int64)
        """Code of the nodes that a volume is for: a position in `reaches`."""
        self.reaches: list[NodeMatcher | None] = [None]
        self.keyed: dict[str, KeyedReach] = {}
        """By label key: the reaches that are no more than a list of values of one label."""
        self.tangled: list[int] = []
        """Codes of all other reaches but the first, which is everywhere."""

    def put(self, volume: PersistentVolume) -> None:
        """Add a volume or replace what is known of it.

        A volume that changes in nothing that decides its rank is updated in place: sorting thousands of volumes for
        each binding would dominate.
        """
        before = self._volumes.get(volume.name)
        self._volumes[volume.name] = volume
        rank = self._rank.get(volume.name)
        if rank is None or before is None or _place(before) != _place(volume):
            self._is_sorted = self._is_sorted and not is_offered(volume) and rank is None
        elif self._is_sorted:
            self.volumes[rank] = volume
            self.offered[rank] = is_offered(volume)

    def remove(self, name: str) -> None:
        """The volume is gone. Its rank stays empty until the next sort."""
        self._volumes.pop(name, None)
        rank = self._rank.get(name)
        if rank is not None and self._is_sorted:
            self.offered[rank] = False

    def sort(self) -> None:
        """Call before reading the columns."""
        if self._is_sorted:
            return
        self._is_sorted = True
        offered = [volume for volume in self._volumes.values() if is_offered(volume)]
        self.volumes = sorted(offered, key=lambda volume: (volume.capacity_nano, volume.name))
        self._rank = {volume.name: rank for rank, volume in enumerate(self.volumes)}
        self._sizes = [volume.capacity_nano for volume in self.volumes]
        self.amounts = np.array([to_amount(size) for size in self._sizes], np.int64)
        self.offered = np.ones(len(self.volumes), np.bool_)
        self.fact_book = {}
        self.facts = _codes(self.volumes, lambda volume: self.fact_book.setdefault(_facts(volume), len(self.fact_book)))
        self._sort_reaches()

    def first_of_size(self, wanted: int) -> int:
        """The rank from which on volumes are at least this large."""
        return bisect_left(self._sizes, wanted)

    def _sort_reaches(self) -> None:
        """Encode which nodes each volume is for. Nearly all matchers are one label with a list of values (a zone, a
        host name): these are answered by codes of that label, the others (`tangled`) one by one."""
        book: dict[NodeMatcher | None, int] = {None: 0}
        self.reach = _codes(self.volumes, lambda volume: book.setdefault(volume.reach, len(book)))
        self.reaches = list(book)
        self.keyed, self.tangled = {}, []
        pairs: dict[str, list[int]] = defaultdict(list)
        for code, matcher in enumerate(self.reaches[1:], 1):
            pair = single_rule(matcher)
            if pair is None:
                self.tangled.append(code)
                continue
            key, values = pair
            pairs[key] += [code] * len(values)
            self.keyed.setdefault(key, KeyedReach()).values.add(values)
        for key, codes in pairs.items():
            self.keyed[key].reach = np.array(codes, np.int64)


def single_rule(matcher: NodeMatcher | None) -> tuple[str, list[str]] | None:
    """The label and its values, where a matcher is no more than that."""
    if matcher is None or len(matcher.terms) != 1 or matcher.terms[0].faults or len(matcher.terms[0].labels) != 1:
        return None
    rule = matcher.terms[0].labels[0]
    return (rule.key, sorted(rule.values)) if rule.operator == "In" else None


def _codes(volumes: list[PersistentVolume], code: Callable[[PersistentVolume], int]) -> Codes:
    """A column: the code of each volume."""
    return np.fromiter((code(volume) for volume in volumes), np.int64, len(volumes))


def _facts(volume: PersistentVolume) -> Facts:
    spec = volume.spec
    modes = frozenset(spec.access_modes or ())
    return spec.volume_mode or FILESYSTEM, spec.volume_attributes_class_name or "", modes


def _place(volume: PersistentVolume) -> tuple[object, ...]:
    """The properties of a volume that decide its rank and its values in the columns."""
    return volume.capacity_nano, volume.reach, _facts(volume)


# ---- Kernels that hand out volumes: each is known by its rank, and the lowest rank that can be had is taken


Ints = NDArray[np.int64]

NONE = np.iinfo(np.int64).max
"""Instead of a rank: there is no volume."""


def lowest_of_groups(groups: Ints, ranks: Ints, width: int, depth: int) -> Ints:
    """For each of `width` groups its `depth` lowest ranks, ascending: depth x width.

    | groups | ranks   | width | depth | result               |
    | 0 1 0  | 5 3 4   | 3     | 2     | 4 3 NONE / 5 NONE NONE |
    """
    table = np.full((depth, width), NONE, np.int64)
    if depth == 1:
        np.minimum.at(table[0], groups, ranks)
        return table
    order = np.lexsort((ranks, groups))
    groups, ranks = groups[order], ranks[order]
    place = np.arange(len(groups)) - np.searchsorted(groups, groups)
    kept = place < depth
    table[place[kept], groups[kept]] = ranks[kept]
    return table


def lowest_untaken(offers: Sequence[Ints], taken: Sequence[Ints], count: int) -> Ints:
    """For each of `count` rows the lowest rank offered there that is not among those taken there.

    | offers (two columns) | taken (one column) | result |
    | 1 1 / 2 NONE         | 1 1                | 2 NONE |
    """
    best = np.full(count, NONE, np.int64)
    for offer in offers:
        for other in taken:
            offer = np.where(offer == other, NONE, offer)
        best = np.minimum(best, offer)
    return best
