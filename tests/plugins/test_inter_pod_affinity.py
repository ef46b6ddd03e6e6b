"""InterPodAffinity: who must be near whom, who must not, and what preferences are worth."""

from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alone import build, scores, skips_filter, verdicts
from build import a_cluster, a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.cluster.tallies import tallies
from mooring.framework.config.args import InterPodAffinityArgs
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.status import SKIP, curable, final
from mooring.model.names import HOSTNAME
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace
from mooring.plugins.affinity.inter_pod_affinity import InterPodAffinity

WHEN = "DuringSchedulingIgnoredDuringExecution"
ALONE = final("node(s) didn't match pod affinity rules").by("InterPodAffinity")
TOO_NEAR = curable("node(s) didn't match pod anti-affinity rules").by("InterPodAffinity")
UNWELCOME = curable("node(s) didn't satisfy existing pods anti-affinity rules").by("InterPodAffinity")


def term(app: str = "web", key: str = "zone", **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {f"required{WHEN}": list(terms)}}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {f"required{WHEN}": list(terms)}}


def weighed(*terms: tuple[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"weight": weight, "podAffinityTerm": one} for weight, one in terms]


def rather_near(*terms: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    return {"podAffinity": {f"preferred{WHEN}": weighed(*terms)}}


def rather_away(*terms: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    return {"podAntiAffinity": {f"preferred{WHEN}": weighed(*terms)}}


def a_small_cluster(*pods: tuple[str, Pod]) -> Cluster:
    """a1 and a2 in zone a, b1 in zone b, and a node without zone; pods on the nodes that are named."""
    zones = {"a1": "a", "a2": "a", "b1": "b"}
    nodes = [a_node(name, labels={"zone": zone, HOSTNAME: name}) for name, zone in zones.items()]
    cluster = a_cluster(*nodes, a_node("bare", labels={HOSTNAME: "bare"}))
    for i, (name, pod) in enumerate(pods):
        pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=f"existing-{i}"))
        cluster.nodes.place(pod, name)
    return cluster


def existing(app: str = "web", affinity: Any = None, **more: Any) -> Pod:
    return a_pod(labels={"app": app}, **({"affinity": affinity} if affinity else {}), **more)


def new(affinity: Any = None, app: str = "web", **more: Any) -> Pod:
    return a_pod("new", labels={"app": app}, **({"affinity": affinity} if affinity else {}), **more)


def plugin(on_hosts: bool = False, **args: Any) -> Any:
    gates = {"InterPodAffinityHostnameFastPath": on_hosts}
    return build(InterPodAffinity, msgspec.convert(args, InterPodAffinityArgs) if args else None, **gates)


