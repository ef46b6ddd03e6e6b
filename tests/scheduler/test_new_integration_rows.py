"""Rows that v1.37 added to upstream's integration tests outside of pod groups, as scenarios: preemption and affinity,
nominations after a restart, hints that miss an event, and groups whose devices have conditions."""

from collections.abc import Sequence
from typing import Any

import pytest
from test_group_preemption import PreemptionWorld

from build import a_node, a_pod
from claim_world import ClaimWorld
from device_building import a_claim, a_device, a_slice, claiming
from gangs import GROUP_GATES, GangWorld
from mooring.framework.contract.events import ASSIGNED_POD, Action, ClusterEvent, Registration
from mooring.framework.contract.plain import NodeView, PlainPlugin, lift
from mooring.model.pod import Pod
from mooring.plugins import in_tree

HOST = "kubernetes.io/hostname"
LABELS = {HOST: "n1", "node": "n1"}
FAST_PATH = pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "map"])
WORKLOADS = [
    {},
    GROUP_GATES,
    {**GROUP_GATES, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True},
]


def apart_from(app: str, key: str) -> dict[str, Any]:
    term = {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": [app]}]},
        "topologyKey": key,
    }
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def beside(app: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


# ---- Preemption and affinity between pods


@FAST_PATH
@pytest.mark.parametrize("gates", WORKLOADS, ids=["no groups", "groups", "composite groups"])
@pytest.mark.parametrize(
    ("key", "priority_of_the_second", "leave"),
    [
        pytest.param("node", 100, {"first", "second"}, id="both terms can be satisfied"),
        pytest.param("node", 300, set(), id="a pod of equal priority does not want the preemptor"),
        pytest.param(HOST, 100, {"first", "second"}, id="both terms by host name"),
    ],
)
def test_v137_11_7_pods_leave_if_all_anti_affinity_can_be_satisfied(
    key: str, priority_of_the_second: int, leave: set[str], gates: dict[str, bool], is_fast: bool
) -> None:
    """The preemptor does not want the first pod, and the second does not want the preemptor."""
    world = PreemptionWorld({**gates, "InterPodAffinityHostnameFastPath": is_fast})
    world.driver.create(a_node("n1", cpu="500m", labels=LABELS))
    world.pod("first", cpu="100m", priority=200, labels={"app": "first"})
    world.pod("second", cpu="100m", priority=priority_of_the_second, **apart_from("preemptor", key))
    world.pod("preemptor", cpu="100m", priority=300, labels={"app": "preemptor"}, **apart_from("first", key))
    assert set(world.evicted) == leave
    world.wait(10)
    assert ("preemptor" in world.where()) is bool(leave)


@FAST_PATH
def test_v137_11_7_a_pod_that_wants_its_own_kind_is_followed_by_the_next(is_fast: bool) -> None:
    world = GangWorld({"InterPodAffinityHostnameFastPath": is_fast})
    for name in ("n1", "n2"):
        world.driver.create(a_node(name, labels={HOST: name}))
        world.pod(f"other-{name}", nodeName=name, labels={"app": "other"})
    world.pod("scan-1", labels={"app": "scan"}, **beside("scan"))
    world.pod("scan-2", labels={"app": "scan"}, **beside("scan"))
    where = world.where()
    assert where["scan-1"] == where["scan-2"]


@FAST_PATH
def test_v137_11_7_terms_by_host_name_are_respected(is_fast: bool) -> None:
    world = GangWorld({"InterPodAffinityHostnameFastPath": is_fast})
    for name in ("n1", "n2"):
        world.driver.create(a_node(name, labels={HOST: name}))
    world.pod("scan-1", nodeName="n1", labels={"app": "scan"})
    world.pod("beside", **beside("scan"))
    assert world.where()["beside"] == "n1"
    world.pod("scan-2", nodeName="n2", labels={"app": "scan"})
    world.pod("apart", **apart_from("scan", HOST))
    assert "apart" not in world.where()
    assert world.said("apart") == (
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


# ---- The queue


def test_a_nomination_from_before_a_restart_keeps_the_node() -> None:
    """A pod that comes first in the queue goes elsewhere, though it prefers the node that the other was promised."""
    world = GangWorld({})
    world.driver.create(a_node("preferred", pods=1))
    world.driver.create(a_node("other", taints=["foo:PreferNoSchedule"]))
    about: dict[str, Any] = {"schedulerName": "default-scheduler"}
    world.driver.create(a_pod("first", metadata={"uid": "uid-first"}, **about))
    world.clock.advance_ns(1)
    promised = {"nominatedNodeName": "preferred"}
    world.driver.create(a_pod("promised", metadata={"uid": "uid-promised"}, status=promised, **about))
    assert world.driver.settle() == ["default/first", "default/promised"]
    assert world.where() == {"first": "other", "promised": "preferred"}


def test_v137_12_5_a_preemptor_whose_hints_miss_the_victims_is_found_by_the_flush() -> None:
    class Blocked(PlainPlugin):
        name = "Blocked"

        def filter(self, pod: Pod, node: NodeView) -> str | None:
            return "a blocking pod" if any("victim" in each.name for each in node.pods) else None

    class Forgetful(lift(Blocked)):  # type: ignore[misc]
        def events(self) -> Sequence[Registration]:
            return (Registration(ClusterEvent(ASSIGNED_POD, Action.DELETE), lambda pod, change: False),)

    registry = in_tree()
    registry.register(Forgetful)
    world = GangWorld({}, registry, enabled=["Blocked"])
    world.node("n1", "4")
    for name in ("victim-1", "victim-2"):
        world.pod(name, nodeName="n1", priority=1)
    world.pod("preemptor", priority=100)
    assert world.driver.pods()[0].name == "preemptor", "the victims are gone"
    assert world.place("preemptor") == "unschedulable"
    world.wait(300)
    assert world.place("preemptor") == "unschedulable"
    world.wait(60)
    assert world.where() == {"preemptor": "n1"}


def test_a_node_that_gets_room_wakes_a_pod_that_named_it() -> None:
    """PreFilter of NodeAffinity leaves one node, and NodeResourcesFit rejects that: both are asked about the change."""
    world = GangWorld({})
    world.driver.create(a_node("n1", cpu="2"))
    world.driver.create(a_node("n2", cpu="2", labels={"zone": "z1"}))
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    world.pod("p", cpu="4", affinity=affinity)
    entry = world.core.queue.get("default/p")
    assert entry is not None and set(entry.unschedulable_plugins) == {"NodeAffinity", "NodeResourcesFit"}
    world.driver.update(a_node("n1", cpu="4", labels={"metadata.name": "n1"}))
    world.wait(5)
    assert world.where() == {"p": "n1"}


# ---- Groups and devices


def test_v137_17_11_members_that_name_different_nodes_cannot_share_a_device_of_one() -> None:
    world = ClaimWorld(1, a_claim("shared"))
    for name in "ab":
        world.driver.update(a_node(name, cpu="32", labels={HOST: name}))
    world.group(min_count=2)
    for name, node in (("p0", "a"), ("p1", "b")):
        world.claimants(name, nodeSelector={HOST: node})
    assert world.where() == {}
    assert world.said("p0").startswith("pod group is unschedulable, minCount (2) cannot be satisfied")
    assert "1 resourceclaim not available on the node" in world.said("p1")


@pytest.mark.parametrize("in_group", [False, True], ids=["a pod", "a group"])
@pytest.mark.parametrize("node", ["", "b"], ids=["any node", "a node without the feature"])
def test_v137_17_10_pods_whose_devices_need_no_calls_go_where_nodes_declare_it(in_group: bool, node: str) -> None:
    """The last pod names its node; the device is for all nodes, and only node `a` declares the feature."""
    gates = {**GROUP_GATES, "DRAWorkloadResourceClaims": True, "DRAOptionalNodeOperations": True}
    world = ClaimWorld(0, a_claim("shared"), gates=gates)
    for name in "ab":
        features = ["DRAOptionalNodeOperations"] if name == "a" else None
        world.driver.update(a_node(name, cpu="32", labels={HOST: name}, features=features))
    world.driver.create(a_slice("any", a_device("d"), pool="any", allNodes=True, skipNodeOperations=["*"]))
    world.group(resourceClaims=[{"name": "c0", "resourceClaimName": "shared"}])
    names = ["p0", "p1"] if in_group else ["p0"]
    for name in names:
        wish: dict[str, Any] = {"nodeSelector": {HOST: node}} if node and name == names[-1] else {}
        if in_group:
            world.claimants(name, **wish)
        else:
            alone = a_pod(name, schedulerName="default-scheduler", metadata={"uid": f"uid-{name}"}, **wish)
            world.driver.create(claiming(alone, "shared"))
    world.wait(5)
    last = names[-1]
    if node:
        assert last not in world.where() and world.said(last)
    else:
        assert world.where() == dict.fromkeys(names, "a")
