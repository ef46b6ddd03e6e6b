"""The parts of a trial: what obstacles are named and how, what nodes cost, whom pods belong to, and edits of a moment."""

from typing import Any

import numpy as np
import pytest
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.changing_nodes import sync_daemons
from mooring.answers.trial.counterfactual import (
    ChangePod,
    Counterfactual,
    PutObject,
    RemovePod,
    SchedulerView,
)
from mooring.answers.trial.group_trials import group_named
from mooring.answers.trial.node_prices import cost_of_nodes, known_prices, node_prices, unpriced
from mooring.answers.trial.reasons import Reason, reasons_of, show_requirement, with_obstacles
from mooring.answers.trial.workload_book import WorkloadName, pods_of_workload, workload_named
from mooring.answers.what_if.question import what_if
from mooring.inputs.input_errors import InputError, NoSuchPod
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.inputs.offers.price_list import PriceList
from mooring.model.node import Node
from mooring.scheduler.decision import NoFit, Placement

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def reasons(*objects: Written, **options: Any) -> dict[str, Reason]:
    """By plugin: the reason why the pod `wanted` fits nowhere, with its obstacles."""
    loaded = load([*objects], **options)
    view, pod = SchedulerView(loaded), loaded.pod("wanted")
    decision = view.decide(pod)
    assert isinstance(decision, NoFit)
    return {reason.plugin: with_obstacles(reason, pod, view.cluster) for reason in reasons_of(decision)}


# ---- obstacles


def test_taints_are_counted_by_the_first_one_of_each_node_that_is_not_tolerated() -> None:
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    gpu, db = {"key": "gpu", "effect": "NoSchedule"}, {"key": "db", "value": "x", "effect": "NoExecute"}
    nodes = [a_node("a", taints=[soft, gpu, db]), a_node("b", taints=[gpu]), a_node("c", taints=[db, gpu])]
    assert reasons(*nodes, a_pod("wanted"))["TaintToleration"].details == (
        "taint gpu:NoSchedule: 2 nodes",
        "taint db=x:NoExecute: 1 node",
    )
    many = [a_node(f"n{i}", taints=[{"key": f"k{i}", "effect": "NoSchedule"}]) for i in range(6)]
    found = reasons(*many, a_pod("wanted"))["TaintToleration"]
    assert len(found.details) == 5 and (found.count, found.nodes, found.can_evict) == (6, ("n0", "n1", "n2"), False)


def test_each_line_of_a_selection_is_counted_over_all_nodes() -> None:
    terms = [
        {
            "matchExpressions": [
                {"key": "arch", "operator": "In", "values": [*"abcdefg"]},
                {"key": "gpu", "operator": "Exists"},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["two"]}]},
        {},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    selector = {"disk": "ssd", **{f"k{i}": "v" for i in range(5)}}
    nodes = [a_node("one", labels={"arch": "c", "gpu": "1"}), a_node("two", labels={"disk": "ssd"}), a_node("three")]
    pod = a_pod("wanted", nodeSelector=selector, affinity=affinity)
    assert reasons(*nodes, pod)["NodeAffinity"].details == (
        "nodeSelector disk=ssd: matches 1 node",
        *(f"nodeSelector k{i}=v: matches 0 nodes" for i in range(4)),
        "required node affinity arch In [a, b, c, d, e] and gpu Exists: matches 1 node",
        "required node affinity metadata.name In [two]: matches 1 node",
        "required node affinity (empty term): matches 0 nodes",
    )
    assert show_requirement("k", "In", "abc", 2) == "k In [a, b]"


