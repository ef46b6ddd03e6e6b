"""SIGHUP and terminals that close: commands that run until they are stopped end in an orderly way, or go on under nohup."""

import fcntl
import os
import pty
import signal
import subprocess
import termios
import time
from pathlib import Path

import pytest
import yaml

from running_cluster import PATIENCE_S, a_process, command

pytestmark = pytest.mark.slow


def contexts(path: Path) -> list[str]:
    found = yaml.safe_load(path.read_text()) if path.exists() else {}
    return [each["name"] for each in found.get("contexts") or ()]


def test_a_cluster_that_gets_sighup_removes_its_context_and_says_so(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    with a_process("--kubeconfig", str(kubeconfig)) as cluster:
        assert cluster.popen is not None
        assert contexts(kubeconfig)
        cluster.popen.send_signal(signal.SIGHUP)
        assert cluster.popen.wait(PATIENCE_S) == 0
        assert cluster.log.read_text().splitlines()[-2:] == ["received SIGHUP: stopping", "stopped"]
    assert not contexts(kubeconfig)


@pytest.mark.parametrize("last", [b"Try, in another terminal", b"Ctrl-C stops"], ids=["before the view", "in the view"])
def test_a_cluster_whose_terminal_closes_removes_its_context(last: bytes, tmp_path: Path) -> None:
    """The live view is on that terminal: after it has closed, each write to it fails."""
    kubeconfig = tmp_path / "config"
    config = tmp_path / "scheduler.yaml"  # with a file, SIGHUP of anything but a terminal reads it again
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    master, slave = pty.openpty()
    words = command(*("up", "--port", "0", "--no-dashboard", "--kubeconfig", str(kubeconfig), "--config", str(config)))

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=take_terminal
    )
    try:
        os.close(slave)
        seen = b""
        while last not in seen:
            seen += os.read(master, 4096)
        assert contexts(kubeconfig)
        os.close(master)
        assert process.wait(PATIENCE_S) == 0, seen
    finally:
        process.kill()
        process.wait()
    assert not contexts(kubeconfig)


def test_nohup_keeps_a_cluster_running(tmp_path: Path) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; the process inherits it
    try:
        with a_process("--kubeconfig", str(tmp_path / "config")) as cluster:
            assert cluster.popen is not None
            cluster.popen.send_signal(signal.SIGHUP)
            time.sleep(0.2)
            assert cluster.ask("GET", "/api/v1/nodes").code == 200
            assert cluster.stop() == 0
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
