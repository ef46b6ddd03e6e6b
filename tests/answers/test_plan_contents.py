"""The table of what the core says about nodes by what they hold: walks by it leave what walks by the core leave."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_trials import Case
from written import a_node, a_pod

from how_many import examples
from mooring.answers.plan.contents import ContentTable, ContentWalks, NotOfOneNode
from mooring.answers.plan.demand import NodeDemand, demand_of
from mooring.answers.plan.offers import read_offers
from mooring.answers.plan.trials import Additions, NodeTrials, OfferedNodes, TrialPlacer
from mooring.answers.plan.walks import ArrivalOrder, OrderWalks
from mooring.inputs.loaded_cluster import load
from mooring.model.pod import Pod


def shuffles(pods: list[Pod], number: int) -> list[ArrivalOrder]:
    return [ArrivalOrder(Random(seed).sample(pods, len(pods)), seed, seed % 2 == 1) for seed in range(number)]


@settings(max_examples=examples(20), deadline=None)
@given(
    cpus=st.lists(st.sampled_from(["1", "2", "3", "5"]), min_size=1, max_size=10),
    steps=st.lists(st.integers(0, 3).map(lambda number: (number,)), min_size=1, max_size=3),
)
def test_walks_by_the_table_leave_what_walks_by_the_core_leave(cpus: list[str], steps: list[Additions]) -> None:
    """With one offer, which of several equal nodes is taken makes no difference to what is left."""
    case = Case(cpus, (1.0, "6", 100))
    orders = shuffles(case.pods, 6)
    core = OrderWalks(case.trials, case.demand, orders, fits_now=False)
    walked = core.begin()
    expected = [core.left(walked).tolist()]
    for step in steps:
        walked = core.extended(walked, step)
        expected.append(core.left(walked).tolist())
    assert case.is_as_before
    walks = ContentWalks(ContentTable(case.trials, case.demand), orders)
    filled = walks.begin()
    found = [walks.left(filled).tolist()]
    for step in steps:
        filled = walks.extended(filled, step)
        found.append(walks.left(filled).tolist())
    assert found == expected


def demand_in(*objects: dict[str, Any]) -> tuple[NodeTrials, NodeDemand, list[Pod]]:
    loaded = load([*objects])
    offers = read_offers([{"name": "m", "price": 1.0, "node": a_node("template", "4")}], loaded)
    trials = NodeTrials(TrialPlacer(loaded), [OfferedNodes(each) for each in offers])
    pods = [item for item in loaded.objects if isinstance(item, Pod)]
    return trials, demand_of(trials, pods), pods


def apart(key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_present_nodes_are_filled_first_and_pods_that_keep_apart_share_none() -> None:
    pods = [a_pod(f"p{i}", "1", labels={"app": "w"}, affinity=apart("kubernetes.io/hostname")) for i in range(3)]
    trials, demand, listed = demand_in(a_node("n", "4"), *pods)
    walks = ContentWalks(ContentTable(trials, demand), shuffles(listed, 4))
    begun = walks.begin()
    assert walks.left(begun).tolist() == [[2]] * 4
    assert walks.left(walks.extended(begun, (1,))).tolist() == [[1]] * 4
    assert walks.left(walks.extended(begun, (2,))).tolist() == [[0]] * 4


@pytest.mark.parametrize(
    "rest",
    [
        {"affinity": apart("topology.kubernetes.io/zone")},
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "w"}},
                }
            ]
        },
    ],
    ids=["anti-affinity over a zone", "spread over zones"],
)
def test_there_is_no_table_where_other_nodes_count(rest: dict[str, Any]) -> None:
    trials, demand, _ = demand_in(a_node("n", "4"), a_pod("p", "1", labels={"app": "w"}, **rest))
    with pytest.raises(NotOfOneNode):
        ContentTable(trials, demand)
