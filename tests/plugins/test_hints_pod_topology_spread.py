"""PodTopologySpread: pods that a hard constraint counts, and nodes that make up its domains."""

from typing import Any

import msgspec
import pytest

import hinting
from build import a_cluster, a_node, a_pod
from hinting import action_of, wakes
from mooring.cluster.cluster import Cluster
from mooring.framework.config.args import PodTopologySpreadArgs
from mooring.framework.contract.events import ASSIGNED_POD, NODE, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import TopologySpreadConstraint
from mooring.model.workloads import ReplicaSet, Service
from mooring.plugins.affinity.pod_topology_spread import PodTopologySpread

WEB = {"app": "web"}
DB = {"app": "db"}
ZONE, RACK = "zone", "rack"


def over(key: str, labels: dict[str, str] | None = WEB, when: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    selector = None if labels is None else {"matchLabels": labels}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **more}


def waiting(*constraints: dict[str, Any], **more: Any) -> Pod:
    return a_pod("waiting", topologySpreadConstraints=list(constraints or (over(ZONE),)), **{"labels": WEB, **more})


def other(labels: dict[str, str] | None, node: str = "n1", **more: Any) -> Pod:
    return a_pod("other", labels=labels, nodeName=node, **more)


def wakes_for_pod(pod: Pod, old: Pod | None, new: Pod | None, update: Action = Action.UPDATE_POD_LABEL) -> bool:
    return hinting.wakes_for_pod(PodTopologySpread(None, Handle()), pod, old, new, update)


PODS: dict[str, tuple[Pod, Pod | None, Pod | None, bool]] = {
    "a pod that counts comes": (waiting(), None, other(WEB), True),
    "a pod that does not count comes": (waiting(), None, other(DB), False),
    "a pod that counts leaves": (waiting(), other(WEB), None, True),
    "a pod that does not count leaves": (waiting(), other(DB), None, False),
    "a pod in another namespace leaves": (waiting(), other(WEB, namespace="far"), None, False),
    "a pod without a node leaves": (waiting(), other(WEB, node=""), None, False),
    "a nominated pod leaves": (waiting(), other(WEB, node="", status={"nominatedNodeName": "n1"}), None, True),
    "a pod begins to count": (waiting(), other(DB), other(WEB), True),
    "a pod ceases to count": (waiting(), other(WEB), other(DB), True),
    "a pod gets a label that does not matter": (waiting(), other(WEB), other({**WEB, "v": "2"}), False),
    "a pod keeps its labels": (waiting(), other(WEB), other(WEB), False),
    "a pod begins to count for one of two constraints": (
        waiting(over(ZONE), over(RACK, {"tier": "front"})),
        other(WEB),
        other({**WEB, "tier": "front"}),
        True,
    ),
    "a pod changed that had no node before": (waiting(), other(DB, node=""), other(WEB), False),
    "soft constraints do not matter": (waiting(over(ZONE, when="ScheduleAnyway")), None, other(WEB), False),
    "an empty selector matches every pod": (waiting(over(ZONE, {})), None, other(DB), True),
    "no selector matches no pod": (waiting(over(ZONE, None)), None, other(WEB), False),
    "matchLabelKeys narrow the selector to the pod's own value": (
        waiting(over(ZONE, matchLabelKeys=["v"]), labels={**WEB, "v": "1"}),
        None,
        other({**WEB, "v": "2"}),
        False,
    ),
    "matchLabelKeys are met": (
        waiting(over(ZONE, matchLabelKeys=["v"]), labels={**WEB, "v": "1"}),
        None,
        other({**WEB, "v": "1"}),
        True,
    ),
    "its own labels make it count": (waiting(), waiting(labels=DB), waiting(), True),
    "its own labels make it count as little as before": (waiting(), waiting(labels={}), waiting(labels=DB), False),
    "a selector that does not compile leaves it open": (
        waiting(over(ZONE, {"bad key!": "x"})),
        None,
        other(DB),
        True,
    ),
}


@pytest.mark.parametrize(("pod", "old", "new", "woken"), PODS.values(), ids=PODS.keys())
def test_pods(pod: Pod, old: Pod | None, new: Pod | None, woken: bool) -> None:
    assert wakes_for_pod(pod, old, new) is woken


def test_two_pods_of_one_template_keep_their_own_label_values_apart() -> None:
    plugin, event = PodTopologySpread(None, Handle()), ClusterEvent(ASSIGNED_POD, Action.ADD)
    constraint = over(ZONE, matchLabelKeys=["v"])
    first, second = (a_pod(v, labels={**WEB, "v": v}, topologySpreadConstraints=[constraint]) for v in ("1", "2"))
    assert first.shape is second.shape
    woken = [wakes(plugin, pod, event, None, other({**WEB, "v": "2"})) for pod in (first, second, first)]
    assert woken == [False, True, False]


TOLERANT = [{"operator": "Exists"}]
TOLERATIONS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "a constraint honours taints": (over(ZONE, nodeTaintsPolicy="Honor"), "waiting", True),
    "no constraint honours taints": (over(ZONE), "waiting", False),
    "only a soft constraint honours taints": (
        over(ZONE, when="ScheduleAnyway", nodeTaintsPolicy="Honor"),
        "waiting",
        False,
    ),
    "another pod tolerates more": (over(ZONE, nodeTaintsPolicy="Honor"), "other", False),
}


