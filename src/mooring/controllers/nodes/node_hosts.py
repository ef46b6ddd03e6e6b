"""A node as those see it that run there: whether it lives, and its address."""

from collections.abc import Iterable
from dataclasses import dataclass

from mooring.model.json_objects import JsonObject

FAILED = "mooring.dev/failed"
"""The annotation by which a user lets a node fail: `"true"` stops its kubelet, anything else lets it recover."""


def lives(node: JsonObject) -> bool:
    return bool(node["metadata"].get("annotations", {}).get(FAILED) != "true")


def address_of(node: JsonObject) -> str:
    """Its internal address; empty: it has none yet."""
    for address in node.get("status", {}).get("addresses", ()):
        if address.get("type") == "InternalIP":
            found: str = address.get("address", "")
            return found
    return ""


@dataclass(frozen=True, slots=True)
class Host:
    """What pods take over from their node; made once for each version of it."""

    node: JsonObject
    lives: bool
    address: str
    addresses: list[JsonObject]

    @classmethod
    def of(cls, node: JsonObject) -> "Host":
        address = address_of(node)
        return cls(node, lives(node), address, [{"ip": address}] if address else [])


# ---- Addresses of pods and nodes: each is given out once as long as it is held.


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
