"""Tables: the recorded ones of a real server, what kubectl printed of them, and the rules of each kind's cells."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import Cell, KindSpec, human_duration
from mooring.api.kinds import BY_KIND, RESOURCES
from mooring.apiserver.server.forms import table, table_of_one

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data/tables.json").read_text())
PODS = RESOURCES["", "v1", "pods"]
NODES = RESOURCES["", "v1", "nodes"]
CREATED = "2026-11-15T07:17:46Z"


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000_000


NOW = moment("2026-11-15T07:20:58Z")
"""3m12s after CREATED."""


def cells(kind: str, item: JsonObject, now_ns: int = NOW, wide: bool = False) -> list[Cell]:
    """The cells of an object that `kubectl get` shows."""
    resource = resource_of(kind)
    (row,) = table(resource, [item], now_ns)["rows"]
    return [cell for cell, column in zip(row["cells"], resource.columns, strict=True) if wide or not column.priority]


def resource_of(kind: str) -> KindSpec:
    return next(resource for resource in RESOURCES.values() if resource.kind == kind)


def an_object(name: str = "x", **content: Any) -> JsonObject:
    metadata = {"name": name, "creationTimestamp": CREATED, **content.pop("metadata", {})}
    return {"metadata": metadata, **content}


# Against the recordings


@pytest.mark.parametrize("one", ["pod", "node"])
def test_columns_and_cells_as_recorded(one: str) -> None:
    resource = {"pod": PODS, "node": NODES}[one]
    made = table(resource, RECORDED[f"{one}s"], moment(CREATED))
    keys = ("name", "type", "format", "priority")
    assert [[line[key] for key in keys] for line in made["columnDefinitions"]] == RECORDED[f"{one} columns"]
    assert [row["cells"] for row in made["rows"]] == RECORDED[f"{one} cells"]


def test_a_table_carries_the_metadata_of_the_list_and_of_each_object() -> None:
    made = table(PODS, RECORDED["pods"], NOW, {"resourceVersion": "216", "continue": "abc", "remainingItemCount": 5})
    assert (made["kind"], made["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert made["metadata"] == {"resourceVersion": "216", "continue": "abc", "remainingItemCount": 5}
    assert made["rows"][0]["object"] == RECORDED["pod row object"]


def test_priority_classes_as_kubectl_printed_them() -> None:
    now_ns = moment("2026-11-15T07:18:11Z")
    shown = [cells("PriorityClass", item, now_ns) for item in RECORDED["priorityclasses"]]
    assert shown == [
        ["high", 1000, False, "25s", "PreemptLowerPriority"],
        ["system-cluster-critical", 2000000000, False, "29s", "PreemptLowerPriority"],
        ["system-node-critical", 2000001000, False, "29s", "PreemptLowerPriority"],
    ]


def test_a_disruption_budget_as_kubectl_printed_it() -> None:
    (budget,) = RECORDED["poddisruptionbudgets"]
    assert cells("PodDisruptionBudget", budget, moment("2026-11-15T07:18:11Z")) == ["pdb", "1", "N/A", 0, "8s"]


@pytest.mark.parametrize("form", ["event", "event in its own group"])
def test_an_event_as_kubectl_printed_it(form: str) -> None:
    now_ns = moment("2026-11-15T07:18:11Z")
    assert cells("Event", RECORDED[form], now_ns) == [
        *("37m", "Warning", "FailedScheduling", "pod/big", "0/2 nodes are available")
    ]
    assert cells("Event", RECORDED[form], now_ns, wide=True)[4:] == [
        *("", "default-scheduler, default-scheduler-host", "0/2 nodes are available"),
        *("38m", 2, "big.18e824aed6f3c464"),
    ]


def test_a_recorded_pod_that_is_being_deleted() -> None:
    assert cells("Pod", RECORDED["terminating pod"], NOW)[2] == "Terminating"


# The form of a table


def test_a_row_carries_as_much_of_the_object_as_asked() -> None:
    pod = {"metadata": {"name": "p", "resourceVersion": "7"}, "spec": {}}
    assert "object" not in table(PODS, [pod], NOW, include="None")["rows"][0]
    whole = table(PODS, [pod], NOW, include="Object")["rows"][0]["object"]
    assert whole == {"kind": "Pod", "apiVersion": "v1", **pod}


def test_only_the_first_event_of_a_watch_has_a_heading() -> None:
    pod = an_object(metadata={"resourceVersion": "7"})
    first, later = table_of_one(PODS, pod, NOW), table_of_one(PODS, pod, NOW, headed=False)
    assert first["columnDefinitions"][0]["name"] == "Name"
    assert later["columnDefinitions"] is None
    assert first["rows"] == later["rows"]
    assert first["metadata"] == {"resourceVersion": "7"}


def test_an_empty_list_still_has_its_columns() -> None:
    made = table(PODS, [], NOW)
    assert (made["rows"], len(made["columnDefinitions"])) == ([], 9)


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: f"{resource.api_version} {resource.kind}")
def test_an_object_without_anything_can_be_shown(resource: KindSpec) -> None:
    """Bookmarks are such objects, and half-written manifests come near."""
    made = table_of_one(resource, {"metadata": {}}, NOW)
    assert all(isinstance(cell, str | int) for cell in made["rows"][0]["cells"])
    assert BY_KIND[resource.api_version, resource.kind] == resource


def test_an_object_that_makes_no_sense_does_not_hide_the_others() -> None:
    odd = an_object("odd", metadata={"creationTimestamp": "yesterday"}, spec={"ports": [{}], "selector": 3})
    made = table(resource_of("Service"), [odd, an_object("even")], NOW)
    assert [row["cells"][0] for row in made["rows"]] == ["odd", "even"]
    assert made["rows"][0]["cells"][4:] == ["<invalid>", "<invalid>", "<invalid>"]


def test_a_finished_pod_is_marked_so_that_clients_can_hide_it() -> None:
    row = table(PODS, [an_object(status={"phase": "Succeeded"})], NOW)["rows"][0]
    reason, message = "Succeeded", "The pod has completed successfully."
    assert row["conditions"] == [{"type": "Completed", "status": "True", "reason": reason, "message": message}]


# Durations

MINUTE, HOUR, DAY = 60, 3600, 86400
DURATIONS = {
    -2: "<invalid>",
    -1: "0s",
    0: "0s",
    5: "5s",
    119: "119s",
    120: "2m",
    192: "3m12s",
    10 * MINUTE - 1: "9m59s",
    10 * MINUTE + 1: "10m",
    3 * HOUR - 1: "179m",
    3 * HOUR: "3h",
    4 * HOUR + 5 * MINUTE: "4h5m",
    8 * HOUR + 5 * MINUTE: "8h",
    2 * DAY - 1: "47h",
    2 * DAY: "2d",
    2 * DAY + 4 * HOUR: "2d4h",
    8 * DAY + HOUR: "8d",
    730 * DAY - 1: "729d",
    730 * DAY: "2y",
    733 * DAY: "2y3d",
    8 * 365 * DAY + DAY: "8y",
}


@pytest.mark.parametrize(("seconds", "expected"), DURATIONS.items())
def test_durations(seconds: int, expected: str) -> None:
    assert human_duration(seconds) == expected


@given(st.integers(0, 20 * 365 * DAY))
def test_a_printed_duration_is_never_more_than_the_real_one_nor_much_less(seconds: int) -> None:
    units = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "y": 365 * DAY}
    printed, number = 0, ""
    for letter in human_duration(seconds):
        if letter.isdigit():
            number += letter
        else:
            printed, number = printed + int(number) * units[letter], ""
    assert printed <= seconds
    assert seconds - printed <= seconds / 8


# Pods


def a_pod(*statuses: JsonObject, spec: JsonObject | None = None, **status: Any) -> JsonObject:
    containers = [{"name": f"c{i}"} for i in range(max(len(statuses), 1))]
    named = [{"name": f"c{i}", **line} for i, line in enumerate(statuses)]
    status = {"phase": "Running", "containerStatuses": named, **status}
    return an_object(spec={"containers": containers, **(spec or {})}, status=status)


UP: JsonObject = {"ready": True, "state": {"running": {}}}
DONE: JsonObject = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
CRASHED: JsonObject = {
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"finishedAt": "2026-11-15T07:20:53Z"}},
}
IS_READY = [{"type": "Ready", "status": "True"}]
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
TWO_INITS = {"initContainers": [{"name": "i0"}, {"name": "i1"}]}
SIDECAR = {"initContainers": [{"name": "side", "restartPolicy": "Always"}]}


def deleted(pod: JsonObject) -> JsonObject:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": CREATED}}


def inits(*states: JsonObject) -> list[JsonObject]:
    return [{"name": f"i{i}", "state": state} for i, state in enumerate(states)]


ENDED: JsonObject = {"terminated": {"exitCode": 0}}
POD_ROWS: dict[str, tuple[JsonObject, list[Cell]]] = {
    "all is well": (a_pod(UP, UP), ["2/2", "Running", "0"]),
    "one of two is ready": (a_pod(UP, {"state": {"running": {}}}), ["1/2", "Running", "0"]),
    "gated": (a_pod(phase="Pending", conditions=GATED), ["0/1", "SchedulingGated", "0"]),
    "completed": (a_pod(DONE, phase="Succeeded"), ["0/1", "Completed", "0"]),
    "one completed, the other runs and is ready": (a_pod(DONE, UP, conditions=IS_READY), ["1/2", "Running", "0"]),
    "one completed, the other runs": (a_pod(DONE, UP), ["1/2", "NotReady", "0"]),
    "crashing": (a_pod(CRASHED), ["0/1", "CrashLoopBackOff", "3 (5s ago)"]),
    "killed by a signal": (a_pod({"state": {"terminated": {"signal": 9}}}), ["0/1", "Signal:9", "0"]),
    "ended without a reason": (a_pod({"state": {"terminated": {"exitCode": 2}}}), ["0/1", "ExitCode:2", "0"]),
    "evicted": (a_pod(phase="Failed", reason="Evicted"), ["0/1", "Evicted", "0"]),
    "being deleted": (deleted(a_pod(UP)), ["1/1", "Terminating", "0"]),
    "being deleted after its end": (deleted(a_pod(DONE, phase="Succeeded")), ["0/1", "Completed", "0"]),
    "being deleted on a lost node": (deleted(a_pod(reason="NodeLost")), ["0/1", "Unknown", "0"]),
    "the second init container waits": (
        a_pod(spec=TWO_INITS, phase="Pending", initContainerStatuses=inits(ENDED, {"waiting": {}})),
        ["0/1", "Init:1/2", "0"],
    ),
    "an init container cannot be pulled": (
        a_pod(spec=TWO_INITS, initContainerStatuses=inits({"waiting": {"reason": "ErrImagePull"}})),
        ["0/1", "Init:ErrImagePull", "0"],
    ),
    "an init container failed": (
        a_pod(spec=TWO_INITS, initContainerStatuses=inits({"terminated": {"exitCode": 1}})),
        ["0/1", "Init:ExitCode:1", "0"],
    ),
    "a sidecar counts": (
        a_pod(UP, spec=SIDECAR, initContainerStatuses=[{**UP, "name": "side", "started": True, "restartCount": 2}]),
        ["2/2", "Running", "2"],
    ),
}


@pytest.mark.parametrize(("pod", "expected"), POD_ROWS.values(), ids=POD_ROWS.keys())
def test_pods(pod: JsonObject, expected: list[Cell]) -> None:
    assert cells("Pod", pod) == ["x", *expected, "3m12s"]


def test_the_wide_columns_of_a_pod() -> None:
    gates = {"readinessGates": [{"conditionType": "Ready"}, {"conditionType": "lb"}], "nodeName": "n1"}
    pod = a_pod(UP, spec=gates, conditions=IS_READY, podIP="10.0.0.1", nominatedNodeName="n2")
    assert cells("Pod", pod, wide=True)[5:] == ["10.0.0.1", "n1", "n2", "1/2"]


# The other kinds


def a_workload(pod_spec: JsonObject | None = None, **content: Any) -> JsonObject:
    containers = [{"name": "c", "image": "nginx"}, {"name": "d", "image": "envoy"}]
    spec = {
        "template": {"spec": {"containers": containers, **(pod_spec or {})}},
        "selector": {"matchLabels": {"app": "web"}},
        **content.pop("spec", {}),
    }
    return an_object(spec=spec, **content)


WIDE = ["c,d", "nginx,envoy", "app=web"]
NODE = an_object(
    metadata={"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
    spec={"unschedulable": True},
    status={
        "conditions": [{"type": "Ready", "status": "False"}],
        "addresses": [{"type": "Hostname", "address": "x"}, {"type": "InternalIP", "address": "10.0.0.9"}],
        "nodeInfo": {"kubeletVersion": "v1.36.4", "osImage": "Debian", "kernelVersion": "6.1"},
    },
)
VOLUME_SPEC = {
    "capacity": {"storage": "5Gi"},
    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
    "persistentVolumeReclaimPolicy": "Retain",
    "claimRef": {"namespace": "default", "name": "data"},
    "storageClassName": "fast",
    "volumeMode": "Filesystem",
}
CLAIM_STATUS = {"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"]}
EXPRESSIONS = {
    "matchLabels": {"b": "1"},
    "matchExpressions": [
        {"key": "a", "operator": "In", "values": ["y", "x"]},
        {"key": "c", "operator": "NotIn", "values": ["z"]},
        {"key": "d", "operator": "Exists"},
        {"key": "e", "operator": "DoesNotExist"},
    ],
}
LB = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
PORTS = [{"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP"}]
STARTED = {"startTime": "2026-11-15T07:20:48Z"}
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
ALLOCATED = {"allocation": {}, "reservedFor": [{"name": "p"}]}
DEFAULT_CLASS = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}

ROWS: dict[str, tuple[str, JsonObject, list[Cell]]] = {
    "a cordoned node with roles that is not ready": (
        *("Node", NODE),
        [
            *("NotReady,SchedulingDisabled", "gpu,worker", "3m12s", "v1.36.4"),
            *("10.0.0.9", "<none>", "Debian", "6.1", "<unknown>"),
        ],
    ),
    "a namespace": ("Namespace", an_object(status={"phase": "Active"}), ["Active", "3m12s"]),
    "a deployment": (
        *("Deployment", a_workload(spec={"replicas": 3}, status={"readyReplicas": 1, "updatedReplicas": 2})),
        ["1/3", 2, 0, "3m12s", *WIDE],
    ),
    "a replica set": (
        *("ReplicaSet", a_workload(spec={"replicas": 2}, status={"replicas": 2, "readyReplicas": 1})),
        [2, 2, 1, "3m12s", *WIDE],
    ),
    "a selector with expressions": (
        *("ReplicaSet", a_workload(spec={"replicas": 0, "selector": EXPRESSIONS})),
        [0, 0, 0, "3m12s", "c,d", "nginx,envoy", "a in (x,y),b=1,c notin (z),d,!e"],
    ),
    "a replication controller": (
        *("ReplicationController", a_workload(spec={"replicas": 2, "selector": {"app": "web"}})),
        [2, 0, 0, "3m12s", *WIDE],
    ),
    "a stateful set": ("StatefulSet", a_workload(status={"readyReplicas": 1}), ["1/1", "3m12s", *WIDE[:2]]),
    "a daemon set": (
        *("DaemonSet", a_workload({"nodeSelector": {"b": "2", "a": "1"}}, status={"desiredNumberScheduled": 4})),
        [4, 0, 0, 0, 0, "a=1,b=2", "3m12s", *WIDE],
    ),
    "a job that runs": (
        *("Job", a_workload(spec={"completions": 2}, status={"succeeded": 1, **STARTED})),
        ["Running", "1/2", "10s", "3m12s", *WIDE],
    ),
    "a job that is complete": (
        *("Job", a_workload(status={**COMPLETE, **STARTED, "completionTime": "2026-11-15T07:20:51Z"})),
        ["Complete", "1/1", "3s", "3m12s", *WIDE],
    ),
    "a work queue that has not started": (
        *("Job", a_workload(spec={"parallelism": 4})),
        ["Running", "0/1 of 4", "", "3m12s", *WIDE],
    ),
    "a cron job": (
        "CronJob",
        an_object(spec={"schedule": "* * * * *", "suspend": False}, status={"lastScheduleTime": CREATED}),
        ["* * * * *", "<none>", "False", 0, "3m12s", "3m12s", "", "", "<none>"],
    ),
    "a service": (
        *("Service", an_object(spec={"clusterIP": "10.0.0.1", "ports": PORTS, "selector": {"a": "b"}})),
        ["ClusterIP", "10.0.0.1", "<none>", "80:30080/TCP,53/UDP", "3m12s", "a=b"],
    ),
    "a balanced service": (
        *("Service", an_object(spec={"type": "LoadBalancer", "externalIPs": ["5.6.7.8"]}, status=LB)),
        ["LoadBalancer", "<none>", "1.2.3.4,5.6.7.8", "<none>", "3m12s", "<none>"],
    ),
    "a service whose balancer is not there yet": (
        *("Service", an_object(spec={"type": "LoadBalancer"})),
        ["LoadBalancer", "<none>", "<pending>", "<none>", "3m12s", "<none>"],
    ),
    "a service elsewhere": (
        *("Service", an_object(spec={"type": "ExternalName", "externalName": "db.example"})),
        ["ExternalName", "<none>", "db.example", "<none>", "3m12s", "<none>"],
    ),
    "a volume": (
        *("PersistentVolume", an_object(spec=VOLUME_SPEC, status={"phase": "Bound"})),
        ["5Gi", "RWO,RWX", "Retain", "Bound", "default/data", "fast", "<unset>", "", "3m12s", "Filesystem"],
    ),
    "a bound claim": (
        *("PersistentVolumeClaim", an_object(spec={"volumeName": "pv", "storageClassName": "s"}, status=CLAIM_STATUS)),
        ["Bound", "pv", "5Gi", "RWO", "s", "<unset>", "3m12s", "<unset>"],
    ),
    "a claim that waits": (
        *("PersistentVolumeClaim", an_object(spec={"accessModes": ["ReadWriteOnce"]}, status={"phase": "Pending"})),
        ["Pending", "", "", "", "", "<unset>", "3m12s", "<unset>"],
    ),
    "a claim that is being deleted": (
        *("PersistentVolumeClaim", deleted(an_object(status={"phase": "Pending"}))),
        ["Terminating", "", "", "", "", "<unset>", "3m12s", "<unset>"],
    ),
    "a budget in percent": (
        *("PodDisruptionBudget", an_object(spec={"maxUnavailable": "50%"}, status={"disruptionsAllowed": 2})),
        ["N/A", "50%", 2, "3m12s"],
    ),
    "a lease": ("Lease", an_object(spec={"holderIdentity": "me"}), ["me", "3m12s"]),
    "a config map": ("ConfigMap", an_object(data={"a": "1"}, binaryData={"b": ""}), [2, "3m12s"]),
    "a secret": ("Secret", an_object(type="t", data={"a": ""}), ["t", 1, "3m12s"]),
    "a service account": ("ServiceAccount", an_object(), [0, "3m12s"]),
    "a claim for devices": ("ResourceClaim", an_object(), ["pending", "3m12s"]),
    "a reserved claim": ("ResourceClaim", an_object(status=ALLOCATED), ["allocated,reserved", "3m12s"]),
    "a reserved claim that is being deleted": (
        *("ResourceClaim", deleted(an_object(status=ALLOCATED))),
        ["deleted,allocated,reserved", "3m12s"],
    ),
    "a device class": ("DeviceClass", an_object(), ["3m12s"]),
    "a slice": (
        *("ResourceSlice", an_object(spec={"nodeName": "n", "driver": "d", "pool": {"name": "p"}})),
        ["n", "d", "p", "3m12s"],
    ),
    "a kind without columns of its own": ("LimitRange", an_object(), ["3m12s"]),
}


@pytest.mark.parametrize(("kind", "item", "expected"), ROWS.values(), ids=ROWS.keys())
def test_other_kinds(kind: str, item: JsonObject, expected: list[Cell]) -> None:
    assert cells(kind, item, wide=True) == ["x", *expected]


def test_the_default_storage_class_is_marked() -> None:
    item = an_object(metadata=DEFAULT_CLASS, provisioner="p", volumeBindingMode="WaitForFirstConsumer")
    expected: list[Cell] = ["x (default)", "p", "Delete", "WaitForFirstConsumer", False, "3m12s"]
    assert cells("StorageClass", item) == expected


def test_an_event_that_was_seen_once() -> None:
    about = {"kind": "Job", "name": "once"}
    event = an_object(type="Normal", reason="R", message=" done \n", involvedObject=about, eventTime=CREATED)
    assert cells("Event", event, wide=True) == [*("3m12s", "Normal", "R", "job/once", "", "", "done", "3m12s", 1, "x")]
