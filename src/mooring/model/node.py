"""Node, as far as a scheduler reads it, and the rule by which tolerations cover taints."""

import re
from collections.abc import Iterable

from msgspec import field
from msgspec.structs import replace

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


class NodePodPreemptionPolicy(Wire):
    """Who has disabled preemption for resized pods on the node."""

    disable_resize_preemption: list[str] | None = None


class NodeSpec(Wire):
    unschedulable: bool = False
    taints: list[Taint] | None = None
    pod_preemption_policy: NodePodPreemptionPolicy | None = None
    provider_id: str = field(default="", name="providerID")
    """The name of the machine at its cloud. No plugin reads it; lists of prices name nodes by it."""


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
    def disables_resize_preemption(self) -> bool:
        """Whether someone keeps the scheduler from preempting pods on the node for a resize."""
        policy = self.spec.pod_preemption_policy
        return policy is not None and bool(policy.disable_resize_preemption)

    @property
    def taints(self) -> list[Taint]:
        return self.spec.taints or []


# ---- tolerations


HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)
"""Effects that keep pods away. PreferNoSchedule only lowers a score."""


COMPARISON_OPERATORS = ("Lt", "Gt")
"""Operators of tolerations that compare the values of taints as numbers."""
COMPARISON_GATE = "TaintTolerationComparisonOperators"
"""The feature gate of the operators Lt and Gt: while it is off, its default, they cover no taint."""

_DECIMAL = re.compile("0|-?[1-9][0-9]*")
MAX_DECIMAL = 20
"""The characters of the longest int64. A longer text is not read: a number of a million digits takes minutes."""


def node_like(first: Node, name: str, labels: dict[str, str]) -> Node:
    """Another node of the kind of the first, with which it shares spec and status."""
    metadata = replace(first.metadata, name=name, uid=name, labels=labels)
    return Node(metadata=metadata, spec=first.spec, status=first.status)


def covers(toleration: Toleration, taint: Taint, compares: bool = False) -> bool:
    """Whether a toleration covers a taint; an empty key or effect covers every key or effect. `compares` is the gate of
    the operators Lt and Gt."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if compares:
            value, limit = decimal_int64(taint.value), decimal_int64(toleration.value)
            if value is None or limit is None:
                return False
            return value < limit if toleration.operator == "Lt" else value > limit
    return False


def decimal_int64(text: str) -> int | None:
    """The number that a taint or toleration is compared by. Parity: unlike for label selectors, a plus sign, leading
    zeros and -0 make none."""
    if len(text) > MAX_DECIMAL or not is_decimal(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def is_decimal(text: str) -> bool:
    """Whether the text is an integer as it is usually written, of any length."""
    return _DECIMAL.fullmatch(text) is not None


class Tolerance:
    """The tolerations of a pod as a set, so that covering a taint takes eight lookups instead of a walk over the list.

    A pod may have thousands of tolerations and a node as many taints: their product would stall the scheduler.
    """

    __slots__ = ("_above", "_below", "_covered")

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._covered: set[tuple[str, str, str | None]] = set()
        """Effect, key and value of the taints that are covered. An empty text is any effect or key, None any value."""
        self._below: dict[tuple[str, str], int] = {}
        """By effect and key: taints with a number below this one are covered (Lt). Of several the highest counts."""
        self._above: dict[tuple[str, str], int] = {}
        """By effect and key: taints with a number above this one are covered (Gt). Of several the lowest counts."""
        for toleration in tolerations:
            self._add(toleration)

    def _add(self, toleration: Toleration) -> None:
        """Add a toleration to the sets that `Tolerance` looks taints up in. With several numeric tolerations (`Lt`, `Gt`) of
        one key, the widest limit counts."""
        effect, key = toleration.effect, toleration.key
        match toleration.operator:
            case "" | "Equal":
                self._covered.add((effect, key, toleration.value))
            case "Exists":
                self._covered.add((effect, key, None))
            case "Lt" if (limit := decimal_int64(toleration.value)) is not None:
                self._below[effect, key] = max(limit, self._below.get((effect, key), limit))
            case "Gt" if (limit := decimal_int64(toleration.value)) is not None:
                self._above[effect, key] = min(limit, self._above.get((effect, key), limit))

    def covers(self, taint: Taint, compares: bool = False) -> bool:
        """Empty effects and keys of tolerations cover any, so that each combination is looked up. `compares` is the gate of
        the operators Lt and Gt."""
        if self._covered and any(
            (effect, key, value) in self._covered
            for effect in (taint.effect, "")
            for key in (taint.key, "")
            for value in (taint.value, None)
        ):
            return True
        return compares and bool(self._below or self._above) and self._covers_number(taint)

    def _covers_number(self, taint: Taint) -> bool:
        number = decimal_int64(taint.value)
        if number is None:
            return False
        places = [(effect, key) for effect in (taint.effect, "") for key in (taint.key, "")]
        return any(
            number < self._below.get(place, number) or number > self._above.get(place, number) for place in places
        )

    def covers_hard(self, taints: Iterable[Taint], compares: bool = False) -> bool:
        """Whether all taints that keep pods away (NoSchedule, NoExecute) are covered."""
        return all(self.covers(taint, compares) for taint in taints if taint.effect in HARD_EFFECTS)


def tolerates_hard(tolerations: Iterable[Toleration], taints: Iterable[Taint], compares: bool = False) -> bool:
    """Whether a list of tolerations covers all taints that keep pods away, for a caller that asks about it only once."""
    return Tolerance(tolerations).covers_hard(taints, compares)
