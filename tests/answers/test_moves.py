"""The search for nodes that can go, against all orders of drains, each made in a simulation; and trials taken back."""

from functools import cache
from random import Random
from typing import Any

import pytest

from how_many import costly_examples, examples
from mooring.answers.plan.plan import Plan, plan
from mooring.answers.plan.shrink import ShrinkProgram
from mooring.answers.trial.changing_cluster import ChangingCluster, objects_of
from mooring.answers.trial.changing_nodes import cordon, drain, remove_nodes
from mooring.answers.trial.drain_search import DrainSearch, SearchEffort, first_orders, most_by_room
from mooring.answers.trial.drain_trials import DrainTrials
from mooring.inputs.loaded_cluster import LoadedCluster, load

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


# ---- small random clusters: pods of ReplicaSets, some apart from each other, some spread, some with a budget


def a_cluster(seed: int, most: int = 5) -> LoadedCluster:
    dice, items = Random(seed), list[dict[str, Any]]()
    free: dict[str, list[int]] = {}
    for i in range(dice.randint(4, most)):
        cpu, memory = dice.choice([(4, 8), (4, 16), (8, 16), (16, 32)])
        free[f"n{i}"] = [cpu * 1000, memory * 1024]
        labels = {HOSTNAME: f"n{i}", ZONE: "ab"[i % 2]}
        amounts = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "20"}
        items.append(_object("Node", {"name": f"n{i}", "labels": labels}, {}, status={"allocatable": amounts}))
    for number in range(dice.randint(2, 12)):
        items += _workload(dice, f"d{number}", free)
    return load(items)


def _object(kind: str, metadata: dict[str, Any], spec: dict[str, Any], **rest: Any) -> dict[str, Any]:
    versions = {"ReplicaSet": "apps/v1", "PodDisruptionBudget": "policy/v1"}
    named = metadata if kind == "Node" else {**metadata, "namespace": "default"}
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": named, "spec": spec, **rest}


