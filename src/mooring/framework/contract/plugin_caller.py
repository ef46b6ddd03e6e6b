"""How plugins are called: the one place where calls are measured, or not.

Every call of a plugin goes through the caller of its profile. It is chosen when the scheduler is built: this one, or
one that measures. Where attempts are traced (both in observing_callers.py), an attempt that is sampled has a
caller of its own, from its first extension point to the last one of its binding cycle. Other code does not ask whether
something is measured, except for speed (`measures`).
"""

from collections.abc import Callable, Sequence, Set
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.framework.contract.status import Code, Rejection

M = TypeVar("M", bound=Callable[..., Any])


class Wrap(Protocol):
    """Returns what is called instead of a plugin's method, with the same arguments and the same answer."""

    def __call__(self, point: str, plugin: str, method: M) -> M: ...


SUCCESS, ERROR = Code.Success.name, Code.Error.name
QUEUE, QUEUE_SKIP = "Queue", "QueueSkip"
"""Answers of queueing hints, as metrics call them."""
"""Status labels of metrics."""


def unwrapped(point: str, plugin: str, method: M) -> M:
    """The method itself. Hot: 16 methods in a decision; a call with `*args` in between took 3 us more for all of them."""
    return method


class PluginCaller:
    """Calls plugins, and measures nothing.

    Code that runs an extension point calls `began` before it and `ended` after it, with the status for metrics. The
    other methods report what single calls cannot show, because answers are kept: how many plugins were evaluated on how
    many nodes.
    """

    measures = False
    """Whether `began` and `ended` do anything. Hot: the binding cycle has six of these calls, 0.1 µs each, and leaves them
    out where nothing is measured."""

    def for_attempt(self, pod_id: str) -> "PluginCaller":
        """The caller for the present attempt of this pod."""
        return self

    def wrap_for(self, seed: int) -> Wrap:
        """Return the wrapper for the methods of plugins in the attempt with this seed. The base class adds nothing to a
        call."""
        return unwrapped

    def wrap_always(self) -> Wrap:
        """Return the wrapper for methods at extension points where every call is measured. Parity: upstream takes no samples
        at the extension points of pod groups."""
        return unwrapped

    def began(self) -> int:
        """An extension point begins. Returns the value that `ended` needs: a time if this is measured."""
        return 0

    def ended(self, point: str, status: str, began_ns: int) -> int:
        """An extension point that began at `began_ns` is over. Returns what `began` would return now, so that a next
        step can follow without another look at the clock."""
        return 0

    def skipped_points(self, points: Sequence[str]) -> int:
        """These extension points are over, and no plugin had anything to do there. Returns what `began` would return now."""
        return 0

    def point_known(self, point: str, count: int) -> None:
        """An extension point was not run for so many pods, because its outcome is known: it is that of another pod of their
        group."""

    def hints_known(self, plugin: str, event: str, outcome: str, count: int) -> None:
        """A hint was not called about so many pods, because its answer is known: the event does not name them, or another
        pod of their group was asked about."""

    def hinted(self, plugin: str, event: str, outcome: str, began_ns: int) -> None:
        """A queueing hint said Queue or QueueSkip to an event, or failed (Error)."""

    def pre_filtered(self, left_out: Set[str], rejection: Rejection | None) -> None:
        """PreFilter is over; these plugins skip Filter."""

    def all_passed(self, left_out: Set[str], nodes: int) -> None:
        """Filter is over, and no plugin rejected any of so many nodes."""

    def filtered(self, left_out: Set[str], first: NDArray[np.int8], alive: int) -> None:
        """Filter is over. `first` has for each row the filter that rejected it first; `alive` is the number of
        nodes."""

    def scored(self, left_out: Set[str], nodes: int) -> None:
        """Score is over for so many nodes; these plugins skipped it."""
