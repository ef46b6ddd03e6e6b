"""A plan of a generated load: nodes, and pods that arrive over a day as in public traces; read from a small YAML file.

`inputs/generated_load.py` generates what a plan describes. All fields but `pods` have defaults:

    seed: 1                  # another seed gives another load of the same kind
    pods: 1000000            # how many pods arrive ...
    over: 24h                # ... during this time
    templates: 400           # how many templates they have
    popularity: 1.0          # the n-th most popular template has a share of 1/n^popularity of the pods
    burst: 4                 # how many pods of a template arrive at once, as a mean
    swing: 0.5               # how much the rate of arrivals rises and falls over 24 hours: 0.5 is 50 % to 150 %
    peak: 14h                # when the rate is highest
    run: {median: 10m, sigma: 2, longest: 168h}   # run times, log-normal
    services: 0.3            # the share of the pods that run for ever
    gpu: 0.05                # ... that request nvidia.com/gpu
    zonal: 0.1               # ... that are bound to a zone by their node selector
    spread: 0.05             # ... whose templates spread over zones
    zones: 3
    nodes:                   # added to the nodes of other files
      - {name: small, count: 60000, cpu: 16, memory: 64Gi}
      - name: gpu
        count: 1000
        cpu: 64
        memory: 512Gi
        resources: {nvidia.com/gpu: 8}
        labels: {accelerator: a100}
        taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import field

from mooring.api.decode import decode_as
from mooring.api.validation.problem import NOTHING_THERE, Problem, Problems, at_key, show
from mooring.framework.config.durations import parse_duration
from mooring.inputs.field_checks import unknown_fields
from mooring.inputs.input_errors import InputError
from mooring.inputs.lines import DURATION_FORM, on_lines, read_own_file
from mooring.model.meta import Wire
from mooring.model.node import Taint
from mooring.model.quantity import QuantityError, QuantityText, parse

MAX_BYTES = 1 << 20
MAX_PODS = 10_000_000
"""A pod takes 24 bytes before it arrives, so the plan of so many takes 240 MB."""
MAX_NODES = 1_000_000
MAX_TEMPLATES = 100_000
MAX_BURST = 10_000


class LoadPlanError(InputError):
    """A plan that cannot be used."""


class RunTimes(Wire):
    """How long pods run: a log-normal distribution, cut at `longest`. The defaults are near those of the openb trace."""

    median: Any = "10m"
    sigma: float = 2.0
    """The standard deviation of the logarithm: with 2, one pod in ten runs longer than 13 times the median."""
    longest: Any = "168h"


class NodePool(Wire):
    """Nodes of one kind; they are named `<name>-0`, `<name>-1`, ..."""

    name: str = "node"
    count: int = 1
    cpu: QuantityText = "32"
    memory: QuantityText = "128Gi"
    pods: int = 110
    resources: dict[str, QuantityText] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Taint] = field(default_factory=list)
    """As in a Node. Pods that request nvidia.com/gpu tolerate taints with that key."""


class LoadPlan(Wire):
    """A description of nodes and pods to generate; the module says what each field means."""

    seed: int = 1
    pods: int | None = None
    over: Any = "24h"
    templates: int = 400
    popularity: float = 1.0
    burst: float = 4.0
    swing: float = 0.5
    peak: Any = "14h"
    run: RunTimes = field(default_factory=RunTimes)
    services: float = 0.3
    gpu: float = 0.0
    zonal: float = 0.0
    spread: float = 0.0
    zones: int = 3
    nodes: list[NodePool] = field(default_factory=list)

    def ns(self, name: str) -> int:
        """A duration in nanoseconds: `over`, `peak`, or `median` and `longest` of the run times."""
        found = parse_duration(getattr(self.run if name in _RUN_TIMES else self, name))
        assert found is not None, "a plan is checked when it is read"
        return found


_RUN_TIMES = ("median", "longest")


def read_load_plan(given: str | os.PathLike[str] | Mapping[str, Any]) -> LoadPlan:
    """The plan in a YAML file, or in a dictionary of the same form. Raises LoadPlanError with all problems, those of a file
    with their lines."""
    if isinstance(given, Mapping):
        return load_plan_of(dict(given))
    path = os.fspath(given)
    file, written = read_own_file(path, MAX_BYTES, "write fewer pools", LoadPlanError)
    try:
        return load_plan_of(written)
    except LoadPlanError as error:
        raise LoadPlanError(on_lines(file, error.problems)) from None


def load_plan_of(written: Any) -> LoadPlan:
    """The plan in plain data of the form of the YAML. Raises LoadPlanError."""
    if not isinstance(written, dict):
        raise LoadPlanError([Problem("", show(written), "an object with `pods`, `nodes` and so on")])
    problems = [*unknown_fields(written, LoadPlan, "")]
    plan, mismatches = decode_as(LoadPlan, written)
    problems += mismatches
    if plan is not None:
        problems += _check(plan)
    if problems or plan is None:
        raise LoadPlanError(problems)
    return plan


# ---- checks


def _check(plan: LoadPlan) -> Problems:
    """Yield the problems of a load plan: missing numbers and numbers outside of their bounds."""
    if plan.pods is None:
        yield Problem("pods", NOTHING_THERE, "the number of pods that arrive")
    else:
        yield from _within("pods", plan.pods, 1, MAX_PODS)
    yield from _within("seed", plan.seed, 0, 2**63 - 1)
    yield from _within("templates", plan.templates, 1, MAX_TEMPLATES)
    yield from _within("zones", plan.zones, 1, 1000)
    yield from _within("popularity", plan.popularity, 0, 10)
    yield from _within("burst", plan.burst, 1, MAX_BURST)
    yield from _within("run.sigma", plan.run.sigma, 0, 10)
    for name in ("swing", "services", "gpu", "zonal", "spread"):
        yield from _within(name, getattr(plan, name), 0, 1)
    yield from _check_durations(plan)
    yield from _check_pools(plan.nodes)


def _check_durations(plan: LoadPlan) -> Problems:
    written = {"over": plan.over, "peak": plan.peak, "run.median": plan.run.median, "run.longest": plan.run.longest}
    for path, value in written.items():
        found = parse_duration(value)
        if found is None:
            yield Problem(path, show(value), DURATION_FORM)
        elif not found and path != "peak":
            yield Problem(path, show(value), "more than 0")


def _check_pools(pools: Sequence[NodePool]) -> Problems:
    """Yield the problems of the node pools: names must be unique, amounts must be quantities, and all pools together have at
    most MAX_NODES nodes."""
    names: set[str] = set()
    for i, pool in enumerate(pools):
        path = f"nodes[{i}]"
        yield from _within(f"{path}.count", pool.count, 1, MAX_NODES)
        yield from _within(f"{path}.pods", pool.pods, 1, 1_000_000)
        if pool.name in names:
            yield Problem(f"{path}.name", f"{show(pool.name)} names another pool too; write another name")
        names.add(pool.name)
        yield from _check_amount(f"{path}.cpu", pool.cpu)
        yield from _check_amount(f"{path}.memory", pool.memory)
        for name, amount in pool.resources.items():
            yield from _check_amount(at_key(f"{path}.resources", name), amount)
    total = sum(pool.count for pool in pools)
    if total > MAX_NODES:
        yield Problem("nodes", f"the pools have {total} nodes in all; write at most {MAX_NODES}")


def _check_amount(path: str, amount: QuantityText) -> Problems:
    try:
        is_positive = parse(amount) > 0
    except QuantityError:
        is_positive = False
    if not is_positive:
        yield Problem(path, show(amount), "a quantity above 0, such as 4, 500m or 16Gi")


def _within(path: str, value: float, least: float, most: float) -> Problems:
    """A problem of a number that is out of its bounds. NaN is not within any bounds."""
    if not least <= value <= most:
        yield Problem(path, show(value), f"from {least} to {most}")
