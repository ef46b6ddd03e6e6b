"""`mooring record`: what an observer writes is what happened in the cluster, and it never writes to it."""

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

import pytest
from command import mooring

from fault_proxy import CALM, FaultProxy, Faults
from forked_commands import Started, start_mooring
from mooring.answers.recorded.agree import agree
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.app import record as record_app
from mooring.app.record import ObserverSettings, Observing
from mooring.app.up import ServiceSettings
from mooring.framework import config as configuration
from mooring.inputs.live_source import READER_ROLE
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.state.recording.recorder import ObserverRecorder
from mooring.state.recording.run_files import RecordingLimits, segments_in
from mooring.state.recording.run_reading import RecordedRun, runs_in
from mooring.state.recording.segment_file import RecordingError, SegmentReader
from mooring.state.replay.run_reader import ClusterReader, ClusterStep
from running_cluster import PATIENCE_S, Client, Neighbour, a_neighbour

PODS = "/api/v1/namespaces/default/pods"
SECRET = "hunter2-correct-horse"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Neighbour]:
    settings = ServiceSettings(is_plain=True, kubeconfig=tmp_path / "kubeconfig")
    with a_neighbour(4, settings=settings) as neighbour:
        yield neighbour


def create_pod(cluster: Client, name: str, **container: Any) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"example.com/password": SECRET}},
        "spec": {"containers": [{"name": "main", "image": "img", **container}]},
    }
    assert cluster.ask("POST", PODS, pod).code == 201


def create_pods(cluster: Client, names: list[str]) -> None:
    for name in names:
        create_pod(cluster, name)


def recorded_pods(run: RecordedRun) -> dict[str, str]:
    """Pods and their nodes at the end of a recording, from its steps alone."""
    pods: dict[str, str] = {}
    for step in ClusterReader(run):
        change = step.step.input if isinstance(step, ClusterStep) else None
        match change:
            case ObjectAdded(Pod() as pod) | ObjectUpdated(_, Pod() as pod):
                pods[pod.name] = pod.spec.node_name
            case ObjectRemoved(Pod() as pod):
                del pods[pod.name]
    return pods


def present_pods(cluster: Client) -> dict[str, str]:
    items = cluster.ask("GET", PODS).body["items"]
    return {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in items}


async def observe(
    server: str,
    directory: Path,
    cluster: Client,
    names: list[str],
    limits: RecordingLimits | None = None,
    on_making: Callable[[bool], None] = lambda begins: None,
) -> ObserverRecorder | None:
    """Record until all of these pods, which a thread creates one after the other, were seen on a node."""
    settings = ObserverSettings(
        ConnectionSettings(server), directory, configuration.default(), limits=limits or RecordingLimits()
    )
    observing = Observing(settings, lambda text, fault: None)
    making = threading.Thread(target=create_pods, args=(cluster, names))
    pods = next(m for m in observing.reflectors.members if m.spec.plural == "pods")

    def turn(recorder: ObserverRecorder) -> None:
        if making.ident is None:
            on_making(True)
            making.start()
        elif not making.is_alive():
            on_making(False)
        on_nodes = {item.name for item in pods.objects.values() if isinstance(item, Pod) and item.spec.node_name}
        if on_nodes >= set(names):
            observing.stop()

    found = await asyncio.wait_for(observing.run(turn), PATIENCE_S)
    making.join(PATIENCE_S)
    return found


def test_a_recording_has_what_happened_and_mooring_agrees_with_itself(cluster: Neighbour, tmp_path: Path) -> None:
    create_pod(cluster, "before")
    cluster.wait(f"{PODS}/before", lambda pod: bool(pod["spec"].get("nodeName")))
    names = [f"p{i}" for i in range(12)]
    recorder = asyncio.run(observe(cluster.server, tmp_path / "rec", cluster, names))
    assert recorder is not None and recorder.bindings == 12 and recorder.figures.lost_steps == 0
    (run,) = runs_in(tmp_path / "rec")
    assert (run.header.source, run.header.begins) == ("observer", "objects")
    assert run.header.server == cluster.ask("GET", "/version").body["gitVersion"]
    assert recorded_pods(run) == present_pods(cluster)
    answer = agree(tmp_path / "rec")
    assert answer.agrees and len(answer.bindings) == 12, "the one before was bound already"


def test_secrets_are_never_recorded(cluster: Neighbour, tmp_path: Path) -> None:
    create_pod(cluster, "secretive", env=[{"name": "P", "value": SECRET}], command=["x", SECRET], args=[SECRET])
    assert cluster.ask("POST", "/api/v1/namespaces/default/secrets", _a_secret()).code == 201
    asyncio.run(observe(cluster.server, tmp_path / "rec", cluster, ["p0"]))
    for path in segments_in(tmp_path / "rec"):
        text = path.read_bytes() + b"".join(SegmentReader(path).blocks())
        assert b"secretive" in text and SECRET.encode() not in text


def _a_secret() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": SECRET}}


def test_an_observer_only_reads_and_loses_nothing_when_watches_break(cluster: Neighbour, tmp_path: Path) -> None:
    names = [f"p{i}" for i in range(30)]
    faults = Faults(cut=0.15, expired=0.1, twice=0.05, disordered=0.05)

    async def through_proxy() -> FaultProxy:
        async with FaultProxy(cluster.server, CALM, seed=5) as proxy:
            proxy.writes = []

            def worsen(begins: bool) -> None:
                proxy.faults = faults if begins else CALM

            await observe(proxy.url, tmp_path / "rec", cluster, names, on_making=worsen)
            return proxy

    proxy = asyncio.run(through_proxy())
    assert proxy.injected["cut"] > 0 and proxy.writes == []
    (run,) = runs_in(tmp_path / "rec")
    assert recorded_pods(run) == present_pods(cluster)
    assert len(agree(tmp_path / "rec").bindings) == 30


