"""The way of an object into the store: one function for each way of writing.

The order is kube-apiserver's: read, set defaults, admit, validate. An object that comes in is never changed; a tidied
copy goes on. Each function returns the object as it is to be stored, or raises an ApiError.

An API server keeps some fields only while their feature gate is on: without an error, it drops them from all objects
that do not have them already. A gate may be switched off while objects use its fields, so a field that the stored
object has stays. The fields that scheduling.k8s.io has with gates are here too; those of v1.36 that depend on other
fields are in `rules.pod_admission`.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.api.api_errors import Cause, field_invalid
from mooring.api.fields import core_of, fields_of, is_type, type_of
from mooring.api.json_objects import JsonObject, fill, value_at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.custom_resources import CUSTOM_RESOURCE_DEFINITION
from mooring.api.kinds.nodes import LIMIT_RANGE, NAMESPACE, RUNTIME_CLASS
from mooring.api.kinds.scheduling import PRIORITY_CLASS
from mooring.apiserver.admission import object_meta
from mooring.apiserver.admission.faults import (
    check_form,
    check_valid,
    expression_faults,
    form_faults,
    gated_faults,
    status_gated_faults,
    unreadable_field,
)
from mooring.apiserver.admission.object_meta import Lookups
from mooring.apiserver.admission.special_kinds import Special, special
from mooring.apiserver.store import Store
from mooring.model.names import subdomain_faults
from mooring.model.quantity import canonical
from mooring.rules.claims_and_volumes import GROUP_CLAIMS_GATE
from mooring.rules.pod_defaults import complete_pod_spec

# ---- pods of one template: what admission made of the first of them holds for the next, as long as nothing else changed
#
# Controllers create pods by the thousand from one spec. Defaults, admission and validation depend on that spec, on
# the labels and on a few objects of the cluster; of what is left, each pod gets its own name, uid and time.


_READ_KINDS = (LIMIT_RANGE, PRIORITY_CLASS, RUNTIME_CLASS)
"""The kinds that admission reads beside the pod and its namespace."""

_OWN = ("name", "generateName", "namespace")
"""Metadata that each pod has for itself, even before it is made."""
_KEPT = 64
"""Templates that are remembered: more than a cluster creates pods from at a time. The oldest goes."""


@dataclass(slots=True)
class _Template:
    """The memory of one template: the spec that was given, and the pod that admission made of it."""

    spec: JsonObject
    """The very object that was given: as long as it is kept here, no other can be at its place."""
    shared: JsonObject
    """The metadata that all pods of the template have in common."""
    rules: tuple[object, ...]
    made: JsonObject


@dataclass(slots=True)
class TemplatePods:
    """Remembers the last pod of each of the last templates, and makes others from it without admission. Hot: a pod with
    one container takes 11 µs instead of 140 µs."""

    store: Store
    _templates: dict[int, _Template] = field(default_factory=dict)

    def another(
        self, namespace: str, item: JsonObject, now: str, new_uid: Callable[[], str], random_suffix: Callable[[], str]
    ) -> JsonObject | None:
        """The pod, ready to be stored, if one just like it was made before; None: it must be looked at."""
        template = self._templates.get(id(item.get("spec")))
        metadata = item.get("metadata")
        if template is None or not isinstance(metadata, dict) or template.spec is not item.get("spec"):
            return None
        if template.rules != self._rules(namespace) or _shared(metadata) != template.shared:
            return None
        name, stem = metadata.get("name", ""), metadata.get("generateName", "")
        made = template.made["metadata"]
        if (name and subdomain_faults(name)) or (not name and stem != made.get("generateName")):
            return None
        own = {"name": name or stem + random_suffix(), **({"generateName": stem} if stem else {})}
        fresh = {
            **template.shared,
            **own,
            "namespace": namespace,
            "uid": new_uid(),
            "creationTimestamp": now,
            "generation": 1,
        }
        return {**template.made, "metadata": fresh, "status": dict(template.made["status"])}

    def remember(self, namespace: str, item: JsonObject, made: JsonObject) -> None:
        """A pod was made of an item. What depends on more than the template is not remembered."""
        spec, metadata = item["spec"], item.get("metadata") or {}
        if spec.get("schedulingGates") or spec.get("nodeName") or _shared(metadata) != _shared(made["metadata"], True):
            return
        if len(metadata.get("generateName", "")) > 50 or metadata.get("namespace") not in (None, "", namespace):
            return
        if len(self._templates) >= _KEPT:
            del self._templates[next(iter(self._templates))]
        self._templates[id(spec)] = _Template(spec, _shared(metadata), self._rules(namespace), made)

    def _rules(self, namespace: str) -> tuple[object, ...]:
        """Another tuple whenever something changed that admission reads."""
        versions = (self.store.last_write(kind.storage) for kind in _READ_KINDS)
        found = self.store.find(NAMESPACE.storage, ("", namespace))
        return (namespace, found["metadata"]["resourceVersion"] if found else None, *versions)


def _shared(metadata: JsonObject, is_made: bool = False) -> JsonObject:
    """Metadata without what each pod has for itself, and, once it is made, without what the server adds."""
    own = (*_OWN, "uid", "creationTimestamp", "generation") if is_made else _OWN
    return {key: value for key, value in metadata.items() if key not in own}


_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
"""Metadata that a write to the status subresource changes too, but for the keys in `KindSpec.status_keeps`."""


def prepare_create(
    resource: KindSpec,
    namespace: str,
    item: JsonObject,
    cluster: Lookups,
    now: str,
    new_uid: Callable[[], str],
    random_suffix: Callable[[], str],
    checks_form: bool = False,
) -> JsonObject:
    """A new object as it is to be stored. `now` is RFC 3339 in whole seconds, `namespace` is the one in the URL."""
    made = _readable(resource, item)
    object_meta.give_name(resource, made, random_suffix)
    object_meta.place(resource, namespace, made, cluster)
    object_meta.stamp(resource, made, now, new_uid)
    own = special(resource)
    _complete(resource, own, made)
    _protect(resource, made)
    _reset_status(resource, made)
    drop_gated(resource, {}, made, cluster.gates)
    own.admit(made, cluster, now)
    faults = form_faults(resource, {}, made) if checks_form else []
    faults += [*_new_faults(resource, made), *expression_faults(resource, {}, made, cluster.gates)]
    check_valid(resource, made, [*faults, *gated_faults(resource, {}, made, cluster)])
    return made


def prepare_update(
    resource: KindSpec, old: JsonObject, new: JsonObject, cluster: Lookups, checks_form: bool = False
) -> JsonObject:
    """An object that replaces `old`. What the server owns, the status included, is taken over from `old`."""
    made = _readable(resource, new)
    object_meta.keep_owned(resource, old, made)
    own = special(resource)
    _complete(resource, own, made)
    _keep_status(resource, old, made)
    drop_gated(resource, old, made, cluster.gates)
    faults = [*own.change(old, made, cluster), *_change_faults(resource, old, made)]
    faults += form_faults(resource, old, made) if checks_form else []
    faults += expression_faults(resource, old, made, cluster.gates)
    check_valid(resource, made, [*faults, *gated_faults(resource, old, made, cluster)])
    object_meta.count_change(resource, old, made)
    return made


def prepare_status(resource: KindSpec, old: JsonObject, new: JsonObject, cluster: Lookups) -> JsonObject:
    """`old` with the status of `new`, and with what its metadata may change."""
    given = _readable(resource, new)
    object_meta.check_uid(resource, old, given["metadata"].get("uid"))
    made = {**old, "metadata": {**old["metadata"]}, "status": given.get("status", {})}
    if resource.definition:
        made = copy.deepcopy(made)  # defaults are set in place, at any depth
        _take(made, given, ("status",))
    _take(made["metadata"], given["metadata"], tuple(key for key in _METADATA if key not in resource.status_keeps))
    own = special(resource)
    status = new.get("status")
    emptied = {key for key, value in status.items() if value == []} if isinstance(status, dict) else set()
    own.change_status(old, made, emptied, cluster.gates)
    drop_gated(resource, old, made, cluster.gates)
    if resource.completes_status:
        _complete(resource, own, made)
    faults = resource.status_faults(old, made) if resource.status_faults is not None else []
    if resource is CUSTOM_RESOURCE_DEFINITION:  # what its status says decides what is served
        faults = expression_faults(resource, old, made, cluster.gates)
    check_valid(resource, made, [*faults, *status_gated_faults(resource, old, made, cluster)])
    return made


def _readable(resource: KindSpec, item: JsonObject) -> JsonObject:
    """A tidied copy of what a client wrote, which says what it is and has metadata. Raises 400 for what is not of the
    kind."""
    check_form(resource, item)
    tidied = tidy(item) if resource.schema is None else copy.deepcopy(item)
    made: JsonObject = {"kind": resource.kind, "apiVersion": resource.api_version} | tidied
    made["metadata"] = tidy(made.get("metadata") or {}) if resource.schema is not None else made.get("metadata", {})
    return made


def _complete(resource: KindSpec, own: Special, item: JsonObject) -> None:
    """Set defaults, at creation and at every update. A kind that the table of fields does not describe may hold
    anything, so a value of the wrong form shows here first: 400."""
    if own.complete is not None:
        own.complete(item)
        return
    try:
        fill(item, resource.defaults)
        if resource.spec_defaults:
            fill(item.setdefault("spec", {}), resource.spec_defaults)
        if resource.pod_template:
            template = item
            for field in resource.pod_template:
                template = template.setdefault(field, {})
            template.setdefault("metadata", {})
            complete_pod_spec(template.setdefault("spec", {}))
        if resource.complete is not None:
            resource.complete(item)
    except (AttributeError, TypeError):
        raise unreadable_field(resource) from None


def _protect(resource: KindSpec, item: JsonObject) -> None:
    """Add the kind's finalizer (such as `kubernetes.io/pvc-protection`): a controller removes it once nothing uses the
    object."""
    if resource.finalizer:
        held = item["metadata"].get("finalizers", [])
        item["metadata"]["finalizers"] = [*held, *({resource.finalizer} - set(held))]


def _reset_status(resource: KindSpec, item: JsonObject) -> None:
    """A new object starts from scratch, unless it brings its own status, as nodes do."""
    if "status" not in resource.subresources or resource.brings_status:
        return
    if resource.definition:  # a custom object has no status until a client writes one, but for its defaults
        item.pop("status", None)
        _complete(resource, special(resource), item)
    else:
        item["status"] = dict(resource.new_status)


def _new_faults(resource: KindSpec, item: JsonObject) -> list[Cause]:
    """Faults that only a new object can have, and those that any object can have."""
    try:
        found = resource.new_faults(item) if resource.new_faults is not None else []
    except (AttributeError, TypeError):
        raise unreadable_field(resource) from None
    return [*found, *_faults(resource, item)]


def _change_faults(resource: KindSpec, old: JsonObject, new: JsonObject) -> list[Cause]:
    """Changes of what is fixed for good, and faults of the new object."""
    found = resource.change_faults(old, new) if resource.change_faults is not None else []
    fixed = ((path, value_at(old, path), value_at(new, path)) for path in resource.fixed)
    changed = [field_invalid(path, after, "field is immutable") for path, before, after in fixed if before != after]
    return [*found, *changed, *_faults(resource, new)]


def _faults(resource: KindSpec, item: JsonObject) -> list[Cause]:
    """The faults that the kind's own rule finds; most kinds have none and are covered by `api.validate`."""
    return resource.faults(item) if resource.faults is not None else []


