"""Amounts that the API server admits and that hardly anybody means: `memory: 512m` is half a byte."""

from collections.abc import Iterator

from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec, ResourceList
from mooring.model.quantity import NANO, QuantityText
from mooring.model.validation.field_rules import amount
from mooring.model.validation.problem import Problem, Problems
from mooring.model.workloads import Workload

MOST_CPUS = 10_000
"""No machine has as many CPUs; `cpu: 512Mi` stands for 536,870,912 of them."""
LEAST_MEMORY_BYTES = 64 << 10
"""No container runtime starts a process with less; `memory: 512` stands for 512 bytes."""

_BYTES = ("memory", "ephemeral-storage")


def amount_warnings(item: KubeObject) -> list[Problem]:
    """For a pod, or for the template of a workload."""
    match item:
        case Pod():
            return [*_of_spec("spec", item.spec)]
        case Workload():
            return [*_of_spec("spec.template.spec", item.spec.template.spec)]
    return []


def _of_spec(path: str, spec: PodSpec) -> Problems:
    for group, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for i, container in enumerate(containers or ()):
            if container.resources is not None:
                place = f"{path}.{group}[{i}].resources"
                yield from _of_amounts(f"{place}.limits", container.resources.limits)
                yield from _of_amounts(f"{place}.requests", container.resources.requests)
    yield from _of_amounts(f"{path}.overhead", spec.overhead)


def _of_amounts(path: str, amounts: ResourceList | None) -> Problems:
    for name, text in (amounts or {}).items():
        nano = amount(text)
        if nano is not None and nano > 0:
            yield from (Problem(f"{path}[{name}]", warning) for warning in _warnings(name, text, nano))


def _warnings(name: str, text: QuantityText, nano: int) -> Iterator[str]:
    if name in _BYTES and nano % NANO:
        # Parity: the words of the API server.
        yield f'fractional byte value "{text}" is invalid, must be an integer'
    elif name == "memory" and nano < LEAST_MEMORY_BYTES * NANO:
        yield f'"{text}" is {nano // NANO} bytes, which no container can start with; add a unit such as Mi'
    elif name == "cpu" and nano > MOST_CPUS * NANO:
        yield f'"{text}" is {nano // NANO} CPUs, more than any node has; units such as Mi are for memory'
