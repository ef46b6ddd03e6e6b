"""Everything that is pending: by owner and by reason, for how long, and the change that helps most pods, counted by trial."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

import mooring
from mooring.answers.pending import asked_pending
from mooring.answers.pending.asked_pending import PendingShape, explain_pending
from mooring.answers.pending.pending_answer import PendingExplanation
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.framework.config.settings import API_VERSION
from mooring.inputs.loaded_cluster import LoadedCluster, load

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/explain.v1.json").read_text())
HEADER = {"apiVersion": API_VERSION, "kind": "ClusterDump", "hasAllPods": True, "takenAt": "2026-05-01T12:00:00Z"}
GPU = [{"key": "gpu", "effect": "NoSchedule"}]


def asked(*objects: Written, **options: Any) -> PendingExplanation:
    gates = options.pop("gates", None)
    answer = explain_pending(load([*objects], feature_gates=gates), **options)
    jsonschema.validate(answer.to_dict(), SCHEMA)
    return answer


def created(pod: Written, at: str, namespace: str = "default") -> Written:
    return {**pod, "metadata": {**pod["metadata"], "creationTimestamp": at, "namespace": namespace}}


def a_replica_set(name: str, deployment: str) -> Written:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": "u", "controller": True}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "ownerReferences": [owner]},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": deployment}}},
    }


def rows(answer: PendingExplanation, title: str) -> list[tuple[object, ...]]:
    return [*next(table.rows for table in answer.tables() if table.title == title)]


def test_pods_are_grouped_by_owner_and_reason_with_how_long_and_how_many_nodes() -> None:
    web = [created(a_pod(f"web-{i}", "8", owner="ReplicaSet/web-1"), f"2026-05-01T0{i}:00:00Z") for i in range(3)]
    lone = created(a_pod("lone", "1", nodeSelector={"disk": "ssd"}), "2026-05-01T11:59:00Z")
    answer = asked(HEADER, a_node("a"), a_node("b", taints=GPU), a_replica_set("web-1", "web"), *web, lone, cures=False)
    assert answer.summary() == ["4 of 4 pods of 2 owners are pending, the oldest for 12h"]
    assert rows(answer, "Why") == [
        ("4", "2", "1", "TaintToleration", "node(s) had untolerated taint(s)"),
        ("3", "1", "1", "NodeResourcesFit", "Insufficient cpu"),
        ("1", "1", "1", "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"),
    ]
    message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    assert rows(answer, "Who")[0] == ("3", "12h", "Deployment default/web", message)
    assert rows(answer, "Who")[1][:3] == ("1", "60s", "Pod default/lone")
    assert answer.exit_status == 1


def test_a_job_of_a_cron_job_belongs_to_the_cron_job() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night", "uid": "u", "controller": True}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    jobs = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"night-{i}", "namespace": "default", "uid": f"u{i}", "ownerReferences": [owner]},
            "spec": {"template": template},
        }
        for i in range(2)
    ]
    pods = [a_pod(f"night-{i}-x", "8", owner=f"Job/night-{i}", labels={"job-name": f"night-{i}"}) for i in range(2)]
    answer = asked(HEADER, a_node("a"), *jobs, *pods, cures=False)
    assert [(group.owner, [*group.pods]) for group in answer.groups] == [
        ("CronJob default/night", ["default/night-0-x", "default/night-1-x"])
    ]


def test_changes_are_looked_for_on_behalf_of_every_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three workloads are too large, and the smallest one is kept away by a taint."""
    monkeypatch.setattr(asked_pending, "CURED", 2)
    large = [a_pod(f"{name}-{i}", "32", owner=f"ReplicaSet/{name}") for name in "abc" for i in range(3)]
    labels = {"pod-template-hash": "1"}
    small = a_pod("small-0", "1", owner="ReplicaSet/small-1", labels=labels, nodeSelector={"disk": "ssd"})
    answer = asked(a_node("n", labels={"disk": "ssd"}, taints=GPU), a_node("m"), *large, small)
    assert answer.searched == 4
    assert answer.summary()[-1] == "Changes were looked for on behalf of 4 pods: the largest groups of every reason"
    assert ("tolerate the taint gpu:NoSchedule", ["Deployment default/small"]) in [
        (change.change, [*change.owners]) for change in answer.changes
    ]