@pytest.mark.parametrize(("constraint", "name", "woken"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_tolerations(constraint: dict[str, Any], name: str, woken: bool) -> None:
    pod = waiting(constraint)
    node = "" if name == "waiting" else "n1"
    old = a_pod(name, labels=WEB, nodeName=node, topologySpreadConstraints=[constraint])
    new = a_pod(name, labels=WEB, nodeName=node, topologySpreadConstraints=[constraint], tolerations=TOLERANT)
    assert wakes_for_pod(pod, old, new, Action.UPDATE_POD_TOLERATION) is woken


def node(zone: str | None = None, rack: str | None = None, taints: Any = (), **labels: str) -> Node:
    written = {ZONE: zone, RACK: rack, **labels}
    return a_node(labels={key: value for key, value in written.items() if value is not None}, taints=taints)


BOTH = waiting(over(ZONE), over(RACK))
NODES: dict[str, tuple[Pod, Node | None, Node | None, bool]] = {
    "a node with the key is added": (waiting(), None, node("a"), True),
    "a node without the key is added": (waiting(), None, node(), False),
    "a node with one of two keys is added": (BOTH, None, node("a"), False),
    "a node with both keys is added": (BOTH, None, node("a", "1"), True),
    "a node with the key goes": (waiting(), node("a"), None, True),
    "a node without the key goes": (waiting(), node(), None, False),
    "a node gets the last key": (BOTH, node("a"), node("a", "1"), True),
    "a node loses a key": (BOTH, node("a", "1"), node("a"), True),
    "a node moves to another domain": (BOTH, node("a", "1"), node("a", "2"), True),
    "a node that has only one of two keys moves": (BOTH, node("a"), node("b"), False),
    "a node gets another label": (waiting(), node("a"), node("a", disk="ssd"), False),
    "a node with the key gets a taint": (waiting(), node("a"), node("a", taints=["x:NoSchedule"]), True),
    "a node without the key gets a taint": (waiting(), node(), node(taints=["x:NoSchedule"]), False),
    "a key that only a soft constraint names": (
        waiting(over(ZONE), over(RACK, when="ScheduleAnyway")),
        None,
        node("a"),
        True,
    ),
}


@pytest.mark.parametrize("update", [Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT])
@pytest.mark.parametrize(("pod", "old", "new", "woken"), NODES.values(), ids=NODES.keys())
def test_nodes(pod: Pod, old: Node | None, new: Node | None, woken: bool, update: Action) -> None:
    event = ClusterEvent(NODE, action_of(old, new, update))
    assert wakes(PodTopologySpread(None, Handle()), pod, event, old, new) is woken


def test_a_node_event_leaves_it_open_when_constraints_do_not_compile() -> None:
    pod = waiting(over(ZONE, {"bad key!": "x"}))
    assert wakes(PodTopologySpread(None, Handle()), pod, ClusterEvent(NODE, Action.ADD), None, node())


def by_default(*constraints: dict[str, Any]) -> PodTopologySpread:
    written = [msgspec.convert(each, TopologySpreadConstraint) for each in constraints]
    return PodTopologySpread(PodTopologySpreadArgs(defaulting_type="List", default_constraints=written), Handle())


def a_service(selector: dict[str, str]) -> Service:
    return msgspec.convert({"metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": selector}}, Service)


DEFAULTS: dict[str, tuple[Cluster, Pod, bool]] = {
    "a service selects both": (a_cluster(a_service(WEB)), other(WEB), True),
    "a service selects the waiting pod only": (a_cluster(a_service(WEB)), other(DB), False),
    "nothing selects the waiting pod": (a_cluster(), other(WEB), False),
}


@pytest.mark.parametrize(("cluster", "added", "woken"), DEFAULTS.values(), ids=DEFAULTS.keys())
def test_constraints_that_the_profile_adds(cluster: Cluster, added: Pod, woken: bool) -> None:
    plugin, event = by_default(over(ZONE, None)), ClusterEvent(ASSIGNED_POD, Action.ADD)
    assert wakes(plugin, a_pod("waiting", labels=WEB), event, None, added, cluster) is woken


def test_derived_selectors_follow_the_cluster() -> None:
    plugin, event = by_default(over(ZONE, None)), ClusterEvent(ASSIGNED_POD, Action.ADD)
    pod, cluster = a_pod("waiting", labels=WEB), a_cluster()
    assert not wakes(plugin, pod, event, None, other(WEB), cluster)
    cluster.put(a_service(WEB))
    assert wakes(plugin, pod, event, None, other(WEB), cluster)


def test_a_derived_selector_that_does_not_compile_leaves_it_open() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
    broken = msgspec.convert(
        {"metadata": {"name": "rs", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"bad key!": "x"}}}},
        ReplicaSet,
    )
    pod = a_pod("waiting", labels=WEB, metadata={"ownerReferences": [owner]})
    plugin, event = by_default(over(ZONE, None)), ClusterEvent(ASSIGNED_POD, Action.ADD)
    assert wakes(plugin, pod, event, None, other(DB), a_cluster(broken))


def test_own_constraints_replace_those_of_the_profile() -> None:
    plugin, event = by_default(over(ZONE, None)), ClusterEvent(ASSIGNED_POD, Action.ADD)
    pod = waiting(over(ZONE, when="ScheduleAnyway"))
    assert not wakes(plugin, pod, event, None, other(WEB), a_cluster(a_service(WEB)))
