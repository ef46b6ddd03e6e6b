"""Claims find or get their volumes, and both go when they should."""

from typing import Any

import pytest

from living_cluster import LivingCluster

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def cluster() -> LivingCluster:
    return LivingCluster()


def a_volume(cluster: LivingCluster, name: str, size: str = "10Gi", labels: Any = None, **spec: Any) -> None:
    given = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    cluster.create("persistentvolumes", name, {"metadata": {"labels": labels or {}}, "spec": given})


def a_claim(
    cluster: LivingCluster, name: str = "claim", size: str = "5Gi", annotations: Any = None, **spec: Any
) -> None:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    cluster.create("persistentvolumeclaims", name, {"metadata": {"annotations": annotations or {}}, "spec": asked})
    cluster.wait(1)


def a_class(cluster: LivingCluster, name: str = "fast", **fields: Any) -> None:
    cluster.create("storageclasses", name, {"provisioner": "example.com/disk", **fields})


def volume_of(cluster: LivingCluster, claim: str = "claim") -> str:
    """The volume of a claim that is bound for good; empty: it is not bound."""
    found = cluster.get("persistentvolumeclaims", claim)
    name: str = found["spec"].get("volumeName", "")
    if found["status"]["phase"] != "Bound":
        return ""
    assert found["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    volume = cluster.get("persistentvolumes", name)
    assert volume["status"]["phase"] == "Bound"
    assert volume["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
    assert found["status"]["capacity"] == volume["spec"]["capacity"]
    return name


def test_a_new_volume_is_available(cluster: LivingCluster) -> None:
    a_volume(cluster, "disk")
    assert cluster.status("persistentvolumes", "disk")["phase"] == "Available"


MISFITS = {
    "too small": {"size": "1Gi"},
    "of another class": {"storageClassName": "other"},
    "with other access modes": {"accessModes": ["ReadOnlyMany"]},
    "of another mode": {"volumeMode": "Block"},
    "promised to another claim": {"claimRef": {"namespace": "default", "name": "another"}},
    "left by a claim of the same name": {"claimRef": {"namespace": "default", "name": "claim", "uid": "gone"}},
}


@pytest.mark.parametrize("misfit", MISFITS.values(), ids=MISFITS.keys())
def test_a_claim_takes_the_smallest_volume_that_fits(cluster: LivingCluster, misfit: dict[str, Any]) -> None:
    a_volume(cluster, "a-misfit", **{"size": "6Gi", **misfit})
    a_volume(cluster, "b-large", "20Gi")
    a_volume(cluster, "c-fitting", "8Gi")
    a_claim(cluster)
    assert volume_of(cluster) == "c-fitting"


def test_a_selector_narrows_the_choice(cluster: LivingCluster) -> None:
    a_volume(cluster, "plain", "6Gi")
    a_volume(cluster, "marked", "9Gi", labels={"kind": "ssd"})
    a_claim(cluster, selector={"matchLabels": {"kind": "ssd"}})
    assert volume_of(cluster) == "marked"


def test_a_claim_that_waits_gets_the_next_volume(cluster: LivingCluster) -> None:
    a_claim(cluster)
    assert volume_of(cluster) == ""
    assert cluster.events("FailedBinding") == [
        "no persistent volumes available for this claim and no storage class is set"
    ]
    a_volume(cluster, "disk")
    cluster.wait(1)
    assert volume_of(cluster) == "disk"


def test_one_volume_serves_one_claim(cluster: LivingCluster) -> None:
    a_volume(cluster, "disk")
    a_claim(cluster, "first")
    a_claim(cluster, "second")
    assert (volume_of(cluster, "first"), volume_of(cluster, "second")) == ("disk", "")


def test_a_claim_can_name_its_volume_and_a_volume_its_claim(cluster: LivingCluster) -> None:
    a_volume(cluster, "small", "6Gi")
    a_volume(cluster, "named", "50Gi")
    a_volume(cluster, "naming", "60Gi", claimRef={"namespace": "default", "name": "second"})
    a_claim(cluster, "first", volumeName="named")
    a_claim(cluster, "second")
    assert (volume_of(cluster, "first"), volume_of(cluster, "second")) == ("named", "naming")


def test_a_volume_that_is_named_must_suit(cluster: LivingCluster) -> None:
    a_volume(cluster, "small", "1Gi")
    a_claim(cluster, volumeName="small")
    assert cluster.status("persistentvolumes", "small")["phase"] == "Available"
    assert cluster.events("VolumeMismatch") == ['Cannot bind to requested volume "small": requested PV is too small']


def test_immediate_provisioning(cluster: LivingCluster) -> None:
    a_class(cluster, reclaimPolicy="Retain")
    a_claim(cluster, storageClassName="fast")
    uid = cluster.get("persistentvolumeclaims", "claim")["metadata"]["uid"]
    assert volume_of(cluster) == f"pvc-{uid}"
    spec = cluster.get("persistentvolumes", f"pvc-{uid}")["spec"]
    assert (spec["capacity"]["storage"], spec["persistentVolumeReclaimPolicy"]) == ("5Gi", "Retain")
    assert "nodeAffinity" not in spec
    assert cluster.events("ProvisioningSucceeded") == [f"Successfully provisioned volume pvc-{uid}"]


def test_allowed_topologies_bind_the_volume_to_them(cluster: LivingCluster) -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}]
    a_class(cluster, allowedTopologies=allowed)
    a_claim(cluster, storageClassName="fast")
    (term,) = _terms(cluster)
    assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]


