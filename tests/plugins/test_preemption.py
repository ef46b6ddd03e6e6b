"""Preemption: who must leave, which node is taken, what is said; and all nodes at once against node by node."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import PodRanks
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.refiltering import is_batchable
from mooring.framework.attempts.runner import Runner
from mooring.framework.config import default
from mooring.framework.config.args import DefaultPreemptionArgs
from mooring.framework.contract.points import Handle, Nomination, NoRoom
from mooring.framework.contract.status import Code, Rejection, curable, final
from mooring.kit.choice import choose
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget
from mooring.plugins.preemption.default_preemption import DRY_RUNS, DefaultPreemption
from mooring.plugins.preemption.kept_dry_run import KeptDryRun
from mooring.plugins.preemption.victim_search import (
    Findings,
    NodeDryRun,
    PreemptionDryRun,
    budgets_of,
    nominate,
    split_by_budget,
)
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import NoFit
from mooring.state.scheduler_assembly import build_runners

GPU = "example.com/gpu"


@cache
def the_runner() -> Runner:
    return build_runners(default())["default-scheduler"]


def a_plugin(**args: Any) -> DefaultPreemption:
    return DefaultPreemption(DefaultPreemptionArgs(**args), Handle())


def failing(pod: Pod, cluster: Cluster, **options: Any) -> RejectedAttempt:
    """The failure of a pod that must not fit."""
    found = failure_of(pod, cluster, **options)
    assert found is not None, "the pod fits, so there is nothing to test"
    return found


def failure_of(
    pod: Pod, cluster: Cluster, seed: int = 0, nominated: NominatedLoad | None = None, **options: Any
) -> RejectedAttempt | None:
    cluster.nominated = nominated or cluster.nominated
    decision = decide(the_runner(), pod, cluster, DecideOptions(**options), seed)
    return decision.failure if isinstance(decision, NoFit) else None


def a_victim(name: str, priority: int = 0, cpu: str = "1", second: int | None = None, **more: Any) -> Pod:
    """A pod that started in this second, or has not."""
    started = {} if second is None else {"startTime": f"2026-01-01T00:00:{second:02}Z"}
    status = {**started, **more.pop("status", {})}
    return a_pod(name, cpu=cpu, priority=priority, status=status, **more)


def a_preemptor(cpu: str = "1", priority: int = 100, name: str = "preemptor", **more: Any) -> Pod:
    return a_pod(name, cpu=cpu, priority=priority, **more)


def a_budget(
    name: str, selector: Mapping[str, Any] | None, allowed: int, disrupted: Iterable[str] = (), namespace: str = ""
) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace or "default"},
            "spec": {"selector": selector},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        },
        PodDisruptionBudget,
    )


def labelled(value: str) -> dict[str, Any]:
    return {"matchLabels": {"app": value}}


def with_pods(pods: Mapping[str, Iterable[Pod]], cpu: str, *others: Any) -> Cluster:
    """Nodes of this size with these pods."""
    cluster = a_cluster(*(a_node(name, cpu=cpu) for name in pods), *others)
    for name, there in pods.items():
        for pod in there:
            cluster.nodes.place(pod, name)
    return cluster


def names(pods: Iterable[Pod]) -> list[str]:
    return [pod.name for pod in pods]


# ---- victims on a node

THREE = (
    a_victim("a", 10, second=1, labels={"app": "a"}),
    a_victim("b", 10, second=5, labels={"app": "b"}),
    a_victim("c", 5, labels={"app": "c"}),
)

VICTIMS: dict[str, tuple[list[PodDisruptionBudget], str, list[str], int]] = {
    "the least important leaves": ([], "1", ["c"], 0),
    "of equal priority the one that started later leaves": ([], "2", ["b", "c"], 0),
    "all leave, the most important first": ([], "3", ["a", "b", "c"], 0),
    "a protected pod comes back first": ([a_budget("x", labelled("c"), 0)], "1", ["b"], 0),
    "a budget with something left protects nobody": ([a_budget("x", labelled("c"), 1)], "1", ["c"], 0),
    "a protected pod leaves when it must": ([a_budget("x", labelled("c"), 0)], "3", ["a", "b", "c"], 1),
    "the most important of the protected comes back first": (
        [a_budget("x", labelled("c"), 0), a_budget("y", labelled("b"), 0)],
        "2",
        ["a", "c"],
        1,
    ),
    "a budget in another namespace protects nobody": (
        [a_budget("x", labelled("c"), 0, namespace="other")],
        "1",
        ["c"],
        0,
    ),
}


@pytest.mark.parametrize(("budgets", "cpu", "victims", "violations"), VICTIMS.values(), ids=VICTIMS.keys())
def test_victims(budgets: list[PodDisruptionBudget], cpu: str, victims: list[str], violations: int) -> None:
    cluster = with_pods({"n1": THREE}, "3", *budgets)
    failure = failing(a_preemptor(cpu), cluster)
    findings = a_plugin().search(failure)
    row = cluster.nodes.row_book["n1"]
    assert findings.rows.tolist() == [row]
    assert (names(findings.victims(row)), findings.violations(row)) == (victims, violations)
    assert check_table(cluster.nodes) == [], "the dry run left something behind"


SPLITS: dict[str, tuple[list[PodDisruptionBudget], list[str]]] = {
    "no budget, no breach": ([], []),
    "each pod takes one; those beyond it break it": ([a_budget("x", labelled("web"), 1)], ["w2", "w3"]),
    "a negative allowance is broken by the first": ([a_budget("x", labelled("web"), -1)], ["w1", "w2", "w3"]),
    "a pod that is being evicted already does not take": (
        [a_budget("x", labelled("web"), 1, ["w1"])],
        ["w3"],
    ),
    "v1.37, 12.1: budgets behind the one that a pod breaks are not taken from": (
        [
            a_budget("x", labelled("web"), 0),
            a_budget("y", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 1),
        ],
        ["w1", "w2", "w3"],
    ),
    "v1.37, 12.1: budgets before the one that a pod breaks are taken from": (
        [
            a_budget("a", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 2),
            a_budget("x", labelled("web"), 0),
        ],
        ["w1", "w2", "w3", "d1"],
    ),
    "an empty selector matches nobody": ([a_budget("x", {}, 0)], []),
    "no selector matches nobody": ([a_budget("x", None, 0)], []),
    "a selector that cannot be read matches nobody": (
        [a_budget("x", {"matchExpressions": [{"key": "app", "operator": "Sounds"}]}, 0)],
        [],
    ),
    "a pod without labels is matched by nothing": (
        [a_budget("x", {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, 0)],
        ["other"],
    ),
    "another namespace is none of its business": ([a_budget("x", labelled("web"), 0, namespace="prod")], []),
}


@pytest.mark.parametrize(("budgets", "breaking"), SPLITS.values(), ids=SPLITS.keys())
def test_budgets_split_pods(budgets: list[PodDisruptionBudget], breaking: list[str]) -> None:
    pods = [a_victim(name, labels={"app": "web"}) for name in ("w1", "w2", "w3")]
    pods += [a_victim("d1", labels={"app": "db"}), a_victim("bare"), a_victim("other", labels={"tier": "x"})]
    found, others = split_by_budget(pods, budgets_of(a_cluster(*budgets)))
    assert names(found) == breaking
    assert names(others) == [pod.name for pod in pods if pod.name not in breaking]


# ---- which node

WEB: dict[str, Any] = {"labels": {"app": "web"}}
RANKINGS: dict[str, tuple[dict[str, list[Pod]], str]] = {
    "fewest breaches go before anything else": (
        {"n1": [a_victim("a", 1, "6", **WEB)], "n2": [a_victim("b", 9, "6")]},
        "n2",
    ),
    "the lowest first victim wins over the sum": (
        {
            "n1": [a_victim("a", 5, "3"), a_victim("b", 5, "3")],
            "n2": [a_victim("c", 5, "6")],
            "n3": [a_victim(name, 4, "2") for name in "def"],
        },
        "n3",
    ),
    "the smaller sum wins where the first victims are equal": (
        {"n1": [a_victim("a", 5, "3"), a_victim("b", 5, "3")], "n2": [a_victim("c", 5, "6")]},
        "n2",
    ),
    "the sum counts lower victims": (
        {"n1": [a_victim("a", 5, "3"), a_victim("b", 4, "3")], "n2": [a_victim("c", 5, "3"), a_victim("d", 3, "3")]},
        "n2",
    ),
    "fewer victims of negative priority win": (
        {"n1": [a_victim("a", -5, "3"), a_victim("b", -5, "3")], "n2": [a_victim("c", -5, "6")]},
        "n2",
    ),
    "an equal sum of fewer victims wins": (
        {
            "n1": [a_victim("a", 5, "3"), a_victim("b", -(1 << 31), "3")],
            "n2": [a_victim("c", 5, "6")],
        },
        "n2",
    ),
    "the victims that started latest win": (
        {"n1": [a_victim("a", 5, "6", 10)], "n2": [a_victim("b", 5, "6", 20)], "n3": [a_victim("c", 5, "6", 15)]},
        "n2",
    ),
    "the earliest of the highest priority stands for a node": (
        {
            "n1": [a_victim("a", 5, "2", 10), a_victim("b", 5, "2", 50), a_victim("c", 1, "2", 1)],
            "n2": [a_victim("d", 5, "2", 11), a_victim("e", 5, "2", 12), a_victim("f", 1, "2", 0)],
        },
        "n2",
    ),
    "one that has not started started latest": (
        {"n1": [a_victim("a", 5, "6")], "n2": [a_victim("b", 5, "6", 20)]},
        "n1",
    ),
    "of equals that started the first name wins": (
        {"n2": [a_victim("a", 5, "6", 1)], "n1": [a_victim("b", 5, "6", 1)]},
        "n1",
    ),
    "of equals that have not started the last name wins": (
        {"n2": [a_victim("a", 5, "6")], "n1": [a_victim("b", 5, "6")]},
        "n2",
    ),
}


@pytest.mark.parametrize(("pods", "chosen"), RANKINGS.values(), ids=RANKINGS.keys())
def test_the_least_harmful_node_is_chosen(pods: dict[str, list[Pod]], chosen: str) -> None:
    cluster = with_pods(pods, "6", a_budget("x", labelled("web"), 0))
    found = a_plugin().post_filter(failing(a_preemptor("6"), cluster))
    assert isinstance(found, Nomination)
    assert found.node_name == chosen
    assert set(names(found.victims)) == set(names(pods[chosen]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param({}, 12, id="the defaults examine all of a few nodes"),
        pytest.param({"min_candidate_nodes_absolute": 3}, 3, id="the number decides where the share is less"),
        pytest.param(
            {"min_candidate_nodes_absolute": 1, "min_candidate_nodes_percentage": 50}, 6, id="the share decides"
        ),
        pytest.param(
            {"min_candidate_nodes_absolute": 1, "min_candidate_nodes_percentage": 20}, 2, id="a share is rounded down"
        ),
    ],
)
def test_as_many_candidates_as_the_arguments_ask_for(args: dict[str, int], expected: int, seed: int) -> None:
    cluster = with_pods({f"n{i:02}": [a_victim(f"v{i}")] for i in range(12)}, "1")
    failure = failing(a_preemptor(), cluster, examine_all=False, seed=seed)
    start = choose(seed, 12)
    assert a_plugin(**args).search(failure).rows.tolist() == [(start + i) % 12 for i in range(expected)]
    failure.examine_all = True
    assert len(a_plugin(**args).search(failure)) == 12


def seed_that_starts_at(place: int, count: int) -> int:
    return next(seed for seed in range(1000) if choose(seed, count) == place)


def test_the_search_goes_on_until_a_candidate_breaks_no_budget() -> None:
    pods = {f"n{i}": [a_victim(f"v{i}", **(WEB if i < 4 else {}))] for i in range(6)}
    cluster = with_pods(pods, "1", a_budget("x", labelled("web"), 0))
    failure = failing(a_preemptor(), cluster, examine_all=False, seed=seed_that_starts_at(0, 6))
    findings = a_plugin(min_candidate_nodes_absolute=1, min_candidate_nodes_percentage=0).search(failure)
    assert findings.rows.tolist() == [0, 1, 2, 3, 4]
    assert [findings.violations(row) for row in range(5)] == [1, 1, 1, 1, 0]


def test_candidates_tried_together_are_ranked_after_others_were_tried_alone() -> None:
    pods = {
        "n0": [a_victim("v0", 0, **WEB)],
        "n1": [a_victim("v1", 0, **WEB)],
        "n2": [a_victim("v2", 9, second=1)],
        "n3": [a_victim("v3", 5, second=1)],
    }
    cluster = with_pods(pods, "1", a_budget("x", labelled("web"), 0))
    failure = failing(a_preemptor(), cluster, examine_all=False, seed=seed_that_starts_at(0, 4))
    plugin = a_plugin(min_candidate_nodes_absolute=2, min_candidate_nodes_percentage=0)
    assert plugin.post_filter(failure) == nominate("n3", tuple(pods["n3"]))


# ---- what is said

MESSAGES: dict[str, tuple[Cluster, Pod, str]] = {
    "nobody has a lower priority": (
        with_pods({"n1": [a_victim("a", 100)], "n2": [a_victim("b", 101)]}, "1"),
        a_preemptor(),
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
    ),
    "those who may leave do not free enough": (
        with_pods({"n1": [a_victim("a", 100, "3"), a_victim("b", 1)]}, "4"),
        a_preemptor("2"),
        "preemption: 0/1 nodes are available: 1 Insufficient cpu.",
    ),
    "no node could ever take it": (
        with_pods({"n1": [a_victim("a")], "n2": []}, "1"),
        a_preemptor(nodeSelector={"disk": "ssd"}),
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    ),
    "each node has its own reason": (
        with_pods(
            {"n1": [a_victim("a", 100)], "n2": [a_victim("b", 100, "500m"), a_victim("c", 1, "500m")]},
            "1",
            a_node("n3", taints=["x=y:NoSchedule"]),
        ),
        a_preemptor(),
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
    ),
}


@pytest.mark.parametrize(("cluster", "pod", "text"), MESSAGES.values(), ids=MESSAGES.keys())
def test_the_message_without_candidates(cluster: Cluster, pod: Pod, text: str) -> None:
    assert a_plugin().post_filter(failing(pod, cluster)) == NoRoom(curable(text), clear_nomination=True)


LEAVING = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
WAIT = "preemption: not eligible due to a terminating pod on the nominated node."
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
ELIGIBILITY: dict[str, tuple[Pod, Pod, str | None]] = {
    "a pod that must not preempt": (
        a_preemptor(preemptionPolicy="Never"),
        a_victim("v"),
        "preemption: not eligible due to preemptionPolicy=Never.",
    ),
    "a pod that may preempt": (a_preemptor(preemptionPolicy="PreemptLowerPriority"), a_victim("v"), None),
    "its victim is leaving the node it was promised": (
        a_preemptor(status={"nominatedNodeName": "n1"}),
        a_victim("v", metadata=DELETED, status={"conditions": [LEAVING]}),
        WAIT,
    ),
    "a victim leaves a node that was not promised": (
        a_preemptor(status={"nominatedNodeName": "n2"}),
        a_victim("v", metadata=DELETED, status={"conditions": [LEAVING]}),
        None,
    ),
    "a pod that leaves for another reason": (
        a_preemptor(status={"nominatedNodeName": "n1"}),
        a_victim("v", metadata=DELETED, status={"conditions": [{**LEAVING, "reason": "EvictionByEvictionAPI"}]}),
        None,
    ),
    "only the first such condition counts": (
        a_preemptor(status={"nominatedNodeName": "n1"}),
        a_victim("v", metadata=DELETED, status={"conditions": [{**LEAVING, "status": "False"}, LEAVING]}),
        None,
    ),
    "conditions of other types do not matter": (
        a_preemptor(status={"nominatedNodeName": "n1"}),
        a_victim("v", metadata=DELETED, status={"conditions": [{"type": "Ready", "status": "True"}, LEAVING]}),
        WAIT,
    ),
    "a target that is not being deleted yet": (
        a_preemptor(status={"nominatedNodeName": "n1"}),
        a_victim("v", status={"conditions": [LEAVING]}),
        None,
    ),
    "a pod without conditions that is being deleted": (
        a_preemptor(status={"nominatedNodeName": "n1"}),
        a_victim("v", metadata=DELETED),
        None,
    ),
}


@pytest.mark.parametrize(("pod", "victim", "refusal"), ELIGIBILITY.values(), ids=ELIGIBILITY.keys())
def test_eligibility(pod: Pod, victim: Pod, refusal: str | None) -> None:
    cluster = with_pods({"n1": [victim]}, "1", a_node("n2", cpu="0"))
    expected = nominate("n1", (victim,)) if refusal is None else NoRoom(curable(refusal))
    assert a_plugin().post_filter(failing(pod, cluster)) == expected


def test_a_leaving_pod_of_no_lower_priority_is_not_waited_for() -> None:
    leaving = a_victim("v", 100, "500m", metadata=DELETED, status={"conditions": [LEAVING]})
    lower = a_victim("w", 1, "1500m")
    cluster = with_pods({"n1": [leaving, lower]}, "2")
    found = a_plugin().post_filter(failing(a_preemptor(status={"nominatedNodeName": "n1"}), cluster))
    assert found == nominate("n1", (lower,))


def test_v137_8_1_a_nomination_says_what_it_found() -> None:
    """Upstream's rows of TestPostFilter: the text has no full stop."""
    victims = (a_victim("a"), a_victim("b"))
    text = "preemption: found a potential placement for pod on node node1, preempting"
    assert nominate("node1", victims) == Nomination("node1", victims, f"{text} 2 victims")
    assert nominate("node1", victims[:1]).message == f"{text} 1 victims"


