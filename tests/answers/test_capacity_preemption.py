"""`capacity` with preemption: how many copies fit by evicting pods of lower priority, and who has to leave.

The truth is counted by hand, by a sum over nodes, or by a simulation in which the copies come one after another.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import validate
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group

import mooring
from how_many import examples
from mooring.answers.capacity import preempting
from mooring.answers.capacity.capacity import Capacity, capacity
from mooring.answers.capacity.filling import pod_copies
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.sim.simulated_cluster import SimulatedCluster

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/capacity.v1.json").read_text())
SENTENCE = (
    "Preemption is not counted, and {} a lower priority; --preempt (in Python preempt=True) counts pods that fit by "
    "evicting such pods."
)


def counted(loaded: LoadedCluster, pod: Written, **more: Any) -> Capacity:
    answer = capacity(loaded, pod, **more)
    validate(answer.to_dict(), SCHEMA)
    return answer


def victims_of(answer: Capacity) -> list[tuple[str, str]]:
    assert answer.preempted is not None
    return [(victim.pod, victim.node) for victim in answer.preempted.victims]


def a_batch_cluster() -> LoadedCluster:
    """Two nodes of 4 CPUs: n1 has 3 batch pods of 1 CPU, n2 has a batch pod of 3 CPUs and one of priority 100."""
    return load(
        [
            a_node("n1"),
            a_node("n2"),
            *(a_pod(f"batch-{i}", node="n1", priority=-10 * i) for i in range(3)),
            a_pod("big", "3", node="n2", priority=0),
            a_pod("keep", "1", node="n2", priority=100),
        ]
    )


# ---- counted by hand


def test_copies_that_fit_by_preemption_are_counted_with_their_victims() -> None:
    # Without preemption no copy of 2 CPUs fits: n1 has 1 CPU left, n2 none. The first copy takes the least important victim,
    # whose priority is the lowest: batch-2. The second one fits on n1 without batch-0 and batch-1 (2 CPUs), or on n2 without
    # big: the highest priority of the victims is 0 on both, the sum of priorities is less on n2 (0 + offset, one pod).
    # The third one takes batch-0 and batch-1. Then nobody of lower priority is left who would be enough.
    answer = counted(a_batch_cluster(), a_pod("web", "2", priority=50), preempt=True)
    assert (answer.fits, {budget.node: budget.pods for budget in answer.nodes}) == (3, {"n1": 2, "n2": 1})
    assert victims_of(answer) == [
        ("default/batch-2", "n1"),
        ("default/big", "n2"),
        ("default/batch-0", "n1"),
        ("default/batch-1", "n1"),
    ]
    assert answer.summary() == [
        "Pod default/web: 3 more pods fit on 2 of 2 nodes.",
        "3 of them fit by preemption, which evicts 4 pods: default/batch-2, default/big, default/batch-0, default/batch-1.",
        "What stops the next one: 2 nodes: Insufficient cpu (wants 2, largest free 1 on n2).",
    ]
    assert answer.to_dict()["preemption"] == {
        "counted": True,
        "lowerPriority": 4,
        "fits": 3,
        "victims": [
            {"pod": f"default/{pod}", "node": node, "priority": priority, "preemptor": "Pod default/web"}
            for pod, node, priority in (
                ("batch-2", "n1", -20),
                ("big", "n2", 0),
                ("batch-0", "n1", 0),
                ("batch-1", "n1", -10),
            )
        ],
        "brokenBudgets": 0,
        "ending": [],
    }
    assert answer.to_dict()["notes"] == []
    table = answer.tables()[-1]
    assert (table.title, table.columns) == ("Victims", ("pod", "node", "priority", "leaves for"))
    assert table.rows[0] == ("default/batch-2", "n1", -20, "Pod default/web")
    assert answer.to_frame("victims")["pod"].tolist() == [pod for pod, _ in victims_of(answer)]


def test_without_the_option_the_answer_says_that_preemption_is_not_counted() -> None:
    answer = counted(a_batch_cluster(), a_pod("web", "1", priority=50))
    assert answer.fits == 1
    assert answer.summary() == [
        "Pod default/web: 1 more pod fits on 1 of 2 nodes.",
        SENTENCE.format("4 pods on nodes have"),
        "What stops the next one: 2 nodes: Insufficient cpu (wants 1, largest free 0 on n1).",
    ]
    told = answer.to_dict()
    assert told["notes"] == [SENTENCE.format("4 pods on nodes have")]
    assert told["preemption"] == {
        "counted": False,
        "lowerPriority": 4,
        "fits": 0,
        "victims": [],
        "brokenBudgets": 0,
        "ending": [],
    }


def test_one_pod_of_lower_priority_has_its_own_verb() -> None:
    answer = counted(a_batch_cluster(), a_pod("web", "1", priority=-15))
    assert answer.summary()[1] == SENTENCE.format("1 pod on nodes has")


@pytest.mark.parametrize(
    "spec",
    [{"priority": -20}, {"priority": 50, "preemptionPolicy": "Never"}, {"priority": 50, "schedulerName": "another"}],
    ids=["no pod has a lower priority", "the pod never preempts", "no profile schedules the pod"],
)
def test_a_pod_that_cannot_preempt_is_counted_without_a_word_about_it(spec: Written) -> None:
    answer = counted(a_batch_cluster(), a_pod("web", "1", **spec))
    assert answer.preempted is None and len(answer.summary()) == 2
    assert "preemption" not in answer.to_dict()


def test_a_profile_without_default_preemption_does_not_preempt() -> None:
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    off = {"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}
    loaded = load([a_node("n1"), a_pod("low", "4", node="n1")], config={**header, "profiles": [off]})
    assert counted(loaded, a_pod("web", priority=50)).preempted is None
    assert counted(loaded, a_pod("web", priority=50), preempt=True).fits == 0


def test_a_count_in_which_nobody_has_to_leave_says_so() -> None:
    answer = counted(load([a_node("n1")]), a_pod("web", "2", priority=50), preempt=True)
    assert (answer.fits, answer.summary()[1]) == (2, "No pod fits by preemption.")


def test_the_limit_ends_the_count_before_more_pods_leave() -> None:
    answer = counted(a_batch_cluster(), a_pod("web", "2", priority=50), preempt=True, most=1)
    assert (answer.fits, answer.limit.most, victims_of(answer)) == (1, 1, [("default/batch-2", "n1")])


def test_no_copy_is_evicted_for_a_copy_of_higher_priority() -> None:
    # In each turn one web of priority 10 and one db of priority 20 come, 2 CPUs each, to 4 CPUs that low takes.
    loaded = load([a_node("n1"), a_pod("low", "4", node="n1", priority=0)])
    mix = [a_pod("db", "2", priority=20)]
    answer = counted(loaded, a_pod("web", "2", priority=10), mix=mix, preempt=True)
    assert dict(answer.by_kind) == {"Pod default/web": 1, "Pod default/db": 1}
    assert victims_of(answer) == [("default/low", "n1")]
    # With an even number of places for an odd turn, db would evict a web that was counted: the count ends instead.
    two_db = counted(loaded, a_pod("web", "2", priority=10), mix=[(mix[0], 2)], preempt=True)
    assert dict(two_db.by_kind) == {"Pod default/web": 1, "Pod default/db": 1}
    assert two_db.limit.pod == "Pod default/db"


def test_a_disruption_budget_counts_down_with_each_victim() -> None:
    # The budget allows one disruption. The first copy evicts one of the two protected pods without a word; the second one
    # would break the budget, or evicts the pod of n3, which has a higher priority but no budget: budgets come first.
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    }
    protected: Written = {"labels": {"app": "db"}, "priority": 0}
    nodes = [a_node(f"n{i}", "1") for i in (1, 2, 3)]
    pods = [a_pod("db-1", node="n1", **protected), a_pod("db-2", node="n2", **protected)]
    other = a_pod("other", node="n3", priority=5)
    answer = counted(load([*nodes, *pods, other, budget]), a_pod("web", priority=50), preempt=True)
    assert answer.fits == 3 and answer.preempted is not None
    assert victims_of(answer)[1] == ("default/other", "n3")
    assert answer.preempted.broken_budgets == 1
    assert answer.summary()[1].endswith("; disruption budgets protect 1 of them.")


def test_a_nominated_pod_of_lower_priority_loses_its_room_and_one_of_higher_priority_keeps_it() -> None:
    def waiting(priority: int) -> Written:
        pod = a_pod("waiting", "2", priority=priority)
        return {**pod, "status": {"phase": "Pending", "nominatedNodeName": "n1"}}

    def fits(priority: int) -> int:
        loaded = load([a_node("n1"), a_pod("low", "3", node="n1"), waiting(priority)])
        return counted(loaded, a_pod("web", "1", priority=50), preempt=True).fits

    assert (fits(10), fits(90)) == (4, 2)


# ---- pods that are being deleted already: preemption may choose them, and deletes nobody twice


def ending(pod: Written) -> Written:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return {**pod, "metadata": {**pod["metadata"], **gone}}


WAITS = "Some of the pods fit only when pods that are being deleted already are gone: default/old."


def test_a_pod_that_is_being_deleted_gives_its_room_and_is_no_victim() -> None:
    # Both nodes have 1 CPU left of 4. The first copy of 2 CPUs is nominated to n1, where the priority of the victim is
    # lower; old is being deleted, so nobody is evicted. The second copy fits beside the first one. The third copy evicts low,
    # and the fourth fits beside it.
    nodes = [a_node("n1"), a_node("n2"), ending(a_pod("old", "3", node="n1"))]
    answer = counted(
        load([*nodes, a_pod("low", "3", node="n2", priority=1)]), a_pod("web", "2", priority=5), preempt=True
    )
    assert (answer.fits, victims_of(answer)) == (4, [("default/low", "n2")])
    assert answer.summary()[1:3] == ["1 of them fits by preemption, which evicts 1 pod: default/low.", WAITS]
    assert answer.to_dict()["preemption"]["ending"] == ["default/old"]


def test_a_disruption_budget_does_not_protect_a_pod_that_is_being_deleted() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    }
    old = ending(a_pod("old", "4", node="n1", labels={"app": "db"}))
    answer = counted(load([a_node("n1"), old, budget]), a_pod("web", "2", priority=5), preempt=True)
    assert (answer.fits, victims_of(answer)) == (2, [])
    assert answer.preempted is not None and answer.preempted.broken_budgets == 0
    assert answer.summary()[1:3] == ["No pod fits by preemption.", WAITS]


@pytest.mark.parametrize("size", [None, 2], ids=["single pods", "a gang"])
def test_without_the_option_a_pod_that_is_being_deleted_is_none_that_could_be_evicted(size: int | None) -> None:
    # By hand: of two pods of lower priority one could be evicted, and without it none.
    nodes, old = [a_node("n1"), a_node("n2")], ending(a_pod("old", "3", node="n1"))
    both = load([*nodes, old, a_pod("low", "3", node="n2", priority=1)], feature_gates=GROUP_GATES)
    web = a_pod("web", "2", priority=5)
    assert counted(both, web, gang=size).summary()[1] == SENTENCE.format("1 pod on nodes has")
    assert counted(load([*nodes, old], feature_gates=GROUP_GATES), web, gang=size).preempted is None


@pytest.mark.parametrize("size", [None, 2], ids=["single pods", "a gang"])
@pytest.mark.parametrize("spec", [{"priority": 0}, {"priority": 5, "preemptionPolicy": "Never"}])
def test_a_pod_that_may_not_preempt_is_not_nominated_to_room_that_is_freed(spec: Written, size: int | None) -> None:
    there = load([a_node("n1"), ending(a_pod("old", "3", node="n1"))], feature_gates=GROUP_GATES)
    assert counted(there, a_pod("web", "2", **spec), preempt=True, gang=size).fits == 0


def test_a_gang_waits_for_pods_that_are_being_deleted() -> None:
    # Each node has room for one gang of two when its pod is gone: old leaves by itself, low is evicted.
    nodes = [a_node("n1"), a_node("n2"), ending(a_pod("old", "3", node="n1"))]
    there = load([*nodes, a_pod("low", "3", node="n2", priority=1)], feature_gates=GROUP_GATES)
    answer = counted(there, a_pod("worker", "2", priority=5), gang=2, preempt=True)
    assert (answer.fits, victims_of(answer)) == (4, [("default/low", "n2")])
    assert answer.summary()[1:3] == ["2 of them fit by preemption, which evicts 1 pod: default/low.", WAITS]


# ---- gangs


def test_gangs_evict_pods_of_lower_priority() -> None:
    loaded = load(
        [a_node("n1"), a_node("n2"), a_pod("low", "3", node="n1"), a_pod("high", "3", node="n2", priority=99)],
        feature_gates=GROUP_GATES,
    )
    answer = counted(loaded, a_pod("worker", priority=50), gang=2, preempt=True)
    assert answer.gangs is not None and (answer.gangs.fits, answer.gangs.room) == (2, 1)
    assert victims_of(answer) == [("default/low", "n1")]
    assert answer.summary()[:2] == [
        "Pod default/worker: 2 more gangs of 2 fit: 4 pods on 2 of 2 nodes.",
        "2 of them fit by preemption, which evicts 1 pod: default/low.",
    ]
    alone = counted(loaded, a_pod("worker", priority=50), gang=2)
    assert alone.gangs is not None and alone.gangs.fits == 1
    assert alone.summary()[1] == SENTENCE.format("1 pod on nodes has")


def test_a_gang_has_the_priority_of_its_pod_group() -> None:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 9}
    group = a_pod_group("train", 2, priorityClassName="urgent")
    del group["metadata"]["uid"]  # it has not been admitted yet
    own = a_pod("worker", priority=9, schedulingGroup={"podGroupName": "train"})
    manifest = {"apiVersion": "v1", "kind": "List", "items": [group, own]}
    pods = [a_pod("low", "2", node="n1", priority=8), a_pod("high", "1", node="n1", priority=9)]
    answer = counted(load([a_node("n1"), *pods, urgent], feature_gates=GROUP_GATES), manifest, preempt=True)
    assert (answer.fits, victims_of(answer)) == (2, [("default/low", "n1")])


# ---- against a sum over nodes, and against a simulation

pods = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(-2, 2)), max_size=10)


def a_random_cluster(
    sizes: list[int], held: list[tuple[int, int, int]], ends: frozenset[int] = frozenset()
) -> LoadedCluster:
    """Nodes of so many CPUs, and pods (node, CPUs, priority) on them as far as they fit there; `ends` has the places of those
    that are being deleted."""
    free = dict(enumerate(sizes))
    items = [a_node(f"n{i}", str(cpu), "64Gi") for i, cpu in enumerate(sizes)]
    for i, (place, cpu, priority) in enumerate(held):
        node = place % len(sizes)
        if cpu <= free[node]:
            free[node] -= cpu
            pod = a_pod(f"p{i}", str(cpu), node=f"n{node}", priority=priority)
            items.append(ending(pod) if i in ends else pod)
    return load(items)


@settings(max_examples=examples(60), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    held=pods,
    cpu=st.integers(1, 3),
    ends=st.frozensets(st.integers(0, 9)),
)
def test_every_node_takes_what_pods_of_no_lower_priority_leave(
    sizes: list[int], held: list[tuple[int, int, int]], cpu: int, ends: frozenset[int]
) -> None:
    """Only CPUs decide, so in the end each node has as many copies as fit beside the pods that may not be evicted."""
    loaded = a_random_cluster(sizes, held, ends)
    answer = counted(loaded, a_pod("web", str(cpu), "0", priority=1), preempt=True)
    stays = {f"n{i}": size for i, size in enumerate(sizes)}
    for pod in loaded.pods():
        if pod.priority >= 1:
            stays[pod.spec.node_name] -= pod.shape.request["cpu"] // 1000
    assert {budget.node: budget.pods for budget in answer.nodes} == {node: left // cpu for node, left in stays.items()}
    by_key = {pod.key: pod for pod in loaded.pods()}
    victims = victims_of(answer)
    gone = answer.preempted.ending if answer.preempted is not None else []
    assert len({*victims, *gone}) == len(victims) + len(gone) and all(by_key[key].priority < 1 for key, _ in victims)
    assert {key for key, _ in victims}.isdisjoint(f"default/p{i}" for i in ends)
    assert {*gone} <= {f"default/p{i}" for i in ends}
    assert all(budget.free["cpu"] >= 0 for budget in answer.nodes)


@settings(max_examples=examples(30), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    held=pods,
    cpu=st.integers(1, 3),
    keeps_apart=st.booleans(),
)
def test_a_simulation_in_which_copies_come_one_after_another_evicts_the_same_pods(
    sizes: list[int], held: list[tuple[int, int, int]], cpu: int, keeps_apart: bool
) -> None:
    loaded = a_random_cluster(sizes, held)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    rule: Written = {"labels": {"app": "web"}, "affinity": apart} if keeps_apart else {}
    pod = a_pod("web", str(cpu), priority=1, **rule)
    nodes, evicted = simulated(loaded, pod)
    answer = counted(loaded, pod, preempt=True)
    assert {budget.node: budget.pods for budget in answer.nodes if budget.pods} == nodes
    assert victims_of(answer) == evicted


def simulated(loaded: LoadedCluster, pod: Written) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Copies by node, and the pods that were evicted for them, until a copy stays pending for a minute."""
    (copies,) = pod_copies(loaded, pod)
    cluster = SimulatedCluster(loaded.objects, loaded.config, loaded.registry)
    nodes: dict[str, int] = {}
    for number in range(1000):
        own, _ = copies.copy(number)
        cluster.driver.create(own)
        cluster.settle(cluster.clock.now_ns() + 60 * NS_PER_S, lambda _: True)
        now = cluster.driver.objects["Pod", own.key]
        assert isinstance(now, Pod)
        if not now.spec.node_name:
            break
        nodes[now.spec.node_name] = nodes.get(now.spec.node_name, 0) + 1
    return nodes, [(eviction.pod.key, eviction.node) for eviction in cluster.evictions]


