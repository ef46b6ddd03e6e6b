"""The answer of `mooring replay`: which decisions came out equal, and the first that did not, explained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, Time, data_table, in_snake_case
from mooring.answers.recorded.decision_difference import StepDifference, difference_table
from mooring.kit.clock import NS_PER_S, in_seconds
from mooring.kit.words import count
from mooring.sim.results import show_seconds
from mooring.state.replay.differences import ReplayTally


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """One run and what became of it."""

    name: str
    version: str
    """Of Mooring, when it was recorded."""
    tally: ReplayTally

    @property
    def is_replayed(self) -> bool:
        return self.tally.first_ns is not None

    def span_ns(self) -> tuple[int | None, int | None]:
        """When the first and the last step in the span that was asked for were; None if there are none."""
        return self.tally.first_ns, self.tally.last_ns if self.is_replayed else None

    def times(self) -> tuple[str, str]:
        """The span for people; empty if there is none."""
        began, ended = self.span_ns()
        return ("", "") if began is None or ended is None else (in_seconds(began), in_seconds(ended))

    def content(self) -> dict[str, Any]:
        began, ended = self.times()
        return {"name": self.name, "version": self.version, "from": began, "until": ended, **figures(self.tally)}


def figures(tally: ReplayTally) -> dict[str, Any]:
    """The counts of a tally as plain data."""
    return {
        "steps": tally.steps,
        "decisions": tally.decisions,
        "equalDecisions": tally.equal_decisions,
        "binds": tally.binds,
        "failures": tally.failures,
        "evictions": tally.evictions,
        "differingSteps": tally.differing_steps,
    }


@dataclass(frozen=True, repr=False)
class ReplayAnswer(ClusterAnswer):
    """All runs of a recording, replayed."""

    kind: ClassVar[str] = "Replay"
    runs: Sequence[ReplayedRun]
    took_s: float
    first: StepDifference | None = None
    differences: Sequence[StepDifference] = ()
    """The first ones, at most `replaying.LISTED`."""
    problems: Sequence[str] = ()
    """What could not be replayed, and why."""
    notes: Sequence[str] = ()
    total: ReplayTally = field(default_factory=ReplayTally)

    @property
    def is_equal(self) -> bool:
        return not self.total.differing_steps

    @property
    def is_replayed(self) -> bool:
        return any(run.is_replayed for run in self.runs)

    @property
    def recorded_s(self) -> float:
        """The recorded time, over all runs."""
        return sum((run.tally.last_ns - (run.tally.first_ns or run.tally.last_ns)) / NS_PER_S for run in self.runs)

    @property
    def speed(self) -> float:
        """How much faster than real time it was."""
        return self.recorded_s / self.took_s if self.took_s else 0.0

    # ---- as text

    def summary(self) -> list[str]:
        lines = [self._headline(), self._time_line()]
        if self.first is not None:
            lines += ["", *self.first.sentences()]
        return lines

    def _headline(self) -> str:
        total, runs = self.total, [run for run in self.runs if run.is_replayed]
        decided = (
            f"{total.decisions:,} decisions ({total.binds:,} binds, {total.failures:,} failures, "
            f"{total.evictions:,} evictions)"
        )
        if self.is_equal:
            outcome = "all came out equal"
        elif total.differing_decisions:
            outcome = f"{total.equal_decisions:,} came out equal, {total.differing_decisions:,} did not"
        else:
            outcome = f"all came out equal, but {count(total.differing_steps, 'step')} asked for something else"
        return f"{count(len(runs), 'run')}, {total.steps:,} steps, {decided}: {outcome}"

    def _time_line(self) -> str:
        times = [run.times() for run in self.runs if run.is_replayed]
        if not times:
            return "Nothing was replayed"
        began, ended = min(each[0] for each in times), max(each[1] for each in times)
        return (
            f"Recorded from {began} to {ended} ({show_seconds(self.recorded_s)}), replayed in "
            f"{show_seconds(self.took_s)}: {self.speed:,.0f} times real time"
        )

    def tables(self) -> list[AnswerTable]:
        explained = self.first.decision.tables() if self.first is not None and self.first.decision is not None else []
        kinds = [(kind, f"{number:,}") for kind, number in self.total.by_kind.most_common()]
        return [
            *explained,
            AnswerTable("Differences by kind", ("instead of what was recorded", "steps"), kinds),
            AnswerTable("Runs", _RUN_COLUMNS, [_run_row(run) for run in self.runs], is_detail=len(self.runs) < 2),
            AnswerTable(
                "The first differences",
                ("at", "step", "then", "now"),
                [(in_seconds(d.at_ns), d.step, "; ".join(d.recorded), "; ".join(d.ours)) for d in self.differences],
                is_detail=True,
            ),
        ]

    # ---- as plain data

    def data_tables(self) -> Mapping[str, DataTable]:
        columns: Columns = {"run": str, "version": str, "from": Time, "until": Time}
        counts: Columns = {in_snake_case(name): int for name in figures(self.total)}
        runs = ((run.name, run.version, *run.span_ns(), *figures(run.tally).values()) for run in self.runs)
        return {
            "runs": data_table({**columns, **counts}, runs),
            "differences": difference_table(self.differences),
        }

    def content(self) -> dict[str, Any]:
        return {
            "equal": self.is_equal,
            **figures(self.total),
            "runs": [run.content() for run in self.runs],
            "recordedSeconds": self.recorded_s,
            "tookSeconds": self.took_s,
            "speed": self.speed,
            "firstDifference": None if self.first is None else self.first.content(),
            "differences": [each.content() for each in self.differences],
            "differencesByKind": dict(self.total.by_kind.most_common()),
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


_RUN_COLUMNS = ("run", "from", "until", "steps", "decisions", "equal")


def _run_row(run: ReplayedRun) -> tuple[object, ...]:
    began, ended = run.times()
    tally = run.tally
    return (
        run.name,
        began or "-",
        ended or "-",
        f"{tally.steps:,}",
        f"{tally.decisions:,}",
        f"{tally.equal_decisions:,}",
    )
