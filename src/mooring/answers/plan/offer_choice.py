"""Which of many offers a search has to look at: a cloud has 800 types, and a few of them are worth their price.

An offer is left out if no pod can use its nodes, or if another one is never worse: it costs no more, it has as much of
everything that pods request, and no object of the cluster tells the two apart. Amounts beyond what all pods request together
count for nothing, so that of machines which hold everything only the cheapest is left. If many are left nevertheless, those
are searched that cost least for a pod of some shape: a search over 180 offers takes minutes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.offers import MAX_LIMIT, NodeOffer, labels_in_use
from mooring.answers.trial.counterfactual import with_spec
from mooring.inputs.created_objects import pods_of
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.offers.instance_types import amount_of
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import Affinity
from mooring.rules.workload_pods import DAEMON_SET
from mooring.sim.fragmentation import fitting_nodes
from mooring.sim.scenario import OneByOne

FEW = 24
"""So many offers or fewer are all searched."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An offer, as far as others are compared with it."""

    offer: NodeOffer
    fits: NDArray[np.bool_]
    """By shape of a pod."""
    amounts: NDArray[np.int64]

    def is_never_worse(self, other: "_Candidate") -> bool:
        """Whether nodes of this offer can take the place of nodes of the other one, which has the same labels and taints."""
        one, two = self.offer, other.offer
        if one.price > two.price or not np.all(self.amounts >= other.amounts) or not np.all(self.fits >= other.fits):
            return False
        if one.limit >= MAX_LIMIT and not _is_limited(one):
            return True
        same_pool = one.pool is not None and two.pool is not None and one.pool.name == two.pool.name
        return same_pool and one.limit >= two.limit


def _is_limited(offer: NodeOffer) -> bool:
    """Whether the nodes of an offer use up limits of a pool."""
    return offer.pool is not None and bool(offer.pool.left)


def useful_offers(loaded: LoadedCluster, offers: Sequence[NodeOffer], pods: Sequence[Pod]) -> list[NodeOffer]:
    """The offers that are worth a search for these pods, in their order; all if there are few."""
    if len(offers) <= FEW and len({offer.pool.weight for offer in offers if offer.pool is not None}) < 2:
        return [*offers]
    shapes = [*{id(pod.shape): pod for pod in pods}.values()]
    empty = OneByOne(
        [item for offer in offers for item in offer.node(offer.name)], loaded.config, loaded.registry, loaded.gates
    )
    table = empty.cluster.nodes
    rows = [table.row_book[offer.name] for offer in offers]
    fits = np.array([fitting_nodes(empty, _unconstrained(pod))[rows] for pod in shapes]).T
    kept = _by_weight(offers, fits)
    used = labels_in_use([*loaded.objects, *loaded.workloads])
    wanted = _most_wanted(loaded, pods)
    amounts = _amounts(empty, rows, wanted)
    groups: dict[tuple[object, ...], list[_Candidate]] = {}
    for at, offer in enumerate(offers):
        if kept[at] and fits[at].any():
            alike = tuple(sorted((key, text) for key, text in offer.template.labels.items() if key in used))
            taints = tuple(sorted((taint.key, taint.value, taint.effect) for taint in offer.template.taints))
            groups.setdefault((alike, taints), []).append(_Candidate(offer, fits[at], amounts[at]))
    worth = [_undominated(group) for group in groups.values()]
    if sum(map(len, worth)) > FEW:
        worth = _best_values(worth, _requests(shapes, wanted))
    chosen = {each.offer.name for group in worth for each in group}
    return [offer for offer in offers if offer.name in chosen]


def _unconstrained(pod: Pod) -> Pod:
    """The pod without rules about other pods, volumes and devices: whatever it asks of the node alone is left."""
    own = None if pod.spec.affinity is None else Affinity(node_affinity=pod.spec.affinity.node_affinity)
    return with_spec(pod, affinity=own, topology_spread_constraints=None, volumes=None, resource_claims=None)


def _by_weight(offers: Sequence[NodeOffer], fits: NDArray[np.bool_]) -> list[bool]:
    """Whether Karpenter would use the pool of an offer: not if pools with a higher weight and without limits take all pods
    that the offer could take."""
    weights = [offer.pool.weight if offer.pool is not None else 0 for offer in offers]
    free = [offer.pool is not None and not _is_limited(offer) for offer in offers]
    covered = {
        weight: np.any(fits[[each > weight and free[at] for at, each in enumerate(weights)]], axis=0)
        for weight in {*weights}
    }
    return [
        offer.pool is None or not bool(np.all(covered[weight] >= fits[at]))
        for at, (offer, weight) in enumerate(zip(offers, weights, strict=True))
    ]


