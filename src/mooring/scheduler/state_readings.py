"""What metrics tell of the scheduler's state: read when someone looks, never kept up to date in between."""

from collections.abc import Iterable, Mapping

from mooring.framework.metered_caller import MeteredCaller
from mooring.kit.metrics import Labels, MetricRegistry
from mooring.scheduler.observer import SchedulerState


def read_state_of(state: SchedulerState, registry: MetricRegistry) -> None:
    """Have the gauges, and the counters that others keep, read from this scheduler."""
    counters = state.queue.counters
    registry.gauge("scheduler_pending_pods").read_from(lambda: _pending(state))
    registry.gauge("scheduler_cache_size").read_from(lambda: _cache_sizes(state))
    registry.gauge("scheduler_goroutines").read_from(lambda: _at_work(state))
    registry.gauge("scheduler_unschedulable_pods").read_from(counters.unschedulable.items)
    registry.gauge("scheduler_inflight_events").read_from(lambda: _in_flight(state))
    registry.counter("scheduler_queue_incoming_pods_total").read_from(counters.incoming.items, counters.incoming.clear)


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


def _at_work(state: SchedulerState) -> Iterable[tuple[Labels, float]]:
    """What upstream has goroutines for and takes time here too."""
    asked = state.extender_calls.suspension.calls if state.extender_calls.suspension is not None else ()
    scoring = sum(call.verb == call.extender.prioritize_verb for call in asked)
    return [(("binding",), len(state.bindings)), *([(("prioritizing_extender",), scoring)] if scoring else [])]


def _pending(state: SchedulerState) -> Iterable[tuple[Labels, float]]:
    return [((place,), count) for place, count in state.queue.pending_counts().items()]


def _cache_sizes(state: SchedulerState) -> Iterable[tuple[Labels, float]]:
    nodes = state.cluster.nodes
    return [
        (("nodes",), nodes.alive_count),
        (("pods",), int(nodes.pod_count.sum())),
        (("assumed_pods",), state.cache.assumed_count),
    ]


def _in_flight(state: SchedulerState) -> Iterable[tuple[Labels, float]]:
    return [((label,), count) for label, count in state.queue.counters.in_flight_events.items()]
