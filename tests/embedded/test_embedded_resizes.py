"""v1.37, 16: a kubelet defers a resize in the embedded cluster, and the scheduler makes room for it on the node."""

from typing import Any

import pytest

from asking import PODS
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from virtual_cluster import VirtualCluster

GATE = "InPlacePodVerticalScalingSchedulerPreemption"
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def a_world(is_on: bool = True) -> VirtualCluster:
    """A node of 3 cpu with a pod of 2 and an important one of 1."""
    gates = {GATE: is_on}
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=gates), gates=gates))
    world.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 100})
    world.node("n", "3")
    world.pod("low", "2")
    world.pod("resized", "1", priorityClassName="high")
    world.wait(5)
    assert (world.phase("low"), world.phase("resized")) == ("Running", "Running")
    return world


def resize(world: VirtualCluster, cpu: str) -> None:
    """A user resizes the pod."""
    resources = {"requests": {"cpu": cpu}}
    world.patch(f"{PODS}/resized/resize", {"spec": {"containers": [{"name": "main", "resources": resources}]}})


def say(world: VirtualCluster, *conditions: dict[str, Any], cpu: str = "1") -> None:
    """The kubelet writes its conditions, and what it has allocated."""
    pod = world.get("resized")
    known = [each for each in pod["status"].get("conditions", ()) if each["type"] != DEFERRED["type"]]
    held = {"cpu": cpu}
    statuses = [
        {**each, "allocatedResources": held, "resources": {"requests": held}}
        for each in pod["status"]["containerStatuses"]
    ]
    status = {**pod["status"], "conditions": [*known, *conditions], "containerStatuses": statuses}
    world.ask("PUT", f"{PODS}/resized/status", {**pod, "status": status})


@pytest.mark.parametrize("is_on", [True, False])
def test_v137_16_a_deferred_resize_preempts(is_on: bool) -> None:
    world = a_world(is_on)
    resize(world, "3")
    say(world, DEFERRED)
    world.wait(60)
    assert world.phase("low") == ("gone" if is_on else "Running")
    pod = world.get("resized")
    assert (pod["spec"]["nodeName"], world.condition("resized")["status"]) == ("n", "True")
    assert "nominatedNodeName" not in pod["status"]
    assert world.events("FailedScheduling", "resized") == []
    assert len(world.events("Preempted", "low")) == int(is_on)


def test_v137_16_a_resize_that_is_done_leaves_the_queue() -> None:
    world = a_world()
    resize(world, "3")
    say(world, DEFERRED)
    scheduler = world.cluster.scheduler
    assert scheduler.queued("default/resized") is not None
    world.wait(60)
    say(world, cpu="3")
    assert scheduler.queued("default/resized") is None
    assert scheduler.check() == []
    world.ask("DELETE", f"{PODS}/resized")
    world.wait(60)
    world.pod("next", "3")
    world.wait(5)
    assert world.place("next") == "n"