@pytest.fixture(autouse=True, params=["counts are kept", "counts are made for one attempt"])
def counting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod with many terms counts in another way, which must come to the same."""
    if request.param == "counts are made for one attempt":
        monkeypatch.setattr(tallies, "FEW_RULES", -1)


# ---- Filter


WEB, DB = existing("web"), existing("db")
LEAVING = existing(metadata={"deletionTimestamp": "2026-02-01T00:00:00Z"})

FILTER: dict[str, tuple[Pod, list[tuple[str, Pod]], dict[str, Any]]] = {
    "near a pod in its zone": (new(near(term("db"))), [("a1", DB)], {"b1": ALONE, "bare": ALONE}),
    "near a pod on its host": (
        new(near(term("db", HOSTNAME))),
        [("a1", DB)],
        {"a2": ALONE, "b1": ALONE, "bare": ALONE},
    ),
    "nobody to be near": (new(near(term("db"))), [], dict.fromkeys(("a1", "a2", "b1", "bare"), ALONE)),
    "the first of its kind may go anywhere with the label": (new(near(term("web"))), [], {"bare": ALONE}),
    "the second may not": (new(near(term("web"))), [("b1", WEB)], {"a1": ALONE, "a2": ALONE, "bare": ALONE}),
    "one of its kind on a node without the label does not count": (
        new(near(term("web"))),
        [("bare", WEB)],
        {"bare": ALONE},
    ),
    "all terms must speak of the same pod": (
        new(near(term("db"), {"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "x"}}})),
        [("a1", DB), ("a1", a_pod(labels={"tier": "x"}))],
        dict.fromkeys(("a1", "a2", "b1", "bare"), ALONE),
    ),
    "away from a pod in its zone": (new(away(term("db"))), [("a1", DB)], {"a1": TOO_NEAR, "a2": TOO_NEAR}),
    "away from a pod on its host": (new(away(term("db", HOSTNAME))), [("a1", DB)], {"a1": TOO_NEAR}),
    "away from nobody": (new(away(term("db"))), [("a1", WEB)], {}),
    "away from pods on nodes without the label": (new(away(term("db"))), [("bare", DB)], {}),
    "of two anti-affinity terms each counts by itself": (
        new(away(term("db", HOSTNAME), term("web", HOSTNAME))),
        [("a1", DB), ("b1", WEB)],
        {"a1": TOO_NEAR, "b1": TOO_NEAR},
    ),
    "a pod that keeps others away": (
        new(),
        [("a1", existing("db", away(term("web"))))],
        {"a1": UNWELCOME, "a2": UNWELCOME},
    ),
    "a pod that keeps others than this away": (new(), [("a1", existing("db", away(term("db"))))], {}),
    "a pod that keeps others away, without the label": (new(), [("bare", existing("db", away(term("web"))))], {}),
    "its own affinity is told first, then anti-affinity, then that of others": (
        new({**near(term("db", HOSTNAME)), **away(term("cache"))}),
        [("a1", DB), ("b1", DB), ("bare", DB), ("a2", existing("cache")), ("b1", existing("x", away(term("web"))))],
        {"a1": TOO_NEAR, "a2": ALONE, "b1": UNWELCOME},
    ),
    "terminating pods count": (new(away(term("web"))), [("b1", LEAVING)], {"b1": TOO_NEAR}),
    "no selector means nobody": (new(away({"topologyKey": "zone"})), [("a1", WEB)], {}),
    "an empty selector means everybody": (
        new(away({"topologyKey": "zone", "labelSelector": {}})),
        [("b1", DB)],
        {"b1": TOO_NEAR},
    ),
}


@pytest.mark.parametrize("on_hosts", [False, True], ids=["by label", "hosts by node"])
@pytest.mark.parametrize(("pod", "pods", "expected"), FILTER.values(), ids=FILTER.keys())
def test_where_the_pod_cannot_go(
    pod: Pod, pods: list[tuple[str, Pod]], expected: dict[str, Any], on_hosts: bool
) -> None:
    """Where host names are unique the gate InterPodAffinityHostnameFastPath changes none of these."""
    assert verdicts(plugin(on_hosts), pod, a_small_cluster(*pods)) == expected


SKIPPED: dict[str, tuple[Pod, list[tuple[str, Pod]], bool]] = {
    "nobody has terms": (new(), [("a1", WEB)], True),
    "only preferences": (new(rather_near((1, term()))), [("a1", WEB)], True),
    "the pod has terms": (new(away(term("db"))), [], False),
    "an existing pod has terms about it": (new(), [("a1", existing("db", away(term("web"))))], False),
    "an existing pod has terms about others": (new(), [("a1", existing("db", away(term("db"))))], True),
}


@pytest.mark.parametrize(("pod", "pods", "skips"), SKIPPED.values(), ids=SKIPPED.keys())
def test_when_there_is_nothing_to_filter(pod: Pod, pods: list[tuple[str, Pod]], skips: bool) -> None:
    assert skips_filter(plugin(), pod, a_small_cluster(*pods)) == skips


BROKEN = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "x", "operator": "Near"}]}}


def test_terms_that_cannot_be_read() -> None:
    """The pod's own refuse it; those of an existing pod are as if they were not there."""
    text = 'parsing pod: requiredAntiAffinityTerms: "Near" is not a valid label selector operator'
    refusal = final(text).by("InterPodAffinity")
    assert verdicts(plugin(), new(away(BROKEN)), a_small_cluster()) == {"*": refusal}
    assert verdicts(plugin(), new(), a_small_cluster(("a1", existing("db", away(BROKEN))))) == {}


# ---- namespaces


