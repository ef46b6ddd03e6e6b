"""Kernels that hand out volumes: each is known by its rank, and the lowest rank that can be had is taken."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NONE = np.iinfo(np.int64).max
"""In the place of a rank: there is no volume."""


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
