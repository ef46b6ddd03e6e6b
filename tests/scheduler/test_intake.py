"""Changes that do not come as one would wish: missed deletions, and kinds of which nothing is kept."""

from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.intents import Bind, Evict, PatchStatus
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model import devices, storage
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import Service
from mooring.scheduler.inputs import BindAnswered, EvictionAnswered, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import build_scheduler


def a_scheduler(*items: KubeObject) -> Scheduler:
    scheduler = build_scheduler(config.default(), VirtualClock(1_000 * NS_PER_S))
    for item in items:
        scheduler.handle(ObjectAdded(item))
    return scheduler


def a_pending(name: str = "pod", version: int = 1, **more: Any) -> Pod:
    metadata = {"uid": f"uid-{name}", "resourceVersion": str(version), **more.pop("metadata", {})}
    return a_pod(name, metadata=metadata, **{"schedulerName": "default-scheduler", "cpu": "4", **more})


# ---- missed deletions (events.md §2 and §8, example 6)


def test_a_pod_that_is_deleted_as_if_it_had_no_node_frees_the_one_that_it_had() -> None:
    scheduler = a_scheduler(a_node("n1"), a_pending(nodeName="n1"), a_pending("other"))
    scheduler.attempt()
    assert scheduler.core.queue.where("default/other") == "unschedulable"
    scheduler.handle(ObjectRemoved(a_pending()))
    assert scheduler.core.cluster.nodes.pods() == []
    assert scheduler.core.queue.where("default/other") == "backoff"
    assert scheduler.check() == []


def test_a_pod_that_is_deleted_with_a_node_that_nobody_saw_leaves_the_queue() -> None:
    scheduler = a_scheduler(a_node("n1"), a_pending())
    scheduler.handle(ObjectRemoved(a_pending(nodeName="n1")))
    assert scheduler.core.queue.entries() == []
    assert scheduler.check() == []


def test_a_pod_that_took_the_name_of_a_deleted_one_stays_in_the_queue() -> None:
    scheduler = a_scheduler(a_node("n1"), a_pending(metadata={"uid": "new"}))
    scheduler.handle(ObjectRemoved(a_pending(nodeName="n1")))
    assert [entry.uid for entry in scheduler.core.queue.entries()] == ["new"]


def test_a_binding_is_seen_only_when_the_pod_is_deleted() -> None:
    scheduler = a_scheduler(a_node("n1"), a_pending())
    scheduler.attempt()
    assert [type(intent) for intent in scheduler.take_intents()] == [Bind]
    scheduler.handle(ObjectRemoved(a_pending(nodeName="n1")))
    scheduler.handle(BindAnswered(a_pending()))
    assert scheduler.core.cluster.nodes.pods() == []
    assert scheduler.check() == []


# ---- kinds of which nothing is kept

