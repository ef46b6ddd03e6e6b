"""Parked pods, found by who rejected them."""

import pytest
from queue_rig import PROFILE, a_pending

from mooring.queue.entry import QueuedPod
from mooring.queue.parked import Parked


def an_entry(name: str, *rejectors: str, gate: str = "", profile: str = PROFILE) -> QueuedPod:
    entry = QueuedPod(a_pending(name, schedulerName=profile), 0)
    entry.reject_by(rejectors)
    entry.gating_plugin = gate
    return entry


def names(entries: list[QueuedPod]) -> list[str]:
    return [entry.pod.name for entry in entries]


def a_yard(*entries: QueuedPod) -> Parked:
    parked = Parked([PROFILE])
    for entry in entries:
        assert parked.put(entry)
    return parked


def test_pods_are_found_by_each_of_their_rejectors_in_the_order_in_which_they_came() -> None:
    parked = a_yard(an_entry("z", "A"), an_entry("a", "B"), an_entry("m", "A", "B"), an_entry("k", "C"))
    assert names(parked.rejected_by(["A"])) == ["z", "m"]
    assert names(parked.rejected_by(["B", "A"])) == ["z", "a", "m"]
    assert names(parked.rejected_by(["D"])) == []
    assert names(list(parked)) == ["z", "a", "m", "k"]


def test_a_pod_of_an_unknown_profile_is_found_by_every_event() -> None:
    parked = a_yard(an_entry("known", "A"), an_entry("stray", "A", profile="unknown"))
    assert names(parked.rejected_by(["B"])) == ["stray"]


def test_a_pod_that_changed_is_filed_anew_and_keeps_its_turn() -> None:
    parked = a_yard(entry := an_entry("a", "A"), an_entry("b", "A", "B"))
    entry.unschedulable_plugins = ("A", "B")
    entry.gating_plugin = "B"
    assert parked.check() == ["default/a: parked, and changed since it was filed"]
    assert parked.put(entry) is False
    assert (names(parked.rejected_by(["B"])), parked.gated, parked.check()) == (["a", "b"], 1, [])
    entry.reject_by(["B"])
    parked.put(entry)
    assert (names(parked.rejected_by(["A"])), parked.gated, parked.check()) == (["b"], 0, [])


def test_a_removed_pod_leaves_no_traces() -> None:
    parked = a_yard(entry := an_entry("a", "A", gate="A"))
    assert (parked.get("default/a"), parked.gated) == (entry, 1)
    assert (parked.remove("default/a"), parked.remove("default/a")) == (entry, None)
    assert (len(parked), parked.gated, parked.rejected_by(["A"]), parked.check()) == (0, 0, [], [])


def test_the_check_finds_a_pod_without_rejectors() -> None:
    assert a_yard(an_entry("a")).check() == ["default/a: parked, but nobody rejected it"]


def misfile(parked: Parked) -> None:
    parked._filed["default/other"] = parked._filed.pop("default/a")


def lose(parked: Parked) -> None:
    parked._by_rejector["A"]["default/a"] = parked._by_rejector["A"]["default/a"]._replace(sequence=9)


def overfile(parked: Parked) -> None:
    parked._by_rejector["B"] = dict(parked._by_rejector["A"])


def miscount(parked: Parked) -> None:
    parked.gated += 1


FAULTS = {
    "filed under another name": (
        misfile,
        ["default/a: parked as default/other", "default/other: parked, but not found by its rejectors"],
    ),
    "not found": (lose, ["default/a: parked, but not found by its rejectors"]),
    "found by others": (overfile, ["parked: pods are filed under plugins that did not reject them"]),
    "miscounted": (miscount, ["parked: 1 pods are counted as gated"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_check_finds_what_is_wrong(case: str) -> None:
    spoil, problems = FAULTS[case]
    parked = a_yard(an_entry("a", "A"))
    assert parked.check() == []
    spoil(parked)
    assert parked.check() == problems
