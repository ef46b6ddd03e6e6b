"""Binding a pod: as recorded from kube-apiserver, and the refusals that were not recorded."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.api_errors import ApiError
from mooring.apiserver.admission.pod_updates import bind, check_binding

JsonObject = dict[str, Any]
ROWS = json.loads((Path(__file__).parent / "data/admission.json").read_text())["bindings"]
NOW = "2026-11-15T07:17:49Z"
LABELS = {"topology.kubernetes.io/zone": "zone-a", "topology.kubernetes.io/region": "r1", "disk": "ssd"}
NODE = {"metadata": {"name": "n1", "labels": LABELS}}
GATED = {"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "a/b"}]}}


def a_binding(**more: Any) -> JsonObject:
    return {"metadata": {"name": "p", **more}, "target": {"name": "n1"}}


def run(row: JsonObject) -> JsonObject:
    check_binding(row["url_name"], row["binding"])
    before = copy.deepcopy(row["pod"])
    bound = bind(row["pod"], row["binding"], NODE, NOW)
    assert row["pod"] == before, "the stored pod was changed"
    return bound


def without_version(pod: JsonObject) -> JsonObject:
    return {**pod, "metadata": {k: v for k, v in pod["metadata"].items() if k != "resourceVersion"}}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS if row["status"] == 201])
def test_a_pod_is_bound_as_recorded(row: JsonObject) -> None:
    assert without_version(run(row)) == without_version(row["answer"])


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS if row["status"] != 201])
def test_a_binding_is_refused_as_recorded(row: JsonObject) -> None:
    with pytest.raises(ApiError) as caught:
        run(row)
    assert caught.value.status() == row["answer"]


def test_a_gated_pod_is_not_bound() -> None:
    with pytest.raises(ApiError, match="pod p has non-empty .spec.schedulingGates") as caught:
        bind(GATED, a_binding(), NODE, NOW)
    assert caught.value.code == 409


def test_a_pod_that_has_changed_is_not_bound() -> None:
    pod = {"metadata": {"name": "p", "namespace": "default", "resourceVersion": "8"}, "spec": {}}
    with pytest.raises(ApiError) as caught:
        bind(pod, a_binding(resourceVersion="7"), NODE, NOW)
    what = "Precondition failed: ResourceVersion in precondition: 7, ResourceVersion in object meta: 8"
    assert caught.value.message.endswith(what)


def test_a_target_is_a_node_with_a_name() -> None:
    with pytest.raises(ApiError) as caught:
        check_binding("p", {"metadata": {"name": "p"}, "target": {"kind": "Rack"}})
    kinds = 'target.kind: Unsupported value: "Rack": supported values: "Node", "<empty>"'
    assert (caught.value.code, caught.value.message) == (500, f"[{kinds}, target.name: Required value]")


def test_the_node_need_not_exist_and_annotations_of_the_binding_go_to_the_pod() -> None:
    bound = bind({"metadata": {"name": "p"}, "spec": {}}, a_binding(annotations={"a": "b"}), None, NOW)
    assert bound["metadata"] == {"name": "p", "annotations": {"a": "b"}}
    assert bound["spec"] == {"nodeName": "n1"}
