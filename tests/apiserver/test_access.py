"""Objects as clients change them: who comes first, what may be meant, and what a dry run leaves alone."""

import json
from typing import Any

import pytest

from asking import (
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE_PATCH,
    NODES,
    PODS,
    STRATEGIC_PATCH,
    a_manifest,
    ask,
    begin,
    heard,
)
from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.kinds import RESOURCES
from mooring.apiserver.resource_api import ResourceApi

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def an_api_with_a_pod(**spec: Any) -> ResourceApi:
    api = an_api()
    body = a_manifest()
    body["spec"] |= spec
    assert ask(api, "POST", PODS, body).code == 201
    return api


def the_pod(api: ResourceApi) -> dict[str, Any]:
    pod: dict[str, Any] = ask(api, "GET", f"{PODS}/p").body
    return pod


# ---- who comes first


def test_a_replacement_must_have_seen_the_latest_version() -> None:
    api = an_api()
    first = ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"n": "1"}}).body
    assert ask(api, "PUT", f"{CONFIG_MAPS}/c", {**first, "data": {"n": "2"}}).code == 200
    reply = ask(api, "PUT", f"{CONFIG_MAPS}/c", {**first, "data": {"n": "3"}})
    assert (reply.code, reply.body["reason"]) == (409, "Conflict")
    assert reply.body["message"] == f'Operation cannot be fulfilled on configmaps "c": {MODIFIED}'
    assert ask(api, "GET", f"{CONFIG_MAPS}/c").body["data"] == {"n": "2"}


def test_a_replacement_that_names_no_version_wins() -> None:
    api = an_api()
    ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"n": "1"}})
    assert ask(api, "PUT", f"{CONFIG_MAPS}/c", {"metadata": {"name": "c"}, "data": {"n": "2"}}).code == 200


@pytest.mark.parametrize("media", [MERGE_PATCH, STRATEGIC_PATCH])
def test_a_patch_may_name_the_version_that_it_means(media: str) -> None:
    api = an_api_with_a_pod()
    version = the_pod(api)["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}
    assert ask(api, "PATCH", f"{PODS}/p", patch, media).code == 200
    patch["metadata"]["labels"] = {"a": "c"}
    assert ask(api, "PATCH", f"{PODS}/p", patch, media).code == 409


@pytest.mark.parametrize("version", ["abc", "-1", "1.5", "\N{ARABIC-INDIC DIGIT THREE}", "9" * 5000])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    api = an_api_with_a_pod()
    reply = ask(api, "PATCH", f"{PODS}/p", {"metadata": {"resourceVersion": version}}, MERGE_PATCH)
    why = "value out of range" if version.startswith("9") else "invalid syntax"
    shown = json.dumps(version, ensure_ascii=False)
    assert (reply.code, reply.body["message"]) == (500, f"strconv.ParseUint: parsing {shown}: {why}")
    assert "reason" not in reply.body


def test_of_two_writers_with_the_same_view_one_wins() -> None:
    api = an_api()
    lease = ask(api, "POST", LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "nobody"}}).body
    codes = [
        ask(api, "PUT", f"{LEASES}/l", {**lease, "spec": {"holderIdentity": who}}).code for who in ("me", "you", "them")
    ]
    assert codes == [200, 409, 409]
    assert ask(api, "GET", f"{LEASES}/l").body["spec"]["holderIdentity"] == "me"


def test_a_write_that_changes_nothing_makes_no_version() -> None:
    api = an_api_with_a_pod()
    pod, version = the_pod(api), api.store.version
    assert ask(api, "PUT", f"{PODS}/p", pod).code == 200
    assert ask(api, "PATCH", f"{PODS}/p", {}, MERGE_PATCH).code == 200
    assert ask(api, "PATCH", f"{PODS}/p", [], JSON_PATCH).code == 200
    assert api.store.version == version


@pytest.mark.parametrize("media", [MERGE_PATCH, STRATEGIC_PATCH])
def test_a_patch_that_means_another_object_of_that_name_is_refused(media: str) -> None:
    api = an_api_with_a_pod()
    for part in ("", "/status"):
        reply = ask(api, "PATCH", f"{PODS}/p{part}", {"metadata": {"uid": "another"}}, media)
        assert (reply.code, reply.body["reason"]) == (409, "Conflict")
        assert "Precondition failed: UID in precondition: another" in reply.body["message"]


def test_an_object_cannot_be_renamed_or_moved() -> None:
    api = an_api_with_a_pod()
    reply = ask(api, "PATCH", f"{PODS}/p", {"metadata": {"name": "q"}}, MERGE_PATCH)
    assert (reply.code, reply.body["message"]) == (
        400,
        "the name of the object (q) does not match the name on the URL (p)",
    )
    reply = ask(api, "PATCH", f"{PODS}/p", {"metadata": {"namespace": "kube-system"}}, MERGE_PATCH)
    assert (reply.code, reply.body["message"]) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


