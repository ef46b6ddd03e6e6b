"""A binding of the recording beside what Mooring decides for the same pod at the same moment."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mooring.answers.form.data_table import Columns, DataTable, Time, data_table
from mooring.kit.clock import in_micros


class BindingVerdict(StrEnum):
    """How the recorded node compares with Mooring's choice."""

    SAME = "same"
    """It is the only node with the highest score."""
    TIED = "tied"
    """It is one of several nodes with the highest score."""
    LOWER = "lower"
    """It passes all filters, but another node has a higher score."""
    REJECTED = "rejected"
    """A filter rejects it."""
    UNDECIDED = "undecided"
    """Mooring cannot say: a plugin failed, or the node is not in the recording."""


AGREES = frozenset((BindingVerdict.SAME, BindingVerdict.TIED))


@dataclass(frozen=True, slots=True)
class JudgedBinding:
    """One binding. Scores are totals after weights; they are 0 where nodes were not scored."""

    pod: str
    node: str
    profile: str
    """The scheduler name of the pod."""
    at_ns: int
    verdict: BindingVerdict
    tied_count: int = 1
    """How many nodes have the highest score."""
    node_count: int = 0
    feasible_count: int = 0
    score: int = 0
    best: str = ""
    """The node that Mooring chooses; empty: none."""
    best_score: int = 0
    better_count: int = 0
    """How many nodes have a higher score than the recorded one."""
    may_be_sampled: bool = False
    """Whether the other scheduler may not have looked at the better nodes at all (percentageOfNodesToScore)."""
    plugin: str = ""
    """What explains most of the difference, or rejects the node."""
    message: str = ""
    """Why the node is rejected, or why there is no verdict."""
    differences: tuple[tuple[str, int, int], ...] = ()
    """(plugin, what it gives to the recorded node, what it gives to the best), the largest difference first."""

    @property
    def behind(self) -> int:
        """By how much the recorded node is behind the best one."""
        return self.best_score - self.score

    @property
    def agrees(self) -> bool:
        return self.verdict in AGREES

    @property
    def plugin_behind(self) -> int:
        """How much of the difference comes from `plugin`."""
        return next((best - own for name, own, best in self.differences if name == self.plugin), 0)

    def content(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "node": self.node,
            "profile": self.profile,
            "at": in_micros(self.at_ns),
            "verdict": self.verdict.value,
            "tiedNodes": self.tied_count,
            "nodes": self.node_count,
            "feasibleNodes": self.feasible_count,
            "score": self.score,
            "bestNode": self.best,
            "bestScore": self.best_score,
            "betterNodes": self.better_count,
            "mayBeSampled": self.may_be_sampled,
            "plugin": self.plugin,
            "message": self.message,
            "plugins": [{"plugin": name, "score": own, "bestScore": best} for name, own, best in self.differences],
        }


def binding_table(bindings: Iterable[JudgedBinding]) -> DataTable:
    """A row for each binding."""
    columns: Columns = {
        "pod": str,
        "node": str,
        "profile": str,
        "at": Time,
        "verdict": str,
        "tied_nodes": int,
        "nodes": int,
        "feasible_nodes": int,
        "score": int,
        "best_node": str,
        "best_score": int,
        "behind": int,
        "better_nodes": int,
        "may_be_sampled": bool,
        "plugin": str,
        "message": str,
    }
    rows = (
        (
            *(each.pod, each.node, each.profile, each.at_ns, each.verdict.value, each.tied_count, each.node_count),
            *(each.feasible_count, each.score, each.best, each.best_score, each.behind),
            *(each.better_count, each.may_be_sampled, each.plugin, each.message),
        )
        for each in bindings
    )
    return data_table(columns, rows)
