"""Dynamic resource allocation (resource.k8s.io/v1): devices, the classes and claims that request them, and allocations.

A ResourceSlice publishes the devices of a driver's pool. A ResourceClaim requests devices by class and CEL selectors. The
scheduler writes the devices that it allocates into the claim's status.
"""

from typing import Any

from msgspec import field

from mooring.model.meta import Condition, KubeObject, ObjectMeta, Wire
from mooring.model.node import Taint
from mooring.model.pod_spec import NodeSelector, Toleration
from mooring.model.quantity import QuantityText

EXACT_COUNT = "ExactCount"
ALL = "All"

PoolId = tuple[str, str]
"""Driver and name of the pool."""
DeviceId = tuple[str, str, str]
"""Driver, name of the pool, name of the device."""


class CelSelector(Wire):
    expression: str = ""


class DeviceSelector(Wire):
    cel: CelSelector | None = None


class OpaqueConfiguration(Wire):
    """Parameters for a driver. Mooring copies them into the allocation and never looks inside."""

    driver: str = ""
    parameters: Any = None


class CapacityRequirements(Wire):
    """How much of a device that several claims share; by name of the capacity."""

    requests: dict[str, QuantityText] | None = None


class DerivedAttribute(Wire):
    """An attribute that a CEL expression computes from a device, for the constraints of the claim (gate
    DRADerivedAttributes)."""

    name: str = ""
    expression: str = ""


class ExactDeviceRequest(Wire):
    """How many devices of a class, which CEL selectors must hold, and which taints are tolerated."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: list[Toleration] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: list[DerivedAttribute] | None = None


class DeviceSubRequest(Wire):
    """One alternative of a prioritised list. Constraints and allocations name it `<request>/<name>`."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: int = 0
    tolerations: list[Toleration] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: list[DerivedAttribute] | None = None


class DeviceRequest(Wire):
    """A request has either `exactly`, or `first_available`: alternatives in the order of preference."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Wire):
    """All devices of these requests (of all, if it names none) agree in an attribute, or all differ in it."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Wire):
    """Parameters of the claim's author for the drivers of these requests; of all requests, if it names none."""

    requests: list[str] | None = None
    opaque: OpaqueConfiguration | None = None


class DeviceClaim(Wire):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceClaimConfiguration] | None = None


class ResourceClaimSpec(Wire):
    devices: DeviceClaim = field(default_factory=DeviceClaim)


class AllocationConfiguration(Wire):
    """A configuration in an allocation; `source` says whether it came from the class or from the claim."""

    source: str = ""
    requests: list[str] | None = None
    opaque: OpaqueConfiguration | None = None


