"""Gates whose plugins are measured: each admission of a known profile, whatever comes of it."""

from typing import Any

from queue_rig import PROFILE, a_gate, a_pending, a_profile

from mooring.queue.counters import QueueCounters
from mooring.queue.entry import QueuedPod
from mooring.queue.gates import ask_plainly
from mooring.queue.metered_gates import MeteredGates


class FakeMeters:
    """Samples every second admission, and notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def probe(self, number: int) -> "FakeMeters | None":
        self.told.append(f"admission {number}")
        return self if number % 2 else None

    def call(self, point: str, plugin: str, ask: Any, *args: Any) -> Any:
        self.told.append(f"{point} {plugin}")
        return ask(*args)

    def now_ns(self) -> int:
        return 5

    def observe(self, *seen: Any) -> None:
        self.told.append(seen)


def test_admissions_are_measured_and_some_plugins_are_timed() -> None:
    meters, gate = FakeMeters(), a_gate("Gate")
    gates = MeteredGates(
        {PROFILE: a_profile(gate), "other": a_profile(gate, name="other")},
        lambda plugin: (),
        QueueCounters(),
        lambda text, error: None,
        ask_plainly,
        {PROFILE: meters},  # type: ignore[dict-item]
    )
    whole = ("PreEnqueue", "Success", 5)
    assert gates.admit(QueuedPod(a_pending(), 0))
    assert meters.told == ["admission 1", "PreEnqueue Gate", whole]
    assert gates._probe is None, "nothing is timed between two admissions"
    assert not gates.admit(QueuedPod(a_pending(schedulingGates=[{"name": "wait"}]), 0))
    assert meters.told[3:] == ["admission 2", whole]
    assert gates.admit(QueuedPod(a_pending(schedulerName="other"), 0))
    assert len(meters.told) == 5 and gate.seen == ["pod"] * 3, "a profile without meters is asked all the same"
