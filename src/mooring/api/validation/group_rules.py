"""Validation of pod groups, of groups of them, and of Workloads, which have the templates that controllers make groups from.

The texts are those of kube-apiserver, which generates these rules from tags in its types.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import field

from mooring.api import api_errors as errors
from mooring.api.json_objects import JsonObject
from mooring.api.validation import field_rules as rules
from mooring.api.validation.pod_rules import PREEMPTION_POLICIES, resource_claims
from mooring.api.validation.problem import AGAIN, CHOICES, NOTHING_THERE, TOO_MANY, Problem, Problems, show
from mooring.model import pod_spec, workloads
from mooring.model.meta import MAX_INT32, Wire

HIGHEST_USER_PRIORITY = 1_000_000_000
"""Upstream's HighestUserDefinablePriority; higher values are for system classes."""
MAX_TEMPLATES, MAX_CLAIMS, MAX_TOPOLOGIES = 8, 4, 1
"""Upstream's WorkloadMaxPodGroupTemplates and MaxPodGroupResourceClaims; so far a group has one topology."""
MAX_DEPTH = 4
"""Upstream's WorkloadMaxTreeDepth: so many groups, one within the other, the PodGroup included."""


class PodGroupTemplate(workloads.GroupTerms):
    """One entry of a Workload; only validation reads it."""

    name: str = ""
    scheduling_policy: workloads.GroupPolicy = field(default_factory=workloads.GroupPolicy)
    resource_claims: list[pod_spec.PodResourceClaim] | None = None


class CompositePodGroupTemplate(workloads.GroupTerms):
    """One entry of a Workload that holds others; only validation reads it."""

    name: str = ""
    scheduling_policy: workloads.CompositeGroupPolicy = field(default_factory=workloads.CompositeGroupPolicy)
    pod_group_templates: list[PodGroupTemplate] | None = None
    composite_pod_group_templates: "list[CompositePodGroupTemplate] | None" = None


class WorkloadTemplates(Wire):
    """The templates in the spec of a Workload."""

    pod_group_templates: list[PodGroupTemplate] | None = None
    composite_pod_group_templates: list[CompositePodGroupTemplate] | None = None


# ---- groups and single templates


_Leaf = workloads.PodGroupSpec | PodGroupTemplate
_Composite = workloads.CompositePodGroupSpec | CompositePodGroupTemplate


def check_pod_group(group: workloads.PodGroup) -> Problems:
    """The checks of kube-apiserver on a group."""
    spec = group.spec
    yield from _leaf("spec", spec)
    yield from _references("spec", spec)
    if spec.parent_composite_pod_group_name is not None and spec.workload_ref is None:
        yield Problem("spec.workloadRef", NOTHING_THERE, "must be set when parentCompositePodGroupName is set")
    known = {claim.name for claim in spec.resource_claims or ()}
    for i, made in enumerate(group.status.resource_claim_statuses or ()):
        if made.name not in known:
            path = f"status.resourceClaimStatuses[{i}].name"
            yield Problem(path, show(made.name), "must match the name of an entry in `spec.resourceClaims`")


def check_composite_pod_group(group: workloads.CompositePodGroup) -> Problems:
    """The checks of kube-apiserver on a group of groups."""
    yield from _composite("spec", group.spec)
    yield from _references("spec", group.spec)
    if group.spec.workload_ref is None:
        yield Problem("spec.workloadRef", NOTHING_THERE, "the template that the group was made from")


def _references(path: str, spec: workloads.PodGroupSpec | workloads.CompositePodGroupSpec) -> Problems:
    """Yield the problems of the names of other objects that a group has."""
    if spec.parent_composite_pod_group_name is not None:
        yield from rules.object_name(f"{path}.parentCompositePodGroupName", spec.parent_composite_pod_group_name)
    if spec.workload_ref is not None:
        yield from rules.object_name(f"{path}.workloadRef.workloadName", spec.workload_ref.workload_name)
        yield from rules.short_name(f"{path}.workloadRef.templateName", spec.workload_ref.template_name)


