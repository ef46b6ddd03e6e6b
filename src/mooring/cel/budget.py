"""What an evaluation may cost."""

from typing import Any

MAX_LENGTH = 10_000_000
"""Of a text or a list that a function makes: what a cost of one million lets pass, for a character costs 0.1."""


class Exceeded(Exception):
    """The evaluation costs more than it may. Upstream's words."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def check_length(length: int) -> None:
    """Called before something is made that is this long. Raises Exceeded."""
    if length > MAX_LENGTH:
        raise Exceeded


class Work:
    """What costs do not tell: steps of regular expressions, elements of nested lists, conditions and comprehensions.

    Hot: one for all evaluations, for functions are handed values alone. Evaluations do not nest.
    """

    MAX_STEPS = 400_000
    """Of one evaluation: some tenths of a second. Only hostile expressions need as many."""

    def __init__(self) -> None:
        self._left = self.MAX_STEPS

    def begin(self) -> None:
        self._left = self.MAX_STEPS

    def spend(self, steps: int) -> None:
        """Raises Exceeded."""
        self._left -= steps
        if self._left < 0:
            raise Exceeded


WORK = Work()


class Frame:
    """One evaluation: its variables, and what it has cost so far."""

    __slots__ = ("cost", "limit", "slots", "variables")

    def __init__(self, variables: dict[str, Any], slots: int, limit: int) -> None:
        self.variables = variables
        self.slots: list[Any] = [None] * slots
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        """Raises Exceeded."""
        self.cost += cost
        if self.cost > self.limit:
            raise Exceeded
