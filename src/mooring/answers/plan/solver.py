"""HiGHS by way of SciPy, an optional dependency, called so that its answers are the same on every machine."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.float64]

MAX_BRANCHES = 400
"""How many nodes of its search tree HiGHS visits for one program. A bound by time would give other plans on other machines.
Programs over 20 offers and 60 kinds of pods need some dozens."""
TIME_LIMIT_S = 20.0
"""A net for programs that no test has seen: it is not reached otherwise."""


class SolverMissing(RuntimeError):
    """SciPy is not installed."""

    def __init__(self) -> None:
        super().__init__("mooring plan needs SciPy: pip install 'mooring[plan]'")


def whole_program(cost: Amounts, whole: Amounts, high: Amounts, rows: Any, limits: Any, gap: float) -> Any:
    """SciPy's result for the cheapest solution from 0 to `high` with whole numbers where `whole` has 1. `limits` are the
    lowest and the highest values of `rows`. Raises SolverMissing."""
    optimize = _scipy("optimize")
    options = {"time_limit": TIME_LIMIT_S, "mip_rel_gap": gap, "node_limit": MAX_BRANCHES}
    with _silent():
        return optimize.milp(
            cost,
            integrality=whole,
            bounds=optimize.Bounds(0, high),
            constraints=optimize.LinearConstraint(rows, *limits),
            options=options,
        )


def linear_program(cost: Amounts, rows: Any, most: Amounts, high: Amounts) -> Any:
    """SciPy's result, with duals, for the cheapest solution from 0 to `high` whose rows are at most `most`."""
    bounds = np.stack([np.zeros(len(high)), high], axis=1)
    with _silent():
        return _scipy("optimize").linprog(cost, A_ub=rows, b_ub=most, bounds=bounds, method="highs")


def sparse(values: Sequence[float], places: tuple[Sequence[int], Sequence[int]], shape: tuple[int, int]) -> Any:
    """A matrix with these values at these rows and columns."""
    return _scipy("sparse").csr_matrix((values, places), shape=shape)


@contextmanager
def _silent() -> Iterator[None]:
    """HiGHS writes some messages directly to the standard output of the process, where programs read the answer."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # the process has no standard output
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _scipy(name: str) -> Any:
    try:
        return import_module(f"scipy.{name}")
    except ImportError as error:
        raise SolverMissing from error
