"""The pods of most worth that one node of an offer can hold: a knapsack with limits for each resource and kind of pod."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.solver import whole_program

NEAR_ENOUGH = 1e-4
"""How far from the best a solution may be, as a share. The bound counts what is missing."""
_LEAST = 1e-9
_ROUNDING = 1e-7


@dataclass(frozen=True, slots=True)
class Knapsack:
    """What an offer's node can hold. Two that compare equal have the same solution."""

    offer: int = field(compare=False)
    price: float = field(compare=False)
    """What a pattern has to be worth, so that it pays."""
    kinds: tuple[int, ...]
    """The kinds of pods that are worth something here."""
    worths: tuple[float, ...]
    most: tuple[int, ...]
    """By kind: how many pods at most."""
    shares: tuple[tuple[float, ...], ...]
    """By resource and kind: the share of the node that a pod takes."""

    @classmethod
    def of(cls, demand: NodeDemand, counts: Sequence[int], offer: int, price: float, worths: dict[int, float]) -> Self:
        """What a node of the offer can hold if a pod of each kind is worth so much."""
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
        -worths, whole, np.array(knapsack.most, np.float64), np.array(knapsack.shares), limits, NEAR_ENOUGH
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
