"""Validation of typed objects: what an API server would reject and what would change a decision.

The embedded API server and everything that reads manifests validate. Conformance input and objects of a live API server
are not validated: a server has done that.
"""

from collections.abc import Callable, Iterator

from mooring.api.api_errors import field_invalid
from mooring.api.kinds import BY_STRUCT
from mooring.api.validation import claim_rules
from mooring.api.validation import field_rules as rules
from mooring.api.validation.field_rules import amount
from mooring.api.validation.problem import NOTHING_THERE, Problem, Problems
from mooring.model import workloads
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec, ResourceList
from mooring.model.quantity import NANO, QuantityText
from mooring.model.selectors import SelectorError, compile_selector
from mooring.model.workloads import Workload

NameRule = Callable[[str, str], Problems]
"""Problems of a name at a path."""


def validate(checked: KubeObject, name_rule: NameRule | None = None) -> list[Problem]:
    """All problems of one object, in the order of its fields. `name_rule` is for kinds with names of another form."""
    usual = rules.short_name if isinstance(checked, workloads.Namespace) else rules.object_name
    problems = [*_metadata(checked, name_rule or usual)]
    if isinstance(checked, workloads.Workload):
        return [*problems, *_workload(checked)]
    spec = BY_STRUCT.get(type(checked))
    return [*problems, *spec.check(checked)] if spec is not None and spec.check is not None else problems


def _metadata(checked: KubeObject, name_rule: NameRule) -> Problems:
    """A name may be missing if generateName is there: the server completes it."""
    meta = checked.metadata
    if meta.name or not meta.generate_name:
        yield from name_rule("metadata.name", meta.name)
    if meta.namespace:
        yield from rules.short_name("metadata.namespace", meta.namespace)
    yield from rules.labels("metadata.labels", meta.labels)


def _workload(workload: workloads.Workload) -> Problems:
    """Everything but the template, which is validated in the pods that are created from it."""
    spec = workload.spec
    counts = {"replicas": spec.replicas, "parallelism": spec.parallelism, "completions": spec.completions}
    for name, count in counts.items():
        yield from rules.in_range(f"spec.{name}", count, 0, told=rules.NOT_NEGATIVE)
    for i, template in enumerate(spec.volume_claim_templates or ()):
        yield from rules.object_name(f"spec.volumeClaimTemplates[{i}].metadata.name", template.name)
        yield from claim_rules.check_claim_spec(f"spec.volumeClaimTemplates[{i}].spec", template.spec)
    if workload.kind not in ("Job", "ReplicationController"):
        yield from _template_is_selected(workload)


def _template_is_selected(workload: workloads.Workload) -> Problems:
    """A workload whose selector does not match its template would create pods without end."""
    spec = workload.spec
    if spec.replicas == 0 and not spec.template.spec.containers:
        return  # snapshots leave out the template of a workload without replicas
    if spec.selector is None:
        yield Problem("spec.selector", NOTHING_THERE, "a selector that matches the labels of the template")
        return
    faults = [*rules.label_selector("spec.selector", spec.selector)]
    yield from faults
    path, labels = "spec.template.metadata.labels", spec.template.metadata.labels or {}
    try:
        matches = compile_selector(spec.selector).matches(labels)
    except SelectorError:
        return
    if not matches and not faults:
        told = field_invalid(path, labels, "`selector` does not match template `labels`")
        yield Problem(path, "labels that spec.selector does not match", "labels that it matches", told=told)


# ---- warnings: amounts that the API server admits and that are probably mistakes


MOST_CPUS = 10_000
"""More CPUs than any machine has: `cpu: 512Mi` is 536,870,912 CPUs."""
LEAST_MEMORY_BYTES = 64 << 10
"""Less memory than any process starts with: `memory: 512` is 512 bytes, `memory: 512m` half a byte."""

_BYTES = ("memory", "ephemeral-storage")


def amount_warnings(item: KubeObject) -> list[Problem]:
    """Warnings about the requests and limits of a pod, or of the template of a workload."""
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
