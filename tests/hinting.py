"""Asks a plugin about a change as the queue does: does it wake a pod that the plugin rejected?"""

from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import Action, Change, ClusterEvent
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


def action_of(old: KubeObject | None, new: KubeObject | None, update: Action) -> Action:
    """Add, Delete, or else the kind of update that is meant."""
    if old is None:
        return Action.ADD
    return Action.DELETE if new is None else update
