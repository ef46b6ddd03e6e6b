"""Claims of pod groups in the embedded cluster: made from templates for the group, named in its pods, and given back when
the group is gone."""

from typing import Any

import pytest

from living_cluster import LivingCluster
from mooring.api.api_errors import ApiError
from mooring.api.kinds.scheduling import GROUP_PROTECTION
from mooring.controllers.cluster_writes import DEVICE_CLAIMS, PODS
from mooring.controllers.storage.pod_claims import PROTECTION

GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
REQUESTS = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
TEMPLATE = {"spec": {"metadata": {"labels": {"made": "yes"}}, "spec": {"devices": {"requests": REQUESTS}}}}
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}
JsonObject = dict[str, Any]


def a_group(*claims: JsonObject) -> JsonObject:
    return {"spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [*claims] or [ENTRY]}}


def a_pod(*claims: JsonObject, group: str = "gang") -> JsonObject:
    spec = {"resourceClaims": [*claims] or [ENTRY], "containers": [{"name": "c", "image": "x"}]}
    return {"spec": {**spec, "schedulingGroup": {"podGroupName": group}}}


@pytest.fixture
def cluster() -> LivingCluster:
    cluster = LivingCluster(gates=GATES)
    cluster.create("resourceclaimtemplates", "one", TEMPLATE)
    return cluster


def claims_of(cluster: LivingCluster) -> list[JsonObject]:
    return cluster.api.store.all("resource.k8s.io/resourceclaims")


def reserve(cluster: LivingCluster, name: str, *users: JsonObject) -> None:
    """As the scheduler does: allocated, protected, and reserved."""
    claim = cluster.get("resourceclaims", name)
    metadata = {**claim["metadata"], "finalizers": [PROTECTION]}
    status = {"allocation": {"devices": {}}, "reservedFor": [*users]}
    cluster.api.store.update(
        DEVICE_CLAIMS.storage, ("default", name), {**claim, "metadata": metadata, "status": status}
    )
    cluster.settle()


def entry_of(group: JsonObject) -> JsonObject:
    meta = group["metadata"]
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": meta["name"], "uid": meta["uid"]}


def test_one_claim_is_made_for_the_group_and_named_in_its_pods(cluster: LivingCluster) -> None:
    group = cluster.create("podgroups", "gang", a_group())
    pods = [cluster.create("pods", name, a_pod()) for name in ("one", "two")]
    [claim] = claims_of(cluster)
    named = [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
    assert group["status"]["resourceClaimStatuses"] == named
    assert [pod["status"]["resourceClaimStatuses"] for pod in pods] == [named, named]
    assert claim["metadata"]["name"].startswith("gang-gpu-") and claim["metadata"]["labels"] == {"made": "yes"}
    assert claim["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "name": "gang",
            "uid": group["metadata"]["uid"],
            "controller": True,
        }
    ]


def test_pods_wait_for_their_group_and_the_group_for_its_template(cluster: LivingCluster) -> None:
    later = {"name": "gpu", "resourceClaimTemplateName": "later"}
    cluster.create("pods", "p", a_pod(later))
    cluster.create("podgroups", "gang", a_group(later))
    assert not claims_of(cluster)
    cluster.create("resourceclaimtemplates", "later", TEMPLATE)
    [claim] = claims_of(cluster)
    assert cluster.status("pods", "p")["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}
    ]


def test_an_entry_that_is_not_the_groups_gets_a_claim_of_the_pod(cluster: LivingCluster) -> None:
    own = {"name": "own", "resourceClaimTemplateName": "one"}
    cluster.create("podgroups", "gang", a_group())
    pod = cluster.create("pods", "p", a_pod(ENTRY, own))
    owners = {claim["metadata"]["ownerReferences"][0]["name"] for claim in claims_of(cluster)}
    assert owners == {"gang", "p"}
    assert [each["name"] for each in pod["status"]["resourceClaimStatuses"]] == ["gpu", "own"]


def test_without_the_gate_groups_have_no_claims() -> None:
    cluster = LivingCluster(gates={"GenericWorkload": True})
    cluster.create("resourceclaimtemplates", "one", TEMPLATE)
    group = cluster.create("podgroups", "gang", a_group())
    pod = cluster.create("pods", "p", a_pod())
    assert "resourceClaims" not in group["spec"]
    [claim] = claims_of(cluster)
    assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]


