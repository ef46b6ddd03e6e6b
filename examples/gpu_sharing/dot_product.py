"""DotProd: prefers nodes whose free room points away from what the pod asks for."""

from .devices import TOTAL
from .requests import GpuRequest
from .score import MAX_CPU_MILLI, MAX_GPU_MILLI, MAX_SCORE, Floats, GpuScore, Integers


class DotProd(GpuScore):
    """The smaller the dot product of (free CPU, free GPU) and (asked CPU, asked GPU), the better. Amounts are fractions of
    the largest node."""

    name = "DotProd"

    def rate(self, free_cpu: Integers, gpus: Integers, cpu: int, request: GpuRequest) -> Integers | Floats:
        by_cpu = free_cpu / MAX_CPU_MILLI * (cpu / MAX_CPU_MILLI)
        by_gpu = gpus[:, TOTAL] / MAX_GPU_MILLI * (request.total / MAX_GPU_MILLI)
        rates: Floats = MAX_SCORE * (1 - (by_cpu + by_gpu) / 2)
        return rates
