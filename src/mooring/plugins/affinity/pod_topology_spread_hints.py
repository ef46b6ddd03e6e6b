"""When a pod that PodTopologySpread rejected is worth another attempt: what a hard constraint counts has changed."""

from collections.abc import Callable, Iterable, Mapping

from mooring.cluster.cluster import Cluster
from mooring.framework.events import NODE, POD, Action, Change, ClusterEvent, Registration
from mooring.framework.status import PluginError
from mooring.model.pod import Pod
from mooring.plugins.affinity.spread_constraints import Constraints
from mooring.plugins.hints import has_place, nodes_of, pods_of

Labels = Mapping[str, str]


FindConstraints = Callable[[Pod, Cluster], Constraints]
"""The hard constraints of a pod. Asked for every unschedulable pod, so it had better remember them."""

_PODS = ClusterEvent(POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION)
_NODES = ClusterEvent(NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT)


def spread_events(find: FindConstraints) -> tuple[Registration, ...]:
    """What the plugin registers. Constraints that cannot be worked out are no reason to leave a pod waiting."""

    def after_pod(pod: Pod, change: Change) -> bool:
        try:
            return skew_may_change(pod, change, find)
        except PluginError:
            return True

    def after_node(pod: Pod, change: Change) -> bool:
        try:
            return domains_may_change(change, find(pod, change.cluster))
        except PluginError:
            return True

    return Registration(_PODS, after_pod), Registration(_NODES, after_node)


def skew_may_change(pod: Pod, change: Change, find: FindConstraints) -> bool:
    """Whether a pod came, went or changed that a hard constraint counts."""
    old, new = pods_of(change)
    if not all(_is_involved(other, pod) for other in (old, new) if other is not None):
        return False
    constraints = find(pod, change.cluster)
    if old is not None and new is not None:
        return _update_matters(pod, old, new, constraints)
    return bool(constraints.matching((new or old or pod).label_set).any())


def domains_may_change(change: Change, constraints: Constraints) -> bool:
    """Whether a node with all topology keys came or went, or took its pods to other domains, or other taints."""
    old, new = nodes_of(change)
    keys = constraints.keys
    counted_before = old is not None and _has_all(keys, old.labels)
    counts_now = new is not None and _has_all(keys, new.labels)
    if old is None or new is None or counted_before != counts_now:
        return counted_before or counts_now
    return counts_now and (any(old.labels[key] != new.labels[key] for key in keys) or old.taints != new.taints)


def _update_matters(pod: Pod, old: Pod, new: Pod, constraints: Constraints) -> bool:
    is_itself = new.id == pod.id
    if is_itself and constraints.honor_taints and old.shape.tolerations != new.shape.tolerations:
        return True
    return old.label_set is not new.label_set and bool(
        (constraints.matching(old.label_set) != constraints.matching(new.label_set)).any()
    )


def _is_involved(other: Pod, pod: Pod) -> bool:
    """Whether the other pod counts for the waiting one as far as its place tells."""
    return other.id == pod.id or (has_place(other) and other.namespace == pod.namespace)


def _has_all(keys: Iterable[str], labels: Labels) -> bool:
    return all(key in labels for key in keys)
