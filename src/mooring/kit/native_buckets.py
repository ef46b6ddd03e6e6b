"""Native buckets of a histogram: exponential ones that exist where something was observed, as Prometheus defines them.

With schema s, bucket k holds the values above 2**((k-1) / 2**s) and up to 2**(k / 2**s). Factor, limit and the rule for too
many buckets are those of kube-scheduler.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SCHEMA = 3
"""A bucket is at most 1.1 times as wide as the one before: 2**(1/8) = 1.09."""
MAX_BUCKETS = 160
ZERO_THRESHOLD = 2.0**-128
"""Values up to here, of either sign, are in the zero bucket."""
_MIN_SCHEMA = -4
_BOUNDS = np.exp2(np.arange(8) / 8 - 1) - np.array([0, 0, 0, 0, 1, 0, 1, 1]) * 2.0**-53
"""Upper bounds of the buckets from 0.5 to 1, with SCHEMA. Parity: the last digit of three of them is that of Go's client."""
_SLOT_BITS = 46
"""Numbers that agree in all but this many bits are in one slot: 64 slots for each power of 2, so that none has two bounds."""
_SLOTS = np.arange(1023 - 30, 1023 + 34)[:, None] * 64 + np.arange(64)
"""The slots of durations: from 2**-30 seconds, less than a nanosecond, to 2**34, more than 64 bits of nanoseconds."""
_MAX_GAP = 2
"""So many empty buckets in a row are written out; more begin a new span."""

Span = tuple[int, int]
"""Distance from the end of the last span (of the first one: its first bucket), and number of buckets."""


def _buckets_of(sizes: NDArray[np.float64]) -> NDArray[np.int64]:
    """The buckets of positive numbers, with SCHEMA."""
    fraction, exponent = np.frexp(sizes)
    found: NDArray[np.int64] = np.searchsorted(_BOUNDS, fraction) + (exponent.astype(np.int64) - 1) * len(_BOUNDS)
    return found


_FIRST_SLOT = int(_SLOTS[0, 0]) - 1
_LOWEST = _buckets_of((_SLOTS.ravel() << _SLOT_BITS).view(np.float64))
"""By slot: the bucket of its lowest number."""
_FIRST_BUCKET = int(_LOWEST[0])
_DURATION_BUCKETS = int(_LOWEST[-1]) - _FIRST_BUCKET + 3
_SLOT_BUCKETS = np.concatenate(([0], _LOWEST - _FIRST_BUCKET + 1))
"""By slot, the one of 0 first: 0 for the zero bucket, else the place of the bucket of its lowest number."""
_UPPER = np.ldexp(_BOUNDS[_LOWEST % len(_BOUNDS)], _LOWEST // len(_BOUNDS) + 1)
_SLOT_BOUNDS = np.concatenate(([np.iinfo(np.int64).max], _UPPER.view(np.int64)))
"""By slot: the bits of the upper bound of that bucket. Larger numbers of the slot are in the next one."""


class NativeBuckets:
    """The counts of values by bucket. When there are more than MAX_BUCKETS, each two neighbours become one."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.schema = SCHEMA
        self.zero_count = 0
        self.positive: dict[int, int] = {}
        self.negative: dict[int, int] = {}
        self._durations: NDArray[np.int64] | None = None

    def add_durations(self, taken_s: NDArray[np.float64]) -> None:
        """Count whole nanoseconds in seconds, none of them negative; `settle` puts them into buckets.

        Hot: a table has the bucket of the first bits of a number, and the one bound that numbers with these bits can have: 20
        ns a value instead of 200.
        """
        bits = taken_s.view(np.int64)
        slots = np.maximum((bits >> _SLOT_BITS) - _FIRST_SLOT, 0)  # 0 has its own, below all others
        buckets = _SLOT_BUCKETS[slots] + (bits > _SLOT_BOUNDS[slots])
        found = np.bincount(buckets, minlength=_DURATION_BUCKETS)
        self._durations = found if self._durations is None else self._durations + found

    def settle(self) -> None:
        """Put durations into the buckets."""
        if self._durations is None:
            return
        counted, self._durations = self._durations, None
        self.zero_count += int(counted[0])
        for place in np.flatnonzero(counted[1:]).tolist():
            bucket = -(-(_FIRST_BUCKET + place) >> (SCHEMA - self.schema))
            self.positive[bucket] = self.positive.get(bucket, 0) + int(counted[1 + place])
        self._keep_within_limit()

    def add(self, values: NDArray[np.float64]) -> None:
        """Count values. One that is not a number is in no bucket."""
        sizes = np.abs(values)
        self.zero_count += int(np.count_nonzero(sizes <= ZERO_THRESHOLD))
        self._add(self.positive, sizes[values > ZERO_THRESHOLD])
        self._add(self.negative, sizes[values < -ZERO_THRESHOLD])
        self._keep_within_limit()

    def _keep_within_limit(self) -> None:
        while len(self.positive) + len(self.negative) > MAX_BUCKETS and self.schema > _MIN_SCHEMA:
            self.schema -= 1
            self.positive, self.negative = _merged(self.positive), _merged(self.negative)

    def _add(self, counts: dict[int, int], sizes: NDArray[np.float64]) -> None:
        if not len(sizes):
            return
        buckets = _buckets_of(np.minimum(sizes, np.finfo(np.float64).max)) + np.isinf(sizes)
        buckets = -(-buckets >> (SCHEMA - self.schema))
        first = int(buckets.min())
        found = np.bincount(buckets - first)  # at most 2,098 * 8 buckets: from the smallest to the largest number
        for place in np.flatnonzero(found).tolist():
            counts[first + place] = counts.get(first + place, 0) + int(found[place])


def _merged(counts: dict[int, int]) -> dict[int, int]:
    merged: dict[int, int] = {}
    for bucket, count in counts.items():
        half = -(-bucket >> 1)
        merged[half] = merged.get(half, 0) + count
    return merged


def spans_of(counts: dict[int, int]) -> tuple[list[Span], list[int]]:
    """The spans of buckets, and the difference of each count from the one before it.

    {1: 2, 2: 3, 4: 1, 9: 1}  ->  [(1, 4), (4, 1)], [2, 1, -3, 1, 0]
    """
    spans: list[Span] = []
    deltas: list[int] = []
    following = before = 0
    for bucket, count in _filled(counts):
        if spans and bucket == following:
            spans[-1] = spans[-1][0], spans[-1][1] + 1
        else:
            spans.append((bucket - following, 1))
        deltas.append(count - before)
        following, before = bucket + 1, count
    return spans, deltas


def _filled(counts: dict[int, int]) -> Iterator[tuple[int, int]]:
    """The buckets in order, with the empty ones in small gaps."""
    last: int | None = None
    for bucket in sorted(counts):
        if last is not None and bucket - last - 1 <= _MAX_GAP:
            yield from ((empty, 0) for empty in range(last + 1, bucket))
        yield bucket, counts[bucket]
        last = bucket
