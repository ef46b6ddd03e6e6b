"""InterPodAffinity: a neighbour that is wanted comes, one that is not leaves, or the topology changes under them."""

from typing import Any

import pytest

from build import a_cluster, a_node, a_pod
from hinting import action_of, wakes, wakes_for_pod
from mooring.framework.contract.events import ASSIGNED_POD, NODE, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace
from mooring.plugins.affinity.inter_pod_affinity import InterPodAffinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
PLUGIN = InterPodAffinity(None, Handle())
WEB, DB, FRONT = {"app": "web"}, {"app": "db"}, {"tier": "front"}
ZONE, RACK = "zone", "rack"


def term(labels: dict[str, str], key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: list(terms)}}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def waiting(affinity: dict[str, Any] | None = None, **more: Any) -> Pod:
    return a_pod("waiting", affinity=affinity, **more)


def other(labels: dict[str, str], node: str = "n1", **more: Any) -> Pod:
    return a_pod("other", labels=labels, nodeName=node, **more)


NEAR_WEB, AWAY_FROM_WEB = waiting(near(term(WEB))), waiting(away(term(WEB)))
NEAR_BOTH, AWAY_FROM_BOTH = waiting(near(term(WEB), term(FRONT))), waiting(away(term(WEB), term(FRONT)))
BROKEN = term({"bad key!": "x"})
NO_TEAM_B = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]}

ADDED: dict[str, tuple[Pod, Pod, bool]] = {
    "the wanted neighbour comes": (NEAR_WEB, other(WEB), True),
    "another pod comes": (NEAR_WEB, other(DB), False),
    "the wanted neighbour comes in another namespace": (NEAR_WEB, other(WEB, namespace="far"), False),
    "a neighbour comes that is wanted from any namespace": (
        waiting(near(term(WEB, namespaceSelector={}))),
        other(WEB, namespace="far"),
        True,
    ),
    "the wanted neighbour is nominated": (NEAR_WEB, other(WEB, node="", status={"nominatedNodeName": "n1"}), True),
    "the wanted neighbour has no node": (NEAR_WEB, other(WEB, node=""), False),
    "a neighbour comes that meets one of two terms": (NEAR_BOTH, other(WEB), False),
    "a neighbour comes that meets both terms": (NEAR_BOTH, other({**WEB, **FRONT}), True),
    "an unwanted neighbour comes": (AWAY_FROM_WEB, other(WEB), False),
    "any pod comes for one without terms": (waiting(), other(WEB), False),
    "a preferred neighbour comes": (
        waiting({"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term(WEB)}]}}),
        other(WEB),
        False,
    ),
    "terms that do not compile leave it open": (waiting(near(BROKEN)), other(DB), True),
    "preferred terms that do not compile do not matter": (
        waiting({**near(term(WEB)), "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": BROKEN}]}}),
        other(DB),
        False,
    ),
}


@pytest.mark.parametrize(("pod", "added", "woken"), ADDED.values(), ids=ADDED.keys())
def test_a_pod_comes(pod: Pod, added: Pod, woken: bool) -> None:
    assert wakes(PLUGIN, pod, ClusterEvent(ASSIGNED_POD, Action.ADD), None, added) is woken


def test_namespace_selectors_are_tried_against_no_labels() -> None:
    """Parity: one that asks for a label finds nobody, and one that only excludes finds everybody."""
    cluster = a_cluster(*(Namespace(metadata=a_pod(name, labels={"team": name}).metadata) for name in ("a", "b")))
    event = ClusterEvent(ASSIGNED_POD, Action.ADD)
    asking = waiting(near(term(WEB, namespaceSelector={"matchLabels": {"team": "a"}})))
    assert not wakes(PLUGIN, asking, event, None, other(WEB, namespace="a"), cluster)
    excluding = waiting(near(term(WEB, namespaceSelector=NO_TEAM_B)))
    assert wakes(PLUGIN, excluding, event, None, other(WEB, namespace="b"), cluster)


LEAVING: dict[str, tuple[Pod, Pod, bool]] = {
    "an unwanted neighbour leaves": (AWAY_FROM_WEB, other(WEB), True),
    "another pod leaves": (AWAY_FROM_WEB, other(DB), False),
    "a pod leaves that meets one of two terms": (AWAY_FROM_BOTH, other(WEB), True),
    "a pod leaves that meets both terms": (AWAY_FROM_BOTH, other({**WEB, **FRONT}), True),
    "an unwanted neighbour leaves that had no node": (AWAY_FROM_WEB, other(WEB, node=""), False),
    "a nominated unwanted neighbour leaves": (
        AWAY_FROM_WEB,
        other(WEB, node="", status={"nominatedNodeName": "n1"}),
        True,
    ),
    "the wanted neighbour leaves": (NEAR_WEB, other(WEB), False),
    "a pod leaves that kept the waiting one away": (
        waiting(labels=DB),
        other(WEB, affinity=away(term(DB))),
        True,
    ),
    "a pod leaves that kept others away": (waiting(labels=DB), other(WEB, affinity=away(term(FRONT))), False),
    "a pod leaves of whose two terms one speaks of the waiting one": (
        waiting(labels=DB),
        other(WEB, affinity=away(term(DB), term(FRONT))),
        True,
    ),
    "a pod leaves that kept pods of its own namespace away": (
        waiting(labels=DB),
        other(WEB, namespace="far", affinity=away(term(DB))),
        False,
    ),
    "a pod leaves that wanted the waiting one near": (waiting(labels=DB), other(WEB, affinity=near(term(DB))), False),
    "a pod leaves whose terms do not compile": (waiting(labels=DB), other(WEB, affinity=away(BROKEN)), True),
}


