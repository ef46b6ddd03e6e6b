"""Default plugins whose behaviour is not built yet. They take their place in profiles and do nothing there.

They exist so that a configuration which names them is understood as upstream understands it: same points, same order,
same weights. A pod that would need one of them is scheduled as if it did not; `concerns` tells which pods these are, so
that callers can warn. What cannot be left undone quietly (making room, binding) raises NotImplementedError.
"""

from collections.abc import Sequence
from typing import ClassVar, NoReturn

from mooring.framework.cycle import Cycle
from mooring.framework.events import (
    DEVICE_CLASS,
    NODE,
    RESOURCE_SLICE,
    Action,
    ClusterEvent,
    Registration,
)
from mooring.framework.failure import FitFailure
from mooring.framework.points import (
    FilterPlugin,
    NoRoom,
    Plugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Reads,
    ReservePlugin,
    Rows,
    ScorePlugin,
    reads,
)
from mooring.framework.status import SKIP, Skip, curable
from mooring.model.pod import Pod

_CHANGED = Action.ADD | Action.UPDATE


def _always(*events: tuple[str, Action]) -> tuple[Registration, ...]:
    """Every event of these kinds wakes the pods that the plugin rejected."""
    return tuple(Registration(ClusterEvent(resource, action)) for resource, action in events)


class Unbuilt(Plugin):
    """Base of what is not built yet."""

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        """Whether this pod would need the plugin, so that its placement may be wrong without it."""
        return False

    def _refuse(self, point: str) -> NoReturn:
        raise NotImplementedError(f"plugin {self.name}: {point} is not built yet")


class _SkippedFilter(Unbuilt, PreFilterPlugin, FilterPlugin):
    @reads(Reads.SHAPE)
    def pre_filter(self, cycle: Cycle) -> Skip:
        return SKIP

    @reads(Reads.SHAPE)
    def filter(self, cycle: Cycle, rows: Rows) -> None:
        return None

    def rejection(self, cycle: Cycle, code: int) -> NoReturn:
        self._refuse("rejecting a node")


class _EmptyReserve(Unbuilt, ReservePlugin, PreBindPlugin):
    def reserve(self, cycle: Cycle, node_name: str) -> None:
        return None

    def unreserve(self, cycle: Cycle, node_name: str) -> None:
        return None

    def pre_bind(self, cycle: Cycle, node_name: str) -> None:
        return None


class _OpenGate(Unbuilt, PreEnqueuePlugin):
    def pre_enqueue(self, pod: Pod) -> None:
        return None


class _ZeroScore(Unbuilt, ScorePlugin):
    @reads(Reads.SHAPE)
    def score(self, cycle: Cycle, rows: Rows) -> None:
        return None


UNBUILT: tuple[type[Unbuilt], ...] = ()
