"""Which nodes are in use and for how long.

A node is in use while it has a pod that does not belong to a DaemonSet: without such pods it could be switched off.
"""

from mooring.cluster.nodes.table import NodeTable
from mooring.rules.daemon_nodes import is_daemon


class NodesInUse:
    """Follows a node table while time passes. `read` is to be called each time before the clock moves."""

    def __init__(self, nodes: NodeTable, now_ns: int) -> None:
        self._nodes = nodes
        self._position = -1
        self._since: dict[int, tuple[str, int]] = {}
        """Row -> the node that is in use there, and since when. Another node may take the row of one that is removed."""
        self._used_ns: dict[str, int] = {}
        """How long nodes were in use before; every node that ever was is there."""
        self.read(now_ns)

    def read(self, now_ns: int) -> None:
        touches = self._nodes.touches
        if touches.end == self._position:
            return
        rows = touches.since(self._position)  # None at first: the log begins later
        for row in range(self._nodes.height) if rows is None else rows:
            self._look_at(row, now_ns)
        self._position = touches.end

    def _look_at(self, row: int, now_ns: int) -> None:
        nodes = self._nodes
        is_used = bool(nodes.alive[row]) and not all(map(is_daemon, nodes.pods_on[row]))
        if held := self._since.pop(row, None):
            self._used_ns[held[0]] += now_ns - held[1]
        if is_used:
            self._since[row] = nodes.names[row], now_ns
            self._used_ns.setdefault(nodes.names[row], 0)

    def used_ns(self, now_ns: int) -> dict[str, int]:
        """How long each node was in use, of those that ever were."""
        self.read(now_ns)
        for row, (name, since_ns) in self._since.items():
            self._used_ns[name] += now_ns - since_ns
            self._since[row] = name, now_ns
        return dict(self._used_ns)
