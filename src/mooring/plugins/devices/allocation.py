"""The devices that a search chose, and the allocation that is written into a claim for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.model.devices import (
    AllocatedDevice,
    AllocatedDevices,
    Allocation,
    AllocationConfiguration,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
)
from mooring.model.meta import Requirement
from mooring.model.pod_spec import NodeSelector, NodeSelectorTerm
from mooring.plugins.devices.capacity import Share
from mooring.plugins.devices.demand import (
    Ask,
)
from mooring.plugins.devices.pools import DeviceInSlice

# The API's values of `source` in the configuration of an allocation.
FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


@dataclass(slots=True, eq=False)
class Pick:
    """A device for a request, and what it took."""

    ask: Ask
    site: DeviceInSlice
    shares: dict[str, Share] | None = None
    """What it consumes of a device that others may use as well."""
    took_counters: bool = False
    """Whether it consumes shared counters, which `_drop` then has to give back."""
    is_marked: bool = False
    """Whether the search marked the device as taken: so it is for devices that cannot be shared."""


@dataclass(slots=True, eq=False)
class DeviceChoice:
    """The devices of each claim, in the order in which they were picked."""

    picks: Sequence[Sequence[Pick]]
    preferences: Sequence[Sequence[int]]
    """For each claim and request which alternative was taken."""


def allocation_of(
    claim: ResourceClaim,
    choice: DeviceChoice,
    index: int,
    node_name: str,
    classes: Mapping[str, DeviceClass],
    share_id: str,
) -> Allocation:
    """The allocation of one claim, `index` being its place among those that the devices were chosen for.

    `share_id` is unique to the allocation: with a number after it, it names each share of a device. Upstream draws a
    random UUID; here it is derived from the attempt, so that a run can be repeated.
    """
    picks = choice.picks[index]
    results = [_result(pick, f"{share_id}{number:012x}") for number, pick in enumerate(picks)]
    preferences = choice.preferences[index]
    config = [*_class_configuration(claim, preferences, classes), *_claim_configuration(claim, preferences)]
    devices = AllocatedDevices(results=results, config=config or None)
    return Allocation(devices=devices, node_selector=_selector(picks, node_name))


def _result(pick: Pick, share_id: str) -> AllocatedDevice:
    """One device in the status of the claim. Conditions and tolerations are copied: the slice may change later."""
    ask, device = pick.ask, pick.site.device
    driver, pool, name = pick.site.id
    consumed = {each: share.text for each, share in (pick.shares or {}).items()}
    return AllocatedDevice(
        request=ask.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if ask.has_admin_access else None,
        tolerations=list(ask.tolerations) or None,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=share_id if pick.shares is not None else None,
        consumed_capacity=consumed or None,
    )


def _class_configuration(
    claim: ResourceClaim, preferences: Sequence[int], classes: Mapping[str, DeviceClass]
) -> list[AllocationConfiguration]:
    """The configuration of each class once, with the requests that it is for."""
    by_class: dict[str, list[AllocationConfiguration]] = {}
    for request, preference in zip(claim.spec.devices.requests or (), preferences, strict=True):
        class_name, name = _class_and_name(request, preference)
        if class_name not in by_class:
            listed = classes[class_name].spec.config if class_name in classes else None
            by_class[class_name] = [
                AllocationConfiguration(source=FROM_CLASS, requests=[], opaque=each.opaque) for each in listed or ()
            ]
        for each in by_class[class_name]:
            each.requests = [*(each.requests or ()), name]
    return [each for listed in by_class.values() for each in listed]


def _claim_configuration(claim: ResourceClaim, preferences: Sequence[int]) -> list[AllocationConfiguration]:
    """The claim's own configuration. Parity: one that names several requests is repeated for each of them."""
    found = []
    for each in claim.spec.devices.config or ():
        made = AllocationConfiguration(source=FROM_CLAIM, requests=each.requests, opaque=each.opaque)
        if not each.requests:
            found.append(made)
            continue
        for request, preference in zip(claim.spec.devices.requests or (), preferences, strict=True):
            _, name = _class_and_name(request, preference)
            if request.name in each.requests or name in each.requests:
                found.append(made)
    return found


def _class_and_name(request: DeviceRequest, preference: int) -> tuple[str, str]:
    """The class and the name under which results appear: `request/subrequest` for an alternative."""
    if request.first_available:
        sub = request.first_available[preference]
        return sub.device_class_name, f"{request.name}/{sub.name}"
    return request.exactly.device_class_name if request.exactly is not None else "", request.name


def _selector(picks: Sequence[Pick], node_name: str) -> NodeSelector | None:
    """Where the devices can be used: on this node alone, on nodes that all their selectors match, or anywhere (None)."""
    fields: list[Requirement] = []
    expressions: list[Requirement] = []
    for pick in picks:
        spec, device = pick.site.slice.spec, pick.site.device
        home, selector = spec.node_name, spec.node_selector
        if spec.per_device_node_selection:
            home, selector = device.node_name, device.node_selector
        if home is not None or device.binds_to_node:
            return _only(node_name)
        for term in (selector.node_selector_terms if selector is not None else None) or ():
            _merge(fields, term.match_fields or ())
            _merge(expressions, term.match_expressions or ())
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=fields or None, match_expressions=expressions or None)
    return NodeSelector(node_selector_terms=[term])


def _only(node_name: str) -> NodeSelector:
    named = Requirement(key="metadata.name", operator="In", values=[node_name])
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[named])])


def _merge(known: list[Requirement], more: Sequence[Requirement]) -> None:
    """Add the requirements that are not there yet. All devices of the claim have to be usable, so requirements are
    joined by and."""
    for each in more:
        same = (each.key, each.operator, set(each.values or ()))
        if all((other.key, other.operator, set(other.values or ())) != same for other in known):
            known.append(each)
