"""Which events each plugin registers, and for which of them it has a hint: the table of the specification."""

import pytest

from build import a_pod
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import Action, Change
from mooring.framework.contract.points import Handle
from mooring.plugins import in_tree

ALWAYS, HINTED = "always", "hinted"
NODE_ADD_LABEL = Action.ADD | Action.UPDATE_NODE_LABEL
CHANGED = Action.ADD | Action.UPDATE

REGISTERED: dict[str, set[tuple[str, Action, str]] | None] = {
    "AgentScore": set(),
    "SchedulingGates": {("TargetPod", Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, ALWAYS)},
    "NodeUnschedulable": {
        ("Node", Action.ADD | Action.UPDATE_NODE_TAINT, HINTED),
        ("TargetPod", Action.UPDATE_POD_TOLERATION, HINTED),
    },
    "NodeName": {("Node", Action.ADD, ALWAYS)},
    "TaintToleration": {
        ("Node", Action.ADD | Action.UPDATE_NODE_TAINT, HINTED),
        ("TargetPod", Action.UPDATE_POD_TOLERATION, ALWAYS),
    },
    "NodeAffinity": {("Node", NODE_ADD_LABEL, HINTED)},
    "NodePorts": {("AssignedPod", Action.DELETE, HINTED), ("Node", Action.ADD, ALWAYS)},
    "NodeResourcesFit": {
        ("AssignedPod", Action.DELETE, HINTED),
        ("AssignedPod", Action.UPDATE_POD_SCALE_DOWN, HINTED),
        ("TargetPod", Action.UPDATE_POD_SCALE_DOWN, ALWAYS),
        ("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, HINTED),
        ("resource.k8s.io/DeviceClass", CHANGED, HINTED),
    },
    "VolumeRestrictions": {
        ("AssignedPod", Action.DELETE, HINTED),
        ("Node", Action.ADD, ALWAYS),
        ("PersistentVolumeClaim", Action.ADD, HINTED),
    },
    "DeferredPodScheduling": {
        ("Node", Action.UPDATE_NODE_PREEMPTION_POLICY, HINTED),
        ("Node", Action.ADD, HINTED),
    },
    "NodeVolumeLimits": {
        ("storage.k8s.io/CSINode", Action.ADD, ALWAYS),
        ("storage.k8s.io/CSINode", Action.UPDATE, HINTED),
        ("AssignedPod", Action.DELETE, HINTED),
        ("PersistentVolumeClaim", Action.ADD, HINTED),
        ("storage.k8s.io/VolumeAttachment", Action.DELETE, HINTED),
    },
    "VolumeBinding": {
        ("storage.k8s.io/StorageClass", CHANGED, HINTED),
        ("PersistentVolumeClaim", CHANGED, HINTED),
        ("PersistentVolume", CHANGED, ALWAYS),
        ("Node", NODE_ADD_LABEL, ALWAYS),
        ("storage.k8s.io/CSINode", CHANGED, HINTED),
        ("storage.k8s.io/CSIDriver", Action.UPDATE, HINTED),
        ("storage.k8s.io/CSIStorageCapacity", CHANGED, HINTED),
    },
    "VolumeZone": {
        ("storage.k8s.io/StorageClass", Action.ADD, HINTED),
        ("Node", NODE_ADD_LABEL, ALWAYS),
        ("PersistentVolumeClaim", CHANGED, HINTED),
        ("PersistentVolume", CHANGED, HINTED),
    },
    "PodTopologySpread": {
        ("AssignedPod", Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL, HINTED),
        ("TargetPod", Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION, HINTED),
        ("Node", Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT, HINTED),
    },
    "InterPodAffinity": {
        ("AssignedPod", Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL, HINTED),
        ("TargetPod", Action.UPDATE_POD_LABEL, ALWAYS),
        ("Node", NODE_ADD_LABEL, HINTED),
    },
    "DynamicResources": {
        ("Node", NODE_ADD_LABEL | Action.UPDATE_NODE_ALLOCATABLE, ALWAYS),
        ("resource.k8s.io/ResourceClaim", CHANGED | Action.DELETE, HINTED),
        ("TargetPod", Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, HINTED),
        ("resource.k8s.io/DeviceClass", CHANGED, ALWAYS),
        ("resource.k8s.io/ResourceSlice", CHANGED, ALWAYS),
    },
    "DefaultPreemption": {("AssignedPod", Action.DELETE, HINTED)},
    "NodeDeclaredFeatures": {
        ("Node", Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE, HINTED),
        ("TargetPod", Action.UPDATE, HINTED),
    },
    "GangScheduling": {
        ("UnscheduledPod", Action.ADD, HINTED),
        ("AssignedPod", Action.ADD, HINTED),
        ("scheduling.k8s.io/PodGroup", Action.ADD, HINTED),
        ("scheduling.k8s.io/PodGroup", Action.UPDATE, HINTED),
    },
    # These never reject a pod, so nothing can make up for it.
    "TopologyPlacementGenerator": set(),
    "PodGroupPodsCount": set(),
    "PrioritySort": None,
    "NodeResourcesBalancedAllocation": None,
    "ImageLocality": None,
    "DefaultBinder": None,
}
PLUGINS = {name: build(None, Handle()) for name, build in in_tree().items()}


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_registers_what_the_table_says(name: str) -> None:
    """v1.37, 4.6."""
    events = PLUGINS[name].events()
    if events is None:
        assert REGISTERED[name] is None
        return
    table = [(r.event.resource, r.event.action, HINTED if r.hint else ALWAYS) for r in events]
    assert len(table) == len(set(table))
    assert set(table) == REGISTERED[name]


def test_no_pod_that_leaves_wakes_one_for_default_preemption() -> None:
    """Its victims wake the preemptor through the plugins that rejected it."""
    for registration in PLUGINS["DefaultPreemption"].events() or ():
        assert registration.hint is not None
        assert not registration.hint(a_pod(), Change(a_pod("victim", nodeName="n1"), None, Cluster()))


@pytest.mark.parametrize("name", ["NodeDeclaredFeatures"])
def test_v137_11_10_a_gate_that_is_locked_takes_no_events_away(name: str) -> None:
    plugin = in_tree().factory(name)(None, Handle(feature_gates={"NodeDeclaredFeatures": False}))
    assert {registration.event.resource for registration in plugin.events() or ()} == {"TargetPod", "Node"}


def test_v137_16_node_resources_fit_registers_pods_that_grow_with_the_gate_alone() -> None:
    """v1.37, 4.6: a pod whose resize was deferred may have to preempt when others grow."""
    gates = {"InPlacePodVerticalScalingSchedulerPreemption": True}
    events = dict(in_tree().items())["NodeResourcesFit"](None, Handle(feature_gates=gates)).events() or ()
    more = {(r.event.resource, r.event.action, HINTED if r.hint else ALWAYS) for r in events}
    assert more - (REGISTERED["NodeResourcesFit"] or set()) == {
        ("AssignedPod", Action.UPDATE_POD_SCALE_UP, HINTED),
        ("TargetPod", Action.UPDATE_POD_SCALE_UP, HINTED),
    }
