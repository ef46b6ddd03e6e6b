"""Cluster events and queueing hints: which change can make a pod schedulable that a plugin rejected.

A plugin registers the events that could cure its rejections, each with a hint that looks at the change more closely.
The queue wakes an unschedulable pod only when a plugin that rejected it says so.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from enum import IntFlag
from typing import cast

import msgspec

from mooring.api.kinds import WATCHED
from mooring.cluster.cluster import Cluster
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod


class Action(IntFlag):
    """Kind of change to an object, as upstream's ActionType. The numbers matter: see `ClusterEvent.covers`."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_NODE_PREEMPTION_POLICY = 256
    UPDATE_POD_LABEL = 512
    UPDATE_POD_SCALE_DOWN = 1024
    UPDATE_POD_SCALE_UP = 2048
    UPDATE_POD_TOLERATION = 4096
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 8192
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 16384
    UPDATE = 32764
    """All bits of updates together."""
    ALL = 32767


POD = "Pod"
"""In a registration: all three kinds of pods below. No event that comes in has it."""
ASSIGNED_POD = "AssignedPod"
"""A pod that is on a node."""
UNSCHEDULED_POD = "UnscheduledPod"
"""A pod without a node, other than the one that is asked about."""
TARGET_POD = "TargetPod"
"""The very pod that waits and is asked about: its own update."""
UNSCHEDULABLE_POD = "UnschedulablePod"
"""In a registration: any pod without a node, be it the one that is asked about or another. The name is that of
Kubernetes 1.36; plugins that use it keep working."""
NODE = "Node"
"""Nodes, as pods, have events of their own. All other kinds have their name in `KindSpec.event`."""
ANYTHING = "*"
"""In a registration: objects of any kind."""
_PODS_MEANT = {
    POD: (ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD),
    UNSCHEDULABLE_POD: (UNSCHEDULED_POD, TARGET_POD),
}
"""Registrations for several kinds of pods."""

