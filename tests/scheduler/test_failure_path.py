"""A failed attempt: where the pod goes, what its status and its event say, and what becomes of its nomination."""

from typing import Any

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.intents import PatchStatus, Record
from mooring.framework.contract.status import Code, Rejection
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.failure import SCHEDULER_ERROR, AttemptFailure, cut, error, fail, refused
from mooring.scheduler.inputs import ObjectAdded
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import build_scheduler

CONFIG = config.from_object(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
)
NO_ROOM = AttemptFailure("no room", plugins=frozenset(("NodeResourcesFit",)))


def our_pod(uid: str = "u1", **more: Any) -> Pod:
    return a_pod(metadata={"uid": uid}, schedulerName="default-scheduler", **more)


def a_status(nominated: str = "", **condition: str) -> dict[str, Any]:
    status = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room", **condition}
    return {"nominatedNodeName": nominated, "conditions": [status]}


def in_flight(pod: Pod) -> tuple[Scheduler, QueuedPod]:
    """A scheduler that has taken the pod from its queue."""
    scheduler = build_scheduler(CONFIG, VirtualClock(1_000 * NS_PER_S))
    scheduler.handle(ObjectAdded(a_node("n1")))
    scheduler.handle(ObjectAdded(pod))
    entry = scheduler.core.queue.pop()
    assert isinstance(entry, QueuedPod)
    return scheduler, entry


def written(scheduler: Scheduler) -> list[tuple[Any, ...]]:
    """What is to be written: an event as its type, reason, action and note, a patch as its condition and nomination."""
    said: list[tuple[Any, ...]] = []
    for intent in scheduler.take_intents():
        if isinstance(intent, Record):
            said.append((intent.type, intent.reason, intent.action, intent.note))
        elif isinstance(intent, PatchStatus):
            told = intent.condition
            said.append((told and (told.type, told.status, told.reason, told.message), intent.nominated_node_name))
    return said


EVENT = ("Warning", "FailedScheduling", "Scheduling", "no room")
CONDITION = ("PodScheduled", "False", "Unschedulable", "no room")


def leaving(nominate: str | None) -> AttemptFailure:
    return AttemptFailure("no room", plugins=NO_ROOM.plugins, nominate=nominate)


PATCHES: dict[str, tuple[dict[str, Any], AttemptFailure, tuple[Any, ...] | None, str | None]] = {
    "the first failure": ({}, NO_ROOM, (CONDITION, None), None),
    "an error has another reason": (
        {},
        error("no room"),
        (("PodScheduled", "False", "SchedulerError", "no room"), None),
        None,
    ),
    "the status says so already": (a_status(), NO_ROOM, None, None),
    "the message was another": (a_status(message="no ports"), NO_ROOM, (CONDITION, None), None),
    "the reason was another": (a_status(reason="SchedulerError"), NO_ROOM, (CONDITION, None), None),
    "the condition was true": (a_status(status="True"), NO_ROOM, (CONDITION, None), None),
    "another condition says the same": (a_status(type="Ready"), NO_ROOM, (CONDITION, None), None),
    "a nomination is cleared, and nothing else is new": (a_status("n1"), leaving(""), (None, ""), None),
    "a nomination is cleared": (a_status("n1", message="no ports"), leaving(""), (CONDITION, ""), None),
    "a nomination is left": (a_status("n1"), leaving(None), None, "n1"),
    "a nomination is left and the message is new": (
        a_status("n1", message="no ports"),
        leaving(None),
        (CONDITION, None),
        "n1",
    ),
    "a nomination is set": (a_status(), leaving("n1"), (None, "n1"), "n1"),
    "a nomination is set anew": (a_status("n1"), leaving("n1"), None, "n1"),
    "a nomination is changed": (a_status("n1"), leaving("n2"), (None, "n2"), "n2"),
}


@pytest.mark.parametrize(("status", "failure", "patch", "nominated"), PATCHES.values(), ids=PATCHES.keys())
def test_what_is_written(
    status: dict[str, Any], failure: AttemptFailure, patch: tuple[Any, ...] | None, nominated: str | None
) -> None:
    scheduler, entry = in_flight(our_pod(status=status))
    fail(scheduler.core, entry, failure)
    assert written(scheduler) == [EVENT, *([patch] if patch else [])]
    assert scheduler.core.queue.nominations.node_of("u1") == nominated
    assert scheduler.check() == []


def test_a_pod_that_is_being_deleted_is_not_tried_and_an_event_says_so() -> None:
    """Upstream's event (skipPodSchedule)."""
    scheduler = build_scheduler(CONFIG, VirtualClock(1_000 * NS_PER_S))
    deleted = a_pod(
        metadata={"uid": "u1", "deletionTimestamp": "2026-02-01T00:00:00Z"}, schedulerName="default-scheduler"
    )
    for item in (a_node("n1"), deleted):
        scheduler.handle(ObjectAdded(item))
    scheduler.attempt()
    note = f"skip schedule deleting pod: {deleted.key}"
    assert written(scheduler) == [("Warning", "FailedScheduling", "Scheduling", note)]
    assert (scheduler.queued_pods(), scheduler.is_attempted("u1"), scheduler.check()) == ([], False, [])


def test_a_promise_that_the_status_does_not_show_yet_is_taken_back() -> None:
    scheduler, entry = in_flight(our_pod(status=a_status()))
    fail(scheduler.core, entry, leaving(""), promised="n1")
    assert written(scheduler) == [EVENT, (None, "")]


