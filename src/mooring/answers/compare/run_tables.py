"""The tables of `to_frame` for a comparison: a row for each run, with columns for differences to the first."""

from collections.abc import Mapping, Sequence

from mooring.answers.compare.figures import ALL_COMPARED, RunFigures, flat_figures
from mooring.answers.compare.run_plan import RunPlan
from mooring.answers.form.data_table import Columns, DataTable, Row, data_table, in_snake_case, percent_of

NODES, PRICE_AN_HOUR = "nodes", "price an hour"
"""The unit of costs without prices, and that of the costs of an hour."""
_SHARES = ("utilisation.", "fragmentation.")
"""How paths of figures that are shares begin."""
_DECIMAL = (*_SHARES, "waits.", "groups.waits.", "nodeHours", "cost")
"""How paths of figures that are not whole numbers begin."""

Run = tuple[RunPlan, RunFigures, int | None]
"""A run with its figures, and how many pods have another node than in the first run; None if only digests are known."""


def run_table(runs: Sequence[Run], cost_unit: str) -> DataTable:
    """A row for each run. Figures that no run has are left out, and so are costs that are only numbers of nodes."""
    flat = [flat_figures(figures) for _, figures, _ in runs]
    paths = [path for path in ALL_COMPARED if any(each[path] is not None for each in flat)]
    paths = [path for path in paths if path != "cost" or cost_unit != NODES]
    varied = [*dict.fromkeys(name for plan, _, _ in runs for name, _ in plan.vary if name not in ("seed", "load"))]
    columns: dict[str, type] = {"run": str, "config": str, "seed": int, "load": float, **dict.fromkeys(varied, object)}
    columns |= {"pods": int, **{_column(path, cost_unit): _kind(path) for path in paths}, "moved": int}
    columns |= {f"{_column(path, cost_unit)}_difference": _kind(path) for path in paths}
    return data_table(columns, (_row(run, each, flat[0], paths, varied) for run, each in zip(runs, flat, strict=True)))


def _row(
    run: Run,
    own: Mapping[str, float | None],
    first: Mapping[str, float | None],
    paths: Sequence[str],
    varied: Sequence[str],
) -> Row:
    (plan, figures, moved), values = run, {path: _in_unit(path, own[path]) for path in paths}
    differences = (_minus(values[path], _in_unit(path, first[path])) for path in paths)
    chosen = dict(plan.vary)
    return (
        *(plan.name, plan.config_name, plan.seed, plan.load, *(chosen.get(name) for name in varied)),
        *(figures.pods, *values.values(), moved, *differences),
    )


def _column(path: str, cost_unit: str) -> str:
    if path == "cost":
        return "cost_per_hour" if cost_unit == PRICE_AN_HOUR else "cost"
    return in_snake_case(path) + ("_percent" if path.startswith(_SHARES) else "")


def _kind(path: str) -> type:
    return float if path.startswith(_DECIMAL) else int


def _in_unit(path: str, value: float | None) -> float | None:
    return percent_of(value) if path.startswith(_SHARES) else value


def _minus(value: float | None, first: float | None) -> float | None:
    return None if value is None or first is None else value - first


def wait_table(figures: Mapping[str, RunFigures]) -> DataTable:
    """A row for each run and priority: how long pods waited."""
    times = dict.fromkeys(("p50_seconds", "p95_seconds", "p99_seconds", "max_seconds"), float)
    columns: Columns = {"run": str, "priority": int, "bound": int, "pending": int, "preempted": int, **times}
    rows = (
        (name, each.priority, each.bound, each.pending, each.preempted, *(getattr(each.waits, time) for time in times))
        for name, own in figures.items()
        for each in own.waits_by_priority
    )
    return data_table(columns, rows)


def use_table(figures: Mapping[str, RunFigures]) -> DataTable:
    """A row for each run and resource: the requested share of what is allocatable."""
    rows = (
        (name, resource, percent_of(use.mean), percent_of(use.peak))
        for name, own in figures.items()
        for resource, use in own.utilisation.items()
    )
    return data_table({"run": str, "resource": str, "mean_percent": float, "peak_percent": float}, rows)
