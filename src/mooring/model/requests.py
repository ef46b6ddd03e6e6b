"""Effective requests of a pod: the sum over containers, sidecars, pod-level resources, resizes and overhead.

Upstream: component-helpers' resource.PodRequests. All sums and maxima are exact (nano-units). The conversion to the bounded
integers of the node table happens once, at the end, so that a pod has the same amounts when it arrives and when it leaves,
however large its requests are.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from mooring.model.names import is_scalar_resource
from mooring.model.pod_spec import (
    ALWAYS,
    Container,
    ContainerStatus,
    NodeAllocatableClaimStatus,
    PodSpec,
    PodStatus,
    ResourceList,
    SpecAndStatus,
)
from mooring.model.quantity import (
    MORE_THAN_ANY,
    QuantityText,
    amount_of,
    milli_amount_of,
    parse_or,
    to_amount,
    to_int,
    to_milli,
    to_milli_amount,
)

# ---- the part of a pod's status that says what the pod holds on its node


NO_STATUS = PodStatus()
_Taken = NodeAllocatableClaimStatus


def resize_status(status: PodStatus) -> PodStatus:
    """The part of a status that changes what a pod holds: resources in force, and a resize that is pending. Everything
    else (phase, IPs, readiness) differs between pods of a template and must not be part of the shape."""
    taken = status.node_allocatable_resource_claim_statuses
    if not (
        status.conditions or status.container_statuses or status.init_container_statuses or status.resources or taken
    ):
        return NO_STATUS  # Hot: pods that are yet to be placed
    pending = [c for c in status.conditions or () if c.type == "PodResizePending"]
    containers = [c for c in status.container_statuses or () if _is_telling(c)]
    init_containers = [c for c in status.init_container_statuses or () if _is_telling(c)]
    if not (pending or containers or init_containers or taken) and status.resources is None:
        return NO_STATUS
    return PodStatus(
        conditions=pending or None,
        container_statuses=containers or None,
        init_container_statuses=init_containers or None,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
        node_allocatable_resource_claim_statuses=[
            _Taken("", each.containers, each.mapping, each.overhead) for each in taken
        ]
        if taken
        else None,
    )


def _is_telling(status: ContainerStatus) -> bool:
    """Whether the status says which resources the container has."""
    return status.allocated_resources is not None or status.resources is not None


Amounts = dict[str, int]
"""Resource name to nano-units."""

_UNREADABLE = MORE_THAN_ANY
"""The amount of a request that is not a quantity: more than any node has, so that the pod fits nowhere."""

DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
"""Upstream's defaults for scoring (DefaultMilliCPURequest, DefaultMemoryRequest): containers without requests count for
something, or else scores would pile all of them onto one node."""
NON_ZERO: Mapping[str, int] = {"cpu": DEFAULT_CPU_MILLI * 1_000_000, "memory": DEFAULT_MEMORY_BYTES * 1_000_000_000}
"""The defaults above in nano-units, by resource."""


class Accounting(msgspec.Struct, frozen=True):
    """Which of upstream's ways of adding up a pod to use (PodResourcesOptions)."""

    use_status: bool = False
    """Whether a resize that the kubelet has not finished counts: the larger of the sums over what containers ask for, what
    the kubelet has allocated, and what is in force."""
    pod_level: bool = True
    """Whether `spec.resources` of the pod replaces the sum over its containers."""
    defaults: Mapping[str, int] | None = None
    """Requests, in nano-units, of containers that name none."""
    devices: bool = True
    """Whether what devices take from the node counts, by the status of the pod."""


FILTER = Accounting()
"""The requests that must fit on a node."""
FIT_SCORE = Accounting(pod_level=False, defaults=NON_ZERO, devices=False)
"""The requests by which NodeResourcesFit scores an incoming pod."""
HELD = Accounting(use_status=True)
"""The requests that a pod takes from its node."""


def effective_requests(pod: SpecAndStatus, accounting: Accounting) -> Amounts:
    """The requests of the pod, by resource, in nano-units."""
    total = _container_requests(pod, accounting)
    if accounting.pod_level and has_pod_level_requests(pod):
        total.update(_pod_level_requests(pod, accounting))
    if pod.spec.overhead:
        _add(total, _amounts(pod.spec.overhead))
    return total


def effective_limits(pod: SpecAndStatus) -> Amounts:
    """The limits of a pod, added up by the rules for requests, in nano-units. Overhead counts only for a resource that is
    limited."""
    limits = _sum_of(
        pod, FILTER, lambda container: _amounts(container.resources.limits if container.resources else None)
    )
    _add_devices(limits, pod, FILTER)
    whole = _amounts(pod.spec.resources.limits if pod.spec.resources else None)
    limits.update((name, amount) for name, amount in whole.items() if is_pod_level(name))
    overhead = {name: parse_or(text, 0) for name, text in (pod.spec.overhead or {}).items()}
    return {name: amount + overhead.get(name, 0) for name, amount in limits.items()}