def test_a_promised_node_that_became_impossible_is_not_waited_for() -> None:
    leaving = a_victim("v", metadata=DELETED, status={"conditions": [LEAVING]})
    cluster = with_pods({"n1": [leaving]}, "1")
    cluster.put(a_node("n1", cpu="1", taints=["x=y:NoSchedule"]))
    text = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    found = a_plugin().post_filter(failing(a_preemptor(status={"nominatedNodeName": "n1"}), cluster))
    assert found == NoRoom(curable(text), clear_nomination=True)


def test_a_preemptor_stays_out_of_the_queue_while_its_victims_are_evicted() -> None:
    plugin, pod = a_plugin(), a_preemptor()
    assert plugin.pre_enqueue(pod) is None
    plugin.eviction_began(pod)
    assert plugin.pre_enqueue(pod) == final("waiting for the preemption for this pod to be finished")
    assert plugin.pre_enqueue(a_preemptor(name="another")) is None
    plugin.eviction_ended(pod)
    assert plugin.pre_enqueue(pod) is None


def test_victims_make_room_for_the_nominated_too() -> None:
    cluster = with_pods({"n1": [a_victim("a", 5), a_victim("b", 4), a_victim("c", 3)]}, "3")
    nominated = NominatedLoad(cluster.nodes)
    nominated.promise(a_preemptor(name="promised", priority=100), "n1")
    found = a_plugin().post_filter(failing(a_preemptor(), cluster, nominated=nominated))
    assert isinstance(found, Nomination)
    assert names(found.victims) == ["b", "c"]
    found = a_plugin().post_filter(failing(a_preemptor(priority=101), cluster, nominated=nominated))
    assert isinstance(found, Nomination)
    assert names(found.victims) == ["c"]


