"""Which pods of a workload go first when there are too many: those whose loss is felt least."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from mooring.controllers.nodes.pod_states import is_ready, phase_of, ready_since, restarts_of
from mooring.kit.clock import moment_ns
from mooring.model.json_objects import JsonObject
from mooring.model.selectors import parse_int64

_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def first_to_go(pods: Sequence[JsonObject], number: int, now_ns: int) -> list[JsonObject]:
    """So many of the pods, in the sequence in which they are to be deleted.

    Unassigned before assigned, pending before running, unready before ready, cheap before dear, crowded nodes before
    others, briefly ready before long ready, often restarted before others, new before old.
    """
    neighbours = Counter(pod["spec"].get("nodeName", "") for pod in pods)
    return sorted(pods, key=_order(neighbours, now_ns))[:number]


def _order(neighbours: Counter[str], now_ns: int) -> Callable[[JsonObject], tuple[Any, ...]]:
    def order(pod: JsonObject) -> tuple[Any, ...]:
        node, since = pod["spec"].get("nodeName", ""), ready_since(pod)
        return (
            bool(node),
            _PHASES.get(phase_of(pod), 2),
            is_ready(pod),
            _cost(pod),
            -neighbours[node],
            _age_rank(since, now_ns) if since else -1,
            -restarts_of(pod),
            _age_rank(pod["metadata"]["creationTimestamp"], now_ns),
            pod["metadata"]["uid"],
        )

    return order


def _cost(pod: JsonObject) -> int:
    return parse_int64(pod["metadata"].get("annotations", {}).get(_COST)) or 0


def _age_rank(since: str, now_ns: int) -> int:
    """Parity: ages are compared by their binary logarithm, so that not always the very newest pod is hit."""
    return max(now_ns - moment_ns(since), 0).bit_length()