KINDS: list[type[KubeObject]] = [
    storage.PersistentVolume,
    storage.PersistentVolumeClaim,
    storage.StorageClass,
    storage.CSINode,
    storage.CSIDriver,
    storage.CSIStorageCapacity,
    storage.VolumeAttachment,
    devices.ResourceClaim,
    devices.ResourceSlice,
    devices.DeviceClass,
    Service,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_any_object_may_come_change_and_go(kind: type[KubeObject]) -> None:
    scheduler = a_scheduler(a_node("n1"))
    item = msgspec.convert({"metadata": {"name": "one", "namespace": "default"}}, kind)
    scheduler.handle(ObjectAdded(item))
    scheduler.handle(ObjectUpdated(item, item))
    scheduler.handle(ObjectRemoved(item))
    scheduler.handle(ObjectRemoved(item))
    assert scheduler.check() == []


# ---- promises that were not written yet


def preempting() -> tuple[Scheduler, Pod, Pod]:
    """A pod was promised a node whose only pod has left since; its status does not say so yet."""
    low, high = a_pending("low", priority=1, nodeName="n1"), a_pending("high", priority=9)
    scheduler = a_scheduler(a_node("n1"), low, high)
    scheduler.attempt()
    intents = scheduler.take_intents()
    assert [type(intent) for intent in intents if not hasattr(intent, "note")] == [Evict, PatchStatus]
    scheduler.handle(EvictionAnswered(low, high))
    scheduler.handle(ObjectRemoved(low))
    return scheduler, low, high


def test_a_pod_that_waits_for_room_hears_that_the_one_it_was_kept_for_is_gone() -> None:
    scheduler, _, high = preempting()
    assert scheduler.core.queue.where(high.key) == "backoff"
    scheduler.handle(ObjectAdded(a_pending("next", priority=1)))
    tried = scheduler.attempt()
    assert tried is not None and tried.name == "next", "the active queue is served before those who back off"
    assert scheduler.core.queue.where("default/next") == "unschedulable"
    scheduler.handle(ObjectRemoved(high))
    assert scheduler.core.queue.where("default/next") == "backoff", "though its status never named the node"


def test_a_promise_is_kept_while_the_status_does_not_name_the_node_yet() -> None:
    scheduler, _, high = preempting()
    scheduler.handle(ObjectUpdated(high, a_pending("high", version=2, priority=9, labels={"a": "b"})))
    assert scheduler.core.queue.nominations.node_of(high.id) == "n1"


# ---- listeners


def test_listeners_get_every_change_of_a_pod_after_cluster_and_queue_have_it() -> None:
    scheduler = a_scheduler(a_node("n1"))
    core = scheduler.core
    seen: list[tuple[str, str, int, str | None]] = []

    def listen(old: Pod | None, new: Pod | None) -> None:
        versions = [pod.metadata.resource_version if pod is not None else "" for pod in (old, new)]
        seen.append(
            (versions[0] or "", versions[1] or "", len(core.cluster.nodes.pods()), core.queue.where("default/pod"))
        )

    core.services.pod_listeners.append(listen)
    first, second, bound = a_pending(), a_pending(version=2, labels={"a": "b"}), a_pending(version=3, nodeName="n1")
    scheduler.handle(ObjectAdded(first))
    scheduler.handle(ObjectUpdated(first, second))
    scheduler.handle(ObjectUpdated(second, bound))
    scheduler.handle(ObjectRemoved(bound))
    assert seen == [("", "1", 0, "active"), ("1", "2", 0, "active"), ("2", "3", 1, None), ("3", "", 0, None)]


def test_a_listener_that_fails_is_reported_and_the_change_is_not_lost() -> None:
    reports: list[str] = []
    clock = VirtualClock(1_000 * NS_PER_S)
    scheduler = build_scheduler(
        config.default(),
        clock,
        listeners=SchedulerListeners(report=lambda text, fault: reports.append(f"{text}: {fault}")),
    )
    seen: list[Pod | None] = []

    def fail(old: Pod | None, new: Pod | None) -> None:
        raise RuntimeError("no")

    scheduler.core.services.pod_listeners.extend((fail, lambda old, new: seen.append(new)))
    pod = a_pending()
    scheduler.handle(ObjectAdded(pod))
    assert (reports, seen) == (["a plugin failed on a change of pod default/pod: no"], [pod])
    assert scheduler.core.queue.where("default/pod") == "active"


@pytest.mark.parametrize("what", ["added twice", "updated unseen", "removed unseen"])
def test_a_change_that_contradicts_what_is_known_is_reported_and_the_next_one_is_taken_in(what: str) -> None:
    reports: list[str] = []
    listeners = SchedulerListeners(report=lambda text, fault: reports.append(f"{text}: {fault}"))
    scheduler = build_scheduler(config.default(), VirtualClock(), listeners=listeners)
    first, second = (a_pod("p", metadata={"uid": "u"}, nodeName="n1", labels={"version": each}) for each in "12")
    scheduler.handle(ObjectAdded(a_node("n1")))
    shown = "u(default/p)"
    cases: dict[str, tuple[list[Any], str]] = {
        "added twice": ([ObjectAdded(first), ObjectAdded(second)], f"pod {shown} was already in added state"),
        "updated unseen": (
            [ObjectUpdated(first, second)],
            f"pod {shown} is not added to scheduler cache, so cannot be updated",
        ),
        "removed unseen": (
            [ObjectRemoved(first)],
            f"pod {shown} is not found in scheduler cache, so cannot be removed from it",
        ),
    }
    changes, told = cases[what]
    for change in changes:
        scheduler.handle(change)
    assert reports == [f"the cluster's state contradicts a change: {told}"]
    scheduler.handle(ObjectAdded(a_pod("q", metadata={"uid": "v"}, nodeName="n1")))
    assert scheduler.core.cache.has("v") and len(reports) == 1
