"""The answer of `mooring study`: the metrics of all runs, and by workload and configuration their means over the seeds."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.answers.form.answer import AnswerPlot, AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, data_table
from mooring.answers.form.published import Count, Form, Number
from mooring.answers.form.report_parts import BandPlot, BarPlot
from mooring.answers.study.study_file import OPTIMAL, Study
from mooring.answers.study.study_plan import StudyPlan
from mooring.answers.study.study_run import StudyResult
from mooring.kit.words import count, some

FAILURES_SHOWN = 20
"""How many failed runs the answer lists; the results file has all."""


class StudyRunForm(Form, frozen=True):
    """A run of a study."""

    cluster: str
    workload: str
    policy: str
    """The name of the configuration."""
    seed: int
    load: Number
    pods: Count | None
    """How many pods arrived. Null if the run failed."""
    values: dict[str, Number | None]
    """The metrics by column. Null where the run does not have it."""
    failed: str | None
    """Why the run failed. Null if it did not."""
    bound: str | None
    """For the policy Optimal, whose values no placement of the pods exceeds: exact, or relaxation. Null for others."""


class StudySummaryForm(Form, frozen=True):
    """A metric over the seeds of one cluster, workload, configuration and load."""

    cluster: str
    workload: str
    policy: str
    load: Number
    metric: str
    runs: Count
    """How many runs have the metric."""
    mean: Number
    deviation: Number | None
    """The standard deviation over the seeds (with n - 1). Null for one run."""
    difference: Number | None
    """The mean over the seeds of this configuration minus the first one. Null where no seed has both."""
    p_value: Number | None
    """How often a difference at least as large would come by chance if the two configurations were alike (a permutation test,
    paired by seed). Null for the first configuration, for Optimal and for fewer than two seeds."""


class StudyForm(Form, frozen=True):
    """The runs of a study."""

    study: str
    """The name of the file, without folder and ending."""
    digest: str
    """The digest of the file."""
    parameters: dict[str, str]
    runs: list[StudyRunForm]
    summaries: list[StudySummaryForm]
    failed: Count
    """How many runs failed."""
    notes: list[str]


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A metric over the seeds of one cluster, workload, configuration and load."""

    cluster: str
    workload: str
    policy: str
    load: float
    metric: str
    by_seed: Mapping[int, float] = field(repr=False)
    first: Mapping[int, float] = field(repr=False)
    """The values of the first configuration."""
    is_first: bool = False
    is_bound: bool = False

    @property
    def mean(self) -> float:
        return float(np.mean([*self.by_seed.values()]))

    @property
    def deviation(self) -> float | None:
        return float(np.std([*self.by_seed.values()], ddof=1)) if len(self.by_seed) > 1 else None

    @property
    def differences(self) -> list[float]:
        """By seed: this configuration minus the first one."""
        return [value - self.first[seed] for seed, value in self.by_seed.items() if seed in self.first]

    @property
    def difference(self) -> float | None:
        differences = self.differences
        return float(np.mean(differences)) if differences and not self.is_first else None

    @property
    def p_value(self) -> float | None:
        differences = self.differences
        return permutation_p(differences) if len(differences) > 1 and not (self.is_first or self.is_bound) else None

    def published(self) -> StudySummaryForm:
        where = (self.cluster, self.workload, self.policy, self.load, self.metric, len(self.by_seed))
        return StudySummaryForm(*where, self.mean, self.deviation, self.difference, self.p_value)


