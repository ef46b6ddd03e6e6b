"""The search for victims of a pod group: what is kept agrees with a plain loop, and sums agree with trials."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from gangs import WITH_PREEMPTION, GangWorld, a_group, a_member
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import start_ns
from mooring.framework.attempts.fit_errors import MovedPods
from mooring.framework.contract.intents import Evict, Intent
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget, PodGroup
from mooring.plugins.preemption import default_preemption
from mooring.plugins.preemption.victim_order import GroupVictim, VictimOrder, split_by_budgets
from mooring.plugins.preemption.victim_search import KeptBudgets, budgets_of
from mooring.scheduler.groups.group_attempt import PodsAside

PRIORITY = 100


def plain_victims(cluster: Cluster, priority: int) -> list[list[str]]:
    """The twin of VictimOrder: a loop over all pods, node by node."""
    groups = cluster.objects[PodGroup]
    units: dict[str, list[Pod]] = {}
    for name in cluster.nodes.order.round_robin():
        for pod in cluster.nodes.pods_on[cluster.nodes.row_book[name]]:
            group = groups.get(pod.group_key or "")
            is_whole = isinstance(group, PodGroup) and group.spec.disruption_mode == "PodGroup"
            units.setdefault(f"group {pod.group_key}" if is_whole else pod.id, []).append(pod)
    found = []
    for place, (key, pods) in enumerate(units.items()):
        group = groups[pods[0].group_key or ""] if key.startswith("group ") else None
        its = group.priority if isinstance(group, PodGroup) else pods[0].priority
        if its < priority:
            named = pods[0].spec.scheduling_group is not None
            key_of = (-its, not named, -len(pods) if named else 0, start_ns(pods[0]), place)
            found.append((key_of, [pod.id for pod in pods]))
    return [ids for _, ids in sorted(found)]


def a_started(name: str, priority: int, second: int | None, group: str, cpu: str = "1", **more: Any) -> Pod:
    status = {} if second is None else {"startTime": f"2026-01-01T00:00:{second:02d}Z"}
    about: dict[str, Any] = {"cpu": cpu, "priority": priority, "status": status, **more}
    return a_member(name, group, **about) if group else a_pod(name, metadata={"uid": f"uid-{name}"}, **about)


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            *(st.just("place"), st.integers(0, 11), st.integers(0, 3), st.integers(0, 3)),
            *(st.none() | st.integers(0, 2), st.sampled_from(["", "", "a", "b", "c"])),
        ),
        st.tuples(st.just("remove"), st.integers(0, 11)),
        st.tuples(st.just("group"), st.sampled_from("abc"), st.sampled_from(["Pod", "PodGroup"]), st.integers(0, 3)),
        st.tuples(st.just("no group"), st.sampled_from("abc")),
        st.tuples(st.just("node"), st.integers(0, 3)),
        st.tuples(st.just("look")),
    ),
    max_size=40,
)


@given(CHANGES)
def test_the_kept_order_is_that_of_a_plain_loop(changes: list[tuple[Any, ...]]) -> None:
    cluster = Cluster(WITH_PREEMPTION)
    for row in range(4):
        cluster.put(a_node(f"n{row}"))
    order = VictimOrder(cluster)
    for change in changes:
        match change:
            case ("place", number, node, priority, second, group):
                if cluster.nodes.row_of_pod(f"uid-p{number}") is None:
                    pod = a_started(f"p{number}", priority, second, group).with_node(f"n{node}")
                    cluster.nodes.place(pod, f"n{node}")
            case ("remove", number):
                if cluster.nodes.row_of_pod(f"uid-p{number}") is not None:
                    cluster.nodes.displace(f"uid-p{number}")
            case ("group", name, mode, priority):
                cluster.put(a_group(name, disruptionMode=mode, priority=priority))
            case ("no group", name):
                cluster.remove(PodGroup, f"default/{name}")
            case ("node", row):
                cluster.put(a_node(f"n{row}", labels={"topology.kubernetes.io/zone": f"z{len(changes) % 3}"}))
            case _:
                order.refresh()
        for priority in (0, 2, 9):
            order.refresh()
            found = [[pod.id for pod in entry[-1].pods] for entry in order.below(priority)]
            assert found == plain_victims(cluster, priority)
            assert order.has_below(priority) == bool(found)


# ---- sums and trials


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """A cluster with low pods on its nodes, some of them in groups and under a budget, and a gang that wants in."""
    nodes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    pod = st.tuples(
        st.integers(0, len(nodes) - 1),
        st.sampled_from(["500m", "1", "2"]),
        st.integers(0, 2),
        st.none() | st.integers(0, 2),
        st.sampled_from(["", "", "", "a", "b"]),
        st.booleans(),
    )
    return {
        "nodes": nodes,
        "pods": draw(st.lists(pod, max_size=10)),
        "modes": draw(st.tuples(st.sampled_from(["Pod", "PodGroup"]), st.integers(0, 3))),
        "allowed": draw(st.none() | st.integers(0, 2)),
        "member": draw(st.sampled_from(["500m", "1", "2"])),
        "members": draw(st.integers(1, 5)),
        "min_count": draw(st.none() | st.integers(1, 5)),
        "priority": draw(st.integers(1, 3)),
    }


def staged(case: dict[str, Any]) -> GangWorld:
    world = GangWorld(WITH_PREEMPTION)
    mode, priority = case["modes"]
    for name in "ab":
        world.driver.create(a_group(name, uid=f"uid-{name}", disruptionMode=mode, priority=priority))
    for number, cpu in enumerate(case["nodes"]):
        world.driver.create(a_node(f"n{number}", cpu=str(cpu), pods=6))
    free = [cpu * 1000 for cpu in case["nodes"]]
    for number, (node, cpu, its, second, group, protected) in enumerate(case["pods"]):
        free[node] -= {"500m": 500, "1": 1000, "2": 2000}[cpu]
        if free[node] >= 0:
            labels = {"app": "foo"} if protected else {}
            world.driver.create(a_started(f"p{number}", its, second, group, cpu, nodeName=f"n{node}", labels=labels))
    if case["allowed"] is not None:
        written = {
            "metadata": {"name": "foo", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "foo"}}},
            "status": {"disruptionsAllowed": case["allowed"]},
        }
        world.driver.create(msgspec.convert(written, PodDisruptionBudget))
    world.driver.settle()
    minimum = None if case["min_count"] is None else min(case["min_count"], case["members"])
    world.driver.create(a_group("gang", minimum, uid="uid-gang", priority=case["priority"]))
    for number in range(case["members"]):
        world.driver.create(a_member(f"m{number}", cpu=case["member"], priority=case["priority"]))
    return world


def victims_of_one_attempt(world: GangWorld) -> list[str]:
    found: list[Intent] = []
    world.scheduler.attempt()
    world.scheduler.carry_out(found.append)
    assert world.core.cache.check() == []
    return [intent.victim.name for intent in found if isinstance(intent, Evict)]


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_sums_find_the_victims_that_trials_find(case: dict[str, Any]) -> None:
    by_sums = victims_of_one_attempt(staged(case))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_preemption, "slots_for", lambda failure: None)
        assert victims_of_one_attempt(staged(case)) == by_sums
        patch.setattr(default_preemption, "ONE_BY_ONE", 0)
        assert victims_of_one_attempt(staged(case)) == by_sums


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_what_holds_whoever_leaves(case: dict[str, Any]) -> None:
    """The group fits once its victims have left; groups leave whole; no gang holds room for a part of it; victims have a
    lower priority; budgets are respected where others can leave instead."""
    world = staged(case)
    cluster = world.core.cluster
    budgets, pods = budgets_of(cluster), {pod.name: pod for pod in cluster.nodes.pods()}
    groups = {key: group for key, group in cluster.objects[PodGroup].items() if isinstance(group, PodGroup)}
    evicted: list[str] = []
    world.driver.on_evicted = lambda victim, preemptor: evicted.append(victim.name)
    minimum = 1 if case["min_count"] is None else min(case["min_count"], case["members"])
    for _ in range(30):
        world.wait(1)
        placed = sum(name.startswith("m") for name in world.where())
        assert placed == 0 or placed >= minimum
        assert world.core.cache.assumed_count == 0
    left = {pods[name].group_key for name in evicted if _leaves_whole(pods[name], groups)}
    assert {name for name, pod in pods.items() if pod.group_key in left and _leaves_whole(pod, groups)} <= set(evicted)
    if evicted:
        assert placed >= minimum
    for name in evicted:
        group = groups.get(pods[name].group_key or "")
        its = group.priority if group is not None and _leaves_whole(pods[name], groups) else pods[name].priority
        assert its < case["priority"]
    breaking = {pod.name for pod in pods.values() if any(budget.matches(pod) for budget in budgets)}
    lower = {name for name, pod in pods.items() if pod.priority < case["priority"] and pod.group_key is None}
    if budgets and minimum == case["members"] == 1 and len(breaking & set(evicted)) > budgets[0].allowed >= 0:
        # Then no single pod that is not protected made room on its own node.
        free = _free_milli(case, pods)
        need = {"500m": 500, "1": 1000, "2": 2000}[case["member"]]
        for name in lower - breaking:
            pod = pods[name]
            assert free[pod.spec.node_name] + _milli(pod) < need or name in evicted


def _leaves_whole(pod: Pod, groups: dict[str, PodGroup]) -> bool:
    group = groups.get(pod.group_key or "")
    return group is not None and group.spec.disruption_mode == "PodGroup"


def _milli(pod: Pod) -> int:
    return pod.shape.held["cpu"][0]


def _free_milli(case: dict[str, Any], pods: dict[str, Pod]) -> dict[str, int]:
    free = {f"n{number}": cpu * 1000 for number, cpu in enumerate(case["nodes"])}
    for pod in pods.values():
        free[pod.spec.node_name] -= _milli(pod)
    return free


def test_budgets_count_until_the_first_that_is_used_up() -> None:
    """A victim that broke one budget takes nothing from the budgets behind it."""
    cluster = Cluster(WITH_PREEMPTION)
    for name, allowed in (("one", 0), ("two", 1)):
        written = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "foo"}} if name == "one" else {"matchLabels": {"tier": "x"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        cluster.put(msgspec.convert(written, PodDisruptionBudget))
    both = a_pod("both", labels={"app": "foo", "tier": "x"})
    tier = [a_pod(f"tier-{i}", labels={"tier": "x"}) for i in range(2)]
    victims = [GroupVictim([pod], (0, True, 0, 0, place)) for place, pod in enumerate((both, *tier))]
    breaking, others = split_by_budgets(victims, KeptBudgets().of(cluster))
    assert [victim.pods[0].name for victim in breaking] == ["both", "tier-1"]
    assert [victim.pods[0].name for victim in others] == ["tier-0"]


@pytest.mark.parametrize(
    ("spec", "trials"),
    [
        ({}, 0),
        ({"topologySpreadConstraints": [{"maxSkew": 9, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}, 5),
        ({"host_ports": (80,)}, 5),
    ],
    ids=["sums decide", "spread", "ports"],
)
def test_trials_are_made_only_where_more_than_sums_decides(
    spec: dict[str, Any], trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four victims: one trial without all of them, and one for each that comes back."""
    made: list[MovedPods] = []
    move = PodsAside.move

    def noted(self: PodsAside, moved: MovedPods) -> None:
        made.append(moved)
        move(self, moved)

    monkeypatch.setattr(PodsAside, "move", noted)
    world = GangWorld(WITH_PREEMPTION)
    for number in range(2):
        world.driver.create(a_node(f"n{number}", cpu="2", labels={"z": str(number)}))
        for place in range(2):
            world.driver.create(a_started(f"p{number}{place}", 0, 1, "", nodeName=f"n{number}"))
    world.group(min_count=2, priority=PRIORITY, uid="uid-gang")
    world.members("a", "b", priority=PRIORITY, **spec)
    assert len(made) == trials
    world.wait(15)
    assert {"a", "b"} <= set(world.where())
    assert len(world.where()) == 4


def evicted_for_several(case: dict[str, Any], sizes: list[int]) -> tuple[list[str], dict[str, str]]:
    """Who leaves for gangs of these sizes that come one after another, and who is where in the end."""
    world = staged(case)
    evicted: list[str] = []
    world.driver.on_evicted = lambda victim, preemptor: evicted.append(victim.name)
    for number, size in enumerate(sizes):
        world.driver.create(a_group(f"g{number}", size, uid=f"uid-g{number}", priority=case["priority"] + number))
        for place in range(size):
            pod = a_member(f"g{number}-{place}", f"g{number}", cpu=case["member"], priority=case["priority"] + number)
            world.driver.create(pod)
        world.wait(4)
    return evicted, world.where()


@given(clusters(), st.lists(st.integers(1, 4), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_what_is_kept_serves_the_groups_that_follow(case: dict[str, Any], sizes: list[int]) -> None:
    by_sums = evicted_for_several(case, sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_preemption, "slots_for", lambda failure: None)
        assert evicted_for_several(case, sizes) == by_sums
