"""All plugins that come with Mooring."""

from mooring.framework.registry import Registry
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.default_preemption import DefaultPreemption
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources_balanced import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources_fit import NodeResourcesFit
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.plugins.pod_group_placement import PodGroupPodsCount, TopologyPlacementGenerator
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.plugins.taint_toleration import TaintToleration
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.plugins.volume_zone import VolumeZone

IN_TREE = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)


def in_tree() -> Registry:
    """A registry of the plugins above."""
    registry = Registry()
    for plugin in IN_TREE:
        registry.register(plugin)
    return registry
