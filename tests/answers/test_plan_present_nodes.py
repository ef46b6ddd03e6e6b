"""Whether the order of pending pods decides which of them the present nodes take, and simulations that go on for a plan."""

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from written import a_node, a_pod

from mooring.answers.plan.additions import take_alike_in_all_orders
from mooring.answers.plan.judge import patient
from mooring.answers.plan.offers import read_offers
from mooring.answers.plan.plan import plan
from mooring.answers.plan.trials import NodeTrials, OfferedNodes, TrialPlacer
from mooring.answers.trial.changing_cluster import settled
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.pod import Pod
from mooring.sim.simulation import Simulation

Written = dict[str, Any]
LARGE = [{"name": "m", "price": 1.0, "node": a_node("template", "16", "64Gi")}]


def pods_of(*cpus: str) -> list[Written]:
    return [a_pod(f"p{at}", cpu) for at, cpu in enumerate(cpus)]


def trials_of(loaded: LoadedCluster) -> NodeTrials:
    """The trial cluster of a plan: after the pods that fit have been placed."""
    return NodeTrials(TrialPlacer(settled(loaded)), [OfferedNodes(each) for each in read_offers(LARGE, loaded)])


def waiting_in(loaded: LoadedCluster) -> list[Pod]:
    return [item for item in loaded.objects if isinstance(item, Pod) and not item.spec.node_name]


def left_in_every_order(loaded: LoadedCluster) -> set[tuple[tuple[str, int], ...]]:
    """By simulations of all orders: how many pods of each size stay pending."""
    waiting = waiting_in(loaded)
    others = [item for item in loaded.objects if all(item is not pod for pod in waiting)]
    sizes = {pod.key: str(pod.shape.request["cpu"]) for pod in waiting}
    found = set()
    for order in permutations(waiting):
        simulation = Simulation([*others, *order], loaded.config, loaded.registry, loaded.gates)
        found.add(tuple(sorted(Counter(sizes[each.pod.key] for each in simulation.run().pending).items())))
    return found


@pytest.mark.parametrize(
    ("nodes", "cpus", "is_alike"),
    [
        (["8"], ["1", "2", "12"], True),
        (["4"], ["2", "2", "4"], False),
        (["4", "4"], ["4", "4", "6"], True),
        (["4"], ["4", "4", "4"], True),
        (["4", "8"], ["2", "2", "8", "2", "2"], False),
        (["6", "3"], ["3", "3", "5"], False),
        ([], ["1", "2"], True),
    ],
    ids=["room for all", "two small or a large one", "one on each", "one of three", "spread pods", "sums", "no node"],
)
def test_the_present_nodes_take_alike_where_all_orders_leave_the_same(
    nodes: Sequence[str], cpus: Sequence[str], is_alike: bool
) -> None:
    loaded = patient(load([*(a_node(f"n{at}", cpu, "64Gi") for at, cpu in enumerate(nodes)), *pods_of(*cpus)]))
    assert (len(left_in_every_order(loaded)) == 1) == is_alike
    assert take_alike_in_all_orders(trials_of(loaded), waiting_in(loaded)) == is_alike


def test_the_trial_cluster_is_afterwards_as_it_was_before() -> None:
    loaded = patient(load([a_node("n0", "4", "64Gi"), a_node("n1", "4", "64Gi"), *pods_of("4", "2", "1", "8")]))
    trials = trials_of(loaded)
    nodes = trials.cluster.nodes

    def there() -> tuple[list[tuple[str, list[str]]], list[list[int]]]:
        rows = sorted(nodes.row_book.items())
        held = [(name, sorted(pod.key for pod in nodes.pods_on[row])) for name, row in rows]
        return held, [nodes.amounts.requested[:, row].tolist() for _, row in rows]

    before = there()
    assert [len(pods) for _, pods in before[0]] == [1, 2]
    take_alike_in_all_orders(trials, waiting_in(loaded))
    assert there() == before


def test_where_other_pods_decide_about_one_the_order_may_matter() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [a_pod("a", "1", labels={"app": "x"}, affinity=apart), a_pod("b", "1")]
    loaded = patient(load([a_node("n", "8", "64Gi"), *pods]))
    assert not take_alike_in_all_orders(trials_of(loaded), waiting_in(loaded))


def test_pods_of_a_file_preempt_nobody_in_a_plan() -> None:
    running = a_pod("running", "4", node="n")
    loaded = load([a_node("n", "4", "64Gi"), running])
    answer = plan(loaded, LARGE, apply=[a_pod("urgent", "4", priority=1000)])
    assert (answer.placed_now, answer.cost, [*answer.pending]) == (0, 1.0, [])


@pytest.mark.parametrize("created", ["2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z"])
def test_pods_of_a_file_come_in_the_order_of_their_creation(created: str) -> None:
    """The present node has room for one of two pods: it takes the older one."""
    one, other = a_pod("one", "4"), a_pod("other", "3")
    one["metadata"]["creationTimestamp"], other["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z", created
    node = a_node("n", "4", "64Gi")
    tight = [{"name": "m3", "price": 0.7, "node": a_node("template", "3", "64Gi")}, *LARGE]
    together = plan(load([node, one, other]), tight)
    assert plan(load([node, one]), tight, apply=[other]).to_dict() == together.to_dict()
