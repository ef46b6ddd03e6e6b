"""Prices of nodes an hour, from a list of prices, or from a label or an annotation of each node; and what a cluster costs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.api.validation.problem import Problem
from mooring.cluster.nodes.table import NodeTable
from mooring.inputs.input_errors import InputError
from mooring.inputs.offers.instance_types import INSTANCE_TYPE, PRICE, price_of
from mooring.inputs.offers.price_list import PricedNode, PriceList
from mooring.kit.words import count, some
from mooring.model.node import Node
from mooring.sim.gauge import MAIN

NO_PRICES = PriceList()


def node_price(node: Node, prices: PriceList) -> float | None:
    """The price of an hour of a node; None: nothing tells it."""
    listed = prices.price(PricedNode(node.name, node.labels, node.spec.provider_id))
    if listed is not None:
        return listed
    return price_of((node.metadata.annotations or {}).get(PRICE) or node.labels.get(PRICE))


def node_prices(nodes: Sequence[Node], prices: PriceList | None) -> dict[str, float]:
    """The price of an hour of each node, by name; empty if no price is known at all. Raises InputError if only some are."""
    found = {node.name: node_price(node, prices or NO_PRICES) for node in nodes}
    missing = [name for name, price in found.items() if price is None]
    if missing and (prices is not None or len(missing) < len(nodes)):
        told = f"no price for {count(len(missing), 'node')}: {some(missing)}"
        advice = f"by instance type (the label {INSTANCE_TYPE}) or by name, or give the nodes a label {PRICE}"
        raise InputError([Problem("prices", f"{told}; add them {advice}")])
    return {name: price for name, price in found.items() if price is not None}


def unpriced(nodes: Sequence[Node], prices: PriceList = NO_PRICES) -> list[str]:
    """The nodes whose price nothing tells."""
    return [node.name for node in nodes if node_price(node, prices) is None]


def known_prices(nodes: Sequence[Node], prices: PriceList = NO_PRICES) -> dict[str, float]:
    """The price of an hour of each node, by name; empty if some node has none."""
    found = {node.name: price for node in nodes if (price := node_price(node, prices)) is not None}
    return found if len(found) == len(nodes) else {}


# ---- what a cluster costs


@dataclass(frozen=True, slots=True)
class ClusterCost:
    """The price of an hour of the nodes whose price is known."""

    total: float
    idle: float
    """The part of it that nothing is requested for: of each node one minus the larger of the requested shares of cpu and
    memory, so that memory which no pod can use because all CPUs are taken does not count as idle."""


def cost_of_nodes(table: NodeTable, rows: NDArray[np.intp], prices: NDArray[np.float64]) -> ClusterCost:
    """The cost of the nodes in these rows; `prices` has NaN where none is known.

    | price     | 2    | 2    | 2    | NaN  |
    | cpu       | 50 % | 10 % | 0 %  | 0 %  |
    | memory    | 25 % | 90 % | 0 %  | 0 %  |
    | idle part | 1.0  | 0.2  | 2.0  | 0    |
    """
    known = np.nan_to_num(prices)
    return ClusterCost(float(known.sum()), float((known * (1 - _busiest(table, rows))).sum()))


def _busiest(table: NodeTable, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """The larger of the requested shares of cpu and memory of each row, at most 1."""
    busiest = np.zeros(len(rows))
    for place in map(table.amounts.resource, MAIN):
        held, room = table.amounts.requested[place, rows], table.amounts.allocatable[place, rows]
        np.maximum(busiest, np.minimum(held / np.maximum(room, 1), 1.0), out=busiest)
    return busiest
