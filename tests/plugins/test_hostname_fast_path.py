"""Gate InterPodAffinityHostnameFastPath (v1.37, 11.7): terms about hosts are decided on the node itself. Plain loops over the
nodes and their pods say the same, with the gate and without it."""

from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alone import build, skips_filter, verdicts
from build import a_node, a_pod
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.cluster.tallies import tallies
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.status import SKIP, SKIP_FOR_NOW, Rejection, curable, final
from mooring.framework.profile.profiles import Profile
from mooring.model.affinity import AffinityTerm
from mooring.model.names import HOSTNAME
from mooring.model.pod import Pod
from mooring.plugins.affinity.inter_pod_affinity import InterPodAffinity

ALONE = final("node(s) didn't match pod affinity rules").by("InterPodAffinity")
TOO_NEAR = curable("node(s) didn't match pod anti-affinity rules").by("InterPodAffinity")
UNWELCOME = curable("node(s) didn't satisfy existing pods anti-affinity rules").by("InterPodAffinity")

Placed = tuple[Pod, str]
PLUGINS = {on: build(InterPodAffinity, None, InterPodAffinityHostnameFastPath=on) for on in (False, True)}

NODES = {
    "one": {HOSTNAME: "same", "zone": "a"},
    "two": {HOSTNAME: "same", "zone": "b"},
    "three": {HOSTNAME: "three"},
    "bare": {"zone": "a"},
}
"""Two nodes have the same host name, and one has none."""


def a_term(app: str, key: str = HOSTNAME) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def affine(near: list[dict[str, Any]], away: list[dict[str, Any]]) -> dict[str, Any]:
    when = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"podAffinity": {when: near}, "podAntiAffinity": {when: away}}


def a_pod_of(app: str, near: list[dict[str, Any]] | None = None, away: list[dict[str, Any]] | None = None) -> Pod:
    return a_pod("new", labels={"app": app}, affinity=affine(near or [], away or []))


def named(pod: Pod, name: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))


def a_cluster_with(*pods: tuple[Pod, str]) -> Cluster:
    cluster = Cluster()
    for name, labels in NODES.items():
        cluster.put(a_node(name, labels=labels))
    for number, (pod, node) in enumerate(pods):
        cluster.nodes.place(named(pod, f"existing-{number}"), node)
    return cluster


DB, WEB = a_pod_of("db"), a_pod_of("web")
HERMIT = a_pod_of("db", away=[a_term("web")])
"""Lets no pod of web onto its host."""

DIFFERENCES: dict[str, tuple[Pod, list[Placed], dict[str, Rejection], dict[str, Rejection]]] = {
    "near a pod whose node has the host name of another": (
        a_pod_of("web", near=[a_term("db")]),
        [(DB, "one")],
        {"three": ALONE, "bare": ALONE},
        {"two": ALONE, "three": ALONE, "bare": ALONE},
    ),
    "away from a pod whose node has the host name of another": (
        a_pod_of("web", away=[a_term("db")]),
        [(DB, "one")],
        {"one": TOO_NEAR, "two": TOO_NEAR},
        {"one": TOO_NEAR},
    ),
    "kept away by a pod whose node has the host name of another": (
        WEB,
        [(HERMIT, "one")],
        {"one": UNWELCOME, "two": UNWELCOME},
        {"one": UNWELCOME},
    ),
    "on a node without a host name nothing keeps away": (
        a_pod_of("web", away=[a_term("db")]),
        [(HERMIT, "bare"), (DB, "bare")],
        {},
        {},
    ),
    "the first of its kind, with another on a node without a host name": (
        a_pod_of("web", near=[a_term("web")]),
        [(WEB, "bare")],
        {"bare": ALONE},
        dict.fromkeys(NODES, ALONE),
    ),
    "the first of its kind, with another on a node that is not known": (
        a_pod_of("web", near=[a_term("web")]),
        [(WEB, "gone")],
        {"bare": ALONE},
        {"bare": ALONE},
    ),
    "with one term about something else, affinity is by label": (
        a_pod_of("web", near=[a_term("db"), a_term("db", "zone")]),
        [(DB, "one"), (DB, "two")],
        {"three": ALONE, "bare": ALONE},
        {"three": ALONE, "bare": ALONE},
    ),
    "with one term about something else, pods without the labels do not count": (
        a_pod_of("web", near=[a_term("web"), a_term("web", "rack")]),
        [(WEB, "bare")],
        dict.fromkeys(NODES, ALONE),
        dict.fromkeys(NODES, ALONE),
    ),
    "anti-affinity is by node for each term about hosts": (
        a_pod_of("web", away=[a_term("db"), a_term("db", "zone")]),
        [(DB, "one")],
        {"one": TOO_NEAR, "two": TOO_NEAR, "bare": TOO_NEAR},
        {"one": TOO_NEAR, "bare": TOO_NEAR},
    ),
}


