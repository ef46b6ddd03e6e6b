"""What a pod asks for in GPUs, and what a node has: annotations, labels and resources of the public GPU-sharing plugins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from mooring.plugin import Node, QuantityError, SchedulingContext, parse_quantity, to_amount

GPU_MILLI = "alibabacloud.com/gpu-milli"
"""Of a pod: the share of each GPU in thousandths. Below 1000 it is a share of one GPU."""
GPU_COUNT = "alibabacloud.com/gpu-count"
"""Of a pod: how many GPUs. The resource of this name says how many a node has."""
GPU_MODEL = "alibabacloud.com/gpu-card-model"
"""Of a pod: the models that it can use, joined by a bar; absent: any. The label of this name is the model of a node."""
GPU_INDEX = "alibabacloud.com/gpu-index"
"""Of a pod on a node: the GPUs that it has, joined by a hyphen."""

WHOLE = 1000
"""A whole GPU in thousandths."""
MAX_GPUS = 64
"""GPUs of one node that count at most."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What a pod asks for: a share of one GPU, or whole GPUs."""

    milli: int
    """Of each GPU: 1 to 1000."""
    count: int
    models: frozenset[str] = frozenset()
    """Empty: any."""

    @classmethod
    def of(cls, milli: int, count: int, models: Iterable[str] = ()) -> "GpuRequest":
        """A request for `count` GPUs; a pod that asks for several gets whole ones."""
        if count <= 0 or milli <= 0:
            return cls(0, 0)
        return cls(WHOLE if count > 1 else min(milli, WHOLE), count, frozenset(models))

    @property
    def is_share(self) -> bool:
        return self.milli < WHOLE

    @property
    def total(self) -> int:
        return self.milli * self.count

    @property
    def kind(self) -> int:
        """A bit for each kind of request: a share, one GPU, two GPUs, ..."""
        return 1 if self.is_share else 1 << min(self.count, 60)


NO_GPU = GpuRequest(0, 0)


def request_of(annotations: Mapping[str, str]) -> GpuRequest:
    """Read the annotations of a pod. Raises ValueError for what is not a number."""
    if GPU_MILLI not in annotations and GPU_COUNT not in annotations:
        return NO_GPU
    return _read(annotations.get(GPU_MILLI, ""), annotations.get(GPU_COUNT, ""), annotations.get(GPU_MODEL, ""))


@lru_cache(maxsize=4096)
def _read(milli: str, count: str, models: str) -> GpuRequest:
    try:
        number, share = int(count or "1"), int(milli or str(WHOLE))
    except ValueError as error:
        raise ValueError(f"{GPU_MILLI}={milli!r}, {GPU_COUNT}={count!r}: must be whole numbers") from error
    return GpuRequest.of(share, number, filter(None, models.split("|")))


def request_in(context: SchedulingContext) -> GpuRequest:
    """What the pod of an attempt asks for."""
    return request_of(context.shape.annotations)


def gpu_count(node: Node) -> int:
    """How many GPUs a node has."""
    written = (node.status.allocatable or {}).get(GPU_COUNT)
    try:
        return 0 if written is None else min(to_amount(parse_quantity(written)), MAX_GPUS)
    except QuantityError:
        return 0


def indices_of(written: str | None, count: int) -> tuple[int, ...]:
    """The GPUs that the annotation GPU_INDEX names, on a node that has `count`; none if it is absent or names others."""
    try:
        found = tuple(int(index) for index in written.split("-")) if written else ()
    except ValueError:
        return ()
    return found if all(0 <= index < count for index in found) else ()
