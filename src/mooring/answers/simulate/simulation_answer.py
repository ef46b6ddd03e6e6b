"""The answer of a simulation of one moment: where the pending pods go, how full the cluster gets, and what limits it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar

from msgspec import UNSET, convert

from mooring.answers.explain.explanation import GroupExplanation, PodExplanation, weighted
from mooring.answers.form.answer import AnswerPlot, AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import DataTable
from mooring.answers.form.plots import use_plots
from mooring.answers.form.report_parts import BarPlot, waits_plot
from mooring.answers.form.utilisation import FULLEST, GroupUse, Utilisation
from mooring.answers.simulate.simulation_form import (
    PodLimitForm,
    SimulatedUseForm,
    SimulationForm,
    SummaryForm,
    eviction_forms,
    explained_form,
    group_form,
    node_form,
    pod_form,
    story_forms,
)
from mooring.answers.simulate.simulation_tables import eviction_table, limit_table, node_table, pod_table, use_table
from mooring.answers.simulate.simulation_tables import group_table as group_data_table
from mooring.kit.words import count, some
from mooring.model.quantity import show_amount, show_percent
from mooring.scheduler.ties import is_tied
from mooring.sim.gauge import MAIN
from mooring.sim.results import (
    Explanation,
    FailureReason,
    Fate,
    GroupState,
    GroupWait,
    NodeUse,
    PodResult,
    Report,
    SimulatedEviction,
    Story,
    show_seconds,
    show_time,
)

# ---- Pod groups in the answers of simulations: each is placed or pending as one.


def told_groups(groups: Sequence[GroupState]) -> list[str]:
    """`2 of 3 pod groups placed, after 1ms to 3.2s.` Nothing without groups."""
    return _told(len(groups), [group.waited_s for group in groups if group.is_placed])


def told_group_waits(groups: Sequence[GroupWait]) -> list[str]:
    """`2 of 3 pod groups placed, after 1ms to 3.2s.`, for the groups of a day."""
    return _told(len(groups), [group.waited_s for group in groups if group.waited_s is not None])


def _told(groups: int, placed_s: Sequence[float | None]) -> list[str]:
    """The waiting times of the groups that were placed; None for one that ran before."""
    if not groups:
        return []
    waits = sorted(waited_s for waited_s in placed_s if waited_s is not None)
    when = f", after {_span(waits)}" if waits else ""
    return [f"{len(placed_s)} of {count(groups, 'pod group')} placed{when}."]


def group_wait_table(groups: Iterable[GroupWait]) -> AnswerTable:
    """A row for each group of a day, those that waited longest first."""
    ordered = sorted(groups, key=lambda group: (group.waited_s is not None, -(group.waited_s or 0), group.key))
    rows = [(group.key, group.members, show_seconds(group.waited_s)) for group in ordered]
    return AnswerTable("Pod groups", ("group", "pods", "waited"), rows, is_detail=True)


def _span(waits_s: Sequence[float]) -> str:
    low, high = show_seconds(waits_s[0]), show_seconds(waits_s[-1])
    return low if low == high else f"{low} to {high}"


def group_table(groups: Iterable[GroupState]) -> AnswerTable:
    """A row for each group, those that are pending first."""
    ordered = sorted(groups, key=lambda group: (group.is_placed, group.key))
    rows = [
        (
            group.key,
            "placed" if group.is_placed else "pending",
            f"{group.placed_count}/{len(group.nodes)}",
            "-" if group.min_count is None else group.min_count,
            show_seconds(group.waited_s),
            group.message or "-",
        )
        for group in ordered
    ]
    return AnswerTable("Pod groups", ("group", "result", "pods on nodes", "minimum", "waited", "reason"), rows)


def without_groups(results: Iterable[PodResult], groups: Iterable[GroupState]) -> list[PodResult]:
    """The results without the pods of pending groups: the table of groups has one line for all of them."""
    pending = {key for group in groups if not group.is_placed for key in group.nodes}
    return [result for result in results if result.pod.key not in pending]


def group_counts(groups: Sequence[GroupState]) -> Mapping[str, int]:
    """Fields of the summary; none without groups."""
    if not groups:
        return {}
    placed = sum(group.is_placed for group in groups)
    return {"groups": len(groups), "groupsPlaced": placed, "groupsPending": len(groups) - placed}


POD_NAMES = 5
"""How many pods with the same reason are named."""
LIMITS = 3
"""How many reasons the summary names."""


@dataclass(repr=False)
class SimulationAnswer(ClusterAnswer, Report):
    """The report of a simulation, with what a reader wants to see first."""

    kind: ClassVar[str] = "Simulation"
    form: ClassVar = SimulationForm

    utilisation: Utilisation = field(default_factory=lambda: Utilisation(GroupUse(), {}, {}, {}))
    """In the end."""
    zones: Mapping[str, str] = field(default_factory=dict)
    """By name of a node: its zone, if it has one."""
    answers: Mapping[str, PodExplanation | GroupExplanation] = field(default_factory=dict)
    """For explained pods that have no node in the end, by key: the answer of `mooring explain`, which is that of the group
    for a pod that is scheduled with its group."""

    # ---- text

    def summary(self) -> list[str]:
        told = told_groups(self.groups)
        return [self.outcome(), *told, *told_use(self.utilisation.total), *told_limits(self.limits, "pod")]

    def outcome(self) -> str:
        """The counts in one line."""
        nodes = count(len(self.nodes), "node")
        if not self.pods:
            return f"no pending pods, {nodes}"
        counts = self.counts
        placed = f"{counts.placed} of {count(counts.pods, 'pending pod')} placed"
        return f"{placed}, {counts.preempted} preempted, {nodes}" if counts.preempted else f"{placed}, {nodes}"

    def tables(self) -> list[AnswerTable]:
        is_small = len(self.nodes) <= FULLEST
        fullest = [] if is_small else self._fullest()
        alone = without_groups(self.pending, self.groups)
        return [
            _group_table("By zone", "zone", self.utilisation.zones),
            _group_table("By pool", "pool", self.utilisation.pools),
            limits_table(self.limits, "pods"),
            _node_table("Fullest nodes (requested/allocatable)", fullest),
            _node_table("Nodes (requested/allocatable)", self.nodes, is_detail=not is_small),
            group_table(self.groups),
            AnswerTable("Pending", ("pods", "which", "result", "reason"), _by_reason(alone)),
            preempted_table(self.preempted),
            _placed_table(self.placed),
            AnswerTable(
                "Pending pods",
                ("namespace", "pod", "result", "attempts", "nominated to", "reason"),
                [_pending_row(result) for result in self.pending],
                is_detail=True,
            ),
            *(table for each in self.explanations for table in explanation_tables(each, f"{each.pod.key}: ")),
        ]

    def report_tables(self) -> list[AnswerTable]:
        explained = [
            replace(table, title=f"{key}: {table.title}")
            for key, answer in self.answers.items()
            for table in answer.tables()
        ]
        return [*story_tables(self.story), *explained, *self.tables()]

    def plots(self) -> list[AnswerPlot]:
        waited_s = [each.waited_s for each in self.pods if each.waited_s is not None]
        placed = Counter(zone for each in self.placed if (zone := self.zones.get(each.node)))
        return [
            *_counts_plot("Pods placed by zone", "placed", dict(sorted(placed.items()))),
            *use_plots("zone", {"now": self.utilisation.zones}),
            *use_plots("pool", {"now": self.utilisation.pools}),
            *limits_plot("Pending pods by what limits them", self.limits, "pods"),
            *([waits_plot("Time until pods were bound", waited_s)] if waited_s else ()),
        ]

    def _fullest(self) -> list[NodeUse]:
        by_name = {node.name: node for node in self.nodes}
        return [by_name[name] for name in self.utilisation.fullest if name in by_name]

    # ---- data

    def data_tables(self) -> Mapping[str, DataTable]:
        return {
            "pods": pod_table(self.pods),
            "nodes": node_table(self.nodes, self.zones),
            "zones": use_table("zone", self.utilisation.zones),
            "pools": use_table("pool", self.utilisation.pools),
            "limits": limit_table(self.limits, "pods"),
            "preempted": eviction_table(self.preempted),
            "groups": group_data_table(self.groups),
        }

    def published(self) -> SimulationForm:
        use, answers = self.utilisation, {key: answer.to_dict() for key, answer in self.answers.items()}
        explanations = [explained_form(each, answers.get(each.pod.key, UNSET)) for each in self.explanations]
        zones, pools = (
            [group.named(name) for name, group in sorted(groups.items())] for groups in (use.zones, use.pools)
        )
        fullest = [group.named(name) for name, group in use.fullest.items()]
        return SimulationForm(
            convert({**asdict(self.counts), **group_counts(self.groups)}, SummaryForm),
            SimulatedUseForm(use.total.published(), zones, pools, fullest),
            convert(self.limits, list[PodLimitForm], from_attributes=True),
            [pod_form(result) for result in self.pods],
            [node_form(node) for node in self.nodes],
            eviction_forms(self.preempted),
            self.simulated_s,
            self.notes,
            [group_form(group) for group in self.groups],
            explanations,
            explanations[0] if explanations else UNSET,
            story_forms(self.story),
        )


# ---- sentences


def told_use(total: GroupUse) -> list[str]:
    """How full the cluster is."""
    shares = [f"{name} {show_percent(share)}" for name in MAIN if (share := total.share(name)) is not None]
    return [f"Requested: {', '.join(shares)}."] if shares else []


def told_limits(limits: Sequence[FailureReason], counted: str) -> list[str]:
    """The most frequent reasons; `counted` is a pod or an attempt."""
    told = [
        f"{each.message} ({count(each.times, counted)}, up to {count(each.nodes, 'node')})" for each in limits[:LIMITS]
    ]
    more = f"; {len(limits) - LIMITS} more: -o wide shows all" if len(limits) > LIMITS else ""
    return [f"What limits: {'; '.join(told)}{more}."] if told else []


# ---- tables


def limits_table(limits: Iterable[FailureReason], counted: str) -> AnswerTable:
    """All reasons; the summary has the most frequent."""
    rows = [(each.message, each.plugin, each.times, each.nodes) for each in limits]
    return AnswerTable("What limits", ("reason", "plugin", counted, "nodes"), rows, is_detail=True)


def preempted_table(evictions: Iterable[SimulatedEviction], is_detail: bool = False) -> AnswerTable:
    """The preempted pods, and those that controllers created instead."""
    heads = ("namespace", "pod", "node", "for", "replaced by")
    return AnswerTable("Preempted", heads, [_eviction_row(each) for each in evictions], is_detail)


def _eviction_row(eviction: SimulatedEviction) -> tuple[str, ...]:
    pod = eviction.pod
    heir = eviction.replaced_by.removeprefix(f"{pod.namespace}/")
    return pod.namespace, pod.name, eviction.node, eviction.preemptor, heir or "-"


def _group_table(title: str, kind: str, groups: Mapping[str, GroupUse]) -> AnswerTable:
    rows = [(name, use.nodes, use.pods, *map(use.told_share, MAIN)) for name, use in sorted(groups.items())]
    return AnswerTable(title, (kind, "nodes", "pods", *MAIN), rows)


def _by_reason(results: Iterable[PodResult]) -> list[tuple[object, ...]]:
    """The pending pods by reason: a Deployment that does not fit would fill the screen with the same line."""
    grouped: dict[tuple[Fate, str, str], list[str]] = {}
    for result in results:
        grouped.setdefault((result.fate, result.message, _promise(result)), []).append(result.pod.key)
    return [
        (len(pods), f"{some(pods, POD_NAMES)}{promise}", fate.value, message)
        for (fate, message, promise), pods in grouped.items()
    ]


def _promise(result: PodResult) -> str:
    """The nominated node of a pod; the message of a pod that waits for Permit names its node already."""
    return f" (nominated to {result.nominated})" if result.nominated and result.fate is not Fate.WAITING else ""


def _pending_row(result: PodResult) -> tuple[object, ...]:
    pod = result.pod
    return pod.namespace, pod.name, result.fate.value, result.attempts, result.nominated or "-", result.message


def _placed_table(results: Sequence[PodResult]) -> AnswerTable:
    details = ("priority", "scheduler", "feasible", "score", "next best")
    rows = [(each.pod.namespace, each.pod.name, each.node, *_margin(each)) for each in results]
    return AnswerTable("Placed", ("namespace", "pod", "node", *details), rows, detail_columns=len(details))


def _margin(result: PodResult) -> tuple[object, ...]:
    totals = dict(result.best)
    others = ", ".join(
        f"{node} ({score}{', tied' if is_tied(totals, result.node, node) else ''})"
        for node, score in result.best
        if node != result.node
    )
    score = result.score if result.feasible_count > 1 else "-"
    return result.pod.priority, result.pod.spec.scheduler_name, result.feasible_count, score, others or "-"


def _node_table(title: str, nodes: Sequence[NodeUse], *, is_detail: bool = False) -> AnswerTable:
    """A row for each node. Extended resources are always shown, others on request."""
    had = {name for node in nodes for name, (_, room) in node.amounts.items() if room}.difference(MAIN)
    extra, plain = sorted(name for name in had if "/" in name), sorted(name for name in had if "/" not in name)
    shown = (*MAIN, *extra, *plain)
    rows = [
        (node.name, f"{node.pods}/{node.allowed_pods}", node.new_pods, *(_amount(node, name) for name in shown))
        for node in nodes
    ]
    return AnswerTable(title, ("node", "pods", "new", *shown), rows, is_detail, detail_columns=len(plain))


def _amount(node: NodeUse, resource: str) -> str:
    """Requested and allocatable amount with the share, in units that people read."""
    used, room = node.amounts.get(resource, (0, 0))
    if not room and not used:
        return "-"
    share = show_percent(used / room if room else None, decimals=0)
    return f"{show_amount(resource, used)}/{show_amount(resource, room)} {share}"


def explanation_tables(explanation: Explanation, title: str = "") -> list[AnswerTable]:
    """The scores of the feasible nodes and the reasons of the others, node by node; `title` comes before theirs."""
    details = getattr(explanation.decision, "details", None)
    if details is None:
        return []
    plugins = list(next(iter(details.scores.values()), {}))
    ranked = sorted(details.totals, key=lambda node: (-details.totals[node], node)) if details.scores else []
    scores = [(node, details.totals[node], *(details.scores[node][plugin] for plugin in plugins)) for node in ranked]
    heads = ("node", "total", *weighted(plugins, explanation.weights))
    rejected = [(node, r.plugin, r.code.name, r.message) for node, r in sorted(details.rejected.items())]
    return [
        AnswerTable(f"{title}Scores (after weights)", heads, scores),
        AnswerTable(f"{title}Rejected", ("node", "plugin", "verdict", "reason"), rejected),
    ]


def _counts_plot(title: str, counted: str, counts: Mapping[str, int]) -> list[AnswerPlot]:
    bars = {counted: [float(number) for number in counts.values()]}
    return [BarPlot(title, [*counts], bars)] if counts else []


def limits_plot(title: str, limits: Iterable[FailureReason], counted: str) -> list[AnswerPlot]:
    """How often nodes rejected pods for each reason: a pod, or an attempt, may have several."""
    return _counts_plot(title, counted, {f"{each.message} ({each.plugin})": each.times for each in limits})


def story_tables(story: Story | None) -> list[AnswerTable]:
    """The story of a pod as a table, if it was asked for."""
    if story is None:
        return []
    rows = [(show_time(each.at_ns), each.attempt or "", each.cycle or "", each.text) for each in story.moments]
    left_out = f", without {story.left_out} earlier moments" if story.left_out else ""
    return [AnswerTable(f"The story of {story.pod}{left_out}", ("time", "attempt", "cycle", "what happened"), rows)]
