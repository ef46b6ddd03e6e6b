"""The parts that reflectors are made of, one by one: versions, pace, what is known, lines and pages, the limit of silence."""

import asyncio
from typing import Any

import pytest

from build import a_pod
from mooring.api.api_errors import ApiError, forbidden
from mooring.api.kind_spec import KindSpec
from mooring.apiclient.http_requests import Unreadable
from mooring.apiclient.reflectors.mirror import MAX_GRAVES, Known, Mirror, is_later
from mooring.apiclient.reflectors.watch_streams import LineDecoder, MalformedObject, SilenceLimit, Silent
from mooring.apiclient.throttle import RetryBackoff, Timing
from mooring.model.node import Node
from mooring.model.pod import Pod
from scripted_watches import OPTIONAL, Story, Time, added, bookmark, line, list_end, run, seen

# Versions and pace


def test_the_same_number_in_other_digits_is_not_later() -> None:
    assert not is_later("07", "7") and not is_later("7", "07")


@pytest.mark.parametrize(
    ("version", "other"), [("7", None), ("7", ""), (None, "7"), ("", "7"), ("", None), (None, None)]
)
def test_without_a_version_to_compare_what_comes_later_is_later(version: str | None, other: str | None) -> None:
    assert is_later(version, other)


def test_no_more_than_thirty_failures_are_counted() -> None:
    pace = RetryBackoff(Timing(lambda: 0.0), lambda: 0.0)
    for _ in range(40):
        pace.wait_s()
    assert pace.failures() == 30


def test_a_success_makes_the_next_failure_the_first() -> None:
    pace = RetryBackoff(Timing(lambda: 0.0), lambda: 0.0)
    assert [pace.wait_s(), pace.wait_s()] == [0.8, 1.6]
    pace.forget()
    assert pace.failures() == 0 and pace.wait_s() == 0.8


# What is known


def versioned(name: str, version: int, uid: str = "u") -> Pod:
    return a_pod(name, metadata={"resourceVersion": str(version), "uid": uid})


@pytest.mark.parametrize(("uid", "is_handed_on"), [("u", True), ("other", False)], ids=["same uid", "other uid"])
def test_what_was_worked_out_of_an_object_goes_to_its_next_form_and_to_no_other_object(
    uid: str, is_handed_on: bool
) -> None:
    handed: list[tuple[Pod, Pod]] = []
    known: Known[Pod] = Known(lambda new, old: handed.append((old, new)))
    old, new = versioned("p", 1), versioned("p", 2, uid)
    known.take("ADDED", old)
    known.take("MODIFIED", new)
    assert handed == ([(old, new)] if is_handed_on else [])


def test_a_deletion_that_is_told_again_is_remembered_from_then_on() -> None:
    known: Known[Pod] = Known()
    known.take("DELETED", versioned("first", 1))
    for number in range(MAX_GRAVES - 1):
        known.take("DELETED", versioned(f"p{number}", 2 + number))
    known.take("DELETED", versioned("first", 9_999))
    known.take("DELETED", versioned("last", 10_000))
    assert known.take("ADDED", versioned("first", 5_000)) is None, "another was the oldest"
    assert known.take("ADDED", versioned("p0", 1)) is not None


def test_an_object_that_could_not_be_read_and_went_before_the_list_was_whole_is_gone() -> None:
    story = Story()
    mirror = Mirror(OPTIONAL, story, lambda text, fault: None)
    follow(mirror, added("x", 3), list_end(5))
    mirror.begin_list()
    broken = line("ADDED", {**seen("x", 6), "spec": {"containers": 7}})
    follow(mirror, broken, line("DELETED", seen("x", 7)), list_end(8))
    assert story.told == ["+x@3", "-x"]


def test_an_object_that_could_be_read_in_between_is_reported_again() -> None:
    reports: list[str] = []
    mirror = Mirror(OPTIONAL, Story(), lambda text, fault: reports.append(text))
    broken = {"spec": {"containers": 7}}
    follow(mirror, line("ADDED", {**seen("x", 3), **broken}), line("ADDED", {**seen("y", 4), **broken}), list_end(5))
    mirror.begin_list()
    follow(mirror, added("x", 6), line("ADDED", {**seen("y", 4), **broken}), list_end(8))
    for name, version in (("x", 9), ("y", 10)):
        mirror.take(line("MODIFIED", {**seen(name, version), **broken}))
    assert [text.split(":")[0] for text in reports] == ["pods x", "pods y", "pods x"]


def test_a_thousand_unreadable_objects_are_reported_one_by_one() -> None:
    reports: list[str] = []
    mirror = Mirror(OPTIONAL, Story(), lambda text, fault: reports.append(text))
    follow(mirror, list_end(5))
    for number in range(1_005):
        mirror.take(line("ADDED", {**seen(f"p{number}", 6 + number), "spec": {"containers": 7}}))
    assert len(reports) == 1_000 and mirror.statistics.malformed == 1_005


