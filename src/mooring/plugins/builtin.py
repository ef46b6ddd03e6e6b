"""The plugins that come with Mooring: upstream's, by name, and any other that a module of a plugin family lists."""

import pkgutil
from functools import cache
from importlib import import_module

from mooring import plugins
from mooring.framework.contract.plain import PlainPlugin
from mooring.framework.contract.points import Plugin
from mooring.framework.profile.registry import Registry
from mooring.plugins.affinity.inter_pod_affinity import InterPodAffinity
from mooring.plugins.affinity.pod_topology_spread import PodTopologySpread
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.devices.dynamic_resources import DynamicResources
from mooring.plugins.groups.gang_scheduling import GangScheduling
from mooring.plugins.groups.pod_group_placement import PodGroupPodsCount, TopologyPlacementGenerator
from mooring.plugins.nodes.image_locality import ImageLocality
from mooring.plugins.nodes.node_affinity import NodeAffinity
from mooring.plugins.nodes.node_declared_features import NodeDeclaredFeatures
from mooring.plugins.nodes.node_name import NodeName
from mooring.plugins.nodes.node_ports import NodePorts
from mooring.plugins.nodes.node_unschedulable import NodeUnschedulable
from mooring.plugins.nodes.taint_toleration import TaintToleration
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.resources.node_resources_balanced import NodeResourcesBalancedAllocation
from mooring.plugins.resources.node_resources_fit import NodeResourcesFit
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.plugins.volumes.node_volume_limits import NodeVolumeLimits
from mooring.plugins.volumes.volume_binding import VolumeBinding
from mooring.plugins.volumes.volume_restrictions import VolumeRestrictions
from mooring.plugins.volumes.volume_zone import VolumeZone

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
"""Every plugin of upstream's registry. Which ones run, and in which order, is for the profile to say
(config/defaults.py)."""


def in_tree() -> Registry:
    """A registry of the plugins above, and of those that a module of a plugin family names in `PLUGINS`."""
    return Registry([*IN_TREE, *_discovered()])


@cache
def _discovered() -> tuple[type[Plugin] | type[PlainPlugin], ...]:
    """The classes that modules list in `PLUGINS`: a new plugin is one file in a family, and no line here."""
    found: list[type[Plugin] | type[PlainPlugin]] = []
    for family in pkgutil.iter_modules(plugins.__path__, f"{plugins.__name__}."):
        if family.ispkg:
            package = import_module(family.name)
            later = getattr(package, "IMPORTED_LATER", ())
            for module in pkgutil.iter_modules(package.__path__):
                if module.name not in later:
                    found += getattr(import_module(f"{family.name}.{module.name}"), "PLUGINS", ())
    return tuple(found)
