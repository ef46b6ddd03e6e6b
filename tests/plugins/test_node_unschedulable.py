"""NodeUnschedulable: cordoned nodes and the pods that do not mind."""

from typing import Any

import pytest

from alone import build, verdicts
from build import a_cluster, a_node, a_pod
from mooring.framework.contract.status import final
from mooring.plugins.nodes.taints import NodeUnschedulable

KEY = "node.kubernetes.io/unschedulable"
CORDONED = final("node(s) were unschedulable").by("NodeUnschedulable")

TOLERATIONS: dict[str, tuple[list[dict[str, str]], bool]] = {
    "none": ([], False),
    "the key exists": ([{"key": KEY, "operator": "Exists"}], True),
    "the key exists, with the effect": ([{"key": KEY, "operator": "Exists", "effect": "NoSchedule"}], True),
    "the key exists, with another effect": ([{"key": KEY, "operator": "Exists", "effect": "NoExecute"}], False),
    "everything": ([{"operator": "Exists"}], True),
    "the key equals nothing": ([{"key": KEY}], True),
    "the key equals something": ([{"key": KEY, "value": "true"}], False),
    "another key": ([{"key": "other", "operator": "Exists"}], False),
    "the second of two": ([{"key": "other"}, {"key": KEY, "operator": "Exists"}], True),
}


@pytest.mark.parametrize(("tolerations", "passes"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_a_cordoned_node_takes_pods_that_tolerate_it(tolerations: Any, passes: bool) -> None:
    cluster = a_cluster(a_node("open"), a_node("cordoned", unschedulable=True))
    found = verdicts(build(NodeUnschedulable), a_pod(tolerations=tolerations), cluster)
    assert found == ({} if passes else {"cordoned": CORDONED})


def test_the_taint_alone_does_not_count_here() -> None:
    cluster = a_cluster(a_node("tainted", taints=[f"{KEY}:NoSchedule"]))
    assert verdicts(build(NodeUnschedulable), a_pod(), cluster) == {}
