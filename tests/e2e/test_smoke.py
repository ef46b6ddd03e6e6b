"""The twelve smoke checks of an embedded server, over real TLS: a client does what kube-scheduler and kubectl do."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from asking import TABLE
from running_cluster import Client, Neighbour, Process, Stream, a_neighbour, a_process

STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
FOREIGN = "somebody-else"
"""A scheduler that this cluster leaves pods to."""

LISTED = [
    *(f"/api/v1/{plural}" for plural in ("nodes", "namespaces", "services", "replicationcontrollers")),
    *(f"/api/v1/{plural}" for plural in ("persistentvolumes", "persistentvolumeclaims")),
    *(f"/apis/apps/v1/{plural}" for plural in ("replicasets", "statefulsets")),
    "/apis/policy/v1/poddisruptionbudgets",
    *(f"/apis/storage.k8s.io/v1/{plural}" for plural in ("storageclasses", "csinodes", "csidrivers")),
    *(f"/apis/storage.k8s.io/v1/{plural}" for plural in ("csistoragecapacities", "volumeattachments")),
    *(f"/apis/resource.k8s.io/v1/{plural}" for plural in ("resourceclaims", "resourceslices", "deviceclasses")),
]
UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
PATHS: list[tuple[str, dict[str, str]]] = [("/api/v1/pods", UNFINISHED), *((path, {}) for path in LISTED)]
STREAMING = {
    "allowWatchBookmarks": "true",
    "resourceVersionMatch": "NotOlderThan",
    "sendInitialEvents": "true",
    "timeout": "5m4s",
    "timeoutSeconds": "304",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Neighbour]:
    with a_neighbour(nodes=2) as running:
        yield running


@pytest.fixture
def namespace(cluster: Neighbour, request: pytest.FixtureRequest) -> str:
    """One of its own for each test; its path."""
    name = "t-" + "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_").lower())[
        :50
    ].strip("-")
    assert cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).code == 201
    return f"/api/v1/namespaces/{name}"


def a_pod(name: str, cpu: str = "100m", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def condition(pod: dict[str, Any], type: str = "PodScheduled") -> dict[str, Any]:
    conditions = pod.get("status", {}).get("conditions", ())
    found: dict[str, Any] = next((c for c in conditions if c["type"] == type), {})
    return found


def is_waiting(pod: dict[str, Any]) -> bool:
    return condition(pod).get("status") == "False"


def is_bound(pod: dict[str, Any]) -> bool:
    return "nodeName" in pod["spec"]


# ---- 1: what the reference scheduler does from its start to its end


def test_1_a_scheduler_starts(cluster: Neighbour) -> None:
    """Its first calls: a ConfigMap that need not be there, and one discovery document."""
    found = cluster.ask("GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
    assert (found.code, found.body["reason"]) == (404, "NotFound")
    events = cluster.ask("GET", "/apis/events.k8s.io/v1").body
    assert events["kind"] == "APIResourceList"
    assert "events" in [resource["name"] for resource in events["resources"]]


def test_1_all_lists_are_streamed(cluster: Neighbour) -> None:
    for path, query in PATHS:
        with cluster.watch(path, **STREAMING, **query) as stream:
            events = stream.until(lambda event: event["type"] == "BOOKMARK")
            end = events[-1]["object"]["metadata"]
            assert end["annotations"] == {"k8s.io/initial-events-end": "true"}
            assert {event["type"] for event in events[:-1]} <= {"ADDED"}
            listed = cluster.ask("GET", path, **query).body["items"]
            assert [e["object"]["metadata"]["uid"] for e in events[:-1]] == [item["metadata"]["uid"] for item in listed]


def test_1_all_lists_can_be_had_the_older_way(cluster: Neighbour) -> None:
    for path, query in PATHS:
        listed = cluster.ask("GET", path, limit=500, resourceVersion="0", **query)
        assert (listed.code, listed.body["metadata"].get("continue")) == (200, None)
        follow = {"allowWatchBookmarks": "true", "resourceVersion": listed.body["metadata"]["resourceVersion"]}
        with cluster.watch(path, **follow, timeoutSeconds=400, **query) as stream:
            assert stream.response.status == 200


def test_1_a_scheduler_binds_and_reports(cluster: Neighbour, namespace: str) -> None:
    """A foreign scheduler at work: every body is as kube-scheduler sends it."""
    name = namespace.rpartition("/")[2]
    pod = cluster.ask("POST", f"{namespace}/pods", a_pod("p", schedulerName=FOREIGN)).body
    failed = {
        "lastProbeTime": None,
        "lastTransitionTime": "2026-11-15T06:39:10Z",
        "message": "0/2 nodes are available: 2 Insufficient cpu.",
        "observedGeneration": 1,
        "reason": "Unschedulable",
        "status": "False",
        "type": "PodScheduled",
    }
    first = cluster.ask("PATCH", f"{namespace}/pods/p/status", {"status": {"conditions": [failed]}}, STRATEGIC)
    assert condition(first.body) == failed
    binding = {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": name, "uid": pod["metadata"]["uid"]},
        "target": {"kind": "Node", "name": "node-0001"},
    }
    bound = cluster.ask("POST", f"{namespace}/pods/p/binding", binding)
    assert (bound.code, bound.body["status"]) == (201, "Success")
    event = an_event(name, pod["metadata"]["uid"])
    assert cluster.ask("POST", f"/apis/events.k8s.io/v1/namespaces/{name}/events", event).code == 201
    seen = cluster.ask("GET", f"{namespace}/pods/p").body
    assert seen["spec"]["nodeName"] == "node-0001"
    assert condition(seen).keys() == {"lastProbeTime", "lastTransitionTime", "status", "type"}


def an_event(namespace: str, uid: str, reason: str = "Scheduled") -> dict[str, Any]:
    return {
        "metadata": {"name": "p.18e824aed6f3c464", "namespace": namespace},
        "eventTime": "2026-11-15T06:39:44.856348Z",
        "reportingController": FOREIGN,
        "reportingInstance": f"{FOREIGN}-host",
        "action": "Binding",
        "reason": reason,
        "regarding": {
            "kind": "Pod",
            "namespace": namespace,
            "name": "p",
            "uid": uid,
            "apiVersion": "v1",
            "resourceVersion": "286",
        },
        "note": f"Successfully assigned {namespace}/p to node-0001",
        "type": "Normal",
    }


# ---- 2 to 7: pods


def test_2_a_pod_is_scheduled_and_shown(cluster: Neighbour, namespace: str) -> None:
    assert cluster.ask("POST", f"{namespace}/pods", a_pod("p")).code == 201
    pod = cluster.wait(f"{namespace}/pods/p", lambda pod: pod["status"]["phase"] == "Running")
    assert (condition(pod)["status"], "reason" in condition(pod)) == ("True", False)
    events = cluster.ask("GET", f"{namespace}/events", fieldSelector="reason=Scheduled").body["items"]
    name = namespace.rpartition("/")[2]
    assert [event["message"] for event in events] == [f"Successfully assigned {name}/p to {pod['spec']['nodeName']}"]
    table = cluster.ask("GET", f"{namespace}/pods", headers={"Accept": TABLE}, limit=500).body
    columns = [column["name"] for column in table["columnDefinitions"]]
    cells = dict(zip(columns, table["rows"][0]["cells"], strict=True))
    assert (cells["Name"], cells["Ready"], cells["Status"]) == ("p", "1/1", "Running")
    assert cells["Node"] == pod["spec"]["nodeName"]


def test_3_of_two_schedulers_one_binds(cluster: Neighbour, namespace: str) -> None:
    cluster.ask("POST", f"{namespace}/pods", a_pod("p", schedulerName=FOREIGN))
    codes: list[int] = []
    ready = threading.Barrier(8)

    def bind(number: int) -> None:
        target = {"kind": "Node", "name": f"node-000{number % 2 + 1}"}
        ready.wait()
        reply = cluster.ask("POST", f"{namespace}/pods/p/binding", {"metadata": {"name": "p"}, "target": target})
        codes.append(reply.code)

    threads = [threading.Thread(target=bind, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [201, *[409] * 7]


def test_4_a_pod_that_fits_nowhere_says_so(cluster: Neighbour, namespace: str) -> None:
    cluster.ask("POST", f"{namespace}/pods", a_pod("p", cpu="1000"))
    pod = cluster.wait(f"{namespace}/pods/p", is_waiting)
    found = condition(pod)
    assert (found["reason"], found["observedGeneration"]) == ("Unschedulable", 1)
    assert found["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_4_a_patch_of_the_message_keeps_the_time(cluster: Neighbour, namespace: str) -> None:
    cluster.ask("POST", f"{namespace}/pods", a_pod("p", schedulerName=FOREIGN))
    written = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no",
        "observedGeneration": 1,
    }
    written |= {"lastProbeTime": None, "lastTransitionTime": "2026-11-15T06:39:10Z"}
    cluster.ask("PATCH", f"{namespace}/pods/p/status", {"status": {"conditions": [written]}}, STRATEGIC)
    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{"message": "still no", "type": "PodScheduled"}],
        }
    }
    pod = cluster.ask("PATCH", f"{namespace}/pods/p/status", patch, STRATEGIC).body
    assert pod["status"]["conditions"] == [{**written, "message": "still no"}]
    assert pod["metadata"]["generation"] == 1


def test_5_a_gated_pod_waits_for_its_gate(cluster: Neighbour, namespace: str) -> None:
    made = cluster.ask("POST", f"{namespace}/pods", a_pod("p", schedulingGates=[{"name": "example.com/g"}])).body
    assert (condition(made)["reason"], condition(made)["status"]) == ("SchedulingGated", "False")
    assert condition(made)["message"] == "Scheduling is blocked due to non-empty scheduling gates"
    version = made["metadata"]["resourceVersion"]
    with cluster.watch(f"{namespace}/pods", resourceVersion=version) as stream:
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "example.com/g"}]}}
        opened = cluster.ask("PATCH", f"{namespace}/pods/p", patch, STRATEGIC)
        assert (opened.code, opened.body["metadata"]["generation"]) == (200, 2)
        first = stream.next()
    assert first and (first["type"], first["object"]["metadata"]["generation"]) == ("MODIFIED", 2)
    cluster.wait(f"{namespace}/pods/p", is_bound)


@pytest.mark.slow
def test_6_preemption() -> None:
    """A node that is full, and one who is more important."""
    with a_neighbour(nodes=1) as cluster:
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        cluster.ask("POST", classes, {"metadata": {"name": "important"}, "value": 1000})
        pods = "/api/v1/namespaces/default/pods"
        cluster.ask("POST", pods, a_pod("victim", "6", terminationGracePeriodSeconds=1))
        cluster.wait(f"{pods}/victim", lambda pod: pod["status"]["phase"] == "Running")
        version = cluster.ask("GET", pods).body["metadata"]["resourceVersion"]
        with cluster.watch(pods, resourceVersion=version) as stream:
            cluster.ask("POST", pods, a_pod("preemptor", "6", priorityClassName="important"))
            events = stream.until(lambda event: told(event)[1] == "preemptor" and is_bound(event["object"]))
        victims = [event for event in events if told(event)[1] == "victim"]
        check_victim(victims)
        nominated = [e for e in events if e["object"]["status"].get("nominatedNodeName") == "node-0001"]
        assert {told(event)[1] for event in nominated} == {"preemptor"}
        places = [events.index(nominated[0]), events.index(victims[-1]), len(events) - 1]
        assert places == sorted(places), "nominated, then the victim goes, then bound"
        bound = events[-1]["object"]
        assert (bound["spec"]["nodeName"], "nominatedNodeName" in bound["status"]) == ("node-0001", False)


def told(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


def check_victim(events: list[dict[str, Any]]) -> None:
    """First the reason, then the deletion with its grace, then the end."""
    reasons = [condition(event["object"], "DisruptionTarget").get("reason") for event in events]
    assert reasons[0] == "PreemptionByScheduler"
    assert condition(events[0]["object"], "DisruptionTarget")["message"] == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )
    assert "deletionTimestamp" not in events[0]["object"]["metadata"]
    assert events[1]["object"]["metadata"]["deletionGracePeriodSeconds"] == 1
    assert {event["type"] for event in events[:-1]} == {"MODIFIED"}
    assert events[-1]["type"] == "DELETED"


def test_7_a_pod_that_finishes(cluster: Neighbour, namespace: str) -> None:
    body = a_pod("p", restartPolicy="Never")
    body["metadata"]["annotations"] = {"mooring.dev/run-seconds": "0"}
    version = cluster.ask("GET", "/api/v1/pods").body["metadata"]["resourceVersion"]
    with (
        cluster.watch(f"{namespace}/pods", resourceVersion=version, **UNFINISHED) as unfinished,
        cluster.watch(f"{namespace}/pods", resourceVersion=version) as every,
    ):
        cluster.ask("POST", f"{namespace}/pods", body)
        gone = unfinished.until(lambda event: event["type"] == "DELETED")[-1]["object"]
        last = every.until(lambda event: event["object"]["status"]["phase"] == "Succeeded")[-1]
    assert gone["status"]["phase"] != "Succeeded"
    assert last["type"] == "MODIFIED"
    assert gone["metadata"]["resourceVersion"] == last["object"]["metadata"]["resourceVersion"]


# ---- 8: watches


@pytest.mark.slow
def test_8_versions_from_before_a_restart_are_too_old(tmp_path: Any) -> None:
    with a_process("--nodes", "1", "--data-dir", str(tmp_path)) as cluster:
        version = cluster.ask("GET", "/api/v1/nodes").body["metadata"]["resourceVersion"]
        uid = cluster.ask("GET", "/api/v1/nodes/node-0001").body["metadata"]["uid"]
        cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
        token = cluster.token
        cluster.kill()
    with a_process("--data-dir", str(tmp_path)) as cluster:
        assert cluster.ask("GET", "/api/v1/namespaces/kept").code == 200, "it was answered, so it is there"
        assert cluster.ask("GET", "/api/v1/nodes/node-0001").body["metadata"]["uid"] == uid
        assert cluster.token == token, "a kubeconfig stays good"
        with cluster.watch("/api/v1/nodes", resourceVersion=version) as stream:
            check_too_old(stream, version)
        assert cluster.stop() == 0


def check_too_old(stream: Stream, version: str) -> None:
    (event,) = stream.rest()
    status = event["object"]
    assert (event["type"], status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {version} (")


def test_8_a_timeout_ends_a_watch_cleanly(cluster: Neighbour) -> None:
    with cluster.watch("/api/v1/nodes", timeoutSeconds=1) as stream:
        assert {event["type"] for event in stream.rest()} <= {"ADDED", "MODIFIED"}


# ---- 9: kubectl


def test_9_apply_and_delete_as_kubectl_does(cluster: Neighbour, namespace: str) -> None:
    assert cluster.ask("GET", "/openapi/v3").body["paths"]["api/v1"]["serverRelativeURL"]
    maps = f"{namespace}/configmaps"
    written: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    note = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(written)}
    assert cluster.ask("GET", f"{maps}/c").code == 404
    strict = {"fieldManager": "kubectl-client-side-apply", "fieldValidation": "Strict"}
    made = cluster.ask("POST", maps, {**written, "metadata": {"name": "c", "annotations": note}}, **strict)
    assert made.code == 201
    patched = cluster.ask("PATCH", f"{maps}/c", {"data": {"a": "2"}}, STRATEGIC, **strict).body
    assert (patched["data"], patched["metadata"]["annotations"]) == ({"a": "2"}, note)
    applied = cluster.ask("PATCH", f"{maps}/c", {**written, "data": {"b": "3"}}, APPLY, fieldManager="kubectl").body
    assert applied["data"] == {"a": "2", "b": "3"}
    gone = cluster.ask("DELETE", f"{maps}/c", {"propagationPolicy": "Background"})
    assert (gone.code, gone.body["status"]) == (200, "Success")
    assert cluster.ask("GET", maps, fieldSelector="metadata.name=c", limit=500, resourceVersion="0").body["items"] == []


def test_9_unknown_fields(cluster: Neighbour, namespace: str) -> None:
    body = a_pod("p", foo="bar")
    strict = cluster.ask("POST", f"{namespace}/pods", body, fieldValidation="Strict")
    assert (strict.code, strict.body["message"]) == (
        400,
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"',
    )
    warned = cluster.ask("POST", f"{namespace}/pods", body, fieldValidation="Warn")
    assert (warned.code, warned.headers["Warning"]) == (201, '299 - "unknown field \\"spec.foo\\""')
    assert "foo" not in warned.body["spec"]


def test_9_describe_and_wait_as_kubectl_does(cluster: Neighbour, namespace: str) -> None:
    uid = cluster.ask("POST", f"{namespace}/pods", a_pod("p")).body["metadata"]["uid"]
    only = {"fieldSelector": "metadata.name=p"}
    listed = cluster.ask("GET", f"{namespace}/pods", limit=500, resourceVersion="0", **only).body["metadata"]
    follow = {"resourceVersion": listed["resourceVersion"], "allowWatchBookmarks": "true", **only}
    pod = cluster.ask("GET", f"{namespace}/pods/p").body
    if not is_bound(pod):
        with cluster.watch(f"{namespace}/pods", **follow) as stream:
            stream.until(lambda event: condition(event["object"]).get("status") == "True")
    name = namespace.rpartition("/")[2]
    about = f"involvedObject.name=p,involvedObject.namespace={name},involvedObject.uid={uid}"
    cluster.wait(f"{namespace}/pods/p", lambda pod: pod["status"]["phase"] == "Running")
    events = cluster.ask("GET", f"{namespace}/events", fieldSelector=about, limit=500).body["items"]
    assert "Scheduled" in [event["reason"] for event in events]
    node = cluster.ask("GET", f"{namespace}/pods/p").body["spec"]["nodeName"]
    on_node = {"fieldSelector": f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed", "limit": "500"}
    assert uid in [pod["metadata"]["uid"] for pod in cluster.ask("GET", "/api/v1/pods", **on_node).body["items"]]


# ---- 10 to 12


def test_10_a_lease_has_one_holder(cluster: Neighbour, namespace: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace.rpartition('/')[2]}/leases"
    spec = {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-15T06:39:10.000001Z",
        "renewTime": "2026-11-15T06:39:10.000001Z",
        "leaseTransitions": 0,
    }
    lease = cluster.ask("POST", leases, {"metadata": {"name": "kube-scheduler"}, "spec": spec}).body
    assert lease["spec"] == spec
    renewed = {**lease, "spec": {**spec, "renewTime": "2026-11-15T06:39:12.000001Z"}}
    assert cluster.ask("PUT", f"{leases}/kube-scheduler", renewed).code == 200
    stolen = {**lease, "spec": {**spec, "holderIdentity": "you"}}
    assert cluster.ask("PUT", f"{leases}/kube-scheduler", stolen).code == 409
    latest = cluster.ask("GET", f"{leases}/kube-scheduler").body
    released = {**latest, "spec": {**latest["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
    assert cluster.ask("PUT", f"{leases}/kube-scheduler", released).body["spec"]["holderIdentity"] == ""


def test_11_an_event_and_its_series(cluster: Neighbour, namespace: str) -> None:
    name = namespace.rpartition("/")[2]
    events = f"/apis/events.k8s.io/v1/namespaces/{name}/events"
    event = an_event(name, "some-uid")
    assert cluster.ask("POST", events, event).code == 201
    series = {"count": 2, "lastObservedTime": "2026-11-15T06:40:44.856348Z"}
    path = f"{events}/{event['metadata']['name']}"
    assert cluster.ask("PATCH", path, {"series": series}, STRATEGIC).body["series"] == series
    (core,) = cluster.ask("GET", f"{namespace}/events", fieldSelector="involvedObject.uid=some-uid").body["items"]
    assert (core["message"], core["involvedObject"]) == (event["note"], event["regarding"])
    assert (core["reportingComponent"], core["series"], "count" in core) == (FOREIGN, series, False)
    assert cluster.ask("PATCH", f"{events}/none", {"series": series}, STRATEGIC).code == 404


def test_12_admission(cluster: Neighbour, namespace: str) -> None:
    pod = a_pod("limited", schedulerName=FOREIGN)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    resources = cluster.ask("POST", f"{namespace}/pods", pod).body["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"]
    refused = cluster.ask("POST", f"{namespace}/pods", a_pod("b7", priorityClassName="nope"))
    assert (refused.code, refused.body["message"]) == (
        403,
        'pods "b7" is forbidden: no PriorityClass with name nope was found',
    )
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert cluster.ask("POST", classes, {"metadata": {"name": "one"}, "value": 1, "globalDefault": True}).code == 201
    second = cluster.ask("POST", classes, {"metadata": {"name": "two"}, "value": 2, "globalDefault": True})
    assert second.code == 403
    assert "is already marked as default. Only one default can exist" in second.body["message"]
    assert cluster.ask("DELETE", f"{classes}/one").code == 200


@pytest.mark.slow
def test_the_command_stops_when_it_is_told_to() -> None:
    with a_process("--nodes", "1", "--plain-http") as cluster:
        assert isinstance(cluster, Process)
        assert isinstance(cluster, Client)
        assert cluster.server.startswith("http://127.0.0.1:")
        assert cluster.ask("GET", "/api/v1/nodes").code == 200
        with cluster.watch("/api/v1/nodes") as stream:
            assert stream.next()
            assert cluster.stop() == 0
