"""What a plan asks for: kinds of pods, which offers can take how many of each, and how spreads limit them. By hand."""

from collections.abc import Sequence
from typing import Any

import pytest
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

from mooring.answers.plan.demand import PODS, NodeDemand, PodKind, demand_of
from mooring.answers.plan.offers import read_offers
from mooring.answers.plan.trials import NodeTrials, OfferedNodes, TrialPlacer
from mooring.inputs.loaded_cluster import load

CPU, MEMORY = 0, 1
GI = 1 << 30
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SMALL, LARGE = a_node("small", "4", "8Gi"), a_node("large", "16", "16Gi", pods="5")


def demand(
    *objects: Written, offers: Sequence[Written] = (SMALL, LARGE), daemons: Sequence[Written] = (), **how: Any
) -> NodeDemand:
    """Offers are templates; they cost 1, 2, ... and have limits of 10, 20, ..."""
    loaded = load([*objects], **how)
    entries = [
        {"name": f"o{i}", "price": i + 1, "limit": 10 * i + 10, "node": template} for i, template in enumerate(offers)
    ]
    running = load([*daemons]).pending() if daemons else []
    offered = [OfferedNodes(each, running) for each in read_offers(entries, loaded)]
    trials = NodeTrials(TrialPlacer(loaded), offered)
    found = demand_of(trials, trials.queued(loaded.pending()))
    assert not any(each.present for each in trials.offers), "the samples are gone"
    assert set(trials.cluster.nodes.row_book) == {
        each["metadata"]["name"] for each in objects if each["kind"] == "Node"
    }
    return found


def kind(*objects: Written, **how: Any) -> PodKind:
    (found,) = demand(*objects, **how).kinds
    return found


# ---- amounts


def test_kinds_are_pods_of_one_shape_and_offers_are_what_new_nodes_have_free() -> None:
    found = demand(a_pod("a", "2"), a_pod("b", "3", "2Gi"), a_pod("c", "2"))
    assert [[pod.name for pod in each.pods] for each in found.kinds] == [["a", "c"], ["b"]]
    assert [each.requests for each in found.kinds] == [
        {CPU: 2000, MEMORY: GI, PODS: 1},
        {CPU: 3000, MEMORY: 2 * GI, PODS: 1},
    ]
    assert [each.takers for each in found.kinds] == [{0: 2, 1: 5}, {0: 1, 1: 5}]
    assert found.offers == [{CPU: 4000, MEMORY: 8 * GI, PODS: 110}, {CPU: 16000, MEMORY: 16 * GI, PODS: 5}]
    assert (found.prices, found.limits, found.cuts) == ([1.0, 2.0], [10, 20], ())
    assert (found.counts(), found.counts(found.kinds[0].pods[1:])) == ([2, 1], [1, 0])
    assert found.plain() == {id(each.pods[0].shape) for each in found.kinds}
    assert all((each.is_plain, each.room, each.spread) == (True, {}, None) for each in found.kinds)
    assert "pods=" not in repr(found.kinds[0]), "what is printed for developers stays short"


def test_resources_that_nothing_requests_are_left_out() -> None:
    found = demand(a_pod("a", "0", "0"))
    assert (found.kinds[0].requests, found.offers) == ({PODS: 1}, [{PODS: 110}, {PODS: 5}])
    assert found.kinds[0].takers == {0: 110, 1: 5}


def test_pods_with_other_labels_are_another_kind() -> None:
    assert len(demand(a_pod("a"), a_pod("b", labels={"app": "b"})).kinds) == 2


def test_daemons_take_room_of_new_nodes() -> None:
    found = demand(a_pod("p", "1"), daemons=[a_pod("agent", "1500m", "2Gi")])
    assert found.offers == [{CPU: 2500, MEMORY: 6 * GI, PODS: 109}, {CPU: 14500, MEMORY: 14 * GI, PODS: 4}]
    assert found.kinds[0].takers == {0: 2, 1: 4}


GPU = "example.com/gpu"
GPU_CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"extendedResourceName": GPU},
}
"""Its devices serve the resource on nodes that have none of it."""


def with_gpus(pod: Written, number: int) -> Written:
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", GPU: number}, "limits": {GPU: number}}
    return pod


def a_gpu_node(name: str, number: int) -> Written:
    node = a_node(name, "8", "64Gi")
    node["status"]["allocatable"] = {**node["status"]["allocatable"], GPU: str(number)}
    return node


