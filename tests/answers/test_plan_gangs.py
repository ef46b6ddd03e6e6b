"""Plans and gangs: nodes are added so that a whole gang fits, never half of it, and no drain breaks one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

from how_many import examples
from mooring.answers.plan import trials as plan_trials_module
from mooring.answers.plan.plan import Plan, plan
from mooring.answers.plan.trials import NodeTrials, TrialPlacer, placements_of
from mooring.framework.contract.status import Rejection
from mooring.framework.kept.asking import AttemptError
from mooring.inputs.loaded_cluster import LoadedCluster, load


def cluster(*objects: Written) -> LoadedCluster:
    return load(list(objects), feature_gates=GROUP_GATES)


def an_offer(name: str = "m", cpu: str = "4", price: float = 1.0, limit: int = 100) -> Written:
    return {"name": name, "node": a_node("template", cpu, "64Gi"), "price": price, "limit": limit}


def planned(*objects: Written, offers: list[Written] | None = None) -> Plan:
    return plan(cluster(*objects), offers or [an_offer()])


def added(answer: Plan) -> int:
    return sum(len(each.names) for each in answer.added)


def test_a_gang_gets_all_the_nodes_that_it_needs() -> None:
    answer = planned(a_node("n1", "1", "64Gi"), a_pod_group(min_count=8), *members(8, "2"))
    assert (added(answer), answer.pending) == (4, {})


def test_room_on_present_nodes_is_used_by_the_gang() -> None:
    answer = planned(a_node("n1", "10", "64Gi"), a_pod_group(min_count=7), *members(7, "2"))
    assert (added(answer), answer.pending) == (1, {})
    assert answer.lower_bound <= answer.cost


def test_no_node_is_added_for_half_a_gang() -> None:
    answer = planned(a_node("n1", "1", "64Gi"), a_pod_group(min_count=8), *members(8, "2"), offers=[an_offer(limit=2)])
    assert added(answer) == 0
    assert len(answer.pending) == 8


def test_a_gang_with_a_pod_that_no_offer_takes_gets_no_nodes() -> None:
    pods = [*members(3, "2"), *members(1, "9", group="gang")]
    pods[3]["metadata"] = {**pods[3]["metadata"], "name": "big", "uid": "uid-big"}
    answer = planned(a_node("n1", "1", "64Gi"), a_pod_group(min_count=4), *pods)
    assert added(answer) == 0
    assert answer.pending["default/gang-0"].startswith("its group default/gang stays pending: no offer can take it")


def test_a_pod_that_only_a_present_node_takes_is_no_hindrance() -> None:
    pods = [*members(3, "4"), *members(1, "9", group="gang")]
    pods[3]["metadata"] = {**pods[3]["metadata"], "name": "big", "uid": "uid-big"}
    answer = planned(a_node("n1", "9", "64Gi"), a_pod_group(min_count=4), *pods)
    assert (added(answer), answer.pending) == (3, {})


def test_a_gang_that_waits_for_members_gets_no_nodes() -> None:
    answer = planned(a_node("n1", "1"), a_pod_group(min_count=8), *members(5, "2"))
    assert added(answer) == 0
    assert set(answer.pending.values()) == {"waiting for minCount pods from a gang to appear in scheduling queue"}


def test_other_pods_get_nodes_beside_a_gang_that_cannot() -> None:
    answer = planned(
        a_node("n1", "1", "64Gi"),
        a_pod("alone", "4"),
        a_pod_group(min_count=8),
        *members(8, "2"),
        offers=[an_offer(limit=2)],
    )
    assert added(answer) == 1
    assert "default/alone" not in answer.pending


def test_two_gangs_of_one_form() -> None:
    objects = [a_node("n1", "1", "64Gi")]
    for name in ("a", "b"):
        objects += [a_pod_group(name, 4), *members(4, "2", group=name)]
    assert added(planned(*objects)) == 4
    assert added(planned(*objects, offers=[an_offer(limit=3)])) == 2


def test_without_the_gate_pods_of_a_group_are_planned_one_by_one() -> None:
    objects = [a_node("n1", "1", "64Gi"), a_pod_group(min_count=8), *members(8, "2")]
    assert added(plan(load(objects), [an_offer(limit=2)])) == 2


# ---- shrink


def gang_on(*nodes: str, owner: str = "Job/train") -> list[Written]:
    return [
        a_pod(f"g{i}", "1", node=node, owner=owner, schedulingGroup={"podGroupName": "gang"})
        for i, node in enumerate(nodes)
    ]


def test_no_drain_breaks_a_gang() -> None:
    nodes = [a_node(f"n{i}", "8", "64Gi") for i in range(3)]
    loaded = cluster(*nodes, a_pod_group(min_count=2), *gang_on("n0", "n1"))
    answer = plan(loaded, shrink=True)
    assert [step.node for step in answer.removed] == ["n2"]
    assert {each.node: each.reason for each in answer.kept} == {
        "n0": "PodGroup default/gang needs 2 pods, and would have 1 while they move",
        "n1": "PodGroup default/gang needs 2 pods, and would have 1 while they move",
    }


def test_pods_beyond_the_minimum_may_move() -> None:
    nodes = [a_node(f"n{i}", "8", "64Gi") for i in range(2)]
    loaded = cluster(*nodes, a_pod_group(min_count=2), *gang_on("n0", "n1", "n1"))
    assert [step.node for step in plan(loaded, shrink=True).removed] == ["n0"]


def test_without_the_gate_a_drain_heeds_no_gang() -> None:
    nodes = [a_node(f"n{i}", "8", "64Gi") for i in range(2)]
    loaded = load([*nodes, a_pod_group(min_count=2), *gang_on("n0", "n1")])
    assert len(plan(loaded, shrink=True).removed) == 1


# ---- properties


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(st.data())
def test_a_trial_places_whole_gangs_and_leaves_no_trace(data: st.DataObject) -> None:
    objects = [a_node(f"n{i}", data.draw(st.sampled_from(["1", "2", "5"])), "64Gi") for i in range(3)]
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    for number, size in enumerate(sizes):
        least = data.draw(st.integers(1, size))
        cpu = data.draw(st.sampled_from(["500m", "1", "2"]))
        objects += [a_pod_group(f"g{number}", least), *members(size, cpu, group=f"g{number}")]
    objects += [a_pod(f"p{i}", data.draw(st.sampled_from(["1", "2"]))) for i in range(data.draw(st.integers(0, 3)))]
    loaded = cluster(*objects)
    trials = NodeTrials(TrialPlacer(loaded), [])
    pods = data.draw(st.permutations(loaded.pending()))
    outcome = trials.attempt(pods)
    assert {pod.key for pod in outcome.left} | {pod.key for pod, _ in outcome.placed} == {pod.key for pod in pods}
    for unit in trials.gangs.units(pods):
        fitted = sum(pod.group_key == unit.gang for pod, _ in outcome.placed)
        minimum = next(
            (
                each["spec"]["schedulingPolicy"]["gang"]["minCount"]
                for each in objects
                if each["kind"] == "PodGroup" and unit.gang.endswith(f"/{each['metadata']['name']}")
            ),
            0,
        )
        assert not unit.gang or fitted == 0 or fitted >= minimum
    trials.take_back(outcome)
    assert not list(trials.cluster.nodes.pods()) and not +trials.gangs.placed


# ---- gangs that go to one domain

RACK = "example.com/rack"
ONE_RACK = {"topology": [{"key": RACK}]}
WITH_RACKS = {**GROUP_GATES, "TopologyAwareWorkloadScheduling": True}


def in_rack(rack: str, node: Written) -> Written:
    node["metadata"].setdefault("labels", {})[RACK] = rack
    return node


def a_rack_gang(number: int, cpu: str, name: str = "gang") -> list[Written]:
    group = a_pod_group(name, number)
    group["spec"]["schedulingConstraints"] = ONE_RACK
    return [group, *members(number, cpu, group=name)]


def a_rack_offer(rack: str, price: float = 1.0, limit: int = 100) -> Written:
    node = in_rack(rack, a_node("template", "4", "64Gi"))
    return {"name": f"rack-{rack}", "node": node, "price": price, "limit": limit}


TWO_RACKS = [in_rack("a", a_node("n1", "4", "64Gi")), in_rack("b", a_node("n2", "4", "64Gi"))]


def planned_in_racks(*objects: Written, offers: list[Written], gates: dict[str, bool] = WITH_RACKS) -> Plan:
    return plan(load([*TWO_RACKS, *objects], feature_gates=gates), offers)


def test_a_gang_for_one_rack_gets_a_node_in_it_though_two_racks_have_room_together() -> None:
    answer = planned_in_racks(*a_rack_gang(4, "2"), offers=[a_rack_offer("a")])
    assert (added(answer), answer.pending) == (1, {})
    without = {**WITH_RACKS, "TopologyAwareWorkloadScheduling": False}
    assert added(planned_in_racks(*a_rack_gang(4, "2"), offers=[a_rack_offer("a")], gates=without)) == 0


def test_a_gang_gets_its_nodes_in_the_one_rack_that_has_enough_of_them() -> None:
    offers = [a_rack_offer("a", price=1.0, limit=1), a_rack_offer("b", price=2.0, limit=3)]
    answer = planned_in_racks(*a_rack_gang(8, "2"), offers=offers)
    assert answer.pending == {}
    assert [(each.offer.name, len(each.names)) for each in answer.added] == [("rack-b", 3)]


def test_a_gang_that_no_rack_can_take_gets_no_nodes() -> None:
    offers = [a_rack_offer("a", limit=1), a_rack_offer("b", limit=1)]
    answer = planned_in_racks(*a_rack_gang(8, "2"), offers=offers)
    assert added(answer) == 0
    assert len(answer.pending) == 8


def test_more_members_than_the_minimum_go_to_the_rack_that_takes_most() -> None:
    objects = [*TWO_RACKS, in_rack("b", a_node("n3", "4", "64Gi")), *a_rack_gang(6, "2")]
    objects[3]["spec"]["schedulingPolicy"]["gang"]["minCount"] = 2
    loaded = load(objects, feature_gates=WITH_RACKS)
    outcome = NodeTrials(TrialPlacer(loaded), []).attempt(loaded.pending())
    assert sorted(placement.node for _, placement in outcome.placed) == ["n2", "n2", "n3", "n3"]
    assert len(outcome.left) == 2


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(st.data())
def test_a_trial_places_each_gang_in_one_rack(data: st.DataObject) -> None:
    racks = data.draw(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=5))
    cpus = st.sampled_from(["1", "2", "5"])
    nodes = [a_node(f"n{i}", data.draw(cpus), "64Gi") for i in range(len(racks))]
    objects = [in_rack(rack, node) if rack else node for rack, node in zip(racks, nodes, strict=True)]
    for number, size in enumerate(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))):
        objects += a_rack_gang(size, data.draw(st.sampled_from(["500m", "1", "2"])), f"g{number}")
    loaded = load(objects, feature_gates=WITH_RACKS)
    trials = NodeTrials(TrialPlacer(loaded), [])
    outcome = trials.attempt(loaded.pending())
    of_node = dict(zip((node["metadata"]["name"] for node in nodes), racks, strict=True))
    for unit in trials.gangs.units(loaded.pending()):
        chosen = [of_node[placement.node] for pod, placement in outcome.placed if pod.group_key == unit.gang]
        assert len(chosen) in (0, len(unit.pods))
        assert len(set(chosen)) <= 1 and "" not in chosen
    trials.take_back(outcome)
    assert not list(trials.cluster.nodes.pods()) and not +trials.gangs.placed


def test_two_gangs_may_go_to_two_racks() -> None:
    answer = planned_in_racks(*a_rack_gang(2, "2"), *a_rack_gang(2, "2", "other"), offers=[a_rack_offer("a")])
    assert (added(answer), answer.pending) == (0, {})


def test_where_a_gang_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each rack, if it has to stay in one; on all nodes if nothing says so; and nowhere, if no rack can be found."""
    loaded = load([*TWO_RACKS, *a_rack_gang(2, "2")], feature_gates=WITH_RACKS)
    trials = NodeTrials(TrialPlacer(loaded), [])
    (gang,) = trials.gangs.units(loaded.pending())
    runner = trials.runner(gang.pods[0])
    found = placements_of(gang, trials.cluster, runner)
    assert [list(each.rows) for each in found if each is not None] == [[0], [1]]
    assert placements_of(gang, trials.cluster, None) == [None]

    def rejected(*asked: object) -> Rejection:
        return Rejection(("no rack",))

    def failing(*asked: object) -> Rejection:
        raise AttemptError("no rack")

    for outcome in (rejected, failing):
        monkeypatch.setattr(plan_trials_module, "generate_placements", outcome)
        assert placements_of(gang, trials.cluster, runner) == []
        assert len(trials.attempt(loaded.pending()).left) == 2
    without = NodeTrials(TrialPlacer(load([*TWO_RACKS, *a_rack_gang(2, "2")], feature_gates=GROUP_GATES)), [])
    assert placements_of(gang, without.cluster, without.runner(gang.pods[0])) == [None]
