"""Cures of claims whose volume is of no use: the volume is gone, is elsewhere, or its claim is being deleted."""

import pytest
from cure_lists import rows_of
from random_pending import Written
from written import a_node, a_pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def a_claim(volume: str = "old", phase: str = "Bound", **metadata: str) -> Written:
    own: Written = {"name": "data", "namespace": "default", "uid": "uid-data", **metadata}
    own["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    spec: Written = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeName": volume}
    spec["resources"] = {"requests": {"storage": "5Gi"}}
    status = {"phase": phase}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": own, "spec": spec, "status": status}


def a_volume(key: str = "", value: str = "", labels: dict[str, str] | None = None) -> Written:
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": "uid-data"}
    spec: Written = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": reference}
    if key:
        line = {"key": key, "operator": "In", "values": [value]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    metadata = {"name": "old", "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def using_data(cpu: str = "1") -> Written:
    return a_pod("wanted", cpu, volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])


AGAIN = "create the PersistentVolumeClaim default/data (5Gi, class fast) again, with "
WITHOUT_DATA = f"{AGAIN}another volume without the data of old"
USELESS: dict[str, tuple[list[Written], str, int]] = {
    "a volume that is gone": ([a_claim(phase="Lost")], f"{AGAIN}a volume", 45),
    "a claim that is deleted": (
        [a_claim(deletionTimestamp="2026-01-01T00:00:00Z"), a_volume()],
        WITHOUT_DATA,
        75,
    ),
    "a volume of another zone": ([a_claim(), a_volume(ZONE, "far")], WITHOUT_DATA, 75),
    "a volume with the label of another zone": ([a_claim(), a_volume(labels={ZONE: "far"})], WITHOUT_DATA, 75),
    "a disk of a node that is gone": ([a_claim(), a_volume(HOSTNAME, "gone")], WITHOUT_DATA, 75),
}


@pytest.mark.parametrize(("storage", "change", "cost"), USELESS.values(), ids=USELESS.keys())
def test_a_claim_whose_volume_is_of_no_use_is_created_again(storage: list[Written], change: str, cost: int) -> None:
    rows = rows_of(a_node("a", zone="near"), *storage, using_data())
    assert [row for row in rows if "volume" in row[0]] == [("replace-volume", change, "a", cost)]


def test_a_volume_that_the_node_can_use_is_left_alone() -> None:
    rows = rows_of(a_node("a", "1", zone="near"), a_claim(), a_volume(ZONE, "near"), using_data("2"))
    assert [row for row in rows if "volume" in row[0]] == []


def test_a_volume_is_replaced_only_for_the_node_that_cannot_use_it() -> None:
    """The node of the volume is too small for the pod, the other one cannot use the volume."""
    nodes = [a_node("small", "1", zone="near"), a_node("large", "4", zone="far")]
    rows = rows_of(*nodes, a_claim(), a_volume(ZONE, "near"), using_data("2"))
    assert [(row[1], row[2]) for row in rows if row[0] in ("replace-volume", "lower-request")] == [
        ("lower the cpu request of container main from 2 to 1", "small"),
        (WITHOUT_DATA, "large"),
    ]
