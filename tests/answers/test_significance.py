"""How sure means and differences are: against counting by hand, and against SciPy."""

import itertools
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from mooring.answers.study.study_answer import EXACT, confidence_half, permutation_p

CASES = [[1, 1, 1], [1, -1], [0, 0], [3, 1, 2, 0.5, -0.2], [0.1, 0.2, -0.3, 0.4, 0.5, 0.6], [-5]]


@pytest.mark.parametrize("differences", CASES, ids=str)
def test_all_signs_are_counted(differences: list[float]) -> None:
    found = abs(sum(differences))
    sums = [
        abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    assert permutation_p(differences) == sum(each >= found - 1e-9 for each in sums) / len(sums)


def test_scipy_agrees() -> None:
    stats: Any = import_module("scipy.stats")
    draw = np.random.default_rng(3)
    for count in (4, 8, 30):
        differences = draw.normal(0.4, 1, count)
        other = stats.permutation_test(
            (differences,), np.sum, permutation_type="samples", n_resamples=50_000, rng=np.random.default_rng(1)
        )
        is_exact = count <= EXACT
        assert permutation_p([*differences]) == pytest.approx(other.pvalue, abs=1e-9 if is_exact else 0.01)
        interval = stats.t.interval(0.95, count - 1, differences.mean(), stats.sem(differences))
        assert confidence_half([*differences]) == pytest.approx((interval[1] - interval[0]) / 2, rel=1e-3)
    long = draw.normal(0, 1, 200)
    interval = stats.t.interval(0.95, 199, long.mean(), stats.sem(long))
    assert confidence_half([*long]) == pytest.approx((interval[1] - interval[0]) / 2, rel=1e-3)


def test_one_value_has_no_interval() -> None:
    assert confidence_half([3.0]) == 0.0 and confidence_half([]) == 0.0
