"""NodeDeclaredFeatures: a node that is new or declares other features, or a pod that needs others than before."""

import pytest

from build import a_node, a_pod
from hinting import action_of, wakes
from mooring.framework.contract.events import NODE, TARGET_POD, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.plugins.nodes.node_declared_features import NodeDeclaredFeatures

PLUGIN = NodeDeclaredFeatures(None, Handle())
USERS = "UserNamespacesHostNetworkSupport"
NEEDY = a_pod("waiting", hostNetwork=True, hostUsers=False)
MODEST = a_pod("waiting", hostNetwork=True)

NODES: dict[str, tuple[Node | None, Node, bool]] = {
    "a node without the feature is added": (None, a_node(), True),
    "a node begins to declare the feature": (a_node(), a_node(features=[USERS]), True),
    "a node declares a feature that nobody needs": (a_node(), a_node(features=["GuaranteedQoS"]), True),
    "a node no longer declares the feature": (a_node(features=[USERS]), a_node(), True),
    "a node declares what it did": (a_node(features=[USERS]), a_node(features=[USERS]), False),
    "an empty list is no list": (a_node(), a_node(features=[]), False),
}


@pytest.mark.parametrize(("old", "new", "woken"), NODES.values(), ids=NODES.keys())
def test_nodes(old: Node | None, new: Node, woken: bool) -> None:
    event = ClusterEvent(NODE, action_of(old, new, Action.UPDATE_NODE_DECLARED_FEATURE))
    assert wakes(PLUGIN, NEEDY, event, old, new) is woken


PODS: dict[str, tuple[Pod, Pod, bool]] = {
    "it needs the feature no more": (NEEDY, MODEST, True),
    "it needs a feature that it did not need": (MODEST, NEEDY, True),
    "it needs what it needed": (NEEDY, a_pod("waiting", hostNetwork=True, hostUsers=False, labels={"a": "b"}), False),
}


@pytest.mark.parametrize("action", [Action.UPDATE, Action.UPDATE_POD_LABEL])
@pytest.mark.parametrize(("old", "new", "woken"), PODS.values(), ids=PODS.keys())
def test_any_kind_of_pod_update(old: Pod, new: Pod, woken: bool, action: Action) -> None:
    assert wakes(PLUGIN, NEEDY, ClusterEvent(TARGET_POD, action), old, new) is woken
