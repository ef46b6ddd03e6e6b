"""A live cluster as a source: on the embedded cluster, what is read equals what is there, and a dump decides the same."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import mooring
from mooring.answers.explain.explain import explain_pod
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.inputs.dumps.contents import dump_text, dumped_objects
from mooring.inputs.input_errors import LiveSourceError, NoKubeconfig
from mooring.inputs.live_source import load_live, read_live
from mooring.inputs.manifests import Manifests
from running_cluster import Neighbour, a_neighbour


def a_pod_written(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "img", "resources": {"requests": {"cpu": cpu}}, "env": [{"name": "A"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


IDLE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "idle", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "idle"}},
        "template": {"metadata": {"labels": {"app": "idle"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": {}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Neighbour]:
    items = (a_pod_written("giant", "500"), a_pod_written("small", "1"), IDLE, SECRET)
    with a_neighbour(3, items) as neighbour:
        scheduled = lambda pod: bool(pod["spec"].get("nodeName"))  # noqa: E731
        neighbour.wait("/api/v1/namespaces/default/pods/small", scheduled)
        neighbour.wait("/api/v1/namespaces/default/pods/giant", lambda pod: bool(pod["status"].get("conditions")))
        path = "/apis/apps/v1/namespaces/default/deployments/idle"
        neighbour.wait(path, lambda item: item.get("status", {}).get("readyReplicas") == 2)
        neighbour.wait("/api/v1/events", lambda events: "FailedScheduling" in json.dumps(events))
        yield neighbour


def read_from(cluster: Neighbour) -> tuple[Manifests, list[str]]:
    return read_live(str(cluster.kubeconfig))


def keys(manifests: Manifests, kind: str) -> set[str]:
    return {manifest.object.key for manifest in manifests.objects if manifest.kind == kind}


def test_all_objects_are_read_and_no_secret(cluster: Neighbour) -> None:
    manifests, notes = read_from(cluster)
    assert notes == []
    served = cluster.ask("GET", "/api/v1/pods").body["items"]
    assert keys(manifests, "Pod") == {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in served}
    assert len(keys(manifests, "Pod")) == 4
    assert len(keys(manifests, "Node")) == 3
    assert {each.kind for each in manifests.workloads} == {"Deployment", "ReplicaSet"}
    assert not keys(manifests, "Secret") and not manifests.ignored
    assert manifests.header is not None and manifests.header.taken_at.endswith("Z")


def test_events_of_pending_pods_are_read(cluster: Neighbour) -> None:
    manifests, _ = read_from(cluster)
    assert {(event.pod_key, event.reason) for event in manifests.events} == {("default/giant", "FailedScheduling")}


def test_a_dump_gives_the_same_decision_as_the_scheduler_of_the_cluster(cluster: Neighbour) -> None:
    manifests, _ = read_from(cluster)
    dump = json.loads(dump_text(dumped_objects(manifests)))
    report = mooring.simulate(dump)
    pod = cluster.ask("GET", "/api/v1/namespaces/default/pods/giant").body
    (condition,) = (each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    assert [(result.pod.name, result.node, result.message) for result in report.pods] == [
        ("giant", "", condition["message"])
    ]


def test_pods_that_come_later_get_the_nodes_that_the_dump_says(cluster: Neighbour) -> None:
    manifests, _ = read_from(cluster)
    coming = [a_pod_written(f"later-{i}", f"{i + 1}") for i in range(4)]
    dump = json.loads(dump_text(dumped_objects(manifests)))
    said = {each.pod.name: each.node for each in mooring.simulate([dump, *coming]).pods if each.node}
    got = {}
    for pod in coming:
        path = "/api/v1/namespaces/default/pods"
        assert cluster.ask("POST", path, pod).code == 201
        name = pod["metadata"]["name"]
        got[name] = cluster.wait(f"{path}/{name}", lambda item: bool(item["spec"].get("nodeName")))["spec"]["nodeName"]
    assert said == got
    assert len({*got.values()}) > 1


def test_python_programs_get_a_cluster_to_ask_about(cluster: Neighbour) -> None:
    loaded = load_live(cluster.kubeconfig)
    assert [pod.key for pod in loaded.pending()] == ["default/giant"]
    explanation = explain_pod(Counterfactual(loaded), loaded.pod("giant"), cures=False)
    assert any("FailedScheduling" in event.text for event in explanation.history)


def test_it_works_where_an_event_loop_runs_as_in_a_notebook(cluster: Neighbour) -> None:
    async def cell() -> int:
        return len(read_from(cluster)[0].objects)

    assert asyncio.run(cell()) > 0


# ---- what can be wrong


def failure(kubeconfig: Path | None, context: str = "") -> str:
    with pytest.raises(LiveSourceError) as raised:
        read_live(None if kubeconfig is None else str(kubeconfig), context)
    return str(raised.value)


def changed(cluster: Neighbour, path: Path, **user: str) -> Path:
    written = yaml.safe_load(cluster.kubeconfig.read_text())
    written["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(written))
    return path


def test_wrong_credentials(cluster: Neighbour, tmp_path: Path) -> None:
    text = failure(changed(cluster, tmp_path / "config", token="wrong"))
    assert text == f"{cluster.server}: the server does not accept the credentials (401); check the user of the context"


def test_an_unknown_context_comes_with_the_nearest_names(cluster: Neighbour) -> None:
    known = yaml.safe_load(cluster.kubeconfig.read_text())["current-context"]
    text = failure(cluster.kubeconfig, known[:-1])
    assert f"no context is named {known[:-1]!r}; did you mean {known}? (there are: {known})" in text


def test_no_server(tmp_path: Path) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    text = failure(tmp_path / "config")
    assert text.startswith("http://127.0.0.1:1: GET /api/v1/pods: cannot connect to 127.0.0.1:1:")


def test_no_such_file(tmp_path: Path) -> None:
    assert "there is no such file" in failure(tmp_path / "none")


def test_no_cluster_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(NoKubeconfig, match="neither"):
        read_live()
