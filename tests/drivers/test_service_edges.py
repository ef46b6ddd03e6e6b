"""The parts of a live scheduler: its connections and listener, and what the metrics of its process read."""

import logging
import platform
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from build import a_node, a_pod
from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.lean_client import LeanClient
from mooring.drivers import live_service as service
from mooring.drivers.dry_run import DryRun
from mooring.drivers.live_service import ClientLimits, LiveOptions, LiveScheduler
from mooring.framework import config
from mooring.framework.profile.metric_catalogue import CATALOGUE
from mooring.kit.clock import NS_PER_S, SteadyClock, VirtualClock
from mooring.kit.metrics import MetricRegistry
from mooring.model.release import GIT_VERSION
from mooring.model.requests import effective_limits
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.serve.service_metrics import (
    ServiceMetrics,
    read_recording,
    resident_bytes,
    resource_metrics,
    unit,
)
from mooring.state.recording.run_files import RecordingFigures
from mooring.state.scheduler_assembly import build_scheduler

# ---- a live scheduler


def a_live(**more: Any) -> LiveScheduler:
    return LiveScheduler(build_scheduler(config.default(), SteadyClock()), ConnectionSettings("http://x"), **more)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The settings of each client for writes that is made."""
    made: list[dict[str, Any]] = []

    def noted(access: ConnectionSettings, user_agent: str, **options: Any) -> LeanClient:
        made.append({"user_agent": user_agent, **options})
        return LeanClient(access, user_agent, **options)

    monkeypatch.setattr(service, "LeanClient", noted)
    return made


def test_each_purpose_has_its_connections(settings: list[dict[str, Any]]) -> None:
    live = a_live()
    watcher, *clients = live.clients
    assert [type(client) for client in clients] == [LeanClient] * 4
    assert [each["connections"] for each in settings] == [64, 16, 16, 8]
    shared = {(each["time_limit_s"], each["qps"], each["user_agent"]) for each in settings}
    assert shared == {(30.0, -1.0, "kube-scheduler/v1.37.0 (mooring)/scheduler")}
    assert isinstance(watcher, ApiClient) and live.checks is None and live.dry_run is None


def test_limits_reach_the_clients(settings: list[dict[str, Any]]) -> None:
    limits = ClientLimits(qps=5.0, burst=7, time_limit_s=3.0)
    a_live(limits=limits)
    assert {(each["qps"], each["burst"], each["time_limit_s"]) for each in settings} == {(5.0, 7, 3.0)}
    live = a_live(limits=limits, options=LiveOptions(is_dry_run=True))
    assert isinstance(live.dry_run, DryRun) and live.driver.report == live.dry_run.report
    assert (ClientLimits().qps, ClientLimits().burst, ClientLimits().time_limit_s) == (-1.0, 100, 30.0)


def test_changes_go_to_the_scheduler_and_wake_the_driver() -> None:
    notes: list[Any] = []
    live = a_live()
    live.scheduler.handle = notes.append  # type: ignore[method-assign, assignment]
    live.driver.wake = lambda: notes.append("wake")  # type: ignore[method-assign]
    old, new = a_node("a"), a_node("b")
    live.take_change(None, old)
    live.take_change(old, new)
    live.take_change(new, None)
    assert notes == [ObjectAdded(old), "wake", ObjectUpdated(old, new), "wake", ObjectRemoved(new), "wake"]


def test_reports_of_reflectors_are_logged_with_their_fault(caplog: pytest.LogCaptureFixture) -> None:
    report = LiveOptions().reflectors.report
    report("pods: the watch ended", ValueError("odd"))
    report("pods: the watch ended", None)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "pods: the watch ended: odd"),
        (logging.WARNING, "pods: the watch ended"),
    ]


# ---- the metrics of the process


def shown(registry: MetricRegistry, name: str) -> list[str]:
    return [line for line in registry.text().splitlines() if line.startswith(name)]


def test_the_build_has_python_where_upstream_has_go() -> None:
    metrics = ServiceMetrics(VirtualClock(5 * NS_PER_S))
    system = f"{platform.system().lower()}/{platform.machine()}"
    values = ("1", "37", GIT_VERSION, "", "", "", platform.python_version(), platform.python_implementation(), system)
    (line,) = shown(metrics.registry, "kubernetes_build_info")
    labels = line.partition("{")[2].partition("}")[0].split(",")
    assert tuple(label.partition("=")[2].strip('"') for label in labels) == values and line.endswith(" 1")
    assert shown(metrics.registry, "process_start_time_seconds") == ["process_start_time_seconds 5"]


def test_resident_memory_is_read_in_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "statm").write_text("900 7 3 1 0 5 0\n")
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096}[name])
    assert resident_bytes(tmp_path / "statm") == 7 * 4096


@pytest.mark.parametrize(("system", "expected"), [("darwin", 500), ("linux", 512_000)])
def test_without_proc_it_is_the_peak(
    system: str, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = {resource.RUSAGE_SELF: SimpleNamespace(ru_maxrss=500)}
    monkeypatch.setattr("mooring.serve.service_metrics.resource.getrusage", usage.__getitem__)
    monkeypatch.setattr("mooring.serve.service_metrics.sys.platform", system)
    assert resident_bytes(tmp_path / "statm") == expected


def test_what_was_recorded_is_read_at_each_look() -> None:
    registry, figures = MetricRegistry(CATALOGUE), RecordingFigures()
    read_recording(figures, registry)
    figures.steps, figures.bytes, figures.segments, figures.lost_steps, figures.faults = 1, 2, 3, 4, 5
    assert sorted(shown(registry, "mooring_recording_")) == [
        "mooring_recording_bytes_total 2",
        "mooring_recording_faults_total 5",
        "mooring_recording_lost_steps_total 4",
        "mooring_recording_segments_total 3",
        "mooring_recording_steps_total 1",
    ]


def test_requests_of_the_leader_are_shown() -> None:
    scheduler = build_scheduler(config.default(), VirtualClock(0))
    scheduler.handle(ObjectAdded(a_pod("p", cpu="1", schedulerName="default-scheduler")))
    assert ServiceMetrics(VirtualClock(0)).resource_metrics(scheduler) == resource_metrics(scheduler.pods.values())
    assert b'pod="p"' in resource_metrics(scheduler.pods.values())


def test_limits_of_init_containers_and_of_the_pod_count() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "9"}, "limits": {"cpu": "1"}}}
    larger = {"name": "i", "resources": {"limits": {"cpu": "3"}}}
    assert effective_limits(a_pod(containers=[container])) == {"cpu": 1_000_000_000}
    assert effective_limits(a_pod(containers=[container], initContainers=[larger])) == {"cpu": 3_000_000_000}
    assert effective_limits(a_pod(containers=[{"name": "c"}], overhead={"cpu": "1"})) == {}


def test_more_units() -> None:
    assert [unit(name) for name in ("storage", "pods", "hugepages-1Gi")] == ["bytes", "", "bytes"]
