"""A generated load: nodes, and pods that arrive over a day as they do in public traces, from a plan and its seed.

Such traces (Google's Borg, Alibaba's openb) have these in common, and so has a generated load: few templates have most of the
pods (Zipf), pods of a job arrive together, arrivals follow the time of the day, and run times spread over five orders of
magnitude (log-normal). The same plan gives the same load. Only uniform random numbers are drawn, and everything else is
computed from them here, because NumPy may change its distributions from release to release.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.validate import validate
from mooring.api.validation.problem import NOTHING_THERE, Problem, Problems
from mooring.inputs.admission import Admission
from mooring.inputs.arrivals import Arrival, PlannedChange
from mooring.inputs.load_plan import LoadPlan, LoadPlanError, NodePool
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.names import HOSTNAME, ZONE
from mooring.model.node import Node, node_like, tolerates_hard
from mooring.model.pod import Pod
from mooring.model.quantity import parse_or

GPU = "nvidia.com/gpu"
TEAMS = 40
"""How many namespaces the templates are spread over."""
DAY_NS = 24 * 3600 * NS_PER_S
FOR_EVER = -1
"""The run time of a pod that does not finish."""

_CPU_MILLI = ((100, 10), (250, 12), (500, 18), (1000, 20), (2000, 16), (4000, 12), (8000, 8), (16000, 4))
_GIB_PER_CPU = ((1, 15), (2, 30), (4, 40), (8, 15))
_GPUS = ((1, 60), (2, 20), (4, 12), (8, 8))
"""Amounts and their weights. Half of the pods of openb request up to 8 CPUs, most of Borg's below 1; these lie between."""
_MINUTES = 1440
"""The resolution of the rate of arrivals over a day."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(slots=True)
class LoadTemplate:
    """Pods of one kind. `pod` is admitted and has the name that those of its pods begin with."""

    pod: Pod
    is_service: bool


class GeneratedLoad:
    """The nodes of a plan, and its arrivals in the order of time. A pod exists only from its arrival on: until then a pod
    is a number in each of three columns.

    Raises LoadPlanError for a plan whose nodes or pods are not valid.
    """

    changes: Sequence[PlannedChange] = ()
    replaced: Collection[str] = ()

    def __init__(self, plan: LoadPlan, objects: Sequence[KubeObject] = ()) -> None:
        """`objects` are the cluster that the load comes to: its nodes are used too, its classes and limits apply."""
        self.nodes = [*_nodes(plan)]
        given = [item for item in objects if isinstance(item, Node)]
        problems = [*_node_problems(plan, {node.name for node in given})]
        if problems:
            raise LoadPlanError(problems)
        templates, pods = np.random.SeedSequence(plan.seed).spawn(2)
        self.templates = _Templates(plan, [*given, *self.nodes], Admission.of(objects), _Dice(templates)).make()
        taken = {item.key for item in objects if isinstance(item, Pod)}
        if taken:
            _rename(self.templates, taken)
        self._draw(plan, _Dice(pods))

    def _draw(self, plan: LoadPlan, dice: "_Dice") -> None:
        """Draw all arrivals: when, which template, and how long."""
        count, shares = plan.pods or 0, _shares(plan)
        sizes = _burst_sizes(count, plan.burst, dice)
        begins_ns = _arrival_times(len(sizes), plan, dice)
        which = np.searchsorted(np.cumsum(shares), dice.uniform(len(sizes)) * shares.sum(), "right")
        self.at_ns: Integers = np.repeat(begins_ns, sizes)
        self.which: Integers = np.repeat(np.minimum(which, len(shares) - 1), sizes).astype(np.int32)
        self.run_ns: Integers = self._run_times(plan, dice)
        self.over_ns = plan.ns("over")

    def _run_times(self, plan: LoadPlan, dice: "_Dice") -> Integers:
        """Half of the variance is between templates, half between the pods of one: jobs that repeat take similar times."""
        sigma = plan.run.sigma / np.sqrt(2)
        of_template = dice.normal(len(self.templates))
        logs = sigma * (of_template[self.which] + dice.normal(len(self.which)))
        run_ns: Integers = np.minimum(plan.ns("median") * np.exp(np.minimum(logs, 50)), plan.ns("longest")).astype(
            np.int64
        )
        is_service = np.array([template.is_service for template in self.templates])
        run_ns[is_service[self.which]] = FOR_EVER
        return run_ns

    def __len__(self) -> int:
        return len(self.at_ns)

    def __iter__(self) -> Iterator[Arrival]:
        """The arrivals in the order of time. Columns become Python numbers in blocks: a list of all would be large."""
        numbers = [0] * len(self.templates)
        stems = [(template.pod, f"{template.pod.name}-") for template in self.templates]
        for at_ns, which, run_ns in self._rows():
            pod, stem = stems[which]
            name = f"{stem}{numbers[which]}"
            numbers[which] += 1
            made = pod.with_name(name, f"{pod.metadata.namespace}/{name}")
            yield Arrival(at_ns, made, None if run_ns == FOR_EVER else run_ns)

    def _rows(self, block: int = 4096) -> Iterator[tuple[int, int, int]]:
        for begin in range(0, len(self), block):
            rows = slice(begin, begin + block)
            columns = (self.at_ns[rows].tolist(), self.which[rows].tolist(), self.run_ns[rows].tolist())
            yield from zip(*columns, strict=True)

    def pods(self) -> list[Pod]:
        """A pod of each template, for what depends on the template alone: namespaces."""
        return [template.pod for template in self.templates]

    def counts(self) -> list[int]:
        """How many pods of each template arrive."""
        counts: list[int] = np.bincount(self.which, minlength=len(self.templates)).tolist()
        return counts

    def candidates(self, name: str) -> list[Pod]:
        """The pods that arrive with this `namespace/name` or `name`; the first of each template if there is none."""
        counts = self.counts()
        stem, _, number = name.rpartition("-")
        there = [pod for pod, count in zip(self.pods(), counts, strict=True) if _is_number_below(number, count)]
        found = [_numbered(pod, number) for pod in there if stem in (pod.name, pod.key)]
        return found or [_numbered(pod, "0") for pod, count in zip(self.pods(), counts, strict=True) if count]


def _numbered(pod: Pod, number: str) -> Pod:
    return pod.with_name(f"{pod.name}-{number}", f"{pod.key}-{number}")


def _is_number_below(text: str, limit: int) -> bool:
    """Whether a text is a number as it is written in a name: without leading zeros."""
    return text.isascii() and text.isdecimal() and str(int(text[:20])) == text and int(text) < limit


# ---- nodes


def _node_problems(plan: LoadPlan, given: Collection[str]) -> Problems:
    if not given and not plan.nodes:
        yield Problem("nodes", NOTHING_THERE, "at least one pool of nodes, here or in another file")
    for i, pool in enumerate(plan.nodes):
        taken = next((name for name in given if _is_name_in(name, pool)), None)
        if taken is not None:
            yield Problem(f"nodes[{i}].name", f"the cluster has a node {taken} already; name the pool otherwise")


def _is_name_in(name: str, pool: NodePool) -> bool:
    stem, _, number = name.rpartition("-")
    return stem == pool.name and _is_number_below(number, pool.count)


def _nodes(plan: LoadPlan) -> Iterator[Node]:
    """The nodes of all pools, each in one of the zones in turn. Raises LoadPlanError for one that is not valid."""
    admission = Admission.of(())
    for i, pool in enumerate(plan.nodes):
        first = _node(pool, 0, plan.zones)
        admission.admit(first)
        problems = [problem.under(f"nodes[{i}]") for problem in validate(first)]
        if problems:
            raise LoadPlanError(problems)
        for number in range(pool.count):
            yield node_like(first, f"{pool.name}-{number}", _node_labels(pool, number, plan.zones))


def _node(pool: NodePool, number: int, zones: int) -> Node:
    """Node number `number` of a pool. Capacity and allocatable are the same, and the node is ready."""
    room = {"cpu": pool.cpu, "memory": pool.memory, "pods": str(pool.pods), **pool.resources}
    return msgspec.convert(
        {
            "metadata": {"name": f"{pool.name}-{number}", "labels": _node_labels(pool, number, zones)},
            "spec": {"taints": msgspec.to_builtins(pool.taints)},
            "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
        },
        Node,
    )


def _node_labels(pool: NodePool, number: int, zones: int) -> dict[str, str]:
    return {HOSTNAME: f"{pool.name}-{number}", ZONE: f"zone-{number % zones}", "pool": pool.name, **pool.labels}


# ---- templates


class _Templates:
    """Draws the templates of a plan for a cluster with these nodes."""

    def __init__(self, plan: LoadPlan, nodes: Sequence[Node], admission: Admission, dice: "_Dice") -> None:
        self._plan, self._admission, self._dice = plan, admission, dice
        self._zones = [*dict.fromkeys(node.labels[ZONE] for node in nodes if ZONE in node.labels)]
        self._room = _largest([node for node in nodes if tolerates_hard((), node.taints)])
        self._gpu_room = _largest([node for node in nodes if GPU in (node.status.allocatable or {})])

    def make(self) -> list[LoadTemplate]:
        plan, shares = self._plan, _shares(self._plan)
        is_gpu = self._pick(shares, plan.gpu)
        is_service = self._pick(np.where(is_gpu, 0, shares), plan.services, shares.sum())
        is_zonal, is_spread = self._pick(shares, plan.zonal), self._pick(shares, plan.spread)
        kinds = zip(is_gpu.tolist(), is_service.tolist(), is_zonal.tolist(), is_spread.tolist(), strict=True)
        return [self._template(number, *kind) for number, kind in enumerate(kinds)]

    def _pick(self, shares: Floats, wanted: float, total: float | None = None) -> NDArray[np.bool_]:
        """Templates in random order as long as their shares add up to at most `wanted`; none without a share."""
        left = wanted * (shares.sum() if total is None else total) * (1 + 1e-9)
        picked = np.zeros(len(shares), bool)
        for i in np.argsort(self._dice.uniform(len(shares)), kind="stable").tolist():
            if 0 < shares[i] <= left:
                left -= shares[i]
                picked[i] = True
        return picked

    def _template(self, number: int, is_gpu: bool, is_service: bool, is_zonal: bool, is_spread: bool) -> LoadTemplate:
        """One template with its requests, priority and constraints. Raises LoadPlanError if the cluster rejects it."""
        dice, name = self._dice, f"{'service' if is_service else 'job'}-{number:04d}"
        spec: dict[str, object] = {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": self._requests(is_gpu)}}],
            "priority": dice.choose(((100, 80), (1000, 20))) if is_service else 0,
        }
        zone, team = dice.below(max(len(self._zones), 1)), dice.below(TEAMS)
        if is_zonal and self._zones:
            spec["nodeSelector"] = {ZONE: self._zones[zone]}
        if is_gpu:
            spec["tolerations"] = [{"key": GPU, "operator": "Exists"}]
        if is_spread:
            selector = {"matchLabels": {"app": name}}
            constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
            spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": selector}]
        metadata = {"name": name, "namespace": f"team-{team:02d}", "labels": {"app": name}}
        pod = msgspec.convert({"metadata": metadata, "spec": spec}, Pod)
        problems = [problem.at(f"Pod {pod.key}") for problem in self._admission.admit(pod) + validate(pod)]
        if problems:
            raise LoadPlanError(problems)
        return LoadTemplate(pod, is_service)

    def _requests(self, is_gpu: bool) -> dict[str, str]:
        """Requests that fit on half of the largest node, so that no pod is too large for the cluster. Only pods that request
        GPUs tolerate taints."""
        dice = self._dice
        gpus, milli, ratio = dice.choose(_GPUS), dice.choose(_CPU_MILLI), dice.choose(_GIB_PER_CPU)
        most_milli, most_mib = self._gpu_room if is_gpu else self._room
        milli = max(min(8000 * gpus if is_gpu else milli, most_milli // 2), 1)
        mib = max(min(milli * ratio * 1024 // 1000, most_mib // 2), 1)
        return {"cpu": f"{milli}m", "memory": f"{mib}Mi", **({GPU: str(gpus)} if is_gpu else {})}


def _largest(nodes: Sequence[Node]) -> tuple[int, int]:
    """The most CPU in milli-CPU, and the most memory in MiB, that one of the nodes has."""
    rooms = [node.status.allocatable or {} for node in nodes]
    milli = max((parse_or(room.get("cpu", 0), 0) for room in rooms), default=0) // 1_000_000
    mib = max((parse_or(room.get("memory", 0), 0) for room in rooms), default=0) // (1_000_000_000 << 20)
    return milli, mib


def _rename(templates: Sequence[LoadTemplate], taken: set[str]) -> None:
    """Give templates whose pods could have the name of a pod of the cluster another name."""
    stems = {key.rpartition("-")[0] for key in taken}
    for template in templates:
        while template.pod.key in stems:
            name = f"{template.pod.name}-x"
            template.pod = template.pod.with_name(name, f"{template.pod.namespace}/{name}")


def _shares(plan: LoadPlan) -> Floats:
    """The weights of templates, the most popular first: 1, 1/2^s, 1/3^s, ..."""
    return np.arange(1, plan.templates + 1, dtype=np.float64) ** -plan.popularity


# ---- arrivals


def _burst_sizes(pods: int, mean: float, dice: "_Dice") -> Integers:
    """How many pods arrive at once, geometric with this mean, for `pods` in all; the last burst is cut."""
    sizes = np.zeros(0, np.int64)
    while (total := int(sizes.sum())) < pods:
        more = dice.geometric(int((pods - total) / mean * 1.05) + 16, mean)
        sizes = np.concatenate([sizes, more])
    ends = np.cumsum(sizes)
    count = int(np.searchsorted(ends, pods)) + 1
    sizes = sizes[:count].copy()
    sizes[-1] -= ends[count - 1] - pods
    return sizes


def _arrival_times(count: int, plan: LoadPlan, dice: "_Dice") -> Integers:
    """Times with the density 1 + swing * cos(time since the peak), in order: uniform numbers through the inverse of its
    integral."""
    over_ns, peak_ns = plan.ns("over"), plan.ns("peak")
    points = max(int(over_ns / DAY_NS * _MINUTES), _MINUTES) + 1
    times = np.linspace(0, over_ns, min(points, 1_000_000))
    turn = 2 * np.pi / DAY_NS
    passed = times + plan.swing / turn * (np.sin(turn * (times - peak_ns)) + np.sin(turn * peak_ns))
    drawn = np.sort(dice.uniform(count)) * passed[-1]
    found: Integers = np.interp(drawn, passed, times).astype(np.int64)
    return found


class _Dice:
    """Random numbers from uniform ones, which NumPy gives the same for a seed in all releases."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._random = np.random.Generator(np.random.PCG64(seed))

    def uniform(self, count: int) -> Floats:
        """From 0 up to, but not, 1."""
        return self._random.random(count)

    def normal(self, count: int) -> Floats:
        """Standard normal, by Box and Muller."""
        radius = np.sqrt(-2 * np.log1p(-self.uniform(count)))
        found: Floats = radius * np.cos(2 * np.pi * self.uniform(count))
        return found

    def geometric(self, count: int, mean: float) -> Integers:
        """Whole numbers from 1 with this mean."""
        if mean <= 1:
            return np.ones(count, np.int64)
        found: Integers = 1 + (np.log1p(-self.uniform(count)) / np.log1p(-1 / mean)).astype(np.int64)
        return found

    def below(self, count: int) -> int:
        return int(self._random.random() * count)

    def choose(self, weighted: Sequence[tuple[int, int]]) -> int:
        """One of the values, by weight."""
        left = self._random.random() * sum(weight for _, weight in weighted)
        for value, weight in weighted:
            left -= weight
            if left < 0:
                return value
        return weighted[-1][0]
