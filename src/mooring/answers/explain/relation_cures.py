"""Cures by asking less of the pods around: spread constraints, required pod affinity and anti-affinity, host ports."""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from mooring.answers.explain.cure import CHANGE_RULE, Patient, PodChange, Relaxation, with_spec
from mooring.answers.trial.obstacles import show_requirement
from mooring.model.meta import LabelSelector
from mooring.model.pod import Pod
from mooring.model.pod_spec import Affinity, PodAffinityTerm, TopologySpreadConstraint

MAX_TERMS = 20
"""How many constraints or terms are tried one by one."""
_HARD = "DoNotSchedule"
Side = Literal["pod_affinity", "pod_anti_affinity"]
_SIDES: tuple[tuple[Side, str], ...] = (("pod_affinity", "affinity"), ("pod_anti_affinity", "anti-affinity"))


class SpreadLess(Relaxation):
    """Spread constraints that must be satisfied."""

    def relax(self, pod: Pod) -> Pod | None:
        constraints = pod.spec.topology_spread_constraints or ()
        if not any(each.when_unsatisfiable == _HARD for each in constraints):
            return None
        return with_spec(pod, topology_spread_constraints=[each for each in constraints if not _is_hard(each)] or None)

    def options(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        """A larger maxSkew, the smallest that helps, or a preference instead, for one constraint; else for all of them."""
        hard = [i for i, each in enumerate(pod.spec.topology_spread_constraints or ()) if _is_hard(each)]
        is_found = False
        for i in hard[:MAX_TERMS]:
            for change in (self._larger_skew(patient, pod, i), _as_preference(pod, i)):
                if change is not None and patient.node_for(change.apply(pod)) is not None:
                    is_found = True
                    yield change
        if not is_found and len(hard) > 1 and patient.node_for(self.relax(pod) or pod) is not None:
            text = "make all spread constraints ScheduleAnyway"
            yield PodChange("drop-spread", text, CHANGE_RULE * len(hard), lambda pod: self.relax(pod) or pod)

    def _larger_skew(self, patient: Patient, pod: Pod, index: int) -> PodChange | None:
        constraint = (pod.spec.topology_spread_constraints or [])[index]
        low, high = constraint.max_skew, constraint.max_skew + len(patient.trials.cluster.nodes.pods()) + 1
        if patient.node_for(_with_constraint(pod, index, max_skew=high)) is None:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            fits = patient.node_for(_with_constraint(pod, index, max_skew=middle)) is not None
            low, high = (low, middle) if fits else (middle, high)
        text = f"raise maxSkew over {constraint.topology_key} from {constraint.max_skew} to {high}"
        return PodChange("raise-skew", text, CHANGE_RULE - 1, lambda pod: _with_constraint(pod, index, max_skew=high))


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

    def options(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        is_found = False
        for side, name in _SIDES:
            for i, term in enumerate(_terms(pod, side)[:MAX_TERMS]):
                text = f"drop the required pod {name} {_show_term(term)}"
                change = PodChange("drop-affinity", text, CHANGE_RULE, _without_term(side, i))
                if patient.node_for(change.apply(pod)) is not None:
                    is_found = True
                    yield change
        if not is_found and patient.node_for(self.relax(pod) or pod) is not None:
            text = "drop all required pod affinity and anti-affinity"
            yield PodChange("drop-affinity", text, 2 * CHANGE_RULE, lambda pod: self.relax(pod) or pod)


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


def _show_term(term: PodAffinityTerm) -> str:
    return f"over {term.topology_key} ({_show_selector(term.label_selector)})"


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

    def options(self, patient: Patient, pod: Pod) -> Iterator[PodChange]:
        """One port alone; else all of them."""
        ports = list(dict.fromkeys(port for _, _, port in pod.shape.host_ports))
        sets = [[port] for port in ports[:MAX_TERMS]] + ([ports] if len(ports) > 1 else [])
        for chosen in sets:
            text = f"do without hostPort {', '.join(map(str, chosen[:MAX_TERMS]))}"
            change = PodChange("drop-port", text, CHANGE_RULE * len(chosen), _dropping(set(chosen)))
            if patient.node_for(change.apply(pod)) is not None:
                yield change
                if len(chosen) > 1:
                    return


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
