"""Every metric that the scheduler has, with its kind, labels and buckets: upstream's (v1.36), and some of our own."""

from mooring.kit.metrics import Description, Labels, Stability, exponential

MILLISECONDS = exponential(0.001, 2, 15)
"""1 ms to 16 s: whole attempts."""
TENTHS = exponential(0.0001, 2, 12)
"""0.1 ms to 0.2 s: an extension point."""
LONG = exponential(0.01, 2, 20)
"""10 ms to an hour and a half: from queue to node."""
CALLS = exponential(0.00001, 1.5, 20)
"""10 µs to 22 ms: one call of a plugin."""
MICROSECONDS = exponential(0.00001, 2, 12)
"""10 µs to 20 ms."""
DEVICES = exponential(0.1, 2, 14)
"""0.1 s to 14 min."""
REQUESTS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Of a request to the API server."""


def _counter(name: str, stability: Stability, help: str, *labels: str) -> Description:
    """The next three shorten the tables below: kind first, labels last."""
    return Description(name, "counter", stability, help, labels)


def _gauge(name: str, stability: Stability, help: str, *labels: str) -> Description:
    return Description(name, "gauge", stability, help, labels)


def _histogram(name: str, stability: Stability, bounds: tuple[float, ...], help: str, *labels: str) -> Description:
    return Description(name, "histogram", stability, help, labels, bounds)


ATTEMPTS = (
    _counter(
        "scheduler_schedule_attempts_total",
        "STABLE",
        "Attempts to schedule pods, by how they ended: scheduled, unschedulable or error.",
        "result",
        "profile",
    ),
    _histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "STABLE",
        MILLISECONDS,
        "From the start of an attempt to its end, binding included.",
        "result",
        "profile",
    ),
    _histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        "ALPHA",
        MILLISECONDS,
        "From PreFilter to the choice of a node, or to the end of PostFilter.",
    ),
    _histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "BETA",
        LONG,
        "From the first time a pod was ready to be tried until it was bound.",
        "attempts",
    ),
    _histogram(
        "scheduler_pod_scheduling_attempts", "STABLE", (1, 2, 4, 8, 16), "How many attempts a pod took that was bound."
    ),
    _counter(
        "scheduler_pod_scheduled_after_flush_total",
        "ALPHA",
        "Pods that were bound although no event woke them, but the flush of those parked too long.",
    ),
    _histogram(
        "scheduler_permit_wait_duration_seconds", "BETA", MILLISECONDS, "How long pods waited on Permit.", "result"
    ),
)
"""Attempts: how they end and how long they take."""

QUEUE = (
    _gauge("scheduler_pending_pods", "STABLE", "Pods that wait, by where they do.", "queue"),
    _counter("scheduler_queue_incoming_pods_total", "STABLE", "Pods that came to a queue, by cause.", "queue", "event"),
    _gauge("scheduler_unschedulable_pods", "BETA", "Pods that a plugin rejected.", "plugin", "profile"),
    _gauge("scheduler_inflight_events", "ALPHA", "Events that are kept for attempts under way.", "event"),
    _histogram(
        "scheduler_queueing_hint_execution_duration_seconds",
        "ALPHA",
        CALLS,
        "How long a queueing hint took.",
        "plugin",
        "event",
        "hint",
    ),
)
"""The scheduling queue: what waits where, and which events woke pods."""

PLUGINS = (
    _histogram(
        "scheduler_framework_extension_point_duration_seconds",
        "STABLE",
        TENTHS,
        "How long all plugins of an extension point took together.",
        "extension_point",
        "status",
        "profile",
    ),
    _histogram(
        "scheduler_plugin_execution_duration_seconds",
        "ALPHA",
        CALLS,
        "How long one call of a plugin took, in a tenth of all attempts.",
        "plugin",
        "extension_point",
        "status",
    ),
    Description(
        "scheduler_plugin_evaluation_total",
        "counter",
        "BETA",
        "How often a plugin was evaluated: for a pod at PreFilter and PreScore, for a node at Filter and Score.",
        ("plugin", "extension_point", "profile"),
        shows_zero=True,
    ),
)
"""Extension points as wholes, and sampled calls of single plugins (metered_caller.py)."""

PREEMPTION_ATTEMPTS = _counter("scheduler_preemption_attempts_total", "STABLE", "Attempts to make room by preemption.")

PREEMPTION = (
    PREEMPTION_ATTEMPTS,
    _histogram(
        "scheduler_preemption_victims", "STABLE", exponential(1, 2, 7), "How many pods had to leave for one that came."
    ),
    _histogram(
        "scheduler_preemption_goroutines_duration_seconds",
        "ALPHA",
        LONG,
        "How long it took to start the eviction of victims.",
        "result",
    ),
    _counter("scheduler_preemption_goroutines_execution_total", "ALPHA", "Evictions that were started.", "result"),
)
"""Preemption: victims of each, and how its evictions went."""

STATE = (
    _gauge("scheduler_cache_size", "ALPHA", "Nodes, pods and assumed pods that the scheduler knows.", "type"),
    _gauge("scheduler_goroutines", "BETA", "What is under way beside the scheduling loop.", "operation"),
    _histogram(
        "scheduler_event_handling_duration_seconds", "ALPHA", TENTHS, "How long a change took to be taken in.", "event"
    ),
)
"""Sizes of the cache and work under way, read when metrics are read."""

BATCHES = (
    _counter("scheduler_batch_attempts_total", "ALPHA", "Use of hints of opportunistic batching.", "profile", "result"),
    _counter("scheduler_batch_cache_flushed_total", "ALPHA", "Batches that were given up.", "profile", "reason"),
    _histogram(
        "scheduler_get_node_hint_duration_seconds",
        "ALPHA",
        MICROSECONDS,
        "How long it took to look for a hint.",
        "hinted",
        "profile",
    ),
    _histogram(
        "scheduler_store_schedule_results_duration_seconds",
        "ALPHA",
        MICROSECONDS,
        "How long it took to keep what the next pod of a batch can use.",
        "profile",
    ),
)
"""Opportunistic batching: Mooring keeps answers by shape instead, so nothing is recorded here."""

CLAIM_CREATES = _counter(
    "scheduler_resourceclaim_creates_total", "ALPHA", "Claims that the scheduler created.", "status"
)
DEVICE_ALLOCATIONS = _counter(
    "scheduler_dra_bindingconditions_allocations_total",
    "ALPHA",
    "Allocations of devices that must be ready before a pod is bound.",
    "profile",
    "driver",
    "status",
)
DEVICE_WAITS = _histogram(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "ALPHA",
    DEVICES,
    "How long pods waited for such devices.",
    "profile",
    "driver",
    "status",
)

VOLUMES_AND_DEVICES = (
    _counter("scheduler_volume_binder_cache_requests_total", "ALPHA", "Never counted.", "operation"),
    _counter("scheduler_volume_scheduling_stage_error_total", "ALPHA", "Failures of the volume binder.", "operation"),
    CLAIM_CREATES,
    DEVICE_ALLOCATIONS,
    DEVICE_WAITS,
)
"""What the plugins for volumes and devices record."""

ASYNC_CALLS = (
    _counter("scheduler_async_api_call_execution_total", "ALPHA", "Calls of the API server.", "call_type", "result"),
    _histogram(
        "scheduler_async_api_call_execution_duration_seconds",
        "ALPHA",
        MILLISECONDS,
        "How long calls of the API server took.",
        "call_type",
        "result",
    ),
    _gauge("scheduler_pending_async_api_calls", "ALPHA", "Calls that wait for their turn.", "call_type"),
)
"""Upstream has these only with the gate SchedulerAsyncAPICalls, which is off by default."""

POD_GROUPS = (
    _counter(
        "scheduler_podgroup_schedule_attempts_total", "ALPHA", "Attempts to schedule pod groups.", "result", "profile"
    ),
    _histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "ALPHA",
        MILLISECONDS,
        "How long attempts to schedule pod groups took.",
        "result",
        "profile",
    ),
    _histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "ALPHA",
        MILLISECONDS,
        "How long decisions about pod groups took.",
    ),
)
"""Upstream has these only with the gate GenericWorkload, which is off by default."""

CLIENT = (
    _gauge("leader_election_master_status", "ALPHA", "Whether this instance is the leader.", "name"),
    _counter("rest_client_requests_total", "ALPHA", "Requests to the API server, by answer.", "code", "method", "host"),
    _histogram(
        "rest_client_request_duration_seconds",
        "ALPHA",
        REQUESTS,
        "How long requests to the API server took.",
        "verb",
        "host",
    ),
)
"""Requests to the API server, under client-go's names."""