def test_new_files_begin_at_intervals_and_old_ones_go(cluster: Neighbour, tmp_path: Path) -> None:
    """With a limit of one byte only the present file stays; it says all that is needed."""
    limits = RecordingLimits(interval_s=0.1, total_bytes=1)
    asyncio.run(observe(cluster.server, tmp_path / "rec", cluster, [f"p{i}" for i in range(8)], limits))
    (run,) = runs_in(tmp_path / "rec")
    (segment,) = run.segments
    assert segment.header.number > 1 and segment.header.known > 8
    assert recorded_pods(run) == present_pods(cluster)


@contextmanager
def a_recording(cluster: Neighbour, directory: Path) -> Iterator[tuple[Started, IO[str]]]:
    """`mooring record` in a process, and what it tells."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as told:
        with os.fdopen(writing, "w") as stderr:
            words = ("record", directory, "--kubeconfig", cluster.kubeconfig)
            process = start_mooring(*words, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            yield process, told
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_recording_of_a_process_that_was_killed_can_be_read(cluster: Neighbour, tmp_path: Path) -> None:
    directory = tmp_path / "rec"
    with a_recording(cluster, directory) as (process, told):
        assert told.readline().startswith(f"recording {cluster.server} in {directory}/")
        for i in range(20):
            create_pod(cluster, f"p{i}")
        _wait_until_read(directory, 15)
        process.kill()
    answer = agree(directory)
    assert answer.agrees and 15 <= len(answer.bindings) <= 20 and answer.problems == []


def _wait_until_read(directory: Path, bindings: int) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while len(agree(directory).bindings) < bindings:
        assert time.monotonic() < ends_s, "the bindings are never written"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_recording(cluster: Neighbour, tmp_path: Path, number: signal.Signals) -> None:
    with a_recording(cluster, tmp_path / "rec") as (process, told):
        told.readline()
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == 0
        last = told.read().splitlines()[-1]
    (run,) = runs_in(tmp_path / "rec")
    assert last.startswith(f"{tmp_path}/rec/{run.name}: 0 steps, 0 bindings, ")


# ---- the command


def test_the_time_and_the_configuration_are_as_given(cluster: Neighbour, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(json.dumps({**header, "percentageOfNodesToScore": 30}))
    directory = tmp_path / "rec"
    ran = mooring("record", directory, "--kubeconfig", cluster.kubeconfig, "--config", config, "--for", "600ms")
    assert (ran.code, ran.out) == (0, "")
    (run,) = runs_in(directory)
    assert run.header.settings["configuration"]["percentageOfNodesToScore"] == 30
    first, last = ran.complaints
    assert first.startswith(f"recording {cluster.server} in {directory}/{run.name}: ")
    assert last.startswith(f"{directory}/{run.name}: 0 steps, 0 bindings, ")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--for", "0s"], "--for must be longer than 0s"),
        (["--interval", "0s"], "--interval must be longer than 0s"),
        (["--max-age", "0s"], "--max-age must be longer than 0s"),
        (["--max-size", "0"], "--max-size must be more than 0"),
        (["--kubeconfig", "/nowhere"], "/nowhere: there is no such file"),
        (["--config", "/nowhere"], "/nowhere: cannot be read: No such file or directory"),
    ],
)
def test_bad_options_are_refused_in_one_line(tmp_path: Path, options: list[str], complaint: str) -> None:
    ran = mooring("record", tmp_path / "rec", *options)
    assert ran.code == 2 and len(ran.complaints) == 1 and complaint in ran.err
    assert not (tmp_path / "rec").exists()


def test_a_folder_that_cannot_be_written_is_refused(cluster: Neighbour, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = mooring("record", tmp_path / "file" / "rec", "--kubeconfig", cluster.kubeconfig, "--for", "1s")
    assert (ran.code, ran.complaints) == (2, [f"{tmp_path}/file/rec: cannot be written: Not a directory"])


@contextmanager
def a_server(code: int) -> Iterator[str]:
    """A server that answers everything with a Status of this code."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(
                {"kind": "Status", "apiVersion": "v1", "code": code, "message": "no, you may not"}
            ).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def a_kubeconfig(path: Path, server: str) -> Path:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "k", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            }
        )
    )
    return path


def test_who_may_not_watch_is_told_which_role_allows_it(tmp_path: Path) -> None:
    with a_server(403) as server:
        kubeconfig = a_kubeconfig(tmp_path / "kubeconfig", server)
        ran = mooring("record", tmp_path / "rec", "--kubeconfig", kubeconfig)
    assert ran.code == 2
    assert ran.complaints[-1] == (
        f"{server}: you may not watch nodes: no, you may not (403); "
        f"the ClusterRole mooring-observer in {READER_ROLE} allows what is needed"
    )


def test_a_server_that_does_not_answer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_app, "ANSWER_S", 0.1)
    kubeconfig = a_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    ran = mooring("record", tmp_path / "rec", "--kubeconfig", kubeconfig)
    assert ran.code == 2
    assert ran.complaints[-1].startswith("http://127.0.0.1:1: nodes, pods, ")
    assert "could not be listed within" in ran.complaints[-1]


def test_there_is_nothing_to_agree_with_where_there_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="there is no recording in this directory"):
        agree(tmp_path)
