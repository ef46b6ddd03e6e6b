"""What updates of pods and nodes amount to: which events, in which order."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from mooring.framework.contract.events import ClusterEvent
from mooring.model.meta import Condition
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.queue.hints import pod_events
from mooring.scheduler.intake import node_events


def names(events: Sequence[ClusterEvent]) -> list[str]:
    return [event.label for event in events]


HOLD, WAIT = {"name": "example.com/hold"}, {"name": "example.com/wait"}
EXISTS, SOME = {"operator": "Exists"}, {"key": "a", "operator": "Exists"}


def running(cpu: str, in_force: str, **more: Any) -> Pod:
    resources = {"requests": {"cpu": in_force}}
    return a_pod(
        nodeName="n1", cpu=cpu, status={"containerStatuses": [{"name": "main", "resources": resources}], **more}
    )


def claimed(name: str | None, **more: Any) -> Pod:
    return a_pod(status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}], **more})


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
EXTENDED = {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}

PODS: dict[str, tuple[Pod, Pod, list[str]]] = {
    "labels change": (a_pod(), a_pod(labels={"a": "b"}), ["UnscheduledPodUpdatePodLabel"]),
    "labels of a pod on a node change": (
        a_pod(nodeName="n1"),
        a_pod(nodeName="n1", labels={"a": "b"}),
        ["AssignedPodUpdatePodLabel"],
    ),
    "the new object tells whether a pod is assigned": (
        a_pod(),
        a_pod(nodeName="n1", labels={"a": "b"}),
        ["AssignedPodUpdatePodLabel"],
    ),
    "no labels and an empty list of them are the same": (
        a_pod(),
        a_pod(metadata={"labels": None}),
        ["UnscheduledPodUpdate"],
    ),
    "a request shrinks": (a_pod(cpu="2"), a_pod(cpu="1"), ["UnscheduledPodUpdatePodScaleDown"]),
    "a request vanishes": (
        a_pod(cpu="2", memory="1Gi"),
        a_pod(cpu="2"),
        ["UnscheduledPodUpdatePodScaleDown"],
    ),
    "a request of zero vanishes": (a_pod(cpu="0"), a_pod(), ["UnscheduledPodUpdatePodScaleDown"]),
    "one request shrinks while another grows": (
        a_pod(cpu="2", memory="1Gi"),
        a_pod(cpu="3", memory="1Mi"),
        ["UnscheduledPodUpdatePodScaleDown", "UnscheduledPodUpdatePodScaleUp"],
    ),
    "a request grows": (a_pod(cpu="1"), a_pod(cpu="2"), ["UnscheduledPodUpdatePodScaleUp"]),
    "a request is written in another way": (a_pod(cpu="1"), a_pod(cpu="1000m"), ["UnscheduledPodUpdate"]),
    "overhead shrinks": (
        a_pod(overhead={"cpu": "2"}),
        a_pod(overhead={"cpu": "1"}),
        ["UnscheduledPodUpdatePodScaleDown"],
    ),
    "the request shrinks but the container runs with as much": (
        running("2", "2"),
        running("1", "2"),
        ["AssignedPodUpdate"],
    ),
    "the container runs with less at last": (
        running("1", "2"),
        running("1", "1"),
        ["AssignedPodUpdatePodScaleDown"],
    ),
    "a resize turns out to be infeasible": (
        running("4", "2"),
        running("4", "2", **INFEASIBLE),
        ["AssignedPodUpdatePodScaleDown"],
    ),
    "the last gate goes": (
        a_pod(schedulingGates=[HOLD]),
        a_pod(schedulingGates=[]),
        ["UnscheduledPodUpdatePodSchedulingGatesEliminated"],
    ),
    "one of two gates goes": (
        a_pod(schedulingGates=[HOLD, WAIT]),
        a_pod(schedulingGates=[WAIT]),
        ["UnscheduledPodUpdate"],
    ),
    "a toleration is added": (
        a_pod(),
        a_pod(tolerations=[EXISTS]),
        ["UnscheduledPodUpdatePodToleration"],
    ),
    "a toleration is replaced, which their number does not tell": (
        a_pod(tolerations=[EXISTS]),
        a_pod(tolerations=[SOME]),
        ["UnscheduledPodUpdate"],
    ),
    "a claim is made": (a_pod(), claimed("c"), ["UnscheduledPodUpdatePodGeneratedResourceClaim"]),
    "another claim is made": (claimed("c"), claimed("d"), ["UnscheduledPodUpdatePodGeneratedResourceClaim"]),
    "it turns out that no claim is needed": (
        a_pod(),
        claimed(None),
        ["UnscheduledPodUpdatePodGeneratedResourceClaim"],
    ),
    "a claim for extended resources is made": (
        a_pod(),
        a_pod(status=EXTENDED),
        ["UnscheduledPodUpdatePodGeneratedResourceClaim"],
    ),
    "no claims and an empty list of them are the same": (
        a_pod(),
        a_pod(status={"resourceClaimStatuses": []}),
        ["UnscheduledPodUpdate"],
    ),
    "a pod begins to terminate": (
        a_pod(nodeName="n1"),
        a_pod(nodeName="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ["AssignedPodUpdate"],
    ),
    "nothing changes": (a_pod(), a_pod(), ["UnscheduledPodUpdate"]),
    "everything changes at once": (
        a_pod(cpu="2", schedulingGates=[HOLD]),
        a_pod(cpu="1", labels={"a": "b"}, tolerations=[EXISTS], status=EXTENDED),
        [
            "UnscheduledPodUpdatePodLabel",
            "UnscheduledPodUpdatePodScaleDown",
            "UnscheduledPodUpdatePodSchedulingGatesEliminated",
            "UnscheduledPodUpdatePodToleration",
            "UnscheduledPodUpdatePodGeneratedResourceClaim",
        ],
    ),
}


@pytest.mark.parametrize(("old", "new", "events"), PODS.values(), ids=PODS.keys())
def test_pods(old: Pod, new: Pod, events: list[str]) -> None:
    assert names(pod_events(old, new)) == events


def a_node_with(
    *, annotations: dict[str, str] | None = None, conditions: dict[str, str] | None = None, **more: Any
) -> Node:
    node = a_node(**more)
    node.metadata.annotations = annotations
    node.status.conditions = [Condition(type=kind, status=status) for kind, status in (conditions or {}).items()]
    return node


def with_heartbeat(node: Node, text: str) -> Node:
    node = msgspec.convert(msgspec.to_builtins(node), Node)
    for condition in node.status.conditions or ():
        condition.last_transition_time = condition.reason = condition.message = text
    return node


READY = a_node_with(conditions={"Ready": "True"})
TAINT = "node.kubernetes.io/unschedulable:NoSchedule"

NODES: dict[str, tuple[Node, Node, list[str]]] = {
    "nothing changes": (a_node(), a_node(), []),
    "a heartbeat": (with_heartbeat(READY, "before"), with_heartbeat(READY, "after"), []),
    "images change": (a_node(), a_node(images={"nginx:1": 5}), []),
    "a node is uncordoned": (a_node(unschedulable=True), a_node(), ["NodeUpdateNodeTaint"]),
    "a node is cordoned": (a_node(), a_node(unschedulable=True), []),
    "the taint of a cordoned node appears": (
        a_node(unschedulable=True),
        a_node(unschedulable=True, taints=[TAINT]),
        ["NodeUpdateNodeTaint"],
    ),
    "a node is uncordoned and loses its taint": (
        a_node(unschedulable=True, taints=[TAINT]),
        a_node(),
        ["NodeUpdateNodeTaint", "NodeUpdateNodeTaint"],
    ),
    "a taint changes its value": (
        a_node(taints=["a=1:NoSchedule"]),
        a_node(taints=["a=2:NoSchedule"]),
        ["NodeUpdateNodeTaint"],
    ),
    "a resource grows": (a_node(cpu="1"), a_node(cpu="2"), ["NodeUpdateNodeAllocatable"]),
    "a resource appears": (a_node(), a_node(allocatable={"x.io/y": 1}), ["NodeUpdateNodeAllocatable"]),
    "a resource vanishes": (a_node(allocatable={"x.io/y": 1}), a_node(), ["NodeUpdateNodeAllocatable"]),
    "a resource of zero appears": (a_node(), a_node(allocatable={"x.io/y": 0}), ["NodeUpdateNodeAllocatable"]),
    "a resource is written in another way": (a_node(cpu="1", memory="1Gi"), a_node(cpu="1000m", memory="1024Mi"), []),
    "labels change": (a_node(), a_node(labels={"a": "b"}), ["NodeUpdateNodeLabel"]),
    "a condition changes its status": (
        READY,
        a_node_with(conditions={"Ready": "False"}),
        ["NodeUpdateNodeCondition"],
    ),
    "a condition appears": (a_node(), READY, ["NodeUpdateNodeCondition"]),
    "conditions change places": (
        a_node_with(conditions={"Ready": "True", "DiskPressure": "False"}),
        a_node_with(conditions={"DiskPressure": "False", "Ready": "True"}),
        [],
    ),
    "annotations change": (a_node(), a_node_with(annotations={"a": "b"}), ["NodeUpdateNodeAnnotation"]),
    "no annotations and an empty list of them are the same": (a_node(), a_node_with(annotations={}), []),
    "a feature is declared": (a_node(), a_node(features=["F"]), ["NodeUpdateNodeDeclaredFeature"]),
    "no features and an empty list of them are the same": (a_node(), a_node(features=[]), []),
    "who disables preemption changes": (
        a_node(podPreemptionPolicy={"disableResizePreemption": ["a.io/b"]}),
        a_node(podPreemptionPolicy={"disableResizePreemption": ["a.io/c"]}),
        ["NodeUpdateNodePreemptionPolicy"],
    ),
    "an empty policy appears": (a_node(), a_node(podPreemptionPolicy={}), ["NodeUpdateNodePreemptionPolicy"]),
    "no list in a policy and an empty one are the same": (
        a_node(podPreemptionPolicy={}),
        a_node(podPreemptionPolicy={"disableResizePreemption": []}),
        [],
    ),
    "everything changes at once": (
        a_node(unschedulable=True),
        a_node_with(
            cpu="9",
            labels={"a": "b"},
            taints=["a:NoSchedule"],
            conditions={"Ready": "True"},
            annotations={"a": "b"},
            features=["F"],
            podPreemptionPolicy={},
        ),
        [
            "NodeUpdateNodeTaint",
            "NodeUpdateNodeAllocatable",
            "NodeUpdateNodeLabel",
            "NodeUpdateNodeTaint",
            "NodeUpdateNodeCondition",
            "NodeUpdateNodeAnnotation",
            "NodeUpdateNodePreemptionPolicy",
            "NodeUpdateNodeDeclaredFeature",
        ],
    ),
}


@pytest.mark.parametrize(("old", "new", "events"), NODES.values(), ids=NODES.keys())
def test_nodes(old: Node, new: Node, events: list[str]) -> None:
    assert names(node_events(old, new)) == events
