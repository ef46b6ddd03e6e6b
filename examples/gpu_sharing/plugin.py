"""GpuShare: pods that ask for a share of one GPU, or for whole GPUs, of certain models."""

from typing import Any

import numpy as np

from mooring.plugin import (
    SKIP,
    Codes,
    DeviceShares,
    DeviceSharing,
    FilterPlugin,
    Handle,
    Node,
    Pod,
    PodPart,
    PreBindPlugin,
    PreFilterPlugin,
    Reads,
    Rejection,
    ReservePlugin,
    Rows,
    SchedulingContext,
    Skip,
    Work,
    Write,
    WriteFault,
    choose,
    curable,
    final,
    reads,
)

from .devices import EMPTY, LARGEST, MODEL, GpuDevices, fullest
from .requests import GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL, WHOLE, GpuRequest, gpu_count, request_in, request_of

NO_MODEL, NO_ROOM = 1, 2
BEST, WORST, RANDOM = "best", "worst", "random"


class GpuShare(PreFilterPlugin, FilterPlugin, ReservePlugin, PreBindPlugin, DeviceSharing):
    """Filter keeps pods off nodes without a fitting GPU. Reserve chooses the GPUs, and PreBind writes them to the pod.

    Arguments: `deviceChoice` says which GPU of the node a share gets: `best` (the one with the least room, the default),
    `worst` (the one with the most), `random`, or the name of a score plugin of the profile that chooses, such as `FGD`.
    Equal GPUs: the lowest index. A pod that asks for whole GPUs gets the free ones with the lowest indices.
    """

    name = "GpuShare"
    device_resource, device_size = GPU_MILLI, WHOLE
    shape_annotations = (GPU_MILLI, GPU_COUNT, GPU_MODEL, GPU_INDEX)

    def __init__(self, args: Any, handle: Handle) -> None:
        self._choice: str = (args or {}).get("deviceChoice", BEST)
        self._profile = handle.profile_name
        self.devices = GpuDevices.shared(handle.services)

    def device_request(self, pod: Pod) -> DeviceShares:
        request = request_of(pod.metadata.annotations or {})
        return DeviceShares(request.milli, request.count)

    def device_count(self, node: Node) -> int:
        return gpu_count(node)

    @reads(Reads.SHAPE, PodPart.ANNOTATIONS)
    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        return None if request_in(context).count else SKIP

    @reads(Reads.ROW, PodPart.ANNOTATIONS)
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        request = request_in(context)
        numbers = self.devices.matrix.rows(context.nodes, rows)
        has_room = numbers[:, LARGEST] >= request.milli if request.is_share else numbers[:, EMPTY] >= request.count
        codes = np.where(has_room, 0, NO_ROOM)
        if request.models:
            codes[~self.devices.accepting(request.models)[numbers[:, MODEL]]] = NO_MODEL
        return codes

    def filter_row(self, context: SchedulingContext, row: int) -> int:
        request = request_in(context)
        numbers = self.devices.matrix.row(context.nodes, row)
        if request.models and not self.devices.accepting(request.models)[numbers[MODEL]]:
            return NO_MODEL
        has_room = numbers[LARGEST] >= request.milli if request.is_share else numbers[EMPTY] >= request.count
        return 0 if has_room else NO_ROOM

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return (
            final("node(s) had no GPU of the model") if code == NO_MODEL else curable("node(s) had too little free GPU")
        )

    def has_binding_work(self, context: SchedulingContext) -> bool:
        return request_in(context).count > 0

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        request = request_in(context)
        if not request.count:
            return None
        row = context.nodes.row_book[node_name]
        indices = self._choose(context, row, request)
        if indices is None:
            return curable("node(s) had too little free GPU")
        self.devices.give(context.pod, row, indices, request)
        return None

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        self.devices.take_back(context.pod, context.nodes.row_book[node_name])

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Work | None:
        indices = self.devices.given_to(context.pod)
        return self._write_index(context.pod, indices) if indices else None

    @staticmethod
    def _write_index(pod: Pod, indices: tuple[int, ...]) -> Work:
        """Tell the device plugin on the node which GPUs the pod has."""
        body = {"metadata": {"annotations": {GPU_INDEX: "-".join(map(str, indices))}}}
        answer = yield Write("PATCH", Pod, pod.name, pod.namespace, body)
        return curable(f"writing {GPU_INDEX}: {answer.message}") if isinstance(answer, WriteFault) else None

    def _choose(self, context: SchedulingContext, row: int, request: GpuRequest) -> tuple[int, ...] | None:
        """The GPUs for the pod; None: there is no room."""
        free = self.devices.free_beside(context.nodes, row, context.pod)
        fitting = [index for index, room in enumerate(free) if room >= request.milli]
        if len(fitting) < request.count:
            return None
        if not request.is_share:
            return tuple(fitting[: request.count])
        if self._choice == BEST:
            return (fullest(free, request)[0],)
        if self._choice == WORST:
            return (max(fitting, key=free.__getitem__),)
        if self._choice == RANDOM:
            return (fitting[choose(~context.seed, len(fitting))],)
        return (self.devices.choices[self._profile, self._choice](context, row, free, request),)
