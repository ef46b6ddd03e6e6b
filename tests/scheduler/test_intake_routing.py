"""Each change of the cluster goes where it belongs: to the cache, to the queue, or both, in this order."""

from collections.abc import Callable
from typing import Any

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.intents import Bind
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import build_scheduler

CONFIG = config.from_object(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
)
FOREIGN: dict[str, Any] = {"schedulerName": "somebody-else"}
DONE = {"phase": "Succeeded"}
FAILED = {"phase": "Failed"}
KEPT = {"nominatedNodeName": "n1"}
PROBES = [a_pod(priority=priority) for priority in (4, 5, 6)]


def a_scheduler(*items: KubeObject) -> Scheduler:
    scheduler = build_scheduler(CONFIG, VirtualClock(1_000 * NS_PER_S))
    for item in items:
        scheduler.handle(ObjectAdded(item))
    return scheduler


def a_version(version: int, name: str = "pod", uid: str = "u1", deleted: bool = False, **more: Any) -> Pod:
    """The pod as of a resourceVersion."""
    metadata = {"uid": uid, "resourceVersion": str(version)}
    if deleted:
        metadata["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    return a_pod(name, metadata=metadata, **{"schedulerName": "default-scheduler", **more})


def watched(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the cache and the queue are told from now on."""
    log: list[str] = []
    core = scheduler.core

    def watch(owner: Any, words: str, method: str, tell: Callable[..., str]) -> None:
        act = getattr(owner, method)

        def noted(*args: Any, **flags: bool) -> Any:
            log.append(" ".join((words, tell(*args), *(name for name, is_set in flags.items() if is_set))))
            return act(*args, **flags)

        monkeypatch.setattr(owner, method, noted)

    for method in ("confirm", "update", "remove", "forget"):
        watch(core.cache, f"cache {method}", method, lambda pod, *_: pod.key)
    for method in ("add", "update", "delete"):
        watch(core.queue, f"queue {method}", method, lambda pod, *_: pod.key)
    watch(core.queue, "wake", "wake", _woken)
    watch(core.cluster.nodes, "put", "put_node", lambda node: node.name)
    watch(core.cluster.nodes, "drop", "remove_node", lambda name: name)
    return log


def _woken(event: Any, old: Any, new: Any, admits: Callable[[Pod], bool] | None = None) -> str:
    """The event, which of the old and the new object come with it, and the priorities from 4 to 6 that are let in."""
    objects = "/".join("-" if item is None else item.name for item in (old, new))
    limited = "" if admits is None else f" for {[pod.priority for pod in PROBES if admits(pod)]}"
    return f"{event.label} {objects}{limited}"


Act = Callable[[Scheduler], None]


def add(item: KubeObject) -> tuple[list[KubeObject], Act]:
    return [], lambda scheduler: scheduler.handle(ObjectAdded(item))


def update(old: KubeObject, new: KubeObject) -> tuple[list[KubeObject], Act]:
    return [old], lambda scheduler: scheduler.handle(ObjectUpdated(old, new))


def remove(item: KubeObject) -> tuple[list[KubeObject], Act]:
    return [item], lambda scheduler: scheduler.handle(ObjectRemoved(item))


CONFIRMED = ["cache confirm default/pod", "wake AssignedPodAdd -/pod"]
LEFT = ["cache remove default/pod", "wake AssignedPodDelete pod/-"]

PODS: dict[str, tuple[tuple[list[KubeObject], Act], list[str]]] = {
    "a pod on a node is added": (add(a_version(1, nodeName="n1")), CONFIRMED),
    "a pod on a node of another scheduler is added": (add(a_version(1, nodeName="n1", **FOREIGN)), CONFIRMED),
    "a pod of ours without a node is added": (add(a_version(1)), ["queue add default/pod"]),
    "a pod of another scheduler without a node is added": (add(a_version(1, **FOREIGN)), []),
    "a pod that has succeeded on its node is added": (add(a_version(1, nodeName="n1", status=DONE)), []),
    "a pod that has failed without a node is added": (add(a_version(1, status=FAILED)), []),
    "a pod on a node is changed": (
        update(a_version(1, nodeName="n1"), a_version(2, nodeName="n1", labels={"a": "b"})),
        ["cache update default/pod", "wake AssignedPodUpdatePodLabel pod/pod"],
    ),
    "a pod on a node is changed in two ways": (
        update(a_version(1, nodeName="n1", cpu="2"), a_version(2, nodeName="n1", cpu="1", labels={"a": "b"})),
        [
            "cache update default/pod",
            "wake AssignedPodUpdatePodLabel pod/pod",
            "wake AssignedPodUpdatePodScaleDown pod/pod",
        ],
    ),
    "a pod on a node is shown again in the same version": (
        update(a_version(1, nodeName="n1"), a_version(1, nodeName="n1")),
        ["cache update default/pod", "wake AssignedPodUpdate pod/pod"],
    ),
    "a pod on a node of another scheduler is changed": (
        update(a_version(1, nodeName="n1", **FOREIGN), a_version(2, nodeName="n1", **FOREIGN)),
        ["cache update default/pod", "wake AssignedPodUpdate pod/pod"],
    ),
    "a pod on a node begins to leave": (
        update(a_version(1, nodeName="n1"), a_version(2, nodeName="n1", deleted=True)),
        ["cache update default/pod", "wake AssignedPodUpdate pod/pod"],
    ),
    "a pod of ours is bound": (
        update(a_version(1), a_version(2, nodeName="n1")),
        [*CONFIRMED, "queue delete default/pod"],
    ),
    "a pod of ours that was nominated is bound, which frees no room": (
        update(a_version(1, status=KEPT), a_version(2, nodeName="n1")),
        [*CONFIRMED, "queue delete default/pod"],
    ),
    "a pod of another scheduler is bound": (
        update(a_version(1, **FOREIGN), a_version(2, nodeName="n1", **FOREIGN)),
        CONFIRMED,
    ),
    "a pod of ours that waits is changed": (
        update(a_version(1), a_version(2, labels={"a": "b"})),
        ["queue update default/pod"],
    ),
    "a pod of ours that waits is shown again in the same version": (update(a_version(1), a_version(1)), []),
    "a pod of another scheduler that waits is changed": (
        update(a_version(1, **FOREIGN), a_version(2, labels={"a": "b"}, **FOREIGN)),
        [],
    ),
    "a pod of ours loses its nomination": (
        update(a_version(1, status=KEPT, priority=5), a_version(2, priority=5)),
        ["queue update default/pod", "wake AssignedPodDelete pod/- for [4, 5]"],
    ),
    "a pod of ours is nominated to another node": (
        update(a_version(1, status=KEPT, priority=5), a_version(2, status={"nominatedNodeName": "n2"}, priority=5)),
        ["queue update default/pod", "wake AssignedPodDelete pod/- for [4, 5]"],
    ),
    "a pod of ours keeps its nomination": (
        update(a_version(1, status=KEPT), a_version(2, status=KEPT, labels={"a": "b"})),
        ["queue update default/pod"],
    ),
    "a pod of ours is nominated": (
        update(a_version(1), a_version(2, status=KEPT)),
        ["queue update default/pod"],
    ),
    "a pod on a node has finished": (
        update(a_version(1, nodeName="n1"), a_version(2, nodeName="n1", status=DONE)),
        LEFT,
    ),
    "a pod of ours has failed before it had a node": (
        update(a_version(1), a_version(2, status=FAILED)),
        ["queue delete default/pod"],
    ),
    "a pod that had finished is changed": (
        update(a_version(1, nodeName="n1", status=DONE), a_version(2, nodeName="n1", status=DONE, labels={"a": "b"})),
        [],
    ),
    "a pod on a node was replaced unseen by one that waits": (
        update(a_version(1, nodeName="n1"), a_version(2, uid="u2")),
        [*LEFT, "queue add default/pod"],
    ),
    "a pod on a node is deleted": (remove(a_version(1, nodeName="n1")), LEFT),
    "a pod on a node of another scheduler is deleted": (remove(a_version(1, nodeName="n1", **FOREIGN)), LEFT),
    "a pod of ours that waits is deleted": (remove(a_version(1)), ["queue delete default/pod"]),
    "a pod of ours that was nominated is deleted": (
        remove(a_version(1, status=KEPT, priority=5)),
        ["queue delete default/pod", "wake AssignedPodDelete pod/- for [4, 5]"],
    ),
    "a pod of another scheduler that waits is deleted": (remove(a_version(1, **FOREIGN)), []),
}

NODES: dict[str, tuple[tuple[list[KubeObject], Act], list[str]]] = {
    "a node is added": (add(a_node("n2")), ["put n2", "wake NodeAdd -/n2"]),
    "a node is changed in two ways": (
        update(a_node("n2"), a_node("n2", cpu="8", labels={"a": "b"})),
        ["put n2", "wake NodeUpdateNodeAllocatable n2/n2", "wake NodeUpdateNodeLabel n2/n2"],
    ),
    "a node is shown again as it was": (update(a_node("n2"), a_node("n2")), ["put n2"]),
    "a node is cordoned": (update(a_node("n2"), a_node("n2", unschedulable=True)), ["put n2"]),
    "a node is uncordoned": (
        update(a_node("n2", unschedulable=True), a_node("n2")),
        ["put n2", "wake NodeUpdateNodeTaint n2/n2"],
    ),
    "a node is deleted: others hear of it before it is gone": (
        remove(a_node("n2")),
        ["wake NodeDelete n2/-", "drop n2"],
    ),
}
ROWS = PODS | NODES


@pytest.mark.parametrize(("change", "told"), ROWS.values(), ids=ROWS.keys())
def test_who_is_told_of_a_change(
    change: tuple[list[KubeObject], Act], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, act = change
    scheduler = a_scheduler(a_node("n1"), a_node("spare"), *before)
    log = watched(scheduler, monkeypatch)
    act(scheduler)
    assert log == told
    assert scheduler.check() == []


def test_a_pod_that_goes_before_its_status_names_its_node_frees_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = a_version(1, priority=5)
    scheduler = a_scheduler(a_node("n1"), pod)
    scheduler.core.queue.nominations.add(pod, "n1")
    log = watched(scheduler, monkeypatch)
    scheduler.handle(ObjectRemoved(pod))
    assert log == ["queue delete default/pod", "wake AssignedPodDelete pod/- for [4, 5]"]


def a_binding(monkeypatch: pytest.MonkeyPatch) -> tuple[Scheduler, list[str]]:
    """A scheduler that has asked for a pod to be bound and has yet to hear of it."""
    scheduler = a_scheduler(a_node("n1"), a_version(1))
    scheduler.attempt()
    assert [type(intent) for intent in scheduler.take_intents()] == [Bind]
    return scheduler, watched(scheduler, monkeypatch)


BETWEEN: dict[str, tuple[Act, list[str]]] = {
    "the pod is deleted": (
        lambda s: s.handle(ObjectRemoved(a_version(1))),
        ["queue delete default/pod", "cache forget default/pod is_gone", "wake AssignedPodDelete pod/-"],
    ),
    "the pod begins to leave": (
        lambda s: s.handle(ObjectUpdated(a_version(1), a_version(2, deleted=True))),
        ["cache forget default/pod is_gone", "wake AssignedPodDelete pod/-"],
    ),
    "the pod is changed in another way": (
        lambda s: s.handle(ObjectUpdated(a_version(1), a_version(2, labels={"a": "b"}))),
        [],
    ),
    "the binding is seen": (
        lambda s: s.handle(ObjectUpdated(a_version(1), a_version(2, nodeName="n1"))),
        [*CONFIRMED, "queue delete default/pod"],
    ),
}


@pytest.mark.parametrize(("act", "told"), BETWEEN.values(), ids=BETWEEN.keys())
def test_a_change_between_decision_and_binding(act: Act, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, log = a_binding(monkeypatch)
    act(scheduler)
    assert log == told
    assert scheduler.check() == []


def test_a_pod_that_was_bound_elsewhere_counts_where_the_watch_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, _ = a_binding(monkeypatch)
    scheduler.handle(ObjectAdded(a_node("n2")))
    scheduler.handle(ObjectUpdated(a_version(1), a_version(2, nodeName="n2")))
    assert [(pod.name, pod.spec.node_name) for pod in scheduler.core.cluster.nodes.pods()] == [("pod", "n2")]
    assert not scheduler.core.cache.is_assumed("u1")


def test_what_contradicts_the_cache_is_reported_and_life_goes_on() -> None:
    reports: list[str] = []
    clock = VirtualClock(1_000 * NS_PER_S)
    scheduler = build_scheduler(
        CONFIG, clock, listeners=SchedulerListeners(report=lambda text, error: reports.append(f"{text}: {error}"))
    )
    scheduler.handle(ObjectRemoved(a_version(1, nodeName="n1")))
    assert reports == [
        "the cluster's state contradicts a change: "
        "pod u1(default/pod) is not found in scheduler cache, so cannot be removed from it"
    ]
    scheduler.handle(ObjectAdded(a_version(2)))
    assert scheduler.core.queue.where("default/pod") == "active"