# ---- all at once, node by node, and by plain arithmetic

NODES = ("n0", "n1", "n2", "n3")
PRIORITIES = (-3, 0, 4, 10)


@dataclass(frozen=True)
class Size:
    cpus: int
    gpus: int

    def requests(self) -> dict[str, str]:
        return {"cpu": str(self.cpus), GPU: str(self.gpus)} if self.gpus else {"cpu": str(self.cpus)}


SIZES = st.builds(Size, st.integers(0, 2), st.sampled_from((0, 0, 1)))
NODE = st.tuples(st.sampled_from(NODES), st.integers(1, 4), st.integers(0, 2), st.integers(1, 4), st.booleans())
PLACED = st.tuples(st.sampled_from(NODES), st.sampled_from(PRIORITIES), SIZES, st.one_of(st.none(), st.integers(0, 3)))
PROMISED = st.tuples(
    st.sampled_from(("x", "y", "pre0", "pre1")), st.sampled_from(NODES), st.sampled_from(PRIORITIES), SIZES
)
STEP = st.one_of(
    st.tuples(st.just("node"), NODE),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("place"), PLACED),
    st.tuples(st.just("place"), PLACED),
    st.tuples(st.just("displace"), st.integers(0, 30)),
    st.tuples(st.just("promise"), PROMISED),
    st.tuples(st.just("withdraw"), st.sampled_from(("x", "y", "pre0", "pre1"))),
)
PREEMPTORS = tuple(
    a_pod(name, requests=size.requests(), priority=priority)
    for name, size in (("pre0", Size(1, 0)), ("pre1", Size(2, 0)), ("pre2", Size(1, 1)), ("pre3", Size(3, 0)))
    for priority in (0, 5, 10, 11)
)


