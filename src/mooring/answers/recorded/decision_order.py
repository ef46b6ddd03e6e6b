"""In which order another scheduler decided, as far as a recording of its bindings can tell.

A scheduler decides one pod after the other and binds them concurrently, so bindings are seen in another order than they
were decided in. What is certain: a pod that was created before another one, with at least its priority, and that was never
rejected, was decided before it. Such a pod was on its node for all later decisions, even if its binding is seen later.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mooring.model.pod import Pod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.state.recording.run_steps import ClusterBegins, ClusterStep

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
