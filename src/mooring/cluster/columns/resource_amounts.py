"""Allocatable amounts of nodes and requests of the pods on them, by resource, as matrices: resources x rows of the node
table.

Units: cpu in milli-CPU, memory and ephemeral storage in bytes, extended resources in whole units.

cpu, memory and ephemeral storage always have a place (a line of the matrices). An extended resource gets one when a
plugin first asks about it, and only if a node has it: a pod may request thousands of resources that no node has, and a
node may have thousands that no pod requests. A resource that no node has any more loses its place.

Cells cannot overflow. Amounts are bounded when they are read (model/quantity.py), so a thousand pods of any size add up
to less than MAX_SUM. On rows whose node reaches the bound (`huge_rows`), `exact` has the amounts without it. The number of
pods on a node is not bounded: beyond MAX_SUM a cell shows the limit, and the exact sum is kept aside. So what a pod adds is
what it takes away again, to the last unit.
"""

import itertools
import mmap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.facts import FIRST_CLASS
from mooring.model.names import is_scalar_resource
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.quantity import MAX_AMOUNT, parse_or, to_amount, to_int, to_milli
from mooring.model.shape import PodShape

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]
Resources = slice | NDArray[np.intp]
Rows = slice | NDArray[np.intp]

NOWHERE = len(FIRST_CLASS)
"""The place of all resources that no node has. Its cells stay 0: nothing is allocatable there, and nothing requested."""

MAX_SUM = 1 << 61
"""The largest sum that a cell shows. Three of them fit an int64: pods on a node, pods nominated there, and a request."""

MAX_PLACES = 1024
"""Combinations of resources whose places are remembered: pods request a handful of combinations, if they are not made to
differ."""

_FEW_CELLS = 16
"""Up to so many cells are written one by one: to look at all cells of a line, so that no sum overflows, takes longer."""

Beyond = dict[tuple[int, int], int]
"""(Resource, row) -> the exact sum, where it is beyond MAX_SUM."""


def cells(matrix: Column, resources: Resources, rows: Rows) -> Column:
    """The part of `allocatable`, `requested` or `scored` for some resources and rows: resources x rows."""
    if isinstance(rows, slice):
        return matrix[resources, rows]
    if isinstance(resources, slice):
        return matrix[resources].take(rows, axis=1)  # Hot: a fifth of the time that indexing takes
    return matrix[resources[:, None], rows]


def places_of(resources: Resources, count: int) -> Sequence[int]:
    """The places of some of so many resources, in plain numbers."""
    return range(count)[resources] if isinstance(resources, slice) else resources.tolist()