def test_a_long_list_leaves_turns_to_others_every_256_changes() -> None:
    mirror = Mirror(OPTIONAL, Story(), lambda text, fault: None)
    assert mirror.version == ""
    mirror.begin_list()
    for number in range(512):
        mirror.take(added(f"p{number}", number + 1))
    assert len(list(mirror.complete("600", ""))) == 2 and mirror.version == "600"


def test_an_event_without_a_version_does_not_move_the_watch() -> None:
    story = Story()
    mirror = Mirror(OPTIONAL, story, lambda text, fault: None)
    follow(mirror, list_end(5))
    mirror.take(line("ADDED", about(name="x", uid="u")))
    assert story.told == ["+x@None"] and mirror.version == "5"
    mirror.take(line("ADDED", {**about(name="y", uid="u"), "spec": 7}))
    assert mirror.version == "5" and mirror.statistics.malformed == 1


def test_pods_hand_on_what_was_worked_out_of_them_and_other_objects_do_not() -> None:
    for watched, hands_on in ((OPTIONAL, True), (KindSpec("", "v1", "nodes", "Node", False, struct=Node), False)):
        mirror = Mirror(watched, Story(), no_trouble)
        follow(mirror, added("x", 3), list_end(5))
        old: Any = mirror.known.objects["x"]
        mirror.take(line("MODIFIED", seen("x", 6)))
        new: Any = mirror.known.objects["x"]
        assert new is not old and (new.spec is old.spec) is hands_on


def test_a_bookmark_before_the_end_of_a_streamed_list_says_that_it_is_none() -> None:
    mirror = Mirror(OPTIONAL, Story(), no_trouble)
    mirror.begin_list()
    with pytest.raises(ApiError) as caught:
        mirror.take(bookmark(5))
    assert caught.value.code == 400 and caught.value.message == (
        "a streaming list has a bookmark before its end: the server does not support such lists"
    )


def no_trouble(text: str, fault: Exception | None) -> None:
    raise AssertionError(text) from fault


def follow(mirror: Mirror, *lines: bytes) -> None:
    """The lines of a streamed list, up to its end."""
    if not mirror.is_listing:
        mirror.begin_list()
    for each in lines:
        if listed_at := mirror.take(each):
            for _ in mirror.complete(listed_at, ""):
                pass


# Lines that cannot be read


def malformed(written: bytes) -> MalformedObject:
    with pytest.raises(MalformedObject) as caught:
        LineDecoder(Pod).event(written)
    return caught.value


def about(**metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata}


@pytest.mark.parametrize(
    ("item", "key", "why"),
    [
        pytest.param(about(uid="u"), "", "an object without a name", id="no name"),
        pytest.param({**about(uid="u"), "spec": 7}, "", "an object without a name", id="no name and a broken spec"),
        pytest.param(
            {"metadata": 7},
            "",
            "an object whose metadata cannot be decoded: Expected `object`, got `int` - at `$.metadata`",
            id="no metadata",
        ),
        pytest.param(
            {**about(name="x"), "spec": 7}, "x", "spec: Invalid value: 7: must be an object", id="a broken spec"
        ),
    ],
)
def test_what_is_said_of_a_line_that_cannot_be_read(item: dict[str, Any], key: str, why: str) -> None:
    fault = malformed(line("ADDED", item).rstrip())
    assert (fault.key, str(fault)) == (key, why)


def test_text_that_is_not_utf8_does_not_hide_whose_it_is() -> None:
    good = line("ADDED", {**seen("x", 8), "spec": {"nodeName": "?"}}).rstrip()
    fault = malformed(good.replace(b'"?"', b'"\xff"'))
    assert fault.key == "x" and fault.metadata is not None and fault.metadata.resource_version == "8"


def test_of_metadata_that_cannot_be_read_the_identity_counts() -> None:
    fault = malformed(line("ADDED", about(name="x", labels=7)).rstrip())
    assert fault.metadata is not None
    assert (fault.metadata.name, fault.metadata.namespace, fault.metadata.uid) == ("x", "", "")
    assert fault.metadata.resource_version is None
    whole = about(name="x", namespace="n", uid="u", resourceVersion="8", labels=7)
    fault = malformed(line("MODIFIED", whole).rstrip())
    assert fault.metadata is not None and fault.key == "n/x"
    assert (fault.metadata.uid, fault.metadata.resource_version) == ("u", "8")


def test_an_error_that_cannot_be_read_is_told_in_our_words() -> None:
    with pytest.raises(ApiError) as caught:
        LineDecoder(Pod).event(b'{"type":"ERROR","object":7}')
    assert caught.value.message == (
        "Internal error occurred: the server ended the watch with an error that cannot be decoded"
    )


# Pages


