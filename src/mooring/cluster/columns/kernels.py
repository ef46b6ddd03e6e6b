"""Column kernels of resources and scores: arrays in, array out, integers where upstream uses integers."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Integers = NDArray[np.signedinteger[Any]]
"""Array of signed integers of any size."""
SmallInts = NDArray[np.int16]
"""Scores, and sums of a few of them. Hot: NumPy turns floats into these three times as fast as into 64-bit integers, and
what is kept for a shape has their size, so that nothing is converted on the way."""
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MAX_SCORE = 100
"""Upstream's MaxNodeScore: what a Score plugin gives at most, after normalising."""

_ALMOST_HALF = 0.49999999999999994
"""The number before 0.5: adding 0.5 itself would carry this very number, and whole ones beyond 2^52, up to the next."""


def least_allocated(allocatable: Ints, wanted: Ints) -> Ints:
    """The share that stays free, in percent; 0 where more is wanted than there is.

    | allocatable | wanted | score |
    | 4000        | 1500   | 62    |
    | 4000        | 5000   | 0     |
    """
    free: Ints = np.maximum(allocatable - wanted, 0)
    return free * MAX_SCORE // np.maximum(allocatable, 1)


def most_allocated(allocatable: Ints, wanted: Ints) -> Ints:
    """The share in use, in percent, at most 100.

    | allocatable | wanted | score |
    | 4000        | 1500   | 37    |
    | 4000        | 5000   | 100   |
    """
    return np.minimum(wanted, allocatable) * MAX_SCORE // np.maximum(allocatable, 1)


