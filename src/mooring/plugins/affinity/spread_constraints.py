"""The constraints of PodTopologySpread as they apply to one pod: its own ones, or those of its profile."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.kernels import Mask
from mooring.cluster.nodes.labels import HOSTNAME
from mooring.framework.status import PluginError
from mooring.kit.lazy import lazy
from mooring.model.affinity import PodPredicate
from mooring.model.label_set import LabelSet, LabelSetCases
from mooring.model.meta import int32
from mooring.model.pod import Pod
from mooring.model.pod_spec import TopologySpreadConstraint
from mooring.model.selectors import Selector, SelectorError, compile_selector
from mooring.plugins.affinity.default_spread import derived_selector

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, max_skew=3, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(topology_key="topology.kubernetes.io/zone", max_skew=5, when_unsatisfiable=SOFT),
)


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A constraint as it applies to one pod."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    namespace: str
    honor_affinity: bool
    honor_taints: bool

    @property
    def predicate(self) -> PodPredicate | None:
        """Which pods count. Parity: an empty selector matches every pod but counts none."""
        return None if self.selector.is_empty else PodPredicate(self.selector, frozenset((self.namespace,)))


class Constraints(list[SpreadConstraint]):
    """The hard or the soft constraints of a pod. Do not change it."""

    @lazy
    def keys(self) -> tuple[str, ...]:
        return tuple(constraint.key for constraint in self)

    @lazy
    def honor_taints(self) -> bool:
        """Whether any of them does."""
        return any(constraint.honor_taints for constraint in self)

    @lazy
    def _cases(self) -> LabelSetCases[Mask]:
        return LabelSetCases(constraint.selector for constraint in self)

    def matching(self, label_set: LabelSet) -> Mask:
        """For each constraint whether its selector matches pods of this label set, wherever they are."""
        return self._cases.get(
            label_set, lambda: np.fromiter((c.selector.matches(label_set.labels) for c in self), np.bool_, len(self))
        )


def own_constraints(pod: Pod, action: str) -> Constraints:
    """Those that the pod lists."""
    found = Constraints()
    for constraint in pod.shape.spec.topology_spread_constraints or ():
        if constraint.when_unsatisfiable == action:
            try:
                selector = compile_selector(constraint.label_selector)
            except SelectorError as fault:
                raise PluginError(str(fault)) from None
            same = {key: pod.labels[key] for key in constraint.match_label_keys or () if key in pod.labels}
            found.append(_apply(constraint, selector.with_equal(same), pod.namespace))
    return found


def default_constraints(
    pod: Pod, cluster: Cluster, action: str, defaults: Iterable[TopologySpreadConstraint]
) -> Constraints:
    """Those of the profile, if there is a selector to apply them with."""
    try:
        selector = derived_selector(cluster, pod)
    except SelectorError as fault:
        raise PluginError(str(fault)) from None
    if selector.is_empty:
        return Constraints()
    chosen = (constraint for constraint in defaults if constraint.when_unsatisfiable == action)
    return Constraints(_apply(constraint, selector, pod.namespace) for constraint in chosen)


def _apply(constraint: TopologySpreadConstraint, selector: Selector, namespace: str) -> SpreadConstraint:
    return SpreadConstraint(
        constraint.topology_key,
        int32(constraint.max_skew),
        int32(constraint.min_domains or 1),
        selector,
        namespace,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
    )
