"""Offers that a search leaves out: plans are as cheap without them."""

import random

import pytest
from written import Written, a_node, a_pod

from mooring.answers.plan import additions, offer_choice
from mooring.answers.plan.offer_choice import useful_offers, within_pools
from mooring.answers.plan.offers import read_all_offers, read_offers
from mooring.answers.plan.plan import plan
from mooring.inputs.loaded_cluster import LoadedCluster, load


def an_offer(name: str, cpu: int, memory: int, price: float, **labels: str) -> Written:
    allocatable = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}
    node = {"metadata": {"labels": labels}, "status": {"allocatable": allocatable}}
    return {"name": name, "price": price, "node": node}


def names(loaded: LoadedCluster, offers: list[Written]) -> list[str]:
    found = useful_offers(loaded, read_offers(offers, loaded), loaded.pending())
    return [offer.name for offer in found]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offers are chosen however few there are; those that are left are all searched."""
    monkeypatch.setattr(offer_choice, "FEW", 0)
    monkeypatch.setattr(offer_choice, "_best_values", lambda groups, requests: groups)


@pytest.mark.usefixtures("always")
def test_offers_that_no_pod_can_use_and_offers_that_others_outdo_are_left_out() -> None:
    loaded = load([a_node("n", cpu="0"), a_pod("one", cpu="3"), a_pod("two", cpu="3", nodeSelector={"disk": "ssd"})])
    offers = [
        an_offer("small", 2, 64, 0.1),
        an_offer("plain", 4, 4, 1.0),
        an_offer("dear", 4, 4, 1.1),
        an_offer("holds-all", 6, 4, 1.4),
        an_offer("larger-than-all", 60, 64, 9.0),
        an_offer("ssd", 4, 4, 2.0, disk="ssd"),
        an_offer("other-label", 4, 4, 2.0, rack="7"),
    ]
    assert names(loaded, offers) == ["plain", "holds-all", "ssd"]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(4))
def test_plans_of_random_offers_cost_the_same_without_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    pods = [a_pod(f"p{at}", cpu=str(chance.randint(1, 3))) for at in range(3)]
    loaded = load([a_node("n", cpu="0"), *pods])
    offers = [an_offer(f"o{at}", chance.randint(1, 8), 8, chance.randint(1, 9)) for at in range(6)]
    chosen = plan(loaded, offers)
    assert chosen.notes[-1].endswith("no pod can use them, or others cost less for what pods request")
    monkeypatch.setattr(additions, "useful_offers", lambda now, offers, pods: offers)
    everything = plan(loaded, offers)
    assert (chosen.cost, len(chosen.pending)) == (everything.cost, len(everything.pending))


def a_type(name: str, cpu: int, price: float) -> Written:
    offering = {"zone": "a", "capacityType": "spot", "price": price}
    return {"name": name, "offerings": [offering], "resources": {"cpu": str(cpu), "memory": "8Gi"}}


def a_pool(name: str, types: list[str], **spec: object) -> Written:
    required = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]
    template = {"spec": {"requirements": required}}
    return {"kind": "NodePool", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def test_a_pool_with_a_higher_weight_is_used_if_it_takes_the_pods_and_has_no_limit() -> None:
    loaded = load([a_node("n", cpu="0"), a_pod("one", cpu="3")])
    types = [a_type("cheap", 4, 1), a_type("dear", 4, 2)]
    for limits, expected in (({}, 2.0), ({"cpu": "40"}, 1.0)):
        first = a_pool("first", ["dear"], weight=10, limits=limits)
        assert plan(loaded, [first, a_pool("second", ["cheap"]), *types]).cost == expected


def test_limits_that_types_of_a_pool_share_bound_the_plan() -> None:
    pods = [a_pod(f"p{at}", cpu=cpu) for at, cpu in enumerate(["3", "3", "7"])]
    loaded = load([a_node("n", cpu="0"), *pods])
    types = [a_type("small", 4, 1), a_type("large", 8, 3)]
    small, large = "all-small-a-spot", "all-large-a-spot"
    free = plan(loaded, [a_pool("all", ["small", "large"]), *types])
    assert {each.offer.name: each.count for each in free.added} == {large: 1, small: 2}
    limited = [a_pool("all", ["small", "large"], limits={"cpu": "12"}), *types]
    held = plan(loaded, limited)
    assert sum({large: 8, small: 4}[each.offer.name] * each.count for each in held.added) <= 12
    assert (len(held.pending), held.fits) == (1, False)
    offers = read_all_offers(limited, loaded)[0]
    assert within_pools(offers, {large: 1, small: 1}) is None
    lowered = {each.name: each.limit for each in within_pools(offers, {large: 1, small: 2}) or ()}
    assert lowered == {large: 1, small: 1}


def test_of_many_offers_the_best_values_for_each_kind_of_pod_are_searched() -> None:
    loaded = load([a_node("n", cpu="0"), a_pod("thin", cpu="1"), a_pod("wide", cpu="4")])
    offers = [an_offer(f"o{cpu}", cpu, 8, 1 + cpu - cpu / 100) for cpu in range(1, 41)]
    offers += [an_offer(f"z{cpu}", cpu, 8, 1 + cpu - cpu / 100, zone="b") for cpu in range(1, 41)]
    offers.append(an_offer("bargain", 4, 8, 4.5))
    assert {"o1", "bargain"} <= {*names(loaded, offers)}
    assert len(names(loaded, offers)) < 41
