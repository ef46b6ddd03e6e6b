"""The constraints of PodTopologySpread as they apply to one pod: its own ones, or those of its profile."""

from collections.abc import Iterable
from typing import cast

import msgspec
import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.framework.contract.status import PluginError
from mooring.kit.lazy import lazy
from mooring.model.affinity import PodPredicate
from mooring.model.label_set import LabelSet, LabelSetCases
from mooring.model.meta import int32
from mooring.model.names import HOSTNAME, ZONE
from mooring.model.pod import Pod
from mooring.model.pod_spec import TopologySpreadConstraint
from mooring.model.selectors import EVERYTHING, Selector, SelectorError, compile_selector
from mooring.model.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

# The two values of whenUnsatisfiable.
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, max_skew=3, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(topology_key=ZONE, max_skew=5, when_unsatisfiable=SOFT),
)
"""Upstream's defaults for profiles with defaultingType System: the numbers are those of its systemDefaultConstraints.
"""


class SpreadConstraint(msgspec.Struct, frozen=True, dict=True):
    """A constraint as it applies to one pod, with the labels of matchLabelKeys already in its selector."""

    key: str
    max_skew: int
    min_domains: int
    """With fewer eligible domains than this the minimum count is taken to be 0, as if an empty domain existed."""
    selector: Selector
    namespace: str
    honor_affinity: bool
    """nodeAffinityPolicy: whether nodes that the pod's node selector and affinity exclude are left out of the count
    (the default)."""
    honor_taints: bool
    """nodeTaintsPolicy: whether nodes with taints that the pod does not tolerate are left out (not the default)."""

    @lazy
    def predicate(self) -> PodPredicate | None:
        """Which pods count. Parity: an empty selector matches every pod but counts none. Hot: an attempt asks three times,
        and tallies are looked up faster by the same object."""
        return None if self.selector.is_empty else PodPredicate(self.selector, frozenset((self.namespace,)))


class Constraints(list[SpreadConstraint]):
    """The hard or the soft constraints of a pod. Shared by all pods of a shape, so it must not change."""

    @lazy
    def keys(self) -> tuple[str, ...]:
        """The topology key of each constraint, in the order of the constraints."""
        return tuple(constraint.key for constraint in self)

    @lazy
    def honor_taints(self) -> bool:
        """Whether any of them does."""
        return any(constraint.honor_taints for constraint in self)

    @lazy
    def _cases(self) -> LabelSetCases[Mask]:
        return LabelSetCases(constraint.selector for constraint in self)

    def matching(self, label_set: LabelSet) -> Mask:
        """For each constraint whether its selector matches pods of this label set, wherever they are. Namespaces are
        not checked."""
        return self._cases.get(
            label_set, lambda: np.fromiter((c.selector.matches(label_set.labels) for c in self), np.bool_, len(self))
        )


_DOING = {
    HARD: "get constraints from pod: obtaining pod's hard",
    SOFT: "calculating preScoreState: obtaining pod's soft",
}
"""The step at which upstream fails where a selector cannot be read."""


def own_constraints(pod: Pod, action: str) -> Constraints:
    """The constraints that the pod lists. A label of matchLabelKeys that the pod does not have adds nothing to the
    selector."""
    found = Constraints()
    for constraint in pod.shape.spread_constraints:
        if constraint.when_unsatisfiable == action:
            try:
                selector = compile_selector(constraint.label_selector)
            except SelectorError as fault:
                raise PluginError(f"{_DOING[action]} topology spread constraints: {fault}") from None
            same = {key: pod.labels[key] for key in constraint.match_label_keys or () if key in pod.labels}
            found.append(_apply(constraint, selector.with_equal(same), pod.namespace))
    return found


def default_constraints(
    pod: Pod, cluster: Cluster, action: str, defaults: Iterable[TopologySpreadConstraint]
) -> Constraints:
    """The constraints of the profile, if there is a selector to apply them with: without one they would count all pods."""
    try:
        selector = derived_selector(cluster, pod)
    except SelectorError as fault:
        raise PluginError(str(fault)) from None
    if selector.is_empty:
        return Constraints()
    chosen = (constraint for constraint in defaults if constraint.when_unsatisfiable == action)
    return Constraints(_apply(constraint, selector, pod.namespace) for constraint in chosen)


def _apply(constraint: TopologySpreadConstraint, selector: Selector, namespace: str) -> SpreadConstraint:
    """Fill the defaults in: minDomains 1, affinity honoured, taints ignored. Numbers are clamped to the API's 32 bits."""
    return SpreadConstraint(
        constraint.topology_key,
        int32(constraint.max_skew),
        int32(constraint.min_domains or 1),
        selector,
        namespace,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
    )


# ---- The selector of default constraints: what the pod's services and its controller select.


def selector_source_version(cluster: Cluster) -> int:
    """Grows whenever an object changes from which selectors are derived: part of the key of what is kept.

    The kinds are those that upstream's DefaultSelector reads.
    """
    versions = cluster.versions  # Hot: asked in every attempt
    return versions[Service] + versions[ReplicationController] + versions[ReplicaSet] + versions[StatefulSet]


def derived_selector(cluster: Cluster, pod: Pod) -> Selector:
    """Selectors of all services that match the pod, and of its controller, taken together; empty if there are none.

    Parity: as in upstream's helper.DefaultSelector, the pairs of services and of a ReplicationController are merged
    into one set of labels, and where two of them disagree about a key the last one stands. A Service without a selector
    matches nothing; an empty one matches all pods and adds nothing.
    """
    pairs: dict[str, str] = {}
    for item in cluster.in_namespace(Service, pod.namespace):
        wanted = cast(Service, item).spec.selector
        if wanted is not None and all(pod.labels.get(key) == value for key, value in wanted.items()):
            pairs.update(wanted)
    selector = EVERYTHING
    owner = pod.controller()
    if owner is not None:
        key = f"{pod.namespace}/{owner.name}"
        if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
            controller = cluster.objects[ReplicationController].get(key)
            pairs.update((cast(ReplicationController, controller).spec.selector if controller else None) or {})
        elif owner.api_version == "apps/v1" and owner.kind in ("ReplicaSet", "StatefulSet"):
            kind = ReplicaSet if owner.kind == "ReplicaSet" else StatefulSet
            found = cluster.objects[kind].get(key)
            if found is not None:
                selector = compile_selector(cast(ReplicaSet | StatefulSet, found).spec.selector)
    return selector.with_equal(pairs)
