"""Writes of claims and volumes: to the API in this process, and as requests."""

from typing import Any

import pytest

from build_storage import a_claim
from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.kinds import BY_STRUCT
from mooring.apiserver.resource_api import ResourceApi
from mooring.drivers.api_writer import body_of, request_of
from mooring.drivers.embedded_driver import carry_out
from mooring.framework.contract.intents import Write
from mooring.model.devices import ResourceClaim
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim

CLAIMS = BY_STRUCT[PersistentVolumeClaim]
MARK = {"metadata": {"annotations": {"a": "b"}}}


def an_api_with_a_claim() -> ResourceApi:
    api = an_api()
    requests = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": requests, "volumeMode": "Filesystem", "dataSource": None}
    api.create(CLAIMS, "default", {"metadata": {"name": "c", "labels": {"x": "y"}}, "spec": spec})
    return api


def a_patch(body: Any, name: str = "c") -> Write:
    return Write("PATCH", PersistentVolumeClaim, name, "default", body)


def test_a_patch_leaves_the_rest_as_it_is() -> None:
    api = an_api_with_a_claim()
    written = carry_out(api, a_patch(MARK))
    assert isinstance(written, PersistentVolumeClaim)
    live = api.get(CLAIMS, "default", "c")
    assert (live["metadata"]["annotations"], live["metadata"]["labels"]) == ({"a": "b"}, {"x": "y"})
    assert written.metadata.resource_version == live["metadata"]["resourceVersion"]


def test_a_patch_of_another_version_is_refused() -> None:
    api = an_api_with_a_claim()
    with pytest.raises(ApiError) as refused:
        carry_out(api, a_patch({"metadata": {"resourceVersion": "1", "annotations": {"a": "b"}}}))
    assert refused.value.code == 409


def test_what_is_gone_cannot_be_patched() -> None:
    with pytest.raises(ApiError) as refused:
        carry_out(an_api(), a_patch(MARK))
    assert refused.value.code == 404


def test_objects_are_created_replaced_and_deleted() -> None:
    api = an_api()
    claim = a_claim("d", version="", metadata={"uid": ""})
    made = carry_out(api, Write("POST", PersistentVolumeClaim, "d", "default", claim))
    assert made is not None and made.uid
    live = api.get(CLAIMS, "default", "d")
    live["metadata"]["labels"] = {"new": "yes"}
    replaced = carry_out(api, Write("PUT", PersistentVolumeClaim, "d", "default", live))
    assert replaced is not None and replaced.labels == {"new": "yes"}
    assert carry_out(api, Write("DELETE", PersistentVolumeClaim, "d", "default")) is None


def test_requests() -> None:
    merge = "application/merge-patch+json"
    assert request_of(a_patch(MARK)) == ("/api/v1/namespaces/default/persistentvolumeclaims/c", merge)
    volume = Write("PUT", PersistentVolume, "v", body={"spec": {}})
    assert request_of(volume) == ("/api/v1/persistentvolumes/v", "application/json")
    assert body_of(volume) == {"apiVersion": "v1", "kind": "PersistentVolume", "spec": {}}
    status = Write("PUT", ResourceClaim, "r", "ns", {}, "status")
    assert request_of(status)[0] == "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/r/status"
    assert request_of(Write("POST", ResourceClaim, "r", "ns", {}))[0].endswith("/namespaces/ns/resourceclaims")
    assert body_of(a_patch(MARK)) == MARK
    assert body_of(Write("DELETE", PersistentVolume, "v")) == {}
