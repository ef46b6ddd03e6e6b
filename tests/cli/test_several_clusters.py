"""One question to several contexts: two real API servers, one that is down, and one that never answers."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from command import Ran, as_manifest, mooring

from build import a_pod
from mooring.inputs.live_clusters import read_each
from running_cluster import Neighbour, a_neighbour

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
BLUE, GREEN = 2, 5
"""How many nodes the clusters have."""
SAID = 'pods "w" is forbidden: exceeded quota: small'


def a_pending_pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "img", "resources": {"requests": {"cpu": "500"}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


AN_EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "default"},
    "involvedObject": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "default", "name": "web"},
    "type": "Warning",
    "reason": "FailedCreate",
    "message": SAID,
}
A_REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


@dataclass(frozen=True)
class Contexts:
    kubeconfig: Path
    green: Neighbour

    def ask(self, command: str, *arguments: str | Path) -> Ran:
        return mooring(command, *arguments, "--kubeconfig", self.kubeconfig)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contexts]:
    with (
        a_neighbour(BLUE) as blue,
        a_neighbour(GREEN, (a_pending_pod("giant"), A_REPLICA_SET)) as green,
    ):
        green.wait("/api/v1/namespaces/default/pods/giant", lambda item: bool(item["status"].get("conditions")))
        assert green.ask("POST", "/api/v1/namespaces/default/events", AN_EVENT).code == 201
        merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
        for name, neighbour in (("blue", blue), ("green", green)):
            written = yaml.safe_load(neighbour.kubeconfig.read_text())
            merged["clusters"].append({**written["clusters"][0], "name": name})
            merged["users"].append({**written["users"][0], "name": name})
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        merged["clusters"].append({"name": "down", "cluster": {"server": url}})
        merged["users"].append({"name": "down", "user": {}})
        for name in ("blue", "down", "green"):
            merged["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
        file = tmp_path_factory.mktemp("kube") / "config"
        file.write_text(yaml.safe_dump(merged))
        yield Contexts(file, green)


def test_every_context_is_a_row_also_one_that_does_not_answer(contexts: Contexts) -> None:
    ran = contexts.ask("explain", "--all-contexts", "--no-cures")
    assert ran.code == 1, ran.err
    lines = ran.out.splitlines()
    assert lines[0] == "3 clusters, 1 without an answer"
    assert lines[2:4] == ["Clusters", "CLUSTER   ANSWER"]
    assert lines[4] == "blue      No pod is pending, of 0 pods"
    assert lines[5].startswith("down      http://127.0.0.1:") and ": cannot connect to 127.0.0.1:" in lines[5]
    assert lines[6].startswith("green     1 of 1 pod is pending, the oldest for ")
    assert "CLUSTER   PODS   OWNERS   NODES   PLUGIN             REASON" in lines
    assert "green     1      1        5       NodeResourcesFit   Insufficient cpu" in lines


def test_a_server_that_never_answers_is_given_up_after_the_limit(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [{"name": name, "context": {"cluster": "c"}} for name in ("a", "b")],
        }
        (tmp_path / "config").write_text(json.dumps(config))
        found = [*read_each(str(tmp_path / "config"), ["a", "b"], 0.1)]
        ran = mooring("explain", "--all-contexts", "--kubeconfig", tmp_path / "config", "--cluster-timeout", "100ms")
    assert [(context, str(fault)) for context, fault in found] == [
        ("a", f"{url}: not read within 0.1 s"),
        ("b", f"{url}: not read within 0.1 s"),
    ]
    assert (ran.code, ran.err) == (2, f"{url}: not read within 0.1 s\n"), "all of them have the same problem"


@pytest.mark.parametrize("command", ["capacity", "explain", "plan", "what-if"])
def test_answers_of_several_clusters_are_those_of_each_of_them(
    contexts: Contexts, command: str, tmp_path: Path
) -> None:
    pod = tmp_path / "pod.json"
    pod.write_text(json.dumps(as_manifest(a_pod("web", cpu="1"))))
    questions: dict[str, tuple[str | Path, ...]] = {
        "capacity": (pod,),
        "explain": ("-A",),
        "plan": ("--shrink",),
        "what-if": ("--cordon", "node-0001"),
    }
    own = questions[command]
    schema = json.loads((SCHEMAS / f"{command}.v1.json").read_text())
    asked = [
        mooring(command, *own, "--kubeconfig", contexts.kubeconfig, "--context", each, "-o", "json")
        for each in ("green", "blue")
    ]
    ran = contexts.ask(command, *own, "--context", "green", "--context", "blue", "-o", "json")
    answer = json.loads(ran.out)
    jsonschema.validate(answer, json.loads((SCHEMAS / "clusters.v1.json").read_text()))
    assert [each["cluster"] for each in answer["clusters"]] == ["green", "blue"]
    for each, alone in zip(answer["clusters"], asked, strict=True):
        jsonschema.validate(each["answer"], schema)
        assert _timeless(each["answer"]) == _timeless(json.loads(alone.out))
    assert ran.code == max(each.code for each in asked)


def _timeless(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what depends on the moment at which the cluster was read."""
    groups = [{**group, "pendingSeconds": None} for group in answer.get("groups", ())]
    return {**answer, "at": "", "groups": groups}


