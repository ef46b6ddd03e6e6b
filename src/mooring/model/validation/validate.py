"""What a real API server would refuse and what would change a decision, told before a simulation starts.

Only manifests that people wrote are checked. Conformance input and what a live API server sends are taken as they are.
"""

from mooring.model import workloads
from mooring.model.kinds import BY_STRUCT
from mooring.model.meta import KubeObject
from mooring.model.selectors import SelectorError, compile_selector
from mooring.model.validation import claim_rules
from mooring.model.validation import field_rules as rules
from mooring.model.validation.problem import NOTHING_THERE, Problem, Problems


def validate(checked: KubeObject) -> list[Problem]:
    """Every problem of one object, in the order of its fields."""
    problems = [*_metadata(checked)]
    if isinstance(checked, workloads.Workload):
        return [*problems, *_workload(checked)]
    spec = BY_STRUCT.get(type(checked))
    return [*problems, *spec.check(checked)] if spec is not None and spec.check is not None else problems


def _metadata(checked: KubeObject) -> Problems:
    meta = checked.metadata
    name_rule = rules.short_name if isinstance(checked, workloads.Namespace) else rules.object_name
    if meta.name or not meta.generate_name:
        yield from name_rule("metadata.name", meta.name)
    if meta.namespace:
        yield from rules.short_name("metadata.namespace", meta.namespace)
    yield from rules.labels("metadata.labels", meta.labels)


def _workload(workload: workloads.Workload) -> Problems:
    """The part that is not the template's: that is checked in the pods which are made from it."""
    spec = workload.spec
    counts = {"replicas": spec.replicas, "parallelism": spec.parallelism, "completions": spec.completions}
    for name, count in counts.items():
        yield from rules.in_range(f"spec.{name}", count, 0)
    for i, template in enumerate(spec.volume_claim_templates or ()):
        yield from rules.object_name(f"spec.volumeClaimTemplates[{i}].metadata.name", template.name)
        yield from claim_rules.check_claim_spec(f"spec.volumeClaimTemplates[{i}].spec", template.spec)
    if workload.kind not in ("Job", "ReplicationController"):
        yield from _template_is_selected(workload)


def _template_is_selected(workload: workloads.Workload) -> Problems:
    spec = workload.spec
    if spec.replicas == 0 and not spec.template.spec.containers:
        return  # a workload that makes no pods may be told without its template, as snapshots do
    if spec.selector is None:
        yield Problem("spec.selector", NOTHING_THERE, "a selector that matches the labels of the template")
        return
    faults = [*rules.label_selector("spec.selector", spec.selector)]
    yield from faults
    try:
        matches = compile_selector(spec.selector).matches(spec.template.metadata.labels or {})
    except SelectorError:
        return
    if not matches and not faults:
        yield Problem(
            "spec.template.metadata.labels", "labels that spec.selector does not match", "labels that it matches"
        )