_ACTION_NAMES = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE: "Update",
    Action.ALL: "All",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_NODE_PREEMPTION_POLICY: "UpdateNodePreemptionPolicy",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
}
"""Upstream's names: they are label values of metrics."""
_SINGLE = tuple(each for each in _ACTION_NAMES if each not in (Action.UPDATE, Action.ALL))


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A kind of change: to what, and what happened."""

    resource: str
    action: Action
    custom_label: str = field(default="", compare=False)
    """For events that are no change of an object. It does not take part in comparisons."""
    label: str = field(init=False, repr=False, compare=False)
    """The name in metrics and stories: resource and action, as upstream joins them."""
    is_wildcard: bool = field(init=False, repr=False, compare=False)
    """Whether a registration of this event covers every event."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hot: each change in the cluster asks for all three; to hash an event took 1.5 µs, a label 0.6."""
        label = self.custom_label or f"{self.resource}{_ACTION_NAMES.get(self.action, '')}"
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "is_wildcard", self.resource == ANYTHING and self.action == Action.ALL)
        object.__setattr__(self, "_hash", hash((self.resource, self.action)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type["ClusterEvent"], tuple[str, Action, str]]:
        """Texts have other hashes in another process, so a copy there works out its own."""
        return ClusterEvent, (self.resource, self.action, self.custom_label)

    def names(self) -> list[str]:
        """The changes that it stands for, such as `Node/Add`."""
        parts = [self.action] if self.action in _ACTION_NAMES else [each for each in _SINGLE if each in self.action]
        if Action.UPDATE in self.action and len(parts) > 1:
            parts = [*(each for each in parts if each not in Action.UPDATE), Action.UPDATE]
        return [f"{self.resource}/{_ACTION_NAMES[each]}" for each in parts]

    def covers(self, incoming: "ClusterEvent") -> bool:
        """Whether a registration of this event is meant by an event that came in.

        Parity: actions are compared as numbers too, so an unspecific Update never meets a registration of one bit.
        """
        if self.is_wildcard:
            return True
        same = self.resource in (incoming.resource, ANYTHING) or incoming.resource in _PODS_MEANT.get(self.resource, ())
        # Hot: as plain numbers; IntFlag makes an Action of what they have in common, in 0.7 µs
        return same and int.__and__(self.action, incoming.action) != 0 and incoming.action <= self.action


ASSIGNED_POD_ADD = ClusterEvent(ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(ASSIGNED_POD, Action.DELETE)
ASSIGNED_POD_UPDATE = ClusterEvent(ASSIGNED_POD, Action.UPDATE)
UNSCHEDULED_POD_ADD = ClusterEvent(UNSCHEDULED_POD, Action.ADD)
UNSCHEDULED_POD_UPDATE = ClusterEvent(UNSCHEDULED_POD, Action.UPDATE)
UNSCHEDULED_POD_DELETE = ClusterEvent(UNSCHEDULED_POD, Action.DELETE)
TARGET_POD_UPDATE = ClusterEvent(TARGET_POD, Action.UPDATE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(ANYTHING, Action.ALL, "UnschedulableTimeout")
"""The flush of pods that were unschedulable for too long."""
FORCE_ACTIVATE = ClusterEvent(ANYTHING, Action.ALL, "ForceActivate")
"""A plugin asked for the pod to be tried again."""
CONFIGURATION_CHANGE = ClusterEvent(ANYTHING, Action.ALL, "ConfigurationChange")
"""The scheduler has other profiles: what the former ones rejected, these may accept."""


class Change(msgspec.Struct, frozen=True):
    """An object before and after: an addition has no `old`, a removal no `new`."""

    old: KubeObject | None
    new: KubeObject | None
    cluster: Cluster


Hint = Callable[[Pod, Change], bool]
"""Whether the change could make the pod schedulable as far as the plugin is concerned (upstream: Queue or QueueSkip)."""


class EventKeys(msgspec.Struct, frozen=True):
    """The keys by which a change names the pods that it is about, such as the name of the claim that changed.

    The queue files waiting pods by these keys, so that it need not ask about each of thousands of pods. The keys of a pod
    depend on the pod alone. A hint must say no to every pod that has none of the keys of the change.
    """

    of_pod: Callable[[Pod], Iterable[Hashable]]
    of_change: Callable[[Change], Iterable[Hashable] | None]
    """None: the change may be about any pod."""
    narrows: bool = False
    """Whether these are the keys of a PreQueueingHint of upstream. With the gate SchedulerPreQueueingHints no plugin is asked
    about pods that no such keys name."""
    by_group: bool = False
    """Whether all pods of a PodGroup have the same keys, and get the same answer from the hint: one of them is asked."""


class Registration(msgspec.Struct, frozen=True):
    """An event that could cure rejections of a plugin. Without a hint every such event wakes the pods that it
    rejected."""

    event: ClusterEvent
    hint: Hint | None = None
    keys: EventKeys | None = None
    """None: the hint is asked about every pod that the plugin rejected."""


EVERYTHING = tuple(
    Registration(ClusterEvent(spec.event, Action.ALL)) for spec, watch in WATCHED.items() if watch.wakes_by_default
)
"""The registrations of a plugin that can reject pods but does not say which events could cure that."""


# ---- Questions about a change that the queueing hints of several plugins ask.
#
# A hint gets the waiting pod and a Change (old object, new object), and says whether the change may let the pod pass
# the plugin that rejected it. A wrong no leaves the pod unschedulable for up to five minutes; a wrong yes costs one
# attempt.


def pods_of(change: Change) -> tuple[Pod | None, Pod | None]:
    """The pod before and after; at least one of them is there."""
    return cast("Pod | None", change.old), cast("Pod | None", change.new)


def nodes_of(change: Change) -> tuple[Node | None, Node | None]:
    """The node before and after; at least one of them is there."""
    return cast("Node | None", change.old), cast("Node | None", change.new)


def new_node_of(change: Change) -> Node:
    """The node as it is now: for events that are never removals."""
    return cast("Node", change.new)


def has_place(pod: Pod) -> bool:
    """Whether the pod is on a node, or nominated to one. Other pods use no resources, so their changes help no other
    pod."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
