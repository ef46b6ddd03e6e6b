"""Watches that end: what follows, how soon, and what is counted of it."""

import asyncio
from itertools import pairwise

import pytest
from aiohttp import web

from mooring.api.api_errors import expired, too_many_requests
from mooring.apiclient.reflectors.reflector import TURN
from mooring.apiclient.reflectors.watch_streams import SilenceLimit, WatchEnd, WatchRecord
from mooring.apiclient.throttle import Timing
from scripted_watches import (
    STAYS,
    STREAMED_LIST,
    WATCH,
    Answer,
    Stage,
    Time,
    a_stage,
    added,
    bookmark,
    failing,
    line,
    list_end,
    lists,
    refuses,
    run,
    says,
    seen,
)

# Watches that end


def test_after_a_clean_end_the_watch_goes_on_from_the_last_version() -> None:
    async def main() -> None:
        async with a_stage(
            says(list_end(7) + added("a", 8)), says(bookmark(20)), says(added("b", 21), then="stay")
        ) as stage:
            asked = await stage.asked(3)
            await stage.until(lambda: len(stage.story.told) == 2)
            assert asked[1:] == [{**WATCH, "resourceVersion": "8"}, {**WATCH, "resourceVersion": "20"}]
            assert stage.story.told == ["+a@8", "+b@21"]
            assert stage.reflector.statistics.lists == 1 and stage.story.reports == []

    run(main())


