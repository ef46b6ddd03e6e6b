"""NodeResourcesBalancedAllocation: the worked examples."""

from typing import Any

import msgspec
import pytest

from alone import build, scores
from build import a_cluster, a_node, a_pod
from mooring.framework.config.args import NodeResourcesBalancedAllocationArgs
from mooring.framework.contract.status import SKIP
from mooring.model.pod import Pod
from mooring.plugins.resources.node_resources_balanced import NodeResourcesBalancedAllocation

GPU = "example.com/gpu"


def balanced(*resources: str) -> Any:
    args = {"resources": [{"name": name, "weight": 1} for name in resources]}
    return build(NodeResourcesBalancedAllocation, msgspec.convert(args, NodeResourcesBalancedAllocationArgs))


def holding(**requests: str) -> Pod:
    return a_pod("used", requests=requests)


EXAMPLES: dict[str, tuple[Pod, Pod, int]] = {
    "the pod makes it less even": (holding(cpu="1", memory="2Gi"), a_pod(cpu="1"), 68),
    "the pod leaves it as it is": (holding(cpu="1", memory="2Gi"), a_pod(cpu="1", memory="2Gi"), 75),
    "the pod makes it even": (holding(cpu="2"), a_pod(memory="4Gi"), 87),
    "more than there is counts as all": (holding(cpu="2", memory="6Gi"), a_pod(memory="9Gi"), 69),
}


@pytest.mark.parametrize(("used", "pod", "expected"), EXAMPLES.values(), ids=EXAMPLES.keys())
def test_two_resources(used: Pod, pod: Pod, expected: int) -> None:
    cluster = a_cluster(a_node("n"))
    cluster.nodes.place(used, "n")
    assert scores(build(NodeResourcesBalancedAllocation), pod, cluster) == {"n": expected}


def test_three_resources() -> None:
    """Shares .2, .4 and .6 balance at 83, an empty node at 100: 50 + 33 // 2."""
    cluster = a_cluster(a_node("n", cpu="10", memory="10Gi", allocatable={GPU: 10}))
    pod = a_pod(cpu="2", memory="4Gi", requests={GPU: 6})
    assert scores(balanced("cpu", "memory", GPU), pod, cluster) == {"n": 66}


def test_a_device_that_the_pod_does_not_ask_for_is_left_out() -> None:
    cluster = a_cluster(a_node("n", allocatable={GPU: 4}), a_node("m"))
    pod = a_pod(cpu="1", memory="2Gi")
    assert scores(balanced("cpu", "memory", GPU), pod, cluster) == {"n": 75, "m": 75}


def test_a_resource_that_a_node_has_not_is_left_out_there() -> None:
    """Cpu and device on one node (.25 and 1), cpu alone on the other."""
    cluster = a_cluster(a_node("n", allocatable={GPU: 1}), a_node("m"))
    assert scores(balanced("cpu", GPU), a_pod(cpu="1", requests={GPU: 1}), cluster) == {"n": 56, "m": 75}


SKIPPED: dict[str, tuple[Pod, bool]] = {
    "a pod that asks for nothing": (a_pod(), True),
    "a pod that asks for something else": (a_pod(requests={"ephemeral-storage": "1Gi"}), True),
    "a pod that asks for zero": (a_pod(cpu="0", memory="0"), True),
    "a pod that asks for one of two": (a_pod(cpu="1"), False),
}


@pytest.mark.parametrize(("pod", "skips"), SKIPPED.values(), ids=SKIPPED.keys())
def test_a_pod_without_requests_is_not_scored(pod: Pod, skips: bool) -> None:
    found = scores(build(NodeResourcesBalancedAllocation), pod, a_cluster(a_node("a"), a_node("b")))
    assert (found is SKIP) == skips


def test_what_pods_hold_counts_without_defaults() -> None:
    """An idle pod weighs nothing here, unlike in NodeResourcesFit."""
    cluster = a_cluster(a_node("n"), a_node("m"), a_pod("idle", nodeName="n"))
    found = scores(build(NodeResourcesBalancedAllocation), a_pod(cpu="1"), cluster)
    assert isinstance(found, dict)
    assert found["n"] == found["m"]
