"""The bound beside the policies of a study: what no placement of the pods that arrive one by one could exceed.

A small problem is solved exactly, by an integer program: how many pods of each template each node gets. A large one is
relaxed to a linear program: equal nodes count as one large node, and pods can be divided. Cuts keep the relaxation close to
whole pods on single nodes; every real placement satisfies them. Where pods share devices, cuts for devices do the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.programs import ProgramRows, linear_program, whole_program
from mooring.answers.study.study_inputs import StudyInputs, arriving_pods
from mooring.answers.study.study_metrics import amount_in
from mooring.answers.study.study_plan import StudyPlan
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.resource_amounts import NOWHERE
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.special_points import DeviceSharing
from mooring.model.pod import Pod
from mooring.sim.fragmentation import fitting_nodes
from mooring.sim.scenario import OneByOne

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
    rows = _rows_of_counts(problem, templates)
    for node, free in enumerate(problem.free):
        there = np.flatnonzero(nodes == node)
        for request, room in zip(problem.requests[templates[there]].T, free.tolist(), strict=True):
            rows.add({at: float(each) for at, each in zip(there.tolist(), request.tolist(), strict=True) if each}, room)
        if problem.devices is not None:
            _add_devices(rows, problem.devices, int(problem.devices.devices[node]), templates, there)
    whole, matrix = np.ones(len(worth)), rows.matrix(len(worth))
    found = whole_program(-worth.astype(np.float64), whole, high, matrix, (rows.low, rows.high), 0.0, BRANCHES)
    amount = -1 if found.x is None else int(worth @ np.rint(found.x).astype(np.int64))
    is_seen = problem.devices is None or not problem.devices.are_divided
    if found.status == 0 or amount >= relaxed:
        return AllocationBound(min(amount, relaxed) if not is_seen else amount, is_seen)
    dual = found.mip_dual_bound
    bound = relaxed if dual is None or not isfinite(dual) else min(relaxed, _rounded_up(-dual))
    return AllocationBound(bound, is_seen and bound == amount)


def _rows_of_counts(problem: PodsAndNodes, templates: NDArray[np.intp]) -> ProgramRows:
    """A row for each template: no more pods than it has. `templates` are those of the variables of the program."""
    rows = ProgramRows()
    for template, count in enumerate(problem.counts.tolist()):
        rows.add(dict.fromkeys(np.flatnonzero(templates == template).tolist(), 1.0), count)
    return rows


def _add_devices(
    rows: ProgramRows,
    devices: SharedDevices,
    count: int,
    templates: NDArray[np.intp],
    there: NDArray[np.intp],
    nodes: int = 1,
) -> None:
    """Rows for so many devices on each of some equal nodes; `there` are the variables of pods on them."""
    for weights in devices.weights(count):
        rows.add({at: float(weights[templates[at]]) for at in there.tolist() if weights[templates[at]]}, nodes)


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
    rows = _rows_of_counts(problem, templates)
    for group, size in enumerate(sizes.tolist()):
        there = np.flatnonzero(groups == group)
        for request, room in zip(problem.requests[templates[there]].T, free[group].tolist(), strict=True):
            for weights in _weights(request, room):
                rows.add({at: each for at, each in zip(there.tolist(), weights.tolist(), strict=True) if each}, size)
        if problem.devices is not None:
            _add_devices(rows, problem.devices, int(alike[group, columns]), templates, there, size)
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
    return np.where(rest == 0, request / room, whole / k)


def _bound_by_duals(
    found: Any, worth: NDArray[np.float64], rows: Any, most: NDArray[np.float64], high: NDArray[np.float64]
) -> float:
    """A bound that holds however exact the solver was: any prices of rows give one, and the duals give the best."""
    prices = np.maximum(-found.ineqlin.marginals, 0) if found.status == 0 else np.zeros(len(most))
    return float(prices @ most + np.maximum(worth - rows.T @ prices, 0) @ high)


EXACT, RELAXATION = "exact", "relaxation"


# ---- the bound of one run of a study


@dataclass(frozen=True, slots=True)
class StudyBound:
    """The bounds of the metrics of a run, by column, and whether all of them can be reached."""

    values: Mapping[str, float | None]
    pods: int
    """How many pods arrived."""
    kind: str


def bound_of(inputs: StudyInputs, plan: StudyPlan) -> StudyBound:
    """The most of each resource that a policy could allocate to the pods that arrive in a run.

    A placement may put a pod on any node that the filters of one of the configurations let it use in the empty cluster, as
    long as requests do not exceed what nodes have, and single devices have room where plugins of all configurations declare
    it (`DeviceSharing`). What plugins ask for beyond that is left out: the bound holds nevertheless. Raises InputError,
    ConfigError and SolverMissing.
    """
    metrics = [metric for metric in inputs.study.metrics if metric.is_bounded]
    cluster = Cluster(inputs.cluster(plan.cluster).loaded.gates)
    for item in inputs.cluster(plan.cluster).objects:
        cluster.put(item)
    pods = [*arriving_pods(inputs.workload(plan.workload, plan.cluster), plan, cluster)]
    kinds = Counter((id(pod.shape), pod.spec.scheduler_name) for pod in pods)
    templates = [*{(id(pod.shape), pod.spec.scheduler_name): pod for pod in reversed(pods)}.items()]
    counts = [kinds[key] for key, _ in templates]
    resources = [*dict.fromkeys(metric.of for metric in metrics)]
    given, names = _problem(inputs, plan, cluster, [pod for _, pod in templates], counts)
    found = {name: most_allocated(given, names.index(name)) for name in resources if name in names}
    values: dict[str, float | None] = {}
    for metric in metrics:
        room, held = (amount_in(cluster, metric.of, is_requested=each) for each in (False, True))
        added = found[metric.of].amount if metric.of in found else 0
        values[metric.column] = 100 * (held + added) / room if room else None
    is_exact = all(bound.is_exact for bound in found.values())
    return StudyBound(values, len(pods), EXACT if is_exact else RELAXATION)


def _problem(
    inputs: StudyInputs, plan: StudyPlan, cluster: Cluster, pods: Sequence[Pod], counts: Iterable[int]
) -> tuple[PodsAndNodes, list[str]]:
    """The pods and nodes of a run, and the names of the resources. Slots for pods are the last column."""
    nodes = cluster.nodes
    asked = dict.fromkeys(name for pod in pods for name in pod.shape.request)
    names = [name for name, place in zip(asked, nodes.amounts.places(asked), strict=True) if place != NOWHERE]
    places = nodes.amounts.places(names)
    rows = np.flatnonzero(nodes.alive[: nodes.height])
    free = (nodes.amounts.allocatable - nodes.amounts.requested)[places][:, rows]
    slots = nodes.allowed_pods[rows] - nodes.pod_count[rows]
    requests = [[*(pod.shape.request.get(name, 0) for name in names), 1] for pod in pods]
    allowed, sharing = _allowed(inputs, plan, pods, [nodes.names[row] for row in rows.tolist()])
    devices = None
    if sharing is not None and sharing.device_resource in names:
        wanted = [sharing.device_request(pod) for pod in pods]
        devices = SharedDevices(
            sharing.device_size,
            np.array([each.share if each.count else 0 for each in wanted], np.int64),
            np.array([each.count for each in wanted], np.int64),
            np.array([sharing.device_count(node) for row in rows.tolist() if (node := nodes.nodes[row])], np.int64),
        )
    given = PodsAndNodes(
        np.array(requests, np.int64).reshape(len(pods), len(names) + 1),
        np.array([*counts], np.int64),
        np.vstack([free, slots]).T,
        allowed,
        devices,
    )
    return given, names


def _allowed(
    inputs: StudyInputs, plan: StudyPlan, pods: Sequence[Pod], names: Sequence[str]
) -> tuple[Mask, DeviceSharing | None]:
    """Pods x nodes: whether the filters of a configuration let the pod use the node of that name while no pods are there.
    Other pods only make filters stricter, as long as pods do not ask to be near others; those of tables do not. And the
    plugin that declares devices, if each configuration has it for each pod."""
    declared: set[type[DeviceSharing] | None] = set()
    sharing: DeviceSharing | None = None
    loaded = inputs.cluster(plan.cluster).loaded
    objects = [item for item in loaded.objects if not isinstance(item, Pod)]
    allowed = np.zeros((len(pods), len(names)), np.bool_)
    for place, entry in enumerate(inputs.study.configurations):
        config = inputs.config(replace(plan, config=place), loaded.gates)
        empty = OneByOne(objects, config, inputs.registry(entry), loaded.gates)
        row_of = {name: row for row, name in enumerate(empty.cluster.nodes.names)}
        rows = [row_of[name] for name in names]
        for at, pod in enumerate(pods):
            allowed[at] |= fitting_nodes(empty, pod)[rows]
            sharing = _sharing(empty.runner(pod))
            declared.add(None if sharing is None else type(sharing))
    return allowed, sharing if len({each and each.name for each in declared}) == 1 else None


def _sharing(runner: Runner | None) -> DeviceSharing | None:
    """The filter of a profile that declares devices."""
    return next((each for each in runner.filters if isinstance(each, DeviceSharing)), None) if runner else None
