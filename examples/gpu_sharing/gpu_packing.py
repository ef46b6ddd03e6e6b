"""GpuPacking: prefers GPUs that other pods share, then free GPUs of nodes in use, then nodes without pods on their GPUs."""

import numpy as np

from .devices import COUNT, EMPTY, FIRST
from .requests import WHOLE, GpuRequest
from .score import MAX_SCORE, Floats, GpuScore, Integers


class GpuPacking(GpuScore):
    """50 to 100: a share fits on a GPU in use, the fuller the better. 33 to 50: free GPUs of a node whose other GPUs are in
    use. Below 33: a node with free GPUs only, the fewer the better. Pods without GPU: all nodes are equal."""

    name = "GpuPacking"

    def rate(self, free_cpu: Integers, gpus: Integers, cpu: int, request: GpuRequest) -> Integers | Floats:
        if not request.count:
            return np.zeros(len(gpus), np.int64)
        empty = gpus[:, EMPTY]
        on_free_node = np.maximum(MAX_SCORE // 3 - empty, empty)
        on_free_gpus: Integers | int = max(MAX_SCORE // 2 - request.count, MAX_SCORE // 3)
        if request.is_share:
            free = gpus[:, FIRST:]
            tightest = np.where(free >= request.milli, free, WHOLE).min(axis=1, initial=WHOLE)
            on_shared = np.maximum(MAX_SCORE - tightest * 100 // WHOLE // 10, MAX_SCORE // 2)
            on_free_gpus = np.where(tightest < WHOLE, on_shared, on_free_gpus)
        return np.where(empty == gpus[:, COUNT], on_free_node, on_free_gpus)
