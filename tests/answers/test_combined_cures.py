"""Cures of several changes, of nodes and of other pods, word for word; and what pods wait for that nobody looks at."""

from typing import Any

import pytest
from cure_lists import cures_of, rows_of
from test_whole_cures import HOSTNAME, a_spread, a_taint, a_term, required, with_ports
from written import Written, a_node, a_pod

from mooring.answers.explain import combined_cures
from mooring.answers.explain.cure import SearchBudget
from mooring.answers.explain.cure_search import find_cures
from mooring.answers.explain.explain import explain_pod
from mooring.answers.explain.explanation import PodExplanation
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.inputs.loaded_cluster import load

TEAM = a_taint("team", "ml")
GATES: dict[str, Any] = {"schedulingGates": [{"name": "example.com/quota"}]}


def told(*objects: Written) -> list[tuple[str, float]]:
    """Sentence and cost of each cure."""
    return [(change, cost) for _, change, _, cost in rows_of(*objects)]


def explained(*objects: Written) -> PodExplanation:
    loaded = load(list(objects))
    return explain_pod(Counterfactual(loaded), loaded.pod("wanted"))


def node_affinity(*terms: list[Written]) -> Written:
    listed = [{"matchExpressions": lines} for lines in terms]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}}


def a_line(key: str, *values: str) -> Written:
    return {"key": key, "operator": "In", "values": list(values)}


IN_X = a_line("topology.kubernetes.io/zone", "x")


def a_class(name: str, value: int, policy: str | None = None) -> Written:
    item = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    return {**item, **({"preemptionPolicy": policy} if policy else {})}


# ---- sentences that say all that they do


def test_a_line_of_one_of_several_terms_is_not_dropped_alone() -> None:
    affinity = node_affinity([a_line("disk", "ssd")], [a_line("pool", "gpu")])
    node = a_node("a", labels={"disk": "hdd", "pool": "web"})
    assert told(node, a_pod("wanted", affinity=affinity)) == [
        ("label node a with disk=ssd instead of disk=hdd", 65),
        ("drop the whole of the required node affinity", 80),
    ]


def test_a_line_of_a_longer_term_is_named_with_its_term() -> None:
    affinity = node_affinity([a_line("disk", "ssd"), a_line("pool", "gpu")], [a_line("disk", "tape")])
    node = a_node("a", labels={"pool": "gpu", "disk": "hdd"})
    assert told(node, a_pod("wanted", affinity=affinity))[0] == (
        "drop the required node affinity disk In [ssd] of the term (disk In [ssd] and pool In [gpu])",
        40,
    )


def test_a_pod_that_leaves_the_network_of_its_node_is_told_so() -> None:
    pods = [with_ports(a_pod("other", node="a", owner="DaemonSet/x"), 80), with_ports(a_pod("wanted"), 80)]
    for pod in pods:
        pod["spec"]["hostNetwork"] = True
    assert ("do without hostNetwork and hostPort 80", 80) in told(a_node("a"), *pods)


def test_a_class_that_never_preempts_is_not_named() -> None:
    objects = [a_node("a"), a_pod("low", "4", node="a", priority=0), a_pod("wanted", "2", priority=0)]
    never, top = a_class("never", 500, "Never"), a_class("top", 1000)
    raised = [change for change, _ in told(*objects, never, top) if change.startswith("raise")]
    assert raised == ["raise the priority from 0 to 1 (PriorityClass top has 1000)"]
    raised = [change for change, _ in told(*objects, never) if change.startswith("raise")]
    assert raised == ["raise the priority from 0 to 1"]


def test_a_class_with_which_other_pods_would_be_evicted_is_not_named() -> None:
    """With 1000 the two small pods of node b, of the highest priority, could go as well, but one victim is better."""
    nodes = [a_node("a"), a_node("b")]
    pods = [a_pod("one", "2", node="a", priority=1), a_pod("two", "2", node="a", priority=1)]
    pods.append(a_pod("large", "4", node="b", priority=5))
    objects = [*nodes, *pods, a_class("top", 1000), a_pod("wanted", "4", priority=0)]
    (cure,) = [each for each in cures_of(*objects) if each.kind == "raise-priority"]
    assert cure.change == "raise the priority from 0 to 2 (PriorityClass top has 1000)"
    assert cure.victims == ("default/one", "default/two")


# ---- a pod that may not preempt


def never_preempting(**spec: Any) -> list[Written]:
    low = a_pod("low", "4", node="a", priority=0, owner="ReplicaSet/low")
    return [a_node("a"), low, a_pod("wanted", "2", preemptionPolicy="Never", **spec)]


