"""`mooring simulate`: places all pending pods of a cluster and reports where each went and why the rest did not fit.

All pods arrive at the same moment, and the scheduler takes them in the order of its queue. Then time passes on the virtual
clock as long as it can change something: the end of a backoff, or a Permit plugin that times out. A preempted pod with a
controller comes back as a new pod (`controllers.py`).
"""

from collections.abc import Mapping, Sequence
from functools import partial

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.facts import amounts_on
from mooring.drivers.simulated_driver import START_NS
from mooring.framework.config.durations import Duration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.inputs.input_errors import InputError, NoSuchPod
from mooring.kit.callbacks import Progress
from mooring.kit.clock import NS_PER_S
from mooring.kit.words import count, some
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod, without_nomination
from mooring.rules.conditions import typed_condition
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement
from mooring.scheduler.failure import POD_SCHEDULED, SCHEDULER_ERROR
from mooring.scheduler.ties import TieRule
from mooring.sim.controllers import PreemptedPods
from mooring.sim.results import (
    Explanation,
    FailureCounter,
    FailureReason,
    Fate,
    GroupState,
    NodeUse,
    PodResult,
    Report,
    group_reason,
    group_states,
    note_waits,
)
from mooring.sim.simulated_cluster import RecordTo, SimulatedCluster

__all__ = ["InputError", "NoSuchPod", "Report", "Simulation"]


UNTIL_NS = 3600 * NS_PER_S
"""When a simulation stops on the simulated clock though pods are still attempted again and again."""

ATTEMPTS_A_POD = 1000
"""Limit of a simulation: the mean number of attempts over all pending pods. A plugin may let its pods retry for ever."""

_FATES: dict[type[Decision], Fate] = {Placement: Fate.SCHEDULED, NoFit: Fate.UNSCHEDULABLE, DecisionError: Fate.ERROR}