class World:
    """A small cluster that changes."""

    def __init__(self, nodes: list[Any], placed: list[Any], promised: list[Any]) -> None:
        self.cluster = Cluster()
        self.nominated = NominatedLoad(self.cluster.nodes)
        self.count = 0
        for kind, many in (("node", nodes), ("place", placed), ("promise", promised)):
            for one in many:
                self.change((kind, one))

    def change(self, step: tuple[str, Any]) -> None:
        table = self.cluster.nodes
        match step:
            case ("node", (name, cpus, gpus, pods, tainted)):
                taints = ["x=y:NoSchedule"] if tainted and cpus == 1 else []
                table.put_node(a_node(name, cpu=str(cpus), pods=pods, allocatable={GPU: gpus}, taints=taints))
            case ("no node", name) if any(node is not None and node.name == name for node in table.nodes):
                table.remove_node(name)
            case ("place", (name, priority, size, second)):
                self.count += 1
                table.place(a_victim(f"v{self.count}", priority, second=second, requests=size.requests()), name)
            case ("displace", place) if table.pods():
                table.displace(table.pods()[place % len(table.pods())].id)
            case ("promise", (pod, name, priority, size)):
                self.nominated.promise(a_pod(pod, requests=size.requests(), priority=priority), name)
            case ("withdraw", pod):
                self.nominated.withdraw(a_pod(pod).id)

    def failure(self, pod: Pod) -> RejectedAttempt | None:
        return failure_of(pod, self.cluster, nominated=self.nominated)


