"""Requests far above use: which workloads are named, in which order, and in which words."""

from typing import Any

from mooring.answers.explain.unused_capacity import UnusedRequest, unused_notes, unused_requests, unused_table
from mooring.inputs.loaded_cluster import load
from mooring.inputs.real_use import InUse

GI = 1 << 30


def a_written_pod(name: str, owner: str, cpu: str, memory: str, node: str = "n1") -> dict[str, Any]:
    references = [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner, "uid": owner, "controller": True}]
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", **({"ownerReferences": references} if owner else {})},
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}},
}
PODS = [
    a_written_pod("db-0", "db", "4", "8Gi"),
    a_written_pod("db-1", "db", "4", "8Gi"),
    a_written_pod("web-0", "web", "2", "1Gi"),
    a_written_pod("alone", "", "1", "1Gi"),
    a_written_pod("tiny", "", "400m", "100Mi"),
    a_written_pod("unknown-0", "unknown", "16", "64Gi"),
    a_written_pod("db-2", "db", "4", "8Gi", node=""),
]
USE = {
    "shop/db-0": InUse(500, 1 * GI),
    "shop/db-1": InUse(900, 2 * GI),
    "shop/web-0": InUse(700, 900 << 20),
    "shop/alone": InUse(0, 1 * GI),
    "shop/tiny": InUse(0, 0),
    "shop/db-2": InUse(0, 0),
    "shop/gone": InUse(9, 9),
}


def test_workloads_that_request_three_times_what_they_use_are_named_the_largest_part_first() -> None:
    """Counted by hand. web uses more than a third of its cpu, tiny has too little to give, unknown-0 was not measured, and
    db-2 has no node. 13 Gi of the 18.1 Gi that measured pods request are a larger part than 6,600 milli of 11,400."""
    loaded = load([NODE, *PODS])
    found = unused_requests(loaded, USE)
    assert found == [
        UnusedRequest("StatefulSet shop/db", 2, "memory", 16 * GI, 3 * GI, 2 * GI),
        UnusedRequest("StatefulSet shop/db", 2, "cpu", 8000, 1400, 900),
        UnusedRequest("Pod shop/alone", 1, "cpu", 1000, 0, 0),
    ]
    assert found[1].sentence() == ("StatefulSet shop/db requests 8 cpu for 2 pods and uses 1400m (at most 900m a pod)")
    assert unused_table(found).rows[0] == ("StatefulSet shop/db", 2, "memory", "16Gi", "3Gi", "2Gi")


def test_an_explanation_of_a_pod_names_its_own_workload_first() -> None:
    loaded = load([NODE, *PODS])
    notes = unused_notes(loaded, USE, loaded.pod("alone"))
    assert notes[0] == "A request far above use: Pod shop/alone requests 1 cpu for 1 pod and uses 0 (at most 0 a pod)"
    assert [note.split(" requests")[0].rpartition(": ")[2] for note in notes[1:]] == ["StatefulSet shop/db"] * 2


def test_without_measured_pods_nothing_is_named() -> None:
    assert unused_requests(load([NODE, *PODS]), {}) == []