@pytest.mark.parametrize(("pod", "left", "woken"), LEAVING.values(), ids=LEAVING.keys())
def test_a_pod_leaves(pod: Pod, left: Pod, woken: bool) -> None:
    """v1.37, 4.7: any anti-affinity term counts."""
    assert wakes(PLUGIN, pod, ClusterEvent(ASSIGNED_POD, Action.DELETE), left, None) is woken


UPDATED: dict[str, tuple[Pod, Pod, Pod, bool]] = {
    "its own labels change": (waiting(), waiting(labels=WEB), waiting(labels=DB), True),
    "a pod becomes the wanted neighbour": (NEAR_WEB, other(DB), other(WEB), True),
    "a pod is the wanted neighbour as before": (NEAR_WEB, other(WEB), other({**WEB, **FRONT}), False),
    "a pod ceases to be the wanted neighbour": (NEAR_WEB, other(WEB), other(DB), False),
    "a pod comes to meet the last of two terms": (NEAR_BOTH, other(WEB), other({**WEB, **FRONT}), True),
    "a pod ceases to be unwanted": (AWAY_FROM_WEB, other(WEB), other(DB), True),
    "a pod is as unwanted as before": (AWAY_FROM_WEB, other(WEB), other({**WEB, **FRONT}), False),
    "a pod becomes unwanted": (AWAY_FROM_WEB, other(DB), other(WEB), False),
    "a pod that met both terms meets one": (AWAY_FROM_BOTH, other({**WEB, **FRONT}), other(WEB), False),
    "a pod that met one of two terms meets none": (AWAY_FROM_BOTH, other(WEB), other(DB), True),
    "a pod without a node becomes the wanted neighbour": (NEAR_WEB, other(DB, node=""), other(WEB, node=""), False),
    "a pod had no node before": (NEAR_WEB, other(DB, node=""), other(WEB), False),
}


@pytest.mark.parametrize(("pod", "old", "new", "woken"), UPDATED.values(), ids=UPDATED.keys())
def test_labels_of_a_pod_change(pod: Pod, old: Pod, new: Pod, woken: bool) -> None:
    """v1.37, 4.7: any anti-affinity term counts."""
    assert wakes_for_pod(PLUGIN, pod, old, new, Action.UPDATE_POD_LABEL) is woken


def node(**labels: str) -> Node:
    return a_node(labels=labels)


NODES: dict[str, tuple[Pod, Node | None, Node, bool]] = {
    "a node with the key of an affinity term is added": (NEAR_WEB, None, node(zone="a"), True),
    "a node without the key of an affinity term is added": (NEAR_WEB, None, node(rack="1"), False),
    "a node with the key of one of two affinity terms is added": (
        waiting(near(term(WEB), term(DB, RACK))),
        None,
        node(rack="1"),
        True,
    ),
    "a node gets the key of an affinity term": (NEAR_WEB, node(), node(zone="a"), True),
    "a node gets another value of an affinity term's key": (NEAR_WEB, node(zone="a"), node(zone="b"), True),
    "a node loses the key of an affinity term": (NEAR_WEB, node(zone="a"), node(), False),
    "a node keeps its value and gets another label": (NEAR_WEB, node(zone="a"), node(zone="a", rack="1"), False),
    "any new node may do for anti-affinity": (AWAY_FROM_WEB, None, node(), True),
    "a node loses the key of an anti-affinity term": (AWAY_FROM_WEB, node(zone="a"), node(), True),
    "a node gets another value of an anti-affinity term's key": (AWAY_FROM_WEB, node(zone="a"), node(zone="b"), True),
    "a node gets the key of an anti-affinity term": (AWAY_FROM_WEB, node(), node(zone="a"), False),
    "a node with an anti-affinity term's key gets another label": (
        AWAY_FROM_WEB,
        node(zone="a"),
        node(zone="a", rack="1"),
        False,
    ),
    "no node helps a pod that only others keep away": (waiting(labels=WEB), None, node(zone="a"), False),
    "a node is relabelled for a pod that only others keep away": (
        waiting(labels=WEB),
        node(zone="a"),
        node(zone="b"),
        False,
    ),
    "terms that do not compile leave it open": (waiting(away(BROKEN)), node(), node(rack="1"), True),
}


@pytest.mark.parametrize(("pod", "old", "new", "woken"), NODES.values(), ids=NODES.keys())
def test_nodes(pod: Pod, old: Node | None, new: Node, woken: bool) -> None:
    event = ClusterEvent(NODE, action_of(old, new, Action.UPDATE_NODE_LABEL))
    assert wakes(PLUGIN, pod, event, old, new) is woken
