"""Takes in changes of the cluster: each goes to the cache, to the queue, or both, and wakes the pods that it may help.

The order within one change matters: the cache comes before the queue, so that a woken pod that is tried at once sees
the change. Upstream's exceptions are marked.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import cast

import msgspec

from mooring.api.kinds import WATCHED
from mooring.api.kinds.devices import RESOURCE_SLICE
from mooring.cluster.claims.device_objects import taints_of
from mooring.cluster.nodes.table import ClusterError
from mooring.cluster.pods.pod_groups import name_of
from mooring.framework.contract.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    Action,
    ClusterEvent,
)
from mooring.model.devices import DeviceTaintRule, ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import FINISHED_PHASES, ResourceList
from mooring.model.quantity import parse_or
from mooring.model.workloads import AnyPodGroup
from mooring.queue.hints import pod_events
from mooring.scheduler.core import Core
from mooring.scheduler.evict import leaves
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.pre_bind import changed, pod_gone

_RESOURCES: Mapping[type[KubeObject], str] = {
    spec.struct: spec.event for spec, watch in WATCHED.items() if watch.wakes_pods
}
"""Kinds whose changes plugins may wait for. All others are only looked up."""

NODE_ADD = ClusterEvent(NODE, Action.ADD)
NODE_DELETE = ClusterEvent(NODE, Action.DELETE)
_SLICE_UPDATE = ClusterEvent(RESOURCE_SLICE.event, Action.UPDATE)


def added(core: Core, change: ObjectAdded) -> None:
    """An object was created, or is seen for the first time."""
    if core.is_observed:
        core.observer.change_arrived()
    item = change.item
    if isinstance(item, Pod):
        as_counted = core.cluster.as_counted
        _pod_added(core, as_counted(item))
        if core.services.pod_listeners:
            _notify_listeners(core, None, item)
    elif isinstance(item, Node):
        core.cluster.nodes.put_node(item)
        core.queue.wake(NODE_ADD, None, item)
        core.observer.change_handled(NODE_ADD)
    else:
        _changed(core, Action.ADD, None, item)


def updated(core: Core, change: ObjectUpdated) -> None:
    """An object was changed."""
    core.observer.change_arrived()
    old, new = change.old, change.new
    if isinstance(old, Pod) and isinstance(new, Pod):
        _pod_updated(core, core.cluster.as_counted(old), core.cluster.as_counted(new))
        _notify_listeners(core, old, new)
    elif isinstance(old, Node) and isinstance(new, Node):
        core.cluster.nodes.put_node(new)
        _wake_for_each(core, node_events(old, new), old, new)
    else:
        _changed(core, Action.UPDATE, old, new)


def removed(core: Core, change: ObjectRemoved) -> None:
    """An object was deleted."""
    core.observer.change_arrived()
    item = change.item
    if isinstance(item, Pod):
        _pod_removed(core, core.cluster.as_counted(item))
        _notify_listeners(core, item, None)
    elif isinstance(item, Node):
        core.queue.wake(NODE_DELETE, item, None)  # Parity: before the node is gone
        _guard(core, partial(core.cluster.nodes.remove_node, item.name))
        core.observer.change_handled(NODE_DELETE)
    else:
        _changed(core, Action.DELETE, item, None)


def _changed(core: Core, action: Action, old: KubeObject | None, new: KubeObject | None) -> None:
    """A change of any kind but pods and nodes: wake pods, and PreBind runs that wait for the object."""
    item = new or old
    if item is None:
        return
    if isinstance(item, ResourceClaim) and new is None:
        old = core.cluster.claims.get(item.key) or item  # what was written last, though no watch has shown it
    if isinstance(item, DeviceTaintRule):
        _rule_changed(core, old, new)
    elif isinstance(item, AnyPodGroup):
        if _is_seen_again(old, new):
            return
        _group_changed(core, cast("AnyPodGroup | None", old), cast("AnyPodGroup | None", new))
    else:
        _put_or_remove(core, old, new)
    resource = _RESOURCES.get(type(item))
    if resource is not None:
        _wake_for_each(core, (ClusterEvent(resource, action),), old, new)
    changed(core, item)


def _is_seen_again(old: KubeObject | None, new: KubeObject | None) -> bool:
    """Whether an update shows the version of an object that is known already, as a resync does."""
    if old is None or new is None:
        return False
    return bool(new.metadata.resource_version) and old.metadata.resource_version == new.metadata.resource_version


def _put_or_remove(core: Core, old: KubeObject | None, new: KubeObject | None) -> None:
    if new is not None:
        core.cluster.put(new)
    elif old is not None:
        core.cluster.remove(type(old), old.key)


def _rule_changed(core: Core, old: KubeObject | None, new: KubeObject | None) -> None:
    """A rule that taints devices has no event of its own: for pods it is a change of each slice whose devices have other
    taints now."""
    slices = core.cluster.tainted_slices
    before = slices.selected_by(*(each for each in (old, new) if isinstance(each, DeviceTaintRule)))
    _put_or_remove(core, old, new)
    for name, known in before.items():
        tainted = slices.get(name)
        if tainted is not None and taints_of(tainted) != taints_of(known):
            _wake_for_each(core, (_SLICE_UPDATE,), known, tainted)


def _wake_for_each(core: Core, events: Iterable[ClusterEvent], old: KubeObject | None, new: KubeObject | None) -> None:
    """One change may be several events (a node's labels and taints): each wakes the pods that registered for it."""
    for event in events:
        core.queue.wake(event, old, new)
        core.observer.change_handled(event)


# ---- pods


def _notify_listeners(core: Core, old: Pod | None, new: Pod | None) -> None:
    """Tell plugins that listen to pods of a change. Their faults must not lose it for others."""
    for listen in core.services.pod_listeners:
        try:
            listen(old, new)
        except Exception as fault:  # a plugin may raise anything
            pod = new or old
            core.report(f"a plugin failed on a change of pod {pod.key if pod is not None else ''}", fault)


def _pod_added(core: Core, pod: Pod) -> None:
    """A pod that is on a node counts there; one of ours without a node is queued, and so is one with a deferred resize; those
    of other schedulers are only known."""
    if pod.status.phase in FINISHED_PHASES:
        return
    core.pods[pod.key] = pod
    spec = pod.spec
    is_ours = spec.scheduler_name in core.runners
    if is_ours and (not spec.node_name or core.cluster.is_resize(pod)):
        queue_pod(core, pod)
    if spec.node_name:
        _assigned(core, pod)


def queue_pod(core: Core, pod: Pod) -> None:
    """A pod of ours is to be scheduled: one without a node, or one whose resize needs room on its node."""
    pod.shape.work_out()
    groups = core.cluster.groups
    if groups is not None:
        groups.add(pod)
    core.queue.add(pod)
    if groups is not None:
        core.queue.wake(UNSCHEDULED_POD_ADD, None, pod)  # members of its group may have waited for one more
    if core.is_observed:
        core.observer.change_handled(UNSCHEDULED_POD_ADD)


def _pod_updated(core: Core, old: Pod, new: Pod) -> None:
    """A pod changed. It may have finished, may be another pod of the same name, or may have got its node since."""
    if old.is_finished:
        _pod_added(core, new)
        return
    if new.is_finished:
        _pod_removed(core, old)  # a pod that has finished is watched no longer
        return
    if old.id != new.id:
        _pod_removed(core, old)  # the deletion in between was missed
        _pod_added(core, new)
        return
    core.pods[new.key] = new
    if new.is_terminating:
        leaves(core, new)
    if old.spec.node_name:
        _assigned_updated(core, old, new)
    elif new.spec.node_name:
        _assigned(core, new)
        if _is_ours(core, old):
            core.queue.delete(old)
    elif _is_ours(core, old):
        if new.metadata.resource_version == old.metadata.resource_version:
            return  # a resync shows the same version; without versions (some files) changes of waiting pods are not seen
        _waiting_updated(core, old, new)
        if core.is_observed:
            for event in dict.fromkeys((UNSCHEDULED_POD_UPDATE, *pod_events(old, new))):
                core.observer.change_handled(event)


def _assigned_updated(core: Core, old: Pod, new: Pod) -> None:
    """A pod on a node changed."""
    if core.cluster.queues_resizes and _is_ours(core, new):
        _resize_updated(core, old, new)
    try:
        core.cache.update(old, new)
    except ClusterError as fault:
        _contradicted(core, fault)
    _wake_for_each(core, pod_events(old, new), old, new)
    if core.is_observed:
        core.observer.change_handled(ASSIGNED_POD_UPDATE)  # Parity: beside the events that the update is


def _resize_updated(core: Core, old: Pod, new: Pod) -> None:
    """A pod on a node changed: it waits in the queue as long as its resize is deferred. Parity: before the cache has it."""
    if not new.is_resize_deferred:
        if old.is_resize_deferred:
            _no_longer_waits(core, new)
    elif old.is_resize_deferred:
        core.queue.update(old, new)
    else:
        queue_pod(core, new)


def _no_longer_waits(core: Core, pod: Pod) -> None:
    """The resize of a pod is no longer deferred."""
    core.queue.delete(pod)
    if pod.status.nominated_node_name:
        _room_was_kept(core, pod)
    core.observer.change_handled(UNSCHEDULED_POD_DELETE)


def _pod_removed(core: Core, pod: Pod) -> None:
    """A pod is gone. If its deletion was missed, `pod` may be in another state than the one seen last: so the cache
    and the queue are both looked at, whatever its node name says."""
    core.pods.pop(pod.key, None)
    is_placed = pod.spec.node_name or (core.cache.has(pod.id) and not core.cache.is_assumed(pod.id))
    if is_placed and core.cluster.groups is not None:
        core.cluster.groups.remove(pod)
    if core.evictions.by_preemptor:
        leaves(core, pod)
    queued, left = core.queue.get(pod.key), pod
    if is_placed:
        try:
            left = core.cache.remove(pod)
        except ClusterError as fault:
            _contradicted(core, fault)
        core.queue.wake(ASSIGNED_POD_DELETE, left, None)
        core.observer.change_handled(ASSIGNED_POD_DELETE)
    if _is_ours(core, pod) and (not pod.spec.node_name or (queued is not None and queued.uid == pod.id)):
        _waiting_removed(core, pod)
        core.observer.change_handled(UNSCHEDULED_POD_DELETE)
    elif core.cluster.groups is not None:
        core.cluster.groups.remove(pod)


def _waiting_removed(core: Core, pod: Pod) -> None:
    """A pod without a node is gone: from the queue, from its binding, or from the node that it was nominated to."""
    promised = core.queue.nominations.node_of(pod.id)
    core.queue.delete(pod)
    if core.cluster.groups is not None:
        core.cluster.groups.remove(pod)  # Parity: gates of the members that are left still count the pod
    if core.cache.is_assumed(pod.id):
        _assumed_leaves(core, pod)
    elif pod.status.nominated_node_name:
        _room_was_kept(core, pod)
    elif promised is not None:  # the pod was deleted before its status named the node
        status = msgspec.structs.replace(pod.status, nominated_node_name=promised)
        _room_was_kept(core, Pod(metadata=pod.metadata, spec=pod.spec, status=status))
    pod_gone(core, pod)


def _assigned(core: Core, pod: Pod) -> None:
    """A pod is on a node: new to us, or the confirmation of a binding of our own."""
    try:
        core.cache.confirm(pod)
    except ClusterError as fault:
        _contradicted(core, fault)
    if core.cluster.groups is not None:
        core.cluster.groups.add(pod)
    core.queue.wake(ASSIGNED_POD_ADD, None, pod)
    core.observer.change_handled(ASSIGNED_POD_ADD)


def _waiting_updated(core: Core, old: Pod, new: Pod) -> None:
    """A pod without a node changed. While it is assumed, only its deletion matters: its node is decided."""
    if core.cluster.groups is not None:
        core.cluster.groups.add(new)
    if core.cache.is_assumed(new.id):
        if new.is_terminating and not old.is_terminating:
            _assumed_leaves(core, new)
        return
    core.queue.update(old, new)
    before = old.status.nominated_node_name
    if before and before != new.status.nominated_node_name:
        _room_was_kept(core, old)


def _assumed_leaves(core: Core, pod: Pod) -> None:
    """A pod is deleted between decision and binding: its room is free now, before its binding fails."""
    assumed = core.cache.get(pod.id)
    if assumed is None:
        return
    waiting = core.services.waiting.get(pod.id)
    if waiting is not None:
        waiting.reject("", "removed")  # its binding gives everything back, unless it was allowed to go on before
    if waiting is None or (waiting.release is not None and waiting.release.is_allowed):
        _guard(core, partial(core.cache.forget, assumed, is_gone=True))
    core.queue.wake(ASSIGNED_POD_DELETE, assumed, None)


def _room_was_kept(core: Core, pod: Pod) -> None:
    """A pod will not take the room that its nomination kept. For pods of its priority and below this is as if it had
    left; others never had to leave that room."""
    core.queue.wake(ASSIGNED_POD_DELETE, pod, None, lambda other: other.priority <= pod.priority)


def _is_ours(core: Core, pod: Pod) -> bool:
    """Whether a profile of this scheduler is responsible for the pod, or was when its binding began."""
    return pod.spec.scheduler_name in core.runners or pod.id in core.bindings


def _guard(core: Core, act: Callable[[], object]) -> None:
    """Take in a change that may contradict the cache, for example after a missed event: that is reported, and no more."""
    try:
        act()
    except ClusterError as fault:
        _contradicted(core, fault)


def _contradicted(core: Core, fault: ClusterError) -> None:
    core.report("the cluster's state contradicts a change", fault)


# ---- Events that follow from an update of a node: each is a reason why the answer of a plugin may change


def node_events(old: Node, new: Node) -> list[ClusterEvent]:
    """The events of a node's update, in upstream's order; none if nothing changed that a plugin could care for.

    Parity: uncordoning counts as a change of taints, apart from one of the taints themselves; cordoning is no event.
    """
    checks = (
        (Action.UPDATE_NODE_TAINT, old.spec.unschedulable and not new.spec.unschedulable),
        (Action.UPDATE_NODE_ALLOCATABLE, not _same_amounts(old.status.allocatable, new.status.allocatable)),
        (Action.UPDATE_NODE_LABEL, old.labels != new.labels),
        (Action.UPDATE_NODE_TAINT, old.taints != new.taints),
        (Action.UPDATE_NODE_CONDITION, _conditions_of(old) != _conditions_of(new)),
        (Action.UPDATE_NODE_ANNOTATION, (old.metadata.annotations or {}) != (new.metadata.annotations or {})),
        (Action.UPDATE_NODE_PREEMPTION_POLICY, _preemption_disablers(old) != _preemption_disablers(new)),
        (
            Action.UPDATE_NODE_DECLARED_FEATURE,
            (old.status.declared_features or []) != (new.status.declared_features or []),
        ),
    )
    return [ClusterEvent(NODE, action) for action, happened in checks if happened]


def _same_amounts(one: ResourceList | None, other: ResourceList | None) -> bool:
    """Whether two lists name the same amounts, however they are written: 1 cpu is 1000m."""
    one, other = one or {}, other or {}
    return one == other or (
        one.keys() == other.keys() and all(parse_or(text, 0) == parse_or(other[name], 0) for name, text in one.items())
    )


def _preemption_disablers(node: Node) -> list[str] | None:
    """The list of the node's policy. Parity: no list and an empty one are the same, but not the same as no policy."""
    policy = node.spec.pod_preemption_policy
    return None if policy is None else policy.disable_resize_preemption or []


def _conditions_of(node: Node) -> Mapping[str, str]:
    """Type -> status: heartbeats and reasons are no change."""
    return {condition.type: condition.status for condition in node.status.conditions or ()}


# ---- groups: first the cluster, then the queue, whose members may be complete now or wait for a group that is gone


def _group_changed(core: Core, old: AnyPodGroup | None, new: AnyPodGroup | None) -> None:
    """A group came, changed or went. One that changed its parent counts as gone and come again."""
    tree, queue = core.cluster.group_tree, core.queue.groups
    is_other = old is None or new is None or old.parent_key != new.parent_key
    root = tree.root_of(name_of(old)) if old is not None and is_other else None
    leaves = tree.leaves(root) if root is not None else []
    if new is not None:
        core.cluster.put(new)
    elif old is not None:
        core.cluster.remove(type(old), old.key)
    if queue is None:
        return
    if old is not None and is_other:
        queue.group_removed(name_of(old), root, leaves)
    if new is not None:
        (queue.group_added if is_other else queue.group_updated)(name_of(new))
