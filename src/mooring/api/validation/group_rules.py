"""Rules for pod groups and for the templates that they are made from (the kind Workload)."""

from collections.abc import Sequence

from msgspec import field

from mooring.api.validation import field_rules as rules
from mooring.api.validation.pod_rules import resource_claims
from mooring.api.validation.problem import NOTHING_THERE, Problem, Problems, show
from mooring.model.meta import MAX_INT32, Wire
from mooring.model.workloads import GroupClaim, GroupConstraints, GroupPolicy, PodGroup

MAX_TEMPLATES, MAX_CLAIMS, MAX_TOPOLOGIES = 8, 4, 1
"""Upstream's WorkloadMaxPodGroupTemplates and MaxPodGroupResourceClaims; so far a group has one topology."""
_POLICIES = "`basic`, `gang`"


class PodGroupTemplate(Wire):
    """One entry of a Workload; only validation reads it."""

    name: str = ""
    scheduling_policy: GroupPolicy = field(default_factory=GroupPolicy)
    scheduling_constraints: GroupConstraints | None = None
    resource_claims: list[GroupClaim] | None = None


def check_pod_group(group: PodGroup) -> Problems:
    """What kube-apiserver checks of the spec of a group, but for priority and disruption mode."""
    spec = group.spec
    yield from _group("spec", spec.scheduling_policy, spec.scheduling_constraints, spec.resource_claims or ())
    known = {claim.name for claim in spec.resource_claims or ()}
    for i, made in enumerate(group.status.resource_claim_statuses or ()):
        if made.name not in known:
            path = f"status.resourceClaimStatuses[{i}].name"
            yield Problem(path, show(made.name), "must match the name of an entry in `spec.resourceClaims`")


def check_templates(path: str, templates: Sequence[PodGroupTemplate]) -> Problems:
    """The templates of a Workload."""
    if not templates:
        yield Problem(path, NOTHING_THERE, "at least one template")
    yield from _at_most(path, len(templates), MAX_TEMPLATES)
    yield from rules.unique(((f"{path}[{i}].name", each.name) for i, each in enumerate(templates)), "name")
    for i, each in enumerate(templates):
        own = f"{path}[{i}]"
        yield from rules.short_name(f"{own}.name", each.name)
        yield from _group(own, each.scheduling_policy, each.scheduling_constraints, each.resource_claims or ())


def _group(
    path: str, policy: GroupPolicy, constraints: GroupConstraints | None, claims: Sequence[GroupClaim]
) -> Problems:
    yield from _policy(f"{path}.schedulingPolicy", policy)
    topologies = (constraints.topology or ()) if constraints is not None else ()
    place = f"{path}.schedulingConstraints.topology"
    yield from _at_most(place, len(topologies), MAX_TOPOLOGIES)
    for i, topology in enumerate(topologies):
        yield from rules.label_key(f"{place}[{i}].key", topology.key)
    yield from resource_claims(f"{path}.resourceClaims", claims)
    yield from _at_most(f"{path}.resourceClaims", len(claims), MAX_CLAIMS)


def _policy(path: str, policy: GroupPolicy) -> Problems:
    """Exactly one policy; a gang needs at least one pod."""
    if policy.basic is None and policy.gang is None:
        yield Problem(path, show(""), f"must specify one of: {_POLICIES}")
    elif policy.basic is not None and policy.gang is not None:
        yield Problem(path, show("{basic, gang}"), f"must specify exactly one of: {_POLICIES}")
    if policy.gang is not None:
        yield from rules.in_range(f"{path}.gang.minCount", policy.gang.min_count, 1, MAX_INT32)


def _at_most(path: str, number: int, most: int) -> Problems:
    if number > most:
        yield Problem(path, str(number), f"must have at most {most} items")
