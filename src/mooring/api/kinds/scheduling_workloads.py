"""Workloads of scheduling.k8s.io: templates that controllers make PodGroups from. No decision reads them."""

import msgspec

from mooring.api.api_errors import Cause, field_duplicate, field_required
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import BY_NAME, KindSpec
from mooring.api.validation.group_rules import PodGroupTemplate, check_templates
from mooring.api.validation.problem import AGAIN, NOTHING_THERE, Problem


def _faults(workload: JsonObject) -> list[Cause]:
    written = workload.get("spec", {}).get("podGroupTemplates") or []
    templates = msgspec.convert(written, list[PodGroupTemplate], strict=False)
    return [_cause(problem) for problem in check_templates("spec.podGroupTemplates", templates)]


def _cause(problem: Problem) -> Cause:
    if problem.found == NOTHING_THERE:
        return field_required(problem.path)
    if problem.found.endswith(AGAIN):
        return field_duplicate(problem.path, msgspec.json.decode(problem.found.removesuffix(AGAIN)))
    return Cause("FieldValueInvalid", f"Invalid value: {problem.found}: {problem.allowed}", problem.path)


GROUP_TEMPLATES = KindSpec(
    *("scheduling.k8s.io", "v1alpha2", "workloads", "Workload"),
    faults=_faults,
    fixed=("spec.controllerRef", "spec.podGroupTemplates"),
    lists={"spec.podGroupTemplates": BY_NAME},
)
