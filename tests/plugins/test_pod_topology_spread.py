"""PodTopologySpread: skew, domains and policies; soft constraints and the default ones."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alone import build, fault, scores, skips_filter, verdicts
from build import a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.cluster.tallies import tallies
from mooring.framework.config.args import PodTopologySpreadArgs
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import SKIP, curable, final
from mooring.model.meta import KubeObject
from mooring.model.node import COMPARISON_GATE, Node
from mooring.model.pod import Pod
from mooring.model.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from mooring.plugins.affinity import spread_counts
from mooring.plugins.affinity.pod_topology_spread import PodTopologySpread

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SKEWED = curable("node(s) didn't match pod topology spread constraints").by("PodTopologySpread")
MISSING = final("node(s) didn't match pod topology spread constraints (missing required label)").by("PodTopologySpread")
WEB = {"matchLabels": {"app": "web"}}
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def rule(action: str = HARD, key: str = ZONE, skew: int = 1, selector: Any = WEB, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, "labelSelector": selector, **more}


def spread(*rules: dict[str, Any], app: str = "web", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    return a_pod("new", labels=labels or {"app": app}, topologySpreadConstraints=list(rules), **spec)


def zoned(zone: str, number: int = 0, **more: Any) -> Node:
    name = f"{zone}{number}"
    return a_node(name, labels={ZONE: zone, HOST: name, **more.pop("labels", {})}, **more)


def with_pods(*nodes: Node, app: str = "web", namespace: str = "default", **counts: int) -> Cluster:
    """A cluster with so many pods on these nodes: with_pods(..., a0=2)."""
    cluster = a_cluster(*nodes)
    for name, count in counts.items():
        for i in range(count):
            cluster.nodes.place(a_pod(f"{name}-{i}", namespace=namespace, labels={"app": app}), name)
    return cluster


def plugin(**args: Any) -> Any:
    return build(PodTopologySpread, msgspec.convert(args, PodTopologySpreadArgs) if args else None)


def rejected(pod: Pod, cluster: Cluster) -> dict[str, Any]:
    return verdicts(plugin(), pod, cluster)


@pytest.fixture(autouse=True, params=["counts are kept", "counts are made for one attempt"])
def counting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod with many constraints counts in another way, which must come to the same."""
    if request.param == "counts are made for one attempt":
        monkeypatch.setattr(tallies, "FEW_RULES", -1)
        monkeypatch.setattr(spread_counts, "FEW_CONSTRAINTS", -1)


# ---- Filter


A, B, C = zoned("a"), zoned("b"), zoned("c")

FILTER: dict[str, tuple[Pod, Cluster, dict[str, Any]]] = {
    "the fuller zone is full": (spread(rule()), with_pods(A, B, a0=2, b0=1), {"a0": SKEWED}),
    "a larger skew is allowed": (spread(rule(skew=2)), with_pods(A, B, a0=2, b0=1), {}),
    "a pod that its own selector does not match": (spread(rule(), app="db"), with_pods(A, B, a0=2, b0=1), {}),
    "too few domains, all empty": (spread(rule(minDomains=3)), with_pods(A, B), {}),
    "too few domains, all taken": (
        spread(rule(minDomains=3)),
        with_pods(A, B, a0=1, b0=1),
        {"a0": SKEWED, "b0": SKEWED},
    ),
    "enough domains": (spread(rule(minDomains=3)), with_pods(A, B, C, a0=1, b0=1, c0=1), {}),
    "a node without the label": (spread(rule()), with_pods(A, a_node("bare")), {"bare": MISSING}),
    "pods on nodes without the label do not count": (
        spread(rule()),
        with_pods(A, B, a_node("bare"), bare=5),
        {"bare": MISSING},
    ),
    "pods of other namespaces do not count": (spread(rule()), with_pods(A, B, a0=3, namespace="other"), {}),
    "pods that the selector does not match do not count": (spread(rule()), with_pods(A, B, a0=3, app="db"), {}),
    "no selector matches nothing": (spread(rule(selector=None)), with_pods(A, B, a0=3), {}),
    "an empty selector counts no pod but the new one": (spread(rule(selector={})), with_pods(A, B, a0=3), {}),
    "two constraints: the first that fails is told": (
        spread(rule(key=HOST), rule()),
        with_pods(A, zoned("a", 1), a_node("bare", labels={HOST: "bare"}), a0=2, a1=1),
        {"a0": SKEWED, "bare": MISSING},
    ),
    "nodes without all labels are no domains": (
        spread(rule(), rule(key="rack", skew=9)),
        with_pods(zoned("a", labels={"rack": "1"}), B, a0=1),
        {"b0": MISSING},
    ),
    "only soft constraints": (spread(rule(SOFT)), with_pods(A, B, a0=9), {}),
}


