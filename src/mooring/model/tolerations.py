"""When a toleration covers a taint."""

from collections.abc import Iterable

from mooring.model.node import NO_EXECUTE, NO_SCHEDULE, Taint
from mooring.model.pod import Toleration

HARD_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)


def covers(toleration: Toleration, taint: Taint) -> bool:
    """Parity: operators Lt and Gt never match while TaintTolerationComparisonOperators is off, its default."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(covers(toleration, taint) for toleration in tolerations)


def tolerates_hard(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether every taint that keeps pods away (NoSchedule, NoExecute) is tolerated."""
    return all(tolerates(tolerations, taint) for taint in taints if taint.effect in HARD_EFFECTS)