WATCHES = (
    _counter(
        "mooring_watches_ended_total",
        "ALPHA",
        "Watches that ended, by why: after_events, without_events, silent, expired or failed.",
        "resource",
        "reason",
    ),
    _counter("mooring_watch_gap_seconds_total", "ALPHA", "Seconds in which there was no watch.", "resource"),
)
"""Upstream has no such metrics; the prefix of what only Mooring has is `mooring_`."""

RECORDING = (
    _counter("mooring_recording_steps_total", "ALPHA", "Steps of the scheduler that were recorded."),
    _counter("mooring_recording_bytes_total", "ALPHA", "Bytes that were written to recordings."),
    _counter("mooring_recording_segments_total", "ALPHA", "Files of recordings that were begun."),
    _counter("mooring_recording_lost_steps_total", "ALPHA", "Steps that could not be recorded."),
    _counter("mooring_recording_faults_total", "ALPHA", "Writes to recordings that failed."),
)
"""What --record writes; the counters stay at 0 without it."""

KEPT_ANSWERS = (
    _gauge("mooring_kept_answers_bytes", "ALPHA", "Bytes that kept answers of plugins take."),
    _gauge("mooring_kept_answers_limit_bytes", "ALPHA", "Bytes that kept answers of plugins may take."),
    _gauge("mooring_kept_answers_memos", "ALPHA", "Pod shapes of all profiles for which answers are kept."),
    _counter(
        "mooring_kept_answers_lookups_total", "ALPHA", "Attempts by whether answers were kept: hit, miss.", "result"
    ),
    _counter("mooring_kept_answers_evictions_total", "ALPHA", "Pod shapes whose answers were dropped for the limit."),
)
"""What is kept for pods of the same shape (kept_answers.py); read when metrics are read."""

