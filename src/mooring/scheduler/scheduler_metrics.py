"""The scheduler's metrics, with upstream's names and labels: results of attempts, durations, and the state of queue
and cache."""

from collections import Counter as Counts
from collections.abc import Iterable, Mapping

from mooring.framework.attempts.observing_callers import MeteredCaller
from mooring.framework.contract.events import ClusterEvent
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.points import Nomination
from mooring.framework.kept.kept_answers import KeptAnswers
from mooring.framework.profile.metric_catalogue import CATALOGUE, PLACEMENTS, POD_GROUPS
from mooring.framework.profile.profiles import Profile
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.metrics import Counter, Histogram, Labels, MetricRegistry
from mooring.model.pod import Pod
from mooring.queue.entry import GROUP_ENTITY, POD_ENTITY, QueuedPod
from mooring.scheduler.observer import GroupResultLabel, ObservedState, Observer

MANY_ATTEMPTS = 15
"""Pods with so many attempts or more share one label, as upstream has it."""
FOLD_PERIOD_NS = NS_PER_S
"""How often noted durations are counted: at 1,000 pods a second some 20,000 notes pile up in the meantime."""


class SchedulerMetrics(Observer):
    """Records what happens in `registry`. `clock` must be the one of the scheduler."""

    def __init__(self, clock: Clock, registry: MetricRegistry | None = None) -> None:
        self.registry = registry = registry or MetricRegistry(CATALOGUE)
        self._clock = clock
        self._now_ns = clock.now_ns
        self._change_arrived_ns = 0
        self._folded_ns = 0
        self._callers: dict[str, MeteredCaller] = {}
        self._ends: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._handled: dict[ClusterEvent, Histogram] = {}
        self._attempts = registry.counter("scheduler_schedule_attempts_total")
        self._attempt_durations = registry.histogram("scheduler_scheduling_attempt_duration_seconds")
        self._decisions = registry.histogram("scheduler_scheduling_algorithm_duration_seconds").series()
        sli = registry.histogram("scheduler_pod_scheduling_sli_duration_seconds")
        labels = [*(str(count) for count in range(MANY_ATTEMPTS)), f"{MANY_ATTEMPTS}+"]
        self._until_bound = [sli.series(label) for label in labels]
        self._attempts_needed = registry.histogram("scheduler_pod_scheduling_attempts").series()
        self._rescued = registry.counter("scheduler_pod_scheduled_after_flush_total").series()
        self._permit_waits = registry.histogram("scheduler_permit_wait_duration_seconds")
        self._events = registry.histogram("scheduler_event_handling_duration_seconds")
        self._has_groups = False
        self._victims = registry.histogram("scheduler_preemption_victims").series()
        self._evictions = registry.counter("scheduler_preemption_goroutines_execution_total")
        self._eviction_durations = registry.histogram("scheduler_preemption_goroutines_duration_seconds")
        read_evaluations(self._callers, registry)

    def caller_for(self, profile: Profile) -> PluginCaller:
        caller = MeteredCaller(self._clock, self.registry, profile)
        if (former := self._callers.get(profile.scheduler_name)) is not None:
            caller.evaluations.take_over(former.evaluations)
        self._callers[profile.scheduler_name] = caller
        return caller

    def watch(self, state: ObservedState) -> None:
        read_state_of(state, self.registry)
        self._has_groups = state.cluster.groups is not None
        if state.cluster.groups is not None:
            for description in POD_GROUPS:  # shown only where pod groups are scheduled
                self.registry.declare(description)
        if state.cluster.gates.get("TopologyAwareWorkloadScheduling", False):
            for description in PLACEMENTS:
                self.registry.declare(description)

    def watch_kept_answers(self, kept: KeptAnswers) -> None:
        read_kept_answers(kept, self.registry)

    def time_passed(self) -> None:
        """Durations are noted in lists and counted into buckets here, away from the attempts."""
        now_ns = self._now_ns()
        if now_ns - self._folded_ns >= FOLD_PERIOD_NS:
            self._folded_ns = now_ns
            self.registry.fold()

    # ---- changes of the cluster

    def change_arrived(self) -> None:
        self._change_arrived_ns = self._now_ns()

    def change_handled(self, event: ClusterEvent) -> None:
        """Hot: series are kept by event, so that the label is formatted once for each kind of event."""
        series = self._handled.get(event)
        if series is None:
            series = self._handled[event] = self._events.series(event.label)
        series.observe_ns(self._now_ns() - self._change_arrived_ns)

    # ---- attempts

    def attempt_began(self, entry: QueuedPod) -> None:
        entry.began_ns = self._now_ns()

    def decided(self, entry: QueuedPod, node_name: str) -> None:
        self._decisions.observe_ns(self._now_ns() - entry.began_ns)

    def attempt_failed(self, entry: QueuedPod, is_error: bool, message: str) -> None:
        self._ended("error" if is_error else "unschedulable", entry, self._now_ns())

    def pod_bound(self, entry: QueuedPod) -> None:
        """Record that a pod was bound: the number of its attempts, and the time since its first attempt."""
        now_ns = self._now_ns()
        self._ended("scheduled", entry, now_ns)
        self._attempts_needed.observe(entry.attempts)
        if entry.initial_attempt_ns is not None:
            series = self._until_bound[min(entry.attempts, MANY_ATTEMPTS)]
            series.observe_ns(now_ns - entry.initial_attempt_ns)
        if entry.was_flushed:
            self._rescued.add()

    def _ended(self, result: str, entry: QueuedPod, now_ns: int) -> None:
        """Count the end of an attempt, under its result and profile."""
        key = result, entry.profile
        series = self._ends.get(key)
        if series is None:
            series = self._ends[key] = self._attempts.series(*key), self._attempt_durations.series(*key)
        count, durations = series
        count.add()
        durations.observe_ns(now_ns - entry.began_ns)

    def wait_on_permit_ended(self, pod: Pod, status: str, began_ns: int) -> None:
        self._permit_waits.series(status).observe_ns(self._now_ns() - began_ns)

    def preempts(self, preemptor: Pod, nomination: Nomination) -> None:
        self._victims.observe(len(nomination.victims))

    def evictions_ended(self, preemptor: str, has_failed: bool, began_ns: int, now_ns: int) -> None:
        result = "error" if has_failed else "success"
        self._evictions.series(result).add()
        self._eviction_durations.series(result).observe_ns(now_ns - began_ns)
        if self._has_groups:
            durations = self.registry.histogram("scheduler_preemption_execution_duration_seconds")
            durations.series(preemptor, result).observe_ns(now_ns - began_ns)

    # ---- attempts for pod groups

    def group_decided(self, first: QueuedPod) -> None:
        decisions = self.registry.histogram("scheduler_podgroup_scheduling_algorithm_duration_seconds")
        decisions.series().observe_ns(self._now_ns() - first.began_ns)

    def group_ended(self, result: GroupResultLabel, first: QueuedPod) -> None:
        self.registry.counter("scheduler_podgroup_schedule_attempts_total").series(result, first.profile).add()
        durations = self.registry.histogram("scheduler_podgroup_scheduling_attempt_duration_seconds")
        durations.series(result, first.profile).observe_ns(self._now_ns() - first.began_ns)

    def placements_generated(self, profile: Profile, count: int) -> None:
        self.registry.counter("scheduler_generated_placements_total").series(profile.scheduler_name).add(count)

    def placement_evaluated(self, profile: Profile, is_feasible: bool, began_ns: int) -> None:
        labels = "feasible" if is_feasible else "infeasible", profile.scheduler_name
        self.registry.counter("scheduler_placement_evaluations_total").series(*labels).add()
        durations = self.registry.histogram("scheduler_placement_evaluation_duration_seconds")
        durations.series(*labels).observe_ns(self._now_ns() - began_ns)


