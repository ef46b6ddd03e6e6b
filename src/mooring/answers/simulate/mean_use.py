"""How full nodes, zones and pools were on average while pods came and went."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mooring.answers.form.pools import pool_of, zone_of
from mooring.answers.form.utilisation import FULLEST
from mooring.model.node import Node
from mooring.model.quantity import show_percent
from mooring.sim.gauge import MAIN, NodeMeans


@dataclass(frozen=True, slots=True)
class MeanUse:
    """A zone, a pool or a node, over the time of a simulation."""

    nodes: int
    placed: int
    """How many pods were bound to its nodes."""
    shares: Mapping[str, float | None]
    """By resource: the requested share of what is allocatable; None where there is nothing of it."""

    def told_share(self, resource: str) -> str:
        return show_percent(self.shares.get(resource))

    def content(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "placed": self.placed, "meanUtilisation": dict(self.shares)}


@dataclass(frozen=True, slots=True)
class MeanUses:
    """The means in groups, by name."""

    zones: Mapping[str, MeanUse]
    pools: Mapping[str, MeanUse]
    fullest: Mapping[str, MeanUse]
    """The nodes with the largest share of cpu or memory, the fullest first."""


def mean_uses(means: NodeMeans | None, placed: Mapping[str, int], nodes: Iterable[Node]) -> MeanUses:
    """The means of a day by zone and pool; `placed` has how many pods were bound to each node."""
    if means is None:
        return MeanUses({}, {}, {})
    known = {node.name: node for node in nodes}
    there = [known.get(name) for name in means.names]
    zones = _grouped(means, placed, [zone_of(node) if node is not None else "" for node in there])
    pools = _grouped(means, placed, [pool_of(node) if node is not None else "" for node in there])
    shares = (means.requested / np.maximum(means.allocatable, 1)).max(0) if means.names else np.zeros(0)
    fullest = np.argsort(-shares, kind="stable")[:FULLEST].tolist()
    chosen = {means.names[i] for i in fullest}
    by_name = _grouped(means, placed, [name if name in chosen else "" for name in means.names])
    return MeanUses(zones, pools, {means.names[i]: by_name[means.names[i]] for i in fullest})


def _grouped(means: NodeMeans, placed: Mapping[str, int], groups: Sequence[str]) -> dict[str, MeanUse]:
    """The sums of each group, by name; nodes with an empty name are in none."""
    names = sorted({*groups} - {""})
    number_of = {name: i for i, name in enumerate(names)}
    numbers = np.array([number_of.get(group, len(names)) for group in groups], np.int64)
    size = len(names) + 1
    sizes = np.bincount(numbers, minlength=size).tolist()
    counts = np.bincount(numbers, [placed.get(name, 0) for name in means.names], size).tolist()
    requested, allocatable = (
        [np.bincount(numbers, column, size).tolist() for column in matrix]
        for matrix in (means.requested, means.allocatable)
    )
    found = {}
    for i, name in enumerate(names):
        shares = {
            resource: requested[place][i] / allocatable[place][i] if allocatable[place][i] else None
            for place, resource in enumerate(MAIN)
        }
        found[name] = MeanUse(sizes[i], round(counts[i]), shares)
    return found
