"""NodeResourcesFit: what is short and whether that is final; and the three ways of scoring."""

from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alone import build, scores, verdicts
from build import a_cluster, a_node, a_pod
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.framework.config.args import NodeResourcesFitArgs
from mooring.framework.contract.status import Code, Rejection
from mooring.model.pod import Pod
from mooring.plugins.resources import node_resources_fit, pod_amounts
from mooring.plugins.resources.node_resources_fit import NodeResourcesFit

GPU = "example.com/gpu"
CURABLE, FINAL = Code.Unschedulable, Code.UnschedulableAndUnresolvable


def fit(**args: Any) -> Any:
    return build(NodeResourcesFit, msgspec.convert(args, NodeResourcesFitArgs))


def strategy(kind: str, shape: list[tuple[int, int]] | None = None, **weights: int) -> Any:
    """A plugin that scores so; weights by resource, `gpu` for the device."""
    written: dict[str, Any] = {"type": kind}
    if weights:
        names = {"gpu": GPU}
        written["resources"] = [{"name": names.get(name, name), "weight": weight} for name, weight in weights.items()]
    if shape is not None:
        points = [{"utilization": usage, "score": score} for usage, score in shape]
        written["requestedToCapacityRatio"] = {"shape": points}
    return fit(scoringStrategy=written)


def one_node(pod: Pod | None = None, **node: Any) -> Cluster:
    """A node of 4 cpu and 8Gi with one pod on it."""
    used = pod or a_pod("used", cpu="1", memory="2Gi")
    cluster = a_cluster(a_node("n", **node))
    cluster.nodes.place(used, "n")
    return cluster


def asked(plugin: Any, pod: Pod, cluster: Cluster) -> tuple[tuple[str, ...], Code] | None:
    found = verdicts(plugin, pod, cluster)
    assert all(rejection.plugin == "NodeResourcesFit" for rejection in found.values())
    return (found["n"].reasons, found["n"].code) if found else None


# ---- Filter


SHORT: dict[str, tuple[Pod, dict[str, Any], tuple[tuple[str, ...], Code] | None]] = {
    "it fits": (a_pod(cpu="3", memory="6Gi"), {}, None),
    "cpu is short": (a_pod(cpu="3001m"), {}, (("Insufficient cpu",), CURABLE)),
    "memory is short": (a_pod(memory="7Gi"), {}, (("Insufficient memory",), CURABLE)),
    "the whole node is too small": (a_pod(cpu="5"), {}, (("Insufficient cpu",), FINAL)),
    "one of two is hopeless": (
        a_pod(cpu="5", memory="7Gi"),
        {},
        (("Insufficient cpu", "Insufficient memory"), FINAL),
    ),
    "a pod that asks for nothing needs only a place": (a_pod(), {"cpu": "0", "memory": "0"}, None),
    "no place": (a_pod(), {"pods": 1}, (("Too many pods",), CURABLE)),
    "no place, and cpu is short": (a_pod(cpu="4"), {"pods": 1}, (("Too many pods", "Insufficient cpu"), CURABLE)),
    "a node that does not say how many pods takes none": (a_pod(), {"pods": 0}, (("Too many pods",), CURABLE)),
    "ephemeral storage": (
        a_pod(requests={"ephemeral-storage": "2Gi"}),
        {"allocatable": {"ephemeral-storage": "1Gi"}},
        (("Insufficient ephemeral-storage",), FINAL),
    ),
    "a device that the node has": (a_pod(requests={GPU: 2}), {"allocatable": {GPU: 2}}, None),
    "a device that the node has not": (a_pod(requests={GPU: 1}), {}, ((f"Insufficient {GPU}",), FINAL)),
    "none of a device that the node has not": (a_pod(requests={GPU: 0}), {}, None),
    "huge pages": (
        a_pod(requests={"hugepages-2Mi": "4Mi"}),
        {"allocatable": {"hugepages-2Mi": "2Mi"}},
        (("Insufficient hugepages-2Mi",), FINAL),
    ),
    "reasons come in order": (
        a_pod(cpu="9", memory="9Gi", requests={GPU: 1, "ephemeral-storage": "1Gi"}),
        {"pods": 1},
        (
            (
                "Too many pods",
                "Insufficient cpu",
                "Insufficient memory",
                "Insufficient ephemeral-storage",
                f"Insufficient {GPU}",
            ),
            FINAL,
        ),
    ),
    "a name that is no resource is ignored": (a_pod(requests={"foo": 5, "storage": 5}), {}, None),
}


@pytest.mark.parametrize(("pod", "node", "expected"), SHORT.values(), ids=SHORT.keys())
def test_what_is_short(pod: Pod, node: dict[str, Any], expected: tuple[tuple[str, ...], Code] | None) -> None:
    used = a_pod("used") if node.get("cpu") == "0" else None
    assert asked(fit(), pod, one_node(used, **node)) == expected


