"""Parts that many answers share: pools, owners, use of nodes, names of columns, and what a missing permission costs."""

from typing import Any

import pytest
from written import Written, a_node, a_pod

from build import a_cluster
from build import a_node as node
from build import a_pod as pod
from mooring.answers.form.data_table import amount_column, data_table, in_snake_case, percent_of, share_column
from mooring.answers.form.published import rounded
from mooring.answers.form.utilisation import pool_of, utilisation_of, zone_of
from mooring.answers.trial.changing_cluster import settled
from mooring.answers.trial.counterfactual import Counterfactual, MovePod, PlacePod, PutObject, RemovePod
from mooring.answers.trial.workload_book import behind_replica_set, pods_of_workload
from mooring.api.kinds import KINDS, WORKLOADS
from mooring.inputs.input_errors import NoSuchPod
from mooring.inputs.live_source import EVENTS, LISTED, NODES, PODS, is_gated, loss_without
from mooring.inputs.loaded_cluster import load
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.rules.workload_pods import is_daemon
from mooring.scheduler.decision import DecisionError, Placement

# ---- zones and pools


@pytest.mark.parametrize(
    "label",
    [
        "karpenter.sh/nodepool",
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "alpha.eksctl.io/nodegroup-name",
        "kubernetes.azure.com/agentpool",
        "agentpool",
        "doks.digitalocean.com/node-pool",
        "ibm-cloud.kubernetes.io/worker-pool-name",
        "k8s.scaleway.com/pool-name",
        "lke.linode.com/pool-id",
        "pool",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
    ],
)
def test_labels_of_clouds_name_the_pool(label: str) -> None:
    assert pool_of(node(labels={label: "x", "other": "y"})) == "x"
    assert pool_of(node(labels={label: "", "other": "y"})) == ""


def test_the_instance_type_is_the_last_resort() -> None:
    assert pool_of(node(labels={"node.kubernetes.io/instance-type": "m5", "pool": "batch"})) == "batch"


def test_the_zone_is_that_of_either_label() -> None:
    assert (
        zone_of(node(labels={"topology.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/zone": "b"})) == "a"
    )
    assert zone_of(node(labels={"failure-domain.beta.kubernetes.io/zone": "b"})) == "b"
    assert zone_of(node()) == ""


# ---- owners


def owned(name: str, owner: str, namespace: str = "default", labels: dict[str, str] | None = None) -> Written:
    found = a_pod(name, owner=owner, labels=labels)
    found["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{name}"}
    return found


def names(pods: list[Pod]) -> list[str]:
    return [each.name for each in pods]


def test_the_pods_of_a_workload_are_those_that_it_controls() -> None:
    objects = [owned("a", "Job/x"), owned("b", "Job/y"), owned("c", "StatefulSet/x"), a_pod("d")]
    loaded = load(objects)
    assert names(pods_of_workload(loaded, "Job", "x")) == ["a"]
    assert names(pods_of_workload(loaded, "Job", "y", "default")) == ["b"]


def test_the_deployment_behind_a_replica_set_is_told_by_the_label_of_its_pods() -> None:
    hashed = {"pod-template-hash": "5d4f"}
    loaded = load([owned("a", "ReplicaSet/web-5d4f", labels=hashed), owned("b", "ReplicaSet/web-5d4f")])
    assert names(pods_of_workload(loaded, "Deployment", "web")) == ["a"]
    assert names(pods_of_workload(loaded, "ReplicaSet", "web-5d4f")) == ["a", "b"]
    first = loaded.pod("a")
    assert behind_replica_set(first, "web-5d4f", None) == ("Deployment", "web")
    assert behind_replica_set(first, "web-other", None) is None
    assert behind_replica_set(loaded.pod("b"), "web-", None) is None
    assert behind_replica_set(first, "web-5d4f", node("web-5d4f")) is None, "it is there, and nothing controls it"
    owner = [{"apiVersion": "argoproj.io/v1", "kind": "Rollout", "name": "r", "uid": "u", "controller": True}]
    above = pod("web-5d4f", metadata={"ownerReferences": owner})
    assert behind_replica_set(first, "web-5d4f", above) == ("Rollout", "r")


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "told"),
    [
        ("Job", "x", "", "Job 'x' is in several namespaces: default, ml; add its namespace"),
        ("Job", "zzz", "", "no pod of Job 'zzz' among 3 pods"),
        ("Job", "trian", "", "no pod of Job 'trian' among 3 pods; did you mean default/train?"),
        ("StatefulSet", "x", "", "no pod of StatefulSet 'x' among 3 pods"),
        ("Job", "train", "ml", "no pod of Job 'train' among 3 pods; did you mean default/train"),
    ],
    ids=["two of the name", "nothing like it", "something like it", "another kind", "another namespace"],
)
def test_a_workload_without_pods_is_an_error(kind: str, name: str, namespace: str, told: str) -> None:
    loaded = load([owned("a", "Job/x"), owned("b", "Job/x", "ml"), owned("c", "Job/train")])
    with pytest.raises(NoSuchPod) as caught:
        pods_of_workload(loaded, kind, name, namespace)
    assert str(caught.value).startswith(told)