def test_pods_without_a_controller_are_one_row_for_each_reason() -> None:
    answer = asked(a_node("a"), *(a_pod(f"p{i}", "8") for i in range(134)), cures=False)
    assert [row[:3] for row in rows(answer, "Who")] == [("134", "-", "pods in default without a controller")]


def test_one_namespace_is_asked_about() -> None:
    other = created(a_pod("far", "8"), "2026-05-01T00:00:00Z", namespace="other")
    answer = asked(a_node("a"), a_pod("near", "8"), other, namespace="other", cures=False)
    assert answer.summary() == ["1 of 1 pod in namespace other is pending"]
    assert rows(answer, "Who")[0][1:3] == ("since 2026-05-01T00:00:00Z", "Pod other/far")
    nothing = asked(a_node("a"), a_pod("near", "8"), namespace="empty")
    assert (nothing.summary(), nothing.exit_status) == (["No pod is pending in namespace empty, of 0 pods"], 0)


# ---- the change that helps most


def placed_by_simulation(objects: list[Written], change: Callable[[list[Written]], None] | None) -> int:
    """How many pods a whole simulation places after a change of the manifests: the truth of a count."""
    changed = json.loads(json.dumps(objects))
    if change is not None:
        change(changed)
    return sum(bool(result.node) for result in mooring.simulate(changed).pods)


def _uncordon(objects: list[Written]) -> None:
    del next(item for item in objects if item["metadata"]["name"] == "closed")["spec"]["unschedulable"]


