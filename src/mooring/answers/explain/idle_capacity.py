"""Real use of the nodes of a cluster beside what is requested, and how much of the idle part pods can get."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mooring.answers.form.answer import AnswerTable
from mooring.answers.form.published import Count, Form, Number
from mooring.answers.trial.counterfactual import SchedulerView
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.quantity import show_amount, show_percent
from mooring.sim.fragmentation import Floats, cut_shapes, fragmentation_by_use, fragmentation_of, weighed_shapes
from mooring.sim.gauge import MAIN

if TYPE_CHECKING:  # it imports a client for HTTP, which most questions do not need
    from mooring.inputs.real_use import RealUse


class IdleCapacity(Form, frozen=True):
    """Capacity of nodes for a resource, what is requested of it and what is in use. Amounts are in the units of the resource:
    cpu in milli, memory in bytes."""

    resource: str
    nodes: Count
    """Nodes whose use is known: those without pods, and those with a pod that the source knows. Amounts are their sums."""
    allocatable: Count
    requested: Count
    used: Count
    fragmentation: Number | None
    """The share of what is not requested that pods like those of the cluster cannot use, on all nodes: the figure of
    `mooring compare`. Null if nothing is free."""
    fragmentation_by_use: Number | None
    """The share of what is not in use that such pods cannot get: it is requested, or no such pod fits there. Null if nothing
    is idle."""


def idle_capacity(loaded: LoadedCluster, use: "RealUse") -> list[IdleCapacity]:
    """CPU and memory: requested, in use, and fragmented by both."""
    view = SchedulerView(loaded)
    nodes = view.cluster.nodes
    used = _used(view, use)
    shapes, _ = cut_shapes(weighed_shapes((pod, 1) for pod in loaded.pods()))
    by_requests, by_use = fragmentation_of(view, shapes), fragmentation_by_use(view, shapes, used)
    found, rows = [], slice(0, nodes.height)
    for name, amounts in used.items():
        place, known = nodes.amounts.resource(name), ~np.isnan(amounts)
        allocatable, requested = (
            int(column[place, rows][known].sum()) for column in (nodes.amounts.allocatable, nodes.amounts.requested)
        )
        shares = by_requests[name], by_use[name]
        used_of_all = int(amounts[known].sum())
        found.append(IdleCapacity(name, int(known.sum()), allocatable, requested, used_of_all, *shares))
    return found


def _used(view: SchedulerView, use: "RealUse") -> dict[str, Floats]:
    """By resource, the use of each row: the sum over its pods; NaN where pods are and none of them is known, and where no
    node is."""
    nodes = view.cluster.nodes
    used = np.full((len(MAIN), nodes.height), np.nan)
    for row in nodes.row_book.values():
        pods = [*nodes.pods_on[row]]
        known = [use[pod.key] for pod in pods if pod.key in use]
        if known or not pods:
            used[:, row] = np.array(known, np.float64).reshape(-1, len(MAIN)).sum(axis=0)
    return dict(zip(MAIN, used, strict=True))


def idle_table(found: Sequence[IdleCapacity]) -> AnswerTable:
    """A row for each resource."""
    rows = [
        (
            each.resource,
            *(show_amount(each.resource, amount) for amount in (each.allocatable, each.requested, each.used)),
            *map(show_percent, (each.fragmentation, each.fragmentation_by_use)),
        )
        for each in found
    ]
    heads = ("resource", "allocatable", "requested", "in use", "free but unusable", "idle but out of reach")
    return AnswerTable("Idle capacity", heads, rows)