# ---- Metrics of the scheduler's state: they are read when /metrics is, and not kept up to date in between


def read_state_of(state: ObservedState, registry: MetricRegistry) -> None:
    """Have the gauges, and the counters that the queue keeps, read from this scheduler whenever metrics are read."""
    counters = state.queue.counters
    registry.gauge("scheduler_pending_pods").read_from(lambda: _by_label(state.queue.pending_counts().items()))
    registry.gauge("scheduler_cache_size").read_from(lambda: _cache_sizes(state))
    registry.gauge("scheduler_goroutines").read_from(lambda: _at_work(state))
    registry.gauge("scheduler_unschedulable_pods").read_from(counters.unschedulable.items)
    registry.gauge("scheduler_inflight_events").read_from(lambda: _by_label(counters.in_flight_events.items()))
    registry.counter("scheduler_queue_incoming_pods_total").read_from(counters.incoming.items, counters.incoming.clear)
    entities = registry.counter("scheduler_queue_incoming_entities_total")
    entities.read_from(lambda: counters.incoming_entities.items(), counters.forget_entities)
    pre_hints = counters.pre_hints
    registry.counter("scheduler_pre_queueing_hint_evaluations_total").read_from(pre_hints.items, pre_hints.clear)
    registry.gauge("scheduler_queued_entities").read_from(lambda: _queued_entities(state))


