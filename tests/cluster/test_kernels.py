"""Each kernel against a plain loop over exact numbers, and against the examples that upstream's behaviour is known by."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.cluster.columns.kernels import (
    along_shape,
    balance,
    least_allocated,
    most_allocated,
    round_half_away,
    rounded_mean,
    scale_to_max,
    weighted_mean,
)
from mooring.cluster.tallies.tally import sum_by_code

Points = list[tuple[int, int]]
Matrix = list[list[int]]
"""Rows of the table, each with a number for every resource."""

GI = 1 << 30
AMOUNT = st.one_of(st.integers(0, 1 << 50), st.integers(0, 10), st.sampled_from((0, 100, 4000, 8 * GI, 1 << 50)))
"""What a node has or a pod wants: milli-CPU, bytes up to a pebibyte, a handful of devices."""


def ints(numbers: Any) -> Any:
    return np.array(numbers, np.int64)


def by_resource(rows: Sequence[Sequence[Any]], dtype: Any = np.int64) -> Any:
    """The form that kernels take: resources x rows."""
    return np.array(rows, dtype).T


# ---- the twins: one row, plain numbers


def least_twin(allocatable: int, wanted: int) -> int:
    if allocatable == 0 or wanted > allocatable:
        return 0
    return (allocatable - wanted) * 100 // allocatable


def most_twin(allocatable: int, wanted: int) -> int:
    return min(wanted, allocatable) * 100 // allocatable if allocatable else 0


def shape_twin(usage: int, points: Points) -> int:
    """Upstream's walk: the first point that the usage does not exceed ends the search."""
    for i, (end, score) in enumerate(points):
        if usage <= end:
            if i == 0:
                return score
            start, before = points[i - 1]
            return before + int(Fraction((score - before) * (usage - start), end - start))  # int() truncates toward 0
    return points[-1][1]


def mean_twin(scores: Sequence[int], counted: Sequence[bool], weights: Sequence[int]) -> int:
    total = weight = 0
    for score, counts, w in zip(scores, counted, weights, strict=True):
        if counts:
            total, weight = total + score * w, weight + w
    return total // weight if weight else 0


def rounded_mean_twin(scores: Sequence[int], counted: Sequence[bool], weights: Sequence[int]) -> int:
    kept = [(s, w) for s, counts, w in zip(scores, counted, weights, strict=True) if counts and s > 0]
    if not kept:
        return 0
    return math.floor(Fraction(sum(s * w for s, w in kept), sum(w for _, w in kept)) + Fraction(1, 2))


def balance_twin(amounts: Sequence[int], allocatable: Sequence[int]) -> int:
    shares = [min(amount / all_, 1.0) for amount, all_ in zip(amounts, allocatable, strict=True) if all_]
    if len(shares) < 2:
        deviation = 0.0
    elif len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    else:
        mean = squares = 0.0
        for share in shares:
            mean += share
        mean /= len(shares)
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * 100)


