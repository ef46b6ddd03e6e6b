"""Pods that move take what belongs to them along, or get it anew: claims of volumes and devices, priorities, budgets."""

from typing import Any

import msgspec

from device_building import a_class, a_device, a_slice
from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.changing_nodes import drain
from mooring.answers.what_if.question import what_if
from mooring.model.devices import ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.storage import PersistentVolumeClaim
from what_if_building import (
    HOSTNAME,
    a_budget,
    a_cluster,
    a_deployment,
    a_running_pod,
    a_zone_node,
    owned_by,
)

NODES = [a_zone_node("a-1", "a"), a_zone_node("b-1", "b")]
JsonObject = dict[str, Any]


def written(item: KubeObject, version: str) -> JsonObject:
    return {"apiVersion": version, "kind": type(item).__name__, **msgspec.to_builtins(item)}


def a_manifest_deployment(replicas: int, **spec: Any) -> JsonObject:
    """A Deployment that no server has seen: its pods are created while it is read."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": wanted}


def devices() -> list[JsonObject]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    template = {"metadata": {"name": "gpus"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    slices = [a_slice(f"slice-{node}", a_device("dev-0"), node=node) for node in ("a-1", "b-1")]
    return [
        written(a_class("gpu"), "resource.k8s.io/v1"),
        *(written(each, "resource.k8s.io/v1") for each in slices),
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **template},
    ]


def test_a_pod_with_a_device_gets_another_one_where_it_moves() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    cluster = a_cluster(NODES, devices(), a_manifest_deployment(1, resourceClaims=claims))
    changing = ChangingCluster(cluster)
    changing.settle()
    (pod,) = changing.pods()
    before = pod.spec.node_name
    drain(changing, [before])
    (pod,) = changing.pods()
    assert {before, pod.spec.node_name} == {"a-1", "b-1"}
    (claim,) = (item for item in changing.driver.objects.values() if isinstance(item, ResourceClaim))
    assert claim.status.allocation is not None and claim.status.reserved_for is not None
    assert [user.uid for user in claim.status.reserved_for] == [pod.id]


def test_new_nodes_have_the_devices_of_their_template() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    cluster = a_cluster(NODES, devices(), a_manifest_deployment(3, resourceClaims=claims))
    answer = what_if(cluster, [("add-nodes", "1=a-1")])
    assert [(each.key, each.node) for each in answer.placed] == [("default/web-2", "a-1-new-1")] and answer.fits


def test_an_ephemeral_volume_is_left_behind_and_made_anew() -> None:
    volumes = [a_local_volume(node) for node in ("a-1", "b-1")]
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    claim = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    cluster = a_cluster(NODES, volumes, storage_class, a_manifest_deployment(1, volumes=scratch))
    changing = ChangingCluster(cluster)
    changing.settle()
    (pod,) = changing.pods()
    before = pod.spec.node_name
    drain(changing, [before])
    (pod,) = changing.pods()
    assert {before, pod.spec.node_name} == {"a-1", "b-1"}
    (held,) = (item for item in changing.driver.objects.values() if isinstance(item, PersistentVolumeClaim))
    assert held.spec.volume_name == f"disk-{pod.spec.node_name}"


def a_local_volume(node: str) -> JsonObject:
    line = {"key": HOSTNAME, "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"disk-{node}"}, "spec": spec}


def test_a_pod_that_was_resized_or_labelled_by_its_node_is_replaced_by_its_template() -> None:
    pod = a_running_pod("web-0", "a-1", cpu="1", owner=owned_by("ReplicaSet", "web-rs"))
    pod["metadata"]["labels"]["topology.kubernetes.io/zone"] = "a"
    held = {"requests": {"cpu": "3"}}
    pod["status"]["containerStatuses"] = [{"name": "main", "resources": held, "allocatedResources": {"cpu": "3"}}]
    changing = ChangingCluster(a_cluster(NODES, pod))
    drain(changing, ["a-1"])
    (moved,) = changing.pods()
    assert moved.spec.node_name == "b-1" and moved.labels == {"app": "web-0"}
    assert moved.shape.held["cpu"][0] == 1000


def test_preemption_sees_the_budgets_as_they_are_counted() -> None:
    """Budgets of manifests have no status; the one that allows a disruption is the one whose pod has to leave."""
    low = [a_deployment("strict", ["a-1"], cpu="4"), a_deployment("free", ["b-1"], cpu="4")]
    budgets = [a_budget("strict", "strict", minAvailable=1), a_budget("free", "free", maxUnavailable=1)]
    high = a_running_pod("high", cpu="4", priority=1000)
    del high["metadata"]["uid"], high["metadata"]["resourceVersion"]
    for order in (NODES, NODES[::-1]):
        answer = what_if(a_cluster(order, *low, budgets), [("apply", high)])
        assert [each.key for each in answer.preempted] == ["default/free-0"]
        assert [each.key for each in answer.pending] == ["default/free-0"]


def test_a_job_runs_more_pods_at_once_up_to_what_is_left_to_do() -> None:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    plain = {"parallelism": 1, "completions": 3, "template": template}
    for mode in ({}, {"completionMode": "Indexed"}):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "batch"}, "spec": {**plain, **mode}}
        answer = what_if(a_cluster(NODES, job), [("scale", "Job/batch=5")])
        assert [each.key for each in answer.placed] == ["default/batch-1", "default/batch-2"], mode


def test_a_limited_toleration_of_no_execute_runs_out() -> None:
    limited = [{"key": "x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    lasting = [{"key": "x", "operator": "Exists"}]
    pods = [*a_deployment("brief", ["a-1"], tolerations=limited), *a_deployment("firm", ["a-1"], tolerations=lasting)]
    answer = what_if(a_cluster(NODES, pods), [("taint", "a-1=x=y:NoExecute")])
    assert [(each.key, each.new_node) for each in answer.moved] == [("default/brief-0", "b-1")]
