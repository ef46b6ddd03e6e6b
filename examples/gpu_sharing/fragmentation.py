"""Fragmentation: how much free GPU of a node the typical pods of a workload cannot use.

For one typical pod, free GPU is *fragmented* on a node
- all of it, if the pod cannot run there: it asks for no GPU, for another model, for more CPU or for more GPUs than are free;
- otherwise, that of GPUs with less room than the pod asks for on each.
The fragmentation of a node is the mean over the typical pods, weighted by their number.

An example with two GPUs that have 500 and 1000 free, and 8 free CPUs: a pod that asks for 0.6 of a GPU and 4 CPUs can use the
second GPU only, so 500 are fragmented for it. For a pod that asks for 16 CPUs, all 1500 are.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .devices import EMPTY, FIRST, MODEL
from .requests import MAX_GPUS, WHOLE, GpuRequest
from .typical_pods import TypicalPod

Integers = NDArray[np.int64]


class Fragmentation:
    """Usable GPU of a node, as a sum of table entries. `weight` times the free GPU minus the usable GPU is the fragmented
    GPU; all are whole numbers, summed over the typical pods instead of averaged.

    For pods that ask for one GPU or a share of it, usable is what each GPU has that has enough room, so each GPU adds its
    own part: a table by model, level of CPU and free room. Pods that ask for several GPUs can use all GPUs without pods, if
    there are enough: a table by model, level of CPU and number of these. The level of CPU is how many of the typical pods'
    CPU requests, in ascending order, fit into what is free.
    """

    def __init__(self, pods: Sequence[TypicalPod], models: Sequence[str]) -> None:
        self.weight = sum(pod.weight for pod in pods)
        on_gpus = [pod for pod in pods if pod.request.count]
        self._cpus: Integers = np.array(sorted({pod.cpu_milli for pod in on_gpus}), np.int64)
        levels = len(self._cpus) + 1
        shares = np.zeros((len(models), levels, WHOLE + 1), np.int64)
        several = np.zeros((len(models), levels, MAX_GPUS + 1), np.int64)
        for pod in on_gpus:
            request = pod.request
            level = int(np.searchsorted(self._cpus, pod.cpu_milli)) + 1
            for code, model in enumerate(models):
                if not request.models or model in request.models:
                    if request.count == 1:
                        shares[code, level:, request.milli :] += pod.weight
                    else:
                        several[code, level:, request.count :] += pod.weight
        self._levels = levels
        self._shares: Integers = (shares * np.arange(WHOLE + 1)).ravel()
        self._several: Integers = (several * (np.arange(MAX_GPUS + 1) * WHOLE)).ravel()

    def usable(self, free_cpu: Integers, gpus: Integers) -> Integers:
        """The usable GPU of nodes, in `weight` times thousandths of a GPU."""
        place = self._place(free_cpu, gpus)
        usable: Integers = self._of_gpus(place, gpus[:, FIRST:]).sum(axis=1)
        return usable + self._of_several(place, gpus[:, EMPTY])

    def gain(self, free_cpu: Integers, gpus: Integers, cpu: int, request: GpuRequest) -> Integers:
        """By how much fragmentation falls if a pod comes to a node: nodes x GPUs for a share, where entries of GPUs without
        room mean nothing; nodes x 1 for other pods, which must fit."""
        place = self._place(free_cpu - cpu, gpus)
        empty, free = gpus[:, EMPTY], gpus[:, FIRST:]
        by_gpu = self._of_gpus(place, free)
        usable: Integers = by_gpu.sum(axis=1) - self.usable(free_cpu, gpus)
        if request.is_share and request.count:
            rest = self._of_gpus(place, np.maximum(free - request.milli, 0))
            several = self._of_several(place[:, None], empty[:, None] - (free == WHOLE))
            return usable[:, None] - by_gpu + rest + several + self.weight * request.milli
        usable -= request.count * self._shares.take(place * (WHOLE + 1) + WHOLE)
        usable += self._of_several(place, empty - request.count) + self.weight * request.total
        return usable[:, None]

    def _place(self, free_cpu: Integers, gpus: Integers) -> Integers:
        """Where the tables have the entries of a node's model and level of CPU."""
        place: Integers = gpus[:, MODEL] * self._levels + self._cpus.searchsorted(free_cpu, "right")
        return place

    def _of_gpus(self, place: Integers, free: Integers) -> Integers:
        """What each GPU has for pods that ask for one GPU or a share of it. Hot: `take` from a flat table is three times as
        quick as an index for each dimension."""
        return self._shares.take(place[:, None] * (WHOLE + 1) + free)

    def _of_several(self, place: Integers, empty: Integers) -> Integers:
        return self._several.take(place * (MAX_GPUS + 1) + np.maximum(empty, 0))
