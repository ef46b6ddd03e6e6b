"""Two schedulers, one lease: the leader is killed under load, and the other goes on where it was."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forked_commands import Started, start_mooring
from how_many import IS_SOAK
from running_cluster import Process, a_process

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/default/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
COUNT = 300 if IS_SOAK else 100
LEASE_S, RENEW_S, RETRY_S = 3, 2, 1
PATIENCE_S = 60


@contextmanager
def a_scheduler(cluster: Process, log: Path) -> Iterator[Started]:
    """`mooring run` with a short lease."""
    arguments = [
        *("run", "-v=2", "--secure-port=0", f"--kubeconfig={cluster.kubeconfig}"),
        f"--leader-elect-lease-duration={LEASE_S}s",
        f"--leader-elect-renew-deadline={RENEW_S}s",
        f"--leader-elect-retry-period={RETRY_S}s",
    ]
    with log.open("ab") as output:
        process = start_mooring(*arguments, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def _holder(cluster: Process) -> str:
    reply = cluster.ask("GET", LEASE)
    return str(reply.body["spec"].get("holderIdentity", "")) if reply.code == 200 else ""


def _create(cluster: Process, first: int, count: int) -> None:
    for number in range(first, first + count):
        pod = {
            "metadata": {"name": f"p-{number}"},
            "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1m"}}}]},
        }
        assert cluster.ask("POST", PODS, pod).code == 201


def _pods(cluster: Process) -> list[dict[str, Any]]:
    return list(cluster.ask("GET", PODS).body["items"])


def _wait_until(holds: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.1)


def test_a_killed_leader_is_followed_and_nothing_is_lost(tmp_path: Path) -> None:
    with a_process("--nodes", "20", "--no-scheduler") as cluster, a_scheduler(cluster, tmp_path / "one.log") as one:
        _wait_until(lambda: bool(_holder(cluster)), "somebody leads")
        first = _holder(cluster)
        with a_scheduler(cluster, tmp_path / "two.log") as two:
            _create(cluster, 0, COUNT // 2)
            os.kill(one.pid, signal.SIGKILL)
            _create(cluster, COUNT // 2, COUNT // 2)
            _wait_until(lambda: _holder(cluster) not in ("", first), "the other leads")
            _wait_until(lambda: all(pod["spec"].get("nodeName") for pod in _pods(cluster)), "all pods have a node")
            assert len(_pods(cluster)) == COUNT
            _check_bound_once(cluster)
            two.send_signal(signal.SIGTERM)
            assert two.wait(PATIENCE_S) == 0
            assert _holder(cluster) == "", "a clean end frees the lease"
    assert "Traceback" not in (tmp_path / "two.log").read_text()


def _check_bound_once(cluster: Process) -> None:
    """From the first version on, each pod gets a node once, and keeps it."""
    nodes: dict[str, set[str]] = {}
    with cluster.watch(PODS, resourceVersion="1", timeoutSeconds=2) as stream:
        for event in stream.rest():
            name = event["object"]["metadata"]["name"]
            nodes.setdefault(name, set()).add(event["object"]["spec"].get("nodeName", ""))
    assert len(nodes) == COUNT
    assert all(len(found - {""}) == 1 for found in nodes.values()), "a pod was seen on two nodes"


def test_a_second_opinion_writes_nothing(tmp_path: Path) -> None:
    log = tmp_path / "dry.log"
    with a_process("--nodes", "3", "--no-scheduler") as cluster, log.open("ab") as output:
        _create(cluster, 0, 3)
        before = cluster.ask("GET", PODS).body["metadata"]["resourceVersion"]
        arguments = ("run", "--dry-run", "-v=1", "--secure-port=0", f"--kubeconfig={cluster.kubeconfig}")
        process = start_mooring(*arguments, stdout=output, stderr=output)
        try:
            _wait_until(lambda: len(re.findall(r"Would bind pod to node", log.read_text())) >= 3, "three opinions")
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        assert not any(pod["spec"].get("nodeName") for pod in _pods(cluster))
        assert _holder(cluster) == ""
        written = [pod["metadata"]["resourceVersion"] for pod in _pods(cluster)]
        assert max(map(int, written)) <= int(before), "a pod was written to"
