"""Places pods one after another, each attempt seeing the placements before it."""

from dataclasses import dataclass
from enum import Enum

from mooring.cluster.cluster import Cluster
from mooring.cycle.decide import Manner, decide
from mooring.cycle.decision import Decision, NoFit, Placement
from mooring.framework.points import PreEnqueuePlugin
from mooring.framework.runner import Runner
from mooring.framework.status import Rejection
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod


class Outcome(Enum):
    """How an attempt ended; the values are those of the conformance corpus."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IGNORED = "ignored"
    ALREADY_SCHEDULED = "already-scheduled"
    ERROR = "error"


@dataclass(slots=True)
class Step:
    """One attempt."""

    pod: Pod
    outcome: Outcome
    decision: Decision | None = None
    gate: Rejection | None = None


class Placer:
    """A cluster, the pods that wait, and the profiles that place them."""

    def __init__(self, runners: dict[str, Runner], manner: Manner) -> None:
        self.cluster = Cluster()
        self.pending: dict[str, Pod] = {}
        self._runners = runners
        self._manner = manner
        self._attempts = 0

    def put(self, item: KubeObject) -> None:
        if isinstance(item, Pod) and not item.spec.node_name and not item.is_finished:
            self.pending[item.key] = item
            _ = item.shape, item.kin  # worked out when a pod arrives, not when it is its turn
        else:
            self.cluster.put(item)

    def place(self, key: str) -> Step:
        """Attempt one pod; where it is placed, it stays."""
        pod = self.pending.get(key)
        if pod is None:
            placed = next((p for p in self.cluster.nodes.pods() if p.key == key), None)
            return Step(placed or Pod(), Outcome.ALREADY_SCHEDULED)
        runner = self._runners.get(pod.spec.scheduler_name)
        if runner is None:
            return Step(pod, Outcome.IGNORED)
        gate = self.gate(runner, pod)
        if gate is not None:
            return Step(pod, Outcome.GATED, gate=gate)
        self._attempts += 1
        decision = decide(runner, pod, self.cluster, self._manner, self._attempts)
        if not isinstance(decision, Placement):
            return Step(pod, Outcome.UNSCHEDULABLE if isinstance(decision, NoFit) else Outcome.ERROR, decision)
        del self.pending[key]
        self.cluster.nodes.place(pod, decision.node)
        return Step(pod, Outcome.SCHEDULED, decision)

    def gate(self, runner: Runner, pod: Pod) -> Rejection | None:
        """The first PreEnqueue rejection: why the pod may not be queued yet."""
        for plugin in runner.profile.points.get("preEnqueue", ()):
            assert isinstance(plugin, PreEnqueuePlugin)
            rejection = plugin.pre_enqueue(pod)
            if rejection is not None:
                return rejection.by(plugin.name)
        return None
