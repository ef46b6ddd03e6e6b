"""Which nodes can go: an ordered list of drains, found by a search and made in a simulation before it is listed.

`moves/drain_search.py` looks for the order that frees the nodes worth most: the price of a node where all prices are known,
and 1 for each node otherwise. `moves/simulated_drains.py` has the last word.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.answers.form.answer import Progress
from mooring.answers.form.published import Form
from mooring.answers.moves.drain_search import DrainOrder, DrainSearch, effort_for
from mooring.answers.moves.drain_trials import CANNOT_TELL, DrainTrials
from mooring.answers.moves.simulated_drains import NodeDrain, SimulatedDrains
from mooring.answers.plan.judge import patient
from mooring.answers.plan.shrink_program import ShrinkProgram
from mooring.answers.plan.trials import broken_gang
from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.node_prices import known_prices, node_prices
from mooring.inputs.loaded_cluster import LoadedCluster, Source
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
    """So many of the first steps hold however chance falls."""
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
    prices: Mapping[str, float] | None = None,
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
