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
from mooring.answers.plan.walks import SETTLED, TOGETHER, ArrivalOrder, OrderWalks
from mooring.inputs.loaded_cluster import load
from mooring.model.pod import Pod

ZONE = "topology.kubernetes.io/zone"


def shuffles(pods: list[Pod], number: int) -> list[ArrivalOrder]:
    paces = TOGETHER, SETTLED, 1, 4
    return [ArrivalOrder(Random(seed).sample(pods, len(pods)), seed, paces[seed % 4]) for seed in range(number)]


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
    walks = ContentWalks(ContentTable(case.trials, case.demand, case.pods), orders)
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


def spread_over_zones(app: str, skew: int = 1, **rest: Any) -> dict[str, Any]:
    rule = {"maxSkew": skew, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {**rule, "labelSelector": {"matchLabels": {"app": app}}, **rest}


@settings(max_examples=examples(20), deadline=None)
@given(
    spreads=st.lists(st.tuples(st.sampled_from(["1", "2"]), st.integers(1, 2)), min_size=1, max_size=2),
    number=st.integers(1, 5),
    steps=st.lists(st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1)]), min_size=1, max_size=5),
)
def test_spread_pods_are_left_by_the_table_where_the_core_leaves_them(
    spreads: list[tuple[str, int]], number: int, steps: list[Additions]
) -> None:
    """Zone a has a present node that takes no pod, c none; one offer has no zone. Nodes come singly, so that no tie decides
    where the first pods go."""
    pods = [
        a_pod(f"p{app}-{i}", cpu, "0", labels={"app": app}, topologySpreadConstraints=[spread_over_zones(app, skew)])
        for app, (cpu, skew) in zip("wv", spreads, strict=False)
        for i in range(number)
    ]
    full = {**a_node("old", "100m"), "metadata": {"name": "old", "labels": {ZONE: "a"}}}
    loaded = load([full, *pods])
    labels: list[dict[str, str]] = [{ZONE: "a"}, {ZONE: "c"}, {}]
    written = [
        {"name": f"m{at}", "price": 1.0, "node": {**a_node("t", "2"), "metadata": {"labels": each}}}
        for at, each in enumerate(labels)
    ]
    trials = NodeTrials(TrialPlacer(loaded), [OfferedNodes(each) for each in read_offers(written, loaded)])
    listed = [item for item in loaded.objects if isinstance(item, Pod)]
    demand = demand_of(trials, listed)
    orders = shuffles(listed, 6)
    core = OrderWalks(trials, demand, orders, fits_now=False)
    walks = ContentWalks(ContentTable(trials, demand, listed), orders)
    trials.add((0, 0, 0))
    walked, filled = core.begin(), walks.begin()
    for step in steps:
        walked, filled = core.extended(walked, step), walks.extended(filled, step)
        assert walks.left(filled).tolist() == core.left(walked).tolist()


def apart(key: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_present_nodes_are_filled_first_and_pods_that_keep_apart_share_none() -> None:
    pods = [a_pod(f"p{i}", "1", labels={"app": "w"}, affinity=apart("kubernetes.io/hostname")) for i in range(3)]
    trials, demand, listed = demand_in(a_node("n", "4"), *pods)
    walks = ContentWalks(ContentTable(trials, demand, listed), shuffles(listed, 4))
    begun = walks.begin()
    assert walks.left(begun).tolist() == [[2]] * 4
    assert walks.left(walks.extended(begun, (1,))).tolist() == [[1]] * 4
    assert walks.left(walks.extended(begun, (2,))).tolist() == [[0]] * 4


def test_a_pod_that_wants_one_present_node_goes_to_no_new_one() -> None:
    """As a DaemonSet's pods do."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    term = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    pods = [a_pod(f"p{i}", "3", affinity={"nodeAffinity": term}) for i in range(2)]
    trials, demand, listed = demand_in(a_node("n", "4"), *pods)
    walks = ContentWalks(ContentTable(trials, demand, listed), shuffles(listed, 4))
    assert walks.left(walks.extended(walks.begin(), (2,))).tolist() == [[1]] * 4


@pytest.mark.parametrize(
    "rest",
    [
        {"affinity": apart("topology.kubernetes.io/zone")},
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "w"}},
                }
            ]
        },
        {"topologySpreadConstraints": [spread_over_zones("w", minDomains=2)]},
        {"topologySpreadConstraints": [spread_over_zones("w"), spread_over_zones("w", topologyKey="rack")]},
    ],
    ids=["anti-affinity over a zone", "spread over nodes", "a least number of domains", "two constraints"],
)
def test_there_is_no_table_where_other_nodes_count(rest: dict[str, Any]) -> None:
    trials, demand, pods = demand_in(a_node("n", "4"), a_pod("p", "1", labels={"app": "w"}, **rest))
    with pytest.raises(NotOfOneNode):
        ContentTable(trials, demand, pods)