class ResourceAmounts:
    """Matrices of amounts. Ask `resource` or `resources` for the places first, then index: a new place may replace the
    matrices, and places are good until `resources_version` grows.
    """

    def __init__(self, nodes: list[Node | None], pods_on: list[list[Pod]]) -> None:
        self._nodes = nodes
        """By row; this list and the next are those of the node table, which changes them in place."""
        self._pods_on = pods_on
        self._capacity = 0
        self._origin: ResourceAmounts | None = None
        """The object that this one is a copy of. A copy takes the places of resources from the original, so that both
        agree."""

        self.resource_book: dict[str, int] = {name: i for i, name in enumerate(FIRST_CLASS)}
        """Resource -> place, of those that have one."""
        self.resources_version = 0
        """Grows when a resource gets a place or loses it, and when a first node has it, so that it would get one."""
        self._suppliers: Counter[str] = Counter()
        """How many nodes have an extended resource. One that no node has is not in it."""
        self._free_places: list[int] = []
        self._places: dict[tuple[str, ...], tuple[int, Resources]] = {}
        """Cache of `resources`, by names: the version and the answer for this version."""

        self.allocatable: Column = np.zeros((len(FIRST_CLASS) + 1, 0), np.int64)
        self.requested: Column = self.allocatable.copy()
        self.scored: Column = self.allocatable.copy()
        """Like `requested`, but pods that ask for no cpu or memory count with a default: what scoring goes by."""
        self._requested_beyond: Beyond = {}
        self._scored_beyond: Beyond = {}
        self.huge_rows: set[int] = set()
        """Rows whose node has MAX_AMOUNT or more of a resource, so that cells cannot tell whether a pod fits. On other rows
        they can: a request that reaches the bound is more than the node has."""

    # ---- places of resources

    def resource(self, name: str) -> int:
        """The place of a resource in the matrices, NOWHERE if no node has it. Good until `resources_version` grows."""
        index = self.resource_book.get(name)
        if index is not None:
            return index
        return self.places((name,))[0] if name in self._suppliers else NOWHERE

    def places(self, names: Collection[str]) -> list[int]:
        """The places of several resources. Those that get their place now get it together: each walk over the nodes and
        their pods serves all of them."""
        book = self.resource_book
        new = [name for name in dict.fromkeys(names) if name not in book and name in self._suppliers]
        if new:
            self._give_places(new)
        return [book.get(name, NOWHERE) for name in names]

    def resources(self, names: Iterable[str]) -> Resources:
        """The places of several resources, for `cells`. There must be at least one name."""
        key = tuple(names)
        known = self._places.get(key)
        if known is None or known[0] != self.resources_version:
            if len(self._places) >= MAX_PLACES:
                self._places.clear()
            places = self._find_places(key)  # this may give a place, so that the version grows
            known = self._places[key] = self.resources_version, places
        return known[1]

    def _find_places(self, names: tuple[str, ...]) -> Resources:
        found = self.places(names)
        if found == list(range(found[0], found[0] + len(found))):
            return slice(found[0], found[0] + len(found))  # Hot: NumPy reads a slice without a copy
        return np.array(found, np.intp)

    def supplied(self) -> list[str]:
        """The resources that nodes have besides cpu, memory and ephemeral storage."""
        return list(self._suppliers)

    def suppliers(self) -> dict[str, int]:
        """The number of nodes that have each resource, besides cpu, memory and ephemeral storage."""
        return dict(self._suppliers)

    def supply(self, node: Node | None, change: int) -> None:
        """Note which resources a node has (+1), or has no longer (-1); what no node has loses its place."""
        gone = []
        for name in (node.status.allocatable or {}) if node is not None else ():
            if not is_scalar_resource(name):
                continue
            self._suppliers[name] += change
            if not self._suppliers[name]:
                del self._suppliers[name]
                gone.append(name)
            elif self._suppliers[name] == change:  # the first node with it: it is no longer NOWHERE
                self.resources_version += 1
        if gone:
            self._take_places(gone)

    def _give_places(self, names: Sequence[str]) -> None:
        """Count resources that have no place yet from now on."""
        if self._origin is not None:
            self._follow(self._origin, names)
            return
        ends = itertools.count(len(self.resource_book) + len(self._free_places) + 1)  # one place is NOWHERE
        places = {name: self._free_places.pop() if self._free_places else next(ends) for name in names}
        if max(places.values()) >= len(self.allocatable):  # at least double: n new resources cost n cells and not n * n
            lines = max(2 * len(self.allocatable), max(places.values()) + 1)
            self.allocatable = _copy(self.allocatable, lines)
            self.requested = _copy(self.requested, lines)
            self.scored = _copy(self.scored, lines)
        self.resource_book.update(places)
        self.resources_version += 1
        for row, node in enumerate(self._nodes):  # a place that is given out is empty, and zeros would take memory
            there = (node.status.allocatable or {}) if node is not None else {}
            for name in there.keys() & places.keys():
                self.allocatable[places[name], row] = to_amount(parse_or(there[name], 0))
        self._fill_places(places)

    def _follow(self, origin: "ResourceAmounts", names: Sequence[str]) -> None:
        """Count resources in a copy: at the places that they have, or now get, in the original."""
        places = dict(zip(names, origin.places(names), strict=True))
        self.allocatable = origin.allocatable
        self.requested = _copy(self.requested, len(origin.requested))
        self.scored = _copy(self.scored, len(origin.requested))  # also if nothing is missing: a sketch shares `scored`
        self._scored_beyond = dict(self._scored_beyond)
        self.resource_book.update(places)
        self.resources_version = origin.resources_version
        self._clear_places(places.values())
        self._fill_places(places)

    def _fill_places(self, places: Mapping[str, int]) -> None:
        """Sum up what the pods on nodes hold of resources that have just got their places."""
        for row, pods in enumerate(self._pods_on):
            for pod in pods:
                held = pod.shape.held
                for name in held.keys() & places.keys():  # walks over the shorter of the two
                    amount, scored = held[name]
                    add_exactly(self.requested, self._requested_beyond, places[name], row, amount)
                    add_exactly(self.scored, self._scored_beyond, places[name], row, scored)

    def _take_places(self, names: Iterable[str]) -> None:
        """Free the places of resources that no node has any more. Other resources may get these places, so
        `resources_version` grows."""
        places = [self.resource_book.pop(name) for name in names if name in self.resource_book]
        if places:
            _clear_lines(self.allocatable, places)
            self._clear_places(places)
            self._free_places += places
            self.resources_version += 1

    def _clear_places(self, places: Collection[int]) -> None:
        _clear_lines(self.requested, places)
        _clear_lines(self.scored, places)
        for beyond in (self._requested_beyond, self._scored_beyond):
            if beyond:
                gone = set(places)
                for cell in [cell for cell in beyond if cell[0] in gone]:
                    del beyond[cell]

    # ---- rows

    def grow(self, capacity: int) -> None:
        """Make room for so many rows."""
        self._capacity = capacity
        self.allocatable = _copy(self.allocatable, 0, capacity)
        self.requested = _copy(self.requested, 0, capacity)
        self.scored = _copy(self.scored, 0, capacity)

    def put_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        """Write the allocatable amounts of the node of a row, by resource. Resources without a place are left out."""
        _clear_row(self.allocatable, row)
        if max(amounts.values(), default=0) >= MAX_AMOUNT:
            self.huge_rows.add(row)
        else:
            self.huge_rows.discard(row)
        for name, amount in amounts.items():
            index = self.resource_book.get(name)
            if index is not None:
                self.allocatable[index, row] = amount

    def add(self, pod: Pod, row: int, change: int, *, is_sketch: bool = False) -> None:
        """Count what a pod requests on a row (+1), or count it no longer (-1). A sketch shares `scored` with the original, so
        only `requested` changes."""
        for name, (amount, scored) in pod.shape.held.items():
            index = self.resource_book.get(name)
            if index is not None:
                add_exactly(self.requested, self._requested_beyond, index, row, change * amount)
                if not is_sketch:
                    add_exactly(self.scored, self._scored_beyond, index, row, change * scored)

    def add_many(self, rows_of: Mapping[PodShape, Sequence[int]], change: int) -> None:
        """Count pods as `add` does one by one: by shape, the row of each of its pods."""
        grouped: dict[tuple[tuple[str, tuple[int, int]], ...], list[int]] = {}
        for shape, rows in rows_of.items():
            grouped.setdefault(tuple(shape.held.items()), []).extend(rows)
        for held, rows in grouped.items():
            for name, amounts in held:
                index = self.resource_book.get(name)
                if index is not None:
                    for matrix, beyond, amount in zip(
                        (self.requested, self.scored),
                        (self._requested_beyond, self._scored_beyond),
                        amounts,
                        strict=True,
                    ):
                        _add_to_rows(matrix, beyond, index, rows, change * amount)

    def count_anew(self, row: int) -> None:
        """Sum up a row from the pods that are on it: counting failed halfway."""
        _clear_row(self.requested, row)
        _clear_row(self.scored, row)
        for beyond in (self._requested_beyond, self._scored_beyond):
            for cell in [cell for cell in beyond if cell[1] == row]:
                del beyond[cell]
        for pod in self._pods_on[row]:
            self.add(pod, row, 1)

    # ---- amounts without bounds

    def exact(self, name: str, row: int) -> tuple[int, int]:
        """(What the node of a row has of a resource, what its pods request), however much that is."""
        node = self._nodes[row]
        text = (node.status.allocatable or {}).get(name, 0) if node is not None else 0
        nano = parse_or(text, 0)
        there = max(to_milli(nano) if name == "cpu" else to_int(nano), 0)
        return there, sum(pod.shape.exact_held.get(name, 0) for pod in self._pods_on[row])

    def kept_aside(self, index: int, row: int) -> tuple[int | None, int | None]:
        """The exact sums of a cell, requested and scored, if they are too large for the cell; None for a sum that fits. For
        checks."""
        return self._requested_beyond.get((index, row)), self._scored_beyond.get((index, row))

    def free_on(self, name: str, rows: Sequence[int]) -> list[int]:
        """The free amount of a resource on each of some rows. It is negative where pods request more than there is."""
        place = self.resource(name)
        at = np.asarray(rows, np.intp)
        free: list[int] = (self.allocatable[place, at] - self.requested[place, at]).tolist()
        for i, row in enumerate(rows) if self.huge_rows else ():
            if row in self.huge_rows:
                there, requested = self.exact(name, row)
                free[i] = there - requested
        return free

    def settle_huge(self, wanted: Mapping[str, int], rows: Rows, short: Mask, too_much: Mask) -> None:
        """Correct on huge rows what was found by columns, resources x rows: which of the wanted amounts are more than is
        left, and which are more than the node has."""
        asked = np.arange(self._capacity)[rows]
        for i in np.flatnonzero(np.isin(asked, list(self.huge_rows))).tolist():
            for place, (name, amount) in enumerate(wanted.items()):
                there, requested = self.exact(name, int(asked[i]))
                short[place, i], too_much[place, i] = amount > there - requested, amount > there

    # ---- copies

    def fork(self, pods_on: list[list[Pod]]) -> Self:
        """A copy in which pods come and go (`add`). It shares what nodes have, which must not change meanwhile."""
        other = self.sketch(pods_on)
        other.scored, other._scored_beyond = _copy(self.scored), dict(self._scored_beyond)
        return other

    def sketch(self, pods_on: list[list[Pod]]) -> Self:
        """A lighter copy that shares `scored` as well: only `add` for a sketch may count pods in it."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._origin, other._pods_on = self, pods_on
        other.resource_book, other._places = dict(self.resource_book), {}
        other.requested, other._requested_beyond = _copy(self.requested), dict(self._requested_beyond)
        return other


# ---- matrices of many lines that are nearly empty


FEW_LINES = 64
"""Matrices up to this height are copied and cleared as a whole: 4 MiB at 8,192 rows. Nearly all clusters have fewer
resources."""


def _copy(matrix: Column, lines: int = 0, capacity: int = 0) -> Column:
    """A copy with at least so many lines and rows; the new ones are empty.

    The operating system gives memory to the pages of a new matrix that are written to. A resource that few nodes have takes
    some pages instead of a line, so only what is not 0 is copied where there are many lines.
    """
    lines, capacity = max(lines, len(matrix)), max(capacity, matrix.shape[1])
    if (lines, capacity) == matrix.shape and lines <= FEW_LINES:
        return matrix.copy()
    made = _zeros(lines, capacity)
    dense = min(len(matrix), FEW_LINES)
    made[:dense, : matrix.shape[1]] = matrix[:dense]
    if len(matrix) > dense:
        held_lines, held_rows = np.nonzero(matrix[dense:])
        made[held_lines + dense, held_rows] = matrix[held_lines + dense, held_rows]
    return made


def _zeros(lines: int, capacity: int) -> Column:
    """An empty matrix. One of many lines has pages of 4 KiB: NumPy asks for pages of 2 MiB, which one cell would fill. The
    memory is private: pages of shared memory exist as soon as they are read, and `_copy` reads all of them."""
    if lines <= FEW_LINES or not capacity or not hasattr(mmap, "MADV_NOHUGEPAGE"):  # Linux only
        return np.zeros((lines, capacity), np.int64)
    memory = mmap.mmap(-1, 8 * lines * capacity, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.int64).reshape(lines, capacity)


def _clear_row(matrix: Column, row: int) -> None:
    """Set a row to 0 in all lines, without writing to pages that are empty."""
    if len(matrix) <= FEW_LINES:
        matrix[:, row] = 0
    else:
        matrix[np.flatnonzero(matrix[:, row]), row] = 0


def _clear_lines(matrix: Column, places: Iterable[int]) -> None:
    """Set lines to 0, without writing to pages that are empty."""
    for place in places:
        if len(matrix) <= FEW_LINES:
            matrix[place] = 0
        else:
            matrix[place, np.flatnonzero(matrix[place])] = 0


def _add_to_rows(matrix: Column, beyond: Beyond, index: int, rows: Sequence[int], amount: int) -> None:
    """Add an amount to a line, at each of these rows: a row that is there twice gets it twice. Single cells are asked only
    where the sum of all amounts could be beyond MAX_SUM."""
    line = matrix[index]
    if beyond or len(rows) < _FEW_CELLS or int(np.abs(line).max()) + abs(amount) * len(rows) > MAX_SUM:
        for row in rows:
            add_exactly(matrix, beyond, index, row, amount)
    else:
        np.add.at(line, np.array(rows, np.intp), amount)


def add_exactly(matrix: Column, beyond: Beyond, index: int, row: int, change: int) -> None:
    """Add to one cell.

    | cell    | beyond  | change | cell afterwards | beyond afterwards |
    | 5       |         | 3      | 8               |                   |
    | 2^61    |         | 3      | 2^61            | 2^61 + 3          |
    | 2^61    | 2^61+3  | -4     | 2^61 - 1        |                   |
    """
    total = (beyond.pop((index, row), None) if beyond else None) or matrix.item(index, row)
    total += change
    if -MAX_SUM <= total <= MAX_SUM:
        matrix[index, row] = total
    else:
        beyond[index, row] = total
        matrix[index, row] = MAX_SUM if total > 0 else -MAX_SUM