def _leaf(path: str, spec: _Leaf) -> Problems:
    """Yield the problems of a PodGroup or of its template."""
    gang = spec.scheduling_policy.gang
    yield from _policy(path, spec, None if gang is None else ("minCount", gang.min_count))
    yield from _claims(path, spec.resource_claims or ())


def _composite(path: str, spec: _Composite) -> Problems:
    """Yield the problems of a CompositePodGroup or of its template."""
    gang = spec.scheduling_policy.gang
    yield from _policy(path, spec, None if gang is None else ("minGroupCount", gang.min_group_count))


def _policy(path: str, spec: _Leaf | _Composite, minimum: tuple[str, int] | None) -> Problems:
    """Yield the problems of what all groups and templates have: scheduling policy, topology, disruption mode, priority."""
    policy, place = spec.scheduling_policy, f"{path}.schedulingPolicy"
    yield from _one_of(place, {"basic": policy.basic, "gang": policy.gang})
    if minimum is not None:
        name, number = minimum
        yield from rules.required(f"{place}.gang.{name}", number, "at least 1")
        least = "must be greater than or equal to 1"
        yield from rules.in_range(f"{place}.gang.{name}", number or None, 1, MAX_INT32, least)
    yield from _topology(path, spec.scheduling_constraints)
    if (mode := spec.disruption_mode) is not None:
        yield from _one_of(f"{path}.disruptionMode", {"single": mode.single, "all": mode.together})
    if spec.priority_class_name:
        yield from rules.object_name(f"{path}.priorityClassName", spec.priority_class_name)
    if spec.priority is not None and spec.priority > HIGHEST_USER_PRIORITY:
        most = f"must be less than or equal to {HIGHEST_USER_PRIORITY}"
        yield Problem(f"{path}.priority", str(spec.priority), most)
    yield from rules.one_of(f"{path}.preemptionPolicy", spec.preemption_policy, PREEMPTION_POLICIES)


def _topology(path: str, constraints: workloads.GroupConstraints | None) -> Problems:
    topologies = (constraints.topology or ()) if constraints is not None else ()
    place = f"{path}.schedulingConstraints.topology"
    yield from _at_most(place, len(topologies), MAX_TOPOLOGIES)
    for i, topology in enumerate(topologies):
        yield from rules.label_key(f"{place}[{i}].key", topology.key)


def _claims(path: str, claims: Sequence[pod_spec.PodResourceClaim]) -> Problems:
    yield from resource_claims(f"{path}.resourceClaims", claims)
    yield from _at_most(f"{path}.resourceClaims", len(claims), MAX_CLAIMS)


def _one_of(path: str, members: dict[str, Any]) -> Problems:
    """Exactly one of the members of a union is there."""
    there = [name for name, value in members.items() if value is not None]
    choices = ", ".join(f"`{name}`" for name in members)
    if not there:
        yield Problem(path, show(""), f"must specify one of: {choices}")
    elif len(there) > 1:
        yield Problem(path, show(f"{{{', '.join(there)}}}"), f"must specify exactly one of: {choices}")


def _at_most(path: str, number: int, most: int) -> Problems:
    if number > most:
        yield Problem(path, f"{number}{TOO_MANY}", f"must have at most {most} item{'' if most == 1 else 's'}")


# ---- Workloads


def workload_faults(workload: JsonObject) -> list[errors.Cause]:
    """The faults of the templates of a Workload."""
    spec = msgspec.convert(workload.get("spec") or {}, WorkloadTemplates, strict=False)
    leaves, composites = spec.pod_group_templates or [], spec.composite_pod_group_templates or []
    members = {"podGroupTemplates": leaves or None, "compositePodGroupTemplates": composites or None}
    problems = [*_one_of("spec", members), *_templates("spec", leaves, composites)]
    names = {leaf.name for leaf in leaves}
    return [
        *(_cause(problem, workload) for problem in problems),
        *_names_twice("spec", composites, names),
        *_too_deep(composites),
        *_priorities(leaves, composites),
        *_childless("spec", composites),
    ]