class AllocatedDevice(Wire):
    """One device given to one request; `request` is `r`, or `r/sub` for an alternative of a prioritised list."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[Toleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: dict[str, QuantityText] | None = None
    skip_node_operations: list[str] | None = None


class AllocatedDevices(Wire):
    results: list[AllocatedDevice] | None = None
    config: list[AllocationConfiguration] | None = None


class Allocation(Wire):
    """The result that the scheduler writes: the devices, and the nodes that can use them."""

    devices: AllocatedDevices = field(default_factory=AllocatedDevices)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ClaimConsumer(Wire):
    """An entry of reservedFor: a pod, or a pod group whose pods may use the claim. The claim can be deallocated when
    there is none."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceStatus(Wire):
    """The report of a driver on an allocated device. Its data is decoded so that a change of it counts as a change."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: list[Condition] | None = None
    data: Any = None
    network_data: Any = None


class ResourceClaimStatus(Wire):
    allocation: Allocation | None = None
    reserved_for: list[ClaimConsumer] | None = None
    devices: list[DeviceStatus] | None = None


class ResourceClaim(KubeObject):
    """A claim for devices. It is allocated if status.allocation is set, and in use while reservedFor has entries."""

    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = field(default_factory=ResourceClaimStatus)


class ResourceClaimTemplateSpec(Wire):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(KubeObject):
    """The template of claims that a controller creates for each pod that names it."""

    spec: ResourceClaimTemplateSpec = field(default_factory=ResourceClaimTemplateSpec)


class ClassConfiguration(Wire):
    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(Wire):
    """The properties that all requests of the class have in common. Pods can request the class as an extended resource,
    too."""

    selectors: list[DeviceSelector] | None = None
    config: list[ClassConfiguration] | None = None
    extended_resource_name: str | None = None


class DeviceClass(KubeObject):
    spec: DeviceClassSpec = field(default_factory=DeviceClassSpec)


class DeviceAttribute(Wire):
    """A value of one of four types, or a list of them; attributes of different types are never equal."""

    int_value: int | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string_value: str | None = field(default=None, name="string")
    version_value: str | None = field(default=None, name="version")
    int_values: list[int] | None = field(default=None, name="ints")
    bool_values: list[bool] | None = field(default=None, name="bools")
    string_values: list[str] | None = field(default=None, name="strings")
    version_values: list[str] | None = field(default=None, name="versions")


class CapacityRange(Wire):
    """The amounts that a request may have: from min to max, in steps."""

    min: QuantityText | None = None
    max: QuantityText | None = None
    step: QuantityText | None = None


class CapacityPolicy(Wire):
    """How a request for a shared capacity is rounded up: to a valid value, or to a step of the range."""

    default: QuantityText | None = None
    valid_values: list[QuantityText] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(Wire):
    value: QuantityText = "0"
    request_policy: CapacityPolicy | None = None


class DeviceCounter(Wire):
    value: QuantityText = "0"


class CounterSet(Wire):
    """Counters that several devices of a pool draw from, such as the memory of a GPU that can be partitioned."""

    name: str = ""
    counters: dict[str, DeviceCounter] | None = None


class CounterConsumption(Wire):
    """How much a device takes of the counters of a set while it is allocated. Devices that take from one set at the same time
    must have a compatibility group in common (gate DRADeviceCompatibilityGroups)."""

    counter_set: str = ""
    counters: dict[str, DeviceCounter] | None = None
    compatibility_groups: list[str] | None = None


class NodeAllocatableMapping(Wire):
    """How much of a resource of the node a device is: a multiple of a capacity that the claim consumes, or so much for each
    device."""

    capacity_key: str | None = None
    capacity_multiplier: QuantityText | None = None
    device_multiplier: QuantityText | None = None


class NodeAllocatableOverhead(Wire):
    """How much of a resource of the node it costs to use a device: for the pod, and for each container that uses it."""

    per_pod: QuantityText | None = None
    per_container: QuantityText | None = None


class NodeAllocatableResource(Wire):
    """How much of one resource of its node a device takes (gate DRANodeAllocatableResources)."""

    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Wire):
    """One device of a slice. Node fields say where it can be used, if the slice leaves that to its devices."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[CounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[Taint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None
    node_allocatable_resources: dict[str, NodeAllocatableResource] | None = None


class ResourcePool(Wire):
    """The pool of a slice. A pool is complete when all its slices of the highest generation are there; until then the
    scheduler must not allocate from it."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Wire):
    """Exactly one of the four node fields says which nodes can use the devices."""

    driver: str = ""
    pool: ResourcePool = field(default_factory=ResourcePool)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] | None = None
    shared_counters: list[CounterSet] | None = None
    skip_node_operations: list[str] | None = None
    """Calls of the driver that kubelets leave out for these devices (gate DRAOptionalNodeOperations)."""


class ResourceSlice(KubeObject):
    spec: ResourceSliceSpec = field(default_factory=ResourceSliceSpec)


class DeviceTaintSelector(Wire):
    """The devices of a rule, by names. A name that is missing stands for any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Wire):
    """Parity: without a selector the taint is for all devices, though the API's documentation says for none."""

    device_selector: DeviceTaintSelector | None = None
    taint: Taint = field(default_factory=Taint)


class DeviceTaintRule(KubeObject):
    """A taint that an administrator puts on devices, in addition to those that their driver publishes."""

    spec: DeviceTaintRuleSpec = field(default_factory=DeviceTaintRuleSpec)
