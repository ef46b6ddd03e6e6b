"""NodeName: any new node may be the one that a pod names."""

from build import a_node, a_pod
from hinting import wakes
from mooring.framework.contract.events import NODE, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.plugins.nodes.node_name import NodeName


def test_every_new_node_wakes_a_pod_that_names_its_node() -> None:
    plugin = NodeName(None, Handle())
    assert wakes(plugin, a_pod(nodeName="n1"), ClusterEvent(NODE, Action.ADD), None, a_node("n2"))
