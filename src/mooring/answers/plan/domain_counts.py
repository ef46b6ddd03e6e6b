"""Spreading in walks over a table of contents: how many pods of each kind the domains of a label have, in each order.

A required spread constraint that counts the pods of one kind alone needs no decision of the core: the node must have the
label, and its domain no more pods than the skew above the domain with the fewest. The core confirms what comes of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.demand import NO_DOMAIN, NodeDemand, PodKind

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_MANY = 1 << 30


def has_one_spread(kind: PodKind) -> bool:
    """Whether all that spreads pods of a kind is one required constraint that counts no others."""
    constraints = kind.pods[0].spec.topology_spread_constraints or ()
    return kind.spread is not None and len(constraints) == 1 and kind.spread.constraint.min_domains <= 1


@dataclass(frozen=True, slots=True)
class SpreadRules:
    """The constraints of a demand, by kind of pod and place: an offer, or a present node that takes pods."""

    spreads: Flags
    """By kind."""
    skews: Numbers
    domains: Numbers
    """By kind and place: the number of the domain; -1 without the label."""
    counted: Flags
    """By kind and place: whether a node there makes its domain count for the lowest number."""
    held: Numbers
    """By kind and domain: the pods that are there already."""
    there: Flags
    """By kind and domain: whether a present node makes it count."""

    @classmethod
    def of(cls, demand: NodeDemand, present_rows: Sequence[int]) -> "SpreadRules | None":
        """None if no kind is spread."""
        spreads = {at: kind.spread for at, kind in enumerate(demand.kinds) if kind.spread is not None}
        if not spreads:
            return None
        names = {name for each in spreads.values() for name in (*each.held, *each.domains, *each.offers.values())}
        numbers = {name: at for at, name in enumerate(sorted(names - {NO_DOMAIN}))} | {NO_DOMAIN: -1}
        kinds, offers = len(demand.kinds), len(demand.prices)
        size, width = (kinds, offers + len(present_rows)), (kinds, max(len(numbers) - 1, 1))
        found = cls(
            np.isin(np.arange(kinds), [*spreads]),
            np.zeros(kinds, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, bool),
            np.zeros(width, np.int64),
            np.zeros(width, bool),
        )
        for at, spread in spreads.items():
            found.skews[at] = spread.max_skew
            places = [
                *(spread.offers[offer] for offer in range(offers)),
                *(spread.domains[row] for row in present_rows),
            ]
            found.domains[at] = [numbers[name] for name in places]
            found.counted[at, [*spread.eligible]] = True
            for name, number in spread.held.items():
                found.held[at, numbers[name]], found.there[at, numbers[name]] = number, True
        return found


class DomainCounts:
    """By order, kind and domain: how many pods there are, and whether the domain counts."""

    def __init__(self, rules: SpreadRules, counts: Numbers, there: Flags) -> None:
        self._rules, self._counts, self._there = rules, counts, there

    @classmethod
    def begin(cls, rules: SpreadRules, orders: int) -> "DomainCounts":
        return cls(rules, np.tile(rules.held, (orders, 1, 1)), np.tile(rules.there, (orders, 1, 1)))

    def only(self, orders: NDArray[np.generic]) -> "DomainCounts":
        """A copy with some of the orders."""
        return DomainCounts(self._rules, self._counts[orders], self._there[orders])

    def joined(self, other: "DomainCounts") -> "DomainCounts":
        """The orders of both."""
        counts = np.concatenate([self._counts, other._counts])
        return DomainCounts(self._rules, counts, np.concatenate([self._there, other._there]))

    def arrive(self, places: Numbers) -> None:
        """Nodes come: `places` has their places by order."""
        rows = np.arange(len(places))
        for kind in np.flatnonzero(self._rules.spreads).tolist():
            for column in places.T:
                counted = self._rules.counted[kind, column] & (self._rules.domains[kind, column] >= 0)
                self._there[rows[counted], kind, self._rules.domains[kind, column[counted]]] = True

    def allow(self, rows: Numbers, kinds: Numbers, places: Numbers) -> Flags:
        """By row and node whether the constraint of the row's pod lets it go there. `places` are those of the nodes."""
        rules = self._rules
        domains = rules.domains[kinds[:, None], places]
        counts = self._counts[rows, kinds]
        lowest = np.where(self._there[rows, kinds], counts, _MANY).min(axis=1)
        skews = np.take_along_axis(counts, np.maximum(domains, 0), axis=1) + 1 - lowest[:, None]
        allowed: Flags = (domains >= 0) & (skews <= rules.skews[kinds][:, None])
        return allowed | ~rules.spreads[kinds][:, None]

    def add(self, rows: Numbers, kinds: Numbers, places: Numbers) -> None:
        """A pod of each row's kind comes to a node of this place."""
        rows, kinds, places = (each[self._rules.spreads[kinds]] for each in (rows, kinds, places))
        self._counts[rows, kinds, self._rules.domains[kinds, places]] += 1
