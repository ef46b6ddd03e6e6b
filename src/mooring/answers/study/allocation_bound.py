"""The most of a resource that pods can get: a bound that no placement of them on these nodes exceeds.

A small problem is solved exactly, by an integer program: how many pods of each template each node gets. A large one is
relaxed to a linear program: equal nodes count as one large node, and pods can be divided. Cuts keep the relaxation close to
whole pods on single nodes; every real placement satisfies them. Where pods share devices, cuts for devices do the same.
"""

from dataclasses import dataclass, replace
from math import floor, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.programs import ProgramRows, linear_program, whole_program

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

EXACT_PODS, EXACT_NODES = 40, 8
"""Up to this many pods and nodes the integer program is tried. 60 random problems of this size, with up to 40 templates and
four resources, took 0.1 s of CPU time as a median and 3.9 s at most."""
BRANCHES = 2_000
"""How many nodes of its search tree the solver visits: enough for those 60 problems. If it ends early, the bound is that of
the search so far. A limit by time would give other bounds on other machines."""
CUTS = (1, 2, 3, 4, 7)
"""The numbers k of the cuts of `cut_weights`. Nodes have up to 8 devices, and a pod may ask for any number of them."""
_ROUNDING = 1e-9
"""The relative error that the floats of a solver may have; bounds are rounded up by it."""


@dataclass(frozen=True, slots=True)
class SharedDevices:
    """Devices of which pods take shares: a pod takes as much of each of so many devices of one node."""

    size: int
    """How much a whole device has."""
    shares: Integers
    """By template: the share of each device."""
    counts: Integers
    """By template: how many devices one pod takes; 0: none."""
    devices: Integers
    """By node: how many devices it has."""

    def weights(self, devices: int) -> list[NDArray[np.float64]]:
        """By template: weights of pods of which those on a node with so many devices have at most 1 together. What shares one
        device has weights of at most 1 there (`cut_weights`), so all devices together have at most their number."""
        if not devices:
            return []
        return [self.counts * cut_weights(self.shares, self.size, k) / devices for k in CUTS]

    @property
    def are_divided(self) -> bool:
        """Whether a pod takes less than a whole device: then the program over nodes does not see which device it takes."""
        return bool(((self.shares < self.size) & (self.counts > 0)).any())


@dataclass(frozen=True, slots=True)
class PodsAndNodes:
    """Pods by template, and the nodes that they can go to. Resources are columns, slots for pods one of them."""

    requests: Integers
    """Templates x resources: what one pod requests."""
    counts: Integers
    """How many pods each template has."""
    free: Integers
    """Nodes x resources: what nodes have left."""
    allowed: Mask
    """Templates x nodes: the nodes that the rules of the scheduler let a pod use."""
    devices: SharedDevices | None = None
    """None: amounts alone count."""


@dataclass(frozen=True, slots=True)
class AllocationBound:
    """An amount of a resource that no placement exceeds."""

    amount: int
    is_exact: bool
    """Whether a placement reaches the amount."""


def most_allocated(given: PodsAndNodes, resource: int) -> AllocationBound:
    """The most of a resource, by column, that pods can get. Raises SolverMissing."""
    found = _reduced(given, resource)
    if found is None:
        return AllocationBound(0, True)
    problem, unit = found
    relaxed = _relaxed(problem, resource)
    bound = AllocationBound(relaxed, False)
    if int(problem.counts.sum()) <= EXACT_PODS and len(problem.free) <= EXACT_NODES:
        bound = _searched(problem, resource, relaxed)
    return AllocationBound(bound.amount * unit, bound.is_exact)