def test_each_node_has_its_own_verdict() -> None:
    cluster = a_cluster(a_node("small", cpu="1"), a_node("busy"), a_node("free"), a_node("full", pods=0))
    cluster.nodes.place(a_pod("used", cpu="3"), "busy")
    assert verdicts(fit(), a_pod(cpu="2"), cluster) == {
        "small": Rejection(("Insufficient cpu",), FINAL, "NodeResourcesFit"),
        "busy": Rejection(("Insufficient cpu",), CURABLE, "NodeResourcesFit"),
        "full": Rejection(("Too many pods",), CURABLE, "NodeResourcesFit"),
    }


IGNORED: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing": ({}, False),
    "the resource": ({"ignoredResources": [GPU]}, True),
    "another resource": ({"ignoredResources": ["example.com/fpga"]}, False),
    "its group": ({"ignoredResourceGroups": ["example.com"]}, True),
    "another group": ({"ignoredResourceGroups": ["example.org"]}, False),
}


@pytest.mark.parametrize(("args", "passes"), IGNORED.values(), ids=IGNORED.keys())
def test_devices_that_someone_else_checks(args: dict[str, Any], passes: bool) -> None:
    found = asked(fit(**args), a_pod(requests={GPU: 1}), one_node())
    assert found == (None if passes else ((f"Insufficient {GPU}",), FINAL))


def test_only_devices_can_be_ignored() -> None:
    plugin = fit(ignoredResources=["hugepages-2Mi", "cpu"])
    found = asked(plugin, a_pod(cpu="9", requests={"hugepages-2Mi": "2Mi"}), one_node())
    assert found == (("Insufficient cpu", "Insufficient hugepages-2Mi"), FINAL)


# ---- Score


POD = a_pod(cpu="500m", memory="1Gi")
RISING, FALLING = [(0, 0), (100, 10)], [(0, 10), (100, 0)]
SCORES: dict[str, tuple[Any, Pod, Cluster, int]] = {
    "least allocated": (strategy("LeastAllocated"), POD, one_node(), 62),
    "most allocated": (strategy("MostAllocated"), POD, one_node(), 37),
    "a pod that asks for nothing counts with defaults": (fit(), a_pod(), a_cluster(a_node("n")), 97),
    "weights": (
        strategy("MostAllocated", cpu=3, memory=1),
        a_pod(cpu="2", memory="1639Mi"),
        a_cluster(a_node("n")),
        (50 * 3 + 20) // 4,
    ),
    "more than there is: least": (fit(), a_pod(cpu="5", memory="9Gi"), a_cluster(a_node("n")), 0),
    "more than there is: most": (strategy("MostAllocated"), a_pod(cpu="5", memory="9Gi"), a_cluster(a_node("n")), 100),
    "a rising line": (strategy("RequestedToCapacityRatio", RISING), POD, one_node(), 37),
    "a falling line": (strategy("RequestedToCapacityRatio", FALLING), POD, one_node(), 63),
    "a falling line is cut off toward zero": (
        strategy("RequestedToCapacityRatio", [(0, 10), (70, 7)], cpu=1),
        a_pod(cpu="1320m"),
        a_cluster(a_node("n")),
        86,
    ),
    "level after the last point": (
        strategy("RequestedToCapacityRatio", [(0, 10), (70, 7)], cpu=1),
        a_pod(cpu="3600m"),
        a_cluster(a_node("n")),
        70,
    ),
    "what scores 0 on the line does not count": (
        strategy("RequestedToCapacityRatio", RISING),
        a_pod(cpu="0", memory="6554Mi"),
        a_cluster(a_node("n")),
        80,
    ),
    "a half is rounded up": (
        strategy("RequestedToCapacityRatio", RISING),
        a_pod(cpu="1920m", memory="4015Mi"),
        a_cluster(a_node("n")),
        49,
    ),
    "a device counts if the pod asks for it": (
        strategy("LeastAllocated", gpu=1),
        a_pod(requests={GPU: 1}),
        one_node(allocatable={GPU: 4}),
        75,
    ),
    "a device that the pod does not ask for is left out": (
        strategy("LeastAllocated", gpu=1, cpu=1),
        a_pod(cpu="1"),
        one_node(allocatable={GPU: 4}),
        50,
    ),
    "a resource that the node has not is left out": (
        strategy("MostAllocated", gpu=5, cpu=1),
        a_pod(cpu="1", requests={GPU: 1}),
        one_node(),
        50,
    ),
    "nothing that the strategy lists is there": (
        strategy("LeastAllocated", gpu=1),
        a_pod(requests={GPU: 1}),
        one_node(),
        0,
    ),
    "a name that is no resource is left out": (
        strategy("MostAllocated", foo=1, cpu=1),
        a_pod(cpu="1"),
        one_node(allocatable={"foo": 1}),
        50,
    ),
    "pod-level resources are not seen here": (
        strategy("MostAllocated", cpu=1),
        a_pod(resources={"requests": {"cpu": "2"}}),
        a_cluster(a_node("n", cpu="1")),
        10,
    ),
}


