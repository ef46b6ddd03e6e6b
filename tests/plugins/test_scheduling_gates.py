"""SchedulingGates: who waits, and in which words."""

import pytest

from alone import build
from build import a_pod
from mooring.framework.contract.status import final
from mooring.plugins.queue_and_bind import SchedulingGates

GATES: dict[str, tuple[list[str], str | None]] = {
    "no gates": ([], None),
    "one gate": (["example.com/wait"], "waiting for scheduling gates: [example.com/wait]"),
    "several, as they are written": (["z", "a"], "waiting for scheduling gates: [z a]"),
}


@pytest.mark.parametrize(("gates", "text"), GATES.values(), ids=GATES.keys())
def test_a_pod_with_gates_waits(gates: list[str], text: str | None) -> None:
    said = build(SchedulingGates).pre_enqueue(a_pod(schedulingGates=[{"name": name} for name in gates]))
    assert said == (None if text is None else final(text))


def test_a_pod_that_says_nothing_of_gates_passes() -> None:
    assert build(SchedulingGates).pre_enqueue(a_pod()) is None