def _reduced(given: PodsAndNodes, resource: int) -> tuple[PodsAndNodes, int] | None:
    """An equal problem with smaller numbers, and the unit of the resource in it. None: no pod can get any of it.

    Pods that do not ask for the resource are left out, because they only take room. Templates that are alike are one. Amounts
    are counted in the greatest common divisor of all requests: so numbers are small, and the solver makes no rounding errors.
    """
    fits = given.allowed & _fitting(given.requests, given.free)
    kept = (given.requests[:, resource] > 0) & (given.counts > 0) & fits.any(axis=1)
    if not kept.any():
        return None
    requests, counts, fits = given.requests[kept], given.counts[kept], fits[kept]
    used = fits.any(axis=0)
    fits, free = fits[:, used], np.maximum(given.free[used], 0)
    unit = np.maximum(np.gcd.reduce(requests, axis=0), 1)
    asked = _asked_of_devices(given)[kept]
    alike, group = np.unique(np.hstack([requests // unit, asked, fits]), axis=0, return_inverse=True)
    columns = requests.shape[1]
    total = np.zeros(len(alike), np.int64)
    np.add.at(total, group.reshape(-1), counts)
    devices = given.devices
    if devices is not None:
        shares, taken = alike[:, columns], alike[:, columns + 1]
        devices = replace(devices, shares=shares, counts=taken, devices=devices.devices[used])
    problem = PodsAndNodes(alike[:, :columns], total, free // unit, alike[:, columns + 2 :] > 0, devices)
    return problem, int(unit[resource])


def _asked_of_devices(given: PodsAndNodes) -> Integers:
    """Templates x 2: the share of each device and the number of devices; 0 where none are declared."""
    devices = given.devices
    if devices is None:
        return np.zeros((len(given.requests), 2), np.int64)
    return np.stack([devices.shares, devices.counts], axis=1)


def _fitting(requests: Integers, free: Integers) -> Mask:
    """Templates x nodes: whether one pod fits on the node. A pod fits that asks for nothing of what is overused."""
    fits: Mask = np.ones((len(requests), len(free)), np.bool_)
    for request, room in zip(requests.T, free.T, strict=True):
        fits &= (request[:, None] <= room[None, :]) | (request[:, None] == 0)
    return fits


# ---- the integer program


def _searched(problem: PodsAndNodes, resource: int, relaxed: int) -> AllocationBound:
    """The best placement; or, if the search ends early, the better one of its bound and the relaxation."""
    templates, nodes = np.nonzero(problem.allowed)
    high = np.minimum(problem.counts[templates], _at_most(problem.requests, problem.free)[templates, nodes])
    worth = problem.requests[templates, resource]
    rows = ProgramRows()
    for template, count in enumerate(problem.counts.tolist()):
        rows.add(dict.fromkeys(np.flatnonzero(templates == template).tolist(), 1.0), count)
    for node, free in enumerate(problem.free):
        there = np.flatnonzero(nodes == node)
        for request, room in zip(problem.requests[templates[there]].T, free.tolist(), strict=True):
            rows.add({at: float(each) for at, each in zip(there.tolist(), request.tolist(), strict=True) if each}, room)
        if problem.devices is not None:
            for weights in problem.devices.weights(int(problem.devices.devices[node])):
                rows.add({at: float(weights[templates[at]]) for at in there.tolist() if weights[templates[at]]}, 1)
    whole, matrix = np.ones(len(worth)), rows.matrix(len(worth))
    found = whole_program(-worth.astype(np.float64), whole, high, matrix, (rows.low, rows.high), 0.0, BRANCHES)
    amount = -1 if found.x is None else int(worth @ np.rint(found.x).astype(np.int64))
    is_seen = problem.devices is None or not problem.devices.are_divided
    if found.status == 0 or amount >= relaxed:
        return AllocationBound(min(amount, relaxed) if not is_seen else amount, is_seen)
    dual = found.mip_dual_bound
    bound = relaxed if dual is None or not isfinite(dual) else min(relaxed, _rounded_up(-dual))
    return AllocationBound(bound, is_seen and bound == amount)


def _at_most(requests: Integers, free: Integers) -> Integers:
    """Templates x nodes: how many pods of a template fit on a node."""
    most = np.full((len(requests), len(free)), np.iinfo(np.int64).max)
    for request, room in zip(requests.T, free.T, strict=True):
        asks = request > 0
        most[asks] = np.minimum(most[asks], room[None, :] // request[asks, None])
    return most


def _rounded_up(amount: float) -> int:
    """The largest whole amount that is not above the bound of a solver."""
    return floor(amount + _ROUNDING * (1 + abs(amount)))


# ---- the relaxation


def _relaxed(problem: PodsAndNodes, resource: int) -> int:
    """A bound from the linear program over templates and groups of equal nodes."""
    columns = problem.free.shape[1]
    devices = problem.devices.devices if problem.devices is not None else np.zeros(len(problem.free), np.int64)
    alike, sizes = np.unique(np.hstack([problem.free, devices[:, None], problem.allowed.T]), axis=0, return_counts=True)
    free, allowed = alike[:, :columns], alike[:, columns + 1 :].T > 0
    templates, groups = np.nonzero(allowed)
    fit = _at_most(problem.requests, free)[templates, groups]
    high = np.minimum(problem.counts[templates], fit * sizes[groups]).astype(np.float64)
    rows = ProgramRows()
    for template, count in enumerate(problem.counts.tolist()):
        rows.add(dict.fromkeys(np.flatnonzero(templates == template).tolist(), 1.0), count)
    for group, size in enumerate(sizes.tolist()):
        there = np.flatnonzero(groups == group)
        for request, room in zip(problem.requests[templates[there]].T, free[group].tolist(), strict=True):
            for weights in _weights(request, room):
                rows.add({at: each for at, each in zip(there.tolist(), weights.tolist(), strict=True) if each}, size)
        if problem.devices is not None:
            for weights in problem.devices.weights(int(alike[group, columns])):
                rows.add({at: float(weights[templates[at]]) for at in there.tolist() if weights[templates[at]]}, size)
    worth = problem.requests[templates, resource].astype(np.float64)
    matrix, most = rows.matrix(len(worth)), np.array(rows.high, np.float64)
    return _rounded_up(_bound_by_duals(linear_program(-worth, matrix, most, high), worth, matrix, most, high))


def _weights(request: Integers, room: int) -> list[NDArray[np.float64]]:
    """Weights of pods of which those on one node have at most 1 together: shares of the room, and the cuts that say more."""
    if not room or not request.any():
        return []
    shares = request / room
    cuts = {cut.tobytes(): cut for cut in (cut_weights(request, room, k) for k in CUTS) if (cut > shares).any()}
    return [shares, *cuts.values()]


def cut_weights(request: Integers, room: int, k: int) -> NDArray[np.float64]:
    """By pod: `floor((k + 1) * request / room) / k`, or the share of the room where the division leaves no rest.

    Whatever fits on a node together has weights of at most 1 (the dual feasible functions of Fekete and Schepers). With
    k = 1, pods that ask for more than half of the room weigh 1: a node has one of them at most.

    | request     | room | k | weights         |
    | 6 5 4       | 10   | 1 | 1   1/2 0       |
    | 6 5 4       | 10   | 2 | 1/2 1/2 1/2     |
    """
    whole, rest = np.divmod((k + 1) * request, room)
    weights: NDArray[np.float64] = np.where(rest == 0, request / room, whole / k)
    return weights


def _bound_by_duals(
    found: Any, worth: NDArray[np.float64], rows: Any, most: NDArray[np.float64], high: NDArray[np.float64]
) -> float:
    """A bound that holds however exact the solver was: any prices of rows give one, and the duals give the best."""
    prices = np.maximum(-found.ineqlin.marginals, 0) if found.status == 0 else np.zeros(len(most))
    return float(prices @ most + np.maximum(worth - rows.T @ prices, 0) @ high)
