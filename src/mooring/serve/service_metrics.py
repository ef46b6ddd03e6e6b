"""All metrics of a running scheduler: what its core records, and what only the process around it knows.

`ServiceMetrics` owns the registries behind /metrics, /metrics/resources and /metrics/slis. Values that can be read at any
time (watches, the process) are read when Prometheus scrapes, so they cost nothing in between.
"""

import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from mooring.apiclient.reflectors.reflector import Reflector
from mooring.framework.profile.metric_catalogue import CATALOGUE, HEALTH, RESOURCES
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.metrics import Counter, Histogram, MetricRegistry
from mooring.kit.metrics_protobuf import exposition
from mooring.model.pod import Pod
from mooring.model.quantity import to_int, to_milli
from mooring.model.release import GIT_VERSION, KUBERNETES_VERSION
from mooring.model.requests import FILTER, Amounts, effective_limits, effective_requests
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.recording.run_files import RecordingFigures

LEASE = "kube-scheduler"
"""The name of the lease and of the informers: upstream uses the name of the component."""


class ServiceMetrics:
    """`of_scheduler` is the observer of the core; the process calls `led`, `answered` and `checked`."""

    def __init__(self, clock: Clock, *, has_native: bool = True) -> None:
        """`has_native` is the feature gate NativeHistograms."""
        self.registry = MetricRegistry(CATALOGUE, has_native=has_native)
        self.of_scheduler = SchedulerMetrics(clock, self.registry)
        self._health = MetricRegistry(HEALTH)
        self._leads = self.registry.gauge("leader_election_master_status")
        self._requests = self.registry.counter("rest_client_requests_total")
        self._request_durations = self.registry.histogram("rest_client_request_duration_seconds")
        self._answers: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        read_process(self.registry, clock.now_ns())

    # ---- what happens

    def led(self, is_leader: bool) -> None:
        """This instance became the leader, or is not the leader. Call it at the start as well, so that the metric exists."""
        self._leads.series(LEASE).set(int(is_leader))

    def answered(self, code: str, method: str, host: str, taken_ns: int) -> None:
        """A request to the API server is over, with an HTTP status or `<error>` if there was no answer."""
        key = code, method, host
        series = self._answers.get(key)
        if series is None:
            series = self._answers[key] = self._requests.series(*key), self._request_durations.series(method, host)
        count, durations = series
        count.add()
        durations.observe_ns(taken_ns)

    def checked(self, name: str, page: str, passed: bool) -> None:
        """A health check ran, on this page (`readyz`)."""
        self._health.gauge("kubernetes_healthcheck").series(name, page).set(int(passed))
        status = "success" if passed else "error"
        self._health.counter("kubernetes_healthchecks_total").series(name, page, status).add()

    # ---- what is shown

    def metrics(self) -> bytes:
        return self.registry.text().encode()

    def protobuf_metrics(self) -> bytes:
        return exposition(self.registry)

    def resource_metrics(self, scheduler: Scheduler | None) -> bytes:
        """Empty for None, which means that this instance does not lead: two instances would count every pod twice."""
        return b"" if scheduler is None else resource_metrics(scheduler.pods.values())

    def health_metrics(self) -> bytes:
        return self._health.text().encode()

    def reset(self) -> None:
        """DELETE /metrics: all counters and histograms start at zero."""
        self.registry.clear()


# ---- watches: how they ended, and for how long there was none


def read_watches(reflectors: Sequence[Reflector], registry: MetricRegistry) -> None:
    """Let the registry read these reflectors at each scrape."""
    records = {reflector.spec.resource: reflector.record for reflector in reflectors}

    def forget() -> None:
        for record in records.values():
            record.clear()

    registry.counter("mooring_watches_ended_total").read_from(
        lambda: [((name, end.value), count) for name, record in records.items() for end, count in record.ends.items()],
        forget,
    )
    registry.counter("mooring_watch_gap_seconds_total").read_from(
        lambda: [((name,), record.gap_s()) for name, record in records.items()]
    )
    labels = {
        reflector: (LEASE, reflector.spec.group, reflector.spec.version, reflector.spec.plural)
        for reflector in reflectors
    }
    latencies = registry.histogram("informer_processing_latency_seconds")
    for reflector, named in labels.items():
        reflector.observe_ns = latencies.series(*named).observe_ns
    registry.gauge("informer_queued_items").read_from(
        lambda: [(named, reflector.queued) for reflector, named in labels.items()]
    )
    registry.gauge("informer_store_resource_version").read_from(
        lambda: [(named, _last_digits(reflector.version)) for reflector, named in labels.items()]
    )


def _last_digits(version: str) -> int:
    """The last 15 digits of a resource version, which a float holds exactly; 0 for a version that is no number."""
    digits = version[-15:]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


# ---- the recording


def read_recording(figures: RecordingFigures, registry: MetricRegistry) -> None:
    """Let the registry read what was recorded at each scrape."""

    def read(name: str) -> Callable[[], list[tuple[tuple[str, ...], float]]]:
        return lambda: [((), getattr(figures, name))]

    for name in ("steps", "bytes", "segments", "lost_steps", "faults"):
        registry.counter(f"mooring_recording_{name}_total").read_from(read(name))


# ---- the process: CPU time, memory, start time, build


_STATM = Path("/proc/self/statm")


def read_process(registry: MetricRegistry, began_ns: int) -> None:
    """Let the registry read these values at each scrape."""
    build, began_s = _build(), began_ns / NS_PER_S
    registry.gauge("kubernetes_build_info").read_from(lambda: [(build, 1)])
    registry.counter("process_cpu_seconds_total").read_from(lambda: [((), time.process_time())])
    registry.gauge("process_resident_memory_bytes").read_from(lambda: [((), resident_bytes())])
    registry.gauge("process_start_time_seconds").read_from(lambda: [((), began_s)])


def resident_bytes(statm: Path = _STATM) -> int:
    """Resident memory; the peak where /proc is missing (macOS counts it in bytes, other systems in KiB)."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _build() -> tuple[str, ...]:
    """Values in the order of the labels in metric_catalogue, with Python in the fields for Go and its compiler."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    system = f"{platform.system().lower()}/{platform.machine()}"
    language = platform.python_version()
    return major, minor, GIT_VERSION, "", "", "", language, platform.python_implementation(), system


# ---- /metrics/resources: requests and limits of every pod


_BYTES = frozenset(("memory", "storage", "ephemeral-storage"))


def resource_metrics(pods: Iterable[Pod]) -> bytes:
    """The text for Prometheus. Finished pods are left out, as upstream does: they use nothing."""
    registry = MetricRegistry(RESOURCES)
    requests, limits = registry.gauge("kube_pod_resource_request"), registry.gauge("kube_pod_resource_limit")
    for pod in pods:
        if pod.is_finished:
            continue
        for family, amounts in ((requests, effective_requests(pod, FILTER)), (limits, effective_limits(pod))):
            for labels, value in _series(pod, amounts):
                family.series(*labels).set(value)
    return registry.text().encode()


def _series(pod: Pod, amounts: Amounts) -> Iterator[tuple[tuple[str, ...], float]]:
    """Labels and value of each resource that the pod has; cpu in cores, others in whole units."""
    spec = pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    of_pod = (pod.namespace, pod.name, spec.node_name, spec.scheduler_name, priority)
    for name, nano in amounts.items():
        if nano:
            value = to_milli(nano) / 1000 if name == "cpu" else to_int(nano)
            yield (*of_pod, name, unit(name)), value


def unit(resource: str) -> str:
    """The unit label of a resource; empty for extended resources, whose unit is not known."""
    if resource == "cpu":
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
