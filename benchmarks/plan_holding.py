"""How much of a gap of `plan_orders.py` is the price of holding: a lower bound for plans that hold in all orders of the pods.

    python benchmarks/plan_orders.py > plans.jsonl; python benchmarks/plan_holding.py < plans.jsonl

Nodes that hold in all orders, together and one by one in any order, also hold one after the other. A single new node gets the
pods in their order, each that fits: those before it are full, so that no score decides. So branch and bound over sequences of
single nodes, tried in some orders, says below which cost no nodes hold in these orders, and so in all. It reads the written
objects alone. Zones are left out: there a node that came before may take pods again.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plan_orders import Case, _goes_to, _kinds, _patterns, _room, a_case
from scipy.optimize import linprog

Numbers = NDArray[np.int64]
Amounts = NDArray[np.float64]
NO_LIMIT = 1 << 20
NEAR = 1e-9


class NodeSequences:
    """Single nodes one after the other, in several orders of the pods of a case."""

    def __init__(self, case: Case, orders: int) -> None:
        self._kinds = _kinds(case)
        self.prices = np.array([offer["price"] for offer in case.offers])
        self._limits = np.array([offer.get("limit", NO_LIMIT) for offer in case.offers])
        self._counts = np.array([kind.count for kind in self._kinds])
        self._rooms = [_room(case, offer, self._kinds) for offer in case.offers]
        self._usable = [[_goes_to(kind, offer["node"]) for kind in self._kinds] for offer in case.offers]
        self._book: dict[tuple[int, tuple[int, ...]], int] = {}
        self._after: list[list[int]] = []
        """By content of a node and kind of pod: the content with one more, or the same if it does not fit."""
        nothing = (0,) * len(self._kinds)
        self._empty = np.array([self._content(at, nothing, room) for at, room in enumerate(self._rooms)])
        self._flat = np.array([[*row, at] for at, row in enumerate(self._after)]).ravel()
        pods = np.repeat(np.arange(len(self._kinds)), self._counts)
        chance = np.random.default_rng(7)
        self.begin: Numbers = np.array([pods, *(chance.permutation(pods) for _ in range(orders - 1))])
        """By order: the kinds of the pods that wait. The first order is that of the cluster."""
        self._duals = self._feasible_duals()

    def _content(self, offer: int, held: tuple[int, ...], room: dict[str, int]) -> int:
        known = self._book.get((offer, held))
        if known is not None:
            return known
        number = self._book[offer, held] = len(self._after)
        self._after.append([number] * len(self._kinds))
        for at, kind in enumerate(self._kinds):
            fits = self._usable[offer][at] and all(room.get(key, 0) >= need for key, need in kind.needs.items())
            if fits and held[at] < kind.count:
                left = {key: have - kind.needs.get(key, 0) for key, have in room.items()}
                more = tuple(each + (place == at) for place, each in enumerate(held))
                self._after[number][at] = self._content(offer, more, left)
        return number

    def _feasible_duals(self) -> list[tuple[Amounts, Amounts]]:
        """Worths of pods with which no node holds more than its price, and what a further node of an offer saves: for all
        pods, and for all pods of one kind with fewer of the others."""
        filled = [
            (offer, pattern)
            for offer, room in enumerate(self._rooms)
            for pattern in _patterns(self._kinds, room, self._usable[offer])
        ]
        offers = np.array([offer for offer, _ in filled])
        limited = np.flatnonzero(self._limits < NO_LIMIT)
        rows = np.hstack([np.array([pattern for _, pattern in filled]), -(offers[:, None] == limited).astype(float)])
        wanted = [self._counts.astype(float)]
        for at, share in ((at, share) for at in range(len(self._kinds)) for share in (0.5, 0.2)):
            wanted.append(np.where(np.arange(len(self._kinds)) == at, self._counts, share * self._counts))
        found = []
        for counts in wanted:
            cost = np.concatenate([-counts, self._limits[limited]])
            solved = linprog(cost, A_ub=rows, b_ub=self.prices[offers], method="highs").x
            saved = np.zeros(len(self.prices))
            saved[limited] = solved[len(self._kinds) :]
            found.append((solved[: len(self._kinds)], saved))
        return found

    def offers_below(self, used: Numbers, below: float) -> list[int]:
        """The offers of which one more node costs less in all."""
        cost = used @ self.prices + self.prices
        return np.flatnonzero((used < self._limits) & (cost < below - NEAR)).tolist()

    def extended(self, waiting: Numbers, offer: int) -> Numbers:
        """The pods that wait after a node has come."""
        placed, found = len(self._kinds), waiting.copy()
        content = np.full(len(waiting), self._empty[offer])
        for at, kinds in enumerate(waiting.T):
            after = self._flat[content * (placed + 1) + kinds]
            found[after != content, at] = placed
            content = after
        return found

    def left(self, waiting: Numbers) -> Numbers:
        return np.stack([(waiting == kind).sum(axis=1) for kind in range(len(self._kinds))], axis=1)

    def rest(self, left: Numbers, used: Numbers) -> float:
        """What the pods that are left cost at least, in the worst order."""
        spare = self._limits - used
        return max(float((left @ worths).max() - saved @ spare) for worths, saved in self._duals)


def cheapest_below(sequences: NodeSequences, below: float, until_s: float) -> tuple[float | None, bool]:
    """The cost of the cheapest nodes that hold and cost less, and whether all sequences were tried."""
    best: float | None = None
    stack: list[tuple[Numbers, Numbers]] = [(np.zeros(len(sequences.prices), np.int64), sequences.begin)]
    while stack:
        used, waiting = stack.pop()
        if time.process_time() > until_s:
            return best, False
        children = []
        number = int(sequences.left(waiting).sum())
        for offer in sequences.offers_below(used, below):
            after = sequences.extended(waiting, offer)
            more = used + (np.arange(len(used)) == offer)
            left, cost = sequences.left(after), float(more @ sequences.prices)
            if not left.any():
                best = below = min(below, cost)
            elif left.sum() < number:  # a node that takes no pod in any order helps nothing
                least = cost + max(sequences.rest(left, more), float(sequences.prices.min()))
                children.append((least, offer, more, after))
        stack += [(more, after) for least, _, more, after in sorted(children, key=_rank, reverse=True) if least < below]
    return best, True


def _rank(child: tuple[float, int, Numbers, Numbers]) -> tuple[float, int]:
    return child[:2]


def bound_of(case: Case, cost: float, optimum: float, orders: int, seconds: float) -> tuple[float, bool]:
    """A cost below which no nodes hold, and whether nodes of this cost hold in the orders that were tried. If the time is
    not enough, lower costs are tried, a twelfth of the gap each time."""
    sequences = NodeSequences(case, orders)
    best, is_complete = cheapest_below(sequences, cost, time.process_time() + seconds)
    if is_complete:
        return best or cost, True
    proven = optimum
    for part in range(1, 12):
        tried = optimum + (cost - optimum) * part / 12
        best, is_complete = cheapest_below(sequences, tried, time.process_time() + seconds)
        if best is not None or not is_complete:
            break
        proven = tried
    return proven, False


def cheapest_in_each(case: Case, cost: float, orders: int, seconds: float) -> list[float]:
    """By order the cost of the cheapest nodes for this order alone, one after the other: nodes that are chosen one by one
    when it is known which pods wait cannot cost less. The cost of the plan if nothing cheaper was found in time."""
    sequences = NodeSequences(case, orders)
    found, listed = [], sequences.begin
    for at in range(orders):
        sequences.begin = listed[at : at + 1]
        found.append(cheapest_below(sequences, cost, time.process_time() + seconds)[0] or cost)
    return found


def measure(plan: dict[str, Any], orders: int, seconds: float, each: int) -> dict[str, Any] | None:
    case = a_case(plan["seed"])
    if any(kind.is_spread for kind in _kinds(case)) or plan["cost"] <= plan["optimum"] + NEAR:
        return None
    bound, is_exact = bound_of(case, plan["cost"], plan["optimum"], orders, seconds)
    price = round(bound / plan["optimum"] - 1, 4)
    known: Sequence[str] = ("seed", "family", "optimum", "cost", "gap")
    told = {**{key: plan[key] for key in known}, "bound": round(bound, 3), "priceOfHolding": price, "exact": is_exact}
    alone = cheapest_in_each(case, plan["cost"], each, seconds) if each else []
    gaps = [round(cost / plan["optimum"] - 1, 4) for cost in (sum(alone) / each, max(alone))] if each else []
    return {**told, **dict(zip(("meanGapInOneOrder", "worstGapInOneOrder"), gaps, strict=False))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU seconds for each search")
    parser.add_argument("--each", type=int, default=0, help="the cheapest nodes for each of so many orders alone, too")
    options = parser.parse_args()
    for line in sys.stdin:
        plan = json.loads(line)
        found = measure(plan, options.orders, options.seconds, options.each) if "seed" in plan else None
        if found is not None:
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
