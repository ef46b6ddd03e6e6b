"""Whether a difference between two configurations is more than chance: a permutation test, paired by seed.

If the two were alike, each difference could as well have the other sign. So all 2^n choices of signs are equally likely, and
the p-value is the share of them whose sum is at least as far from 0 as the sum that was found:

    p = #{ signs s in {-1, 1}^n : |sum s_i * d_i| >= |sum d_i| } / 2^n

Up to EXACT pairs all choices are counted. With more, SAMPLES choices are drawn, and p = (1 + hits) / (1 + SAMPLES), which is
never below the exact value on average.
"""

from collections.abc import Sequence

import numpy as np

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


def _all_sums(
    given: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
) -> "np.ndarray[tuple[int, ...], np.dtype[np.float64]]":
    """The sums of all choices of signs."""
    sums = np.zeros(1)
    for each in given:
        sums = np.concatenate([sums - each, sums + each])
    return sums
