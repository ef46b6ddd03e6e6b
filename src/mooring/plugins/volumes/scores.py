"""How well the volumes of a pod fill what they are taken from, class by class (gate StorageCapacityScoring)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.kernels import along_shape, round_half_away
from mooring.cluster.nodes.offers import NONE
from mooring.framework.context import SchedulingContext
from mooring.framework.points import Rows, Scores
from mooring.model.quantity import parse, to_amount, to_int
from mooring.model.storage import PersistentVolumeClaim
from mooring.plugins.volumes.plan import VolumePlan, match_selector, topology_of

Ints = NDArray[np.int64]


def utilization(requested: Ints, capacity: Ints) -> Ints:
    """Percent, rounded down; more than there is counts as all of it.

    | requested | capacity | percent |
    | 30        | 100      | 30      |
    | 120       | 100      | 100     |
    | 1         | 0        | 100     |
    """
    return np.where(requested > capacity, 100, requested * 100 // np.maximum(capacity, 1))


def score_plan(context: SchedulingContext, plan: VolumePlan, rows: Rows, shape: Sequence[tuple[int, int]]) -> Scores:
    """By the volumes that exist; on nodes where all have to be provisioned, by the capacity that drivers report.

    Class by class: requested / capacity, mapped along the shape of the profile; a node's score is the mean over the
    classes that count there. Upstream's volumeCapacityScorer.
    """
    count = len(plan.codes)
    has_bindings = np.zeros(count, np.bool_)
    for choice in plan.choices:
        has_bindings |= choice.ranks != NONE
    static, dynamic = _bound_by_class(plan, count), _made_by_class(context, plan, rows, count)
    scores, counted = [], []
    for name in sorted({*static, *dynamic}):
        empty = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
        bound, made = static.get(name, empty), dynamic.get(name, empty)
        requested = np.where(has_bindings, bound[0], made[0])
        capacity = np.where(has_bindings, bound[1], made[1])
        percent = np.where(capacity == 0, 100, utilization(requested, capacity))
        scores.append(along_shape(percent, shape))
        counted.append(np.where(has_bindings, bound[2], made[2]))
    if not scores:
        return np.zeros(count, np.int64)
    total = (np.array(scores) * np.array(counted)).sum(0)
    return round_half_away(total / np.maximum(np.array(counted).sum(0), 1))


_Sums = dict[str, tuple[Ints, Ints, NDArray[np.bool_]]]
"""Class -> what is requested, what there is, and on which rows the class counts."""


def _bound_by_class(plan: VolumePlan, count: int) -> _Sums:
    """Sums over the claims that would get existing volumes."""
    sums: _Sums = {}
    for choice in plan.choices:
        name = choice.claim.class_name
        requested, capacity, counts = sums.setdefault(name, _nothing(count))
        is_bound = choice.ranks != NONE
        sizes = np.array([to_amount(volume.capacity_nano) for volume in choice.shelf.volumes] or [0], np.int64)
        kept = to_amount(choice.kept.capacity_nano) if choice.kept is not None else 0
        on_shelf = is_bound & (choice.ranks >= 0)
        requested += is_bound * to_amount(choice.claim.request_nano)
        capacity += np.where(on_shelf, sizes[np.where(on_shelf, choice.ranks, 0)], is_bound * kept)
        counts |= is_bound
    return sums


def _made_by_class(context: SchedulingContext, plan: VolumePlan, rows: Rows, count: int) -> _Sums:
    """Sums over the claims that would be provisioned; classes whose drivers report nothing are left out."""
    sums: _Sums = {}
    for claim in [*plan.settled, *(choice.claim for choice in plan.choices)]:
        room = _room_for(context, claim, rows, count)
        requested, capacity, counts = sums.setdefault(claim.class_name, _nothing(count))
        is_known = room >= 0
        requested += is_known * to_amount(claim.request_nano)
        capacity[is_known] = room[is_known]
        counts |= is_known
    return {name: each for name, each in sums.items() if each[2].any()}


def _room_for(context: SchedulingContext, claim: PersistentVolumeClaim, rows: Rows, count: int) -> Ints:
    """For each row the capacity of the first report, by name, that has room for the claim's volume; -1: none.

    Reports are written in reverse order of their names, so that the first one stands where several match.
    """
    storage = context.cluster.storage
    storage_class = storage.classes.get(claim.class_name)
    driver = storage.drivers.get(storage_class.provisioner) if storage_class is not None else None
    room = np.full(count, -1, np.int64)
    if driver is None or not driver.spec.storage_capacity:
        return room
    for key in sorted(storage.capacities, reverse=True):
        report = storage.capacities[key]
        size, selector = report.largest_volume_bytes, topology_of(report)
        if report.storage_class_name != claim.class_name or size is None or selector is None:
            continue
        if size >= to_int(claim.request_nano):
            room[match_selector(context.nodes, selector, rows)] = to_amount(parse(report.capacity or 0))
    return room


def _nothing(count: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    return np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_)
