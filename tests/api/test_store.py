"""The store: one version for all, writers that must have seen the latest, and a history without gaps."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.store import Exists, Missing, Page, Stale, Store, TooNew, TooOld, Write, version_of

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


def test_a_writer_must_have_seen_the_latest_version() -> None:
    store = Store()
    store.create(PODS, ("", "p"), an_object("p"))
    store.update(PODS, ("", "p"), an_object("p", spec={"x": 1}), expected=1)
    with pytest.raises(Stale) as stale:
        store.update(PODS, ("", "p"), an_object("p", spec={"x": 2}), expected=1)
    assert stale.value.current == 2
    with pytest.raises(Stale):
        store.delete(PODS, ("", "p"), expected=1)


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


@given(
    st.lists(st.tuples(st.sampled_from(("put", "delete")), st.sampled_from("abc"), st.integers(0, 3)), max_size=40),
    st.integers(0, 40),
)
def test_a_watch_from_any_version_leads_to_the_present(writes: list[tuple[str, str, int]], start: int) -> None:
    """Whoever starts with a list and follows the history ends with what the store holds, and so does a listener."""
    store = Store()
    told: list[Write] = []
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
