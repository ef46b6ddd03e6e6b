"""Which plugins hear of which event, and what an event is worth to a pod that they rejected."""

from collections.abc import Sequence

import pytest
from queue_rig import (
    NODE_ADD,
    NODE_CONDITION,
    NODE_LABEL,
    NODE_TAINT,
    POD_DELETE,
    FakeFilter,
    a_filter,
    a_gate,
    a_pending,
    a_profile,
    a_score,
)

from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import (
    ANYTHING,
    ASSIGNED_POD,
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    EVERYTHING,
    FORCE_ACTIVATE,
    NODE,
    POD,
    TARGET_POD,
    UNSCHEDULABLE_POD,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD,
    Action,
    Change,
    ClusterEvent,
    Registration,
)
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.points import Plugin
from mooring.model.meta import KubeObject
from mooring.queue.entry import QueueCounters, new_entry
from mooring.queue.hints import HintMap, Hints, ObservedEvent, QueueingStrategy, registrations_of
from recording_caller import NOW_NS, RecordingCaller

CLUSTER = Cluster()

UPSTREAM_ACTIONS = (
    "Add",
    "Delete",
    "UpdateNodeAllocatable",
    "UpdateNodeLabel",
    "UpdateNodeTaint",
    "UpdateNodeCondition",
    "UpdateNodeAnnotation",
    "UpdateNodeDeclaredFeature",
    "UpdateNodePreemptionPolicy",
    "UpdatePodLabel",
    "UpdatePodScaleDown",
    "UpdatePodScaleUp",
    "UpdatePodToleration",
    "UpdatePodSchedulingGatesEliminated",
    "UpdatePodGeneratedResourceClaim",
)
UPSTREAM_WILDCARD = {
    *("Pod", "Node", "PersistentVolume", "PersistentVolumeClaim"),
    *("storage.k8s.io/CSINode", "storage.k8s.io/CSIDriver", "storage.k8s.io/CSIStorageCapacity"),
    *("storage.k8s.io/StorageClass", "resource.k8s.io/ResourceClaim", "resource.k8s.io/DeviceClass"),
    "scheduling.k8s.io/PodGroup",
}


def listeners(plugin: Plugin, event: ClusterEvent) -> list[str]:
    return list(HintMap.of(a_profile(plugin), {}).listeners(event))


@pytest.mark.parametrize(
    ("registered", "incoming", "is_heard"),
    [
        pytest.param(NODE_ADD, NODE_ADD, True, id="the same event"),
        pytest.param(NODE_ADD, POD_DELETE, False, id="another resource"),
        pytest.param(NODE_LABEL, NODE_CONDITION, False, id="another action"),
        pytest.param(ClusterEvent(POD, Action.DELETE), ASSIGNED_POD_DELETE, True, id="pods are assigned pods"),
        pytest.param(
            ClusterEvent(POD, Action.UPDATE_POD_LABEL),
            ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),
            True,
            id="and unscheduled ones",
        ),
        pytest.param(
            ClusterEvent(POD, Action.UPDATE_POD_LABEL),
            ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL),
            True,
            id="and the one that is asked about",
        ),
        pytest.param(
            ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL),
            ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),
            False,
            id="the pod itself is no other pod",
        ),
        pytest.param(
            ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),
            ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL),
            False,
            id="another pod is not the pod itself",
        ),
        pytest.param(
            ClusterEvent(UNSCHEDULABLE_POD, Action.ADD),
            ClusterEvent(UNSCHEDULED_POD, Action.ADD),
            True,
            id="the name of v1.36 means pods without a node",
        ),
        pytest.param(
            ClusterEvent(UNSCHEDULABLE_POD, Action.UPDATE),
            ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL),
            True,
            id="and the pod itself",
        ),
        pytest.param(
            ClusterEvent(UNSCHEDULABLE_POD, Action.ADD), ASSIGNED_POD_ADD, False, id="but none that is on a node"
        ),
        pytest.param(
            ClusterEvent(POD, Action.UPDATE),
            ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCALE_UP),
            True,
            id="scaling up is an update",
        ),
        pytest.param(
            ClusterEvent(ASSIGNED_POD, Action.ADD),
            ClusterEvent(UNSCHEDULED_POD, Action.ADD),
            False,
            id="assigned pods are not unscheduled ones",
        ),
        pytest.param(ClusterEvent(NODE, Action.UPDATE), NODE_LABEL, True, id="any update is each update"),
        pytest.param(NODE_LABEL, ClusterEvent(NODE, Action.UPDATE), False, id="one update is not any update"),
        pytest.param(
            ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            ClusterEvent(NODE, Action.UPDATE),
            False,
            id="nor are an addition and one update",
        ),
        pytest.param(ClusterEvent(ANYTHING, Action.ADD), NODE_ADD, True, id="any resource"),
        pytest.param(ClusterEvent(ANYTHING, Action.ALL), NODE_CONDITION, True, id="anything"),
    ],
)
def test_matching(registered: ClusterEvent, incoming: ClusterEvent, is_heard: bool) -> None:
    assert bool(HintMap.of(a_profile(a_filter("Fit", registered)), {}).listeners(incoming)) is is_heard


