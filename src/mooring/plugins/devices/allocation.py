"""From the devices that a search chose to what is written into claims: allocations, binding conditions, writes and
metrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mooring.framework.contract.intents import Write, WriteFault, at_version
from mooring.framework.contract.points import Handle
from mooring.framework.profile.metric_catalogue import CLAIM_CREATES, DEVICE_ALLOCATIONS, DEVICE_WAITS
from mooring.kit.clock import moment_ns
from mooring.model.devices import (
    AllocatedDevice,
    AllocatedDevices,
    Allocation,
    AllocationConfiguration,
    DeviceClass,
    DeviceRequest,
    DeviceStatus,
    ResourceClaim,
    ResourceClaimStatus,
)
from mooring.model.meta import Condition, KubeObject, Requirement
from mooring.model.pod import Pod
from mooring.model.pod_spec import ExtendedClaimStatus, NodeSelector, NodeSelectorTerm, RequestMapping
from mooring.plugins.devices.device_capacity import Share
from mooring.plugins.devices.device_demand import Ask
from mooring.plugins.devices.pools import DeviceInSlice

# The API's values of `source` in the configuration of an allocation.
FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


class Pick(msgspec.Struct, eq=False):
    """A device for a request, and what it took."""

    ask: Ask
    site: DeviceInSlice
    shares: dict[str, Share] | None = None
    """Capacity that the pick consumes of a device that other claims may use as well, by name of the capacity."""
    took_counters: bool = False
    """Whether it consumes shared counters, which `_drop` then has to give back."""
    is_marked: bool = False
    """Whether the search marked the device as taken: so it is for devices that cannot be shared."""
    skip_node_operations: list[str] | None = None
    """Calls of the driver that kubelets leave out for the device."""


class DeviceChoice(msgspec.Struct, eq=False):
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
    for each in config:
        if each.requests and all(_are_for(each.requests, claim, preferences)):
            each.requests = None  # which means the same
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
        skip_node_operations=pick.skip_node_operations,
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
    """The claim's own configuration, as far as it is for a request that has devices."""
    return [
        AllocationConfiguration(source=FROM_CLAIM, requests=each.requests, opaque=each.opaque)
        for each in claim.spec.devices.config or ()
        if not each.requests or any(_are_for(each.requests, claim, preferences))
    ]


def _are_for(named: Sequence[str], claim: ResourceClaim, preferences: Sequence[int]) -> Iterator[bool]:
    """For each request of the claim, whether it is named, or the alternative that was taken for it."""
    for request, preference in zip(claim.spec.devices.requests or (), preferences, strict=True):
        yield request.name in named or _class_and_name(request, preference)[1] in named


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


# ---- Binding conditions: some devices must be prepared for a node before a pod can be bound to it; their driver
# reports on that in the status of the claim.


# Upstream's texts. Metrics tell outcomes apart by them.
TIMEOUT, FAILED = "device binding timeout", "device binding failed"


class BindingFailed(Exception):
    """A device cannot be prepared; the text is upstream's."""


def is_prepared(claim: ResourceClaim) -> bool:
    """Whether all devices of the claim are ready for the pod. Raises BindingFailed if the driver reports a failure
    condition."""
    for result in results_of(claim):
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        for condition in _true(status, result.binding_failure_conditions or ()):
            why = f'claim={claim.name}, reason={condition.reason or ""}, message="{condition.message or ""}"'
            raise BindingFailed(f"{FAILED}: {why}")
        if len(_true(status, result.binding_conditions)) < len(result.binding_conditions):
            return False
    return claim.status.allocation is not None


def skips_operations(claim: ResourceClaim) -> bool:
    """Whether the claim has a device for which kubelets leave out calls of its driver: not all kubelets can do that."""
    return any(result.skip_node_operations for result in results_of(claim))


def must_be_prepared(claim: ResourceClaim) -> bool:
    """Whether a device of the claim has binding conditions."""
    return any(result.binding_conditions for result in results_of(claim))


def is_overdue(claim: ResourceClaim, timeout_ns: int, now_ns: int) -> bool:
    """Whether the devices should have been prepared by now. The time counts from the allocation, also over restarts."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if all(result.binding_conditions is None for result in results_of(claim)):
        return False
    return moment_ns(allocation.allocation_timestamp) + timeout_ns < now_ns


def results_of(claim: ResourceClaim) -> Sequence[AllocatedDevice]:
    """The devices that the claim has; none without an allocation."""
    allocation = claim.status.allocation
    return (allocation.devices.results or ()) if allocation is not None else ()


def _status_of(claim: ResourceClaim, result: AllocatedDevice) -> DeviceStatus | None:
    same = (result.driver, result.pool, result.device)
    return next((each for each in claim.status.devices or () if (each.driver, each.pool, each.device) == same), None)


def _true(status: DeviceStatus, types: Sequence[str]) -> list[Condition]:
    """The conditions of these types that are true. The first condition of a type counts."""
    found = {condition.type: condition for condition in reversed(status.conditions or ())}
    return [found[each] for each in types if each in found and found[each].status == "True"]


# ---- Writes: how a claim gets and loses its allocation and its reservations.


FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps the API server from deleting a claim while a pod may use its devices."""

