"""`mooring run` and `mooring up` with a configuration that changes while they work, against an API server over HTTP."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from forked_commands import start_mooring
from mooring.state.recording.run_reading import runs_in
from mooring.state.replay.replayer import Replayer
from running_cluster import PATIENCE_S, Process, a_process

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/default/pods"
HEADER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: first
"""


def create(cluster: Process, name: str, scheduler: str) -> None:
    container = {"name": "c", "image": "x"}
    body = {"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": [container]}}
    assert cluster.ask("POST", PODS, body).code == 201


def wait_bound(cluster: Process, name: str) -> None:
    cluster.wait(f"{PODS}/{name}", lambda pod: bool(pod["spec"].get("nodeName")))


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_scheduler_takes_a_new_profile_without_a_restart_and_its_recording_replays(tmp_path: Path) -> None:
    config, log, recording = tmp_path / "config.yaml", tmp_path / "log", tmp_path / "recording"
    config.write_text(HEADER)
    with a_process("--plain-http", "--no-scheduler", "--nodes", "2") as cluster, log.open("wb") as output:
        words = ("--config", str(config), f"--master={cluster.server}", "--record", str(recording))
        scheduler = start_mooring("run", "--secure-port=0", *words, stdout=output, stderr=output)
        try:
            create(cluster, "a", "first")
            create(cluster, "b", "second")
            wait_bound(cluster, "a")
            config.write_text(f"{HEADER}- schedulerName: [\n")
            scheduler.send_signal(signal.SIGHUP)
            until(lambda: "Configuration cannot be used" in log.read_text())
            config.write_text(f"{HEADER}- schedulerName: second\n")  # no signal: the file is read again
            wait_bound(cluster, "b")
            create(cluster, "c", "first")
            wait_bound(cluster, "c")
        finally:
            scheduler.terminate()
            assert scheduler.wait(PATIENCE_S) == 0, log.read_text()
    assert 'change="profile second is added"' in log.read_text()
    assert f'problem="{config}: yaml: line 6: did not find expected node content"' in log.read_text()
    (run,) = runs_in(recording)
    replayer = Replayer(run)
    steps = list(replayer.steps())
    binds = [outcome[1] for step in steps for outcome in step.outcomes if outcome[0] == "bind"]
    assert binds == ["default/a", "default/b", "default/c"]
    assert (replayer.problems, [step for step in steps if not step.is_equal]) == ([], [])


def test_the_scheduler_of_a_cluster_takes_another_configuration_on_sighup(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEADER)
    with a_process("--plain-http", "--config", str(config)) as cluster:
        create(cluster, "b", "second")
        config.write_text(f"{HEADER}- schedulerName: second\n")
        assert cluster.popen is not None
        cluster.popen.send_signal(signal.SIGHUP)
        wait_bound(cluster, "b")
        assert f"{config}: profile second is added" in cluster.log.read_text().splitlines()
        assert cluster.stop() == 0
