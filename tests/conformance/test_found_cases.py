"""The smallest scenarios in which an earlier Mooring differed from kube-scheduler v1.36.4, with what kube-scheduler answers.

Wide random scenarios found them (tests/scheduler/test_wide_scenarios.py); each stands for a class that is closed.
"""

from typing import Any

import pytest

from small_scenarios import Json, a_node, a_pod, step

NOT_HELPFUL = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."


# ---- PreFilter ends early


def _named(*names: str) -> Json:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize("priority", [0, 10])
def test_node_affinity_terms_that_conflict_leave_nothing_for_preemption(priority: int) -> None:
    low = a_pod("low", "a", priority=0)
    found = step(a_node("a"), a_node("b"), low, a_pod("p", affinity=_named("a", "b"), priority=priority))
    assert found["message"] == "0/2 nodes are available: pod affinity terms conflict."
    assert found["preemption"] == {"message": NOT_HELPFUL.format(2)}


# ---- Selectors that match nothing, beside selectors that exclude

NOT_X = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}
NO_TIER = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
HOST = "kubernetes.io/hostname"


def _terms(kind: str, *terms: Json) -> Json:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


@pytest.mark.parametrize("excluding", [NOT_X, NO_TIER])
@pytest.mark.parametrize("is_first", [True, False])
def test_an_affinity_term_without_a_selector_matches_no_pod_beside_terms_that_exclude(
    excluding: Json, is_first: bool
) -> None:
    terms: list[Json] = [{"topologyKey": HOST, "labelSelector": excluding}, {"topologyKey": "zone"}]
    affinity = _terms("podAffinity", *(terms if is_first else terms[::-1]))
    run = a_pod("run", "a", labels={"app": "web"})
    found = step(a_node("a"), a_node("b"), run, a_pod("p", labels={"app": "web"}, affinity=affinity))
    assert found["message"] == "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    assert found["preemption"] == {"message": NOT_HELPFUL.format(2)}


def test_an_anti_affinity_term_without_a_selector_avoids_no_pod_beside_terms_that_exclude() -> None:
    terms: list[Json] = [{"topologyKey": HOST, "labelSelector": NOT_X}, {"topologyKey": "zone"}]
    run = a_pod("run", "a", labels={"app": "web"})
    found = step(a_node("a"), a_node("b"), run, a_pod("p", affinity=_terms("podAntiAffinity", *terms)))
    assert found["node"] == "b"


def test_a_spread_constraint_without_a_selector_counts_no_pod_beside_one_that_excludes() -> None:
    hard = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**hard, "labelSelector": NOT_X}, hard]
    run = a_pod("run", "a", labels={"app": "web"})
    found = step(
        a_node("a"), a_node("b"), run, a_pod("p", labels={"app": "web"}, topologySpreadConstraints=constraints)
    )
    assert found["feasible"] == ["b"]


# ---- Statuses of pods that are resized


def _sidecar(**extra: Any) -> Json:
    return {"name": "side", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}, **extra}


THREE = {"name": "side", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}}


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param({}, id="alone"),
        pytest.param({"containerStatuses": [{"name": "c"}]}, id="beside containers without resources"),
        pytest.param({"conditions": [{"type": "Ready", "status": "True"}]}, id="beside other conditions"),
    ],
)
def test_a_sidecar_that_was_resized_holds_what_its_status_says(beside: Json) -> None:
    status = {"initContainerStatuses": [THREE], **beside}
    run = a_pod("run", "a", initContainers=[_sidecar()], status=status)
    assert step(a_node("a"), run, a_pod("p"))["message"] == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_resize_status_of_a_plain_init_container_does_not_count() -> None:
    plain = {"name": "side", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    run = a_pod("run", "a", initContainers=[plain], status={"initContainerStatuses": [THREE]})
    assert step(a_node("a"), run, a_pod("p"))["node"] == "a"


# ---- Volumes of pods on a node


def test_a_claim_that_a_pod_on_the_node_does_not_own_is_an_error_whichever_driver_has_a_limit() -> None:
    drivers = [{"name": "csi.other.io", "nodeID": "a", "allocatable": {"count": 3}}]
    csi_node = {"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": drivers}}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "run-eph", "namespace": "default"}, "spec": {}}
    run = a_pod("run", "a", volumes=[{"name": "eph", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    pod = a_pod("p", volumes=[{"name": "gce", "gcePersistentDisk": {"pdName": "d"}}])
    found = step(a_node("a"), csi_node, claim, run, pod)
    text = "PVC default/run-eph was not created for pod default/run (pod is not owner)"
    assert found["error"] == f'running "NodeVolumeLimits" filter plugin: {text}'
    assert step(a_node("a"), claim, run, pod)["node"] == "a", "without a limit no volume is counted"
    assert step(a_node("a"), csi_node, claim, run, a_pod("p"))["node"] == "a", "nor for a pod without volumes"
