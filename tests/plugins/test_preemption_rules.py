"""Preemption, rule by rule: who waits at the gate, what is said of nodes and groups, and bounds of harm by hand."""

from typing import Any

import numpy as np
import pytest
from test_preemption import GPU, RANKINGS, WEB, a_budget, a_preemptor, a_victim, failing, labelled, names, with_pods

from build import a_cluster, a_node, a_pod
from extending import Extended, a_pending, a_running
from gangs import GROUP_GATES, GangWorld, a_group, a_member
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import NOT_STARTED_NS, PodRanks, start_ns
from mooring.framework.contract.points import Handle, Nomination, ResourceDemand, SchedulerServices
from mooring.framework.contract.status import final
from mooring.model.pod import Pod
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.plugins.preemption.group_preemption import VictimOrder
from mooring.plugins.preemption.kept_harm import NO_LIMIT, PRIORITY_OFFSET, room_on, victims_on
from mooring.plugins.preemption.least_harm import LEAST_PRIORITY, LeastHarm, sums_decide
from mooring.plugins.preemption.victim_search import NodeDryRun, budgets_of

# ---- the gate

POD_WAITS = final("waiting for the preemption for this pod to be finished")
GROUP_WAITS = final("waiting for the preemption for this pod group to be finished")


def a_plugin(cluster: Cluster | None = None, **gates: bool) -> DefaultPreemption:
    services = SchedulerServices(cluster=cluster or Cluster(gates))
    return DefaultPreemption(None, Handle(feature_gates=gates, services=services))


def with_groups(*groups: Any) -> DefaultPreemption:
    cluster = Cluster(GROUP_GATES)
    for group in groups:
        cluster.put(group)
    return a_plugin(cluster, **GROUP_GATES)


@pytest.mark.parametrize("uids", [("uid-gang", "uid-other"), ("", "")], ids=["by uid", "by name without uids"])
def test_all_members_of_a_group_wait_while_victims_of_one_are_evicted(uids: tuple[str, str]) -> None:
    plugin = with_groups(a_group(uid=uids[0]), a_group("other", uid=uids[1]))
    one, two, stranger, alone = a_member("one"), a_member("two"), a_member("three", "other"), a_preemptor()
    plugin.eviction_began(one)
    assert plugin.pre_enqueue(one) == plugin.pre_enqueue(two) == GROUP_WAITS
    assert plugin.pre_enqueue(stranger) is None
    assert plugin.pre_enqueue(alone) is None
    plugin.eviction_ended(one)
    assert plugin.pre_enqueue(two) is None


def test_a_pod_of_no_group_waits_alone_where_groups_preempt() -> None:
    plugin, alone = with_groups(a_group(uid="uid-gang")), a_preemptor()
    plugin.eviction_began(alone)
    assert plugin.pre_enqueue(alone) == POD_WAITS
    assert plugin.pre_enqueue(a_preemptor(name="another")) is None
    assert plugin.pre_enqueue(a_member("one")) is None


def test_members_of_a_group_that_is_gone_do_not_wait() -> None:
    plugin, one = with_groups(), a_member("one")
    plugin.eviction_began(one)
    assert plugin.pre_enqueue(one) is None
    assert plugin.pre_enqueue(a_member("two")) is None


def test_without_the_gate_a_member_waits_alone() -> None:
    plugin, one = a_plugin(), a_member("one")
    plugin.eviction_began(one)
    assert plugin.pre_enqueue(one) == POD_WAITS
    assert plugin.pre_enqueue(a_member("two")) is None


def test_the_end_of_an_eviction_that_never_began_is_no_fault() -> None:
    plugin = a_plugin()
    plugin.eviction_ended(a_preemptor())
    assert plugin.pre_enqueue(a_preemptor()) is None


def test_a_pod_that_leaves_never_queues_a_preemptor_by_itself() -> None:
    (registration,) = a_plugin().events()
    assert (registration.event.resource, registration.event.action.name) == ("AssignedPod", "DELETE")
    assert registration.hint is not None
    change: Any = None
    assert registration.hint(a_preemptor(), change) is False


# ---- nodes that an extender refused though the pod fits


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (["n2"], 'expected at least one victim pod on node "n2"'),
        (
            ["n2", "n1"],
            '[expected at least one victim pod on node "n1", expected at least one victim pod on node "n2"]',
        ),
    ],
    ids=["one node", "several nodes, by name"],
)
def test_nodes_that_need_no_victims_are_an_error(refused: list[str], text: str) -> None:
    world = Extended({"filterVerb": "filter", "nodeCacheCapable": True}, nodes=("n2", "n1"))
    world.put(a_running("low", "n1", cpu="1"), a_running("lower", "n2", cpu="1"))
    world.answers["filter"] = {"NodeNames": [], "FailedNodes": dict.fromkeys(refused, "x")}
    world.place(a_pending(cpu="1", priority=10))
    assert world.why()[1] == f"0/2 nodes are available: {len(refused)} x. preemption: {text}"


