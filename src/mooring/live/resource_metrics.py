"""/metrics/resources: what every pod asks for and what it is limited to, resource by resource."""

from collections.abc import Iterable, Iterator

import msgspec

from mooring.framework.metric_catalogue import RESOURCES
from mooring.kit.metrics import MetricRegistry
from mooring.model.pod import Pod
from mooring.model.pod_spec import Container, ResourceRequirements
from mooring.model.quantity import parse_or, to_int, to_milli
from mooring.model.requests import FILTER, Amounts, effective_requests

_BYTES = frozenset(("memory", "storage", "ephemeral-storage"))


def resource_metrics(pods: Iterable[Pod]) -> bytes:
    """The text for Prometheus. Pods that have run to their end are left out."""
    registry = MetricRegistry(RESOURCES)
    requests, limits = registry.gauge("kube_pod_resource_request"), registry.gauge("kube_pod_resource_limit")
    for pod in pods:
        if pod.is_finished:
            continue
        for family, amounts in ((requests, effective_requests(pod, FILTER)), (limits, effective_limits(pod))):
            for labels, value in _series(pod, amounts):
                family.series(*labels).set(value)
    return registry.text().encode()


def effective_limits(pod: Pod) -> Amounts:
    """What the limits of containers add up to, by the rules for requests, in nano-units.

    Overhead counts only for a resource that is limited.
    """
    spec = msgspec.structs.replace(
        pod.spec,
        containers=[_asking_for_limit(container) for container in pod.spec.containers],
        init_containers=[_asking_for_limit(container) for container in pod.spec.init_containers or ()],
        resources=_limits_as_requests(pod.spec.resources),
        overhead=None,
    )
    limits = effective_requests(Pod(metadata=pod.metadata, spec=spec, status=pod.status), FILTER)
    overhead = {name: parse_or(text, 0) for name, text in (pod.spec.overhead or {}).items()}
    return {name: amount + overhead.get(name, 0) for name, amount in limits.items() if amount}


def _asking_for_limit(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=_limits_as_requests(container.resources))


def _limits_as_requests(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    return None if resources is None else ResourceRequirements(requests=resources.limits)


def _series(pod: Pod, amounts: Amounts) -> Iterator[tuple[tuple[str, ...], float]]:
    spec = pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    of_pod = (pod.namespace, pod.name, spec.node_name, spec.scheduler_name, priority)
    for name, nano in amounts.items():
        if nano:
            value = to_milli(nano) / 1000 if name == "cpu" else to_int(nano)
            yield (*of_pod, name, unit(name)), value


def unit(resource: str) -> str:
    """What an amount of the resource counts; empty where nobody knows."""
    if resource == "cpu":
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
