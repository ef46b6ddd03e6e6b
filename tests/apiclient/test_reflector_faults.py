"""Reflectors against a server in this process that misbehaves by script: what they ask next, when, and what they say."""

import asyncio

import pytest
from aiohttp import web

from mooring.api.api_errors import (
    ApiError,
    expired,
    forbidden,
    internal_error,
    invalid,
    not_found,
    too_many_requests,
    version_too_large,
)
from mooring.api.kind_spec import KindSpec, Watch
from mooring.apiclient.client import ApiClient, ClientOptions
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.reflectors.reflector import WATCHED, Reflector, ReflectorOptions, Reflectors
from mooring.apiclient.reflectors.watch_streams import advice
from mooring.apiclient.throttle import Timing
from scripted_watches import (
    NEWER_PAGE,
    OPTIONAL,
    PAGE,
    PODS,
    STAYS,
    STREAMED_LIST,
    WATCH,
    Answer,
    Script,
    Story,
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
    served,
)

# Lists


def test_a_streamed_list_goes_on_as_the_watch() -> None:
    async def main() -> None:
        start = says(added("a", 3), added("b", 5) + list_end(7) + added("c", 8), then="stay")
        async with a_stage(start) as stage:
            await stage.until(lambda: len(stage.story.told) == 3)
            assert stage.script.asked == [STREAMED_LIST]
            assert stage.story.told == ["+a@3", "+b@5", "+c@8"]
            assert stage.reflector.has_synced and stage.reflector.settled.is_set()
            assert stage.reflector.version == "8"

    run(main())


def test_nothing_is_told_of_a_list_before_it_is_complete() -> None:
    async def main() -> None:
        async with a_stage(says(added("a", 3), then="break"), says(added("b", 5), list_end(7), then="stay")) as stage:
            await stage.until(lambda: stage.reflector.has_synced)
            assert stage.story.told == ["+b@5"]
            assert stage.script.asked == [STREAMED_LIST, STREAMED_LIST]
            assert stage.time.slept_s == [0.8]
            assert stage.reflector.statistics.lists == 2 and stage.reflector.statistics.relists == 0

    run(main())


def test_a_list_that_is_cut_twice_comes_in_pages() -> None:
    async def main() -> None:
        cuts = [says(added("a", 3), then="break")] * 2
        async with a_stage(*cuts, lists(7, seen("a", 3)), says(then="stay")) as stage:
            await stage.until(lambda: stage.reflector.has_synced)
            assert stage.story.told == ["+a@3"]
            assert stage.script.asked[:3] == [STREAMED_LIST, STREAMED_LIST, {**PAGE, "resourceVersion": "0"}]

    run(main())


@pytest.mark.parametrize(
    "refusal",
    [invalid("ListOptions", "", ()), ApiError(400, "BadRequest", "no"), internal_error("no"), ApiError(501, "", "no")],
    ids=lambda error: str(error.code),
)
def test_a_server_that_refuses_to_stream_is_asked_for_pages(refusal: ApiError) -> None:
    async def main() -> None:
        pages = (lists(7, seen("a", 3), more="token"), lists(7, seen("b", 5)))
        async with a_stage(refuses(refusal), *pages, says(added("c", 8), then="stay")) as stage:
            await stage.until(lambda: len(stage.story.told) == 3)
            assert stage.story.told == ["+a@3", "+b@5", "+c@8"]
            assert stage.script.asked == [
                STREAMED_LIST,
                {**PAGE, "resourceVersion": "0"},
                {**PAGE, "continue": "token"},
                {**WATCH, "resourceVersion": "7"},
            ]
            assert stage.time.slept_s == [] and stage.story.reports == []

    run(main())


def test_what_a_streamed_list_told_before_it_failed_is_not_mixed_with_the_pages() -> None:
    async def main() -> None:
        failed = says(added("a", 3), failing(internal_error("no")))
        async with a_stage(failed, lists(7, seen("b", 5)), STAYS) as stage:
            await stage.asked(3)
            assert stage.story.told == ["+b@5"]

    run(main())


def test_a_server_that_refused_to_stream_is_not_asked_again() -> None:
    async def main() -> None:
        async with a_stage(
            refuses(invalid("ListOptions", "", ())), lists(7), says(failing(expired("old"))), lists(9), STAYS
        ) as stage:
            asked = await stage.asked(5)
            assert asked[3:] == [{**NEWER_PAGE, "resourceVersion": "7"}, {**WATCH, "resourceVersion": "9"}]

    run(main())


def test_a_server_that_failed_to_stream_is_asked_to_stream_the_next_list() -> None:
    async def main() -> None:
        async with a_stage(refuses(internal_error("no")), lists(7), refuses(expired("old")), STAYS) as stage:
            asked = await stage.asked(4)
            assert asked[3] == {**STREAMED_LIST, "resourceVersion": "7"}

    run(main())