@dataclass(repr=False)
class StudyAnswer(ClusterAnswer):
    """The runs of a study."""

    kind: ClassVar[str] = "StudyResults"
    form: ClassVar = StudyForm

    study: Study
    plans: Sequence[StudyPlan]
    results: Sequence[StudyResult]
    notes: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[tuple[StudyPlan, StudyResult]]:
        return [(plan, result) for plan, result in self._pairs() if result.failed]

    def _pairs(self) -> Iterator[tuple[StudyPlan, StudyResult]]:
        return zip(self.plans, self.results, strict=True)

    def _names(self, plan: StudyPlan) -> tuple[str, str, str]:
        return self.study.names(plan.cluster, plan.workload, plan.config)

    def summaries(self) -> list[MetricSummary]:
        """Each metric by cluster, workload, load and configuration, in the order of the study."""
        values: dict[tuple[int, int, float, str], dict[int | None, dict[int, float]]] = {}
        for plan, result in self._pairs():
            for metric, value in result.values.items():
                by_config = values.setdefault((plan.cluster, plan.workload, plan.load, metric), {})
                if value is not None:
                    by_config.setdefault(plan.config, {})[plan.seed] = value
        study = self.study
        return [
            MetricSummary(
                *(*study.names(cluster, workload, config), load, metric),
                *(by_seed, by_config.get(0, {}), config == 0, config is None),
            )
            for (cluster, workload, load, metric), by_config in values.items()
            for config in (*range(len(study.configurations)), None)
            if (by_seed := by_config.get(config))
        ]

    @property
    def _policies(self) -> list[str]:
        """The names of the configurations, and of their bound."""
        return [*(each.name for each in self.study.configurations), OPTIMAL]

    # ---- the form of an answer

    def summary(self) -> list[str]:
        failed = len(self.failures)
        told = f"{count(len(self.plans), 'run')} of the study {self.study.name or 'without a name'}"
        lines = [f"{told}: {'all were made' if not failed else f'{failed} failed'}."]
        if failed:
            reasons = dict.fromkeys(result.failed for _, result in self.failures)
            lines.append(f"Why: {some([*reasons], 3)}.")
        kinds = Counter(result.bound for result in self.results if result.bound)
        if kinds:
            told = " and ".join(f"{kind} in {count(times, 'run')}" for kind, times in sorted(kinds.items()))
            lines.append(f"{OPTIMAL} is a bound that no placement of the pods exceeds: {told}.")
        return [*lines, *(f"Note: {note}." for note in self.notes)]

    def tables(self) -> list[AnswerTable]:
        failures = [(plan.name, result.failed) for plan, result in self.failures[:FAILURES_SHOWN]]
        return [
            *self._mean_tables(),
            AnswerTable("Runs that failed", ("run", "reason"), failures),
            AnswerTable("All runs", tuple(self._run_columns()), [*self._run_rows(_shown)], is_detail=True),
        ]

    def _mean_tables(self) -> Iterator[AnswerTable]:
        """A table for each metric: a row for each workload, a column for each configuration."""
        summaries = self.summaries()
        configs = self._policies
        on_the_way = {column for metric in self.study.metrics if metric.at for column in metric.columns()}
        for metric in self.study.columns:
            rows: dict[tuple[str, ...], dict[str, str]] = {}
            for each in summaries:
                if each.metric == metric:
                    rows.setdefault(self._row_name(each), {})[each.policy] = _cell(each)
            shown = [name for name in configs if any(name in cells for cells in rows.values())]
            title = f"{metric}: mean ± standard deviation over seeds; * differs from {configs[0]} (p < 0.05)"
            listed = [(" ".join(row), *(cells.get(name, "-") for name in shown)) for row, cells in rows.items()]
            yield AnswerTable(title, ("workload", *shown), listed, is_detail=metric in on_the_way)

    def _row_name(self, each: MetricSummary) -> tuple[str, ...]:
        cluster = (each.cluster,) if len(self.study.clusters) > 1 else ()
        load = (f"load={each.load:g}",) if len(self.study.loads) > 1 else ()
        return (*cluster, each.workload, *load)

    def _run_columns(self) -> Columns:
        own = {"cluster": str, "workload": str, "policy": str, "seed": int, "load": float, "pods": int}
        return {**own, **dict.fromkeys(self.study.columns, float), "bound": str, "failed": str}

    def _run_rows(self, shown: Callable[[float | None], object] = lambda value: value) -> Iterator[tuple[object, ...]]:
        for plan, result in self._pairs():
            values = (shown(result.values.get(column)) for column in self.study.columns)
            yield *self._names(plan), plan.seed, plan.load, result.pods, *values, result.bound, result.failed

    def plots(self) -> list[AnswerPlot]:
        return [*self._bands(), *self._bars()]

    def _bands(self) -> Iterator[AnswerPlot]:
        """For each metric that is taken on the way, and each workload: the means of all configurations, with the interval in
        which 95 % of such means would be."""
        summaries = {(self._row_name(each), each.metric, each.policy): each for each in self.summaries()}
        rows = [*dict.fromkeys(row for row, _, _ in summaries)]
        for metric in (each for each in self.study.metrics if each.at):
            for row in rows:
                curves = {
                    config.name: [_band(summaries.get((row, column, config.name))) for column in metric.columns()]
                    for config in self.study.configurations
                }
                shown = {name: values for name, values in curves.items() if any(values)}
                if shown:
                    title = f"{metric.column}, {' '.join(row)}: mean and 95 % confidence"
                    yield BandPlot(title, metric.at, "percent asked for by the pods that have arrived", shown)

    def _bars(self) -> Iterator[AnswerPlot]:
        summaries = self.summaries()
        configs = self._policies
        for metric in (each.column for each in self.study.metrics if not each.at):
            rows: dict[str, dict[str, float]] = {}
            for each in summaries:
                if each.metric == metric:
                    rows.setdefault(" ".join(self._row_name(each)), {})[each.policy] = each.mean
            bars = {name: [row.get(name) for row in rows.values()] for name in configs}
            shown = {name: values for name, values in bars.items() if any(value is not None for value in values)}
            if shown:
                yield BarPlot(f"{metric}, mean over seeds", [*rows], shown)

    def data_tables(self) -> Mapping[str, DataTable]:
        where = {"cluster": str, "workload": str, "policy": str, "load": float, "metric": str, "runs": int}
        figures = dict.fromkeys(("mean", "standard_deviation", "difference", "p_value"), float)
        summaries = (msgspec.structs.astuple(each.published()) for each in self.summaries())
        return {
            "runs": data_table(self._run_columns(), self._run_rows()),
            "summaries": data_table({**where, **figures}, summaries),
        }

    def published(self) -> StudyForm:
        runs = [
            StudyRunForm(
                *(*self._names(plan), plan.seed, plan.load, result.pods, _whole(result.values)),
                *(result.failed or None, result.bound or None),
            )
            for plan, result in self._pairs()
        ]
        return StudyForm(
            self.study.name,
            self.study.digest,
            {name: str(value) for name, value in self.study.parameters.items()},
            runs,
            [each.published() for each in self.summaries()],
            len(self.failures),
            self.notes,
        )


