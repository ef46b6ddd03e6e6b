"""`mooring simulate`: places all pending pods of a cluster and reports where each went and why the rest did not fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.app.assembly import build_runners
from mooring.cluster.cluster import Cluster
from mooring.cycle.decide import Manner, decide
from mooring.cycle.decision import Decision, NoFit, Placement
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.points import QueueSortPlugin
from mooring.framework.registry import Registry
from mooring.framework.runner import Runner
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.plugins.unbuilt import UNBUILT
from mooring.sim.placer import Outcome, Placer, Step

Progress = Callable[[int, int], None]
"""Told how many pods of how many have been attempted."""


class NoSuchPod(ValueError):
    """Asked to explain a pod that is not there."""


@dataclass(slots=True)
class PodResult:
    """What became of a pending pod."""

    pod: Pod
    outcome: Outcome
    node: str = ""
    score: int = 0
    feasible_count: int = 0
    best: list[tuple[str, int]] = field(default_factory=list)
    message: str = ""
    """Why it is still pending; empty for a pod that was placed."""


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
    """One attempt, node by node."""

    pod: Pod
    decision: Decision | None
    outcome: Outcome
    message: str = ""
    now_on: str = ""
    """Where the pod is already; the decision is then what it would be without it."""
    weights: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Report:
    """The outcome of a simulation."""

    pods: list[PodResult]
    nodes: list[NodeUse]
    notes: list[str] = field(default_factory=list)
    explanation: Explanation | None = None

    @property
    def placed(self) -> list[PodResult]:
        return [result for result in self.pods if result.outcome is Outcome.SCHEDULED]

    @property
    def pending(self) -> list[PodResult]:
        return [result for result in self.pods if result.outcome is not Outcome.SCHEDULED]


class Simulation:
    """A cluster made from objects, and the profiles of a configuration."""

    def __init__(
        self, objects: Sequence[KubeObject], config: KubeSchedulerConfiguration, registry: Registry | None = None
    ) -> None:
        self._runners = build_runners(config, registry)
        self._placer = Placer(self._runners, Manner(record=True))
        for item in objects:
            self._placer.put(item)
        self._finished = sum(isinstance(item, Pod) and item.is_finished for item in objects)
        self._placed_before = {id(pod) for pod in self.cluster.nodes.pods()}

    @property
    def cluster(self) -> Cluster:
        return self._placer.cluster

    def run(self, explain: str | None = None, on_progress: Progress | None = None) -> Report:
        """Place the pending pods in the order of the queue; those that did not fit are tried again while others do."""
        wanted = self._find(explain) if explain is not None else None
        explanation = None if wanted is None or wanted.key in self._placer.pending else self._explain_placed(wanted)
        waiting = self._queue()
        notes = self._notes(waiting)
        results: dict[str, PodResult] = {pod.key: PodResult(pod, Outcome.UNSCHEDULABLE) for pod in waiting}
        total, placed = len(waiting), 0
        while waiting:
            before, again = placed, []
            for pod in waiting:
                if pod is wanted:
                    explanation = self._explain(pod, self.cluster)
                step = self._placer.place(pod.key)
                results[pod.key] = _result(step)
                placed += step.outcome is Outcome.SCHEDULED
                if step.outcome is Outcome.UNSCHEDULABLE:
                    again.append(pod)
                if on_progress is not None:
                    on_progress(total - len(again) if before == 0 else placed, total)
            waiting = again if placed > before else []
        return Report(list(results.values()), self._node_use(), notes, explanation)

    def _queue(self) -> list[Pod]:
        """Pending pods in the order in which the queue would give them out."""
        runner = next(iter(self._runners.values()))
        (sorter,) = runner.profile.points["queueSort"]
        assert isinstance(sorter, QueueSortPlugin)
        pods = sorted(self._placer.pending.values(), key=lambda pod: pod.metadata.creation_timestamp or "")
        arrival = {pod.key: float(i) for i, pod in enumerate(pods)}
        return sorted(pods, key=lambda pod: sorter.sort_key(pod, arrival[pod.key]))

    def _find(self, name: str) -> Pod:
        """The pod that is meant by `namespace/name` or by `name` alone."""
        pods = [*self._placer.pending.values(), *self.cluster.nodes.pods()]
        found = [pod for pod in pods if name in (pod.key, pod.name)]
        if not found:
            raise NoSuchPod(f"no pod {name!r} in the input: it has {len(pods)} pods")
        if len(found) > 1:
            raise NoSuchPod(f"{name!r} could be any of {', '.join(pod.key for pod in found[:5])}: add its namespace")
        return found[0]

    def _explain(self, pod: Pod, cluster: Cluster) -> Explanation:
        runner = self._runners.get(pod.spec.scheduler_name)
        if runner is None:
            return Explanation(pod, None, Outcome.IGNORED, _no_profile(pod))
        gate = self._placer.gate(runner, pod)
        if gate is not None:
            return Explanation(pod, None, Outcome.GATED, gate.message)
        decision = decide(runner, pod, cluster, Manner(explain=True))
        return Explanation(pod, decision, _outcome(decision), weights=_weights(runner))

    def _explain_placed(self, pod: Pod) -> Explanation:
        """Why a pod is where it is: the decision as it would be now if the pod had not been placed."""
        fork = self.cluster.fork()
        row = fork.nodes.row_of_pod(pod.id)
        node_name = fork.nodes.names[row] if row is not None else ""
        fork.nodes.displace(pod.id)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        loose = Pod(metadata=pod.metadata, spec=spec, status=pod.status)
        explanation = self._explain(loose, fork)
        explanation.now_on = node_name
        return explanation

    def _node_use(self) -> list[NodeUse]:
        nodes = self.cluster.nodes
        use = []
        for name in sorted(nodes.row_book):
            row = nodes.row_book[name]
            if not nodes.alive[row]:
                continue
            amounts = {
                resource: (int(nodes.requested[index, row]), int(nodes.allocatable[index, row]))
                for resource, index in nodes.resource_book.items()
            }
            pods = nodes.pods_on[row].values()
            new = sum(id(pod) not in self._placed_before for pod in pods)
            use.append(NodeUse(name, len(pods), int(nodes.allowed_pods[row]), new, amounts))
        return use

    def _notes(self, waiting: Sequence[Pod]) -> list[str]:
        """What the reader should know about the input."""
        nodes = self.cluster.nodes
        notes = []
        if self._finished:
            notes.append(f"{_count(self._finished, 'finished pod')} take no room")
        lost = [name for name, row in nodes.row_book.items() if not nodes.alive[row]]
        if lost:
            pods = sum(len(nodes.pods_on[nodes.row_book[name]]) for name in lost)
            notes.append(f"{_count(pods, 'pod')} are on nodes that are not in the input: {_some(lost)}")
        for plugin in UNBUILT:
            concerned = [pod.key for pod in waiting if plugin.concerns(pod)]
            if concerned:
                notes.append(
                    f"{plugin.name} is not part of this release: what it would say of {_count(len(concerned), 'pod')} "
                    f"is not considered ({_some(concerned)})"
                )
        return notes


def _result(step: Step) -> PodResult:
    result = PodResult(step.pod, step.outcome)
    decision = step.decision
    if isinstance(decision, Placement):
        result.node, result.score = decision.node, decision.score
        result.feasible_count, result.best = decision.feasible_count, decision.best
    elif isinstance(decision, NoFit):
        result.message = decision.message
    elif decision is not None:
        result.message = decision.error
    elif step.gate is not None:
        result.message = step.gate.message
    elif step.outcome is Outcome.IGNORED:
        result.message = _no_profile(step.pod)
    return result


def _outcome(decision: Decision) -> Outcome:
    if isinstance(decision, Placement):
        return Outcome.SCHEDULED
    return Outcome.UNSCHEDULABLE if isinstance(decision, NoFit) else Outcome.ERROR


def _weights(runner: Runner) -> dict[str, int]:
    return {plugin.name: runner.profile.weights[plugin.name] for plugin in runner.scores}


def _no_profile(pod: Pod) -> str:
    return f'no profile has the scheduler name "{pod.spec.scheduler_name}"'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _some(names: Sequence[str], limit: int = 3) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
