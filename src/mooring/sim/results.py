"""What a simulation has to tell: the fate of each pod, who left for whom, how full the nodes are, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from mooring.model.pod import Pod
from mooring.model.validation.problem import Problem
from mooring.scheduler.decision import Decision
from mooring.sim.stories import Story


class Fate(Enum):
    """What became of a pod that was pending."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"
    """It has room on a node and waits for a Permit plugin."""
    GATED = "gated"
    IGNORED = "ignored"
    ERROR = "error"
    PREEMPTED = "preempted"
    """It was placed and had to leave for another pod."""


class InputError(ValueError):
    """Objects that cannot be used; `problems` has them all."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = list(problems)


class NoSuchPod(ValueError):
    """Asked about a pod that is not there."""


@dataclass(slots=True)
class PodResult:
    """What became of a pending pod."""

    pod: Pod
    fate: Fate
    node: str = ""
    score: int = 0
    feasible_count: int = 0
    best: list[tuple[str, int]] = field(default_factory=list)
    message: str = ""
    """Why it has no node, as its condition PodScheduled says; empty for a pod that was placed."""
    nominated: str = ""
    """The node that a pod without node is promised."""
    attempts: int = 0


@dataclass(slots=True)
class SimulatedEviction:
    """A pod that has to leave `node` for another one, the preemptor. It is gone then."""

    pod: Pod
    node: str
    preemptor: str


@dataclass(slots=True)
class NodeUse:
    """How full a node is in the end. Amounts by resource: (requested, allocatable), cpu in milli, memory in bytes."""

    name: str
    pods: int
    allowed_pods: int
    new_pods: int
    amounts: dict[str, tuple[int, int]]


@dataclass(slots=True)
class Explanation:
    """The last attempt of a pod, node by node."""

    pod: Pod
    decision: Decision | None
    fate: Fate
    message: str = ""
    """Why the pod has no node in the end."""
    now_on: str = ""
    """Where the pod is already; the decision is then what it would be without it."""
    weights: dict[str, int] = field(default_factory=dict)
    preemption: str = ""
    """Why no room could be made for the pod, where that was tried."""
    victims: list[str] = field(default_factory=list)
    """The pods that had to leave so that this one has room."""


@dataclass(slots=True)
class Report:
    """The outcome of a simulation."""

    pods: list[PodResult]
    nodes: list[NodeUse]
    preempted: list[SimulatedEviction] = field(default_factory=list)
    """Who left for whom, pods that ran and pods that had just been placed."""
    simulated_s: float = 0.0
    """How long it took on the simulated clock until nothing moved any more."""
    notes: list[str] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    """In the order in which they were asked for."""
    story: Story | None = None

    @property
    def explanation(self) -> Explanation | None:
        """The first one, or the only one that was asked for."""
        return self.explanations[0] if self.explanations else None

    @property
    def placed(self) -> list[PodResult]:
        return [result for result in self.pods if result.fate is Fate.SCHEDULED]

    @property
    def pending(self) -> list[PodResult]:
        """The pods that wait for a node in the end. Those that were preempted do not: they are gone."""
        return [result for result in self.pods if result.fate not in (Fate.SCHEDULED, Fate.PREEMPTED)]