def test_a_pod_that_may_not_preempt_is_told_so_and_let() -> None:
    objects = never_preempting(priority=500)
    assert explained(*objects).summary()[1] == "It evicts no other pod: its preemptionPolicy is Never"
    (cure,) = [each for each in cures_of(*objects) if each.kind == "allow-preemption"]
    assert (cure.change, cure.cost, cure.victims) == (
        "let it preempt (preemptionPolicy: PreemptLowerPriority instead of Never)",
        65,
        ("default/low",),
    )


def test_a_class_that_never_preempts_needs_another_class() -> None:
    objects = [*never_preempting(priority=500, priorityClassName="never"), a_class("never", 500, "Never")]
    allowed = "let it preempt (preemptionPolicy: PreemptLowerPriority instead of Never)"
    assert (f"{allowed} (needs a new PriorityClass of value 500)", 65) in told(*objects)
    assert (f"{allowed} (PriorityClass top has 1000)", 65) in told(*objects, a_class("top", 1000))


def test_a_pod_that_may_not_preempt_and_has_too_low_a_priority_needs_both() -> None:
    objects = never_preempting(priority=-5)
    text = (
        "raise the priority from -5 to 1 and let it preempt (preemptionPolicy: PreemptLowerPriority instead of Never)"
    )
    assert (text, 65) in told(*objects)


# ---- pods that nobody looks at


def test_a_gated_pod_is_told_what_comes_after_its_gates() -> None:
    answer = explained(a_node("a", "1"), a_pod("wanted", "2", **GATES))
    assert answer.summary()[:2] == [
        "default/wanted is pending: waiting for scheduling gates: [example.com/quota]",
        "After its gates are removed: 0/1 nodes are available: 1 Insufficient cpu.",
    ]
    assert [(reason.plugin, reason.amounts[0].largest_free) for reason in answer.reasons] == [
        ("NodeResourcesFit", 1000)
    ]
    assert answer.to_dict()["notes"] == [answer.summary()[1]]
    assert [cure.change for cure in answer.cures] == [
        "remove the scheduling gate example.com/quota, and lower the cpu request of container main from 2 to 1"
    ]
    free = explained(a_node("a"), a_pod("wanted", **GATES))
    assert free.notes == ["After its gates are removed: it would go to a"] and free.reasons == ()


def test_an_unknown_scheduler_name_is_exchanged() -> None:
    foreign = a_pod("wanted", schedulerName="other")
    text = "use schedulerName default-scheduler instead of other"
    assert rows_of(a_node("a"), foreign) == [("change-scheduler", text, "a", 15)]
    answer = explained(a_node("a", "1"), a_pod("wanted", "2", schedulerName="other", **GATES))
    assert answer.notes == [
        "After its gates are removed and with schedulerName default-scheduler: "
        "0/1 nodes are available: 1 Insufficient cpu."
    ]
    assert answer.cures[0].change == (
        f"remove the scheduling gate example.com/quota, and {text}, "
        "and lower the cpu request of container main from 2 to 1"
    )
    assert answer.cures[0].cost == 10 + 15 + 50


def test_a_gated_pod_that_would_evict_others_names_them() -> None:
    objects = [a_node("a"), a_pod("low", "4", node="a", priority=0), a_pod("wanted", "3", priority=9, **GATES)]
    (cure,) = [each for each in cures_of(*objects) if each.kind == "remove-gate"]
    assert (cure.change, cure.cost, cure.victims) == (
        "remove the scheduling gate example.com/quota",
        15,
        ("default/low",),
    )


# ---- nodes that change


def test_a_cordoned_node_with_a_taint_takes_two_changes() -> None:
    node = a_node("a", cordoned=True, taints=[a_taint("node.kubernetes.io/unschedulable"), TEAM])
    assert told(node, a_pod("wanted")) == [
        ("uncordon node a, and tolerate the taint team=ml:NoSchedule", 40),
        ("uncordon node a, and remove the taint team=ml:NoSchedule from node a", 55),
    ]


def test_three_changes_at_once() -> None:
    node = a_node("a", "2", labels={"disk": "hdd"}, taints=[TEAM])
    lower, tolerate = "lower the cpu request of container main from 3 to 2", "tolerate the taint team=ml:NoSchedule"
    assert told(node, a_pod("wanted", "3", nodeSelector={"disk": "ssd"})) == [
        (f"{lower}, and {tolerate}, and select disk=hdd instead of disk=ssd", 109),
        (f"{lower}, and {tolerate}, and drop the node selector disk=ssd", 110),
        (f"remove the taint team=ml:NoSchedule from node a, and {lower}, and select disk=hdd instead of disk=ssd", 124),
    ]


