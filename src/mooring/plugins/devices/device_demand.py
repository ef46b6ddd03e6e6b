"""Demand of claims, parsed once: requests with their alternatives, the selectors of their device classes, and constraints.

Classes and claims are read into plain values before any search, because one demand is searched for on many groups of
nodes.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from mooring.model.devices import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from mooring.model.pod_spec import Toleration
from mooring.model.quantity import QuantityText

# ---- Feature gates that change how devices are chosen. Those that are off by default are alpha.


class DeviceFeatures(msgspec.Struct, frozen=True):
    """One flag for each gate (`_GATES`), with the gate's meaning and upstream's default."""

    partitionable: bool = True
    """Devices may consume shared counters and select nodes themselves."""
    taints: bool = True
    """Taints on devices keep requests away that do not tolerate them."""
    consumable_capacity: bool = True
    """Several claims may share a device and consume its capacity in parts."""
    binding_conditions: bool = True
    """Devices may have to be prepared before a pod is bound; drivers report on them in the status of claims."""
    fractional_ranges: bool = True
    """Steps of a range of capacities may be thousandths."""
    list_attributes: bool = False
    """Attributes of devices may be lists."""
    derived_attributes: bool = False
    """Requests may compute attributes of devices for the constraints of their claim."""
    compatibility_groups: bool = False
    """Devices that share counters may have to be of one compatibility group."""
    optional_node_operations: bool = False
    """Devices may be for nodes only whose kubelet can leave out calls of their driver."""
    node_resources: bool = False
    """Devices may take from the node's own resources."""

    @property
    def is_experimental(self) -> bool:
        """Whether upstream searches with its experimental allocator, which alone knows some alpha features."""
        return (
            self.list_attributes
            or self.derived_attributes
            or self.compatibility_groups
            or self.optional_node_operations
        )

    @property
    def refuses_capacity(self) -> bool:
        """Whether a request with capacity is an error, as devices have no parts. Parity: upstream's stable allocator, which
        serves where all newer features are off, takes no notice of the capacity."""
        return not self.consumable_capacity and (self.binding_conditions or self.is_experimental)

    @classmethod
    def of(cls, gates: Mapping[str, bool]) -> "DeviceFeatures":
        """Read the features from the feature gates. Gates that are missing have their default of upstream."""

        return cls(**{name: gates[gate] for name, gate in _GATES.items() if gate in gates})


_GATES = {
    "partitionable": "DRAPartitionableDevices",
    "taints": "DRADeviceTaints",
    "consumable_capacity": "DRAConsumableCapacity",
    "binding_conditions": "DRADeviceBindingConditions",
    "fractional_ranges": "DRAFractionalCapacityRange",
    "list_attributes": "DRAListTypeAttributes",
    "derived_attributes": "DRADerivedAttributes",
    "compatibility_groups": "DRADeviceCompatibilityGroups",
    "optional_node_operations": "DRAOptionalNodeOperations",
    "node_resources": "DRANodeAllocatableResources",
}
DEFAULT_FEATURES = DeviceFeatures()
"""The features with the default gates."""

MAX_DEVICES = 32
"""Devices of one claim (upstream: AllocationResultsMaxSize)."""


