"""Traces of real processes: `mooring run` on an API server, `mooring up`, and what is wrong with their settings."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forked_commands import start_mooring
from otlp_receiver import ReceivedSpan, a_receiver
from recording_server import nowhere
from running_cluster import PATIENCE_S, Process, a_process

PODS = "/api/v1/namespaces/default/pods"


def a_pod(name: str, cpu: str = "100m") -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def create(cluster: Process, *pods: dict[str, Any]) -> None:
    for pod in pods:
        assert cluster.ask("POST", PODS, pod).code == 201


@contextmanager
def a_run(cluster: Process, *flags: str, **variables: str) -> Iterator[Callable[[], tuple[int, str]]]:
    """`mooring run`. What is yielded stops it, and returns the exit status and what was logged."""
    arguments = ("run", "--kubeconfig", cluster.kubeconfig, "--secure-port=0", "--leader-elect=false", *flags)
    environment = {**os.environ, **variables}
    with tempfile.TemporaryFile("w+") as log:
        running = start_mooring(*arguments, stdout=log, stderr=log, environment=environment)

        def stop() -> tuple[int, str]:
            running.terminate()
            status = running.wait(PATIENCE_S)
            log.seek(0)
            return status, log.read()

        try:
            yield stop
        finally:
            running.kill()
            running.wait(PATIENCE_S)


def spans_of(spans: list[ReceivedSpan], pod: str) -> dict[str, ReceivedSpan]:
    """By name: the spans of the first attempt of a pod."""
    roots = [span for span in spans if span.attributes.get("k8s.pod.name") == pod]
    return {span.name: span for span in spans if roots and span.trace_id == roots[0].trace_id}


@pytest.mark.slow
def test_mooring_run_traces_attempts_binds_and_statuses() -> None:
    with a_receiver() as receiver, a_process("--no-scheduler", "--nodes", "3") as cluster:
        variables = {
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_SERVICE_NAME": "scheduler-under-test",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        with a_run(cluster, "--trace-plugins-over=0s", **variables) as stop:
            create(cluster, *(a_pod(f"p{i}") for i in range(20)), a_pod("giant", cpu="500"))
            for i in range(20):
                cluster.wait(f"{PODS}/p{i}", lambda pod: bool(pod["spec"].get("nodeName")))
            cluster.wait(f"{PODS}/giant", lambda pod: bool(pod["status"].get("conditions")))
            code, log = stop()
        assert (code, "Tracing" in log) == (0, False), log
        spans = receiver.spans
        assert {span.resource["service.name"] for span in spans} == {"scheduler-under-test"}
        for i in range(20):
            found = spans_of(spans, f"p{i}")
            root, bind, post = found["Scheduling"], found["Bind"], found["POST pods/binding"]
            assert root.attributes["scheduler.result"] == "scheduled" and root.attributes["k8s.node.name"]
            assert (bind.parent_id, post.parent_id) == (root.span_id, bind.span_id)
            assert post.attributes["url.path"] == f"{PODS}/p{i}/binding"
            assert root.began_ns <= bind.began_ns <= post.began_ns <= post.ended_ns <= bind.ended_ns <= root.ended_ns
            assert "NodeResourcesFit" in found, "with a threshold of 0 all plugins that are called have spans"
        giant = spans_of(spans, "giant")
        assert giant["Scheduling"].attributes["scheduler.result"] == "unschedulable"
        assert giant["PATCH pods/status"].parent_id == giant["Scheduling"].span_id
        known = {span.span_id for span in spans}
        assert [span.name for span in spans if span.parent_id and span.parent_id not in known] == []


@pytest.mark.slow
def test_mooring_run_with_a_collector_that_is_not_there() -> None:
    with a_process("--no-scheduler", "--nodes", "3") as cluster:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": nowhere(), "OTEL_BSP_SCHEDULE_DELAY": "20"}
        with a_run(cluster, **variables) as stop:
            create(cluster, *(a_pod(f"p{i}") for i in range(30)))
            for i in range(30):
                cluster.wait(f"{PODS}/p{i}", lambda pod: bool(pod["spec"].get("nodeName")))
            code, log = stop()
        assert code == 0
        assert sum("Tracing: " in line for line in log.splitlines()) == 1, log
        assert "Traceback" not in log


@pytest.mark.slow
def test_mooring_up_traces_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        with a_process("--nodes", "3") as cluster:
            create(cluster, a_pod("p"), a_pod("giant", cpu="500"))
            cluster.wait(f"{PODS}/p", lambda pod: bool(pod["spec"].get("nodeName")))
            cluster.wait(f"{PODS}/giant", lambda pod: bool(pod["status"].get("conditions")))
            assert cluster.stop() == 0
        bound, giant = spans_of(receiver.spans, "p"), spans_of(receiver.spans, "giant")
        assert bound["POST pods/binding"].parent_id == bound["Bind"].span_id
        assert giant["PATCH pods/status"].parent_id == giant["Scheduling"].span_id


# ---- refusals


def refused(*arguments: str, before: str = "", **variables: str) -> tuple[int, str]:
    """Exit status and standard error of a command that does not start."""
    program = f"{before}\nfrom mooring.cli.main import main\nmain()"
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, **variables},
    )
    return ran.returncode, ran.stderr


RUN = ("run", "--master", "http://127.0.0.1:9", "--secure-port=0")
UP = ("up", "-q", "--exec", "true")
WITHOUT = "import sys; sys.modules['opentelemetry'] = None"
NEEDED = "turns tracing on, which needs the OpenTelemetry SDK: pip install 'mooring[tracing]'\n"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [RUN, UP], ids=["run", "up"])
def test_a_missing_package_is_one_line(arguments: tuple[str, ...], tmp_path: Path) -> None:
    by_variable = refused(*arguments, before=WITHOUT, OTEL_TRACES_EXPORTER="otlp")
    assert by_variable == (2, f"OTEL_TRACES_EXPORTER {NEEDED}")
    file = tmp_path / "config.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(json.dumps({**head, "tracing": {"samplingRatePerMillion": 1}}))
    assert refused(*arguments, "--config", str(file), before=WITHOUT) == (2, f"the tracing section {NEEDED}")


@pytest.mark.slow
def test_a_wrong_variable_is_one_line() -> None:
    assert refused(*UP, OTEL_TRACES_EXPORTER="oltp") == (
        2,
        "OTEL_TRACES_EXPORTER=oltp is not supported; there are: otlp, console, none; did you mean otlp?\n",
    )


@pytest.mark.slow
def test_without_the_package_everything_else_works() -> None:
    assert refused(*UP, before=WITHOUT) == (0, "")
