"""Pods of one template are made once and then copied: the copies are as if each had been made by itself."""

from typing import Any

import pytest

from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.pods import POD as PODS
from mooring.apiserver.resource_api import ResourceApi

LIMITS, CLASSES = RESOURCES["", "v1", "limitranges"], RESOURCES["scheduling.k8s.io", "v1", "priorityclasses"]
OWN = ("name", "uid", "resourceVersion")


def a_spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x:1", "resources": {"limits": {"cpu": "500m"}}}], **more}


def a_pod(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"generateName": "p-", "labels": {"app": "a"}, **metadata}, "spec": spec}


def plain(pod: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in pod["metadata"].items() if key not in OWN}
    return {**pod, "metadata": metadata}


@pytest.mark.parametrize(
    "metadata",
    [{}, {"name": "given"}, {"labels": {"app": "b"}}, {"annotations": {"a": "b"}}, {"finalizers": ["a.b/c"]}],
    ids=["the same", "a name", "other labels", "annotations", "finalizers"],
)
def test_a_copy_is_like_one_made_by_itself(metadata: dict[str, Any]) -> None:
    """A copied spec is another object each time, so each of those is looked at anew."""
    spec, api, other = a_spec(), an_api(), an_api()
    api.create(PODS, "default", a_pod(spec))
    second = api.create(PODS, "default", a_pod(spec, **metadata))
    other.create(PODS, "default", a_pod(a_spec()))
    assert plain(second) == plain(other.create(PODS, "default", a_pod(a_spec(), **metadata)))


def test_copies_have_names_uids_and_statuses_of_their_own() -> None:
    spec, api = a_spec(), an_api()
    first, second = (api.create(PODS, "default", a_pod(spec)) for _ in range(2))
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert first["status"] is not second["status"]


def _limit(api: ResourceApi) -> None:
    item = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]}}
    api.create(LIMITS, "default", item)


def test_a_new_limit_range_is_heeded() -> None:
    spec, api = a_spec(), an_api()
    api.create(PODS, "default", a_pod(spec))
    _limit(api)
    pod = api.create(PODS, "default", a_pod(spec))
    assert pod["spec"]["containers"][0]["resources"]["requests"]["memory"] == "1Gi"


def test_a_priority_class_that_goes_is_missed() -> None:
    spec, api = a_spec(priorityClassName="high"), an_api()
    api.create(CLASSES, "", {"metadata": {"name": "high"}, "value": 7})
    assert api.create(PODS, "default", a_pod(spec))["spec"]["priority"] == 7
    api.delete(CLASSES, "", "high")
    with pytest.raises(ApiError, match="no PriorityClass with name high"):
        api.create(PODS, "default", a_pod(spec))


@pytest.mark.parametrize("namespace", ["kube-system", "nowhere"])
def test_another_namespace_is_another_matter(namespace: str) -> None:
    spec, api = a_spec(), an_api()
    _limit(api)
    api.create(PODS, "default", a_pod(spec))
    if namespace == "nowhere":
        with pytest.raises(ApiError, match='namespaces "nowhere" not found'):
            api.create(PODS, namespace, a_pod(spec))
    else:
        resources = api.create(PODS, namespace, a_pod(spec))["spec"]["containers"][0]["resources"]
        assert "memory" not in resources["requests"]


@pytest.mark.parametrize("name", ["Not a name", "x" * 300, ""])
def test_a_bad_name_is_refused_as_ever(name: str) -> None:
    spec, api = a_spec(), an_api()
    api.create(PODS, "default", a_pod(spec))
    with pytest.raises(ApiError) as refused:
        api.create(PODS, "default", {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec})
    assert refused.value.code == 422


def test_gated_pods_say_when_they_were_gated() -> None:
    spec, api = a_spec(schedulingGates=[{"name": "g"}]), an_api()
    first, second = (api.create(PODS, "default", a_pod(spec)) for _ in range(2))
    assert first["status"]["conditions"] is not second["status"]["conditions"]