# ---- bounds of the harm on nodes that are tried alone


def test_the_harm_on_a_node_cannot_be_below_these_bounds() -> None:
    """CPUs are 6 on each node, of which the preemptor needs 4.

    On n1 both pods have to leave, at best: 5 and 3. On n2 one is enough, and the pod of priority 100 stays. On n3 the
    pods need not leave by sums alone. On n4 the number of pods is what is missing.
    """
    pods = {
        "n1": [a_victim("a", 5, "3", 10, **WEB), a_victim("b", 3, "3", 20)],
        "n2": [a_victim("c", 100, "1", 30), a_victim("d", 1, "5")],
        "n3": [a_victim("e", 2, "2", 40)],
        "n4": [a_victim("f", 7, "500m", 1), a_victim("g", 6, "500m", 2), a_victim("h", 4, "5", 3)],
    }
    cluster = with_pods(pods, "6", a_budget("x", labelled("web"), 0))
    nodes = cluster.nodes
    cluster.put(a_node("n3", cpu="6", taints=["x=y:NoSchedule"]))
    search = a_search(a_preemptor("4", 9), cluster)
    survey = search.survey(np.arange(4), None)
    bounds = search.least_harm(survey.room, survey.first, survey.rows)
    found = dict(zip(nodes.names, zip(*(bound.tolist() for bound in bounds), strict=True), strict=False))
    rank = dict(zip(nodes.names, nodes.name_rank().tolist(), strict=False))
    assert found == {
        "n1": (5, 5 + 3 + 2 * PRIORITY_OFFSET, 2, -start_ns(pods["n1"][1]), rank["n1"]),
        "n2": (1, 1 + PRIORITY_OFFSET, 1, -NOT_STARTED_NS, -rank["n2"]),
        "n3": (LEAST_PRIORITY, 0, 1, -start_ns(pods["n3"][0]), rank["n3"]),
        "n4": (4, 4 + PRIORITY_OFFSET, 1, -start_ns(pods["n4"][2]), rank["n4"]),
    }


def a_search(pod: Pod, cluster: Cluster) -> LeastHarm:
    failure = failing(pod, cluster)
    ranks = PodRanks(cluster.nodes)
    ranks.refresh()
    filters = sums_decide(failure.attempt, failure.nominated)
    assert filters is not None
    return LeastHarm(failure, ranks, filters, NodeDryRun(failure, ranks, budgets_of(cluster)))


# ---- the long way, where not all nodes may be examined


@pytest.mark.parametrize(("pods", "chosen"), RANKINGS.values(), ids=RANKINGS.keys())
def test_candidates_that_were_listed_are_ranked_in_the_same_order(pods: dict[str, list[Pod]], chosen: str) -> None:
    cluster = with_pods(pods, "6", a_budget("x", labelled("web"), 0))
    found = a_plugin().post_filter(failing(a_preemptor("6"), cluster, examine_all=False))
    assert isinstance(found, Nomination)
    assert (found.node_name, set(names(found.victims))) == (chosen, set(names(pods[chosen])))


# ---- resources that do not matter on nodes without them


@pytest.mark.parametrize(
    ("gpus", "is_waived", "victims"),
    [
        pytest.param("0", True, [1], id="waived on a node without them"),
        pytest.param("0", False, None, id="not waived"),
        pytest.param("3", True, [0], id="the node has some"),
    ],
)
def test_a_resource_is_waived_only_where_the_node_has_none(
    gpus: str, is_waived: bool, victims: list[int] | None
) -> None:
    """The preemptor wants 2 of 4 CPUs and 1 GPU. Slot 0 has 2 CPUs, slot 1 has 2, and slot 0 has 3 GPUs, if the node has."""
    cluster = a_cluster(a_node("n", cpu="4", allocatable={GPU: gpus}))
    held = {GPU: gpus} if gpus != "0" else {}
    cluster.nodes.place(a_pod("high", priority=5, requests={"cpu": "2", **held}), "n")
    cluster.nodes.place(a_pod("low", priority=1, requests={"cpu": "2"}), "n")
    resources = cluster.nodes.amounts.resources(("cpu", GPU))
    ranks = PodRanks(cluster.nodes)
    ranks.refresh()
    waived = np.array([[False], [True]]) if is_waived else None
    demand = ResourceDemand(resources, np.array([[2000], [1]]), waived)
    assert victims_on(ranks, 0, 9, demand, cluster.nominated, None) == victims
    found = room_on(ranks, demand, None, slice(0, 1))
    assert [limit.tolist() for limit in found.limits] == [
        [2000],
        [NO_LIMIT if is_waived and gpus == "0" else int(gpus) - 1],
    ]


