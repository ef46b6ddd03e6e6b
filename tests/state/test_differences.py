"""In what way a step differs from its recording."""

import pytest

from mooring.state.recording.recorded_steps import ATTEMPT, Outcome
from mooring.state.recording.run_reading import RecordedStep
from mooring.state.replay import differences
from mooring.state.replay.differences import ReplayTally, kind_of_difference
from mooring.state.replay.replayer import ReplayedStep

ON_A, ON_B, NOWHERE = ("bind", "ns/p", "a"), ("bind", "ns/p", "b"), ("fail", "ns/p", "0/2 nodes are available")
EVICTS_V, EVICTS_W = ("evict", "ns/v", "ns/p"), ("evict", "ns/w", "ns/p")


@pytest.mark.parametrize(
    ("recorded", "ours", "kind"),
    [
        pytest.param([ON_A], [ON_B], differences.ANOTHER_NODE, id="another node"),
        pytest.param([ON_A], [NOWHERE], differences.NO_NODE, id="no node"),
        pytest.param([NOWHERE], [ON_A], differences.A_NODE, id="a node"),
        pytest.param([NOWHERE], [("fail", "ns/p", "x")], differences.ANOTHER_MESSAGE, id="another message"),
        pytest.param([NOWHERE, EVICTS_V], [NOWHERE, EVICTS_W], differences.OTHER_VICTIMS, id="other victims"),
        pytest.param(
            [NOWHERE, ("nominate", "ns/p", "a")],
            [NOWHERE, ("nominate", "ns/p", "b")],
            differences.ANOTHER_NOMINATION,
            id="another nomination",
        ),
        pytest.param([ON_A], [("bind", "ns/q", "a")], differences.ANOTHER_POD, id="another pod"),
        pytest.param([ON_A], [ON_A, ("bind", "ns/q", "a")], differences.ANOTHER_POD, id="one pod more"),
        pytest.param([ON_A], [], differences.NOTHING, id="nothing"),
        pytest.param([], [ON_A], differences.SOMETHING, id="something"),
        pytest.param([("write", "PATCH", "X", "a")], [], differences.OTHER_REQUESTS, id="a write is missing"),
        pytest.param([ON_A], [ON_A, ("call", "bind")], differences.OTHER_REQUESTS, id="one call more"),
        pytest.param([ON_A, ON_A], [ON_A], differences.OTHER_REQUESTS, id="twice"),
    ],
)
def test_the_kind_that_says_most_is_found(recorded: list[Outcome], ours: list[Outcome], kind: str) -> None:
    assert kind_of_difference(recorded, ours) == kind


def test_a_tally_counts_decisions_and_what_differs() -> None:
    tally = ReplayTally()
    for number, (recorded, ours) in enumerate([([ON_A], [ON_A]), ([NOWHERE, EVICTS_V], [ON_B]), ([], [])], 1):
        step = RecordedStep(ATTEMPT, number * 10, None, tuple(recorded))
        tally.add(ReplayedStep(number, step, tuple(ours)))
    assert (tally.steps, tally.decisions, tally.equal_decisions) == (3, 2, 1)
    assert (tally.binds, tally.failures, tally.evictions) == (1, 1, 1)
    assert (tally.differing_steps, tally.first_ns, tally.last_ns) == (1, 10, 30)
    total = ReplayTally()
    total.include(tally)
    total.include(tally)
    assert (total.steps, total.decisions, total.differing_steps) == (6, 4, 2)
    assert total.by_kind == {differences.A_NODE: 2}