def test_a_watch_that_lasted_is_taken_up_again_at_once() -> None:
    async def main() -> None:
        held = asyncio.Event()

        async def ends_when_told(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(list_end(7))
            await held.wait()
            return response

        async with a_stage(ends_when_told, STAYS) as stage:
            await stage.until(lambda: stage.reflector.has_synced)
            stage.time.now_s += 2
            held.set()
            await stage.asked(2)
            assert stage.time.slept_s == []

    run(main())


def test_a_connection_that_breaks_costs_nothing_but_a_new_watch() -> None:
    async def main() -> None:
        async with a_stage(
            says(list_end(7) + added("a", 8), then="break"), says(added("a", 8), added("b", 9), then="stay")
        ) as stage:
            asked = await stage.asked(2)
            await stage.until(lambda: len(stage.story.told) == 2)
            assert asked[1] == {**WATCH, "resourceVersion": "8"}
            assert stage.story.told == ["+a@8", "+b@9"] and stage.reflector.statistics.ignored == 1
            assert stage.story.reports == []

    run(main())


def test_an_event_that_is_cut_off_is_asked_for_again() -> None:
    async def main() -> None:
        whole = added("b", 9)
        async with a_stage(
            says(list_end(7), added("a", 8) + whole[:20], then="break"), says(whole, then="stay")
        ) as stage:
            await stage.until(lambda: len(stage.story.told) == 2)
            assert stage.script.asked[1] == {**WATCH, "resourceVersion": "8"}
            assert stage.reflector.statistics.malformed == 0

    run(main())


def test_a_watch_that_ends_at_once_and_says_nothing_is_replaced_by_a_list() -> None:
    async def main() -> None:
        async with a_stage(says(list_end(7)), says(), says(added("a", 8) + list_end(9), then="stay")) as stage:
            asked = await stage.asked(3)
            assert asked[1:] == [{**WATCH, "resourceVersion": "7"}, {**STREAMED_LIST, "resourceVersion": "7"}]
            assert stage.time.slept_s == [0.8]

    run(main())


def test_a_connection_that_has_gone_silent_is_replaced() -> None:
    async def main() -> None:
        async with a_stage(says(list_end(7), then="stay"), says(added("a", 8), then="stay"), STAYS) as stage:
            await stage.until(lambda: stage.reflector.has_synced)
            stage.time.let_pass(179)
            await asyncio.sleep(0.02)
            assert len(stage.script.asked) == 1, "bookmarks are due each minute, and two more are waited for"
            stage.time.let_pass(1)
            await stage.until(lambda: stage.story.told == ["+a@8"])
            assert stage.script.asked[1] == {**WATCH, "resourceVersion": "7"}
            assert stage.reflector.statistics.silences == 1
            assert stage.story.reports == [] and stage.time.slept_s == []

    run(main())


def test_a_watch_that_is_silent_from_the_start_is_no_trouble() -> None:
    async def main() -> None:
        async with a_stage(says(list_end(7) + added("a", 8)), STAYS, STAYS) as stage:
            await stage.asked(2)
            await stage.until(lambda: stage.time.guards == 1 and stage.reflector.record.is_watching)
            stage.time.let_pass(180)
            asked = await stage.asked(3)
            assert asked[1:] == [{**WATCH, "resourceVersion": "8"}] * 2
            assert stage.story.reports == [] and stage.time.slept_s == []
            assert stage.reflector.record.ends == {WatchEnd.AFTER_EVENTS: 1, WatchEnd.SILENT: 1}

    run(main())


def test_a_server_that_does_not_even_answer_is_trouble() -> None:
    async def mute(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        async with a_stage(says(list_end(7)), mute, STAYS) as stage:
            await stage.asked(2)
            await stage.until(lambda: stage.time.guards == 1)
            stage.time.let_pass(180)
            asked = await stage.asked(3)
            assert asked[1:] == [{**WATCH, "resourceVersion": "7"}] * 2
            assert stage.story.reports == ["Failed to watch pods: GET /api/v1/pods: nothing arrived for 180 s"]
            ends = {end.value: count for end, count in stage.reflector.record.ends.items()}
            assert ends == {"after_events": 1, "silent": 1}
            assert stage.time.slept_s == [0.8]

    run(main())


def test_a_cancellation_in_the_moment_of_silence_is_not_mistaken_for_it() -> None:
    async def main() -> None:
        time = Time()

        async def listen() -> None:
            async with SilenceLimit(180, time.timing(), "GET /api/v1/pods"):
                await asyncio.Event().wait()

        task = asyncio.create_task(listen())
        while not time.guards:
            await asyncio.sleep(0)
        time.let_pass(180)
        await asyncio.sleep(0)  # the guard has cancelled the task, which has not run since
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    run(main())


def test_bookmarks_alone_keep_a_watch_alive() -> None:
    async def main() -> None:
        wanted = asyncio.Event()

        async def bookmarks_only(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(list_end(7))
            for version in range(8, 12):
                await wanted.wait()
                wanted.clear()
                await response.write(bookmark(version))
            await asyncio.Event().wait()
            return response

        async with a_stage(bookmarks_only) as stage:
            await stage.until(lambda: stage.reflector.has_synced)
            for version in range(8, 12):
                stage.time.let_pass(170)
                wanted.set()
                await stage.until(lambda version=version: stage.reflector.version == str(version))  # type: ignore[misc]
            assert len(stage.script.asked) == 1

    run(main())


# Watches that end again and again


def test_watches_that_told_something_are_resumed_at_once_however_short_they_were() -> None:
    async def main() -> None:
        brief = [says(added(f"p{version}", version)) for version in range(8, 28)]
        async with a_stage(says(list_end(7)), *brief, says(bookmark(40)), STAYS) as stage:
            asked = await stage.asked(23)
            assert [each["resourceVersion"] for each in asked[1:]] == [*map(str, range(7, 28)), "40"]
            assert len(stage.story.told) == 20 and stage.reflector.statistics.lists == 1
            assert stage.time.slept_s == [] and stage.story.reports == []
            assert stage.reflector.record.ends == {WatchEnd.AFTER_EVENTS: 22}

    run(main())


@pytest.mark.parametrize("line", [added("a", 8), bookmark(8)], ids=["an event", "a bookmark"])
def test_the_pace_starts_over_as_soon_as_a_watch_tells_something(line: bytes) -> None:
    async def main() -> None:
        busy = refuses(too_many_requests("slow down"))
        async with a_stage(says(list_end(7)), busy, busy, says(line), busy, STAYS) as stage:
            await stage.asked(6)
            assert stage.time.slept_s == [0.8, 1.6, 0.8]

    run(main())


def test_a_list_alone_does_not_start_the_pace_over() -> None:
    async def main() -> None:
        gone = refuses(expired("too old"))
        async with a_stage(says(list_end(7)), gone, says(list_end(9)), gone, says(list_end(11)), gone, STAYS) as stage:
            await stage.asked(7)
            assert stage.time.slept_s == [0.8, 1.6, 3.2], "lists cost much: those that lead to nothing become rare"

    run(main())


def test_a_connection_that_breaks_before_it_told_anything_is_no_trouble_but_a_reason_to_wait() -> None:
    async def main() -> None:
        cut = says(then="break")
        async with a_stage(says(list_end(7)), cut, cut, says(added("a", 8), then="stay")) as stage:
            asked = await stage.asked(4)
            assert asked[1:] == [{**WATCH, "resourceVersion": "7"}] * 3
            assert stage.time.slept_s == [0.8, 1.6] and stage.story.reports == []
            assert stage.reflector.record.ends == {WatchEnd.AFTER_EVENTS: 1, WatchEnd.WITHOUT_EVENTS: 2}

    run(main())


def test_a_short_watch_that_only_repeats_itself_is_resumed_after_a_pause() -> None:
    async def main() -> None:
        again = says(added("a", 8))
        async with a_stage(says(list_end(7) + added("a", 8)), again, again, STAYS) as stage:
            asked = await stage.asked(4)
            assert asked[1:] == [{**WATCH, "resourceVersion": "8"}] * 3
            assert stage.time.slept_s == [0.8, 1.6] and stage.story.told == ["+a@8"]

    run(main())


def test_an_unreadable_object_with_a_name_does_not_slow_the_watch_down() -> None:
    async def main() -> None:
        broken = line("ADDED", {**seen("x", 8), "spec": {"containers": 7}})
        async with a_stage(says(list_end(7)), says(broken), says(added("a", 9), then="stay")) as stage:
            asked = await stage.asked(3)
            assert asked[2] == {**WATCH, "resourceVersion": "8"} and stage.time.slept_s == []

    run(main())


def test_short_watches_full_of_garbage_lead_to_lists_that_become_rare() -> None:
    async def main() -> None:
        garbage = [says(list_end(at), added("a", at + 1), b"{oops\n") for at in (7, 17, 27)]
        async with a_stage(*garbage, STAYS) as stage:
            asked = await stage.asked(4)
            assert asked[1:] == [{**STREAMED_LIST, "resourceVersion": str(at)} for at in (8, 18, 28)]
            assert stage.time.slept_s == [0.8, 1.6, 3.2]

    run(main())


@pytest.mark.parametrize(("lived_s", "is_listed"), [(0.99, True), (1.0, False)], ids=["under a second", "a second"])
def test_an_empty_watch_puts_its_version_in_question_only_if_it_was_short(lived_s: float, is_listed: bool) -> None:
    async def main() -> None:
        held = asyncio.Event()

        async def ends_when_told(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await held.wait()
            return response

        async with a_stage(says(list_end(7)), ends_when_told, STAYS) as stage:
            await stage.asked(2)
            stage.time.now_s += lived_s
            held.set()
            asked = await stage.asked(3)
            assert asked[2] == {**(STREAMED_LIST if is_listed else WATCH), "resourceVersion": "7"}
            assert stage.time.slept_s == ([0.8] if is_listed else [])
            assert stage.reflector.record.ends[WatchEnd.WITHOUT_EVENTS] == 1

    run(main())


def test_a_doubt_is_settled_by_the_list_that_follows() -> None:
    async def main() -> None:
        garbage = says(list_end(7), added("a", 8), b"{oops\n")
        anew = says(added("a", 8), list_end(9), added("b", 10))
        async with a_stage(garbage, anew, STAYS) as stage:
            asked = await stage.asked(3)
            assert asked[1:] == [{**STREAMED_LIST, "resourceVersion": "8"}, {**WATCH, "resourceVersion": "10"}]
            statistics = stage.reflector.statistics
            assert (statistics.watches, statistics.events, statistics.delivered) == (3, 6, 2)

    run(main())


# Turns


def test_others_have_their_turn_while_many_events_are_taken_in() -> None:
    async def main() -> None:
        lines = b"".join(added(f"p{number}", 8 + number) for number in range(10 * TURN))
        turns: list[int] = []

        async def look(stage: Stage) -> None:
            while not stage.story.told or stage.story.told[-1] != f"+p{10 * TURN - 1}@{7 + 10 * TURN}":
                turns.append(len(stage.story.told))
                await asyncio.sleep(0)

        async with a_stage(says(list_end(7) + lines, then="stay")) as stage:
            await asyncio.wait_for(look(stage), 5)
            most = max(later - earlier for earlier, later in pairwise(turns))
            assert most <= TURN and turns[-1] >= 9 * TURN - TURN

    run(main())


# The record


def test_the_time_without_a_watch_is_counted_up_to_now() -> None:
    now_s = [100.0]
    record = WatchRecord(Timing(lambda: now_s[0]))
    now_s[0] = 103.0
    assert record.gap_s() == 3.0 and not record.is_watching
    record.answered()
    now_s[0] = 110.0
    record.answered()
    assert record.gap_s() == 3.0 and record.is_watching
    record.ended(WatchEnd.AFTER_EVENTS)
    now_s[0] = 112.0
    record.ended(WatchEnd.FAILED)
    now_s[0] = 115.0
    assert record.gap_s() == 8.0 and not record.is_watching
    assert record.ends == {WatchEnd.AFTER_EVENTS: 1, WatchEnd.FAILED: 1}


@pytest.mark.parametrize("is_watching", [True, False], ids=["in a watch", "between two"])
def test_a_record_can_start_anew(is_watching: bool) -> None:
    now_s = [100.0]
    record = WatchRecord(Timing(lambda: now_s[0]))
    now_s[0] = 103.0
    record.answered()
    if not is_watching:
        record.ended(WatchEnd.EXPIRED)
    now_s[0] = 105.0
    record.clear()
    now_s[0] = 106.0
    assert record.gap_s() == (0.0 if is_watching else 1.0) and not record.ends


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        pytest.param([says(list_end(7)), STAYS], {"after_events": 1}, id="after a list"),
        pytest.param([says(added("a", 3)), lists(7), STAYS], {"failed": 1}, id="in a list that breaks off"),
        pytest.param([says(list_end(7)), says(), STAYS], {"after_events": 1, "without_events": 1}, id="empty"),
        pytest.param([says(list_end(7)), refuses(expired("old")), STAYS], {"after_events": 1, "expired": 1}, id="410"),
        pytest.param(
            [says(list_end(7)), says(added("a", 8), failing(expired("old"))), STAYS],
            {"after_events": 1, "expired": 1},
            id="410 as an event",
        ),
        pytest.param([refuses(too_many_requests("no")), STAYS], {"failed": 1}, id="refused"),
        pytest.param([says(added("a", 3), then="break"), STAYS], {"failed": 1}, id="a list that is cut"),
    ],
)
def test_how_watches_ended(answers: list[Answer], ends: dict[str, int]) -> None:
    async def main() -> None:
        async with a_stage(*answers) as stage:
            await stage.asked(len(answers))
            await stage.until(lambda: sum(stage.reflector.record.ends.values()) == sum(ends.values()))
            assert {end.value: count for end, count in stage.reflector.record.ends.items()} == ends

    run(main())
