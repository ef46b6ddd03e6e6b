"""Trials of new nodes: how many decisions they make, what they leave, and whole gangs in them. Counted by hand."""

from collections.abc import Sequence

import pytest
from plan_trials import Case
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

from mooring.answers.capacity.filling import CopyPlacer
from mooring.answers.plan import trials as trials_module
from mooring.answers.plan.offers import read_offers
from mooring.answers.plan.trials import (
    GangUnits,
    NodeTrialOutcome,
    NodeTrials,
    OfferedNodes,
    PlacedTogether,
    TrialPlacer,
    broken_gang,
)
from mooring.inputs.loaded_cluster import load
from mooring.model.pod import Pod
from mooring.model.storage import CSINode


def trial(*objects: Written, gates: dict[str, bool] | None = None) -> tuple[NodeTrials, list[Pod]]:
    """The nodes of the cluster alone; and its pods, in the order in which they are written."""
    loaded = load([*objects], feature_gates=gates or {})
    return NodeTrials(TrialPlacer(loaded), []), loaded.pending()


def names(pods: Sequence[Pod]) -> list[str]:
    return [pod.name for pod in pods]


def attempt(trials: NodeTrials, pods: Sequence[Pod], is_plain: bool = False) -> NodeTrialOutcome:
    plain = frozenset(id(pod.shape) for pod in pods) if is_plain else frozenset()
    outcome = trials.attempt(pods, plain)
    trials.take_back(outcome)
    assert not [*trials.cluster.nodes.pods()]
    return outcome


# ---- decisions


@pytest.mark.parametrize("is_plain", [True, False])
def test_pods_like_one_that_was_refused_are_not_tried(is_plain: bool) -> None:
    trials, pods = trial(a_node("n", "4"), *(a_pod(f"p{i}") for i in range(9)))
    outcome = attempt(trials, pods, is_plain)
    assert (names(outcome.left), len(outcome.placed)) == ([f"p{i}" for i in range(4, 9)], 4)
    assert trials.decisions == 5, "four that fit, and one that does not"


def test_in_a_large_cluster_a_decision_counts_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials_module, "LARGE_CLUSTER", 1)
    trials, pods = trial(*(a_node(f"n{i}", "1") for i in range(3)), *(a_pod(f"p{i}") for i in range(4)))
    attempt(trials, pods)
    assert trials.decisions == 4 * 9, "three that fit, and one that does not, on three times as many nodes"


@pytest.mark.parametrize(("is_plain", "decisions"), [(True, 5), (False, 6)])
def test_pods_are_tried_again_when_others_of_their_labels_have_come(is_plain: bool, decisions: int) -> None:
    """Two large ones and a small one fill the node. The small one might have helped large ones, unless they are plain."""
    cpus = ["2", "2", "2", "1", "1", "2", "2"]
    trials, pods = trial(a_node("n", "5"), *(a_pod(f"p{i}", cpu) for i, cpu in enumerate(cpus)))
    outcome = attempt(trials, pods, is_plain)
    assert (names(outcome.left), trials.decisions) == (["p2", "p4", "p5", "p6"], decisions)


def test_pods_of_other_labels_help_only_those_that_are_attracted() -> None:
    """A pod of app w comes after one that wants to be near it, which is tried again. Others are not."""
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [
        a_pod("near-1", labels={"app": "v"}, affinity=near),
        a_pod("large-1", "9", labels={"app": "x"}),
        a_pod("w", labels={"app": "w"}),
        a_pod("near-2", labels={"app": "v"}, affinity=near),
        a_pod("large-2", "9", labels={"app": "x"}),
    ]
    trials, waiting = trial(a_node("n", "8"), *pods)
    outcome = attempt(trials, waiting)
    assert (names(outcome.left), trials.decisions) == (["large-1", "large-2"], 5)


def test_pods_of_another_namespace_are_tried_for_themselves() -> None:
    other = a_pod("p2", "9")
    other["metadata"]["namespace"] = "other"
    trials, pods = trial(a_node("n", "4"), a_pod("p1", "9"), other)
    attempt(trials, pods)
    assert trials.decisions == 2


def test_what_a_trial_placed_is_not_kept_in_its_outcome() -> None:
    case = Case(["1", "1", "9"], (1.0, "2", 5))
    outcome = case.trials.place((1,), case.pods)
    assert (names(outcome.left), outcome.placed, outcome.domains) == (["p0002"], (), {})
    zones = case.trials.place((1,), case.pods, frozenset(), {case.pods[0].id: "kubernetes.io/hostname"})
    assert zones.domains == {case.pods[0].id: "o0-1"}
    unknown = case.trials.place((1,), case.pods, frozenset(), {case.pods[1].id: "no-label"})
    assert unknown.domains == {case.pods[1].id: ""}
    assert "placed" not in repr(outcome)


