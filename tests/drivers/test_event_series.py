"""Events out of records: the first is told, the second makes a series, the rest are counted."""

import pytest

from build import a_pod
from gangs import a_group
from mooring.drivers.event_writer import (
    IDLE_NS,
    MAX_KEPT,
    MAX_QUEUED,
    MAX_TRIES,
    REFRESH_NS,
    RETRY_S,
    SENDERS,
    EventSeries,
    NewEvent,
    Repetition,
)
from mooring.framework.contract.intents import Record
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod

START_NS = 1_800_000_000 * NS_PER_S
SEEN = {"uid": "u", "resourceVersion": "7"}
POD = a_pod("p", metadata=SEEN, schedulerName="default-scheduler")


def a_record(pod: Pod = POD, reason: str = "FailedScheduling", note: str = "no room") -> Record:
    return Record(pod, "Warning", reason, "Scheduling", note)


def test_the_first_is_an_event() -> None:
    told = EventSeries("host").tell(a_record(), START_NS, START_NS)
    assert isinstance(told, NewEvent)
    assert told.event == {
        "metadata": {"name": "p.18fae27693b40000", "namespace": "default"},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod",
            "namespace": "default",
            "name": "p",
            "uid": "u",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "note": "no room",
        "type": "Warning",
    }


def test_an_event_names_the_group_that_preempts() -> None:
    group = a_group("gang", uid="g")
    group.metadata.resource_version = "3"
    told = EventSeries("host").tell(Record(POD, "Normal", "Preempted", "Preempting", "n", group), START_NS, START_NS)
    assert isinstance(told, NewEvent)
    assert told.event["related"] == {
        "kind": "PodGroup",
        "namespace": "default",
        "name": "gang",
        "uid": "g",
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "resourceVersion": "3",
    }


def test_the_second_is_a_series_and_the_rest_are_only_counted() -> None:
    series = EventSeries("host")
    first = series.tell(a_record(), START_NS, START_NS)
    second = series.tell(a_record(note="another note does not matter"), START_NS + NS_PER_S, START_NS + NS_PER_S)
    assert isinstance(first, NewEvent)
    assert isinstance(second, Repetition)
    assert second.series == {"count": 2, "lastObservedTime": "2027-01-15T08:00:01.000000Z"}
    assert (second.namespace, second.name) == ("default", first.event["metadata"]["name"])
    assert second.event["note"] == "no room"
    assert [series.tell(a_record(), START_NS + n * NS_PER_S, START_NS + n * NS_PER_S) for n in range(2, 5)] == [
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    "other",
    [
        a_record(reason="Scheduled"),
        a_record(a_pod("p", metadata={"uid": "u", "resourceVersion": "8"}, schedulerName="default-scheduler")),
        a_record(a_pod("p", metadata={"uid": "v", "resourceVersion": "7"}, schedulerName="default-scheduler")),
        a_record(
            a_pod(
                "p", namespace="other", metadata={"uid": "u", "resourceVersion": "7"}, schedulerName="default-scheduler"
            )
        ),
        a_record(a_pod("p", metadata={"uid": "u", "resourceVersion": "7"}, schedulerName="mine")),
    ],
    ids=["reason", "version", "uid", "namespace", "scheduler"],
)
def test_what_differs_is_another_event(other: Record) -> None:
    series = EventSeries("host")
    series.tell(a_record(), START_NS, START_NS)
    assert isinstance(series.tell(other, START_NS, START_NS), NewEvent)


def test_no_two_events_have_the_same_name() -> None:
    series = EventSeries("host")
    names = set()
    for number in range(100):
        told = series.tell(a_record(a_pod("p", metadata={"uid": str(number)})), START_NS, START_NS)
        assert isinstance(told, NewEvent)
        names.add(told.event["metadata"]["name"])
    assert len(names) == 100


def test_a_name_that_would_be_too_long_is_another() -> None:
    told = EventSeries("host").tell(a_record(a_pod("p" * 250)), START_NS, START_NS)
    assert isinstance(told, NewEvent)
    assert len(told.event["metadata"]["name"]) == 36