def test_daemons_are_pods_of_daemon_sets() -> None:
    loaded = load([owned("a", "DaemonSet/x"), owned("b", "Job/x"), a_pod("c")])
    assert [is_daemon(each) for each in loaded.pods()] == [True, False, False]


# ---- use of nodes


def test_the_use_of_a_cluster_by_zone_pool_and_node() -> None:
    zone = "topology.kubernetes.io/zone"
    cluster = a_cluster(
        node("a", cpu="4", memory="4Gi", labels={zone: "z1", "pool": "p"}, allocatable={"gpu.example/x": "2"}),
        node("b", cpu="2", memory="8Gi", labels={zone: "z2", "pool": "p"}),
        node("c", cpu="8", memory="8Gi", labels={zone: "z1"}, unschedulable=True),
        pod("p1", cpu="1", memory="1Gi", nodeName="a"),
        pod("p2", cpu="1", memory="6Gi", nodeName="b"),
        pod("p3", cpu="8", nodeName="c"),
    )
    found = utilisation_of(cluster.nodes)
    gi = 1 << 30
    assert found.total.content() == {
        "nodes": 2,
        "cordonedNodes": 1,
        "pods": 2,
        "resources": {
            "cpu": {"requested": 2000, "allocatable": 6000},
            "memory": {"requested": 7 * gi, "allocatable": 12 * gi},
            "gpu.example/x": {"requested": 0, "allocatable": 2},
        },
    }
    assert {name: (use.nodes, use.cordoned, use.pods) for name, use in found.zones.items()} == {
        "z1": (1, 1, 1),
        "z2": (1, 0, 1),
    }
    assert {name: use.nodes for name, use in found.pools.items()} == {"p": 2}, "nodes without a pool are in none"
    assert [*found.fullest] == ["b", "a"], "by the larger of both shares, without cordoned nodes"
    assert found.fullest["b"].share("memory") == 0.75
    assert (found.fullest["b"].told_share("memory"), found.fullest["b"].told_share("gpu.example/x")) == ("75.0%", "-")
    assert found.fullest["a"].share("nothing") is None


def test_the_ten_fullest_nodes_are_told() -> None:
    nodes = [node(f"n{i:02}", cpu="10") for i in range(12)]
    pods = [pod(f"p{i:02}", cpu=f"{i}00m", nodeName=f"n{i:02}") for i in range(12)]
    found = utilisation_of(a_cluster(*nodes, *pods).nodes)
    assert [*found.fullest] == [f"n{i:02}" for i in range(11, 1, -1)]
    empty = utilisation_of(a_cluster().nodes)
    assert (empty.total.nodes, empty.zones, empty.pools, empty.fullest) == (0, {}, {}, {})


# ---- columns


def test_units_are_in_the_names_of_columns() -> None:
    assert amount_column("cpu", "free") == "cpu_free_milli"
    assert amount_column("memory", "free") == "memory_free_bytes"
    assert amount_column("ephemeral-storage") == "ephemeral_storage_bytes"
    assert amount_column("nvidia.com/gpu-a", "free") == "nvidia.com/gpu-a_free"
    assert share_column("ephemeral-storage") == "ephemeral_storage_utilisation_percent"
    assert in_snake_case("waits.p50Seconds") == "waits_p50_seconds"
    assert in_snake_case("cordonedNodes") == "cordoned_nodes"


def test_values_of_tables_and_json() -> None:
    assert data_table({"a": str, "b": int}, [("", 0), ("x", 1)]).rows == [(None, 0), ("x", 1)]
    assert (percent_of(0.25), percent_of(None)) == (25.0, None)
    assert rounded({"a": [0.1 + 0.2, 1], "b": (1e-10, "x"), "c": 0.123456789}) == {
        "a": [0.3, 1],
        "b": [0.0, "x"],
        "c": 0.123456789,
    }


# ---- what is read of a live cluster