def _keep_status(resource: KindSpec, old: JsonObject, new: JsonObject) -> None:
    """An update of an object leaves its status alone where the kind has a status subresource."""
    if "status" in resource.subresources:
        _take(new, old, ("status",))


def _take(target: JsonObject, source: JsonObject, keys: tuple[str, ...]) -> None:
    """Make these entries what they are in `source`, absent included."""
    for key in keys:
        target.pop(key, None)
        if key in source:
            target[key] = source[key]


# ---- an object as a server writes it back: what stands for nothing is left out, quantities are in their canonical form


_SHOWN_NULLS = frozenset(
    ("lastProbeTime", "lastTransitionTime", "lastHeartbeatTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")
)
"""Times that are written as null where they are not set; all other nulls are left out."""

_AMOUNTS = {
    *("requests", "limits", "capacity", "allocatable", "podFixed", "overhead"),
    *("default", "defaultRequest", "min", "max", "maxLimitRequestRatio", "hard"),
}
"""Maps of quantities, wherever they are: in containers, nodes, volumes, claims, runtime classes, limit ranges."""
_NOT_SHOWN_EMPTY = _AMOUNTS | {"labels", "annotations", "nodeSelector", "matchLabels"}
"""Maps of strings, which Go leaves out where they are empty."""
_UNTOUCHED = frozenset(("managedFields", "data", "stringData", "parameters"))
"""Data of users and drivers, and FieldsV1: a null or an empty list means something there."""


