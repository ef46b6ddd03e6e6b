"""FGD, fragmentation gradient descent: prefers the node, and the GPU, where the pod adds the least fragmentation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mooring.plugin import Handle, SchedulingContext

from .devices import EMPTY, FIRST, LARGEST
from .fragmentation import Fragmentation
from .requests import WHOLE, GpuRequest
from .score import MAX_SCORE, Floats, GpuScore, Integers
from .typical_pods import POPULARITY, TypicalPod, read_workload, typical_pods


class FGD(GpuScore):
    """The score is 50 where the pod leaves fragmentation as it is, and approaches 100 where it removes whole GPUs of it (a
    sigmoid of the change in GPUs).

    Arguments: `workload` is a CSV file of pods (typical_pods.py) whose typical pods count, and `popularity` how many percent
    of its pods these stand for. Or `typicalPods` lists them: `cpuMilli`, `gpuMilli`, `gpuCount`, `models`, `weight`.
    """

    name = "FGD"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pods = _typical_pods(args or {})
        self._measure = Fragmentation(self._pods, self.devices.model_names())
        self._models = len(self.devices.model_names())
        self.devices.choices[handle.profile_name, self.name] = self.choose

    def rate(self, free_cpu: Integers, gpus: Integers, cpu: int, request: GpuRequest) -> Integers | Floats:
        room = gpus[:, LARGEST] >= request.milli if request.is_share else gpus[:, EMPTY] >= request.count
        fitting = np.flatnonzero(room & (free_cpu >= cpu))
        gpus = gpus.take(fitting, axis=0)
        gain = self.measure.gain(free_cpu[fitting], gpus, cpu, request)
        if request.is_share and request.count:
            gain = np.where(gpus[:, FIRST:] >= request.milli, gain, np.iinfo(np.int64).min)
        ratings = np.zeros(len(free_cpu))
        ratings[fitting] = self._rating(gain.max(axis=1, initial=np.iinfo(np.int64).min))
        return ratings

    def choose(self, context: SchedulingContext, row: int, free: Sequence[int], request: GpuRequest) -> int:
        """The GPU of a node that a share gets: the first of those with the best score."""
        nodes, cpu = context.nodes, context.shape.request.get("cpu", 0)
        place = nodes.amounts.resource("cpu")
        free_cpu = int(nodes.amounts.allocatable[place, row] - nodes.amounts.requested[place, row])
        if nodes.row_of_pod(context.pod.id) is not None:  # the pod is assumed on the node
            free_cpu += cpu
        known = self.devices.matrix.row(nodes, row)
        gpus = np.array([[*known[:FIRST], *free]], np.int64)
        gpus[0, EMPTY] = list(free).count(WHOLE)
        ratings = self._rating(self.measure.gain(np.array([free_cpu]), gpus, cpu, request)[0]).astype(np.int64)
        return int(np.where(np.array(free) >= request.milli, ratings, -1).argmax())

    @property
    def measure(self) -> Fragmentation:
        """The measure, made anew when nodes of another model came."""
        models = self.devices.model_names()
        if len(models) != self._models:
            self._measure, self._models = Fragmentation(self._pods, models), len(models)
        return self._measure

    def _rating(self, gain: Integers) -> Floats:
        rating: Floats = MAX_SCORE / (1.0 + np.exp(np.clip(-gain / (self._measure.weight * WHOLE), -700, 700)))
        return rating


def _typical_pods(args: dict[str, Any]) -> list[TypicalPod]:
    popularity = args.get("popularity", POPULARITY)
    if "workload" in args:
        return typical_pods(read_workload(args["workload"]), popularity)
    listed = args.get("typicalPods")
    if not listed:
        raise ValueError("typicalPods: Required value: list typical pods, or name a `workload` file")
    return [
        TypicalPod(
            each.get("cpuMilli", 0),
            GpuRequest.of(each.get("gpuMilli", WHOLE), each.get("gpuCount", 1), each.get("models", ())),
            each.get("weight", 1),
        )
        for each in listed
    ]
