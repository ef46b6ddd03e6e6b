"""Preempted pods with a controller come back as new pods; pods without one are gone. Outcomes are computed by hand."""

from typing import Any

import pytest

from build import a_node, a_pod
from build_storage import a_claim, a_class
from mooring.answers.experiments.comparing import compare
from mooring.framework import config as configuration
from mooring.inputs.arrivals import Arrival, ListedArrivals
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolumeClaim
from mooring.sim.day import Day
from mooring.sim.results import PodCounts, Report
from mooring.sim.simulation import Simulation
from mooring.state.scheduler_assembly import all_plugins

NS_PER_S = 10**9


def owned(name: str, kind: str, owner: str, **spec: Any) -> Pod:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    return a_pod(
        name, metadata={"name": name, "ownerReferences": [reference]}, schedulerName="default-scheduler", **spec
    )


def bare(name: str, **spec: Any) -> Pod:
    return a_pod(name, schedulerName="default-scheduler", **spec)


def run(*objects: KubeObject) -> Report:
    return Simulation(objects, configuration.default()).run()


def outcome(report: Report) -> dict[str, tuple[str, str]]:
    return {each.pod.name: (each.fate.value, each.node) for each in report.pods}


RUNNING = {"cpu": "3", "nodeName": "n", "priority": 0}
URGENT = bare("urgent", cpu="3", priority=9)
"""It needs the room of one pod with 3 CPUs."""


@pytest.mark.parametrize(
    ("kind", "owner", "name", "new"),
    [
        ("ReplicaSet", "web-6d4f", "web-6d4f-x2k9z", "web-6d4f-0"),
        ("ReplicaSet", "web-6d4f", "web-0", "web-1"),
        ("Job", "batch", "batch-0", "batch-1"),
        ("DaemonSet", "agent", "agent-7", "agent-0"),
        ("Rollout", "web", "web-abc", "web-0"),
        ("StatefulSet", "db", "db-0", "db-0"),
    ],
)
def test_a_preempted_pod_with_a_controller_waits_again(kind: str, owner: str, name: str, new: str) -> None:
    report = run(a_node("n", cpu="4"), owned(name, kind, owner, **RUNNING), URGENT)
    assert outcome(report) == {"urgent": ("scheduled", "n"), new: ("unschedulable", "")}
    assert report.counts == PodCounts(pods=2, placed=1, pending=1, preempted=1)
    (eviction,) = report.preempted
    assert (eviction.pod.name, eviction.node, eviction.preemptor, eviction.replaced_by) == (
        *(name, "n", "default/urgent"),
        f"default/{new}",
    )
    (waiting,) = report.pending
    assert (waiting.replaces, waiting.message.partition(".")[0]) == (
        f"default/{name}",
        "0/1 nodes are available: 1 Insufficient cpu",
    )
    assert report.notes == []


@pytest.mark.parametrize(
    "pod", [bare("old", **RUNNING), owned("old", "Node", "n", **RUNNING)], ids=["without a controller", "a static pod"]
)
def test_a_preempted_pod_that_nothing_creates_again_is_gone(pod: Pod) -> None:
    report = run(a_node("n", cpu="4"), pod, URGENT)
    assert outcome(report) == {"urgent": ("scheduled", "n")}
    assert report.counts == PodCounts(pods=1, placed=1, pending=0, preempted=1)
    assert report.notes == ["1 preempted pod without a controller gone for good: default/old"]


def test_a_pod_that_comes_back_may_go_to_another_node() -> None:
    """On `small` the urgent pod does not fit, and it holds the pod that has to leave."""
    small = a_node("small", cpu="3", taints=["quiet:NoSchedule"])
    tolerant = {"tolerations": [{"key": "quiet", "operator": "Exists"}]}
    report = run(a_node("n", cpu="4"), small, owned("web-a", "ReplicaSet", "web", **RUNNING, **tolerant), URGENT)
    assert outcome(report) == {"urgent": ("scheduled", "n"), "web-0": ("scheduled", "small")}
    assert report.counts == PodCounts(pods=2, placed=2, pending=0, preempted=1)


