"""Prices of nodes an hour: from a file by instance type or name, or from a label or an annotation of each node."""

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api.validation.problem import Problem, show
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import Source
from mooring.kit.bounded_reading import read_file
from mooring.kit.words import count, some
from mooring.kit.yaml_reader import YamlFault, keep_last, read_document
from mooring.model.node import Node

PRICE = "mooring.dev/price"
"""A label or an annotation of a node: what it costs an hour, as a number."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MAX_BYTES = 1 << 20


def asked_prices(prices: Source | Mapping[str, float] | None) -> dict[str, float] | None:
    """The prices of a file or a dictionary, if one is given. Raises InputError."""
    if prices is None:
        return None
    return read_prices(os.fspath(prices)) if isinstance(prices, str | os.PathLike) else prices_of(prices)


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
    """The price of an hour of each node, by name; empty if no price is known at all. Raises InputError if only some are."""
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


def known_prices(nodes: Sequence[Node]) -> dict[str, float]:
    """The price of an hour of each node, by name, as labels and annotations tell; empty if some node has none."""
    found = {node.name: price for node in nodes if (price := _price(node, {})) is not None}
    return found if len(found) == len(nodes) else {}