def scale_twin(scores: Sequence[int], reverse: bool) -> list[int]:
    highest = max([0, *scores])
    if highest == 0:
        return [100 if reverse else 0 for _ in scores]
    scaled = [100 * score // highest for score in scores]
    return [100 - score for score in scaled] if reverse else scaled


# ---- shares


@given(st.lists(st.tuples(AMOUNT, AMOUNT), max_size=20))
def test_least_allocated_is_the_loop(rows: list[tuple[int, int]]) -> None:
    allocatable, wanted = (ints([row[i] for row in rows]) for i in (0, 1))
    assert least_allocated(allocatable, wanted).tolist() == [least_twin(*row) for row in rows]


@given(st.lists(st.tuples(AMOUNT, AMOUNT), max_size=20))
def test_most_allocated_is_the_loop(rows: list[tuple[int, int]]) -> None:
    allocatable, wanted = (ints([row[i] for row in rows]) for i in (0, 1))
    assert most_allocated(allocatable, wanted).tolist() == [most_twin(*row) for row in rows]


SHARES = {
    "part of the node": (4000, 1500, 62, 37),
    "more than there is": (4000, 5000, 0, 100),
    "all there is": (4000, 4000, 0, 100),
    "nothing wanted": (4000, 0, 100, 0),
    "nothing there": (0, 5, 0, 0),
    "nothing there, nothing wanted": (0, 0, 0, 0),
    "memory of the worked example": (8 * GI, 3 * GI, 62, 37),
    "a pod without requests on an empty node, cpu": (4000, 100, 97, 2),
    "a pod without requests on an empty node, memory": (8 * GI, 200 << 20, 97, 2),
    "a pebibyte in use but for one byte": (1 << 50, (1 << 50) - 1, 0, 99),
}


@pytest.mark.parametrize(("allocatable", "wanted", "least", "most"), SHARES.values(), ids=SHARES.keys())
def test_shares(allocatable: int, wanted: int, least: int, most: int) -> None:
    assert least_allocated(ints([allocatable]), ints([wanted])).tolist() == [least]
    assert most_allocated(ints([allocatable]), ints([wanted])).tolist() == [most]


def test_shares_of_a_matrix_keep_its_form() -> None:
    allocatable, wanted = ints([[4000, 0], [8 * GI, GI]]), ints([[1500, 1], [3 * GI, GI]])
    assert least_allocated(allocatable, wanted).tolist() == [[62, 0], [62, 0]]
    assert most_allocated(allocatable, wanted).tolist() == [[37, 0], [37, 100]]


# ---- shapes


@st.composite
def shapes(draw: st.DrawFn) -> Points:
    usages = sorted(draw(st.sets(st.integers(0, 100), min_size=1, max_size=6)))
    return [(usage, 10 * draw(st.integers(0, 10))) for usage in usages]


@given(shapes())
@example([(0, 100), (70, 70)])
@example([(50, 30)])
def test_every_usage_along_a_shape_is_the_loop(points: Points) -> None:
    assert along_shape(ints(range(101)), points).tolist() == [shape_twin(usage, points) for usage in range(101)]


FALLING: Points = [(0, 100), (70, 70)]
ALONG: dict[str, tuple[Points, int, int]] = {
    "rising": ([(0, 0), (100, 100)], 37, 37),
    "falling": ([(0, 100), (100, 0)], 37, 63),
    "falling, truncated toward zero and not down": (FALLING, 33, 86),
    "level after the last point": (FALLING, 90, 70),
    "at the last point": (FALLING, 70, 70),
    "level before the first point": ([(20, 40), (60, 80)], 5, 40),
    "at the first point": ([(20, 40), (60, 80)], 20, 40),
    "a single point is level everywhere": ([(50, 30)], 100, 30),
}


@pytest.mark.parametrize(("points", "usage", "score"), ALONG.values(), ids=ALONG.keys())
def test_along_a_shape(points: Points, usage: int, score: int) -> None:
    assert along_shape(ints([usage]), points).tolist() == [score]


# ---- means


@st.composite
def score_rows(draw: st.DrawFn) -> tuple[Matrix, list[list[bool]], list[int]]:
    """Scores and whether they count, by row and resource; weights by resource."""
    resources = draw(st.integers(1, 5))
    rows = draw(st.integers(0, 6))
    several = st.lists(st.integers(0, 100), min_size=resources, max_size=resources)
    marks = st.lists(st.booleans(), min_size=resources, max_size=resources)
    weights = draw(st.lists(st.integers(1, 100), min_size=resources, max_size=resources))
    scores, counted = [draw(several) for _ in range(rows)], [draw(marks) for _ in range(rows)]
    return scores or [[0] * resources], counted or [[False] * resources], weights


@given(score_rows())
def test_weighted_mean_is_the_loop(drawn: tuple[Matrix, list[list[bool]], list[int]]) -> None:
    scores, counted, weights = drawn
    found = weighted_mean(by_resource(scores), by_resource(counted, np.bool_), ints(weights))
    assert found.tolist() == [mean_twin(s, c, weights) for s, c in zip(scores, counted, strict=True)]


@given(score_rows())
def test_rounded_mean_is_the_loop(drawn: tuple[Matrix, list[list[bool]], list[int]]) -> None:
    scores, counted, weights = drawn
    found = rounded_mean(by_resource(scores), by_resource(counted, np.bool_), ints(weights))
    assert found.tolist() == [rounded_mean_twin(s, c, weights) for s, c in zip(scores, counted, strict=True)]


MEANS = {
    "weights 3 to 1": ((50, 20), (1, 1), (3, 1), 42, 43),
    "what does not count has no weight": ((50, 20), (0, 1), (3, 1), 20, 20),
    "nothing counts": ((50, 20), (0, 0), (3, 1), 0, 0),
    "a half": ((48, 49), (1, 1), (1, 1), 48, 49),
    "a score of 0": ((0, 80), (1, 1), (1, 1), 40, 80),
    "nothing but scores of 0": ((0, 0), (1, 1), (1, 1), 0, 0),
}


@pytest.mark.parametrize(("scores", "counted", "weights", "mean", "rounded"), MEANS.values(), ids=MEANS.keys())
def test_means(scores: Any, counted: Any, weights: Any, mean: int, rounded: int) -> None:
    matrix, mask = by_resource([scores]), by_resource([counted], np.bool_)
    assert weighted_mean(matrix, mask, ints(weights)).tolist() == [mean]
    assert rounded_mean(matrix, mask, ints(weights)).tolist() == [rounded]


# ---- balance


@st.composite
def resource_rows(draw: st.DrawFn) -> tuple[Matrix, Matrix]:
    """Amounts and allocatable, by row and resource."""
    resources = draw(st.integers(1, 5))
    several = st.lists(AMOUNT, min_size=resources, max_size=resources)
    rows = draw(st.lists(st.tuples(several, several), min_size=1, max_size=6))
    return [row[0] for row in rows], [row[1] for row in rows]


@given(resource_rows())
def test_balance_is_the_loop(drawn: tuple[Matrix, Matrix]) -> None:
    amounts, allocatable = drawn
    found = balance(by_resource(amounts), by_resource(allocatable), by_resource(allocatable) != 0)
    assert found.tolist() == [balance_twin(a, b) for a, b in zip(amounts, allocatable, strict=True)]


BALANCES = {
    "a half and a quarter": ((2000, 2 * GI), (4000, 8 * GI), 87),
    "the same share": ((1000, 2 * GI), (4000, 8 * GI), 100),
    "a half and nothing": ((2000, 0), (4000, 8 * GI), 75),
    "three resources": ((200, 400, 600), (1000, 1000, 1000), 83),
    "more than there is counts as all of it": ((2000, 9 * GI), (4000, 8 * GI), 75),
    "one of two is not there": ((2000, 5), (4000, 0), 100),
    "one of three is not there": ((200, 5, 600), (1000, 0, 1000), 80),
    "nothing is there": ((5, 5), (0, 0), 100),
    "a single resource": ((5,), (10,), 100),
}


@pytest.mark.parametrize(("amounts", "allocatable", "even"), BALANCES.values(), ids=BALANCES.keys())
def test_balance(amounts: Any, allocatable: Any, even: int) -> None:
    columns = by_resource([allocatable])
    assert balance(by_resource([amounts]), columns, columns != 0).tolist() == [even]


# ---- normalising and rounding


@given(st.lists(st.integers(0, 1 << 40), max_size=20), st.booleans())
def test_scale_to_max_is_the_loop(scores: list[int], reverse: bool) -> None:
    assert scale_to_max(ints(scores), reverse).tolist() == scale_twin(scores, reverse)


SCALED = {
    "taints": ([0, 1, 3], [0, 33, 100], [100, 67, 0]),
    "node affinity": ([0, 5, 30], [0, 16, 100], [100, 84, 0]),
    "all alike": ([7, 7], [100, 100], [0, 0]),
    "two apart": ([0, 2], [0, 100], [100, 0]),
    "the smallest is not subtracted": ([50, 100], [50, 100], [50, 0]),
    "all 0": ([0, 0, 0], [0, 0, 0], [100, 100, 100]),
    "no nodes": ([], [], []),
}


@pytest.mark.parametrize(("scores", "plain", "reverse"), SCALED.values(), ids=SCALED.keys())
def test_scale_to_max(scores: list[int], plain: list[int], reverse: list[int]) -> None:
    assert scale_to_max(ints(scores)).tolist() == plain
    assert scale_to_max(ints(scores), reverse=True).tolist() == reverse


def half_away_twin(value: float) -> int:
    exact = Fraction(value)
    away = math.floor(abs(exact) + Fraction(1, 2))
    return away if exact >= 0 else -away


@given(st.lists(st.floats(-(2.0**50), 2.0**50), max_size=20))
@example([0.49999999999999994, -0.49999999999999994])
@example([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.0, -0.0])
def test_rounding_is_exact_and_goes_away_from_zero(values: list[float]) -> None:
    assert round_half_away(np.array(values, np.float64)).tolist() == [half_away_twin(value) for value in values]


# ---- sums by code


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1 << 40)), max_size=30))
def test_sums_by_code_are_the_loop(rows: list[tuple[int, int]]) -> None:
    expected = [0] * 7
    for code, count in rows:
        expected[code] += count if code else 0
    codes, counts = np.array([c for c, _ in rows], np.int32), ints([n for _, n in rows])
    assert sum_by_code(codes, counts, 7).tolist() == expected


def test_rows_without_the_label_sum_to_nothing() -> None:
    assert sum_by_code(np.array([1, 2, 1, 0], np.int32), ints([3, 1, 2, 9]), 4).tolist() == [0, 5, 1, 0]