def in_team(name: str, team: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": name, "labels": {"team": team}}}, Namespace)


TEAM_X = {"matchLabels": {"team": "x"}}
NOT_TEAM_X = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}
NAMESPACES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "its own namespace": ({}, "default", True),
    "another namespace": ({}, "ours", False),
    "a namespace that is listed": ({"namespaces": ["ours"]}, "ours", True),
    "its own is not among those listed": ({"namespaces": ["ours"]}, "default", False),
    "a namespace that is selected": ({"namespaceSelector": TEAM_X}, "ours", True),
    "a namespace that is not selected": ({"namespaceSelector": TEAM_X}, "theirs", False),
    "its own is not selected": ({"namespaceSelector": TEAM_X}, "default", False),
    "listed or selected": ({"namespaces": ["theirs"], "namespaceSelector": TEAM_X}, "theirs", True),
    "an empty selector means every namespace": ({"namespaceSelector": {}}, "unknown", True),
    "v1.37, 11.6: a namespace that is excluded": ({"namespaceSelector": NOT_TEAM_X}, "ours", False),
    "v1.37, 11.6: a namespace beside the excluded": ({"namespaceSelector": NOT_TEAM_X}, "theirs", True),
}


@pytest.mark.parametrize(("more", "namespace", "meant"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_which_namespaces_a_term_of_the_pod_means(more: dict[str, Any], namespace: str, meant: bool) -> None:
    cluster = a_small_cluster(("b1", existing("db", namespace=namespace)))
    for item in (in_team("ours", "x"), in_team("theirs", "y")):
        cluster.put(item)
    assert verdicts(plugin(), new(away(term("db", **more))), cluster) == ({"b1": TOO_NEAR} if meant else {})


EXISTING_NAMESPACES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "its own namespace": ({}, "default", True),
    "another namespace": ({}, "ours", False),
    "a namespace that is selected": ({"namespaceSelector": TEAM_X}, "ours", True),
    "a namespace that is not selected": ({"namespaceSelector": TEAM_X}, "theirs", False),
    "a namespace that is excluded": ({"namespaceSelector": NOT_TEAM_X}, "ours", False),
    "a namespace that nobody knows has no labels": ({"namespaceSelector": NOT_TEAM_X}, "unknown", True),
}


@pytest.mark.parametrize(("more", "namespace", "meant"), EXISTING_NAMESPACES.values(), ids=EXISTING_NAMESPACES.keys())
def test_which_namespaces_a_term_of_an_existing_pod_means(more: dict[str, Any], namespace: str, meant: bool) -> None:
    cluster = a_small_cluster(("b1", existing("db", away(term("web", **more)))))
    for item in (in_team("ours", "x"), in_team("theirs", "y")):
        cluster.put(item)
    assert verdicts(plugin(), new(namespace=namespace), cluster) == ({"b1": UNWELCOME} if meant else {})


# ---- Score


def raw(weights: dict[str, int]) -> tuple[Pod, list[tuple[str, Pod]]]:
    """A pod that gives each host this much, by preferring pods of an app that is only there."""
    near_, away_ = ({k: w for k, w in weights.items() if w > 0}, {k: -w for k, w in weights.items() if w < 0})
    affinity: dict[str, Any] = {
        **rather_near(*((w, term(name, HOSTNAME)) for name, w in near_.items())),
        **rather_away(*((w, term(name, HOSTNAME)) for name, w in away_.items())),
    }
    return new(affinity), [(name, existing(name)) for name in weights]


SCORE: dict[str, tuple[tuple[Pod, list[tuple[str, Pod]]], tuple[str, ...], Any]] = {
    "from the worst to the best": (raw({"a1": -10, "b1": 20}), ("a1", "a2", "b1"), {"a1": 0, "a2": 33, "b1": 100}),
    "all alike is worth nothing": (raw({"a1": 5, "a2": 5, "b1": 5}), ("a1", "a2", "b1"), {"a1": 0, "a2": 0, "b1": 0}),
    "29 of 100 is 28": (raw({"a2": 29, "b1": 100}), ("a1", "a2", "b1"), {"a1": 0, "a2": 28, "b1": 100}),
    "57 of 100 is 56": (raw({"a2": 57, "b1": 100}), ("a1", "a2", "b1"), {"a1": 0, "a2": 56, "b1": 100}),
    "58 of 100 is 57": (raw({"a2": 58, "b1": 100}), ("a1", "a2", "b1"), {"a1": 0, "a2": 57, "b1": 100}),
    "several pods add up": (
        (
            new({**rather_near((50, term("db", HOSTNAME))), **rather_away((30, term("cache", HOSTNAME)))}),
            [("a1", DB), ("a1", DB), ("a2", DB), ("a1", existing("cache"))],
        ),
        ("a1", "a2", "b1"),
        {"a1": 100, "a2": 71, "b1": 0},
    ),
    "required affinity of an existing pod pulls a little": (
        (new(), [("a1", existing("db", near(term("web"))))]),
        ("a1", "a2", "b1"),
        {"a1": 100, "a2": 100, "b1": 0},
    ),
    "preferences of an existing pod pull": (
        (new(), [("b1", existing("db", rather_near((7, term("web")))))]),
        ("a1", "b1"),
        {"a1": 0, "b1": 100},
    ),
    "... and push": (
        (new(), [("b1", existing("db", rather_away((7, term("web")))))]),
        ("a1", "b1"),
        {"a1": 100, "b1": 0},
    ),
    "required anti-affinity is worth nothing": (
        (new(), [("b1", existing("db", away(term("web"))))]),
        ("a1", "b1"),
        SKIP,
    ),
    "nobody speaks of anybody": ((new(), [("a1", WEB)]), ("a1", "b1"), SKIP),
    "preferences that no pod meets": ((new(rather_near((9, term("db")))), [("a1", WEB)]), ("a1", "b1"), SKIP),
    "preferences that cancel out are not nothing": (
        (new({**rather_near((9, term("db"))), **rather_away((9, term("db")))}), [("a1", DB)]),
        ("a1", "b1"),
        {"a1": 0, "b1": 0},
    ),
    "pods on nodes without the label do not count": (
        (new(rather_near((9, term("db")))), [("bare", DB)]),
        ("a1", "b1"),
        SKIP,
    ),
}


@pytest.mark.parametrize(("given", "names", "expected"), SCORE.values(), ids=SCORE.keys())
def test_what_preferences_are_worth(given: tuple[Pod, list[tuple[str, Pod]]], names: Any, expected: Any) -> None:
    pod, pods = given
    assert scores(plugin(), pod, a_small_cluster(*pods), *names) == expected


def test_the_weight_of_required_affinity_can_be_set() -> None:
    """At 0 it does not count at all; at 10 it outweighs a preference of 7."""
    pods = [("a1", existing("db", near(term("web")))), ("b1", existing("db", rather_near((7, term("web")))))]
    cluster = a_small_cluster(*pods)
    assert scores(plugin(hardPodAffinityWeight=0), new(), cluster, "a1", "b1") == {"a1": 0, "b1": 100}
    assert scores(plugin(hardPodAffinityWeight=10), new(), cluster, "a1", "b1") == {"a1": 100, "b1": 0}


def test_preferences_of_existing_pods_can_be_ignored() -> None:
    ignoring = plugin(ignorePreferredTermsOfExistingPods=True)
    cluster = a_small_cluster(("b1", existing("db", rather_near((7, term("web"))))))
    assert scores(ignoring, new(), cluster, "a1", "b1") is SKIP
    assert scores(ignoring, new(rather_near((1, term("db", HOSTNAME)))), cluster, "a1", "b1") == {"a1": 0, "b1": 100}


@given(st.lists(st.one_of(st.integers(-300, 300), st.integers(-(1 << 60), 1 << 60)), min_size=1, max_size=20))
def test_few_scores_are_normalised_as_many_are(scores: list[int]) -> None:
    """Many go through arrays: the same scores so often that they are many."""
    plugin, context = build(InterPodAffinity), cast("SchedulingContext", None)
    many = np.array(scores * 1000, np.int64)
    few = plugin.normalize(context, np.array(scores, np.int64), slice(0, 1)).tolist()
    assert plugin.normalize(context, many, slice(0, 1))[: len(scores)].tolist() == few