Late = Callable[[KubeObject | WriteFault | None], None]
"""Called with the answer to a write when the work that wanted it has ended before."""


def allocated(claim: ResourceClaim, allocation: Allocation) -> ResourceClaim:
    """The claim as it will be once the allocation is written: the ledger counts it as pending."""
    finalizers = claim.metadata.finalizers or []
    if FINALIZER not in finalizers:
        finalizers = [*finalizers, FINALIZER]
    metadata = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    return msgspec.structs.replace(claim, metadata=metadata, status=status)


def read_again(claim: ResourceClaim) -> Write:
    """An empty patch: the API server answers with the claim as it is."""
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, {})


def add_finalizer(claim: ResourceClaim) -> Write:
    """A write of its own, before the allocation: status and metadata cannot be changed by one request."""
    finalizers = [*(claim.metadata.finalizers or ()), FINALIZER]
    return Write(
        "PATCH", ResourceClaim, claim.name, claim.namespace, {"metadata": at_version(claim, finalizers=finalizers)}
    )


def write_status(claim: ResourceClaim, status: dict[str, Any]) -> Write:
    """A patch of the status that is meant for this version of the claim only."""
    body = {"metadata": at_version(claim), "status": status}
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, body, "status")


def deallocate(claim: ResourceClaim) -> Write:
    """Take its devices from a claim that no pod uses."""
    return write_status(claim, {"allocation": None, "reservedFor": None, "devices": None})


def give_back_reservation(claim: ResourceClaim, pod_id: str) -> Write:
    """A strategic patch: it takes out one entry of a list, whatever else was changed meanwhile."""
    entry = {"$patch": "delete", "uid": pod_id}
    body = {"metadata": {"uid": claim.uid} if claim.uid else {}, "status": {"reservedFor": [entry]}}
    return Write("PATCH", ResourceClaim, claim.name, claim.namespace, body, "status", form="strategic")


def is_unreliable(fault: WriteFault) -> bool:
    """Whether the server may have carried out what it was asked: it gave no answer, or reported a fault of its own."""
    return fault.code == 0 or fault.code >= 500


def create_extended(claim: ResourceClaim) -> Write:
    """A claim that gets its name from the server."""
    metadata = msgspec.structs.replace(claim.metadata, name="", uid="", finalizers=None)
    body = msgspec.structs.replace(claim, metadata=metadata, status=ResourceClaimStatus())
    return Write("POST", ResourceClaim, "", claim.namespace, body)


def name_extended(pod: Pod, claim: ResourceClaim, mappings: Sequence[RequestMapping]) -> Write:
    """Tell the kubelet, by the pod's status, which claim and which requests serve the extended resources of each
    container."""
    status = ExtendedClaimStatus(request_mappings=list(mappings), resource_claim_name=claim.name)
    body = {"status": {"extendedResourceClaimStatus": msgspec.to_builtins(status)}}
    return Write("PATCH", Pod, pod.name, pod.namespace, body, "status")


def delete_claim(claim: ResourceClaim, late: Late | None = None) -> tuple[Write, ...]:
    """Remove the finalizer, then delete: otherwise the claim stays. `late` is called with the answer to each of the two
    writes."""
    left = [each for each in claim.metadata.finalizers or () if each != FINALIZER]
    body = {"metadata": {"finalizers": left or None}}
    return (
        Write("PATCH", ResourceClaim, claim.name, claim.namespace, body, late=late),
        Write("DELETE", ResourceClaim, claim.name, claim.namespace, late=late),
    )


# ---- Metrics: claims that the scheduler created, and how long pods waited for devices to be prepared.


class ClaimMetrics:
    """Counts under the name of the plugin's profile."""

    def __init__(self, handle: Handle) -> None:
        metrics = handle.metrics
        for description in (CLAIM_CREATES, DEVICE_ALLOCATIONS, DEVICE_WAITS):
            metrics.declare(description)
        self._profile = handle.profile_name
        self._created = metrics.counter(CLAIM_CREATES.name)
        self._allocations = metrics.counter(DEVICE_ALLOCATIONS.name)
        self._waits = metrics.histogram(DEVICE_WAITS.name)

    def created(self, is_success: bool) -> None:
        """A claim for extended resources was created, or creating it failed. Upstream's ResourceClaim controller counts under
        the same name: the labels say that this claim has no admin access and belongs to a pod."""
        self._created.series("success" if is_success else "failure", "false", "", "Pod").add()

    def waited(self, devices: Iterable[AllocatedDevice], status: str, seconds: float) -> None:
        """A pod waited for some of its devices to be prepared; `status` is success, failure, timeout or error.

        Parity: the wait is recorded for every device of the pod, the allocation for those that had to be prepared.
        """
        for device in devices:
            labels = (self._profile, device.driver, status)
            self._waits.series(*labels).observe(seconds)
            if device.binding_conditions:
                self._allocations.series(*labels).add()