class Fatal(Exception):
    """Something is wrong with a claim or a class: the attempt ends in an error.

    `claim` is the place of the claim that the error is about. Its key is added only when the error is raised for a pod,
    because the outcome of a search is shared by all pods whose claims ask for the same.
    """

    def __init__(self, text: str, claim: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.claim = claim

    def describe(self, claims: Sequence[ResourceClaim]) -> str:
        """The message for the pod that has these claims."""
        return self.text if self.claim is None else f"claim {claims[self.claim].key}{self.text}"


class Ask(msgspec.Struct, frozen=True, eq=False):
    """A request, or one alternative of a request. Compared by identity: two equal requests are served separately."""

    claim: int
    """The place of its claim in the demand."""
    name: str
    parent: str
    """The name of the request that this is an alternative of; empty for a request of its own."""
    preference: int
    """Which of the alternatives it is."""
    class_name: str
    class_selectors: tuple[str, ...]
    selectors: tuple[str, ...]
    mode: str
    count: int
    has_admin_access: bool
    tolerations: tuple[Toleration, ...]
    capacity: Mapping[str, QuantityText] | None
    derived: Mapping[str, str]
    """Attributes that the request computes -> their CEL expressions."""
    fault: str | None = None
    """Why devices cannot be sought for it at all; the search raises it, so that errors come in upstream's order."""

    @property
    def full_name(self) -> str:
        """As results name it: `request/subrequest` for an alternative."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """As constraints and configuration may name it: an alternative goes by the name of its request."""
        return self.parent or self.name

    @property
    def wants_all(self) -> bool:
        return self.mode == ALL


class ClaimAsks(msgspec.Struct, frozen=True, eq=False):
    """Requests and constraints of one claim. Each request is a list of alternatives, and one of them is enough."""

    requests: Sequence[Sequence[Ask]]
    constraints: Sequence[DeviceConstraint]


Demand = Sequence[ClaimAsks]
"""Requests of all claims of a pod that still have to be allocated, in the order of the claims."""
ClassOf = Callable[[str], DeviceClass | None]


def read_demand(claims: Sequence[ResourceClaim], class_of: ClassOf) -> Demand:
    """Read the claims and the classes that they name."""
    return [
        ClaimAsks(
            [_alternatives(index, request, class_of) for request in claim.spec.devices.requests or ()],
            claim.spec.devices.constraints or (),
        )
        for index, claim in enumerate(claims)
    ]


def _alternatives(claim: int, request: DeviceRequest, class_of: ClassOf) -> Sequence[Ask]:
    """The alternatives of a request in order of preference; a plain request has one."""
    if request.first_available:
        subs = enumerate(request.first_available)
        return [_ask(claim, sub.name, request.name, i, sub, class_of) for i, sub in subs]
    return [_ask(claim, request.name, "", 0, request.exactly or ExactDeviceRequest(), class_of)]


def _ask(
    claim: int,
    name: str,
    parent: str,
    preference: int,
    written: ExactDeviceRequest | DeviceSubRequest,
    class_of: ClassOf,
) -> Ask:
    """Convert a request, or one alternative of a request, to an Ask. An invalid request is not refused here: the Ask carries
    the error."""
    fault = _fault(name, written, class_of)
    device_class = class_of(written.device_class_name)
    return Ask(
        claim,
        name,
        parent,
        preference,
        written.device_class_name,
        _expressions(device_class.spec.selectors if device_class is not None else None),
        _expressions(written.selectors),
        written.allocation_mode,
        written.count,
        isinstance(written, ExactDeviceRequest) and bool(written.admin_access),
        tuple(written.tolerations or ()),
        None if written.capacity is None else written.capacity.requests or {},
        {each.name: each.expression for each in written.derived_attributes or ()},
        fault,
    )


def _fault(name: str, written: ExactDeviceRequest | DeviceSubRequest, class_of: ClassOf) -> str | None:
    """Return the error in a request, with upstream's text; None if the request is valid."""
    where = f", request {name}"
    for i, selector in enumerate(written.selectors or ()):
        if selector.cel is None:
            return f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)"
    wanted = written.device_class_name
    if not wanted:
        return f"{where}: missing device class name (unsupported request type?)"
    if class_of(wanted) is None:
        missing = f'deviceclass.resource.k8s.io "{wanted}" not found'
        return f"{where}: could not retrieve device class {wanted}: {missing}"
    if written.allocation_mode not in (ALL, EXACT_COUNT):
        return f"{where}: unsupported count mode {written.allocation_mode}"
    return None


def _expressions(selectors: Sequence[DeviceSelector] | None) -> tuple[str, ...]:
    return tuple(selector.cel.expression if selector.cel is not None else "" for selector in selectors or ())
