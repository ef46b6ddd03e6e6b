"""The scheduler without I/O: changes and the passing of time go in, intents come out."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mooring.cluster.cache import Cache
from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import Intent
from mooring.framework.contract.points import SchedulerServices
from mooring.framework.contract.waiting import WaitingPods
from mooring.kit.clock import Clock
from mooring.model.pod import Pod
from mooring.queue.backoff import QueueSettings
from mooring.queue.entry import Place, QueuedPod
from mooring.queue.queue import SchedulingQueue
from mooring.scheduler import bind, evict, extender_attempt, intake, pre_bind, reconfigure
from mooring.scheduler.core import Core, Deciding
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.extender_steps import Suspension
from mooring.scheduler.inputs import (
    BindAnswered,
    CallAnswered,
    ConfigurationChanged,
    EvictionAnswered,
    HalfMinutePassed,
    Input,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    TimePassed,
    WriteAnswered,
)
from mooring.scheduler.loop import attempt
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.under_way import Outbox, PreBindRuns


class Scheduler:
    """A state machine without I/O, threads or a clock of its own, which a driver feeds and obeys.

    A driver passes on what happens as inputs (`handle`): changes of the cluster, the passing of time, the outcome of
    intents. It runs attempts (`attempt`), and carries out the intents that `take_intents` returns.
    """

    def __init__(
        self,
        clock: Clock,
        runners: dict[str, Runner],
        services: SchedulerServices,
        outbox: Outbox,
        options: DecideOptions,
        queue_settings: QueueSettings | None = None,
        listeners: SchedulerListeners | None = None,
    ) -> None:
        """`services` are those that the plugins were built with; what plugins ask for goes into `outbox`."""
        listeners = listeners or SchedulerListeners()
        cluster = services.cluster
        cluster.nodes.labels_touch = any(runner.reads_pods for runner in runners.values())
        pods: dict[str, Pod] = {}
        queue = SchedulingQueue(
            clock,
            {name: runner.profile for name, runner in runners.items()},
            cluster=cluster,
            lookup=pods.get,
            settings=queue_settings,
            listeners=listeners,
            other_rejectors=reconfigure.other_rejectors(options),
            callers={name: runner.caller for name, runner in runners.items()},
        )
        self.core = Core(
            clock,
            cluster,
            Cache(cluster),
            queue,
            runners,
            services,
            options,
            outbox,
            PreBindRuns(outbox),
            listeners.tell,
            listeners.report,
            listeners.observer,
            pods,
        )
        self.core.plugin_listeners = [*services.pod_listeners]
        self.core.observer.watch(self.core)

    # ---- inputs

    def handle(self, change: Input) -> None:
        """Take in something that happened.

        While an attempt waits for extenders it must see the cluster as it was when it began. So until it is over, all inputs
        but the replies to its own calls wait, in order.
        """
        core = self.core
        suspension = core.extender_calls.suspension
        if suspension is None:
            _HANDLERS[type(change)](core, change)
            if core.outbox.activations:
                self._activate()
        elif isinstance(change, CallAnswered) and change.token not in core.extender_calls.binders:
            self._continue(suspension, change)
        else:
            suspension.held.append(change)

    _take_in = handle
    """Handle an input without beginning a recorded step: a subclass that records steps replaces only `handle`."""

    @property
    def can_fill(self) -> bool:
        """Whether pods that are on nodes may be taken in all at once, because nothing else follows from a single one."""
        core, cluster = self.core, self.core.cluster
        is_waited_for = core.queue.entries() or core.bindings or core.services.pod_listeners or core.is_observed
        return not is_waited_for and cluster.groups is None and not cluster.queues_resizes

    def fill(self, pods: Iterable[Pod]) -> None:
        """Take in pods that are on nodes, while a cluster is being set up: the outcome is that of a `handle` of each."""
        there = [self.core.cluster.as_counted(pod) for pod in pods if not pod.is_finished]
        self.core.pods.update((pod.key, pod) for pod in there)
        self.core.cluster.nodes.fill(there)

    def _continue(self, suspension: Suspension, change: CallAnswered) -> None:
        """An extender replied to the attempt that waits. When the attempt is over, take in what happened meanwhile."""
        try:
            extender_attempt.replied(self.core, suspension, change.token, change.reply)
        finally:
            if self.core.extender_calls.suspension is None:
                self._activate()
                self._catch_up(suspension)

    def _catch_up(self, suspension: Suspension) -> None:
        """Take in the inputs that were held, in order. Inputs start no attempts, so nothing is suspended meanwhile."""
        for change in suspension.held:
            try:
                self._take_in(change)
            except Exception as fault:  # one input that fails must not stop those behind it
                self.core.report("an input that had to wait for an extender could not be taken in", fault)
        self._release_waiting()

    # ---- attempts and what they lead to

    def attempt(self) -> Pod | None:
        """Try the next pod; None if no pod is ready, or an attempt is suspended: there is one at a time."""
        core = self.core
        if core.extender_calls.suspension is not None:
            return None
        pod = attempt(core)
        if core.outbox.activations:
            self._activate()
        if core.services.waiting.by_id:
            self._release_waiting()
        return pod

    def _activate(self) -> None:
        """Plugins may have asked for pods to be tried again. Parity: upstream too waits for the end of the cycle."""
        if self.core.outbox.activations:
            self.core.queue.activate(self.core.outbox.take_activations())

    def release_waiting(self) -> None:
        """Continue the bindings whose wait on Permit has ended. Releasing one may release others (a gang), hence the
        loop."""
        waiting_pods = self.core.services.waiting
        while self.core.extender_calls.suspension is None and (released := waiting_pods.take_released()):
            for waiting in released:
                assert waiting.release is not None
                bind.release(self.core, waiting.pod.id, waiting.release)

    _release_waiting = release_waiting
    """Release without beginning a recorded step, as `_take_in` handles an input."""

    def has_work(self) -> bool:
        """Whether an attempt could be made now."""
        core = self.core
        return core.extender_calls.suspension is None and core.queue.has_next()

    def next_pod(self) -> Pod | None:
        """The pod that `attempt` would try; None if no pod is ready, or a pod group comes next."""
        entry = self.core.queue.places.peek() if self.has_work() else None
        return entry.pod if isinstance(entry, QueuedPod) else None

    def carry_out(self, do: Callable[[Intent], None]) -> None:
        """Do every intent, and those that follow from doing one. For drivers whose intents are done at once."""
        outbox, waiting_pods = self.core.outbox, self.core.services.waiting
        while intents := outbox.intents:
            outbox.intents = []
            for intent in intents:
                do(intent)
            if waiting_pods.by_id:
                self.release_waiting()

    def take_intents(self) -> list[Intent]:
        """Take the intents, the actions that the driver must do in the cluster, in order. Each intent is handed out once."""
        outbox = self.core.outbox
        intents, outbox.intents = outbox.intents, []
        return intents

    def decide_with(self, deciding: Deciding) -> None:
        """Replace the function that decides, usually by one around `decide.deciding`: for drivers that record each
        decision."""
        self.core.deciding = deciding

    def interrupted(self) -> None:
        """Something else than inputs and attempts has changed the state. Nothing follows from it here."""

    # ---- questions

    @property
    def cluster(self) -> Cluster:
        """The cluster as decisions see it: what the watches showed, with the pods that are assumed."""
        return self.core.cluster

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Every pod as the watch last showed it, by key; those that have finished are not there."""
        return self.core.pods

    @property
    def nominated(self) -> NominatedLoad:
        """The pods that are promised a node."""
        return self.core.cluster.nominated

    @property
    def waiting(self) -> WaitingPods:
        """The pods that wait on Permit."""
        return self.core.services.waiting

    @property
    def extenders(self) -> tuple[Extender, ...]:
        return self.core.options.extenders

    @property
    def attempts(self) -> int:
        """How many attempts have begun."""
        return self.core.queue.attempts

    @property
    def rescued(self) -> int:
        """How many pods were placed only because the flush of unschedulable pods gave them another attempt."""
        return self.core.queue.counters.rescued

    @property
    def schedules_groups(self) -> bool:
        return self.core.cluster.groups is not None

    def runner(self, scheduler_name: str) -> Runner | None:
        """The profile that is responsible for this scheduler name, with its plugins."""
        return self.core.runners.get(scheduler_name)

    def placed(self, pod_id: str) -> Pod | None:
        """The pod as it counts on its node, seen there or assumed."""
        return self.core.cache.get(pod_id)

    def queued(self, key: str) -> QueuedPod | None:
        """The entry of a pod that waits in the queue."""
        return self.core.queue.get(key)

    def queued_pods(self) -> list[QueuedPod]:
        return self.core.queue.entries()

    def place_in_queue(self, key: str) -> Place | None:
        """Where a pod waits; None: it is in flight, or unknown."""
        return self.core.queue.where(key)

    def backoff_ends_ns(self, entry: QueuedPod) -> int:
        """When a pod in backoff is active again at the latest."""
        return self.core.queue.backoff_ends_ns(entry)

    def pending_counts(self) -> dict[Place, int]:
        """How many pods wait where in the queue."""
        return self.core.queue.pending_counts()

    def is_attempted(self, pod_id: str) -> bool:
        """Whether the pod is in flight: taken from the queue, with no decision acted on."""
        return self.core.queue.is_in_flight(pod_id)

    def is_being_bound(self, pod_id: str) -> bool:
        return pod_id in self.core.bindings

    def has_intents(self) -> bool:
        """Whether `take_intents` would return any."""
        return bool(self.core.outbox.intents)

    def next_release_ns(self) -> int | None:
        """When the next pod leaves backoff."""
        return self.core.queue.next_release_ns()

    def next_deadline_ns(self) -> int | None:
        """When a wait on Permit or a pause of PreBind ends, whatever else happens."""
        times = (self.core.services.waiting.next_deadline_ns(), self.core.pre_bind.next_deadline_ns())
        return min((when for when in times if when is not None), default=None)

    def check(self) -> list[str]:
        """The invariants that do not hold, in words. Simulations and state machine tests call it after every step."""
        core = self.core
        faults = core.cache.check() + core.queue.check() + core.cluster.storage.check()
        faults += core.pre_bind.check(core.bindings) + core.evictions.check() + core.extender_calls.check()
        for pod_id, binding in core.bindings.items():
            seen = core.pods.get(binding.pod.key)
            # A pod that is on its way out is forgotten at once, though its binding has yet to fail.
            is_expected = seen is not None and seen.id == pod_id and not seen.is_terminating
            if is_expected and not core.cache.has(pod_id):
                faults.append(f"{binding.pod.key} is being bound but holds no room")
        known = {pod.id for pod in core.pods.values()}
        for pod in core.cluster.nodes.pods():
            if core.cache.is_assumed(pod.id) and pod.id not in core.bindings and pod.id not in known:
                faults.append(f"{pod.key} is assumed but neither being bound nor in the cluster")
        return faults


# ---- what is done with each input


def _time_passed(core: Core, change: TimePassed) -> None:
    """In upstream these are goroutines of their own: permit timers, PreBind polls, the backoff flush."""
    core.services.waiting.expire(core.clock.now_ns())
    pre_bind.continue_due(core)
    core.queue.flush_backoff()
    core.observer.time_passed()


def _half_minute_passed(core: Core, change: HalfMinutePassed) -> None:
    core.queue.flush_unschedulable()


_HANDLERS: dict[type[Input], Callable[[Core, Any], None]] = {
    ObjectAdded: intake.added,
    ObjectUpdated: intake.updated,
    ObjectRemoved: intake.removed,
    BindAnswered: bind.bind_answered,
    EvictionAnswered: evict.evicted,
    WriteAnswered: pre_bind.written,
    CallAnswered: bind.binder_replied,  # no attempt waits, so no other call can be answered
    TimePassed: _time_passed,
    HalfMinutePassed: _half_minute_passed,
    ConfigurationChanged: reconfigure.swap_profiles,
}
