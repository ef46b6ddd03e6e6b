"""Rewards of the environment for agents: functions of the outcome of a step. Write your own in the same form."""

from collections.abc import Sequence
from dataclasses import dataclass

from mooring.cluster.nodes.table import NodeTable
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import Objects, load
from mooring.model.pod import Pod
from mooring.sim.fragmentation import TypicalRequests, weighed_shapes

TYPICAL = 24
"""How many different requests count as typical: the most frequent ones."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of a step, from which a reward is worked out."""

    pod: Pod
    node: str | None
    """The node that the pod was bound to; None: it has none yet."""
    nodes: NodeTable
    """The nodes as columns, after the step."""
    passed_s: float
    """The simulated time since the episode began."""
    preempted: int
    """How many pods lost their nodes in this step."""


def placed(outcome: StepOutcome) -> float:
    """1 for a pod that was bound, less 1 for each pod that was preempted for it."""
    return float(outcome.node is not None) - outcome.preempted


def used_nodes(outcome: StepOutcome) -> float:
    """-1 for a pod that is the first one on its node: the fewer nodes are in use, the better."""
    if outcome.node is None:
        return 0.0
    return -float(outcome.nodes.pod_count[outcome.nodes.row_book[outcome.node]] == 1)


class Fragmentation:
    """Less the growth of fragmentation: the share of a resource that is free on nodes where a typical pod does not fit.

    The measure is an expectation over the requests of `typical` pods (files or manifests), weighed by how often they occur;
    pods of DaemonSets and pods with claims do not count.
    One object serves one environment.
    """

    def __init__(self, typical: Objects, resources: Sequence[str] = ("cpu", "memory"), of: str = "cpu") -> None:
        """Raises InputError for pods that cannot be used."""
        shapes = weighed_shapes((pod, 1) for pod in load(typical).pods())
        self._typical, self._of = TypicalRequests(shapes, resources, TYPICAL), of
        if not len(self._typical):
            raise InputError("typical: there is no pod to measure fragmentation with")
        self._before: tuple[int, float] | None = None

    def __call__(self, outcome: StepOutcome) -> float:
        now = self.measure(outcome.nodes)
        before = self._before[1] if self._before is not None and self._before[0] == id(outcome.nodes) else now
        self._before = id(outcome.nodes), now
        return before - now

    def measure(self, nodes: NodeTable) -> float:
        """The expected share of the allocatable amount that is free where a typical pod does not fit."""
        return self._typical.unusable_share(nodes, self._of)
