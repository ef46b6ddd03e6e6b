"""Cures by changing the rules of the pod: about other pods and ports first, then tolerations, node selector and affinity."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from mooring.answers.explain.cure import CHANGE_RULE, TOLERATE, Patient, PodChange, Relaxation, smallest
from mooring.answers.trial.changing_nodes import STATE_TAINTS
from mooring.answers.trial.counterfactual import with_spec
from mooring.answers.trial.reasons import show_requirement, show_taint
from mooring.cluster.nodes.table import NodeTable
from mooring.model.meta import LabelSelector, Requirement
from mooring.model.node import HARD_EFFECTS, Taint
from mooring.model.pod import Pod
from mooring.model.pod_spec import (
    Affinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)

# ---- Cures by asking less of the pods around: spread constraints, required pod affinity and anti-affinity, host
# ports.


MAX_TERMS = 20
"""How many constraints or terms are tried one by one."""
_HARD = "DoNotSchedule"
Side = Literal["pod_affinity", "pod_anti_affinity"]
_SIDES: tuple[tuple[Side, str], ...] = (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity"))


class SpreadLess(Relaxation):
    """Spread constraints that must be satisfied."""

    def relax(self, pod: Pod) -> Pod | None:
        if not _hard(pod):
            return None
        constraints = pod.spec.topology_spread_constraints or ()
        return with_spec(pod, topology_spread_constraints=[each for each in constraints if not _is_hard(each)] or None)

    def alone(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        """A larger maxSkew, the smallest that helps, or a preference instead, for one constraint."""
        for i in _hard(pod)[:MAX_TERMS]:
            if (change := self._larger_skew(patient, pod, i)) is not None:
                yield change
            yield _as_preference(pod, i)

    def together(self, pod: Pod) -> PodChange | None:
        cost, text = CHANGE_RULE * len(_hard(pod)), "make all spread constraints ScheduleAnyway"
        return PodChange("drop-spread", text, cost, lambda pod: self.relax(pod) or pod) if cost > CHANGE_RULE else None

    def _larger_skew(self, patient: Patient, pod: Pod, index: int) -> PodChange | None:
        constraint = (pod.spec.topology_spread_constraints or [])[index]
        low, high = constraint.max_skew, constraint.max_skew + len(patient.trials.cluster.nodes.pods()) + 1

        def fits(skew: int) -> bool:
            return patient.node_for(_with_constraint(pod, index, max_skew=skew)) is not None

        if not fits(high):
            return None
        skew = smallest(fits, low, high)
        text = f"raise maxSkew over {constraint.topology_key} from {low} to {skew}"
        return PodChange("raise-skew", text, CHANGE_RULE - 1, lambda pod: _with_constraint(pod, index, max_skew=skew))


def _hard(pod: Pod) -> list[int]:
    """The places of the constraints that must be satisfied."""
    return [i for i, each in enumerate(pod.spec.topology_spread_constraints or ()) if _is_hard(each)]


def _is_hard(constraint: TopologySpreadConstraint) -> bool:
    return constraint.when_unsatisfiable == _HARD


def _as_preference(pod: Pod, index: int) -> PodChange:
    key = (pod.spec.topology_spread_constraints or [])[index].topology_key
    text = f"make the spread over {key} a preference (whenUnsatisfiable: ScheduleAnyway)"
    return PodChange(
        "prefer-spread",
        text,
        CHANGE_RULE,
        lambda pod: _with_constraint(pod, index, when_unsatisfiable="ScheduleAnyway"),
    )


def _with_constraint(pod: Pod, index: int, **changes: object) -> Pod:
    constraints = list(pod.spec.topology_spread_constraints or ())
    changed: TopologySpreadConstraint = msgspec.structs.replace(constraints[index], **changes)
    constraints[index] = changed
    return with_spec(pod, topology_spread_constraints=constraints)


class DropAffinity(Relaxation):
    """Required terms about other pods, of both kinds."""

    def relax(self, pod: Pod) -> Pod | None:
        if not any(_terms(pod, side) for side, _ in _SIDES):
            return None
        form = pod
        for side, _ in _SIDES:
            form = _with_terms(form, side, [])
        return form

    def alone(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        for side, name in _SIDES:
            for i, term in enumerate(_terms(pod, side)[:MAX_TERMS]):
                selected = _show_selector(term.label_selector)
                text = f"drop the required pod {name} over {term.topology_key} ({selected})"
                yield PodChange("drop-affinity", text, CHANGE_RULE, _without_term(side, i))

    def together(self, pod: Pod) -> PodChange | None:
        text = "drop all required pod affinity and anti-affinity"
        return PodChange("drop-affinity", text, 2 * CHANGE_RULE, lambda pod: self.relax(pod) or pod)


def _terms(pod: Pod, side: Side) -> list[PodAffinityTerm]:
    group = getattr(pod.spec.affinity, side) if pod.spec.affinity is not None else None
    return list(group.required or ()) if group is not None else []


def _with_terms(pod: Pod, side: Side, terms: list[PodAffinityTerm]) -> Pod:
    affinity = pod.spec.affinity
    group = getattr(affinity, side) if affinity is not None else None
    if affinity is None or group is None:
        return pod
    changed: Affinity = msgspec.structs.replace(
        affinity, **{side: msgspec.structs.replace(group, required=terms or None)}
    )
    return with_spec(pod, affinity=changed)


def _without_term(side: Side, index: int) -> Callable[[Pod], Pod]:
    return lambda pod: _with_terms(pod, side, [term for i, term in enumerate(_terms(pod, side)) if i != index])


def _show_selector(selector: LabelSelector | None) -> str:
    if selector is None:
        return "no pods"
    lines = [f"{key}={value}" for key, value in (selector.match_labels or {}).items()]
    lines += [show_requirement(e.key, e.operator, e.values or ()) for e in selector.match_expressions or ()]
    return ", ".join(lines) or "all pods"


class DropHostPorts(Relaxation):
    """Ports of the node."""

    def relax(self, pod: Pod) -> Pod | None:
        if not pod.shape.host_ports:
            return None
        return _without_ports(pod, {port for _, _, port in pod.shape.host_ports})

    def alone(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        """One port, and then all of them."""
        ports = list(dict.fromkeys(port for _, _, port in pod.shape.host_ports))
        for chosen in [[port] for port in ports[:MAX_TERMS]] + ([ports] if len(ports) > 1 else []):
            text = f"do without hostPort {', '.join(map(str, chosen[:MAX_TERMS]))}"
            yield PodChange("drop-port", text, CHANGE_RULE * len(chosen), _dropping(set(chosen)))


def _dropping(ports: set[int]) -> Callable[[Pod], Pod]:
    return lambda pod: _without_ports(pod, ports)


def _without_ports(pod: Pod, ports: set[int]) -> Pod:
    """The pod without these host ports. A pod in the network of its node has them anyway, so it leaves that, too."""
    containers = [
        msgspec.structs.replace(
            container,
            ports=[
                msgspec.structs.replace(port, host_port=0) if port.host_port in ports else port
                for port in container.ports or ()
            ],
        )
        for container in pod.spec.containers
    ]
    return with_spec(pod, containers=containers, host_network=False)


MAX_TAINT_SETS = 40
"""How many different sets of taints are tried, those of most nodes first."""
MAX_LINES = 40
"""How many lines of the selection are tried one by one."""


class Tolerate(Relaxation):
    """Taints that the pod does not tolerate."""

    def relax(self, pod: Pod) -> Pod | None:
        return _tolerating(pod, [Toleration(operator="Exists")])

    def alone(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        yield from map(_toleration_of, _taint_sets(patient.trials.cluster.nodes, pod))


def _taint_sets(nodes: NodeTable, pod: Pod) -> list[frozenset[Taint]]:
    """The sets of taints that keep the pod from nodes, the smallest first, then those of most nodes."""
    counts: Counter[frozenset[Taint]] = Counter()
    for node in nodes.nodes:
        for_pod = (node.spec.taints or ()) if node is not None else ()
        hard = frozenset(t for t in for_pod if t.effect in HARD_EFFECTS and not pod.shape.tolerance.covers(t))
        # A node that is not ready or cordoned is mended, not tolerated.
        if hard and not any(taint.key.startswith(STATE_TAINTS) for taint in hard):
            counts[hard] += 1
    return sorted(counts, key=lambda taints: (len(taints), -counts[taints], sorted(map(show_taint, taints))))[
        :MAX_TAINT_SETS
    ]


def _toleration_of(taints: frozenset[Taint]) -> PodChange:
    ordered = sorted(taints, key=show_taint)
    tolerations = [Toleration(taint.key, "Equal", taint.value, taint.effect) for taint in ordered]
    text = f"tolerate the taint {' and '.join(map(show_taint, ordered))}"
    return PodChange("tolerate", text, TOLERATE * len(ordered), lambda pod: _tolerating(pod, tolerations))


def _tolerating(pod: Pod, more: list[Toleration]) -> Pod:
    return with_spec(pod, tolerations=[*(pod.spec.tolerations or ()), *more])


class WidenSelection(Relaxation):
    """The node selector and the required node affinity."""

    def relax(self, pod: Pod) -> Pod | None:
        if not pod.spec.node_selector and _required(pod) is None:
            return None
        return _with_required(with_spec(pod, node_selector=None), None)

    def alone(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        """The pod without one of the lines."""
        yield from [*_selector_lines(pod), *_affinity_lines(pod)][:MAX_LINES]

    def together(self, pod: Pod) -> PodChange | None:
        text = "drop the node selector and the required node affinity"
        return PodChange("drop-selection", text, 2 * CHANGE_RULE, lambda pod: self.relax(pod) or pod)

    def instead(self, patient: Patient, change: PodChange, pod: Pod, node: str) -> Iterator[PodChange]:
        """Instead of dropping a line of the node selector, the value that the node has which the pod would get without it.

        The node takes the pod with that value as well, so nothing has to be tried.
        """
        key, nodes = change.dropped_key, patient.trials.cluster.nodes
        found = nodes.nodes[nodes.row_book[node]] if key and node in nodes.row_book else None
        value = found.labels.get(key) if found is not None else None
        if value is not None:
            yield _another_value(key, value, (pod.spec.node_selector or {})[key])
        yield change


def _selector_lines(pod: Pod) -> Iterator[PodChange]:
    """The pod without one line of its node selector."""
    for key, value in (pod.spec.node_selector or {}).items():
        yield PodChange("drop-selector", f"drop the node selector {key}={value}", CHANGE_RULE, _without_key(key), key)


def _without_key(key: str) -> Callable[[Pod], Pod]:
    def apply(pod: Pod) -> Pod:
        left = {other: value for other, value in (pod.spec.node_selector or {}).items() if other != key}
        return with_spec(pod, node_selector=left or None)

    return apply


def _another_value(key: str, value: str, old: str) -> PodChange:
    def apply(pod: Pod) -> Pod:
        return with_spec(pod, node_selector={**(pod.spec.node_selector or {}), key: value})

    return PodChange("change-selector", f"select {key}={value} instead of {key}={old}", CHANGE_RULE - 1, apply)


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    return affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None


def _with_required(pod: Pod, required: NodeSelector | None) -> Pod:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return pod
    node_affinity = msgspec.structs.replace(affinity.node_affinity, required=required)
    return with_spec(pod, affinity=msgspec.structs.replace(affinity, node_affinity=node_affinity))


def _affinity_lines(pod: Pod) -> Iterator[PodChange]:
    """The pod without one expression of one term. A term that loses its last one is dropped; without terms, all of it."""
    required = _required(pod)
    for t, term in enumerate(required.node_selector_terms or () if required is not None else ()):
        lines = [*(term.match_expressions or ()), *(term.match_fields or ())]
        for i, line in enumerate(lines):
            text = show_requirement(line.key, line.operator, line.values or ())
            yield PodChange(
                "drop-affinity", f"drop the required node affinity {text}", CHANGE_RULE, _without_line(t, i)
            )


def _without_line(number: int, index: int) -> Callable[[Pod], Pod]:
    def apply(pod: Pod) -> Pod:
        required = _required(pod)
        terms = list(required.node_selector_terms or ()) if required is not None else []
        if number >= len(terms):
            return pod
        kept = _term_without(terms[number], index)
        if kept is None:
            return _with_required(pod, None)  # a term that asks for nothing would match every node
        terms[number] = kept
        return _with_required(pod, NodeSelector(terms))

    return apply


def _term_without(term: NodeSelectorTerm, index: int) -> NodeSelectorTerm | None:
    """None if nothing is left of the term."""
    expressions: list[Requirement] = list(term.match_expressions or ())
    fields: list[Requirement] = list(term.match_fields or ())
    if index < len(expressions):
        del expressions[index]
    elif index - len(expressions) < len(fields):
        del fields[index - len(expressions)]
    return NodeSelectorTerm(expressions or None, fields or None) if expressions or fields else None
