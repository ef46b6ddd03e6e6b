"""What pods see of their node: whether it lives and its address; and the addresses that nodes and pods get."""

from collections.abc import Iterable
from dataclasses import dataclass

from mooring.model.json_objects import JsonObject

FAILED = "mooring.dev/failed"
"""The annotation by which a user makes a node fail: `"true"` stops its kubelet, anything else lets it recover."""


def lives(node: JsonObject) -> bool:
    """Whether the kubelet of the node runs."""
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
    """A node as its pods need it; made once for each version of the node."""

    node: JsonObject
    lives: bool
    address: str
    addresses: list[JsonObject]

    @classmethod
    def of(cls, node: JsonObject) -> "Host":
        address = address_of(node)
        return cls(node, lives(node), address, [{"ip": address}] if address else [])


# ---- Addresses of pods and nodes: each is given out once for as long as it is in use.


class Addresses:
    """IPv4 addresses of one range, given out in turn."""

    def __init__(self, first: str, count: int, taken: Iterable[str] = ()) -> None:
        """`taken` are addresses that are in use already; those outside of the range do no harm."""
        self._first = _number(first)
        self._count = count
        self._turn = 0
        self._taken = set(taken)

    def take(self) -> str:
        """A free address. If all are taken they are shared: nothing here routes by them."""
        # At most one more try than there are addresses in use, so it ends also when the range is exhausted.
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