def test_a_cluster_that_has_not_what_is_asked_about_is_a_row(contexts: Contexts) -> None:
    ran = contexts.ask("explain", "giant", "--no-cures", "--context", "blue", "--context", "green", "-o", "json")
    blue, green = json.loads(ran.out)["clusters"]
    assert blue == {"cluster": "blue", "problem": "no pod 'giant' among 0 pods"}
    assert green["answer"]["pod"] == "default/giant" and ran.code == 1


def test_a_page_has_all_clusters(contexts: Contexts, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    contexts.ask("explain", "--context", "blue", "--context", "green", "--no-cures", "--html", page)
    assert "<caption>Clusters</caption>" in page.read_text() and "green" in page.read_text()


@pytest.mark.parametrize(
    ("command", "arguments", "told"),
    [
        ("explain", ("--context", "blue", "--context", "gren"), "no context is named 'gren'; did you mean green?"),
        ("explain", ("--context", "blue", "--all-contexts"), "--all-contexts cannot be used with --context"),
        ("explain", ("--all-contexts", "--from", "x.yaml"), "--from cannot be used with --kubeconfig or --context"),
        ("explain", ("-A", "-n", "shop"), "--all-namespaces cannot be used with a name or --namespace"),
        (
            "capacity",
            ("none.yaml", "--context", "blue", "--context", "green"),
            "none.yaml: cannot be read: No such file",
        ),
        ("simulate", ("--context", "blue", "--context", "green"), "simulate asks one cluster: name one context"),
        ("dump", ("-o", "-", "--context", "blue", "--context", "green"), "dump asks one cluster: name one context"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_question_that_no_cluster_can_answer_is_refused(
    contexts: Contexts, command: str, arguments: tuple[str, ...], told: str
) -> None:
    ran = mooring(command, *arguments, "--kubeconfig", contexts.kubeconfig)
    assert (ran.code, ran.out) == (2, "") and told in ran.err
    assert mooring("explain", "--kubeconfig", contexts.kubeconfig, "--context", "blue", "--context", "blue").code == 0


def test_a_dump_of_a_live_cluster_knows_what_its_controllers_said(contexts: Contexts, tmp_path: Path) -> None:
    """The ReplicaSet wants no pods when the cluster starts, so that no other controller answers before it is changed."""
    dump = tmp_path / "dump.json"
    assert mooring("dump", "-o", dump, "--kubeconfig", contexts.kubeconfig, "--context", "green").code == 0
    written = json.loads(dump.read_text())
    (event,) = [item for item in written["items"] if item.get("reason") == "FailedCreate"]
    assert event["message"] == SAID
    next(item for item in written["items"] if item["kind"] == "ReplicaSet")["spec"]["replicas"] = 2
    dump.write_text(json.dumps(written))
    ran = mooring("explain", "replicaset/web", "--from", dump)
    assert ran.out.splitlines()[1] == f"It should have 2 pods, and its controller could not create them: {SAID}"
    assert ran.code == 1
