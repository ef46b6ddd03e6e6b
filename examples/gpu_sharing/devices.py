"""The free room of every GPU, by node: a matrix that follows the node table, and which GPUs pods were given."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.plugin import NodeMatrix, NodeTable, Pod, SchedulerServices, SchedulingContext

from .requests import GPU_INDEX, GPU_MODEL, NO_GPU, WHOLE, GpuRequest, gpu_count, indices_of, request_of

TOTAL, EMPTY, LARGEST, MODEL, KINDS, COUNT, FIRST = range(7)
"""Columns of the matrix: free room of all GPUs, GPUs without pods, the largest free room of one GPU (all in thousandths of
a GPU), the code of the model, the kinds of requests on the node (`GpuRequest.kind`), the number of GPUs. From FIRST on, the
free room of each GPU."""

NO_ROW = (0,) * FIRST

Choice = Callable[[SchedulingContext, int, Sequence[int], GpuRequest], int]
"""Chooses a GPU for a share: takes the attempt, the row of the node, the free room of its GPUs and the request."""


class Given(NamedTuple):
    """GPUs that a pod was given on its node."""

    indices: tuple[int, ...]
    request: GpuRequest


class GpuDevices:
    """GPUs of all nodes. All plugins and profiles of a scheduler share one; they find it among the pod listeners."""

    def __init__(self) -> None:
        self.matrix = NodeMatrix(self._work_out)
        self.choices: dict[tuple[str, str], Choice] = {}
        """How to choose a GPU for a share, by profile and name: score plugins that have a rule of their own enter it."""
        self._given: dict[str, Given] = {}
        """By id of a pod, from Reserve until the pod is gone."""
        self._model_book: dict[str, int] = {"": 0}
        self._accepting: dict[frozenset[str], NDArray[np.bool_]] = {}

    @classmethod
    def shared(cls, services: SchedulerServices) -> "GpuDevices":
        found = next((listener for listener in services.pod_listeners if isinstance(listener, cls)), None)
        if found is None:
            found = cls()
            services.pod_listeners.append(found)
        return found

    def __call__(self, old: Pod | None, new: Pod | None) -> None:
        """Called with each change of a pod."""
        if old is not None and new is None:
            self._given.pop(old.id, None)

    # ---- giving GPUs to pods

    def free_beside(self, nodes: NodeTable, row: int, pod: Pod) -> Sequence[int]:
        """The free room of each GPU of a node without what the pod itself has there, if it is assumed on the node."""
        if nodes.row_of_pod(pod.id) is None:
            return self.matrix.row(nodes, row)[FIRST:]
        return self._free_room(nodes, row, pod.id)[0]

    def give(self, pod: Pod, row: int, indices: tuple[int, ...], request: GpuRequest) -> None:
        self._given[pod.id] = Given(indices, request)
        self.matrix.void(row)

    def take_back(self, pod: Pod, row: int) -> None:
        if self._given.pop(pod.id, None) is not None:
            self.matrix.void(row)

    def given_to(self, pod: Pod) -> tuple[int, ...]:
        given = self._given.get(pod.id)
        return () if given is None else given.indices

    # ---- the matrix

    def model_code(self, model: str) -> int:
        return self._model_book.setdefault(model, len(self._model_book))

    def accepting(self, models: frozenset[str]) -> NDArray[np.bool_]:
        """By code of a model, whether it is one of these; all are if none is named."""
        found = self._accepting.get(models)
        if found is None or len(found) != len(self._model_book):
            found = np.array([not models or model in models for model in self._model_book], np.bool_)
            self._accepting[models] = found
        return found

    def model_names(self) -> list[str]:
        """The models by code. Code 0 is for nodes without a label."""
        return list(self._model_book)

    def _work_out(self, nodes: NodeTable, row: int) -> Sequence[int]:
        node = nodes.nodes[row]
        if node is None:
            return NO_ROW
        free, kinds = self._free_room(nodes, row)
        model = self.model_code(node.labels.get(GPU_MODEL, ""))
        return (sum(free), free.count(WHOLE), max(free, default=0), model, kinds, len(free), *free)

    def _free_room(self, nodes: NodeTable, row: int, without: str | None = None) -> tuple[list[int], int]:
        """The free room of the GPUs of a node, and the kinds of requests on it.

        Pods that have their GPUs come first. The others, which another scheduler placed or a what-if adds, count as if
        each got the GPUs where it leaves the least room.
        """
        node = nodes.nodes[row]
        count = 0 if node is None else gpu_count(node)
        free, kinds, others = [WHOLE] * count, 0, []
        for pod in nodes.pods_on[row]:
            if pod.id == without:
                continue
            given = self._given.get(pod.id) or _written(pod, count)
            kinds |= given.request.kind if given.request.count else 0
            if not given.indices and given.request.count:
                others.append(given.request)
            for index in given.indices:
                if index < count:
                    free[index] = max(0, free[index] - given.request.milli)
        for request in others:
            for index in fullest(free, request)[: request.count]:
                free[index] -= request.milli
        return free, kinds


def _written(pod: Pod, count: int) -> Given:
    """The GPUs that the annotations of a pod name."""
    annotations = pod.metadata.annotations
    if not annotations:
        return Given((), NO_GPU)
    request = request_of(annotations)
    return Given(indices_of(annotations.get(GPU_INDEX), count) if request.count else (), request)


def fullest(free: Sequence[int], request: GpuRequest) -> list[int]:
    """The GPUs that have room for the request, those with the least room first."""
    return sorted((i for i, room in enumerate(free) if room >= request.milli), key=free.__getitem__)
