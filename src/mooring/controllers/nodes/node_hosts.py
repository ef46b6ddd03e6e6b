"""A node as those see it that run there: whether it lives, and its address."""

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