def test_what_the_server_owns_cannot_be_written() -> None:
    api = an_api_with_a_pod()
    before = the_pod(api)["metadata"]
    owned = {
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 99,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/somewhere",
    }
    after = ask(api, "PATCH", f"{PODS}/p", {"metadata": owned}, MERGE_PATCH).body["metadata"]
    assert {key: after.get(key) for key in owned if key != "selfLink"} == {
        key: before.get(key) for key in owned if key != "selfLink"
    }


# ---- names


def test_a_generated_name_is_tried_again_when_it_is_taken() -> None:
    api = an_api()
    suffixes = iter(["aaaaa", "aaaaa", "aaaaa", "bbbbb"])
    api.random_suffix = lambda: next(suffixes)
    names = [
        ask(api, "POST", CONFIG_MAPS, {"metadata": {"generateName": "c-"}}).body["metadata"]["name"] for _ in range(2)
    ]
    assert names == ["c-aaaaa", "c-bbbbb"]


def test_a_generated_name_that_is_always_taken_is_a_conflict() -> None:
    api = an_api()
    api.random_suffix = lambda: "aaaaa"
    codes = [ask(api, "POST", CONFIG_MAPS, {"metadata": {"generateName": "c-"}}).code for _ in range(2)]
    assert codes == [201, 409]


def test_a_name_that_is_taken() -> None:
    api = an_api_with_a_pod()
    reply = ask(api, "POST", PODS, a_manifest())
    assert (reply.code, reply.body["reason"]) == (409, "AlreadyExists")
    assert reply.body["message"] == 'pods "p" already exists'
    assert reply.body["details"] == {"name": "p", "kind": "pods"}


def test_a_namespace_that_is_not_there() -> None:
    reply = ask(an_api(), "POST", "/api/v1/namespaces/nope/pods", a_manifest())
    assert (reply.code, reply.body["message"]) == (404, 'namespaces "nope" not found')


# ---- dry runs

WAYS: list[tuple[str, str, str, Any, str, int]] = [
    ("create", "POST", PODS, a_manifest("new"), "", 201),
    ("replace", "PUT", f"{PODS}/p", a_manifest() | {"metadata": {"name": "p", "labels": {"a": "b"}}}, "", 200),
    ("merge", "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH, 200),
    ("strategic", "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC_PATCH, 200),
    ("json", "PATCH", f"{PODS}/p", [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], JSON_PATCH, 200),
    ("status", "PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, MERGE_PATCH, 200),
    ("bind", "POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}}, "", 201),
    ("evict", "POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}, "", 201),
    ("delete", "DELETE", f"{PODS}/p", None, "", 200),
    ("delete all", "DELETE", PODS, None, "", 200),
    (
        "scale",
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/d/scale",
        {"spec": {"replicas": 9}},
        MERGE_PATCH,
        200,
    ),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "media", "code"), [way[1:] for way in WAYS], ids=[w[0] for w in WAYS]
)
def test_a_dry_run_changes_nothing(method: str, path: str, body: Any, media: str, code: int) -> None:
    api = an_api_with_a_pod()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    assert ask(api, "POST", deployments, {"metadata": {"name": "d"}, "spec": spec}).code == 201
    before, version = the_pod(api), api.store.version
    reply = ask(api, method, path, body, media, dryRun="All")
    assert reply.code == code, reply.body
    assert (the_pod(api), api.store.version) == (before, version)
    assert ask(api, "GET", f"{deployments}/d").body["spec"]["replicas"] == 1
    assert ask(api, method, path, body, media).code == code
    assert api.store.version > version, "this way of writing does nothing even when it is meant"


def test_a_dry_run_is_refused_as_the_real_thing_would_be() -> None:
    api = an_api_with_a_pod()
    assert ask(api, "POST", PODS, a_manifest(), dryRun="All").code == 409
    assert ask(api, "POST", PODS, {"metadata": {"name": "q"}, "spec": {}}, dryRun="All").code == 422
    assert ask(api, "DELETE", f"{PODS}/q", dryRun="All").code == 404


# ---- parts of objects


def test_status_and_the_rest_are_written_apart() -> None:
    api = an_api_with_a_pod()
    both: dict[str, Any] = {"spec": {"activeDeadlineSeconds": 5}, "status": {"message": "hm"}}
    ask(api, "PATCH", f"{PODS}/p/status", both, MERGE_PATCH)
    pod = the_pod(api)
    assert ("activeDeadlineSeconds" in pod["spec"], pod["status"]["message"]) == (False, "hm")
    both["status"]["message"] = "well"
    ask(api, "PATCH", f"{PODS}/p", both, MERGE_PATCH)
    pod = the_pod(api)
    assert (pod["spec"]["activeDeadlineSeconds"], pod["status"]["message"]) == (5, "hm")


def test_ephemeral_containers_come_by_their_own_part() -> None:
    api = an_api_with_a_pod()
    patch = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}], "activeDeadlineSeconds": 5}}
    made = ask(api, "PATCH", f"{PODS}/p/ephemeralcontainers", patch, STRATEGIC_PATCH).body
    assert [c["name"] for c in made["spec"]["ephemeralContainers"]] == ["debug"]
    assert "activeDeadlineSeconds" not in made["spec"]
    assert made["metadata"]["generation"] == 2


