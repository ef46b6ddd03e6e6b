"""Scores of extended resources that devices serve: by devices on nodes that have none of the resource themselves."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation
from how_many import examples
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import balance_of_two
from mooring.framework import config
from mooring.framework.attempts.runner import Runner
from mooring.model.devices import ResourceClaim, ResourceClaimStatus, ResourceSlice
from mooring.model.node import Node
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.state.scheduler_assembly import build_runners

GPU, CPU = "example.com/gpu", "cpu"
POD = a_pod("p", cpu="1", requests={GPU: 1}, schedulerName="default-scheduler")
FIT, BALANCED = "NodeResourcesFit", "NodeResourcesBalancedAllocation"


def a_runner(strategy: str = "MostAllocated", **gates: bool) -> Runner:
    resources = [{"name": CPU, "weight": 1}, {"name": GPU, "weight": 3}]
    args: list[dict[str, Any]] = [
        {"name": FIT, "args": {"scoringStrategy": {"type": strategy, "resources": resources}}},
        {"name": BALANCED, "args": {"resources": [{**each, "weight": 1} for each in resources]}},
    ]
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    written = config.from_object({**head, "profiles": [{"pluginConfig": args}]}, feature_gates=gates)
    return build_runners(written, gates=gates)["default-scheduler"]


def scores(runner: Runner, cluster: Cluster, plugin: str = FIT) -> dict[str, int]:
    decision = decide(runner, POD, cluster, DecideOptions(explain=True))
    assert isinstance(decision, Placement) and decision.details is not None
    return {node: each[plugin] for node, each in decision.details.scores.items()}


def a_used_claim(name: str, device: str) -> ResourceClaim:
    return a_claim(name, status={"allocation": an_allocation(device)})


def a_world(*more: Any) -> Cluster:
    """Two devices on a, four on b, and a node that has the resource itself."""
    slices = [
        a_slice(name, *(a_device(f"d{i}") for i in range(count)), node=name) for name, count in (("a", 2), ("b", 4))
    ]
    nodes = [a_node("a", cpu="4"), a_node("b", cpu="4"), a_node("own", cpu="4", allocatable={GPU: "4"})]
    return a_cluster(*nodes, *slices, a_class("gpu", extendedResourceName=GPU), *more)


def test_a_node_is_scored_by_its_devices() -> None:
    cluster = a_world(a_used_claim("c", "b/d0"))
    # cpu 25; devices: 1 of 2, 2 of 4, and 1 of 4 of the node's own
    assert scores(a_runner(), cluster) == {"a": (25 + 150) // 4, "b": (25 + 150) // 4, "own": (25 + 75) // 4}
    assert scores(a_runner("LeastAllocated"), cluster) == {
        "a": (75 + 150) // 4,
        "b": (75 + 150) // 4,
        "own": (75 + 225) // 4,
    }


def test_devices_of_other_classes_do_not_count() -> None:
    cluster = a_cluster(
        a_node("a", cpu="4"),
        a_node("b", cpu="4"),
        a_class("gpu", f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].big', extendedResourceName=GPU),
        a_slice("a", a_device("d0", big=True), a_device("d1", big=False), node="a"),
        a_slice("b", a_device("d0", big=True), a_device("d1", big=True), node="b"),
    )
    assert scores(a_runner(), cluster) == {"a": (25 + 300) // 4, "b": (25 + 150) // 4}


@pytest.mark.parametrize("plugin", [FIT, BALANCED])
def test_scores_follow_devices_that_change_hands(plugin: str) -> None:
    cluster, runner = a_world(), a_runner()
    before = decide(runner, POD, cluster, DecideOptions())
    cluster.put(a_used_claim("c", "b/d0"))
    cluster.put(a_used_claim("d", "b/d1"))
    after, fresh = decide(runner, POD, cluster, DecideOptions()), decide(a_runner(), POD, cluster, DecideOptions())
    assert isinstance(before, Placement) and isinstance(after, Placement) and isinstance(fresh, Placement)
    assert (before.node, after.node) == ("a", "b")
    assert (after.node, after.score) == (fresh.node, fresh.score)
    assert scores(runner, cluster, plugin) == scores(a_runner(), cluster, plugin)


def test_a_question_about_a_fork_does_not_keep_the_cluster_from_following() -> None:
    cluster, runner = a_world(), a_runner()
    decide(runner, POD, cluster, DecideOptions())
    decide(a_runner(), POD, cluster.fork(), DecideOptions())
    cluster.put(a_used_claim("c", "b/d0"))
    cluster.put(a_used_claim("d", "b/d1"))
    after = decide(runner, POD, cluster, DecideOptions())
    assert isinstance(after, Placement) and after.node == "b"


def test_scores_follow_slices() -> None:
    cluster, runner = a_world(a_used_claim("c", "b/d0"), a_used_claim("d", "b/d1")), a_runner()
    before = decide(runner, POD, cluster, DecideOptions())
    cluster.put(a_slice("b", *(a_device(f"d{i}") for i in range(9)), node="b"))
    after = decide(runner, POD, cluster, DecideOptions())
    assert isinstance(before, Placement) and isinstance(after, Placement)
    assert (before.node, after.node) == ("b", "a")


# ---- the columns and a plain loop


def plain(cluster: Cluster, node: Node, strategy: str) -> tuple[int, int]:
    """The scores of both plugins for one node, counted device by device."""
    cpu = (4000, 0 + 1000)
    own = int((node.status.allocatable or {}).get(GPU, 0))
    total, taken = (own, 0) if own else (0, 0)
    if not own:
        for item in cluster.objects[ResourceSlice].values():
            assert isinstance(item, ResourceSlice)
            if item.spec.all_nodes or item.spec.node_name == node.name:
                for device in item.spec.devices or ():
                    total += 1
                    taken += (item.spec.driver, item.spec.pool.name, device.name) in cluster.claims.exclusive
    shares = []
    for (there, wanted), weight in ((cpu, 1), ((total, taken + 1), 3)):
        if there:
            free = max(there - wanted, 0) * 100 // there
            used = min(wanted, there) * 100 // there if strategy == "MostAllocated" else free
            shares.append((used, weight))
    fit = sum(share * weight for share, weight in shares) // sum(weight for _, weight in shares)
    gain = balance_of_two((1000, taken + 1), (4000, total)) - balance_of_two((0, taken), (4000, total))
    return fit, 50 + (50 + gain) // 2


@settings(max_examples=examples(60), deadline=None)
@given(
    devices=st.lists(st.integers(0, 3), min_size=3, max_size=3),
    shared=st.integers(0, 2),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=6),
    strategy=st.sampled_from(["MostAllocated", "LeastAllocated"]),
)
def test_columns_say_what_a_plain_loop_says(
    devices: list[int], shared: int, steps: list[tuple[int, int]], strategy: str
) -> None:
    names = ("a", "b", "c")
    slices = [a_slice(n, *(a_device(f"d{i}") for i in range(k)), node=n) for n, k in zip(names, devices, strict=True)]
    slices.append(a_slice("net", *(a_device(f"d{i}") for i in range(shared)), pool="net", allNodes=True))
    nodes = [*(a_node(name, cpu="4") for name in names), a_node("own", cpu="4", allocatable={GPU: "3"})]
    cluster = a_cluster(*nodes, *slices, a_class("gpu", extendedResourceName=GPU))
    runner = a_runner(strategy)
    for pool, device in ((-1, 0), *steps):
        if pool >= 0:
            name = f"{(*names, 'net')[pool]}/d{device}"
            known = cluster.objects[ResourceClaim].get(f"default/{name.replace('/', '-')}")
            claim = a_used_claim(name.replace("/", "-"), name)
            cluster.put(claim if known is None or known == _freed(claim) else _freed(claim))
        kept, fresh = (
            decide(runner, POD, cluster, DecideOptions()),
            decide(a_runner(strategy), POD, cluster, DecideOptions()),
        )
        assert isinstance(kept, Placement) and isinstance(fresh, Placement)
        assert (kept.node, kept.score) == (fresh.node, fresh.score)
        if kept.feasible_count > 1:
            found = scores(runner, cluster), scores(runner, cluster, BALANCED)
            for node in nodes:
                if node.name in found[0]:
                    assert (found[0][node.name], found[1][node.name]) == plain(cluster, node, strategy)


def _freed(claim: ResourceClaim) -> ResourceClaim:
    freed: ResourceClaim = msgspec.structs.replace(claim, status=ResourceClaimStatus())
    return freed