def device_amounts(taken: NodeAllocatableClaimStatus) -> Amounts:
    """The amounts that the devices of one claim take from the node: those that the devices are, and those that it costs to
    use them. Parity: a container that lists a claim twice counts twice."""
    total: Amounts = {}
    for mapped in taken.mapping or ():
        if mapped.quantity is not None:
            _add(total, _amounts({mapped.name: mapped.quantity}))
    for cost in taken.overhead or ():
        once = _amounts({cost.name: 0 if cost.per_pod is None else cost.per_pod})
        each = _amounts({cost.name: 0 if cost.per_container is None else cost.per_container})
        _add(total, {cost.name: once[cost.name] + each[cost.name] * len(taken.containers or ())})
    return total


def held_requests(pod: SpecAndStatus) -> Amounts:
    """The requests that a pod on a node holds: NodeInfo.Requested."""
    return effective_requests(pod, HELD)


def held_non_zero(pod: SpecAndStatus) -> Amounts:
    """The requests that a pod on a node holds, with defaults for containers that ask for no cpu or memory:
    NodeInfo.NonZeroRequested."""
    if not has_pod_level_requests(pod):
        return effective_requests(pod, Accounting(use_status=True, defaults=NON_ZERO))
    # Parity: with pod-level requests a default counts only for a resource that no one in the pod names.
    held = held_requests(pod)
    missing = {name: amount for name, amount in NON_ZERO.items() if name not in held}
    return effective_requests(pod, Accounting(use_status=True, defaults=missing)) if missing else held


def to_units(amounts: Amounts) -> dict[str, int]:
    """Integers as the node table has them: cpu in milli, all else in whole units, at most MAX_AMOUNT.

    Resources that the scheduler does not count are left out.
    """
    units = {}
    for name, nano in amounts.items():
        if name == "cpu":
            units[name] = to_milli_amount(nano)
        elif name in ("memory", "ephemeral-storage") or is_scalar_resource(name):
            units[name] = to_amount(nano)
    return units


def to_exact_units(amounts: Amounts) -> dict[str, int]:
    """Convert amounts as `to_units` does, but without the bound of MAX_AMOUNT."""
    return {
        name: max(to_milli(nano) if name == "cpu" else to_int(nano), 0)
        for name, nano in amounts.items()
        if name in ("cpu", "memory", "ephemeral-storage") or is_scalar_resource(name)
    }


def units_of(written: ResourceList) -> dict[str, int]:
    """Convert the requests of one container, as they are written, to the units of `to_units`."""
    units = {}
    for name, text in written.items():
        if name == "cpu":
            units[name] = milli_amount_of(text, _UNREADABLE)
        elif name == "memory" or name == "ephemeral-storage" or is_scalar_resource(name):
            units[name] = amount_of(text, _UNREADABLE)
    return units


def are_readable(spec: PodSpec) -> bool:
    """Whether all requests of the containers are quantities."""
    held = (c.resources.requests or {} for c in (*spec.containers, *(spec.init_containers or ())) if c.resources)
    return all(_is_quantity(text) for requests in held for text in requests.values())


def has_pod_level_requests(pod: SpecAndStatus) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level(name) for name in resources.requests or ())


def _container_requests(pod: SpecAndStatus, accounting: Accounting) -> Amounts:
    """The requests of all containers, and what devices take. During a resize the largest of three sums counts: of what the
    containers ask for, of what is allocated, and of what is in force. A resize that the kubelet reports as infeasible will
    not happen, so what is asked for does not count then."""
    asked = _sum_of(pod, accounting, _asked)
    _add_devices(asked, pod, accounting)
    status = pod.status
    if not accounting.use_status or not (status.conditions or status.resources or _has_statuses(status)):
        return asked
    infeasible = _resize_is_infeasible(pod)
    if (
        status.allocated_resources is not None
        and status.resources is not None
        and status.resources.requests is not None
    ):
        # The kubelet has added up what the pod has as a whole, devices included.
        allocated, in_force = _amounts(status.allocated_resources), _amounts(status.resources.requests)
    else:
        statuses = _statuses(status)
        allocated = _sum_of(pod, accounting, lambda c: _allocated(c, statuses.get(c.name), infeasible))
        _add_devices(allocated, pod, accounting)
        in_force = _sum_of(pod, accounting, lambda c: _in_force(c, statuses.get(c.name), infeasible))
    total = {} if infeasible else asked
    _raise(total, in_force)
    _raise(total, allocated)
    return total


