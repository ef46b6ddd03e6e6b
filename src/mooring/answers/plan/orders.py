"""Orders in which pending pods and new nodes may come, and trials of steps of nodes in each of them.

Pods of equal priority reach the scheduler in any order: many are created in the same second, and back-off mixes them. Nodes
of one step become ready together, one by one, or while pods are being placed, and ties between nodes go to any of them. A
plan is to hold in all of that.
The orders are that of the cluster, large pods first, and shuffles. Where a table answers for the core (`contents.py`), a plan
is confirmed in a thousand shuffles. Otherwise there are fewer, and in most of them small pods tend to come early, because
plans fail there. Orders in which all small pods come before all large ones are left out, unless the cluster has them: plans
that hold there cost up to 40 % more, and back-off does not sort pods.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.contents import ContentTable, ContentWalks, NotOfOneNode
from mooring.answers.plan.demand import NodeDemand, demand_of
from mooring.answers.plan.trials import Additions, NodeTrials
from mooring.answers.plan.walks import SETTLED, TOGETHER, ArrivalOrder, OrderWalks, StepWalk, Walks
from mooring.model.pod import Pod

MAX_ORDERS, LEAST_ORDERS = 8, 2
"""How many orders of the pods each attempt of a search is tried in at first, with nodes together and one by one."""
TABLE_ORDERS = 24
"""How many orders of the pods there are at first where a table answers."""
MAX_BY_TABLE = 1_000
"""With more pods than these there is no table: to try a plan in the orders that confirm it takes a second."""
MAX_WALKED = 64_000
"""How many pods the orders have together that a search by the table makes steps in."""
TABLE_SPARE = 1000
"""How many other orders confirm what a search finds where there is a table. Steps that hold in all of them fail in fewer than
3 of 1,000 orders, with a probability of 95 %."""
MAX_SPARE, LEAST_SPARE = 80, 2
"""How many there are otherwise."""
TAKEN = 12
"""How many of the spare orders in which steps fail are tried first from then on."""
LEAN = 0.5
"""How much small pods lead in most of the spare orders without a table, as a share of the whole order. A plan of 18 pods that
failed in 1 of 250 plain shuffles failed in 13 of 250 such orders, and in 66 with 1.0."""
PACES = (SETTLED, 8, 3, 15)
"""The paces at which the nodes of a step come where they do not come together. Nodes come while kube-scheduler places pods,
and back-off puts pods that the first nodes refused behind the others: 3 of 7 runs there left two pods of a plan that held in
all orders with nodes together or one by one."""
MAX_DECISIONS = 6_000
"""How many decisions the orders may need, with nodes together: with more pods, or in a large cluster, there are fewer
orders."""
CONFIRMED = 24
"""In how many orders the core confirms steps that hold by a table."""
MAX_FAILING = 12
"""In how many orders a plan is tried for a note: with its nodes there before the pods, and with pods that no offer takes."""
MAX_BY_CORE = 12
"""In how many orders the core may leave pods though the table does not, before the table is given up."""


def arrival_orders(trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod], most: int) -> list[ArrivalOrder]:
    """The orders in which a plan for these pods is tried. `pods` are in the order of the queue; it is the first order."""
    sizes = _sizes(demand)
    largest_first = sorted(pods, key=lambda pod: -sizes[pod.id])
    number = min(max(MAX_DECISIONS // (trials.weight * max(len(pods), 1)), LEAST_ORDERS), most)
    listed = [pods, largest_first, *(_shuffled(pods, seed) for seed in range(2, number))]
    return [
        ArrivalOrder(trials.queued(each), seed or None, pace)
        for seed, each in enumerate(listed)
        for pace in (TOGETHER, PACES[seed % len(PACES)])
    ]


def spare_orders(trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod]) -> list[ArrivalOrder]:
    """Other orders, for plans that hold in those of `arrival_orders`, without a table. Every fourth is a plain shuffle."""
    number = min(max(MAX_DECISIONS // (trials.weight * max(len(pods), 1)), LEAST_SPARE), MAX_SPARE)
    sizes = _sizes(demand)
    distinct = sorted({sizes[pod.id] for pod in pods})
    ranks = {pod.id: distinct.index(sizes[pod.id]) / max(len(distinct) - 1, 1) for pod in pods}
    found = []
    for seed in range(TABLE_ORDERS, TABLE_ORDERS + number):
        mixed = _leaning(pods, ranks, seed) if seed % 4 else _shuffled(pods, seed)
        found.append(ArrivalOrder(trials.queued(mixed), seed, _pace(seed)))
    return found


def _pace(seed: int) -> int:
    """The pace of a spare order."""
    return PACES[seed // 2 % len(PACES)] if seed % 2 else TOGETHER


def _shuffled(pods: Sequence[Pod], seed: int) -> list[Pod]:
    return Random(seed).sample(pods, len(pods))


def _leaning(pods: Sequence[Pod], ranks: Mapping[str, float], seed: int) -> list[Pod]:
    """A shuffle in which small pods tend to come before large ones. `ranks`: 0 for the smallest pods, 1 for the largest."""
    dice = Random(seed)
    return sorted(pods, key=lambda pod: dice.random() + LEAN * ranks[pod.id])


def _sizes(demand: NodeDemand) -> dict[str, float]:
    """The requests of each pod as shares of the largest node."""
    found: dict[str, float] = {}
    for kind in demand.kinds:
        largest = {place: max(free.get(place, 0) for free in demand.offers) for place in kind.requests}
        size = sum(amount / max(largest[place], 1) for place, amount in kind.requests.items())
        found |= dict.fromkeys((pod.id for pod in kind.pods), size)
    return found


@dataclass(frozen=True, slots=True)
class LeftPods:
    """The pods that are left in an order, and the domains of those that are spread and were placed there."""

    pods: Sequence[Pod]
    domains: Mapping[str, str]


def _left_after(
    trials: NodeTrials, demand: NodeDemand, order: ArrivalOrder, steps: Sequence[Additions], present_first: bool
) -> LeftPods:
    """The pods that the core leaves pending in an order. `present_first`: the present nodes get what fits there before any
    other comes."""
    trials.use_seed(order.seed)
    walk = StepWalk(trials, demand, order.pods)
    if present_first:
        walk.make(walk.counts)
    for step, most in order.arrivals(steps):
        if not walk.left:
            break
        walk.make(step, most)
    left = LeftPods(walk.left, walk.domains)
    walk.undo()
    trials.use_seed(None)
    return left


def failing_orders(
    trials: NodeTrials, pods: Sequence[Pod], steps: Sequence[Additions], most_left: int, present_first: bool = True
) -> tuple[int, int]:
    """In how many orders more than `most_left` pods are left, and in how many this was tried. Some of the pods fit on the
    present nodes. Without `present_first` the nodes of the first step are there before pods have been placed there."""
    ordered = trials.queued(pods)
    demand = demand_of(trials, ordered)
    orders = arrival_orders(trials, demand, ordered, MAX_FAILING) if any(map(any, steps)) else []
    tried = [order for order in orders if order.pace == TOGETHER]
    failed = [
        order for order in tried if len(_left_after(trials, demand, order, steps, present_first).pods) > most_left
    ]
    return len(failed), len(tried)


class OrderTrials:
    """Tries steps in all orders. An order in which steps failed comes first afterwards: others fail there as a rule."""

    def __init__(self, trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod], fits_now: bool = False) -> None:
        """`fits_now`: some of the pods may fit on the present nodes."""
        self.trials, self.demand, self._pods, self._fits_now = trials, demand, pods, fits_now
        self._table: ContentTable | None = None
        try:
            self._table = ContentTable(trials, demand, pods) if len(pods) <= MAX_BY_TABLE else None
        except NotOfOneNode:
            trials.add(tuple(0 for _ in trials.offers))
        self._known: dict[tuple[object, ...], tuple[LeftPods, int]] = {}
        """By order and steps: the pods that were left, and the decisions made. A search asks for every third again."""
        self._by_core: list[ArrivalOrder] = []
        """Orders in which the core leaves pods where the table does not. Steps are tried there by both."""
        self._list_orders()

    def _list_orders(self) -> None:
        most = TABLE_ORDERS if self._table is not None else MAX_ORDERS
        first = arrival_orders(self.trials, self.demand, self._pods, most)
        self._first = len(first)
        """How many orders are tried before the others."""
        if self._table is None:
            self.orders = [*first, *spare_orders(self.trials, self.demand, self._pods)]
            return
        seeds = range(TABLE_ORDERS, TABLE_ORDERS + TABLE_SPARE)
        shuffles = [self.trials.queued(_shuffled(self._pods, seed)) for seed in seeds]
        spare = (ArrivalOrder(pods, seed, _pace(seed)) for seed, pods in zip(seeds, shuffles, strict=True))
        self.orders = [*first, *spare]
        self._walks = ContentWalks(self._table, self.orders)

    @property
    def number(self) -> int:
        return len(self.orders) + len(self._by_core)

    @property
    def has_table(self) -> bool:
        return self._table is not None

    @property
    def work(self) -> int:
        """How much was done, in decisions of the core or what takes as long."""
        return self.trials.decisions + int(self._table.work if self._table is not None else 0)

    def drop_table(self) -> None:
        """Ask the core for each decision from now on."""
        self.trials.decisions = self.work
        is_first_only = len(self.orders) == 1
        self._table, self._by_core = None, []
        self._list_orders()
        if is_first_only:
            self.orders = self.orders[:1]

    def first_only(self) -> "OrderTrials":
        """The trials with the order of the cluster alone."""
        found = copy(self)
        found.orders, found._by_core, found._first = self.orders[:1], [], 1
        if self._table is not None:
            found._walks = self._walks.only([0])
        return found

    def walks(self, number: int) -> Walks[Any]:
        """Walks for the first orders; fewer by a table where there are many pods."""
        if self._table is not None:
            most = max(MAX_WALKED // (max(len(self._pods), 1) * self._walks.effort), TABLE_ORDERS)
            return self._walks.only(range(min(number, most, len(self.orders))))
        return OrderWalks(self.trials, self.demand, self.orders[:number], self._fits_now)

    # ---- whether steps hold

    def left_in(self, order: ArrivalOrder, steps: Sequence[Additions]) -> LeftPods:
        """The pods that stay pending, by decisions of the core. Decisions that were made before count again, so that a search
        ends as early."""
        key = order.seed, order.pace, *steps
        known = self._known.get(key)
        if known is None:
            before = self.trials.decisions
            left = self._tried_in(order, steps)
            self._known[key] = left, self.trials.decisions - before
            return left
        self.trials.decisions += known[1]
        return known[0]

    def _tried_in(self, order: ArrivalOrder, steps: Sequence[Additions]) -> LeftPods:
        return _left_after(self.trials, self.demand, order, steps, self._fits_now)

    def failure(self, steps: Sequence[Additions], most_left: int) -> LeftPods | None:
        """The pods that are left in an order in which more than `most_left` are; None if there is no such order. Without a
        table only the first orders are tried."""
        if self._table is not None:
            left = self._failure_by_table(steps, most_left)
            return left if left is not None else self._failure_by_core(self._by_core, steps, most_left)
        return self._failure_by_core(self._of_core(0, self._first, steps), steps, most_left)

    def _of_core(self, first: int, last: int, steps: Sequence[Additions]) -> list[ArrivalOrder]:
        """Some of the orders, without those that are the same as others for these steps."""
        listed = self.orders[first:last]
        if any(sum(step) > 1 for step in steps):
            return listed
        return [*{order.seed: order for order in listed}.values()]  # single nodes have no pace

    def _failure_by_core(
        self, orders: Sequence[ArrivalOrder], steps: Sequence[Additions], most_left: int
    ) -> LeftPods | None:
        for order in orders:
            left = self.left_in(order, steps)
            if len(left.pods) > most_left:
                if self._table is None:
                    self.orders = [order, *(each for each in self.orders if each is not order)]
                return left
        return None

    def _failure_by_table(self, steps: Sequence[Additions], most_left: int) -> LeftPods | None:
        """The pods of the order in which most are left. The orders that fail most come first from then on."""
        for rows in (range(self._first), range(self._first, len(self.orders))):
            lefts = self._lefts(rows, steps)
            failed = self._failing(lefts, most_left)
            if failed:
                numbers = zip(self.demand.kinds, lefts[failed[0]].tolist(), strict=True)
                if rows.start:
                    self._take([rows[at] for at in failed[:TAKEN]])
                return LeftPods([pod for kind, number in numbers for pod in kind.pods[:number]], {})
        return None

    def _lefts(self, rows: Sequence[int], steps: Sequence[Additions]) -> NDArray[np.int64]:
        """By order and kind of pod how many are left, by the table."""
        walks = self._walks.only(rows)
        walked = walks.begin()
        for step in steps:
            walked = walks.extended(walked, step)
        return walks.left(walked)

    def _take(self, rows: Sequence[int]) -> None:
        """Let these orders be tried before the others."""
        moved = [*rows, *(row for row in range(len(self.orders)) if row not in rows)]
        self.orders = [self.orders[row] for row in moved]
        self._walks = self._walks.only(moved)
        self._first += len(rows)

    @staticmethod
    def _failing(lefts: NDArray[np.int64], most_left: int) -> list[int]:
        """The rows in which more than `most_left` pods are left, those first in which most are."""
        numbers = lefts.sum(axis=1)
        return [at for at in np.argsort(-numbers, kind="stable").tolist() if numbers[at] > most_left]

    def confirms(self, steps: Sequence[Additions], most_left: int) -> bool:
        """Whether the core leaves no more pods in orders in which it was not asked before. With a table these are some of
        all: ties fall in other ways there. Orders in which it does count from then on. Raises NotOfOneNode where a table
        differs in many: it is to be given up."""
        half = CONFIRMED // 2
        listed = (
            [*self.orders[:half], *self.orders[max(len(self.orders) - half, half) :]]
            if self._table is not None
            else self._of_core(self._first, len(self.orders), steps)
        )
        failed = [order for order in listed if len(self.left_in(order, steps).pods) > most_left]
        if self._table is None:
            failed = failed[:TAKEN]
            self.orders = [*failed, *(order for order in self.orders if not any(order is each for each in failed))]
            self._first += len(failed)
        else:
            self._by_core += failed
            if len(self._by_core) > MAX_BY_CORE:
                raise NotOfOneNode
        return not failed

    def held(self, steps: Sequence[Additions], most_left: int) -> int:
        """In how many of the orders no more than `most_left` pods are left."""
        if self._table is not None:
            failed = len(self._failing(self._lefts(range(len(self.orders)), steps), most_left))
            decided = self._by_core
        else:
            failed, decided = 0, self.orders
        return self.number - failed - sum(len(self.left_in(order, steps).pods) > most_left for order in decided)
