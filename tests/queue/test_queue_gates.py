"""Gates: who is asked in which order, and what is noted on the entry."""

from queue_rig import GATES_ELIMINATED, NODE_LABEL, PROFILE, FakeGate, a_gate, a_pending, a_profile

from mooring.framework.contract.status import PluginError
from mooring.model.pod import Pod
from mooring.queue.entry import QueueCounters, new_entry
from mooring.queue.gates import Gates
from recording_caller import RecordingCaller


class Gated:
    """Three gates in front of one pod."""

    def __init__(self) -> None:
        self.plugins = [a_gate(name, GATES_ELIMINATED, NODE_LABEL) for name in ("A", "B", "C")]
        self.counters = QueueCounters()
        self.reports: list[tuple[str, Exception | None]] = []
        self.caller = RecordingCaller()
        self.gates = Gates(
            {PROFILE: a_profile(*self.plugins)},
            self.counters,
            lambda text, error: self.reports.append((text, error)),
            {PROFILE: self.caller},
        )
        self.entry = new_entry(a_pending(), 0)

    def close(self, *names: str) -> None:
        for plugin in self.plugins:
            plugin.objects_to = _always if plugin.name in names else _never

    def admit(self) -> tuple[bool, list[str]]:
        """Whether the pod may pass, and who was asked."""
        self.caller.seen.clear()
        is_admitted = self.gates.admit(self.entry)
        return is_admitted, [seen.removeprefix("PreEnqueue ") for seen in self.caller.seen[:-1]]


def _always(pod: Pod) -> bool:
    return True


def _never(pod: Pod) -> bool:
    return False


def test_all_are_asked_in_the_order_of_the_profile() -> None:
    assert Gated().admit() == (True, ["A", "B", "C"])


def test_the_first_objection_ends_it_and_is_noted() -> None:
    gated = Gated()
    gated.close("B", "C")
    assert gated.admit() == (False, ["A", "B"])
    entry = gated.entry
    assert (entry.gating_plugin, entry.gating_message, entry.is_gated) == ("B", "B says no", True)
    assert entry.rejectors == ("B",)


def test_who_objected_last_time_is_asked_first() -> None:
    gated = Gated()
    gated.close("C")
    gated.admit()
    assert gated.admit() == (False, ["C"])
    gated.close("B")
    assert gated.admit() == (False, ["C", "A", "B"])


def test_old_objections_stay_among_the_rejectors_until_the_next_attempt_fails() -> None:
    gated = Gated()
    gated.close("B")
    gated.admit()
    gated.close()
    assert gated.admit() == (True, ["B", "A", "C"])
    entry = gated.entry
    assert (entry.gating_plugin, entry.gating_message) == ("", "")
    assert entry.rejectors == ("B",)


def test_a_pod_counts_once_for_each_plugin_that_holds_it_back() -> None:
    gated = Gated()
    gated.close("B")
    gated.admit()
    gated.admit()
    gated.close("C")
    gated.admit()
    assert gated.counters.unschedulable == {("B", PROFILE): 1, ("C", PROFILE): 1}


def test_a_plugin_that_waits_already_is_noted_but_not_counted_again() -> None:
    gated = Gated()
    gated.entry.reject_by([], pending=["B"])
    gated.close("B")
    gated.admit()
    assert gated.entry.unschedulable_plugins == ("B",)
    assert gated.entry.rejectors == ("B",)
    assert gated.counters.unschedulable == {}


def test_a_plugin_that_fails_holds_the_pod_back_and_is_reported() -> None:
    gated = Gated()
    plugin: FakeGate = gated.plugins[1]
    error = plugin.error = PluginError("no answer")
    assert gated.admit() == (False, ["A", "B"])
    assert (gated.entry.gating_plugin, gated.entry.gating_message) == ("B", "no answer")
    assert gated.reports == [("PreEnqueue of plugin B failed on pod default/pod", error)]


def test_a_pod_of_an_unknown_profile_meets_no_gates() -> None:
    gated = Gated()
    gated.close("A")
    gated.entry = new_entry(a_pending(schedulerName="unknown"), 0)
    assert gated.admit() == (True, [])