def test_a_series_that_has_ended_is_written_once_more_and_forgotten() -> None:
    series = EventSeries("host")
    for second in range(5):
        series.tell(a_record(), START_NS + second * NS_PER_S, START_NS + second * NS_PER_S)
    last_ns = START_NS + 4 * NS_PER_S
    assert series.sweep(last_ns + IDLE_NS) == []
    (ended,) = series.sweep(last_ns + IDLE_NS + 1)
    assert ended.series == {"count": 5, "lastObservedTime": "2027-01-15T08:00:04.000000Z"}
    assert series.sweep(last_ns + 2 * IDLE_NS) == []
    assert isinstance(series.tell(a_record(), last_ns + 2 * IDLE_NS, last_ns + 2 * IDLE_NS), NewEvent)


def test_a_single_event_is_forgotten_without_a_word() -> None:
    series = EventSeries("host")
    series.tell(a_record(), START_NS, START_NS)
    assert series.sweep(START_NS + IDLE_NS + 1) == []
    assert isinstance(series.tell(a_record(), START_NS + IDLE_NS + 2, START_NS + IDLE_NS + 2), NewEvent)


def test_a_series_that_goes_on_is_written_each_half_hour() -> None:
    series = EventSeries("host")
    written = []
    for minute in range(2 * 60 + 1):
        now_ns = START_NS + minute * 60 * NS_PER_S
        series.tell(a_record(), now_ns, now_ns)
        written += [(minute, repetition.series["count"]) for repetition in series.sweep(now_ns)]
    assert REFRESH_NS == 30 * 60 * NS_PER_S
    assert written == [(31, 32), (61, 62), (91, 92)]


def test_only_so_much_is_remembered() -> None:
    series = EventSeries("host")
    for number in range(MAX_KEPT + 1):
        series.tell(a_record(a_pod("p", metadata={"uid": str(number)})), START_NS, START_NS)
    oldest, next_one = (a_record(a_pod("p", metadata={"uid": uid})) for uid in "01")
    assert isinstance(series.tell(next_one, START_NS, START_NS), Repetition), "only the oldest was forgotten"
    assert isinstance(series.tell(oldest, START_NS, START_NS), NewEvent)


def test_names_have_the_time_in_hex_and_the_next_free_moment() -> None:
    series = EventSeries("host")
    names = []
    for number, wall_ns in enumerate((255, 255, 200, 4096)):
        told = series.tell(a_record(a_pod("p", metadata={"uid": str(number)})), START_NS, wall_ns)
        assert isinstance(told, NewEvent)
        names.append(told.event["metadata"]["name"])
    assert names == ["p.ff", "p.100", "p.101", "p.1000"]


@pytest.mark.parametrize(("letters", "is_kept"), [(236, True), (237, False)])
def test_the_longest_name_has_253_characters(letters: int, is_kept: bool) -> None:
    told = EventSeries("host").tell(a_record(a_pod("p" * letters)), START_NS, START_NS)
    assert isinstance(told, NewEvent)
    assert (len(told.event["metadata"]["name"]) == 253) is is_kept


@pytest.mark.parametrize(("namespace", "written"), [("team", "team"), ("", "default")])
def test_an_event_without_a_namespace_is_in_the_default_one(namespace: str, written: str) -> None:
    told = EventSeries("host").tell(a_record(a_pod("p", metadata={"namespace": namespace})), START_NS, START_NS)
    assert isinstance(told, NewEvent)
    assert told.event["metadata"]["namespace"] == written


def test_the_numbers_of_client_go() -> None:
    assert (IDLE_NS, REFRESH_NS) == (360_000_000_000, 1_800_000_000_000)
    assert (MAX_TRIES, RETRY_S, SENDERS) == (12, 10.0, 8)
    assert (MAX_KEPT, MAX_QUEUED) == (10_000, 16_000)
