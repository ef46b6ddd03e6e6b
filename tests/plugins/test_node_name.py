"""NodeName: a pod that names its node."""

import pytest

from alone import build, verdicts
from build import a_cluster, a_node, a_pod
from mooring.framework.contract.status import final
from mooring.plugins.nodes.node_name import NodeName

OTHER = final("node(s) didn't match the requested node name").by("NodeName")
WANTED: dict[str, tuple[str, list[str]]] = {
    "no name": ("", []),
    "a node that is there": ("b", ["a", "c"]),
    "a node that is not there": ("z", ["a", "b", "c"]),
}


@pytest.mark.parametrize(("name", "rejected"), WANTED.values(), ids=WANTED.keys())
def test_only_the_named_node_will_do(name: str, rejected: list[str]) -> None:
    cluster = a_cluster(*(a_node(node) for node in "abc"))
    assert verdicts(build(NodeName), a_pod(nodeName=name), cluster) == dict.fromkeys(rejected, OTHER)


def test_pods_without_a_name_are_of_no_concern() -> None:
    assert NodeName.concerns(a_pod(nodeName="a"))
    assert not NodeName.concerns(a_pod())