def test_amounts_that_are_missing() -> None:
    nodes = [a_node("small", "2", "64Gi"), a_node("large", "16", "1Gi"), a_node("full", "16", "1Gi", pods="1")]
    held = [a_pod("x", "15", "1Mi", node="large"), a_pod("y", "1", "1Mi", node="full")]
    found = reasons_of_all(*nodes, *held, a_pod("wanted", "4", "32Gi"))
    apart = "no node is large enough for cpu and memory together"
    memory = "wants 32Gi, but none of these nodes is large enough (largest 1Gi)"
    one = "these nodes run as many pods as they may: 1 to 1"
    assert {each.nodes: (each.message, [amount.text for amount in each.amounts], each.details) for each in found} == {
        ("small",): (
            "Insufficient cpu",
            ["wants 4, but none of these nodes is large enough (largest 2)"],
            (apart,),
        ),
        ("large",): ("Insufficient cpu, Insufficient memory", ["wants 4, largest free 1 on large", memory], (apart,)),
        ("full",): ("Too many pods, Insufficient memory", [memory], (one, apart)),
    }


def test_a_free_amount_is_the_largest_of_the_nodes_that_reject() -> None:
    nodes = [a_node("a", "8"), a_node("b", "8"), a_node("c", "64", taints=[{"key": "k", "effect": "NoSchedule"}])]
    held = [a_pod("x", "7", node="a"), a_pod("y", "5500m", node="b")]
    (amount,) = reasons(*nodes, *held, a_pod("wanted", "4"))["NodeResourcesFit"].amounts
    assert (amount.text, amount.largest, amount.fits_no_node) == ("wants 4, largest free 2500m on b", 8000, False)
    (amount,) = reasons(*nodes, *held, a_pod("wanted", "9"))["NodeResourcesFit"].amounts
    assert amount.text == "wants 9, but none of these nodes is large enough (largest 8)"
    gpu = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"example.com/gpu": "2"}}}]}
    (amount,) = reasons(*nodes, {**a_pod("wanted"), "spec": gpu})["NodeResourcesFit"].amounts
    assert amount.text == "wants 2, and none of these nodes has any" and not amount.fits_no_node
    (amount,) = reasons(*nodes, *held, a_pod("wanted", "65"))["NodeResourcesFit"].amounts
    assert amount.text == "wants 65, but no node is large enough (largest 64)" and amount.fits_no_node


def test_nodes_that_are_full_say_how_many_pods_they_may_run() -> None:
    full = [
        a_node("a", pods="1"),
        a_node("b", pods="2"),
        a_node("c", pods="9", taints=[{"key": "k", "effect": "NoSchedule"}]),
    ]
    held = [a_pod("x", node="a"), a_pod("y", node="b"), a_pod("z", node="b")]
    found = reasons(*full, *held, a_pod("wanted"))["NodeResourcesFit"]
    assert found.details == ("these nodes run as many pods as they may: 1 to 2",) and found.amounts == ()
    none = reasons(a_node("a", pods="0"), full[2], a_pod("wanted"))["NodeResourcesFit"]
    assert none.details == ("none of these nodes may run any pod (pods: 0)",)
    assert reasons(a_node("a", pods="0"), a_pod("wanted"))["NodeResourcesFit"].details == (
        "no node may run any pod (pods: 0)",
    )


def with_port(pod: Written, port: int, protocol: str = "TCP", ip: str = "") -> Written:
    host = {"containerPort": port, "hostPort": port, "protocol": protocol, "hostIP": ip}
    pod["spec"]["containers"][0]["ports"] = [host]
    return pod


def test_ports_are_counted_by_the_nodes_where_another_pod_has_them() -> None:
    held = [
        with_port(a_pod("x", node="a"), 80),
        with_port(a_pod("y", node="b"), 80),
        with_port(a_pod("z", node="b"), 81),
    ]
    wanted = with_port(a_pod("wanted"), 80)
    found = reasons(a_node("a"), a_node("b"), *held, wanted)["NodePorts"]
    assert found.details == ("hostPort 80/TCP on 0.0.0.0: in use on 2 nodes",)
    listed = wanted["spec"]["containers"][0]["ports"]
    listed += [{**listed[0], "protocol": "UDP"}, *({**listed[0], "hostPort": port} for port in range(81, 86))]
    assert reasons(a_node("a"), a_node("b"), *held, wanted)["NodePorts"].details == (
        "hostPort 80/TCP on 0.0.0.0: in use on 2 nodes",
        "hostPort 80/UDP on 0.0.0.0: in use on 0 nodes",
        "hostPort 81/TCP on 0.0.0.0: in use on 1 node",
        *(f"hostPort {port}/TCP on 0.0.0.0: in use on 0 nodes" for port in (82, 83)),
    )


