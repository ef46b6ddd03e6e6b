"""Orders in which pending pods and new nodes may come, and trials of steps of nodes in each of them.

Pods of equal priority reach the scheduler in any order: many are created in the same second, and back-off mixes them. Nodes
of one step become ready together or one by one, and ties between nodes go to any of them. A plan is to hold in all of that.
The orders are that of the cluster, large pods first, and shuffles; in most of the shuffles that confirm a plan, small pods
tend to come early. Orders in which all small pods come before all large ones are left out, unless the cluster has them: plans
that hold there cost up to 40 % more, and back-off does not sort pods.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.search import StepWalk
from mooring.answers.plan.trials import Additions, NodeTrials
from mooring.model.pod import Pod

MAX_ORDERS, LEAST_ORDERS = 8, 2
"""How many orders of the pods each attempt of a search is tried in at first, with nodes together and one by one."""
HARDEST = 6
"""How many of the spare orders in which steps leave most pods are taken before a search begins."""
MAX_SPARE, LEAST_SPARE = 80, 2
"""How many other orders are kept for what a search finds: steps that hold where they were chosen may fail elsewhere."""
LEAN = 0.5
"""How much small pods lead in most of these orders, as a share of the whole order. A plan of 18 pods that failed in 1 of 250
plain shuffles failed in 13 of 250 such orders, and in 66 with 1.0; orders with all small pods first are beyond that."""
MAX_DECISIONS = 6_000
"""How many decisions the orders may need, with nodes together: with more pods, or in a large cluster, there are fewer
orders."""


@dataclass(frozen=True, slots=True)
class ArrivalOrder:
    """One order of the pods and nodes."""

    pods: Sequence[Pod]
    """As the queue gives them."""
    seed: int | None
    """Breaks ties between nodes, and shuffles the nodes of a step; None: the first is taken."""
    is_one_by_one: bool
    """Whether nodes of a step come one after the other: the scheduler places what it can in between."""

    def arrivals(self, steps: Sequence[Additions]) -> Iterator[Additions]:
        """The nodes that come together, in their order."""
        if not self.is_one_by_one:
            yield from steps
            return
        for step in steps:
            nodes = [offer for offer, number in enumerate(step) for _ in range(number)]
            Random(self.seed).shuffle(nodes)
            for node in nodes:
                yield tuple(int(offer == node) for offer in range(len(step)))


def arrival_orders(trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod]) -> list[ArrivalOrder]:
    """The orders in which a plan for these pods is tried. `pods` are in the order of the queue; it is the first order."""
    sizes = _sizes(demand)
    largest_first = sorted(pods, key=lambda pod: -sizes[pod.id])
    number = min(max(MAX_DECISIONS // (trials.weight * max(len(pods), 1)), LEAST_ORDERS), MAX_ORDERS)
    listed = [pods, largest_first, *(_shuffled(pods, seed) for seed in range(2, number))]
    return [
        ArrivalOrder(trials.queued(each), seed or None, is_one_by_one)
        for seed, each in enumerate(listed)
        for is_one_by_one in (False, True)
    ]


def spare_orders(trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod]) -> list[ArrivalOrder]:
    """Other orders, for plans that hold in those of `arrival_orders`. Every fourth is a plain shuffle."""
    number = min(max(MAX_DECISIONS // (trials.weight * max(len(pods), 1)), LEAST_SPARE), MAX_SPARE)
    sizes = _sizes(demand)
    distinct = sorted({sizes[pod.id] for pod in pods})
    ranks = {pod.id: distinct.index(sizes[pod.id]) / max(len(distinct) - 1, 1) for pod in pods}
    found = []
    for seed in range(MAX_ORDERS, MAX_ORDERS + number):
        mixed = _leaning(pods, ranks, seed) if seed % 4 else _shuffled(pods, seed)
        found.append(ArrivalOrder(trials.queued(mixed), seed, seed % 2 == 1))
    return found


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


class OrderTrials:
    """Tries steps in all orders. An order in which steps failed comes first afterwards: others fail there as a rule."""

    def __init__(self, trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod], fits_now: bool = False) -> None:
        """`fits_now`: some of the pods may fit on the present nodes."""
        self.trials, self.demand, self._fits_now = trials, demand, fits_now
        self.orders = arrival_orders(trials, demand, pods)
        self._spare = spare_orders(trials, demand, pods)
        self._known: dict[tuple[object, ...], tuple[Sequence[Pod], int]] = {}
        """By order and steps: the pods that were left, and the decisions made. A search asks for every third again."""

    @property
    def number(self) -> int:
        return len(self.orders) + len(self._spare)

    def walk(self, order: ArrivalOrder) -> StepWalk:
        """A walk for the pods in this order, after the present nodes have got what fits there. The caller has to undo it."""
        self.trials.use_seed(order.seed)
        walk = StepWalk(self.trials, self.demand, order.pods)
        if self._fits_now:
            walk.make(walk.counts)
        return walk

    def left_in(self, order: ArrivalOrder, steps: Sequence[Additions]) -> Sequence[Pod]:
        """The pods that stay pending. Decisions that were made before count again, so that a search ends as early."""
        key = order.seed, order.is_one_by_one, *steps
        known = self._known.get(key)
        if known is None:
            before = self.trials.decisions
            left = self._tried_in(order, steps)
            self._known[key] = left, self.trials.decisions - before
            return left
        self.trials.decisions += known[1]
        return known[0]

    def _tried_in(self, order: ArrivalOrder, steps: Sequence[Additions]) -> Sequence[Pod]:
        walk = self.walk(order)
        for step in order.arrivals(steps):
            if not walk.left:
                break
            walk.make(step)
        left = walk.left
        walk.undo(0)
        self.trials.use_seed(None)
        return left

    def failure(self, steps: Sequence[Additions], most_left: int) -> Sequence[Pod] | None:
        """The pods that are left in the first order in which more than `most_left` are; None if there is no such order."""
        has_groups = any(sum(step) > 1 for step in steps)
        for at, order in enumerate(self.orders):
            if has_groups or not order.is_one_by_one:
                left = self.left_in(order, steps)
                if len(left) > most_left:
                    self.orders.insert(0, self.orders.pop(at))
                    return left
        return None

    def take_hardest(self, steps: Sequence[Additions]) -> None:
        """Let the spare orders count in which these steps leave most pods: other steps fail there as well."""
        lefts = {order.seed: len(self.left_in(order, steps)) for order in self._spare}
        ranked = sorted(self._spare, key=lambda order: -lefts[order.seed])
        hardest = [order for order in ranked[:HARDEST] if lefts[order.seed]]
        self._spare = [order for order in self._spare if order not in hardest]
        self.orders[:0] = hardest

    def failing_spare(self, steps: Sequence[Additions], most_left: int) -> list[ArrivalOrder]:
        """The orders that were kept in which the steps fail. They count from now on."""
        failed = [order for order in self._spare if len(self.left_in(order, steps)) > most_left]
        self._spare = [order for order in self._spare if order not in failed]
        self.orders[:0] = failed
        return failed

    def held(self, steps: Sequence[Additions], most_left: int) -> int:
        """In how many of the orders no more than `most_left` pods are left."""
        return sum(len(self.left_in(order, steps)) <= most_left for order in (*self.orders, *self._spare))
