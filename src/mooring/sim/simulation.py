"""`mooring simulate`: places all pending pods of a cluster and reports where each went and why the rest did not fit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from mooring.app.assembly import build_runners
from mooring.cluster.cluster import Cluster
from mooring.cycle.decide import Manner, decide
from mooring.cycle.decision import Decision, Failed, NoFit, Placement
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.points import QueueSortPlugin
from mooring.framework.registry import Registry
from mooring.framework.runner import Runner
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.problem import Problem, show
from mooring.plugins.unbuilt import UNBUILT
from mooring.sim.manifests import Manifests
from mooring.sim.placer import Outcome, Placer, Step

Progress = Callable[[int, int], None]
"""Told how many pods of how many have been attempted; starts over when those that did not fit are tried again."""


class InputError(ValueError):
    """Objects that cannot be used; `problems` has them all."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = list(problems)


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
    preemption: str = ""
    """Why no room could be made for it, where that was tried."""


@dataclass(slots=True)
class Eviction:
    """A pod of the input that ran on `node` and has to leave it for another pod."""

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
    """One attempt, node by node."""

    pod: Pod
    decision: Decision | None
    outcome: Outcome
    message: str = ""
    now_on: str = ""
    """Where the pod is already; the decision is then what it would be without it."""
    weights: dict[str, int] = field(default_factory=dict)
    preemption: str = ""
    """Why no room could be made for the pod, where that was tried."""
    evicted: list[str] = field(default_factory=list)
    """The pods that had to leave so that this one has room."""


@dataclass(slots=True)
class Report:
    """The outcome of a simulation."""

    pods: list[PodResult]
    nodes: list[NodeUse]
    evicted: list[Eviction] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    explanation: Explanation | None = None

    @property
    def placed(self) -> list[PodResult]:
        return [result for result in self.pods if result.outcome is Outcome.SCHEDULED]

    @property
    def pending(self) -> list[PodResult]:
        return [result for result in self.pods if result.outcome is not Outcome.SCHEDULED]


