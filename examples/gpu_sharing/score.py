"""The base of the six policies: a score over columns of nodes that is kept for the shape of a pod."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.plugin import Handle, Reads, Rows, SchedulingContext, ScorePlugin, Scores, reads

from .devices import GpuDevices
from .requests import GpuRequest, request_in

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_SCORE = 100
MAX_CPU_MILLI, MAX_GPU_MILLI = 128_000, 8_000
"""The largest node of the study: DotProd and BestFit measure amounts by it."""


class GpuScore(ScorePlugin):
    """A score that follows from the free CPU of a node, its row of the matrix of GPUs, and what the pod asks for."""

    is_in_range = True

    def __init__(self, args: Any, handle: Handle) -> None:
        self.devices = GpuDevices.shared(handle.services)

    @abstractmethod
    def rate(self, free_cpu: Integers, gpus: Integers, cpu: int, request: GpuRequest) -> Integers | Floats:
        """Rate nodes for a pod that asks for `cpu` milli-CPUs and these GPUs: `free_cpu` by node, `gpus` as nodes x columns
        (devices.py). Fractions of a score are cut off."""

    @reads(Reads.ROW)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        nodes = context.nodes
        place = nodes.amounts.resource("cpu")
        free_cpu = nodes.amounts.allocatable[place][rows] - nodes.amounts.requested[place][rows]
        rates = self.rate(
            free_cpu,
            self.devices.matrix.rows(nodes, rows),
            context.shape.request.get("cpu", 0),
            request_in(context),
        )
        return np.minimum(np.maximum(rates, 0), MAX_SCORE).astype(np.int64)
