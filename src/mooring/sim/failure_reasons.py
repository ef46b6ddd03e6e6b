"""What keeps pods from nodes, counted over many attempts: the reasons of the filters, in upstream's words."""

from dataclasses import dataclass

from mooring.framework.contract.status import Rejection
from mooring.scheduler.decision import Diagnosis

REASONS = 1000
"""How many distinct reasons are counted. A plugin may put the names of pods into its words; the first ones count."""


@dataclass(frozen=True, slots=True)
class FailureReason:
    """A reason for which a plugin rejected nodes."""

    plugin: str
    message: str
    times: int
    """How many of the attempts had it."""
    nodes: int
    """The most nodes that were rejected for it in one attempt."""


class FailureCounter:
    """Counts the reasons of attempts that found no node."""

    def __init__(self) -> None:
        self.attempts = 0
        self._found: dict[tuple[str, str], tuple[int, int]] = {}
        """(plugin, reason) -> how many attempts had it, and the most nodes."""

    def add(self, diagnosis: Diagnosis) -> None:
        """Count an attempt."""
        self.attempts += 1
        for key, nodes in _nodes_by_reason(diagnosis).items():
            times, most = self._found.get(key, (0, 0))
            if times or len(self._found) < REASONS:
                self._found[key] = times + 1, max(most, nodes)

    def reasons(self) -> list[FailureReason]:
        """The most frequent first, then those of most nodes."""
        found = [FailureReason(*key, *counts) for key, counts in self._found.items()]
        return sorted(found, key=lambda each: (-each.times, -each.nodes, each.message, each.plugin))


def _nodes_by_reason(diagnosis: Diagnosis) -> dict[tuple[str, str], int]:
    """How many nodes each reason of one attempt rejects; a node may have several reasons of one plugin."""
    found: dict[tuple[str, str], int] = {}
    looked_at = sum(nodes for _, nodes in diagnosis.verdicts)
    others = [(diagnosis.absent, diagnosis.node_count - looked_at)] if diagnosis.absent is not None else []
    for rejection, nodes in (*diagnosis.verdicts, *others):
        for key in _keys(rejection) if nodes > 0 else ():
            found[key] = found.get(key, 0) + nodes
    return found


def _keys(rejection: Rejection) -> list[tuple[str, str]]:
    return [(rejection.plugin, reason) for reason in dict.fromkeys(rejection.reasons)]
