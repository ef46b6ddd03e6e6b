"""A cluster that can be asked "what if": decisions about single pods, while edits are in force and without.

Every answer comes from the core's own decision, without controllers and without time: a pod is decided once, on the cluster
as it is. The pods that are pending beside it take no part, except that those with a nominated node keep their room.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import msgspec

from mooring.api.validation.problem import Problem
from mooring.cluster.cluster import Cluster, object_in
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.nodes.table import ClusterError
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.contract.intents import Intent
from mooring.framework.contract.points import Nomination, SchedulerServices
from mooring.framework.contract.status import Rejection
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec
from mooring.model.workloads import PriorityClass
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement
from mooring.scheduler.extender_steps import at_once
from mooring.scheduler.post_filter import run_post_filter_plugins
from mooring.scheduler.ties import tie_break_of
from mooring.state.scheduler_assembly import build_runners

# ---- A loaded cluster as its scheduler sees it: the node table and the profiles, for decisions about single pods.
#
# Pods that are pending take no part, except that those with a nominated node keep their room. Extenders are not
# called.


class SchedulerView:
    """Raises ConfigError, and InputError for objects that contradict each other.

    `want` is called with what plugins want done, such as a write.
    """

    def __init__(
        self,
        loaded: LoadedCluster,
        objects: Iterable[KubeObject] | None = None,
        want: Callable[[Intent], None] = lambda intent: None,
    ) -> None:
        """`objects` are taken instead of those of the loaded cluster."""
        self.cluster = Cluster(with_defaults(loaded.gates))
        offline = msgspec.structs.replace(loaded.config, extenders=[])
        services = SchedulerServices(self.cluster, want=want)
        self.options = DecideOptions(tie_break_of(loaded.ties))
        self._runners = build_runners(offline, loaded.registry, services, loaded.gates)
        self.decisions = 0
        """How many decisions were made: what a search is bounded by."""
        self._begin_with(loaded.objects if objects is None else objects)

    def _begin_with(self, objects: Iterable[KubeObject]) -> None:
        """Put the objects: nodes first, and pods on nodes last, all at once unless two of them contradict each other."""
        placed: dict[str, Pod] = {}
        for item in sorted(objects, key=lambda item: not isinstance(item, Node)):
            if isinstance(item, Pod) and item.spec.node_name and self.cluster.groups is None:
                other = placed.setdefault(item.id, item)
                if other is item:
                    continue
                self._put(other)  # the next one is refused
            self._put(item)
        self.cluster.fill(placed.values())

    def _put(self, item: KubeObject) -> None:
        try:
            self.cluster.put(item)
        except ClusterError as fault:
            raise InputError([Problem("", str(fault), where=f"{type(item).__name__} {item.key}")]) from fault
        if isinstance(item, Pod) and not item.is_finished and self.cluster.groups is not None:
            self.cluster.groups.add(item)
        is_pending = isinstance(item, Pod) and not item.spec.node_name and not item.is_finished
        if isinstance(item, Pod) and is_pending and item.status.nominated_node_name:
            self.cluster.nominated.promise(item, item.status.nominated_node_name)

    @property
    def scheduler_names(self) -> list[str]:
        """The scheduler names of the profiles."""
        return [*self._runners]

    def runner(self, pod: Pod) -> Runner | None:
        """The profile of the pod; None if no profile has its scheduler name."""
        return self._runners.get(pod.spec.scheduler_name)

    def decide(
        self, pod: Pod, *, explain: bool = False, cluster: Cluster | None = None, within: Mask | None = None
    ) -> Decision:
        """Where the pod goes now, or why nowhere; `cluster` is a fork to decide on instead, `within` the only rows that
        count."""
        runner = self.runner(pod)
        if runner is None:
            return DecisionError(f'no profile has the scheduler name "{pod.spec.scheduler_name}"')
        self.decisions += 1
        pod = self.cluster.as_counted(pod)
        options = replace(self.options, explain=True, record=True) if explain else self.options
        if within is not None:
            options = replace(options, within=within)
        return decide(runner, pod, cluster or self.cluster, options, self.seed())

    def seed(self) -> int:
        """The seed of the decision that is made now."""
        return self.decisions


# ---- Small changes to a cluster, as values: a question tries them, and a user can make them.
#
# `edited` applies them to a list of objects, `Counterfactual.changed` to a cluster for a moment.


@dataclass(frozen=True, slots=True)
class ChangePod:
    """The pending pod that the question is about has another form."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PutObject:
    """An object that is no pod is added, or replaced if there is one of its name."""

    item: KubeObject


