"""More or fewer arrivals of the same kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_pod
from mooring.answers.experiments.compared_run import scaled_arrivals, scaled_plan
from mooring.inputs.arrivals import Arrival, ArrivalsError
from mooring.inputs.load_plan import LoadPlan, LoadPlanError

DAY = [Arrival(10 * i, a_pod(f"p-{i}", metadata={"uid": f"u-{i}"}), 5) for i in range(10)]


def test_half_the_load_has_every_second_pod() -> None:
    assert [arrival.pod.name for arrival in scaled_arrivals(DAY, 0.5)] == ["p-1", "p-3", "p-5", "p-7", "p-9"]


def test_more_load_has_copies_with_their_own_names_at_the_same_time() -> None:
    scaled = scaled_arrivals(DAY[:4], 1.5)
    assert [(arrival.at_ns, arrival.pod.key) for arrival in scaled] == [
        (0, "default/p-0"),
        (10, "default/p-1"),
        (10, "default/p-1-copy-1"),
        (20, "default/p-2"),
        (30, "default/p-3"),
        (30, "default/p-3-copy-1"),
    ]
    assert len({arrival.pod.id for arrival in scaled}) == 6
    assert {arrival.run_ns for arrival in scaled} == {5}


def test_a_copy_takes_no_name_that_is_there() -> None:
    taken = [a_pod("p-0-copy-1"), a_pod("p-0-copy-1-x")]
    assert [arrival.pod.name for arrival in scaled_arrivals(DAY[:1], 2, taken)] == ["p-0", "p-0-copy-1-x-x"]


@given(st.integers(0, 10), st.sampled_from([0.1, 0.3, 0.5, 1.0, 1.25, 2.0, 3.7]))
def test_as_many_as_the_load_says_in_the_order_of_time(count: int, load: float) -> None:
    scaled = scaled_arrivals(DAY[:count][::-1], load)
    assert len(scaled) == int(count * load)
    if load != 1:
        assert [arrival.at_ns for arrival in scaled] == sorted(arrival.at_ns for arrival in scaled)
    assert len({arrival.pod.key for arrival in scaled}) == len(scaled)


def test_a_plan_has_more_pods() -> None:
    plan = LoadPlan(pods=100)
    assert scaled_plan(plan, 1.0) is plan
    assert scaled_plan(plan, 1.5).pods == 150
    assert scaled_plan(plan, 0.001).pods == 1


def test_too_many() -> None:
    with pytest.raises(
        LoadPlanError, match=r"^load: 100 times 1000000 pods are more than 10000000: write a smaller load"
    ):
        scaled_plan(LoadPlan(pods=1_000_000), 100)
    with pytest.raises(ArrivalsError, match=r"^load: 1e\+06 times 10 pods are more than 2000000: write a smaller load"):
        scaled_arrivals(DAY, 1e6)


def test_as_many_as_the_limit_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.answers.experiments.compared_run.MAX_ARRIVALS", 20)
    monkeypatch.setattr("mooring.answers.experiments.compared_run.MAX_PODS", 20)
    assert len(scaled_arrivals(DAY, 2)) == 20 and scaled_plan(LoadPlan(pods=10), 2).pods == 20
    with pytest.raises(ArrivalsError) as arrivals:
        scaled_arrivals(DAY, 2.125)
    assert str(arrivals.value) == "load: 2.125 times 10 pods are more than 20: write a smaller load"
    with pytest.raises(LoadPlanError) as plan:
        scaled_plan(LoadPlan(pods=10), 2.125)
    assert str(plan.value) == "load: 2.125 times 10 pods are more than 20: write a smaller load"


def test_the_load_that_is_given_stays_as_it_is() -> None:
    turned = DAY[::-1]
    same = scaled_arrivals(turned, 1)
    assert same == turned and same is not turned


def test_a_copy_keeps_away_from_pods_of_its_namespace_and_from_arrivals() -> None:
    there = [a_pod("p-0-copy-1", namespace="other"), a_pod("p-1")]
    named = [Arrival(0, a_pod("p-0"), 5), Arrival(0, a_pod("p-0-copy-1"), 5)]
    scaled = scaled_arrivals(named[:1], 3, there)
    assert [(each.pod.key, each.pod.id) for each in scaled[1:]] == [
        ("default/p-0-copy-1", "default/p-0-copy-1"),
        ("default/p-0-copy-2", "default/p-0-copy-2"),
    ]
    taken = scaled_arrivals(named, 2)
    assert [each.pod.name for each in taken] == ["p-0", "p-0-copy-1-x", "p-0-copy-1", "p-0-copy-1-copy-1"]
