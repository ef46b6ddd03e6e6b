"""Sums over the pods of a node, in cells that cannot overflow.

A pod's amounts are bounded when they are read (model/quantity.py), so a thousand pods of any size add up without a
thought. The number of pods on a node is not bounded: from there on a cell shows the limit, and the exact sum is kept
aside. So what a pod adds is what it takes away again, to the last unit.
"""

import numpy as np
from numpy.typing import NDArray

MAX_SUM = 1 << 61
"""The largest sum that a cell shows. Three of them fit an int64: pods on a node, pods nominated there, and a request."""

Beyond = dict[tuple[int, int], int]
"""(Resource, row) -> the exact sum, where it is beyond MAX_SUM."""


def add_exactly(matrix: NDArray[np.int64], beyond: Beyond, index: int, row: int, change: int) -> None:
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
