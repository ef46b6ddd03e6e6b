"""The metrics of a running scheduler: what its core records, and what only the process around it knows."""

from mooring.framework.metric_catalogue import CATALOGUE, HEALTH
from mooring.kit.clock import Clock
from mooring.kit.metrics import Counter, Histogram, MetricRegistry
from mooring.live.process_readings import read_process
from mooring.live.resource_metrics import resource_metrics
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.scheduler import Scheduler

LEASE = "kube-scheduler"


class ServiceMetrics:
    """`of_scheduler` observes the scheduler; call the other methods for what happens around it. The last four are shown."""

    def __init__(self, clock: Clock) -> None:
        self.registry = MetricRegistry(CATALOGUE)
        self.of_scheduler = SchedulerMetrics(clock, self.registry)
        self._health = MetricRegistry(HEALTH)
        self._leads = self.registry.gauge("leader_election_master_status")
        self._requests = self.registry.counter("rest_client_requests_total")
        self._request_durations = self.registry.histogram("rest_client_request_duration_seconds")
        self._answers: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        read_process(self.registry, clock.now_ns())

    # ---- what happens

    def led(self, is_leader: bool) -> None:
        """This instance became the leader, or is a candidate no longer in office. To be told at the start as well."""
        self._leads.series(LEASE).set(int(is_leader))

    def answered(self, code: str, method: str, host: str, taken_ns: int) -> None:
        """A request to the API server is over: with this HTTP status, or `<error>` where there was no answer."""
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

    def resource_metrics(self, scheduler: Scheduler | None) -> bytes:
        """What pods ask for; None: this instance does not lead, so it has nothing to say."""
        return b"" if scheduler is None else resource_metrics(scheduler.pods.values())

    def health_metrics(self) -> bytes:
        return self._health.text().encode()

    def reset(self) -> None:
        """Start everything anew that counts or measures."""
        self.registry.clear()