def test_nodes_come_and_go_with_their_daemons() -> None:
    loaded = load([a_node("m-2"), a_pod("agent", "1")])
    (offer,) = read_offers([{"name": "m", "price": 1, "node": a_node("t", "4")}], loaded)
    trials = NodeTrials(TrialPlacer(loaded), [OfferedNodes(offer, loaded.pending())])
    trials.add((3,))
    assert trials.offers[0].present == ["m-1", "m-3", "m-4"], "the cluster has the second name"
    assert sorted(pod.key for pod in trials.cluster.nodes.pods()) == [
        "default/agent-m-1",
        "default/agent-m-3",
        "default/agent-m-4",
    ]
    trials.add((1,))
    assert trials.offers[0].present == ["m-1"]
    assert [(pod.key, pod.spec.node_name) for pod in trials.cluster.nodes.pods()] == [("default/agent-m-1", "m-1")]
    trials.add((0,))
    assert set(trials.cluster.nodes.row_book) == {"m-2"}


def a_claim(name: str) -> Written:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "wait", "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def test_a_volume_that_a_trial_has_taken_is_free_again() -> None:
    """There is one volume for two claims. Whichever pod is tried gets it."""
    storage: list[Written] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "wait"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "wait",
                "local": {"path": "/data"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]}]}
                        ]
                    }
                },
            },
        },
        *(a_claim(name) for name in ("c1", "c2")),
    ]
    pods = [
        a_pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])
        for name, claim in (("p1", "c1"), ("p2", "c2"))
    ]
    trials, waiting = trial(a_node("n"), *storage, *pods)
    assert names(attempt(trials, waiting).left) == ["p2"]
    assert names(attempt(trials, waiting[::-1]).left) == ["p1"]
    assert names(attempt(trials, waiting).left) == ["p2"]


def test_what_comes_with_a_node_goes_with_it() -> None:
    driver = {"name": "disk.example", "nodeID": "n", "allocatable": {"count": 3}}
    there = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "n"},
        "spec": {"drivers": [driver]},
    }
    loaded = load([a_node("n"), there])
    (offer,) = read_offers([{"name": "m", "price": 1, "like": "n"}], loaded)
    trials = NodeTrials(TrialPlacer(loaded), [OfferedNodes(offer)])
    for number, drivers in ((2, ["m-1", "m-2", "n"]), (1, ["m-1", "n"]), (0, ["n"])):
        trials.add((number,))
        assert sorted(trials.cluster.objects[CSINode]) == drivers
        assert sorted(trials.cluster.nodes.row_book) == drivers


# ---- gangs


def in_gang(name: str, cpu: str = "1", **more: object) -> Written:
    return a_pod(name, cpu, schedulingGroup={"podGroupName": "gang"}, **more)  # type: ignore[arg-type]