def tidy(value: Any) -> Any:
    """A deep copy without nulls, empty lists and empty maps of strings. Empty objects stay: `emptyDir: {}` says much."""
    if isinstance(value, list):
        # A null in a list stands for an empty object there, because lists that matter hold objects.
        return [{} if inner is None else tidy(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    made: JsonObject = {}
    for key, inner in value.items():
        if key in _UNTOUCHED or (inner is None and key in _SHOWN_NULLS):
            made[key] = inner
        elif inner is None or inner == [] or (inner == {} and key in _NOT_SHOWN_EMPTY):
            continue
        # A CSINode has an `allocatable` of another kind: `count`, a plain number.
        elif key in _AMOUNTS and isinstance(inner, dict) and inner.keys() != {"count"}:
            made[key] = {name: canonical(text) for name, text in inner.items()}
        else:
            made[key] = tidy(inner) if isinstance(inner, dict | list) else inner
    return made


_GATED = {
    "EvictionRequestAPI": ("PodSpec.evictionResponders",),
    "EmptyDirVolumeMode": ("EmptyDirVolumeSource.mode",),
    "VolumeBindMountOptions": ("VolumeMount.bindMountOptions",),
    "H2CContainerProbe": ("HTTPGetAction.protocol",),
    "GRPCContainerProbeTLS": ("GRPCAction.mode",),
    "AtomicWriteVolumeUserFields": (
        *(f"{source}VolumeSource.defaultUser" for source in ("Secret", "ConfigMap", "DownwardAPI", "Projected")),
        *(f"{source}Projection.user" for source in ("ServiceAccountToken", "ClusterTrustBundle", "PodCertificate")),
        *("KeyToPath.user", "DownwardAPIVolumeFile.user"),
    ),
    "CSIVolumeHealth": (
        *("PodStatus.volumeHealth", "CSINodeStatus.storageHealth"),
        "PersistentVolumeClaimStatus.healthStatus",
    ),
    "InPlacePodVerticalScalingSchedulerPreemption": ("NodeSpec.podPreemptionPolicy",),
    "KubeletInUserNamespace": ("NodeSystemInfo.runningInUserNamespace",),
    "WorkloadWithJob": ("JobSpec.scheduling",),
    "TopologyAwareWorkloadScheduling": ("PodGroupSpec.schedulingConstraints", "PodGroupTemplate.schedulingConstraints"),
    GROUP_CLAIMS_GATE: ("PodGroupSpec.resourceClaims", "PodGroupTemplate.resourceClaims"),
    "PodGroupPreemptionPolicy": tuple(
        f"{composite}PodGroup{part}.preemptionPolicy"
        for composite in ("", "Composite")
        for part in ("Spec", "Template")
    ),
    "CompositePodGroup": ("PodGroupSpec.parentCompositePodGroupName", "WorkloadSpec.compositePodGroupTemplates"),
    "DRADeviceCompatibilityGroups": ("DeviceCounterConsumption.compatibilityGroups",),
    "DRANodeAllocatableResources": ("Device.nodeAllocatableResources",),
    "DRAOptionalNodeOperations": (
        *("ResourceSliceSpec.skipNodeOperations", "DeviceRequestAllocationResult.skipNodeOperations"),
    ),
    "DRAPartitionableDevicesType": ("ResourceSliceSpec.partitionTypeAttribute",),
}
"""By gate, the fields that need it, wherever their types are used."""
_GATES = {field: gate for gate, fields in _GATED.items() for field in fields}
_ON = frozenset(("KubeletInUserNamespace",))
"""The gates of this table that are on by default."""

Tree = list[tuple[str, str, "Tree"]]
"""The fields of a type that need gates, and those in which there are such fields: the name, the gate of the field itself
(empty: none), and the tree of its type.

Hot: one walk for all fields takes 4 µs for a pod with two containers; path by path it took 25 µs."""
Found = list[tuple[str, JsonObject, str]]
"""Fields that need gates: the gate, the object that has the field, and its name."""
_TREES: dict[str, Tree] = {}
"""By type. A tree is here before it is filled, because templates of Workloads hold templates of their own type."""


def _tree(name: str) -> Tree:
    if name in _TREES or not is_type(name):
        return _TREES.get(name, [])
    tree = _TREES[name] = []
    for field_name, known in fields_of(name).items():
        gate, below = _GATES.get(f"{name.rpartition('.')[2]}.{field_name}", ""), _tree(core_of(known.holds))
        if gate or below or below is tree:
            tree.append((field_name, gate, below))
    return tree


def drop_gated(resource: KindSpec, old: JsonObject, new: JsonObject, gates: Mapping[str, bool]) -> None:
    """Take the fields off an object whose gates are off, unless the stored object has them; `old` is empty for a new one."""
    tree, found = _tree(type_of(resource)), Found()
    _collect(new, tree, found)
    if not found:
        return
    held = Found()
    _collect(old, tree, held)
    in_use = {gate for gate, _, _ in held}
    for gate, holder, name in found:
        if not gates.get(gate, gate in _ON) and gate not in in_use:
            holder.pop(name, None)


def _collect(item: JsonObject, tree: Tree, found: Found) -> None:
    """Find the fields of an object that need gates."""
    for name, gate, below in tree:
        value = item.get(name)
        if value is None:
            continue
        if gate:
            found.append((gate, item, name))
        if below and type(value) is dict:
            _collect(value, below, found)
        elif below and type(value) is list:
            for entry in value:
                if type(entry) is dict:
                    _collect(entry, below, found)
