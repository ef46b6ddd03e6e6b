"""NodeAffinity: a node that the pod wants now and did not before."""

from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from hinting import action_of, wakes
from mooring.framework.config.args import NodeAffinityArgs
from mooring.framework.contract.events import NODE, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeAffinitySpec as WrittenAffinity
from mooring.plugins.nodes.node_affinity import NodeAffinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def wanting(*terms: dict[str, Any], **spec: Any) -> Pod:
    return a_pod("waiting", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}, **spec)


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


SSD, HDD, BARE = a_node(labels={"disk": "ssd"}), a_node(labels={"disk": "hdd"}), a_node()
SSD_EAST = a_node(labels={"disk": "ssd", "region": "east"})
SELECTS_SSD = a_pod("waiting", nodeSelector={"disk": "ssd"})
WANTS_SSD = wanting(term("disk", "In", "ssd"))
BROKEN = term("disk", "Gt", "not-a-number")

NODES: dict[str, tuple[Pod, Node | None, Node, bool]] = {
    "a node with the selected label is added": (SELECTS_SSD, None, SSD, True),
    "a node with another label is added": (SELECTS_SSD, None, HDD, False),
    "a node in a wanted term is added": (WANTS_SSD, None, SSD, True),
    "a node in no wanted term is added": (WANTS_SSD, None, HDD, False),
    "a node of the wanted name is added": (
        wanting({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}),
        None,
        BARE,
        True,
    ),
    "a node comes to match the selector": (SELECTS_SSD, BARE, SSD, True),
    "a node comes to match a term": (WANTS_SSD, HDD, SSD, True),
    "a node that matched gets another label": (WANTS_SSD, SSD, SSD_EAST, False),
    "a node ceases to match": (WANTS_SSD, SSD, HDD, False),
    "a node matches as little as before": (WANTS_SSD, HDD, BARE, False),
    "selector and affinity are both needed": (
        wanting(term("disk", "In", "ssd"), nodeSelector={"region": "east"}),
        None,
        SSD,
        False,
    ),
    "selector and affinity are both met now": (
        wanting(term("disk", "In", "ssd"), nodeSelector={"region": "east"}),
        SSD,
        SSD_EAST,
        True,
    ),
    "a required block without terms wants no node": (wanting(), None, SSD, False),
    "a term that does not compile leaves it open": (wanting(BROKEN), None, SSD, True),
    "a term that does not compile leaves it open on updates too": (wanting(BROKEN), BARE, SSD, True),
    "a broken term beside one that matched before changes nothing": (
        wanting(BROKEN, term("disk", "In", "ssd")),
        SSD,
        SSD_EAST,
        False,
    ),
    "a selector that fails makes a broken term irrelevant": (
        wanting(BROKEN, nodeSelector={"region": "east"}),
        None,
        SSD,
        False,
    ),
    "a pod that wants nothing takes any new node": (a_pod("waiting"), None, BARE, True),
}


def wakes_for(plugin: NodeAffinity, pod: Pod, old: Node | None, new: Node) -> bool:
    return wakes(plugin, pod, ClusterEvent(NODE, action_of(old, new, Action.UPDATE_NODE_LABEL)), old, new)


@pytest.mark.parametrize(("pod", "old", "new", "woken"), NODES.values(), ids=NODES.keys())
def test_nodes(pod: Pod, old: Node | None, new: Node, woken: bool) -> None:
    assert wakes_for(NodeAffinity(None, Handle()), pod, old, new) is woken


ENFORCED: dict[str, tuple[Pod, Node | None, Node, bool]] = {
    "a node that the profile refuses is added": (SELECTS_SSD, None, SSD, False),
    "a node that pod and profile want is added": (SELECTS_SSD, None, SSD_EAST, True),
    "pod and profile both want the node only now": (SELECTS_SSD, BARE, SSD_EAST, True),
    "the profile admits only now what the pod wanted all along": (SELECTS_SSD, SSD, SSD_EAST, False),
}


@pytest.mark.parametrize(("pod", "old", "new", "woken"), ENFORCED.values(), ids=ENFORCED.keys())
def test_affinity_that_the_profile_adds(pod: Pod, old: Node | None, new: Node, woken: bool) -> None:
    added = {REQUIRED: {"nodeSelectorTerms": [term("region", "In", "east")]}}
    args = NodeAffinityArgs(added_affinity=msgspec.convert(added, WrittenAffinity))
    assert wakes_for(NodeAffinity(args, Handle()), pod, old, new) is woken
