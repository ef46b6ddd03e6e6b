"""Which resources of a live cluster are listed, and what is lost if the caller may not list one of them.

Secrets and ConfigMaps are never read: no decision depends on their content. reader.yaml grants exactly these.
"""

from dataclasses import dataclass
from pathlib import Path

from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import BY_KIND, KINDS, WORKLOADS

READER_ROLE = Path(__file__).with_name("reader.yaml")
"""The manifest with the ClusterRoles that allow what questions list, and what an observer watches: errors name it."""

PODS, NODES = KINDS["Pod"], KINDS["Node"]
EVENTS = BY_KIND["v1", "Event"]
REQUIRED = (PODS, NODES)
"""Without them there is no cluster to ask about."""


def _listed() -> tuple[KindSpec, ...]:
    """Pods first: their version is the one at which all others are listed."""
    others = [spec for spec in (*KINDS.values(), *WORKLOADS.values()) if spec not in REQUIRED]
    return (PODS, NODES, *dict.fromkeys(others))


LISTED = _listed()
"""All kinds that decisions read, and the workloads, which questions name as KIND/NAME."""


@dataclass(frozen=True, slots=True)
class _Loss:
    """What answers do without."""

    kinds: tuple[str, ...]
    text: str


_LOSSES = (
    _Loss(("PersistentVolumeClaim",), "pods with volume claims look as if their claims did not exist"),
    _Loss(
        ("PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
        "answers about pods with volumes may be wrong",
    ),
    _Loss(
        ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule"),
        "answers about pods with resource claims may be wrong",
    ),
    _Loss(("PodDisruptionBudget",), "no budget protects pods"),
    _Loss(("Namespace",), "namespace selectors match no namespace"),
    _Loss(
        ("Service", "ReplicaSet", "StatefulSet", "ReplicationController"),
        "default spreading does not see the pods that belong together",
    ),
    _Loss(("Deployment", "DaemonSet", "Job"), "questions cannot name them"),
    _Loss(("PodGroup",), "pods of groups look as if their groups did not exist"),
    _Loss(("PriorityClass", "RuntimeClass", "LimitRange"), "pods that you add do not get its defaults"),
    _Loss(("Event",), "explanations have no history"),
)


def loss_without(spec: KindSpec) -> str:
    """What is lost without a resource."""
    return next((loss.text for loss in _LOSSES if spec.kind in loss.kinds), "answers may be wrong")


def is_gated(spec: KindSpec) -> bool:
    """Whether hardly any server serves it: an API behind a feature gate that is off by default."""
    return spec.watch is not None and bool(spec.watch.needs_gate)
