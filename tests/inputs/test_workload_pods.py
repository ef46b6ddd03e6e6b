"""The pods that controllers would make, and when they have been made already."""

from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from mooring.api.decode import decode_as
from mooring.inputs.created_objects import Ownership, expand, pods_of, replica_set_of
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolumeClaim
from mooring.model.workloads import ReplicaSet, Workload

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priorityClassName": "high"},
}


def a_workload(kind: str = "Deployment", status: dict[str, Any] | None = None, **spec: Any) -> Workload:
    written = {
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE, **spec},
        "status": status or {},
    }
    workload, problems = decode_as(Workload, written)
    assert problems == []
    assert workload is not None
    return workload


COUNTS = [
    pytest.param("Deployment", {}, {}, 1, id="one replica by default"),
    pytest.param("Deployment", {"replicas": 3}, {}, 3, id="as many as asked"),
    pytest.param("ReplicaSet", {"replicas": 0}, {}, 0, id="none"),
    pytest.param("ReplicationController", {"replicas": 2}, {}, 2, id="a replication controller"),
    pytest.param("Job", {}, {}, 1, id="a job runs one by default"),
    pytest.param("Job", {"parallelism": 5}, {}, 5, id="a job runs in parallel"),
    pytest.param("Job", {"parallelism": 5, "completions": 3}, {}, 3, id="no more than the job completes"),
    pytest.param("Job", {"parallelism": 5, "completions": 3}, {"succeeded": 2}, 1, id="less what succeeded"),
    pytest.param("Job", {"suspend": True}, {}, 0, id="a suspended job"),
    pytest.param("Job", {}, {"conditions": [{"type": "Complete", "status": "True"}]}, 0, id="a finished job"),
    pytest.param("Job", {}, {"conditions": [{"type": "Complete", "status": "False"}]}, 1, id="a job not yet finished"),
]


@pytest.mark.parametrize(("kind", "spec", "status", "count"), COUNTS)
def test_how_many(kind: str, spec: dict[str, Any], status: dict[str, Any], count: int) -> None:
    pods = pods_of(a_workload(kind, status, **spec))
    assert [pod.key for pod in pods] == [f"shop/web-{i}" for i in range(count)]


def test_pods_are_made_from_the_template_with_specs_of_their_own() -> None:
    first, second = pods_of(a_workload(replicas=2))
    assert first.spec is not second.spec
    assert first.shape is second.shape
    assert first.spec.priority_class_name == "high"
    assert first.metadata.annotations == {"note": "x"}
    assert first.shape.request == {"cpu": 1000}


def test_a_deployment_has_a_replica_set_that_selects_its_pods() -> None:
    workload = a_workload(replicas=2)
    between, *pods = expand(workload)
    assert isinstance(between, ReplicaSet)
    mark = between.labels["pod-template-hash"]
    assert between.key == f"shop/web-{mark}"
    assert between.spec.selector is not None
    assert between.spec.selector.match_labels == {"app": "web", "pod-template-hash": mark}
    owner = between.controller()
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == ("Deployment", "web", "u1")
    for pod in pods:
        assert pod.labels == {"app": "web", "pod-template-hash": mark}
        owner = pod.controller()
        assert owner is not None
        assert (owner.api_version, owner.kind, owner.name) == ("apps/v1", "ReplicaSet", between.name)


def test_the_hash_follows_the_template() -> None:
    def name(**spec: Any) -> str:
        between = replica_set_of(a_workload(**spec))
        assert between is not None
        return between.name

    assert name(replicas=1) == name(replicas=9)
    assert name() != name(template={**TEMPLATE, "spec": {"containers": [{"name": "d"}]}})
    assert replica_set_of(a_workload("StatefulSet")) is None


