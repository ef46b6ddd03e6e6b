"""Two orders of nodes: by name, for ties that must be repeatable; and round-robin over zones, in which partial searches
go through them.

Upstream's node tree does the latter, so that a search which stops early has seen nodes of all zones.
"""

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from operator import lt

import numpy as np
from numpy.typing import NDArray

from mooring.model.names import BETA_REGION, BETA_ZONE, REGION, ZONE

_ZONES = (BETA_ZONE, ZONE)
"""The deprecated label comes first, as in upstream's GetZoneKey."""
_REGIONS = (BETA_REGION, REGION)
_MANY = 8
"""If one node in so many came or went, or more, all names are sorted anew."""


class NodeOrder:
    """Knows the names of all nodes and the zone of each."""

    def __init__(self) -> None:
        self._zone_of: dict[str, tuple[str, str]] = {}
        self._zones: dict[tuple[str, str], dict[str, None]] = {}
        self._rank: NDArray[np.int64] = np.zeros(0, np.int64)
        self._by_name: NDArray[np.intp] = np.zeros(0, np.intp)
        self._names: tuple[list[str], NDArray[np.intp]] | list[str] = []
        """The names of `_by_name`, or some names with their places in this order: as a rule no node comes or goes then."""
        self._changed: dict[str, None] | None = None
        """The names that came or went since `name_rank` was made. None: it never was."""
        self._ranked_rows = 0
        """How many rows `name_rank` was made for; 0: it is to be made anew."""
        self._is_by_row = True
        """Whether the nodes have the same order by name as by row, as of the last `name_rank`."""
        self._round_robin: list[str] = []
        self._stale = False
        """Whether nodes came or went since `_round_robin` was made."""

    def add(self, name: str, labels: Mapping[str, str]) -> None:
        self._enter(name, zone_of(labels))
        self._note_change(name)

    def remove(self, name: str) -> None:
        self._leave(name)
        self._note_change(name)

    def _note_change(self, name: str) -> None:
        self._ranked_rows, self._stale = 0, True
        if self._changed is not None:
            self._changed[name] = None

    def relabel(self, name: str, labels: Mapping[str, str]) -> None:
        """Parity: a node that changes zone goes to the end of the new one, but the list made before stays in use."""
        zone = zone_of(labels)
        if zone != self._zone_of[name]:
            self._leave(name)
            self._enter(name, zone)

    def by_zone(self) -> list[str]:
        """All nodes, zone by zone, zones and nodes in order of arrival: entering them so makes the same order."""
        return [name for names in self._zones.values() for name in names]

    def name_rank(self, row_book: Mapping[str, int], capacity: int) -> NDArray[np.int64]:
        """For each row the position of its node among all node names, sorted."""
        if self._ranked_rows != capacity:
            if self._changed is None or len(self._changed) * _MANY > len(self._by_name):
                self._sort_all(row_book)
            else:
                self._sort_in(self._changed, row_book)
            self._rank = np.full(capacity, capacity, np.int64)
            self._rank[self._by_name] = np.arange(len(self._by_name))
            self._is_by_row = bool((self._by_name[1:] > self._by_name[:-1]).all())
            self._ranked_rows, self._changed = capacity, {}
        return self._rank

    def _sort_all(self, row_book: Mapping[str, int]) -> None:
        known = row_book
        if len(row_book) > len(self._zone_of):  # pods on nodes that are gone have rows, too
            known = {name: row for name, row in row_book.items() if name in self._zone_of}
        names, rows = list(known), np.fromiter(known.values(), np.intp, len(known))
        # Hot: to sort places, instead of names that are looked up then, takes half of the time for 400,000 nodes.
        # As a rule they are in order, and to see that takes 3 of the 25 ms for 100,000 nodes.
        if all(map(lt, names, islice(names, 1, None))):
            places = np.arange(len(names))
        else:
            places = np.array(sorted(range(len(names)), key=names.__getitem__), np.intp)
        self._by_name, self._names = rows[places], (names, places)

    def _sort_in(self, changed: Mapping[str, None], row_book: Mapping[str, int]) -> None:
        """Take the names that came or went out of the order, and those that are there into it.

        Hot: a plan tries nodes that it adds and removes again. To sort 20,000 names anew took 5.7 of its 47 s.
        """
        if isinstance(self._names, tuple):
            unsorted, order = self._names
            self._names = [*map(unsorted.__getitem__, order.tolist())]
        names = self._names
        places = [(bisect_left(names, name), name) for name in changed]
        gone = sorted(place for place, name in places if names[place : place + 1] == [name])
        for place in reversed(gone):
            del names[place]
        came = sorted(name for name in changed if name in self._zone_of)
        there = np.delete(self._by_name, gone)
        self._by_name = np.insert(
            there, [bisect_left(names, name) for name in came], [row_book[name] for name in came]
        ).astype(np.intp, copy=False)
        for name in came:
            names.insert(bisect_left(names, name), name)

    def is_by_row(self, row_book: Mapping[str, int], capacity: int) -> bool:
        """Whether the nodes have the same order by name as by row."""
        if self._ranked_rows != capacity:
            self.name_rank(row_book, capacity)
        return self._is_by_row

    def rows_by_name(self, row_book: Mapping[str, int], capacity: int) -> NDArray[np.intp]:
        """The rows of all nodes, sorted by the names of their nodes."""
        self.name_rank(row_book, capacity)
        return self._by_name

    def round_robin(self) -> list[str]:
        """First node of each zone, second of each zone, ...; zones and nodes in order of arrival."""
        if self._stale:
            self._stale = False
            # Parity: the list is made anew only when a name is new or gone, not when a node was merely re-created.
            if self._zone_of.keys() != set(self._round_robin):
                self._round_robin = self._deal()
        return self._round_robin

    def _deal(self) -> list[str]:
        """One node of each zone in turn, until all are dealt."""
        queues = [list(names) for names in self._zones.values()]
        longest = max(map(len, queues), default=0)
        return [names[i] for i in range(longest) for names in queues if i < len(names)]

    def _enter(self, name: str, zone: tuple[str, str]) -> None:
        self._zone_of[name] = zone
        self._zones.setdefault(zone, {})[name] = None

    def _leave(self, name: str) -> None:
        """A zone goes with its last node; if it comes back, it is the last zone."""
        zone = self._zone_of.pop(name)
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]


@lru_cache(maxsize=256)
def _shared_zone(region: str, zone: str) -> tuple[str, str]:
    """One object for all nodes of a zone."""
    return region, zone


def zone_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """(region, zone), the older label first."""
    return _shared_zone(_first(labels, _REGIONS), _first(labels, _ZONES))


def _first(labels: Mapping[str, str], keys: tuple[str, str]) -> str:
    return labels.get(keys[0]) or labels.get(keys[1]) or ""
