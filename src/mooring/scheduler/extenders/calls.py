"""The calls to extenders that are not answered: those of the attempt that waits, and those that bind pods."""

import msgspec

from mooring.framework.config.types import Extender
from mooring.scheduler.binding import Binding
from mooring.scheduler.extenders.steps import Suspension


class ExtenderCalls(msgspec.Struct):
    """At most one attempt waits for extenders at a time; any number of bindings may."""

    suspension: Suspension | None = None
    """The attempt that waits for extenders, if one does."""
    binders: dict[int, tuple[Binding, Extender]] = msgspec.field(default_factory=dict)
    """Token of a call -> the binding that an extender was asked to carry out."""

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        suspension = self.suspension
        if suspension is not None and not suspension.calls:
            return ["an attempt waits for extenders, but none was called"]
        return []