Outcome = tuple[dict[str, tuple[list[str], int, list[int]]], Counter[tuple[str, ...]]]


def outcome_of(findings: Findings, cluster: Cluster) -> Outcome:
    """By node the victims, budgets broken and harm; and how often each refusal was heard."""
    candidates = {
        cluster.nodes.names[row]: (
            names(in_one_order(findings.victims(row))),
            findings.violations(row),
            list(findings.harm(row)),
        )
        for row in findings.rows.tolist()
    }
    refusals: Counter[tuple[str, ...]] = Counter()
    for rejection, count in findings.refusals:
        refusals[(*rejection.reasons, rejection.code.name)] += count
    return candidates, refusals


def in_one_order(victims: Iterable[Pod]) -> list[Pod]:
    """Neighbours of equal priority that have not started by name: see the test of the order of such victims."""
    found: list[Pod] = []
    for (_, started), group in groupby(victims, key=lambda pod: (pod.priority, pod.status.start_time)):
        alike = list(group)
        found += alike if started else sorted(alike, key=lambda pod: pod.name)
    return found


def singly(failure: RejectedAttempt) -> Findings:
    """Node by node, with nothing kept."""
    nodes = failure.attempt.context.nodes
    ranks = PodRanks(nodes)
    ranks.refresh()
    dry_run = PreemptionDryRun(failure, ranks, KeptDryRun(ranks), [])
    findings = dry_run.nothing()
    dry_run.search_singly(failure.curable_rows(), findings)
    return findings