def _tolerate(objects: list[Written]) -> None:
    for item in objects:
        if item["metadata"]["name"].startswith("gpu-"):
            item["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]


HELPING = {
    "a node with room for four of seven pods is cordoned": (
        [a_node("closed", cordoned=True), *(a_pod(f"p{i}", "1", owner="ReplicaSet/a") for i in range(7))],
        "uncordon node closed",
        _uncordon,
    ),
    "a taint keeps the larger of two workloads away": (
        [
            *(a_node("n", "1"), a_node("g", "64", taints=GPU)),
            *(a_pod(f"gpu-{i}", "2", owner="ReplicaSet/gpu") for i in range(20)),
            *(a_pod(f"web-{i}", "500m", owner="ReplicaSet/web", nodeSelector={"a": "b"}) for i in range(3)),
        ],
        "tolerate the taint gpu:NoSchedule",
        _tolerate,
    ),
}


@pytest.mark.parametrize("name", HELPING)
def test_the_change_that_helps_most_is_counted_as_a_simulation_places_pods(name: str) -> None:
    objects, change, make = HELPING[name]
    more = placed_by_simulation(objects, make) - placed_by_simulation(objects, None)
    answer = asked(*objects)
    assert more > 1
    assert (answer.changes[0].change, answer.changes[0].pods) == (change, more)
    assert f"The change that helps most: {change}" in answer.summary()[-1]
    assert answer.summary()[-1].endswith(f"Then {more} more pods get a node")


def test_pods_that_get_a_node_now_are_told_and_not_counted_as_helped() -> None:
    pods = [a_pod(f"p{i}", "1", owner="ReplicaSet/a") for i in range(6)]
    answer = asked(a_node("open"), a_node("closed", "1", cordoned=True), *pods)
    assert answer.summary()[1] == "The scheduler has room for 4 of them now, placed one after the other"
    assert answer.exit_status == 1
    assert rows(answer, "Who")[0][3] == "4 of 6 would get a node now; alone, the first would go to open"
    fitting = asked(a_node("open"), *pods[:4])
    assert fitting.summary()[1] == "The scheduler has room for all of them now, placed one after the other"
    assert (rows(fitting, "Who")[0][3], fitting.exit_status) == ("would go to open now", 0)


def test_thousands_of_equal_pods_take_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    questions: list[PendingShape] = []
    ask = asked_pending.verdict_on

    def counting(trials: Counterfactual, shape: PendingShape) -> Any:
        questions.append(shape)
        return ask(trials, shape)

    monkeypatch.setattr(asked_pending, "verdict_on", counting)
    monkeypatch.setattr(asked_pending, "PLACED", 50)
    pods = [a_pod(f"p{i}", "10m", "1Mi", owner="ReplicaSet/a") for i in range(2000)]
    answer = asked(a_node("closed", "64", "64Gi", pods="5000", cordoned=True), *pods)
    assert len(questions) == 1
    assert answer.changes[0].shown_pods == "at least 50"
    assert len(rows(answer, "Who")) == 1


def test_a_gate_and_an_unknown_scheduler_are_reasons_that_concern_no_node() -> None:
    gated = a_pod("gated", schedulingGates=[{"name": "example.com/quota"}])
    strange = a_pod("strange", schedulerName="theirs")
    answer = asked(a_node("a"), gated, strange)
    assert [(r.plugin, r.nodes, r.pods) for r in answer.reasons] == [("SchedulingGates", 0, 1), ("-", 0, 1)]
    assert {change.change for change in answer.changes} == {
        "remove the scheduling gate example.com/quota",
        "use schedulerName default-scheduler instead of theirs",
    }


def test_a_gang_is_one_group_that_is_placed_as_a_whole() -> None:
    objects = [a_node("a", "3"), a_pod_group(min_count=4), *members(4)]
    answer = asked(*objects, gates=GROUP_GATES)
    assert [(group.owner, len(group.pods)) for group in answer.groups] == [("PodGroup default/gang", 4)]
    assert answer.changes[0].pods == 4 and [*answer.changes[0].owners] == ["PodGroup default/gang"]


def test_notebooks_get_tables_of_pods_reasons_and_changes() -> None:
    answer = mooring.load([a_node("closed", cordoned=True), a_pod("p", "1")]).explain()
    assert isinstance(answer, PendingExplanation)
    tables = answer.data_tables()
    assert [*tables] == ["pods", "reasons", "changes", "unused", "idle"]
    assert tables["pods"].rows[0][0] == "default/p"
    assert tables["changes"].rows[0][:3] == ("uncordon", "uncordon node closed", 1)
    assert tables["reasons"].rows == [("NodeUnschedulable", "node(s) were unschedulable", 1, 1, 1)]


def test_a_loaded_cluster_knows_when_it_was_read() -> None:
    loaded: LoadedCluster = load([HEADER, a_node("a")])
    assert loaded.taken_at == "2026-05-01T12:00:00Z"
    late = created(a_pod("late", "8"), "2026-05-01T12:00:09Z")
    odd = created(a_pod("odd", "9", nodeSelector={"a": "b"}), "yesterday")
    answer = explain_pending(load([HEADER, a_node("a"), late, odd]), cures=False)
    assert {group.shown_owner: group.shown_time for group in answer.groups} == {
        "Pod default/late": "0s",
        "Pod default/odd": "since yesterday",
    }


def test_a_pod_with_two_reasons_of_one_text_is_counted_once() -> None:
    """Eviction can help on the node that is full, and not on the one that is too small: two reasons with one text."""
    nodes = [a_node("full", "4"), a_node("small", "1")]
    running = a_pod("running", "4", node="full")
    answer = mooring.load([*nodes, running, a_pod("wanted", "2")]).explain().to_dict()
    assert [(each["pods"], each["nodes"], each["message"]) for each in answer["reasons"]] == [
        (1, 2, "Insufficient cpu")
    ]


def test_pods_without_a_controller_are_their_own_owners() -> None:
    pending = [a_pod(f"p{i}", "8") for i in range(3)] + [a_pod("q", "8", owner="ReplicaSet/q")]
    answer = mooring.load([a_node("a"), *pending]).explain()
    assert answer.summary()[0] == "4 of 4 pods of 4 owners are pending"
    (lower, *_) = answer.to_dict()["changes"]
    assert lower["owners"] == ["3 pods such as default/p0", "ReplicaSet default/q"]


def test_a_change_of_a_node_beside_others_is_one_of_the_cluster() -> None:
    """The search for several changes finds these; they change no pod."""
    tainted = a_node("a", taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}], cordoned=True)
    answer = mooring.load([tainted, a_pod("p", owner="ReplicaSet/p")]).explain().to_dict()
    assert [(each["kind"], each["owners"]) for each in answer["changes"]] == [
        ("uncordon+tolerate", ["ReplicaSet default/p"]),
        ("uncordon+remove-taint", []),
    ]


def test_a_pod_that_waits_for_another_pending_pod_is_counted_with_it() -> None:
    """The pod is decided first and wants to be near one that comes later: events of the queue wake it."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [a_pod("a-near", affinity=near, labels={"app": "web"}), a_pod("b-db", labels={"app": "db"})]
    answer = asked(a_node("n"), *pods)
    assert (answer.pending, answer.fitting, answer.is_settled) == (2, 2, True)
    placed = mooring.load([a_node("n"), *pods]).simulate().to_dict()["pods"]
    assert [each["node"] for each in placed] == ["n", "n"]
