"""Work of a scheduler that is not finished: bindings, intents that no driver has taken, evictions, calls to extenders that
are not answered, and PreBind plugins that are at work."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import Extender
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import PodGroupPostFilterPlugin
from mooring.framework.contract.intents import Intent, Write, WriteFault
from mooring.framework.contract.points import Pause, PostFilterPlugin, PreBindPlugin, Work
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.extender_steps import Suspension

# ---- bindings: pods on their way from a decision to their node


class Binding(msgspec.Struct, eq=False):
    """The binding cycle of one pod. It lives in `Core.bindings` from Permit until the Bind is answered."""

    entry: QueuedPod
    pod: Pod
    """As it is assumed: a copy with its node name. `entry.pod` stays as the watch showed it."""
    runner: Runner
    context: SchedulingContext
    node_name: str
    """Kept beside the pod because every plugin call needs it."""
    has_waited: bool = False
    """On Permit, or for the work of PreBind: then the status names the node as nominated, unless that is switched off. If
    the binding fails, it must be taken back."""
    step_began_ns: int = 0
    """When its present step (the wait on Permit, PreBind, Bind) began, as the caller of its plugins says."""


# ---- Intents until a driver takes them, and what plugins asked for meanwhile.


OnAnswer = Callable[[KubeObject | WriteFault | None], None]
"""Called with the answer to a write that no PreBind plugin waits for."""


class Outbox:
    """Intents in order. Writes and calls have a token, by which their answer finds the code that waits for it.

    Hot: a class with slots, because `intents` is set twice a pod, and structs take three times as long to set a field.
    """

    __slots__ = ("activations", "intents", "last_token", "on_answer")

    def __init__(self) -> None:
        self.intents: list[Intent] = []
        self.activations: list[Pod] = []
        """Pods that plugins want to be tried again. They are activated after the attempt or input, not in the middle of
        it."""
        self.on_answer: dict[int, OnAnswer] = {}
        """Token of a write -> what is called with its answer."""
        self.last_token = 0
        """The last one that was given out."""

    def append(self, intent: Intent) -> None:
        self.intents.append(intent)

    def next_token(self) -> int:
        """A number that was not used before; 0 is never one, so it can mean none."""
        self.last_token += 1
        return self.last_token

    def want(self, intent: Intent) -> None:
        """A plugin wants something done. It gets the answer only if it named a callback (`Write.late`)."""
        if isinstance(intent, Write) and intent.late is not None:
            token = self.next_token()
            self.on_answer[token] = intent.late
            intent = replace(intent, token=token)
        self.intents.append(intent)

    def activate(self, pods: Sequence[Pod]) -> None:
        """A plugin wants these pods to be tried again."""
        self.activations += pods

    def take_activations(self) -> list[Pod]:
        pods, self.activations = self.activations, []
        return pods


# ---- The evictions that preemption has asked for: which victims have yet to leave for which pod.


class Eviction(msgspec.Struct):
    """The victims that have yet to be evicted to make room for one pod. `victims` is never empty while it is
    registered."""

    preemptor: Pod
    victims: set[str]
    """Ids of pods."""
    plugin: PostFilterPlugin | PodGroupPostFilterPlugin
    members: tuple[Pod, ...] = ()
    """The pods that wait for it: the preemptor; or the members of its group, where the group preempts as one."""
    began_ns: int = 0
    has_failed: bool = False
    """Whether one of them could not be evicted."""
    ends_in_memory: bool = False
    """Whether the last victim was being bound, so that it was requeued and not evicted."""


class Evictions(msgspec.Struct):
    """All evictions that are not over. A preemptor has at most one: it is not tried again before that is over."""

    by_preemptor: dict[str, Eviction] = msgspec.field(default_factory=dict)
    """By pod id."""

    def begin(self, eviction: Eviction) -> None:
        self.by_preemptor[eviction.preemptor.id] = eviction

    def of_victim(self, pod_id: str) -> list[Eviction]:
        """The evictions that wait for this pod to leave; two preemptors may have chosen the same victim."""
        return [eviction for eviction in self.by_preemptor.values() if pod_id in eviction.victims]

    def cross_off(self, eviction: Eviction, victim_id: str) -> bool:
        """A victim is gone, or cannot be evicted. Returns whether the eviction is over."""
        eviction.victims.discard(victim_id)
        if eviction.victims:
            return False
        del self.by_preemptor[eviction.preemptor.id]
        return True

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        return [
            f"{e.preemptor.key} waits for victims, but there are none"
            for e in self.by_preemptor.values()
            if not e.victims
        ]


# ---- The calls to extenders that are not answered: those of the attempt that waits, and those that bind pods.


class ExtenderCalls(msgspec.Struct):
    """At most one attempt waits for extenders at a time; any number of bindings may."""

    suspension: Suspension | None = None
    """The attempt that waits for extenders, if one does."""
    binders: dict[int, tuple[Binding, Extender]] = msgspec.field(default_factory=dict)
    """Token of a call -> the binding that an extender was asked to carry out."""

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        suspension = self.suspension
        if suspension is not None and not suspension.calls:
            return ["an attempt waits for extenders, but none was called"]
        return []


ObjectRef = tuple[type[KubeObject], str]
"""Kind and key of an object."""


class PreBindRun(msgspec.Struct):
    """A PreBind plugin that takes time. It waits for the answer to one write, or for the end of one pause."""

    binding: Binding
    plugin: PreBindPlugin
    work: Work
    others: Iterator[PreBindPlugin]
    """The plugins that follow."""
    then: Callable[..., None]
    """Called in the end, with the reason if the pod cannot be bound."""
    token: int = 0
    """The write that it waits for; 0: none."""
    on_late_answer: OnAnswer | None = None
    """Called with the answer to that write if the work is stopped before."""
    pause: Pause | None = None
    """None: it does not pause, or is over."""


class PreBindRuns(msgspec.Struct):
    """All runs, by what they wait for. A run waits for one thing at a time: `await_write` or `await_change`, until
    `stop_waiting`."""

    outbox: Outbox
    by_pod: dict[str, PreBindRun] = msgspec.field(default_factory=dict)
    """By pod id."""
    _writers: dict[int, tuple[str, ObjectRef]] = msgspec.field(default_factory=dict)
    """Token of a write -> id of the pod whose run waits for it, and what is written."""
    _watchers: dict[ObjectRef, dict[str, None]] = msgspec.field(default_factory=dict)
    """Object -> ids of the pods whose run waits for it to change, in order of arrival."""
    looked_ns: int = 0
    """When all runs that pause were last due. Runs look once a second even without a change, as upstream polls."""

    def begin(self, run: PreBindRun) -> None:
        self.by_pod[run.binding.pod.id] = run

    def end(self, run: PreBindRun) -> None:
        """The run is over. If a write of it is not answered yet, the answer still goes to the callback that it named."""
        if run.token and run.on_late_answer is not None:
            self.outbox.on_answer[run.token] = run.on_late_answer
        self.stop_waiting(run)
        self.by_pod.pop(run.binding.pod.id, None)

    def await_write(self, run: PreBindRun, token: int, target: ObjectRef, on_late_answer: OnAnswer | None) -> None:
        """The run goes on when the write with this token is answered."""
        run.token, run.on_late_answer = token, on_late_answer
        self._writers[token] = (run.binding.pod.id, target)

    def await_change(self, run: PreBindRun, pause: Pause) -> None:
        """The run goes on when one of the objects changes that the pause names."""
        run.pause = pause
        for target in pause.on:
            self._watchers.setdefault(target, {})[run.binding.pod.id] = None

    def stop_waiting(self, run: PreBindRun) -> None:
        """The run waits for nothing now. `_writers` keeps its token: the answer may come late and still wake others."""
        pod_id = run.binding.pod.id
        for target in run.pause.on if run.pause is not None else ():
            watchers = self._watchers[target]
            del watchers[pod_id]
            if not watchers:
                del self._watchers[target]
        run.pause, run.token = None, 0

    def take_answered(self, token: int) -> tuple[PreBindRun | None, OnAnswer | None, ObjectRef | None]:
        """A write was answered: the run that waits for it, or what else is to be called, and what was written."""
        pod_id, target = self._writers.pop(token, ("", None))
        run = self.by_pod.get(pod_id)
        on_answer = self.outbox.on_answer.pop(token, None)
        return (run if run is not None and run.token == token else None), on_answer, target

    def waiting_for(self, target: ObjectRef) -> list[PreBindRun]:
        """The runs that pause until this object changes. A copy: steps of one run may end others, so ask each again."""
        found = (self.by_pod.get(pod_id) for pod_id in list(self._watchers.get(target) or ()))
        return [run for run in found if run is not None]

    def due(self, now_ns: int) -> list[PreBindRun]:
        """The runs whose pause is over; once a second all that pause."""
        if not self.by_pod:
            return []
        is_due = now_ns - self.looked_ns >= NS_PER_S
        if is_due:
            self.looked_ns = now_ns
        return [run for run in self.by_pod.values() if _is_over(run.pause, now_ns, is_due)]

    def next_deadline_ns(self) -> int | None:
        """When the next pause ends, whatever happens."""
        pauses = (run.pause for run in self.by_pod.values())
        return min((p.until_ns for p in pauses if p is not None and p.until_ns is not None), default=None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is at work, and no answer is expected."""
        return not self.by_pod and not self.outbox.on_answer and not self._watchers

    def check(self, bindings: dict[str, Any]) -> list[str]:
        """The invariants that do not hold, in words."""
        faults = [
            f"PreBind works for {pod_id}, which is not being bound" for pod_id in self.by_pod.keys() - bindings.keys()
        ]
        for target, pod_ids in self._watchers.items():
            for pod_id in pod_ids:
                run = self.by_pod.get(pod_id)
                if run is None or run.pause is None or target not in run.pause.on:
                    faults.append(f"{pod_id} counts as waiting for {target[1]}, but does not wait for it")
        return faults


def _is_over(pause: Pause | None, now_ns: int, is_due: bool) -> bool:
    return pause is not None and (is_due or (pause.until_ns is not None and pause.until_ns <= now_ns))