def test_a_server_that_takes_a_streamed_list_for_a_watch_is_asked_for_pages() -> None:
    async def main() -> None:
        ignorant = says(added("a", 3), bookmark(7), then="stay")
        async with a_stage(ignorant, lists(7, seen("a", 3)), STAYS) as stage:
            await stage.asked(3)
            assert stage.story.told == ["+a@3"]

    run(main())


@pytest.mark.parametrize("then", ["end", "stay"])
def test_a_streamed_list_without_end_is_given_up_for_pages(then: str) -> None:
    async def main() -> None:
        async with a_stage(says(added("a", 3), then=then), lists(7, seen("b", 5)), STAYS) as stage:
            await stage.asked(1)
            if then == "stay":
                await stage.until(lambda: stage.reflector.statistics.events == 1)
                stage.time.let_pass(180)
            asked = await stage.asked(3)
            assert asked[1] == {**PAGE, "resourceVersion": "0"}
            assert stage.story.told == ["+b@5"]

    run(main())


def test_a_server_that_ended_a_streamed_list_in_the_middle_is_asked_for_pages_from_then_on() -> None:
    async def main() -> None:
        answers = (says(added("a", 3)), lists(7), refuses(expired("old")), lists(9), STAYS)
        async with a_stage(*answers) as stage:
            asked = await stage.asked(5)
            assert asked[3:] == [{**NEWER_PAGE, "resourceVersion": "7"}, {**WATCH, "resourceVersion": "9"}]

    run(main())


# Watches that fail


@pytest.mark.parametrize("told_by", ["the answer", "an event"])
def test_a_version_that_is_too_old_leads_to_a_list_with_its_differences(told_by: str) -> None:
    async def main() -> None:
        gone = expired("too old resource version: 8 (213)")
        start = says(added("a", 3) + added("b", 4) + added("c", 5) + list_end(7))
        answer = refuses(gone) if told_by == "the answer" else says(failing(gone))
        anew = says(added("b", 4), added("c", 5, "other"), added("d", 250), list_end(300), then="stay")
        async with a_stage(start, answer, anew) as stage:
            await stage.until(lambda: len(stage.story.told) == 7)
            assert stage.story.told[3:] == ["-a", "-c", "+c@5", "+d@250"]
            assert stage.script.asked[2] == {**STREAMED_LIST, "resourceVersion": "7"}
            assert stage.reflector.statistics.relists == 1
            assert stage.story.reports == [], "to be away for long is no trouble"

    run(main())


@pytest.mark.parametrize(
    "refusal", [expired("The resourceVersion is too old"), version_too_large(8, 5)], ids=["expired", "ahead"]
)
def test_a_list_that_cannot_be_of_the_last_version_is_asked_for_as_the_newest(refusal: ApiError) -> None:
    async def main() -> None:
        start = says(list_end(7) + added("a", 8))
        async with a_stage(
            start, refuses(expired("old")), refuses(refusal), says(added("b", 4), list_end(5), then="stay")
        ) as stage:
            await stage.until(lambda: len(stage.story.told) == 3)
            assert stage.story.told == ["+a@8", "-a", "+b@4"]
            assert stage.script.asked[2:] == [{**STREAMED_LIST, "resourceVersion": "8"}, STREAMED_LIST]
            assert stage.time.slept_s == [0.8], "the newest is asked for at once"
            assert stage.reflector.version == "5"

    run(main())


def test_a_newest_list_that_is_refused_again_is_asked_for_after_a_pause() -> None:
    async def main() -> None:
        gone = refuses(expired("old"))
        async with a_stage(says(list_end(7)), gone, gone, gone, gone, STAYS) as stage:
            asked = await stage.asked(6)
            assert asked[3:] == [STREAMED_LIST] * 3
            assert stage.time.slept_s == [0.8, 1.6, 3.2], "only the first is asked for at once"

    run(main())


def test_a_list_that_had_to_be_the_newest_stays_so_though_it_fails() -> None:
    async def main() -> None:
        unwell = refuses(ApiError(503, "ServiceUnavailable", "no"))
        async with a_stage(
            says(list_end(7)), refuses(expired("old")), refuses(expired("old")), unwell, unwell, STAYS
        ) as stage:
            asked = await stage.asked(6)
            assert asked[2:] == [{**STREAMED_LIST, "resourceVersion": "7"}, STREAMED_LIST, PAGE, STREAMED_LIST]

    run(main())


def test_a_list_without_pages_that_is_too_large_is_asked_for_in_pages() -> None:
    async def huge(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b" " * 2_000_000)

    async def main() -> None:
        async with a_stage(refuses(invalid("ListOptions", "", ())), huge, lists(7), STAYS) as stage:
            asked = await stage.asked(4)
            assert asked[1:3] == [{**PAGE, "resourceVersion": "0"}, PAGE]

    run(main())


