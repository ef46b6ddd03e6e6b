"""Scores of nodes and pods with amounts of any size: each is in 0..100, and that of a plain reading below 2^53."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from small_scenarios import Json, a_node, a_pod, requesting, step

RESOURCES = ("memory", "example.com/x")
EXACT = 1 << 53
ANY = st.one_of(st.integers(1, 10**30), st.integers(1, 300), st.integers(EXACT - 2, EXACT + 2))
SMALL = st.one_of(st.integers(1, EXACT // 200), st.integers(1, 300))
SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
STRATEGIES: dict[str, Json] = {
    "LeastAllocated": {},
    "MostAllocated": {},
    "RequestedToCapacityRatio": {"requestedToCapacityRatio": {"shape": SHAPE}},
}


def configured(strategy: str) -> Json:
    weighed = [{"name": name, "weight": 1} for name in RESOURCES]
    fit = {"scoringStrategy": {"type": strategy, "resources": weighed, **STRATEGIES[strategy]}}
    plugins = [
        {"name": "NodeResourcesFit", "args": fit},
        {"name": "NodeResourcesBalancedAllocation", "args": {"resources": weighed}},
    ]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": plugins}],
    }


def given_amounts(amounts: tuple[int, int]) -> dict[str, str]:
    return {name: str(amount) for name, amount in zip(RESOURCES, amounts, strict=True)}


def scores_of(
    strategy: str, nodes: list[tuple[int, int]], held: tuple[int, int], wanted: tuple[int, int]
) -> dict[str, dict[str, int]]:
    """By node; empty if fewer than two nodes are feasible. The pod that holds something is on the first node."""
    objects: list[Any] = [a_node(f"n{i}", **given_amounts(each)) for i, each in enumerate(nodes)]
    objects.append(a_pod("held", "n0", containers=requesting(**given_amounts(held))))
    found = step(*objects, a_pod("p", containers=requesting(**given_amounts(wanted))), config=configured(strategy))
    assert found["result"] != "error", found
    scores: dict[str, dict[str, int]] = found.get("scores") or {}
    return scores


PAIR = st.tuples(ANY, ANY)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(PAIR, min_size=2, max_size=3), PAIR, PAIR)
def test_scores_of_amounts_of_any_size_are_in_range(
    strategy: str, nodes: list[tuple[int, int]], held: tuple[int, int], wanted: tuple[int, int]
) -> None:
    for by_plugin in scores_of(strategy, nodes, held, wanted).values():
        assert all(0 <= score <= 100 for name, score in by_plugin.items() if name.startswith("NodeResources"))


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(SMALL, SMALL), min_size=2, max_size=3), st.data())
def test_scores_below_the_bound_are_those_of_plain_integers(
    strategy: str, extra: list[tuple[int, int]], data: st.DataObject
) -> None:
    held, wanted = data.draw(st.tuples(SMALL, SMALL)), data.draw(st.tuples(SMALL, SMALL))
    factor = data.draw(st.integers(1, 90))
    nodes = [(held[0] + wanted[0] + a * factor, held[1] + wanted[1] + b * factor) for a, b in extra]
    found = scores_of(strategy, nodes, held, wanted)
    assert len(found) == len(nodes), "the pod fits on all of them"
    for i, there in enumerate(nodes):
        taken = [want + (has if i == 0 else 0) for want, has in zip(wanted, held, strict=True)]
        expected = plain_score(strategy, there, taken)
        assert found[f"n{i}"].get("NodeResourcesFit", 0) == expected


def plain_score(strategy: str, there: tuple[int, int], taken: list[int]) -> int:
    """With the straight shape of RequestedToCapacityRatio, as it is in SHAPE; its mean is rounded, the others are cut."""
    pairs = list(zip(there, taken, strict=True))
    if strategy == "LeastAllocated":
        return sum((has - used) * 100 // has for has, used in pairs) // 2
    shares = [used * 100 // has for has, used in pairs]
    if strategy == "MostAllocated":
        return sum(shares) // 2
    # Parity: upstream counts only resources with a score above 0.
    counted = [share for share in shares if share > 0]
    return int(sum(counted) / len(counted) + 0.5) if counted else 0


@pytest.mark.parametrize(("strategy", "scores"), [("LeastAllocated", [0, 0]), ("MostAllocated", [100, 100])])
def test_nodes_beyond_the_bound_are_scored_by_bounded_columns(strategy: str, scores: list[int]) -> None:
    """Columns end at 2^53, so 10^29 of 10^30 counts as all of it."""
    nodes, tenth = [(10**30, 10**30)] * 2, (10**29, 10**29)
    found = scores_of(strategy, nodes, tenth, tenth)
    assert [found[f"n{i}"].get("NodeResourcesFit", 0) for i in range(2)] == scores
