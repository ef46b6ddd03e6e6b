"""Parked pods, found by who rejected them."""

import pytest
from queue_rig import PROFILE, a_pending

from mooring.queue.entry import QueuedPod, new_entry
from mooring.queue.unschedulable_pods import UnschedulablePods


def an_entry(name: str, *rejectors: str, gate: str = "", profile: str = PROFILE) -> QueuedPod:
    entry = new_entry(a_pending(name, schedulerName=profile), 0)
    entry.reject_by(rejectors)
    entry.gating_plugin = gate
    return entry


def names(entries: list[QueuedPod]) -> list[str]:
    return [entry.pod.name for entry in entries]


def a_yard(*entries: QueuedPod) -> UnschedulablePods:
    unschedulable = UnschedulablePods([PROFILE])
    for entry in entries:
        assert unschedulable.put(entry)
    return unschedulable


def test_pods_are_found_by_each_of_their_rejectors_in_the_order_in_which_they_came() -> None:
    unschedulable = a_yard(an_entry("z", "A"), an_entry("a", "B"), an_entry("m", "A", "B"), an_entry("k", "C"))
    assert names(unschedulable.rejected_by(["A"])) == ["z", "m"]
    assert names(unschedulable.rejected_by(["B", "A"])) == ["z", "a", "m"]
    assert names(unschedulable.rejected_by(["D"])) == []
    assert names(list(unschedulable)) == ["z", "a", "m", "k"]


def test_a_pod_of_an_unknown_profile_is_found_by_every_event() -> None:
    unschedulable = a_yard(an_entry("known", "A"), an_entry("stray", "A", profile="unknown"))
    assert names(unschedulable.rejected_by(["B"])) == ["stray"]


def test_a_pod_that_changed_isfiled_anew_and_keeps_its_turn() -> None:
    unschedulable = a_yard(entry := an_entry("a", "A"), an_entry("b", "A", "B"))
    entry.unschedulable_plugins = ("A", "B")
    entry.gating_plugin = "B"
    assert unschedulable.check() == ["default/a: unschedulable, and changed since it was filed"]
    assert unschedulable.put(entry) is False
    assert (names(unschedulable.rejected_by(["B"])), unschedulable.gated, unschedulable.check()) == (["a", "b"], 1, [])
    entry.reject_by(["B"])
    unschedulable.put(entry)
    assert (names(unschedulable.rejected_by(["A"])), unschedulable.gated, unschedulable.check()) == (["b"], 0, [])


def test_a_removed_pod_leaves_no_traces() -> None:
    unschedulable = a_yard(entry := an_entry("a", "A", gate="A"))
    assert (unschedulable.get("default/a"), unschedulable.gated) == (entry, 1)
    assert (unschedulable.remove("default/a"), unschedulable.remove("default/a")) == (entry, None)
    assert (len(unschedulable), unschedulable.gated, unschedulable.rejected_by(["A"]), unschedulable.check()) == (
        0,
        0,
        [],
        [],
    )


def test_the_check_finds_a_pod_without_rejectors() -> None:
    assert a_yard(an_entry("a")).check() == ["default/a: unschedulable, but no plugin rejected it"]


def misfile(unschedulable: UnschedulablePods) -> None:
    unschedulable.filed["default/other"] = unschedulable.filed.pop("default/a")


def lose(unschedulable: UnschedulablePods) -> None:
    unschedulable._by_rejector["A"]["default/a"] = unschedulable._by_rejector["A"]["default/a"]._replace(sequence=9)


def overfile(unschedulable: UnschedulablePods) -> None:
    unschedulable._by_rejector["B"] = dict(unschedulable._by_rejector["A"])


def miscount(unschedulable: UnschedulablePods) -> None:
    unschedulable.gated += 1


FAULTS = {
    "filed under another name": (
        misfile,
        ["default/a: filed as default/other", "default/other: unschedulable, but not found by its rejectors"],
    ),
    "not found": (lose, ["default/a: unschedulable, but not found by its rejectors"]),
    "found by others": (overfile, ["unschedulable: pods are filed under plugins that did not reject them"]),
    "miscounted": (miscount, ["unschedulable: 1 pods are counted as gated"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_check_finds_what_is_wrong(case: str) -> None:
    spoil, problems = FAULTS[case]
    unschedulable = a_yard(an_entry("a", "A"))
    assert unschedulable.check() == []
    spoil(unschedulable)
    assert unschedulable.check() == problems