JOB_LABELS = {f"{prefix}{name}" for prefix in ("", "batch.kubernetes.io/") for name in ("job-name", "controller-uid")}
LABELS = [
    pytest.param("ReplicaSet", {}, set(), id="a replica set adds none"),
    pytest.param("Job", {}, JOB_LABELS, id="a job"),
    pytest.param(
        "Job",
        {"completionMode": "Indexed"},
        {*JOB_LABELS, "batch.kubernetes.io/job-completion-index"},
        id="an indexed job",
    ),
    pytest.param(
        "StatefulSet",
        {},
        {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"},
        id="a stateful set",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "added"), LABELS)
def test_labels_that_controllers_add(kind: str, spec: dict[str, Any], added: set[str]) -> None:
    (pod,) = pods_of(a_workload(kind, **spec))
    assert set(pod.labels) == {"app"} | added
    owner = pod.controller()
    assert owner is not None
    assert (owner.kind, owner.name, owner.uid) == (kind, "web", "u1")


def test_a_stateful_set_has_ordinals_and_claims() -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "volumes": [{"name": "data"}, {"name": "tmp"}]}}
    claim = {"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {"storageClassName": "fast"}}
    made = expand(
        a_workload("StatefulSet", replicas=2, ordinals={"start": 5}, template=template, volumeClaimTemplates=[claim])
    )
    assert [(type(o).__name__, o.key) for o in made] == [
        ("PersistentVolumeClaim", "shop/data-web-5"),
        ("PersistentVolumeClaim", "shop/data-web-6"),
        ("Pod", "shop/web-5"),
        ("Pod", "shop/web-6"),
    ]
    assert isinstance(made[0], PersistentVolumeClaim)
    assert (made[0].class_name, made[0].labels) == ("fast", {"a": "b", "app": "web"})
    pod = made[3]
    assert isinstance(pod, Pod)
    assert msgspec.to_builtins(pod.spec.volumes) == [
        {"name": "tmp"},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-6"}},
    ]
    assert pod.labels["apps.kubernetes.io/pod-index"] == "6"


def test_names_that_are_taken_give_way() -> None:
    names = [pod.name for pod in pods_of(a_workload("Job", parallelism=2), taken={"shop/web-1"})]
    assert names == ["web-job-0", "web-job-1"]


def daemons(**spec: Any) -> dict[str, Pod]:
    nodes = [
        a_node("plain"),
        a_node("gpu", labels={"gpu": "yes"}, taints=["gpu=a100:NoSchedule"]),
        a_node("pressed", taints=["node.kubernetes.io/disk-pressure:NoSchedule"]),
        a_node("cordoned", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"]),
        a_node("no-network", taints=["node.kubernetes.io/network-unavailable:NoSchedule"]),
        a_node("soft", taints=["spot:PreferNoSchedule"]),
    ]
    template = {**TEMPLATE, "spec": {"containers": [{"name": "c"}], **spec}}
    return {pinned_to(pod): pod for pod in pods_of(a_workload("DaemonSet", template=template), nodes)}


def pinned_to(pod: Pod) -> str:
    affinity = msgspec.to_builtins(pod.spec.affinity)["nodeAffinity"]
    (term,) = affinity[HARD]["nodeSelectorTerms"]
    (line,) = term["matchFields"]
    assert list(term) == ["matchFields"]
    assert (line["key"], line["operator"]) == ("metadata.name", "In")
    (name,) = line["values"]
    assert isinstance(name, str)
    return name


NEEDS_GPU = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
ANYWHERE = {"tolerations": [{"operator": "Exists"}]}
DAEMONS = [
    pytest.param({}, ["plain", "pressed", "cordoned", "soft"], id="nodes in trouble too, but not tainted ones"),
    pytest.param(
        {"hostNetwork": True}, ["plain", "pressed", "cordoned", "no-network", "soft"], id="on the host network"
    ),
    pytest.param({**ANYWHERE, "nodeSelector": {"gpu": "yes"}}, ["gpu"], id="a node selector"),
    pytest.param({**ANYWHERE, "affinity": {"nodeAffinity": {HARD: NEEDS_GPU}}}, ["gpu"], id="a node affinity"),
    pytest.param({"nodeName": "soft"}, ["soft"], id="a node name"),
]


@pytest.mark.parametrize(("spec", "nodes"), DAEMONS)
def test_a_daemon_set_runs_where_it_may(spec: dict[str, Any], nodes: list[str]) -> None:
    assert list(daemons(**spec)) == nodes


def test_daemons_tolerate_what_their_controller_adds() -> None:
    pod = daemons(tolerations=[{"key": "mine", "operator": "Exists"}])["plain"]
    assert pod.name == "web-0"
    assert [(t.key, t.operator, t.effect) for t in pod.spec.tolerations or ()] == [
        ("mine", "Exists", ""),
        ("node.kubernetes.io/not-ready", "Exists", "NoExecute"),
        ("node.kubernetes.io/unreachable", "Exists", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "Exists", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "Exists", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "Exists", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "Exists", "NoSchedule"),
    ]


def owned_by(kind: str, name: str, uid: str = "", **metadata: Any) -> Pod:
    owner = {"kind": kind, "name": name, "uid": uid, "controller": True}
    return a_pod("p", namespace="shop", metadata={"ownerReferences": [owner], **metadata})


def a_replica_set(owner: str) -> ReplicaSet:
    meta = {
        "name": "web-abc",
        "namespace": "shop",
        "ownerReferences": [{"kind": owner, "name": "web", "controller": True}],
    }
    return msgspec.convert({"metadata": meta}, ReplicaSet)


OWNERS = [
    pytest.param("Job", [owned_by("Job", "web")], True, id="by kind and name"),
    pytest.param("Job", [owned_by("Thing", "other", "u1")], True, id="by uid"),
    pytest.param("Job", [owned_by("Job", "other", "u2")], False, id="of another"),
    pytest.param("Job", [a_pod(namespace="shop")], False, id="of nobody"),
    pytest.param("Deployment", [a_replica_set("Deployment")], True, id="through a replica set"),
    pytest.param(
        "Deployment",
        [owned_by("ReplicaSet", "web-abc", labels={"pod-template-hash": "abc"})],
        True,
        id="by the name of a replica set that is not there",
    ),
    pytest.param("Deployment", [owned_by("ReplicaSet", "web-abc")], False, id="of a replica set without a deployment"),
    pytest.param("Job", [a_replica_set("Deployment")], False, id="of the same name but another kind"),
    pytest.param(
        "Deployment",
        [owned_by("Job", "web-abc", labels={"pod-template-hash": "abc"})],
        False,
        id="of a job named like a replica set",
    ),
    pytest.param(
        "Deployment",
        [owned_by("ReplicaSet", "web", labels={"pod-template-hash": "abc"})],
        False,
        id="of a replica set that is named like the deployment",
    ),
]


@pytest.mark.parametrize(("kind", "objects", "has_pods"), OWNERS)
def test_workloads_that_have_their_pods(kind: str, objects: list[KubeObject], has_pods: bool) -> None:
    assert Ownership(objects).covers(a_workload(kind)) is has_pods
