"""The PreBind plugins that are at work: which run waits for which write, and for changes of which objects."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from mooring.framework.contract.points import Pause, PreBindPlugin, Work
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.scheduler.binding import Binding
from mooring.scheduler.outbox import OnAnswer, Outbox

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
