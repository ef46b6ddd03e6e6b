"""Generated loads: the same seed gives the same load, and its distributions are those of the plan."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from build import a_node, a_pod
from mooring.inputs.arrivals import Arrival
from mooring.inputs.generated_load import GPU, GeneratedLoad
from mooring.inputs.load_plan import LoadPlanError, load_plan_of
from mooring.kit.clock import NS_PER_S
from mooring.model.names import ZONE

HOUR_NS = 3600 * NS_PER_S
POOL = {"name": "n", "count": 4, "cpu": 64, "memory": "256Gi"}


def a_load(*objects: Any, **fields: Any) -> GeneratedLoad:
    return GeneratedLoad(load_plan_of({"pods": 20_000, "nodes": [POOL], **fields}), objects)


def shown(arrivals: list[Arrival]) -> list[tuple[int, str, int | None, dict[str, int]]]:
    return [(a.at_ns, a.pod.key, a.run_ns, dict(a.pod.shape.request)) for a in arrivals]


# ---- the same again


def test_the_same_seed_gives_the_same_load() -> None:
    one, again, other = ([*a_load(pods=500, seed=seed)] for seed in (3, 3, 4))
    assert shown(one) == shown(again)
    assert shown(one) != shown(other)


def test_a_load_can_be_gone_over_twice() -> None:
    load = a_load(pods=50)
    assert shown([*load]) == shown([*load])


def test_the_first_arrivals_of_a_seed_stay_the_same() -> None:
    """A new release must not change what a seed stands for: figures in reports name it."""
    load = a_load(pods=1000, templates=20, seed=1)
    assert [(a.at_ns // NS_PER_S, a.pod.key) for a in [*load][:3]] == [
        (823, "team-39/job-0002-0"),
        (823, "team-39/job-0002-1"),
        (823, "team-39/job-0002-2"),
    ]
    assert [a.run_ns // NS_PER_S for a in [*load][:2] if a.run_ns] == [151, 617]


# ---- what a load is like


def test_all_pods_arrive_in_order_and_in_time() -> None:
    load = a_load(over="6h")
    assert len([*load]) == len(load) == 20_000
    assert (np.diff(load.at_ns) >= 0).all()
    assert 0 <= load.at_ns[0] <= load.at_ns[-1] <= 6 * HOUR_NS == load.over_ns


def test_names_are_given_once() -> None:
    keys = [arrival.pod.key for arrival in a_load()]
    assert len(set(keys)) == len(keys)
    assert all(arrival.pod.id == arrival.pod.key for arrival in a_load(pods=10))


def test_few_templates_have_most_of_the_pods() -> None:
    """Zipf with exponent 1 over 400 templates: the first has 1 / 6.57 of the pods, the first 40 two thirds."""
    counts = np.bincount(a_load(templates=400, burst=1).which, minlength=400)
    assert counts[0] / 20_000 == pytest.approx(1 / 6.57, rel=0.1)
    assert counts[:40].sum() / 20_000 == pytest.approx(0.65, abs=0.03)
    even = np.bincount(a_load(templates=400, popularity=0, burst=1).which, minlength=400)
    assert even.max() < 2 * even.mean()


def test_arrivals_follow_the_time_of_the_day() -> None:
    hours = np.bincount(a_load(swing=0.5, peak="14h", burst=1).at_ns // HOUR_NS, minlength=24)
    mean = 20_000 / 24
    assert hours[13:15].mean() == pytest.approx(1.5 * mean, rel=0.1)
    assert hours[1:3].mean() == pytest.approx(0.5 * mean, rel=0.15)
    flat = np.bincount(a_load(swing=0, burst=1).at_ns // HOUR_NS, minlength=24)
    assert flat.min() > 0.85 * mean and flat.max() < 1.15 * mean


def test_pods_of_a_job_arrive_together() -> None:
    load = a_load(burst=4)
    sizes = np.array([*Counter(load.at_ns.tolist()).values()])
    assert sizes.mean() == pytest.approx(4, rel=0.05)
    assert (np.diff(load.which)[np.diff(load.at_ns) == 0] == 0).mean() > 0.999, "they have one template"
    assert len(set(a_load(burst=1, pods=1000).at_ns.tolist())) == 1000


def test_run_times_are_log_normal() -> None:
    """Of one template's spread and that of its pods. The median is 10 minutes, 90 % of the pods run less than 13 times as
    long (sigma 2); with 4,000 templates of equal share the draw of templates hardly shows."""
    load = a_load(services=0, popularity=0, templates=4000, run={"median": "10m", "sigma": 2, "longest": "1000h"})
    logs = np.log(load.run_ns / (600 * NS_PER_S))
    assert np.median(logs) == pytest.approx(0, abs=0.15)
    assert logs.std() == pytest.approx(2, rel=0.05)


def test_run_times_have_a_limit() -> None:
    assert a_load(services=0, run={"longest": "1h"}).run_ns.max() == HOUR_NS
    assert set(a_load(services=0, run={"sigma": 0}).run_ns.tolist()) == {600 * NS_PER_S}


@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_services_run_for_ever(share: float) -> None:
    arrivals = [*a_load(services=share)]
    forever = [arrival for arrival in arrivals if arrival.run_ns is None]
    assert len(forever) / len(arrivals) == pytest.approx(share, abs=0.05)
    assert all(arrival.pod.name.startswith("service-") for arrival in forever)
    assert {arrival.pod.priority for arrival in forever} <= {100, 1000}


def test_shares_of_pods_have_gpus_zones_and_spreading() -> None:
    pods = [arrival.pod for arrival in a_load(gpu=0.1, zonal=0.2, spread=0.3)]
    share = {
        "gpu": sum(GPU in pod.shape.request for pod in pods) / len(pods),
        "zonal": sum(ZONE in (pod.spec.node_selector or {}) for pod in pods) / len(pods),
        "spread": sum(bool(pod.spec.topology_spread_constraints) for pod in pods) / len(pods),
    }
    assert share == pytest.approx({"gpu": 0.1, "zonal": 0.2, "spread": 0.3}, abs=0.05)
    assert all(pod.name.startswith("job-") for pod in pods if GPU in pod.shape.request), "no service keeps a GPU"


def test_no_pod_is_larger_than_half_of_the_largest_node_that_it_may_use() -> None:
    tainted = {"name": "big", "cpu": 900, "taints": [{"key": "mine", "effect": "NoSchedule"}]}
    small = {"name": "small", "cpu": 3, "memory": "4Gi"}
    requests = [arrival.pod.shape.request for arrival in a_load(nodes=[small, tainted])]
    assert max(request["cpu"] for request in requests) == 1500
    assert max(request["memory"] for request in requests) <= 2 << 30


# ---- nodes


def test_nodes_come_in_pools_and_zones() -> None:
    pool = {"name": "gpu", "count": 3, "cpu": 8, "resources": {GPU: 2}, "labels": {"disk": "ssd"}}
    load = a_load(nodes=[{**pool, "taints": [{"key": GPU, "effect": "NoSchedule"}]}], zones=2, pods=1)
    assert [node.name for node in load.nodes] == ["gpu-0", "gpu-1", "gpu-2"]
    assert [node.labels[ZONE] for node in load.nodes] == ["zone-0", "zone-1", "zone-0"]
    assert all(node.labels["disk"] == "ssd" and node.labels["pool"] == "gpu" for node in load.nodes)
    assert load.nodes[2].status.allocatable == {"cpu": 8, "memory": "128Gi", "pods": "110", GPU: 2}
    assert [(taint.key, taint.effect) for taint in load.nodes[1].taints] == [(GPU, "NoSchedule")]


def test_the_nodes_of_a_cluster_are_used() -> None:
    cluster = a_node("mine", cpu="2", labels={ZONE: "here"})
    pods = [arrival.pod for arrival in a_load(cluster, nodes=[], zonal=1, pods=100)]
    assert {(pod.spec.node_selector or {})[ZONE] for pod in pods} == {"here"}
    assert max(pod.shape.request["cpu"] for pod in pods) <= 1000


def test_a_plan_needs_nodes_from_somewhere() -> None:
    with pytest.raises(
        LoadPlanError, match="nodes: Required value: at least one pool of nodes, here or in another file"
    ):
        a_load(nodes=[])


def test_nodes_do_not_take_the_names_of_others() -> None:
    with pytest.raises(
        LoadPlanError, match=r"nodes\[0\].name: the cluster has a node n-3 already; name the pool otherwise"
    ):
        a_load(a_node("n-3"))
    assert len(a_load(a_node("n-4"), a_node("n-03"), a_node("n"), pods=1).nodes) == 4


def test_nodes_are_validated_as_an_api_server_would() -> None:
    with pytest.raises(LoadPlanError, match=r"nodes\[0\].metadata.name: Invalid value: \"A_b-0\""):
        a_load(nodes=[{"name": "A_b"}])


# ---- names


def test_pods_do_not_take_the_names_of_others() -> None:
    first = next(iter(a_load(pods=20))).pod
    taken = a_pod(first.name, namespace=first.namespace)
    keys = {arrival.pod.key for arrival in a_load(taken, pods=20)}
    assert len(keys) == 20 and first.key not in keys


def test_a_pod_is_found_by_its_name_before_it_arrives() -> None:
    load = a_load(pods=100)
    last = [*load][-1].pod
    (found,) = load.candidates(last.key)
    assert (found.key, found.id) == (last.key, last.id)
    assert [pod.key for pod in load.candidates(last.name)] == [last.key]
    stem = last.key.rpartition("-")[0]
    for name in (f"{stem}-100", f"{stem}-00", f"{stem}-x", stem, ""):
        assert {pod.name.rpartition("-")[2] for pod in load.candidates(name)} == {"0"}, "the first of each template"
