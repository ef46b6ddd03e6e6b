"""A search for the nodes that can go: several orders, the proposals of a solver, and small changes of the best order so far.

Every order is tried on the core's own decisions (`drain_trials.py`), so that what is found holds when the nodes are drained
one after the other as listed. The search is bounded by decisions, which gives the same answer on every machine, or by time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, inf
from random import Random
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.answers.trial.drain_trials import DrainTrials
from mooring.kit.callbacks import Progress
from mooring.model.pod import Pod
from mooring.rules.evictions import is_drained
from mooring.sim.gauge import MAIN

DECISIONS = 40_000
"""How many decisions a search makes if no time is given."""
SQUARE_DECISIONS = 800_000_000_000
"""Above 4,472 nodes a search makes so many decisions divided by the square of the number of nodes, 32,000 for 5,000 and 2,000
for 20,000: each takes longer with more nodes, and so does all that comes before and after the search."""
CHANGES = 80
"""The search ends after this number of changes in a row that are in vain. Small clusters need some dozens."""
SETS = 6
"""How many sets of nodes a solver proposes: those that it gave before are excluded each time."""
LUCKS = 10
"""In how many ways chance falls to see which steps of an order hold by luck only."""
CHEAP_MOVES = 1000
"""Of an order that moves more pods, other chances are looked into when the search is over, if there is effort left."""
MAX_IN_VAIN = 300
"""One pass ends after so many nodes in a row that have to stay: the others are used even more."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Nodes that a solver would empty, if pods could go where they have room."""

    names: Sequence[str]
    most: float
    """No set of nodes that can go is worth more."""


Propose = Callable[[Sequence[Sequence[str]]], NodeSet | None]
"""(sets that were proposed before) -> another set; None if there is none, or no solver."""


@dataclass(slots=True)
class SearchEffort:
    """How much a search may do."""

    decisions: int = DECISIONS
    seconds: float | None = None
    """Instead of a number of decisions."""
    _begin: float = field(default_factory=monotonic)

    def share(self, made: int) -> float:
        """How much of the effort is spent after so many decisions: 1 is all of it."""
        return made / self.decisions if self.seconds is None else (monotonic() - self._begin) / max(self.seconds, 1e-3)


