"""The answer to "why is this pod group pending, and what would place it?"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mooring.answers.explain.cure import Cure
from mooring.answers.explain.explanation import cure_table, evicts, reason_row, reason_table
from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import DataTable, data_table
from mooring.answers.trial.group_trials import spread_of
from mooring.answers.trial.reasons import Reason
from mooring.kit.words import count, some


@dataclass(frozen=True, slots=True)
class MemberReason:
    """Pods of the group that are rejected alike."""

    pods: Sequence[str]
    message: str
    """Why the first of them fits nowhere beside the others."""
    reasons: Sequence[Reason] = ()

    def content(self) -> dict[str, Any]:
        return {
            "pods": list(self.pods),
            "message": self.message,
            "reasons": [reason.content() for reason in self.reasons],
        }


@dataclass(frozen=True, repr=False)
class GroupExplanation(ClusterAnswer):
    """The explanation of one pod group."""

    kind: ClassVar[str] = "PodGroupExplanation"
    group: str
    is_gang: bool
    """Whether its pods go together or not at all."""
    min_count: int
    """How many pods must fit before any of them goes."""
    member_count: int
    """How many of its pods exist."""
    placed: Sequence[tuple[str, str]] = ()
    """(pod, node) of pods that run."""
    nodes: Sequence[tuple[str, str]] = ()
    """(pod, node) of pending pods that there is room for now, beside each other."""
    is_settled: bool = False
    """Whether the group runs, or would go now."""
    message: str = ""
    """Why the group is pending, in the scheduler's words."""
    waits_for: Sequence[str] = ()
    rejected: Sequence[MemberReason] = ()
    """Pods that there is no room for, by reason."""
    victims: Sequence[str] = ()
    """Pods that preemption would evict for the group."""
    placements: int = 1
    """Among how many choices of nodes (racks, zones) the scheduler looked; `nodes` are of the best one."""
    cures: Sequence[Cure] = ()
    gave_up: bool = False
    """Whether the search for cures ended before it had tried everything."""
    asked: str = ""
    """The pod that was asked about, if it was not the group."""

    @property
    def fit_count(self) -> int:
        """How many pods run or have room now."""
        return len(self.placed) + len(self.nodes)

    # ---- as text

    def summary(self) -> list[str]:
        lines = [f"{self.asked} is scheduled with its group {self.group}"] if self.asked else []
        lines += [self._headline()]
        if self.placements > 1:
            lines.append(f"The scheduler tried {self.placements:,} placements; this is the best of them")
        lines += [f"It waits for {text}" for text in self.waits_for]
        if self.victims:
            lines.append(f"Preemption would evict {some(self.victims, 5)} for it")
        if self.gave_up:
            lines.append("The search for cures gave up after a fixed number of decisions; there may be others")
        return lines

    def _headline(self) -> str:
        kind = f"gang of at least {self.min_count}" if self.is_gang else "group"
        if self.is_settled and not self.nodes:
            return f"{self.group} ({kind}) is placed: {count(len(self.placed), 'pod')} on nodes"
        where = spread_of(node for _, node in self.nodes)
        if self.is_settled:
            return f"{self.group} ({kind}) is pending, but would go to {where} now"
        return f"{self.group} ({kind}) is pending: {self._shortage()}"

    def _shortage(self) -> str:
        """How many of how many fit, and what the rest meets."""
        if self.member_count < self.min_count:
            return f"{self.member_count} of {self.min_count} pods exist"
        if not self.rejected:
            return self.message or "the scheduler has not attempted it"
        wanted = self.min_count if self.is_gang else self.member_count
        fit = f"{self.fit_count} of {wanted} pods fit"
        return f"{fit}; {self.rejected[0].message}"

    def tables(self) -> list[AnswerTable]:
        rows = [(len(each.pods), *reason_row(reason)) for each in self.rejected for reason in each.reasons]
        return [
            AnswerTable("Why not", ("pods", "nodes", "plugin", "reason", "details"), rows),
            AnswerTable(
                "What would place the group",
                ("cost", "change", "then its pods go to", "evicts"),
                [(f"{c.cost:.0f}", c.change, c.node, evicts(c)) for c in self.cures],
            ),
            AnswerTable("Room now", ("pod", "node"), self.nodes, is_detail=not self.is_settled),
            AnswerTable("Placed", ("pod", "node"), self.placed, is_detail=True),
        ]

    # ---- as plain data

    def data_tables(self) -> Mapping[str, DataTable]:
        pods = [
            *((pod, "rejected", None, each.message) for each in self.rejected for pod in each.pods),
            *((pod, "room", node, None) for pod, node in self.nodes),
            *((pod, "placed", node, None) for pod, node in self.placed),
        ]
        grouped = [((each.pods[0], len(each.pods)), each.reasons) for each in self.rejected if each.pods]
        return {
            "pods": data_table({"pod": str, "state": str, "node": str, "message": str}, pods),
            "reasons": reason_table(grouped, {"pod": str, "pods": int}),
            "cures": cure_table(self.cures),
        }

    def content(self) -> dict[str, Any]:
        return {
            "podGroup": self.group,
            "gang": self.is_gang,
            "minCount": self.min_count,
            "members": self.member_count,
            "settled": self.is_settled,
            "fits": self.fit_count,
            "placements": self.placements,
            "message": self.message,
            "waitsFor": list(self.waits_for),
            "placed": [{"pod": pod, "node": node} for pod, node in self.placed],
            "room": [{"pod": pod, "node": node} for pod, node in self.nodes],
            "rejected": [each.content() for each in self.rejected],
            "victims": list(self.victims),
            "cures": [cure.content() for cure in self.cures],
            "curesGaveUp": self.gave_up,
        }