def test_a_rule_of_another_plugin_may_say_who_may_leave() -> None:
    """The rule instead of the priority: the pod named `late` leaves, though it is more important than the preemptor."""
    cluster = Cluster()
    cluster.nodes.put_node(a_node("n", cpu="2"))
    for name, priority in (("early", 0), ("late", 100)):
        cluster.nodes.place(a_pod(name, cpu="1", priority=priority), "n")
    failure = failure_of(a_pod("preemptor", cpu="1", priority=5), cluster)
    assert failure is not None
    ranks = PodRanks(cluster.nodes)
    ranks.refresh()
    rule = NodeDryRun(failure, ranks, [], lambda pods: [pod for pod in pods if pod.name == "late"])
    answer = rule.search(0)
    assert not isinstance(answer, Rejection)
    assert [pod.name for pod in answer[0]] == ["late"]
    assert isinstance(NodeDryRun(failure, ranks, [], lambda pods: []).search(0), Rejection)


def plain_victims(pod: Pod, row: int, world: World) -> list[str] | None:
    """The victims on a node by sums of plain numbers; None where the pod cannot be made to fit or nobody may leave."""
    table = world.cluster.nodes
    node = table.nodes[row]
    assert node is not None
    room = node.status.allocatable or {}
    beside = world.nominated.beside(pod, node.name)

    def wants(pods: Iterable[Pod], resource: str) -> int:
        found = 0
        for one in pods:
            resources = (one.spec.containers or [])[0].resources
            found += int(((resources.requests if resources else None) or {}).get(resource, 0))
        return found

    def fits(others: list[Pod]) -> bool:
        """Parity: a resource that the pod does not ask for may be overdrawn."""
        return len(others) + 1 <= int(room["pods"]) and all(
            wants([pod], resource) == 0 or wants([*others, pod], resource) <= int(room.get(resource, 0))
            for resource in ("cpu", GPU)
        )

    def both(others: list[Pod]) -> bool:
        return fits(others) and fits([*others, *beside])

    staying = [other for other in table.pods_on[row] if other.priority >= pod.priority]
    lower = [other for other in table.pods_on[row] if other.priority < pod.priority]
    if not lower or not both(staying):
        return None
    never = "9"  # after any time; among those the first to come is the most important
    lower.sort(key=lambda one: (-one.priority, one.status.start_time or never))
    victims = []
    for other in lower:
        if both([*staying, other]):
            staying.append(other)
        else:
            victims.append(other)
    return names(victims)