def test_a_plugin_whose_words_say_enough_has_no_details() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "lost"}}
    (found,) = reasons_of_all(a_node("a"), a_node("b"), a_pod("wanted", volumes=[volume]))
    assert (found.message, found.count, found.nodes) == ('persistentvolumeclaim "lost" not found', 2, ("a", "b"))
    assert (found.amounts, found.details, found.can_evict) == ((), (), False)


def test_nodes_that_are_cordoned_or_not_named_say_so() -> None:
    nodes = [a_node("a", cordoned=True), a_node("b", cordoned=True), a_node("c")]
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [named]}}}
    found = reasons_of_all(*nodes, a_pod("wanted", affinity=affinity))
    assert [(each.plugin, each.count, each.nodes, each.can_evict, each.details) for each in found] == [
        ("PreFilter", 2, ("b", "c"), False, ("required node affinity metadata.name In [a]: matches 1 node",)),
        (
            *("NodeUnschedulable", 1, ("a",), False),
            ("spec.unschedulable is set: kubectl uncordon makes a node schedulable",),
        ),
    ]


def test_domains_of_a_hard_spread_are_told_with_the_emptiest_and_the_fullest() -> None:
    web = {"matchLabels": {"app": "web"}}
    hard = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": web}
    soft = {**hard, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}
    rack = {**hard, "topologyKey": "rack", "maxSkew": 2}
    taint = [{"key": "k", "effect": "NoSchedule"}]
    nodes = [
        a_node("a", zone="a"),
        a_node("b", zone="b", taints=taint),
        a_node("c", zone="c", taints=taint),
        a_node("d"),
    ]
    there = [a_pod(f"x{i}", node=node, labels={"app": "web"}) for i, node in enumerate("aaabb")]
    there += [a_pod("other", node="c", labels={"app": "db"})]
    there += [in_namespace(a_pod("foreign", node="c", labels={"app": "web"}), "b")]
    wanted = a_pod("wanted", labels={"app": "web"}, topologySpreadConstraints=[soft, hard, rack])
    assert reasons(*nodes, *there, wanted)["PodTopologySpread"].details == (
        f"spread over {ZONE} (maxSkew 1): c has 0 matching pods, a has 3",
        "spread over rack (maxSkew 2): no node has this label",
    )


def test_terms_of_the_pod_and_of_others_are_told() -> None:
    def term(app: str) -> Written:
        return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}

    keeps = {"podAntiAffinity": {REQUIRED: [term("web")]}}
    nodes = [a_node("a"), a_node("b")]
    keepers = [a_pod(f"k{i}", "100m", "1Mi", node="a", affinity=keeps) for i in range(7)]
    wanted = a_pod("wanted", labels={"app": "web"}, affinity={"podAffinity": {REQUIRED: [term("db")]}})
    db = [a_pod(f"db{i}", "100m", "1Mi", node="a", labels={"app": "db"}) for i in range(2)]
    own = f"pod affinity over {HOST}: 2 pods selected"
    five = "default/k0, default/k1, default/k2, default/k3, default/k4"
    for count, more in ((7, " and 2 more"), (5, "")):
        found = [reason.details for reason in reasons_of_all(*nodes, *keepers[:count], *db, wanted)]
        assert sorted(found) == [(own,), (own, f"pods whose anti-affinity keeps it away: {five}{more}")]
    apart = a_pod("wanted", affinity={"podAntiAffinity": {REQUIRED: [term("db"), term("x")]}})
    foreign = in_namespace(a_pod("foreign", node="b", labels={"app": "db"}), "b")
    there = [*db[:1], foreign, a_pod("x", "100m", "1Mi", node="b", labels={"app": "x"})]
    found = [reason.details for reason in reasons_of_all(*nodes, *there, apart)]
    assert found == [tuple(f"pod anti-affinity over {HOST}: 1 pod selected" for _ in "ab")]


