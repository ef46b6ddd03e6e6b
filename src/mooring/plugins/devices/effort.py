"""The effort that a search for devices may cost, and what is wrong with selectors.

This is apart from CEL itself, which is imported when the first selector is compiled: most clusters have none, and the
imports take 30 ms.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

Facts = Mapping[str, Any]
"""Values of a device that a CEL expression can read: driver, allowMultipleAllocations, and attributes and capacity by
domain."""


class CelFault(Exception):
    """An expression that does not compile, or fails on a device. Kept as an answer, so it is also a value."""

    def __init__(self, text: str, cost: int = 0) -> None:
        super().__init__(text)
        self.cost = cost
        """Cost of the evaluation up to the fault, in CEL cost units."""

    @property
    def is_of_compilation(self) -> bool:
        """Whether the expression does not compile."""
        return str(self).startswith(("compilation failed", "must evaluate", "program instantiation failed"))


# Steps are the unit of effort of a search: see STEPS_A_SECOND in dynamic_resources.py.
COST_A_STEP = 4
"""A step takes some two microseconds, and so does the evaluation of what costs this much (a million: 0.25 to 0.45 s).
"""


BYTES_A_STEP = 1
"""A step also stands for so many bytes of a selector that is compiled: 10 KiB take some 30 ms."""


class TookTooLong(Exception):
    """The search used up its steps. Upstream's counterpart is filterTimeout."""


class Effort(msgspec.Struct, eq=False):
    """How many steps the searches of one attempt take.

    Steps stand for time, which differs from run to run. What was learnt about selectors is kept, so the next attempt does
    not spend steps on it again.
    """

    max_steps: int | None = None
    """The limit for all searches of the attempt together; None: there is no limit."""
    steps: int = 0
    compiled: set[str] = msgspec.field(default_factory=set)
    """Selectors of which something was learnt: then another attempt gets further."""
    is_short: bool = False
    """The namespace has used up its share (device_search_cache.py). No selector is evaluated that costs more than is left;
    otherwise the last one may, so that each attempt learns something."""

    def spend(self, steps: int) -> None:
        """Raises TookTooLong."""
        self.steps += steps
        if self.max_steps is not None and self.steps > self.max_steps:
            raise TookTooLong

    def max_cost(self, selector: str) -> int | None:
        """The limit for the cost of evaluating a selector; None: the general limit of a selector. Raises TookTooLong."""
        if not self.is_short or self.max_steps is None:
            return None
        left = self.max_steps - self.steps - len(selector) // BYTES_A_STEP
        if left <= 0:
            raise TookTooLong
        return left * COST_A_STEP

    def learn(self, selector: str, cost: int) -> None:
        """A selector was evaluated, and compiled if it is the first time. Raises TookTooLong."""
        bytes_ = 0 if selector in self.compiled else len(selector)
        self.compiled.add(selector)
        self.spend(cost // COST_A_STEP + bytes_ // BYTES_A_STEP)
