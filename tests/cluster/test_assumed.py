"""Objects as the scheduler is about to change them, on top of what the watch shows."""

from typing import Any

import pytest

from mooring.cluster.claims.storage_view import Assumed
from mooring.cluster.nodes.table import ClusterError
from mooring.model.meta import ObjectMeta
from mooring.model.storage import PersistentVolume


def a_volume(version: str | None = "1", name: str = "v") -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name=name, resource_version=version))


def test_a_copy_counts_while_the_watch_shows_the_version_that_it_was_made_of() -> None:
    shown = {"v": a_volume()}
    assumed, copy = Assumed(shown), a_volume()
    assert (assumed.get("v"), assumed.get("w")) == (shown["v"], None)
    assumed.assume(copy)
    assert assumed.get("v") is copy and assumed.keys() == {"v"}
    shown["v"] = a_volume("2")
    assert assumed.get("v") is shown["v"]


def test_a_copy_of_an_object_that_is_gone_counts_no_more() -> None:
    shown = {"v": a_volume()}
    assumed = Assumed(shown)
    assumed.assume(a_volume())
    del shown["v"]
    assert assumed.get("v") is None


@pytest.mark.parametrize("version", [None, ""], ids=["none", "empty"])
def test_without_versions_a_copy_stays_until_it_is_restored(version: str | None) -> None:
    shown = {"v": a_volume(version)}
    assumed, copy = Assumed(shown), a_volume(None)
    assumed.assume(copy)
    shown["v"] = a_volume(version)
    assumed.refresh("v")
    assert assumed.get("v") is copy
    assumed.restore("v")
    assumed.restore("v")
    assert assumed.get("v") is shown["v"] and assumed.keys() == set()


FAULTS: dict[str, tuple[dict[str, PersistentVolume], str]] = {
    "nobody has seen it": ({}, 'could not find PersistentVolume "v"'),
    "it has changed": ({"v": a_volume("2")}, 'PersistentVolume "v" is out of sync (stored: 2, assume: 1)'),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_cannot_be_assumed(case: str) -> None:
    shown, message = FAULTS[case]
    assumed = Assumed(shown)
    with pytest.raises(ClusterError) as refusal:
        assumed.assume(a_volume())
    assert str(refusal.value) == message
    assert assumed.keys() == set()


REFRESHES: dict[str, tuple[Any, set[str]]] = {
    "the same version": (a_volume("1"), {"v", "w"}),
    "another version": (a_volume("2"), {"w"}),
    "gone": (None, {"w"}),
}


@pytest.mark.parametrize("case", REFRESHES)
def test_the_watch_ends_what_it_contradicts(case: str) -> None:
    now, left = REFRESHES[case]
    shown = {"v": a_volume(), "w": a_volume(name="w")}
    assumed = Assumed(shown)
    for name in shown:
        assumed.assume(a_volume(name=name))
    if now is None:
        del shown["v"]
    else:
        shown["v"] = now
    assumed.refresh("v")
    assumed.refresh("unknown")
    assert assumed.keys() == left
