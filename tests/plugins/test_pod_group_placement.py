"""TopologyPlacementGenerator, PodGroupPodsCount, and NodeResourcesFit at PlacementScore, each alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from gangs import a_member
from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.config.args import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.contract.group_points import PodGroupAssignments, PodGroupContext, PodGroupPlacement
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import PluginError
from mooring.model.names import is_scalar_resource
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.plugins.group_plugins import PodGroupPodsCount, TopologyPlacementGenerator
from mooring.plugins.resources.node_resources_fit import NodeResourcesFit
from racks import RACK_GATES, a_rack_group

HANDLE = Handle()


def a_group_context(nodes: Sequence[Node], scheduled: Mapping[str, str], key: str | None = "rack") -> PodGroupContext:
    """`scheduled` are members with their nodes; one more member waits."""
    cluster = Cluster(with_defaults(RACK_GATES))
    for node in nodes:
        cluster.put(node)
    cluster.put(a_rack_group(key=key))
    waiting = a_member("waiting")
    assert cluster.groups is not None
    cluster.groups.add(waiting)
    for name, node_name in scheduled.items():
        cluster.groups.add(a_member(name, nodeName=node_name))
    return PodGroupContext(GroupName(waiting.group_key or ""), [waiting], cluster)


def rack_nodes(*racks: str | None) -> list[Node]:
    return [a_node(f"n{i}", labels={"rack": rack} if rack is not None else {}) for i, rack in enumerate(racks)]


def generate(group: PodGroupContext, rows: Sequence[int] | None = None) -> dict[str, list[int]]:
    parent = PodGroupPlacement("all", np.array(range(group.nodes.height) if rows is None else rows, np.intp))
    found = TopologyPlacementGenerator(None, HANDLE).generate_placements(group, parent)
    return {each.name: each.rows.tolist() for each in found}


def test_without_a_constraint_the_parent_is_the_only_placement() -> None:
    assert generate(a_group_context(rack_nodes("a", "b"), {}, key=None), [1]) == {"all": [1]}


def test_each_value_of_the_label_is_a_placement_in_the_order_of_the_values() -> None:
    found = generate(a_group_context(rack_nodes("b", None, "a", "b", "c"), {}))
    assert list(found.items()) == [("a", [2]), ("b", [0, 3]), ("c", [4])]


def test_only_rows_of_the_parent_count() -> None:
    assert generate(a_group_context(rack_nodes("b", "a", "a", "b"), {}), [0, 2]) == {"a": [2], "b": [0]}


def test_a_label_that_no_node_has_gives_no_placement() -> None:
    assert generate(a_group_context(rack_nodes("b", "a"), {}, key="row")) == {}


def test_members_with_a_node_leave_their_domain_only() -> None:
    group = a_group_context(rack_nodes("b", "a", "a"), {"x": "n1", "y": "n2"})
    assert generate(group) == {"a": [1, 2]}
    assert generate(group, [0]) == {}


ERRORS: dict[str, tuple[dict[str, str], str]] = {
    "two domains": ({"x": "n0", "y": "n1"}, "more than 1 domain found for pod group: b, a"),
    "a node without the label": ({"x": "n2"}, "no topology domain found for pod default/x"),
    "a node that is gone": ({"x": "n9"}, 'getting node for pod default/x: nodeinfo not found for node name "n9"'),
}


@pytest.mark.parametrize(("scheduled", "text"), ERRORS.values(), ids=ERRORS.keys())
def test_members_without_one_domain_are_an_error(scheduled: dict[str, str], text: str) -> None:
    with pytest.raises(PluginError) as fault:
        generate(a_group_context(rack_nodes("b", "a", None), scheduled))
    assert str(fault.value) == f"cannot determine domain for already scheduled pods: {text}"


def test_a_group_that_does_not_exist_is_an_error() -> None:
    group = a_group_context(rack_nodes("a"), {})
    group.cluster.remove(PodGroup, group.key)
    with pytest.raises(PluginError, match=r"^pod group object not found for pod group default/gang$"):
        generate(PodGroupContext(group.name, group.pods, group.cluster))


def test_kept_domains_follow_changes_of_nodes() -> None:
    group = a_group_context(rack_nodes("a", "b"), {})
    plugin = TopologyPlacementGenerator(None, HANDLE)

    def names() -> dict[str, list[int]]:
        rows = group.nodes.alive[: group.nodes.height].nonzero()[0]
        found = plugin.generate_placements(group, PodGroupPlacement("", rows))
        return {each.name: each.rows.tolist() for each in found}

    assert names() == {"a": [0], "b": [1]}
    assert plugin.generate_placements(group, PodGroupPlacement("", np.array([1], np.intp)))[0].name == "b"
    group.cluster.put(a_node("n1", labels={"rack": "a"}))
    assert names() == {"a": [0, 1]}
    group.cluster.put(a_node("n2", labels={"rack": "c"}))
    assert names() == {"a": [0, 1], "c": [2]}
    group.nodes.remove_node("n0")
    assert names() == {"a": [1], "c": [2]}


# ---- how many members have a node


def candidates(*sizes: int) -> list[PodGroupAssignments]:
    rows = PodGroupPlacement("", np.zeros(0, np.intp))
    return [PodGroupAssignments(rows, (a_member("x"),) * size) for size in sizes]


@pytest.mark.parametrize(
    ("scheduled", "sizes", "scores"),
    [
        pytest.param(0, (4, 2, 3), [100, 50, 75], id="in percent of the most"),
        pytest.param(2, (4, 2), [100, 66], id="members that had a node before count everywhere"),
        pytest.param(3, (0, 0), [100, 100], id="equal"),
    ],
)
def test_the_placement_with_most_members_has_100(scheduled: int, sizes: tuple[int, ...], scores: list[int]) -> None:
    group = a_group_context(rack_nodes("a"), {f"m{i}": "n0" for i in range(scheduled)})
    plugin = PodGroupPodsCount(None, HANDLE)
    raw = plugin.score_placements(group, candidates(*sizes))
    assert raw.tolist() == [scheduled + size for size in sizes]
    assert plugin.normalize_placements(group, raw).tolist() == scores


def test_no_members_at_all_are_an_error() -> None:
    group = a_group_context(rack_nodes("a"), {})
    with pytest.raises(PluginError, match=r"^no pods from pod group are assigned to any of the candidate placements$"):
        PodGroupPodsCount(None, HANDLE).normalize_placements(group, np.zeros(2, np.int64))


# ---- how full placements are


def a_fit(weights: Mapping[str, int], strategy: str = "LeastAllocated") -> NodeResourcesFit:
    resources = [ResourceSpec(name=name, weight=weight) for name, weight in weights.items()]
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type=strategy, resources=resources))
    return NodeResourcesFit(args, HANDLE)


def a_cluster_of(*items: Node | Pod) -> Cluster:
    cluster = Cluster()
    for item in items:
        cluster.put(item)
    return cluster


def a_filled_node(name: str, **amounts: Any) -> Node:
    return a_node(name, cpu="5", memory="5000", **amounts)


CPU_AND_MEMORY = {"cpu": 1, "memory": 1}
WITH_GPUS = {**CPU_AND_MEMORY, "example.com/gpu": 1}
GPUS = {"example.com/gpu": "5"}
SMALL: dict[str, Any] = {"cpu": "1", "memory": "0"}
LARGE: dict[str, Any] = {"cpu": "2", "memory": "2000"}
USE: dict[str, tuple[dict[str, int], list[Node], list[Pod], list[dict[str, Any]], int]] = {
    "the mean over resources": (CPU_AND_MEMORY, [], [], [SMALL, LARGE], 25),
    "with weights": ({"cpu": 4, "memory": 1}, [], [], [SMALL, LARGE], 28),
    "nodes outside count for nothing": (CPU_AND_MEMORY, [a_filled_node("n3")], [], [SMALL, LARGE], 25),
    "pods that run count": (CPU_AND_MEMORY, [], [a_pod("old", nodeName="n1", **SMALL)], [SMALL, LARGE], 30),
    "pods outside do not": (
        CPU_AND_MEMORY,
        [a_filled_node("n3")],
        [a_pod("old", nodeName="n3", **SMALL)],
        [SMALL, LARGE],
        25,
    ),
    "a scalar resource counts if a member requests it": (
        WITH_GPUS,
        [],
        [a_pod("old", nodeName="n1", **SMALL)],
        [SMALL, {"cpu": "1", "memory": "2000", "requests": {"example.com/gpu": "1"}}],
        20,
    ),
    "... and only then": (
        WITH_GPUS,
        [],
        [a_pod("old", nodeName="n1", requests={"example.com/gpu": "1"}, **SMALL)],
        [SMALL, {"cpu": "1", "memory": "2000"}],
        25,
    ),
    "a resource that no node has does not count": ({"cpu": 1, "example.com/fpga": 9}, [], [], [SMALL, LARGE], 30),
}


@pytest.mark.parametrize(("weights", "nodes", "old", "members", "score"), USE.values(), ids=USE.keys())
@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
def test_the_share_in_use_is_the_score(
    weights: dict[str, int],
    nodes: list[Node],
    old: list[Pod],
    members: list[dict[str, Any]],
    score: int,
    strategy: str,
) -> None:
    cluster = a_cluster_of(*(a_filled_node(name, allocatable=GPUS) for name in ("n1", "n2")), *nodes, *old)
    pods = tuple(a_pod(f"m{i}", **amounts) for i, amounts in enumerate(members))
    placement = PodGroupPlacement("", np.array([0, 1], np.intp))
    group = PodGroupContext(GroupName(pods[0].group_key or ""), pods, cluster)
    scores = a_fit(weights, strategy).score_placements(group, [PodGroupAssignments(placement, pods)])
    assert scores.tolist() == [score]


def test_amounts_that_do_not_fit_64_bits_are_scored_too() -> None:
    cluster = a_cluster_of(*(a_node(f"n{i}", cpu="1", memory=str(1 << 53)) for i in range(2048)))
    pods = tuple(a_pod(f"m{i}", cpu="1", memory=str(1 << 53)) for i in range(1024))
    placement = PodGroupPlacement("", np.arange(2048, dtype=np.intp))
    group = PodGroupContext(GroupName(pods[0].group_key or ""), pods[:1], cluster)
    fit = a_fit(CPU_AND_MEMORY)
    assert fit.score_placements(group, [PodGroupAssignments(placement, pods)]).tolist() == [50]


node_amounts = st.fixed_dictionaries(
    {"cpu": st.integers(0, 4).map(str), "memory": st.integers(0, 4).map(lambda n: f"{n}Gi")}
)
pod_amounts = st.fixed_dictionaries(
    {"cpu": st.sampled_from([None, "1", "2"]), "memory": st.sampled_from([None, "1Gi"])}
)


@given(
    st.lists(node_amounts, min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), pod_amounts), max_size=5),
    st.lists(pod_amounts, min_size=1, max_size=4),
    st.lists(st.tuples(st.sets(st.integers(0, 4), min_size=1), st.integers(1, 4)), min_size=1, max_size=3),
)
def test_all_placements_at_once_are_scored_as_one_by_one(
    nodes: list[Any], running: list[Any], members: list[Any], parts: list[tuple[set[int], int]]
) -> None:
    """The loop over nodes and pods is the plain form of the columns."""
    weights = {"cpu": 3, "memory": 1}
    listed = [a_node(f"n{i}", **amounts) for i, amounts in enumerate(nodes)]
    old = [a_pod(f"o{i}", nodeName=f"n{at % len(nodes)}", **amounts) for i, (at, amounts) in enumerate(running)]
    cluster = a_cluster_of(*listed, *old)
    pods = tuple(a_pod(f"m{i}", **amounts) for i, amounts in enumerate(members))
    sets = [(sorted({row % len(nodes) for row in rows}), pods[:count]) for rows, count in parts]
    offered = [PodGroupAssignments(PodGroupPlacement("", np.array(rows, np.intp)), taken) for rows, taken in sets]
    scores = a_fit(weights).score_placements(
        PodGroupContext(GroupName(pods[0].group_key or ""), pods, cluster), offered
    )
    assert scores.tolist() == [_plain_score(cluster, weights, rows, taken) for rows, taken in sets]


def _plain_score(cluster: Cluster, weights: dict[str, int], rows: list[int], pods: Sequence[Pod]) -> int:
    total = weight_sum = 0
    for name, weight in weights.items():
        used = sum(pod.shape.score_request.get(name, 0) for pod in pods)
        if not used and is_scalar_resource(name):
            continue
        there, index = 0, cluster.nodes.amounts.resource(name)
        for row in rows:
            allocatable = int(cluster.nodes.amounts.allocatable[index, row])
            there += allocatable
            used += int(cluster.nodes.amounts.scored[index, row]) if allocatable else 0
        if there:
            total += min(used, there) * 100 // there * weight
            weight_sum += weight
    return total // weight_sum if weight_sum else 0
