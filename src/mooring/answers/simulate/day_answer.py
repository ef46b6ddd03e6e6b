"""The answer of a simulated day: waiting times, utilisation over time as small charts, and what limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from msgspec import convert

from mooring.answers.form.answer import AnswerPlot, AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import DataTable, data_table
from mooring.answers.form.report_parts import BarPlot, CurvePlot, Unit, waits_plot
from mooring.answers.simulate.simulation_answer import (
    group_wait_table,
    limits_plot,
    limits_table,
    preempted_table,
    story_tables,
    told_group_waits,
    told_limits,
)
from mooring.answers.simulate.simulation_form import (
    QUANTILES,
    AttemptLimitForm,
    DayForm,
    GroupWaitForm,
    MeanUseForm,
    PlacedOnForm,
    SpanForm,
    eviction_forms,
    story_forms,
    waits_form,
)
from mooring.answers.simulate.simulation_tables import (
    MeanUses,
    eviction_table,
    limit_table,
    mean_table,
    placement_table,
    span_table,
    wait_table,
)
from mooring.answers.simulate.simulation_tables import group_wait_table as group_wait_data_table
from mooring.kit.words import count
from mooring.model.quantity import show_bytes, show_percent
from mooring.sim.day import DayReport, Waits
from mooring.sim.gauge import MAIN
from mooring.sim.results import show_seconds, show_time

WAITS = "Time from arrival to binding"
BARS = " ▁▂▃▄▅▆▇█"
"""Characters for 0 to 100 %."""


@dataclass(repr=False)
class DayAnswer(ClusterAnswer, DayReport):
    """The report of a day, with what a reader wants to see first."""

    kind: ClassVar[str] = "SimulatedDay"
    form: ClassVar = DayForm

    mean_uses: MeanUses = field(default_factory=lambda: MeanUses({}, {}, {}), compare=False)
    took_s: float = field(default=0.0, compare=False)
    """How long the simulation took, in seconds of the machine's clock."""
    is_generated: bool = False
    """Whether the pods were generated: then the time that each part of the work took is shown as well."""

    # ---- text

    def summary(self) -> list[str]:
        took = (
            f"{show_seconds(self.simulated_s)} simulated in {self.took_s:.1f} s, with {count(self.attempts, 'attempt')}"
        )
        told = told_group_waits(self.groups)
        return [self._outcome(), *told, took, *self._use(), *told_limits(self.limits, "failed attempt")]

    def _outcome(self) -> str:
        fates = [
            (self.placed, f"placed on {self._spread()}"),
            (self.finished, "finished"),
            (len(self.preempted), "preempted"),
            (self.pending, "pending"),
        ]
        told = ", ".join(f"{number} {what}" for number, what in fates if number) or "none placed"
        return f"{count(self.arrived, 'pod')} arrived: {told}"

    def _spread(self) -> str:
        """How many nodes have placements, and the range of their number: `3 nodes (2 to 54 on each)`."""
        counts = self.placed_on().values()
        nodes = count(len(counts), "node")
        if len(counts) < 2:
            return nodes
        low, high = min(counts), max(counts)
        return f"{nodes} ({low if low == high else f'{low} to {high}'} on each)"

    def _use(self) -> list[str]:
        if not self.spans:
            return []
        shares = ", ".join(f"{name} {show_percent(self.mean_used[name])}" for name in MAIN if name in self.mean_used)
        each = f"each character of the curves is {show_seconds(self.simulated_s / len(self.spans))}"
        return [f"Requested on average: {shares or 'nothing'}; {each}."]

    def tables(self) -> list[AnswerTable]:
        return [
            _waits_table(self.waits),
            group_wait_table(self.groups),
            AnswerTable("Utilisation", ("resource", "over time", "mean", "highest"), self._curves()),
            _group_table("By zone", "zone", self.mean_uses.zones),
            _group_table("By pool", "pool", self.mean_uses.pools),
            AnswerTable(
                "Fullest nodes on average",
                ("node", "placed", *MAIN),
                [(name, use.placed, *map(use.told_share, MAIN)) for name, use in self.mean_uses.fullest.items()],
            ),
            limits_table(self.limits, "attempts"),
            self._parts_table(),
            self._span_table(),
            AnswerTable("Pods placed by node", ("node", "placed"), [*self.placed_on().items()], is_detail=True),
            preempted_table(self.preempted, is_detail=True),
        ]

    def _resources(self) -> list[str]:
        return sorted(self.mean_used, key=lambda name: (name not in MAIN, name))

    def _curves(self) -> list[tuple[object, ...]]:
        """A row for each resource: a curve over time, its mean and its highest point."""
        rows: list[tuple[object, ...]] = []
        for name in self._resources():
            shares = [span.used[name] for span in self.spans]
            if name in MAIN or any(shares):
                rows.append((name, _curve(shares, 1.0), show_percent(self.mean_used[name]), show_percent(max(shares))))
        waiting = [span.pending for span in self.spans]
        if waiting:
            mean, most = sum(waiting) / len(waiting), max(waiting)
            rows.append(("waiting pods", _curve(waiting, most), f"{mean:.1f}", f"{most:.1f}"))
        return rows

    def _span_table(self) -> AnswerTable:
        names = self._resources()
        rows = [
            (
                show_time(round(span.from_s * 1000) * 1_000_000),
                *(show_percent(span.used.get(name, 0)) for name in names),
                f"{span.pending:.1f}",
            )
            for span in self.spans
        ]
        return AnswerTable("Spans", ("from", *names, "waiting pods"), rows, is_detail=True)

    def _parts_table(self) -> AnswerTable:
        """Where the time went, and the memory that it needed."""
        total_s, pods = sum(self.parts_s.values()) or 1.0, max(self.arrived, 1)
        rows: list[tuple[object, ...]] = [
            (part, f"{seconds:.1f}", show_percent(seconds / total_s, decimals=0), f"{seconds / pods * 1e6:.0f}")
            for part, seconds in self.parts_s.items()
        ]
        if self.peak_bytes is not None:
            rows.append((f"peak memory {show_bytes(self.peak_bytes)}", "", "", ""))
        heads = ("part", "seconds", "share", "µs a pod")
        return AnswerTable("Where the time went", heads, rows, is_detail=not self.is_generated)

    def report_tables(self) -> list[AnswerTable]:
        return [*story_tables(self.story), *self.tables()]

    def plots(self) -> list[AnswerPlot]:
        edges_s = [*(span.from_s for span in self.spans), self.simulated_s]
        used = {name: [span.used[name] for span in self.spans] for name in self._resources()}
        shown = {name: shares for name, shares in used.items() if name in MAIN or any(shares)}
        waiting = {"waiting pods": [span.pending for span in self.spans]}
        over_time: list[AnswerPlot] = [
            CurvePlot("Requested share over time", edges_s, shown, Unit.SHARE),
            CurvePlot("Waiting pods over time", edges_s, waiting),
        ]
        waited_s = [each for waits in self.waits for each in waits.waited_s]
        return [
            *(over_time if self.spans else ()),
            *([waits_plot(WAITS, waited_s)] if waited_s else ()),
            *_group_plots("zone", self.mean_uses.zones),
            *_group_plots("pool", self.mean_uses.pools),
            *limits_plot("Failed attempts by what limits them", self.limits, "attempts"),
        ]

    # ---- data

    def data_tables(self) -> Mapping[str, DataTable]:
        return {
            "waits": wait_table(self.waits),
            "spans": span_table(self.spans, self._resources()),
            "pods": placement_table(self.placements),
            "nodes": data_table({"node": str, "placed": int}, self.placed_on().items()),
            "zones": mean_table("zone", self.mean_uses.zones),
            "pools": mean_table("pool", self.mean_uses.pools),
            "limits": limit_table(self.limits, "attempts"),
            "preempted": eviction_table(self.preempted),
            "groups": group_wait_data_table(self.groups),
        }

    def published(self) -> DayForm:
        uses = self.mean_uses
        zones, pools, fullest = ([*groups.values()] for groups in (uses.zones, uses.pools, uses.fullest))
        return DayForm(
            self.simulated_s,
            round(self.took_s, 3),
            self.planned,
            self.arrived,
            self.placed,
            self.finished,
            self.pending,
            self.attempts,
            self.failed_attempts,
            self.rescued,
            [waits_form(waits) for waits in self.waits],
            self.mean_used,
            zones,
            pools,
            fullest,
            convert(self.limits, list[AttemptLimitForm], from_attributes=True),
            convert(self.spans, list[SpanForm], from_attributes=True),
            [PlacedOnForm(name, number) for name, number in self.placed_on().items()],
            self.placements,
            eviction_forms(self.preempted),
            self.notes,
            {part: round(seconds, 6) for part, seconds in self.parts_s.items()},
            self.peak_bytes,
            convert(self.groups, list[GroupWaitForm], from_attributes=True),
            story_forms(self.story),
        )


