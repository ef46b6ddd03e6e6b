"""NodeUnschedulable: an open node, or a toleration for cordoned ones, wakes a pod."""

from typing import Any

import pytest

from build import a_node, a_pod
from hinting import action_of, wakes, wakes_for_pod
from mooring.framework.contract.events import NODE, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.node import Node
from mooring.plugins.nodes.taints import NodeUnschedulable

PLUGIN = NodeUnschedulable(None, Handle())
OPEN, CORDONED = a_node(), a_node(unschedulable=True)
TAINTED = a_node(taints=["dedicated=db:NoSchedule"])
KEY = "node.kubernetes.io/unschedulable"

NODES: dict[str, tuple[Node | None, Node, bool]] = {
    "an open node is added": (None, OPEN, True),
    "a cordoned node is added": (None, CORDONED, False),
    "a node is uncordoned": (CORDONED, OPEN, True),
    "a node is uncordoned and tainted, which is for another plugin to mind": (CORDONED, TAINTED, True),
    "a node stays open while its taints change": (OPEN, TAINTED, False),
    "a node stays cordoned while its taints change": (
        CORDONED,
        a_node(unschedulable=True, taints=[f"{KEY}:NoSchedule"]),
        False,
    ),
    "a node is cordoned": (OPEN, CORDONED, False),
}


@pytest.mark.parametrize(("old", "new", "woken"), NODES.values(), ids=NODES.keys())
def test_nodes(old: Node | None, new: Node, woken: bool) -> None:
    event = ClusterEvent(NODE, action_of(old, new, Action.UPDATE_NODE_TAINT))
    assert wakes(PLUGIN, a_pod(), event, old, new) is woken


TOLERATIONS: dict[str, tuple[str, list[dict[str, Any]], bool]] = {
    "its own toleration covers cordoned nodes": ("waiting", [{"key": KEY, "operator": "Exists"}], True),
    "its own toleration covers everything": ("waiting", [{"operator": "Exists"}], True),
    "its own toleration is for NoExecute": ("waiting", [{"key": KEY, "effect": "NoExecute"}], False),
    "its own toleration is for another taint": ("waiting", [{"key": "dedicated", "operator": "Exists"}], False),
    "another pod tolerates cordoned nodes": ("other", [{"key": KEY, "operator": "Exists"}], False),
}


@pytest.mark.parametrize(("name", "tolerations", "woken"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_tolerations(name: str, tolerations: list[dict[str, Any]], woken: bool) -> None:
    old, new = a_pod(name), a_pod(name, tolerations=tolerations)
    assert wakes_for_pod(PLUGIN, a_pod("waiting"), old, new, Action.UPDATE_POD_TOLERATION) is woken
