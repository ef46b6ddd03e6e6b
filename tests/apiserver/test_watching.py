"""Lists and watches as the server gives them: pages of one moment, and every change since, in order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import CONFIG_MAPS, MERGE_PATCH, NODES, PODS, TABLE, a_manifest, ask, begin, heard
from cluster_api import an_api
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.watching import MAX_WAITING_BYTES
from mooring.apiserver.store import Store

ALL_MAPS = "/api/v1/configmaps"


def put(api: ResourceApi, name: str, number: int = 0, **labels: str) -> None:
    body = {"metadata": {"name": name, "labels": labels}, "data": {"n": str(number)}}
    reply = ask(api, "PUT", f"{CONFIG_MAPS}/{name}", body)
    if reply.code == 404:
        reply = ask(api, "POST", CONFIG_MAPS, body)
    assert reply.code < 300


def an_api_with(*names: str) -> ResourceApi:
    api = an_api()
    for name in names:
        put(api, name)
    return api


def with_short_memory(api: ResourceApi, limit: int) -> ResourceApi:
    """The same objects in a store that remembers only so many writes."""
    objects = [(f"/{plural}", item) for plural in ("namespaces", "configmaps") for item in api.store.all(f"/{plural}")]
    store = Store.restored(api.store.version, objects)
    store.history_limit = limit
    short = an_api()
    short.store, short.lookups = store, type(short.lookups)(store)
    return short


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


def told(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


# ---- pages


def test_pages_are_of_one_moment_whatever_happens_meanwhile() -> None:
    api = an_api_with("a", "b", "c", "d", "e")
    first = ask(api, "GET", CONFIG_MAPS, limit=2).body
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    ask(api, "DELETE", f"{CONFIG_MAPS}/c")
    put(api, "d", 7)
    put(api, "aa")
    put(api, "z")
    second = ask(api, "GET", CONFIG_MAPS, limit=2, **{"continue": first["metadata"]["continue"]}).body
    third = ask(api, "GET", CONFIG_MAPS, limit=2, **{"continue": second["metadata"]["continue"]}).body
    assert (names(second), names(third)) == (["c", "d"], ["e"])
    assert second["items"][1]["data"] == {"n": "0"}
    assert "continue" not in third["metadata"]
    versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert versions == {first["metadata"]["resourceVersion"]}


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.integers(1, 4), st.data())
def test_any_pages_add_up_to_the_list_at_their_beginning(changed: list[str], limit: int, data: st.DataObject) -> None:
    api = an_api_with(*"aceg")
    whole = ask(api, "GET", CONFIG_MAPS).body["items"]
    paged: list[Any] = []
    query: dict[str, Any] = {"limit": limit}
    for _ in range(10):
        page = ask(api, "GET", CONFIG_MAPS, **query).body
        paged += page["items"]
        if "continue" not in page["metadata"]:
            break
        query["continue"] = page["metadata"]["continue"]
        for name in changed:
            if data.draw(st.booleans()):
                put(api, name, data.draw(st.integers(1, 9)))
            else:
                ask(api, "DELETE", f"{CONFIG_MAPS}/{name}")
    assert paged == whole


def test_pages_over_all_namespaces() -> None:
    api = an_api()
    for namespace in ("default", "kube-system"):
        for name in ("a", "b"):
            ask(api, "POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}})
    seen: list[tuple[str, str]] = []
    token = ""
    for _ in range(4):
        page = ask(api, "GET", ALL_MAPS, limit=1, **{"continue": token}).body
        seen += [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in page["items"]]
        token = page["metadata"].get("continue", "")
    assert seen == [("default", "a"), ("default", "b"), ("kube-system", "a"), ("kube-system", "b")]
    assert token == ""


def test_with_a_selector_nobody_says_how_many_remain() -> None:
    api = an_api()
    for name in "abcd":
        put(api, name, color="red" if name in "ad" else "blue")
    page = ask(api, "GET", CONFIG_MAPS, limit=1, labelSelector="color=red").body
    assert (names(page), "remainingItemCount" in page["metadata"]) == (["a"], False)
    rest = ask(
        api, "GET", CONFIG_MAPS, limit=5, labelSelector="color=red", **{"continue": page["metadata"]["continue"]}
    ).body
    assert names(rest) == ["d"]


def test_a_page_that_is_too_old_comes_with_a_way_to_go_on() -> None:
    api = with_short_memory(an_api_with("a", "b", "c"), 2)
    token = ask(api, "GET", CONFIG_MAPS, limit=1).body["metadata"]["continue"]
    for name in ("x", "y", "z"):
        put(api, name)
    reply = ask(api, "GET", CONFIG_MAPS, limit=1, **{"continue": token})
    assert (reply.code, reply.body["reason"]) == (410, "Expired")
    assert reply.body["message"].startswith("The provided continue parameter is too old")
    rest = ask(api, "GET", CONFIG_MAPS, **{"continue": reply.body["metadata"]["continue"]}).body
    assert names(rest) == ["b", "c", "x", "y", "z"]


def test_a_token_is_of_the_list_that_it_came_from() -> None:
    api = an_api_with("a", "b")
    token = ask(api, "GET", ALL_MAPS, limit=1).body["metadata"]["continue"]
    assert ask(api, "GET", CONFIG_MAPS, limit=1, **{"continue": token}).code == 400
    assert ask(api, "GET", ALL_MAPS, **{"continue": token, "resourceVersion": "1"}).code == 400


def test_a_list_of_exactly_that_moment() -> None:
    api = an_api_with("a")
    then = api.store.version
    put(api, "b")
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    assert names(ask(api, "GET", CONFIG_MAPS, **exact).body) == ["a"]
    assert names(ask(api, "GET", CONFIG_MAPS, resourceVersion=then).body) == ["a", "b"]
    short = with_short_memory(api, 1)
    put(short, "c")
    put(short, "d")
    reply = ask(short, "GET", CONFIG_MAPS, **exact)
    assert (reply.code, reply.body["reason"]) == (410, "Expired")


def test_a_list_of_the_future_is_to_be_asked_for_again() -> None:
    api = an_api()
    reply = ask(api, "GET", PODS, resourceVersion=api.store.version + 1)
    assert (reply.code, reply.body["reason"], dict(reply.headers)["Retry-After"]) == (504, "Timeout", "1")
    assert reply.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_a_list_from_the_cache_comes_whole() -> None:
    api = an_api_with("a", "b", "c")
    body = ask(api, "GET", CONFIG_MAPS, limit=1, resourceVersion="0").body
    assert (names(body), "continue" in body["metadata"]) == (["a", "b", "c"], False)


# ---- watches


def test_a_watch_from_a_version_tells_everything_since() -> None:
    api = an_api_with("a")
    version = api.store.version
    put(api, "b")
    put(api, "a", 1)
    ask(api, "DELETE", f"{CONFIG_MAPS}/b")
    watch = begin(api, CONFIG_MAPS, resourceVersion=version)
    put(api, "c")
    events = heard(watch)
    assert told(events) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b"), ("ADDED", "c")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == [version + 1, version + 2, version + 3, version + 4]
    assert {(event["object"]["kind"], event["object"]["apiVersion"]) for event in events} == {("ConfigMap", "v1")}


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}, {"resourceVersion": ""}])
def test_a_watch_without_a_version_begins_with_what_there_is(query: dict[str, str]) -> None:
    api = an_api_with("a", "b")
    assert told(heard(begin(api, CONFIG_MAPS, **query))) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_that_sends_what_there_is_says_when_that_is_all() -> None:
    api = an_api_with("a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = begin(api, CONFIG_MAPS, **query)
    put(api, "b")
    events = heard(watch)
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK", "ADDED"]
    bookmark = events[1]["object"]
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["metadata"]["resourceVersion"]) == api.store.version - 1


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
    ],
)
def test_the_two_parameters_of_a_streaming_list_belong_together(query: dict[str, str]) -> None:
    reply = ask(an_api(), "GET", PODS, watch="true", **query)
    assert (reply.code, reply.body["reason"]) == (422, "Invalid")


def test_a_watch_from_a_version_that_is_forgotten_is_over_at_once() -> None:
    api = with_short_memory(an_api_with("a"), 2)
    version = api.store.version
    for name in ("x", "y", "z"):
        put(api, name)
    watch = begin(api, CONFIG_MAPS, resourceVersion=version)
    (event,) = heard(watch)
    assert watch.is_over
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"] == f"too old resource version: {version} ({version + 1})"


def test_a_watch_from_the_future_is_refused() -> None:
    api = an_api()
    reply = ask(api, "GET", PODS, watch="true", resourceVersion=api.store.version + 100)
    assert (reply.code, reply.body["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


def test_what_starts_or_stops_matching_appears_or_disappears() -> None:
    api = an_api()
    put(api, "a", 1, color="red")
    watch = begin(api, CONFIG_MAPS, labelSelector="color=red", resourceVersion=api.store.version)
    put(api, "b", 2, color="blue")
    put(api, "a", 3, color="blue")
    put(api, "b", 4, color="red")
    put(api, "b", 5, color="red")
    ask(api, "DELETE", f"{CONFIG_MAPS}/b")
    ask(api, "DELETE", f"{CONFIG_MAPS}/a")
    events = heard(watch)
    assert told(events) == [("DELETED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]
    gone = events[0]["object"]
    assert (gone["data"], gone["metadata"]["labels"]) == ({"n": "1"}, {"color": "red"}), "what it was before"
    assert int(gone["metadata"]["resourceVersion"]) == int(events[1]["object"]["metadata"]["resourceVersion"]) - 1


def test_a_pod_that_finishes_is_gone_for_the_scheduler_and_changed_for_others() -> None:
    api = an_api()
    ask(api, "POST", PODS, a_manifest())
    version = api.store.version
    unfinished = begin(
        api, "/api/v1/pods", resourceVersion=version, fieldSelector="status.phase!=Succeeded,status.phase!=Failed"
    )
    every = begin(api, "/api/v1/pods", resourceVersion=version)
    ask(api, "PATCH", f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}, MERGE_PATCH)
    (gone,), (changed,) = heard(unfinished), heard(every)
    assert (gone["type"], gone["object"]["status"]["phase"]) == ("DELETED", "Pending")
    assert (changed["type"], changed["object"]["status"]["phase"]) == ("MODIFIED", "Succeeded")
    assert gone["object"]["metadata"]["resourceVersion"] == changed["object"]["metadata"]["resourceVersion"]


def test_a_watch_is_of_its_namespace_and_its_kind() -> None:
    api = an_api()
    watch = begin(api, CONFIG_MAPS)
    ask(api, "POST", "/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "there"}})
    ask(api, "POST", PODS, a_manifest())
    put(api, "here")
    assert told(heard(watch)) == [("ADDED", "here")]


def test_a_watch_of_one_object() -> None:
    api = an_api_with("a", "b")
    watch = begin(api, f"{CONFIG_MAPS}/a")
    put(api, "b", 1)
    put(api, "a", 1)
    assert told(heard(watch)) == [("ADDED", "a"), ("MODIFIED", "a")]


def test_a_bookmark_says_how_far_the_watch_is() -> None:
    api = an_api()
    watch = begin(api, PODS, resourceVersion=api.store.version)
    put(api, "of-another-kind")
    watch.bookmark()
    (event,) = heard(watch)
    assert event == {
        "type": "BOOKMARK",
        "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(api.store.version)}},
    }


def test_a_table_watch_has_its_columns_once() -> None:
    api = an_api()
    watch = begin(api, PODS, accept=TABLE)
    ask(api, "POST", PODS, a_manifest("a"))
    ask(api, "POST", PODS, a_manifest("b"))
    watch.bookmark()
    first, second, bookmark = (event["object"] for event in heard(watch))
    assert {table["kind"] for table in (first, second, bookmark)} == {"Table"}
    assert [column["name"] for column in first["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert not second.get("columnDefinitions")
    assert [table["rows"][0]["cells"][0] for table in (first, second)] == ["a", "b"]
    assert (bookmark["rows"], bookmark["metadata"]) == ([], {"resourceVersion": str(api.store.version)})


def test_watchers_of_one_write_get_it_each_in_their_form() -> None:
    api = an_api()
    metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    watches = [begin(api, NODES, accept=accept) for accept in ("", TABLE, metadata, "", TABLE)]
    ask(api, "POST", NODES, {"metadata": {"name": "n"}})
    kinds = [heard(watch)[0]["object"]["kind"] for watch in watches]
    assert kinds == ["Node", "Table", "PartialObjectMetadata", "Node", "Table"]


def test_a_watch_that_nobody_reads_is_given_up() -> None:
    api = an_api()
    watch = begin(api, CONFIG_MAPS)
    payload = "x" * 1_000_000
    for number in range(MAX_WAITING_BYTES // len(payload) + 2):
        body = {"metadata": {"name": "big"}, "data": {"n": str(number), "payload": payload}}
        ask(api, "PUT" if number else "POST", f"{CONFIG_MAPS}/big" if number else CONFIG_MAPS, body)
    assert (watch.is_over, watch.is_behind, watch.take()) == (True, True, b"")


def test_a_watch_that_is_closed_hears_no_more() -> None:
    api = an_api()
    watch = begin(api, CONFIG_MAPS)
    watch.close()
    watch.close()
    put(api, "a")
    assert heard(watch) == []


@given(
    st.lists(st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from("abc"), st.sampled_from(["red", "blue"])))
)
def test_who_follows_a_selection_ends_with_what_a_list_would_give(changes: list[tuple[str, str, str]]) -> None:
    api = an_api_with()
    watch = begin(api, CONFIG_MAPS, labelSelector="color=red")
    for number, (what, name, color) in enumerate(changes):
        if what == "put":
            put(api, name, number, color=color)
        else:
            ask(api, "DELETE", f"{CONFIG_MAPS}/{name}")
    copy: dict[str, Any] = {}
    for event in heard(watch):
        name = event["object"]["metadata"]["name"]
        assert (name in copy) == (event["type"] != "ADDED")
        copy[name] = event["object"]["data"]
        if event["type"] == "DELETED":
            del copy[name]
    listed = ask(api, "GET", CONFIG_MAPS, labelSelector="color=red").body["items"]
    assert copy == {item["metadata"]["name"]: item["data"] for item in listed}