class Simulation:
    """A cluster made from objects, and the profiles of a configuration. It runs once.

    Raises ConfigError for a configuration that cannot be built, InputError for objects that contradict each other.
    """

    def __init__(
        self,
        objects: Sequence[KubeObject],
        config: KubeSchedulerConfiguration,
        registry: Registry | None = None,
        gates: Mapping[str, bool] | None = None,
        ties: TieRule = None,
        record_to: RecordTo | None = None,
    ) -> None:
        self._simulated = SimulatedCluster(objects, config, registry, gates=gates, ties=ties, record_to=record_to)
        self._driver = self._simulated.driver
        self._bound_ns: dict[str, int] = {}
        """When pods were bound, by key, since the beginning."""
        self._driver.on_bound = self._bound
        self._preempted = PreemptedPods(self._driver, gates)
        self._simulated.on_evicted = self._preempted.preempted
        self._awaited = {pod.key: pod for pod in self._simulated.pending}
        """The pods that the report is about, by key."""
        self._replaces: dict[str, str] = {}
        """Pods that came instead of preempted ones: key -> key of the preempted pod."""
        self._came_ns: dict[str, int] = {}
        """When they came, since the beginning."""
        self._placed_before = {pod.id for pod in self.cluster.nodes.pods()}
        self._attempts: dict[str, int] = {}
        """By key, in the order of the first attempt."""
        self._was_stopped = False

    @property
    def simulated(self) -> SimulatedCluster:
        return self._simulated

    @property
    def cluster(self) -> Cluster:
        return self._simulated.cluster

    def objects(self) -> list[KubeObject]:
        """All objects as they are now: pods that were placed have their node."""
        return list(self._driver.objects.values())

    def run(
        self,
        explain: str | Sequence[str] | None = None,
        on_progress: Progress | None = None,
        story: str | None = None,
        until_ns: int = UNTIL_NS,
    ) -> Report:
        """Place the pending pods. `explain` and `story` name pods. Raises NoSuchPod for an unknown name."""
        simulated = self._simulated
        names = [explain] if isinstance(explain, str) else explain or ()
        wanted = [*{pod.key: pod for pod in map(simulated.find, names)}.values()]
        told = simulated.find(story) if story is not None else None
        placed = {pod.key: explanation for pod in wanted if (explanation := self._explain_placed(pod)) is not None}
        simulated.explained = {pod.key for pod in wanted} - placed.keys()
        simulated.stories.only = told.key if told is not None else ""
        notes = self._notes()
        simulated.create_pending()
        end_ns = START_NS + until_ns
        self._was_stopped = not simulated.settle(
            end_ns, partial(self._attempted, end_ns, on_progress), jumps_to_end=True
        )
        passed_ns = simulated.passed_ns()
        results = self._results()
        by_key = {result.pod.key: result for result in results}
        explanations = [
            placed.get(pod.key) or self._explain(pod, by_key.get(pod.key) or self._preempted_result(pod))
            for pod in wanted
        ]
        return Report(
            results,
            self._node_use(),
            simulated.evictions,
            passed_ns / NS_PER_S,
            [*notes, *self._closing_notes(results, Duration(passed_ns))],
            explanations,
            simulated.stories.of(told.key) if told is not None else None,
            self._limits(results),
            self._groups(by_key),
        )

    # ---- Time

    def _attempted(self, end_ns: int, on_progress: Progress | None, pod: Pod) -> bool:
        """Count an attempt. Returns False if there were too many, or time is over."""
        self._replace_preempted()
        total = len(self._awaited)
        for key in dict.fromkeys((pod.key, *self._simulated.take_decided())):
            self._attempts[key] = self._attempts.get(key, 0) + 1
        if on_progress is not None:
            on_progress(len(self._attempts), total)
        simulated = self._simulated
        return simulated.clock.now_ns() <= end_ns and simulated.scheduler.attempts < ATTEMPTS_A_POD * total

    def _replace_preempted(self) -> None:
        """Create the pods that controllers create instead of preempted ones."""
        for victim, pod in self._preempted.take():
            self._simulated.note_replaced(victim, pod)
            self._awaited.pop(victim.key, None)
            self._bound_ns.pop(victim.key, None)
            self._awaited[pod.key] = pod
            self._replaces[pod.key] = victim.key
            self._came_ns[pod.key] = self._simulated.passed_ns()
            self._driver.create(pod)

    def _bound(self, pod: Pod) -> None:
        self._bound_ns[pod.key] = self._simulated.passed_ns()

    # ---- Outcomes of the pods

    def _results(self) -> list[PodResult]:
        """Results in the order of the first attempts, then those of pods that were never attempted."""
        rank = {key: i for i, key in enumerate(self._attempts)}
        results = []
        for pod in sorted(self._awaited.values(), key=lambda pod: rank.get(pod.key, len(rank))):
            result = self._result(pod)
            result.attempts = self._attempts.get(pod.key, 0)
            result.replaces = self._replaces.get(pod.key, "")
            if pod.key in self._bound_ns:
                result.waited_s = (self._bound_ns[pod.key] - self._came_ns.get(pod.key, 0)) / NS_PER_S
            results.append(result)
        return results

    def _preempted_result(self, pod: Pod) -> PodResult:
        """The outcome of a pod that no longer exists."""
        eviction = next(each for each in reversed(self._simulated.evictions) if each.pod.key == pod.key)
        heir = f"; {eviction.replaced_by} replaces it" if eviction.replaced_by else ""
        return PodResult(pod, Fate.PREEMPTED, message=f"preempted by {eviction.preemptor} on {eviction.node}{heir}")

    def _result(self, pod: Pod) -> PodResult:
        """The outcome of one pending pod."""
        scheduler = self._simulated.scheduler
        now = self._driver.objects.get(("Pod", pod.key))
        if not isinstance(now, Pod):
            return self._preempted_result(pod)
        waiting = scheduler.waiting.get(pod.id)
        counted = scheduler.placed(pod.id)  # a Bind plugin may bind the pod without the driver
        if counted is not None and waiting is None:
            choice = self._simulated.choices.get(pod.key)
            margin = (choice.score, choice.feasible_count, choice.best) if choice is not None else ()
            return PodResult(pod, Fate.SCHEDULED, counted.spec.node_name, *margin)
        fate, message = self._why(now)
        nominated = now.status.nominated_node_name if waiting is None else waiting.node_name
        return PodResult(pod, fate, message=message, nominated=nominated)

    def _why(self, pod: Pod) -> tuple[Fate, str]:
        """Why a pod has no node."""
        held_back = self._simulated.held_back(pod)
        if held_back is not None:
            return held_back
        condition = typed_condition(pod.status.conditions, POD_SCHEDULED)
        if condition is None or not self._attempts.get(pod.key):
            return Fate.ERROR, "no Bind plugin bound it" if self._attempts.get(pod.key) else "it was not attempted"
        fate = Fate.ERROR if condition.reason == SCHEDULER_ERROR else Fate.UNSCHEDULABLE
        return fate, condition.message or ""

    def _limits(self, results: Sequence[PodResult]) -> list[FailureReason]:
        """The reasons that keep pending pods from nodes."""
        counter = FailureCounter()
        for result in results:
            diagnosis = self._simulated.diagnoses.get(result.pod.key)
            if diagnosis is not None and result.fate is Fate.UNSCHEDULABLE:
                counter.add(diagnosis)
        return counter.reasons()

    def _groups(self, results: Mapping[str, PodResult]) -> list[GroupState]:
        """The groups of all pods, also of those that ran before."""
        pods = [pod for pod in self._driver.pods() if not pod.is_finished]
        nodes = [(pod, results[pod.key].node if pod.key in results else pod.spec.node_name) for pod in pods]
        states = group_states(self.cluster, nodes)
        bound_s = {key: bound_ns / NS_PER_S for key, bound_ns in self._bound_ns.items()}
        for state in states.values():
            note_waits(state, bound_s)
            if not state.is_placed:
                state.message = group_reason(results[key].message for key in state.nodes if key in results)
        return [*states.values()]

    # ---- Explanations

    def _explain(self, pod: Pod, result: PodResult) -> Explanation:
        """The last attempt of a pod that was pending, as it was decided."""
        decision, runner = self._simulated.explained_decisions.get(pod.key), self._simulated.runner(pod)
        explanation = Explanation(pod, decision, result.fate, result.message)
        explanation.weights = runner.score_weights() if runner is not None else {}
        if isinstance(decision, NoFit):
            explanation.preemption = result.message.removeprefix(decision.message).strip()
        explanation.victims = [e.pod.key for e in self._simulated.evictions if e.preemptor == pod.key]
        return explanation

    def _explain_placed(self, pod: Pod) -> Explanation | None:
        """The explanation of a pod that runs already: the decision for it on a fork of the cluster without the pod."""
        fork = self.cluster.fork()
        row = fork.nodes.row_of_pod(pod.id)
        if row is None:
            return None
        node_name = fork.nodes.names[row]
        runner = self._simulated.runner(pod)
        if runner is None:
            fate, message = self._why(pod)
            return Explanation(pod, None, fate, message, now_on=node_name)
        fork.nodes.displace(pod.id)
        loose = without_nomination(pod.with_node(""))
        decision = decide(runner, loose, fork, DecideOptions(explain=True))
        fate = _FATES[type(decision)]
        return Explanation(loose, decision, fate, now_on=node_name, weights=runner.score_weights())

    # ---- Nodes and notes

    def _node_use(self) -> list[NodeUse]:
        """The use of all nodes of the input, sorted by name."""
        nodes = self.cluster.nodes
        use = []
        for name in sorted(nodes.row_book):
            row = nodes.row_book[name]
            if not nodes.alive[row]:
                continue
            amounts = amounts_on(nodes.nodes[row], nodes.pods_on[row])
            pods = nodes.pods_on[row]
            new = sum(pod.id not in self._placed_before for pod in pods)
            use.append(NodeUse(name, len(pods), int(nodes.allowed_pods[row]), new, amounts))
        return use

    def _notes(self) -> list[str]:
        """Notes about the input."""
        nodes = self.cluster.nodes
        notes = self._simulated.input_notes()
        lost = [name for name, row in nodes.row_book.items() if not nodes.alive[row]]
        if lost:
            pods = sum(len(nodes.pods_on[nodes.row_book[name]]) for name in lost)
            notes.append(f"{count(pods, 'pod')} on nodes that are not in the input: {some(lost)}")
        if self._simulated.unasked:
            extenders = count(len(self._simulated.unasked), "extender")
            notes.append(f"{extenders} of the configuration not called: a simulation calls no extenders")
        return notes

    def _closing_notes(self, results: Sequence[PodResult], passed: Duration) -> list[str]:
        """Notes about the outcome."""
        notes = self._simulated.notes()
        gone = [each.pod.key for each in self._simulated.evictions if not each.replaced_by]
        if gone:
            notes.append(f"{count(len(gone), 'preempted pod')} without a controller gone for good: {some(gone)}")
        if self._was_stopped:
            restless = [r.pod.key for r in results if r.fate in (Fate.UNSCHEDULABLE, Fate.WAITING, Fate.ERROR)]
            attempts = count(self._simulated.scheduler.attempts, "attempt")
            notes.append(
                f"stopped after {passed} of simulated time and {attempts}; "
                f"these pods would be attempted again: {some(restless)}"
            )
        return notes
