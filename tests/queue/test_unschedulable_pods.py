"""Unschedulable pods, found by the plugins that rejected them and by the keys of events."""

from collections.abc import Iterable, Sequence
from itertools import product
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_rig import NODE_ADD, NODE_LABEL, POD_LABEL, PROFILE, FakeFilter, a_filter, a_pending, a_profile

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.contract.events import Change, ClusterEvent, EventKeys
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.model.pod import Pod
from mooring.queue.entry import QueueCounters, QueuedGroup, QueuedPod, group_entry, new_entry
from mooring.queue.hints import HintMap, Hints, ObservedEvent, RejectionKind
from mooring.queue.unschedulable_pods import SPARE, UnschedulablePods

BY_APP = EventKeys(
    lambda pod: pod.labels.values(), lambda change: None if change.new is None else change.new.labels.values()
)


def an_entry(name: str, *rejectors: str, gate: str = "", profile: str = PROFILE, app: str = "") -> QueuedPod:
    entry = new_entry(a_pending(name, schedulerName=profile, labels={"app": app} if app else {}), 0)
    entry.reject_by(rejectors)
    entry.gating_plugin = gate
    return entry


class Yard:
    """Unschedulable pods with plugins A and B, which hear of new nodes and of labels of nodes; C hears of labels of pods,
    where the pods have the same label; D does so without keys."""

    def __init__(self, *entries: QueuedPod) -> None:
        self.reports: list[str] = []
        self.counters = QueueCounters()
        self.c = a_filter("C", POD_LABEL)
        self.c.keys = BY_APP
        self.build(a_filter("A", NODE_ADD), a_filter("B", NODE_ADD, NODE_LABEL), self.c, a_filter("D", POD_LABEL))
        for entry in entries:
            assert self.unschedulable.put(entry)

    def build(self, *plugins: FakeFilter) -> None:
        maps = {PROFILE: HintMap.of(a_profile(*plugins), {})}
        hints = Hints(maps, self.counters, lambda text, error: self.reports.append(text), {PROFILE: PluginCaller()})
        self.unschedulable = UnschedulablePods(hints)

    def concerned(self, event: ClusterEvent, app: str = "") -> list[str]:
        """The names of the pods that hints have to be asked about; `app` is the label of the pod that changed."""
        new = a_pending("changed", labels={"app": app}) if app else None
        observed = ObservedEvent(event, Change(None, new, Cluster()), event.label)
        return [entry.entries[0].pod.name for entry in self.unschedulable.concerned(observed)]


def test_pods_are_found_by_each_of_their_rejectors_in_the_order_in_which_they_came() -> None:
    yard = Yard(an_entry("z", "A"), an_entry("a", "B"), an_entry("m", "A", "B"), an_entry("k", "C"))
    assert yard.concerned(NODE_LABEL) == ["a", "m"]
    assert yard.concerned(NODE_ADD) == ["z", "a", "m"]
    assert [entry.entries[0].pod.name for entry in yard.unschedulable] == ["z", "a", "m", "k"]


def test_a_pod_of_an_unknown_profile_is_found_by_every_event() -> None:
    yard = Yard(an_entry("known", "A"), an_entry("stray", "A", profile="unknown"))
    assert yard.concerned(NODE_LABEL) == ["stray"]


def test_a_gated_pod_is_found_only_by_events_that_its_gate_hears() -> None:
    yard = Yard(an_entry("free", "A", "B"), an_entry("gated", "A", "B", gate="A"))
    assert yard.concerned(NODE_LABEL) == ["free"]
    assert yard.concerned(NODE_ADD) == ["free", "gated"]


def test_a_pod_that_changed_is_filed_anew_and_keeps_its_turn() -> None:
    yard = Yard(entry := an_entry("a", "A"), an_entry("b", "A", "B"))
    unschedulable = yard.unschedulable
    assert yard.concerned(NODE_LABEL) == ["b"]
    entry.unschedulable_plugins = ("A", "B")
    entry.gating_plugin = "B"
    assert unschedulable.check() == [
        "default/a: unschedulable, and changed since it was filed",
        "unschedulable: 0 pods are counted as gated",
    ]
    assert unschedulable.put(entry) is False
    assert (yard.concerned(NODE_LABEL), unschedulable.gated, unschedulable.check()) == (["a", "b"], 1, [])
    entry.reject_by(["B"])
    unschedulable.put(entry)
    unschedulable.remove("default/b")
    assert (yard.concerned(NODE_LABEL), unschedulable.gated, unschedulable.check()) == (["a"], 0, [])