@dataclass(frozen=True, slots=True)
class RemovePod:
    """A pod leaves its node and does not come back."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class MovePod:
    """A pod leaves its node and runs on another one."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class PlacePod:
    """A pod that is in no list yet runs on a node: the pod of a DaemonSet on a new node."""

    pod: Pod


Edit = ChangePod | PutObject | RemovePod | MovePod | PlacePod


def with_spec(pod: Pod, **changes: object) -> Pod:
    """The pod with other fields in its spec."""
    spec: PodSpec = msgspec.structs.replace(pod.spec, **changes)
    return Pod(metadata=pod.metadata, spec=spec, status=pod.status)


def edited(objects: Iterable[KubeObject], edits: Sequence[Edit]) -> list[KubeObject]:
    """The objects after the edits, in their order: what a cluster that is built anew begins with."""
    after = {(type(item), item.key): item for item in objects}
    for edit in edits:
        match edit:
            case PutObject(item):
                after[type(item), item.key] = item
            case RemovePod(pod):
                after.pop((Pod, pod.key), None)
            case MovePod(pod, node):
                after[Pod, pod.key] = pod.with_node(node)
            case ChangePod(pod) | PlacePod(pod):
                after[Pod, pod.key] = pod
    return list(after.values())


def changed_pod(pod: Pod, edits: Iterable[Edit]) -> Pod:
    """The form that the pod of a question has after the edits."""
    return next((edit.pod for edit in edits if isinstance(edit, ChangePod)), pod)


class Counterfactual(SchedulerView):
    """The loaded cluster, while edits are in force and without."""

    def __init__(self, loaded: LoadedCluster) -> None:
        super().__init__(loaded)
        self.priority_classes = [item for item in loaded.objects if isinstance(item, PriorityClass)]
        self.events = loaded.events
        self.queue = loaded.queue

    def gate(self, pod: Pod) -> Rejection | None:
        """Why the pod may not enter the queue: the first PreEnqueue rejection. Raises what a plugin raises."""
        runner = self.runner(pod)
        for plugin in runner.profile.pre_enqueues if runner is not None else ():
            rejection = plugin.pre_enqueue(pod)
            if rejection is not None:
                return rejection.by(plugin.name)
        return None

    def node_for(self, pod: Pod, edits: Sequence[Edit] = ()) -> str | None:
        """The node that the pod gets once the edits are made; None if it gets none."""
        form = changed_pod(pod, edits)
        with self.changed(edits):
            if self.gate(form) is not None:
                return None
            decision = self.decide(form)
        return decision.node if isinstance(decision, Placement) else None

    def nominate(self, pod: Pod) -> Nomination | None:
        """The node and the victims that preemption would choose for a pod that fits nowhere."""
        decision, runner = self.decide(pod), self.runner(pod)
        if not isinstance(decision, NoFit) or decision.failure is None or runner is None:
            return None
        return at_once(run_post_filter_plugins(runner, decision.failure)).nomination

    # ---- edits

    @contextmanager
    def changed(self, edits: Sequence[Edit]) -> Iterator[None]:
        """The edits are in force inside, and taken back afterwards in reverse order."""
        with ExitStack() as undo:
            for edit in edits:
                self._make(edit, undo)
            yield

    @contextmanager
    def placed(self, pod: Pod, node: str) -> Iterator[None]:
        """The pod runs on the node meanwhile."""
        self.cluster.nodes.place(pod, node)
        try:
            yield
        finally:
            self.cluster.nodes.displace(pod.id)

    @contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """The pod is not on its node meanwhile."""
        self.cluster.nodes.displace(pod.id)
        try:
            yield
        finally:
            self.cluster.nodes.place(pod, pod.spec.node_name)

    @contextmanager
    def with_object(self, item: KubeObject) -> Iterator[None]:
        """The object is there meanwhile, instead of another of its name."""
        before = object_in(self.cluster, type(item), item.key)
        self.cluster.put(item)
        try:
            yield
        finally:
            if before is not None:
                self.cluster.put(before)
            elif isinstance(item, Node):
                self.cluster.nodes.remove_node(item.name)
            else:
                self.cluster.remove(type(item), item.key)

    def _make(self, edit: Edit, undo: ExitStack) -> None:
        match edit:
            case PutObject(item):
                undo.enter_context(self.with_object(item))
            case RemovePod(pod):
                undo.enter_context(self.without(pod))
            case MovePod(pod, node):
                undo.enter_context(self.without(pod))
                undo.enter_context(self.placed(pod.with_node(node), node))
            case PlacePod(pod):
                undo.enter_context(self.placed(pod, pod.spec.node_name))