def _templates(
    path: str, leaves: Sequence[PodGroupTemplate], composites: Sequence[CompositePodGroupTemplate]
) -> Problems:
    """Yield the problems of templates, each by itself, and of those that they hold."""
    place = f"{path}.podGroupTemplates"
    yield from _listed(place, [leaf.name for leaf in leaves])
    for i, leaf in enumerate(leaves):
        yield from _leaf(f"{place}[{i}]", leaf)
    place = f"{path}.compositePodGroupTemplates"
    yield from _listed(place, [each.name for each in composites])
    for i, each in enumerate(composites):
        yield from _composite(f"{place}[{i}]", each)
        held = each.pod_group_templates or (), each.composite_pod_group_templates or ()
        yield from _templates(f"{place}[{i}]", *held)


def _listed(path: str, names: Sequence[str]) -> Problems:
    """Yield the problems of a list of templates with these names."""
    yield from _at_most(path, len(names), MAX_TEMPLATES)
    yield from rules.unique(((f"{path}[{i}]", name) for i, name in enumerate(names)), "name")
    for i, name in enumerate(names):
        yield from rules.short_name(f"{path}[{i}].name", name)


def _names_twice(path: str, templates: Sequence[CompositePodGroupTemplate], names: set[str]) -> Iterator[errors.Cause]:
    """Names are unique in the whole tree. Parity: names of one list are a matter of the list."""
    place = f"{path}.compositePodGroupTemplates"
    for i, each in enumerate(templates):
        if each.name in names:
            yield errors.field_duplicate(f"{place}[{i}].name", each.name)
    names.update(each.name for each in templates)
    for i, each in enumerate(templates):
        leaves = each.pod_group_templates or ()
        for j, leaf in enumerate(leaves):
            if leaf.name in names:
                yield errors.field_duplicate(f"{place}[{i}].podGroupTemplates[{j}].name", leaf.name)
        names.update(leaf.name for leaf in leaves)
        yield from _names_twice(f"{place}[{i}]", each.composite_pod_group_templates or (), names)


def _too_deep(templates: Sequence[CompositePodGroupTemplate]) -> Iterator[errors.Cause]:
    for i, each in enumerate(templates):
        if _depth(each) >= MAX_DEPTH:
            held = msgspec.to_builtins(each.composite_pod_group_templates)
            why = f"maximum template hierarchy depth is {MAX_DEPTH}"
            yield errors.field_invalid(f"spec.compositePodGroupTemplates[{i}]", held, why)


def _depth(template: CompositePodGroupTemplate) -> int:
    """How many composite templates hold each other, this one included."""
    return 1 + max(map(_depth, template.composite_pod_group_templates or ()), default=0)


def _priorities(
    leaves: Sequence[PodGroupTemplate], composites: Sequence[CompositePodGroupTemplate]
) -> list[errors.Cause]:
    """All templates of a Workload have the same priority."""
    if len({_priority(leaf) for leaf in leaves}) > 1:
        return [errors.field_invalid("spec", None, "detected multiple priority configurations")]
    if len({_priority(leaf) for leaf in leaves} | {found for each in composites for found in _within(each)}) > 1:
        why = "all priority and priorityClassName values must be identical, detected multiple values"
        return [errors.field_invalid("spec", None, why)]
    return []


def _priority(template: PodGroupTemplate | CompositePodGroupTemplate) -> tuple[str, int | None]:
    return template.priority_class_name or "", template.priority


def _within(template: CompositePodGroupTemplate) -> Iterator[tuple[str, int | None]]:
    """The priorities of a template and of all that it holds."""
    yield _priority(template)
    yield from map(_priority, template.pod_group_templates or ())
    for each in template.composite_pod_group_templates or ():
        yield from _within(each)


