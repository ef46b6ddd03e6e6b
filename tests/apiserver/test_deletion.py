"""How objects end: at once, after their grace, with their last finalizer, or not at all."""

from typing import Any

import pytest

from asking import CONFIG_MAPS, JSON_PATCH, MERGE_PATCH, PODS, a_manifest, ask, begin, heard
from cluster_api import an_api
from mooring.apiserver.resource_api import ResourceApi
from mooring.kit.clock import NS_PER_S, VirtualClock

NOW, IN_30_S, IN_5_S = "2027-01-15T08:00:00Z", "2027-01-15T08:00:30Z", "2027-01-15T08:00:05Z"


def an_api_with_a_pod(node: str = "n", phase: str = "Running", **metadata: Any) -> ResourceApi:
    api = an_api()
    body = a_manifest()
    body["metadata"] |= metadata
    assert ask(api, "POST", PODS, body).code == 201
    if node:
        ask(api, "POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": node}})
        ask(api, "PATCH", f"{PODS}/p/status", {"status": {"phase": phase}}, MERGE_PATCH)
    return api


def is_there(api: ResourceApi, path: str = f"{PODS}/p") -> bool:
    return ask(api, "GET", path).code == 200


# ---- grace


def test_a_pod_that_runs_is_given_its_grace() -> None:
    api = an_api_with_a_pod()
    generation = ask(api, "GET", f"{PODS}/p").body["metadata"]["generation"]
    watch = begin(api, PODS, resourceVersion=api.store.version)
    pod = ask(api, "DELETE", f"{PODS}/p").body
    assert pod["kind"] == "Pod"
    meta = pod["metadata"]
    assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == (IN_30_S, 30)
    assert meta["generation"] == generation + 1
    assert [event["type"] for event in heard(watch)] == ["MODIFIED"]
    assert ask(api, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0}).code == 200
    assert [event["type"] for event in heard(watch)][-1] == "DELETED"
    assert not is_there(api)


@pytest.mark.parametrize(
    ("node", "phase"), [("", "Pending"), ("n", "Succeeded"), ("n", "Failed")], ids=["no node", "succeeded", "failed"]
)
def test_nobody_waits_for_a_pod_that_does_not_run(node: str, phase: str) -> None:
    api = an_api_with_a_pod(node, phase)
    assert ask(api, "DELETE", f"{PODS}/p").body["kind"] == "Pod"
    assert not is_there(api)


