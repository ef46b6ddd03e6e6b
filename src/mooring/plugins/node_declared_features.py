"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes only to nodes that declare it."""

import numpy as np

from mooring.framework.cycle import Cycle
from mooring.framework.points import Codes, FilterPlugin, PreFilterPlugin, Reads, Rows, reads
from mooring.framework.status import SKIP, Rejection, Skip, final
from mooring.model.shape import PodShape


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    name = "NodeDeclaredFeatures"

    @reads(Reads.SHAPE)
    def pre_filter(self, cycle: Cycle) -> Skip | None:
        return None if required_features(cycle.shape) else SKIP

    @reads(Reads.NODE)
    def filter(self, cycle: Cycle, rows: Rows) -> Codes | None:
        required = required_features(cycle.shape)
        lacking = np.array([not required <= declared for declared in cycle.nodes.feature_sets], np.int64)
        return lacking[cycle.nodes.feature_set[rows]]

    def rejection(self, cycle: Cycle, code: int) -> Rejection:
        return final("node(s) didn't match Pod's required features")


def required_features(shape: PodShape) -> frozenset[str]:
    """The features that a pod of this shape cannot do without."""
    required = set()
    if any(rule.action == "RestartAllContainers" for c in shape.containers for rule in c.restart_policy_rules or ()):
        required.add("RestartAllContainersOnContainerExits")
    if shape.spec.host_network and shape.spec.host_users is False:
        required.add("UserNamespacesHostNetworkSupport")
    return frozenset(required)
