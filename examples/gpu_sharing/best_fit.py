"""BestFit: prefers nodes that have the least room left with the pod on them."""

from .devices import TOTAL
from .requests import GpuRequest
from .score import MAX_CPU_MILLI, MAX_GPU_MILLI, MAX_SCORE, Floats, GpuScore, Integers


class BestFit(GpuScore):
    """The less CPU and GPU stay free, the better. Amounts are fractions of the largest node and count alike."""

    name = "BestFit"

    def rate(self, free_cpu: Integers, gpus: Integers, cpu: int, request: GpuRequest) -> Integers | Floats:
        left_cpu = (free_cpu - cpu) / MAX_CPU_MILLI * 0.5
        left_gpu = (gpus[:, TOTAL] - request.total) / MAX_GPU_MILLI * 0.5
        rates: Floats = (1.0 - (left_cpu + left_gpu)) * MAX_SCORE
        return rates