def test_a_pod_of_the_input_that_is_placed_and_preempted_counts_once() -> None:
    """`filler` takes the room before `follower` can, whose leader is placed after its first attempt."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "leader"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    report = run(
        a_node("n", cpu="4", labels={"zone": "a"}),
        bare("follower", cpu="3", affinity=affinity, priority=9),
        bare("leader", cpu="1", labels={"app": "leader"}, priority=9),
        owned("filler-a", "ReplicaSet", "filler", cpu="2", priority=1),
    )
    assert outcome(report) == {
        "follower": ("scheduled", "n"),
        "leader": ("scheduled", "n"),
        "filler-0": ("unschedulable", ""),
    }
    assert report.counts == PodCounts(pods=3, placed=2, pending=1, preempted=1)


def test_a_chain_of_preemptions_ends() -> None:
    """high takes the room of middle, which comes back and takes the room of low, which comes back and waits."""
    nodes = [a_node("a", cpu="2"), a_node("b", cpu="2", taints=["b:NoSchedule"])]
    tolerant = {"tolerations": [{"key": "b", "operator": "Exists"}], "cpu": "2"}
    report = run(
        *nodes,
        owned("middle-a", "ReplicaSet", "middle", nodeName="a", priority=5, **tolerant),
        owned("low-a", "ReplicaSet", "low", nodeName="b", priority=1, **tolerant),
        bare("high", cpu="2", priority=9),
    )
    assert outcome(report) == {
        "high": ("scheduled", "a"),
        "middle-0": ("scheduled", "b"),
        "low-0": ("unschedulable", ""),
    }
    assert report.counts == PodCounts(pods=3, placed=2, pending=1, preempted=2)


def test_the_story_and_the_explanation_of_a_pod_that_was_replaced() -> None:
    objects = (a_node("n", cpu="4"), owned("web-a", "ReplicaSet", "web", cpu="3", priority=0), URGENT)
    report = Simulation(objects, configuration.default()).run(explain="urgent", story="web-a")
    assert outcome(report) == {"urgent": ("scheduled", "n"), "web-a": ("unschedulable", "")}
    assert report.counts == PodCounts(pods=2, placed=1, pending=1, preempted=0), "it never had a node"


def test_simulate_and_compare_count_alike() -> None:
    objects = [
        a_node("n", cpu="4"),
        owned("web-a", "ReplicaSet", "web", **RUNNING),
        bare("old", cpu="1", nodeName="n"),
        URGENT,
    ]
    objects.append(bare("more", cpu="4", priority=10))
    report = run(*objects)
    cluster = LoadedCluster(objects, configuration.default(), all_plugins())
    counts = report.counts
    for compared in compare(cluster, ["default"], vary={"seed": [1, 2]}).runs:
        found = compared.figures
        assert PodCounts(found.pods, found.placed, found.pending, found.preempted) == counts
    assert outcome(report) == {
        "more": ("scheduled", "n"),
        "urgent": ("unschedulable", ""),
        "web-0": ("unschedulable", ""),
    }
    assert counts == PodCounts(pods=3, placed=1, pending=2, preempted=2)


# ---- days


def day(there: list[KubeObject], *arrivals: Arrival) -> Any:
    return Day(there, arrivals, configuration.default()).run()


def test_a_pod_of_a_day_comes_back_and_runs_from_the_start() -> None:
    """web runs from 0 s, has to leave at 4 s, waits until urgent ends at 10 s, and runs its 8 s again."""
    web = owned("web-a", "ReplicaSet", "web", cpu="3", priority=0)
    report = day([a_node("n", cpu="4")], Arrival(0, web, 8 * NS_PER_S), Arrival(4 * NS_PER_S, URGENT, 6 * NS_PER_S))
    assert report.counts == PodCounts(pods=2, placed=2, pending=0, preempted=1)
    assert (report.planned, report.finished) == (2, 2)
    assert report.placements == {"default/web-a": "n", "default/urgent": "n", "default/web-0": "n"}
    assert report.simulated_s == pytest.approx(18, abs=0.1)
    assert report.preempted[0].replaced_by == "default/web-0"


def test_a_pod_that_ran_before_the_day_comes_back_and_counts() -> None:
    web = owned("web-a", "ReplicaSet", "web", **RUNNING)
    report = day([a_node("n", cpu="4"), web], Arrival(0, URGENT, None))
    assert report.counts == PodCounts(pods=2, placed=1, pending=1, preempted=1)
    assert report.planned == report.arrived


def test_a_pod_of_a_day_without_a_controller_is_gone() -> None:
    old = bare("old", cpu="3", priority=0)
    report = day([a_node("n", cpu="4")], Arrival(0, old, None), Arrival(NS_PER_S, URGENT, None))
    assert report.counts == PodCounts(pods=2, placed=1, pending=0, preempted=1)


def test_a_pod_whose_replacement_is_among_the_arrivals_gets_no_other() -> None:
    """A recording has both: the pod that was preempted, and the one that came instead."""
    web = owned("web-a", "ReplicaSet", "web", cpu="3", priority=0)
    arrivals = [Arrival(0, web, None), Arrival(NS_PER_S, URGENT, None)]
    arrivals.append(Arrival(2 * NS_PER_S, owned("web-b", "ReplicaSet", "web", cpu="3", priority=0), None))
    stream = ListedArrivals(arrivals, replaced={"default/web-a"})
    report = Day([a_node("n", cpu="4")], stream, configuration.default()).run()
    assert report.counts == PodCounts(pods=3, placed=1, pending=1, preempted=1)


# ---- claims


def test_a_pod_that_comes_back_has_a_claim_of_its_own_for_an_ephemeral_volume() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    web = owned("web-a", "ReplicaSet", "web", volumes=volumes, **RUNNING)
    held = a_claim("web-a-scratch", class_name="fast")
    simulation = Simulation([a_node("n", cpu="4"), a_class("fast"), held, web, URGENT], configuration.default())
    assert outcome(simulation.run()) == {"urgent": ("scheduled", "n"), "web-0": ("unschedulable", "")}
    claims = [item for item in simulation.objects() if isinstance(item, PersistentVolumeClaim)]
    assert [claim.name for claim in claims] == ["web-0-scratch"]
