"""PreQueueingHints (v1.37, 4.8): with the gate, plugins that name the pods of an event have no others asked about it."""

from collections.abc import Iterable

import pytest
from queue_rig import NODE_ADD, Rig, a_filter, a_pending

from build import a_node
from mooring.framework.contract.events import UNSCHEDULABLE_TIMEOUT, Change, EventKeys
from mooring.model.pod import Pod


def _app_of(pod: Pod) -> Iterable[str]:
    return (pod.labels.get("app", ""),)


def _named(change: Change) -> Iterable[str] | None:
    """The apps that the label of a node names, or any."""
    named = None if change.new is None else change.new.metadata.labels
    return None if not named else tuple(named)


class Naming:
    """Pods `web` and `db` that a plugin rejected which names pods, and `other` that a plugin rejected which names none."""

    def __init__(self, is_on: bool = True) -> None:
        self.named, self.plain = a_filter("Named", NODE_ADD), a_filter("Plain", NODE_ADD)
        self.named.keys = EventKeys(_app_of, _named, narrows=True)
        self.rig = Rig(self.named, self.plain, pre_queueing_hints=is_on)
        for name, plugin in (("web", "Named"), ("db", "Named"), ("other", "Plain")):
            self.rig.unschedulable(a_pending(name, labels={"app": name}), plugin)


@pytest.mark.parametrize(
    ("labels", "result", "asked"),
    [
        pytest.param({"web": ""}, "narrowed", (["web"], []), id="one pod is named"),
        pytest.param({"web": "", "other": ""}, "narrowed", (["web"], ["other"]), id="a pod of another plugin too"),
        pytest.param({"nobody": ""}, "narrowed", ([], []), id="no pod is named"),
        pytest.param({}, "all_pods", (["web", "db"], ["other"]), id="any pod"),
    ],
)
def test_only_pods_that_are_named_are_asked_about(
    labels: dict[str, str], result: str, asked: tuple[list[str], list[str]]
) -> None:
    naming = Naming()
    naming.rig.queue.wake(NODE_ADD, None, a_node("n", labels=labels))
    assert (naming.named.asked, naming.plain.asked) == asked
    assert naming.rig.queue.counters.pre_hints == {("Named", result): 1}
    counted = sum(naming.rig.queue.counters.hints.values())
    assert counted == len(asked[0]) + len(asked[1])  # those that are not asked are not counted either
    naming.rig.end()


def test_without_the_gate_plugins_that_name_no_pods_are_asked() -> None:
    naming = Naming(is_on=False)
    naming.rig.queue.wake(NODE_ADD, None, a_node("n", labels={"web": ""}))
    assert (naming.named.asked, naming.plain.asked) == (["web"], ["other"])
    assert naming.rig.queue.counters.pre_hints == {}
    assert sum(naming.rig.queue.counters.hints.values()) == 3


def test_a_plugin_is_not_asked_about_pods_that_only_another_names() -> None:
    naming = Naming()
    naming.plain.keys = EventKeys(_app_of, lambda change: ("db",), narrows=True)
    naming.rig = Rig(naming.named, naming.plain, pre_queueing_hints=True)
    naming.rig.unschedulable(a_pending("db", labels={"app": "db"}), "Named", "Plain")
    naming.rig.queue.wake(NODE_ADD, None, a_node("n", labels={"web": ""}))
    assert (naming.named.asked, naming.plain.asked) == ([], ["db"])


def test_wildcards_and_events_without_objects_are_not_narrowed() -> None:
    naming = Naming()
    naming.rig.queue.wake(NODE_ADD)
    assert naming.named.asked == ["web", "db"]
    naming = Naming()
    naming.rig.queue.wake(UNSCHEDULABLE_TIMEOUT)
    assert [naming.rig.where(name) for name in ("web", "db", "other")] == ["backoff"] * 3
    assert naming.rig.queue.counters.pre_hints == {}


def test_events_for_pods_in_flight_are_not_narrowed() -> None:
    naming = Naming()
    naming.rig.add(a_pending("late", labels={"app": "late"}))
    entry = naming.rig.pop()
    naming.rig.queue.wake(NODE_ADD, None, a_node("n", labels={"web": ""}))
    assert naming.rig.reject(entry, "Named") == "backoff"
