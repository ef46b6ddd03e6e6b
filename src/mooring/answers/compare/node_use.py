"""Which nodes are in use and for how long, and what that costs.

A node is in use while it has a pod that does not belong to a DaemonSet: without such pods it could be switched off.
"""

import errno
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.answers.compare.fragmentation import is_for_one_node
from mooring.cluster.nodes.table import NodeTable
from mooring.kit.bounded_reading import read_file
from mooring.kit.yaml_reader import YamlFault, keep_last, read_document
from mooring.model.node import Node
from mooring.model.validation.problem import Problem, show
from mooring.sim.input_errors import InputError
from mooring.sim.simulated_cluster import count, some

PRICE = "mooring.dev/price"
"""A label or an annotation of a node: what it costs an hour, as a number."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MAX_BYTES = 1 << 20


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
        is_used = bool(nodes.alive[row]) and not all(map(is_for_one_node, nodes.pods_on[row]))
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


# ---- prices


def read_prices(path: str) -> dict[str, float]:
    """A YAML file with prices an hour, by instance type or by name of a node; maybe under `prices`. Raises InputError."""
    try:
        written = read_document(read_file(path, MAX_BYTES), keep_last)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise InputError([Problem("", "has more than 1 MiB; write prices by instance type", file=path)]) from error
        raise InputError([Problem("", f"cannot be read: {error.strerror}", file=path)]) from error
    except YamlFault as fault:
        raise InputError([Problem(f"column {fault.column}", str(fault), file=path, line=fault.line)]) from fault
    return prices_of(written, path)


def prices_of(written: Any, file: str = "") -> dict[str, float]:
    """Prices from plain data in the form of the YAML. Raises InputError."""
    if isinstance(written, dict) and isinstance(written.get("prices"), dict):
        written = written["prices"]
    if not isinstance(written, Mapping):
        form = "an object with a price an hour for each instance type"
        raise InputError([Problem("", show(written), form, file=file)])
    problems = [
        Problem(f"prices[{name}]", show(price), "a number from 0", file=file)
        for name, price in written.items()
        if not _is_price(price)
    ]
    if problems:
        raise InputError(problems)
    return {str(name): float(price) for name, price in written.items()}


def _is_price(price: object) -> bool:
    return isinstance(price, int | float) and not isinstance(price, bool) and 0 <= price < 1e15


def node_prices(nodes: Sequence[Node], prices: Mapping[str, float] | None) -> dict[str, float]:
    """What each node costs an hour, by name; empty if no price is known at all. Raises InputError if only some are."""
    found = {node.name: _price(node, prices or {}) for node in nodes}
    missing = [name for name, price in found.items() if price is None]
    if missing and (prices is not None or len(missing) < len(nodes)):
        told = f"no price for {count(len(missing), 'node')}: {some(missing)}"
        advice = f"by instance type (the label {INSTANCE_TYPE}) or by name, or give the nodes a label {PRICE}"
        raise InputError([Problem("prices", f"{told}; add them {advice}")])
    return {name: price for name, price in found.items() if price is not None}


def _price(node: Node, prices: Mapping[str, float]) -> float | None:
    for name in (node.name, node.labels.get(INSTANCE_TYPE, node.name)):
        if name in prices:
            return prices[name]
    written = (node.metadata.annotations or {}).get(PRICE) or node.labels.get(PRICE)
    try:
        price = float(written) if written else None
    except ValueError:
        return None
    return price if price is not None and _is_price(price) else None
