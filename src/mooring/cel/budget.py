"""The limits of an evaluation: upstream's cost, and limits of our own for work that upstream's cost does not reflect.

A selector comes from a user and runs for every device, so that its time and memory must be bounded, whatever it says.
"""

from typing import Any

MAX_LENGTH = 10_000_000
"""The longest text or list that a function may return. A text of this length would cost the limit of one million, because
a character costs 0.1; the check before the allocation protects memory."""


class Exceeded(Exception):
    """The evaluation costs more than its limit. The text is upstream's."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def check_length(length: int) -> None:
    """Raises Exceeded for a length above MAX_LENGTH. Call it before building a text or a list of that length."""
    if length > MAX_LENGTH:
        raise Exceeded


class Work:
    """Counts work that cel-go's costs do not reflect: steps of regular expressions, comparisons of nested lists,
    conditionals and comprehensions, which cost nothing upstream.

    Hot: one object for all evaluations, because functions get only values as arguments. Evaluations do not nest.
    """

    MAX_STEPS = 400_000
    """For one evaluation: a few tenths of a second. No ordinary expression comes near."""

    def __init__(self) -> None:
        self._limit = self._left = self.MAX_STEPS

    def begin(self, limit: int = MAX_STEPS) -> None:
        """Start to count for a new evaluation, which may take so many steps."""
        self._limit = self._left = min(limit, self.MAX_STEPS)

    @property
    def spent(self) -> int:
        """The steps of the present evaluation, or of the last one."""
        return self._limit - self._left

    def spend(self, steps: int) -> None:
        """Count steps. Raises Exceeded when the evaluation has none left."""
        self._left -= steps
        if self._left < 0:
            raise Exceeded


WORK = Work()


class Frame:
    """The state of one evaluation: variables, slots for variables of comprehensions, and the cost so far."""

    __slots__ = ("cost", "limit", "slots", "variables")

    def __init__(self, variables: dict[str, Any], slots: int, limit: int) -> None:
        """`slots` is the number of slots, `limit` the highest cost."""
        self.variables = variables
        self.slots: list[Any] = [None] * slots
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Add a cost. Raises Exceeded above the limit."""
        self.cost += cost
        if self.cost > self.limit:
            raise Exceeded