def test_asking_again_can_make_it_shorter_but_not_longer() -> None:
    api = an_api_with_a_pod()
    moments = [
        ask(api, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": grace_s}).body["metadata"]["deletionTimestamp"]
        for grace_s in (30, 300, 5, 30)
    ]
    assert moments == [IN_30_S, IN_30_S, IN_5_S, IN_5_S]


def test_asking_again_is_no_other_generation() -> None:
    api = an_api_with_a_pod()
    generations = [ask(api, "DELETE", f"{PODS}/p").body["metadata"]["generation"] for _ in range(3)]
    assert generations[0] == generations[1] == generations[2]


@pytest.mark.parametrize("grace_s", [2**62, 10**17])
def test_a_grace_beyond_all_dates_is_taken(grace_s: int) -> None:
    api = an_api_with_a_pod()
    reply = ask(api, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": grace_s})
    assert (reply.code, reply.body["metadata"]["deletionGracePeriodSeconds"]) == (200, grace_s)
    assert is_there(api)


def test_a_grace_that_is_no_number_is_refused() -> None:
    api = an_api_with_a_pod()
    assert ask(api, "DELETE", f"{PODS}/p", gracePeriodSeconds="soon").code == 400
    assert ask(api, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": "soon"}).code == 400
    assert "deletionTimestamp" not in ask(api, "GET", f"{PODS}/p").body["metadata"]


def test_the_grace_may_be_in_the_query() -> None:
    api = an_api_with_a_pod()
    assert ask(api, "DELETE", f"{PODS}/p", gracePeriodSeconds=5).body["metadata"]["deletionTimestamp"] == IN_5_S


def test_a_pod_cannot_be_bound_on_its_way_out() -> None:
    api = an_api()
    body = a_manifest()
    body["metadata"]["finalizers"] = ["example.com/held"]
    ask(api, "POST", PODS, body)
    ask(api, "DELETE", f"{PODS}/p")
    reply = ask(api, "POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    assert (reply.code, reply.body["message"]) == (
        409,
        'Operation cannot be fulfilled on pods/binding "p": pod p is being deleted, cannot be assigned to a host',
    )


# ---- finalizers


def test_finalizers_hold_an_object_until_the_last_is_gone() -> None:
    api = an_api()
    body = {"metadata": {"name": "c", "finalizers": ["example.com/a", "example.com/b"]}}
    ask(api, "POST", CONFIG_MAPS, body)
    watch = begin(api, CONFIG_MAPS, resourceVersion=api.store.version)
    held = ask(api, "DELETE", f"{CONFIG_MAPS}/c").body
    assert (held["kind"], held["metadata"]["deletionTimestamp"]) == ("ConfigMap", NOW)
    for finalizers in (["example.com/b"], []):
        assert is_there(api, f"{CONFIG_MAPS}/c")
        ask(api, "PATCH", f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": finalizers}}, MERGE_PATCH)
    assert not is_there(api, f"{CONFIG_MAPS}/c")
    assert [event["type"] for event in heard(watch)] == ["MODIFIED", "MODIFIED", "DELETED"]


def test_finalizers_and_grace_both_hold_a_pod() -> None:
    api = an_api_with_a_pod(finalizers=["example.com/a"])
    ask(api, "DELETE", f"{PODS}/p")
    ask(api, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert is_there(api)
    ask(api, "PATCH", f"{PODS}/p", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
    assert not is_there(api)


def test_finalizers_taken_away_within_the_grace_do_not_end_it() -> None:
    api = an_api_with_a_pod(finalizers=["example.com/a"])
    ask(api, "DELETE", f"{PODS}/p")
    ask(api, "PATCH", f"{PODS}/p", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
    assert is_there(api)


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, ["orphan"]),
        ({"orphanDependents": True}, ["orphan"]),
    ],
)
def test_dependents_are_for_the_collector(options: dict[str, Any], finalizers: list[str]) -> None:
    api = an_api()
    ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
    assert ask(api, "DELETE", f"{CONFIG_MAPS}/c", options).body["metadata"]["finalizers"] == finalizers
    assert is_there(api, f"{CONFIG_MAPS}/c")
    ask(api, "DELETE", f"{CONFIG_MAPS}/c", {"propagationPolicy": "Background"})
    assert not is_there(api, f"{CONFIG_MAPS}/c")


@pytest.mark.parametrize(
    "options", [{"propagationPolicy": "Sideways"}, {"propagationPolicy": "Orphan", "orphanDependents": True}]
)
def test_odd_propagation_is_refused(options: dict[str, Any]) -> None:
    api = an_api()
    ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
    assert ask(api, "DELETE", f"{CONFIG_MAPS}/c", options).code == 422
    assert is_there(api, f"{CONFIG_MAPS}/c")


# ---- preconditions


@pytest.mark.parametrize(
    ("preconditions", "what"), [({"uid": "another"}, "UID"), ({"resourceVersion": "1"}, "ResourceVersion")]
)
def test_preconditions_must_hold(preconditions: dict[str, str], what: str) -> None:
    api = an_api_with_a_pod()
    reply = ask(api, "DELETE", f"{PODS}/p", {"preconditions": preconditions})
    assert (reply.code, reply.body["reason"]) == (409, "Conflict")
    assert (
        f"the {what} in the precondition ({next(iter(preconditions.values()))}) does not match" in reply.body["message"]
    )


def test_preconditions_that_hold_or_are_null() -> None:
    api = an_api_with_a_pod(node="")
    uid = ask(api, "GET", f"{PODS}/p").body["metadata"]["uid"]
    assert ask(api, "DELETE", f"{PODS}/p", {"preconditions": {"uid": uid, "resourceVersion": None}}).code == 200
    assert not is_there(api)


# ---- what is answered


def test_most_kinds_are_answered_with_a_status() -> None:
    api = an_api()
    uid = ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}}).body["metadata"]["uid"]
    assert ask(api, "DELETE", f"{CONFIG_MAPS}/c").body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "c", "kind": "configmaps", "uid": uid},
    }


# ---- collections


def test_of_a_collection_what_a_selector_picks_is_deleted() -> None:
    api = an_api()
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": name, "labels": {"color": color}}})
    reply = ask(api, "DELETE", CONFIG_MAPS, labelSelector="color=red")
    assert (reply.code, reply.body["kind"]) == (200, "ConfigMapList")
    assert [item["metadata"]["name"] for item in reply.body["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in api.store.all("/configmaps")] == ["b"]
    ask(api, "DELETE", CONFIG_MAPS, fieldSelector="metadata.name!=b")
    assert api.store.count("/configmaps") == 1
    ask(api, "DELETE", CONFIG_MAPS)
    assert api.store.count("/configmaps") == 0


def test_a_collection_ends_at_its_namespace() -> None:
    api = an_api()
    ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "here"}})
    ask(api, "POST", "/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "there"}})
    assert ask(api, "DELETE", "/api/v1/namespaces//configmaps").code == 404
    ask(api, "DELETE", CONFIG_MAPS)
    assert [item["metadata"]["name"] for item in api.store.all("/configmaps")] == ["there"]


def test_a_selector_that_cannot_be_read_deletes_nothing() -> None:
    api = an_api()
    ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
    assert ask(api, "DELETE", CONFIG_MAPS, labelSelector="a in (").code == 400
    assert api.store.count("/configmaps") == 1


def test_the_events_of_either_group_are_deleted_and_shown_in_their_form() -> None:
    api = an_api()
    core, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
    ask(api, "POST", core, {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "message": "hm"})
    items = ask(api, "DELETE", new, fieldSelector="involvedObject.namespace=default").body["items"]
    assert [item["note"] for item in items] == ["hm"]
    assert api.store.count("events") == 0


def test_time_is_that_of_the_clock() -> None:
    api = an_api_with_a_pod()
    assert isinstance(api.clock, VirtualClock)
    api.clock.advance_ns(3600 * NS_PER_S)
    assert ask(api, "DELETE", f"{PODS}/p").body["metadata"]["deletionTimestamp"] == "2027-01-15T09:00:30Z"