@pytest.mark.parametrize(("pod", "cluster", "expected"), FILTER.values(), ids=FILTER.keys())
def test_where_the_skew_would_be_too_large(pod: Pod, cluster: Cluster, expected: dict[str, Any]) -> None:
    assert rejected(pod, cluster) == expected


def test_terminating_pods_do_not_count() -> None:
    cluster = with_pods(A, B)
    cluster.nodes.place(
        a_pod("leaving", labels={"app": "web"}, metadata={"deletionTimestamp": "2026-02-01T00:00:00Z"}), "a0"
    )
    assert rejected(spread(rule()), cluster) == {}


SELECTED: dict[str, Any] = {"nodeSelector": {"disk": "ssd"}}
SSD_A, SSD_B = (zoned(zone, labels={"disk": "ssd"}) for zone in "ab")
POLICIES: dict[str, tuple[Pod, Cluster, list[str]]] = {
    "nodes that the pod cannot go to are no domains": (
        spread(rule(), **SELECTED),
        with_pods(SSD_A, SSD_B, C, a0=1, b0=1),
        [],
    ),
    "... unless affinity is ignored": (
        spread(rule(nodeAffinityPolicy="Ignore"), **SELECTED),
        with_pods(SSD_A, SSD_B, C, a0=1, b0=1),
        ["a0", "b0"],
    ),
    "taints are ignored": (
        spread(rule()),
        with_pods(A, B, zoned("c", taints=["k:NoSchedule"]), a0=1, b0=1),
        ["a0", "b0"],
    ),
    "... unless they are honoured": (
        spread(rule(nodeTaintsPolicy="Honor")),
        with_pods(A, B, zoned("c", taints=["k:NoSchedule"]), a0=1, b0=1),
        [],
    ),
    "a taint that is tolerated": (
        spread(rule(nodeTaintsPolicy="Honor"), tolerations=[{"operator": "Exists"}]),
        with_pods(A, B, zoned("c", taints=["k:NoSchedule"]), a0=1, b0=1),
        ["a0", "b0"],
    ),
    "a node that does not count is judged all the same": (
        spread(rule(), **SELECTED),
        with_pods(SSD_A, zoned("a", 1), SSD_B, a0=1),
        ["a0", "a1"],
    ),
}


@pytest.mark.parametrize(("pod", "cluster", "full"), POLICIES.values(), ids=POLICIES.keys())
def test_which_nodes_are_counted(pod: Pod, cluster: Cluster, full: list[str]) -> None:
    assert rejected(pod, cluster) == dict.fromkeys(full, SKEWED)


@pytest.mark.parametrize("is_on", [True, False])
def test_honoured_taints_are_compared_where_the_gate_is_on(is_on: bool) -> None:
    """A zone counts if the pod tolerates its taint: then two zones have one pod more than the third."""
    pod = spread(rule(nodeTaintsPolicy="Honor"), tolerations=[{"key": "level", "operator": "Lt", "value": "5"}])
    cluster = with_pods(A, B, zoned("c", taints=["level=3:NoSchedule"]), a0=1, b0=1)
    plugin = PodTopologySpread(None, Handle(feature_gates={COMPARISON_GATE: is_on}))
    assert verdicts(plugin, pod, cluster) == (dict.fromkeys(["a0", "b0"], SKEWED) if is_on else {})