def test_the_reservation_of_a_group_stays_until_the_group_is_gone(cluster: LivingCluster) -> None:
    cluster.create("resourceclaims", "shared", {"spec": {"devices": {"requests": REQUESTS}}})
    shared = {"name": "gpu", "resourceClaimName": "shared"}
    group = cluster.create("podgroups", "gang", a_group(shared))
    pod = cluster.create("pods", "p", a_pod(shared))
    reserve(cluster, "shared", entry_of(group))
    cluster.delete("pods", "p")
    assert pod["metadata"]["uid"] and cluster.find("pods", "p") is None
    assert cluster.status("resourceclaims", "shared")["reservedFor"] == [entry_of(group)]
    cluster.delete("podgroups", "gang")
    left = cluster.get("resourceclaims", "shared")
    assert "reservedFor" not in left["status"] and "allocation" not in left["status"]
    assert PROTECTION not in left["metadata"].get("finalizers", ())


def test_a_group_of_the_same_name_is_not_the_one_that_has_the_claim(cluster: LivingCluster) -> None:
    cluster.create("resourceclaims", "shared", {"spec": {"devices": {"requests": REQUESTS}}})
    group = cluster.create("podgroups", "gang", a_group())
    reserve(cluster, "shared", {**entry_of(group), "uid": "earlier"}, {"resource": "other", "name": "x", "uid": "u"})
    assert [each["uid"] for each in cluster.status("resourceclaims", "shared")["reservedFor"]] == ["u"]


def test_a_claim_that_was_made_for_a_group_goes_with_it(cluster: LivingCluster) -> None:
    group = cluster.create("podgroups", "gang", a_group())
    [claim] = claims_of(cluster)
    reserve(cluster, claim["metadata"]["name"], entry_of(group))
    cluster.delete("podgroups", "gang")
    assert not claims_of(cluster)


def test_a_group_is_kept_until_its_last_pod_has_ended(cluster: LivingCluster) -> None:
    group = cluster.create("podgroups", "gang", a_group())
    assert group["metadata"]["finalizers"] == [GROUP_PROTECTION]
    for name in ("one", "two"):
        cluster.create("pods", name, a_pod())
    cluster.delete("podgroups", "gang")
    cluster.delete("pods", "one")
    assert cluster.get("podgroups", "gang")["metadata"]["deletionTimestamp"]
    pod = cluster.get("pods", "two")
    cluster.api.put_status(PODS, pod, {**pod["status"], "phase": "Succeeded"})
    cluster.settle()
    assert cluster.find("podgroups", "gang") is None


def test_without_the_gate_groups_are_not_protected() -> None:
    cluster = LivingCluster()
    group = cluster.create("podgroups", "gang", a_group())
    assert "finalizers" not in group["metadata"]


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ([{"name": "gpu"}], "spec.resourceClaims[0]"),
        ([{**ENTRY, "resourceClaimName": "x"}], "spec.resourceClaims[0]"),
        ([ENTRY, ENTRY], "spec.resourceClaims[1].name"),
        ([{**ENTRY, "name": "Not a label"}], "spec.resourceClaims[0].name"),
        ([{**ENTRY, "name": f"n{i}"} for i in range(5)], "spec.resourceClaims"),
    ],
    ids=["no source", "two sources", "a name twice", "a bad name", "too many"],
)
def test_claims_of_groups_are_validated(cluster: LivingCluster, claims: list[JsonObject], said: str) -> None:
    with pytest.raises(ApiError, match="is invalid") as fault:
        cluster.create("podgroups", "gang", a_group(*claims))
    assert said in str(fault.value)


def test_claims_of_groups_cannot_be_changed(cluster: LivingCluster) -> None:
    cluster.create("podgroups", "gang", a_group())
    with pytest.raises(ApiError, match="field is immutable"):
        cluster.change("podgroups", "gang", lambda group: {**group, "spec": {**group["spec"], "resourceClaims": []}})


def test_v137_22_without_the_gate_no_claim_is_made_for_a_group_that_has_some() -> None:
    """v1.36 made a claim for each pod."""
    cluster = LivingCluster(gates={"GenericWorkload": True})
    cluster.create("resourceclaimtemplates", "one", TEMPLATE)
    group = cluster.create("podgroups", "gang", a_group())
    held = {**group, "spec": {**group["spec"], "resourceClaims": [ENTRY]}}  # from the time when the gate was on
    cluster.api.store.update("scheduling.k8s.io/podgroups", ("default", "gang"), held)
    cluster.create("pods", "one", a_pod())
    cluster.create("pods", "two", a_pod({**ENTRY, "name": "other"}))
    cluster.settle()
    [claim] = claims_of(cluster)
    assert claim["metadata"]["ownerReferences"][0]["name"] == "two"