def test_a_resize_changes_resources_and_nothing_else() -> None:
    containers = [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "1"}}}, {"name": "b", "image": "y"}]
    api = an_api_with_a_pod(containers=containers)
    patch = {"spec": {"containers": [{"name": "a", "image": "z", "resources": {"requests": {"cpu": "2"}}}]}}
    made = ask(api, "PATCH", f"{PODS}/p/resize", patch, STRATEGIC_PATCH).body
    assert [(c["name"], c["image"], c["resources"]) for c in made["spec"]["containers"]] == [
        ("a", "x", {"requests": {"cpu": "2"}}),
        ("b", "y", {}),
    ]


def test_a_resize_that_names_one_container_leaves_the_others_as_they_are() -> None:
    containers = [{"name": name, "image": "x", "resources": {"requests": {"cpu": "1"}}} for name in ("a", "b")]
    api = an_api_with_a_pod(containers=containers)
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}}
    made = ask(api, "PUT", f"{PODS}/p/resize", body).body
    assert [c["resources"]["requests"]["cpu"] for c in made["spec"]["containers"]] == ["2", "1"]


def test_a_resize_to_nonsense_is_refused() -> None:
    api = an_api_with_a_pod()
    patch = {
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}
    }
    assert ask(api, "PATCH", f"{PODS}/p/resize", patch, STRATEGIC_PATCH).code == 422


def test_a_namespace_goes_when_it_is_finalized() -> None:
    api = an_api()
    made = ask(api, "POST", "/api/v1/namespaces", {"metadata": {"name": "n"}}).body
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    gone = ask(api, "DELETE", "/api/v1/namespaces/n").body
    assert (gone["status"]["phase"], "deletionTimestamp" in gone["metadata"]) == ("Terminating", True)
    refused = ask(api, "POST", "/api/v1/namespaces/n/pods", a_manifest())
    assert (refused.code, refused.body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    assert ask(api, "PUT", "/api/v1/namespaces/n/finalize", {"metadata": {"name": "n"}, "spec": {}}).code == 200
    assert ask(api, "GET", "/api/v1/namespaces/n").code == 404


# ---- binding


def a_binding(node: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", **metadata}, "target": {"kind": "Node", "name": node}}


def test_a_pod_is_bound_once() -> None:
    api = an_api_with_a_pod()
    replies = [ask(api, "POST", f"{PODS}/p/binding", a_binding(node)) for node in ("n1", "n2")]
    assert [reply.code for reply in replies] == [201, 409]
    assert replies[0].body == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert replies[1].body["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )
    pod = the_pod(api)
    assert (pod["spec"]["nodeName"], pod["metadata"]["generation"]) == ("n1", 1)


def test_a_binding_that_means_another_pod_is_refused() -> None:
    api = an_api_with_a_pod()
    assert ask(api, "POST", f"{PODS}/p/binding", a_binding("n", uid="another")).code == 409
    assert "nodeName" not in the_pod(api)["spec"]


def test_the_older_way_to_bind() -> None:
    api = an_api_with_a_pod()
    assert ask(api, "POST", "/api/v1/namespaces/default/bindings", a_binding("n1")).code == 201
    assert the_pod(api)["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("target", [{}, {"kind": "Node"}, {"kind": "Pod", "name": "n"}, None])
def test_a_binding_without_a_proper_target(target: Any) -> None:
    """Parity: kube-apiserver answers 500 without a reason."""
    api = an_api_with_a_pod()
    reply = ask(api, "POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target})
    assert (reply.code, "reason" in reply.body) == (500, False)


# ---- from inside this process


def test_a_status_from_inside_is_for_the_object_that_was_seen() -> None:
    api = an_api_with_a_pod()
    pods = RESOURCES["", "v1", "pods"]
    seen = api.get(pods, "default", "p")
    ask(api, "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
    made = api.put_status(pods, seen, {"phase": "Running"})
    assert (made["metadata"]["labels"], made["status"]) == ({"a": "b"}, {"phase": "Running"})
    ask(api, "DELETE", f"{PODS}/p")
    ask(api, "POST", PODS, a_manifest())
    with pytest.raises(ApiError, match='pods "p" not found'):
        api.put_status(pods, seen, {"phase": "Running"})


def test_new_nodes_are_tainted_where_that_is_wanted() -> None:
    api = an_api(taints_new_nodes=True)
    made = ask(
        api, "POST", NODES, {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    )
    assert [taint["key"] for taint in made.body["spec"]["taints"]] == ["k", "node.kubernetes.io/not-ready"]


def test_one_listener_that_fails_does_not_cost_the_others_a_write() -> None:
    api = an_api()
    told: list[int] = []

    def fail(write: Any) -> None:
        raise RuntimeError("a bug")

    api.store.listen(fail)
    api.store.listen(lambda write: told.append(write.version))
    watch = begin(api, CONFIG_MAPS)
    with pytest.raises(RuntimeError, match="a bug"):
        ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
    assert told == [api.store.version]
    assert [event["type"] for event in heard(watch)] == ["ADDED"]