def _waits_table(waits: Sequence[Waits]) -> AnswerTable:
    """A row for each priority, the highest first."""
    rows = [
        (
            entry.priority,
            entry.placed,
            *(show_seconds(entry.quantile_s(share)) for share in QUANTILES.values()),
            entry.pending,
            entry.preempted,
        )
        for entry in waits
    ]
    heads = ("priority", "placed", *QUANTILES, "pending", "preempted")
    return AnswerTable(WAITS, heads, rows)


def _group_table(title: str, kind: str, groups: Mapping[str, MeanUseForm]) -> AnswerTable:
    rows = [(name, use.nodes, use.placed, *map(use.told_share, MAIN)) for name, use in groups.items()]
    return AnswerTable(title, (kind, "nodes", "placed", *MAIN), rows)


def _group_plots(kind: str, groups: Mapping[str, MeanUseForm]) -> list[AnswerPlot]:
    """Where pods were placed, and how full it was there."""
    names, uses = [*groups], [*groups.values()]
    shares = {resource: [use.shares.get(resource) for use in uses] for resource in MAIN}
    plots: list[AnswerPlot] = [
        BarPlot(f"Pods placed by {kind}", names, {"placed": [float(use.placed) for use in uses]}),
        BarPlot(f"Requested share by {kind}, on average", names, shares, Unit.SHARE),
    ]
    return plots if names else []


def _curve(values: Sequence[float], most: float) -> str:
    """A character for each value; anything above nothing is visible. Closed by a bar, so that its end can be seen."""
    steps = len(BARS) - 1
    shown = (min(steps, max(round(value / most * steps), value > 0)) if most else 0 for value in values)
    return "".join(BARS[step] for step in shown) + "|"
