"""More or fewer pods of the same kind: what `load=1.5` means."""

import math
from collections.abc import Sequence

import msgspec

from mooring.api.validation.problem import Problem
from mooring.inputs.arrivals import MAX_ARRIVALS, Arrival, ArrivalsError
from mooring.inputs.load_plan import MAX_PODS, LoadPlan, LoadPlanError
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod


def scaled_arrivals(arrivals: Sequence[Arrival], load: float, objects: Sequence[KubeObject] = ()) -> list[Arrival]:
    """As many arrivals as `load` says, evenly over those that are given, in the order of time.

    A load of 0.5 leaves every second one out, a load of 2 has each twice; a copy has its own name and the same time.
    Raises ArrivalsError if there are too many.
    """
    if load == 1:
        return [*arrivals]
    if len(arrivals) * load > MAX_ARRIVALS:
        told = f"{load:g} times {len(arrivals)} pods are more than {MAX_ARRIVALS}: write a smaller load"
        raise ArrivalsError([Problem("load", told)])
    taken = {item.key for item in objects if isinstance(item, Pod)} | {arrival.pod.key for arrival in arrivals}
    scaled = []
    for i, arrival in enumerate(sorted(arrivals, key=lambda arrival: arrival.at_ns)):
        times = math.floor((i + 1) * load) - math.floor(i * load)
        scaled += [arrival if copy == 0 else _copy(arrival, copy, taken) for copy in range(times)]
    return scaled


def _copy(arrival: Arrival, number: int, taken: set[str]) -> Arrival:
    pod = arrival.pod
    name = f"{pod.name}-copy-{number}"
    while f"{pod.namespace}/{name}" in taken:
        name += "-x"
    key = f"{pod.namespace}/{name}"
    taken.add(key)
    return Arrival(arrival.at_ns, pod.with_name(name, key), arrival.run_ns)


def scaled_plan(plan: LoadPlan, load: float) -> LoadPlan:
    """The plan with as many pods as `load` says. Raises LoadPlanError if there are too many."""
    pods = max(round((plan.pods or 0) * load), 1)
    if pods > MAX_PODS:
        told = f"{load:g} times {plan.pods} pods are more than {MAX_PODS}: write a smaller load"
        raise LoadPlanError([Problem("load", told)])
    return plan if load == 1 else msgspec.structs.replace(plan, pods=pods)
