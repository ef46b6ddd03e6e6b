"""A recording as a moment that moves: wherever it goes, it shows what a fresh replay up to there knows."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from how_many import examples
from mooring.dashboard.interfaces import Refused, SeekTarget
from mooring.dashboard.recorded_decisions import RecordedDecisions, read_decisions
from mooring.dashboard.slices import at_once
from mooring.dashboard.time_line import CursorMark, PassedMarks, RecordedTimeLine, ReplayCursor
from mooring.dashboard.views.scheduling_flow import StoryLine
from mooring.drivers.simulated_driver import START_NS
from mooring.kit.clock import NS_PER_S, in_millis
from mooring.state.recording.run_reading import RecordedRun, runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.differences import ReplayTally
from mooring.state.replay.replayer import Replayer
from recorded_moments import fresh_after_decision, fresh_at, knowledge, record_a_minute


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    return record_a_minute(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def decisions(run: RecordedRun) -> RecordedDecisions:
    return read_decisions([run])


def a_time_line(decisions: RecordedDecisions) -> RecordedTimeLine:
    """Each step is a slice of its own, so that others have their turn after it."""
    return RecordedTimeLine(decisions, is_due=lambda began_s: True)


def test_the_table_has_the_decisions_that_a_replay_makes(run: RecordedRun, decisions: RecordedDecisions) -> None:
    tally = ReplayTally()
    for step in Replayer(run).steps():
        tally.add(step)
    lines = list(decisions.lines(0, 10_000))
    assert len(lines) == len(decisions) == tally.decisions > 20
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert sum(line.result == "scheduled" for line in lines) == tally.binds
    assert {line.result for line in lines} == {"scheduled", "unschedulable", "nominated"}
    assert (decisions.spans[0].steps, decisions.start_ns, decisions.end_ns) == (tally.steps, START_NS, tally.last_ns)
    assert sum(decisions.density()) == len(decisions)
    assert len(run.segments) == len(decisions.spans[0].segments) > 2


def test_a_line_names_its_pod_and_its_node(decisions: RecordedDecisions) -> None:
    first = msgspec.to_builtins(next(decisions.lines(0, 1)))
    assert first == {
        "number": 1,
        "time": "2026-02-01T00:00:00.001Z",
        "namespace": "default",
        "name": "p-0",
        "node": "n0",
        "result": "scheduled",
        "pods": 1,
    }
    assert [line.number for line in decisions.lines(5, 3)] == [6, 7, 8]
    assert not list(decisions.lines(len(decisions), 3))


TARGETS = st.lists(
    st.one_of(
        st.integers(0, 60).map(lambda number: SeekTarget(decision=number)),
        st.integers(-10, 10).map(lambda step: SeekTarget(step=step)),
        st.integers(0, 60_000).map(lambda ms: SeekTarget(time=in_millis(START_NS + ms * 1_000_000))),
    ),
    min_size=1,
    max_size=6,
)


@given(targets=TARGETS, mark_steps=st.sampled_from([1, 7, 500]))
@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_way_leads_to_the_state_of_a_fresh_replay(
    run: RecordedRun, decisions: RecordedDecisions, targets: Sequence[SeekTarget], mark_steps: int
) -> None:
    """Also from places that it has passed."""

    async def walk() -> None:
        line, position = RecordedTimeLine(decisions, mark_steps=mark_steps), 0
        for target in targets:
            state = await line.seek(target)
            assert not state.seeking
            if target.time is not None:
                when_ns = line.now_ns()
                assert knowledge(line.cursor.scheduler) == knowledge(fresh_at(run, when_ns)), target
                position = sum(decisions.time_ns(each.number) <= when_ns for each in decisions.lines(0, 10_000))
            else:
                wanted = target.decision if target.decision is not None else position + (target.step or 0)
                position = min(max(wanted, 0), len(decisions))
                if position:
                    assert knowledge(line.cursor.scheduler) == knowledge(fresh_after_decision(run, position)), target
            assert state.position == position

    asyncio.run(walk())


def test_the_rest_of_a_day_is_the_same_from_every_place_that_was_passed(
    run: RecordedRun, decisions: RecordedDecisions
) -> None:
    """A cursor that begins at a mark makes all later steps as the first one did."""
    span = decisions.spans[0]
    first, marks = prepared(ReplayCursor(span)), PassedMarks(min_steps=1, max_marks=1000)
    while first.next_ns() is not None:
        first.make()
        marks.pass_by(first)
    assert len(marks) > span.steps // 2
    for wanted in range(0, span.steps, 9):
        mark = marks.before(partial(_is_after, wanted))
        if mark is None:
            continue
        again = prepared(ReplayCursor(span, mark=mark))
        while again.next_ns() is not None:
            again.make()
        assert (again.steps, again.decisions, again.latest_ns) == (first.steps, first.decisions, first.latest_ns)
        assert knowledge(again.scheduler) == knowledge(first.scheduler)


def prepared(cursor: ReplayCursor) -> ReplayCursor:
    for _ in cursor.prepare():
        pass
    return cursor


def _is_after(steps: int, mark: CursorMark) -> bool:
    return mark.steps > steps


def test_few_marks_are_kept_and_the_newest_are_close(decisions: RecordedDecisions) -> None:
    cursor, marks = prepared(ReplayCursor(decisions.spans[0])), PassedMarks(min_steps=1, max_marks=10)
    while cursor.next_ns() is not None:
        cursor.make()
        marks.pass_by(cursor)
    assert len(marks) == 10
    last_before = [marks.before(partial(_is_after, steps)) for steps in range(cursor.steps + 1)]
    found = sorted({mark.steps for mark in last_before if mark is not None})
    assert len(found) == 10
    assert found[0] < cursor.steps // 4
    assert found[-1] - found[-5] <= 12


def test_far_ahead_a_move_begins_at_a_state(decisions: RecordedDecisions) -> None:
    async def moves() -> None:
        line = RecordedTimeLine(decisions, mark_steps=1)
        first = line.cursor
        await line.seek(SeekTarget(decision=2))
        assert line.cursor is first
        await line.seek(SeekTarget(decision=len(decisions)))
        assert line.cursor is not first

    asyncio.run(moves())


def test_stories_stay_when_the_time_line_goes_back(decisions: RecordedDecisions) -> None:
    def told(line: RecordedTimeLine) -> list[StoryLine]:
        return at_once(line.cursor.stories.of("default/p-1"))

    async def moves() -> None:
        line = RecordedTimeLine(decisions, mark_steps=20)
        await line.seek(SeekTarget(decision=4))
        there = told(line)
        assert any("bound" in text for _, text in there)
        await line.seek(SeekTarget(decision=12))
        shown = line.cursor
        await line.seek(SeekTarget(decision=10))
        assert line.cursor is not shown
        assert told(line)[: len(there)] == there
        await line.seek(SeekTarget(decision=1))
        assert not told(line)

    asyncio.run(moves())


def test_a_newer_move_replaces_one_under_way(run: RecordedRun, decisions: RecordedDecisions) -> None:
    async def moves() -> None:
        line = a_time_line(decisions)
        first = asyncio.create_task(line.seek(SeekTarget(decision=len(decisions))))
        for _ in range(5):
            await asyncio.sleep(0)
        assert line.state().seeking
        second = asyncio.create_task(line.seek(SeekTarget(decision=3)))
        replaced, reached = await first, await second
        assert replaced.position < len(decisions)
        assert (reached.position, reached.seeking) == (3, False)
        assert knowledge(line.cursor.scheduler) == knowledge(fresh_after_decision(run, 3))

    asyncio.run(moves())


def test_steps_that_come_fast_add_up(decisions: RecordedDecisions) -> None:
    async def moves() -> None:
        line = a_time_line(decisions)
        await asyncio.gather(*(line.seek(SeekTarget(step=2)) for _ in range(5)))
        assert line.state().position == 10

    asyncio.run(moves())


def test_going_back_shows_the_old_moment_until_the_new_one_is_reached(decisions: RecordedDecisions) -> None:
    async def moves() -> None:
        line = a_time_line(decisions)
        await line.seek(SeekTarget(decision=20))
        version, shown = line.version, line.cursor
        back = asyncio.create_task(line.seek(SeekTarget(decision=19)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (line.state().seeking, line.state().position, line.cursor) == (True, 20, shown)
        assert (await back).position == 19
        assert line.version > version

    asyncio.run(moves())


def test_a_move_goes_on_when_its_client_goes_away(decisions: RecordedDecisions) -> None:
    async def moves() -> None:
        line = a_time_line(decisions)
        asked = asyncio.create_task(line.seek(SeekTarget(decision=9)))
        await asyncio.sleep(0)
        asked.cancel()
        while line.state().seeking:
            await asyncio.sleep(0)
        assert line.state().position == 9
        await line.close()

    asyncio.run(moves())


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-01", "1e400", "\0"])
def test_times_that_are_none_are_refused(decisions: RecordedDecisions, text: str) -> None:
    async def move() -> None:
        with pytest.raises(Refused) as caught:
            await RecordedTimeLine(decisions).seek(SeekTarget(time=text))
        assert caught.value.status == 422

    asyncio.run(move())


def test_numbers_and_times_beyond_the_ends_mean_the_ends(decisions: RecordedDecisions) -> None:
    async def moves() -> None:
        line = RecordedTimeLine(decisions)
        assert (await line.seek(SeekTarget(decision=10**30))).position == len(decisions)
        assert (await line.seek(SeekTarget(step=-(10**30)))).position == 0
        assert (await line.seek(SeekTarget(time="2999-01-01T00:00:00Z"))).position == len(decisions)
        assert line.state().now == in_millis(decisions.end_ns)
        assert (await line.seek(SeekTarget(time="1970-01-01T00:00:00Z"))).now == "2026-02-01T00:00:00.000Z"
        assert (await line.seek(SeekTarget(time="10s"))).now == in_millis(START_NS + 10 * NS_PER_S)

    asyncio.run(moves())


def test_two_runs_follow_each_other(tmp_path: Path) -> None:
    record_a_minute(tmp_path / "a")
    record_a_minute(tmp_path / "b")
    runs = [*runs_in(tmp_path / "a"), *runs_in(tmp_path / "b")]
    decisions = read_decisions(runs)

    async def moves() -> None:
        line = RecordedTimeLine(decisions)
        half = len(decisions) // 2
        for number in (half + 2, half, 1, len(decisions)):
            assert (await line.seek(SeekTarget(decision=number))).position == number
            own = number if number <= half else number - half
            assert knowledge(line.cursor.scheduler) == knowledge(fresh_after_decision(runs[number > half], own))

    asyncio.run(moves())


def test_a_damaged_segment_is_passed_over(tmp_path: Path) -> None:
    run = record_a_minute(tmp_path)
    path = run.segments[1].path
    path.write_bytes(path.read_bytes()[:-40])
    damaged = runs_in(tmp_path)
    decisions = read_decisions(damaged)
    assert decisions.problems

    async def moves() -> None:
        line = RecordedTimeLine(decisions)
        assert (await line.seek(SeekTarget(decision=len(decisions)))).position == len(decisions)
        assert (await line.seek(SeekTarget(step=-1))).position == len(decisions) - 1
        assert (await line.seek(SeekTarget(decision=2))).position == 2
        assert knowledge(line.cursor.scheduler) == knowledge(fresh_after_decision(run, 2))
        await line.seek(SeekTarget(decision=len(decisions)))
        assert knowledge(line.cursor.scheduler) == knowledge(fresh_after_decision(damaged[0], len(decisions)))

    asyncio.run(moves())


def test_the_last_moment_before_a_gap_is_shown_as_the_one_behind_it(tmp_path: Path) -> None:
    """Between the two nobody knows what happened, and no moment is shown half restored."""
    run = record_a_minute(tmp_path)
    path = run.segments[1].path
    path.write_bytes(path.read_bytes()[:-40])
    decisions = read_decisions(runs_in(tmp_path))

    async def moves() -> None:
        line = RecordedTimeLine(decisions, mark_steps=1)
        for number in range(1, len(decisions) + 1):
            await line.seek(SeekTarget(decision=number))
            assert len(line.cursor.scheduler.cluster.nodes.row_book) == 3

    asyncio.run(moves())


def test_nothing_to_replay_is_an_error() -> None:
    with pytest.raises(RecordingError, match="no run that can be read"):
        RecordedTimeLine(read_decisions([]))
