"""The tables of `to_frame` for simulations: pods, nodes, zones and what limits; spans and waiting times of a day."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import astuple

from mooring.answers.form.data_table import (
    Columns,
    DataTable,
    amount_column,
    attribute_table,
    data_table,
    percent_of,
    share_column,
)
from mooring.answers.form.utilisation import FULLEST, GroupUse, pool_of, sums_by_group, zone_of
from mooring.answers.simulate.simulation_form import QUANTILES, MeanUseForm, group_form, waits_form
from mooring.model.node import Node
from mooring.sim.day import Waits
from mooring.sim.gauge import MAIN, NodeMeans, Span
from mooring.sim.results import FailureReason, Fate, GroupState, GroupWait, NodeUse, PodResult, SimulatedEviction

# ---- How full nodes, zones and pools were on average while pods came and went.


@dataclass(frozen=True, slots=True)
class MeanUses:
    """The means in groups, by name."""

    zones: Mapping[str, MeanUseForm]
    pools: Mapping[str, MeanUseForm]
    fullest: Mapping[str, MeanUseForm]
    """The nodes with the largest share of cpu or memory, the fullest first."""


def mean_uses(means: NodeMeans | None, placed: Mapping[str, int], nodes: Iterable[Node]) -> MeanUses:
    """The means of a day by zone and pool; `placed` has how many pods were bound to each node."""
    if means is None:
        return MeanUses({}, {}, {})
    known = {node.name: node for node in nodes}
    there = [known.get(name) for name in means.names]
    zones = _grouped(means, placed, [zone_of(node) if node is not None else "" for node in there])
    pools = _grouped(means, placed, [pool_of(node) if node is not None else "" for node in there])
    shares = (means.requested / np.maximum(means.allocatable, 1)).max(0) if means.names else np.zeros(0)
    fullest = np.argsort(-shares, kind="stable")[:FULLEST].tolist()
    chosen = {means.names[i] for i in fullest}
    by_name = _grouped(means, placed, [name if name in chosen else "" for name in means.names])
    return MeanUses(zones, pools, {means.names[i]: by_name[means.names[i]] for i in fullest})


def _grouped(means: NodeMeans, placed: Mapping[str, int], groups: Sequence[str]) -> dict[str, MeanUseForm]:
    """The sums of each group, by name; nodes with an empty name are in none."""
    bound = np.array([placed.get(name, 0) for name in means.names], np.float64)
    columns = (np.ones(len(groups)), bound, *means.requested, *means.allocatable)
    found = {}
    for name, (nodes, count, *amounts) in sums_by_group(groups, columns).items():
        pairs = zip(MAIN, amounts[: len(MAIN)], amounts[len(MAIN) :], strict=True)
        shares = {resource: held / room if room else None for resource, held, room in pairs}
        found[name] = MeanUseForm(name, round(nodes), round(count), shares)
    return found


_NAMED: Columns = {"namespace": str, "pod": str}
_MAIN_SHARES: Columns = {share_column(name): float for name in MAIN}


def pod_table(results: Iterable[PodResult]) -> DataTable:
    """A row for each pod that was pending; `score` is that of its node where several were scored."""
    columns: Columns = {
        **_NAMED,
        "result": str,
        "node": str,
        "attempts": int,
        "priority": int,
        "scheduler": str,
        "feasible_nodes": int,
        "score": int,
        "waited_seconds": float,
        "nominated_node": str,
        "message": str,
    }
    return data_table(columns, map(_pod_row, results))


def _pod_row(result: PodResult) -> tuple[object, ...]:
    pod, is_placed = result.pod, result.fate is Fate.SCHEDULED
    feasible = result.feasible_count if is_placed else None
    return (
        *(pod.namespace, pod.name, result.fate.value, result.node if is_placed else None, result.attempts),
        *(pod.priority, pod.spec.scheduler_name, feasible, result.score if (feasible or 0) > 1 else None),
        *(result.waited_s, result.nominated, result.message),
    )


def node_table(nodes: Sequence[NodeUse], zones: Mapping[str, str]) -> DataTable:
    """A row for each node, with what is requested and allocatable of each resource that a node has."""
    resources = _resources(node.amounts for node in nodes)
    columns: Columns = {"node": str, "zone": str, "pods": int, "new_pods": int, "allowed_pods": int}
    rows = (
        (
            *(node.name, zones.get(node.name), node.pods, node.new_pods, node.allowed_pods),
            *(value for name in resources for value in amounts_of(node.amounts, name)),
        )
        for node in nodes
    )
    return data_table({**columns, **amount_columns(resources)}, rows)


def use_table(kind: str, groups: Mapping[str, GroupUse]) -> DataTable:
    """A row for each zone or pool."""
    resources = _resources(use.amounts for use in groups.values())
    columns: Columns = {kind: str, "nodes": int, "cordoned_nodes": int, "pods": int}
    rows = (
        (
            *(name, use.nodes, use.cordoned, use.pods),
            *(value for each in resources for value in amounts_of(use.amounts, each)),
        )
        for name, use in sorted(groups.items())
    )
    return data_table({**columns, **amount_columns(resources)}, rows)


def _resources(found: Iterable[Mapping[str, object]]) -> list[str]:
    return [*dict.fromkeys((*MAIN, *(name for amounts in found for name in amounts)))]


def amount_columns(resources: Iterable[str]) -> Columns:
    """The columns of amounts and shares, by resource."""
    return {
        column: kind
        for name in resources
        for column, kind in (
            (amount_column(name, "requested"), int),
            (amount_column(name, "allocatable"), int),
            (share_column(name), float),
        )
    }


def amounts_of(amounts: Mapping[str, tuple[int, int]], resource: str) -> tuple[object, ...]:
    """Requested, allocatable, and the share of it in percent; None where there is nothing of the resource."""
    requested, allocatable = amounts.get(resource, (0, 0))
    return requested, allocatable, percent_of(requested / allocatable if allocatable else None)


def eviction_table(evictions: Iterable[SimulatedEviction]) -> DataTable:
    columns: Columns = {"pod.namespace:namespace": str, "pod.name:pod": str, "node": str, "preemptor": str}
    return attribute_table(evictions, columns)


def limit_table(limits: Iterable[FailureReason], counted: str) -> DataTable:
    """A row for each reason; `counted` is pods or attempts."""
    return attribute_table(limits, {"plugin": str, "message": str, f"times:{counted}": int, "nodes": int})


def group_table(groups: Iterable[GroupState]) -> DataTable:
    columns: Columns = {
        "group": str,
        "result": str,
        "min_count": int,
        "members": int,
        "on_nodes": int,
        "waited_seconds": float,
        "message": str,
    }
    return data_table(columns, map(astuple, map(group_form, groups)))


# ---- a day


def span_table(spans: Iterable[Span], resources: Sequence[str]) -> DataTable:
    """A row for each span of time, with the means of it."""
    shares = {share_column(name): float for name in resources}
    rows = ((each.from_s, *(percent_of(each.used.get(name)) for name in resources), each.pending) for each in spans)
    return data_table({"from_seconds": float, **shares, "waiting_pods": float}, rows)


def wait_table(waits: Iterable[Waits]) -> DataTable:
    """A row for each priority, the highest first."""
    times = {f"{name}_seconds": float for name in QUANTILES}
    columns: Columns = {"priority": int, "placed": int, **times, "pending": int, "preempted": int}
    return data_table(columns, map(astuple, map(waits_form, waits)))


def mean_table(kind: str, groups: Mapping[str, MeanUseForm]) -> DataTable:
    """A row for each zone or pool, with means over the day."""
    rows = (
        (name, use.nodes, use.placed, *(percent_of(use.shares.get(each)) for each in MAIN))
        for name, use in groups.items()
    )
    return data_table({kind: str, "nodes": int, "placed": int, **_MAIN_SHARES}, rows)


def placement_table(placements: Mapping[str, str]) -> DataTable:
    """A row for each pod that was bound. A generated day does not keep the names of pods."""
    return data_table({**_NAMED, "node": str}, ((*key.split("/", 1), node) for key, node in placements.items()))


def group_wait_table(groups: Iterable[GroupWait]) -> DataTable:
    return attribute_table(groups, {"key:group": str, "members": int, "waited_s:waited_seconds": float})
