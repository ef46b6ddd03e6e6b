"""Nodes, the runtime classes of their container runtimes, and the leases by which kubelets send heartbeats."""

import re
from collections.abc import Callable, Iterator

from mooring.api.api_errors import (
    Cause,
    field_duplicate,
    field_invalid,
    field_required,
    field_too_many,
    field_unsupported,
)
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import (
    AGE,
    NAME,
    NONE,
    READ_WRITE,
    UNKNOWN,
    Cell,
    Column,
    KindSpec,
    Watch,
    conditions,
    field_cell,
    labels_at,
    text_at,
    wide,
)
from mooring.api.validation import field_rules as rules
from mooring.api.validation.field_rules import amount, named
from mooring.api.validation.problem import Problems
from mooring.model.meta import MAX_INT64
from mooring.model.names import config_key_faults, qualified_name_faults
from mooring.model.node import Node
from mooring.model.quantity import round_up
from mooring.model.workloads import LimitRange, Namespace, RuntimeClass

# ---- LeaseCandidates: instances that stand for a lease whose holder the API server picks (coordinated leader election)


OLDEST_EMULATION = "OldestEmulationVersion"
_NUMBER = "(0|[1-9][0-9]{0,9})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")
"""A semantic version without a suffix: components finalize their versions."""

Version = tuple[int, int, int]
NO_VERSION: Version = (0, 0, 0)


def version_of(text: object) -> Version | None:
    """A semantic version, or None for anything else. Numbers have at most ten digits."""
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def _faults(item: JsonObject) -> list[Cause]:
    spec = item.get("spec") or {}
    found = [] if spec.get("leaseName") else [field_required("spec.leaseName")]
    return [*found, *_version_faults(spec), *_strategy_faults(spec)]


def _version_faults(spec: JsonObject) -> Iterator[Cause]:
    """Yield the errors in the versions of a LeaseCandidate: both must be semantic versions, and the binary must not be older
    than the version that it emulates."""
    binary, emulated = spec.get("binaryVersion", ""), spec.get("emulationVersion", "")
    if emulated and version_of(emulated) is None:
        yield field_invalid("spec.emulationVersion", emulated, "must be a valid semantic version")
    if not binary:
        yield field_required("spec.binaryVersion")
    elif version_of(binary) is None:
        yield field_invalid("spec.binaryVersion", binary, "must be a valid semantic version")
    if binary and emulated and (version_of(binary) or NO_VERSION) < (version_of(emulated) or NO_VERSION):
        yield field_invalid("spec.binaryVersion", binary, "must be greater than or equal to `emulationVersion`")


def _strategy_faults(spec: JsonObject) -> Iterator[Cause]:
    """Yield the errors in the strategy of a LeaseCandidate. OldestEmulationVersion is the only strategy of Kubernetes itself,
    and it needs an emulation version."""
    strategy = spec.get("strategy", "")
    if not strategy:
        yield field_required("spec.strategy")
        return
    if strategy == OLDEST_EMULATION and (version_of(spec.get("emulationVersion")) or NO_VERSION) == NO_VERSION:
        yield field_required("spec.emulationVersion", "must be specified when `strategy` is 'OldestEmulationVersion'")
    # Parity: the server names the field twice. A strategy with a slash is for controllers of others.
    if "/" in strategy:
        yield from (field_invalid("spec.strategy.strategy", strategy, why) for why in qualified_name_faults(strategy))
    elif strategy != OLDEST_EMULATION:
        yield field_unsupported("spec.strategy.strategy", strategy, (OLDEST_EMULATION,))


LEASE_CANDIDATE = KindSpec(
    *("coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate"),
    faults=_faults,
    fixed=("spec.leaseName",),
    name_rule=lambda path, name: named(path, name, config_key_faults),
    needs_version=True,
    columns=(
        NAME,
        Column("LeaseName", field_cell("spec.leaseName")),
        Column("BinaryVersion", field_cell("spec.binaryVersion")),
        Column("EmulationVersion", field_cell("spec.emulationVersion")),
        AGE,
    ),
)


# ---- Namespaces, and what limits the objects in a namespace: LimitRanges and ResourceQuotas.