def test_a_removed_pod_leaves_no_traces() -> None:
    yard = Yard(entry := an_entry("a", "A", "C", gate="A", app="web"))
    unschedulable = yard.unschedulable
    assert (unschedulable.get("default/a"), unschedulable.gated) == (entry, 1)
    assert (unschedulable.remove("default/a"), unschedulable.remove("default/a")) == (entry, None)
    assert (len(unschedulable), unschedulable.gated, unschedulable._drawers, unschedulable.check()) == (0, 0, {}, [])
    assert yard.concerned(NODE_ADD) == []


# ---- Events that name the pods that they are about


def test_an_event_that_names_pods_asks_only_about_those_and_counts_the_others_as_asked() -> None:
    yard = Yard(*(an_entry(f"p{i}", "C", app=f"app-{i % 3}") for i in range(6)))
    assert yard.concerned(POD_LABEL, "app-1") == ["p1", "p4"]
    assert yard.counters.hints == {("C", "PodUpdatePodLabel", "QueueSkip"): 4}


def test_an_event_that_names_nobody_in_particular_asks_about_all() -> None:
    yard = Yard(an_entry("a", "C", app="web"), an_entry("b", "C", app="db"))
    assert yard.concerned(POD_LABEL) == ["a", "b"]
    assert yard.counters.hints == {}


def test_a_pod_is_asked_about_if_another_of_its_rejectors_has_no_keys() -> None:
    yard = Yard(an_entry("a", "C", app="web"), an_entry("b", "C", "D", app="db"))
    assert yard.concerned(POD_LABEL, "other") == ["b"]
    assert yard.counters.hints == {("C", "PodUpdatePodLabel", "QueueSkip"): 1}


def test_a_pod_with_other_labels_is_found_by_its_new_ones_after_it_was_filed_anew() -> None:
    yard = Yard(entry := an_entry("a", "C", app="web"))
    assert yard.concerned(POD_LABEL, "web") == ["a"]
    entry.pod = an_entry("a", app="db").pod
    assert yard.unschedulable.check() == ["default/a: unschedulable, and other events name it than when it was filed"]
    yard.unschedulable.put(entry)
    assert (yard.concerned(POD_LABEL, "web"), yard.concerned(POD_LABEL, "db")) == ([], ["a"])
    assert yard.unschedulable.check() == []


def test_no_key_stays_behind_when_the_last_pod_that_has_it_goes() -> None:
    """Labels with the names of pods would fill the indexes otherwise."""
    yard = Yard(an_entry("a", "C", app="web"), an_entry("b", "C", app="web"), an_entry("c", "C", app="db"))
    yard.unschedulable.remove("default/a")
    assert (yard.concerned(POD_LABEL, "web"), yard.unschedulable.check()) == (["b"], [])
    yard.unschedulable.remove("default/b")
    assert (yard.concerned(POD_LABEL, "web"), yard.unschedulable.check()) == ([], [])


APPS = "web", "db"


@given(st.integers(0, 1 << 32))
def test_pods_are_found_after_any_changes_between_two_events(seed: int) -> None:
    """Pods are sorted only when an event asks. A plain loop over their rejectors and labels says which pods it means."""
    draw, yard, waiting = Random(seed), Yard(), dict[str, tuple[str, str]]()
    for _ in range(60):
        name, what = draw.choice("pqr"), draw.choice(("put", "label", "remove", "ask"))
        plugins, app = waiting.get(name, ("C", "web"))
        if what == "ask":
            for event, changed in product((NODE_ADD, NODE_LABEL, POD_LABEL), APPS):
                found = [pod for pod, (those, its) in waiting.items() if _hears(those, event, its == changed)]
                assert yard.concerned(event, changed) == found
        elif what == "remove":
            assert (yard.unschedulable.remove(f"default/{name}") is not None) == (waiting.pop(name, None) is not None)
        else:
            plugins, app = (
                (draw.choice(("A", "B", "C", "AC", "BD")), app) if what == "put" else (plugins, draw.choice(APPS))
            )
            assert yard.unschedulable.put(an_entry(name, *plugins, app=app)) == (name not in waiting)
            waiting[name] = plugins, app
        assert [entry.entries[0].pod.name for entry in yard.unschedulable] == [*waiting]
    assert yard.unschedulable.check() == []


