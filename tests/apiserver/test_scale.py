"""The scale of a workload: read, replaced, patched, and refused where that makes no sense."""

from typing import Any

import pytest

from asking import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, a_body, ask, path_of, the
from cluster_api import an_api
from mooring.apiserver.resource_api import ResourceApi

SCALED = ["deployments", "replicasets", "statefulsets", "replicationcontrollers"]


def an_api_with(plural: str = "deployments") -> tuple[ResourceApi, str]:
    """One workload of one replica, and where its scale is."""
    api = an_api()
    assert ask(api, "POST", path_of(the(plural)), a_body(the(plural))).code == 201
    return api, path_of(the(plural), "x", "scale")


@pytest.mark.parametrize("plural", SCALED)
def test_the_scale_is_read(plural: str) -> None:
    api, path = an_api_with(plural)
    scale = ask(api, "GET", path).body
    held = ask(api, "GET", path_of(the(plural), "x")).body["metadata"]
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0, "selector": "app=a"})
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert scale["metadata"] == {key: held[key] for key in kept}


@pytest.mark.parametrize("plural", SCALED)
@pytest.mark.parametrize(
    ("method", "body", "media"),
    [
        ("PATCH", {"spec": {"replicas": 5}}, MERGE_PATCH),
        ("PATCH", {"spec": {"replicas": 5}}, STRATEGIC_PATCH),
        ("PATCH", [{"op": "replace", "path": "/spec/replicas", "value": 5}], JSON_PATCH),
        (
            "PUT",
            {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "x"}, "spec": {"replicas": 5}},
            "",
        ),
    ],
)
def test_the_scale_is_written(plural: str, method: str, body: Any, media: str) -> None:
    api, path = an_api_with(plural)
    scale = ask(api, method, path, body, media)
    assert (scale.code, scale.body["kind"], scale.body["spec"]) == (200, "Scale", {"replicas": 5})
    held = ask(api, "GET", path_of(the(plural), "x")).body
    assert (held["spec"]["replicas"], held["metadata"]["generation"]) == (5, 2)
    assert scale.body["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"]


def test_none_at_all_is_a_scale_too() -> None:
    api, path = an_api_with()
    assert ask(api, "PATCH", path, {"spec": {"replicas": 0}}, MERGE_PATCH).body["spec"] == {}
    assert ask(api, "GET", path_of(the("deployments"), "x")).body["spec"]["replicas"] == 0


def test_a_scale_of_another_moment_is_refused() -> None:
    api, path = an_api_with()
    scale = ask(api, "GET", path).body
    assert ask(api, "PUT", path, {**scale, "spec": {"replicas": 2}}).code == 200
    assert ask(api, "PUT", path, {**scale, "spec": {"replicas": 3}}).code == 409


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": "3"}}, 400),
        ({"spec": {"replicas": 1.5}}, 400),
        ({"spec": {"replicas": True}}, 400),
        ({"spec": {"replicas": 2**31}}, 400),
        ({"spec": "x"}, 400),
        ({"spec": [5]}, 400),
        ({"metadata": [5]}, 400),
        ({"kind": "Pod"}, 400),
        ({"metadata": {"resourceVersion": "abc"}}, 500),
    ],
    ids=str,
)
def test_a_scale_that_makes_no_sense_is_refused(body: dict[str, Any], code: int) -> None:
    api, path = an_api_with()
    version = api.store.version
    for method, media in (("PUT", ""), ("PATCH", MERGE_PATCH)):
        assert ask(api, method, path, body, media).code == code
    assert api.store.version == version


def test_who_has_no_scale() -> None:
    api = an_api()
    ask(api, "POST", path_of(the("daemonsets")), a_body(the("daemonsets")))
    assert ask(api, "GET", path_of(the("daemonsets"), "x", "scale")).code == 404
    assert ask(api, "GET", path_of(the("deployments"), "none", "scale")).code == 404
