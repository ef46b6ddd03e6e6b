"""The search for victims of a pod group: the kept order agrees with a plain loop; what holds whoever leaves."""

from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from gangs import GROUP_GATES, GangWorld, a_group, a_member
from how_many import examples
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import start_ns
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget, PodGroup
from mooring.plugins.preemption.group_preemption import VictimOrder, VictimUnit, split_by_budgets
from mooring.plugins.preemption.victim_search import KeptBudgets

PRIORITY = 100


def plain_victims(cluster: Cluster, priority: int) -> list[list[str]]:
    """The twin of VictimOrder: a loop over all pods, node by node."""
    units: dict[str, list[Pod]] = {}
    for name in cluster.nodes.order.round_robin():
        for pod in cluster.nodes.pods_on[cluster.nodes.row_book[name]]:
            group = cluster.pod_group(pod.group_key or "")
            is_whole = group is not None and group.is_disrupted_together
            units.setdefault(f"group {pod.group_key}" if is_whole else pod.id, []).append(pod)
    found = []
    for place, pods in enumerate(units.values()):
        group = cluster.pod_group(pods[0].group_key or "")
        its = pods[0].priority if group is None else group.priority
        if its < priority:
            named = pods[0].spec.scheduling_group is not None
            key_of = (-its, not named, -len(pods) if named else 0, min(map(start_ns, pods)), place)
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
        st.tuples(st.just("group"), st.sampled_from("abc"), st.sampled_from(["single", "all"]), st.integers(0, 3)),
        st.tuples(st.just("no group"), st.sampled_from("abc")),
        st.tuples(st.just("node"), st.integers(0, 3)),
        st.tuples(st.just("look")),
    ),
    max_size=40,
)


@example([("group", "a", "single", 1), ("place", 0, 0, 0, None, "a"), ("group", "a", "all", 3), ("no group", "a")])
@given(CHANGES)
def test_the_kept_order_is_that_of_a_plain_loop(changes: list[tuple[Any, ...]]) -> None:
    cluster = Cluster(GROUP_GATES)
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
                cluster.put(a_group(name, disruptionMode={mode: {}}, priority=priority))
            case ("no group", name):
                cluster.remove(PodGroup, f"default/{name}")
            case ("node", row):
                cluster.put(a_node(f"n{row}", labels={"topology.kubernetes.io/zone": f"z{len(changes) % 3}"}))
            case _:
                order.refresh()
        for priority in (0, 2, 9):
            order.refresh()
            found = [[pod.id for pod in unit.pods] for unit in order.below(priority)]
            assert found == plain_victims(cluster, priority)
        named = (pod for pod in cluster.nodes.pods() if pod.group_key is not None)
        assert order.member_rows == {cluster.nodes.row_of_pod(pod.id) for pod in named}


# ---- searches


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
        "modes": draw(st.tuples(st.sampled_from(["single", "all"]), st.integers(0, 3))),
        "allowed": draw(st.none() | st.integers(0, 2)),
        "member": draw(st.sampled_from(["500m", "1", "2"])),
        "members": draw(st.integers(1, 5)),
        "min_count": draw(st.none() | st.integers(1, 5)),
        "priority": draw(st.integers(1, 3)),
    }


def staged(case: dict[str, Any]) -> GangWorld:
    world = GangWorld(GROUP_GATES)
    mode, priority = case["modes"]
    for name in "ab":
        world.driver.create(a_group(name, uid=f"uid-{name}", disruptionMode={mode: {}}, priority=priority))
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


@given(clusters())
@settings(max_examples=examples(200), deadline=None)
def test_what_holds_whoever_leaves(case: dict[str, Any]) -> None:
    """The group fits once its victims have left; groups leave whole; no gang holds room for a part of it; victims have a
    lower priority."""
    world = staged(case)
    cluster = world.core.cluster
    pods = {pod.name: pod for pod in cluster.nodes.pods()}
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
        assert (pods[name].priority if group is None else group.priority) < case["priority"]


def _leaves_whole(pod: Pod, groups: dict[str, PodGroup]) -> bool:
    group = groups.get(pod.group_key or "")
    return group is not None and group.is_disrupted_together


def test_budgets_count_until_the_first_that_is_used_up() -> None:
    """A victim that broke one budget takes nothing from the budgets behind it."""
    cluster = Cluster(GROUP_GATES)
    for name, allowed in (("one", 0), ("two", 1)):
        written = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "foo"}} if name == "one" else {"matchLabels": {"tier": "x"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        cluster.put(msgspec.convert(written, PodDisruptionBudget))
    both = a_pod("both", labels={"app": "foo", "tier": "x"})
    tier = [a_pod(f"tier-{i}", labels={"tier": "x"}) for i in range(2)]
    units = [VictimUnit([pod], (0, 0, 0, 0, place)) for place, pod in enumerate((both, *tier))]
    breaking, others = split_by_budgets(units, KeptBudgets().of(cluster))
    assert [(unit.pods[0].name, violations) for unit, violations in breaking] == [("both", 1), ("tier-1", 1)]
    assert [unit.pods[0].name for unit in others] == ["tier-0"]
    whole = VictimUnit([both, *tier], (0, 0, 0, 0, 0))
    assert split_by_budgets([whole], KeptBudgets().of(cluster)) == ([(whole, 2)], [])