LOSSES = {
    "PersistentVolumeClaim": "pods with volume claims look as if their claims did not exist",
    **dict.fromkeys(
        ("PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
        "answers about pods with volumes may be wrong",
    ),
    **dict.fromkeys(
        ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
        "answers about pods with resource claims may be wrong",
    ),
    "PodDisruptionBudget": "no budget protects pods",
    "Namespace": "namespace selectors match no namespace",
    **dict.fromkeys(
        ("Service", "ReplicaSet", "StatefulSet", "ReplicationController"),
        "default spreading does not see the pods that belong together",
    ),
    **dict.fromkeys(("Deployment", "DaemonSet", "Job"), "questions cannot name them"),
    "PodGroup": "pods of groups look as if their groups did not exist",
    **dict.fromkeys(("PriorityClass", "RuntimeClass", "LimitRange"), "pods that you add do not get its defaults"),
}


def test_what_is_lost_without_a_permission() -> None:
    kinds = {**KINDS, **WORKLOADS}
    assert {kind: loss_without(kinds[kind]) for kind in LOSSES if kind in kinds} == {
        kind: text for kind, text in LOSSES.items() if kind in kinds
    }
    assert loss_without(EVENTS) == "explanations have no history, and do not know why controllers created no pods"
    assert loss_without(PODS) == "answers may be wrong"


def test_pods_and_nodes_are_listed_first_and_everything_once() -> None:
    assert LISTED[:2] == (PODS, NODES)
    assert len({each.kind for each in LISTED}) == len(LISTED)
    assert {each.kind for each in LISTED} == {*KINDS, *WORKLOADS}
    assert (PODS.resource, WORKLOADS["Deployment"].resource) == ("pods", "deployments.apps")
    assert not is_gated(PODS) and is_gated(KINDS["PodGroup"])


# ---- decisions


def test_edits_are_in_force_only_while_they_are_asked_about() -> None:
    view = Counterfactual(
        load([a_node("a", "2"), a_node("b", "2"), a_pod("x", "2", node="a"), a_pod("y", "1", node="b")])
    )
    there = {each.name: each for each in view.cluster.nodes.pods()}
    new = load([a_pod("new", "2")]).pending()[0]
    bigger = load([a_node("b", "8")]).objects[0]
    third = load([a_node("c", "2")]).objects[0]
    for edits, found in (
        ([], None),
        ([RemovePod(there["x"])], "a"),
        ([MovePod(there["y"], "a"), RemovePod(there["x"])], "b"),
        ([PutObject(bigger)], "b"),
        ([PutObject(third)], "c"),
        ([PutObject(third), PlacePod(there["y"].with_name("z", "z").with_node("c"))], None),
    ):
        asked: list[Any] = edits
        assert view.node_for(new, asked) == found
        assert {each.name: each.spec.node_name for each in view.cluster.nodes.pods()} == {"x": "a", "y": "b"}
        assert set(view.cluster.nodes.row_book) == {"a", "b"}
    assert view.node_for(new) is None


def test_a_gated_pod_gets_no_node() -> None:
    view = Counterfactual(load([a_node("a")]))
    gated = load([a_pod("p", schedulingGates=[{"name": "wait"}])]).pending()[0]
    assert view.node_for(gated) is None
    rejection = view.gate(gated)
    assert rejection is not None and rejection.plugin == "SchedulingGates"


def test_a_pod_of_an_unknown_scheduler_is_an_error_that_names_it() -> None:
    view = Counterfactual(load([a_node("a")]))
    other = load([a_pod("p", schedulerName="other")]).pending()[0]
    decision = view.decide(other)
    assert isinstance(decision, DecisionError)
    assert decision.error == 'no profile has the scheduler name "other"'
    assert (view.decisions, view.gate(other), view.nominate(other)) == (0, None, None)
    assert isinstance(view.decide(load([a_pod("p")]).pending()[0]), Placement)
    assert view.decisions == 1


def test_preemption_would_nominate_a_node() -> None:
    view = Counterfactual(load([a_node("a", "2"), a_pod("low", "2", node="a", priority=0)]))
    high = load([a_pod("high", "2", priority=10)]).pending()[0]
    nomination = view.nominate(high)
    assert nomination is not None
    assert (nomination.node_name, [each.name for each in nomination.victims]) == ("a", ["low"])
    assert view.nominate(load([a_pod("small", "0")]).pending()[0]) is None, "it fits"


def test_a_settled_cluster_has_placed_what_fits() -> None:
    loaded = settled(load([a_node("a", "2"), a_pod("p", "2"), a_pod("q", "2")]))
    assert sorted(each.spec.node_name for each in loaded.pods()) == ["", "a"]
    assert loaded.queue is None
    assert any(isinstance(item, Node) for item in loaded.objects)