def _childless(path: str, templates: Sequence[CompositePodGroupTemplate]) -> Iterator[errors.Cause]:
    for i, each in enumerate(templates):
        place = f"{path}.compositePodGroupTemplates[{i}]"
        if not each.pod_group_templates and not each.composite_pod_group_templates:
            why = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
            yield errors.field_invalid(place, each.name, why)
        yield from _childless(place, each.composite_pod_group_templates or ())


def _cause(problem: Problem, owner: JsonObject) -> errors.Cause:
    """A problem in the words of the server. Parity: of an item that is there twice it shows all, not only the name; and it
    sorts choices."""
    if problem.found.endswith(AGAIN):
        return errors.field_duplicate(problem.path, _item(owner, problem.path))
    if CHOICES.fullmatch(problem.allowed):
        problem = replace(problem, allowed=", ".join(sorted(problem.allowed.split(", "))))
    return problem.cause()


def _item(owner: JsonObject, path: str) -> Any:
    """The item of a list at a path such as `spec.podGroupTemplates[1]`."""
    found: Any = owner
    for name, number in re.findall(r"(\w+)(?:\[(\d+)\])?", path):
        found = found[name][int(number)] if number else found[name]
    return found


# ---- changes: a group is what it was created as, but for the minimum of a gang


_FIXED_OF_ALL = ("schedulingConstraints", "disruptionMode", "priorityClassName", "priority", "preemptionPolicy")
_FIXED_OF_GROUP = ("parentCompositePodGroupName", "workloadRef", "resourceClaims", *_FIXED_OF_ALL)
_FIXED_OF_COMPOSITE = ("parentCompositePodGroupName", "workloadRef", "schedulingPolicy", *_FIXED_OF_ALL)


def pod_group_changes(old: JsonObject, new: JsonObject) -> list[errors.Cause]:
    """The faults of an update of a PodGroup."""
    before, after = _specs(old, new)
    return [*_fixed("spec", before, after, _FIXED_OF_GROUP), *_policy_changes("spec", before, after)]


def composite_changes(old: JsonObject, new: JsonObject) -> list[errors.Cause]:
    """The faults of an update of a CompositePodGroup."""
    return [*_fixed("spec", *_specs(old, new), _FIXED_OF_COMPOSITE)]


def workload_changes(old: JsonObject, new: JsonObject) -> list[errors.Cause]:
    """The faults of an update of a Workload: templates neither come nor go, and only minimums of gangs change."""
    before, after = _specs(old, new)
    return [*_fixed("spec", before, after, ("controllerRef",)), *_template_changes("spec", before, after)]


def _specs(old: JsonObject, new: JsonObject) -> tuple[JsonObject, JsonObject]:
    return old.get("spec") or {}, new.get("spec") or {}


def _template_changes(path: str, old: JsonObject, new: JsonObject) -> Iterator[errors.Cause]:
    for name in ("podGroupTemplates", "compositePodGroupTemplates"):
        place = f"{path}.{name}"
        before, after = ({each.get("name"): each for each in owner.get(name) or ()} for owner in (old, new))
        yield from (
            errors.field_forbidden(f"{place}[{i}]", "item may not be added")
            for i, each in enumerate(new.get(name) or ())
            if each.get("name") not in before
        )
        yield from (errors.field_forbidden(place, "item may not be removed") for known in before if known not in after)
        for i, each in enumerate(new.get(name) or ()):
            held = before.get(each.get("name"))
            if held is not None:
                yield from _fixed(f"{place}[{i}]", held, each, (*_FIXED_OF_ALL, "resourceClaims"))
                yield from _policy_changes(f"{place}[{i}]", held, each)
                yield from _template_changes(f"{place}[{i}]", held, each)


def _fixed(path: str, old: JsonObject, new: JsonObject, names: Sequence[str]) -> Iterator[errors.Cause]:
    for name in names:
        if old.get(name) != new.get(name):
            yield errors.field_invalid(f"{path}.{name}", None, "field is immutable")


