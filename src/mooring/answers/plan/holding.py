"""Looks for steps of nodes that hold in all orders of pods and nodes, and cost least.

Searches that try one order propose nodes, and so do programs that pack nodes more or less tightly. Nodes that come last take
nothing from those before, so that steps at the end repair any plan. Where few combinations of nodes cost less, all of them
are tried, the cheapest first. Otherwise the search tries cheaper nodes that programs propose, the most promising first, in
several sequences; and it takes nodes of a plan that holds away or exchanges them for cheaper ones. Nearly all attempts fail
in the first order that is tried, because the orders in which others failed come first. The search is bounded by decisions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import product
from math import prod

from mooring.answers.plan.orders import ArrivalOrder, OrderTrials
from mooring.answers.plan.programs import Packing, solve
from mooring.answers.plan.search import FoundNodes, StepWalk, by_preference, found_steps, given_up, sum_of
from mooring.answers.plan.trials import Additions
from mooring.kit.callbacks import Progress
from mooring.model.pod import Pod

MAX_DECISIONS, AT_ONCE_DECISIONS, MANY_DECISIONS = 50_000, 12_000, 8_000
"""For a search for steps, for nodes that come at once, and with more than FEW_PODS pods. A decision takes 0.1 ms on few
nodes, 0.3 on 5,000."""
EXPLORED = 0.6
"""The share of the decisions after which no other nodes are tried: what is there is improved."""
MAX_LISTED = 300
"""Where no more combinations of nodes than these cost less than a plan that holds, all of them are tried: each takes up to
seven sequences, and most fail in the first order."""
MAX_CONFIRMED, MANY_CONFIRMED = 8, 2
"""How often plans that hold are tried in orders that the search has not seen, and repaired where they fail."""
FEW_PODS = 100
"""With more pods than these, only nodes that other searches found are tried: each trial takes long."""
PACKINGS = tuple(Packing(fill, slack) for fill, slack in product((1.0, 0.95, 0.9, 0.85, 0.8, 0.7), (0.0, 0.5, 1.0)))
IMPROVED = 2
"""How many plans that hold are improved, and tried in fewer steps."""
GREED = 2.0
"""How much more than the cheapest nodes for them pods that are left count: the scheduler uses those badly as well."""
MAX_SINGLE = 60
"""Plans with more nodes than these are not tried with all nodes one by one."""
NEAR = 1e-9
Steps = tuple[Additions, ...]


def steps_of(found: FoundNodes) -> Steps:
    """The steps; nodes that come at once are one step."""
    return tuple(found.steps) or (found.counts,)


class HoldingSearch:
    """One search over the offers of a trial cluster. `pods` are those that the present nodes do not take in the order of the
    queue; `most_left` is how many pods a plan may leave in each order."""

    def __init__(
        self,
        orders: OrderTrials,
        pods: Sequence[Pod],
        bound: float,
        most_left: int,
        is_at_once: bool,
        tell: Progress | None = None,
    ) -> None:
        self._orders, self._demand, self._pods, self._bound = orders, orders.demand, pods, bound
        self._most_left, self._is_at_once, self._tell = most_left, is_at_once, tell
        self._is_small = len(pods) <= FEW_PODS
        few = AT_ONCE_DECISIONS if is_at_once else MAX_DECISIONS
        self._most = few if self._is_small else MANY_DECISIONS
        self._last = orders.trials.decisions + self._most
        self._holding: list[Steps] = []
        self._tried: set[Steps] = set()

    def run(self, found: Sequence[FoundNodes]) -> FoundNodes | None:
        """The cheapest nodes that hold in all orders; None if none were found that do."""
        ranked = sorted(found, key=FoundNodes.rank)
        if self._is_small and ranked:
            self._orders.take_hardest([*self._sequences(ranked[0].counts)][0 if self._is_at_once else -1])
        for each in ranked if self._is_small else ranked[:1]:
            self._complete(steps_of(each))
        if not self._has_tried_all_cheaper():
            if self._is_small and not self._is_near_bound():
                self._explore([each.counts for each in found])
            self._improve_best()
        best = self._preferred()
        for _ in range(MAX_CONFIRMED if self._is_small else MANY_CONFIRMED):
            failed = self._orders.failing_spare(best, self._most_left) if best is not None else ()
            if best is None or not failed:
                break
            self._repair(best, failed)
            best = self._preferred()
        return best if best is None else self._found(best)

    def _improve_best(self) -> None:
        for steps in sorted(self._holding, key=self._cost)[:IMPROVED]:
            self._improve(steps)

    def _preferred(self) -> Steps | None:
        """The cheapest of the plans that hold, or one that costs little more and has fewer steps."""
        plans = [self._found(steps) for steps in self._holding]
        if not plans or self._is_at_once:
            return min(self._holding, key=self._cost, default=None)
        merged = [self._found(self._merged(steps_of(each))) for each in by_preference(plans, self._bound)[:IMPROVED]]
        return steps_of(by_preference(merged, self._bound)[0])

    def _repair(self, steps: Steps, failed: Sequence[ArrivalOrder]) -> None:
        """Go on after orders were found in which the steps fail: with the plans that hold there, or with more nodes."""

        def holds(each: Steps) -> bool:
            return all(len(self._orders.left_in(order, each)) <= self._most_left for order in failed)

        self._holding = [each for each in self._holding if each != steps and holds(each)]
        self._tried.clear()
        self._complete(steps)
        self._improve_best()

    def _found(self, steps: Steps) -> FoundNodes:
        found = found_steps(self._demand, steps, ())
        return found if len(steps) > 1 else replace(found, steps=())

    def _cost(self, steps: Sequence[Additions]) -> float:
        return sum(self._demand.cost_of(step) for step in steps)

    def _best_cost(self) -> float:
        return min(map(self._cost, self._holding), default=float("inf"))

    def _is_near_bound(self) -> bool:
        return self._best_cost() <= self._bound * (1 + NEAR)

    def _is_exhausted(self, share: float = 1.0) -> bool:
        """Whether this share of the decisions was made."""
        decisions = self._orders.trials.decisions
        if self._tell is not None:
            self._tell(min(decisions, self._last), self._last)
        return decisions >= self._last - (1 - share) * self._most

    def _failure(self, steps: Steps) -> Sequence[Pod] | None:
        """The pods that are left in an order in which the steps fail; None if they hold, and then they are noted."""
        self._tried.add(steps)
        left = self._orders.failure(steps, self._most_left)
        if left is None:
            self._holding.append(steps)
        return left

    # ---- more

    def _complete(self, steps: Steps) -> None:
        """Add nodes until the steps hold in all orders, unless that costs more than a plan which holds."""
        if self._is_at_once:
            self._complete_at_once(steps[0])
            return
        tail: list[Additions] = []
        for order in [*self._orders.orders]:
            walk = self._orders.walk(order)
            is_enough = self._follow(walk, order, steps, tail)
            walk.undo(0)
            if not is_enough:
                return
        self._holding.append((*steps, *tail))

    def _follow(self, walk: StepWalk, order: ArrivalOrder, steps: Steps, tail: list[Additions]) -> bool:
        """Make the steps and the tail in an order, and add to the tail until enough pods are placed. Returns False if nothing
        helps, or if it costs more than a plan which holds."""
        domains: dict[str, str] = {}
        for step in order.arrivals([*steps, *tail]):
            domains.update(walk.make(step).domains)
        while len(walk.left) > self._most_left:
            before = len(walk.left)
            more = self._more(walk.counts, walk.left, domains)
            if more is None or self._cost([*steps, *tail, more]) >= self._best_cost() - NEAR:
                return False
            tail.append(more)
            for step in order.arrivals([more]):
                domains.update(walk.make(step).domains)
            if len(walk.left) == before:
                return False
        return True

    def _complete_at_once(self, counts: Additions) -> None:
        """Add nodes for the pods that are left. Where that does not help, because a scheduler spreads other pods over them,
        the next time twice as many are added."""
        times, fewest = 1, len(self._pods) + 1
        while self._demand.cost_of(counts) < self._best_cost() - NEAR and not self._is_exhausted():
            left = self._failure((counts,))
            more = self._more(counts, left, {}) if left is not None else None
            if left is None or more is None:
                return
            times, fewest = (1 if len(left) < fewest else 2 * times), min(len(left), fewest)
            together = zip(counts, more, self._demand.limits, strict=True)
            counts = tuple(min(count + times * number, limit) for count, number, limit in together)

    def _more(self, counts: Additions, left: Sequence[Pod], domains: dict[str, str]) -> Additions | None:
        """The nodes that a program adds for pods that are left; None if it adds none."""
        limits = [limit - count for limit, count in zip(self._demand.limits, counts, strict=True)]
        demand = self._demand.after(domains)
        solution = solve(demand, demand.counts(left), limits)
        return solution.nodes if solution is not None and any(solution.nodes) else None

    # ---- other nodes

    def _explore(self, known: Sequence[Additions]) -> None:
        """Try nodes that programs propose, and these with one more, those first that may become the cheapest plan."""
        waiting: list[tuple[float, float, Additions]] = []
        seen: set[Additions] = set()
        for counts in [*known, *self._proposed()]:
            if counts not in seen:
                seen.add(counts)
                heappush(waiting, (self._demand.cost_of(counts), 0.0, counts))
        while waiting and not self._is_exhausted(EXPLORED):
            _, _, counts = heappop(waiting)
            cost = self._demand.cost_of(counts)
            left = self._fewest_left(counts) if cost < self._best_cost() - NEAR else None
            more = self._more(counts, left, {}) if left else None
            if left is None or more is None:
                continue
            estimate = cost + GREED * self._demand.cost_of(more)
            for child in [sum_of(counts, more), *self._with_one(counts, left)]:
                if child not in seen and not self._exceeds(child):
                    seen.add(child)
                    heappush(waiting, (estimate, len(left), child))

    def _has_tried_all_cheaper(self) -> bool:
        """Try all nodes that cost less than the cheapest plan that holds, if they are few: the first that hold are the
        cheapest. Returns False if they are many, or if decisions run out."""
        cheaper = self._all_cheaper() if self._is_small else None
        for counts in cheaper or ():
            if self._is_exhausted(EXPLORED):
                return False
            if self._fewest_left(counts) is None:
                return True
        return cheaper is not None

    def _all_cheaper(self) -> list[Additions] | None:
        """The numbers of nodes between the bound and the cost of the cheapest plan, by cost; None if they are many."""
        best, least = self._best_cost(), self._bound * (1 - NEAR)
        most = [
            min(limit, len(self._pods), int(best / price) if 0 < price < best < float("inf") else limit)
            for limit, price in zip(self._demand.limits, self._demand.prices, strict=True)
        ]
        if prod(each + 1 for each in most) > MAX_LISTED:
            return None
        ranked = [(self._demand.cost_of(counts), counts) for counts in product(*(range(each + 1) for each in most))]
        return [counts for cost, counts in sorted(ranked) if least <= cost < best - NEAR]

    def _with_one(self, counts: Additions, left: Sequence[Pod]) -> Iterator[Additions]:
        """One node more that takes some of these pods."""
        numbers = self._demand.counts(left)
        takers = {
            offer for kind, number in zip(self._demand.kinds, numbers, strict=True) if number for offer in kind.takers
        }
        for offer in sorted(takers):
            yield tuple(count + (each == offer) for each, count in enumerate(counts))

    def _exceeds(self, counts: Additions) -> bool:
        return any(count > limit for count, limit in zip(counts, self._demand.limits, strict=True))

    def _proposed(self) -> Iterator[Additions]:
        """The nodes of programs that pack them more or less tightly, and of those that may not use one of the offers."""
        numbers, limits = self._demand.counts(self._pods), [*self._demand.limits]
        first = solve(self._demand, numbers, limits)
        used = [offer for offer, number in enumerate(first.nodes) if number] if first is not None else []
        for packing in PACKINGS:
            for without in (None, *used) if packing.fill in (1.0, 0.9) else (None,):
                allowed = [limit if offer != without else 0 for offer, limit in enumerate(limits)]
                solution = solve(self._demand, numbers, allowed, packing)
                if solution is not None and solution.unplaced <= self._most_left:
                    yield solution.nodes

    def _fewest_left(self, counts: Additions) -> Sequence[Pod] | None:
        """The fewest pods that are left in a failing order, over sequences of these nodes; None if one holds."""
        fewest: Sequence[Pod] = self._pods
        for steps in self._sequences(counts):
            if steps not in self._tried:
                left = self._failure(steps)
                if left is None:
                    return None
                fewest = min(fewest, left, key=len)
        return fewest

    def _sequences(self, counts: Additions) -> Iterator[Steps]:
        """All nodes at once; offer by offer; and one by one: small ones first, those that take few kinds first."""
        yield (counts,)
        if self._is_at_once:
            return
        used = [offer for offer, number in enumerate(counts) if number]
        kinds = {offer: sum(offer in kind.takers for kind in self._demand.kinds) for offer in used}
        for key in (self._demand.prices.__getitem__, lambda each: -self._demand.prices[each], kinds.__getitem__):
            ranked = sorted(used, key=key)
            yield tuple(self._nodes(offer, counts[offer]) for offer in ranked)
            if sum(counts) <= MAX_SINGLE:
                yield tuple(self._nodes(offer, 1) for offer in ranked for _ in range(counts[offer]))

    def _nodes(self, offer: int, number: int) -> Additions:
        return tuple(number if each == offer else 0 for each in range(len(self._demand.prices)))

    # ---- less

    def _improve(self, steps: Steps) -> None:
        """Take nodes away and exchange them for cheaper ones while the steps hold in all orders."""
        is_improved = True
        while is_improved and not self._is_near_bound() and not self._is_exhausted():
            is_improved = False
            for fewer in self._cheaper(steps):
                if self._failure(fewer) is None:
                    steps, is_improved = fewer, True
                    break
                if self._is_exhausted():
                    break

    def _cheaper(self, steps: Steps) -> list[Steps]:
        """Steps that cost less, those first that give up the least room for what they save, and of these the cheapest."""
        ranked = []
        cost, counts = self._cost(steps), sum_of(*steps)
        for fewer in {*self._exchanged(steps)}:
            saved = cost - self._cost(fewer)
            if NEAR < saved <= cost - self._bound * (1 - NEAR) and fewer not in self._tried:
                after = sum_of(*fewer)
                if not self._exceeds(after):
                    ranked.append((round(given_up(self._demand, counts, after) * cost / saved, 1), -saved, fewer))
        return [fewer for _, _, fewer in sorted(ranked)]

    def _exchanged(self, steps: Steps) -> Iterator[Steps]:
        """Fewer nodes of an offer in one step, or up to two nodes of another offer instead of one or two."""
        offers = range(len(self._demand.prices))
        for at, step in enumerate(steps):
            for offer in [each for each in offers if step[each]]:
                fewer = [(offer, step[offer] >> halved, 0) for halved in range(step[offer].bit_length())]
                for other, taken, given in (*fewer, *product(offers, (1, 2), (1, 2))):
                    if step[offer] >= taken and (other != offer or not given):
                        changed = [number - taken * (each == offer) for each, number in enumerate(step)]
                        changed[other] += given
                        new = (tuple(changed),) if any(changed) else ()
                        if new or len(steps) > 1:
                            yield (*steps[:at], *new, *steps[at + 1 :])

    def _merged(self, steps: Steps) -> Steps:
        """Join neighbouring steps while they hold in all orders: first two, then four, then eight."""
        at = 0
        while at < len(steps) - 1:
            joined = 1
            while at + joined < len(steps) and not self._is_exhausted():
                together = (*steps[:at], sum_of(*steps[at : at + joined + 1]), *steps[at + joined + 1 :])
                if together in self._tried or self._failure(together) is not None:
                    break
                steps, joined = together, joined * 2 if at + joined * 2 < len(together) else 1
            at += 1
        return steps
