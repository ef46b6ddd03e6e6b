"""Fields that an API server keeps only while their feature gate is on: it drops them from all objects that do not have them
already, without an error.

A gate may be switched off while objects use its fields, so a field that the stored object has stays. The fields that
scheduling.k8s.io has with gates are here too; those of v1.36 that depend on other fields are in `rules.pod_admission`.
"""

from collections.abc import Mapping

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import POD_SPEC, KindSpec
from mooring.api.kinds.devices import RESOURCE_CLAIM, RESOURCE_SLICE
from mooring.api.kinds.nodes import NODE
from mooring.api.kinds.pods import POD
from mooring.api.kinds.scheduling import COMPOSITE_POD_GROUP, GROUP_TEMPLATES, POD_GROUP
from mooring.api.kinds.storage import CSI_NODE, PERSISTENT_VOLUME_CLAIM
from mooring.api.kinds.workloads import CRON_JOB, JOB
from mooring.rules.claims_of_pods import GROUP_CLAIMS_GATE

Rows = Mapping[str, tuple[str, ...]]
"""By gate, the paths of the fields that need it. A name in a path that leads to a list stands for all its items."""

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
_FILES = ("secret", "configMap", "downwardAPI")
_TOKENS = ("serviceAccountToken", "clusterTrustBundle", "podCertificate")


def _in_containers(*ends: str) -> tuple[str, ...]:
    return tuple(f"{group}.{end}" for group in _CONTAINERS for end in ends)


_OF_POD_SPEC: Rows = {
    "EvictionRequestAPI": ("evictionResponders",),
    "EmptyDirVolumeMode": ("volumes.emptyDir.mode",),
    "VolumeBindMountOptions": _in_containers("volumeMounts.bindMountOptions"),
    "H2CContainerProbe": _in_containers(*(f"{handler}.httpGet.protocol" for handler in _HANDLERS)),
    "GRPCContainerProbeTLS": _in_containers(*(f"{probe}.grpc.mode" for probe in _HANDLERS[:3])),
    "AtomicWriteVolumeUserFields": (
        *(f"volumes.{source}.defaultUser" for source in (*_FILES, "projected")),
        *(f"volumes.{source}.items.user" for source in _FILES),
        *(f"volumes.projected.sources.{source}.items.user" for source in _FILES),
        *(f"volumes.projected.sources.{source}.user" for source in _TOKENS),
    ),
}
"""Fields of pods and of templates of pods."""
_GROUP: Rows = {
    "TopologyAwareWorkloadScheduling": ("schedulingConstraints",),
    GROUP_CLAIMS_GATE: ("resourceClaims",),
    "PodGroupPreemptionPolicy": ("preemptionPolicy",),
}
"""Fields of PodGroups and of their templates."""
_COMPOSITE: Rows = {"PodGroupPreemptionPolicy": ("preemptionPolicy",)}
"""Fields of CompositePodGroups and of their templates."""
_HEALTH = "CSIVolumeHealth"


def _below(path: str, rows: Rows) -> Rows:
    return {gate: tuple(f"{path}.{end}" for end in ends) for gate, ends in rows.items()}


def _together(*all_rows: Rows) -> Rows:
    found: dict[str, tuple[str, ...]] = {}
    for rows in all_rows:
        for gate, paths in rows.items():
            found[gate] = (*found.get(gate, ()), *paths)
    return found


_TREE = ("spec.compositePodGroupTemplates" + ".compositePodGroupTemplates" * depth for depth in range(3))
"""Where Workloads have templates of CompositePodGroups; the server refuses trees that go deeper."""
_TEMPLATES = _together(
    _below("spec.podGroupTemplates", _GROUP),
    *(_together(_below(path, _COMPOSITE), _below(f"{path}.podGroupTemplates", _GROUP)) for path in _TREE),
    {"CompositePodGroup": ("spec.compositePodGroupTemplates",)},
)
_OF_PODS = _below("spec", _OF_POD_SPEC)
_OF_TEMPLATES = _below(POD_SPEC, _OF_POD_SPEC)
_OF_JOBS = _together(_OF_TEMPLATES, {"WorkloadWithJob": ("spec.scheduling",)})
_OF_KINDS: Mapping[str, Rows] = {
    POD.storage: _together(_OF_PODS, {_HEALTH: ("status.volumeHealth",)}),
    NODE.storage: {
        "InPlacePodVerticalScalingSchedulerPreemption": ("spec.podPreemptionPolicy",),
        "KubeletInUserNamespace": ("status.nodeInfo.runningInUserNamespace",),
    },
    CSI_NODE.storage: {_HEALTH: ("status.storageHealth",)},
    PERSISTENT_VOLUME_CLAIM.storage: {_HEALTH: ("status.healthStatus",)},
    JOB.storage: _OF_JOBS,
    CRON_JOB.storage: _below("spec.jobTemplate", _OF_JOBS),
    POD_GROUP.storage: _together(_below("spec", _GROUP), {"CompositePodGroup": ("spec.parentCompositePodGroupName",)}),
    COMPOSITE_POD_GROUP.storage: _below("spec", _COMPOSITE),
    GROUP_TEMPLATES.storage: _TEMPLATES,
    RESOURCE_SLICE.storage: {
        "DRADeviceCompatibilityGroups": ("spec.devices.consumesCounters.compatibilityGroups",),
        "DRANodeAllocatableResources": ("spec.devices.nodeAllocatableResources",),
        "DRAOptionalNodeOperations": ("spec.skipNodeOperations",),
        "DRAPartitionableDevicesType": ("spec.partitionTypeAttribute",),
    },
    RESOURCE_CLAIM.storage: {"DRAOptionalNodeOperations": ("status.allocation.devices.results.skipNodeOperations",)},
}
"""By the storage of a kind, its fields that need gates."""
_ON = frozenset(("KubeletInUserNamespace",))
"""The gates of this table that are on by default."""

Tree = tuple[tuple[str, str, "Tree"], ...]
"""Rows by the first name of their paths: the name, the gate of the field itself (empty: none), and the tree of its fields.

Hot: one walk for all fields takes 4 µs for a pod with two containers; path by path it took 25 µs."""
Found = list[tuple[str, JsonObject, str]]
"""Fields that need gates: the gate, the object that has the field, and its name."""


def _tree(paths: Mapping[tuple[str, ...], str]) -> Tree:
    """The tree of the paths, each with its gate."""
    names = dict.fromkeys(path[0] for path in paths)
    return tuple(
        (name, paths.get((name,), ""), _tree({path[1:]: paths[path] for path in paths if path[0] == name and path[1:]}))
        for name in names
    )


def _tree_of(rows: Rows) -> Tree:
    return _tree({tuple(path.split(".")): gate for gate, paths in rows.items() for path in paths})


_TREES = {storage: _tree_of(rows) for storage, rows in _OF_KINDS.items()}
_TEMPLATE_TREE = _tree_of(_OF_TEMPLATES)


def drop_gated(resource: KindSpec, old: JsonObject, new: JsonObject, gates: Mapping[str, bool]) -> None:
    """Take the fields off an object whose gates are off, unless the stored object has them; `old` is empty for a new one."""
    tree = _TREES.get(resource.storage) or (_TEMPLATE_TREE if resource.has_pod_template else ())
    found: Found = []
    _collect(new, tree, found)
    if not found:
        return
    held: Found = []
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