@pytest.mark.parametrize(("pod", "pods", "off", "on"), DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_v137_11_7_where_hosts_are_not_unique(
    pod: Pod, pods: list[Placed], off: dict[str, Rejection], on: dict[str, Rejection]
) -> None:
    assert {gate: verdicts(PLUGINS[gate], pod, a_cluster_with(*pods)) for gate in (False, True)} == {
        False: off,
        True: on,
    }


SKIPPED: dict[str, tuple[list[Placed], bool]] = {
    "no pod has terms": ([(DB, "one")], True),
    "a pod has terms about hosts, and other pods": ([(a_pod_of("db", away=[a_term("db")]), "one")], False),
    "a pod has terms about hosts, on a node without one": ([(a_pod_of("db", away=[a_term("db")]), "bare")], False),
    "a pod has terms about hosts, on a node that is not known": ([(a_pod_of("db", away=[a_term("db")]), "gone")], True),
    "a pod has terms about zones, and other pods": ([(a_pod_of("db", away=[a_term("db", "zone")]), "one")], True),
    "a pod has affinity about hosts": ([(a_pod_of("db", near=[a_term("db")]), "one")], True),
}


@pytest.mark.parametrize(("pods", "skips"), SKIPPED.values(), ids=SKIPPED.keys())
def test_v137_11_7_filter_is_not_skipped_while_a_pod_has_anti_affinity_on_its_host(
    pods: list[Placed], skips: bool
) -> None:
    cluster = a_cluster_with(*pods)
    assert skips_filter(PLUGINS[True], WEB, cluster) == skips
    assert skips_filter(PLUGINS[False], WEB, cluster)


def test_a_skip_lasts_only_while_no_pod_has_such_terms() -> None:
    """The node of a pod that has them may come later, and no version says so."""
    cluster = a_cluster_with()
    assert PLUGINS[True].pre_filter(_opened(WEB, cluster, True)) is SKIP_FOR_NOW
    cluster.nodes.place(named(a_pod_of("db", away=[a_term("db")]), "hermit"), "gone")
    assert PLUGINS[True].pre_filter(_opened(WEB, cluster, True)) is SKIP
    cluster.put(a_node("gone"))
    assert PLUGINS[True].pre_filter(_opened(WEB, cluster, True)) is None


def test_what_ifs_count_pods_on_nodes_without_a_host_name() -> None:
    """They are in the way of the first pod of a group, so it may go where it wants once they leave."""
    cluster, plugin = a_cluster_with((WEB, "bare")), PLUGINS[True]
    rows = slice(0, cluster.nodes.height)
    context = _opened(a_pod_of("web", near=[a_term("web")]), cluster, True)
    assert plugin.pre_filter(context) is None
    without = context.on(cluster.nodes, context.state.clone())
    plugin.remove_pod(without, WEB, cluster.nodes.row_book["bare"])
    again = without.on(cluster.nodes, without.state.clone())
    plugin.add_pod(again, WEB, cluster.nodes.row_book["bare"])
    assert [plugin.filter(each, rows).tolist() for each in (context, without, again)] == [
        [1, 1, 1, 1],
        [0, 0, 0, 1],
        [1, 1, 1, 1],
    ]


# ---- The plain loops


class Loops:
    """The rules, pod by pod and node by node. `by_node`: the gate."""

    def __init__(self, nodes: dict[str, dict[str, str]], pods: list[Placed], by_node: bool) -> None:
        self.nodes = nodes
        self.pods = [(pod, node) for pod, node in pods if node in nodes]
        self.by_node = by_node

    def verdicts(self, pod: Pod) -> dict[str, Rejection]:
        terms = pod.shape.terms(pod.namespace)
        found = {}
        for node in self.nodes:
            if terms.affinity and not self._is_near(pod, terms.affinity, node):
                found[node] = ALONE
            elif any(
                _selects(term, other) and self._is_one_domain(term, place, node)
                for term in terms.anti_affinity
                for other, place in self.pods
            ):
                found[node] = TOO_NEAR
            elif any(
                _selects(term, pod) and self._is_one_domain(term, place, node)
                for other, place in self.pods
                for term in other.shape.terms(other.namespace).anti_affinity
            ):
                found[node] = UNWELCOME
        return found

    def skips(self, pod: Pod) -> bool:
        terms = pod.shape.terms(pod.namespace)
        if terms.affinity or terms.anti_affinity:
            return False
        theirs = [
            (term, place) for other, place in self.pods for term in other.shape.terms(other.namespace).anti_affinity
        ]
        return not any(
            (self.by_node and term.topology_key == HOSTNAME)
            or (_selects(term, pod) and term.topology_key in self.nodes[place])
            for term, place in theirs
        )

    def _is_near(self, pod: Pod, terms: tuple[AffinityTerm, ...], node: str) -> bool:
        if any(term.topology_key not in self.nodes[node] for term in terms):
            return False
        on_hosts = self.by_node and all(term.topology_key == HOSTNAME for term in terms)
        wanted = [place for other, place in self.pods if all(_selects(term, other) for term in terms)]
        if on_hosts and node in wanted:
            return True
        if not on_hosts and all(any(self._has_same(term, place, node) for place in wanted) for term in terms):
            return True
        counted = [p for p in wanted if on_hosts or any(term.topology_key in self.nodes[p] for term in terms)]
        return not counted and all(_selects(term, pod) for term in terms)

    def _is_one_domain(self, term: AffinityTerm, place: str, node: str) -> bool:
        if self.by_node and term.topology_key == HOSTNAME:
            return place == node and HOSTNAME in self.nodes[node]
        return self._has_same(term, place, node)

    def _has_same(self, term: AffinityTerm, place: str, node: str) -> bool:
        value = self.nodes[place].get(term.topology_key)
        return value is not None and value == self.nodes[node].get(term.topology_key)


def _selects(term: AffinityTerm, pod: Pod) -> bool:
    return term.speaks_of(pod.namespace, pod.labels, {})


def _opened(pod: Pod, cluster: Cluster, by_node: bool) -> SchedulingContext:
    return Runner(Profile("alone", None, {}, {PLUGINS[by_node].name: 1})).open(pod, cluster).context


APPS = ("web", "db")
TERMS = st.lists(
    st.builds(a_term, st.sampled_from(APPS), st.sampled_from((HOSTNAME, HOSTNAME, HOSTNAME, "zone", "rack"))),
    max_size=2,
)
PODS = st.builds(a_pod_of, st.sampled_from(APPS), TERMS, TERMS)
LABELS = st.fixed_dictionaries(
    {}, optional={HOSTNAME: st.sampled_from(("x", "x", "y", "z")), "zone": st.sampled_from("ab")}
)
PLACES = ("n0", "n1", "n2", "n3")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), st.sampled_from(PLACES), LABELS),
        st.tuples(st.just("pod"), st.sampled_from(PLACES), PODS),
        st.tuples(st.just("pod"), st.sampled_from(PLACES), PODS),
        st.tuples(st.just("ask"), st.sampled_from(PLACES), PODS),
    ),
    min_size=6,
    max_size=20,
)


