"""Why nodes were rejected: the verdicts of an attempt by plugin and words, and what exactly is in the way on these nodes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.answers.form.published import ADDED, Form, Positive, Published
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.attempt import Attempt, Verdicts, rejecting_filters
from mooring.framework.attempts.fit_errors import RejectedAttempt, rejecting_codes
from mooring.framework.contract.status import Code, Rejection
from mooring.framework.kept.feasible import NARROWED_OUT
from mooring.kit.words import count
from mooring.model.node import HARD_EFFECTS, Taint
from mooring.model.pod import Pod
from mooring.model.pod_spec import TopologySpreadConstraint
from mooring.model.quantity import show_amount
from mooring.model.selectors import SelectorError, compile_node_term, compile_selector
from mooring.scheduler.decision import NoFit

RowArray = NDArray[np.intp]
EXAMPLES = 3
"""How many nodes a reason names."""


class Amount(Form, frozen=True):
    """A resource that is missing: what the pod asks for, and the most that a node has left. Units of the node table."""

    resource: str
    wants: int
    largest_free: int
    node: str
    """The node with the largest free amount; empty if no node has the resource."""
    largest: Annotated[int, ADDED]
    """The most that one of these nodes has in all: with less than the pod asks for, no pod that leaves can help. Of all
    nodes, if none of them has as much."""
    fits_no_node: Annotated[bool, ADDED]
    """Whether no node of the cluster has as much in all."""
    text: str = ""
    """The amounts in words: `wants 2, largest free 1500m on a-2`, or that no node is large enough."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "text", self._words())

    def _words(self) -> str:
        wants, largest, free = (show_amount(self.resource, n) for n in (self.wants, self.largest, self.largest_free))
        if not self.node:
            return f"wants {wants}, and none of these nodes has any"
        if self.wants > self.largest:
            none = "no node" if self.fits_no_node else "none of these nodes"
            return f"wants {wants}, but {none} is large enough (largest {largest})"
        return f"wants {wants}, largest free {free} on {self.node}"


class ReasonForm(Form, frozen=True):
    """Nodes that were rejected for the same reason."""

    plugin: str
    message: str
    """Upstream's words."""
    count: Positive = msgspec.field(name="nodes")
    """How many nodes were rejected for this reason first."""
    nodes: tuple[str, ...] = msgspec.field(name="examples")
    """Some of the nodes, by name."""
    can_evict: bool = msgspec.field(name="evictionCanHelp")
    """Whether the verdict says that the pod could fit if other pods left."""
    amounts: tuple[Amount, ...]
    details: tuple[str, ...]
    """The obstacles in detail: taints, selector terms, other pods."""


@dataclass(frozen=True, slots=True)
class Reason(Published):
    """Nodes that were rejected for the same reason, with the rows of all of them."""

    form: ClassVar = ReasonForm
    plugin: str
    message: str
    rows: RowArray = field(repr=False)
    nodes: tuple[str, ...] = ()
    can_evict: bool = False
    amounts: tuple[Amount, ...] = ()
    details: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.rows)


def reasons_of(decision: NoFit) -> list[Reason]:
    """The reasons of all nodes, those of most nodes first; without amounts and details."""
    failure = decision.failure
    if failure is None:
        return []
    nodes = failure.attempt.context.nodes
    if failure.verdicts is None:
        absent = decision.diagnosis.absent
        alive = np.flatnonzero(nodes.alive[: nodes.height])
        return [_reason(nodes, absent, alive)] if absent is not None else []
    found = _by_filter(failure.attempt, failure.verdicts) + _others(failure, failure.verdicts)
    return sorted(found, key=lambda reason: -reason.count)


def _by_filter(attempt: Attempt, verdicts: Verdicts) -> list[Reason]:
    """One reason for each filter and text; a filter may have several codes with the same text."""
    nodes, grouped = attempt.context.nodes, dict[Rejection, list[RowArray]]()
    for index in rejecting_filters(verdicts):
        codes = attempt.codes(verdicts, index)[: len(verdicts.first)]
        here = verdicts.first == index
        for code, _ in rejecting_codes(attempt, verdicts, index):
            grouped.setdefault(attempt.rejection(index, code), []).append(np.flatnonzero(here & (codes == code)))
    return [_reason(nodes, rejection, np.concatenate(rows)) for rejection, rows in grouped.items()]


def _others(failure: RejectedAttempt, verdicts: Verdicts) -> list[Reason]:
    """The nodes that PreFilter left out, so that no filter looked at them."""
    nodes = failure.attempt.context.nodes
    left_out = np.flatnonzero((verdicts.first == NARROWED_OUT) & nodes.alive[: len(verdicts.first)])
    return [_reason(nodes, failure.absent, left_out)] if failure.absent is not None and len(left_out) else []