VERSIONS: dict[str, tuple[dict[str, str], list[str]]] = {
    "pods of another version do not count": ({"app": "web", "version": "2"}, []),
    "pods of the same version count": ({"app": "web", "version": "1"}, ["a0"]),
    "a key that the pod has not is ignored": ({"app": "web"}, ["a0"]),
}


@pytest.mark.parametrize(("labels", "full"), VERSIONS.values(), ids=VERSIONS.keys())
def test_match_label_keys(labels: dict[str, str], full: list[str]) -> None:
    cluster = with_pods(A, B)
    cluster.nodes.place(a_pod("old", labels={"app": "web", "version": "1"}), "a0")
    pod = spread(rule(matchLabelKeys=["version"]), labels=labels)
    assert rejected(pod, cluster) == dict.fromkeys(full, SKEWED)


def test_pods_without_hard_constraints_are_left_alone() -> None:
    assert skips_filter(plugin(), a_pod(), with_pods(A))
    assert skips_filter(plugin(), spread(rule(SOFT)), with_pods(A))
    assert not skips_filter(plugin(), spread(rule()), with_pods(A))


def test_a_selector_that_cannot_be_read_is_an_error() -> None:
    bad = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}
    text = 'topology spread constraints: "Near" is not a valid label selector operator'
    assert fault(plugin(), spread(rule(selector=bad)), with_pods(A, B)) == (
        f'running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod\'s hard {text}'
    )
    soft = fault(plugin(), spread(rule(SOFT, selector=bad)), with_pods(A, B))
    assert soft == (
        f'running PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod\'s soft {text}'
    )


# ---- Score


SCORE: dict[str, tuple[Pod, Cluster, Any]] = {
    "the emptier zone": (
        spread(rule(SOFT)),
        with_pods(A, zoned("a", 1), B, a0=2, b0=1),
        {"a0": 33, "a1": 33, "b0": 100},
    ),
    "all empty": (spread(rule(SOFT)), with_pods(A, B), {"a0": 100, "b0": 100}),
    "all empty, with a large skew": (spread(rule(SOFT, skew=5)), with_pods(A, B), {"a0": 100, "b0": 100}),
    "a node without the label": (
        spread(rule(SOFT, key="rack")),
        with_pods(zoned("a", labels={"rack": "1"}), B),
        {"a0": 100, "b0": 0},
    ),
    "no node has the label": (spread(rule(SOFT, key="rack")), with_pods(A, B), {"a0": 0, "b0": 0}),
    "hosts are counted one by one": (
        spread(rule(SOFT, key=HOST)),
        with_pods(A, zoned("a", 1), B, a0=2, a1=1),
        {"a0": 0, "a1": 33, "b0": 100},
    ),
    "only hard constraints": (spread(rule()), with_pods(A, B), SKIP),
    "no constraints and nothing to derive them from": (a_pod(labels={"app": "web"}), with_pods(A, B, a0=3), SKIP),
}


@pytest.mark.parametrize(("pod", "cluster", "expected"), SCORE.values(), ids=SCORE.keys())
def test_soft_constraints(pod: Pod, cluster: Cluster, expected: Any) -> None:
    assert scores(plugin(), pod, cluster) == expected


# ---- default constraints


def an_object(kind: type[KubeObject], name: str = "x", namespace: str = "default", **spec: Any) -> KubeObject:
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, "spec": spec}, kind)


def owned(kind: str, api_version: str = "apps/v1", controller: bool = True) -> Pod:
    owner = {"apiVersion": api_version, "kind": kind, "name": "x", "controller": controller}
    return a_pod("new", labels={"app": "web"}, metadata={"ownerReferences": [owner]})