_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has, so that namespace selectors can select by name."""


def _complete_namespace(namespace: JsonObject) -> None:
    meta = namespace["metadata"]
    meta["labels"] = {**meta.get("labels", {}), _NAME_LABEL: meta.get("name", "")}
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])


def _complete_limit_range(limit_range: JsonObject) -> None:
    for item in limit_range.get("spec", {}).get("limits", ()):
        complete_limit_item(item)


def complete_limit_item(item: JsonObject) -> None:
    """Default an item of a LimitRange: its maximum is the default limit; that, or else its minimum, is the default
    request. Public, because a simulation reads LimitRanges that no server has defaulted."""
    if item.get("type") == "Container":
        limits = {**item.get("max", {}), **item.get("default", {})}
        asked = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        item |= {key: group for key, group in (("default", limits), ("defaultRequest", asked)) if group}


def _check_limit_range(written: LimitRange) -> Problems:
    for i, item in enumerate(written.spec.limits or ()):
        groups = {"default": item.default, "defaultRequest": item.default_request, "min": item.min, "max": item.max}
        for name, group in groups.items():
            yield from rules.quantities(f"spec.limits[{i}].{name}", group)


NAMESPACE = KindSpec(
    *("", "v1", "namespaces", "Namespace", False, ("ns",)),
    subresources=("status", "finalize"),
    verbs=tuple(verb for verb in READ_WRITE if verb != "deletecollection"),
    struct=Namespace,
    watch=Watch(),
    complete=_complete_namespace,
    completes_status=True,
    new_status={"phase": "Active"},
    has_spec_finalizers=True,
    field_labels=labels_at("metadata.name", "status.phase"),
    columns=(NAME, Column("Status", field_cell("status.phase")), AGE),
)

LIMIT_RANGE = KindSpec(
    *("", "v1", "limitranges", "LimitRange", True, ("limits",)),
    struct=LimitRange,
    check=_check_limit_range,
    complete=_complete_limit_range,
)

_SCOPES = (
    *("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"),
    "VolumeAttributesClass",
)


def _quota_faults(quota: JsonObject) -> list[Cause]:
    spec = quota.get("spec") or {}
    amounts = {name: amount(text) for name, text in (spec.get("hard") or {}).items()}
    why = "must be greater than or equal to 0"
    negative = [name for name, nano in amounts.items() if nano is not None and nano < 0]
    found = [field_invalid(f"spec.hard[{name}]", spec["hard"][name], why) for name in negative]
    scopes = spec.get("scopes") or []
    unknown = any(scope not in _SCOPES for scope in scopes)
    return [*found, *([field_invalid("spec.scopes", scopes, "unsupported scope")] if unknown else [])]


RESOURCE_QUOTA = KindSpec(
    *("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",)), subresources=("status",), faults=_quota_faults
)


_NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"),
    *("kubeProxyVersion", "operatingSystem", "architecture"),
)


def _complete_node(node: JsonObject) -> None:
    """Default a node: without allocatable, all of its capacity is allocatable. The empty fields are those that Go always
    writes; clients compare them."""
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    for group in ("capacity", "allocatable"):
        round_up(status.get(group))
    for condition in status.get("conditions", ()):
        condition.setdefault("lastHeartbeatTime", None)
        condition.setdefault("lastTransitionTime", None)
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
    info = status.setdefault("nodeInfo", {})
    for key in _NODE_INFO:
        info.setdefault(key, "")


def _check_node(node: Node) -> Problems:
    yield from rules.taints("spec.taints", node.spec.taints)
    yield from rules.quantities("status.capacity", node.status.capacity)
    yield from rules.quantities("status.allocatable", node.status.allocatable)
    for i, image in enumerate(node.status.images or ()):
        yield from rules.in_range(f"status.images[{i}].sizeBytes", image.size_bytes, 0, MAX_INT64)


def _check_runtime_class(written: RuntimeClass) -> Problems:
    if written.overhead is not None:
        yield from rules.quantities("overhead.podFixed", written.overhead.pod_fixed)
    if written.scheduling is not None:
        yield from rules.labels("scheduling.nodeSelector", written.scheduling.node_selector)
        yield from rules.tolerations("scheduling.tolerations", written.scheduling.tolerations)


def _node_status(node: JsonObject, _: int) -> Cell:
    ready = {None: "Unknown", "True": "Ready"}.get(conditions(node).get("Ready"), "NotReady")
    return f"{ready},SchedulingDisabled" if at(node, "spec.unschedulable") else ready


def _node_roles(node: JsonObject, _: int) -> Cell:
    """Roles are label keys (`node-role.kubernetes.io/worker`), or the value of an older label."""
    prefix = "node-role.kubernetes.io/"
    labels = at(node, "metadata.labels", {})
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix)} | {
        labels.get("kubernetes.io/role", "")
    }
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(kind: str) -> Callable[[JsonObject, int], Cell]:
    """The first address of a kind (`InternalIP`)."""
    return lambda node, _: next((a["address"] for a in at(node, "status.addresses", ()) if a.get("type") == kind), NONE)


_MOST_OWNERS = 20


def _policy_faults(node: JsonObject) -> list[Cause]:
    """The faults of `spec.podPreemptionPolicy` (gate InPlacePodVerticalScalingSchedulerPreemption)."""
    owners = at(node, "spec.podPreemptionPolicy.disableResizePreemption", [])
    path = "spec.podPreemptionPolicy.disableResizePreemption"
    if len(owners) > _MOST_OWNERS:
        return [field_too_many(path, str(len(owners)), f"must have at most {_MOST_OWNERS} items")]
    twice = [field_duplicate(f"{path}[{i}]", name) for i, name in enumerate(owners) if name in owners[:i]]
    named = enumerate(owners)
    return [*twice, *(field_invalid(f"{path}[{i}]", n, why) for i, n in named for why in qualified_name_faults(n))]


NODE = KindSpec(
    *("", "v1", "nodes", "Node", False, ("no",)),
    subresources=("status",),
    struct=Node,
    check=_check_node,
    faults=_policy_faults,
    watch=Watch(is_required=True, wakes_pods=True, wakes_by_default=True),
    complete=_complete_node,
    completes_status=True,
    brings_status=True,
    field_labels={**labels_at("metadata.name"), "spec.unschedulable": text_at("spec.unschedulable", otherwise="false")},
    columns=(
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", field_cell("status.nodeInfo.kubeletVersion")),
        wide("Internal-IP", _node_address("InternalIP")),
        wide("External-IP", _node_address("ExternalIP")),
        wide("OS-Image", field_cell("status.nodeInfo.osImage", UNKNOWN)),
        wide("Kernel-Version", field_cell("status.nodeInfo.kernelVersion", UNKNOWN)),
        wide("Container-Runtime", field_cell("status.nodeInfo.containerRuntimeVersion", UNKNOWN)),
    ),
)

RUNTIME_CLASS = KindSpec(
    *("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    struct=RuntimeClass,
    check=_check_runtime_class,
    has_generation=True,
    fixed=("handler",),
    needs_version=True,
    columns=(NAME, Column("Handler", field_cell("handler")), AGE),
)

LEASE = KindSpec(
    *("coordination.k8s.io", "v1", "leases", "Lease"),
    needs_version=True,
    columns=(NAME, Column("Holder", field_cell("spec.holderIdentity")), AGE),
)