def reasons_of_all(*objects: Written) -> list[Reason]:
    loaded = load([*objects])
    view, pod = SchedulerView(loaded), loaded.pod("wanted")
    decision = view.decide(pod)
    assert isinstance(decision, NoFit)
    return [with_obstacles(reason, pod, view.cluster) for reason in reasons_of(decision)]


# ---- a moment of a cluster


def test_a_nominated_pod_keeps_its_room_and_a_contradiction_is_refused() -> None:
    promised = {**a_pod("promised", "3", priority=5), "status": {"phase": "Pending", "nominatedNodeName": "a"}}
    loaded = load([a_node("a"), promised, a_pod("wanted", "2")])
    assert isinstance(SchedulerView(loaded).decide(loaded.pod("wanted")), NoFit)
    assert isinstance(SchedulerView(loaded).decide(loaded.pod("promised")), Placement)
    one = load([a_node("a"), a_node("b"), a_pod("x", node="a"), a_pod("y", node="b")])
    first, second = one.pod("x"), one.pod("y")
    second.metadata.uid = first.metadata.uid
    with pytest.raises(InputError, match="^Pod default/[xy]: "):
        SchedulerView(one, [*one.objects])


def test_a_decision_is_counted_and_explained_only_if_it_is_asked() -> None:
    loaded = load([a_node("a"), a_node("b"), a_pod("wanted"), a_pod("theirs", schedulerName="theirs")])
    view = SchedulerView(loaded)
    plain, told = view.decide(loaded.pod("wanted")), view.decide(loaded.pod("wanted"), explain=True)
    assert isinstance(plain, Placement) and isinstance(told, Placement)
    assert plain.best == [] and {name for name, _ in told.best} == {"a", "b"}
    view.decide(loaded.pod("theirs"))
    assert (view.decisions, view.scheduler_names) == (2, ["default-scheduler"])


def test_edits_hold_for_a_moment_and_are_taken_back() -> None:
    loaded = load([a_node("a", "2"), a_pod("x", "2", node="a"), a_pod("wanted", "2")])
    trials, pod, held = Counterfactual(loaded), loaded.pod("wanted"), loaded.pod("x")
    node = next(item for item in loaded.objects if isinstance(item, Node))
    larger = load([a_node("a", "4")]).objects[0]
    other = load([a_node("new", "4")]).objects[0]
    for edits, goes in (
        ([], None),
        ([RemovePod(held)], "a"),
        ([PutObject(larger)], "a"),
        ([PutObject(other)], "new"),
        ([ChangePod(load([a_node("a"), a_pod("wanted", "0")]).pod("wanted"))], "a"),
        ([], None),
    ):
        assert trials.node_for(pod, edits) == goes
    assert trials.cluster.nodes.row_book.get("new") is None and trials.cluster.nodes.nodes[0] is node
    gated = load([a_node("a"), a_pod("wanted", schedulingGates=[{"name": "example.com/x"}])])
    assert Counterfactual(gated).node_for(gated.pod("wanted")) is None
    assert Counterfactual(gated).nominate(gated.pod("wanted")) is None


def test_preemption_chooses_a_node_and_its_victims() -> None:
    loaded = load([a_node("a"), a_pod("x", "4", node="a", priority=1), a_pod("wanted", "2", priority=5)])
    found = Counterfactual(loaded).nominate(loaded.pod("wanted"))
    assert found is not None and (found.node_name, [pod.name for pod in found.victims]) == ("a", ["x"])


# ---- whom pods belong to


def a_workload(kind: str, name: str, namespace: str = "default", **spec: Any) -> Written:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    rules = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": rules}


def in_namespace(pod: Written, namespace: str) -> Written:
    pod["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{pod['metadata']['name']}"}
    return pod