PLAIN = a_pod("new", labels={"app": "web"})
SPREAD = {"a0": 66, "a1": 88, "b0": 100}
"""One pod on a0: the second worked example of the specification."""
DERIVED: dict[str, tuple[Pod, list[KubeObject], Any]] = {
    "a service selects the pod": (PLAIN, [an_object(Service, selector={"app": "web"})], SPREAD),
    "a service selects other pods": (PLAIN, [an_object(Service, selector={"app": "db"})], SKIP),
    "a service of another namespace": (PLAIN, [an_object(Service, namespace="other", selector={"app": "web"})], SKIP),
    "a service without selector": (PLAIN, [an_object(Service)], SKIP),
    "a service with an empty selector adds nothing": (PLAIN, [an_object(Service, selector={})], SKIP),
    "a ReplicaSet": (owned("ReplicaSet"), [an_object(ReplicaSet, selector=WEB)], SPREAD),
    "a StatefulSet": (owned("StatefulSet"), [an_object(StatefulSet, selector=WEB)], SPREAD),
    "a ReplicationController": (
        owned("ReplicationController", "v1"),
        [an_object(ReplicationController, selector={"app": "web"})],
        SPREAD,
    ),
    "a ReplicaSet that is gone": (owned("ReplicaSet"), [], SKIP),
    "a ReplicaSet of another version": (owned("ReplicaSet", "apps/v2"), [an_object(ReplicaSet, selector=WEB)], SKIP),
    "an owner that is no controller": (
        owned("ReplicaSet", controller=False),
        [an_object(ReplicaSet, selector=WEB)],
        SKIP,
    ),
    "an owner of another kind": (owned("Job", "batch/v1"), [an_object(ReplicaSet, selector=WEB)], SKIP),
    "service and owner together": (
        owned("ReplicaSet"),
        [
            an_object(Service, selector={"app": "web"}),
            an_object(ReplicaSet, selector={"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
        ],
        {"a0": 100, "a1": 100, "b0": 100},
    ),
}


@pytest.mark.parametrize(("pod", "objects", "expected"), DERIVED.values(), ids=DERIVED.keys())
def test_the_selector_of_default_constraints_is_derived(pod: Pod, objects: list[KubeObject], expected: Any) -> None:
    cluster = with_pods(A, zoned("a", 1), B, a0=1)
    for item in objects:
        cluster.put(item)
    assert scores(plugin(), pod, cluster) == expected


def test_constraints_of_its_own_replace_the_default_ones() -> None:
    cluster = with_pods(A, zoned("a", 1), B, a0=1)
    cluster.put(an_object(Service, selector={"app": "web"}))
    assert scores(plugin(), spread(rule(HARD, skew=9)), cluster) is SKIP


def test_with_system_defaults_a_node_without_zone_still_scores() -> None:
    """Its zone counts as a value of its own, and hosts are counted: 100 * (6 + 2 - 2) // 6 for the bare node."""
    cluster = with_pods(A, B, a_node("bare", labels={HOST: "bare"}))
    cluster.put(an_object(Service, selector={"app": "web"}))
    assert scores(plugin(), PLAIN, cluster) == {"a0": 33, "b0": 33, "bare": 100}


LISTED = {
    "defaultingType": "List",
    "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": HARD}],
}


def test_a_profile_may_list_hard_defaults() -> None:
    cluster = with_pods(A, B, a0=1)
    assert skips_filter(plugin(**LISTED), PLAIN, cluster)
    cluster.put(an_object(Service, selector={"app": "web"}))
    assert verdicts(plugin(**LISTED), PLAIN, cluster) == {"a0": SKEWED}
    assert verdicts(plugin(), PLAIN, cluster) == {}


def test_listed_soft_defaults_want_all_labels() -> None:
    soft = {**LISTED, "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": SOFT}]}
    cluster = with_pods(A, a_node("bare"))
    cluster.put(an_object(Service, selector={"app": "web"}))
    assert scores(plugin(**soft), PLAIN, cluster) == {"a0": 100, "bare": 0}


@given(st.lists(st.integers(-300, 300), min_size=1, max_size=20))
def test_few_scores_are_normalised_as_many_are(scores: list[int]) -> None:
    """Many go through arrays: the same scores so often that they are many."""
    plugin, state = build(PodTopologySpread), SimpleNamespace(read=lambda key: None)
    context = cast("SchedulingContext", SimpleNamespace(state=state))
    many = np.array(scores * 1000, np.int64)
    few = plugin.normalize(context, np.array(scores, np.int64), slice(0, 1)).tolist()
    assert plugin.normalize(context, many, slice(0, 1))[: len(scores)].tolist() == few
