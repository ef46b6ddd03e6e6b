"""What people do with kubectl, on a cluster of `mooring up`."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from kubectl import Kubectl, needs_kubectl
from running_cluster import a_process

pytestmark = [needs_kubectl, pytest.mark.slow]

MANIFEST = (Path(__file__).parent.parent / "apiserver/data/recordings/manifest.yaml").read_text()
POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec:
  containers: [{name: c, image: "nginx:1", resources: {requests: {cpu: 100m}}}]
"""
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: 3
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: c, image: "nginx:1", resources: {requests: {cpu: 100m}}}]}
"""
PATIENCE_S = 30


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("home")
    with a_process("--nodes", "4") as cluster:
        yield Kubectl(cluster.kubeconfig, home)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """One for each test, so that they can share the cluster."""
    return str(request.node.name).removeprefix("test_").replace("_", "-")[:40].strip("-")


def eventually(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.1)


def a_pod(name: str) -> str:
    return POD.replace("NAME", name)


def a_deployment(name: str) -> str:
    return WEB.replace("NAME", name)


def test_apply_says_what_it_did(kubectl: Kubectl) -> None:
    """The recorded manifest, with what the real server led kubectl to say."""
    first = kubectl("apply", "-f", "-", stdin=MANIFEST).splitlines()
    assert [line.split()[-1] for line in first] == ["created"] * 5
    second = kubectl("apply", "-f", "-", stdin=MANIFEST).splitlines()
    assert [line.split()[-1] for line in second] == ["unchanged", "unchanged", "configured", "unchanged", "unchanged"]
    edited = MANIFEST.replace("replicas: 2", "replicas: 3")
    assert "deployment.apps/web configured" in kubectl("apply", "-f", "-", stdin=edited)
    assert kubectl.json("get", "deploy", "web")["spec"]["replicas"] == 3
    message = kubectl("get", "pod", "huge", "-o", "jsonpath={.status.conditions[0].message}")
    assert "0/4 nodes are available: 4 Insufficient cpu." in message
    kubectl("delete", "-f", "-", stdin=MANIFEST)
    assert kubectl.run("get", "pod", "huge").error == 'Error from server (NotFound): pods "huge" not found\n'


def test_create_refuses_what_is_there(kubectl: Kubectl, name: str) -> None:
    assert kubectl("create", "-f", "-", stdin=a_pod(name)) == f"pod/{name} created\n"
    again = kubectl.run("create", "-f", "-", stdin=a_pod(name))
    assert again.status == 1 and f'pods "{name}" already exists' in again.error


def test_strict_validation_names_the_field(kubectl: Kubectl, name: str) -> None:
    wrong = kubectl.run("create", "-f", "-", stdin=a_pod(name).replace("spec:", "spec:\n  bogus: 1"))
    assert wrong.status == 1 and 'unknown field "spec.bogus"' in wrong.error


def test_server_side_apply_keeps_owners_apart(kubectl: Kubectl, name: str) -> None:
    config = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: one}}\n"
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=config)
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=config)
    other = config.replace("one", "two")
    refused = kubectl.run("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=other)
    assert refused.status == 1 and 'conflict with "kubectl": .data.a' in refused.error
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=other)
    assert kubectl.json("get", "cm", name)["data"] == {"a": "two"}


def test_client_side_apply_can_go_over_to_server_side(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "-f", "-", stdin=a_deployment(name))
    more = a_deployment(name).replace("replicas: 3", "replicas: 2")
    kubectl("apply", "--server-side", "-f", "-", stdin=more)
    assert kubectl.json("get", "deploy", name)["spec"]["replicas"] == 2


def test_metrics_of_the_scheduler(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
    lines = kubectl("get", "--raw", "/metrics").splitlines()
    (placed,) = (
        line for line in lines if line.startswith("scheduler_schedule_attempts_total{") and '"scheduled"' in line
    )
    assert float(placed.rpartition(" ")[2]) >= 1
    assert any(line.startswith("scheduler_pending_pods{") for line in lines)


def test_every_output(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
    plain = kubectl("get", "pod", name).splitlines()
    assert plain[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert plain[1].split()[:4] == [name, "1/1", "Running", "0"]
    wide = kubectl("get", "pod", name, "-o", "wide").splitlines()
    assert wide[0].split()[5:8] == ["IP", "NODE", "NOMINATED"]
    pod = kubectl.json("get", "pod", name)
    assert wide[1].split()[6] == pod["spec"]["nodeName"]
    assert yaml.safe_load(kubectl("get", "pod", name, "-o", "yaml")) == pod
    assert kubectl("get", "pod", name, "-o", "name") == f"pod/{name}\n"
    assert kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}") == "Running"
    assert kubectl("get", "pod", name, "-o", "custom-columns=N:.metadata.name", "--no-headers") == f"{name}\n"
    assert kubectl("get", "pod", name, "-o", "go-template={{.kind}}") == "Pod"
    assert f"app={name}" in kubectl("get", "pods", "-l", f"app={name}", "--show-labels")
    assert name in kubectl("get", "pods", "-A", "--sort-by=.metadata.name")
    assert name in kubectl("get", "pods", "--field-selector", f"spec.nodeName={pod['spec']['nodeName']}")
    assert "deployment" in kubectl("api-resources") and "Server Version: v1.37" in kubectl("version")
    assert "tolerationSeconds" in kubectl("explain", "pod.spec.tolerations")


def test_get_watch_sees_a_life(kubectl: Kubectl, name: str) -> None:
    watch = subprocess.Popen(
        kubectl.command("get", "pods", "-w", "--no-headers", "-l", f"app={name}"),
        env=kubectl.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        time.sleep(1)  # kubectl lists first; a pod that is there already would be shown too
        kubectl("create", "-f", "-", stdin=a_pod(name))
        kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
        kubectl("delete", "pod", name)
    finally:
        watch.terminate()
        out, _ = watch.communicate(timeout=10)
    states = list(dict.fromkeys(line.split()[2] for line in out.splitlines()))
    assert states[0] == "Pending" and "Running" in states and states[-1] in ("Terminating", "Completed")


def test_describe_shows_events(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name))
    kubectl("wait", "--for=condition=PodScheduled", f"pod/{name}", "--timeout=20s")
    node = kubectl.json("get", "pod", name)["spec"]["nodeName"]
    eventually(
        lambda: f"Successfully assigned default/{name} to {node}" in kubectl("describe", "pod", name), "the event"
    )
    described = kubectl("describe", "node", node)
    assert name in described and "Allocated resources" in described
    assert "Scheduled" in kubectl("get", "events", "--field-selector", f"involvedObject.name={name}")


def test_label_annotate_and_edit(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name))
    kubectl("label", "pod", name, "team=a")
    kubectl("annotate", "pod", name, "note=b")
    metadata = kubectl.json("get", "pod", name)["metadata"]
    assert metadata["labels"]["team"] == "a" and metadata["annotations"]["note"] == "b"
    refused = kubectl.run("label", "pod", name, "team=c")
    assert refused.status == 1 and "already has a value" in refused.error
    kubectl("label", "pod", name, "team-")
    assert "team" not in kubectl.json("get", "pod", name)["metadata"]["labels"]
    kubectl("patch", "pod", name, "--type=json", "-p", '[{"op": "add", "path": "/metadata/labels/x", "value": "y"}]')
    kubectl("patch", "pod", name, "-p", '{"metadata": {"labels": {"z": "1"}}}')
    assert {"x", "z"} <= kubectl.json("get", "pod", name)["metadata"]["labels"].keys()


def test_taint_and_cordon(kubectl: Kubectl, name: str) -> None:
    node = "node-0004"
    kubectl("taint", "node", node, "a=b:NoSchedule")
    kubectl("cordon", node)
    assert "SchedulingDisabled" in kubectl("get", "node", node)
    picky = a_pod(name).replace("spec:", f"spec:\n  nodeSelector: {{kubernetes.io/hostname: {node}}}")
    kubectl("create", "-f", "-", stdin=picky)
    condition = "jsonpath={.status.conditions[0].message}"
    eventually(lambda: "node(s)" in kubectl("get", "pod", name, "-o", condition), "the reason")
    kubectl("uncordon", node)
    kubectl("taint", "node", node, "a-")
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
    assert kubectl.json("get", "pod", name)["spec"]["nodeName"] == node


def test_drain_heeds_the_budget(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "-f", "-", stdin=a_deployment(name))
    kubectl("create", "pdb", name, f"--selector=app={name}", "--min-available=2")
    kubectl("rollout", "status", f"deploy/{name}", "--timeout=30s")
    eventually(
        lambda: kubectl.json("get", "pdb", name)["status"].get("disruptionsAllowed") == 1, "the budget is counted"
    )
    pods = kubectl.json("get", "pods", "-l", f"app={name}")["items"]
    node = pods[0]["spec"]["nodeName"]
    kubectl("drain", node, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=50s")
    try:
        left = kubectl.json("get", "pods", "-l", f"app={name}")["items"]
        assert all(pod["spec"].get("nodeName") != node for pod in left)
        kubectl("rollout", "status", f"deploy/{name}", "--timeout=30s")
    finally:
        kubectl("uncordon", node)


def test_an_exhausted_budget_refuses_evictions(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name))
    kubectl("create", "pdb", name, f"--selector=app={name}", "--min-available=1")
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
    node = kubectl.json("get", "pod", name)["spec"]["nodeName"]
    try:
        refused = kubectl.run(
            *("drain", node, "--force", "--ignore-daemonsets", "--timeout=3s", "--pod-selector", f"app={name}")
        )
        assert refused.status == 1 and "violate the pod's disruption budget" in refused.error
        assert kubectl.json("get", "pod", name)["spec"]["nodeName"] == node
    finally:
        kubectl("uncordon", node)
        kubectl("delete", "pdb", name)


def test_scale_and_rollout(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "-f", "-", stdin=a_deployment(name))
    deployment = f"deploy/{name}"
    assert "successfully rolled out" in kubectl("rollout", "status", deployment, "--timeout=30s")
    kubectl("scale", deployment, "--replicas=5")
    kubectl("wait", "--for=jsonpath={.status.readyReplicas}=5", deployment, "--timeout=30s")
    kubectl("set", "image", deployment, "c=nginx:2")
    assert "successfully rolled out" in kubectl("rollout", "status", deployment, "--timeout=30s")
    pods = [p for p in kubectl.json("get", "pods", "-l", f"app={name}")["items"] if _is_staying(p)]
    assert {p["spec"]["containers"][0]["image"] for p in pods} == {"nginx:2"}
    history = kubectl("rollout", "history", deployment).split("\n")
    assert [line.split()[0] for line in history if line[:1].isdigit()] == ["1", "2"]
    kubectl("rollout", "undo", deployment)
    kubectl("rollout", "status", deployment, "--timeout=30s")
    template = kubectl.json("get", deployment)["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == "nginx:1"
    kubectl("rollout", "restart", deployment)
    kubectl("rollout", "status", deployment, "--timeout=30s")
    kubectl("wait", "--for=condition=Available", deployment, "--timeout=30s")


def _is_staying(pod: dict[str, dict[str, object]]) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def test_delete_with_and_without_waiting(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "-f", "-", stdin=a_pod(name))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
    assert kubectl("delete", "pod", name).startswith(f'pod "{name}" ')
    assert kubectl.run("get", "pod", name).status == 1
    slow = a_pod(name).replace("metadata: {", 'metadata: {annotations: {mooring.dev/stop-seconds: "5"}, ')
    kubectl("create", "-f", "-", stdin=slow)
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
    kubectl("delete", "pod", name, "--wait=false")
    assert "Terminating" in kubectl("get", "pod", name)
    kubectl("delete", "pod", name, "--grace-period=0", "--force")
    assert kubectl.run("get", "pod", name).status == 1


def test_a_job_completes_and_a_namespace_goes_with_all_in_it(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "namespace", name)
    job = (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}, namespace: {name}}}\nspec:\n  completions: 3\n"
        '  template:\n    metadata: {annotations: {mooring.dev/run-seconds: "1"}}\n'
        '    spec: {restartPolicy: Never, containers: [{name: c, image: "x:1"}]}\n'
    )
    kubectl("create", "-f", "-", stdin=job)
    kubectl("wait", "-n", name, "--for=condition=complete", f"job/{name}", "--timeout=40s")
    kubectl("delete", "namespace", name, "--timeout=30s")
    assert kubectl.run("get", "namespace", name).status == 1
    assert name not in kubectl("get", "pods", "-A")


def test_stateful_set_keeps_names_and_order(kubectl: Kubectl, name: str) -> None:
    manifest = (
        a_deployment(name)
        .replace("Deployment", "StatefulSet")
        .replace("spec:\n  replicas", "spec:\n  serviceName: s\n  replicas")
    )
    kubectl("apply", "-f", "-", stdin=manifest)
    kubectl("rollout", "status", f"sts/{name}", "--timeout=30s")
    pods = kubectl.json("get", "pods", "-l", f"app={name}")["items"]
    assert sorted(pod["metadata"]["name"] for pod in pods) == [f"{name}-{i}" for i in range(3)]
    kubectl("scale", f"sts/{name}", "--replicas=1")
    eventually(lambda: len(kubectl.json("get", "pods", "-l", f"app={name}")["items"]) == 1, "the others are gone")


def test_daemon_set_is_on_every_node(kubectl: Kubectl, name: str) -> None:
    manifest = a_deployment(name).replace("Deployment", "DaemonSet").replace("  replicas: 3\n", "")
    kubectl("apply", "-f", "-", stdin=manifest)
    kubectl("rollout", "status", f"ds/{name}", "--timeout=30s")
    pods = kubectl.json("get", "pods", "-l", f"app={name}")["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 4
    kubectl("delete", "ds", name)
    eventually(lambda: not kubectl.json("get", "pods", "-l", f"app={name}")["items"], "its pods are gone")