def _hears(plugins: str, event: ClusterEvent, has_same_app: bool) -> bool:
    """A and B hear of new nodes, B of labels of nodes; C and D of labels of pods, C of those of pods with the same app."""
    if event is POD_LABEL:
        return "D" in plugins or ("C" in plugins and has_same_app)
    return "B" in plugins or (event is NODE_ADD and "A" in plugins)


class CountingHints(Hints):
    """Hints that note each kind for which a drawer is made."""

    made: Sequence[str] = ()

    def keys_of(self, kind: RejectionKind) -> tuple[EventKeys, ...]:
        self.made = [*self.made, *kind.rejectors]
        return super().keys_of(kind)


def test_drawers_without_pods_are_kept_up_to_a_number() -> None:
    """There are as many kinds as sets of plugins, so not all can be kept."""
    hints = CountingHints({PROFILE: HintMap({})}, QueueCounters(), lambda text, error: None, {})
    unschedulable = UnschedulablePods(hints)
    nodes_came = ObservedEvent(NODE_ADD, Change(None, None, Cluster()), NODE_ADD.label)

    def come_and_go(*rejectors: str) -> None:
        """A pod is there at one event, and gone at the next."""
        for rejector in rejectors:
            unschedulable.put(an_entry("pod", rejector))
            unschedulable.concerned(nodes_came)
            unschedulable.remove("default/pod")
            unschedulable.concerned(nodes_came)

    oldest, *kept = (f"Plugin{i}" for i in range(SPARE + 1))
    come_and_go(oldest, *kept)
    come_and_go(*kept, *kept)
    assert hints.made == [oldest, *kept]
    come_and_go(oldest)
    assert hints.made == [oldest, *kept, oldest]


# ---- Groups: one drawer for what all of their members wait for


def a_gang(*entries: QueuedPod) -> QueuedGroup:
    first, *others = entries
    group = group_entry(GroupName("default/gang"), first)
    for entry in others:
        group.add(entry)
    return group


@pytest.mark.parametrize(
    ("members", "found_by"),
    [
        pytest.param([("A",), ("C",)], {"NodeAdd", "PodUpdatePodLabel"}, id="each was rejected by another plugin"),
        pytest.param([("C",), ("C", "D")], {"PodUpdatePodLabel"}, id="no rejector hears of nodes"),
        pytest.param([("A", "C"), ("A", "C")], {"NodeAdd", "PodUpdatePodLabel"}, id="all were rejected by two plugins"),
        pytest.param(
            [("C",), ()], {"NodeAdd", "NodeUpdateNodeLabel", "PodUpdatePodLabel"}, id="one failed with an error"
        ),
        pytest.param([(), ()], {"NodeAdd", "NodeUpdateNodeLabel", "PodUpdatePodLabel"}, id="all failed with an error"),
    ],
)
def test_a_group_is_found_by_the_events_that_any_of_its_members_waits_for(
    members: list[tuple[str, ...]], found_by: set[str]
) -> None:
    yard = Yard()
    yard.unschedulable.put(a_gang(*(an_entry(f"m{i}", *rejectors) for i, rejectors in enumerate(members))))
    assert {event.label for event in (NODE_ADD, NODE_LABEL, POD_LABEL) if yard.concerned(event)} == found_by


@pytest.mark.parametrize("profiles", [(PROFILE, "unknown"), ("unknown", "unknown")])
def test_a_group_with_a_member_of_an_unknown_or_of_another_profile_is_found_by_every_event(
    profiles: tuple[str, ...],
) -> None:
    """What the plugins of one profile registered says nothing about the members of another."""
    yard = Yard()
    yard.unschedulable.put(a_gang(*(an_entry(f"m{i}", "C", profile=profile) for i, profile in enumerate(profiles))))
    assert (yard.concerned(NODE_ADD), yard.concerned(NODE_LABEL)) == (["m0"], ["m0"])


