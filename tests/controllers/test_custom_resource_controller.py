"""The life of definitions and custom objects: names that become free, deletion, owners and namespaces."""

from typing import Any

import pytest

from asking import MERGE_PATCH, ask
from custom_definitions import DEFINITIONS, WIDGETS, a_definition, a_widget, with_definition
from living_cluster import LivingCluster
from mooring.controllers.cluster_writes import PODS
from mooring.controllers.lifecycle import custom_resources

WIDGET_DEFINITION = f"{DEFINITIONS}/widgets.example.com"


@pytest.fixture
def cluster() -> LivingCluster:
    made = LivingCluster()
    with_definition(made.api)
    made.wait(0)
    return made


def create(cluster: LivingCluster, name: str, **metadata: Any) -> dict[str, Any]:
    widget = a_widget(name)
    widget["metadata"] |= metadata
    reply = ask(cluster.api, "POST", WIDGETS, widget)
    assert reply.code == 201, reply.body
    cluster.wait(0)
    return reply.body  # type: ignore[no-any-return]


def test_a_definition_goes_after_its_objects(cluster: LivingCluster) -> None:
    create(cluster, "free")
    create(cluster, "held", finalizers=["example.com/hold"])
    reply = ask(cluster.api, "DELETE", WIDGET_DEFINITION)
    assert reply.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    refused = ask(cluster.api, "POST", WIDGETS, a_widget("late"))
    assert "create not allowed while custom resource definition is terminating" in refused.body["message"]
    cluster.wait(1)
    assert ask(cluster.api, "GET", f"{WIDGETS}/free").code == 404
    status = ask(cluster.api, "GET", WIDGET_DEFINITION).body["status"]
    assert status["conditions"][-1]["reason"] == "InstanceDeletionInProgress"
    ask(cluster.api, "PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    cluster.wait(1)
    assert ask(cluster.api, "GET", WIDGET_DEFINITION).code == 404
    assert ask(cluster.api, "GET", WIDGETS).code == 404
    assert ask(cluster.api, "GET", "/apis/example.com").code == 404


def test_many_objects_go_with_their_definition(cluster: LivingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom_resources, "MOST_A_STEP", 10)
    for i in range(25):
        ask(cluster.api, "POST", WIDGETS, a_widget(f"w{i}"))
    ask(cluster.api, "DELETE", WIDGET_DEFINITION)
    cluster.wait(1)
    assert cluster.api.store.count("example.com/widgets") == 0
    assert ask(cluster.api, "GET", WIDGET_DEFINITION).code == 404


def test_a_name_that_becomes_free_is_accepted(cluster: LivingCluster) -> None:
    names = {"plural": "wits", "kind": "Wit", "shortNames": ["wi"]}
    with_definition(cluster.api, a_definition("wits", names=names))
    cluster.wait(0)
    assert ask(cluster.api, "GET", "/apis/example.com/v1/wits").code == 404
    ask(cluster.api, "DELETE", WIDGET_DEFINITION)
    cluster.wait(1)
    assert ask(cluster.api, "GET", "/apis/example.com/v1/wits").code == 200


def test_changed_names_are_served(cluster: LivingCluster) -> None:
    ask(cluster.api, "PATCH", WIDGET_DEFINITION, {"spec": {"names": {"shortNames": ["ww"]}}}, MERGE_PATCH)
    cluster.wait(0)
    assert ask(cluster.api, "GET", "/apis/example.com/v1").body["resources"][0]["shortNames"] == ["ww"]


def test_custom_objects_own_and_are_owned(cluster: LivingCluster) -> None:
    def owned_by(owner: dict[str, Any]) -> list[dict[str, Any]]:
        meta = owner["metadata"]
        return [{"apiVersion": "example.com/v1", "kind": "Widget", "name": meta["name"], "uid": meta["uid"]}]

    owner = create(cluster, "owner")
    create(cluster, "dependent", ownerReferences=owned_by(owner))
    pod = {"metadata": {"name": "p", "ownerReferences": owned_by(owner)}}
    cluster.api.create(PODS, "default", pod | {"spec": {"containers": [{"name": "c", "image": "x"}]}})
    cluster.wait(1)
    assert cluster.find("pods", "p"), "its owner exists"
    ask(cluster.api, "DELETE", f"{WIDGETS}/owner")
    cluster.wait(1)
    assert ask(cluster.api, "GET", f"{WIDGETS}/dependent").code == 404
    assert cluster.find("pods", "p") is None


def test_a_namespace_takes_its_custom_objects_along(cluster: LivingCluster) -> None:
    cluster.create("namespaces", "team")
    assert ask(cluster.api, "POST", WIDGETS.replace("default", "team"), a_widget()).code == 201
    cluster.delete("namespaces", "team")
    cluster.wait(1)
    assert cluster.find("namespaces", "team") is None
    assert cluster.api.store.count("example.com/widgets") == 0
