"""Pod groups from the API to the scheduler: heeded where the feature gates say so, and nowhere else."""

from typing import Any

import pytest

from gangs import GROUP_GATES
from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.drivers.live_service import LiveScheduler
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from mooring.kit.clock import SteadyClock
from mooring.model.workloads import PodGroup
from mooring.state.scheduler_assembly import build_scheduler
from virtual_cluster import VirtualCluster

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
GROUP = {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
MEMBER: dict[str, Any] = {"schedulingGroup": {"podGroupName": "gang"}}


def a_world(gates: dict[str, bool]) -> VirtualCluster:
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=gates), gates=gates))
    world.node("n1", "2")
    world.ask("POST", GROUPS, GROUP)
    for name in "abc":
        world.pod(name, **MEMBER)
    return world


def placed(world: VirtualCluster) -> list[str]:
    return [name for name in "abc" if world.get(name)["spec"].get("nodeName")]


def test_a_gang_is_placed_when_all_of_it_fits() -> None:
    world = a_world(GROUP_GATES)
    world.wait(12)
    assert placed(world) == []
    world.node("n2", "1")
    world.wait(12)
    assert placed(world) == ["a", "b", "c"]
    (condition,) = world.ask("GET", f"{GROUPS}/gang")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodGroupInitiallyScheduled",
        "True",
        "Scheduled",
    )
    assert condition["lastTransitionTime"].endswith("Z")


def test_without_the_gates_a_gang_is_a_number_of_pods() -> None:
    world = a_world({})
    assert len(placed(world)) == 2
    assert world.cluster.scheduler.core.cluster.objects[PodGroup] == {}
    assert world.ask("GET", f"{GROUPS}/gang").get("status", {}) == {}


@pytest.mark.parametrize(("gates", "are_watched"), [({}, False), (GROUP_GATES, True)], ids=["off", "on"])
def test_groups_are_watched_only_with_the_gate(gates: dict[str, bool], are_watched: bool) -> None:
    scheduler = build_scheduler(config.default(feature_gates=gates), SteadyClock(), gates=gates)
    live = LiveScheduler(scheduler, ConnectionSettings("http://127.0.0.1:1"))
    names = [member.spec.resource for member in live.reflectors.members]
    assert ("podgroups.scheduling.k8s.io" in names) is are_watched
    assert len(names) == 19 + are_watched
