"""Which nodes can go: an ordered list of drains, found by a search and made in a simulation before it is listed.

`trial/drain_search.py` looks for the order that frees the nodes worth most: the price of a node where all prices are known,
and 1 for each node otherwise. `trial/drain_trials.py` has the last word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mooring.answers.form.published import Form
from mooring.answers.plan.demand import keeps_apart
from mooring.answers.plan.judge import patient
from mooring.answers.plan.programs import ProgramRows, SolverMissing, whole_program
from mooring.answers.plan.trials import broken_gang
from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.drain_search import DrainOrder, DrainSearch, NodeSet, effort_for
from mooring.answers.trial.drain_trials import CANNOT_TELL, DrainTrials, NodeDrain, SimulatedDrains
from mooring.answers.trial.node_prices import known_prices, node_prices
from mooring.framework.attempts.attempt import PodRejected
from mooring.framework.contract.points import Reads
from mooring.framework.kept.asking import AttemptError
from mooring.framework.kept.feasible import PASSED
from mooring.inputs.loaded_cluster import LoadedCluster, Source
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.callbacks import Progress
from mooring.kit.words import some
from mooring.model.node import Node
from mooring.model.pod import Pod


class KeptNode(Form, frozen=True):
    """A node that has to stay, and why."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Shrinking:
    """The drains in their order, and the nodes that stay."""

    steps: Sequence[NodeDrain] = ()
    kept: Sequence[KeptNode] = ()
    is_complete: bool = True
    """Whether the search did all that it does, and tried all candidates."""
    safe_steps: int = 0
    """The number of first steps that hold however chance falls."""
    chances: int = 0
    """In how many ways chance fell to find that."""
    cordons_first: bool = False
    """Whether all nodes have to be cordoned before the first drain."""
    saved: float | None = None
    """The price of the nodes that go; None if prices are not known."""


@dataclass(frozen=True, slots=True)
class ShrinkOptions:
    """How nodes that can go are looked for."""

    prices: Source | Mapping[str, float] | None = None
    """Prices an hour by instance type or name of nodes, or a file of them. None: as labels and annotations of nodes tell."""
    seconds: float | None = None
    """How long the search may take. None: it is bounded by a number of decisions."""


def nodes_to_remove(
    loaded: LoadedCluster,
    keep: Sequence[str] = (),
    tell: Progress | None = None,
    prices: PriceList | None = None,
    seconds: float | None = None,
) -> Shrinking:
    """The drains that leave everything placed. Nodes in `keep` stay. Raises InputError if `prices` lack some nodes."""
    simulated = SimulatedDrains(patient(loaded), _hindrance)
    nodes = [item for item in simulated.saved.objects if isinstance(item, Node)]
    costs = known_prices(nodes) if prices is None else node_prices(nodes, prices)
    worth = {node.name: costs.get(node.name, 1.0) for node in nodes if node.name not in frozenset(keep)}
    trials = DrainTrials(simulated.saved)
    search = DrainSearch(trials, worth, effort_for(len(nodes), seconds), ShrinkProgram(trials, worth).propose, tell)
    found = search.run()
    unsure = [name for name, reason in found.reasons.items() if reason == CANNOT_TELL]
    order = found.order
    simulated.run([*order.names, *unsure], order.cordons_first)
    gone = [step.node for step in simulated.steps]
    kept = {name: simulated.kept.get(name, reason) for name, reason in {**found.reasons, **simulated.kept}.items()}
    return Shrinking(
        simulated.steps,
        [KeptNode(name, reason) for name, reason in kept.items() if name not in set(gone)],
        found.is_complete and simulated.is_complete,
        _still_safe(order, gone),
        order.lucks,
        order.cordons_first and len(gone) > 1,
        sum(costs[name] for name in gone) if costs else None,
    )


def _still_safe(order: DrainOrder, gone: Sequence[str]) -> int:
    """How many of the first steps hold however chance falls; fewer, if the simulation made other steps."""
    return next(
        (place for place in range(order.safe) if [*gone[place : place + 1]] != [order.names[place]]), order.safe
    )


def _hindrance(cluster: ChangingCluster, pods: Sequence[Pod]) -> str:
    """Why a drain need not be tried; empty if it has to be."""
    alone = [pod.key for pod in pods if pod.controller() is None]
    if alone:
        return f"no controller would replace {some(alone)}"
    return broken_gang(cluster.simulated.cluster, pods)


# ---- The integer program behind `--shrink`: the nodes worth most that could be emptied if pods went wherever they have room.
#
# The scheduler spreads pods, and budgets hold some back, so that not every such set can be drained. But no set that can go is
# worth more, and the search tries the sets that the solver proposes.


MAX_PAIRS = 4000
"""Pairs of a kind of pods and a node, above which the solver is not asked: it takes some seconds for so many."""


