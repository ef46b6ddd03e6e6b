"""When a pod that InterPodAffinity rejected is worth another attempt.

Parity: hints are coarser than the filter. Several terms count only when a pod meets all of them, no term at all counts
as not met, and namespace selectors are tried against no labels.
"""

from mooring.framework.events import NODE, POD, Action, Change, ClusterEvent, Registration
from mooring.model.affinity import AffinityTerm
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodAffinity
from mooring.plugins.hints import has_place, new_node_of, nodes_of, pods_of

Terms = tuple[AffinityTerm, ...]


def neighbours_may_fit(pod: Pod, change: Change) -> bool:
    """Whether a pod came that the waiting one wants near, or one went that either of the two wants away."""
    old, new = pods_of(change)
    if old is not None and new is not None and new.id == pod.id:
        return True
    if not all(has_place(other) for other in (old, new) if other is not None):
        return False
    if _is_unreadable(pod):
        return True
    terms = pod.shape.terms(pod.namespace)
    if old is None:
        return new is not None and terms.want(new.label_set)
    if new is None:
        return terms.avoid(old.label_set) or _keeps_away(old, pod)
    return (terms.want(new.label_set) and not terms.want(old.label_set)) or (
        terms.avoid(old.label_set) and not terms.avoid(new.label_set)
    )


def topology_may_fit(pod: Pod, change: Change) -> bool:
    """Whether a node came into a domain where the waiting pod may find its like, or left one that was closed to it.

    Parity: a pod without terms of its own was rejected by the anti-affinity of others, and no node helps it.
    """
    if _is_unreadable(pod):
        return True
    (old, _), new = nodes_of(change), new_node_of(change)
    terms = pod.shape.terms(pod.namespace)
    if old is None:
        return bool(terms.anti_affinity) or not terms.affinity_keys.isdisjoint(new.labels)
    return any(_enters(key, old, new) for key in terms.affinity_keys & new.labels.keys()) or any(
        _enters(key, new, old) for key in terms.anti_affinity_keys & old.labels.keys()
    )


EVENTS = (
    Registration(ClusterEvent(POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL), neighbours_may_fit),
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), topology_may_fit),
)


def _keeps_away(other: Pod, pod: Pod) -> bool:
    """Whether the other pod's anti-affinity means the waiting one, or nobody can tell."""
    terms = other.shape.terms(other.namespace)
    group = other.spec.affinity.pod_anti_affinity if other.spec.affinity else None
    return _is_lost(group, terms.anti_affinity) or terms.avoid(pod.label_set)


def _enters(key: str, before: Node, now: Node) -> bool:
    """Whether the node has a value of the label that it did not have before."""
    value = now.labels.get(key)
    return value is not None and value != before.labels.get(key)


def _is_unreadable(pod: Pod) -> bool:
    """Whether required terms of the pod do not compile. A hint that cannot tell says yes."""
    affinity, terms = pod.spec.affinity, pod.shape.terms(pod.namespace)
    if affinity is None or not terms.faults:
        return False
    return _is_lost(affinity.pod_affinity, terms.affinity) or _is_lost(affinity.pod_anti_affinity, terms.anti_affinity)


def _is_lost(written: PodAffinity | None, compiled: Terms) -> bool:
    """Terms that do not compile are left out, all of a list at once."""
    return written is not None and bool(written.required) and not compiled
