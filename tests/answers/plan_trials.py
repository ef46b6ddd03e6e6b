"""Trials of offered nodes that remember what they were asked, for tests of how a plan is searched for."""

from collections.abc import Sequence
from typing import Any

from written import a_node, a_pod

from mooring.answers.plan.demand import NodeDemand, demand_of
from mooring.answers.plan.offers import read_offers
from mooring.answers.plan.patterns import PatternProgram
from mooring.answers.plan.trials import Additions, NodeTrialOutcome, NodeTrials, OfferedNodes, TrialPlacer
from mooring.inputs.loaded_cluster import load
from mooring.model.pod import Pod


class WatchedTrials(NodeTrials):
    """Remembers which nodes were there at each attempt."""

    tried: list[Additions]

    def attempt(self, *args: Any, **rest: Any) -> NodeTrialOutcome:
        self.tried.append(tuple(len(offered.present) for offered in self.offers))
        return super().attempt(*args, **rest)


class Case:
    """Pods that are written by their cpu, and offers as (price, cpu, limit)."""

    def __init__(self, cpus: Sequence[str], *offers: tuple[float, str, int]) -> None:
        loaded = load([a_pod(f"p{i:04}", cpu, "0") for i, cpu in enumerate(cpus)])
        written = [
            {"name": f"o{i}", "price": price, "limit": limit, "node": a_node("template", cpu)}
            for i, (price, cpu, limit) in enumerate(offers)
        ]
        self.trials = WatchedTrials(TrialPlacer(loaded), [OfferedNodes(each) for each in read_offers(written, loaded)])
        self.trials.tried = []
        self.pods = self.trials.queued([item for item in loaded.objects if isinstance(item, Pod)])
        self.demand: NodeDemand = demand_of(self.trials, self.pods)
        self.patterns = PatternProgram(self.demand, self.demand.counts())
        self.patterns.generate()
        self.told: list[tuple[int, int]] = []
        """How far a search said that it is."""

    def tell(self, made: int, most: int) -> None:
        self.told.append((made, most))

    @property
    def is_as_before(self) -> bool:
        """Whether no trial node and no pod stayed."""
        return not any(offered.present for offered in self.trials.offers) and not [*self.trials.cluster.nodes.pods()]
