"""A simulated cluster: objects, a scheduler on a virtual clock, controllers, and a record of decisions and evictions.

`simulation.py` and `day.py` run on it; they differ only in when pods arrive and when time passes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter_ns

import msgspec

from mooring.api.kinds import pod_name
from mooring.api.validation.problem import Problem, Problems, show
from mooring.cluster.cluster import Cluster
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.status import describe
from mooring.framework.profile.registry import Registry
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import pod_named
from mooring.kit.choice import mix
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.kit.words import LISTED_FAULTS, count
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.decide import BegunAttempt, DecideOptions, begin, deciding
from mooring.scheduler.decision import Decision, Diagnosis, NoFit, Placement
from mooring.scheduler.extender_asking import InterestedExtenders
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import TieRule, tie_break_of
from mooring.sim.controllers import VolumeController, free_claims
from mooring.sim.results import FailureCounter, Fate, SimulatedEviction, Stories
from mooring.state.recording.recorder import RecordingSettings, RunRecorder, scheduler_header
from mooring.state.scheduler_assembly import Recorder, build_scheduler


class SimulationRecording:
    """Makes the recorder of one simulation (`record_to`): its scheduler is recorded like any other, on its virtual clock. To
    be closed when the simulation is over."""

    def __init__(self, settings: RecordingSettings, gates: Mapping[str, bool] | None) -> None:
        self._settings, self._gates = settings, gates
        self._recorder: RunRecorder | None = None

    def __call__(self, config: KubeSchedulerConfiguration, started_ns: int, ties: TieRule) -> Recorder:
        settings = self._settings
        header = scheduler_header(config, self._gates, started_ns, settings.version, settings.annotations)
        header.tie_break, header.seed = ("seed", ties) if isinstance(ties, int) else (ties or "name", 0)
        self._recorder = RunRecorder(settings.directory, header, settings.limits)
        return self._recorder

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()


Attempted = Callable[[Pod], bool]
"""Called with each pod that was attempted; returns False after too many attempts."""
RecordTo = Callable[[KubeSchedulerConfiguration, int, TieRule], Recorder]
"""(configuration, time of the beginning, how ties are broken) -> a recorder."""


class SimulatedCluster:
    """A cluster as the objects describe it, before its pending pods come.

    Raises ConfigError for a configuration that cannot be built, InputError for objects that contradict each other.
    """

    def __init__(
        self,
        objects: Sequence[KubeObject],
        config: KubeSchedulerConfiguration,
        registry: Registry | None = None,
        *,
        records: bool = True,
        gates: Mapping[str, bool] | None = None,
        ties: TieRule = None,
        record_to: RecordTo | None = None,
    ) -> None:
        """The scheduler takes the node with the lowest name among those with the same score, or another one as `ties` says.

        `record_to` makes a recorder, which is shown every step of the scheduler.
        """
        self.clock = VirtualClock(START_NS)
        self.stories = Stories(self.clock, only="")
        """Collects for no pod until `stories.only` names one."""
        self.unasked = tuple(config.extenders)
        """The extenders of the configuration; a simulation calls none and says so in its report."""
        self._ties = mix(ties) if isinstance(ties, int) else ties
        self._seed = self._ties if isinstance(self._ties, int) else 0  # added to the seeds of attempts
        self._records = records
        self.longest_backoff_s = config.pod_max_backoff_seconds
        self.scheduler = self._build(config, registry, gates, record_to)
        self.driver = Driver(self.clock, self.scheduler, with_versions=True)
        pods = [item for item in objects if isinstance(item, Pod)]
        self.pending = [pod for pod in pods if not pod.spec.node_name and not pod.is_finished]
        self.finished = [pod for pod in pods if pod.is_finished]
        self.choices: dict[str, Placement] = {}
        """The last placement of each pod by key, if `records`: a day with millions of pods keeps none."""
        self.diagnoses: dict[str, Diagnosis] = {}
        """Why the last attempt of each pod found no node, by key, if `records`; not for pods that it placed."""
        self.failures = FailureCounter()
        """All attempts that found no node."""
        self.explained: set[str] = set()
        """Keys of pods whose last decision is kept with all details."""
        self.explained_decisions: dict[str, Decision] = {}
        """The decisions of `explained` pods by key."""
        self._decided: list[str] = []
        self._begun: tuple[BegunAttempt, int] | None = None
        """The attempt that `begin_attempt` began, and the position of the log of touched rows then."""
        self.deciding_ns = 0
        """How long all decisions took, on the clock of the machine."""
        self.evictions: list[SimulatedEviction] = []
        self._last_evictions: dict[str, SimulatedEviction] = {}
        """By id of the victim, until it is replaced."""
        self.on_evicted: Callable[[Pod], None] | None = None
        """Called with each victim."""
        self.faults: dict[str, str] = {}
        """Faults that the scheduler reported: a sentence -> its cause."""
        self._pods = {pod.key: pod for pod in pods}
        self.stories.follow(self.scheduler)
        self.scheduler.decide_with(self._deciding)
        self.driver.on_evicted = self._evicted
        volumes = VolumeController(self.driver)
        self.driver.on_changed = volumes.changed
        self.driver.on_removed = partial(free_claims, self.driver)
        self._set_up(objects, pods)
        volumes.begin()

    def _build(
        self,
        config: KubeSchedulerConfiguration,
        registry: Registry | None,
        gates: Mapping[str, bool] | None,
        record_to: RecordTo | None,
    ) -> Scheduler:
        """The scheduler, without extenders: a simulation calls none."""
        offline = msgspec.structs.replace(config, extenders=[])
        options = DecideOptions(tie_break_of(self._ties), record=self._records)
        recorder = None if record_to is None else record_to(offline, self.clock.now_ns(), self._ties)
        listeners = SchedulerListeners(self.stories.tell, self._report)
        return build_scheduler(offline, self.clock, registry, options, listeners, gates, recorder=recorder)

    @property
    def cluster(self) -> Cluster:
        return self.scheduler.cluster

    def runner(self, pod: Pod) -> Runner | None:
        return self.scheduler.runner(pod.spec.scheduler_name)

    def find(self, name: str, pods: Iterable[Pod] = (), coming: int = 0) -> Pod:
        """The pod with this `[pod/][namespace/]name`, in the input or among `pods`. Raises NoSuchPod. `coming` is how many
        more pods than `pods` will arrive."""
        known = [*(pod for pod in self._pods.values() if not pod.is_finished), *pods]
        among = f"in the input, which has {count(len(known) + coming, 'pod')}"
        return pod_named(pod_name(name), known, self.finished, among)

    # ---- time

    def create_pending(self) -> None:
        """Let the pending pods come, in the order of their creation."""
        for pod in sorted(self.pending, key=lambda pod: pod.metadata.creation_timestamp or ""):
            self.driver.create(pod)

    def settle(
        self, end_ns: int, attempted: Attempted, prepare: Callable[[], None] = lambda: None, jumps_to_end: bool = False
    ) -> bool:
        """Attempt pods and let time pass until only the flush of unschedulable pods is left. `prepare` is called each time
        before the active queue is attempted. Returns False if `attempted`, or the time of the end, stopped it."""
        retries = VainRetries(self)
        while self.attempt_all(attempted, prepare):
            next_ns = self.driver.next_ns()
            if next_ns is None or retries.are_in_vain():
                return True
            if next_ns > end_ns:
                if jumps_to_end:
                    self.driver.jump(end_ns)
                return False
            self.driver.jump(next_ns)
        return False

    def attempt_all(self, attempted: Attempted, prepare: Callable[[], None] = lambda: None) -> bool:
        """Attempt pods until the active queue is empty; no time passes. Returns False if `attempted` stopped it."""
        prepare()
        while (pod := self.driver.attempt_once()) is not None:
            if not attempted(pod):
                return False
        return True

    def held_back(self, pod: Pod) -> tuple[Fate, str] | None:
        """Why a pod without a node is not attempted; None if attempts decide about it."""
        if self.runner(pod) is None:
            return Fate.IGNORED, f'no profile has the scheduler name "{pod.spec.scheduler_name}"'
        waiting = self.scheduler.waiting.get(pod.id)
        if waiting is not None:
            plugins = ", ".join(waiting.pending_plugins)
            return Fate.WAITING, f"has room on {waiting.node_name} and waits for {plugins}"
        if pod.is_terminating:
            return Fate.IGNORED, "it is being deleted"
        entry = self.scheduler.queued(pod.key)
        return (Fate.GATED, entry.gating_message) if entry is not None and entry.is_gated else None

    def passed_ns(self) -> int:
        """The simulated time since the beginning."""
        return self.clock.now_ns() - START_NS

    def take_decided(self) -> list[str]:
        """Keys of the pods that were decided since the last call; an attempt of a pod group decides several."""
        decided, self._decided = self._decided, []
        return decided

    def input_notes(self) -> list[str]:
        """A note about finished pods, for a report."""
        if not self.finished:
            return []
        return [f"{count(len(self.finished), 'finished pod')} left out: finished pods use no resources"]

    def notes(self) -> list[str]:
        """The faults that the scheduler reported, for the notes of a report."""
        notes = [f"{text}: {what}" if what else text for text, what in self.faults.items()]
        if len(notes) > LISTED_FAULTS:
            notes[LISTED_FAULTS:] = [f"... and {count(len(notes) - LISTED_FAULTS, 'more fault')} of this kind"]
        return notes

    def _set_up(self, objects: Sequence[KubeObject], pods: Sequence[Pod]) -> None:
        """Create nodes first, then everything else but the pending pods. Raises InputError."""
        if problems := [*_shared_ids(pods)]:
            raise InputError(problems)
        waiting = {id(pod) for pod in self.pending}
        others = (item for item in objects if not isinstance(item, Node) and id(item) not in waiting)
        self.driver.begin_with([*(item for item in objects if isinstance(item, Node)), *others])

    def _deciding(
        self,
        runner: Runner,
        pod: Pod,
        cluster: Cluster,
        options: DecideOptions,
        seed: int,
        interested: InterestedExtenders | None,
    ) -> Steps[Decision]:
        """Takes the place of `decide.deciding` in the scheduler: the same decision, with details if asked for,
        remembered."""
        if pod.key in self.explained:
            options = replace(options, explain=True)
        begin_ns, begun = perf_counter_ns(), self._take_begun(pod, self._seed + seed)
        decision = yield from deciding(runner, pod, cluster, options, self._seed + seed, interested, begun)
        self.deciding_ns += perf_counter_ns() - begin_ns
        return self._remember(pod, decision)

    def begin_attempt(self, pod: Pod) -> BegunAttempt | None:
        """Filter the nodes for the pod that is attempted next. Its attempt uses the outcome if nothing changes until then.
        None if no profile schedules the pod, or if PreFilter rejects it."""
        runner, self._begun = self.runner(pod), None
        begun = None if runner is None else begin(runner, pod, self.cluster, self.scheduler.core.options)
        if begun is not None:
            self._begun = begun, self.cluster.nodes.touches.end
        return begun

    def _take_begun(self, pod: Pod, seed: int) -> BegunAttempt | None:
        """The attempt that was begun for this pod, if no node has changed since."""
        held, self._begun = self._begun, None
        if held is None or held[0].attempt.context.pod is not pod or held[1] != self.cluster.nodes.touches.end:
            return None
        held[0].attempt.context.seed = seed
        return held[0]

    def _remember(self, pod: Pod, decision: Decision) -> Decision:
        """Keep what reports need of a decision; without its columns, which are large."""
        if pod.key in self.explained:
            self.explained_decisions[pod.key] = decision
        if isinstance(decision, NoFit):
            self.failures.add(decision.diagnosis)
        if self._records:
            self._record(pod.key, decision)
        return decision

    def _record(self, key: str, decision: Decision) -> None:
        """Keep the latest decision about a pod: the chosen node, or the reasons why no node fits. Details that take memory
        are dropped."""
        self._decided.append(key)
        self.diagnoses.pop(key, None)
        if isinstance(decision, Placement):
            self.choices[key] = msgspec.structs.replace(decision, diagnosis=None, details=None, context=None)
        elif isinstance(decision, NoFit):
            self.diagnoses[key] = decision.diagnosis

    def _evicted(self, victim: Pod, preemptor: Pod) -> None:
        """Record the eviction of a pod, with its node and the pod that preempted it."""
        pod = self._pods.get(victim.key, victim)
        eviction = SimulatedEviction(pod, victim.spec.node_name, preemptor.key)
        self.evictions.append(eviction)
        self._last_evictions[victim.id] = eviction
        if self.on_evicted is not None:
            self.on_evicted(victim)

    def note_replaced(self, victim: Pod, pod: Pod) -> None:
        """Note the pod that takes the place of a victim."""
        self._last_evictions.pop(victim.id).replaced_by = pod.key

    def _report(self, text: str, error: Exception | None) -> None:
        self.faults.setdefault(text, "" if error is None else describe(error))


def _shared_ids(pods: Sequence[Pod]) -> Problems:
    """Problems of pods that share a uid, such as a copy with a new name and the old uid."""
    first: dict[str, Pod] = {}
    for pod in pods if len({pod.id for pod in pods}) < len(pods) else ():  # Hot: as a rule none do
        other = first.setdefault(pod.id, pod)
        if other is not pod:
            found = f"{show(pod.id)}, which Pod {other.key} has"
            yield Problem("metadata.uid", found, "a uid of its own, or empty", f"Pod {pod.key}")


class VainRetries:
    """Says when a simulation may end although pods are attempted again: if they are those of groups that do not fit, or those
    on nodes whose resize has room. It is asked each time when time is about to pass.

    Parity: the pods of a group that have room, but wait for others that have none, are rejected by no plugin, and neither are
    pods that wait for their kubelet to resize them. So they come back after their backoff, for ever, and no event is needed.
    """

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self._version = -1
        self._since_ns = 0

    def are_in_vain(self) -> bool:
        """Whether only such pods are attempted again, and each of them was since anything changed.

        Twice the longest backoff is enough for that. The decisions depend on the objects alone, so all would be the same.
        """
        simulated, now_ns = self._simulated, self._simulated.clock.now_ns()
        if simulated.cluster.groups is None and not simulated.cluster.queues_resizes:
            return False
        if simulated.driver.version != self._version:
            self._version, self._since_ns = simulated.driver.version, now_ns
            return False
        if now_ns - self._since_ns < 2 * simulated.longest_backoff_s * NS_PER_S:
            return False
        return self._are_only_those()

    def _are_only_those(self) -> bool:
        scheduler, cluster = self._simulated.scheduler, self._simulated.cluster
        if scheduler.next_deadline_ns() is not None:
            return False
        tried = [entry for entry in scheduler.queued_pods() if scheduler.place_in_queue(entry.key) == "backoff"]
        return all(entry.pod.group_key is not None or cluster.is_resize(entry.pod) for entry in tried)