def test_a_node_that_was_left_out_for_its_name_takes_two_changes() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    lower = "lower the cpu request of container main from 8 to 4"
    assert told(a_node("a"), a_pod("wanted", "8", affinity=affinity)) == [
        (f"{lower}, and drop the required node affinity metadata.name In [gone]", 90),
    ]


def test_combinations_cost_less_than_what_suffices_alone() -> None:
    cordoned = a_node("a", cordoned=True, taints=[TEAM])
    small = a_node("b", "1")
    rows = rows_of(cordoned, small, a_pod("wanted", "2"))
    assert [row[0] for row in rows if row[3] < 50] == ["uncordon+tolerate"], "a request lowered by half costs 50"
    rows = rows_of(cordoned, a_node("b", "1900m"), a_pod("wanted", "2"))
    assert [row[0] for row in rows if "+" in row[0]] == [], "a request lowered by a twentieth costs 23"


def test_a_node_that_may_run_no_more_pods_is_let_run_more() -> None:
    others = [a_pod(name, node="a", owner="DaemonSet/x") for name in ("one", "two")]
    assert ("let node a run 3 pods instead of 2", 45) in told(a_node("a", pods="2"), *others, a_pod("wanted"))


def test_labels_of_kubernetes_itself_are_not_given_to_nodes() -> None:
    affinity = node_affinity([a_line("kubernetes.io/arch", "arm64")])
    assert [row[0] for row in rows_of(a_node("a"), a_pod("wanted", affinity=affinity))] == ["drop-affinity"]


@pytest.mark.parametrize(
    ("lines", "labels"),
    [
        ([{"key": "disk", "operator": "Exists"}], "disk=true"),
        ([{"key": "size", "operator": "Gt", "values": ["5"]}], "size=6"),
        ([{"key": "size", "operator": "Lt", "values": ["5"]}, a_line("disk", "ssd", "nvme")], "size=4 and disk=ssd"),
        ([{"key": "old", "operator": "DoesNotExist"}], ""),
        ([a_line("disk", "ssd"), a_line("disk", "nvme")], ""),
    ],
    ids=["any value", "more", "less, and one of a list", "a label has to go", "a contradiction"],
)
def test_a_node_gets_the_labels_that_the_pod_selects(lines: list[Written], labels: str) -> None:
    rows = rows_of(a_node("a", labels={"old": "x"}), a_pod("wanted", affinity=node_affinity(lines)))
    found = [change.removeprefix("label node a with ") for kind, change, _, _ in rows if kind == "label-node"]
    assert found == ([labels] if labels else [])


# ---- other pods


def test_another_pod_requests_less() -> None:
    pods = [a_pod("large", "3", node="a", owner="ReplicaSet/x"), a_pod("small", "1", node="a", owner="ReplicaSet/y")]
    found = [row for row in rows_of(a_node("a"), *pods, a_pod("wanted", "1500m")) if row[0] == "shrink-pod"]
    text = "lower the cpu request of container main of default/large from 3 to 1500m"
    assert found == [("shrink-pod", text, "a", 55 + 20 * 0.5)]
    agents = [a_pod(f"agent-{i}", "2", node="a", owner="DaemonSet/x") for i in range(2)]
    assert "shrink-pod" not in [row[0] for row in rows_of(a_node("a"), *agents, a_pod("wanted"))]


def test_a_change_after_which_the_scheduler_evicts_others_names_them() -> None:
    objects = [a_node("a", taints=[TEAM]), a_pod("low", "4", node="a", priority=0), a_pod("wanted", "4", priority=9)]
    (cure,) = [each for each in cures_of(*objects) if each.kind == "tolerate"]
    assert (cure.change, cure.cost, cure.victims) == (
        "tolerate the taint team=ml:NoSchedule",
        30 + 5,
        ("default/low",),
    )


# ---- a node that is not there


