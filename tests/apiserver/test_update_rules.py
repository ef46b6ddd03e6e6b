"""Which version an update must name, and what a status update takes besides: kube-apiserver v1.37, kind by kind."""

from typing import Any

import pytest

from asking import MERGE_PATCH, PODS, a_body, a_manifest, ask, path_of, the
from cluster_api import an_api
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES

WRITTEN = [r for r in RESOURCES.values() if r.group != "events.k8s.io" and r.schema is None]
WITH_STATUS = [r for r in RESOURCES.values() if "status" in r.subresources and r.schema is None]
NOTHING = object()


def by_name(resource: KindSpec) -> str:
    return resource.plural


def at_version(item: dict[str, Any], version: Any) -> dict[str, Any]:
    metadata = {key: value for key, value in item["metadata"].items() if key != "resourceVersion"}
    metadata |= {"labels": {**metadata.get("labels", {}), "v": str(version)[:5].strip("<>. ") or "empty"}}
    return {**item, "metadata": metadata | ({} if version is NOTHING else {"resourceVersion": version})}


@pytest.mark.parametrize("resource", WRITTEN, ids=by_name)
@pytest.mark.parametrize("version", [NOTHING, "", "0", "00"], ids=["none", "empty", "zero", "zeros"])
def test_an_update_of_whatever_is_there(resource: KindSpec, version: Any) -> None:
    api = an_api()
    held = ask(api, "POST", path_of(resource), a_body(resource, "v")).body
    reply = ask(api, "PUT", path_of(resource, "v"), at_version(held, version))
    if not resource.needs_version:
        assert reply.code == 200, reply.body
        return
    what = f"{resource.plural}.{resource.group}"
    why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert (reply.code, reply.body["message"]) == (422, f'{what} "v" is invalid: {why}')


def test_a_patch_that_names_no_version_is_for_the_present_one() -> None:
    api, leases = an_api(), the("leases")
    ask(api, "POST", path_of(leases), a_body(leases, "v"))
    patch: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}}
    assert ask(api, "PATCH", path_of(leases, "v"), patch, MERGE_PATCH).code == 200
    patch["metadata"]["resourceVersion"] = "0"
    assert ask(api, "PATCH", path_of(leases, "v"), patch, MERGE_PATCH).code == 422


@pytest.mark.parametrize("version", ["1", "18446744073709551615", "0001"])
def test_an_update_of_another_version_is_refused(version: str) -> None:
    api = an_api()
    held = ask(api, "POST", PODS, a_manifest()).body
    assert ask(api, "PUT", f"{PODS}/p", at_version(held, version)).code == 409
    assert ask(api, "PUT", f"{PODS}/p", at_version(held, "00" + held["metadata"]["resourceVersion"])).code == 200


METADATA = {
    "labels": {"a": "b"},
    "annotations": {"c": "d"},
    "finalizers": ["x.y/z"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
}
KEPT = {
    "pods": {"ownerReferences"},
    "deployments": {"labels"},
    "resourceclaims": set(METADATA),
    "volumeattachments": set(METADATA),
    "podgroups": set(METADATA),
    "compositepodgroups": set(METADATA),
    "csinodes": set(METADATA),
    "devicetaintrules": set(METADATA),
}


@pytest.mark.parametrize("resource", WITH_STATUS, ids=by_name)
def test_a_status_patch_takes_metadata_along(resource: KindSpec) -> None:
    api = an_api()
    held = ask(api, "POST", path_of(resource), a_body(resource, "v")).body["metadata"]
    reply = ask(api, "PATCH", path_of(resource, "v", "status"), {"metadata": METADATA}, MERGE_PATCH)
    assert reply.code == 200, reply.body
    made, kept = reply.body["metadata"], KEPT.get(resource.plural, set())
    for key, value in METADATA.items():
        if key in kept:
            assert made.get(key) == held.get(key)
        elif isinstance(value, dict):
            assert made[key].items() >= value.items()
        else:
            assert made[key] == value


def test_a_namespace_keeps_the_label_that_names_it() -> None:
    api, namespaces = an_api(), the("namespaces")
    patch = {"metadata": {"labels": None}}
    reply = ask(api, "PATCH", path_of(namespaces, "default", "status"), patch, MERGE_PATCH)
    assert reply.body["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}


def test_an_object_that_is_too_large_with_the_owners_of_its_fields_is_stored_without_them() -> None:
    api = an_api()
    containers = [{"name": f"c{number}", "image": f"registry.example/{number}:1"} for number in range(8_000)]
    large = ask(api, "POST", PODS, a_manifest("large", spec={"containers": containers}), fieldManager="someone")
    small = ask(api, "POST", PODS, a_manifest("small"), fieldManager="someone")
    assert (large.code, small.code) == (201, 201)
    assert isinstance(large.body, dict) and "managedFields" not in large.body["metadata"]
    assert isinstance(small.body, dict) and "managedFields" in small.body["metadata"]