WORLDS = st.builds(
    World,
    st.lists(NODE, min_size=1, max_size=5),
    st.lists(PLACED, min_size=3, max_size=12),
    st.lists(PROMISED, max_size=3),
)


@given(WORLDS)
def test_all_nodes_at_once_come_to_the_same_as_one_by_one(world: World) -> None:
    for pod in PREEMPTORS:
        failure = world.failure(pod)
        if failure is None:
            continue
        assert is_batchable(failure.attempt)
        findings = a_plugin().search(failure)
        assert not findings.single, "nodes were tried alone that need not be"
        together = outcome_of(findings, world.cluster)
        assert together == outcome_of(singly(failure), world.cluster)
        plainly = {
            world.cluster.nodes.names[row]: plain_victims(pod, row, world) for row in failure.curable_rows().tolist()
        }
        in_order = {world.cluster.nodes.names[row]: names(findings.victims(row)) for row in findings.rows.tolist()}
        assert in_order == {name: victims for name, victims in plainly.items() if victims is not None}
        assert together[1].total() == sum(victims is None for victims in plainly.values())
    assert check_table(world.cluster.nodes) == []


def test_v137_12_2_victims_that_have_not_started_are_in_the_order_of_the_node_either_way() -> None:
    cluster = with_pods({"n1": [a_victim("a"), a_victim("b")]}, "2")
    failure = failing(a_preemptor("2"), cluster)
    assert names(a_plugin().search(failure).victims(0)) == ["a", "b"]
    assert names(singly(failure).victims(0)) == ["a", "b"]


