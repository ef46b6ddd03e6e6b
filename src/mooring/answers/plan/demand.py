"""The pods that need new nodes, grouped by shape, and which offers can take how many of each: what the programs are about.

Of arrivals over time, these are the pods of the moment at which they need most.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.trials import NodeTrials
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.attempt import Attempt, Narrowing, PodRejected, Verdicts
from mooring.framework.contract.points import Reads, ResourceDemand
from mooring.framework.contract.status import Rejection
from mooring.framework.kept.asking import AttemptError
from mooring.framework.kept.feasible import NARROWED_OUT, PASSED
from mooring.inputs.arrivals import Arrival
from mooring.model.names import HOSTNAME
from mooring.model.pod import Pod
from mooring.plugins.affinity.pod_topology_spread import PodTopologySpread
from mooring.plugins.affinity.spread_constraints import SpreadConstraint
from mooring.plugins.affinity.spread_counts import SkewCheck


def pods_at_peak(arrivals: Sequence[Arrival]) -> list[Pod]:
    """The pods that run at the busiest moment, if each runs from its arrival. Busy is the sum over resources of the share of
    all that is requested of it."""
    total: Counter[str] = Counter()
    for arrival in arrivals:
        total.update(arrival.pod.shape.request)
    events: list[tuple[int, int, int]] = []
    for number, arrival in enumerate(arrivals):
        events.append((arrival.at_ns, 1, number))
        if arrival.run_ns is not None:
            events.append((arrival.at_ns + arrival.run_ns, 0, number))  # ends come first: the room is free again
    load, highest, peak_ns = 0.0, 0.0, 0
    for at_ns, begins, number in sorted(events):
        load += _share(arrivals[number].pod, total) * (1 if begins else -1)
        if load > highest + 1e-9:
            highest, peak_ns = load, at_ns
    return [each.pod for each in arrivals if _runs_at(each, peak_ns)]


def _share(pod: Pod, total: Counter[str]) -> float:
    """At least something, so that pods without requests count too."""
    return 1e-6 + sum(amount / total[name] for name, amount in pod.shape.request.items() if amount)


def _runs_at(arrival: Arrival, at_ns: int) -> bool:
    return arrival.at_ns <= at_ns and (arrival.run_ns is None or at_ns < arrival.at_ns + arrival.run_ns)


# ---- Topology spread constraints as programs see them: how many pods of a kind the domains of a label may have.


NO_DOMAIN = ""
"""Stands for an absent label."""
_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class SpreadLimit:
    """A required constraint of a kind of pods that counts these pods themselves.

    In the end no domain has more pods than `max_skew` above the one with the fewest.
    """

    max_skew: int
    held: dict[str, int]
    """Pods that count already, by domain of the present nodes; domains without any have 0."""
    offers: dict[int, str]
    """By number of the offer: its domain."""
    domains: Sequence[str] = field(repr=False)
    """By row of the node table."""
    constraint: SpreadConstraint = field(repr=False)
    eligible: frozenset[int] = frozenset()
    """The numbers of the offers whose nodes make their domain count for the lowest number."""

    def most_above_lowest(self, domain: str) -> int:
        """How many pods a domain may get beyond the lowest count of all domains in the end; it may be negative.

        A domain that has more pods than the skew allows now keeps them, and gets one when the lowest count has risen enough.
        """
        return max(self.max_skew - self.held.get(domain, 0), -min(self.held.values(), default=0))

    def counts_pods_like(self, pod: Pod) -> bool:
        return pod.namespace == self.constraint.namespace and self.constraint.selector.matches(pod.labels)


def spread_limit(attempt: Attempt, samples: Sequence[int]) -> SpreadLimit | None:
    """The first constraint over domains that have several nodes. Others are left to the trials: a program may leave out a
    constraint, and is then only less exact."""
    for check in _checks(attempt):
        if check.itself and check.constraint.key != HOSTNAME and check.constraint.predicate is not None:
            codes = check.column.codes[: attempt.context.nodes.height].tolist()
            values = [value or NO_DOMAIN for value in check.column.values]
            present = {codes[row] for row in check.eligible.rows.tolist() if row not in samples and codes[row]}
            held = {values[code]: int(check.counts[code]) for code in sorted(present)}
            offers = {number: values[codes[row]] for number, row in enumerate(samples)}
            domains = [values[code] for code in codes]
            rows = set(check.eligible.rows.tolist())
            eligible = frozenset(number for number, row in enumerate(samples) if row in rows)
            return SpreadLimit(check.constraint.max_skew, held, offers, domains, check.constraint, eligible)
    return None


def most_on_a_node(attempt: Attempt, samples: Sequence[int], room: Sequence[int]) -> int:
    """How many pods a constraint over host names lets one node have. `room` has how many of them each row of the node table
    can take: the lowest count of all nodes never exceeds what a present node has and can take."""
    found = _NO_LIMIT
    for check in _checks(attempt):
        if check.itself and check.constraint.key == HOSTNAME and check.constraint.predicate is not None:
            codes = check.column.codes
            rows = [row for row in check.eligible.rows.tolist() if row not in samples]
            held = [int(check.counts[codes[row]]) + room[row] for row in rows]
            if held:
                found = min(found, min(held) + check.constraint.max_skew)
    return max(found, 1)


def _checks(attempt: Attempt) -> Sequence[SkewCheck]:
    found = attempt.context.state.find((PodTopologySpread.name, "checks"))
    return found.checks if found is not None else ()


Amounts = NDArray[np.float64]
Counts = NDArray[np.int64]
PODS = -1
"""Stands for the number of pods of a node beside the places of resources."""


@dataclass(slots=True)
class PodKind:
    """Pods that agree in all that decides where they fit."""

    pods: list[Pod] = field(repr=False)
    """In the order of the queue."""
    requests: dict[int, int]
    """By place of the resource in the node table; PODS has 1."""
    takers: dict[int, int]
    """By number of the offer: how many of these pods one of its nodes can hold, if it holds nothing else. Offers that take
    none are left out."""
    refusals: Counter[str]
    """Why the other offers take none: the reason, and of how many offers."""
    is_plain: bool
    """Whether nothing but facts and sums of each node decides about them."""
    room: dict[str, int] = field(default_factory=dict)
    """By domain of `spread`, NO_DOMAIN without one: how many of them the present nodes could hold as far as resources go, if
    relations to other pods allowed it."""
    spread: SpreadLimit | None = None


@dataclass(frozen=True, slots=True)
class PatternCut:
    """Weights of pods of which one node of an offer can hold no more than 1, whatever pods it holds."""

    offer: int
    weights: dict[int, float]
    """By kind of pod."""


@dataclass(slots=True)
class NodeDemand:
    """All kinds of pods, and what a node of each offer can hold beside its DaemonSet pods."""

    kinds: Sequence[PodKind]
    offers: Sequence[dict[int, int]]
    """By offer: free amounts of a new node, by place of the resource."""
    prices: Sequence[float]
    limits: Sequence[int]
    cuts: Sequence[PatternCut] = ()

    def cost_of(self, counts: Sequence[int]) -> float:
        """The price of so many nodes of each offer."""
        return sum(number * price for number, price in zip(counts, self.prices, strict=True))

    def plain(self) -> frozenset[int]:
        """The shapes of kinds that are plain, by id."""
        return frozenset(id(kind.pods[0].shape) for kind in self.kinds if kind.is_plain)

    def spread_keys(self) -> dict[str, str]:
        """By id of each pod whose kind is spread: the label of the domains."""
        return {
            pod.id: kind.spread.constraint.key for kind in self.kinds if kind.spread is not None for pod in kind.pods
        }

    def after(self, domains: Mapping[str, str]) -> "NodeDemand":
        """The demand after some pods were placed: `domains` has those of pods whose kind is spread, by id."""
        kinds = [
            kind if kind.spread is None else replace(kind, spread=_after(kind, kind.spread, domains))
            for kind in self.kinds
        ]
        return replace(self, kinds=kinds)

    def without_room(self) -> "NodeDemand":
        """The demand if the present nodes are full."""
        return replace(self, kinds=[replace(kind, room={}) for kind in self.kinds])

    def counts(self, pods: Sequence[Pod] | None = None) -> list[int]:
        """How many pods there are of each kind; of `pods`, if given."""
        if pods is None:
            return [len(kind.pods) for kind in self.kinds]
        wanted = {pod.id for pod in pods}
        return [sum(pod.id in wanted for pod in kind.pods) for kind in self.kinds]


def _after(kind: PodKind, spread: SpreadLimit, domains: Mapping[str, str]) -> SpreadLimit:
    placed = Counter(domains[pod.id] for pod in kind.pods if pod.id in domains)
    held = {domain: spread.held.get(domain, 0) + placed[domain] for domain in (*spread.held, *placed)}
    return replace(spread, held=held)


def demand_of(trials: NodeTrials, pods: Sequence[Pod]) -> NodeDemand:
    """Ask the core about each kind of pod on one new node of each offer."""
    trials.add(tuple(1 for _ in trials.offers))
    grouped: dict[tuple[int, int], list[Pod]] = {}
    for pod in pods:
        grouped.setdefault((id(pod.shape), id(pod.label_set)), []).append(pod)
    kinds = [_kind(trials, group) for group in grouped.values()]
    _drop_shared_spreads(kinds)
    nodes = trials.cluster.nodes
    places = sorted({place for kind in kinds for place in kind.requests if place != PODS})
    offers = [_free(nodes, _row(nodes, offered.present[0]), places) for offered in trials.offers]
    prices = [offered.offer.price for offered in trials.offers]
    limits = [offered.offer.limit for offered in trials.offers]
    trials.add(tuple(0 for _ in trials.offers))
    return NodeDemand(kinds, offers, prices, limits)


def _drop_shared_spreads(kinds: Sequence[PodKind]) -> None:
    """A constraint that counts pods of other kinds as well says nothing about its own kind alone."""
    for kind in kinds:
        spread = kind.spread
        if spread is not None and any(spread.counts_pods_like(other.pods[0]) for other in kinds if other is not kind):
            kind.room = {NO_DOMAIN: sum(kind.room.values())} if kind.room else {}
            kind.spread = None


def _row(nodes: NodeTable, name: str) -> int:
    return nodes.row_book[name]


def _free(nodes: NodeTable, row: int, places: Sequence[int]) -> dict[int, int]:
    free = {place: int(nodes.amounts.allocatable[place, row] - nodes.amounts.requested[place, row]) for place in places}
    return {**free, PODS: int(nodes.allowed_pods[row] - nodes.pod_count[row])}


def _kind(trials: NodeTrials, group: list[Pod]) -> PodKind:
    pod = group[0]
    runner = trials.runner(pod)
    assert runner is not None, "pods without a profile are not asked about"
    attempt = runner.open(pod, trials.cluster)
    try:
        return _kind_in(trials, group, attempt)
    except AttemptError as error:  # a plugin fails about this pod on all nodes
        return PodKind(group, {PODS: 1}, {}, Counter({str(error): len(trials.offers)}), False)


def _kind_in(trials: NodeTrials, group: list[Pod], attempt: Attempt) -> PodKind:
    """The outcome of an attempt for one of the pods, which holds for all of them. Raises AttemptError."""
    pod = group[0]
    narrowing = attempt.pre_filter()
    samples = [_row(attempt.context.nodes, offered.present[0]) for offered in trials.offers]
    if isinstance(narrowing, PodRejected):
        # Such a verdict depends on other objects (claims, pods): a trial may find another one later.
        return PodKind(group, {PODS: 1}, {}, Counter({narrowing.rejection.message: len(samples)}), False)
    demand, is_plain = _demand(attempt)
    requests = _requests(demand)
    verdicts = attempt.filter(narrowing)
    most = _most(attempt, requests, pod)
    takers, refusals = _takers(attempt, verdicts, narrowing, samples, most)
    if is_plain:
        # The pods of a gang may fit on present nodes: they are pending because others of the gang do not.
        is_gang = any(trials.gangs.gang_of(pod) is not None for pod in group)
        there = _room_there(attempt, verdicts, samples, most, None) if is_gang else {}
        return PodKind(group, requests, takers, refusals, True, there)
    spread = spread_limit(attempt, samples)
    if spread is not None:
        unlabelled = [offer for offer in takers if spread.offers[offer] == NO_DOMAIN]
        takers = {offer: number for offer, number in takers.items() if offer not in unlabelled}
        refusals[f"node(s) lack the label {spread.constraint.key} of a spread constraint"] += len(unlabelled)
    room = _room_there(attempt, verdicts, samples, most, spread)
    most_apart = most_on_a_node(attempt, samples, most.tolist())
    takers = {offer: min(number, most_apart) for offer, number in takers.items()}
    return PodKind(group, requests, takers, +refusals, False, room, spread)


def _demand(attempt: Attempt) -> tuple[ResourceDemand | None, bool]:
    """The amounts that the resource filter compares, and whether no filter reads more than facts and sums."""
    found, is_plain = None, True
    for index, plugin in attempt.active_filters():
        reads = attempt.runner.filter_reads[index]
        if reads > Reads.TOTALS:
            is_plain = False
        elif reads is Reads.TOTALS:
            found = plugin.demand(attempt.context) or found
    return found, is_plain


def _requests(demand: ResourceDemand | None) -> dict[int, int]:
    """By place of the resource. What devices may serve instead is left out."""
    if demand is None:
        return {PODS: 1}
    amounts = demand.amounts[:, 0].tolist()
    places = (
        np.arange(1 << 16)[demand.resources].tolist()
        if isinstance(demand.resources, slice)
        else demand.resources.tolist()
    )
    waived = demand.waived[:, 0].tolist() if demand.waived is not None else [False] * len(amounts)
    return {
        place: amount for place, amount, other in zip(places, amounts, waived, strict=True) if amount and not other
    } | {PODS: 1}


def _most(attempt: Attempt, requests: dict[int, int], pod: Pod) -> Counts:
    """By row how many of the pods its free amounts can hold."""
    nodes = attempt.context.nodes
    rows = slice(0, nodes.height)
    found: Counts = nodes.allowed_pods[rows] - nodes.pod_count[rows]
    for place, amount in requests.items():
        if place != PODS:
            free = nodes.amounts.allocatable[place, rows] - nodes.amounts.requested[place, rows]
            found = np.minimum(found, free // amount)
    if pod.shape.host_ports or keeps_apart(pod):
        found = np.minimum(found, 1)
    return np.maximum(found, 0)


def keeps_apart(pod: Pod) -> bool:
    """Whether required anti-affinity keeps pods like this one from sharing a node."""
    if pod.spec.affinity is None:
        return False
    return any(
        term.topology_key == HOSTNAME and pod.namespace in term.namespaces and term.selector.matches(pod.labels)
        for term in pod.shape.terms(pod.namespace).anti_affinity
    )


def _takers(
    attempt: Attempt, verdicts: Verdicts, narrowing: Narrowing, samples: Sequence[int], most: Counts
) -> tuple[dict[int, int], Counter[str]]:
    """Which offers can take the pod, and why the others do not. A rejection by relations to other pods is none: it may be
    another one when nodes and pods are added."""
    takers: dict[int, int] = {}
    refusals: Counter[str] = Counter()
    for number, row in enumerate(samples):
        rejection = _rejection(attempt, verdicts, narrowing, row)
        if rejection is not None:
            refusals[rejection.message] += 1
        elif most[row]:
            takers[number] = int(most[row])
        else:  # a filter about other pods stands before the one about resources
            refusals["Insufficient resources"] += 1
    return takers, refusals


def _rejection(attempt: Attempt, verdicts: Verdicts, narrowing: Narrowing, row: int) -> Rejection | None:
    """Why a node can never take the pod, whatever other pods do; None if it can."""
    first = int(verdicts.first[row])
    if first == PASSED:
        return None
    if first == NARROWED_OUT:
        return narrowing.rejection_of_others()
    if attempt.runner.filter_reads[first] > Reads.TOTALS:
        return None
    return attempt.rejection(first, int(attempt.codes(verdicts, first)[row]))


def _room_there(
    attempt: Attempt, verdicts: Verdicts, samples: Sequence[int], most: Counts, spread: SpreadLimit | None
) -> dict[str, int]:
    """How many pods the present nodes could hold that only relations to other pods keep away, by domain."""
    relates = np.array([each > Reads.TOTALS for each in attempt.runner.filter_reads] or [False], np.bool_)
    first = verdicts.first.astype(np.int64)
    is_filter = (first >= 0) & (first < len(relates))
    held_off = (first == PASSED) | (is_filter & relates[np.where(is_filter, first, 0)])
    held_off[list(samples)] = False
    found: Counter[str] = Counter()
    for row in np.flatnonzero(held_off & (most > 0)).tolist():
        found[spread.domains[row] if spread is not None else NO_DOMAIN] += int(most[row])
    return dict(found)
