"""Pods that wait: counts, groups, lists, and the page of one."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from dashboard_stage import StagedSource
from gangs import GROUP_GATES, a_group, a_member
from mooring.dashboard.slices import at_once
from mooring.dashboard.views.page_views import PodQuery, pod_list, pod_page
from mooring.dashboard.views.pending_pods import OTHER, main_reason, pending_groups
from mooring.dashboard.views.scheduling_flow import queue_sample

REASONS = {
    "most nodes count": (
        "0/5 nodes are available: 1 Insufficient cpu, 4 Too many pods. preemption: 0/5 nodes are available: 5 No "
        "preemption victims found for incoming pod.",
        "Too many pods",
    ),
    "a reason with commas": ("0/3 nodes are available: 1 Too many pods, 2 a, b, c.", "a, b, c"),
    "no count": (
        "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: not eligible",
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "no fit error": ("the gate is closed", "the gate is closed"),
    "no reasons": ("0/1 nodes are available:", "0/1 nodes are available:"),
    "a count that is none": ("0/1 nodes are available: 1²3 x.", "1²3 x"),
}


@pytest.mark.parametrize(("message", "reason"), REASONS.values(), ids=REASONS.keys())
def test_the_main_reason_of_a_message(message: str, reason: str) -> None:
    assert main_reason(message) == reason


@given(st.text())
def test_any_message_has_a_reason(message: str) -> None:
    assert len(main_reason(f"0/1 nodes are available: {message}")) <= 200


def a_full_cluster(*more: Any) -> StagedSource:
    """One node with 4 cpus; what does not fit is unschedulable, the gated pod is gated."""
    source = StagedSource(a_node("n", cpu="4"))
    source.add(*more)
    source.driver.settle()
    return source


def created(second: int) -> dict[str, str]:
    return {"creationTimestamp": f"2026-01-31T10:00:{second:02}Z"}


def a_mixed_cluster() -> StagedSource:
    return a_full_cluster(
        a_pod("fits", cpu="1", metadata=created(1)),
        a_pod("big-2", cpu="5", metadata=created(9)),
        a_pod("big-1", cpu="6", metadata=created(3)),
        a_pod("picky", nodeSelector={"disk": "ssd"}, metadata=created(4), namespace="other"),
        a_pod("gated", schedulingGates=[{"name": "example.com/quota"}], metadata=created(5)),
    )


def test_each_pod_is_counted_once() -> None:
    source = a_mixed_cluster()
    sample = msgspec.to_builtins(queue_sample(source.scheduler, "now"))
    assert sample == {
        "time": "now",
        "active": 0,
        "backoff": 0,
        "unschedulable": 3,
        "gated": 1,
        "inFlight": 0,
        "waitingOnPermit": 0,
    }


def test_pods_are_grouped_by_why_they_wait() -> None:
    found = at_once(pending_groups(a_mixed_cluster().scheduler))
    assert found.total == 4
    assert [(group.reason, group.plugins, group.queue, group.count) for group in found.groups] == [
        ("Insufficient cpu", ("NodeResourcesFit",), "unschedulable", 2),
        ("node(s) didn't match Pod's node affinity/selector", ("NodeAffinity",), "unschedulable", 1),
        (
            "waiting for scheduling gates: [example.com/quota]",
            ("SchedulingGates",),
            "gated",
            1,
        ),
    ]
    assert msgspec.to_builtins(found.groups[0].oldest) == {
        "namespace": "default",
        "name": "big-1",
        "since": "2026-01-31T10:00:03.000Z",
    }
    assert found.oldest == min((group.oldest for group in found.groups), key=lambda pod: pod.since)


@pytest.mark.parametrize("gates", [GROUP_GATES, {}], ids=["groups", "no groups"])
def test_the_pods_of_a_pod_group_are_one_line_with_the_reason_of_one_that_fits_nowhere(gates: dict[str, bool]) -> None:
    members = [a_member(f"p{i}", metadata=created(9 - i)) for i in range(4)]
    alone = a_pod("big", cpu="5", metadata=created(1))
    source = StagedSource(a_node("n", cpu="3"), a_group("gang", 4), *members, alone, gates=gates)
    while source.driver.attempt_once() is not None:
        pass
    found = at_once(pending_groups(source.scheduler))
    lines = [(group.reason, group.count, group.oldest.name) for group in found.groups]
    if gates:
        assert (found.total, lines) == (
            5,
            [("PodGroup default/gang: Insufficient cpu", 4, "p3"), ("Insufficient cpu", 1, "big")],
        )
    else:
        assert (found.total, lines) == (2, [("Insufficient cpu", 2, "big")])


def test_pods_that_were_not_tried_say_so() -> None:
    source = StagedSource(a_node("n"), a_pod("new"))
    groups = at_once(pending_groups(source.scheduler)).groups
    assert [(group.reason, group.queue) for group in groups] == [("Not tried yet", "active")]


def test_a_plugin_that_names_pods_does_not_make_groups_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.dashboard.views.pending_pods._MAX_GROUPS", 2)
    pods = [a_pod(f"p{i}", schedulingGates=[{"name": f"example.com/g{i}"}]) for i in range(5)]
    groups = at_once(pending_groups(a_full_cluster(*pods).scheduler)).groups
    assert (groups[0].reason, groups[0].count) == (OTHER, 3)
    assert sum(group.count for group in groups) == 5


def test_the_list_shows_the_oldest_first_with_what_each_waits_for() -> None:
    found = at_once(pod_list(a_mixed_cluster().scheduler, PodQuery()))
    assert [pod.name for pod in found.pods] == ["big-1", "picky", "gated", "big-2"]
    assert found.total == 4
    big, picky, gated, _ = (msgspec.to_builtins(pod) for pod in found.pods)
    assert big == {
        "namespace": "default",
        "name": "big-1",
        "queue": "unschedulable",
        "since": "2026-01-31T10:00:03.000Z",
        "attempts": 1,
        "message": "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        "plugins": ["NodeResourcesFit"],
        "waitsFor": big["waitsFor"],
        "backoffUntil": None,
        "gates": [],
        "nominatedNode": "",
        "node": "",
        "priority": 0,
    }
    assert {"Node/Add", "AssignedPod/Delete"} <= set(big["waitsFor"])
    assert {"Node/Add", "Node/UpdateNodeLabel"} <= set(picky["waitsFor"])
    assert (gated["queue"], gated["gates"]) == ("gated", ["example.com/quota"])


def test_a_list_can_be_narrowed() -> None:
    scheduler = a_mixed_cluster().scheduler
    assert [pod.name for pod in at_once(pod_list(scheduler, PodQuery(namespace="other"))).pods] == ["picky"]
    narrowed = at_once(pod_list(scheduler, PodQuery(text="big", limit=1)))
    assert ([pod.name for pod in narrowed.pods], narrowed.total) == (["big-1"], 2)
    bound = at_once(pod_list(scheduler, PodQuery(is_bound=True)))
    assert [(pod.name, pod.queue, pod.node) for pod in bound.pods] == [("fits", "bound", "n")]


@given(st.lists(st.integers(0, 59), max_size=30), st.integers(1, 10))
def test_a_cut_list_is_the_beginning_of_the_whole_one(seconds: list[int], limit: int) -> None:
    source = StagedSource(*(a_pod(f"p{i}", metadata=created(second)) for i, second in enumerate(seconds)))
    found = at_once(pod_list(source.scheduler, PodQuery(limit=limit)))
    expected = sorted((second, f"p{i}") for i, second in enumerate(seconds))
    keys = sorted(expected, key=lambda each: (each[0], f"default/{each[1]}"))
    assert [pod.name for pod in found.pods] == [name for _, name in keys][:limit]
    assert found.total == len(seconds)


# ---- the page of one pod


def test_the_page_of_a_pod_has_its_story() -> None:
    source = a_mixed_cluster()
    page = at_once(pod_page(source.scheduler, source.stories, "default", "fits"))
    assert page is not None
    assert (page.queue, page.node, page.profile, page.requests) == ("bound", "n", "default-scheduler", {"cpu": "1"})
    assert [(line.what, line.detail) for line in page.timeline] == [
        ("queued", "added to the active queue"),
        ("popped", "taken for attempt 1"),
        ("placed", "goes to n, the only choice"),
        ("bound", "is bound to n"),
    ]


def test_the_page_of_a_pod_that_waits() -> None:
    source = a_mixed_cluster()
    page = at_once(pod_page(source.scheduler, source.stories, "default", "big-1"))
    assert page is not None
    assert Counter(line.what for line in page.timeline) == {"queued": 1, "popped": 1, "unschedulable": 2}


def test_a_pod_that_is_gone_keeps_its_story_and_one_that_never_was_has_no_page() -> None:
    source = a_mixed_cluster()
    source.driver.delete("Pod", "default/big-1")
    page = at_once(pod_page(source.scheduler, source.stories, "default", "big-1"))
    assert page is not None
    assert (page.queue, page.timeline[-1].what) == ("gone", "deleted")
    assert at_once(pod_page(source.scheduler, source.stories, "default", "nobody")) is None
    assert at_once(pod_page(source.scheduler, None, "default", "big-1")) is None


def test_a_pod_of_another_scheduler_waits_in_no_queue() -> None:
    source = a_full_cluster(a_pod("p", schedulerName="another"))
    page = at_once(pod_page(source.scheduler, source.stories, "default", "p"))
    assert page is not None
    assert (page.queue, page.profile, page.timeline) == ("other", "another", [])
