"""Asks a plugin about a change as the queue does: does it wake a pod that the plugin rejected?"""

from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import (
    ASSIGNED_POD,
    TARGET_POD,
    UNSCHEDULED_POD,
    Action,
    Change,
    ClusterEvent,
    has_place,
)
from mooring.framework.contract.points import Plugin
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod


def wakes(
    plugin: Plugin,
    pod: Pod,
    event: ClusterEvent,
    old: KubeObject | None = None,
    new: KubeObject | None = None,
    cluster: Cluster | None = None,
) -> bool:
    """Fails if the plugin did not register the event at all."""
    change = Change(old, new, cluster or Cluster())
    heard = [each for each in plugin.events() or () if each.event.covers(event)]
    assert heard, f"{plugin.name} does not listen to {event.label}"
    return any(each.hint is None or each.hint(pod, change) for each in heard)


def wakes_for_pod(plugin: Plugin, pod: Pod, old: Pod | None, new: Pod | None, update: Action) -> bool:
    """Whether a change of a pod wakes the waiting one. The resource of the event is the one that the scheduler gives it;
    if the plugin did not register it, nothing is woken."""
    event = ClusterEvent(_resource_of(pod, old, new), action_of(old, new, update))
    if not any(each.event.covers(event) for each in plugin.events() or ()):
        return False
    return wakes(plugin, pod, event, old, new)


def _resource_of(pod: Pod, old: Pod | None, new: Pod | None) -> str:
    """A nominated pod that leaves gives room as one on a node does."""
    latest = new or old
    assert latest is not None
    if latest.spec.node_name or (new is None and has_place(latest)):
        return ASSIGNED_POD
    return TARGET_POD if old is not None and new is not None and new.id == pod.id else UNSCHEDULED_POD


def action_of(old: KubeObject | None, new: KubeObject | None, update: Action) -> Action:
    """Add, Delete, or else the kind of update that is meant."""
    if old is None:
        return Action.ADD
    return Action.DELETE if new is None else update
