"""The examples for a cluster, applied with kubectl, run to their end."""

import sys
from pathlib import Path

import pytest

from forked_commands import run_mooring
from kubectl import Kubectl, needs_kubectl
from running_cluster import a_process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"


@needs_kubectl
def test_a_job_of_eight_pods_gets_the_devices_of_four_nodes(tmp_path: Path) -> None:
    with a_process("--nodes", "4", "--node-template", str(EXAMPLES / "devices/node.yaml")) as cluster:
        kubectl = Kubectl(cluster.kubeconfig, tmp_path)
        kubectl("apply", "-f", str(EXAMPLES / "devices/training.yaml"))
        kubectl("wait", "--for=condition=complete", "job/training", "--timeout=40s")
        pods = kubectl.json("get", "pods")["items"]
        nodes = [pod["spec"]["nodeName"] for pod in pods]
        assert sorted(nodes.count(node) for node in set(nodes)) == [2, 2, 2, 2], "each node has two devices"
        kubectl("wait", "--for=delete", "resourceclaims", "--all", "--timeout=20s")


@needs_kubectl
def test_a_stateful_set_gets_storage_where_its_pods_go(tmp_path: Path) -> None:
    with a_process("--nodes", "6") as cluster:
        kubectl = Kubectl(cluster.kubeconfig, tmp_path)
        kubectl("apply", "-f", str(EXAMPLES / "volumes/database.yaml"))
        kubectl("rollout", "status", "sts/database", "--timeout=40s")
        zones = {
            kubectl.json("get", "node", pod["spec"]["nodeName"])["metadata"]["labels"]["topology.kubernetes.io/zone"]
            for pod in kubectl.json("get", "pods")["items"]
        }
        assert len(zones) == 3
        claims = kubectl.json("get", "pvc")["items"]
        assert [claim["status"]["phase"] for claim in claims] == ["Bound"] * 3


def test_the_demonstration_shows_what_it_says() -> None:
    script = EXAMPLES / "up/demonstration.py"
    done = run_mooring("up", "--exec", f"{sys.executable} {script}")
    assert done.returncode == 0, done.stderr
    assert "Insufficient cpu" in done.stdout, "one pod is pending, with the reason"
    assert "Preempted by pod" in done.stdout and "Successfully assigned default/urgent" in done.stdout