def test_resources_of_other_names_count_as_cpu_does() -> None:
    found = demand(with_gpus(a_pod("p"), 2), a_pod("q", "3", "0"), offers=[a_gpu_node("t", 6), a_gpu_node("u", 1)])
    (place,) = set(found.kinds[0].requests) - {CPU, PODS}
    assert found.kinds[0].requests == {CPU: 1000, place: 2, PODS: 1}
    assert found.kinds[1].requests == {CPU: 3000, PODS: 1}
    assert [each.takers for each in found.kinds] == [{0: 3}, {0: 2, 1: 2}]
    assert [each[place] for each in found.offers] == [6, 1]


def test_a_resource_that_devices_may_serve_is_no_request() -> None:
    """Devices of a class with its name serve it on nodes that have none of it: no sum decides about the pod."""
    found = demand(GPU_CLASS, with_gpus(a_pod("p"), 2), offers=[a_gpu_node("t", 6)])
    assert found.kinds[0].requests == {CPU: 1000, PODS: 1}
    assert found.kinds[0].takers == {0: 8}


def a_config(*filters: str) -> Written:
    """A profile with these filters, in this order."""
    order = {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in filters]}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**header, "profiles": [{"plugins": {"filter": order}}]}


def test_without_a_filter_about_resources_only_the_number_of_pods_counts() -> None:
    found = demand(a_pod("p", "99"), config=a_config("NodeUnschedulable"))
    assert (found.kinds[0].requests, found.kinds[0].takers) == ({PODS: 1}, {0: 110, 1: 5})
    assert (found.offers, found.kinds[0].is_plain) == ([{PODS: 110}, {PODS: 5}], True)


def with_port(pod: Written, port: int = 80) -> Written:
    pod["spec"]["containers"][0]["ports"] = [{"hostPort": port, "containerPort": port}]
    return pod


def apart(key: str = HOSTNAME, app: str = "w", **more: Any) -> Written:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    ("pod", "most"),
    [
        (a_pod("p", labels={"app": "w"}), 4),
        (with_port(a_pod("p")), 1),
        (a_pod("p", labels={"app": "w"}, affinity=apart()), 1),
        (a_pod("p", labels={"app": "w"}, affinity=apart(app="other")), 4),
        (a_pod("p", labels={"app": "w"}, affinity=apart(ZONE)), 4),
        (a_pod("p", labels={"app": "w"}, affinity=apart(namespaces=["other"])), 4),
        (a_pod("p", labels={"app": "w"}, affinity=apart(namespaces=["default"])), 1),
        (a_pod("p", labels={"app": "w"}, affinity={"nodeAffinity": {}}), 4),
    ],
    ids=[
        "four of one cpu",
        "one of a host port",
        "one that keeps others like it away",
        "other labels are kept away",
        "zones are kept apart, not nodes",
        "pods of another namespace are kept away",
        "its own namespace by name",
        "no affinity to pods",
    ],
)
def test_how_many_pods_one_node_holds(pod: Written, most: int) -> None:
    assert kind(pod, offers=[SMALL]).takers == {0: most}


# ---- refusals


@pytest.mark.parametrize(
    ("pod", "takers", "refusals"),
    [
        (a_pod("p", "5"), {1: 3}, {"Insufficient cpu": 1}),
        (a_pod("p", "4", "8Gi"), {0: 1, 1: 2}, {}),
        (a_pod("p", "17"), {}, {"Insufficient cpu": 2}),
        (a_pod("p", "5", "17Gi"), {}, {"Insufficient cpu, Insufficient memory": 1, "Insufficient memory": 1}),
        (
            a_pod("p", nodeSelector={HOSTNAME: "elsewhere"}),
            {},
            {"node(s) didn't match Pod's node affinity/selector": 2},
        ),
    ],
    ids=["too large for one", "as large as one", "too large for both", "each for its reason", "no label of a new node"],
)
def test_offers_that_cannot_take_a_pod_say_why(pod: Written, takers: dict[int, int], refusals: dict[str, int]) -> None:
    found = kind(pod)
    assert (found.takers, dict(found.refusals)) == (takers, refusals)


def test_a_pod_for_one_present_node_is_refused_by_all_offers() -> None:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    rule = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}
    found = kind(a_node("n", "0"), a_pod("p", affinity=rule))
    assert found.takers == {}
    assert dict(found.refusals) == {"node(s) didn't satisfy plugin(s) [NodeAffinity]": 2}