def test_a_list_that_is_older_than_what_was_seen_is_not_believed() -> None:
    async def main() -> None:
        stale = says(list_end(5), then="stay")
        async with a_stage(says(list_end(7) + added("a", 8)), refuses(expired("old")), stale, STAYS) as stage:
            asked = await stage.asked(4)
            assert asked[3] == STREAMED_LIST
            assert stage.story.told == ["+a@8"]

    run(main())


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refuses(too_many_requests("slow down")), id="429"),
        pytest.param(says(failing(too_many_requests("slow down"))), id="429 as an event"),
        pytest.param(says(failing(internal_error("etcd has no leader"))), id="500 as an event"),
    ],
)
def test_a_server_that_has_too_much_to_do_is_asked_again_later_from_the_same_version(answer: Answer) -> None:
    async def main() -> None:
        async with a_stage(says(list_end(7) + added("a", 8)), answer, says(added("b", 9), then="stay")) as stage:
            await stage.until(lambda: len(stage.story.told) == 2)
            assert stage.script.asked[1:] == [{**WATCH, "resourceVersion": "8"}] * 2
            assert stage.time.slept_s == [0.8]
            assert len(stage.story.reports) == 1 and stage.story.reports[0].startswith("Failed to watch pods: ")

    run(main())


def test_a_trouble_that_comes_back_is_reported_again() -> None:
    async def main() -> None:
        busy = refuses(too_many_requests("slow down"))
        async with a_stage(says(list_end(7)), busy, busy, says(bookmark(9)), busy, STAYS) as stage:
            await stage.asked(6)
            assert stage.story.reports == ["Failed to watch pods: slow down"] * 2

    run(main())


def test_errors_that_go_on_put_the_version_in_question() -> None:
    async def main() -> None:
        failed = says(failing(internal_error("etcd has no leader")))
        async with a_stage(says(list_end(7)), failed, failed, failed, failed, STAYS) as stage:
            asked = await stage.asked(6)
            assert asked[1:5] == [{**WATCH, "resourceVersion": "7"}] * 4
            assert asked[5] == {**STREAMED_LIST, "resourceVersion": "7"}
            assert stage.time.slept_s == [0.8, 1.6, 3.2, 6.4]
            assert stage.story.reports == ["Failed to watch pods: Internal error occurred: etcd has no leader"], (
                "the same trouble is reported once"
            )

    run(main())


def test_other_failures_start_the_list_anew() -> None:
    async def main() -> None:
        unwell = refuses(ApiError(503, "ServiceUnavailable", "shutting down"))
        async with a_stage(says(list_end(7)), unwell, says(added("a", 8), list_end(9), then="stay")) as stage:
            await stage.until(lambda: len(stage.story.told) == 1)
            assert stage.script.asked[2] == {**STREAMED_LIST, "resourceVersion": "7"}
            assert stage.story.reports == ["Failed to watch pods: shutting down"]

    run(main())


def test_a_server_that_is_not_there_is_waited_for() -> None:
    async def main() -> None:
        time, story = Time(), Story()
        async with served(Script().handle) as url:
            pass
        async with ApiClient(ConnectionSettings(url), "test/1", -1, options=ClientOptions(Time().timing())) as client:
            reflector = Reflector(
                client, PODS, story, ReflectorOptions(time.timing(), lambda: 1.0, report=story.report)
            )
            task = asyncio.create_task(reflector.run())
            async with asyncio.timeout(5):
                while len(time.slept_s) < 7:
                    await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert time.slept_s[:7] == [1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0]
        assert len(story.reports) == 1 and "cannot connect to 127.0.0.1" in story.reports[0]
        assert not reflector.settled.is_set() and task.cancelled()

    run(main())


# Duplicates, gaps, garbage


def test_events_that_come_twice_late_or_broken_do_no_harm() -> None:
    async def main() -> None:
        deleted = line("DELETED", seen("a", 10))
        replaced = line("ADDED", seen("b", 12, "other"))
        stream = (
            list_end(7),
            added("a", 8),
            added("a", 8),
            deleted,
            added("a", 9),
            added("b", 11) + b"{oops\n",
            replaced,
        )
        async with a_stage(says(*stream), says(added("b", 12, "other"), list_end(20), then="stay")) as stage:
            asked = await stage.asked(2)
            await stage.until(lambda: stage.reflector.version == "20")
            assert stage.story.told == ["+a@8", "-a", "+b@11", "-b", "+b@12"]
            assert asked[1] == {**STREAMED_LIST, "resourceVersion": "12"}, "what the garbage hid is found by a list"
            assert stage.reflector.statistics.malformed == 1 and stage.reflector.statistics.ignored == 2
            assert len(stage.story.reports) == 1

    run(main())


# Resources that are not to be had


