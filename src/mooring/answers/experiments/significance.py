"""How sure a mean over seeds is, and whether a difference between two configurations is more than chance.

The difference is judged by a permutation test, paired by seed.

If the two were alike, each difference could as well have the other sign. So all 2^n choices of signs are equally likely, and
the p-value is the share of them whose sum is at least as far from 0 as the sum that was found:

    p = #{ signs s in {-1, 1}^n : |sum s_i * d_i| >= |sum d_i| } / 2^n

Up to EXACT pairs all choices are counted. With more, SAMPLES choices are drawn, and p = (1 + hits) / (1 + SAMPLES), which is
never below the exact value on average.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % quantile of Student's t-distribution with 1 to 30 degrees of freedom; beyond, 1.96 + 2.4 / degrees is near."""
EXACT = 16
"""65,536 sums take a millisecond."""
SAMPLES = 20_000
_ROUNDING = 1e-9
"""Sums that are equal on paper differ in their last bits."""


def permutation_p(differences: Sequence[float]) -> float:
    """The p-value of the differences of pairs, two-sided. There must be at least one.

    | differences | p                                        |
    | 1, 1, 1     | 2/8: all three up, or all three down     |
    | 1, -1       | 1: every choice is as far from 0         |
    | 0, 0        | 1                                        |
    """
    given = np.asarray(differences, np.float64)
    found = abs(float(given.sum()))
    least = found - _ROUNDING * float(np.abs(given).sum())
    if len(given) <= EXACT:
        return float(np.mean(np.abs(_all_sums(given)) >= least))
    uniform = np.random.Generator(np.random.PCG64(len(given))).random
    hits = sum(
        int(np.count_nonzero(np.abs(np.where(uniform((1000, len(given))) < 0.5, -given, given).sum(axis=1)) >= least))
        for _ in range(SAMPLES // 1000)
    )
    return (1 + hits) / (1 + SAMPLES)


def confidence_half(values: Sequence[float]) -> float:
    """Half of the width of the 95 % confidence interval of the mean: t * s / sqrt(n); 0 for fewer than two values."""
    count = len(values)
    if count < 2:
        return 0.0
    t = _T_95[count - 2] if count - 1 <= len(_T_95) else 1.96 + 2.4 / (count - 1)
    return float(t * np.std(np.asarray(values, np.float64), ddof=1) / np.sqrt(count))


def _all_sums(given: Floats) -> Floats:
    """The sums of all choices of signs."""
    sums = np.zeros(1)
    for each in given:
        sums = np.concatenate([sums - each, sums + each])
    return sums