def test_the_notebook_takes_preempt() -> None:
    cluster = mooring.load([a_node("n1"), a_pod("low", "4", node="n1")])
    assert cluster.capacity(a_pod("web", priority=1), preempt=True).fits == 4
    with pytest.raises(mooring.InputError, match="True or False"):
        cluster.capacity(a_pod("web"), preempt="yes")  # type: ignore[arg-type]


# ---- a count that would take too long


def test_a_count_without_a_limit_ends_after_so_many_preemptions_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # By hand: each node of 4 CPUs has 3 pods of 1 CPU that can leave, and 1 CPU is free. So 2 copies fit without victims,
    # and 6 by preemption.
    there = load(
        [a_node("n1"), a_node("n2"), *(a_pod(f"batch-{n}-{i}", node=n) for n in ("n1", "n2") for i in range(3))]
    )
    urgent = a_pod("urgent", "1", priority=10)
    whole = counted(there, urgent, preempt=True)
    assert (whole.fits, len(victims_of(whole)), whole.limit.most, whole.notes) == (8, 6, None, [])
    monkeypatch.setattr(preempting, "NODE_PREEMPTIONS", 8)  # 4 for two nodes
    cut = counted(there, urgent, preempt=True)
    assert (cut.fits, victims_of(cut), cut.limit.most) == (6, victims_of(whole)[:4], 6)
    assert cut.notes == [
        "the count stopped after 4 preemptions, and more pods may fit; --max N (in Python most=N) counts up to N pods"
    ]
    assert cut.summary()[0].startswith("Pod default/urgent: at least 6 more pods fit")
    assert counted(there, urgent, preempt=True, most=7).fits == 7