@given(STEPS, PODS, st.booleans(), st.sampled_from((-1, tallies.FEW_RULES)))
def test_v137_11_7_decisions_are_those_of_plain_loops(
    steps: list[tuple[str, str, Any]], pod: Pod, by_node: bool, few_rules: int
) -> None:
    """Nodes change their labels, or come after their pods. Pods with many terms count in another way."""
    with mock.patch.object(tallies, "FEW_RULES", few_rules):
        _take(steps, pod, by_node)


def _take(steps: list[tuple[str, str, Any]], pod: Pod, by_node: bool) -> None:
    cluster, nodes, pods = Cluster(), dict[str, dict[str, str]](), list[Placed]()
    for number, (what, place, thing) in enumerate([*steps, ("ask", "n0", pod)]):
        if what == "node":
            nodes[place] = thing
            cluster.put(a_node(place, labels=thing))
        elif what == "pod":
            pods.append((named(thing, f"p{number}"), place))
            cluster.nodes.place(*pods[-1])
        else:
            loops = Loops(nodes, pods, by_node)
            assert verdicts(PLUGINS[by_node], thing, cluster) == loops.verdicts(thing)
            assert skips_filter(PLUGINS[by_node], thing, cluster) == loops.skips(thing)
    assert check_table(cluster.nodes) == []


@given(
    st.fixed_dictionaries(dict.fromkeys(PLACES, LABELS)),
    st.lists(st.tuples(PODS, st.sampled_from(PLACES)), min_size=1, max_size=6),
    PODS,
    st.data(),
    st.booleans(),
)
def test_v137_11_7_what_ifs_are_those_of_plain_loops(
    nodes: dict[str, dict[str, str]], pods: list[Placed], pod: Pod, data: st.DataObject, by_node: bool
) -> None:
    """Pods leave and others come, as in preemption and with nominated pods."""
    pods = [(named(each, f"p{number}"), node) for number, (each, node) in enumerate(pods)]
    there = [data.draw(st.sampled_from(("stays", "leaves", "comes"))) for _ in pods]
    cluster = Cluster()
    for name, labels in nodes.items():
        cluster.put(a_node(name, labels=labels))
    for placed, how in zip(pods, there, strict=True):
        if how != "comes":
            cluster.nodes.place(*placed)
    plugin, context = PLUGINS[by_node], _opened(pod, cluster, by_node)
    if plugin.pre_filter(context) is not None:
        return
    changed = context.on(cluster.nodes, context.state.clone())
    for (each, node), how in zip(pods, there, strict=True):
        row = cluster.nodes.row_book[node]
        if how == "comes":
            plugin.add_pod(changed, each, row)
        elif how == "leaves":
            plugin.remove_pod(changed, each, row)
    before = Loops(nodes, [placed for placed, how in zip(pods, there, strict=True) if how != "comes"], by_node)
    after = Loops(nodes, [placed for placed, how in zip(pods, there, strict=True) if how != "leaves"], by_node)
    for asked, loops in ((changed, after), (context, before)):
        codes = plugin.filter(asked, slice(0, cluster.nodes.height))
        rejected = {
            node: plugin.rejection(asked, int(codes[row])).by(plugin.name)
            for node, row in cluster.nodes.row_book.items()
            if codes is not None and codes[row]
        }
        assert rejected == loops.verdicts(pod)
