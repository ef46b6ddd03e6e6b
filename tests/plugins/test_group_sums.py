"""Slots for members of a pod group: counted by hand and by plain loops, and when sums do not decide."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_preemption import GPU, a_budget, failing, labelled

from build import a_cluster, a_node, a_pod
from gangs import WITH_PREEMPTION, a_group, a_member
from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.fit_errors import GroupFitError, GroupVictims, MovedPods
from mooring.framework.contract.points import ResourceDemand
from mooring.framework.contract.status import Rejection
from mooring.model.pod import Pod
from mooring.plugins.preemption import group_slots, victim_order
from mooring.plugins.preemption.default_preemption import NEVER, NO_VICTIMS, NOT_ENOUGH_ROOM, search_victims
from mooring.plugins.preemption.group_slots import (
    GainsByShape,
    KeptGains,
    Slots,
    come_back,
    first_to_leave,
    slots_for,
    victims_on,
)
from mooring.plugins.preemption.least_harm import SumsDecide, sums_decide
from mooring.plugins.preemption.victim_order import GroupVictim, VictimOrder
from mooring.plugins.preemption.victim_search import budgets_of

PRIORITY = 9


def members(count: int, **more: Any) -> tuple[Pod, ...]:
    return tuple(a_member(f"m{i}", **{"priority": PRIORITY, **more}) for i in range(count))


def a_failure(cluster: Cluster, *pods: Pod, enough: int | None = 1, priority: int = PRIORITY) -> GroupFitError:
    """A group whose first member fits nowhere while a pod takes all that each node has."""
    walls = [a_pod(f"wall-{name}", cpu="999") for name in cluster.nodes.row_book]
    for name, wall in zip([*cluster.nodes.row_book], walls, strict=True):
        cluster.nodes.place(wall, name)
    rejected = failing(pods[0], cluster)
    for wall in walls:
        cluster.nodes.displace(wall.id)
    return GroupFitError(a_group(priority=priority), pods, cluster, enough, rejected)


def counted(cluster: Cluster, *pods: Pod, **more: Any) -> Slots:
    found = slots_for(a_failure(cluster, *pods, **more))
    assert found is not None
    return found


def on(node: str, name: str, priority: int = 0, cpu: str | None = "1", **more: Any) -> Pod:
    return a_pod(name, cpu=cpu, priority=priority, nodeName=node, metadata={"uid": f"uid-{name}"}, **more)


# ---- how many slots there are


def five_nodes() -> Cluster:
    """For members with 1 CPU and 1Gi there are 3, 1, 0, 0 and 2 slots: by memory, pods, a taint, too much use, and CPUs."""
    cluster = a_cluster(
        a_node("memory", cpu="9", memory="3Gi"),
        a_node("pods", cpu="9", memory="9Gi", pods=2),
        a_node("taint", cpu="9", memory="9Gi", taints=["x=y:NoSchedule"]),
        a_node("used", cpu="1", memory="9Gi"),
        a_node("cpu", cpu="3500m", memory="9Gi"),
    )
    for pod in (on("pods", "a"), on("used", "b", cpu="5"), on("cpu", "c", cpu="1500m")):
        cluster.put(pod)
    return cluster


@pytest.mark.parametrize(("number", "total"), [(1, 3), (2, 5), (3, 6), (9, 6)])
def test_a_node_has_as_many_slots_as_its_scarcest_resource_and_no_more_than_there_are_members(
    number: int, total: int
) -> None:
    found = counted(five_nodes(), *members(number, memory="1Gi"))
    assert found.total == total
    by_hand = {"memory": 3, "pods": 1, "taint": 9, "used": 0, "cpu": 2}
    rows = found.nodes.row_book
    assert {name: found.on_row(row)[1] for name, row in rows.items()} == {
        name: min(number, slots) for name, slots in by_hand.items()
    }
    assert [name for name, row in rows.items() if not found.passing[row]] == ["taint"]
    gibi = 1 << 30
    assert found.on_row(rows["cpu"])[0] == [2000, 9 * gibi, 109]
    assert found.on_row(rows["used"])[0] == [-4000, 9 * gibi, 109]


@pytest.mark.parametrize(
    ("promised", "total"),
    [
        pytest.param(a_pod("x", cpu="1", priority=PRIORITY), 5, id="of the same priority it takes its room"),
        pytest.param(a_pod("x", cpu="1", priority=PRIORITY - 1), 6, id="of a lower priority it takes none"),
        pytest.param(a_pod("x", priority=PRIORITY), 6, id="without requests it takes a place that is not scarce"),
    ],
)
def test_pods_that_are_nominated_take_slots(promised: Pod, total: int) -> None:
    cluster = five_nodes()
    cluster.nominated.promise(promised, "cpu")
    assert counted(cluster, *members(9, memory="1Gi")).total == total


def test_a_pod_that_is_nominated_takes_one_of_the_places_for_pods() -> None:
    cluster = five_nodes()
    cluster.nominated.promise(a_pod("x", priority=PRIORITY), "pods")
    found = counted(cluster, *members(9, memory="1Gi"))
    assert found.total == 5
    assert found.on_row(cluster.nodes.row_book["pods"])[0][-1] == 0


# ---- where sums do not decide

SPREAD = {"maxSkew": 9, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
BY_NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["cpu"]}]}
ONE_NODE: dict[str, Any] = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [BY_NAME]}}
}
BEYOND_SUMS: dict[str, tuple[Pod, ...]] = {
    "members of two shapes": (*members(2), a_member("other", cpu="2", priority=PRIORITY)),
    "members of two priorities": (*members(2), a_member("other", priority=PRIORITY + 1)),
    "a rule that counts pods": members(2, topologySpreadConstraints=[SPREAD]),
    "host ports": members(2, host_ports=(80,)),
    "a narrow choice of nodes": members(2, affinity=ONE_NODE),
    "a resource that no node has": members(2, requests={GPU: "1"}),
}


@pytest.mark.parametrize("pods", BEYOND_SUMS.values(), ids=BEYOND_SUMS.keys())
def test_sums_do_not_decide_for_these_members(pods: tuple[Pod, ...]) -> None:
    assert slots_for(a_failure(five_nodes(), *pods)) is None


def test_sums_do_not_decide_where_more_than_the_number_of_members_matters() -> None:
    failure = a_failure(five_nodes(), *members(2))
    assert slots_for(failure) is not None
    assert slots_for(msgspec.structs.replace(failure, enough=None)) is None
    assert slots_for(msgspec.structs.replace(failure, rejected=None)) is None


@pytest.mark.parametrize(
    ("amount", "waived"),
    [
        pytest.param(1000, np.array([[True]]), id="devices can stand in for the resource"),
        pytest.param(0, None, id="nothing is compared"),
        pytest.param(500, None, id="a member takes more than is compared"),
    ],
)
def test_sums_do_not_decide_with_a_filter_that_compares_in_its_own_way(
    monkeypatch: pytest.MonkeyPatch, amount: int, waived: Any
) -> None:
    failure, decide = a_failure(five_nodes(), *members(2)), sums_decide

    def by_another_filter(*args: Any) -> SumsDecide | None:
        found = decide(*args)
        assert found is not None
        demand = ResourceDemand(found.demand.resources, np.array([[amount]]), waived)
        return msgspec.structs.replace(found, demand=demand)

    assert slots_for(failure) is not None
    monkeypatch.setattr(group_slots, "sums_decide", by_another_filter)
    assert slots_for(failure) is None


def test_sums_do_not_decide_where_a_sum_is_larger_than_its_cell() -> None:
    cluster = five_nodes()
    failure = a_failure(cluster, *members(2))
    index = cluster.nodes.amounts.resource_book["cpu"]
    before = int(cluster.nodes.amounts.requested[index, 0])
    for sum_shown, decides in (((1 << 61) - 1, True), (1 << 61, False), (before, True)):
        cluster.nodes.amounts.requested[index, 0] = sum_shown
        assert (slots_for(failure) is not None) is decides


def test_a_member_in_the_middle_of_a_resize_takes_another_amount_than_is_compared() -> None:
    """Its containers want 1 CPU, and their status says that they have 2: that is what a node loses by it."""
    status = {
        "containerStatuses": [
            {"name": "main", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}
        ]
    }
    pods = members(2, status=status)
    assert pods[0].shape.held["cpu"][0] != pods[0].shape.request["cpu"]
    assert slots_for(a_failure(five_nodes(), *pods)) is None


def test_what_scoring_counts_for_containers_without_requests_takes_no_slots() -> None:
    """Members and a pod on the node have a second container that requests nothing: scoring counts 100m for each."""
    both = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}, {"name": "idle"}]
    cluster = a_cluster(a_node("n", cpu="3"))
    cluster.put(a_pod("a", nodeName="n", containers=both, metadata={"uid": "uid-a"}))
    found = counted(cluster, *members(3, containers=both))
    assert (found.total, found.amounts) == (2, [1000, 1])
    (pod,) = cluster.nodes.pods_on[0]
    assert found.without([2000, 9], pod) == [3000, 10]
    found.move(GroupVictim([pod], (0, True, -1, 0, 0)), 1)
    assert found.total == 3


# ---- pods that leave and come back

NODE = st.tuples(st.integers(0, 5), st.integers(0, 4), st.booleans())
"""CPUs, places for pods, and whether members may go there."""


@st.composite
def boards(draw: st.DrawFn) -> tuple[Slots, list[GroupVictim], int]:
    """Nodes with pods in ones and twos that leave together, and how many slots are enough."""
    nodes = draw(st.lists(NODE, min_size=1, max_size=4))
    cluster = a_cluster(*(a_node(f"n{i}", cpu=str(cpus), pods=pods) for i, (cpus, pods, _) in enumerate(nodes)))
    pod = st.tuples(st.integers(0, len(nodes) - 1), st.integers(0, 3))
    victims = []
    for place, pods in enumerate(draw(st.lists(st.lists(pod, min_size=1, max_size=2), max_size=6))):
        there = [on(f"n{node}", f"v{place}-{i}", cpu=str(cpus)) for i, (node, cpus) in enumerate(pods)]
        for each in there:
            cluster.put(each)
        victims.append(GroupVictim(there, (0, True, 0, 0, place)))
    amount, most = draw(st.integers(1, 2)) * 1000, draw(st.integers(1, 4))
    table, height = cluster.nodes, cluster.nodes.height
    free = np.vstack(
        (
            (table.amounts.allocatable - table.amounts.requested)[0, :height],
            (table.allowed_pods - table.pod_count)[:height],
        )
    )
    passing = np.array([may for _, _, may in nodes])
    slots = Slots(table, ("cpu",), [amount, 1], free, passing, most, 0)
    slots.total = plain_total(slots, victims, set())
    return slots, victims, draw(st.integers(0, 6))


def plain_total(slots: Slots, victims: list[GroupVictim], away: set[int]) -> int:
    """The slots on all nodes while the victims with these places are away, from the beginning."""
    gone = {pod.id for place in away for pod in victims[place].pods}
    total = 0
    for row in np.flatnonzero(slots.passing).tolist():
        node = slots.nodes.nodes[row]
        assert node is not None and node.status.allocatable is not None
        there = [pod for pod in slots.nodes.pods_on[row] if pod.id not in gone]
        cpus = int(node.status.allocatable["cpu"]) - sum(
            pod.shape.held["cpu"][0] // 1000 for pod in there if "cpu" in pod.shape.held
        )
        places = int(node.status.allocatable["pods"]) - len(there)
        total += min(slots.most, max(0, min(cpus // (slots.amounts[0] // 1000), places)))
    return total


@given(boards())
def test_who_leaves_and_comes_back_is_what_a_plain_loop_says(board: tuple[Slots, list[GroupVictim], int]) -> None:
    slots, victims, enough = board
    place, away = len(victims), set[int]()
    while plain_total(slots, victims, away) < enough and place:
        place -= 1
        away.add(place)
    first = first_to_leave(slots, victims, enough)
    assert slots.total == plain_total(slots, victims, away)
    if slots.total < enough:
        assert first is None
        return
    assert first == place
    for each in range(place, len(victims)):
        if plain_total(slots, victims, away - {each}) >= enough:
            away.remove(each)
    assert come_back(slots, victims[place:], enough) == [victims[each] for each in sorted(away)]
    assert slots.total == plain_total(slots, victims, away)


# ---- where nodes gain their first slot


def with_order(cluster: Cluster) -> VictimOrder:
    order = VictimOrder(cluster)
    order.refresh()
    return order


def three_rows() -> Cluster:
    """Members want 2 CPUs. Node a gains a slot when b1 leaves as well, node b at once, and node c not below priority 9."""
    cluster = Cluster(WITH_PREEMPTION)
    for node in (a_node("a", cpu="2"), a_node("b", cpu="2"), a_node("c", cpu="2"), a_node("empty", cpu="2")):
        cluster.put(node)
    for pod in (
        *(on("a", "a1", 3, "1"), on("a", "a2", 1, "1")),
        *(on("b", "b1", 2, "2"), on("b", "b2", 0, None)),
        *(on("c", "c1", PRIORITY, "1"), on("c", "c2", 0, "1")),
    ):
        cluster.put(pod)
    return cluster


def gains_of(kept: KeptGains) -> list[tuple[str, int]]:
    return [(entry[-1].pods[0].name, row) for entry, row in kept._sorted]


def test_a_node_gains_at_the_victim_whose_leaving_makes_the_first_slot() -> None:
    cluster = three_rows()
    slots, order = counted(cluster, *members(3, cpu="2")), with_order(cluster)
    kept = KeptGains(order, PRIORITY)
    kept.refresh(slots)
    assert gains_of(kept) == [("a1", 0), ("b1", 1)]
    for priority, found in ((10, [("c1", 2), ("a1", 0), ("b1", 1)]), (3, [("b1", 1)]), (2, []), (0, [])):
        other = KeptGains(order, priority)
        other.refresh(slots)
        assert gains_of(other) == found


def test_of_the_nodes_that_pass_those_that_gain_at_the_least_important_victims_come_first() -> None:
    cluster = three_rows()
    kept = KeptGains(with_order(cluster), 10)
    kept.refresh(counted(cluster, *members(3, cpu="2")))
    everywhere = np.ones(4, np.bool_)
    assert [kept.rows(count, everywhere) for count in (1, 2, 3, 4)] == [[1], [1, 0], [1, 0, 2], [1, 0, 2]]
    assert kept.rows(2, np.arange(4) != 0) == [1, 2]
    assert kept.rows(2, ~everywhere) == []


def test_only_nodes_whose_pods_changed_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = three_rows()
    order, failure = with_order(cluster), a_failure(cluster, *members(3, cpu="2"))
    kept, looked, gain_of = KeptGains(order, PRIORITY), list[int](), KeptGains._gain_of

    def noted(self: KeptGains, row: int, slots: Slots) -> Any:
        looked.append(row)
        return gain_of(self, row, slots)

    def look() -> tuple[list[int], list[tuple[str, int]]]:
        order.refresh()
        slots = slots_for(failure)
        assert slots is not None
        looked.clear()
        kept.refresh(slots)
        return [*looked], gains_of(kept)

    monkeypatch.setattr(KeptGains, "_gain_of", noted)
    both = [("a1", 0), ("b1", 1)]
    assert look() == ([0, 1, 2, 3], both)
    assert look() == ([], both)
    cluster.nodes.displace("uid-c1")
    assert look() == ([2], [*both, ("c2", 2)])
    cluster.nodes.displace("uid-b1")
    assert look() == ([1], [("a1", 0), ("c2", 2)]), "there is a slot before anybody leaves"
    cluster.put(on("b", "b3", 4, "2"))
    assert look() == ([1], [("b3", 1), ("a1", 0), ("c2", 2)])
    cluster.nodes.displace("uid-a2")
    cluster.put(on("c", "c3", 1, "2"))
    assert look() == ([0, 2], [("b3", 1), ("a1", 0), ("c3", 2)])
    order.touches.note_all()
    assert look() == ([0, 1, 2, 3], [("b3", 1), ("a1", 0), ("c3", 2)])


def test_victims_on_rows_are_those_of_lower_priority_the_most_important_first() -> None:
    order = with_order(three_rows())
    named = [[pod.name for pod in victim.pods] for victim in victims_on(order, [2, 0], PRIORITY)]
    assert named == [["a1"], ["a2"], ["c2"]]
    assert [victim.pods[0].name for victim in victims_on(order, [2, 0], PRIORITY + 1)] == ["c1", "a1", "a2", "c2"]
    assert victims_on(order, [], PRIORITY) == []


def test_a_group_on_two_rows_is_one_victim() -> None:
    cluster = three_rows()
    cluster.put(a_group("pair", priority=1, disruptionMode="PodGroup"))
    for node in "ab":
        cluster.put(a_member(f"p-{node}", "pair", nodeName=node))
    order = with_order(cluster)
    found = victims_on(order, [0, 1], PRIORITY)
    assert [[pod.name for pod in victim.pods] for victim in found] == [["a1"], ["b1"], ["p-a", "p-b"], ["a2"], ["b2"]]
    assert [[pod.name for pod in pods] for _, pods in order.on_row(1)] == [["b1"], ["p-b"], ["b2"]]


# ---- the search


def searched(failure: GroupFitError, fits: Any = lambda away: True) -> tuple[Any, list[set[str]]]:
    """What a search comes to, and who is away at each of its questions. `fits` answers them."""
    away: set[str] = set()
    asked: list[set[str]] = []
    gains = GainsByShape(VictimOrder(failure.cluster))
    search, answer = search_victims(failure, gains, budgets_of(failure.cluster)), None
    try:
        while True:
            moved: MovedPods = search.send(answer)
            away = (away | {pod.name for pod in moved.leave}) - {pod.name for pod in moved.come_back}
            asked.append(set(away))
            answer = None if fits(away) else NOT_ENOUGH_ROOM
    except StopIteration as end:
        found: GroupVictims | Rejection = end.value
        return [pod.name for pod in found.pods] if isinstance(found, GroupVictims) else found, asked


def two_full_nodes(*more: Any) -> Cluster:
    """Two nodes of 2 CPUs with a pod of 1 CPU for each of the priorities 4, 3 and 2, 1."""
    cluster = Cluster(WITH_PREEMPTION)
    pods = (on("a", "p4", 4), on("a", "p3", 3), on("b", "p2", 2, labels={"app": "web"}), on("b", "p1", 1))
    for item in (a_node("a", cpu="2"), a_node("b", cpu="2"), *pods, *more):
        cluster.put(item)
    return cluster


@pytest.mark.parametrize(
    ("number", "enough", "leave"),
    [
        (1, 1, ["p1"]),
        (2, 2, ["p2", "p1"]),
        (3, 3, ["p3", "p2", "p1"]),
        (4, 4, ["p4", "p3", "p2", "p1"]),
        (4, 1, ["p1"]),
        (5, 5, NOT_ENOUGH_ROOM),
    ],
)
def test_sums_tell_who_leaves_without_a_question(number: int, enough: int, leave: Any) -> None:
    failure = a_failure(two_full_nodes(), *members(number), enough=enough)
    assert searched(failure) == (leave, [])


def test_a_gang_that_needs_more_members_than_were_tried_gets_no_room() -> None:
    failure = a_failure(two_full_nodes(), *members(2), enough=3)
    assert searched(failure) == (NOT_ENOUGH_ROOM, [])


def test_a_pod_of_a_budget_stays_where_another_can_leave() -> None:
    """Otherwise p1 and p2 would leave."""
    budget = a_budget("x", labelled("web"), 0)
    assert searched(a_failure(two_full_nodes(budget), *members(2), enough=2)) == (["p3", "p1"], [])
    assert searched(a_failure(two_full_nodes(budget), *members(4), enough=4))[0] == ["p4", "p3", "p2", "p1"]


@pytest.mark.parametrize(("priority", "answer"), [(0, NO_VICTIMS), (1, NO_VICTIMS), (2, ["p1"])])
def test_only_pods_of_lower_priority_than_the_group_leave(priority: int, answer: Any) -> None:
    failure = a_failure(two_full_nodes(), *members(1), priority=priority)
    assert searched(failure) == (answer, [])


def test_one_member_that_may_not_preempt_is_enough_to_end_the_search() -> None:
    pods = (*members(1), a_member("never", priority=PRIORITY, preemptionPolicy="Never"))
    assert searched(a_failure(two_full_nodes(), *pods, enough=2)) == (NEVER, [])


@pytest.mark.parametrize("enough", [1, 2])
def test_trials_decide_where_the_group_fits_by_sums_already(enough: int) -> None:
    """Two slots are free: then something else than room has kept the group out."""
    cluster = two_full_nodes(a_node("c", cpu="2"))
    found, asked = searched(a_failure(cluster, *members(3), enough=enough), lambda away: "p2" in away)
    assert found == ["p2"]
    assert asked == [
        {"p1", "p2", "p3", "p4"},
        *({"p1", "p2", "p3"}, {"p1", "p2"}, {"p1"}, {"p2"}),
    ]


def test_sums_decide_where_one_slot_is_missing() -> None:
    cluster = two_full_nodes(a_node("c", cpu="2"))
    assert searched(a_failure(cluster, *members(3), enough=3)) == (["p1"], [])


def test_only_those_are_tried_that_have_to_leave_by_sums_where_a_member_is_nominated() -> None:
    cluster = two_full_nodes()
    pods = members(2)
    cluster.nominated.promise(pods[1], "b")
    found, asked = searched(a_failure(cluster, *pods, enough=1), lambda away: "p1" in away)
    assert (found, asked) == (["p1"], [{"p1", "p2"}, {"p1"}, set()])


def test_a_pod_that_is_nominated_and_no_member_needs_no_trial() -> None:
    cluster = two_full_nodes()
    cluster.nominated.promise(a_pod("x", cpu="1", priority=PRIORITY), "b")
    assert searched(a_failure(cluster, *members(2), enough=1)) == (["p2", "p1"], [])


# ---- the order that is kept


def test_only_rows_whose_victims_changed_are_noted() -> None:
    cluster = two_full_nodes()
    order = with_order(cluster)

    def noted(change: Any) -> list[int] | None:
        position = order.touches.end
        change()
        order.refresh()
        return order.touches.since(position)

    assert noted(lambda: None) == []
    assert noted(lambda: cluster.nodes.displace("uid-p3")) == [0]
    assert noted(lambda: cluster.put(on("b", "new"))) == [1]
    assert noted(lambda: cluster.put(a_group("pair", disruptionMode="PodGroup"))) == []
    assert noted(lambda: cluster.put(a_member("one", "pair", nodeName="a"))) == [0]
    assert noted(lambda: cluster.put(a_member("two", "pair", nodeName="b"))) == [1, 0], (
        "its place in the order is another"
    )
    assert noted(lambda: cluster.put(a_group("pair", 2, disruptionMode="PodGroup"))) == [], "the policy does not matter"
    assert noted(lambda: cluster.put(a_group("pair", disruptionMode="PodGroup", priority=3))) == [0, 1]
    assert noted(lambda: cluster.put(a_group("pair", priority=3))) == [0, 1]
    assert noted(lambda: cluster.put(a_node("c"))) is None, "nodes have other places"
    assert noted(lambda: cluster.nodes.remove_node("c")) is None


def test_the_order_is_made_anew_when_the_logs_do_not_reach_back_far_enough() -> None:
    cluster = two_full_nodes(a_member("one", "pair", nodeName="a"), a_member("two", "pair", nodeName="b"))
    order = with_order(cluster)

    def victims() -> list[list[str]]:
        order.refresh()
        return [[pod.name for pod in entry[-1].pods] for entry in order.below(2)]

    assert victims() == [["p1"], ["one"], ["two"]]
    cluster.put(a_group("pair", disruptionMode="PodGroup"))
    cluster.group_changes.forget()
    assert victims() == [["p1"], ["one", "two"]]
    cluster.nodes.displace("uid-two")
    cluster.nodes.touches.note_all()
    assert victims() == [["p1"], ["one"]]


def test_groups_of_pods_that_have_left_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_order, "_FEW_GROUPS", 3)
    cluster = Cluster(WITH_PREEMPTION)
    for item in (a_node("a"), on("a", "stays")):
        cluster.put(item)
    order = with_order(cluster)
    known = []
    for number in range(9):
        cluster.put(a_member(f"m{number}", f"g{number}", nodeName="a"))
        order.refresh()
        cluster.nodes.displace(f"uid-m{number}")
        order.refresh()
        known.append(len(order._seen))
    assert known == [1, 2, 3, 4, 5, 6, 1, 2, 3]
    assert [entry[-1].pods[0].name for entry in order.below(PRIORITY)] == ["stays"]


def test_pods_on_a_node_that_is_not_there_are_no_victims() -> None:
    cluster = two_full_nodes(on("gone", "lost"))
    order = with_order(cluster)
    cluster.put(on("gone", "lost-too"))
    order.refresh()
    assert [entry[-1].pods[0].name for entry in order.below(PRIORITY)] == ["p4", "p3", "p2", "p1"]
    cluster.put(a_node("gone"))
    order.refresh()
    assert [entry[-1].pods[0].name for entry in order.below(2)] == ["p1", "lost", "lost-too"]


def test_a_group_on_two_rows_gains_on_both_after_one_of_its_pods_was_replaced() -> None:
    """The group has the place that it had before, and other pods."""
    cluster = Cluster(WITH_PREEMPTION)
    for item in (a_node("a", cpu="1"), a_node("b", cpu="1"), a_group("pair", disruptionMode="PodGroup")):
        cluster.put(item)
    for name, node in (("one", "a"), ("two", "b")):
        cluster.put(a_member(name, "pair", nodeName=node))
    order, failure = with_order(cluster), a_failure(cluster, *members(2))
    kept = KeptGains(order, PRIORITY)
    for second in ("two", "three"):
        slots = slots_for(failure)
        assert slots is not None
        order.refresh()
        kept.refresh(slots)
        assert [([pod.name for pod in entry[-1].pods], row) for entry, row in kept._sorted] == [
            (["one", second], 0),
            (["one", second], 1),
        ]
        cluster.nodes.displace(f"uid-{second}")
        cluster.put(a_member("three", "pair", nodeName="b"))
