"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes only to nodes that declare it."""

from collections.abc import Sequence

import numpy as np

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    NODE,
    TARGET_POD_UPDATE,
    Action,
    Change,
    ClusterEvent,
    Registration,
    new_node_of,
    nodes_of,
    pods_of,
)
from mooring.framework.contract.points import Codes, FilterPlugin, Need, PreFilterPlugin, Reads, Rows, reads
from mooring.framework.contract.status import SKIP, Rejection, Skip, final
from mooring.model.pod import Pod
from mooring.model.shape import PodPart, PodShape


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    """Always on: upstream's gate of the same name is locked."""

    name = "NodeDeclaredFeatures"
    skips_resizes = True
    is_same_in_all_profiles = True
    needs = (Need("filter", "preFilter", 'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'),)

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), _declares_others),
            Registration(TARGET_POD_UPDATE, _needs_others),
        )

    @reads(Reads.SHAPE, PodPart.FEATURES)
    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        """SKIP for pods that need no feature. Reads.SHAPE is right: only the pod's spec decides what it needs."""
        return None if required_features(context.shape) else SKIP

    @reads(Reads.NODE, PodPart.FEATURES)
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Feature sets of nodes are interned, so each distinct set is compared once.

        Reads.NODE is right: the declared features are part of the node's status.
        """
        required = required_features(context.shape)
        lacking = np.array([not required <= declared for declared in context.nodes.features.values], np.int64)
        return lacking[context.nodes.features.codes[rows]]

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return final("node(s) didn't match Pod's required features")


def _declares_others(pod: Pod, change: Change) -> bool:
    """Whether a node came, or declares other features than before. Parity: which features the pod needs is not checked
    here."""
    (old, _), new = nodes_of(change), new_node_of(change)
    return old is None or (old.status.declared_features or []) != (new.status.declared_features or [])


def _needs_others(pod: Pod, change: Change) -> bool:
    """Whether the pod changed so that it needs other features."""
    old, new = pods_of(change)
    return old is not None and new is not None and required_features(old.shape) != required_features(new.shape)


def required_features(shape: PodShape) -> frozenset[str]:
    """The features that a pod of this shape needs. Upstream's list for v1.37: each feature has a rule that reads the
    pod's spec. None of them has an end yet (MaxVersion), so all count whatever the version."""
    required = set()
    if "RestartAllContainers" in shape.restart_actions:
        required.add("RestartAllContainersOnContainerExits")
    if shape.host_network and shape.host_users is False:
        required.add("UserNamespacesHostNetworkSupport")
    if shape.has_bind_mount_options:
        required.add("VolumeBindMountOptions")
    return frozenset(required)


PLUGINS = (NodeDeclaredFeatures,)
