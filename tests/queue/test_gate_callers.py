"""PreEnqueue plugins are called through the caller of their profile: each admission, whatever comes of it."""

from queue_rig import PROFILE, a_gate, a_pending, a_profile

from mooring.queue.entry import QueueCounters, new_entry
from mooring.queue.gates import Gates
from recording_caller import RecordingCaller


def test_admissions_are_points_and_some_are_noted_call_by_call() -> None:
    caller, gate = RecordingCaller(samples=lambda number: number % 2 == 1), a_gate("Gate")
    profiles = {PROFILE: a_profile(gate), "other": a_profile(gate, name="other")}
    gates = Gates(profiles, QueueCounters(), lambda text, error: None, {PROFILE: caller})
    whole = ("PreEnqueue", "Success", 5)
    assert gates.admit(new_entry(a_pending(), 0))
    assert caller.seen == ["PreEnqueue Gate", whole]
    assert not gates.admit(new_entry(a_pending(schedulingGates=[{"name": "wait"}]), 0))
    assert caller.seen[2:] == [whole]
    assert gates.admit(new_entry(a_pending(schedulerName="unknown"), 0)) and gate.seen == ["pod"] * 2
