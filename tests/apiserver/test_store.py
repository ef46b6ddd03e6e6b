"""The store: one version for all, and a history without gaps."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import MAX_OBJECT_BYTES, check_size, stored_bytes
from mooring.apiserver.store import (
    HISTORY,
    HISTORY_BYTES,
    Exists,
    Missing,
    Page,
    Store,
    StoreWrite,
    TooNew,
    TooOld,
    version_of,
)

PODS, NODES = "/pods", "/nodes"


def an_object(name: str, **content: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **content}


def names(page: Page) -> list[str]:
    return [item["metadata"]["name"] for item in page.items]


def test_every_write_gets_the_next_version_whatever_its_kind() -> None:
    store = Store()
    pod = store.create(PODS, ("default", "p"), an_object("p"))
    node = store.create(NODES, ("", "n"), an_object("n"))
    changed = store.update(PODS, ("default", "p"), an_object("p", spec={"x": 1}))
    assert [version_of(item) for item in (pod, node, changed)] == [1, 2, 3]
    assert store.get(PODS, ("default", "p")) == changed


def test_what_a_reader_was_given_does_not_change() -> None:
    store = Store()
    before = store.create(PODS, ("", "p"), an_object("p", spec={"x": 1}))
    store.update(PODS, ("", "p"), an_object("p", spec={"x": 2}))
    assert before == {"metadata": {"name": "p", "resourceVersion": "1"}, "spec": {"x": 1}}


def test_a_write_that_changes_nothing_is_none() -> None:
    store = Store()
    item = store.create(PODS, ("", "p"), an_object("p", spec={"x": 1}))
    assert store.update(PODS, ("", "p"), an_object("p", spec={"x": 1})) is item
    assert store.version == 1


def test_objects_are_there_once_or_not_at_all() -> None:
    store = Store()
    store.create(PODS, ("", "p"), an_object("p"))
    with pytest.raises(Exists):
        store.create(PODS, ("", "p"), an_object("p"))
    gone = store.delete(PODS, ("", "p"))
    assert version_of(gone) == 2
    for act in (store.get, store.delete):
        with pytest.raises(Missing):
            act(PODS, ("", "p"))


def test_pages_follow_each_other_in_the_order_of_keys() -> None:
    store = Store()
    for name in ("d", "a", "c", "b"):
        store.create(PODS, ("x", name), an_object(name))
    store.create(PODS, ("y", "e"), an_object("e"))
    first = store.page(PODS, "x", limit=3)
    assert (names(first), first.after, first.remaining, first.version) == (["a", "b", "c"], ("x", "c"), 1, 5)
    second = store.page(PODS, "x", limit=3, after=first.after)
    assert (names(second), second.after) == (["d"], None)
    assert names(store.page(PODS)) == ["a", "b", "c", "d", "e"]
    assert names(store.page(PODS, matches=lambda item: item["metadata"]["name"] > "c")) == ["d", "e"]


def test_the_history_goes_back_only_so_far() -> None:
    store = Store(history_limit=2)
    for name in "abcd":
        store.create(PODS, ("", name), an_object(name))
    assert [write.version for write in store.since(2, PODS)] == [3, 4]
    assert store.since(4, PODS) == []
    with pytest.raises(TooOld, match=r"^too old resource version: 1 \(2\)$"):
        store.since(1, PODS)
    with pytest.raises(TooNew, match="^Too large resource version: 9, current: 4$"):
        store.since(9, PODS)


def test_the_limits_that_the_documentation_tells() -> None:
    assert (HISTORY, HISTORY_BYTES, MAX_OBJECT_BYTES) == (100_000, 67_108_864, 1_572_864)


def test_each_storage_has_writes_of_its_own() -> None:
    store = Store()
    store.create(PODS, ("", "a"), an_object("a"))
    store.create(NODES, ("", "a"), an_object("a"))
    store.update(PODS, ("", "a"), an_object("a", spec={}))
    assert [past.version for past in store.since(0, PODS)] == [1, 3]
    assert [past.version for past in store.since(0, NODES)] == [2]
    assert [past.version for past in store.since(0)] == [1, 2, 3]
    assert [store.last_write(storage) for storage in (PODS, NODES, "/none")] == [3, 2, 0]
    assert [store.count(storage) for storage in (PODS, NODES, "/none")] == [1, 1, 0]


def test_a_list_of_a_moment_has_what_there_was_then() -> None:
    store = Store()
    store.create(PODS, ("", "a"), an_object("a", spec=1))
    store.create(PODS, ("", "b"), an_object("b", spec=1))
    store.update(PODS, ("", "a"), an_object("a", spec=2))
    store.update(PODS, ("", "a"), an_object("a", spec=3))
    store.delete(PODS, ("", "b"))
    moments = [[(item["metadata"]["name"], item["spec"]) for item in store.page(PODS, at=at).items] for at in range(6)]
    assert moments == [[], [("a", 1)], [("a", 1), ("b", 1)], [("a", 2), ("b", 1)], [("a", 3), ("b", 1)], [("a", 3)]]
    assert [store.page(PODS, at=at).version for at in (0, 3, 5)] == [0, 3, 5]


def test_a_listener_hears_of_the_storages_that_it_asked_for_until_it_stops() -> None:
    store = Store()
    pods: list[int] = []
    everything: list[int] = []
    stop_pods = store.listen(lambda write: pods.append(write.version), (PODS, PODS))
    stop_all = store.listen(lambda write: everything.append(write.version))
    for storage in (PODS, NODES, PODS):
        store.create(storage, ("", str(store.version)), an_object(str(store.version)))
    stop_pods()
    store.create(PODS, ("", "x"), an_object("x"))
    stop_all()
    store.create(PODS, ("", "y"), an_object("y"))
    assert (pods, everything) == ([1, 3], [1, 2, 3, 4])


def test_a_listener_that_fails_keeps_no_other_from_hearing() -> None:
    store, heard = Store(), list[str]()

    def fail(text: str) -> None:
        heard.append(text)
        raise ValueError(text)

    store.listen(lambda write: fail("first"))
    store.listen(lambda write: fail("second"), (PODS,))
    store.listen(lambda write: heard.append("third"), (PODS,))
    with pytest.raises(ValueError, match="^first$"):
        store.create(PODS, ("", "a"), an_object("a"))
    assert heard == ["first", "second", "third"]
    assert store.find(PODS, ("", "a")) is not None, "the write is made all the same"


def test_writes_are_the_same_whatever_was_written_out_of_them() -> None:
    one, other = (StoreWrite(1, PODS, "ADDED", ("", "a"), an_object("a"), None, body) for body in (b"x", b"y"))
    other.lines["form"] = b"line"
    assert one == other
    assert "b'x'" not in repr(one) and "line" not in repr(other)


def test_lines_of_a_write_are_gone_once_all_have_heard_of_it() -> None:
    """The history would keep them as long as the write."""
    store, writes = Store(), list[StoreWrite]()

    def hear(write: StoreWrite) -> None:
        write.lines["form"] = b"line"
        writes.append(write)

    store.listen(hear)
    store.create(PODS, ("", "a"), an_object("a"))
    assert writes[0].lines == {}


def test_an_object_is_measured_before_more_is_done_for_it() -> None:
    frame = stored_bytes({"data": ""})
    assert check_size({"data": "x" * (MAX_OBJECT_BYTES - frame)}) == MAX_OBJECT_BYTES
    assert check_size({"data": "x"}) == len('{"data":"x"}')
    with pytest.raises(ApiError, match="^etcdserver: request is too large$"):
        check_size({"data": "x" * (MAX_OBJECT_BYTES - frame + 1)})


@given(
    st.lists(st.tuples(st.sampled_from(("put", "delete")), st.sampled_from("abc"), st.integers(0, 3)), max_size=40),
    st.integers(0, 40),
)
def test_a_watch_from_any_version_leads_to_the_present(writes: list[tuple[str, str, int]], start: int) -> None:
    """Whoever starts with a list and follows the history ends with what the store holds, and so does a listener."""
    store = Store()
    told: list[StoreWrite] = []
    stop = store.listen(told.append)
    copy: dict[str, Any] | None = None
    for i, (what, name, value) in enumerate(writes):
        if i == start:
            copy, version = {item["metadata"]["name"]: item for item in store.page(PODS).items}, store.version
        _apply(store, what, name, value)
    stop()
    if copy is None:
        copy, version = {}, 0
    for write in (past.write() for past in store.since(version, PODS)):
        if write.type == "DELETED":
            del copy[write.object["metadata"]["name"]]
        else:
            copy[write.object["metadata"]["name"]] = write.object
    assert copy == {item["metadata"]["name"]: item for item in store.page(PODS).items}
    assert [write.version for write in told] == list(range(1, store.version + 1))


def _apply(store: Store, what: str, name: str, value: int) -> None:
    key, item = ("", name), an_object(name, spec={"value": value})
    try:
        if what == "delete":
            store.delete(PODS, key)
        else:
            store.update(PODS, key, item)
    except Missing:
        if what == "put":
            store.create(PODS, key, item)


def test_a_new_listener_can_begin_with_what_is_there() -> None:
    store = Store()
    for name in ("a", "b"):
        store.create(PODS, ("", name), an_object(name))
    found = [(write.type, write.key, write.object, write.version) for write in store.additions(PODS)]
    assert found == [("ADDED", ("", name), store.get(PODS, ("", name)), 2) for name in ("a", "b")]
    assert [*store.additions("/nodes")] == []