@pytest.mark.parametrize(
    ("events", "is_heard"),
    [
        pytest.param((ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT),), True, id="in one registration"),
        pytest.param((NODE_ADD, NODE_TAINT), True, id="in two registrations"),
        pytest.param((ClusterEvent(NODE, Action.ALL),), True, id="with all else"),
        pytest.param((NODE_ADD, NODE_LABEL), False, id="not with new nodes alone"),
        pytest.param((NODE_LABEL, ClusterEvent(POD, Action.ADD)), False, id="pods are no nodes"),
    ],
)
def test_v137_4_5_only_plugins_that_register_taints_hear_of_them(
    events: Sequence[ClusterEvent], is_heard: bool
) -> None:
    plugin = a_filter("Fit", *events)
    assert len(registrations_of(plugin)) == len(events)
    assert listeners(plugin, NODE_TAINT) == (["Fit"] if is_heard else [])


def test_a_plugin_that_can_reject_and_is_silent_hears_of_everything() -> None:
    assert tuple(registrations_of(a_filter("Fit", silent=True))) == EVERYTHING
    assert listeners(a_filter("Fit", silent=True), NODE_CONDITION) == ["Fit"]


def test_a_plugin_that_cannot_reject_and_is_silent_hears_of_nothing() -> None:
    assert listeners(a_score("Taste"), NODE_ADD) == []


def test_a_plugin_with_an_empty_list_hears_of_nothing() -> None:
    assert listeners(a_filter("Fit"), NODE_ADD) == []


def test_rejectors_that_are_no_plugins_can_hear_too() -> None:
    assert list(HintMap.of(a_profile(), {"Extender": EVERYTHING}).listeners(NODE_ADD)) == ["Extender"]


def test_events_of_a_plugin_are_those_of_all_profiles() -> None:
    maps = {
        "one": HintMap.of(a_profile(a_gate("Gate", POD_DELETE)), {}),
        "two": HintMap.of(a_profile(a_gate("Gate", NODE_LABEL)), {}),
    }
    hints = Hints(maps, QueueCounters(), _no_report, {})
    assert hints.events_of("Gate") == (POD_DELETE, NODE_LABEL)
    assert (hints.interested(NODE_LABEL), hints.interested(NODE_CONDITION)) == (("Gate",), ())


def _no_report(text: str, error: Exception | None) -> None:
    raise AssertionError(text)


class Asking:
    """Two filters, a pod, and what an event is worth to it."""

    def __init__(self) -> None:
        self.one = a_filter("One", NODE_ADD)
        self.two = a_filter("Two", NODE_ADD, POD_DELETE)
        self.reports: list[tuple[str, Exception | None]] = []
        self.counters = QueueCounters()
        self.caller = RecordingCaller()
        maps = {"default-scheduler": HintMap.of(a_profile(self.one, self.two), {})}
        report = self.reports
        callers = {"default-scheduler": self.caller}
        self.hints = Hints(maps, self.counters, lambda text, error: report.append((text, error)), callers)
        self.entry = new_entry(a_pending(), 0)

    def worth(self, event: ClusterEvent, new: KubeObject | None = None) -> QueueingStrategy:
        return self.hints.strategy_for(self.entry, ObservedEvent(event, Change(None, new, CLUSTER), event.label))


def test_an_event_that_nobody_waits_for_is_worth_nothing() -> None:
    asking = Asking()
    asking.entry.reject_by(["One"])
    assert asking.worth(POD_DELETE) is QueueingStrategy.SKIP


def test_only_plugins_that_rejected_the_pod_are_asked() -> None:
    asking = Asking()
    asking.entry.reject_by(["Two"])
    assert asking.worth(NODE_ADD) is QueueingStrategy.AFTER_BACKOFF
    assert (asking.one.asked, asking.two.asked) == ([], ["pod"])


def test_one_yes_is_enough() -> None:
    asking = Asking()
    asking.entry.reject_by(["One", "Two"])
    asking.one.answer = False
    assert asking.worth(NODE_ADD) is QueueingStrategy.AFTER_BACKOFF
    asking.two.answer = False
    assert asking.worth(NODE_ADD) is QueueingStrategy.SKIP
    assert +asking.counters.hints == {
        ("One", "NodeAdd", "QueueSkip"): 2,
        ("Two", "NodeAdd", "Queue"): 1,
        ("Two", "NodeAdd", "QueueSkip"): 1,
    }