def test_a_gang_is_tried_when_its_first_pod_is_in_the_order_of_the_queue() -> None:
    pods = [a_pod("a"), in_gang("g3"), a_pod("b"), in_gang("g2", priority=5), in_gang("g1")]
    pods[4]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    pods[1]["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    trials, waiting = trial(a_node("n"), a_pod_group(min_count=2), *pods, gates=GROUP_GATES)
    units = trials.gangs.units(waiting)
    assert [(names(unit.pods), unit.least, unit.gang) for unit in units] == [
        (["a"], 0, ""),
        (["g2", "g1", "g3"], 2, "default/gang"),
        (["b"], 0, ""),
    ]


def test_pods_of_a_gang_that_run_count_for_its_minimum() -> None:
    running = [in_gang("r1", node="n"), in_gang("r2", node="n")]
    trials, waiting = trial(a_node("n"), a_pod_group(min_count=3), *running, *members(2), gates=GROUP_GATES)
    (unit,) = trials.gangs.units(waiting)
    assert (unit.least, trials.gangs.least_and_there(waiting[0])) == (1, (3, 2))
    trials.gangs.placed["default/gang"] = 5
    assert trials.gangs.units(waiting)[0].least == 0
    assert trials.gangs.gang_of(waiting[0]) == "default/gang"


def test_pods_without_a_gang_go_alone() -> None:
    trials, waiting = trial(a_node("n"), a_pod_group(), *members(2), a_pod("p"), gates=GROUP_GATES)
    assert [(unit.gang, len(unit.pods)) for unit in trials.gangs.units(waiting)] == [("", 1)] * 3
    ungated, pods = trial(a_node("n"), a_pod_group(min_count=2), *members(2))
    assert ungated.gangs.gang_of(pods[0]) is None
    assert ungated.gangs.least_and_there(pods[0]) == (0, 0)


def test_a_gang_is_unfit_if_too_few_of_its_pods_have_hope() -> None:
    trials, waiting = trial(a_node("n"), a_pod_group(min_count=2), *members(3), a_pod("p"), gates=GROUP_GATES)
    none = {"default/gang-1": "too large", "default/p": "too large"}
    assert trials.gangs.unfit(waiting, none) == {}, "two are enough"
    two = {"default/gang-2": "too dear", **none}
    told = "its group default/gang stays pending: too large"
    assert trials.gangs.unfit(waiting, two) == {
        "default/gang-0": told,
        "default/gang-1": "too large",
        "default/gang-2": "too dear",
    }


def test_gangs_of_one_form_have_the_same_kinds_of_pods_and_the_same_minimum() -> None:
    groups = [a_pod_group(name, 2) for name in ("a", "b", "c")]
    pods = [*members(3, group="a"), *members(3, group="b"), *members(2, group="c")]
    trials, waiting = trial(a_node("n"), *groups, *pods, gates=GROUP_GATES)
    a, b, c = (unit.form([None]) for unit in trials.gangs.units(waiting))
    assert a == b != c
    assert PlacedTogether(waiting[:3], 1).form([None]) != a


def test_a_gang_that_fits_in_part_leaves_no_trace_in_a_trial() -> None:
    objects = [a_node("n", "4"), a_pod_group(min_count=3), *members(3, "2"), *(a_pod(f"p{i}", "2") for i in range(3))]
    trials, waiting = trial(*objects, gates=GROUP_GATES)
    outcome = attempt(trials, waiting)
    assert (names(outcome.left), trials.decisions) == (["gang-0", "gang-1", "gang-2", "p2"], 6)
    assert not +trials.gangs.placed


def test_a_second_gang_of_the_same_form_is_not_tried() -> None:
    objects = [a_node("n", "4"), a_pod_group("a", 3), a_pod_group("b", 3)]
    objects += [*members(3, "2", group="a"), *members(3, "2", group="b")]
    trials, waiting = trial(*objects, gates=GROUP_GATES)
    assert len(attempt(trials, waiting, is_plain=True).left) == 6
    assert trials.decisions == 3, "two pods of the first gang fit, and the third does not"
    attempt(trials, waiting)
    assert trials.decisions == 9, "pods that are not plain are tried"


def test_a_gang_for_one_rack_that_does_not_fit_says_nothing_about_one_for_all_nodes() -> None:
    """Two racks have room for two pods each: four of a gang fit on both together, and on neither alone."""
    nodes = [a_node(f"n{rack}", "4", labels={"rack": rack}) for rack in ("a", "b")]
    bound, free = a_pod_group("bound", 4), a_pod_group("free", 4)
    bound["spec"]["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    pods = [*members(4, "2", group="bound"), *members(4, "2", group="free")]
    gates = {**GROUP_GATES, "TopologyAwareWorkloadScheduling": True}
    trials, waiting = trial(*nodes, bound, free, *pods, gates=gates)
    assert names(attempt(trials, waiting, is_plain=True).left) == [f"bound-{i}" for i in range(4)]


def test_members_beyond_the_minimum_may_be_left() -> None:
    trials, waiting = trial(a_node("n", "4"), a_pod_group(min_count=2), *members(3, "2"), gates=GROUP_GATES)
    assert names(attempt(trials, waiting).left) == ["gang-2"]


@pytest.mark.parametrize(
    ("least", "leaving", "told"),
    [
        (3, 1, "PodGroup default/gang needs 3 pods, and would have 2 while they move"),
        (2, 1, ""),
        (2, 2, "PodGroup default/gang needs 2 pods, and would have 1 while they move"),
        (4, 1, ""),
        (1, 3, "PodGroup default/gang needs 1 pods, and would have 0 while they move"),
    ],
    ids=["all are needed", "one is not needed", "two are too many", "it is broken already", "all leave"],
)
def test_a_gang_is_broken_while_too_few_of_its_pods_have_a_node(least: int, leaving: int, told: str) -> None:
    running = [in_gang(f"r{i}", node="n") for i in range(3)]
    loaded = load(
        [a_node("n"), a_pod_group(min_count=least), *running, a_pod("p", node="n")], feature_gates=GROUP_GATES
    )
    cluster = CopyPlacer(loaded).cluster
    pods = [item for item in loaded.objects if isinstance(item, Pod)]
    assert broken_gang(cluster, [*pods[:leaving], pods[3]]) == told
    assert GangUnits(cluster).gang_of(pods[3]) is None


def test_each_gang_has_a_minimum_of_its_own() -> None:
    """Pods of two gangs leave: the first can do without one, and the second cannot."""
    groups = [a_pod_group("large", 1), a_pod_group("small", 2)]
    running = [
        a_pod(f"{group}-{i}", node="n", schedulingGroup={"podGroupName": group})
        for group in ("large", "small")
        for i in range(2)
    ]
    loaded = load([a_node("n"), *groups, *running], feature_gates=GROUP_GATES)
    cluster = CopyPlacer(loaded).cluster
    pods = {item.name: item for item in loaded.objects if isinstance(item, Pod)}
    told = "PodGroup default/small needs 2 pods, and would have 1 while they move"
    assert broken_gang(cluster, [pods["large-0"], pods["small-0"]]) == told
    assert broken_gang(cluster, [pods["small-0"], pods["large-0"]]) == told
    assert broken_gang(cluster, [pods["large-0"]]) == ""
