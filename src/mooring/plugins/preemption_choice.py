"""Which candidate of a preemption is taken: the one that does the least harm."""

from collections.abc import Callable, Sequence

from mooring.cluster.ranks import start_ns
from mooring.plugins.preemption_search import Candidate

_OFFSET = 1 << 31
"""Added to each priority before summing, so that more victims never look better than fewer."""


def least_harmful(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates among which only chance decides: best by each rule in turn, as long as more than one is left."""
    left = list(candidates)
    for harm in _RULES:
        if len(left) < 2:
            break
        harms = [harm(candidate) for candidate in left]
        least = min(harms)
        left = [candidate for candidate, found in zip(left, harms, strict=True) if found == least]
    return left


def _highest_priority(candidate: Candidate) -> int:
    return candidate.victims[0].priority


def _sum_of_priorities(candidate: Candidate) -> int:
    return sum(pod.priority + _OFFSET for pod in candidate.victims)


def _longest_running(candidate: Candidate) -> int:
    """The earliest start among the most important victims, negated: the later it is, the less is lost."""
    highest = _highest_priority(candidate)
    return -min(start_ns(pod) for pod in candidate.victims if pod.priority == highest)


_RULES: tuple[Callable[[Candidate], int], ...] = (
    lambda candidate: candidate.violations,
    _highest_priority,
    _sum_of_priorities,
    lambda candidate: len(candidate.victims),
    _longest_running,
)
