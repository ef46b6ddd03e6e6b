"""What a node has and what its pods request, by resource: for reports, not for decisions."""

from mooring.cluster.nodes.table import NodeTable
from mooring.model.quantity import parse_or
from mooring.model.requests import to_units


def amounts_on(nodes: NodeTable, row: int) -> dict[str, tuple[int, int]]:
    """By resource: what is requested, and what is allocatable; in units of the table.

    This goes by the objects, because the table counts only resources that plugins ask about.
    """
    node = nodes.nodes[row]
    written = (node.status.allocatable if node is not None else None) or {}
    room = to_units({name: parse_or(text, 0) for name, text in written.items()})
    used: dict[str, int] = {}
    for pod in nodes.pods_on[row]:
        for name, (amount, _) in pod.shape.held.items():
            used[name] = used.get(name, 0) + amount
    names = ("cpu", "memory", "ephemeral-storage", *room, *used)
    return {name: (used.get(name, 0), room.get(name, 0)) for name in dict.fromkeys(names)}
