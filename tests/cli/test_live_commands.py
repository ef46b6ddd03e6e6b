"""Commands that ask about a live cluster: the embedded one, in this process. Files and live clusters get the same answers."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command import as_manifest, mooring

from build import a_pod
from mooring.cli.main import main
from running_cluster import Neighbour, a_neighbour


@pytest.fixture(scope="module")
def cluster() -> Iterator[Neighbour]:
    container = {"name": "main", "image": "img", "resources": {"requests": {"cpu": "500"}}}
    metadata = {"name": "giant", "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    with a_neighbour(3, (pod,)) as neighbour:
        neighbour.wait("/api/v1/namespaces/default/pods/giant", lambda item: bool(item["status"].get("conditions")))
        neighbour.wait("/api/v1/events", lambda events: "FailedScheduling" in json.dumps(events))
        yield neighbour


def test_a_dump_gets_the_same_explanation_as_the_live_cluster(cluster: Neighbour, tmp_path: Path) -> None:
    live = mooring("explain", "giant", "--kubeconfig", cluster.kubeconfig, "-o", "json")
    assert live.code == 1, live.err
    assert [event["text"] for event in json.loads(live.out)["history"]][-1].startswith("FailedScheduling: 0/3 nodes")
    dump = tmp_path / "dump.json.gz"
    ran = mooring("dump", "-o", dump, "--kubeconfig", cluster.kubeconfig)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith(f"{dump}: 3 nodes, 1 pod (1 pending), ")
    assert mooring("explain", "giant", "--from", dump, "-o", "json").out == live.out


def test_an_anonymous_dump_of_a_live_cluster_says_nothing_about_it(cluster: Neighbour, tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    assert mooring("dump", "-o", dump, "--kubeconfig", cluster.kubeconfig, "--anonymize").code == 0
    nodes = [item["metadata"]["name"] for item in cluster.ask("GET", "/api/v1/nodes").body["items"]]
    assert len(nodes) == 3
    assert not [name for name in ("giant", *nodes) if name in dump.read_text()]


def test_the_default_kubeconfig_is_the_one_of_kubectl(cluster: Neighbour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    ran = mooring("explain", "gian")
    assert (ran.code, ran.err) == (2, "no pod 'gian' among 1 pods; did you mean default/giant?\n")


QUESTIONS = {
    "capacity": ("POD.json",),
    "explain": ("giant", "--no-cures"),
    "plan": ("--shrink",),
    "simulate": ("--explain", "giant"),
    "what-if": ("--drain", "node-0001"),
}
"""By command: a question about the cluster of the fixture."""


@pytest.mark.parametrize("command", [name for name in QUESTIONS if name in main.list_commands(click.Context(main))])
def test_every_question_has_the_same_answer_live_and_from_a_dump(
    command: str, cluster: Neighbour, tmp_path: Path
) -> None:
    (tmp_path / "POD.json").write_text(json.dumps(as_manifest(a_pod("web", cpu="1"))))
    own = [tmp_path / each if (tmp_path / each).exists() else each for each in QUESTIONS[command]]
    dump = tmp_path / "dump.json.gz"
    assert mooring("dump", "-o", dump, "--kubeconfig", cluster.kubeconfig).code == 0
    live = mooring(command, *own, "--kubeconfig", cluster.kubeconfig, "-o", "json")
    assert live.code in (0, 1), live.err
    assert json.loads(mooring(command, *own, "--from", dump, "-o", "json").out) == json.loads(live.out)


def test_files_are_as_if_applied_to_the_live_cluster(cluster: Neighbour, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    more.write_text(json.dumps(as_manifest(a_pod("web", cpu="1"))))
    ran = mooring("simulate", more, "--kubeconfig", cluster.kubeconfig, "-o", "json")
    answer = json.loads(ran.out)
    assert {pod["name"]: pod["result"] for pod in answer["pods"]} == {"giant": "unschedulable", "web": "scheduled"}
    assert answer["summary"]["pods"] == 2 and len(answer["nodes"]) == 3
    pods = cluster.ask("GET", "/api/v1/namespaces/default/pods").body["items"]
    assert [item["metadata"]["name"] for item in pods] == ["giant"], "nothing was written"
    more.write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"odd": 1}}')
    ran = mooring("simulate", more, "--kubeconfig", cluster.kubeconfig)
    assert ran.code == 2 and f"{more}:1: Pod default/web: spec.odd: unknown field" in ran.err