@pytest.mark.parametrize(("plugin", "pod", "cluster", "expected"), SCORES.values(), ids=SCORES.keys())
def test_scores(plugin: Any, pod: Pod, cluster: Cluster, expected: int) -> None:
    assert scores(plugin, pod, cluster) == {"n": expected}


def test_pods_on_nodes_count_with_defaults_too() -> None:
    """An idle pod that asks for nothing weighs 100m of 1000m: most allocated, with the new one, is 20."""
    cluster = a_cluster(a_node("n", cpu="1"), a_pod("idle", nodeName="n"))
    assert scores(strategy("MostAllocated", cpu=1), a_pod(), cluster) == {"n": 20}


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"requestedToCapacityRatio: Required value"):
        strategy("RequestedToCapacityRatio")


# ---- more resources than a code has bits


def many(count: int, amount: int = 1) -> dict[str, str]:
    return {f"example.com/r{i:03d}": str(amount) for i in range(count)}


def test_of_many_resources_none_is_overlooked() -> None:
    last = "example.com/r199"
    pod = a_pod(cpu="3", requests=many(200))
    whole = a_node("n", allocatable=many(200))
    assert asked(fit(), pod, one_node(allocatable=many(200))) is None
    assert asked(fit(), pod, one_node(allocatable={**many(200), last: "0"})) == ((f"Insufficient {last}",), FINAL)
    cluster = a_cluster(whole)
    cluster.nodes.place(a_pod("used", requests={last: "1"}), "n")
    assert asked(fit(), pod, cluster) == ((f"Insufficient {last}",), CURABLE)
    full = a_cluster(a_node("n", pods=0, allocatable=many(200)))
    assert asked(fit(), pod, full) == (("Too many pods",), CURABLE)


def test_resources_that_no_node_has_are_all_named_and_take_no_room() -> None:
    cluster = one_node()
    found = asked(fit(), a_pod(requests=many(5000)), cluster)
    assert found == (tuple(f"Insufficient {name}" for name in sorted(many(5000))), FINAL)
    assert len(cluster.nodes.amounts.requested) == 4
    cluster.nodes.place(a_pod("placed", requests=many(5000)), "n")
    cluster.nodes.displace("default/placed")
    assert len(cluster.nodes.amounts.requested) == 4
    assert check_table(cluster.nodes) == []


@given(
    st.dictionaries(st.sampled_from(sorted(many(6))), st.integers(1, 3), min_size=1),
    st.lists(st.dictionaries(st.sampled_from(sorted(many(6))), st.integers(0, 3)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(sorted(many(6)))), max_size=4),
)
def test_many_resources_are_judged_as_few_are(wanted: Any, nodes: Any, used: Any) -> None:
    cluster = a_cluster(*(a_node(f"n{i}", pods=1, allocatable=there) for i, there in enumerate(nodes)))
    for i, (node, name) in enumerate(used):
        cluster.nodes.place(a_pod(f"used-{i}", requests={name: 1}), f"n{node % len(nodes)}")
    pod = a_pod("new", cpu="5", requests=wanted)
    few = verdicts(fit(), pod, cluster)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_resources_fit, "MOST_BITS", 0)
        patch.setattr(pod_amounts, "BLOCK_CELLS", 8)
        assert verdicts(fit(), pod, cluster) == few


AMOUNTS = st.tuples(st.sampled_from((0, 1000, 2000, 4000)), st.sampled_from((0, 1 << 30, 4 << 30)))


@given(st.lists(st.tuples(AMOUNTS, st.integers(1, 2)), min_size=1, max_size=4), AMOUNTS, st.lists(AMOUNTS, max_size=4))
def test_floats_say_what_integers_say(nodes: Any, wanted: Any, used: Any) -> None:
    """Whether a pod fits everywhere, and what each node is short of."""

    def asking(cpu: int, memory: int) -> dict[str, Any]:
        return {"cpu": f"{cpu}m", "memory": str(memory)}

    cluster = a_cluster(*(a_node(f"n{i}", **asking(*have), pods=pods) for i, (have, pods) in enumerate(nodes)))
    for i, taken in enumerate(used[: len(nodes)]):
        cluster.nodes.place(a_pod(f"p{i}", **asking(*taken)), f"n{i}")
    found = verdicts(fit(), a_pod(**asking(*wanted)), cluster)
    with mock.patch.multiple(node_resources_fit, _all_fit=lambda *_: False, _lacking=lambda *_: None):
        assert verdicts(fit(), a_pod(**asking(*wanted)), cluster) == found


def test_sums_that_a_what_if_supposes_count() -> None:
    """They are written into the table itself, and columns that follow it do not see them."""
    cluster, pod = one_node(cpu="4"), a_pod(cpu="2")
    assert verdicts(fit(), pod, cluster) == {}
    cluster.nodes.amounts.requested[0, 0], cluster.nodes.are_sums_supposed = 3000, True
    assert [rejection.code for rejection in verdicts(fit(), pod, cluster).values()] == [CURABLE]
