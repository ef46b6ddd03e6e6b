"""What a plugin can say. *No* is a value (Rejection), *never* is an exception (PluginError), silence is consent."""

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Literal


class Code(IntEnum):
    """Upstream's status codes; the names are what users see."""

    Success = 0
    Error = 1
    Unschedulable = 2
    UnschedulableAndUnresolvable = 3
    Wait = 4
    Skip = 5
    Pending = 6


@dataclass(frozen=True, slots=True)
class Rejection:
    """A verdict against a pod, or against one node for it.

    `Unschedulable` means that removing pods from the node could cure it: preemption reads that.
    """

    reasons: tuple[str, ...]
    code: Code = Code.UnschedulableAndUnresolvable
    plugin: str = ""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Rejection":
        return Rejection(self.reasons, self.code, plugin)


def curable(*reasons: str) -> Rejection:
    """A rejection that preemption could cure."""
    return Rejection(reasons, Code.Unschedulable)


def final(*reasons: str) -> Rejection:
    """A rejection that stays whichever pods leave."""
    return Rejection(reasons, Code.UnschedulableAndUnresolvable)


class Sentinel(Enum):
    SKIP = "skip"
    SKIP_SHAPE = "skip shape"


SKIP: Literal[Sentinel.SKIP] = Sentinel.SKIP
"""From PreFilter or PreScore: this plugin has nothing to say about this pod, leave it out of the attempt."""

SKIP_SHAPE: Literal[Sentinel.SKIP_SHAPE] = Sentinel.SKIP_SHAPE
"""The same, and it follows from the pod's shape alone: the framework does not ask again for pods of this shape."""

Skip = Literal[Sentinel.SKIP, Sentinel.SKIP_SHAPE]

SKIPS = (SKIP, SKIP_SHAPE)


class PluginError(Exception):
    """A plugin could not do its work: the attempt ends in an error, with upstream's text."""
