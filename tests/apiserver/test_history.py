"""The history of a store and the queues of its watchers are bounded in bytes, whatever the objects are like."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from asking import CONFIG_MAPS, NODES, TABLE, ask, begin, heard
from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.server.watching import CHUNK_BYTES
from mooring.apiserver.store import Store, StoreWrite, TooOld
from mooring.apiserver.watch import Backlog

MAPS = "/configmaps"
KEY = ("default", "a")


def an_object(name: str = "a", **content: Any) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "default"}, **content}


def test_large_writes_push_others_out_of_the_history() -> None:
    store = Store(history_bytes=100_000)
    store.create(MAPS, KEY, an_object(data="x" * 20_000))
    for number in range(10):
        store.update(MAPS, KEY, an_object(data="x" * 20_000, number=number))
        assert store.check() == []
    assert [past.version for past in store.since(9)] == [10, 11]
    with pytest.raises(TooOld):
        store.since(8)
    assert store.held_bytes <= 100_000


def test_one_write_that_is_larger_than_the_history_leaves_nothing_of_it() -> None:
    store = Store(history_bytes=100)
    store.create(MAPS, KEY, an_object(data="x" * 1000))
    assert (store.since(1), store.version, store.held_bytes, store.check()) == ([], 1, 0, [])
    assert store.get(MAPS, KEY)["data"] == "x" * 1000


def test_small_writes_are_bounded_by_their_number() -> None:
    store = Store(history_limit=3)
    for number in range(10):
        store.create(MAPS, ("default", f"a{number}"), an_object(f"a{number}"))
    assert [past.version for past in store.since(7)] == [8, 9, 10]
    assert store.check() == []


@pytest.mark.slow
def test_memory_follows_the_bound_and_not_the_number_of_writes() -> None:
    """As objects these would take 20 times what they take as JSON."""
    store, limit = Store(history_bytes=800_000), 800_000
    lists: list[Any] = [[] for _ in range(10_000)]
    store.create(MAPS, KEY, an_object(data=lists))
    tracemalloc.start()
    try:
        for number in range(60):
            store.update(MAPS, KEY, an_object(data=msgspec.json.decode(msgspec.json.encode(lists)), number=number))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < limit + 10_000 * 100, "the history, and the one object that there is"


def test_a_past_write_is_what_listeners_were_told() -> None:
    store = Store()
    told: list[StoreWrite] = []
    store.listen(told.append)
    store.create(MAPS, KEY, an_object(data={"a": "\N{SNOWMAN}"}))
    store.update(MAPS, KEY, an_object(data={"a": "b"}))
    store.delete(MAPS, KEY)
    store.create(MAPS, KEY, an_object())
    assert [past.write() for past in store.since(0)] == told
    assert [past.key for past in store.since(0)] == [KEY] * 4
    assert store.check() == []


def test_what_was_there_before_the_history_began_is_known_to_the_first_write() -> None:
    store = Store.restored(7, [(MAPS, {"metadata": {"name": "a", "namespace": "default", "resourceVersion": "5"}})])
    store.update(MAPS, KEY, an_object(data="new"))
    (past,) = store.since(7)
    before = past.write().before
    assert before is not None and before["metadata"]["resourceVersion"] == "5"
    assert store.page(MAPS, at=7).items == [before]


def test_a_write_that_cannot_be_stored_changes_nothing() -> None:
    store = Store()
    told: list[StoreWrite] = []
    store.create(MAPS, KEY, an_object())
    store.listen(told.append)
    for broken in (an_object(data=object()), an_object(data="x" * 2_000_000)):
        with pytest.raises((TypeError, ApiError)):
            store.update(MAPS, KEY, broken)
        with pytest.raises((TypeError, ApiError)):
            store.create(MAPS, ("default", "b"), broken)
    assert (store.version, store.count(MAPS), len(store.since(0)), told, store.last_write(MAPS)) == (1, 1, 1, [], 1)


# ---- watchers


def test_a_watcher_is_opened_piece_by_piece_and_keeps_its_order() -> None:
    """What there is goes before what is written meanwhile, and shows what there was when the watch began."""
    api = an_api()
    for number in range(30):
        ask(api, "POST", CONFIG_MAPS, an_object(f"a{number:02d}", data={"x": "x" * 50_000}))
    watch = begin(api, CONFIG_MAPS)
    assert watch.waiting_bytes == 0, "nothing is made before it is asked for"
    ask(api, "PUT", f"{CONFIG_MAPS}/a29", an_object("a29", data={"x": "late"}))
    pieces = []
    while piece := watch.take():
        pieces.append(piece)
    assert len(pieces) > 3 and all(len(piece) < CHUNK_BYTES + 100_000 for piece in pieces)
    events = [msgspec.json.decode(line) for line in b"".join(pieces).splitlines()]
    shown = [
        (event["type"], event["object"]["metadata"]["name"], len(event["object"]["data"]["x"])) for event in events
    ]
    assert shown == [*(("ADDED", f"a{i:02d}", 50_000) for i in range(30)), ("MODIFIED", "a29", 4)]
    assert (watch.waiting_bytes, api.backlog.total_bytes) == (0, 0)


def test_the_columns_of_a_table_come_first_though_something_is_written_meanwhile() -> None:
    api = an_api()
    for name in ("a", "b"):
        ask(api, "POST", NODES, {"metadata": {"name": name}})
    watch = begin(api, NODES, TABLE)
    ask(api, "POST", NODES, {"metadata": {"name": "c"}})
    assert [
        "columnDefinitions" in event["object"] and bool(event["object"]["columnDefinitions"]) for event in heard(watch)
    ] == [
        True,
        False,
        False,
    ]


def test_all_watchers_together_have_a_bound_and_the_one_furthest_behind_goes() -> None:
    api = an_api()
    api.backlog = Backlog(limit_bytes=150_000)
    watches = {name: begin(api, CONFIG_MAPS, fieldSelector=f"metadata.name={name}") for name in ("a", "b")}
    ask(api, "POST", CONFIG_MAPS, an_object("b", data={"x": "x" * 60_000}))
    ask(api, "POST", CONFIG_MAPS, an_object("a", data={"x": "x" * 80_000}))
    assert not any(watch.is_over for watch in watches.values())
    ask(api, "PUT", f"{CONFIG_MAPS}/b", an_object("b", data={"x": "y" * 15_000}))
    assert [(watch.is_over, watch.is_behind) for watch in watches.values()] == [(True, True), (False, False)]
    assert watches["a"].take() == b""
    assert api.backlog.total_bytes == watches["b"].waiting_bytes > 75_000
    assert len(heard(watches["b"])) == 2
    assert api.backlog.total_bytes == 0 and not api.backlog.waiting


def test_a_watcher_that_leaves_counts_no_longer() -> None:
    api = an_api()
    watch = begin(api, CONFIG_MAPS)
    ask(api, "POST", CONFIG_MAPS, an_object("a"))
    assert api.backlog.total_bytes == watch.waiting_bytes > 0
    watch.close()
    watch.close()
    assert (api.backlog.total_bytes, watch.waiting_bytes) == (0, 0)


def test_what_watchers_are_sent_is_what_is_stored() -> None:
    """The JSON of the store is used where that is the same, and only there."""
    api = an_api()
    everything, selected = begin(api, CONFIG_MAPS), begin(api, CONFIG_MAPS, labelSelector="a=b")
    for method, labels in (("POST", {"a": "b"}), ("PUT", {}), ("PUT", {"a": "b"}), ("DELETE", None)):
        body = {"metadata": {"name": "m", "labels": labels}} if labels is not None else None
        ask(api, method, CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/m", body)
    writes = [past.write().object for past in api.store.since(0)[-4:]]
    assert [event["object"] for event in heard(everything)] == writes
    seen = heard(selected)
    assert [event["type"] for event in seen] == ["ADDED", "DELETED", "ADDED", "DELETED"]
    assert seen[1]["object"]["metadata"]["labels"] == {"a": "b"}, "the content before it stopped matching"
    assert seen[1]["object"]["metadata"]["resourceVersion"] == writes[1]["metadata"]["resourceVersion"]
