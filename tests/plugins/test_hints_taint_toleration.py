"""TaintToleration: a node whose hard taints the pod tolerates now and did not before, or new tolerations of its own."""

import pytest

from build import a_node, a_pod
from hinting import action_of, wakes, wakes_for_pod
from mooring.framework.contract.events import NODE, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.node import COMPARISON_GATE, Node
from mooring.plugins.nodes.taints import TaintToleration

PLUGIN = TaintToleration(None, Handle())
POD = a_pod("waiting", tolerations=[{"key": "dedicated", "value": "db"}])
CLEAN = a_node()
TOLERATED = a_node(taints=["dedicated=db:NoSchedule"])
FOREIGN = a_node(taints=["dedicated=web:NoSchedule"])
EVICTING = a_node(taints=["dedicated=db:NoSchedule", "outage:NoExecute"])
SOFT = a_node(taints=["busy:PreferNoSchedule"])

NODES: dict[str, tuple[Node | None, Node, bool]] = {
    "a node without taints is added": (None, CLEAN, True),
    "a node with a tolerated taint is added": (None, TOLERATED, True),
    "a node with a soft taint is added": (None, SOFT, True),
    "a node with an untolerated taint is added": (None, FOREIGN, False),
    "a node with an untolerated NoExecute taint is added": (None, EVICTING, False),
    "an untolerated taint goes": (FOREIGN, CLEAN, True),
    "an untolerated taint becomes a tolerated one": (FOREIGN, TOLERATED, True),
    "an untolerated taint becomes a soft one": (FOREIGN, SOFT, True),
    "one untolerated taint becomes another": (FOREIGN, EVICTING, False),
    "a tolerated taint goes": (TOLERATED, CLEAN, False),
    "a soft taint goes": (SOFT, CLEAN, False),
    "an untolerated taint comes": (CLEAN, FOREIGN, False),
}


@pytest.mark.parametrize(("old", "new", "woken"), NODES.values(), ids=NODES.keys())
def test_nodes(old: Node | None, new: Node, woken: bool) -> None:
    event = ClusterEvent(NODE, action_of(old, new, Action.UPDATE_NODE_TAINT))
    assert wakes(PLUGIN, POD, event, old, new) is woken


@pytest.mark.parametrize(("name", "woken"), [("waiting", True), ("other", False)])
def test_only_tolerations_of_its_own_matter_whatever_they_are_for(name: str, woken: bool) -> None:
    new = a_pod(name, tolerations=[{"key": "unheard-of", "operator": "Exists"}])
    assert wakes_for_pod(PLUGIN, POD, a_pod(name), new, Action.UPDATE_POD_TOLERATION) is woken


@pytest.mark.parametrize("is_on", [True, False])
def test_a_number_that_becomes_tolerable_wakes_where_the_gate_is_on(is_on: bool) -> None:
    plugin = TaintToleration(None, Handle(feature_gates={COMPARISON_GATE: is_on}))
    pod = a_pod("waiting", tolerations=[{"key": "level", "operator": "Lt", "value": "5"}])
    high, low = a_node(taints=["level=7:NoSchedule"]), a_node(taints=["level=3:NoSchedule"])
    event = ClusterEvent(NODE, Action.UPDATE_NODE_TAINT)
    assert wakes(plugin, pod, event, high, low) is is_on
    assert not wakes(plugin, pod, event, low, high)