def read_kept_answers(kept: KeptAnswers, registry: MetricRegistry) -> None:
    """Have the metrics of kept answers read from here."""

    def forget_lookups() -> None:
        kept.hits = kept.misses = 0

    def forget_evictions() -> None:
        kept.evictions = 0

    registry.gauge("mooring_kept_answers_bytes").read_from(lambda: [((), kept.byte_count.bytes)])
    registry.gauge("mooring_kept_answers_limit_bytes").read_from(lambda: [((), kept.limit_bytes)])
    registry.gauge("mooring_kept_answers_memos").read_from(lambda: [((), kept.memo_count)])
    lookups = registry.counter("mooring_kept_answers_lookups_total")
    lookups.read_from(lambda: [(("hit",), kept.hits), (("miss",), kept.misses)], forget_lookups)
    evictions = registry.counter("mooring_kept_answers_evictions_total")
    evictions.read_from(lambda: [((), kept.evictions)], forget_evictions)


def read_evaluations(callers: Mapping[str, MeteredCaller], registry: MetricRegistry) -> None:
    """Have the counter of evaluations read from the callers of these profiles."""

    def read() -> Iterable[tuple[Labels, float]]:
        return [
            ((plugin, point, profile), count)
            for profile, caller in callers.items()
            for (plugin, point), count in caller.evaluations.read().items()
        ]

    def forget() -> None:
        for caller in callers.values():
            caller.evaluations.clear()

    registry.counter("scheduler_plugin_evaluation_total").read_from(read, forget)


def _at_work(state: ObservedState) -> Iterable[tuple[Labels, float]]:
    """The work that upstream has goroutines for: bindings under way, and extenders that are scoring."""
    asked = state.extender_calls.suspension.calls if state.extender_calls.suspension is not None else ()
    scoring = sum(call.verb == call.extender.prioritize_verb for call in asked)
    return [(("binding",), len(state.bindings)), *([(("prioritizing_extender",), scoring)] if scoring else [])]


def _by_label(counts: Iterable[tuple[str, int]]) -> Iterable[tuple[Labels, float]]:
    return [((label,), count) for label, count in counts]


def _queued_entities(state: ObservedState) -> Iterable[tuple[Labels, float]]:
    """Entities by queue and type."""
    sizes = state.queue.places.sizes()
    groups = state.queue.groups
    of_groups = Counts(state.queue.places.where(key) for key in groups.entities) if groups is not None else Counts()
    found = [((place, POD_ENTITY), count - of_groups[place]) for place, count in sizes.items()]
    return found + [((place, GROUP_ENTITY), of_groups[place]) for place in sizes if groups is not None]


def _cache_sizes(state: ObservedState) -> Iterable[tuple[Labels, float]]:
    nodes = state.cluster.nodes
    return [
        (("nodes",), nodes.alive_count),
        (("pods",), int(nodes.pod_count.sum())),
        (("assumed_pods",), state.cache.assumed_count),
    ]