def _whole(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """The values with whole numbers written as such: a results file does not tell 26 from 26.0."""
    return {name: int(value) if value and float(value).is_integer() else value for name, value in values.items()}


def _band(each: MetricSummary | None) -> tuple[float, float] | None:
    return None if each is None else (each.mean, confidence_half([*each.by_seed.values()]))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1 else f"{value:.2f}".rstrip("0").rstrip(".")


def _cell(each: MetricSummary) -> str:
    """`93.41 ± 0.26 *`: the mean, the standard deviation, and whether the difference to the first configuration is more than
    chance."""
    spread = "" if each.deviation is None else f" ± {_shown(each.deviation)}"
    p = each.p_value
    return f"{_shown(each.mean)}{spread}{' *' if p is not None and p < 0.05 else ''}"


# ---- how sure a mean over seeds is, and whether a difference between two configurations is more than chance

Floats = NDArray[np.float64]
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % quantile of Student's t-distribution with 1 to 30 degrees of freedom; beyond, 1.96 + 2.4 / degrees is near."""
EXACT = 16
"""65,536 sums take a millisecond."""
SAMPLES = 20_000
_ROUNDING = 1e-9
"""Sums that are equal on paper differ in their last bits."""


def permutation_p(differences: Sequence[float]) -> float:
    """The p-value of the differences of pairs, by a permutation test, two-sided. There must be at least one difference.

    If the two were alike, each difference could as well have the other sign. So all 2^n choices of signs are equally likely,
    and the p-value is the share of them whose sum is at least as far from 0 as the sum that was found:

        p = #{ signs s in {-1, 1}^n : |sum s_i * d_i| >= |sum d_i| } / 2^n

    Up to EXACT pairs all choices are counted. With more, SAMPLES choices are drawn, and p = (1 + hits) / (1 + SAMPLES), which
    is never below the exact value on average.

    | differences | p                                        |
    | 1, 1, 1     | 2/8: all three up, or all three down     |
    | 1, -1       | 1: every choice is as far from 0         |
    | 0, 0        | 1                                        |
    """
    given = np.asarray(differences, np.float64)
    found = abs(float(given.sum()))
    least = found - _ROUNDING * float(np.abs(given).sum())
    if len(given) <= EXACT:
        return float(np.mean(np.abs(_all_sums(given)) >= least))
    uniform = np.random.Generator(np.random.PCG64(len(given))).random
    hits = sum(
        int(np.count_nonzero(np.abs(np.where(uniform((1000, len(given))) < 0.5, -given, given).sum(axis=1)) >= least))
        for _ in range(SAMPLES // 1000)
    )
    return (1 + hits) / (1 + SAMPLES)


def confidence_half(values: Sequence[float]) -> float:
    """Half of the width of the 95 % confidence interval of the mean: t * s / sqrt(n); 0 for fewer than two values."""
    count = len(values)
    if count < 2:
        return 0.0
    t = _T_95[count - 2] if count - 1 <= len(_T_95) else 1.96 + 2.4 / (count - 1)
    return float(t * np.std(np.asarray(values, np.float64), ddof=1) / np.sqrt(count))


def _all_sums(given: Floats) -> Floats:
    """The sums of all choices of signs."""
    sums = np.zeros(1)
    for each in given:
        sums = np.concatenate([sums - each, sums + each])
    return sums
