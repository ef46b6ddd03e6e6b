"""Which nodes to add: from the pods that do not fit on the present nodes to nodes that the scheduler has judged.

Where the order of the pending pods does not decide which of them fit on the present nodes, all orders begin after the present
nodes have got these pods. The search for new nodes then has fewer
pods, mostly no present node that takes any of them, and so a table (`contents.py`) instead of a decision for each pod.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from mooring.answers.form.published import Count, Form, Number, Positive
from mooring.answers.plan.demand import NodeDemand, PodKind, demand_of
from mooring.answers.plan.holding import FEW_PODS, HoldingSearch
from mooring.answers.plan.judge import Verdict, can_be_scheduled, judge, pending_in, with_daemons
from mooring.answers.plan.offer_choice import useful_offers
from mooring.answers.plan.offers import NodeOffer
from mooring.answers.plan.orders import MAX_ORDERS, OrderTrials, arrival_orders, failing_orders, spare_orders
from mooring.answers.plan.patterns import PatternProgram
from mooring.answers.plan.programs import lower_bound, solve
from mooring.answers.plan.trials import NodeTrials, OfferedNodes, TrialPlacer
from mooring.answers.plan.walks import TOGETHER, WORTH_STEPS, ArrivalOrder, FoundNodes, by_preference, steps_of, sum_of
from mooring.answers.trial.changing_cluster import ChangingCluster, objects_of, why_pending
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.callbacks import Progress
from mooring.model.pod import Pod


def take_alike_in_all_orders(trials: NodeTrials, pods: Sequence[Pod]) -> bool:
    """Whether the present nodes take equal numbers of pods of each kind in all orders that are tried.

    `pods` are all that were pending, in the order of the queue; those that fit are on nodes of the trial cluster now. A kind
    has pods that agree in all that decides where they fit. The answer is no if other pods decide about one of them.
    """
    nodes = trials.cluster.nodes
    there = [found for pod in pods if (found := nodes.placed(pod.id)) is not None]
    for pod in there:
        nodes.displace(pod.id)
    try:
        demand = demand_of(trials, pods)
        if not all(kind.is_plain for kind in demand.kinds) or any(trials.gangs.gang_of(pod) for pod in pods):
            return False
        listed = [*arrival_orders(trials, demand, pods, MAX_ORDERS), *spare_orders(trials, demand, pods)]
        ids = {pod.id for pod in there}
        left = demand.counts([pod for pod in pods if pod.id not in ids])
        return all(
            demand.counts(_left_in(trials, order, demand.plain())) == left for order in listed if order.pace == TOGETHER
        )
    finally:
        for pod in there:
            nodes.place(pod, pod.spec.node_name)


def _left_in(trials: NodeTrials, order: ArrivalOrder, plain: frozenset[int]) -> Sequence[Pod]:
    """The pods that the present nodes do not take in an order."""
    trials.use_seed(order.seed)
    outcome = trials.attempt(order.pods, plain)
    trials.take_back(outcome)
    trials.use_seed(None)
    return outcome.left


MAX_JUDGED = 6
"""How often the scheduler judges: after the first time, each time with more nodes for what it left pending."""
MOST_FROM_FIRST = 1_000
"""With more pending pods than these, all orders begin after the present nodes have got the pods that fit there."""


class AddedNodesForm(Form, frozen=True):
    """Nodes of one offer that come together."""

    step: Positive
    """They come after the scheduler has placed what it can on those of the steps before."""
    offer: str
    count: Positive
    price: Number
    """The price of one node."""
    cost: Number
    """The price of all these nodes."""
    pods: Count
    """How many of the pending pods go to them."""
    nodes: Sequence[str]
    """The names that they have in the plan."""


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """Nodes of one offer that come together."""

    offer: NodeOffer
    names: Sequence[str]
    pods: int
    step: int = 1

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def cost(self) -> float:
        return self.count * self.offer.price

    def published(self) -> AddedNodesForm:
        offer = self.offer
        return AddedNodesForm(self.step, offer.name, self.count, offer.price, self.cost, self.pods, self.names)


class CheaperPlan(Form, frozen=True):
    """Nodes that cost less than those of the plan, and do not hold in all orders."""

    cost: Number
    orders_held: Count
    """In how many of the orders every pod is placed."""


@dataclass(frozen=True, slots=True)
class TriedOrders:
    """In how many orders of pods and nodes a plan was tried, and in how many it holds."""

    tried: int = 0
    held: int = 0
    cheaper: CheaperPlan | None = None
    """The cheapest nodes that were found for the order of the cluster, if they cost less than the plan."""
    nodes_first: tuple[int, int] = (0, 0)
    """In how many orders pods stay pending if the nodes are there before the pods that fit on the present nodes have been
    placed, and in how many that was tried."""
    rivals_first: tuple[int, int] = (0, 0)
    """In how many orders more pods stay pending if those that no offer can take come among the others, and in how many that
    was tried."""


NOT_TRIED = TriedOrders()


@dataclass(frozen=True, slots=True)
class PlannedAdditions:
    """The nodes of a plan, and what it does not place."""

    added: Sequence[AddedNodes]
    pending: dict[str, str]
    """The pods that stay pending, by key, and why."""
    bound: float
    """No nodes that place the same pods cost less."""
    at_first: int
    """How many pods were pending at first."""
    placed_now: int
    """How many of them fit on the present nodes."""
    pending_at_once: int
    """How many pods stay pending if all steps come at once."""
    loaded: LoadedCluster
    """The cluster with the new nodes, after the pods that fit have been placed."""
    orders: TriedOrders = NOT_TRIED
    weight: int = 1
    """For how many decisions each one of the search counted: with more than 1, a smaller cluster is searched longer."""
    offers_left_out: int = 0
    """How many offers were not searched: no pod can use them, or others cost less."""

    def order_notes(self) -> list[str]:
        """The sentences about orders in which more pods stay pending than the plan says: nodes that are there before the pods
        that fit on the present nodes, and pods that no offer can take and that get room there before others."""
        notes = []
        failed, tried = self.orders.nodes_first
        if failed:
            early = (
                f"with the new nodes there before them, pods stay pending in {failed} of {tried} orders that were tried"
            )
            notes.append(f"let the pods that fit on the present nodes be placed before you add nodes: {early}")
        failed, tried = self.orders.rivals_first
        if failed:
            late = f"in {failed} of {tried} orders that were tried, more pods stay pending than the plan says"
            notes.append(f"pods that no offer can take may get the room of others on the present nodes: {late}")
        return notes


def nodes_to_add(
    loaded: LoadedCluster,
    offers: Sequence[NodeOffer],
    tell: Progress | None = None,
    at_once: bool = False,
    begun: ChangingCluster | None = None,
) -> PlannedAdditions:
    """The cheapest nodes that were found; with `at_once`, of those that come all at once. `loaded` has patient pods; `begun`
    is a simulation of it in which no pod was attempted, if there is one already.

    Raises SolverMissing, ConfigError, InputError.
    """
    cluster = begun or ChangingCluster(loaded)
    first = pending_in(cluster)
    at_first = len(first)
    cluster.settle()
    left, now = pending_in(cluster), objects_of(cluster)
    reasons = {pod.key: why_pending(cluster, pod.key) for pod in left}
    schedulable = [pod for pod in left if can_be_scheduled(cluster, pod)]
    if not offers or not schedulable:
        return PlannedAdditions((), reasons, 0.0, at_first, at_first - len(left), len(left), now)
    searched = useful_offers(now, offers, schedulable)
    offered = with_daemons(cluster, searched)
    trials = NodeTrials(TrialPlacer(now), offered)
    demand = demand_of(trials, trials.queued(schedulable))
    hopeless = _hopeless(trials, demand, schedulable)
    helped = {pod.key for pod in schedulable} - hopeless.keys()
    placed = {pod.key for pod in first} - {pod.key for pod in left}
    planner = _NodePlanner(now, trials, demand, tell, at_once)
    if placed and at_first <= MOST_FROM_FIRST:
        every = [pod for pod in first if pod.key in placed | helped | hopeless.keys()]
        planner.start_from(loaded, [pod for pod in first if pod.key in placed | helped], every if hopeless else ())
    judged = planner.run([pod for pod in schedulable if pod.key in helped])
    pending = {key: hopeless.get(key, reason) for key, reason in judged.verdict.pending.items()}
    return PlannedAdditions(
        planner.added(judged),
        pending,
        judged.bound,
        at_first,
        at_first - len(left),
        judged.pending_at_once,
        judged.verdict.loaded,
        judged.orders,
        trials.weight,
        len(offers) - len(searched),
    )


def _hopeless(trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod]) -> dict[str, str]:
    """Pods that no offer can take, and those of gangs that they keep from being complete: by key, and why."""
    alone = {
        pod.key: _why_none(kind)
        for kind in demand.kinds
        for pod in kind.pods
        if not kind.takers and not (kind.room and trials.gangs.gang_of(pod) is not None)
    }
    return alone | trials.gangs.unfit(pods, alone)


def _why_none(kind: PodKind) -> str:
    """Why no offer can take pods of a kind."""
    reasons = (
        f"{number} of them: {reason}" if len(kind.refusals) > 1 else reason
        for reason, number in kind.refusals.most_common()
    )
    return f"no offer can take it: {'; '.join(reasons)}"


@dataclass(frozen=True, slots=True)
class _Judged:
    """Nodes that were found, with the verdict of the scheduler."""

    found: FoundNodes
    verdict: Verdict
    bound: float = 0.0
    pending_at_once: int = 0
    """How many pods stay pending if all nodes come at once."""
    orders: TriedOrders = NOT_TRIED


class _NodePlanner:
    """Searches for nodes that hold in all orders, judges, and adds nodes where the judge still finds pods pending."""

    def __init__(
        self, now: LoadedCluster, trials: NodeTrials, demand: NodeDemand, tell: Progress | None, at_once: bool
    ) -> None:
        self._now, self._trials, self._demand, self._tell = now, trials, demand, tell
        self._at_once = at_once
        self._first: tuple[NodeTrials, NodeDemand, Sequence[Pod]] | None = None
        self._loaded: LoadedCluster | None = None
        """The cluster before pods were placed on the present nodes; None if none was."""
        self._pods: Sequence[Pod] = ()
        """The pods that were pending then and that nodes can take."""
        self._rivals: Sequence[Pod] = ()
        """These pods and those that no offer can take, if there are any; these may fit on the present nodes."""

    def start_from(self, loaded: LoadedCluster, pods: Sequence[Pod], rivals: Sequence[Pod]) -> None:
        """Let orders begin before pods were placed on the present nodes, if other pods may find room there in some of them.
        `pods` are all that were pending then, `rivals` these and those that no offer can take."""
        self._loaded, self._pods, self._rivals = loaded, pods, rivals
        if take_alike_in_all_orders(self._trials, self._trials.queued(pods)):
            return
        trials = self._trials_of(loaded)
        ordered = trials.queued(pods)
        self._first = trials, demand_of(trials, ordered), ordered

    def _trials_of(self, loaded: LoadedCluster) -> NodeTrials:
        return NodeTrials(TrialPlacer(loaded), [OfferedNodes(each.offer, each.daemons) for each in self._trials.offers])

    def _order_trials(self, pods: Sequence[Pod]) -> OrderTrials:
        if self._first is not None:
            return OrderTrials(*self._first, fits_now=True)
        return OrderTrials(self._trials, self._demand, pods)

    def run(self, pods: Sequence[Pod]) -> _Judged:
        ordered = self._trials.queued(pods)
        patterns = _generated(self._demand, self._demand.counts(ordered))
        self._demand = replace(self._demand, cuts=patterns.cuts)
        bound = self._bound(ordered)
        orders = self._order_trials(ordered)
        if self._first is not None:  # then there are other kinds of pods
            patterns = _generated(orders.demand, orders.demand.counts())
        one, chosen = self._searched(orders, patterns, ordered, bound)
        judged = self._judged(chosen, ordered)
        left = {pod.key for pod in judged.verdict.left(ordered)}
        placed = [pod for pod in ordered if pod.key not in left]
        return replace(
            judged,
            bound=bound if not left else self._bound(placed),
            pending_at_once=self._pending_at_once(judged),
            orders=self._with_failing(_tried(orders, judged.found, one), judged),
        )

    def _with_failing(self, orders: TriedOrders, judged: _Judged) -> TriedOrders:
        """The orders with those of all pods that were pending at first in which more of them are left than the plan says."""
        if self._loaded is None:
            return orders
        trials = self._first[0] if self._first is not None else self._trials_of(self._loaded)
        steps = steps_of(judged.found)
        early = failing_orders(trials, self._pods, steps, len(judged.found.left), present_first=False)
        if not self._rivals:
            return replace(orders, nodes_first=early)
        late = failing_orders(trials, self._rivals, steps, len(judged.verdict.left(self._rivals)))
        return replace(orders, nodes_first=early, rivals_first=late)

    def _pending_at_once(self, judged: _Judged) -> int:
        at_once = self._judge(replace(judged.found, steps=())) if judged.found.steps else judged
        return len(at_once.verdict.pending)

    def _searched(
        self, orders: OrderTrials, patterns: PatternProgram, pods: Sequence[Pod], bound: float
    ) -> tuple[FoundNodes, FoundNodes]:
        """The cheapest nodes for the order of the cluster alone; and the cheapest that hold in all orders, unless others that
        cost little more come in fewer steps, or at once. Nodes that hold in some orders, if none hold in all."""
        first = orders.first_only()
        one = HoldingSearch(first, patterns, pods, bound, 0, self._tell).run(self._at_once)
        holding: list[FoundNodes] = []
        search = HoldingSearch(orders, patterns, pods, bound, len(one.left), self._tell)
        if self._at_once or len(pods) <= FEW_PODS:
            holding = [search.run(True, [one] if len(one.steps) < 2 else [])]
        is_enough = any(not each.left and each.cost <= bound * WORTH_STEPS for each in holding)
        if not (self._at_once or is_enough):
            holding.append(search.run(False, [one, *holding]))
        return one, by_preference(holding, bound)[0]

    def _judged(self, found: FoundNodes, pods: Sequence[Pod]) -> _Judged:
        """The nodes with which the scheduler leaves the fewest pods pending, and what it says. More nodes are added where it
        leaves pods that fit in a trial: in a step of their own, or twice as many each time if all come at once."""
        known = {pod.id for pod in found.left}
        best = now = self._judge(found)
        for number in range(MAX_JUDGED - 1):
            left = [pod for pod in now.verdict.left(pods) if pod.id not in known]
            more = self._more(now.found, left, 1 if now.found.steps else 2**number) if left else None
            if more is None:
                break
            now = self._judge(more)
            if len(now.verdict.pending) < len(best.verdict.pending):
                best = now
        return replace(best, found=replace(best.found, left=best.verdict.left(pods)))

    def _more(self, found: FoundNodes, left: Sequence[Pod], times: int) -> FoundNodes | None:
        """The nodes with those that a program adds for pods that are left; None if it adds none."""
        limits = [limit - count for limit, count in zip(self._demand.limits, found.counts, strict=True)]
        solution = solve(self._demand, self._demand.counts(left), limits)
        if solution is None or not any(solution.nodes):
            return None
        more = tuple(min(times * number, limit) for number, limit in zip(solution.nodes, limits, strict=True))
        counts = sum_of(found.counts, more)
        return FoundNodes(counts, found.left, self._demand.cost_of(counts), (*found.steps, more) if found.steps else ())

    def _bound(self, pods: Sequence[Pod]) -> float:
        return lower_bound(self._demand, self._demand.counts(pods), self._demand.limits)

    def _judge(self, found: FoundNodes) -> _Judged:
        return _Judged(found, judge(self._now, self.named(found)))

    def named(self, found: FoundNodes) -> list[list[tuple[OfferedNodes, list[str]]]]:
        """The new nodes by step and offer."""
        offers = zip(self._trials.offers, found.counts, strict=True)
        names = [iter(self._trials.names(offered.offer, count)) for offered, count in offers]
        return [
            [
                (offered, [*islice(names[at], number)])
                for at, (offered, number) in enumerate(zip(self._trials.offers, step, strict=True))
            ]
            for step in found.steps or (found.counts,)
        ]

    def added(self, judged: _Judged) -> list[AddedNodes]:
        found = []
        for step, named in enumerate(self.named(judged.found), 1):
            for offered, names in named:
                pods = sum(judged.verdict.pods_on.get(name, 0) for name in names)
                found += [AddedNodes(offered.offer, names, pods, step)] if names else []
        return found


def _generated(demand: NodeDemand, counts: Sequence[int]) -> PatternProgram:
    patterns = PatternProgram(demand, counts)
    patterns.generate()
    return patterns


def _tried(orders: OrderTrials, chosen: FoundNodes, one: FoundNodes) -> TriedOrders:
    """In how many orders the nodes hold, and those that were found for one order, if they are cheaper."""
    most_left = len(chosen.left)
    is_cheaper = len(one.left) <= most_left and one.cost < chosen.cost - 1e-9
    cheaper = CheaperPlan(one.cost, orders.held(steps_of(one), most_left)) if is_cheaper else None
    return TriedOrders(orders.number, orders.held(steps_of(chosen), most_left), cheaper)
