"""Watches: what was recorded of a real server, and any sequence of writes against a plain model of a client."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.api_errors import internal_error
from mooring.api.json_objects import JsonObject
from mooring.api.kinds import RESOURCES
from mooring.apiserver.store import Store, StoreWrite, TooNew, key_of
from mooring.apiserver.watch import Event, Watcher, failure, opening, stamped

RECORDED: dict[str, list[Event]] = json.loads((Path(__file__).parent / "data/watch.json").read_text())
PODS = RESOURCES["", "v1", "pods"]
NODES = RESOURCES["", "v1", "nodes"]
EVENTS = RESOURCES["events.k8s.io", "v1", "events"]


def a_pod(name: str = "p", namespace: str = "default", phase: str = "Pending") -> JsonObject:
    return {"metadata": {"name": name, "namespace": namespace}, "status": {"phase": phase}}


def is_unfinished(pod: JsonObject) -> bool:
    return pod["status"]["phase"] not in ("Succeeded", "Failed")


def told(events: list[Event]) -> list[tuple[str, str, str]]:
    """Type, name and version of each event."""
    return [
        (event["type"], event["object"]["metadata"].get("name", ""), event["object"]["metadata"]["resourceVersion"])
        for event in events
    ]


# Against the recordings


def recorded_writes() -> list[StoreWrite]:
    """The life of one pod, as the unfiltered watch saw it."""
    writes: list[StoreWrite] = []
    for event in RECORDED["watch pods from version"]:
        version, before = int(event["object"]["metadata"]["resourceVersion"]), writes[-1].object if writes else None
        assert event["type"] in ("ADDED", "MODIFIED", "DELETED")
        writes.append(
            StoreWrite(version, PODS.storage, event["type"], key_of(event["object"]), event["object"], before)
        )
    return writes


@pytest.mark.parametrize(
    ("name", "matches"),
    [("watch pods from version", lambda _: True), ("watch filtered by phase", is_unfinished)],
    ids=["a watcher of everything", "a watcher of unfinished pods"],
)
def test_the_life_of_a_pod_as_recorded(name: str, matches: Callable[[JsonObject], bool]) -> None:
    watcher = Watcher(PODS, "default", matches)
    assert [event for write in recorded_writes() if (event := watcher.translate(write))] == RECORDED[name]


def test_initial_events_as_recorded() -> None:
    store = Store()
    for event in reversed(RECORDED["watch initial events"][:-1]):
        name = event["object"]["metadata"]["name"]
        store.create(PODS.storage, ("default", name), {**event["object"]})
    events = list(opening(store, Watcher(PODS, "default"), send_initial=True))
    recorded = RECORDED["watch initial events"]
    assert [line[:2] for line in told(events)] == [line[:2] for line in told(recorded)]
    end = {"resourceVersion": str(store.version), "annotations": {"k8s.io/initial-events-end": "true"}}
    assert events[-1] == {"type": "BOOKMARK", "object": recorded[-1]["object"] | {"metadata": end}}


# How a watch starts


def a_store() -> Store:
    store = Store()
    store.create(PODS.storage, ("default", "a"), a_pod("a"))
    store.create(NODES.storage, ("", "n"), {"metadata": {"name": "n"}})
    store.create(PODS.storage, ("other", "b"), a_pod("b", "other"))
    store.update(PODS.storage, ("default", "a"), a_pod("a", phase="Running"))
    return store


OPENINGS: dict[str, tuple[Watcher, int, list[tuple[str, str, str]]]] = {
    "no version: all there is": (Watcher(PODS), 0, [("ADDED", "a", "4"), ("ADDED", "b", "3")]),
    "a version: what came after it": (Watcher(PODS), 1, [("ADDED", "b", "3"), ("MODIFIED", "a", "4")]),
    "one namespace": (Watcher(PODS, "other"), 1, [("ADDED", "b", "3")]),
    "the present version: nothing": (Watcher(PODS), 4, []),
    "a kind without namespaces": (Watcher(NODES), 0, [("ADDED", "n", "2")]),
}


@pytest.mark.parametrize(("watcher", "version", "expected"), OPENINGS.values(), ids=OPENINGS.keys())
def test_opening(watcher: Watcher, version: int, expected: list[tuple[str, str, str]]) -> None:
    assert told(list(opening(a_store(), watcher, version))) == expected


def test_a_version_that_is_forgotten_is_an_error_event() -> None:
    store = Store(history_limit=1)
    for name in "abc":
        store.create(PODS.storage, ("default", name), a_pod(name))
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: 1 (2)",
        "reason": "Expired",
        "code": 410,
    }
    assert list(opening(store, Watcher(PODS), 1)) == [{"type": "ERROR", "object": status}]


def test_a_version_of_the_future_is_for_the_server_to_refuse() -> None:
    with pytest.raises(TooNew):
        opening(a_store(), Watcher(PODS), 99)


def test_a_bookmark_says_its_kind_and_version_only() -> None:
    expected = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    assert Watcher(PODS).bookmark(7) == {"type": "BOOKMARK", "object": expected}


def test_a_failure_carries_a_status() -> None:
    assert failure(internal_error("x"))["object"]["code"] == 500


def test_the_form_of_the_resource_decides_what_is_matched_and_sent() -> None:
    """Both event groups see the same objects, each in its own words."""
    store = Store()
    store.create(EVENTS.storage, ("default", "e"), {"kind": "Event", "apiVersion": "v1", **an_event("hello")})
    store.create(EVENTS.storage, ("default", "f"), an_event("bye"))
    (event,) = opening(store, Watcher(EVENTS, matches=lambda item: item["note"] == "hello"))
    assert event["object"] == {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"resourceVersion": "1"},
        "note": "hello",
    }


def an_event(message: str) -> JsonObject:
    return {"metadata": {}, "message": message}


def test_a_stamp_overrules_what_was_stored() -> None:
    made = stamped({"apiVersion": "v1", "metadata": {}}, EVENTS)
    assert list(made.items())[:2] == [("kind", "Event"), ("apiVersion", "events.k8s.io/v1")]


# Any sequence of writes


def write_some(store: Store, step: tuple[str, str, str]) -> None:
    """Put a pod of that phase in its place; `gone` removes it."""
    namespace, name, phase = step
    key, there = (namespace, name), {(p["metadata"]["namespace"], p["metadata"]["name"]) for p in pods(store)}
    if phase == "gone":
        if key in there:
            store.delete(PODS.storage, key)
    elif key in there:
        store.update(PODS.storage, key, a_pod(name, namespace, phase))
    else:
        store.create(PODS.storage, key, a_pod(name, namespace, phase))


def pods(store: Store) -> list[JsonObject]:
    return store.page(PODS.storage).items


def replay(known: dict[Any, JsonObject], event: Event) -> None:
    """A client that keeps what it was told, and is strict about what it may be told."""
    item = event["object"]
    key = (item["metadata"]["namespace"], item["metadata"]["name"])
    assert (key in known) == (event["type"] != "ADDED")
    if event["type"] == "DELETED":
        assert known.pop(key)["status"] == item["status"]
    else:
        known[key] = item


steps = st.tuples(
    st.sampled_from(["x", "y"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "gone"]),
)


@given(st.lists(steps, max_size=30), st.integers(0, 30), st.sampled_from(["", "x"]), st.booleans())
def test_a_client_that_believes_its_events_knows_what_a_list_would_say(
    script: list[tuple[str, str, str]], start: int, namespace: str, filtered: bool
) -> None:
    store, known = Store(), dict[Any, JsonObject]()
    watcher = Watcher(PODS, namespace, is_unfinished if filtered else lambda _: True)
    live: list[Event] = []
    for i, step in enumerate([*script, None]):
        if i == min(start, len(script)):
            live.extend(opening(store, watcher))
            opened_at = store.version
            store.listen(lambda write: live.extend([event] if (event := watcher.translate(write)) else []))
        if step is not None:
            write_some(store, step)
    for event in live:
        replay(known, event)
    expected = store.page(PODS.storage, namespace, watcher.matches).items
    assert sorted(known.values(), key=str) == sorted((stamped(pod, PODS) for pod in expected), key=str)
    later = [event for event in live if int(event["object"]["metadata"]["resourceVersion"]) > opened_at]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in later]
    assert versions == sorted(set(versions))
    if opened_at:
        assert list(opening(store, watcher, opened_at)) == later
