"""A recorded day with gangs replays equal: gangs of two teams that compete, are retried, and preempt each other."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node
from gangs import GROUP_GATES, a_group, a_member
from how_many import examples
from mooring.inputs.arrivals import Arrival
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.replay.differences import ReplayTally
from mooring.state.replay.replayer import Replayer
from recorded_days import only_run, record_day

SHORT = RecordingLimits(interval_s=20, drops=False)
Gang = tuple[str, int, int, int, int, str]
"""(team, arrival in seconds, size, minimum, run in seconds, cpu); a team's name begins with its priority."""


def arrivals_of(gangs: list[Gang]) -> tuple[list[KubeObject], list[Arrival]]:
    groups: list[KubeObject] = []
    arrivals = []
    for number, (team, at_s, size, least, run_s, cpu) in enumerate(gangs):
        name = f"{team}-{number}"
        groups.append(a_group(name, least, priority=100 if team == "high" else 0))
        for i in range(size):
            pod = a_member(f"{name}-{i}", name, cpu=cpu, priority=100 if team == "high" else 0)
            arrivals.append(Arrival((at_s + i % 2) * NS_PER_S, pod, run_s * NS_PER_S))
    return groups, sorted(arrivals, key=lambda arrival: arrival.at_ns)


def replayed(run: RecordedRun, from_ns: int | None = None) -> tuple[ReplayTally, list[str]]:
    replayer, tally = Replayer(run), ReplayTally()
    for step in replayer.steps(from_ns):
        tally.add(step)
    assert replayer.fault_count == 0
    return tally, replayer.problems


def check(gangs: list[Gang], node_count: int, seed: int | None) -> int:
    """Record, and replay from each state. Returns how often pods were bound."""
    groups, arrivals = arrivals_of(gangs)
    there: list[KubeObject] = [*(a_node(f"n{i}", cpu="4") for i in range(node_count)), *groups]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        report = record_day(path, there, arrivals, limits=SHORT, seed=seed, until_s=150, gates=GROUP_GATES)
        run = only_run(path)
        tally, problems = replayed(run)
        assert (problems, tally.differing_steps, tally.binds) == ([], 0, sum(report.placed_on().values()))
        for segment in run.segments:
            part, problems = replayed(run, segment.header.started_ns)
            assert (problems, part.differing_steps) == ([], 0)
    return tally.binds


def test_two_teams_compete_and_the_gang_that_waits_is_retried() -> None:
    gangs: list[Gang] = [("a", 0, 4, 4, 30, "2"), ("b", 1, 4, 4, 30, "2"), ("a", 2, 2, 2, 10, "1")]
    assert check(gangs, node_count=2, seed=3) == 10


def test_a_gang_preempts_another() -> None:
    gangs: list[Gang] = [("low", 0, 4, 4, 60, "2"), ("high", 10, 2, 2, 20, "4")]
    assert check(gangs, node_count=2, seed=3) >= 6


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(50))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["low", "high"]),
            st.integers(0, 40),
            st.integers(1, 4),
            st.integers(1, 4),
            st.sampled_from([5, 30]),
            st.sampled_from(["1", "2", "4"]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 3),
    st.sampled_from([None, 5]),
)
def test_any_day_of_gangs_replays_equal(gangs: list[Gang], node_count: int, seed: int | None) -> None:
    check(gangs, node_count, seed)
