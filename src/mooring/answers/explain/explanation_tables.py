"""The tables of `to_frame` for explanations: why nodes reject a pod, what would place it, and the scores of nodes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mooring.answers.explain.cure import Cure
from mooring.answers.form.data_table import Columns, DataTable, Row, data_table
from mooring.answers.trial.reasons import Reason


@dataclass(frozen=True, slots=True)
class ScoredNode:
    """A node that the pod could go to, with what each plugin gives it after weights."""

    name: str
    total: int
    by_plugin: dict[str, int] = field(default_factory=dict)


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
