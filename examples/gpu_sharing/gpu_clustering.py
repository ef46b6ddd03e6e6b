"""GpuClustering: puts pods beside pods that ask for as many GPUs."""

import numpy as np

from .devices import KINDS, TOTAL
from .requests import GpuRequest
from .score import MAX_GPU_MILLI, MAX_SCORE, Floats, GpuScore, Integers

STEP = MAX_SCORE // 4


class GpuClustering(GpuScore):
    """Nodes whose pods all are of the pod's kind come first, then nodes with such pods and others, then nodes without pods
    on GPUs, then all others; among these, nodes with less free GPU. Pods without GPU: all nodes are equal."""

    name = "GpuClustering"

    def rate(self, free_cpu: Integers, gpus: Integers, cpu: int, request: GpuRequest) -> Integers | Floats:
        if not request.count:
            return np.zeros(len(gpus), np.int64)
        kinds = gpus[:, KINDS]
        rank = np.where(kinds == request.kind, 3, np.where(kinds & request.kind, 2, np.where(kinds == 0, 1, 0)))
        rates: Integers = STEP * (MAX_GPU_MILLI - gpus[:, TOTAL]) // MAX_GPU_MILLI + STEP * rank
        return rates