@pytest.mark.parametrize(
    "refusal", [not_found("pods", ""), forbidden("pods", "", 'cannot watch resource "pods"')], ids=["404", "403"]
)
@pytest.mark.parametrize("watched", [PODS, OPTIONAL], ids=["required", "optional"])
def test_only_what_is_required_is_waited_for(watched: KindSpec, refusal: ApiError) -> None:
    async def main() -> None:
        no = refuses(refusal)
        async with a_stage(no, no, STAYS, watched=watched) as stage:
            await stage.asked(3)
            assert stage.reflector.settled.is_set() is not (watched.watch or Watch()).is_required
            second_s = 120.0 if refusal.code == 403 else 60.0
            assert stage.time.slept_s == ([0.8, 1.6] if (watched.watch or Watch()).is_required else [60.0, second_s])
            assert len(stage.story.reports) == 1 and f"({refusal.code})" in stage.story.reports[0]
            assert stage.reflector.refusal is not None and not stage.reflector.has_synced

    run(main())


def test_what_was_refused_is_followed_once_it_can_be_had() -> None:
    async def main() -> None:
        no = refuses(not_found("pods", ""))
        async with a_stage(no, says(added("a", 3), list_end(7), then="stay"), watched=OPTIONAL) as stage:
            await stage.until(lambda: stage.reflector.has_synced)
            assert stage.story.told == ["+a@3"] and stage.reflector.refusal is None

    run(main())


def test_a_list_that_has_only_begun_is_not_enough_to_be_well_again() -> None:
    async def main() -> None:
        no = refuses(not_found("pods", ""))
        async with a_stage(no, says(added("a", 3), then="stay"), watched=OPTIONAL) as stage:
            await stage.until(lambda: stage.reflector.statistics.events == 1)
            assert stage.reflector.refusal is not None

    run(main())


def test_a_list_in_pages_is_enough_to_be_well_again() -> None:
    async def main() -> None:
        answers = (refuses(not_found("pods", "")), refuses(invalid("ListOptions", "", ())), lists(7), STAYS)
        async with a_stage(*answers, watched=OPTIONAL) as stage:
            await stage.asked(4)
            assert stage.reflector.refusal is None and stage.reflector.statistics.events == 0

    run(main())


def test_watches_are_asked_for_five_to_ten_minutes_at_random() -> None:
    async def main() -> None:
        async with a_stage(says(list_end(7)), STAYS, draw=lambda: 0.9999) as stage:
            asked = await stage.asked(2)
            assert [each["timeoutSeconds"] for each in asked] == ["599", "599"]

    run(main())


def test_a_resource_that_was_allowed_before_is_asked_for_again_soon() -> None:
    """A server that starts forbids everything until it has read its roles."""

    async def main() -> None:
        no = refuses(forbidden("pods", "", 'cannot watch resource "pods"'))
        async with a_stage(says(added("a", 3), list_end(7)), no, STAYS, watched=OPTIONAL) as stage:
            await stage.asked(3)
            assert sum(stage.time.slept_s) < 5

    run(main())


def test_objects_of_a_resource_that_is_refused_later_stay_known() -> None:
    async def main() -> None:
        no = refuses(forbidden("pods", "", 'cannot watch resource "pods"'))
        async with a_stage(says(added("a", 3), list_end(7)), no, STAYS, watched=OPTIONAL) as stage:
            await stage.asked(3)
            assert stage.story.told == ["+a@3"] and list(stage.reflector.objects) == ["a"]
            assert stage.reflector.refusal is not None

    run(main())


def test_a_group_says_what_is_refused_and_what_is_waited_for() -> None:
    async def main() -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            if "resource.k8s.io" in request.path:
                return await refuses(ApiError(404, "NotFound", "the server could not find it"))(request)
            if request.path == "/api/v1/nodes":
                return await STAYS(request)
            return await says(list_end(7), then="stay")(request)

        story, time = Story(), Time()

        async def sleep(for_s: float) -> None:
            await asyncio.Event().wait()

        async with served(handle) as url, ApiClient(ConnectionSettings(url), "test/1", -1) as client:
            reflectors = Reflectors(
                client, story, WATCHED, ReflectorOptions(Timing(lambda: time.now_s, sleep), report=story.report)
            )
            task = asyncio.create_task(reflectors.run())
            async with asyncio.timeout(5):
                while reflectors.waited_for() != ["nodes"]:
                    await asyncio.sleep(0.001)
            assert not reflectors.is_settled
            refused = [advice(each.kind, each.refusal) for each in reflectors.members if each.refusal is not None]
            assert len(refused) == 3 and sorted(refused) == sorted(story.reports)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
        await asyncio.sleep(0)
        left = [task.get_name() for task in asyncio.all_tasks()]
        assert not [name for name in left if name.startswith(("silence", "reflector"))]

    run(main())