def _policy_changes(path: str, old: JsonObject, new: JsonObject) -> Iterator[errors.Cause]:
    """A gang stays a gang, and a basic group a basic one."""
    before, after = (each.get("schedulingPolicy") or {} for each in (old, new))
    if before.get("basic") != after.get("basic"):
        yield errors.field_invalid(f"{path}.schedulingPolicy.basic", None, "field is immutable")
    yield from _set_once(f"{path}.schedulingPolicy.gang", before.get("gang"), after.get("gang"))


# ---- `spec.scheduling` of Jobs (gate WorkloadWithJob)


class JobGangPolicy(Wire):
    """A gang of as many pods as the Job runs at once, if it has no minimum."""

    min_count: int | None = None


class JobPolicy(Wire):
    basic: workloads.BasicPolicy | None = None
    gang: JobGangPolicy | None = None


class JobScheduling(Wire):
    """How the pods of a Job are scheduled together; only validation reads it."""

    scheduling_policy: JobPolicy | None = None
    scheduling_constraints: workloads.GroupConstraints | None = None
    disruption_mode: workloads.DisruptionMode | None = None
    resource_claims: list[pod_spec.PodResourceClaim] | None = None


def job_faults(job: JsonObject) -> list[errors.Cause]:
    """The faults of the scheduling of a Job."""
    spec = job.get("spec") or {}
    if spec.get("scheduling") is None:
        return []
    asked = msgspec.convert(spec["scheduling"], JobScheduling, strict=False)
    return [_cause(problem, job) for problem in _scheduling("spec.scheduling", asked, spec.get("parallelism", 1))]


def _scheduling(path: str, asked: JobScheduling, at_once: int) -> Problems:
    policy, mode = asked.scheduling_policy, asked.disruption_mode
    if policy is not None:
        yield from _one_of(f"{path}.schedulingPolicy", {"basic": policy.basic, "gang": policy.gang})
        if policy.gang is not None and policy.gang.min_count is not None:
            yield from _job_minimum(f"{path}.schedulingPolicy.gang.minCount", policy.gang.min_count, at_once)
    yield from _topology(path, asked.scheduling_constraints)
    if mode is not None:
        yield from _one_of(f"{path}.disruptionMode", {"single": mode.single, "all": mode.together})
        if mode.together is not None and (policy is None or policy.basic is not None):
            why = "the disruptionMode `all` is not supported with the Basic scheduling policy"
            yield Problem(f"{path}.disruptionMode", show(""), why)
    yield from _claims(path, asked.resource_claims or ())


def _job_minimum(path: str, number: int, at_once: int) -> Problems:
    if number < 1:
        yield Problem(path, str(number), "must be greater than or equal to 1")
    if number > at_once:
        yield Problem(path, str(number), f"must not be greater than parallelism ({at_once})")


def job_changes(old: JsonObject, new: JsonObject) -> list[errors.Cause]:
    """The faults of an update of the scheduling of a Job: only the minimum of a gang changes."""
    before, after = (each.get("spec", {}).get("scheduling") for each in (old, new))
    if before is None or after is None:
        return [*_set_once("spec.scheduling", before, after)]
    path, policies = "spec.scheduling.schedulingPolicy", (before.get("schedulingPolicy"), after.get("schedulingPolicy"))
    faults = [*_fixed("spec.scheduling", before, after, ("schedulingConstraints", "disruptionMode", "resourceClaims"))]
    if None in policies:
        return [*_set_once(path, *policies), *faults]
    if ("basic" in policies[0]) != ("basic" in policies[1]):
        what = "the basic/gang policy variant is immutable after creation"
        why = f"{what}; only schedulingPolicy.gang.minCount may be updated"
        faults.append(errors.field_invalid(path, None, why))
    return faults


def _set_once(path: str, before: Any, after: Any) -> Iterator[errors.Cause]:
    """A field that is there or not from the beginning on."""
    if (before is None) != (after is None):
        why = "field cannot be set once created" if before is None else "field cannot be cleared once set"
        yield errors.field_invalid(path, None, why)
