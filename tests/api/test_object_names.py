"""Kinds in names of objects are written as kubectl takes and prints them."""

import pytest

from mooring.api.kinds import KINDS, WORKLOADS, node_name, other_kind, pod_name, split_kind
from mooring.api.kinds.nodes import NODE
from mooring.api.kinds.pods import POD

EVERY = (*WORKLOADS.values(), *KINDS.values())


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("Pod", "po pod pods Pod PODS pod.v1."),
        ("Node", "no node nodes Node nodes.v1."),
        (
            "Deployment",
            "deploy deployment deployments deployment.apps deployments.apps deploy.apps deployments.v1.apps",
        ),
        ("StatefulSet", "sts statefulset statefulsets statefulset.apps"),
        ("DaemonSet", "ds daemonset daemonset.apps"),
        ("ReplicaSet", "rs replicaset replicaset.apps"),
        ("ReplicationController", "rc replicationcontroller replicationcontrollers"),
        ("Job", "job jobs job.batch jobs.batch jobs.v1.batch"),
        ("PodGroup", "podgroup podgroups podgroup.scheduling.k8s.io"),
        ("PersistentVolumeClaim", "pvc persistentvolumeclaims"),
    ],
)
def test_a_kind_is_known_by_what_kubectl_takes_and_prints(kind: str, written: str) -> None:
    for each in written.split():
        spec, rest = split_kind(f"{each}/shop/web", EVERY)
        assert spec is not None and (spec.kind, rest) == (kind, "shop/web"), each


@pytest.mark.parametrize("written", ["web", "shop/web", "po", "po/", "pod.apps/web", "jobs.v2.batch/x"])
def test_what_is_not_written_with_a_kind_stays_as_it_is(written: str) -> None:
    assert split_kind(written, EVERY) == (None, written)


def test_only_kinds_that_are_asked_for_are_taken_away() -> None:
    assert pod_name("pod/web-0") == "web-0" and pod_name("po/shop/web-0") == "shop/web-0"
    assert pod_name("deployment/web") == "deployment/web" and pod_name("shop/web-0") == "shop/web-0"
    assert node_name("no/n-1") == node_name("node/n-1") == node_name("n-1") == "n-1"
    assert split_kind("node/n-1", (POD,)) == (None, "node/n-1") and split_kind("node/n-1", (NODE,)) == (NODE, "n-1")


def test_a_name_of_another_kind_is_told() -> None:
    assert other_kind("node/n-1") == "; it names a Node: name a pod"
    assert other_kind("deploy/web") == "; it names a Deployment: name a pod"
    assert other_kind("shop/web") == other_kind("pod/web") == ""
