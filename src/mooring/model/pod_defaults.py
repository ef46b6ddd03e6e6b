"""What every API server adds to a pod, whatever else is in the cluster. All functions change the pod in place."""

from collections.abc import Iterator

from mooring.model.meta import LabelSelector, Requirement
from mooring.model.node import NO_EXECUTE
from mooring.model.pod import Container, Pod, PodAffinityTerm, PodSpec, ResourceList, Toleration
from mooring.model.quantity import NANO, parse, to_milli
from mooring.model.requests import Accounting, are_readable, effective_requests

DEFAULT_SCHEDULER = "default-scheduler"
DEFAULT_TOLERATION_S = 300
NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MILLI = NANO // 1000


def complete_pod(pod: Pod) -> None:
    """Fill in what defaulting fills in, before admission sees the pod."""
    spec = pod.spec
    spec.scheduler_name = spec.scheduler_name or DEFAULT_SCHEDULER
    pod.status.phase = pod.status.phase or "Pending"
    for container in containers_of(spec):
        _complete_container(container, spec.host_network)
    for group in (spec.overhead, spec.resources and spec.resources.requests, spec.resources and spec.resources.limits):
        round_up(group or None)
    _complete_pod_requests(pod)
    for volume in spec.volumes or ():
        if volume.rbd is not None:
            volume.rbd.pool = volume.rbd.pool or "rbd"


def containers_of(spec: PodSpec) -> list[Container]:
    return [*(spec.init_containers or ()), *spec.containers]


def _complete_container(container: Container, host_network: bool) -> None:
    resources = container.resources
    if resources is not None:
        round_up(resources.requests)
        round_up(resources.limits)
        if resources.limits:
            resources.requests = {**resources.limits, **(resources.requests or {})}
    for port in container.ports or ():
        port.protocol = port.protocol or "TCP"
        if host_network:
            port.host_port = port.host_port or port.container_port


def round_up(amounts: ResourceList | None) -> None:
    """Quantities finer than a thousandth become whole thousandths; what is not a quantity is left to validation."""
    for name, text in (amounts or {}).items():
        try:
            nano = parse(text)
        except ValueError:
            continue
        if amounts is not None and nano % _MILLI:
            amounts[name] = f"{to_milli(nano)}m"


def _complete_pod_requests(pod: Pod) -> None:
    """Where the pod as a whole has limits, requests that it lacks are those of its containers, else the limits."""
    whole = pod.spec.resources
    if whole is None or not whole.limits:
        return
    bare = PodSpec(containers=pod.spec.containers, init_containers=pod.spec.init_containers)
    if not are_readable(bare):
        return
    inside = effective_requests(Pod(spec=bare), Accounting(pod_level=False))
    asked = {name: _write(nano) for name, nano in inside.items() if name in ("cpu", "memory")}
    whole.requests = {**whole.limits, **asked, **(whole.requests or {})}


def _write(nano: int) -> str:
    return str(nano // NANO) if nano % NANO == 0 else f"{to_milli(nano)}m"


def add_tolerations(spec: PodSpec) -> None:
    """A pod stays for five minutes on a node in trouble, unless it says otherwise."""
    held = list(spec.tolerations or ())
    for trouble in NODE_TROUBLES:
        if not any(t.key in (trouble, "") and t.effect in (NO_EXECUTE, "") for t in held):
            held.append(
                Toleration(key=trouble, operator="Exists", effect=NO_EXECUTE, toleration_seconds=DEFAULT_TOLERATION_S)
            )
    spec.tolerations = held or None


def merge_label_keys(pod: Pod) -> None:
    """matchLabelKeys and mismatchLabelKeys become lines of the selector: schedulers read only that."""
    for term in _pod_terms(pod.spec):
        if term.label_selector is not None:
            lines = [*_lines(pod, term.match_label_keys, "In"), *_lines(pod, term.mismatch_label_keys, "NotIn")]
            _append(term.label_selector, lines)


def _lines(pod: Pod, keys: list[str] | None, operator: str) -> Iterator[Requirement]:
    for key in keys or ():
        if key in pod.labels:
            yield Requirement(key=key, operator=operator, values=[pod.labels[key]])


def _append(selector: LabelSelector, lines: list[Requirement]) -> None:
    held = selector.match_expressions or []
    selector.match_expressions = [*held, *(line for line in lines if line not in held)] or None


def _pod_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    if spec.affinity is not None:
        for group in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
            if group is not None:
                yield from group.required or ()
                yield from (weighted.pod_affinity_term for weighted in group.preferred or ())
