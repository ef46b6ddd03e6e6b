"""Claims of pod groups from templates in simulations and what-if questions: made for the group, shared by its pods."""

from typing import Any

import pytest
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

from mooring.answers.simulate.simulating import place_pending
from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup

WITH_CLAIMS = {**GROUP_GATES, "DRAWorkloadResourceClaims": True}
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "gpus"}
HEAD = {"apiVersion": "resource.k8s.io/v1"}
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


def a_gpu_node(name: str, gpus: int) -> Written:
    node = a_node(name, "16")
    node["metadata"]["annotations"] = {"mooring.dev/devices": f"gpu.example.com={gpus}"}
    return node


def a_group_with(*entries: Written, name: str = "gang") -> Written:
    group = a_pod_group(name, 3)
    group["spec"]["resourceClaims"] = list(entries)
    return group


DEVICES: tuple[Written, ...] = (
    {**HEAD, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}},
    {
        **HEAD,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus", "namespace": "default"},
        "spec": {"spec": REQUESTS},
    },
)
A_GANG = (*DEVICES, a_gpu_node("n1", 1), a_node("n2", "16"), a_group_with(ENTRY), *members(3, resourceClaims=[ENTRY]))


def loaded(*objects: Written, gates: dict[str, bool] = WITH_CLAIMS) -> LoadedCluster:
    return load(list(objects), feature_gates=gates)


def of_kind(cluster: LoadedCluster, kind: type[Any]) -> list[Any]:
    return [item for item in cluster.objects if isinstance(item, kind)]


def named(holder: Pod | PodGroup) -> list[tuple[str, str | None]]:
    return [(each.name, each.resource_claim_name) for each in holder.status.resource_claim_statuses or ()]


def test_one_claim_is_made_for_the_group_and_all_its_pods_name_it() -> None:
    cluster = loaded(*A_GANG)
    (claim,) = of_kind(cluster, ResourceClaim)
    (group,) = of_kind(cluster, PodGroup)
    owner = claim.controller()
    assert (claim.key, owner.kind, owner.uid) == ("default/gang-gpu", "PodGroup", group.uid)
    assert named(group) == [("gpu", "gang-gpu")]
    assert [named(pod) for pod in of_kind(cluster, Pod)] == [[("gpu", "gang-gpu")]] * 3


def test_a_gang_shares_the_one_device_of_its_claim() -> None:
    answer = place_pending(loaded(*A_GANG))
    assert answer.summary()[0] == "3 of 3 pending pods placed, 2 nodes"
    assert {pod.node for pod in answer.placed} == {"n1"}


def test_without_the_gate_each_pod_has_a_claim_of_its_own() -> None:
    cluster = loaded(*A_GANG, gates=GROUP_GATES)
    assert [claim.key for claim in of_kind(cluster, ResourceClaim)] == [f"default/gang-{i}-gpu" for i in range(3)]
    assert named(of_kind(cluster, PodGroup)[0]) == []
    assert place_pending(cluster).summary()[0] == "0 of 3 pending pods placed, 2 nodes"


def test_an_entry_of_another_source_is_the_pods_own() -> None:
    other = {**DEVICES[1], "metadata": {"name": "others", "namespace": "default"}}
    mine = {"name": "mine", "resourceClaimTemplateName": "gpus"}
    changed = {"name": "gpu", "resourceClaimTemplateName": "others"}
    pod = a_pod("p", schedulingGroup={"podGroupName": "gang"}, resourceClaims=[changed, mine])
    cluster = loaded(*DEVICES, other, a_group_with(ENTRY), pod)
    assert sorted(claim.key for claim in of_kind(cluster, ResourceClaim)) == [
        "default/gang-gpu",
        "default/p-gpu",
        "default/p-mine",
    ]
    assert named(of_kind(cluster, Pod)[0]) == [("gpu", "p-gpu"), ("mine", "p-mine")]


def test_without_its_template_neither_group_nor_pods_have_a_claim() -> None:
    cluster = loaded(DEVICES[0], *A_GANG[2:])
    assert of_kind(cluster, ResourceClaim) == []
    assert [named(held) for held in (*of_kind(cluster, PodGroup), *of_kind(cluster, Pod))] == [[]] * 4
    assert place_pending(cluster).summary()[0] == "0 of 3 pending pods placed, 2 nodes"


def test_a_group_of_a_dump_has_its_claims_there() -> None:
    admitted = a_group_with(ENTRY)
    admitted["metadata"]["resourceVersion"] = "7"
    cluster = loaded(*DEVICES, admitted, *members(3, resourceClaims=[ENTRY]))
    assert of_kind(cluster, ResourceClaim) == []


def test_a_pod_that_comes_later_names_the_claim_of_its_group() -> None:
    cluster = ChangingCluster(loaded(*A_GANG))
    cluster.settle()
    first = next(pod for pod in cluster.pods() if pod.name == "gang-0")
    late = first.with_node("").with_name("late", "uid-late")
    late.status.resource_claim_statuses = None
    cluster.create_pod(late)
    cluster.settle()
    placed = next(pod for pod in cluster.pods() if pod.name == "late")
    assert (placed.spec.node_name, named(placed)) == ("n1", [("gpu", "gang-gpu")])
    claims = [item for item in cluster.driver.objects.values() if isinstance(item, ResourceClaim)]
    assert [[(user.resource, user.name) for user in claim.status.reserved_for or ()] for claim in claims] == [
        [("podgroups", "gang")]
    ]


def test_gates_given_to_load_count_where_objects_are_admitted() -> None:
    compares = a_pod("p", tolerations=[{"key": "tier", "operator": "Gt", "value": "5"}])
    with pytest.raises(InputError):
        load([a_node("n1"), compares])
    cluster = loaded(a_node("n1"), compares, gates={"TaintTolerationComparisonOperators": True})
    assert place_pending(cluster).summary()[0] == "1 of 1 pending pod placed, 1 node"