def effort_for(nodes: int, seconds: float | None) -> SearchEffort:
    """The effort for a cluster with so many nodes: so many seconds, or a number of decisions."""
    return SearchEffort(min(DECISIONS, SQUARE_DECISIONS // max(nodes, 1) ** 2), seconds)


@dataclass(frozen=True, slots=True)
class DrainOrder:
    """Nodes that can be drained and removed one after the other."""

    names: Sequence[str] = ()
    worth: float = 0.0
    safe: int = 0
    """The number of first drains that hold however chance falls: among nodes with the best score, and among pods."""
    lucks: int = 0
    """In how many ways chance fell for that, beside the first one."""
    cordons_first: bool = False
    """Whether all of the nodes have to be cordoned before the first one is drained."""
    moves: int = 0
    """How many pods move, each as often as it does."""

    @property
    def rank(self) -> tuple[float, int, bool, int]:
        """The best order has the highest rank."""
        return self.worth, self.safe, not self.cordons_first, -self.moves


@dataclass(frozen=True, slots=True)
class FoundDrains:
    """The best order, why the other nodes stay, and whether the search could do all that it does."""

    order: DrainOrder
    reasons: Mapping[str, str]
    """By node that stays: why it had to when it was tried."""
    is_complete: bool


class DrainSearch:
    """Looks for the order that is worth most."""

    def __init__(
        self,
        trials: DrainTrials,
        worth: Mapping[str, float],
        effort: SearchEffort,
        propose: Propose | None = None,
        tell: Progress | None = None,
    ) -> None:
        """`worth` has all nodes that may go."""
        self._trials, self._worth, self._effort = trials, worth, effort
        self._propose, self._tell = propose, tell
        self._orders = first_orders(trials, worth)
        self._best = DrainOrder()
        self._most = inf
        self._drained: list[tuple[str, int]] = []
        """The drains that are in force now, and the moment before each."""
        self._reasons: dict[str, str] = {}
        """By node that the best order leaves: why."""
        self._refused: dict[str, str] = {}
        """By node that could not be drained in the order that is tried now: why."""
        self._was_cut = False
        self._dice = Random(0)

    def run(self) -> FoundDrains:
        proposed = None if self._propose is None else self._propose(())
        self._most = most_by_room(self._trials, self._worth)
        self._most = self._most if proposed is None else min(self._most, proposed.most)
        for order in self._orders:
            self._try(order)
        self._follow(proposed)
        self._change()
        if self._best.names and not self._best.lucks:
            self._best = self._with_chances(self._best)
        return FoundDrains(self._best, self._reasons, not self._was_cut)

    # ---- the parts of the search

    def _follow(self, proposed: NodeSet | None) -> None:
        """Try the sets of a solver, each in several orders and with all of its nodes cordoned first."""
        seen: list[Sequence[str]] = []
        while self._propose is not None and proposed is not None and len(seen) < SETS and not self._is_done():
            seen.append(proposed.names)
            chosen = set(proposed.names)
            for order in self._orders:
                first = [name for name in order if name in chosen]
                self._try([*first, *(name for name in order if name not in chosen)])
                self._try(first[::-1])
                self._try_cordoned(first)
            self._go_back()
            proposed = self._propose(seen)

    def _change(self) -> None:
        """Change the best order in small ways for as long as that helps now and then."""
        in_vain = 0
        while in_vain < CHANGES and not self._is_done():
            before = self._best.rank
            self._try(self._changed())
            in_vain = 0 if self._best.rank > before else in_vain + 1

    def _changed(self) -> list[str]:
        """The best order, cut off somewhere, with one of its nodes left for later, and the others shuffled."""
        names = list(self._best.names)
        kept = names[: self._dice.randint(0, len(names))]
        if kept and self._dice.random() < 0.5:
            kept.remove(self._dice.choice(kept))
        chosen = set(kept)
        rest = [name for name in self._worth if name not in chosen]
        self._dice.shuffle(rest)
        return [*kept, *rest]

    def _is_done(self) -> bool:
        """Whether nothing better can be found, or the effort is spent."""
        best = self._best
        is_best = best.worth >= self._most - 1e-6 and best.safe == len(best.names) and not best.cordons_first
        return is_best or self._is_spent()

    def _is_spent(self) -> bool:
        share = self._effort.share(self._trials.decisions)
        if self._tell is not None:
            self._tell(min(round(100 * share), 100), 100)
        self._was_cut = self._was_cut or share >= 1
        return share >= 1

    # ---- orders

    def _try(self, order: Sequence[str]) -> None:
        names: list[str] = []
        in_vain = 0
        self._refused = {}
        for name in order:
            if self._is_spent() or in_vain >= MAX_IN_VAIN:
                self._was_cut = True
                break
            is_gone = self._goes_next(names, name)
            in_vain = 0 if is_gone else in_vain + 1
            names += [name] if is_gone else []
        self._consider(names)

    def _goes_next(self, before: Sequence[str], name: str) -> bool:
        """Whether a node can go after others, which can. What the last order has in common with this one is in force
        already."""
        place = len(before)
        if len(self._drained) > place:
            if self._drained[place][0] == name:
                return True
            self._trials.go_back(self._drained[place][1])
            del self._drained[place:]
        mark = self._trials.mark
        reason = self._trials.drain(name)
        if reason:
            self._refused[name] = reason
            return False
        self._drained.append((name, mark))
        return True

    def _go_back(self) -> None:
        self._trials.go_back(0)
        self._drained.clear()

    def _try_cordoned(self, names: Sequence[str]) -> None:
        """Cordon all nodes, then drain them. Those that have to stay are left out the next time, until all go."""
        left, self._refused = list(names), {}
        while left and not self._is_spent():
            gone = self._drained_together(left)
            if len(gone) == len(left):
                return
            left = gone

    def _drained_together(self, names: Sequence[str]) -> list[str]:
        self._go_back()
        self._trials.cordon(names)
        outcomes = {name: self._trials.drain(name) for name in names}
        gone = [name for name, reason in outcomes.items() if not reason]
        self._refused |= {name: reason for name, reason in outcomes.items() if reason}
        if len(gone) == len(names):
            self._consider(gone, cordons_first=True)
        self._go_back()
        return gone

    def _consider(self, names: Sequence[str], cordons_first: bool = False) -> None:
        """Take the order that is in force now as the best one so far, if it is."""
        order = DrainOrder(
            tuple(names),
            sum(self._worth[name] for name in names),
            safe=len(names),
            cordons_first=cordons_first,
            moves=self._trials.moves,
        )
        if not self._best.names:
            self._reasons = self._refused
        if names and order.rank > self._best.rank:
            order = self._with_chances(order) if order.moves <= CHEAP_MOVES else order
            if order.rank > self._best.rank:
                self._best, self._reasons = order, self._refused

    def _with_chances(self, order: DrainOrder) -> DrainOrder:
        """The order with how many of its first drains hold however chance falls."""
        safe, lucks = len(order.names), 0
        while lucks < LUCKS and safe and not self._is_spent():
            self._go_back()
            lucks += 1
            self._trials.use_luck(lucks)
            self._trials.cordon(order.names if order.cordons_first else ())
            safe = next((i for i, name in enumerate(order.names[:safe]) if self._trials.drain(name)), safe)
        self._go_back()
        self._trials.use_luck(0)
        return replace(order, safe=safe, lucks=lucks)


# ---- Orders to begin with, and a bound: plain sums over the columns.


def first_orders(trials: DrainTrials, worth: Mapping[str, float]) -> list[list[str]]:
    """Orders to begin with, the lowest key for each unit of worth first: by the room that goes with a node, by the larger
    share of cpu and memory that pods request, by the number of pods, and by the amount that they request."""
    nodes = trials.cluster.nodes
    places = [nodes.amounts.resource(resource) for resource in MAIN]
    has, held = nodes.amounts.allocatable[places], nodes.amounts.requested[places]
    totals = np.maximum(has.sum(axis=1, keepdims=True), 1)
    share = np.where(has > 0, held / np.maximum(has, 1), 0.0).max(axis=0)
    request, room = (held / totals).sum(axis=0), (has / totals).sum(axis=0)
    return [
        _sorted(trials, worth, keys)
        for keys in ((room, request), (share, request), (nodes.pod_count, request), (request, room))
    ]


def _sorted(trials: DrainTrials, worth: Mapping[str, float], keys: Sequence[NDArray[Any]]) -> list[str]:
    """The nodes by the first key for each unit of worth, then by the second, then by name."""
    rows = trials.cluster.nodes.row_book

    def key(name: str) -> tuple[float, float, str]:
        first, second = (float(each[rows[name]]) for each in keys)
        return first / max(worth[name], _ROUNDING), second, name

    return sorted(worth, key=key)


def most_by_room(trials: DrainTrials, worth: Mapping[str, float]) -> float:
    """No nodes that can go are worth more: for each resource, pods need the room of the nodes that stay."""
    nodes, found = trials.cluster.nodes, inf
    for name in MAIN:
        place = nodes.amounts.resource(name)
        has, held = (column[place, : nodes.height] for column in (nodes.amounts.allocatable, nodes.amounts.requested))
        rows = [nodes.row_book[each] for each in worth]
        weights = [float(has[row]) - _held_by_daemons(nodes.pods_on[row], name) for row in rows]
        free = float((has - held)[nodes.alive[: nodes.height]].sum())
        found = min(found, _most_in(free, [*zip(weights, worth.values(), strict=True)]))
    return floor(found + _ROUNDING) if all(each == int(each) for each in worth.values()) else found


def _held_by_daemons(pods: Sequence[Pod], resource: str) -> int:
    """The amount that goes away with the node, because nothing replaces the pods that hold it."""
    return sum(pod.shape.held.get(resource, (0, 0))[0] for pod in pods if not is_drained(pod))


def _most_in(room: float, items: Sequence[tuple[float, float]]) -> float:
    """The most that items of these weights and values are worth in so much room, if one of them may be cut."""
    total = 0.0
    for weight, value in sorted(items, key=lambda item: item[0] / max(item[1], _ROUNDING)):
        if weight > room:
            return total + value * max(room, 0.0) / weight
        room, total = room - max(weight, 0.0), total + value
    return total
