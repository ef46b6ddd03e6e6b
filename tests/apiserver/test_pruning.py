"""Fields that a kind does not have are never stored, wherever they are; maps of the user's own are left alone."""

from typing import Any

import pytest

from asking import (
    APPLY_PATCH,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE_PATCH,
    PODS,
    STRATEGIC_PATCH,
    a_body,
    a_manifest,
    ask,
    the,
)
from cluster_api import an_api
from mooring.api.fields import pruned
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES

POD = the("pods")


def test_unknown_fields_go_at_every_depth() -> None:
    odd = a_manifest(extra=1)
    odd["metadata"]["extra"] = 1
    odd["spec"]["extra"] = {"a": 1}
    odd["spec"]["containers"][0]["extra"] = [1]
    odd["spec"]["containers"][0]["resources"] = {"requests": {"example.com/any": "1"}, "extra": 1}
    left = pruned(POD, odd)
    assert left["metadata"] == {"name": "p"}
    assert left["spec"] == {
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"example.com/any": "1"}}}]
    }
    assert "extra" not in left
    assert "extra" in odd, "what came in is not changed"


def test_maps_hold_any_key() -> None:
    item: dict[str, Any] = {"metadata": {"labels": {"extra": "1"}, "annotations": {"spec": "2"}}, "data": {"kind": "3"}}
    assert pruned(the("configmaps"), item) == item


def test_values_of_the_wrong_form_are_for_others_to_refuse() -> None:
    item: dict[str, Any] = {"metadata": "x", "spec": [{"extra": 1}]}
    assert pruned(POD, item) == item


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda r: f"{r.group}/{r.plural}")
def test_nothing_that_a_kind_has_is_lost(resource: KindSpec) -> None:
    assert pruned(resource, a_body(resource)) == a_body(resource)


@pytest.mark.parametrize("policy", ["Ignore", "Warn"])
def test_no_way_of_writing_stores_them(policy: str) -> None:
    api = an_api()
    extra = {"spec": {"extra": 1}}
    assert ask(api, "POST", PODS, a_manifest(extra=1), fieldValidation=policy).code == 201
    ask(api, "PATCH", f"{PODS}/p", extra, MERGE_PATCH, fieldValidation=policy)
    ask(api, "PATCH", f"{PODS}/p", extra, STRATEGIC_PATCH, fieldValidation=policy)
    operation = {"op": "add", "path": "/spec/extra", "value": 1}
    ask(api, "PATCH", f"{PODS}/p", [operation], JSON_PATCH, fieldValidation=policy)
    ask(api, "PUT", f"{PODS}/p", {**ask(api, "GET", f"{PODS}/p").body, "extra": 1}, fieldValidation=policy)
    (pod,) = api.store.all("/pods")
    assert "extra" not in pod
    assert "extra" not in pod["spec"]


def test_who_applies_is_always_told() -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "extra": 1}
    reply = ask(an_api(), "PATCH", f"{CONFIG_MAPS}/c", body, APPLY_PATCH, fieldManager="me")
    assert reply.code >= 400
    assert "extra" in reply.body["message"]