def _fail(*args: object) -> Iterable[str]:
    raise RuntimeError("no keys today")


def test_a_pod_whose_keys_cannot_be_told_is_asked_about_every_event() -> None:
    yard = Yard()
    yard.c.keys = EventKeys(lambda pod: _fail() if pod.name == "a" else ["web"], BY_APP.of_change)
    yard.build(yard.c)
    for entry in (an_entry("a", "C"), an_entry("b", "C")):
        yard.unschedulable.put(entry)
    assert (yard.concerned(POD_LABEL, "web"), yard.concerned(POD_LABEL, "db")) == (["a", "b"], ["a"])
    assert yard.reports == ["a plugin failed to say which events name pod default/a"]
    assert yard.unschedulable.check() == []
    yard.unschedulable.remove("default/a")
    assert yard.unschedulable.check() == []


def test_an_event_whose_keys_cannot_be_told_asks_about_all() -> None:
    yard = Yard()
    yard.c.keys = EventKeys(BY_APP.of_pod, _fail)
    yard.build(yard.c)
    yard.unschedulable.put(an_entry("a", "C", app="db"))
    assert yard.concerned(POD_LABEL, "web") == ["a"]
    assert yard.reports == ["a plugin failed to say which pods PodUpdatePodLabel names"]


def test_pods_that_are_not_admitted_are_neither_asked_about_nor_counted() -> None:
    yard = Yard(an_entry("a", "C", app="web"), an_entry("b", "C", app="web"), an_entry("c", "C", app="db"))
    observed = ObservedEvent(POD_LABEL, Change(None, a_pending("x", labels={"app": "web"}), Cluster()), POD_LABEL.label)

    def admits(pod: Pod) -> bool:
        return pod.name != "a"

    assert [entry.entries[0].pod.name for entry in yard.unschedulable.concerned(observed, admits)] == ["b", "c"]
    assert yard.counters.hints == {}


# ---- Invariants


def test_the_check_finds_a_pod_without_rejectors() -> None:
    assert Yard(an_entry("a")).unschedulable.check() == ["default/a: unschedulable, but no plugin rejected it"]


def misfile(unschedulable: UnschedulablePods) -> None:
    unschedulable.filed["default/other"] = unschedulable.filed.pop("default/a")


def lose(unschedulable: UnschedulablePods) -> None:
    (drawer,) = unschedulable._drawers.values()
    drawer.filed["default/a"] = msgspec.structs.replace(drawer.filed["default/a"], sequence=9)


def lose_key(unschedulable: UnschedulablePods) -> None:
    (drawer,) = unschedulable._drawers.values()
    drawer.indexes[BY_APP]["db"] = drawer.indexes[BY_APP].pop("web")


def overfile(unschedulable: UnschedulablePods) -> None:
    (kind,) = unschedulable._drawers
    unschedulable._drawers[kind._replace(rejectors=("B",))] = unschedulable._drawers[kind]


def miscount(unschedulable: UnschedulablePods) -> None:
    unschedulable.gated += 1


LOST = "default/a: unschedulable, but not found by its rejectors"
FAULTS = {
    "filed under another name": (
        misfile,
        ["default/a: filed as default/other", "default/other: unschedulable, but not found by its rejectors"],
    ),
    "not found": (lose, [LOST]),
    "not found by its key": (lose_key, [LOST]),
    "found by others": (
        overfile,
        [
            "unschedulable: pods are filed under plugins that did not reject them",
            "unschedulable: pods are filed under keys that they do not have",
        ],
    ),
    "miscounted": (miscount, ["unschedulable: 1 pods are counted as gated"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_check_finds_what_is_wrong(case: str) -> None:
    spoil, problems = FAULTS[case]
    unschedulable = Yard(an_entry("a", "C", app="web")).unschedulable
    assert unschedulable.check() == []
    spoil(unschedulable)
    assert unschedulable.check() == problems