def test_nothing_is_bound_before_the_first_consumer(cluster: LivingCluster) -> None:
    a_class(cluster, volumeBindingMode="WaitForFirstConsumer")
    a_volume(cluster, "free", storageClassName="fast")
    a_claim(cluster, storageClassName="fast")
    assert volume_of(cluster) == ""
    assert cluster.events("WaitForFirstConsumer") == ["waiting for first consumer to be created before binding"]


PLACES = {
    "in the zone of the node": ({}, ZONE, "a"),
    "on the node itself where the class is local": ({"mooring.dev/local": "true"}, "kubernetes.io/hostname", "node"),
}


@pytest.mark.parametrize(("parameters", "key", "value"), PLACES.values(), ids=PLACES.keys())
def test_the_selected_node_says_where_to_provision(
    cluster: LivingCluster, parameters: dict[str, str], key: str, value: str
) -> None:
    cluster.node("node", metadata={"labels": {ZONE: "a"}})
    a_class(cluster, volumeBindingMode="WaitForFirstConsumer", parameters=parameters)
    a_claim(cluster, storageClassName="fast", annotations={"volume.kubernetes.io/selected-node": "node"})
    assert volume_of(cluster)
    (term,) = _terms(cluster)
    assert term["matchExpressions"] == [{"key": key, "operator": "In", "values": [value]}]


def _terms(cluster: LivingCluster) -> Any:
    volume = cluster.get("persistentvolumes", volume_of(cluster))
    return volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]


def test_a_volume_that_the_scheduler_chose_is_bound(cluster: LivingCluster) -> None:
    a_class(cluster, provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")
    a_volume(cluster, "near", storageClassName="fast")
    a_claim(cluster, storageClassName="fast")
    meta = cluster.get("persistentvolumeclaims", "claim")["metadata"]
    chosen = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "claim"}
    cluster.change(
        *("persistentvolumes", "near"),
        lambda volume: {**volume, "spec": {**volume["spec"], "claimRef": {**chosen, "uid": meta["uid"]}}},
    )
    cluster.wait(1)
    assert volume_of(cluster) == "near"


def test_the_class_may_come_after_the_claim(cluster: LivingCluster) -> None:
    a_claim(cluster, storageClassName="fast")
    assert volume_of(cluster) == ""
    a_class(cluster)
    cluster.wait(1)
    assert volume_of(cluster).startswith("pvc-")


@pytest.mark.parametrize(("policy", "left"), [("Delete", None), ("Retain", "Released")])
def test_what_becomes_of_the_volume_of_a_deleted_claim(cluster: LivingCluster, policy: str, left: str | None) -> None:
    a_class(cluster, reclaimPolicy=policy)
    a_claim(cluster, storageClassName="fast")
    name = volume_of(cluster)
    cluster.delete("persistentvolumeclaims", "claim")
    assert cluster.find("persistentvolumeclaims", "claim") is None
    volume = cluster.find("persistentvolumes", name)
    assert (volume["status"]["phase"] if volume else None) == left


def test_a_claim_in_use_is_kept_until_its_pod_is_over(cluster: LivingCluster) -> None:
    cluster.node("node")
    a_volume(cluster, "disk")
    a_claim(cluster)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    cluster.pod(node="node", volumes=volumes)
    cluster.delete("persistentvolumeclaims", "claim")
    cluster.wait(10)
    assert cluster.find("persistentvolumeclaims", "claim") is not None
    cluster.delete("pods", "pod")
    cluster.wait(5)
    assert cluster.find("persistentvolumeclaims", "claim") is None


def test_a_bound_volume_is_kept_until_its_claim_is_gone(cluster: LivingCluster) -> None:
    a_volume(cluster, "disk")
    a_claim(cluster)
    cluster.delete("persistentvolumes", "disk")
    assert cluster.find("persistentvolumes", "disk") is not None
    cluster.delete("persistentvolumeclaims", "claim")
    assert cluster.find("persistentvolumes", "disk") is None


def test_a_claim_whose_volume_vanishes_is_lost(cluster: LivingCluster) -> None:
    a_volume(cluster, "disk")
    a_claim(cluster)
    cluster.api.store.delete("/persistentvolumes", ("", "disk"))
    cluster.wait(1)
    assert cluster.status("persistentvolumeclaims", "claim")["phase"] == "Lost"


def test_ephemeral_volumes_get_claims_that_go_with_their_pod(cluster: LivingCluster) -> None:
    cluster.node("node")
    a_class(cluster)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]
    cluster.pod(node="node", volumes=volumes)
    cluster.wait(1)
    assert volume_of(cluster, "pod-scratch")
    cluster.delete("pods", "pod")
    cluster.wait(5)
    assert cluster.find("persistentvolumeclaims", "pod-scratch") is None