def _reason(nodes: NodeTable, rejection: Rejection, rows: RowArray) -> Reason:
    return Reason(
        rejection.plugin or "PreFilter",
        rejection.message,
        rows,
        tuple(sorted(nodes.names[row] for row in rows.tolist())[:EXAMPLES]),
        rejection.code is Code.Unschedulable,
    )


# ---- Each plugin has a function that names the obstacles for a pod: amounts, taints, selector terms, ports, other pods.
#
# A plugin rejects in upstream's words, which name none of this. The functions here look at the rejected rows again;
# they are for people, and no decision reads them.


SHOWN = 5
"""How many taints, terms, domains or pods are named."""
INSUFFICIENT = "Insufficient "
"""How NodeResourcesFit begins the reason for a resource that is short."""


def with_obstacles(reason: Reason, pod: Pod, cluster: Cluster) -> Reason:
    """The reason with what is in the way on its nodes."""
    if reason.plugin == "NodeResourcesFit":
        details = (*_full_nodes(reason, cluster), *_not_together(pod, cluster))
        return replace(reason, amounts=missing_amounts(reason, pod, cluster), details=details)
    look = _OBSTACLES.get(reason.plugin)
    return reason if look is None else replace(reason, details=tuple(look(pod, cluster, reason.rows)))


# ---- resources


def missing_amounts(reason: Reason, pod: Pod, cluster: Cluster) -> tuple[Amount, ...]:
    """For each missing resource what the pod wants, and the most that one of the rejected nodes has left."""
    names = [part.removeprefix(INSUFFICIENT) for part in reason.message.split(", ") if part.startswith(INSUFFICIENT)]
    return tuple(largest_free(name, pod.shape.exact_request.get(name, 0), cluster, reason.rows) for name in names)


def largest_free(resource: str, wants: int, cluster: Cluster, rows: RowArray) -> Amount:
    """The request of a pod beside the most that one of the rows has left, and the most that one has in all."""
    nodes, amounts = cluster.nodes, cluster.nodes.amounts
    if not len(rows) or not amounts.allocatable[amounts.resource(resource)][rows].any():
        return Amount(resource, wants, 0, "", 0, False)
    free = amounts.free_on(resource, rows.tolist())
    best, highest = free.index(max(free)), _largest(resource, cluster, np.flatnonzero(nodes.alive[: nodes.height]))
    largest = highest if wants > highest else _largest(resource, cluster, rows)
    return Amount(resource, wants, free[best], nodes.names[rows[best]], largest, wants > highest)


def _largest(resource: str, cluster: Cluster, rows: RowArray) -> int:
    """The most that one of the rows has of a resource, taken or not."""
    amounts = cluster.nodes.amounts
    room = amounts.allocatable[amounts.resource(resource)]
    huge = [amounts.exact(resource, row)[0] for row in rows.tolist() if row in amounts.huge_rows]
    return max(int(room[rows].max()), *huge, 0)


def _not_together(pod: Pod, cluster: Cluster) -> Iterable[str]:
    """Whether there are nodes that are large enough for each request alone, but none for all of them."""
    nodes, wants = cluster.nodes, {name: amount for name, amount in pod.shape.request.items() if amount}
    places = nodes.amounts.places(wants)
    room = nodes.amounts.allocatable[places][:, np.flatnonzero(nodes.alive[: nodes.height])]
    is_enough = room >= np.array([*wants.values()])[:, np.newaxis]
    if len(wants) > 1 and is_enough.any(1).all() and not is_enough.all(0).any():
        yield f"no node is large enough for {' and '.join(wants)} together"


def _full_nodes(reason: Reason, cluster: Cluster) -> Iterable[str]:
    if "Too many pods" in reason.message:
        limits, of_all = cluster.nodes.allowed_pods[reason.rows], cluster.nodes.allowed_pods[cluster.nodes.alive]
        if not limits.any():
            yield f"{'no node' if not of_all.any() else 'none of these nodes'} may run any pod (pods: 0)"
        else:
            yield f"these nodes run as many pods as they may: {limits.min()} to {limits.max()}"


# ---- nodes


def _taints(pod: Pod, cluster: Cluster, rows: RowArray) -> Iterable[str]:
    """The first taint of each node that the pod does not tolerate."""
    counts: Counter[Taint] = Counter()
    for row in rows.tolist():
        node = cluster.nodes.nodes[row]
        for taint in (node.spec.taints or ()) if node is not None else ():
            if taint.effect in HARD_EFFECTS and not pod.shape.tolerance.covers(taint):
                counts[taint] += 1
                break
    return [f"taint {show_taint(taint)}: {count(times, 'node', ',')}" for taint, times in counts.most_common(SHOWN)]


