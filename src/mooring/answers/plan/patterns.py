"""Which pods can stand together on one node of each offer: the configuration program behind the lower bound and the steps.

A pattern is a number of pods of each kind that one node of an offer can hold, as far as sums of requests go. The program
chooses how many nodes have which pattern. There are too many patterns to list, so they are generated: the duals of the
program say what a pod of each kind is worth, and a knapsack for each offer finds the pattern of most worth. The knapsack also
gives a cut: no node of the offer holds pods of more worth. A cut holds whether or not the duals are the best ones, so the
bound is valid wherever the generation stops.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Self

import numpy as np

from mooring.answers.plan.demand import NodeDemand, PatternCut
from mooring.answers.plan.programs import Amounts, ProgramRows, linear_program, whole_program

# ---- The pods of most worth that one node of an offer can hold: a knapsack with limits for each resource and kind of
# pod.


KNAPSACK_GAP = 1e-4
"""How far from the best a solution may be, as a share. The bound counts what is missing."""
_LEAST = 1e-9
_ROUNDING = 1e-7


@dataclass(frozen=True, slots=True)
class Knapsack:
    """The room of an offer's node. Two knapsacks that compare equal have the same solution."""

    offer: int = field(compare=False)
    price: float = field(compare=False)
    """The worth from which on a pattern pays."""
    kinds: tuple[int, ...]
    """The kinds of pods that are worth something here."""
    worths: tuple[float, ...]
    most: tuple[int, ...]
    """By kind: how many pods at most."""
    shares: tuple[tuple[float, ...], ...]
    """By resource and kind: the share of the node that a pod takes."""

    @classmethod
    def of(cls, demand: NodeDemand, counts: Sequence[int], offer: int, price: float, worths: dict[int, float]) -> Self:
        """The knapsack of the offer if a pod of each kind is worth so much."""
        kinds = tuple(i for i, worth in worths.items() if worth > _LEAST and offer in demand.kinds[i].takers)
        most = tuple(min(demand.kinds[i].takers[offer], counts[i]) for i in kinds)
        shares = []
        for resource, free in demand.offers[offer].items():
            requested = [demand.kinds[i].requests.get(resource, 0) for i in kinds]
            if any(requested):
                shares.append(tuple(amount / max(free, 1) for amount in requested))
        return cls(offer, price, kinds, tuple(worths[i] for i in kinds), most, tuple(shares))


def most_worth(knapsack: Knapsack) -> tuple[dict[int, int], float]:
    """The pods of most worth, by kind, and a worth that no pods of one node exceed. Raises SolverMissing."""
    if not knapsack.kinds:
        return {}, 0.0
    worths = np.array(knapsack.worths)
    whole = np.ones(len(worths))
    limits = -np.inf, np.ones(len(knapsack.shares))
    found = whole_program(
        -worths, whole, np.array(knapsack.most, np.float64), np.array(knapsack.shares), limits, KNAPSACK_GAP
    )
    bound = sum(worth * most for worth, most in zip(knapsack.worths, knapsack.most, strict=True))
    if found.mip_dual_bound is not None and np.isfinite(found.mip_dual_bound):
        bound = min(bound, -float(found.mip_dual_bound))
    if found.x is None:
        return {}, bound
    pods = {i: round(number) for i, number in zip(knapsack.kinds, found.x.tolist(), strict=True) if round(number)}
    return pods, bound  # errors of floats are far below what the solver tolerates in a row


def by_density(knapsack: Knapsack) -> dict[int, int]:
    """Pods of much worth, found without a solver: those first that are worth most for what they take, where each resource in
    turn counts more than the others."""
    best: tuple[float, dict[int, int]] = 0.0, {}
    for heavy in range(len(knapsack.shares) + 1):
        sizes = [
            sum(share if at != heavy else 8 * share for at, share in enumerate(column)) + _LEAST
            for column in zip(*knapsack.shares, strict=True)
        ]
        order = sorted(range(len(sizes)), key=lambda at: -knapsack.worths[at] / sizes[at])
        best = max(best, _filled(knapsack, order), key=lambda found: found[0])
    return best[1]


def _filled(knapsack: Knapsack, order: Sequence[int]) -> tuple[float, dict[int, int]]:
    """As many pods as fit of each kind in this order: their worth, and how many of each."""
    free = [1.0] * len(knapsack.shares)
    worth, pods = 0.0, {}
    for at in order:
        number = knapsack.most[at]
        for left, shares in zip(free, knapsack.shares, strict=True):
            if shares[at]:
                number = min(number, int(left / shares[at] + _ROUNDING))
        if number:
            pods[knapsack.kinds[at]] = number
            worth += number * knapsack.worths[at]
            free = [left - number * shares[at] for left, shares in zip(free, knapsack.shares, strict=True)]
    return worth, pods


