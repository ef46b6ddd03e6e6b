"""Claims for devices come from templates, go with their pods, and give devices back; nodes publish what they have."""

from typing import Any

import pytest

from living_cluster import LivingCluster
from mooring.controllers.cluster_writes import DEVICE_CLAIMS, PODS
from mooring.controllers.storage.pod_claims import PROTECTION

DRIVER = "gpu.example.com"
CLAIMS, SLICES = "resourceclaims", "resourceslices"


def a_template() -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    return {"spec": {"metadata": {"labels": {"made": "yes"}}, "spec": {"devices": {"requests": requests}}}}


def a_pod(template: str = "one") -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    return {"spec": {"resourceClaims": claims, "containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}


@pytest.fixture
def cluster() -> LivingCluster:
    cluster = LivingCluster()
    cluster.create("resourceclaimtemplates", "one", a_template())
    return cluster


def claims_of(cluster: LivingCluster) -> list[dict[str, Any]]:
    return cluster.api.store.all("resource.k8s.io/resourceclaims")


def reserve(cluster: LivingCluster, claim: dict[str, Any], *pods: dict[str, Any]) -> None:
    """As the scheduler does: allocated, protected, and reserved for pods."""
    users = [{"resource": "pods", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]} for p in pods]
    metadata = {**claim["metadata"], "finalizers": [PROTECTION]}
    cluster.api.store.update(
        DEVICE_CLAIMS.storage,
        ("default", claim["metadata"]["name"]),
        {**claim, "metadata": metadata, "status": {"allocation": {"devices": {}}, "reservedFor": users}},
    )
    cluster.settle()


def test_a_claim_is_made_and_named_in_the_pods_status(cluster: LivingCluster) -> None:
    pod = cluster.create("pods", "p", a_pod())
    [claim] = claims_of(cluster)
    assert pod["status"]["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": claim["metadata"]["name"]},
    ]
    assert claim["metadata"]["name"].startswith("p-gpu-") and claim["metadata"]["labels"] == {"made": "yes"}
    assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu"


def test_a_pod_waits_for_its_template(cluster: LivingCluster) -> None:
    cluster.create("pods", "p", a_pod("later"))
    assert not claims_of(cluster)
    cluster.create("resourceclaimtemplates", "later", a_template())
    assert len(claims_of(cluster)) == 1


def test_one_claim_is_made_however_often_the_pod_changes(cluster: LivingCluster) -> None:
    pod = cluster.create("pods", "p", a_pod())
    cluster.api.put_status(PODS, pod, {"phase": "Pending"})  # somebody wipes what the status said
    cluster.settle()
    assert len(claims_of(cluster)) == 1
    assert cluster.get("pods", "p")["status"]["resourceClaimStatuses"]


def test_two_claims_are_made_from_one_template(cluster: LivingCluster) -> None:
    pod = a_pod()
    pod["spec"]["resourceClaims"] = [{"name": name, "resourceClaimTemplateName": "one"} for name in ("first", "second")]
    made = cluster.create("pods", "p", pod)
    assert [each["name"] for each in made["status"]["resourceClaimStatuses"]] == ["first", "second"]
    assert len(claims_of(cluster)) == 2


def test_a_claim_goes_with_its_pod(cluster: LivingCluster) -> None:
    pod = cluster.create("pods", "p", a_pod())
    reserve(cluster, claims_of(cluster)[0], pod)
    cluster.delete("pods", "p")
    assert not claims_of(cluster), "the finalizer is lifted once nobody uses it"


def test_devices_are_given_back_when_the_pod_has_finished(cluster: LivingCluster) -> None:
    pod = cluster.create("pods", "p", a_pod())
    reserve(cluster, claims_of(cluster)[0], pod)
    held = cluster.get("pods", "p")
    cluster.api.put_status(PODS, held, {**held["status"], "phase": "Succeeded"})
    cluster.settle()
    assert not claims_of(cluster)


def test_a_shared_claim_stays_until_its_last_user_has_gone(cluster: LivingCluster) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    cluster.create(CLAIMS, "shared", {"spec": {"devices": {"requests": requests}}})
    plain = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    one, two = cluster.create("pods", "one", plain), cluster.create("pods", "two", plain)
    reserve(cluster, cluster.get(CLAIMS, "shared"), one, two)
    cluster.delete("pods", "one")
    status = cluster.get(CLAIMS, "shared")["status"]
    assert [user["name"] for user in status["reservedFor"]] == ["two"] and "allocation" in status
    cluster.delete("pods", "two")
    left = cluster.get(CLAIMS, "shared")
    assert "allocation" not in left["status"]
    assert PROTECTION not in left["metadata"].get("finalizers", ())


# ---- devices of nodes


def test_a_node_publishes_its_devices() -> None:
    cluster = LivingCluster()
    annotations = {"mooring.dev/devices": f"{DRIVER}=2:model=a100,memory=80Gi"}
    cluster.create("nodes", "n", {"metadata": {"annotations": annotations}})
    spec = cluster.get(SLICES, f"n-{DRIVER}")["spec"]
    assert (spec["driver"], spec["nodeName"]) == (DRIVER, "n")
    assert [device["name"] for device in spec["devices"]] == ["device-0", "device-1"]
    assert spec["devices"][0]["attributes"]["model"] == {"string": "a100"}
    assert spec["devices"][0]["capacity"] == {"memory": {"value": "80Gi"}}


def test_a_slice_goes_with_its_node() -> None:
    cluster = LivingCluster()
    cluster.create("nodes", "n", {"metadata": {"annotations": {"mooring.dev/devices": f"{DRIVER}=1"}}})
    cluster.delete("nodes", "n")
    assert cluster.find(SLICES, f"n-{DRIVER}") is None


@pytest.mark.parametrize("written", ["", "nonsense", "=3", f"{DRIVER}=many", ";;"])
def test_what_cannot_be_read_offers_nothing(written: str) -> None:
    cluster = LivingCluster()
    cluster.create("nodes", "n", {"metadata": {"annotations": {"mooring.dev/devices": written}}})
    assert not cluster.api.store.all("resource.k8s.io/resourceslices")