def show_taint(taint: Taint) -> str:
    """As kubectl taint takes it: key=value:Effect."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _selection(pod: Pod, cluster: Cluster, rows: RowArray) -> Iterable[str]:
    """Each line of the node selector and the required node affinity, with how many of all nodes match it."""
    nodes = [node for node in cluster.nodes.nodes if node is not None]
    for key, value in [*(pod.shape.node_selector or {}).items()][:SHOWN]:
        matching = sum(node.labels.get(key) == value for node in nodes)
        yield f"nodeSelector {key}={value}: matches {count(matching, 'node', ',')}"
    affinity = pod.shape.node_affinity
    required = affinity.required if affinity is not None else None
    for written in (required.node_selector_terms or ())[:SHOWN] if required is not None else ():
        term = compile_node_term(written)
        matching = sum(term.matches(node.name, node.labels) for node in nodes) if term is not None else 0
        lines = [*(written.match_expressions or ()), *(written.match_fields or ())]
        text = " and ".join(show_requirement(line.key, line.operator, line.values or ()) for line in lines)
        yield f"required node affinity {text or '(empty term)'}: matches {count(matching, 'node', ',')}"


def show_requirement(key: str, operator: str, values: Iterable[str], most: int = SHOWN) -> str:
    """A line of a selector, with so many of its values at most."""
    listed = [*values]
    return f"{key} {operator} [{', '.join(listed[:most])}]" if listed else f"{key} {operator}"


def _cordoned(pod: Pod, cluster: Cluster, rows: RowArray) -> Iterable[str]:
    yield "spec.unschedulable is set: kubectl uncordon makes a node schedulable"


def _ports(pod: Pod, cluster: Cluster, rows: RowArray) -> Iterable[str]:
    """The host ports of the pod, and on how many of the nodes another pod has the port."""
    for ip, protocol, port in pod.shape.host_ports[:SHOWN]:
        holders = sum(
            any(other[1:] == (protocol, port) for held in cluster.nodes.pods_on[row] for other in held.shape.host_ports)
            for row in rows.tolist()
        )
        yield f"hostPort {port}/{protocol} on {ip}: in use on {count(holders, 'node', ',')}"


# ---- other pods


def _spread(pod: Pod, cluster: Cluster, rows: RowArray) -> Iterable[str]:
    """Each hard constraint with its domains: how many matching pods the emptiest and the fullest have."""
    for constraint in pod.shape.spread_constraints[:SHOWN]:
        if constraint.when_unsatisfiable != "DoNotSchedule":
            continue
        key = constraint.topology_key
        counts = _pods_by_domain(pod, cluster, constraint)
        if not counts:
            yield f"spread over {key} (maxSkew {constraint.max_skew}): no node has this label"
            continue
        low, high = min(counts, key=lambda domain: counts[domain]), max(counts, key=lambda domain: counts[domain])
        yield (
            f"spread over {key} (maxSkew {constraint.max_skew}): {low} has {counts[low]} matching pods, "
            f"{high} has {counts[high]}"
        )


def _pods_by_domain(pod: Pod, cluster: Cluster, constraint: TopologySpreadConstraint) -> Mapping[str, int]:
    """For each value of the label on nodes the pods there that the constraint counts, roughly: without inclusion policies."""
    try:
        selector = compile_selector(constraint.label_selector)
    except SelectorError:
        return {}
    counts: Counter[str] = Counter()
    for row, node in enumerate(cluster.nodes.nodes):
        domain = node.labels.get(constraint.topology_key) if node is not None else None
        if domain is None:
            continue
        counts[domain] += sum(
            other.namespace == pod.namespace and selector.matches(other.labels) for other in cluster.nodes.pods_on[row]
        )
    return counts


def _relations(pod: Pod, cluster: Cluster, rows: RowArray) -> Iterable[str]:
    """The required terms of the pod with the pods that they select, and pods whose anti-affinity the pod meets."""
    terms = pod.shape.terms(pod.namespace)
    for name, listed in (("affinity", terms.affinity), ("anti-affinity", terms.anti_affinity)):
        for term in listed[:SHOWN]:
            matching = sum(
                term.speaks_of(other.namespace, other.labels, cluster.labels_of_namespace(other.namespace))
                for other in cluster.nodes.pods()
            )
            yield f"pod {name} over {term.topology_key}: {count(matching, 'pod', ',')} selected"
    own = cluster.labels_of_namespace(pod.namespace)
    keepers = [
        other.key
        for row in rows.tolist()
        for other in cluster.nodes.pods_on[row]
        if any(
            term.speaks_of(pod.namespace, pod.labels, own) for term in other.shape.terms(other.namespace).anti_affinity
        )
    ]
    if keepers:
        more = f" and {len(keepers) - SHOWN} more" if len(keepers) > SHOWN else ""
        yield f"pods whose anti-affinity keeps it away: {', '.join(keepers[:SHOWN])}{more}"


_OBSTACLES: Mapping[str, Callable[[Pod, Cluster, RowArray], Iterable[str]]] = {
    "TaintToleration": _taints,
    "NodeAffinity": _selection,
    "PreFilter": _selection,  # nodes that are left out because the pod names others
    "NodeUnschedulable": _cordoned,
    "NodePorts": _ports,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _relations,
}
"""By name of the plugin; the others say enough in their own words."""