def _workload(dice: Random, name: str, free: dict[str, list[int]]) -> list[dict[str, Any]]:
    cpu, memory = dice.choice([500, 1000, 1500, 2000, 3000]), dice.choice([512, 1024, 2048, 4096])
    labels, is_apart = {"app": name}, dice.random() < 0.15
    spec: dict[str, Any] = {"containers": [_container(cpu, memory)]}
    selector = {"matchLabels": labels}
    if is_apart:
        term = {"labelSelector": selector, "topologyKey": HOSTNAME}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if dice.random() < 0.1:
        rule = {"maxSkew": 2, "topologyKey": dice.choice([HOSTNAME, ZONE]), "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**rule, "labelSelector": selector}]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"u{name}", "controller": True}
    pods, used = list[dict[str, Any]](), set[str]()
    for i in range(dice.randint(1, 4)):
        rooms = [each for each, (c, m) in free.items() if c >= cpu and m >= memory and not (is_apart and each in used)]
        if not rooms or dice.random() < 0.2:
            continue
        node = dice.choice(rooms)
        used.add(node)
        free[node] = [free[node][0] - cpu, free[node][1] - memory]
        metadata = {"name": f"{name}-{i}", "uid": f"u{name}-{i}", "labels": labels, "ownerReferences": [owner]}
        pods.append(_object("Pod", metadata, {**spec, "nodeName": node}, status={"phase": "Running"}))
    template = {"metadata": {"labels": labels}, "spec": spec}
    replicas = {"replicas": len(pods), "selector": selector, "template": template}
    made = [_object("ReplicaSet", {"name": name, "uid": f"u{name}"}, replicas), *pods] if pods else []
    if pods and dice.random() < 0.3:
        budget = {"selector": selector, "maxUnavailable": dice.choice([1, 1, 1, 0])}
        made.append(_object("PodDisruptionBudget", {"name": name}, budget))
    return made


def _container(cpu: int, memory: int) -> dict[str, Any]:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {"name": "c", "image": "i", "resources": {"requests": requests}}


# ---- all orders, by simulations alone


def after(loaded: LoadedCluster, name: str) -> LoadedCluster | None:
    """The cluster after a drain of one node, which is then removed; None if a budget or a pod without room forbids it."""
    cluster = ChangingCluster(loaded)
    drain(cluster, [name])
    if cluster.blocked or cluster.preempted or cluster.gone:
        return None
    remove_nodes(cluster, [name])
    cluster.settle()
    return None if any(not pod.spec.node_name for pod in cluster.pods()) else objects_of(cluster)


def most_that_go(loaded: LoadedCluster, names: tuple[str, ...]) -> int:
    """The most nodes that any order of drains frees."""
    best = 0
    for name in names:
        rest = tuple(each for each in names if each != name)
        left = after(loaded, name) if best < len(names) else None
        if left is not None:
            best = max(best, 1 + most_that_go(left, rest))
    return best


@cache
def shrunk(seed: int) -> tuple[LoadedCluster, Plan]:
    loaded = a_cluster(seed)
    return loaded, plan(loaded, shrink=True)


@pytest.mark.slow
def test_nearly_all_nodes_go_that_any_order_could_free() -> None:
    """Nineteen of twenty at least; a plan that cordons nodes first may free more than any order without."""
    found = possible = 0
    for seed in range(costly_examples(40)):
        loaded, answer = shrunk(seed)
        names = tuple(node.name for node in ChangingCluster(loaded).nodes().values())
        possible += most_that_go(loaded, names)
        found += len(answer.removed)
    assert found >= 0.95 * possible


def test_every_step_of_a_plan_holds_as_listed_and_says_where_pods_go() -> None:
    for seed in range(examples(40)):
        loaded, answer = shrunk(seed)
        cluster = ChangingCluster(loaded)
        cordon(cluster, [step.node for step in answer.removed] if answer.cordons_first else ())
        for step in answer.removed:
            drain(cluster, [step.node])
            assert not cluster.blocked and not cluster.preempted, seed
            where = {pod.key: pod.spec.node_name for pod in cluster.pods()}
            assert all(where[pod.key] == pod.node != "" for pod in step.moved), seed
            remove_nodes(cluster, [step.node])
            cluster.settle()
        assert all(pod.spec.node_name for pod in cluster.pods()), seed


def test_no_node_that_stays_can_go_after_the_others() -> None:
    for seed in range(examples(20)):
        loaded, answer = shrunk(seed)
        if answer.cordons_first:
            continue
        left: LoadedCluster | None = loaded
        for step in answer.removed:
            assert left is not None
            left = after(left, step.node)
        assert left is not None
        assert all(after(left, each.node) is None for each in answer.kept), seed


# ---- trials


def state_of(trials: DrainTrials) -> tuple[object, ...]:
    nodes = trials.cluster.nodes
    pods = {name: sorted(pod.id for pod in nodes.pods_on[row]) for name, row in nodes.row_book.items()}
    columns = [nodes.amounts.requested, nodes.pod_count, nodes.unschedulable, nodes.alive]
    budgets = [(each.key, each.status.disruptions_allowed) for each in trials.budgets.take_changed()]
    return pods, [column[..., : nodes.height].tolist() for column in columns], nodes.names[:], budgets, trials.moves


def test_trials_that_are_taken_back_leave_nothing() -> None:
    for seed in range(examples(40)):
        trials, dice = DrainTrials(a_cluster(seed)), Random(seed)
        names = [*trials.cluster.nodes.row_book]
        state_of(trials)
        before = state_of(trials)
        for luck in range(3):
            trials.use_luck(luck)
            dice.shuffle(names)
            trials.cordon(names[:2])
            for name in names:
                trials.drain(name)
            trials.go_back(0)
            assert state_of(trials) == before, (seed, luck)


def test_a_trial_agrees_with_a_simulation_about_every_single_drain() -> None:
    for seed in range(examples(40)):
        loaded = a_cluster(seed)
        trials = DrainTrials(loaded)
        for name in first_orders(trials, dict.fromkeys(trials.cluster.nodes.row_book, 1.0))[0]:
            reason = trials.drain(name)
            trials.go_back(0)
            assert (reason == "") == (after(loaded, name) is not None), (seed, name, reason)


def test_no_order_frees_more_than_the_bounds_say() -> None:
    for seed in range(examples(40)):
        trials = DrainTrials(a_cluster(seed))
        worth = dict.fromkeys(trials.cluster.nodes.row_book, 1.0)
        proposed = ShrinkProgram(trials, worth).propose(())
        bound = most_by_room(trials, worth)
        names, dice = [*worth], Random(seed)
        for _ in range(5):
            dice.shuffle(names)
            gone = sum(not trials.drain(name) for name in names)
            trials.go_back(0)
            assert gone <= bound, seed
            assert gone <= (proposed.most + 1e-6 if proposed is not None else 0), seed


def test_a_solver_proposes_another_set_each_time() -> None:
    trials = DrainTrials(a_cluster(5))
    program = ShrinkProgram(trials, dict.fromkeys(trials.cluster.nodes.row_book, 1.0))
    first = program.propose(())
    assert first is not None
    second = program.propose([first.names])
    assert second is not None
    assert set(first.names) != set(second.names)


def test_without_a_solver_orders_alone_do() -> None:
    for seed in range(examples(10)):
        _, answer = shrunk(seed)
        trials = DrainTrials(a_cluster(seed))
        found = DrainSearch(trials, dict.fromkeys(trials.cluster.nodes.row_book, 1.0), SearchEffort()).run()
        assert len(found.order.names) == len(answer.removed) or answer.cordons_first, seed
        assert found.is_complete


def test_a_plan_may_need_all_of_its_nodes_cordoned_first() -> None:
    """Any order without that frees one node less in this cluster, which is one of the random ones."""
    loaded, answer = shrunk(16)
    names = tuple(node.name for node in ChangingCluster(loaded).nodes().values())
    assert (most_that_go(loaded, names), [step.node for step in answer.removed]) == (1, ["n4", "n3"])
    assert answer.cordons_first
    assert answer.summary()[1:] == [
        "Cordon all of the nodes below before you drain the first one.",
        "2 nodes can go, one after the other, with everything still placed.",
    ]
