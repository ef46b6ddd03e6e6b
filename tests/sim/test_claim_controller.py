"""Pods that go give their claims back, so that others can have the devices."""

from typing import Any

import msgspec

from build import a_node, a_pod
from device_building import a_claim, a_class, a_device, a_slice, an_allocation, claiming, given
from mooring.framework import config
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.sim.simulated_cluster import SimulatedCluster

OWNER = {"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}


def a_stage(*items: Any) -> SimulatedCluster:
    """A node with one device."""
    stage = SimulatedCluster([a_node("a"), a_class(), a_slice("s", a_device("d0"), node="a"), *items], config.default())
    for pod in stage.pending:
        stage.driver.create(pod)
    stage.driver.settle()
    return stage


def a_pod_with(name: str, claim: str) -> Pod:
    pod = a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName="default-scheduler")
    return claiming(pod, claim)


def claim_in(stage: SimulatedCluster, name: str) -> ResourceClaim | None:
    found = stage.driver.objects.get(("ResourceClaim", f"default/{name}"))
    assert found is None or isinstance(found, ResourceClaim)
    return found


def nodes_of(stage: SimulatedCluster) -> dict[str, str]:
    return {pod.name: pod.spec.node_name for pod in stage.driver.pods()}


def test_the_last_user_of_a_claim_gives_its_devices_back() -> None:
    stage = a_stage(a_claim("c"), a_claim("d"), a_pod_with("p", "c"), a_pod_with("q", "c"), a_pod_with("r", "d"))
    for _ in range(3):
        stage.driver.advance_second()
        stage.driver.settle()
    assert nodes_of(stage) == {"p": "a", "q": "a", "r": ""}
    stage.driver.delete("Pod", "default/p")
    stage.driver.settle()
    assert nodes_of(stage) == {"q": "a", "r": ""}
    stage.driver.delete("Pod", "default/q")
    for _ in range(12):
        stage.driver.advance_second()
        stage.driver.settle()
    assert nodes_of(stage) == {"r": "a"}
    claim = claim_in(stage, "d")
    assert claim is not None and given(claim) == ["r0=a/d0"]


def test_a_claim_that_was_made_for_a_pod_goes_with_it() -> None:
    made = a_claim("c", metadata={"ownerReferences": [OWNER]})
    stage = a_stage(made, a_claim("d"), a_pod_with("p", "c"), a_pod_with("q", "d"))
    assert nodes_of(stage) == {"p": "a", "q": ""}
    stage.driver.delete("Pod", "default/p")
    assert claim_in(stage, "c") is None
    for _ in range(3):
        stage.driver.advance_second()
        stage.driver.settle()
    assert nodes_of(stage) == {"q": "a"}, "it does not wait for the flush of parked pods"


def test_a_pod_group_that_goes_gives_its_claims_back() -> None:
    entry = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-gang"}
    status = {"allocation": an_allocation("s/d0", node="a"), "reservedFor": [entry]}
    owner = {"kind": "PodGroup", "name": "gang", "uid": "uid-gang", "controller": True}
    group = msgspec.convert(
        {
            "metadata": {"name": "gang", "namespace": "default", "uid": "uid-gang"},
            "spec": {"resourceClaims": [{"name": "held", "resourceClaimName": "held"}]},
        },
        PodGroup,
    )
    made = a_claim("made", metadata={"ownerReferences": [owner]})
    stage = a_stage(group, a_claim("held", status=status), made)
    stage.driver.delete("PodGroup", "default/gang")
    held = claim_in(stage, "held")
    assert held is not None and held.status.allocation is None and not held.status.reserved_for
    assert claim_in(stage, "made") is None