MAX_ROUNDS = 120
"""Rounds of generation. Programs over 14 offers and 20 kinds of pods need 10 to 40."""
MAX_KNAPSACKS = 120
"""How many knapsacks the solver may solve, at some 10 ms each."""
MAX_CUTS = 60
"""The last ones are kept: their duals are the best."""
WORTH_IT = 1e-6
"""A pattern is new if it is worth so much more than its node costs, as a share."""
NEAR_ENOUGH = 1.005
"""Generation ends when no pattern is worth more than this share of its price: the bound is then as near to the best one."""
LEFT_OUT = 100.0
"""The cost of a pod that is left out, in prices of the dearest node."""


@dataclass(frozen=True, slots=True)
class PatternSolution:
    """How many nodes the cheapest solution of the program has, in fractions."""

    cost: float
    nodes: Sequence[float]
    """By offer."""


class PatternProgram:
    """The program for the pods of a demand. `generate` first."""

    def __init__(self, demand: NodeDemand, counts: Sequence[int]) -> None:
        self._demand, self._counts = demand, counts
        self._kinds = [i for i, kind in enumerate(demand.kinds) if counts[i] and kind.takers]
        self._patterns: dict[tuple[int, tuple[tuple[int, int], ...]], None] = {}
        """(Offer, ((kind, pods), ...)), in the order in which they were found."""
        self._solved = 0
        self.cuts: list[PatternCut] = []

    def generate(self) -> None:
        """Find patterns until no better ones are found, or until enough has been tried. Raises SolverMissing."""
        for i in self._kinds:
            for offer, most in self._demand.kinds[i].takers.items():
                self._patterns[offer, ((i, min(most, self._counts[i])),)] = None
        for _ in range(MAX_ROUNDS if self._kinds else 0):
            if not self._grow():
                return
        if self._kinds:
            self._exact(self._knapsacks())

    def _grow(self) -> bool:
        """One round. Returns whether there are new patterns."""
        knapsacks = self._knapsacks()
        before = len(self._patterns)
        for knapsack in knapsacks:
            self._take(knapsack, by_density(knapsack))
        if len(self._patterns) > before:
            return True
        is_enough = self._solved >= MAX_KNAPSACKS
        highest = self._exact(knapsacks)
        return len(self._patterns) > before and highest > NEAR_ENOUGH and not is_enough

    def _exact(self, knapsacks: Sequence[Knapsack]) -> float:
        """Solve the knapsacks, for patterns and for cuts. Returns the highest worth, as a share of the price."""
        highest = 0.0
        known: dict[Knapsack, tuple[dict[int, int], float]] = {}
        for knapsack in knapsacks:
            if knapsack not in known:  # the offers of several zones often have the same
                known[knapsack] = most_worth(knapsack)
                self._solved += 1
            pods, most = known[knapsack]
            self._take(knapsack, pods)
            highest = max(highest, most / knapsack.price)
            if most > 0:
                weights = {i: worth / most for i, worth in zip(knapsack.kinds, knapsack.worths, strict=True)}
                self.cuts.append(PatternCut(knapsack.offer, weights))
        del self.cuts[:-MAX_CUTS]
        return highest

    def _take(self, knapsack: Knapsack, pods: dict[int, int]) -> None:
        """Keep a pattern if it is worth more than its node costs."""
        worth = sum(each * pods.get(i, 0) for i, each in zip(knapsack.kinds, knapsack.worths, strict=True))
        if worth > knapsack.price * (1 + WORTH_IT):
            self._patterns.setdefault((knapsack.offer, tuple(sorted(pods.items()))))

    # ---- duals

    def worths(self) -> tuple[Amounts, Amounts]:
        """By kind what the cheapest solution pays for a pod, and by offer what one more node would save. A plan for some
        of the pods costs at least the sum of their worths, less what the nodes save that offers have yet."""
        duals = self._duals() if self._kinds else []
        worth = dict(zip(self._kinds, duals, strict=False))
        kinds, offers = len(self._demand.kinds), len(self._demand.prices)
        saved = duals[len(self._kinds) : len(self._kinds) + offers] or [0.0] * offers
        return np.array([worth.get(i, 0.0) for i in range(kinds)]), np.array(saved)

    def _duals(self) -> list[float]:
        matrix, cost, high = self._program(self._counts, self._demand.limits, self._demand, has_room=True)
        found = linear_program(cost, matrix.matrix(len(cost)), np.array(matrix.high), high)
        duals: list[float] = (-found.ineqlin.marginals).tolist()
        return duals

    def _knapsacks(self) -> list[Knapsack]:
        """By offer what a pod of each kind is worth, with the present patterns."""
        duals = self._duals()
        worth = dict(zip(self._kinds, duals, strict=False))
        offers = len(self._demand.prices)
        limited = duals[len(self._kinds) : len(self._kinds) + offers]
        spread = self._spread_worth(duals[len(self._kinds) + offers :])
        return [
            Knapsack.of(
                self._demand,
                self._counts,
                offer,
                self._demand.prices[offer] + limited[offer],
                {i: worth[i] - spread.get((i, offer), 0.0) for i in self._kinds},
            )
            for offer in range(offers)
        ]

    def _spread_worth(self, duals: Sequence[float]) -> dict[tuple[int, int], float]:
        """(Kind, offer) -> what its domain takes from the worth of a pod."""
        found: dict[tuple[int, int], float] = {}
        for (i, domain, sign), dual in zip(self._spread_rows(self._kinds, self._demand), duals, strict=True):
            spread = self._demand.kinds[i].spread
            assert spread is not None, "a row of a spread constraint"
            for offer, its_domain in spread.offers.items():
                if its_domain == domain:
                    found[i, offer] = found.get((i, offer), 0.0) + sign * dual
        return found

    # ---- the program

    def cheapest(self, counts: Sequence[int], limits: Sequence[int], demand: NodeDemand) -> PatternSolution:
        """The cheapest nodes for so many pods of each kind, by the patterns that were found. `demand` may have other counts
        of domains."""
        matrix, cost, high = self._program(counts, limits, demand, has_room=False)
        found = linear_program(cost, matrix.matrix(len(cost)), np.array(matrix.high), high)
        nodes = [0.0] * len(limits)
        for (offer, _), number in zip(self._patterns, found.x.tolist(), strict=False):
            nodes[offer] += number
        return PatternSolution(float(found.fun), nodes)

    def _program(
        self, counts: Sequence[int], limits: Sequence[int], demand: NodeDemand, has_room: bool
    ) -> tuple[ProgramRows, Amounts, Amounts]:
        """Columns: nodes of each pattern, pods left out, pods on present nodes, lowest counts of spreads. Rows: pods of each
        kind, nodes of each offer, spreads. Returns rows, cost and the highest values of columns."""
        patterns, kinds = [*self._patterns], self._kinds
        rooms = [(i, domain) for i in kinds for domain in demand.kinds[i].room] if has_room else []
        spreads = [i for i in kinds if demand.kinds[i].spread is not None]
        first_room = len(patterns) + len(kinds)
        size = first_room + len(rooms) + len(spreads)
        of_kind: dict[int, dict[int, float]] = {i: {len(patterns) + n: -1.0} for n, i in enumerate(kinds)}
        of_offer: list[dict[int, float]] = [{} for _ in limits]
        of_domain: dict[tuple[int, str], dict[int, float]] = {}
        for column, (offer, pods) in enumerate(patterns):
            of_offer[offer][column] = 1.0
            for i, number in pods:
                of_kind[i][column] = -float(number)
                spread = demand.kinds[i].spread
                if spread is not None:
                    of_domain.setdefault((i, spread.offers[offer]), {})[column] = float(number)
        for n, (i, domain) in enumerate(rooms):
            of_kind[i][first_room + n] = -1.0
            of_domain.setdefault((i, domain), {})[first_room + n] = 1.0
        matrix = ProgramRows()
        for i in kinds:
            matrix.add(of_kind[i], -counts[i])
        for offer, terms in enumerate(of_offer):
            matrix.add(terms, limits[offer])
        lowest = {i: first_room + len(rooms) + n for n, i in enumerate(spreads)}
        for i, domain, sign in self._spread_rows(kinds, demand):
            matrix.add(*_spread_row(demand, i, domain, sign, {**of_domain.get((i, domain), {}), lowest[i]: -1.0}))
        cost, high = np.zeros(size), np.full(size, np.inf)
        cost[: len(patterns)] = [demand.prices[offer] for offer, _ in patterns]
        cost[len(patterns) : first_room] = LEFT_OUT * max(demand.prices)
        high[first_room : first_room + len(rooms)] = [demand.kinds[i].room[domain] for i, domain in rooms]
        return matrix, cost, high

    @staticmethod
    def _spread_rows(kinds: Sequence[int], demand: NodeDemand) -> list[tuple[int, str, float]]:
        """(Kind, domain, sign): at most the skew above the lowest count, and, where there are nodes, at least that count."""
        found = []
        for i in kinds:
            spread = demand.kinds[i].spread
            if spread is not None:
                domains = dict.fromkeys((*spread.held, *spread.offers.values()))
                signs = product(domains, (1.0, -1.0))
                found += [(i, domain, sign) for domain, sign in signs if sign > 0 or domain in spread.held]
        return found


def _spread_row(
    demand: NodeDemand, i: int, domain: str, sign: float, terms: dict[int, float]
) -> tuple[dict[int, float], float]:
    spread = demand.kinds[i].spread
    assert spread is not None, "a row of a spread constraint"
    most = spread.most_above_lowest(domain) if sign > 0 else spread.held[domain]
    return {column: sign * value for column, value in terms.items()}, most