BUILD_LABELS: Labels = (
    *("major", "minor", "git_version", "git_commit", "git_tree_state"),
    *("build_date", "go_version", "compiler", "platform"),
)

PROCESS = (
    _gauge("kubernetes_build_info", "ALPHA", "What this program is.", *BUILD_LABELS),
    _counter("process_cpu_seconds_total", "ALPHA", "Processor time that this process took."),
    _gauge("process_resident_memory_bytes", "ALPHA", "Memory that this process holds."),
    _gauge("process_start_time_seconds", "ALPHA", "When this process began, in seconds since 1970."),
)
"""The process, under the names of Prometheus' client libraries, which dashboards use."""

HEALTH = (
    _gauge("kubernetes_healthcheck", "STABLE", "Whether a health check passed when it last ran.", "name", "type"),
    _counter("kubernetes_healthchecks_total", "STABLE", "Health checks by outcome.", "name", "type", "status"),
)
"""What /metrics/slis shows."""

_OF_RESOURCE = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
RESOURCES = (
    _gauge("kube_pod_resource_request", "STABLE", "What a pod asks for.", *_OF_RESOURCE),
    _gauge("kube_pod_resource_limit", "STABLE", "What a pod is limited to.", *_OF_RESOURCE),
)
"""What /metrics/resources shows."""

CATALOGUE: tuple[Description, ...] = (
    *(ATTEMPTS + QUEUE + PLUGINS + PREEMPTION + STATE),
    *(BATCHES + VOLUMES_AND_DEVICES + CLIENT + WATCHES + RECORDING + KEPT_ANSWERS + PROCESS),
)
"""All metrics that exist with the feature gates at their defaults."""

BY_GATE = {"SchedulerAsyncAPICalls": ASYNC_CALLS, "GenericWorkload": POD_GROUPS}
"""Gate that is off by default -> the metrics that it adds."""
