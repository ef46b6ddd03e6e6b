"""Any sequence of operations: a pod is always in exactly one place, or in flight, or gone."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from queue_rig import GATES_ELIMINATED, NODE_ADD, NODE_CONDITION, NODE_LABEL, PROFILE, Rig, a_filter, a_pending

from mooring.framework.contract.events import ASSIGNED_POD_DELETE, UNSCHEDULABLE_TIMEOUT, ClusterEvent
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod

EVENTS = [NODE_ADD, NODE_LABEL, NODE_CONDITION, ASSIGNED_POD_DELETE, GATES_ELIMINATED, UNSCHEDULABLE_TIMEOUT]
PLUGINS = st.lists(st.sampled_from(["Fit", "Other", "Gate"]), max_size=2)
PROFILES = st.sampled_from([PROFILE, PROFILE, PROFILE, "unknown"])


class QueueMachine(RuleBasedStateMachine):
    """`queued` and `in_flight` are what the test knows; the queue must agree after each step."""

    pops_early = True

    def __init__(self) -> None:
        super().__init__()
        self.other = a_filter("Other", NODE_LABEL)
        self.rig = Rig(self.other, pop_from_backoff=self.pops_early)
        self.queued: dict[str, Pod] = {}
        self.in_flight: dict[str, QueuedPod] = {}
        self.made = 0
        self.attempts: dict[str, int] = {}

    # ---- Pods come, change and go

    @rule(priority=st.integers(0, 2), gated=st.booleans(), node=st.sampled_from(["", "n1"]), profile=PROFILES)
    def add(self, priority: int, gated: bool, node: str, profile: str) -> None:
        self.made += 1
        pod = self._a_pod(f"p{self.made}", priority, gated, node, profile)
        self.rig.add(pod)
        self.queued[pod.key] = pod

    def _a_pod(self, name: str, priority: int, gated: bool, node: str, profile: str, **more: Any) -> Pod:
        gates = [{"name": "gate"}] if gated else None
        status = {"nominatedNodeName": node}
        return a_pending(name, priority, schedulingGates=gates, status=status, schedulerName=profile, **more)

    @precondition(lambda self: self.queued or self.in_flight)
    @rule(data=st.data(), priority=st.integers(0, 2), gated=st.booleans(), label=st.sampled_from("ab"))
    def update(self, data: st.DataObject, priority: int, gated: bool, label: str) -> None:
        old = self._any_pod(data)
        node = data.draw(st.sampled_from(["", "n1", "n2"]))
        new = self._a_pod(old.name, priority, gated, node, old.spec.scheduler_name, labels={"label": label})
        self.rig.known[new.key] = new
        place = self.rig.queue.update(data.draw(st.sampled_from([old, None])), new)
        assert (place is None) == (old.key in self.in_flight)
        if old.key in self.queued:
            self.queued[old.key] = new

    @precondition(lambda self: self.queued)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(list(self.queued.values())))
        self.rig.known.pop(pod.key, None)
        self.rig.queue.delete(pod)
        del self.queued[pod.key]

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def delete_in_flight(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(list(self.in_flight.values())))
        self.rig.known.pop(entry.key, None)
        self.rig.queue.delete(entry.pod)

    def _any_pod(self, data: st.DataObject) -> Pod:
        return data.draw(st.sampled_from([*self.queued.values(), *(entry.pod for entry in self.in_flight.values())]))

    # ---- Attempts

    @rule()
    def pop(self) -> None:
        queue = self.rig.queue
        active = [entry for entry in queue.entries() if queue.where(entry.key) == "active"]
        early = [e for entity in queue.places.backoff.rejected for e in entity.entries] if self.pops_early else []
        entry = queue.pop()
        assert (entry is None) == (not active and not early)
        if entry is None:
            return
        assert isinstance(entry, QueuedPod)
        assert entry in (active or early)
        if active:
            assert _turn(entry) == min(map(_turn, active))
        else:
            assert (entry.backoff_until_ns, _turn(entry)) == min((e.backoff_until_ns, _turn(e)) for e in early)
        assert entry.pod is self.queued.pop(entry.key)
        self.attempts[entry.key] = self.attempts.get(entry.key, 0) + 1
        assert entry.attempts == self.attempts[entry.key]
        self.in_flight[entry.key] = entry

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), plugins=PLUGINS, pending=PLUGINS)
    def add_unschedulable(self, data: st.DataObject, plugins: list[str], pending: list[str]) -> None:
        entry = data.draw(st.sampled_from(list(self.in_flight.values())))
        entry.pod = self.rig.known.get(entry.key, entry.pod)
        entry.reject_by(plugins, pending)
        place = self.rig.queue.add_unschedulable(entry)
        assert place != "unschedulable" or plugins or pending
        del self.in_flight[entry.key]
        self.queued[entry.key] = entry.pod

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), placed=st.booleans())
    def done(self, data: st.DataObject, placed: bool) -> None:
        entry = data.draw(st.sampled_from(list(self.in_flight.values())))
        self.rig.queue.done(entry.uid, placed=placed)
        self.rig.known.pop(entry.key, None)
        del self.in_flight[entry.key]

    # ---- What moves pods

    @rule(event=st.sampled_from(EVENTS), limit=st.none() | st.integers(0, 2))
    def wake(self, event: ClusterEvent, limit: int | None) -> None:
        self.rig.queue.wake(event, admits=None if limit is None else lambda pod: pod.priority <= limit)

    @rule(fit=st.booleans(), other=st.booleans(), gate=st.booleans())
    def change_hints(self, fit: bool, other: bool, gate: bool) -> None:
        self.rig.fit.answer, self.other.answer, self.rig.gate.answer = fit, other, gate

    @rule(closed=st.booleans())
    def change_gate(self, closed: bool) -> None:
        self.rig.gate.objects_to = lambda pod: closed or bool(pod.spec.scheduling_gates)

    @precondition(lambda self: self.queued or self.in_flight)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        self.rig.queue.activate([self._any_pod(data)])

    @rule(step_ms=st.sampled_from([1, 400, 1000, 3000, 40_000, 301_000]), ticks=st.booleans())
    def pass_time(self, step_ms: int, ticks: bool) -> None:
        self.rig.at((self.rig.clock.now_ns() + step_ms * 1_000_000) / NS_PER_S, ticks=ticks)

    @rule()
    def flush(self) -> None:
        self.rig.queue.flush_backoff()
        self.rig.queue.flush_unschedulable()
        assert all(
            entry.backoff_until_ns is not None and entry.backoff_until_ns + NS_PER_S > self.rig.clock.now_ns()
            for entry in self.rig.queue.places.backoff
        )

    # ---- What always holds

    @invariant()
    def is_in_order(self) -> None:
        assert self.rig.queue.check() == []

    @invariant()
    def each_pod_is_in_one_place_or_in_flight(self) -> None:
        queue = self.rig.queue
        assert {entry.key: entry.pod for entry in queue.entries()} == self.queued
        assert len(queue.entries()) == sum(queue.pending_counts().values()) == len(self.queued)
        assert all(queue.where(key) is not None for key in self.queued)
        assert queue.in_flight.uids() == [entry.uid for entry in self.in_flight.values()]
        assert all(queue.where(key) is None for key in self.in_flight)
        gated = [entry for entry in queue.entries() if queue.where(entry.key) == "gated"]
        assert len(gated) == queue.pending_counts()["gated"]


def _turn(entry: QueuedPod) -> tuple[int, int]:
    return -entry.pod.priority, entry.timestamp_ns


class LateQueueMachine(QueueMachine):
    """The same where nobody leaves backoff early."""

    pops_early = False


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(stateful_step_count=50, deadline=None)

TestLateQueueMachine = LateQueueMachine.TestCase
TestLateQueueMachine.settings = settings(stateful_step_count=50, deadline=None)