# ---- victims of groups


def evicted_for(*members: dict[str, Any], world: GangWorld) -> list[str]:
    evicted: list[str] = []
    world.driver.on_evicted = lambda victim, preemptor: evicted.append(victim.name)
    world.driver.create(a_group(min_count=len(members), uid="uid-gang", priority=9))
    for number, more in enumerate(members):
        world.driver.create(a_member(f"m{number}", priority=9, **more))
    world.wait(3)
    return evicted


def running(world: GangWorld, name: str, node: str, priority: int, **more: Any) -> None:
    world.driver.create(a_pod(name, nodeName=node, priority=priority, metadata={"uid": f"uid-{name}"}, **more))


def test_nodes_that_no_member_can_use_lose_no_pods() -> None:
    """The pod on the tainted node is the least important, and leaving would not help."""
    world = GangWorld(GROUP_GATES)
    world.driver.create(a_node("bad", cpu="1", taints=["x=y:NoSchedule"]))
    world.driver.create(a_node("good", cpu="1"))
    running(world, "least", "bad", 0, cpu="1")
    running(world, "low", "good", 1, cpu="1")
    assert evicted_for({"cpu": "1"}, world=world) == ["low"]


def test_a_pod_that_requests_nothing_makes_no_room_for_a_group() -> None:
    world = GangWorld(GROUP_GATES)
    world.driver.create(a_node("n", cpu="1"))
    running(world, "idle", "n", 0)
    running(world, "low", "n", 1, cpu="950m")
    assert evicted_for({"cpu": "100m"}, world=world) == ["low"]


def test_the_number_of_pods_can_be_what_a_group_lacks() -> None:
    world = GangWorld(GROUP_GATES)
    world.driver.create(a_node("n", cpu="9", pods=2))
    running(world, "idle", "n", 0)
    running(world, "low", "n", 1, cpu="1")
    assert evicted_for({"cpu": "1"}, world=world) == ["idle"]


def test_members_that_may_never_preempt_keep_their_group_from_it() -> None:
    world = GangWorld(GROUP_GATES)
    world.driver.create(a_node("n", cpu="1"))
    running(world, "low", "n", 0, cpu="1")
    never = {"cpu": "1", "preemptionPolicy": "Never"}
    assert evicted_for({"cpu": "500m"}, never, world=world) == []


def test_pods_of_the_same_priority_are_no_victims_of_a_group() -> None:
    world = GangWorld(GROUP_GATES)
    world.driver.create(a_node("n", cpu="2"))
    running(world, "equal", "n", 9, cpu="1")
    running(world, "low", "n", 8, cpu="1")
    assert evicted_for({"cpu": "1"}, {"cpu": "1"}, world=world) == []
    assert evicted_for({"cpu": "1"}, world=fresh(world)) == ["low"]


def fresh(world: GangWorld) -> GangWorld:
    """A world with the same nodes and running pods."""
    other = GangWorld(GROUP_GATES)
    other.driver.create(a_node("n", cpu="2"))
    for pod in world.driver.pods():
        if pod.spec.node_name:
            other.driver.create(pod)
    return other


def test_a_group_that_leaves_as_one_is_one_victim_however_its_pods_come() -> None:
    cluster = Cluster(GROUP_GATES)
    for name in ("n0", "n1"):
        cluster.put(a_node(name))
    cluster.put(a_group("a", disruptionMode={"all": {}}, priority=1))
    order = VictimOrder(cluster)

    def victims() -> list[list[str]]:
        order.refresh()
        return [[pod.name for pod in unit.pods] for unit in order.below(5)]

    assert victims() == []
    cluster.nodes.place(a_member("one", "a").with_node("n0"), "n0")
    assert victims() == [["one"]]
    cluster.nodes.place(a_member("two", "a").with_node("n1"), "n1")
    assert victims() == [["one", "two"]]
    cluster.nodes.place(a_pod("alone", priority=2).with_node("n1"), "n1")
    assert victims() == [["alone"], ["one", "two"]]
    cluster.nodes.displace("uid-one")
    assert victims() == [["alone"], ["two"]]
    cluster.nodes.displace("uid-two")
    assert victims() == [["alone"]]