def _sum_of(pod: SpecAndStatus, accounting: Accounting, requests_of: Callable[[Container], Amounts]) -> Amounts:
    """The sum over all containers of what `requests_of` says, with the defaults for what a container does not name.

    Containers and sidecars run together; other init containers run before them, one after another. So the request is the
    larger of the sum and of the highest peak during initialisation.
    """

    def of(container: Container) -> Amounts:
        amounts = requests_of(container)
        for name, amount in (accounting.defaults or {}).items():
            amounts.setdefault(name, amount)
        return amounts

    containers = pod.spec.containers
    if len(containers) == 1 and not pod.spec.init_containers:
        return of(containers[0])  # Hot: most pods; a third of the time
    regular: Amounts = {}
    for container in containers:
        _add(regular, of(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers or ():
        asked = of(container)
        # While an init container runs, the sidecars before it run too. Only the resources that it requests itself can
        # raise the peak, so the loop stays linear in the number of requests.
        if container.restart_policy == ALWAYS:
            _add(regular, asked)
            _add(sidecars, asked)
            _raise(peak, {name: sidecars[name] for name in asked})
        else:
            _raise(peak, {name: amount + sidecars.get(name, 0) for name, amount in asked.items()})
    _raise(regular, peak)
    return regular


def _asked(container: Container) -> Amounts:
    """The requests in the spec of a container."""
    return _amounts(container.resources.requests if container.resources else None)


def _allocated(container: Container, status: ContainerStatus | None, infeasible: bool) -> Amounts:
    """The requests that the kubelet has allocated for a container. Without a status these are the ones it asks for, unless
    they cannot be had."""
    if status is not None and status.allocated_resources is not None:
        return _amounts(status.allocated_resources)
    return {} if infeasible else _asked(container)


def _in_force(container: Container, status: ContainerStatus | None, infeasible: bool) -> Amounts:
    """The requests that a container runs with; without a status, those that are allocated."""
    if status is not None and status.resources is not None and status.resources.requests is not None:
        return _amounts(status.resources.requests)
    return _allocated(container, status, infeasible)


def _add_devices(total: Amounts, pod: SpecAndStatus, accounting: Accounting) -> None:
    """Add what devices take from the node's own resources."""
    for claim in (pod.status.node_allocatable_resource_claim_statuses or ()) if accounting.devices else ():
        _add(total, device_amounts(claim))


def names_all(containers: Iterable[Container], resources: Collection[str]) -> bool:
    """Whether every container requests each of these resources."""
    for container in containers:
        requests = container.resources.requests if container.resources is not None else None
        for name in resources:
            if not requests or name not in requests:
                return False
    return True


def _pod_level_requests(pod: SpecAndStatus, accounting: Accounting) -> Amounts:
    """The requests of the pod as a whole, which replace the sum over its containers; during a resize the largest of
    asked, allocated and in force. Parity: the status may name resources that the spec does not."""
    assert pod.spec.resources is not None
    asked, status = _amounts(pod.spec.resources.requests), pod.status
    if accounting.use_status and status.resources is not None:
        asked = {} if _resize_is_infeasible(pod) else asked
        _raise(asked, _amounts(status.resources.requests))
        _raise(asked, _amounts(status.allocated_resources))
    return {name: amount for name, amount in asked.items() if is_pod_level(name)}


def _has_statuses(status: PodStatus) -> bool:
    return bool(status.container_statuses or status.init_container_statuses)


def _statuses(status: PodStatus) -> dict[str, ContainerStatus]:
    """Statuses by container name; the first of a name counts, and regular containers come before init containers."""
    every = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    return {each.name: each for each in reversed(every)}


def _resize_is_infeasible(pod: SpecAndStatus) -> bool:
    pending = (c for c in pod.status.conditions or () if c.type == "PodResizePending")
    first = next(pending, None)
    return first is not None and first.reason == "Infeasible"


def is_pod_level(name: str) -> bool:
    """Resources that `spec.resources` of a pod may have."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _amounts(written: ResourceList | None) -> Amounts:
    return {name: parse_or(text, _UNREADABLE) for name, text in (written or {}).items()}


def _is_quantity(text: QuantityText) -> bool:
    return parse_or(text, 0) == parse_or(text, 1)


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, other: Amounts) -> None:
    """Raise each resource of `total` to at least the amount in `other`; a resource of amount 0 stays named."""
    for name, amount in other.items():
        if amount > total.get(name, amount - 1):
            total[name] = amount