def test_the_first_node_of_a_cluster_is_described() -> None:
    spec: dict[str, Any] = {"nodeSelector": {"disk": "ssd"}, "topologySpreadConstraints": [a_spread("rack")]}
    assert rows_of(a_pod("wanted", "1500m", "64Mi", **spec)) == [
        (
            "describe-node",
            "add a node without taints that has at least cpu 1500m, memory 64Mi, pods 1 and the labels rack=new, disk=ssd",
            "new-node-1",
            95,
        )
    ]
    assert rows_of(a_pod("wanted", **GATES))[0][1] == (
        "remove the scheduling gate example.com/quota, and "
        "add a node without taints that has at least cpu 1, memory 1024Mi, pods 1"
    )


def test_a_node_is_described_where_no_change_of_others_helps() -> None:
    wanted = a_pod("wanted", affinity={"podAffinity": required(a_term(app="gone"))})
    wanted["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    node = "add a node without taints that has at least cpu 1, memory 1024Mi, example.com/gpu 1, pods 1"
    alone = f"drop the required pod affinity over {HOSTNAME} (app=gone)"
    assert told(a_node("a"), wanted) == [
        (f"{node}, and {alone}", 135),
        (f"drop the example.com/gpu request of container main, and {alone}", 140),
    ]


def test_a_node_that_the_pod_wants_by_name_is_described_by_it() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["mine"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    (row,) = rows_of(a_pod("wanted", affinity=affinity))
    assert row[1:3] == (
        "add a node without taints named mine that has at least cpu 1, memory 1024Mi, pods 1",
        "mine",
    )


def test_a_node_is_described_by_labels_where_one_term_wants_no_name() -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}], "matchExpressions": [IN_X]}
    listed = [by_name, {"matchExpressions": [a_line("disk", "ssd")]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}}
    wanted = a_pod("wanted", affinity=affinity)
    wanted["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    node = "add a node without taints that has at least cpu 1, memory 1024Mi, example.com/gpu 1, pods 1"
    assert told(a_node("a"), wanted)[0] == (f"{node} and the labels disk=ssd", 95)


# ---- requests of containers


def test_a_sentence_names_each_container_that_asks_for_less() -> None:
    pod = a_pod("wanted", "3")
    requests = {"cpu": "2", "example.com/gpu": "2"}
    more = {"name": "more", "image": "i", "resources": {"requests": requests, "limits": {"example.com/gpu": "2"}}}
    pod["spec"]["containers"].append(more)
    pod["spec"]["initContainers"] = [{"name": "first", "image": "i", "resources": {"requests": {"cpu": "4"}}}]
    node = a_node("a", "1")
    node["status"]["allocatable"]["example.com/gpu"] = "1"
    assert told(node, pod)[0][0] == (
        "lower the cpu request of container main from 3 to 600m and "
        "the example.com/gpu request and limit of container more from 2 to 1 and "
        "the cpu request of container more from 2 to 400m and "
        "the cpu request of init container first from 4 to 1"
    )


def test_overhead_cannot_be_lowered() -> None:
    overhead: Written = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
    }
    overhead["overhead"] = {"podFixed": {"cpu": "1"}}
    wanted = a_pod("wanted", "4", runtimeClassName="kata", overhead={"cpu": "1"})
    assert told(a_node("a"), overhead, wanted) == [
        ("lower the cpu request of container main from 4 to 3", 20 + 60 * 0.2)
    ]


# ---- bounds


class Counted:
    """Something that makes decisions."""

    decisions = 0


def test_half_of_a_budget_is_a_part_of_the_whole() -> None:
    trials = Counted()
    whole = SearchBudget(trials, 10)
    trials.decisions = 4
    half = whole.half()
    trials.decisions = 6
    assert half.is_left() and whole.is_left()
    trials.decisions = 7
    assert not half.is_left() and whole.was_exhausted and whole.is_left()


def test_only_so_many_nodes_and_changes_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [a_node("a", "1", cordoned=True, taints=[TEAM]), a_node("b", cordoned=True, taints=[a_taint("x")])]
    objects = [*nodes, a_pod("wanted", "4")]
    assert [row[2] for row in rows_of(*objects) if row[0] == "uncordon+tolerate"] == ["b"]
    monkeypatch.setattr(combined_cures, "MOST_CHANGES", 1)
    assert [row[0] for row in rows_of(*objects)] == ["describe-node"]


def test_a_search_for_combinations_ends_with_its_decisions() -> None:
    objects = [a_node(f"n{i}", "1", cordoned=True, taints=[TEAM]) for i in range(9)]
    loaded = load([*objects, a_pod("wanted", "4", nodeSelector={"disk": "ssd"})])
    trials = Counterfactual(loaded)
    found = find_cures(trials, loaded.pod("wanted"), decisions=40)
    assert found.gave_up and trials.decisions <= 45
