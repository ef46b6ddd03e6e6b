"""Node, as far as a scheduler reads it, and the rule by which tolerations cover taints."""

from collections.abc import Iterable

from msgspec import field

from mooring.model.meta import Condition, KubeObject, Wire
from mooring.model.pod_spec import ResourceList, Toleration

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"


class Taint(Wire, frozen=True):  # type: ignore[misc]  # mypy takes a Struct for a dataclass
    """Frozen, so that it can be a member of a set."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(Wire):
    """An image that the node has already pulled; ImageLocality scores by it."""

    names: list[str] | None = None
    size_bytes: int = 0


class NodeStatus(Wire):
    """`allocatable` is what pods can have; `capacity` includes what the system reserves."""

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


# ---- tolerations


HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""Effects that keep pods away. PreferNoSchedule only lowers a score."""


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint; an empty key or effect covers every key or effect.

    Parity: operators Lt and Gt never match while the feature gate TaintTolerationComparisonOperators is off, its default.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


class Tolerance:
    """The tolerations of a pod as a set, so that covering a taint takes eight lookups instead of a walk over the list.

    A pod may have thousands of tolerations and a node as many taints: their product would stall the scheduler.
    """

    __slots__ = ("_covered",)

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._covered: set[tuple[str, str, str | None]] = set()
        """Effect, key and value of the taints that are covered. An empty text is any effect or key, None any value."""
        for toleration in tolerations:
            if toleration.operator in ("", "Equal"):
                self._covered.add((toleration.effect, toleration.key, toleration.value))
            elif toleration.operator == "Exists":
                self._covered.add((toleration.effect, toleration.key, None))

    def covers(self, taint: Taint) -> bool:
        """Empty effects and keys of tolerations cover any, so that each combination is looked up."""
        return bool(self._covered) and any(
            (effect, key, value) in self._covered
            for effect in (taint.effect, "")
            for key in (taint.key, "")
            for value in (taint.value, None)
        )

    def covers_hard(self, taints: Iterable[Taint]) -> bool:
        """Whether all taints that keep pods away (NoSchedule, NoExecute) are covered."""
        return all(self.covers(taint) for taint in taints if taint.effect in HARD_EFFECTS)


def tolerates_hard(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """The same for a list of tolerations that the caller asks about only once."""
    return Tolerance(tolerations).covers_hard(taints)
