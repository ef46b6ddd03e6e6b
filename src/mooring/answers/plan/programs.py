"""The linear programs behind a plan: a lower bound on the cost, and how many nodes of each offer to begin with.

Variables are the number of nodes of each offer, and how many pods of each kind go to each offer. The nodes of an offer count
as one large node, except that no more pods of a kind go to them than fit on as many empty nodes, and that cuts of
`patterns.py` say how pods of different kinds share a node. Every real placement satisfies that, so the cheapest solution
costs no more than any plan.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from math import ceil, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.demand import PODS, NodeDemand

# ---- HiGHS by way of SciPy, an optional dependency, called so that its answers are the same on every machine.


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


def whole_program(
    cost: Amounts, whole: Amounts, high: Amounts, rows: Any, limits: Any, gap: float, branches: int = MAX_BRANCHES
) -> Any:
    """SciPy's result for the cheapest solution from 0 to `high` with whole numbers where `whole` has 1. `limits` are the
    lowest and the highest values of `rows`. Raises SolverMissing."""
    optimize = _scipy("optimize")
    options = {"time_limit": TIME_LIMIT_S, "mip_rel_gap": gap, "node_limit": branches}
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


GAP = 0.002
"""How far from the best solution of a program is near enough."""
_ROUNDING = 1e-6


@dataclass(slots=True)
class ProgramRows:
    """The rows of a program: each is a sum of columns, by place, that lies between two numbers."""

    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)
    _rows: list[int] = field(default_factory=list)
    _columns: list[int] = field(default_factory=list)

    def add(self, terms: dict[int, float], high: float, low: float = -np.inf) -> None:
        """Add a row."""
        self._values += terms.values()
        self._rows += [len(self.high)] * len(terms)
        self._columns += terms
        self.low.append(low)
        self.high.append(high)

    def matrix(self, width: int) -> Any:
        """The rows as the solver takes them, with so many columns."""
        return sparse(self._values, (self._rows, self._columns), (len(self.high), width))


@dataclass(frozen=True, slots=True)
class Solution:
    """The nodes of a program's solution."""

    nodes: tuple[int, ...]
    unplaced: int
    """How many pods it leaves out, because offers are limited."""
    bound: float
    """No solution that leaves out no more pods costs less."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How tightly a program may pack nodes: a scheduler that spreads pods does not pack as tightly as it could."""

    fill: float = 1.0
    """The share of a node that pods may take."""
    slack: float = 0.0
    """How much of the largest pod's request stays free on each node: what the last pods that come have to find somewhere."""


def solve(
    demand: NodeDemand, counts: Sequence[int], limits: Sequence[int], packing: Packing | None = None
) -> Solution | None:
    """The cheapest nodes for so many pods of each kind. None if the solver finds nothing in its time.

    Raises SolverMissing.
    """
    program = _Program(demand, counts, limits, packing or Packing())
    if not program.kinds:
        return Solution(tuple(0 for _ in limits), 0, 0.0)
    return program.solve()