def test_a_pod_whose_claim_is_missing_is_refused_by_all_offers() -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "none"}}
    found = kind(a_pod("p", "2", volumes=[volume]))
    assert (found.takers, dict(found.refusals)) == ({}, {'persistentvolumeclaim "none" not found': 2})
    assert (found.requests, found.is_plain) == ({PODS: 1}, False), "another claim may come"


def test_relations_to_other_pods_are_no_refusal() -> None:
    """A pod that attracts it may come to a new node."""
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": HOSTNAME}
    rule = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = kind(a_node("n"), a_pod("p", affinity=rule))
    assert (found.takers, dict(found.refusals), found.is_plain) == ({0: 4, 1: 5}, {}, False)
    assert found.room == {"": 4}


def test_a_pod_that_relations_reject_first_still_has_to_fit() -> None:
    """The filter about other pods stands before the one about resources, and says nothing about an empty node."""
    term = {"labelSelector": {"matchLabels": {"app": "w"}}, "topologyKey": HOSTNAME}
    rule = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = kind(a_pod("p", "99", affinity=rule), config=a_config("InterPodAffinity", "NodeResourcesFit"))
    assert (found.takers, dict(found.refusals)) == ({}, {"Insufficient resources": 2})


# ---- room on present nodes


def test_present_nodes_have_room_for_pods_of_a_gang() -> None:
    nodes = [a_node("n1", "3"), a_node("n2", "1"), a_node("n3", "0"), a_node("n4", "9", cordoned=True)]
    found = kind(*nodes, a_pod_group(min_count=9), *members(9, "1"), feature_gates=GROUP_GATES)
    assert (found.is_plain, found.room) == (True, {"": 4})
    alone = kind(*nodes, *(a_pod(f"p{i}") for i in range(9)))
    assert alone.room == {}, "a pod that goes alone is pending because it fits on none of them"


def beside_x(*names: str) -> Written:
    """Beside a pod of app x, and only on nodes of these names, if there are any."""
    beside = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOSTNAME}
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]
    rule: Written = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [beside]}}
    if fields:
        rule["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}
    return rule


FILTERS = ("NodeUnschedulable", "NodeAffinity", "NodeResourcesFit", "InterPodAffinity")


@pytest.mark.parametrize(
    "filters",
    [FILTERS, FILTERS[::-1], (*FILTERS[:2], *FILTERS[:1:-1])],
    ids=["relations are the last", "relations are the first", "relations are in between"],
)
@pytest.mark.parametrize(
    ("names", "room"),
    [([], {"": 12}), (["full", "empty"], {"": 5}), (["taken", "small"], {"": 7}), (["small", "cordoned"], {})],
    ids=["on all nodes", "on one of two nodes", "where such a pod is", "on nodes that cannot take any"],
)
def test_nodes_have_room_for_pods_that_only_relations_keep_away(
    filters: Sequence[str], names: list[str], room: dict[str, int]
) -> None:
    """Nodes that are full, too small or cordoned, or that the pod does not name, have none, whatever others do."""
    nodes = [a_node("taken", "8"), a_node("empty", "5"), a_node("full", "1"), a_node("small", "500m")]
    nodes.append(a_node("cordoned", "9", cordoned=True))
    others = [a_pod(f"on-{name}", node=name, labels={"app": "x"}) for name in ("taken", "cordoned")]
    others.append(a_pod("v", node="full", labels={"app": "v"}))
    pod = a_pod("p", affinity=beside_x(*names))
    assert kind(*nodes, *others, pod, config=a_config(*filters)).room == room


def test_a_node_with_too_few_devices_of_its_own_has_no_room() -> None:
    """Devices may serve a resource on nodes that have none of it, and not on one that has too few."""
    nodes = [a_gpu_node("one", 1), a_gpu_node("two", 2), a_node("none", "3")]
    pod = with_gpus(a_pod("p", affinity=beside_x()), 2)
    there = [a_pod(f"on-{name}", node=name, labels={"app": "x"}) for name in ("one", "two", "none")]
    filters = ("NodeResourcesFit", "InterPodAffinity")
    found = kind(GPU_CLASS, *nodes, *there, pod, offers=[a_gpu_node("t", 6)], config=a_config(*filters))
    assert found.room == {"": 7 + 2}


# ---- spreads


def spread(key: str = ZONE, skew: int = 1, app: str = "w", when: str = "DoNotSchedule", **more: Any) -> Written:
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **selector, **more}


def spread_pod(name: str, *rules: Written, cpu: str = "1") -> Written:
    return a_pod(name, cpu, labels={"app": "w"}, topologySpreadConstraints=[*rules])


