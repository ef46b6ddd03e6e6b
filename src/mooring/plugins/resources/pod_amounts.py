"""Several resources of a pod with their amounts, in the forms that kernels and plain numbers need; and codes for what a
node is short of: as bits, or by number for pods that request more resources than an integer has bits.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.facts import FIRST_CLASS
from mooring.cluster.columns.kernels import MAX_SCORE, Floats, Ints, Mask
from mooring.cluster.columns.resource_amounts import ResourceAmounts, Resources
from mooring.framework.contract.context import DEVICE_TOTALS, SchedulingContext
from mooring.framework.contract.points import Codes, Rows

_FIRST_CLASS = frozenset(FIRST_CLASS)
"""The filter checks these first, as upstream; they are never ignored and never served by devices."""


class PodAmounts:
    """Resources in a given order. Columns are resources x 1, so that they broadcast against `cells` (resources x rows).

    Hot: a pod with requests that no pod had before needs only some of the columns, and each takes 1 µs, so they are made when
    they are asked for.
    """

    # Hot: what was not asked for yet stands in the class.
    _column: Ints | None = None
    _floats: Floats | None = None
    _minus_percent: Floats | None = None
    _room: Floats | None = None

    def __init__(self, places: ResourceAmounts, by_name: Mapping[str, int], weights: Sequence[int] = ()) -> None:
        """`by_name` are the amounts in units of the node table; `weights` are for scores."""
        self.names = tuple(by_name)
        self.resources: Resources = places.resources(self.names) if by_name else slice(0, 0)
        self.has_scalars = not by_name.keys() <= _FIRST_CLASS
        """Whether devices may serve one of the resources. Hot: nearly always not, and then a score needs no more look."""
        self.plain = tuple(by_name.values())
        self.weights = weights

    @property
    def column(self) -> Ints:
        if self._column is None:
            self._column = np.array(self.plain, np.int64)[:, None]
        return self._column

    @property
    def floats(self) -> Floats:
        if self._floats is None:
            self._floats = np.array(self.plain, np.float64)[:, None]
        return self._floats

    @property
    def minus_percent(self) -> Floats:
        """The amounts times -100: what the pod changes in `FloatColumns.free_percent`."""
        if self._minus_percent is None:
            self._minus_percent = np.array([amount * -MAX_SCORE for amount in self.plain], np.float64)[:, None]
        return self._minus_percent

    @property
    def room(self) -> Floats:
        """Lower bounds for the lines of `FloatColumns.free` where the pod fits: 1 for the number of pods, then its
        requests."""
        if self._room is None:
            self._room = np.array([1, *self.plain], np.float64)[:, None]
        return self._room


# ---- Extended resources that devices serve, as the scores of resources count them: by devices, on nodes that have
# none of the resource themselves.


Totals = Callable[[str, NDArray[np.intp]], "Ints | None"]
"""The devices for a resource on rows, and those of them that are taken: 2 x rows; None: devices do not serve it."""


def served(context: SchedulingContext, names: Sequence[str]) -> list[int]:
    """The places of the resources that devices may serve. Kept scores that count devices become void when these change
    hands, so the cluster has to follow them."""
    if context.cluster.serving_classes.is_empty or context.state.find(DEVICE_TOTALS) is None:
        return []
    classes = context.cluster.serving_classes
    places = [place for place, name in enumerate(names) if name not in FIRST_CLASS and classes.get(name) is not None]
    if places:
        context.cluster.follow_devices()
    return places


def count_devices_in(
    context: SchedulingContext, names: Sequence[str], rows: Rows, allocatable: Ints, held: Ints
) -> tuple[Ints, Ints]:
    """Allocatable and held amounts, resources x rows, with devices where the node has nothing and devices serve it:

    allocatable [0 4], held [0 1], devices [2 2], taken [1 1]  ->  allocatable [2 4], held [1 1]
    """
    places = served(context, names)
    if not places or allocatable[places].all():
        return allocatable, held
    totals: Totals = context.state.read(DEVICE_TOTALS)
    asked = np.arange(context.nodes.height)[rows]
    allocatable, held = allocatable.copy(), held.copy()
    for place in places:
        found = totals(names[place], asked)
        if found is not None:
            here = (allocatable[place] == 0) & (found[0] > 0)
            allocatable[place, here], held[place, here] = found[0, here], found[1, here]
    return allocatable, held


BLOCK_CELLS = 1 << 20
"""Resources x rows that are judged in one go: 8 MiB of integers, whatever the number of nodes and requests."""

TOO_MANY_PODS = 1
HOPELESS = 2
FIRST_SHORT = 4
"""Bits of a code: full, hopeless, and from here on the resources that are short, in the order in which they are
checked."""
_BITS_OF_BYTE = 5
"""So many resources have a bit each in a signed byte."""

Judge = Callable[[Rows], tuple[Mask, Mask, Mask]]
"""Rows that are full, rows that are hopeless, and what is short there: resources x rows."""


def as_bits(full: Mask, hopeless: Mask, short: Mask) -> Codes:
    """The codes of rows. `short` is resources x rows.

    Hot: in bytes, where they are enough, 5,000 rows take 10 µs instead of 50.

    | full | hopeless | short | code |
    | 1    | 0        | 0 / 0 | 1    |
    | 0    | 1        | 0 / 1 | 10   |
    | 0    | 0        | 1 / 1 | 12   |
    """
    integer = np.int8 if len(short) <= _BITS_OF_BYTE else np.int64
    codes: Codes = full.astype(integer)
    codes |= np.multiply(hopeless, HOPELESS, dtype=integer)
    for place, lacks in enumerate(short):
        codes |= np.multiply(lacks, FIRST_SHORT << place, dtype=integer)
    return codes


class ShortageBook:
    """Gives each combination of shortages that occurs a code; 0 means that nothing is short. Codes are never reused,
    because kept answers hold them."""

    def __init__(self) -> None:
        self._codes: dict[bytes, int] = {}
        self._shortages: list[bytes] = []

    def codes(self, judge: Judge, resources: int, rows: NDArray[np.intp]) -> Codes:
        """The codes of the rows. Few rows are judged at a time, so that memory does not grow with both."""
        codes = np.zeros(len(rows), np.int64)
        step = max(BLOCK_CELLS // resources, 1)
        for begin in range(0, len(rows), step):
            codes[begin : begin + step] = self._encode(*judge(rows[begin : begin + step]))
        return codes

    def read(self, code: int) -> tuple[bool, bool, list[int]]:
        """Whether the node is full, whether it is hopeless, and the places of the resources that are short."""
        bits = np.unpackbits(np.frombuffer(self._shortages[code - 1], np.uint8))
        return bool(bits[0]), bool(bits[1]), np.flatnonzero(bits[2:]).tolist()

    def _encode(self, full: Mask, hopeless: Mask, short: Mask) -> NDArray[np.int64]:
        """Rows as packed bits (full, hopeless, then the resources), and the code of each distinct one."""
        packed = np.packbits(np.vstack((full, hopeless, short)), axis=0).T
        is_short: Mask = packed.max(1) > 0
        return np.array(
            [self._code(row.tobytes()) if there else 0 for row, there in zip(packed, is_short, strict=True)], np.int64
        )

    def _code(self, shortage: bytes) -> int:
        code = self._codes.get(shortage)
        if code is None:
            self._shortages.append(shortage)
            code = self._codes[shortage] = len(self._shortages)
        return code