def test_pods_of_a_workload_are_found_by_its_name() -> None:
    owned = a_pod("web-1-x", owner="ReplicaSet/web-1", labels={"pod-template-hash": "1"})
    other = in_namespace(a_pod("web-1-x", owner="ReplicaSet/web-1", labels={"pod-template-hash": "1"}), "b")
    loaded = load(
        [
            a_node("n"),
            owned,
            a_pod("alone"),
            a_workload("StatefulSet", "empty", replicas=0),
            a_workload("StatefulSet", "empty", "b", replicas=0),
        ]
    )
    assert [pod.name for pod in pods_of_workload(loaded, "Deployment", "web")] == ["web-1-x"]
    assert [pod.name for pod in pods_of_workload(loaded, "ReplicaSet", "web-1", "default")] == ["web-1-x"]
    assert pods_of_workload(loaded, "Deployment", "nothing", may_lack=True) == []
    two = load([a_node("n"), owned, other])
    assert [pod.namespace for pod in pods_of_workload(two, "Deployment", "web", "b")] == ["b"]
    for name, namespace, told in (
        ("web", "", "Deployment 'web' is in several namespaces: b, default; add its namespace"),
        ("wep", "", "no pod of Deployment 'wep' among 2 pods; did you mean default/web?"),
        ("web", "c", "no pod of Deployment 'web' among 2 pods; did you mean b/web or default/web?"),
    ):
        with pytest.raises(NoSuchPod) as caught:
            pods_of_workload(two, "Deployment", name, namespace)
        assert str(caught.value) == told
    with pytest.raises(NoSuchPod, match="^StatefulSet 'empty' has no pods$"):
        pods_of_workload(loaded, "StatefulSet", "empty", "b")
    assert workload_named(loaded, "StatefulSet", "empty") is None, "there are two"
    found = workload_named(loaded, "StatefulSet", "empty", "b")
    assert found is not None and found.namespace == "b"


def book(*objects: Written) -> tuple[LoadedCluster, ChangingCluster]:
    loaded = load([a_node("n"), *objects])
    return loaded, ChangingCluster(loaded)


def test_a_pod_without_a_replica_set_belongs_to_a_deployment_that_is_there() -> None:
    pod = a_pod("web-1-x", node="n", owner="ReplicaSet/web-1", labels={"pod-template-hash": "1"})
    loaded, cluster = book(a_workload("Deployment", "web", replicas=3), pod)
    assert cluster.book.owner(loaded.pod("web-1-x")) == WorkloadName("Deployment", "default/web")
    loaded, cluster = book(pod, a_pod("alone"))
    assert cluster.book.owner(loaded.pod("web-1-x")) == WorkloadName("ReplicaSet", "default/web-1")
    assert cluster.book.owner(loaded.pod("alone")) is None
    assert str(WorkloadName("Job", "a/b")) == "Job a/b"


def test_a_workload_should_have_the_pods_that_it_asks_for_or_those_that_are_there() -> None:
    pods = [
        a_pod(f"{kind.lower()}-{i}", "100m", node="n", owner=f"{kind}/own")
        for kind in ("StatefulSet", "DaemonSet", "Odd")
        for i in range(2)
    ]
    loaded, cluster = book(
        a_workload("StatefulSet", "own", replicas=7), a_workload("DaemonSet", "own"), *pods, a_pod("alone", node="n")
    )
    scale = cluster.book.scales(cluster.driver.pods())
    assert [scale(loaded.pod(name)) for name in ("statefulset-0", "daemonset-1", "odd-0", "alone", "odd-1")] == [
        ("StatefulSet default/own", 7),
        ("DaemonSet default/own", 2),
        ("Odd default/own", 2),
        None,
        ("Odd default/own", 2),
    ]
    assert [pod.name for pod in cluster.book.pods_of(WorkloadName("Odd", "default/own"), loaded.pods())] == [
        "odd-0",
        "odd-1",
    ]
    assert cluster.book.pods_of(WorkloadName("Odd", "b/own"), loaded.pods()) == []


def test_daemons_that_the_input_describes_are_not_copied_from_a_node() -> None:
    """The DaemonSet runs on node n alone, so a node like n gets none of its pods."""
    daemon = a_workload("DaemonSet", "own")
    daemon["spec"]["template"]["spec"]["nodeSelector"] = {HOST: "n"}
    loaded = load([a_node("n"), daemon, a_pod("own-1", "1", node="n", owner="DaemonSet/own")])
    answer = what_if(loaded, [("add-nodes", "1=n")])
    assert {*answer.after_nodes} == {"default/own-1"}


