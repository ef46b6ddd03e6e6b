"""Node, as far as a scheduler reads it."""

from msgspec import field

from mooring.model.meta import Condition, KubeObject, Wire
from mooring.model.pod_spec import ResourceList

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"


class Taint(Wire, frozen=True):  # type: ignore[misc]  # mypy takes a Struct for a dataclass
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(Wire):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Wire):
    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    images: list[ContainerImage] | None = None
    conditions: list[Condition] | None = None
    declared_features: list[str] | None = None


class Node(KubeObject):
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def taints(self) -> list[Taint]:
        return self.spec.taints or []