@given(WORLDS, st.lists(STEP, min_size=1, max_size=12))
def test_what_is_kept_changes_no_answer(world: World, steps: list[tuple[str, Any]]) -> None:
    kept = a_plugin()
    pods = PREEMPTORS[1:13:2]
    for step in (("nothing", None), *steps):
        world.change(step)
        for pod in pods:
            failure = world.failure(pod)
            if failure is not None:
                assert outcome_of(kept.search(failure), world.cluster) == outcome_of(singly(failure), world.cluster)
                assert kept.post_filter(failure) == a_plugin().post_filter(failure)


def test_a_kept_outcome_is_dropped_for_the_least_recently_asked() -> None:
    cluster = with_pods({"n1": [a_victim("a", 0)]}, "1")
    plugin = a_plugin()
    for priority in range(1, DRY_RUNS + 3):
        plugin.search(failing(a_preemptor(priority=priority), cluster))
        plugin.search(failing(a_preemptor(priority=1), cluster))
    assert [priority for _, priority in plugin.dry_runs] == [*range(4, DRY_RUNS + 3), 1]


def test_a_refusal_of_the_dry_run_keeps_its_code() -> None:
    cluster = with_pods({"n1": [a_victim("a", 100)]}, "1")
    ((rejection, count),) = a_plugin().search(failing(a_preemptor(), cluster)).refusals
    assert (rejection.reasons, rejection.code, count) == (
        ("No preemption victims found for incoming pod",),
        Code.UnschedulableAndUnresolvable,
        1,
    )


def test_a_pod_of_the_same_shape_that_is_promised_the_node_needs_less_room() -> None:
    cluster = with_pods({"n1": [a_victim("a", 5), a_victim("b", 4)]}, "2")
    promised, other = a_preemptor(name="promised"), a_preemptor(name="other")
    nominated = NominatedLoad(cluster.nodes)
    nominated.promise(promised, "n1")
    plugin = a_plugin()
    needed = [
        names(plugin.search(failing(pod, cluster, nominated=nominated)).victims(0))
        for pod in (promised, other, promised)
    ]
    assert needed == [["b"], ["a", "b"], ["b"]]


def test_victims_can_be_read_after_they_have_left() -> None:
    cluster = with_pods({"n1": [a_victim("a", 5), a_victim("b", 4)]}, "2")
    findings = a_plugin().search(failing(a_preemptor("2"), cluster))
    for pod in findings.victims(0):
        cluster.nodes.displace(pod.id)
    assert names(findings.victims(0)) == ["a", "b"]