def test_pods_of_a_node_that_is_not_there() -> None:
    _, cluster = book(a_pod("x", node="n"), a_pod("a", node="n"))
    assert [[pod.name for pod in cluster.pods_on(name)] for name in ("n", "gone")] == [["a", "x"], []]
    sync_daemons(cluster, ["gone"])
    assert len(cluster.pods()) == 2


# ---- prices


def test_a_price_is_that_of_the_list_or_else_that_of_the_node() -> None:
    nodes = []
    for name, label, annotation in (("a", "1", ""), ("b", "1", "2"), ("c", "", ""), ("d", "", "free")):
        node = a_node(name, labels={"mooring.dev/price": label} if label else {})
        node["metadata"]["annotations"] = {"mooring.dev/price": annotation} if annotation else {}
        nodes.append(load([node]).objects[0])
    priced = [node for node in nodes if isinstance(node, Node)]
    listed = PriceList({"a": 9.0, "c": 8.0, "d": 7.0})
    assert node_prices(priced, listed) == known_prices(priced, listed) == {"a": 9, "b": 2, "c": 8, "d": 7}
    assert node_prices(priced[:2], None) == {"a": 1, "b": 2}
    assert (unpriced(priced), unpriced(priced, listed), known_prices(priced)) == (["c", "d"], [], {})
    assert node_prices(priced[2:], None) == {}, "no price is known at all"
    where = "by instance type (the label node.kubernetes.io/instance-type) or by name"
    advice = f"add them {where}, or give the nodes a label mooring.dev/price"
    for asked, prices, missing in ((priced, None, "2 nodes: c, d"), (priced[2:3], PriceList({}), "1 node: c")):
        with pytest.raises(InputError) as caught:
            node_prices(asked, prices)
        assert str(caught.value) == f"prices: no price for {missing}; {advice}"


def test_what_is_idle_of_nodes_that_cost() -> None:
    """The table of cost_of_nodes, and a node on which more is requested than it has."""
    amounts = [("5", "25Gi"), ("1", "90Gi"), (None, None), (None, None), ("12", "1Gi")]
    nodes = [a_node(f"n{i}", "10", "100Gi") for i in range(5)]
    pods = [a_pod(f"p{i}", cpu, memory or "", node=f"n{i}") for i, (cpu, memory) in enumerate(amounts) if cpu]
    cluster = SchedulerView(load([*nodes, *pods])).cluster
    rows = np.array([cluster.nodes.row_book[f"n{i}"] for i in range(5)])
    cost = cost_of_nodes(cluster.nodes, rows, np.array([2, 2, 2, np.nan, 4]))
    assert (cost.total, round(cost.idle, 9)) == (10.0, 3.2)


# ---- groups


def test_a_group_is_found_by_its_name_alone_or_with_its_namespace() -> None:
    def group(namespace: str, name: str = "gang") -> Written:
        return {**a_pod_group(name), "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}}

    spaces = [f"s{i}" for i in range(7)]
    loaded = load(
        [a_node("n"), *map(group, spaces), group("s0", "own"), *members(1, group="mine")], feature_gates=GROUP_GATES
    )
    assert group_named(loaded, "own").key == "s0/own"
    assert group_named(loaded, "gang", "s3").key == group_named(loaded, "s3/gang").key == "s3/gang"
    assert group_named(loaded, "mine").key == "default/mine"
    for name, namespace, told in (
        (
            "gang",
            "",
            "PodGroup 'gang' could be any of s0/gang, s1/gang, s2/gang, s3/gang, s4/gang and 2 more: add its namespace",
        ),
        ("own", "s1", "no PodGroup 's1/own' among 9 groups; did you mean s0/own or s1/gang?"),
    ):
        with pytest.raises(NoSuchPod) as caught:
            group_named(loaded, name, namespace)
        assert str(caught.value) == told
    with pytest.raises(NoSuchPod, match="^PodGroup 'own' cannot be explained: "):
        group_named(load([a_node("n")]), "own")