class ShrinkProgram:
    """Columns are the nodes that may go (1: it goes), and then how many pods of each kind come to each node."""

    def __init__(self, trials: DrainTrials, worth: Mapping[str, float]) -> None:
        self._trials = trials
        nodes = trials.cluster.nodes
        self._rows = [row for row in range(nodes.height) if nodes.alive[row]]
        if len(self._rows) > MAX_PAIRS:
            worth = {}  # Hot: with one kind of pods there are too many pairs already
        self._worth = {name: each for name, each in worth.items() if not _is_held(trials, name)}
        self._choices = [nodes.row_book[name] for name in self._worth]
        self._kinds: dict[tuple[int, int], list[tuple[int, Pod]]] = {}
        for name, row in zip(self._worth, self._choices, strict=True):
            for pod in trials.moving(name):
                self._kinds.setdefault((id(pod.shape), id(pod.label_set)), []).append((row, pod))

    def propose(self, seen: Sequence[Sequence[str]]) -> NodeSet | None:
        """The nodes worth most, another set than those that were seen. None without SciPy, and for large clusters."""
        if not self._choices or len(self._kinds) * len(self._rows) > MAX_PAIRS:
            return None
        try:
            return self._solved(seen)
        except (SolverMissing, AttemptError):
            return None

    def _solved(self, seen: Sequence[Sequence[str]]) -> NodeSet | None:
        self._program, self._width = ProgramRows(), len(self._choices)
        self._goes = {row: column for column, row in enumerate(self._choices)}
        comes = [self._comings(held) for held in self._kinds.values()]
        self._fit(comes)
        for names in seen:
            columns = [self._goes[self._trials.cluster.nodes.row_book[name]] for name in names]
            self._program.add(dict.fromkeys(columns, 1.0), len(columns) - 1.0)
        cost = np.zeros(self._width)
        cost[: len(self._choices)] = [-worth for worth in self._worth.values()]
        high = np.full(self._width, np.inf)
        high[: len(self._choices)] = 1.0
        rows = self._program
        found = whole_program(cost, np.ones(self._width), high, rows.matrix(self._width), (rows.low, rows.high), 0.0)
        if found.x is None:
            return None
        names = [name for name, value in zip(self._worth, found.x, strict=False) if value > 0.5]
        most = float("inf") if seen or found.mip_dual_bound is None else -found.mip_dual_bound
        return NodeSet(names, most) if names else None

    def _comings(self, held: Sequence[tuple[int, Pod]]) -> dict[int, int]:
        """Columns of a kind of pods, by row to which they may come. As many come as leave nodes that go."""
        pod = held[0][1]
        columns = {row: self._width + place for place, row in enumerate(self._takers(pod))}
        self._width += len(columns)
        terms = dict.fromkeys(columns.values(), 1.0)
        for row, _ in held:
            terms[self._goes[row]] = terms.get(self._goes[row], 0.0) - 1.0
        self._program.add(terms, 0.0, 0.0)
        if keeps_apart(pod):
            for row, column in columns.items():
                has = any(row == other for other, _ in held)
                goes = {self._goes[row]: 1.0} if row in self._goes and not has else {}
                self._program.add({column: 1.0, **goes}, 0.0 if has else 1.0)
        return columns

    def _takers(self, pod: Pod) -> list[int]:
        """The rows that no fact of a node rules out for the pod."""
        runner = self._trials.runner(pod)
        if runner is None:
            return []
        attempt = runner.open(pod.with_node(""), self._trials.cluster)
        narrowing = attempt.pre_filter()
        if isinstance(narrowing, PodRejected):
            return self._rows
        first = attempt.filter(narrowing).first
        reads = attempt.runner.filter_reads
        return [
            row for row in self._rows if first[row] == PASSED or (first[row] >= 0 and reads[first[row]] > Reads.NODE)
        ]

    def _fit(self, comes: Sequence[Mapping[int, int]]) -> None:
        """On each node, for each resource: the pods that come have room, and none come if the node goes."""
        nodes = self._trials.cluster.nodes
        requests = [held[0][1].shape.request for held in self._kinds.values()]
        names = dict.fromkeys(name for request in requests for name, amount in request.items() if amount)
        for row in self._rows:
            for name in names:
                place = nodes.amounts.resource(name)
                free = int(nodes.amounts.allocatable[place, row] - nodes.amounts.requested[place, row])
                terms = {
                    columns[row]: float(each[name])
                    for each, columns in zip(requests, comes, strict=True)
                    if row in columns and each.get(name)
                }
                self._add_fit(terms, row, free)
            count = {columns[row]: 1.0 for columns in comes if row in columns}
            self._add_fit(count, row, int(nodes.allowed_pods[row] - nodes.pod_count[row]))

    def _add_fit(self, terms: Mapping[int, float], row: int, free: int) -> None:
        room, scale = float(max(free, 0)), max([1.0, *terms.values()])
        scaled = {column: value / scale for column, value in terms.items()}
        if terms:
            goes = {self._goes[row]: room / scale} if row in self._goes else {}
            self._program.add({**scaled, **goes}, room / scale)


def _is_held(trials: DrainTrials, name: str) -> bool:
    """Whether a pod of the node cannot be evicted: no controller would replace it, or its budget lets no pod go."""
    return any(pod.controller() is None or trials.budgets.blocking(pod) is not None for pod in trials.moving(name))
