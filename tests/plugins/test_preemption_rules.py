"""Preemption, rule by rule: who waits at the gate, what is said of nodes and groups, and bounds of harm by hand."""

from typing import Any

import numpy as np
import pytest
from test_preemption import WEB, a_budget, a_preemptor, a_victim, failing, labelled, with_pods

from build import a_node
from extending import Extended, a_pending, a_running
from gangs import WITH_PREEMPTION, a_group, a_member
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import NOT_STARTED_NS, PodRanks, start_ns
from mooring.framework.points import Handle, NoRoom, SchedulerServices
from mooring.framework.status import curable, final
from mooring.model.pod import Pod
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.plugins.preemption.least_harm import LEAST_PRIORITY, LeastHarm, sums_decide
from mooring.plugins.preemption.room import PRIORITY_OFFSET
from mooring.plugins.preemption.search import NodeDryRun, budgets_of

# ---- the gate

POD_WAITS = final("waiting for the preemption for this pod to be finished")
GROUP_WAITS = final("waiting for the preemption for this pod group to be finished")


def a_plugin(cluster: Cluster | None = None, **gates: bool) -> DefaultPreemption:
    services = SchedulerServices(cluster=cluster or Cluster(gates))
    return DefaultPreemption(None, Handle(feature_gates=gates, services=services))


def with_groups(*groups: Any) -> DefaultPreemption:
    cluster = Cluster(WITH_PREEMPTION)
    for group in groups:
        cluster.put(group)
    return a_plugin(cluster, **WITH_PREEMPTION)


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
    assert (registration.event.resource, registration.event.action.name) == ("Pod", "DELETE")
    assert registration.hint is not None
    change: Any = None
    assert registration.hint(a_preemptor(), change) is False


# ---- which members may preempt alone

PLACED_BY_RACK: dict[str, Any] = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
BY_PLACEMENT = {**WITH_PREEMPTION, "WorkloadAwarePreemption": False, "TopologyAwareWorkloadScheduling": True}
NOT_FOUND = "pod group for pod not found"
LIMITED = "not eligible due to placement-based pod group scheduling limitation"
GROUPS_DO = "not eligible due to workload aware preemption enabled"
EXCLUDED: dict[str, tuple[dict[str, bool], Any, str | None]] = {
    "without gates": ({}, None, None),
    "groups preempt": (WITH_PREEMPTION, a_group(), GROUPS_DO),
    "groups preempt, and the group is gone": (WITH_PREEMPTION, None, GROUPS_DO),
    "placements are tried, and the group is gone": (BY_PLACEMENT, None, NOT_FOUND),
    "placements are tried, and the group has constraints": (BY_PLACEMENT, a_group(**PLACED_BY_RACK), LIMITED),
    "placements are tried, and the group has none": (BY_PLACEMENT, a_group(), None),
    "both, and the group has constraints": ({**BY_PLACEMENT, **WITH_PREEMPTION}, a_group(**PLACED_BY_RACK), LIMITED),
    "both, and the group has none": ({**BY_PLACEMENT, **WITH_PREEMPTION}, a_group(), GROUPS_DO),
    "groups preempt, and placements are not tried": (WITH_PREEMPTION, a_group(**PLACED_BY_RACK), GROUPS_DO),
}


@pytest.mark.parametrize(("gates", "group", "why_not"), EXCLUDED.values(), ids=EXCLUDED.keys())
def test_which_members_of_groups_may_preempt(gates: dict[str, bool], group: Any, why_not: str | None) -> None:
    cluster = Cluster(gates)
    if group is not None:
        cluster.put(group)
    plugin = a_plugin(cluster, **gates)
    assert plugin.may_help(a_member("one"), cluster) is (why_not is None)
    assert plugin.may_help(a_preemptor(), cluster)
    failure = failing(a_member("one", priority=9), with_pods({"n1": []}, "0"))
    failure.attempt.context.cluster.objects.update(cluster.objects)
    if why_not is not None:
        assert plugin.post_filter(failure) == NoRoom(curable(f"preemption: {why_not}"))


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
    survey = search._survey(np.arange(4), None)
    bounds = search._least_harm(survey.room, survey.first, survey.rows)
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