def _most_wanted(loaded: LoadedCluster, pods: Sequence[Pod]) -> dict[str, int]:
    """All that the pods request together, with the pods of all DaemonSets."""
    total: dict[str, int] = {}
    daemons = [
        each for workload in loaded.workloads if workload.kind == DAEMON_SET for each in pods_of(workload, [Node()])
    ]
    for pod in (*pods, *daemons):
        for name, amount in pod.shape.request.items():
            total[name] = total.get(name, 0) + amount
    return total


def _amounts(empty: OneByOne, rows: Sequence[int], wanted: dict[str, int]) -> NDArray[np.int64]:
    """Offers x resources: what pods can use of each node; slots for pods are the last column."""
    nodes = empty.cluster.nodes
    columns = [
        np.minimum(nodes.amounts.allocatable[nodes.amounts.resource(name)][rows], most) for name, most in wanted.items()
    ]
    return np.array([*columns, nodes.allowed_pods[rows]], np.int64).T


def _undominated(group: Sequence[_Candidate]) -> list[_Candidate]:
    """Those for which no other is never worse."""
    kept: list[_Candidate] = []
    for each in sorted(group, key=lambda one: (one.offer.price, -int(one.amounts.sum()), one.offer.name)):
        if not any(other.is_never_worse(each) for other in kept):
            kept.append(each)
    return kept


def _requests(shapes: Sequence[Pod], wanted: Mapping[str, int]) -> NDArray[np.float64]:
    """Kinds of demand x resources: one pod of each shape, and last all that is wanted. Columns are those of `_amounts`."""
    single = [[*(pod.shape.request.get(name, 0) for name in wanted), 1] for pod in shapes]
    return np.array([*single, [*wanted.values(), len(shapes)]], np.float64)


def _best_values(groups: Sequence[Sequence[_Candidate]], requests: NDArray[np.float64]) -> list[list[_Candidate]]:
    """Of each group the offers that cost least for a pod of some shape, or for all pods together, and the cheapest nodes that
    take a pod: about FEW in all, each group and each kind of demand in turn."""
    ranked: list[list[list[_Candidate]]] = []
    for group in groups:
        prices = np.array([each.offer.price for each in group])
        amounts = np.array([each.amounts for each in group], np.float64)
        by_demand = []
        for at, request in enumerate(requests):
            asked = request > 0
            room = np.min(amounts[:, asked] / request[asked], axis=1)
            if at < len(requests) - 1:  # whole pods, where the pod is allowed
                room = np.floor(room) * np.array([each.fits[at] for each in group])
            cost = np.divide(prices, room, out=np.full(len(group), np.inf), where=room > 0)
            by_demand += [_in_order(group, ranks) for ranks in (cost, np.where(room > 0, prices, np.inf))]
        ranked.append(by_demand)
    kept: list[dict[str, _Candidate]] = [{} for _ in groups]
    for depth in range(max(map(len, groups))):
        if depth and sum(map(len, kept)) >= FEW:
            break
        for own, by_demand in zip(kept, ranked, strict=True):
            own.update((each[depth].offer.name, each[depth]) for each in by_demand if depth < len(each))
    return [[*own.values()] for own in kept]


def _in_order(group: Sequence[_Candidate], ranks: NDArray[np.float64]) -> list[_Candidate]:
    return [group[i] for i in np.argsort(ranks, kind="stable").tolist() if np.isfinite(ranks[i])]


# ---- limits that several offers share


def within_pools(offers: Sequence[NodeOffer], counts: Mapping[str, int]) -> list[NodeOffer] | None:
    """The offers with lower limits, if these numbers of nodes (by offer) exceed the limits of a pool together; None if they
    do not. The pool keeps as many of these nodes as it may have, those with the highest price first."""
    used: dict[str, Counter[str]] = {}
    for offer in offers:
        if offer.pool is not None and _is_limited(offer):
            total = used.setdefault(offer.pool.name, Counter())
            for name in offer.pool.left:
                total[name] += counts.get(offer.name, 0) * _taken(offer, name)
    limits = {offer.pool.name: offer.pool.left for offer in offers if offer.pool is not None}
    exceeded = {pool for pool, total in used.items() if any(total[name] > limits[pool][name] for name in total)}
    if not exceeded:
        return None
    left = {pool: dict(limits[pool]) for pool in exceeded}
    lowered: dict[str, int] = {}
    for offer in sorted(offers, key=lambda each: -each.price):
        if offer.pool is not None and offer.pool.name in exceeded:
            room = left[offer.pool.name]
            most = [room[name] // taken for name in room if (taken := _taken(offer, name))]
            lowered[offer.name] = kept = min([counts.get(offer.name, 0), *most])
            for name in room:
                room[name] -= kept * _taken(offer, name)
    return [replace(offer, limit=lowered.get(offer.name, offer.limit)) for offer in offers]


def _taken(offer: NodeOffer, resource: str) -> int:
    """How much of a limit one node uses."""
    capacity = offer.template.status.capacity or offer.template.status.allocatable or {}
    return 1 if resource == "nodes" else amount_of(resource, capacity.get(resource, "0")) or 0
