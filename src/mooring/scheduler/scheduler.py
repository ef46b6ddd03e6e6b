"""The scheduler without I/O: changes and the passing of time go in, intents come out."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.cache import Cache
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.cluster.pods.pod_groups import PodGroups
from mooring.framework.events import ANYTHING, Action, ClusterEvent, Registration
from mooring.framework.intents import CallReply, Intent, Write, WriteFault
from mooring.framework.points import Desk
from mooring.framework.runner import Runner
from mooring.kit.clock import Clock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.queue.queue import SchedulingQueue
from mooring.scheduler import bind, evict, intake, work
from mooring.scheduler.core import Core, Report, Tell
from mooring.scheduler.decide import Manner
from mooring.scheduler.decision import EXTENDER
from mooring.scheduler.extenders import attempt as extender_attempt
from mooring.scheduler.extenders.steps import Suspension
from mooring.scheduler.loop import attempt
from mooring.scheduler.observer import Observer

_ANY_EVENT = Registration(ClusterEvent(ANYTHING, Action.ALL))
"""Nobody knows what an extender waits for."""


class Scheduler:
    """What a driver feeds and obeys.

    It tells every change (`added`, `updated`, `removed`), lets time pass (`tick` each second), runs attempts
    (`attempt`) and carries out the intents that `take_intents` gives it, reporting what came of them (`bound`,
    `evicted`, `written`, `replied`). While an attempt waits for extenders it may go on telling: that is kept in order.
    """

    def __init__(
        self,
        clock: Clock,
        runners: dict[str, Runner],
        desk: Desk,
        manner: Manner,
        *,
        initial_backoff_s: float = 1,
        max_backoff_s: float = 10,
        max_parked_s: float = 300,
        tell: Tell | None = None,
        report: Report | None = None,
        observer: Observer | None = None,
        schedules_groups: bool = False,
    ) -> None:
        """`schedules_groups`: the pods of a PodGroup are scheduled together, not one by one."""
        report = report or (lambda text, error: None)
        cluster = Cluster()
        cluster.groups = PodGroups() if schedules_groups else None
        manner.nominated = nominated = NominatedLoad(cluster.nodes)
        pods: dict[str, Pod] = {}
        queue = SchedulingQueue(
            clock,
            {name: runner.profile for name, runner in runners.items()},
            cluster=cluster,
            lookup=pods.get,
            nominated=nominated,
            initial_backoff_s=initial_backoff_s,
            max_backoff_s=max_backoff_s,
            max_parked_s=max_parked_s,
            tell=tell,
            report=report,
            other_rejectors={EXTENDER: (_ANY_EVENT,)} if manner.extenders else None,
            callers={name: runner.caller for name, runner in runners.items()},
        )
        desk.activate, desk.now_ns = queue.activate, clock.now_ns
        self.core = Core(
            clock,
            cluster,
            Cache(cluster),
            queue,
            runners,
            desk,
            nominated,
            manner,
            tell,
            report,
            observer or Observer(),
            pods,
        )
        desk.cluster, desk.want = cluster, self._want
        self.core.observer.watch(self.core)

    def _want(self, intent: Intent) -> None:
        """A plugin wants something done, of which it hears no more unless it said so."""
        if isinstance(intent, Write) and intent.late is not None:
            self.core.last_token += 1
            self.core.late_writes[self.core.last_token] = intent.late
            intent = replace(intent, token=self.core.last_token)
        self.core.outbox.append(intent)

    # ---- changes

    def added(self, item: KubeObject) -> None:
        if self.core.suspension is not None:
            self._hold(partial(self.added, item))
            return
        self._note_change()
        intake.added(self.core, item)

    def updated(self, old: KubeObject, new: KubeObject) -> None:
        if self.core.suspension is not None:
            self._hold(partial(self.updated, old, new))
            return
        self._note_change()
        intake.updated(self.core, old, new)

    def removed(self, item: KubeObject) -> None:
        if self.core.suspension is not None:
            self._hold(partial(self.removed, item))
            return
        self._note_change()
        intake.removed(self.core, item)

    def _hold(self, act: Callable[[], object]) -> None:
        """While an attempt waits for extenders the cluster must stay as it saw it: whatever is told waits as well."""
        assert self.core.suspension is not None
        self.core.suspension.held.append(act)

    def _note_change(self) -> None:
        self.core.observer.change_arrived()

    # ---- time

    def tick(self) -> None:
        """A second has passed: let pods out of backoff, end waits on Permit whose time is up, let PreBind look around.

        While an attempt waits for extenders nothing is done: the next second makes up for it.
        """
        if self.core.suspension is not None:
            return
        self.core.desk.waiting.expire(self.core.clock.now_ns())
        work.look_around(self.core)
        self.core.queue.flush_backoff()
        self.core.observer.second_passed()

    def flush_parked(self) -> None:
        """Half a minute has passed: give pods another chance that have been parked for too long."""
        if self.core.suspension is not None:
            self._hold(self.flush_parked)
            return
        self.core.queue.flush_parked()

    # ---- attempts and what they lead to

    def attempt(self) -> Pod | None:
        """Try the next pod; None when no one's turn has come. It may be suspended until its Calls are answered."""
        if self.core.suspension is not None:
            return None
        pod = attempt(self.core)
        self.release_waiting()
        return pod

    def release_waiting(self) -> None:
        """Let pods go on, or go back, whose wait on Permit has ended."""
        while self.core.suspension is None and (released := self.core.desk.waiting.take_released()):
            for waiting in released:
                assert waiting.release is not None
                bind.release(self.core, waiting.pod.id, waiting.release)

    def has_work(self) -> bool:
        """Whether an attempt could be made now."""
        return self.core.suspension is None and self.core.queue.has_next()

    def carry_out(self, do: Callable[[Intent], None]) -> None:
        """Have every intent done, those included that doing one leads to. For drivers that do each at once."""
        while intents := self.take_intents():
            for intent in intents:
                do(intent)
            self.release_waiting()

    def take_intents(self) -> list[Intent]:
        """What is to be done in the world, in order. They are handed out once."""
        intents, self.core.outbox = self.core.outbox, []
        return intents

    def bound(self, pod: Pod, fault: str | None = None, elsewhere: str = "") -> None:
        """A Bind was carried out, or failed for this reason, maybe because the pod turned out to be elsewhere already."""
        if self.core.suspension is not None:
            self._hold(partial(self.bound, pod, fault, elsewhere))
            return
        binding = self.core.bindings.get(pod.id)
        if binding is None:
            return
        if fault is None:
            bind.finish(self.core, binding)
        else:
            bind.bind_failed(self.core, binding, fault, elsewhere)

    def evicted(self, victim: Pod, preemptor: Pod, fault: str | None = None, *, was_there: bool = True) -> None:
        """An Evict was carried out, or need not be as the victim is no longer there, or failed for this reason."""
        if self.core.suspension is not None:
            self._hold(partial(self.evicted, victim, preemptor, fault, was_there=was_there))
            return
        evict.evicted(self.core, victim, preemptor, fault, was_there=was_there)

    def written(self, token: int, item: KubeObject | None, fault: WriteFault | None = None) -> None:
        """A Write was carried out: the object as it is now (None: it was deleted); or it failed for this reason."""
        if self.core.suspension is not None:
            self._hold(partial(self.written, token, item, fault))
            return
        work.written(self.core, token, item, fault)

    def replied(self, token: int, reply: CallReply) -> None:
        """An extender answered a Call, or did not. Nobody may be waiting for it any more."""
        suspension = self.core.suspension
        if token in self.core.binder_calls:
            if suspension is not None:
                self._hold(partial(self.replied, token, reply))
                return
            bind.binder_replied(self.core, *self.core.binder_calls.pop(token), reply)
        elif suspension is not None:
            try:
                extender_attempt.replied(self.core, suspension, token, reply)
            finally:
                if self.core.suspension is None:
                    self._catch_up(suspension)

    def _catch_up(self, suspension: Suspension) -> None:
        """An attempt is over that was suspended: take in what was told meanwhile."""
        for act in suspension.held:
            try:
                act()
            except Exception as fault:  # as it would be told if it had been taken in at once
                self.core.report("a change that had to wait for an extender could not be taken in", fault)
        self.release_waiting()

    def next_deadline_ns(self) -> int | None:
        """When a wait on Permit or a pause of PreBind ends, whatever else happens."""
        times = (self.core.desk.waiting.next_deadline_ns(), work.next_deadline_ns(self.core))
        return min((when for when in times if when is not None), default=None)

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        core = self.core
        faults = core.cache.check() + core.queue.check() + core.cluster.storage.check()
        for pod_id in core.preparations.keys() - core.bindings.keys():
            faults.append(f"PreBind works for {pod_id}, which is not being bound")
        for pod_id, binding in core.bindings.items():
            seen = core.pods.get(binding.pod.key)
            # A pod that is on its way out is forgotten at once, though its binding has yet to fail.
            is_expected = seen is not None and seen.id == pod_id and not seen.is_terminating
            if is_expected and core.cache.get(pod_id) is None:
                faults.append(f"{binding.pod.key} is being bound but holds no room")
        known = {pod.id for pod in core.pods.values()}
        for pod in core.cluster.nodes.pods():
            if core.cache.is_assumed(pod.id) and pod.id not in core.bindings and pod.id not in known:
                faults.append(f"{pod.key} is assumed but neither being bound nor in the cluster")
        return faults