ZONES = [a_node("na", "8", zone="a"), a_node("nb", "2", zone="b"), a_node("nb2", "3", zone="b")]
IN_ZONES = [a_node("x", zone="a"), a_node("y", zone="c"), a_node("z")]
RUNNING = [a_pod(f"r{i}", node="na", labels={"app": "w"}) for i in range(3)]


def test_a_spread_has_the_pods_and_the_room_of_each_zone() -> None:
    found = kind(*ZONES, *RUNNING, spread_pod("p", spread(skew=2)), offers=IN_ZONES)
    limit = found.spread
    assert limit is not None
    assert (limit.max_skew, limit.held, limit.offers) == (2, {"a": 3, "b": 0}, {0: "a", 1: "c", 2: ""})
    assert (found.room, found.is_plain) == ({"a": 5, "b": 5}, False)
    assert found.takers == {0: 4, 1: 4}
    assert dict(found.refusals) == {f"node(s) lack the label {ZONE} of a spread constraint": 1}
    assert limit.constraint.key == ZONE
    assert "domains" not in repr(limit) and "constraint" not in repr(limit)


def test_spread_pods_are_counted_by_zone_after_a_trial() -> None:
    found = demand(*ZONES, *RUNNING, spread_pod("p", spread()), spread_pod("q", spread()), a_pod("r"), offers=IN_ZONES)
    first, second = found.kinds[0].pods
    assert found.spread_keys() == {first.id: ZONE, second.id: ZONE}
    after = found.after({first.id: "b", second.id: "c", "another": "a"})
    limit = after.kinds[0].spread
    assert limit is not None and limit.held == {"a": 3, "b": 1, "c": 1}
    assert after.kinds[1] is found.kinds[1]
    assert found.plain() == {id(found.kinds[1].pods[0].shape)}


@pytest.mark.parametrize(
    "rule",
    [spread(app="other"), spread(HOSTNAME, skew=9), spread(when="ScheduleAnyway")],
    ids=["it does not count the pod itself", "every node is a domain", "it is only preferred"],
)
def test_constraints_that_say_nothing_about_domains_of_these_pods(rule: Written) -> None:
    found = kind(*ZONES, spread_pod("p", rule), offers=IN_ZONES)
    assert (found.spread, found.takers) == (None, {0: 4, 1: 4, 2: 4})


def test_a_spread_that_counts_pods_of_another_kind_is_left_to_trials() -> None:
    found = demand(*ZONES, spread_pod("p", spread()), a_pod("other", labels={"app": "w"}), offers=IN_ZONES)
    assert [each.spread for each in found.kinds] == [None, None]
    assert found.kinds[0].room == {"": 13}
    assert found.kinds[0].takers == {0: 4, 1: 4}
    separate = demand(*ZONES, spread_pod("p", spread()), a_pod("other", labels={"app": "v"}), offers=IN_ZONES)
    assert [each.spread is None for each in separate.kinds] == [False, True]
    full = demand(spread_pod("p", spread()), a_pod("other", labels={"app": "w"}), offers=IN_ZONES)
    assert full.kinds[0].room == {}


@pytest.mark.parametrize(
    ("nodes", "rules", "most"),
    [
        ([a_node("n", "2")], [spread(HOSTNAME)], 3),
        ([a_node("n", "2"), a_node("m", "1")], [spread(HOSTNAME)], 2),
        ([a_node("n", "0")], [spread(HOSTNAME)], 1),
        ([a_node("n", "0")], [spread(HOSTNAME, 2)], 2),
        ([], [spread(HOSTNAME)], 4),
        ([a_node("n", "0")], [spread(HOSTNAME, app="other")], 4),
        ([a_node("n", "0")], [spread(HOSTNAME, when="ScheduleAnyway")], 4),
        ([a_node("n", "2"), a_pod("r", node="n", labels={"app": "w"})], [spread(HOSTNAME)], 3),
    ],
    ids=[
        "one more than the present node can take",
        "one more than the smallest node can take",
        "one where that takes none",
        "as many as the skew",
        "all that fit without present nodes",
        "a constraint about others",
        "a preference",
        "pods that are there count",
    ],
)
def test_a_spread_over_nodes_limits_the_pods_of_a_new_node(
    nodes: list[Written], rules: list[Written], most: int
) -> None:
    assert kind(*nodes, spread_pod("p", *rules), offers=[SMALL]).takers == {0: most}
