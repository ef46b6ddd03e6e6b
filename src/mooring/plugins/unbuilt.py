"""Default plugins whose behaviour is not built yet. They take their place in profiles and do nothing there.

They exist so that a configuration which names them is understood as upstream understands it: same points, same order,
same weights. A pod that would need one of them is scheduled as if it did not; `concerns` tells which pods these are, so
that callers can warn. What cannot be left undone quietly (making room, binding) raises NotImplementedError.
"""

from typing import ClassVar, NoReturn

from mooring.framework.cycle import Cycle
from mooring.framework.points import (
    BindPlugin,
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    Rows,
    ScorePlugin,
    reads,
)
from mooring.framework.status import SKIP, Skip
from mooring.model.pod import Pod


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


class _RefusedPostFilter(Unbuilt, PostFilterPlugin):
    def post_filter(self, cycle: Cycle) -> NoReturn:
        self._refuse("PostFilter")


class _ZeroScore(Unbuilt, ScorePlugin):
    @reads(Reads.SHAPE)
    def score(self, cycle: Cycle, rows: Rows) -> None:
        return None


class _NeedsVolumes(_SkippedFilter):
    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        volumes = pod.spec.volumes or ()
        return any(volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in volumes)


class VolumeRestrictions(_NeedsVolumes):
    name: ClassVar[str] = "VolumeRestrictions"


class NodeVolumeLimits(_NeedsVolumes):
    name: ClassVar[str] = "NodeVolumeLimits"


class VolumeZone(_NeedsVolumes):
    name: ClassVar[str] = "VolumeZone"


class VolumeBinding(_NeedsVolumes, PreScorePlugin, _ZeroScore, _EmptyReserve):
    name: ClassVar[str] = "VolumeBinding"

    @reads(Reads.SHAPE)
    def pre_score(self, cycle: Cycle, rows: Rows) -> Skip:
        return SKIP


class DynamicResources(_OpenGate, _SkippedFilter, _RefusedPostFilter, _ZeroScore, _EmptyReserve):
    """It scores without a PreScore that could skip it: it gives every node 0, and appears among the scores."""

    name: ClassVar[str] = "DynamicResources"

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims)


class DefaultPreemption(_OpenGate, _RefusedPostFilter):
    name: ClassVar[str] = "DefaultPreemption"


class DefaultBinder(Unbuilt, BindPlugin):
    name: ClassVar[str] = "DefaultBinder"

    def bind(self, cycle: Cycle, node_name: str) -> NoReturn:
        self._refuse("Bind")


UNBUILT: tuple[type[Unbuilt], ...] = (
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    DynamicResources,
    DefaultPreemption,
    DefaultBinder,
)
