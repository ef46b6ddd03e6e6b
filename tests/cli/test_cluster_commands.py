"""`mooring up`, `nodes`, `run` and `snapshot`: what they refuse, and with which words and status."""

import os
from pathlib import Path

import pytest

from forked_commands import Ran, run_mooring
from running_cluster import a_process

pytestmark = pytest.mark.slow


def ran(*arguments: str, **environment: str) -> Ran:
    settings = {**os.environ, "KUBECONFIG": "/nowhere", "HOME": "/nowhere", **environment}
    return run_mooring(*arguments, environment=settings)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("up", "--config", "/nowhere.yaml"), "/nowhere.yaml: cannot be read"),
        (("up", "--node-template", "/nowhere.yaml"), "/nowhere.yaml: cannot be read"),
        (("up", "--cluster", "/nowhere.yaml"), "No such file"),
        (("up", "--data-dir", "/proc/nowhere"), "/proc/nowhere"),
        (("up", "--nodes", "-1"), "-1 is not in the range"),
        (("nodes", "add"), "Use the export line that `mooring up` prints"),
        (("run",), "kubeconfig"),
        (("run", "--kubeconfig", "/nowhere"), "/nowhere"),
        (("run", "--secure-port", "70000"), "must be between 0 and 65535, inclusive"),
        (("run", "--feature-gates", "Nope=true"), "unrecognized feature gate: Nope"),
        (("run", "--logging-format", "xml"), "xml"),
        (("run", "--leader-elect-lease-duration", "15"), "missing unit"),
        (("run", "--kept-answers-limit", "much"), "'much': quantities must match the regular expression"),
        (("run", "--kept-answers-limit", "-1Mi"), "-1Mi is negative"),
        (("run", "--use", "metrics-server"), "--use needs --dashboard: only its map shows what nodes really use"),
        (("run", "--self-check", "soon"), 'invalid duration "soon"'),
        (("run", "--self-check", "100ms"), "--self-check 100ms: must be at least 1s"),
        (("run", "--self-check-repair"), "--self-check-repair needs --self-check with an interval"),
        (("run", "--self-check", "10m", "--dry-run"), "--self-check cannot be used with --dry-run"),
        (("up", "--self-check", "10m", "--no-scheduler"), "--self-check cannot be used with --no-scheduler"),
        (("snapshot", "--server", "https://127.0.0.1:1"), "with --server"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_input_that_cannot_be_used(arguments: tuple[str, ...], said: str) -> None:
    done = ran(*arguments)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_node_template_that_is_not_yaml(tmp_path: Path) -> None:
    template = tmp_path / "node.yaml"
    template.write_text("kind: Node\nspec: a: b\n")
    done = ran("up", "--node-template", str(template))
    fault = "the text does not parse (mapping values are not allowed in this context)"
    assert (done.returncode, done.stderr) == (2, f"{template}:2: column 8: {fault}\n")


def test_a_configuration_in_json_may_be_indented_with_tabs(tmp_path: Path) -> None:
    """YAML forbids them, and `mooring run` reads the file as what it is."""
    config = tmp_path / "config.json"
    config.write_text('{\n\t"apiVersion": "kubescheduler.config.k8s.io/v1",\n\t"kind": "KubeSchedulerConfiguration"\n}')
    done = ran("run", "--config", str(config), "--kubeconfig", "/nowhere")
    assert (done.returncode, done.stderr) == (2, "/nowhere: there is no such file\n")


@pytest.mark.slow
def test_exec_ends_with_the_status_of_the_command() -> None:
    assert ran("up", "-q", "--nodes", "1", "--exec", 'test -s "$KUBECONFIG" && exit 7').returncode == 7
    assert ran("up", "-q", "--nodes", "1", "--exec", "kill -9 $$").returncode == 137


@pytest.mark.slow
def test_a_port_in_use_is_told() -> None:
    with a_process("--nodes", "1") as cluster:
        port = cluster.server.rpartition(":")[2]
        done = ran("up", "-q", "--port", port)
        assert done.returncode == 2 and f"port {port} is not available: Address already in use" in done.stderr


@pytest.mark.slow
def test_nodes_of_a_data_directory_stay_and_that_is_said(tmp_path: Path) -> None:
    first, again = ("up", "-q", "--data-dir", str(tmp_path), "--exec", "true"), ("--nodes",)
    assert ran(*first, *again, "5").stderr == ""
    fewer = ran(*first, *again, "3").stderr
    assert fewer == (
        "--nodes 3: the cluster has 5 nodes: 5 were there already, none is new. "
        "`mooring nodes remove NODE...` removes nodes\n"
    )
    more = ran(*first, *again, "7").stderr
    assert more == "--nodes 7: the cluster has 7 nodes: 5 were there already, 2 nodes are new\n"
    assert ran(*first).stderr == ""


@pytest.mark.slow
def test_a_new_cluster_has_a_default_storage_class_and_only_then(tmp_path: Path) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    with a_process("--nodes", "1", "--data-dir", str(tmp_path)) as cluster:
        (held,) = cluster.ask("GET", classes).body["items"]
        assert held["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
        assert cluster.ask("DELETE", f"{classes}/standard").code == 200
    with a_process("--data-dir", str(tmp_path)) as cluster:
        assert cluster.ask("GET", classes).body["items"] == []


@pytest.mark.slow
def test_nodes_come_and_go(tmp_path: Path) -> None:
    with a_process("--nodes", "2") as cluster:
        at = {"KUBECONFIG": str(cluster.kubeconfig)}
        assert ran("nodes", "add", "2", **at).stdout.split() == ["node-0003", "added", "node-0004", "added"]
        assert ran("nodes", "remove", "node-0001", **at).returncode == 0
        names = {node["metadata"]["name"] for node in cluster.ask("GET", "/api/v1/nodes").body["items"]}
        assert names == {"node-0002", "node-0003", "node-0004"}
        missing = ran("nodes", "remove", "node-0001", **at)
        assert missing.returncode == 2 and 'nodes "node-0001" not found' in missing.stderr
        assert "drained" in ran("nodes", "drain", "node-0002", **at).stdout
        assert cluster.ask("GET", "/api/v1/nodes/node-0002").body["spec"]["unschedulable"] is True
        ran("nodes", "fail", "node-0003", **at)
        cluster.wait("/api/v1/nodes/node-0003", lambda node: bool(node["spec"].get("taints")))
        ran("nodes", "recover", "node-0003", **at)
        cluster.wait("/api/v1/nodes/node-0003", lambda node: not node["spec"].get("taints"))


@pytest.mark.slow
def test_a_written_configuration_is_complete(tmp_path: Path) -> None:
    with a_process("--nodes", "1") as cluster:
        target = tmp_path / "effective.yaml"
        done = ran("run", "--kubeconfig", str(cluster.kubeconfig), "--write-config-to", str(target))
        assert done.returncode == 0, done.stderr
        assert ran("config", "check", str(target)).returncode == 0