class Simulation:
    """A cluster made from objects, and the profiles of a configuration.

    Raises ConfigError for a configuration that cannot be built, InputError for objects that contradict each other.
    """

    def __init__(
        self, objects: Sequence[KubeObject], config: KubeSchedulerConfiguration, registry: Registry | None = None
    ) -> None:
        self._runners = build_runners(config, registry)
        self._manner = Manner(record=True)
        self._placer = Placer(self._runners, self._manner)
        problems = [*_shared_ids(objects)] or [*self._put(objects)]
        if problems:
            raise InputError(problems)
        self._finished = [item.key for item in objects if isinstance(item, Pod) and item.is_finished]
        self._placed_before = {pod.id for pod in self.cluster.nodes.pods()}
        self._results: dict[str, PodResult] = {}
        self._evictions: list[Eviction] = []

    @property
    def cluster(self) -> Cluster:
        return self._placer.cluster

    def run(self, explain: str | None = None, on_progress: Progress | None = None) -> Report:
        """Place the pending pods in the order of the queue.

        Those that did not fit are tried again as long as something moves: a pod is placed, or pods leave for another.
        A pod that leaves waits again if it was pending in the input; if it ran, it is gone.
        """
        wanted = self._find(explain) if explain is not None else None
        explanation = None if wanted is None or wanted.key in self._placer.pending else self._explain_placed(wanted)
        waiting = [pod.key for pod in self._queue()]
        notes = self._notes(list(self._placer.pending.values()))
        self._results = {key: PodResult(self._placer.pending[key], Outcome.UNSCHEDULABLE) for key in waiting}
        while waiting:
            something_moved = False
            for i, key in enumerate(waiting, 1):
                if wanted is not None and key == wanted.key:
                    explanation = self._explain(self._placer.pending[key], self.cluster)
                something_moved |= self._attempt(key)
                if on_progress is not None:
                    on_progress(i, len(waiting))
            unplaced = (key for key, result in self._results.items() if result.outcome is Outcome.UNSCHEDULABLE)
            waiting = [*unplaced] if something_moved else []
        self._complete(explanation)
        return Report([*self._results.values()], self._node_use(), self._evictions, notes, explanation)

    def _attempt(self, key: str) -> bool:
        """Attempt one pod. Returns whether the cluster is another one afterwards."""
        step = self._placer.place(key)
        self._results[key] = _result(step)
        nomination = step.room.nomination if step.room is not None else None
        victims = nomination.victims if nomination is not None else ()
        for victim in victims:
            if victim.key in self._results:
                left = f"preempted by {key}"
                self._results[victim.key] = PodResult(victim, Outcome.UNSCHEDULABLE, message=left)
            elif nomination is not None:
                self._evictions.append(Eviction(victim, nomination.node_name, key))
        return step.outcome is Outcome.SCHEDULED or bool(victims)

    def _complete(self, explanation: Explanation | None) -> None:
        """Add what is known only after the last attempt: what was done to make room for the pod."""
        key = explanation.pod.key if explanation is not None else ""
        if explanation is not None and key in self._results:
            explanation.preemption = self._results[key].preemption
            explanation.evicted = [eviction.pod.key for eviction in self._evictions if eviction.preemptor == key]

    def _put(self, objects: Iterable[KubeObject]) -> Iterator[Problem]:
        for item in objects:
            try:
                self._placer.put(item)
            except OverflowError:
                where = f"{type(item).__name__} {item.key}"
                yield Problem("", "an amount that 64 bits do not hold", "less than 2^63 (cpu: less than 2^63 m)", where)

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
        if len(found) == 1:
            return found[0]
        if found:
            raise NoSuchPod(f"{name!r} could be any of {_some([pod.key for pod in found], 5)}: add its namespace")
        if any(name in (key, key.partition("/")[2]) for key in self._finished):
            raise NoSuchPod(f"pod {name!r} has finished: there is nothing to decide about it")
        raise NoSuchPod(f"no pod {name!r} in the input: it has {_count(len(pods), 'pod')}")

    def _explain(self, pod: Pod, cluster: Cluster) -> Explanation:
        runner = self._runners.get(pod.spec.scheduler_name)
        if runner is None:
            return Explanation(pod, None, Outcome.IGNORED, _no_profile(pod))
        gate = self._placer.gate(runner, pod)
        if isinstance(gate, Failed):
            return Explanation(pod, gate, Outcome.ERROR)
        if gate is not None:
            return Explanation(pod, None, Outcome.GATED, gate.message)
        # A partial search moves on with each attempt; the one that explains must not, and starts where the next will.
        search = replace(self._manner.search)
        manner = replace(self._manner, explain=True, search=search, nominated=self._placer.nominated)
        decision = decide(runner, pod, cluster, manner)
        return Explanation(pod, decision, _outcome(decision), weights=_weights(runner))

    def _explain_placed(self, pod: Pod) -> Explanation:
        """Why a pod is where it is: the decision as it would be now if the pod had not been placed."""
        fork = self.cluster.fork()
        row = fork.nodes.row_of_pod(pod.id)
        node_name = fork.nodes.names[row] if row is not None else ""
        fork.nodes.displace(pod.id)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        status = msgspec.structs.replace(pod.status, nominated_node_name="")
        loose = Pod(metadata=pod.metadata, spec=spec, status=status)
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
            pods = nodes.pods_on[row]
            new = sum(pod.id not in self._placed_before for pod in pods)
            use.append(NodeUse(name, len(pods), int(nodes.allowed_pods[row]), new, amounts))
        return use

    def _notes(self, waiting: Sequence[Pod]) -> list[str]:
        """What the reader should know about the input."""
        nodes = self.cluster.nodes
        notes = []
        if self._finished:
            notes.append(f"{_count(len(self._finished), 'finished pod')} left out, taking no room")
        lost = [name for name, row in nodes.row_book.items() if not nodes.alive[row]]
        if lost:
            pods = sum(len(nodes.pods_on[nodes.row_book[name]]) for name in lost)
            notes.append(f"{_count(pods, 'pod')} on nodes that are not in the input: {_some(lost)}")
        for plugin in UNBUILT:
            concerned = [pod.key for pod in waiting if plugin.concerns(pod)]
            if concerned:
                notes.append(
                    f"{plugin.name} is not part of this release: what it would say of {_count(len(concerned), 'pod')} "
                    f"is not considered ({_some(concerned)})"
                )
        return notes


def note_ignored(manifests: Manifests) -> list[str]:
    """What to tell about objects of kinds that decide nothing."""
    if not manifests.ignored:
        return []
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(manifests.ignored.items()))
    return [f"not considered, for they do not change where pods go: {kinds}"]


def _shared_ids(objects: Iterable[KubeObject]) -> Iterator[Problem]:
    """Pods that claim to be the same one: the copy of a pod that was given a new name and kept its uid."""
    first: dict[str, Pod] = {}
    for item in objects:
        other = first.setdefault(item.id, item) if isinstance(item, Pod) else item
        if isinstance(item, Pod) and other is not item:
            found = f"{show(item.id)}, which Pod {other.key} has"
            yield Problem("metadata.uid", found, "a uid of its own, or none", f"Pod {item.key}")


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
    if step.room is not None:
        result.preemption = step.room.message
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
