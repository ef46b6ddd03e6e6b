"""Whether the order of the pending pods decides which of them fit on the present nodes.

If it does not, all orders may begin after the present nodes have got these pods. The search for new nodes then has fewer
pods, mostly no present node that takes any of them, and so a table (`contents.py`) instead of a decision for each pod.
"""

from collections.abc import Sequence

from mooring.answers.plan.demand import demand_of
from mooring.answers.plan.orders import MAX_ORDERS, arrival_orders, spare_orders
from mooring.answers.plan.trials import NodeTrials
from mooring.answers.plan.walks import ArrivalOrder
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
            demand.counts(_left_in(trials, order, demand.plain())) == left
            for order in listed
            if not order.is_one_by_one
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