def test_all_hints_of_a_plugin_are_asked_until_one_says_yes() -> None:
    plugin = a_filter("Fit", NODE_ADD, ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT))
    counters = QueueCounters()
    maps = {"default-scheduler": HintMap.of(a_profile(plugin), {})}
    hints = Hints(maps, counters, _no_report, {"default-scheduler": PluginCaller()})
    entry = new_entry(a_pending(), 0)
    entry.reject_by(["Fit"])
    plugin.answer = False
    observed = ObservedEvent(NODE_ADD, Change(None, None, CLUSTER), "NodeAdd")
    assert (hints.strategy_for(entry, observed), len(plugin.asked)) == (QueueingStrategy.SKIP, 2)
    plugin.answer = True
    assert (hints.strategy_for(entry, observed), len(plugin.asked)) == (QueueingStrategy.AFTER_BACKOFF, 3)


def test_a_registration_without_hint_says_yes() -> None:
    maps = {"default-scheduler": HintMap.of(a_profile(), {"Extender": (Registration(NODE_TAINT),)})}
    hints = Hints(maps, QueueCounters(), _no_report, {"default-scheduler": PluginCaller()})
    entry = new_entry(a_pending(), 0)
    entry.reject_by(["Extender"])
    observed = ObservedEvent(NODE_TAINT, Change(None, None, CLUSTER), "NodeUpdateNodeTaint")
    assert hints.strategy_for(entry, observed) is QueueingStrategy.AFTER_BACKOFF


@pytest.mark.parametrize(("name", "number"), [(name, 2**bit) for bit, name in enumerate(UPSTREAM_ACTIONS)])
def test_v137_4_3_actions_have_upstreams_numbers_and_names(name: str, number: int) -> None:
    assert ClusterEvent("", Action(number)).label == name


def test_v137_4_3_update_and_all_are_sums() -> None:
    assert (Action.UPDATE, Action.ALL) == (32767 - 3, 32767)
    assert sum(Action) == Action.ALL


def test_v137_4_2_a_silent_plugin_hears_of_these_resources() -> None:
    """Parity: slices of resources and attachments of volumes are not among them."""
    assert {name for each in EVERYTHING for name in each.event.names()} == {f"{kind}/All" for kind in UPSTREAM_WILDCARD}


@pytest.mark.parametrize(
    ("rejected", "pending", "says_yes", "worth"),
    [
        pytest.param(["One"], ["Two"], ["One", "Two"], QueueingStrategy.IMMEDIATELY, id="the one that waits says yes"),
        pytest.param(["One"], ["Two"], ["One"], QueueingStrategy.AFTER_BACKOFF, id="only the other says yes"),
        pytest.param(["One"], ["Two"], [], QueueingStrategy.SKIP, id="nobody says yes"),
        pytest.param(["Two"], ["Two"], ["Two"], QueueingStrategy.IMMEDIATELY, id="one that rejects and waits"),
    ],
)
def test_pending_plugins_wake_at_once(
    rejected: list[str], pending: list[str], says_yes: list[str], worth: QueueingStrategy
) -> None:
    asking = Asking()
    asking.entry.reject_by(rejected, pending)
    plugins: dict[str, FakeFilter] = {"One": asking.one, "Two": asking.two}
    for name, plugin in plugins.items():
        plugin.answer = name in says_yes
    assert asking.worth(NODE_ADD) is worth


def test_a_hint_that_fails_counts_as_yes_and_is_reported() -> None:
    asking = Asking()
    asking.entry.reject_by(["One"])
    error = asking.one.answer = ValueError("broken")
    assert asking.worth(NODE_ADD) is QueueingStrategy.AFTER_BACKOFF
    assert asking.reports == [("the hint of plugin One for NodeAdd failed on pod default/pod", error)]
    assert +asking.counters.hints == {("One", "NodeAdd", "Error"): 1}


def test_without_rejectors_any_event_is_worth_an_attempt() -> None:
    assert Asking().worth(NODE_CONDITION) is QueueingStrategy.AFTER_BACKOFF


def test_a_wildcard_is_worth_an_attempt_unless_it_names_another_pod() -> None:
    asking = Asking()
    asking.entry.reject_by(["One"])
    assert asking.worth(UNSCHEDULABLE_TIMEOUT) is QueueingStrategy.AFTER_BACKOFF
    assert asking.worth(FORCE_ACTIVATE, asking.entry.pod) is QueueingStrategy.AFTER_BACKOFF
    assert asking.worth(FORCE_ACTIVATE, a_pending("other")) is QueueingStrategy.SKIP
    assert asking.one.asked == []


def test_a_pod_of_an_unknown_profile_is_woken_by_anything() -> None:
    asking = Asking()
    asking.entry = new_entry(a_pending(schedulerName="unknown"), 0)
    asking.entry.reject_by(["One"])
    assert asking.worth(NODE_CONDITION) is QueueingStrategy.AFTER_BACKOFF
    text = "no profile is named unknown, so pod default/pod is woken by any event"
    assert asking.reports == [(text, None)]


def test_the_caller_of_the_profile_sees_each_hint() -> None:
    asking = Asking()
    asking.entry.reject_by(["One"])
    asking.worth(NODE_ADD)
    assert asking.caller.seen == [("One", "NodeAdd", "Queue", NOW_NS)]
