"""`mooring agree`: follows a recording and decides for every pod that another scheduler bound, at the moment it did."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mooring.answers.recorded.agreement import Agreement
from mooring.answers.recorded.judging import BindingJudge, JudgedBinding, JudgeSettings
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.kit.callbacks import Progress
from mooring.model.pod import Pod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.scheduler.inputs import BindAnswered, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.ties import TieRule
from mooring.state.recording.recorder import OBSERVER
from mooring.state.recording.run_reading import RecordedRun, runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.replayer import concealed_annotations, missing_plugins, settings_of
from mooring.state.replay.run_reader import ClusterBegins, ClusterReader, ClusterStep

# ---- In which order another scheduler decided, as far as a recording of its bindings can tell.
#
# A scheduler decides one pod after the other and binds them concurrently, so bindings are seen in another order than
# they were decided in. What is certain: a pod that was created before another one, with at least its priority, and
# that was never rejected, was decided before it. Such a pod was on its node for all later decisions, even if its
# binding is seen later.


LOOK_AHEAD = 5000
"""How many steps the future of a pod is looked for in: more than come in the seconds that a binding takes, and bounded."""


def was_rejected(pod: Pod) -> bool:
    """Whether the pod has had an attempt that failed, or is held back by a gate: its place in the queue is not known."""
    condition = typed_condition(pod.status.conditions, POD_SCHEDULED)
    return condition is not None and condition.status == "False"


def bound_by(step: ClusterStep) -> tuple[Pod, Pod] | None:
    """The pod before and after, where the step shows that a scheduler bound it.

    A pod that is seen with its node at once was created with it, unless the API server says that a scheduler bound it: then
    it was created and bound while the watch was broken.
    """
    change = step.step.input
    if isinstance(change, ObjectUpdated) and isinstance(change.old, Pod) and isinstance(change.new, Pod):
        old, new = change.old, change.new
        return (old, new) if new.spec.node_name and not old.spec.node_name and old.id == new.id else None
    if isinstance(change, ObjectAdded) and isinstance(change.item, Pod) and not step.is_known:
        pod = change.item
        condition = typed_condition(pod.status.conditions, POD_SCHEDULED)
        is_bound = pod.spec.node_name and condition is not None and condition.status == "True" and not _is_static(pod)
        return (pod, pod) if is_bound else None
    return None


def _is_static(pod: Pod) -> bool:
    """Whether the kubelet of a node made the pod from a file: no scheduler had a say."""
    return any(owner.kind == "Node" for owner in pod.metadata.owner_references or ())


class Foresight:
    """Steps with a bounded look at those that follow."""

    def __init__(self, steps: Iterable[ClusterBegins | ClusterStep], limit: int = LOOK_AHEAD) -> None:
        self._steps, self._limit = iter(steps), limit
        self._held: deque[ClusterBegins | ClusterStep] = deque()
        self.bound: dict[str, str] = {}
        """By pod id: the node that the pod gets in one of the next steps."""
        self.rejected: set[str] = set()
        """Ids of pods that were rejected, or will be in one of the next steps."""

    def __iter__(self) -> Iterator[ClusterBegins | ClusterStep]:
        for step in self._steps:
            self._look_at(step)
            self._held.append(step)
            if len(self._held) > self._limit:
                yield self._next()
        while self._held:
            yield self._next()

    def _look_at(self, step: ClusterBegins | ClusterStep) -> None:
        if isinstance(step, ClusterBegins):
            return
        if (bound := bound_by(step)) is not None:
            self.bound[bound[1].id] = bound[1].spec.node_name
        pod = _pod_of(step)
        if pod is not None and was_rejected(pod):
            self.rejected.add(pod.id)

    def _next(self) -> ClusterBegins | ClusterStep:
        step = self._held.popleft()
        if isinstance(step, ClusterStep):
            if (bound := bound_by(step)) is not None:
                self.bound.pop(bound[1].id, None)
            if isinstance(step.step.input, ObjectRemoved):
                self.rejected.discard(_id_of(step))
        return step


def _pod_of(step: ClusterStep) -> Pod | None:
    """The pod that the step shows, as it is after it."""
    change = step.step.input
    item = change.new if isinstance(change, ObjectUpdated) else change.item if isinstance(change, ObjectAdded) else None
    return item if isinstance(item, Pod) else None


def _id_of(step: ClusterStep) -> str:
    change = step.step.input
    return change.item.id if isinstance(change, ObjectRemoved) and isinstance(change.item, Pod) else ""


@dataclass(slots=True)
class ArrivedPods:
    """Pods without a node in the order in which they were created, by priority. Those that were there from the start are
    not among them: nothing is known of their order."""

    _orders: dict[str, int] = field(default_factory=dict)
    """Pod id -> its number."""
    _waiting: dict[int, dict[str, Pod]] = field(default_factory=dict)
    """Priority -> pod id -> the pod as it arrived; those that no later pod was bound before."""
    _count: int = 0

    def arrived(self, pod: Pod) -> None:
        self._count += 1
        self._orders[pod.id] = self._count
        self._waiting.setdefault(pod.priority, {})[pod.id] = pod

    def gone(self, pod: Pod) -> None:
        """The pod has its node, or was deleted."""
        self._orders.pop(pod.id, None)
        for pods in self._waiting.values():
            pods.pop(pod.id, None)

    def before(self, pod: Pod) -> list[Pod]:
        """The pods that come before this one wherever both wait, each once: in the order of the queue."""
        number = self._orders.get(pod.id, 0)
        found = []
        for priority in sorted((each for each in self._waiting if each >= pod.priority), reverse=True):
            pods = self._waiting[priority]
            while pods:
                first = next(iter(pods))
                if self._orders[first] >= number:
                    break
                found.append(pods.pop(first))
        return found


def agree(
    directory: Path,
    config: KubeSchedulerConfiguration | None = None,
    registry: Registry | None = None,
    on_progress: Progress = lambda done, total: None,
    ties: TieRule = None,
) -> Agreement:
    """How Mooring would have decided for the pods that were bound in a recording.

    `config` is taken instead of the one in the recording. With `ties` "kube-scheduler", bindings to tied nodes have to be
    those that its rule says, where the rule determines them. Raises RecordingError, ConfigError, RegistryError.
    """
    found, runs = _Findings(on_progress), runs_in(directory)
    found.file_count = sum(len(run.segments) for run in runs)
    if config is None and (missing := [text for run in runs for text in missing_plugins(run, registry)]):
        raise RecordingError("\n".join(missing))
    for run in runs:
        if run.segments:
            recorded, gates = settings_of(run.header)
            _Follower(run, JudgeSettings(config or recorded, gates, registry, ties), found).follow()
        else:
            found.problems += run.problems
    return Agreement(
        found.bindings,
        dict(found.others),
        found.sources,
        found.extenders,
        found.contradictions,
        [*found.problems, *(concealed_annotations(runs, registry) if registry is not None and config is None else [])],
    )


@dataclass(slots=True)
class _Findings:
    """The findings of the runs of a directory so far."""

    on_progress: Progress
    file_count: int = 0
    files_read: int = 0
    bindings: list[JudgedBinding] = field(default_factory=list)
    judged: set[str] = field(default_factory=set)
    """Ids of pods: a directory may hold two recordings of the same time."""
    others: Counter[str] = field(default_factory=Counter)
    """Scheduler names that no profile has -> how many bindings."""
    sources: list[str] = field(default_factory=list)
    extenders: int = 0
    contradictions: int = 0
    problems: list[str] = field(default_factory=list)


class _Follower:
    """Follows one run."""

    def __init__(self, run: RecordedRun, settings: JudgeSettings, found: _Findings) -> None:
        self._settings, self._found = settings, found
        self._is_observed = run.header.source == OBSERVER
        self._run = ClusterReader(run)
        self._steps = Foresight(self._run)
        self._arrived = ArrivedPods()
        self._judge = BindingJudge(self._settings)

    def follow(self) -> None:
        found = self._found
        found.sources.append(self._run.run.header.source)
        found.extenders = max(found.extenders, len(self._settings.config.extenders))
        for step in self._steps:
            if isinstance(step, ClusterBegins):
                self._begin()
            else:
                self._take(step)
        found.contradictions += self._judge.contradictions
        found.problems += self._run.problems
        found.files_read += self._run.segments_done

    def _begin(self) -> None:
        self._found.contradictions += self._judge.contradictions
        self._judge, self._arrived = BindingJudge(self._settings), ArrivedPods()

    def _take(self, step: ClusterStep) -> None:
        """Judge what the step shows to be bound, then take it in."""
        change, now_ns = step.step.input, step.step.now_ns
        self._judge.certainty.saw(step)
        for pod, node in self._decided(step):
            self._conclude(pod, node, now_ns)
        if isinstance(change, BindAnswered) and change.fault is not None:
            self._judge.give_up(change.pod.id)
        elif isinstance(change, ObjectAdded | ObjectUpdated | ObjectRemoved):
            self._judge.take_in(change, now_ns)
        if step.assumed_on and isinstance(change, ObjectAdded) and isinstance(change.item, Pod):
            self._judge.assume(change.item, step.assumed_on)
        self._note(step)

    def _decided(self, step: ClusterStep) -> Iterator[tuple[Pod, str]]:
        """The pods that the step shows to be decided, each with its node, in the order of the decisions."""
        pods = self._judge.scheduler.pods
        for outcome in step.step.outcomes:
            if outcome[0] == "bind" and (pod := pods.get(outcome[1])) is not None:
                yield pod, outcome[2]
        bound = bound_by(step)
        if bound is not None:
            if self._is_observed and self._is_ours(bound[0]):
                yield from self._decided_before(bound[0])
            yield bound[0], bound[1].spec.node_name
        elif (nominated := self._expected(step)) is not None:
            yield nominated, self._steps.bound[nominated.id]

    def _decided_before(self, pod: Pod) -> Iterator[tuple[Pod, str]]:
        """Pods that came before this one in the queue, and whose bindings are seen later."""
        for other in self._arrived.before(pod):
            node = self._steps.bound.get(other.id)
            if node is not None and other.id not in self._steps.rejected:
                yield self._judge.scheduler.pods.get(other.key, other), node

    def _expected(self, step: ClusterStep) -> Pod | None:
        """A pod that is nominated without having been rejected: kube-scheduler has decided, and says so before it binds
        volumes and devices. The pod as it was before."""
        change = step.step.input
        if not self._is_observed or not isinstance(change, ObjectUpdated):
            return None
        old, new = change.old, change.new
        if not isinstance(old, Pod) or not isinstance(new, Pod) or not self._is_ours(old):
            return None
        is_new = bool(new.status.nominated_node_name) and not old.status.nominated_node_name
        return old if is_new and not was_rejected(new) and new.id in self._steps.bound else None

    def _conclude(self, pod: Pod, node: str, now_ns: int) -> None:
        """Judge a binding, and count the pod on its node from now on."""
        found = self._found
        if self._judge.is_assumed(pod):
            return
        if not self._is_ours(pod):
            found.others[pod.spec.scheduler_name] += 1
            return
        if pod.id not in found.judged:
            found.judged.add(pod.id)
            found.bindings.append(self._judge.judge(pod, node, now_ns))
            found.on_progress(found.files_read + self._run.segments_done, found.file_count)
        if not pod.spec.node_name:
            self._judge.assume(pod, node)

    def _note(self, step: ClusterStep) -> None:
        """Remember who waits since when."""
        change = step.step.input
        if isinstance(change, ObjectAdded) and isinstance(change.item, Pod):
            pod = change.item
            if not step.is_known and not pod.spec.node_name and self._is_ours(pod):
                self._arrived.arrived(pod)
        elif isinstance(change, ObjectRemoved) and isinstance(change.item, Pod):
            self._arrived.gone(change.item)
        elif isinstance(change, ObjectUpdated) and isinstance(change.new, Pod) and change.new.spec.node_name:
            self._arrived.gone(change.new)

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a profile has the scheduler name of the pod."""
        return self._judge.scheduler.runner(pod.spec.scheduler_name) is not None