class _Program:
    """One program in the form that the solver takes."""

    def __init__(self, demand: NodeDemand, counts: Sequence[int], limits: Sequence[int], packing: Packing) -> None:
        self._demand, self._limits, self._packing = demand, limits, packing
        self._counts = counts
        self.kinds = [i for i, kind in enumerate(demand.kinds) if counts[i] and kind.takers]
        self._offers = len(limits)
        self._pairs = [(i, offer) for i in self.kinds for offer in demand.kinds[i].takers]
        self._of_offer: dict[int, list[tuple[int, int]]] = {}
        """By offer: the columns of its pairs, each with the kind."""
        self._of_kind: dict[int, list[tuple[int, int]]] = {}
        """By kind: the columns of its pairs, each with the offer."""
        for place, (i, offer) in enumerate(self._pairs):
            self._of_offer.setdefault(offer, []).append((self._pair(place), i))
            self._of_kind.setdefault(i, []).append((self._pair(place), offer))
        self._rooms = [(i, domain) for i in self.kinds for domain in demand.kinds[i].room]
        self._spreads = [i for i in self.kinds if demand.kinds[i].spread is not None]
        self._size = len(limits) + len(self._pairs) + len(self._rooms) + len(self._spreads) + len(self.kinds)
        self._rows = ProgramRows()

    def solve(self) -> Solution | None:
        cost = self._cost()
        self._place_all()
        self._fit_resources()
        self._fit_kinds()
        self._fit_patterns()
        self._spread_kinds()
        whole = np.zeros(self._size)
        whole[: self._offers] = 1
        high = np.full(self._size, np.inf)
        high[: self._offers] = self._limits
        for place, (i, domain) in enumerate(self._rooms):
            high[self._room(place)] = self._demand.kinds[i].room[domain]
        rows = self._rows
        found = whole_program(cost, whole, high, rows.matrix(self._size), (rows.low, rows.high), GAP)
        return self._solution(found, cost)

    def _solution(self, found: Any, cost: NDArray[np.float64]) -> Solution | None:
        if found.x is None:
            return None
        nodes = tuple(round(each) for each in found.x[: self._offers])
        left_out = found.x[self._size - len(self.kinds) :]
        price = float(cost[: self._offers] @ np.array(nodes, np.float64))
        penalty = float(cost[self._size - len(self.kinds) :] @ left_out)
        best = found.mip_dual_bound
        best = best if best is not None and isfinite(best) else 0.0
        bound = min(max(round(best - penalty, 9), 0.0), price)  # rounded, because the solver computes with floats
        return Solution(nodes, ceil(float(left_out.sum()) - _ROUNDING), bound)

    # ---- columns: nodes of offers, pods on offers, pods on present nodes, lowest counts of spreads, pods left out

    def _pair(self, place: int) -> int:
        return self._offers + place

    def _room(self, place: int) -> int:
        return self._offers + len(self._pairs) + place

    def _left_out(self, place: int) -> int:
        return self._size - len(self.kinds) + place

    def _cost(self) -> NDArray[np.float64]:
        """Prices; nothing for where pods go; and more than any node costs for a pod that is left out."""
        cost = np.zeros(self._size)
        cost[: self._offers] = self._demand.prices
        cost[self._left_out(0) :] = 100.0 * max(self._demand.prices)
        return cost

    # ---- rows

    def _place_all(self) -> None:
        """For each kind: the pods on offers and present nodes, and those left out, are as many as there are."""
        terms: dict[int, dict[int, float]] = {i: {self._left_out(place): 1.0} for place, i in enumerate(self.kinds)}
        for place, (i, _) in enumerate(self._pairs):
            terms[i][self._pair(place)] = 1.0
        for place, (i, _) in enumerate(self._rooms):
            terms[i][self._room(place)] = 1.0
        for i, columns in terms.items():
            self._rows.add(columns, self._counts[i], self._counts[i])

    def _fit_resources(self) -> None:
        """For each offer and resource: what its pods request is at most what its nodes have."""
        for offer, free in enumerate(self._demand.offers):
            for resource, amount in free.items():
                terms = {
                    column: self._demand.kinds[i].requests[resource] / max(amount, 1)
                    for column, i in self._of_offer.get(offer, ())
                    if self._demand.kinds[i].requests.get(resource)
                }
                if terms:
                    slack = self._packing.slack * max(terms.values()) if resource != PODS else 0.0
                    share = max(self._packing.fill - slack, 0.0) if amount > 0 else 0.0
                    self._rows.add({**terms, offer: -share}, 0.0)

    def _fit_kinds(self) -> None:
        """For each kind and offer: at most as many pods as fit on that many empty nodes."""
        for place, (i, offer) in enumerate(self._pairs):
            self._rows.add({self._pair(place): 1.0, offer: -float(self._demand.kinds[i].takers[offer])}, 0.0)

    def _fit_patterns(self) -> None:
        """For each cut: the weight of the pods on an offer is at most what its nodes can hold by patterns."""
        for cut in self._demand.cuts:
            columns = {column: cut.weights[i] for column, i in self._of_offer.get(cut.offer, ()) if i in cut.weights}
            if columns:
                self._rows.add({**columns, cut.offer: -1.0}, 0.0)

    def _spread_kinds(self) -> None:
        """For each kind that is spread: a domain has at least the lowest count, and at most the skew more."""
        for place, i in enumerate(self._spreads):
            spread, lowest = self._demand.kinds[i].spread, self._offers + len(self._pairs) + len(self._rooms) + place
            assert spread is not None, "kinds without a spread are left out"
            domains = dict.fromkeys((*spread.held, *spread.offers.values()))
            pods: dict[str, dict[int, float]] = {domain: {lowest: -1.0} for domain in domains}
            for column, offer in self._of_kind.get(i, ()):
                pods[spread.offers[offer]][column] = 1.0
            for column, (other, domain) in enumerate(self._rooms):
                if other == i and domain in pods:
                    pods[domain][self._room(column)] = 1.0
            for domain, columns in pods.items():
                # A domain without nodes need not have any.
                least = -spread.held[domain] if domain in spread.held else -np.inf
                self._rows.add(columns, spread.most_above_lowest(domain), least)


def lower_bound(demand: NodeDemand, counts: Sequence[int], limits: Sequence[int]) -> float:
    """No nodes that hold so many pods of each kind cost less."""
    solution = solve(demand, counts, limits)
    return 0.0 if solution is None or solution.unplaced else solution.bound