def test_a_nomination_in_memory_that_the_status_does_not_show_yet_is_taken_back() -> None:
    scheduler, entry = in_flight(our_pod(status=a_status()))
    scheduler.core.queue.nominations.add(entry.pod, "n1")
    fail(scheduler.core, entry, leaving(""))
    assert written(scheduler) == [EVENT, (None, "")]
    assert scheduler.core.queue.nominations.node_of("u1") is None


REQUEUED: dict[str, tuple[AttemptFailure, str, tuple[str, ...]]] = {
    "a plugin rejected it": (NO_ROOM, "unschedulable", ("NodeResourcesFit",)),
    "two plugins rejected it": (
        AttemptFailure("no", plugins=frozenset(("TaintToleration", "NodeName"))),
        "unschedulable",
        ("NodeName", "TaintToleration"),
    ),
    "an error: only its backoff decides": (error("boom"), "backoff", ()),
    "nobody is to blame": (AttemptFailure("no disk"), "backoff", ()),
    "a plugin that speaks after the node was chosen": (
        refused(Rejection(("no disk",), plugin="VolumeBinding")),
        "unschedulable",
        ("VolumeBinding",),
    ),
}


@pytest.mark.parametrize(("failure", "place", "rejectors"), REQUEUED.values(), ids=REQUEUED.keys())
def test_where_the_pod_goes(failure: AttemptFailure, place: str, rejectors: tuple[str, ...]) -> None:
    scheduler, entry = in_flight(our_pod())
    entry.reject_by(["ImageLocality"])
    fail(scheduler.core, entry, failure)
    assert scheduler.core.queue.where(entry.key) == place
    assert entry.rejectors == rejectors
    assert not scheduler.core.queue.is_in_flight("u1")


def test_the_pod_returns_as_the_watch_shows_it_now() -> None:
    scheduler, entry = in_flight(our_pod())
    now = our_pod(labels={"a": "b"})
    scheduler.core.pods[now.key] = now
    fail(scheduler.core, entry, NO_ROOM)
    queued = scheduler.core.queue.get(now.key)
    assert queued is not None
    assert queued.pod is now


GONE: dict[str, tuple[Pod | None, bool]] = {
    "the pod is gone": (None, True),
    "the pod has a node": (our_pod(nodeName="n1"), True),
    "another pod has taken its name: nothing is said": (our_pod("u2"), False),
    "another pod has taken its name and has a node": (our_pod("u2", nodeName="n1"), False),
}


@pytest.mark.parametrize(("known", "is_told"), GONE.values(), ids=GONE.keys())
@pytest.mark.parametrize("nominate", ["", "n1"])
def test_a_pod_that_need_not_come_back(known: Pod | None, is_told: bool, nominate: str) -> None:
    scheduler, entry = in_flight(our_pod())
    core = scheduler.core
    del core.pods[entry.key]
    if known is not None:
        core.pods[known.key] = known
    fail(core, entry, leaving(nominate))
    assert core.queue.where(entry.key) is None
    assert not core.queue.is_in_flight("u1")
    assert core.queue.nominations.node_of("u1") is None
    assert written(scheduler) == ([EVENT, (CONDITION, nominate or None)] if is_told else [])


def test_a_pod_that_all_bind_plugins_skip_is_neither_recorded_nor_written() -> None:
    scheduler, entry = in_flight(our_pod(status=a_status("n1")))
    fail(scheduler.core, entry, AttemptFailure("no Bind plugin bound it", SCHEDULER_ERROR, code=Code.Skip))
    assert written(scheduler) == []
    assert scheduler.core.queue.where(entry.key) == "backoff"


def test_a_pod_that_is_queued_already_is_reported() -> None:
    reports: list[str] = []
    scheduler, entry = in_flight(our_pod())
    scheduler.core.report = lambda text, fault: reports.append(f"{text}: {fault}")
    scheduler.core.queue.add(entry.pod)
    fail(scheduler.core, entry, NO_ROOM)
    assert reports == [
        "a pod came back from an attempt but is queued: Pod default/pod is already present in the active queue"
    ]
    assert not scheduler.core.queue.is_in_flight("u1")


NOTES: dict[str, tuple[str, str]] = {
    "a short note": ("no room", "no room"),
    "1024 bytes are not too many": ("x" * 1024, "x" * 1024),
    "1025 bytes are": ("x" * 1025, "x" * 1020 + " ..."),
    "bytes count, not characters": ("é" * 513, "é" * 510 + " ..."),
    "512 characters of two bytes fit": ("é" * 512, "é" * 512),
    "no character is cut in half": ("x" + "é" * 600, "x" + "é" * 509 + " ..."),
}


@pytest.mark.parametrize(("note", "shown"), NOTES.values(), ids=NOTES.keys())
def test_an_event_note_has_at_most_1024_bytes(note: str, shown: str) -> None:
    assert cut(note) == shown


def test_only_the_event_is_cut_short_and_not_the_condition() -> None:
    scheduler, entry = in_flight(our_pod())
    fail(scheduler.core, entry, AttemptFailure("x" * 2000, plugins=NO_ROOM.plugins))
    event, patch = written(scheduler)
    assert event[3] == "x" * 1020 + " ..."
    assert patch[0][3] == "x" * 2000


REFUSALS: dict[str, tuple[tuple[str, ...], str]] = {
    "one reason": (("no disk",), "0/1 nodes are available: 1 no disk."),
    "several, sorted as text": (("z", "a"), "0/1 nodes are available: 1 a, 1 z."),
    "none": ((), "0/1 nodes are available:"),
}


@pytest.mark.parametrize(("reasons", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_a_refusal_of_the_chosen_node_says(reasons: tuple[str, ...], message: str) -> None:
    assert refused(Rejection(reasons, plugin="P")) == AttemptFailure(message, "Unschedulable", frozenset(("P",)))
