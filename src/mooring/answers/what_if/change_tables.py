"""The tables of `to_frame` for a difference: pods, workloads, and how full the cluster is before and after."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from mooring.answers.data_table import Columns, DataTable, amount_column, data_table, percent_of, share_column
from mooring.answers.utilisation import GroupUse
from mooring.answers.what_if.workload_book import WorkloadName

Moments = tuple[GroupUse, GroupUse]
"""Before and after the changes."""


def paired(before: Mapping[str, GroupUse], after: Mapping[str, GroupUse]) -> dict[str, Moments]:
    """By name: both moments of a group; one that is not there at a moment is empty then."""
    return {name: (before.get(name, GroupUse()), after.get(name, GroupUse())) for name in sorted({*before, *after})}


def change_table(changes: Iterable[tuple[str, str, str, str, str]]) -> DataTable:
    """A row for each pod that changes."""
    columns: Columns = {"namespace": str, "pod": str, "change": str, "from_node": str, "to_node": str, "reason": str}
    return data_table(columns, ((*pod.split("/"), *rest) for pod, *rest in changes))


def workload_table(workloads: Mapping[WorkloadName, Counter[str]], counted: Sequence[str]) -> DataTable:
    """A row for each workload with the number of its pods by what happens to them."""
    columns: Columns = {"kind": str, "namespace": str, "name": str, **dict.fromkeys(counted, int)}
    rows = (
        (workload.kind, *workload.key.split("/"), *(counts[each] for each in counted))
        for workload, counts in workloads.items()
    )
    return data_table(columns, rows)


def use_change_table(kind: str, groups: Mapping[str, Moments]) -> DataTable:
    """A row for each group, before and after, with the differences; `kind` is empty for the whole cluster."""
    resources = [*dict.fromkeys(name for pair in groups.values() for use in pair for name in use.amounts)]
    columns = dict[str, type]({kind: str} if kind else {})
    for column, value in (("nodes", int), ("pods", int), *_resource_columns(resources)):
        columns |= {f"{column}_{when}": value for when in ("before", "after", "difference")}
    rows = (
        (*((name,) if kind else ()), *(value for pair in _values(*moments, resources) for value in _compared(*pair)))
        for name, moments in groups.items()
    )
    return data_table(columns, rows)


def _resource_columns(resources: Iterable[str]) -> Iterable[tuple[str, type]]:
    for name in resources:
        yield amount_column(name, "requested"), int
        yield amount_column(name, "allocatable"), int
        yield share_column(name), float


def _values(before: GroupUse, after: GroupUse, resources: Iterable[str]) -> Iterable[tuple[float | None, float | None]]:
    yield before.nodes, after.nodes
    yield before.pods, after.pods
    for name in resources:
        yield from zip(before.amounts.get(name, (0, 0)), after.amounts.get(name, (0, 0)), strict=True)
        yield percent_of(before.share(name)), percent_of(after.share(name))


def _compared(before: float | None, after: float | None) -> tuple[object, ...]:
    return before, after, None if before is None or after is None else after - before
