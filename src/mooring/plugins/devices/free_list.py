"""The devices that a search may still pick, in order: those that are taken are skipped without looking at them."""

from collections.abc import Iterable


class FreeList:
    """Positions from which some are taken out, and put back in the opposite order.

    A linked list of which a member that is taken out keeps its neighbours, so that it finds its place again. Each of
    thousands of claims would else look at all the devices that the claims before it took.
    """

    def __init__(self, size: int, left_out: Iterable[int]) -> None:
        self.size = size
        out = set(left_out)
        members = [position for position in range(size) if position not in out]
        self._after = [size] * (size + 1)
        """By position, the last being the one before all others."""
        self._before = [-1] * (size + 1)
        for one, other in zip([-1, *members], [*members, size], strict=True):
            self._after[one], self._before[other] = other, one
        self._is_in = [position not in out for position in range(size)]

    def after(self, position: int) -> int:
        """The next member, or `size`; -1 stands before the first. One that was just taken out may be asked about."""
        return self._after[position]

    def take_out(self, position: int) -> None:
        """Nothing happens if it never was in."""
        if self._is_in[position]:
            self._link(self._before[position], self._after[position])

    def put_back(self, position: int) -> None:
        """It must be the one that was taken out last of those that are out."""
        if self._is_in[position]:
            self._after[self._before[position]] = position
            self._before[self._after[position]] = position

    def _link(self, one: int, other: int) -> None:
        self._after[one], self._before[other] = other, one
