"""Spans of traces, as the code that is traced sees them. What is behind them is chosen elsewhere: an SDK, or a test.

Parents are explicit: the span of an operation is asked for its children. Nothing depends on the thread or the task, because
many operations are under way at a time on one thread.
"""

from collections.abc import Mapping
from typing import Protocol

Attributes = Mapping[str, str | int | float | bool]

NO_ATTRIBUTES: Attributes = {}


class TraceSpan(Protocol):
    """An operation that takes time. It is recorded when it ends. Times are nanoseconds since 1970."""

    @property
    def traceparent(self) -> str:
        """The header of W3C Trace Context that makes this span the parent of what a server does."""

    def child(
        self, name: str, began_ns: int, attributes: Attributes = NO_ATTRIBUTES, *, is_request: bool = False
    ) -> "TraceSpan":
        """Begin a span below this one; `is_request`: the work is done by a server that is called."""

    def set(self, attributes: Attributes) -> None: ...

    def note(self, name: str, at_ns: int, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """Add an event: something that takes no time."""

    def end(self, ended_ns: int, fault: str | None = None) -> None:
        """The operation is over; with a fault it has failed. Called once."""


class Tracer(Protocol):
    """Decides which operations are traced, before anything is built for them."""

    def sample(self) -> int | None:
        """The id of a new trace; None: this operation is not traced. Hot: asked for each attempt."""

    def begin(self, trace_id: int, name: str, began_ns: int, attributes: Attributes = NO_ATTRIBUTES) -> TraceSpan:
        """The first span of the trace with this id, which `sample` returned last."""
