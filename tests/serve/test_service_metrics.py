"""The metrics of the process around the scheduler, and the three pages that show metrics."""

from typing import Any

import pytest

from build import a_pod
from mooring.framework import config
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.kit.version import VERSION
from mooring.model.requests import effective_limits
from mooring.scheduler.inputs import ObjectAdded
from mooring.scheduler.observer import SchedulerListeners
from mooring.serve.service_metrics import ServiceMetrics, resource_metrics, unit
from mooring.state.scheduler_assembly import build_scheduler
from prometheus_reading import read

GIBI = 1 << 30


def lines(text: bytes, name: str) -> list[str]:
    return [line for line in text.decode().splitlines() if line.startswith(name)]


def service() -> ServiceMetrics:
    return ServiceMetrics(VirtualClock(1_769_904_000 * NS_PER_S))


def test_what_stands_there_from_the_first_look() -> None:
    shown = service().metrics()
    assert lines(shown, "process_start_time_seconds") == ["process_start_time_seconds 1769904000"]
    assert lines(shown, "kubernetes_build_info")[0].startswith(
        f'kubernetes_build_info{{major="1",minor="37",git_version="v1.37.0+mooring-{VERSION}",'
    )
    assert float(lines(shown, "process_resident_memory_bytes")[0].split()[1]) > 1 << 20
    assert float(lines(shown, "process_cpu_seconds_total")[0].split()[1]) > 0
    assert lines(shown, "scheduler_preemption_attempts_total") == ["scheduler_preemption_attempts_total 0"]
    assert lines(shown, "scheduler_schedule_attempts_total") == []


@pytest.mark.parametrize("has_native", [True, False])
def test_v137_20_5_protobuf_has_what_the_text_has(has_native: bool) -> None:
    metrics = ServiceMetrics(VirtualClock(1_769_904_000 * NS_PER_S), has_native=has_native)
    metrics.answered("200", "GET", "server", 3_000_000)
    text, found = metrics.metrics().decode(), read(metrics.protobuf_metrics())
    named = [line.split() for line in text.splitlines() if line.startswith("# TYPE")]
    kinds = {"counter": 0, "gauge": 1, "histogram": 4}
    assert {name: family.type for name, family in found.items()} == {name: kinds[kind] for _, _, name, kind in named}
    asked = found["rest_client_request_duration_seconds"].metric[0].histogram
    assert (asked.sample_count, asked.HasField("schema"), sum(asked.positive_delta)) == (1, has_native, int(has_native))


@pytest.mark.parametrize(("is_leader", "value"), [(True, 1), (False, 0)], ids=["leads", "does not lead"])
def test_leadership(is_leader: bool, value: int) -> None:
    metrics = service()
    metrics.led(is_leader)
    expected = [f'leader_election_master_status{{name="kube-scheduler"}} {value}']
    assert lines(metrics.metrics(), "leader_election") == expected


def test_requests() -> None:
    metrics = service()
    metrics.answered("201", "POST", "10.0.0.1:6443", NS_PER_S // 10)
    metrics.answered("201", "POST", "10.0.0.1:6443", NS_PER_S // 10)
    shown = metrics.metrics()
    labels = 'code="201",method="POST",host="10.0.0.1:6443"'
    assert lines(shown, "rest_client_requests_total") == [f"rest_client_requests_total{{{labels}}} 2"]
    sums = lines(shown, "rest_client_request_duration_seconds_sum")
    assert sums == ['rest_client_request_duration_seconds_sum{verb="POST",host="10.0.0.1:6443"} 0.2']


def test_health_checks_stand_on_a_page_of_their_own() -> None:
    metrics = service()
    metrics.checked("ping", "livez", True)
    metrics.checked("shutdown", "readyz", True)
    metrics.checked("shutdown", "readyz", False)
    assert lines(metrics.health_metrics(), "kubernetes") == [
        'kubernetes_healthcheck{name="ping",type="livez"} 1',
        'kubernetes_healthcheck{name="shutdown",type="readyz"} 0',
        'kubernetes_healthchecks_total{name="ping",type="livez",status="success"} 1',
        'kubernetes_healthchecks_total{name="shutdown",type="readyz",status="error"} 1',
        'kubernetes_healthchecks_total{name="shutdown",type="readyz",status="success"} 1',
    ]
    assert b"kubernetes_healthcheck" not in metrics.metrics()


def test_the_scheduler_records_to_the_same_page() -> None:
    clock = VirtualClock(1_769_904_000 * NS_PER_S)
    metrics = ServiceMetrics(clock)
    scheduler = build_scheduler(config.default(), clock, listeners=SchedulerListeners(observer=metrics.of_scheduler))
    scheduler.handle(ObjectAdded(a_pod("waits", schedulerName="default-scheduler")))
    assert 'scheduler_pending_pods{queue="active"} 1' in lines(metrics.metrics(), "scheduler_pending_pods")
    assert lines(metrics.resource_metrics(None), "kube") == []
    metrics.reset()
    assert lines(metrics.metrics(), "scheduler_queue_incoming_pods_total") == []


def test_what_pods_ask_for() -> None:
    limited = {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "1500m", "example.com/gpu": "2"}}
    pods = [
        a_pod("a", containers=[{"name": "c", "resources": limited}], nodeName="n1", schedulerName="s", priority=7),
        a_pod("b", cpu="1", schedulerName="s"),
        a_pod("done", cpu="1", nodeName="n1", status={"phase": "Succeeded"}),
    ]
    of_a = 'namespace="default",pod="a",node="n1",scheduler="s",priority="7"'
    of_b = 'namespace="default",pod="b",node="",scheduler="s",priority=""'
    assert lines(resource_metrics(pods), "kube") == [
        f'kube_pod_resource_limit{{{of_a},resource="cpu",unit="cores"}} 1.5',
        f'kube_pod_resource_limit{{{of_a},resource="example.com/gpu",unit=""}} 2',
        f'kube_pod_resource_request{{{of_a},resource="cpu",unit="cores"}} 0.25',
        f'kube_pod_resource_request{{{of_a},resource="memory",unit="bytes"}} {GIBI}',
        f'kube_pod_resource_request{{{of_b},resource="cpu",unit="cores"}} 1',
    ]


def test_overhead_counts_only_where_there_is_a_limit() -> None:
    container: dict[str, Any] = {"name": "c", "resources": {"limits": {"cpu": "1"}}}
    pod = a_pod(containers=[container], overhead={"cpu": "250m", "memory": "1Gi"})
    assert effective_limits(pod) == {"cpu": 1_250_000_000}


UNITS = {
    "cpu": "cores",
    "memory": "bytes",
    "ephemeral-storage": "bytes",
    "hugepages-2Mi": "bytes",
    "attachable-volumes-x": "integer",
    "example.com/gpu": "",
}


@pytest.mark.parametrize(("resource", "expected"), UNITS.items(), ids=UNITS.keys())
def test_units(resource: str, expected: str) -> None:
    assert unit(resource) == expected
