"""Workloads without pods: what their controllers say, and what is missing where they say nothing."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from written import Written, a_node, a_pod

from mooring.answers.explain.explain import explain_named
from mooring.answers.explain.explanation import WorkloadExplanation
from mooring.answers.pending.asked_pending import explain_pending
from mooring.framework.config.settings import API_VERSION
from mooring.inputs.loaded_cluster import load

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/explain.v1.json").read_text())
HEADER = {"apiVersion": API_VERSION, "kind": "ClusterDump", "hasAllPods": True, "takenAt": "2026-05-01T12:00:00Z"}
QUOTA = 'pods "web-1-abc" is forbidden: exceeded quota: small, requested: cpu=1, used: cpu=4, limited: cpu=4'
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


def a_workload(kind: str, name: str, owner: str = "", status: Written | None = None, **spec: Any) -> Written:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    metadata: Written = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": owner.split("/")[0], "name": owner.split("/")[1], "controller": True}
        ]
    if kind == "Job":
        template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
        return _object(version, kind, metadata, {"template": template, **spec}, status)
    own = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, **TEMPLATE}}
    return _object(version, kind, metadata, {**own, **spec}, status)


def _object(version: str, kind: str, metadata: Written, spec: Written, status: Written | None) -> Written:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": status or {}}


def an_event(kind: str, name: str, message: str = QUOTA, at: str = "2026-05-01T11:00:00Z", uid: str = "") -> Written:
    about = {"kind": kind, "namespace": "shop", "name": name, "uid": uid or f"uid-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{at}", "namespace": "shop"},
        "involvedObject": about,
        "type": "Warning",
        "reason": "FailedCreate",
        "message": message,
        "count": 14,
        "lastTimestamp": at,
    }


def told(name: str, *objects: Written) -> WorkloadExplanation:
    answer = explain_named(load([HEADER, a_node("n"), *objects]), name, "shop")
    jsonschema.validate(answer.to_dict(), SCHEMA)
    assert isinstance(answer, WorkloadExplanation)
    return answer


DEPLOYMENT = [
    a_workload("Deployment", "web", replicas=3),
    a_workload("ReplicaSet", "web-1", "Deployment/web", replicas=3),
]
FAILURE = {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": QUOTA}]}

SAID = {
    "an event about its ReplicaSet": ("deployment/web", [*DEPLOYMENT, an_event("ReplicaSet", "web-1")]),
    "a condition of it": ("deployment/web", [a_workload("Deployment", "web", status=FAILURE, replicas=3)]),
    "an event about a StatefulSet": (
        "statefulset/db",
        [a_workload("StatefulSet", "db", replicas=3), an_event("StatefulSet", "db")],
    ),
    "an event about a ReplicaSet itself": ("replicaset/web-1", [*DEPLOYMENT, an_event("ReplicaSet", "web-1")]),
    "an event about a Job": ("job/j", [a_workload("Job", "j", parallelism=3), an_event("Job", "j")]),
}


@pytest.mark.parametrize("name", SAID)
def test_a_workload_without_pods_says_what_its_controller_says(name: str) -> None:
    asked, objects = SAID[name]
    answer = told(asked, *objects)
    kind, _, own = asked.partition("/")
    assert answer.workload.lower() == f"{kind} {own}"
    assert answer.summary()[0].endswith(": 0 pods on nodes, 0 pending")
    assert answer.summary()[1] == f"It should have 3 pods, and its controller could not create them: {QUOTA}"
    assert [row[1:] for row in answer.tables()[0].rows] == [("FailedCreate", QUOTA)]
    assert (answer.wanted, answer.exit_status) == (3, 1)


def test_a_daemon_set_has_as_many_pods_as_its_nodes_say() -> None:
    answer = told("daemonset/d", a_workload("DaemonSet", "d"), an_event("DaemonSet", "d", "denied by a webhook"))
    assert answer.summary()[1] == "It should have pods, and its controller could not create them: denied by a webhook"


def test_a_workload_that_lacks_some_of_its_pods_says_why() -> None:
    pod = a_pod("web-1-a", node="n", owner="ReplicaSet/web-1")
    pod["metadata"]["namespace"] = "shop"
    answer = told("deployment/web", *DEPLOYMENT, pod, an_event("ReplicaSet", "web-1"))
    assert answer.summary() == [
        "Deployment web: 1 pod on nodes, 0 pending",
        f"It should have 3 pods, and its controller could not create the others: {QUOTA}",
    ]
    full = told("deployment/web", a_workload("Deployment", "web", replicas=1), *DEPLOYMENT[1:], pod)
    assert (full.summary(), full.exit_status) == (["Deployment web: 1 pod on nodes, 0 pending"], 0)


def test_a_dump_without_messages_still_says_that_the_controller_failed() -> None:
    """As in an anonymous dump."""
    answer = told("deployment/web", *DEPLOYMENT, an_event("ReplicaSet", "web-1", message=""))
    assert answer.summary()[1] == (
        "It should have 3 pods, and its controller could not create them: FailedCreate; the input has no message"
    )


NOTHING = {
    "replicas of 0": ("deployment/web", a_workload("Deployment", "web", replicas=0), "spec.replicas is 0"),
    "a suspended Job": ("job/j", a_workload("Job", "j", suspend=True), "spec.suspend is true"),
    "a finished Job": (
        "job/j",
        a_workload("Job", "j", status={"conditions": [{"type": "Complete", "status": "True"}]}),
        "it has finished",
    ),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_workload_that_wants_no_pods_is_no_failure(name: str) -> None:
    asked, workload, why = NOTHING[name]
    answer = told(asked, workload)
    assert (answer.summary()[1], answer.exit_status) == (f"It wants no pods: {why}", 0)


def test_what_is_missing_is_said_where_nothing_says_why() -> None:
    unsaid = "It should have 3 pods, and nothing says why there are none: the input has"
    assert told("deployment/web", DEPLOYMENT[0]).summary()[1] == (
        f"{unsaid} no FailedCreate event about it or its ReplicaSets, no condition of it and none of its ReplicaSets; "
        "try kubectl describe replicasets -n shop"
    )
    assert told("deployment/web", *DEPLOYMENT).summary()[1] == (
        f"{unsaid} no FailedCreate event about it or its ReplicaSets and no condition of it; "
        "try kubectl describe replicasets -n shop"
    )
    assert told("statefulset/db", a_workload("StatefulSet", "db", replicas=3)).summary()[1] == (
        f"{unsaid} no FailedCreate event about it and no condition of it; try kubectl describe statefulset db -n shop"
    )
    deleted = an_event("StatefulSet", "db", uid="of-an-older-one")
    assert (
        "nothing says why" in told("statefulset/db", a_workload("StatefulSet", "db", replicas=3), deleted).summary()[1]
    )


def test_what_is_pending_includes_pods_that_controllers_could_not_create() -> None:
    older = an_event("ReplicaSet", "web-1", "an older message", "2026-05-01T10:00:00Z")
    loaded = load([HEADER, a_node("n"), *DEPLOYMENT, older, an_event("ReplicaSet", "web-1")])
    answer = explain_pending(loaded)
    assert answer.summary() == [
        "No pod is pending, of 0 pods",
        "1 workload lacks pods that a controller could not create",
    ]
    table = next(table for table in answer.tables() if table.rows)
    assert table.title == "Pods that controllers could not create"
    assert table.rows == [("Deployment shop/web", 3, 0, "2026-05-01T11:00:00Z", "FailedCreate", QUOTA)]
    assert answer.exit_status == 1
    assert explain_pending(loaded, "other").missing == []
