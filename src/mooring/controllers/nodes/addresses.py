"""Addresses of pods and nodes: each is given out once as long as it is held."""

from collections.abc import Iterable


class Addresses:
    """IPv4 addresses of one range, given out in turn."""

    def __init__(self, first: str, count: int, taken: Iterable[str] = ()) -> None:
        """`taken` are addresses that are held already; others than those of the range do no harm."""
        self._first = _number(first)
        self._count = count
        self._turn = 0
        self._taken = set(taken)

    def take(self) -> str:
        """An address that nobody holds. With all taken they are shared: nothing here routes by them."""
        for _ in range(min(self._count, len(self._taken) + 1)):
            address = _text(self._first + self._turn)
            self._turn = (self._turn + 1) % self._count
            if address not in self._taken:
                break
        self._taken.add(address)
        return address

    def free(self, address: str) -> None:
        self._taken.discard(address)


def _number(text: str) -> int:
    a, b, c, d = map(int, text.split("."))
    return a << 24 | b << 16 | c << 8 | d


def _text(number: int) -> str:
    return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
