"""What a dump holds: the objects that decisions read, without what they do not read, and the same decisions come out."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mooring
from build import a_node, a_pod
from corpus import rows
from mooring.api.decode import decode_json
from mooring.api.kinds import KINDS
from mooring.inputs.created_objects import Manifest
from mooring.inputs.documents import STDIN
from mooring.inputs.dumps.contents import dump_text, dumped_objects, write_dump
from mooring.inputs.manifests import Manifests, read
from mooring.model.meta import KubeObject
from mooring.sim.conform import decide

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SECRET = "hunter2"
CONTAINER = {
    "name": "main",
    "image": "shop/cart:1",
    "command": ["sh", "-c", f"login {SECRET}"],
    "args": [SECRET],
    "env": [{"name": "PASSWORD", "value": SECRET}],
    "envFrom": [{"secretRef": {"name": SECRET}}],
    "resources": {"requests": {"cpu": "1"}},
}
FREE_TEXT = {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "mooring.dev/run-seconds": "5"}


def written(item: KubeObject) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": type(item).__name__, **msgspec.to_builtins(item)}


def a_list(*items: dict[str, Any]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def read_text(text: bytes) -> Manifests:
    manifests = read([STDIN], io.BytesIO(text))
    assert not manifests.problems, [str(problem) for problem in manifests.problems]
    return manifests


def dump_of(*items: dict[str, Any]) -> list[dict[str, Any]]:
    return [*dumped_objects(read_text(a_list(*items)))]


def the(items: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (item for item in items if item["kind"] == kind)
    return found


def a_deployment(replicas: int = 2) -> dict[str, Any]:
    labels = {"app": "cart"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "cart", "annotations": FREE_TEXT},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": FREE_TEXT},
                "spec": {"containers": [CONTAINER], "volumes": [{"name": "s", "secret": {"secretName": SECRET}}]},
            },
        },
    }


def test_environment_commands_and_free_text_are_left_out() -> None:
    items = dump_of(written(a_node("n")), a_deployment(), {"apiVersion": "v1", "kind": "Secret", "data": {"x": SECRET}})
    assert SECRET not in json.dumps(items)
    template = the(items, "Deployment")["spec"]["template"]
    assert template["metadata"]["annotations"] == {"mooring.dev/run-seconds": "5"}
    assert template["spec"]["containers"] == [
        {"name": "main", "image": "shop/cart:1", "resources": {"requests": {"cpu": "1"}}}
    ]


def test_annotations_that_decisions_read_stay() -> None:
    node = written(a_node("n"))
    node["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes", "note": "x"}
    header, *items = dump_of(node)
    assert the(items, "Node")["metadata"]["annotations"] == {"pv.kubernetes.io/bind-completed": "yes"}
    assert header["leftOutAnnotations"] == ["note"]


def test_a_dump_has_the_pods_of_workloads_and_readers_make_no_others() -> None:
    items = dump_of(written(a_node("n")), a_deployment(2))
    assert [item["metadata"]["name"] for item in items if item["kind"] == "Pod"] == ["cart-0", "cart-1"]
    again = read_text(dump_text(items))
    assert sum(manifest.kind == "Pod" for manifest in again.objects) == 2
    assert [workload.object.name for workload in again.workloads if workload.kind == "Deployment"] == ["cart"]


def test_a_workload_without_pods_in_a_dump_has_none() -> None:
    items = [item for item in dump_of(written(a_node("n")), a_deployment(2)) if item["kind"] != "Pod"]
    assert not [manifest for manifest in read_text(dump_text(items)).objects if manifest.kind == "Pod"]


def test_a_workload_of_another_file_beside_a_dump_stands_for_its_pods(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_bytes(dump_text(dump_of(written(a_node("n")))))
    (tmp_path / "more.json").write_text(json.dumps(a_deployment(3)))
    manifests = read([str(tmp_path)])
    assert sum(manifest.kind == "Pod" for manifest in manifests.objects) == 3


def test_a_header_of_another_form_is_a_problem() -> None:
    header = {"apiVersion": "mooring.dev/v1", "kind": "ClusterDump", "hasAllPods": "all"}
    (problem,) = read([STDIN], io.BytesIO(a_list(header))).problems
    assert "does not have the form that `mooring dump` writes; remove it" in str(problem)


def test_what_the_author_could_not_list_is_told_again() -> None:
    header = {"apiVersion": "mooring.dev/v1", "kind": "ClusterDump", "missing": ["services", "events"]}
    loaded = read_text(a_list(header)).header
    assert loaded is not None
    assert loaded.notes() == ["the dump has no services, events: its author was not allowed to list them"]


def test_events_of_pods_are_kept() -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"},
        "reason": "FailedScheduling",
        "count": 3,
        "lastTimestamp": "2026-02-01T00:00:00Z",
    }
    node = {**event, "involvedObject": {"kind": "Node", "name": "n"}}
    manifests = read_text(dump_text(dump_of(written(a_pod("web")), event, node)))
    (kept,) = manifests.events
    assert (kept.pod_key, kept.reason, kept.times, kept.last_time) == (
        "default/web",
        "FailedScheduling",
        3,
        "2026-02-01T00:00:00Z",
    )


@pytest.mark.parametrize(
    "path", [EXAMPLES / "cluster.yaml", EXAMPLES / "volumes", EXAMPLES / "devices"], ids=lambda path: path.name
)
def test_the_same_decisions_come_out(path: Path, tmp_path: Path) -> None:
    nodes = [written(a_node(f"n{i}", cpu="4", labels={"topology.kubernetes.io/zone": "ab"[i % 2]})) for i in range(3)]
    (tmp_path / "nodes.json").write_bytes(a_list(*nodes))
    files = [str(path), str(tmp_path / "nodes.json")]
    source = read(files)
    assert not source.problems
    items = json.loads(dump_text(dumped_objects(source)))
    before, after = mooring.simulate(files), mooring.simulate(items)
    assert [(each.pod.key, each.node, each.message) for each in after.pods] == [
        (each.pod.key, each.node, each.message) for each in before.pods
    ]
    assert any(each.node for each in before.pods)


def test_a_dump_of_a_dump_is_the_same() -> None:
    """From the second on: objects without a uid get one when they are read."""
    source = read([str(EXAMPLES / "cluster.yaml")])
    once = dump_text(dumped_objects(read_text(dump_text(dumped_objects(source)))))
    assert dump_text(dumped_objects(read_text(once))) == once


def test_a_name_with_gz_compresses_and_only_the_owner_may_read(tmp_path: Path) -> None:
    write_dump(tmp_path / "a.json", b"{}")
    write_dump(tmp_path / "a.json.gz", b"{}")
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes() == b"{}"
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


# ---- decisions on the corpus

FILES = (
    *("taints", "nodeaffinity", "ports", "images", "resources", "spread", "podaffinity"),
    *("gates", "mixed", "sequence", "preempt", "volumes", "dra"),
)


def as_dumped(scenario: dict[str, Any]) -> dict[str, Any]:
    """The scenario with its objects as a dump has them."""
    objects = [item for item in scenario["objects"] if item["kind"] in KINDS]
    typed = [decode_json(json.dumps(item).encode(), item["kind"]) for item in objects]
    items = json.loads(dump_text(dumped_objects(Manifests([Manifest(item, None) for item in typed]))))["items"]
    return {**scenario, "objects": [item for item in items if item["kind"] in KINDS]}


@pytest.mark.parametrize("name", FILES)
def test_a_dump_of_a_scenario_gives_the_same_answer_to_the_letter(name: str) -> None:
    for row in rows(name)[:2]:
        scenario = row["scenario"]
        assert decide(json.dumps(as_dumped(scenario)).encode()) == decide(json.dumps(scenario).encode())