def along_shape(usage: Ints, points: Sequence[tuple[int, int]]) -> Ints:
    """Scores on a line through (utilization, score) points; before the first and after the last it is level.

    Division truncates toward zero, as in Go.

    | points          | usage | score |
    | (0,100) (70,70) | 33    | 86    |
    """
    result = np.full(usage.shape, points[0][1], np.int64)
    for (ua, sa), (ub, sb) in pairwise(points):
        rise = (sb - sa) * (usage - ua)
        result = np.where(usage > ua, sa + np.sign(rise) * (np.abs(rise) // (ub - ua)), result)
    last_usage, last_score = points[-1]
    return np.where(usage > last_usage, last_score, result)


def weighted_mean(scores: Ints, counted: Mask, weights: Ints) -> Ints:
    """The mean over the resources (first axis) that count on each row, rounded down; 0 where none does.

    | scores  | counted | weights | mean |
    | 50 / 20 | 1 / 1   | 3 / 1   | 42   |
    | 50 / 20 | 0 / 1   | 3 / 1   | 20   |
    """
    weight = counted * weights[:, None]
    mean: Ints = (scores * weight).sum(0) // np.maximum(weight.sum(0), 1)
    return mean


def even_mean(scores: SmallInts, weights: Sequence[int]) -> Integers:
    """`weighted_mean` where all resources count on all rows."""
    if len(scores) == 2 and weights[0] == weights[1]:
        both: SmallInts = scores[0] + scores[1]
        both >>= 1
        return both
    column = np.array(weights, np.int64)[:, None]
    mean: Ints = (scores * column).sum(0) // column.sum()
    return mean


def rounded_mean(scores: Ints, counted: Mask, weights: Ints) -> Ints:
    """The mean over the resources that count and score above 0, rounded half up; 0 where none does.

    | scores  | counted | weights | mean |
    | 48 / 49 | 1 / 1   | 1 / 1   | 49   |
    | 0 / 80  | 1 / 1   | 1 / 1   | 80   |
    """
    weight = (counted & (scores > 0)) * weights[:, None]
    mean: Floats = (scores * weight).sum(0) / np.maximum(weight.sum(0), 1)
    return np.floor(mean + 0.5).astype(np.int64)


def balance(amounts: Ints, allocatable: Ints, counted: Mask) -> Ints:
    """How even the use of resources (first axis) is: 100 minus the standard deviation of the shares, in percent.

    | shares     | balance |
    | .5 .25     | 87      |
    | .2 .4 .6   | 83      |
    """
    shares = np.minimum(amounts / np.maximum(allocatable, 1), 1.0)
    if len(shares) == 2:
        deviation: Floats = np.abs((shares[0] - shares[1]) / 2) * (counted[0] & counted[1])
    else:
        deviation = _deviation(shares, counted)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _deviation(shares: Floats, counted: Mask) -> Floats:
    """Population standard deviation over what is counted on each row; for exactly two the shorter formula.

    Sums run resource by resource, in the order given: the last bit depends on it.
    """
    number = counted.sum(0)
    divisor = np.maximum(number, 1)
    mean, squares, apart = np.zeros(len(number)), np.zeros(len(number)), np.zeros(len(number))
    for share, counts in zip(shares, counted, strict=True):
        mean += share * counts
    mean /= divisor
    seen = np.zeros(len(number), np.int64)
    for share, counts in zip(shares, counted, strict=True):
        squares += np.where(counts, (share - mean) * (share - mean), 0.0)
        apart += np.where(counts, np.where(seen == 0, share, -share), 0.0)
        seen += counts
    return np.where(number == 2, np.abs(apart / 2), np.where(number < 2, 0.0, np.sqrt(squares / divisor)))


def _level(value: float, length: int) -> Floats:
    """A column with the same number everywhere. Hot: NumPy compares with a column twice as fast as with a single number."""
    return _filled(value, 1 << length.bit_length())[:length]


@lru_cache(maxsize=32)
def _filled(value: float, length: int) -> Floats:
    column = np.full(length, value)
    column.flags.writeable = False
    return column


def least_allocated_of_floats(free_percent: Floats, allocatable: Floats, *, fits: bool = False) -> SmallInts:
    """`least_allocated` of what stays free, times 100, where floats are as good as integers (float_columns.py).

    Writes to `free_percent`. `fits`: nothing in it is negative, which saves a step.

    | free times 100 | allocatable | score |
    | 250000         | 4000        | 62    |
    | -100000        | 4000        | 0     |
    """
    free_percent /= allocatable
    if not fits:
        np.maximum(free_percent, _level(0.0, free_percent.shape[-1]), out=free_percent)
    return free_percent.astype(np.int16)


def balance_of_floats(shares: Floats, *, fits: bool = False) -> SmallInts:
    """`balance` of two shares that both count. Writes to `shares`. `fits`: none is above 1, which saves a step.

    The steps are upstream's, one by one: the last bit depends on their order. Only halves are left out and made up for in the
    end: (1 - x / 2) * 100 is (2 - x) * 50 to the last bit, because halving rounds nothing.
    """
    if not fits:
        np.minimum(shares, _level(1.0, shares.shape[-1]), out=shares)
    apart: Floats = shares[0]
    apart -= shares[1]
    np.abs(apart, out=apart)
    np.subtract(2, apart, out=apart)
    apart *= MAX_SCORE / 2
    return apart.astype(np.int16)


def balance_of_two(amounts: Sequence[int], allocatable: Sequence[float]) -> int:
    """`balance` for one row and two resources, in plain numbers."""
    if not allocatable[0] or not allocatable[1]:
        return MAX_SCORE
    one = min(amounts[0] / allocatable[0], 1.0)
    other = min(amounts[1] / allocatable[1], 1.0)
    return int((1 - abs((one - other) / 2)) * MAX_SCORE)


_SMALL_WEIGHT = 1 << 20
"""Up to this weight a hundred plugins' scores of 100 add up within 32 bits."""


def weigh(scores: Integers, weight: int, total_type: type[np.signedinteger[Any]] | None = None) -> Integers:
    """Scores times their weight, in integers that sums of many such columns fit into, whatever the scores come in.

    `total_type`: the integers that the sum in question is known to fit into.
    """
    if total_type is not None:
        if weight == 1:
            return scores if scores.dtype == total_type else scores.astype(total_type)
        weighed: Integers = np.multiply(scores, weight, dtype=total_type)
        return weighed
    if weight == 1:
        return scores if scores.itemsize >= 4 else scores.astype(np.int32)
    weighted: Integers = np.multiply(scores, weight, dtype=np.int32 if abs(weight) <= _SMALL_WEIGHT else np.int64)
    return weighted


def scale_to_max(scores: Ints, reverse: bool = False) -> Ints:
    """Upstream's default normalisation: the largest score becomes 100, the smallest is not subtracted.

    | scores | plain   | reverse  |
    | 0 1 3  | 0 33 100 | 100 67 0 |
    | 0 0 0  | 0 0 0   | 100 100 100 |
    """
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full(len(scores), MAX_SCORE if reverse else 0, np.int64)
    scaled = scores * MAX_SCORE // highest
    return MAX_SCORE - scaled if reverse else scaled


def round_half_away(values: Floats) -> Ints:
    """To the nearest integer, halves away from zero (Go's math.Round)."""
    return np.trunc(values + np.copysign(_ALMOST_HALF, values)).astype(np.int64)
