"""Room that is requested and not used: workloads whose pods request far more than they use, and real use of the nodes
beside what is requested, with the part of the idle rest that pods can get.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mooring.answers.form.answer import AnswerTable
from mooring.answers.form.published import Count, Form, Number, Positive
from mooring.answers.trial.counterfactual import SchedulerView
from mooring.answers.trial.workload_book import WorkloadBook
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import count
from mooring.model.pod import Pod
from mooring.model.quantity import show_amount, show_percent
from mooring.model.requests import HELD, effective_requests, to_units
from mooring.model.workloads import ReplicaSet
from mooring.sim.fragmentation import Floats, cut_shapes, fragmentation_by_use, fragmentation_of, weighed_shapes
from mooring.sim.gauge import MAIN

if TYPE_CHECKING:
    from mooring.inputs.real_use import InUse, RealUse


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


FAR_ABOVE = 3
"""A request is far above use from three times the use on: pods vary by a factor of two over a day."""
LEAST = {"cpu": 500, "memory": 512 << 20}
"""Unused amounts below these (half a cpu, 512Mi) are not worth a line: what a workload could give up fits nobody else."""


class UnusedRequest(Form, frozen=True):
    """The pods of one workload request an amount of a resource, and use another. Amounts are in the units of the resource:
    cpu in milli, memory in bytes."""

    workload: str
    """`Deployment shop/web`, or the pod itself."""
    pods: Positive
    """Pods on nodes that the source of real use knows."""
    resource: str
    requested: Count
    """The sum over these pods."""
    used: Count
    """The sum over these pods."""
    largest_use: Count
    """Of one pod."""

    @property
    def unused(self) -> int:
        return self.requested - self.used

    def sentence(self) -> str:
        """One line for the user."""
        requested, used, largest = (
            show_amount(self.resource, amount) for amount in (self.requested, self.used, self.largest_use)
        )
        return (
            f"{self.workload} requests {requested} {self.resource} for {count(self.pods, 'pod')} and uses {used}"
            f" (at most {largest} a pod)"
        )


def unused_requests(loaded: LoadedCluster, use: "RealUse") -> list[UnusedRequest]:
    """Workloads that request far more than they use, by resource, the largest share of the cluster's requests first."""
    book = _book(loaded)
    amounts: dict[tuple[str, str], list[tuple[int, int]]] = {}
    whole = dict.fromkeys(LEAST, 0)
    for pod, used in _measured(loaded.pods(), use):
        requests = to_units(effective_requests(pod, HELD))
        name = str(book.owner(pod) or f"Pod {pod.key}")
        for resource, amount in zip(LEAST, used, strict=True):
            requested = requests.get(resource, 0)
            whole[resource] += requested
            amounts.setdefault((name, resource), []).append((requested, amount))
    found = []
    for (name, resource), own in amounts.items():
        requested, in_use = (sum(column) for column in zip(*own, strict=True))
        if requested >= FAR_ABOVE * in_use and requested - in_use >= LEAST[resource]:
            largest = max(amount for _, amount in own)
            found.append(UnusedRequest(name, len(own), resource, requested, in_use, largest))
    return sorted(found, key=lambda each: (-each.unused / whole[each.resource], each.workload, each.resource))


NOTED = 3
"""How many workloads an explanation of one pod names besides its own."""


def unused_notes(loaded: LoadedCluster, use: "RealUse", pod: Pod | None = None) -> list[str]:
    """Sentences about requests far above use: those of the workload of this pod, then the largest."""
    own = str(_book(loaded).owner(pod) or f"Pod {pod.key}") if pod is not None else ""
    found = sorted(unused_requests(loaded, use), key=lambda each: each.workload != own)
    mine = sum(each.workload == own for each in found)
    return [f"A request far above use: {each.sentence()}" for each in found[: mine + NOTED]]


def _book(loaded: LoadedCluster) -> WorkloadBook:
    replica_sets = {item.key: item for item in loaded.objects if isinstance(item, ReplicaSet)}
    return WorkloadBook(loaded.workloads, lambda kind, key: replica_sets.get(key) if kind == "ReplicaSet" else None)


def _measured(pods: Iterable[Pod], use: "RealUse") -> Iterable[tuple[Pod, "InUse"]]:
    """The pods on nodes whose use is known."""
    return ((pod, use[pod.key]) for pod in pods if pod.spec.node_name and pod.key in use)


def unused_table(found: Sequence[UnusedRequest]) -> AnswerTable:
    """A row for each workload and resource."""
    rows = [
        (
            each.workload,
            each.pods,
            each.resource,
            *(show_amount(each.resource, amount) for amount in (each.requested, each.used, each.largest_use)),
        )
        for each in found
    ]
    return AnswerTable(
        "Requests far above use", ("workload", "pods", "resource", "requested", "used", "most of a pod"), rows
    )
