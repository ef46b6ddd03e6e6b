"""The answers to "why is this pod, workload or pod group where it is, or why is it nowhere?"."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from mooring.answers.explain.controller_notes import NOTE_HEADS, ControllerNote, note_rows
from mooring.answers.explain.cure import Cure
from mooring.answers.explain.explanation_form import (
    GroupExplanationForm,
    PastEvent,
    PodExplanationForm,
    PodPlace,
    ScoredNode,
    Tipping,
    WorkloadExplanationForm,
)
from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, Row, data_table
from mooring.answers.trial.group_trials import spread_of
from mooring.answers.trial.reasons import Reason
from mooring.kit.words import count, some
from mooring.scheduler.decision import DecisionDetails

# ---- The tables of `to_frame` for explanations: why nodes reject a pod, what would place it, and the scores of
# nodes.


SCORED = 5
"""How many nodes are shown with their scores, the chosen ones among them."""


def best_scores(details: DecisionDetails, *chosen: str) -> list[ScoredNode]:
    """The chosen nodes that take the pod, in this order, and the best others; ties by name."""
    totals = details.totals
    ranked = sorted(totals, key=lambda node: (*(node != each for each in chosen), -totals[node], node))
    return [ScoredNode(node, totals[node], details.scores[node]) for node in ranked[:SCORED]]


def weighted(plugins: Iterable[str], weights: Mapping[str, int]) -> tuple[str, ...]:
    """The heads of columns of scores: `NodeResourcesFit*1`."""
    return tuple(f"{plugin}*{weights.get(plugin, 1)}" for plugin in plugins)


def reason_table(grouped: Iterable[tuple[Row, Sequence[Reason]]], whose: Columns | None = None) -> DataTable:
    """A row for each reason, and for each resource that is missing; `whose` are columns of the pods that a reason is about.
    Amounts are in the units of the resource: cpu in milli, memory in bytes."""
    columns: Columns = {
        **(whose or {}),
        "plugin": str,
        "message": str,
        "nodes": int,
        "eviction_can_help": bool,
        "details": str,
        "resource": str,
        "wants": int,
        "largest_free": int,
        "node": str,
    }
    return data_table(columns, (row for own, reasons in grouped for reason in reasons for row in _rows(own, reason)))


def _rows(own: Row, reason: Reason) -> Iterable[Row]:
    told = (*own, reason.plugin, reason.message, reason.count, reason.can_evict, "; ".join(reason.details))
    for each in reason.amounts:
        yield *told, each.resource, each.wants, each.largest_free, each.node
    if not reason.amounts:
        yield *told, None, None, None, None


def cure_table(cures: Iterable[Cure]) -> DataTable:
    """A row for each change that places the pod or the group."""
    columns: Columns = {"cost": float, "kind": str, "change": str, "node": str, "victims": int, "broken_budgets": int}
    rows = ((c.cost, c.kind, c.change, c.node, len(c.victims), c.broken_budgets) for c in cures)
    return data_table(columns, rows)


def score_table(scores: Sequence[ScoredNode]) -> DataTable:
    """A row for each node that is shown, with the scores of plugins after weights."""
    plugins = [*dict.fromkeys(plugin for each in scores for plugin in each.by_plugin)]
    rows = ((each.name, each.total, *(each.by_plugin.get(plugin, 0) for plugin in plugins)) for each in scores)
    return data_table({"node": str, "total": int, **dict.fromkeys(plugins, int)}, rows)


def tipped(first: ScoredNode, second: ScoredNode) -> list[Tipping]:
    """By plugin how much more the first node has, the largest difference first."""
    own, other = first.by_plugin, second.by_plugin
    differences = [Tipping(plugin, own.get(plugin, 0) - other.get(plugin, 0)) for plugin in {**own, **other}]
    return sorted(differences, key=lambda each: (-abs(each.difference), each.plugin))


def told_tipped(found: Iterable[Tipping]) -> str:
    """`NodeResourcesFit +12, ImageLocality -3`, without plugins that make no difference."""
    return ", ".join(f"{plugin} {difference:+d}" for plugin, difference in found if difference)


@dataclass(frozen=True, repr=False)
class PodExplanation(ClusterAnswer):
    """The explanation of one pod; `others` are pods that are pending for the same reason."""

    kind: ClassVar[str] = "Explanation"
    form: ClassVar = PodExplanationForm
    yes_if: ClassVar = "is_settled"
    pod: str
    node: str = ""
    is_placed: bool = False
    is_reserved: bool = False
    would_go_to: str = ""
    message: str = ""
    node_count: int = 0
    feasible_count: int = 0
    reasons: Sequence[Reason] = ()
    scores: Sequence[ScoredNode] = ()
    tipped: Sequence[Tipping] = ()
    waits_for: Sequence[str] = ()
    history: Sequence[PastEvent] = ()
    victims: Sequence[str] = ()
    cures: Sequence[Cure] = ()
    gave_up: bool = False
    others: Sequence[str] = ()
    weights: dict[str, int] = field(default_factory=dict)
    tied: Sequence[str] = ()
    notes: Sequence[str] = ()
    """Sentences about what else keeps it pending."""
    ties: str = ""
    """How one of several nodes with the highest score is chosen."""

    @property
    def is_settled(self) -> bool:
        """Whether the pod has a node, or would get one."""
        return bool(self.node)

    # ---- as text

    def summary(self) -> list[str]:
        lines = [self._headline(), *self._score_lines(), *self.notes]
        return lines + _outlook(self.waits_for, ", ".join(self.victims[:5]), self.gave_up)

    def _headline(self) -> str:
        if self.is_reserved:
            return f"{self.pod} is pending: it has room on {self.node}"
        if self.is_placed:
            if not self.would_go_to:
                return f"{self.pod} is on {self.node}, and would get no node now: {self.message}"
            now = (
                "and would go there again"
                if self.would_go_to == self.node
                else f"and would now go to {self.would_go_to}"
            )
            return f"{self.pod} is on {self.node}, {now}: {self.among()}"
        if self.node:
            return f"{self.pod} is pending, but would go to {self.node} now: {self.among()}"
        return f"{self.pod} is pending{self._and_others()}: {self.message}"

    def among(self) -> str:
        if self.feasible_count == 1:
            return "the only node that takes it"
        best = f"one of the {len(self.tied) + 1:,} best" if self.tied else "the best"
        return f"{best} of {self.feasible_count:,} nodes that take it, of {self.node_count:,}"

    def _and_others(self) -> str:
        return f", as are {len(self.others):,} others for the same reason" if self.others else ""

    def _score_lines(self) -> list[str]:
        if len(self.scores) < 2:
            return []
        first, second = self.scores[:2]
        ahead = first.total - second.total
        if self.tied:
            return [f"It is tied with {some(self.tied, 3)}: the same score, {first.total}; {self.ties}"]
        told = f"({first.total} to {second.total}): {told_tipped(self.tipped[:4])}"
        return [f"It is {ahead} ahead of {second.name} {told}"]

    def tables(self) -> list[AnswerTable]:
        return [
            AnswerTable("Why not", ("nodes", "plugin", "reason", "details"), [reason_row(r) for r in self.reasons]),
            _cures("What would place it", "then it goes to", self.cures),
            AnswerTable("Scores (after weights)", *self._score_table()),
            AnswerTable("History", ("at", "what"), [(event.at or "-", event.text) for event in self.history]),
        ]

    def _score_table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        plugins = list(self.scores[0].by_plugin) if self.scores else []
        heads = ("node", "total", *weighted(plugins, self.weights))
        return heads, [(s.name, s.total, *(s.by_plugin.get(plugin, 0) for plugin in plugins)) for s in self.scores]

    # ---- as plain data

    def data_tables(self) -> Mapping[str, DataTable]:
        why = {"reasons": reason_table([((), self.reasons)]), "cures": cure_table(self.cures)}
        scores = {"scores": score_table(self.scores)}
        return {**scores, **why} if self.node else {**why, **scores}


def _outlook(waits_for: Iterable[str], victims: str, gave_up: bool) -> list[str]:
    """The last lines of a summary; `victims` are the pods that preemption would evict."""
    lines = [f"It waits for {text}" for text in waits_for]
    if victims:
        lines.append(f"Preemption would evict {victims} for it")
    if gave_up:
        lines.append("The search for cures gave up after a fixed number of decisions; there may be others")
    return lines


def _places(title: str, places: Iterable[PodPlace], is_detail: bool = True) -> AnswerTable:
    return AnswerTable(title, ("pod", "node"), [*map(tuple, places)], is_detail)


def reason_row(reason: Reason) -> tuple[object, ...]:
    """Nodes, plugin, words and details of a reason, for a table."""
    amounts = [f"{amount.resource}: {amount.text}" for amount in reason.amounts]
    details = "; ".join([*amounts, *reason.details]) or f"such as {', '.join(reason.nodes)}"
    return f"{reason.count:,}", reason.plugin, reason.message, details


def _cures(title: str, where: str, cures: Iterable[Cure]) -> AnswerTable:
    rows = [(f"{each.cost:.0f}", each.change, each.node, evicts(each)) for each in cures]
    return AnswerTable(title, ("cost", "change", where, "evicts"), rows)


def evicts(cure: Cure) -> str:
    """Whom a cure evicts, for a table."""
    broken = f" ({cure.broken_budgets} against a disruption budget)" if cure.broken_budgets else ""
    if not cure.victims:
        return f"moves{broken}" if broken else "-"
    more = f" and {len(cure.victims) - 3} more" if len(cure.victims) > 3 else ""
    return f"{', '.join(cure.victims[:3])}{more}{broken}"


@dataclass(frozen=True, repr=False)
class WorkloadExplanation(ClusterAnswer):
    """The pods of a workload: where they are, and why those without a node have none."""

    kind: ClassVar[str] = "WorkloadExplanation"
    form: ClassVar = WorkloadExplanationForm
    yes_if: ClassVar = "is_settled"
    workload: str
    placed: Sequence[PodPlace] = ()
    pending: Sequence[PodExplanation] = ()
    wanted: int | None = None
    said: Sequence[ControllerNote] = ()
    notes: Sequence[str] = ()
    is_short: bool = False
    """Whether its controller has not created all of its pods."""

    @property
    def is_settled(self) -> bool:
        """Whether no pod is pending, and none is missing."""
        return not self.pending and not self.is_short

    def summary(self) -> list[str]:
        waiting = sum(1 + len(each.others) for each in self.pending)
        lines = [f"{self.workload}: {count(len(self.placed), 'pod')} on nodes, {waiting:,} pending", *self.notes]
        return lines + [line for each in self.pending for line in each.summary()]

    def tables(self) -> list[AnswerTable]:
        found = [table for each in self.pending for table in each.tables()]
        said = AnswerTable("What its controller says", NOTE_HEADS, note_rows(self.said))
        return [said, *found, _places("Placed", self.placed)]

    def data_tables(self) -> Mapping[str, DataTable]:
        pending = ((pod, None, each.message) for each in self.pending for pod in (each.pod, *each.others))
        placed = ((pod, node, None) for pod, node in self.placed)
        grouped = [((each.pod, 1 + len(each.others)), each.reasons) for each in self.pending]
        return {
            "pods": data_table({"pod": str, "node": str, "message": str}, [*pending, *placed]),
            "reasons": reason_table(grouped, {"pod": str, "pods": int}),
        }


# ---- The answer to "why is this pod group pending, and what would place it?".


@dataclass(frozen=True, slots=True)
class MemberReason:
    """Pods of the group that are rejected alike."""

    pods: Sequence[str]
    message: str
    reasons: Sequence[Reason] = ()


@dataclass(frozen=True, repr=False)
class GroupExplanation(ClusterAnswer):
    """The explanation of one pod group."""

    kind: ClassVar[str] = "PodGroupExplanation"
    form: ClassVar = GroupExplanationForm
    yes_if: ClassVar = "is_settled"
    group: str
    is_gang: bool
    min_count: int
    member_count: int
    placed: Sequence[PodPlace] = ()
    nodes: Sequence[PodPlace] = ()
    is_settled: bool = False
    message: str = ""
    waits_for: Sequence[str] = ()
    rejected: Sequence[MemberReason] = ()
    victims: Sequence[str] = ()
    placements: int = 1
    cures: Sequence[Cure] = ()
    gave_up: bool = False
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
        return lines + _outlook(self.waits_for, some(self.victims, 5), self.gave_up)

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
            _cures("What would place the group", "then its pods go to", self.cures),
            _places("Room now", self.nodes, is_detail=not self.is_settled),
            _places("Placed", self.placed),
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