def page(written: bytes) -> tuple[str, list[str]]:
    """The version, and what became of the items."""
    version, items = LineDecoder(Pod).page(written)
    return version, [f"{item.key}: {item}" if isinstance(item, MalformedObject) else item.key for item in items]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(
            b'{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"}}]}',
            ("5", ["a"]),
            id="a list",
        ),
        pytest.param(
            b'{"kind":"PodList","metadata":{"resourceVersion":"5"}}', ("5", []), id="no items are an empty list"
        ),
        pytest.param(b'{"kind":"PodList","items":[]}', ("", []), id="no version"),
        pytest.param(b'{"kind":"PodList","items":null}', ("", []), id="no version and no items"),
        pytest.param(
            b'{"kind":"PodList","items":[{"metadata":{"name":"a"},"spec":7},{"metadata":{"name":"b"}},{"metadata":{}}]}',
            ("", ["a: spec: Invalid value: 7: must be an object", "b", ": an object without a name"]),
            id="one broken item does not hide the others",
        ),
        pytest.param(
            b'{"kind":"PodList","items":[{"metadata":{"uid":"u"}}]}',
            ("", [": an object without a name"]),
            id="an item without a name",
        ),
    ],
)
def test_pages(written: bytes, expected: tuple[str, list[str]]) -> None:
    assert page(written) == expected


def test_a_status_in_place_of_a_page_is_what_the_server_refuses() -> None:
    refusal = forbidden("pods", "", "no")
    with pytest.raises(ApiError) as caught:
        page(line("", refusal.status()).removeprefix(b'{"type":"","object":').rstrip()[:-1])
    assert caught.value.code == 403


@pytest.mark.parametrize(
    ("written", "why"),
    [
        pytest.param(b"{}", "the answer is not a list of the API but of the kind ''", id="no kind"),
        pytest.param(b'{"kind":"Pod"}', "the answer is not a list of the API but of the kind 'Pod'", id="another kind"),
        pytest.param(
            b'{"kind":"Pod","items":[]}', "the answer is not a list of the API but of the kind 'Pod'", id="items"
        ),
        pytest.param(b"[]", "the answer is not a list of the API: Expected `object`, got `array`", id="an array"),
    ],
)
def test_what_is_said_of_an_answer_that_is_no_list(written: bytes, why: str) -> None:
    with pytest.raises(Unreadable) as caught:
        page(written)
    assert str(caught.value) == why


# Silence


def test_silence_is_counted_from_the_entry() -> None:
    async def main() -> None:
        time = Time()
        limit = SilenceLimit(10, time.timing(), "GET /x")
        time.now_s = 100

        async def listen() -> None:
            async with limit:
                await asyncio.Event().wait()

        task = asyncio.create_task(listen())
        while not time.guards:
            await asyncio.sleep(0)
        time.let_pass(9)
        await asyncio.sleep(0.01)
        assert not task.done()
        time.let_pass(1)
        with pytest.raises(Silent, match=r"^GET /x: nothing arrived for 10 s$"):
            await task
        assert limit.is_broken

    run(main())


def test_what_was_heard_half_a_second_later_counts_for_half_a_second_more() -> None:
    async def main() -> None:
        time = Time()
        limit = SilenceLimit(10, time.timing(), "GET /x")

        async def listen() -> None:
            async with limit:
                await asyncio.Event().wait()

        task = asyncio.create_task(listen())
        while not time.guards:
            await asyncio.sleep(0)
        time.let_pass(0.5)
        limit.heard()
        time.let_pass(9.5)
        await asyncio.sleep(0.01)
        assert not task.done()
        time.let_pass(0.5)
        with pytest.raises(Silent):
            await task

    run(main())


def test_an_error_inside_a_silent_block_is_told_as_it_is() -> None:
    async def main() -> None:
        time = Time()

        async def listen() -> None:
            async with SilenceLimit(10, time.timing(), "GET /x"):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise ValueError("a bug") from None

        task = asyncio.create_task(listen())
        while not time.guards:
            await asyncio.sleep(0)
        time.let_pass(10)
        with pytest.raises(ValueError, match="a bug"):
            await task

    run(main())


def test_a_task_that_was_being_cancelled_before_can_still_meet_silence() -> None:
    async def main() -> None:
        time = Time()

        async def clean_up() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                with pytest.raises(Silent):
                    async with SilenceLimit(10, time.timing(), "GET /x"):
                        await asyncio.Event().wait()
                raise

        task = asyncio.create_task(clean_up())
        await asyncio.sleep(0)
        task.cancel()
        while not time.guards:
            await asyncio.sleep(0)
        time.let_pass(10)
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


def test_whoever_leaves_in_time_leaves_no_guard_behind() -> None:
    async def main() -> None:
        time = Time()
        async with SilenceLimit(10, time.timing(), "GET /x") as limit:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not limit.is_broken
        assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("silence")] == []

    run(main())
