"""The answer: what is different after the changes, pod by pod and in how full the cluster is. A pod group becomes
pending or placed as one, and is one line for all of its pods.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import ClassVar

from msgspec.structs import astuple

from mooring.answers.form.answer import AnswerPlot, AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, data_table, percent_of
from mooring.answers.form.plots import use_plots
from mooring.answers.form.published import Published
from mooring.answers.form.report_parts import BarPlot, Unit
from mooring.answers.form.utilisation import GroupUse, Utilisation
from mooring.answers.simulate.simulation_tables import amount_columns
from mooring.answers.trial.changing_cluster import (
    BlockedPod,
    ChangingCluster,
    ClusterMoment,
    GonePod,
    NamedPod,
    PreemptedPod,
    why_pending,
    without_preemption,
)
from mooring.answers.trial.group_trials import spread_of
from mooring.answers.trial.node_prices import ClusterCost
from mooring.answers.trial.workload_book import WorkloadName
from mooring.answers.what_if.difference_form import (
    ChangedGroupForm,
    CostChangeForm,
    GroupChange,
    GroupUseChangeForm,
    MovedPod,
    PendingPod,
    PlacedPod,
    PreemptedForm,
    UseChangeForm,
    UtilisationForm,
    WhatIfForm,
    WorkloadForm,
)
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.words import count, some
from mooring.model.pod import Pod
from mooring.model.quantity import show_percent
from mooring.sim.gauge import MAIN
from mooring.sim.results import GroupState

_TOLD: Mapping[GroupChange, str] = {
    "pending": "pending now",
    "still pending": "pending as before",
    "placed": "pending before and placed now",
    "new": "new and placed",
}


@dataclass(frozen=True, slots=True)
class ChangedGroup(Published):
    """A group that is pending after the changes, or that was not placed before them."""

    form: ClassVar = ChangedGroupForm
    key: str
    change: GroupChange
    nodes: Mapping[str, str] = field(repr=False)
    """By key of the pod: its node after the changes, empty while it is pending."""
    min_count: int | None = None
    message: str = ""

    def row(self) -> tuple[object, ...]:
        """A line of the table of pods, without the reason."""
        where = spread_of(node for node in self.nodes.values() if node)
        return f"{self.key} (group of {len(self.nodes)})", self.change, "", where

    @property
    def members(self) -> int:
        return len(self.nodes)

    @property
    def on_nodes(self) -> int:
        return sum(bool(node) for node in self.nodes.values())


def changed_groups(before: Mapping[str, GroupState], after: Mapping[str, GroupState]) -> list[ChangedGroup]:
    """The groups that are worth a line."""
    found = []
    for key, state in after.items():
        was = before.get(key)
        change = _change(was, state)
        if change is not None:
            found.append(ChangedGroup(key, change, dict(state.nodes), state.min_count, state.message))
    return found


def _change(was: GroupState | None, now: GroupState) -> GroupChange | None:
    if not now.is_placed:
        return "still pending" if was is not None and not was.is_placed else "pending"
    if was is None:
        return "new"
    return None if was.is_placed else "placed"


def told_changes(groups: Sequence[ChangedGroup]) -> Iterator[str]:
    """`Pod groups: 1 pending now (ml/train).`"""
    counts = Counter(group.change for group in groups)
    parts = [
        f"{counts[change]} {words} ({some([group.key for group in groups if group.change == change])})"
        for change, words in _TOLD.items()
        if counts[change]
    ]
    if parts:
        yield f"Pod groups: {', '.join(parts)}."


def pods_in(groups: Sequence[ChangedGroup]) -> set[str]:
    """The pods that the lines of the groups stand for."""
    return {key for group in groups for key in group.nodes}


# ---- The tables of `to_frame` for a difference: pods, workloads, and how full the cluster is before and after.


PodRow = tuple[str, str, str, str, str]
"""The pod, what happens to it, its node before and after, and why."""
Moments = tuple[GroupUse, GroupUse]
"""Before and after the changes."""


def paired(before: Mapping[str, GroupUse], after: Mapping[str, GroupUse]) -> dict[str, Moments]:
    """By name: both moments of a group; one that is not there at a moment is empty then."""
    return {name: (before.get(name, GroupUse()), after.get(name, GroupUse())) for name in sorted({*before, *after})}


def change_table(changes: Iterable[PodRow]) -> DataTable:
    """A row for each pod that changes."""
    columns: Columns = {"namespace": str, "pod": str, "change": str, "from_node": str, "to_node": str, "reason": str}
    return data_table(columns, ((*pod.split("/"), *rest) for pod, *rest in changes))


def use_change_table(kind: str, groups: Mapping[str, Moments]) -> DataTable:
    """A row for each group, before and after, with the differences; `kind` is empty for the whole cluster."""
    resources = [*dict.fromkeys(name for pair in groups.values() for use in pair for name in use.amounts)]
    columns = dict[str, type]({kind: str} if kind else {})
    for column, value in (("nodes", int), ("pods", int), *amount_columns(resources).items()):
        columns |= {f"{column}_{when}": value for when in ("before", "after", "difference")}
    rows = (
        (*((name,) if kind else ()), *(value for pair in _values(*moments, resources) for value in _compared(*pair)))
        for name, moments in groups.items()
    )
    return data_table(columns, rows)


def _values(before: GroupUse, after: GroupUse, resources: Iterable[str]) -> Iterable[tuple[float | None, float | None]]:
    yield before.nodes, after.nodes
    yield before.pods, after.pods
    for name in resources:
        yield from zip(before.amounts.get(name, (0, 0)), after.amounts.get(name, (0, 0)), strict=True)
        yield percent_of(before.share(name)), percent_of(after.share(name))


def _compared(before: float | None, after: float | None) -> tuple[object, ...]:
    return before, after, None if before is None or after is None else after - before


_POD_HEADS = ("pod", "change", "from", "to", "reason")
ALIKE = 10
"""How many pods of a namespace to which the same happens are listed one by one."""


def grouped(rows: Iterable[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    """The rows of pods; more than ALIKE pods of one namespace with the same change and reason are one row."""
    found: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    for row in rows:
        found.setdefault((str(row[0]).rpartition("/")[0], row[1], row[4]), []).append(row)
    for alike in found.values():
        if len(alike) <= ALIKE:
            yield from alike
        else:
            name, change, _, _, reason = alike[0]
            nodes = ([*dict.fromkeys(str(row[i]) for row in alike if row[i])] for i in (2, 3))
            yield f"{name} and {len(alike) - 1:,} more", change, *(some(each, 2) for each in nodes), reason


_COUNTED = ("moved", "pending", "placed", "preempted", "blocked")


@dataclass(repr=False)
class WhatIf(ClusterAnswer):
    """The difference that changes make to a cluster in which everything pending had been tried before."""

    kind: ClassVar[str] = "WhatIf"
    form: ClassVar = WhatIfForm
    yes_if: ClassVar = "fits"

    changes: list[str]
    moved: list[MovedPod]
    pending: list[PendingPod]
    placed: list[PlacedPod]
    preempted: list[PreemptedPod]
    gone: list[GonePod]
    blocked: list[BlockedPod]
    before: Utilisation
    after: Utilisation
    after_nodes: Mapping[str, str] = field(default_factory=dict)
    """Pod -> its node in the end."""
    workloads: Mapping[WorkloadName, Counter[str]] = field(default_factory=dict)
    """How many pods of each workload are moved, pending, placed, preempted and blocked; by name."""
    notes: list[str] = field(default_factory=list)
    groups: Sequence[ChangedGroup] = ()
    cost: CostChangeForm | None = None

    @property
    def fits(self) -> bool:
        """Whether all pods that were there have a node, except those that a change deletes, and no drain is blocked."""
        return not self.pending and not self.blocked and all(each.is_wanted for each in self.gone)

    # ---- in words

    def summary(self) -> list[str]:
        told = [*self._what_happened(), *told_changes(self.groups), *self._fullness(), *self._costs()]
        return [self._outcome(), *told, *(f"Note: {note}" for note in self.notes)]

    def _outcome(self) -> str:
        if self.fits:
            return "Everything fits."
        unfit = [each for each in self.pending if not each.was_pending]
        old = len(self.pending) - len(unfit)
        parts = (
            [f"{count(len(unfit), 'pod')} become pending" if len(unfit) != 1 else "1 pod becomes pending"]
            if unfit
            else []
        )
        if lost := [each for each in self.gone if not each.is_wanted]:
            parts.append(f"{count(len(lost), 'pod')} without a controller {'is' if len(lost) == 1 else 'are'} lost")
        if self.blocked:
            budgets = sorted({each.budget for each in self.blocked if each.budget})
            by = f" by {some(budgets)}" if budgets else ""
            parts.append(f"the eviction of {count(len(self.blocked), 'pod')} is blocked{by}")
        if old:
            parts.append(
                f"{count(old, 'pod')} {'was' if old == 1 else 'were'} pending before and still {'is' if old == 1 else 'are'}"
            )
        return f"Not everything fits: {', '.join(parts)}."

    def _what_happened(self) -> Iterator[str]:
        new = sum(each.is_new for each in self.placed)
        counted = [
            (len(self.moved), "moved"),
            (len(self.placed) - new, "pending before and placed now"),
            (new, "new and placed"),
            (len(self.preempted), "preempted"),
            (sum(each.is_wanted for each in self.gone), "deleted"),
        ]
        told = [f"{number} {what}" for number, what in counted if number]
        yield f"Pods: {', '.join(told)}." if told else "No pod moves."

    def _fullness(self) -> Iterator[str]:
        """The use of cpu and memory before and after."""
        parts = []
        for name in MAIN:
            before, after = (use.total.share(name) for use in (self.before, self.after))
            if before is not None and after is not None:
                parts.append(f"{name} {show_percent(before)} -> {show_percent(after)}")
        nodes = f"Schedulable nodes: {self.before.total.nodes} -> {self.after.total.nodes}"
        yield f"{nodes}. Requested: {', '.join(parts)}." if parts else f"{nodes}."

    def _costs(self) -> Iterator[str]:
        """The price of the nodes before and after, and of what is idle, if all nodes have a price."""
        if (cost := self.cost) is None:
            return
        amounts = cost.before, cost.after, abs(cost.difference), abs(cost.difference_a_month)
        show = PriceList(unit=cost.price_unit).show
        before, after, hour, month = map(show, amounts)
        if cost.difference:
            more = "more" if cost.difference > 0 else "less"
            prices = f"Nodes cost {before} an hour before and {after} an hour after"
            yield f"{prices}: {hour} {more} an hour, {month} {more} a month (730 hours)."
        else:
            yield f"Nodes cost {before} an hour, before and after."
        yield f"Idle capacity costs {show(cost.idle_before)} an hour before and {show(cost.idle_after)} an hour after."

    # ---- as tables

    def tables(self) -> list[AnswerTable]:
        return [
            AnswerTable("Pods", _POD_HEADS, [*grouped(self._pod_rows())]),
            AnswerTable("Pods, one by one", _POD_HEADS, self._listed_pods(), is_detail=True),
            AnswerTable(
                "Workloads",
                ("workload", *_COUNTED),
                [(name, *(counts[each] or "-" for each in _COUNTED)) for name, counts in self.workloads.items()],
            ),
            self._use_table("Utilisation", {"all": self.before.total}, {"all": self.after.total}),
            self._use_table("Utilisation by zone", self.before.zones, self.after.zones, MAIN),
            self._use_table("Utilisation by pool", self.before.pools, self.after.pools, MAIN),
            AnswerTable(
                "Fullest nodes",
                ("node", "pods", *MAIN),
                [
                    (name, use.pods, *(show_percent(use.share(each)) for each in MAIN))
                    for name, use in self.after.fullest.items()
                ],
                is_detail=True,
            ),
        ]

    def report_tables(self) -> list[AnswerTable]:
        changes = AnswerTable("Changes, in order", ("number", "change"), [*enumerate(self.changes, 1)])
        return [changes, *self.tables()]

    def plots(self) -> list[AnswerPlot]:
        changes = Counter(str(row[1]) for row in self._pod_rows())
        pods = BarPlot("Pods that change", [*changes], {"pods": [float(number) for number in changes.values()]})
        moments = {"before": self.before, "after": self.after}
        totals = {moment: [use.total.share(name) for name in MAIN] for moment, use in moments.items()}
        return [
            *([pods] if changes else ()),
            BarPlot("Requested share of schedulable nodes", MAIN, totals, Unit.SHARE),
            *use_plots("zone", {moment: use.zones for moment, use in moments.items()}),
            *use_plots("pool", {moment: use.pools for moment, use in moments.items()}),
        ]

    def _pod_rows(self) -> Iterator[tuple[object, ...]]:
        """The rows of pods, those that need attention first. A line of a group stands for its pods."""
        yield from ((*group.row(), without_preemption(group.message)) for group in self.groups)
        yield from self.pod_changes(pods_in(self.groups))

    def _listed_pods(self) -> list[tuple[object, ...]]:
        """The rows of all pods, if the first table groups some."""
        rows = [*self._pod_rows()]
        return rows if len(rows) > sum(1 for _ in grouped(rows)) else []

    def pod_changes(self, in_groups: Set[str] = frozenset()) -> Iterator[PodRow]:
        """A line for each pod that changes, but not for those of `in_groups` that become pending or placed with theirs."""
        alone = [each for each in self.pending if each.key not in in_groups]
        for pending in sorted(alone, key=lambda each: (each.was_pending, each.key)):
            change = "still pending" if pending.was_pending else "pending"
            yield pending.key, change, pending.node, "", without_preemption(pending.message)
        for blocked in self.blocked:
            yield blocked.key, "blocked", blocked.node, blocked.node, f"{blocked.budget}: {blocked.message}"
        for gone in sorted(self.gone, key=lambda each: each.is_wanted):
            yield gone.key, "deleted" if gone.is_wanted else "lost", gone.node, "", gone.reason
        for preempted in self.preempted:
            now = self.after_nodes.get(preempted.key, "")
            yield preempted.key, "preempted", preempted.node, now, f"by {preempted.preemptor}"
        for placed in (each for each in self.placed if each.key not in in_groups):
            yield placed.key, "new" if placed.is_new else "placed", "", placed.node, ""
        for moved in self.moved:
            yield moved.key, "moved", moved.node, moved.new_node, ""

    def _use_table(
        self, title: str, before: Mapping[str, GroupUse], after: Mapping[str, GroupUse], only: Sequence[str] = ()
    ) -> AnswerTable:
        """The use of groups, by resource: a row for each of them."""
        rows: list[tuple[object, ...]] = []
        for name, (old, new) in paired(before, after).items():
            for resource in dict.fromkeys((*old.amounts, *new.amounts)):
                if not only or resource in only:
                    shares = (show_percent(use.share(resource)) for use in (old, new))
                    rows.append((name, f"{old.nodes} -> {new.nodes}", resource, *shares))
        return AnswerTable(title, ("group", "nodes", "resource", "before", "after"), rows)

    # ---- as data

    def data_tables(self) -> Mapping[str, DataTable]:
        totals = {"": (self.before.total, self.after.total)}
        workloads: Columns = {"kind": str, "namespace": str, "name": str, **dict.fromkeys(_COUNTED, int)}
        return {
            "pods": change_table(self.pod_changes()),
            "workloads": data_table(workloads, map(astuple, self.concerned)),
            "total": use_change_table("", totals),
            "zones": use_change_table("zone", paired(self.before.zones, self.after.zones)),
            "pools": use_change_table("pool", paired(self.before.pools, self.after.pools)),
        }

    @property
    def evictions(self) -> list[PreemptedForm]:
        """The preemptions with the nodes of the pods in the end."""
        return [
            PreemptedForm.of(each.key, each.node, NamedPod.of(each.preemptor), self.after_nodes.get(each.key, ""))
            for each in self.preempted
        ]

    @property
    def concerned(self) -> list[WorkloadForm]:
        """The workloads with the number of their pods in each list."""
        return [
            WorkloadForm(workload.kind, namespace, name, *(counts[each] for each in _COUNTED))
            for workload, counts in self.workloads.items()
            for namespace, _, name in [workload.key.partition("/")]
        ]

    @property
    def utilisation(self) -> UtilisationForm:
        """The use of the cluster and of its zones and pools before and after."""
        total = UseChangeForm(self.before.total.published(), self.after.total.published())
        return UtilisationForm(
            total, _groups(self.before.zones, self.after.zones), _groups(self.before.pools, self.after.pools)
        )


def difference(changes: Sequence[str], before: ClusterMoment, cluster: ChangingCluster, after: ClusterMoment) -> WhatIf:
    """The difference between two moments of a cluster."""
    was, now = before.nodes, after.nodes
    moved = [
        MovedPod.of(key, was[key], node) for key, node in now.items() if node and was.get(key) and was[key] != node
    ]
    pending = [
        PendingPod.of(key, was.get(key, ""), why_pending(cluster, key), was.get(key) == "", key not in was)
        for key, node in now.items()
        if not node
    ]
    placed = [PlacedPod.of(key, node, key not in was) for key, node in now.items() if node and not was.get(key)]
    gone = [each for key, each in cluster.gone.items() if key not in now]
    blocked = [each for key, each in cluster.blocked.items() if now.get(key) == each.node]
    return WhatIf(
        list(changes),
        sorted(moved, key=lambda each: each.key),
        sorted(pending, key=lambda each: each.key),
        sorted(placed, key=lambda each: each.key),
        cluster.preempted,
        sorted(gone, key=lambda each: each.key),
        sorted(blocked, key=lambda each: each.key),
        before.utilisation,
        after.utilisation,
        now,
        _by_workload(
            cluster, moved=moved, pending=pending, placed=placed, preempted=cluster.preempted, blocked=blocked
        ),
        [*cluster.notes],
        changed_groups(before.groups, after.groups),
        _cost_change(before.cost, after.cost, cluster.prices.unit),
    )


HOURS_A_MONTH = 730
"""As price lists of clouds count: a twelfth of 365 days."""


def _cost_change(before: ClusterCost | None, after: ClusterCost | None, unit: str) -> CostChangeForm | None:
    if before is None or after is None:
        return None
    more = round(after.total - before.total, 9)
    return CostChangeForm(before.total, after.total, more, more * HOURS_A_MONTH, before.idle, after.idle, unit)


def _by_workload(cluster: ChangingCluster, **entries: Sequence[NamedPod]) -> dict[WorkloadName, Counter[str]]:
    """How many pods of each workload are in each list. A pod without a controller is in none."""
    found: dict[WorkloadName, Counter[str]] = {}
    for change, listed in entries.items():
        for each in listed:
            pod = cluster.find("Pod", each.key)
            owner = cluster.book.owner(pod) if isinstance(pod, Pod) else None
            if owner is not None:
                found.setdefault(owner, Counter())[change] += 1
    return dict(sorted(found.items()))


def _groups(before: Mapping[str, GroupUse], after: Mapping[str, GroupUse]) -> list[GroupUseChangeForm]:
    pairs = paired(before, after).items()
    return [GroupUseChangeForm(name, old.published(), new.published()) for name, (old, new) in pairs]
