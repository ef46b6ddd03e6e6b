"""Looks for steps of nodes that hold in all orders of pods and nodes, and cost least.

Nodes that come one by one are enough to look at: if nodes that come together hold in all orders, also with the nodes in any
order, then so they do one after the other. `StepSearch` proposes such steps, by a table in about all orders at once, and
otherwise in a few. Where they fail in the other orders, nodes that come last repair them: these take nothing from those
before. In the end nodes are taken away or exchanged for cheaper ones, and steps are joined while they hold. Nodes that come
all at once are proposed by programs that pack more or less tightly; where few combinations of nodes cost less, all of them
are tried, the cheapest first. The search is bounded by work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import product
from math import prod

from mooring.answers.plan.contents import NotOfOneNode
from mooring.answers.plan.orders import LeftPods, OrderTrials
from mooring.answers.plan.patterns import PatternProgram
from mooring.answers.plan.programs import Packing, solve
from mooring.answers.plan.steps import StepEffort, StepSearch
from mooring.answers.plan.trials import Additions
from mooring.answers.plan.walks import (
    FoundNodes,
    Steps,
    by_preference,
    found_steps,
    given_up,
    steps_of,
    sum_of,
)
from mooring.kit.callbacks import Progress
from mooring.model.pod import Pod

FEW_PODS = 100
"""With more pods than these, each trial takes long: less is tried."""
AT_ONCE_WORK, STEPS_WORK, MANY_WORK = 12_000, 30_000, 8_000
"""For nodes that come at once, for steps, and with more than FEW_PODS pods. A decision takes 0.1 ms on few nodes, 0.3 on
5,000."""
BY_TABLE = StepEffort(8, 1_000, 10_000, 60)
BY_CORE = StepEffort(2, 4, 10_000, 60)
MANY_BY_TABLE, MANY_BY_CORE = StepEffort(4, 200, 30_000, 20), StepEffort(2, 1, 16_000, 2)
"""How much one search for steps tries for more than FEW_PODS pods, with a table and without one. For 300 pods on new
nodes and on 50 present ones, a search by a table in 200 orders takes as long as in one, and its plan costs 8 % less."""
EXPLORED = 0.6
"""The share of the work after which no other nodes are tried: what is there is improved."""
MAX_LISTED = 300
"""Where no more combinations of nodes than these cost less than a plan that holds, all of them are tried at once."""
ROUNDS, MANY_ROUNDS = 8, 4
"""How often plans are searched for with the orders in which the last one failed, and how often they are repaired."""
WIDER = 2
"""How often a search that found nothing cheaper is repeated with twice the width."""
PACKINGS = tuple(Packing(fill, slack) for fill, slack in product((1.0, 0.95, 0.9, 0.85, 0.8, 0.7), (0.0, 0.5, 1.0)))
IMPROVED = 2
"""How many plans that hold are improved, and tried in fewer steps."""
MAX_TIMES = 8
"""How many times what a program says is added where it does not help, before the search gives up."""
GREED = 2.0
"""How much more than the cheapest nodes for them pods that are left count: the scheduler uses those badly as well."""
NEAR = 1e-9


class HoldingSearch:
    """One search over the offers of a trial cluster. `pods` are those that the present nodes do not take in the order of the
    queue; `most_left` is how many pods a plan may leave in each order."""

    def __init__(
        self,
        orders: OrderTrials,
        patterns: PatternProgram,
        pods: Sequence[Pod],
        bound: float,
        most_left: int = 0,
        tell: Progress | None = None,
    ) -> None:
        self._orders, self._demand, self._pods = orders, orders.demand, pods
        self._bound = bound if not most_left else 0.0
        self._patterns, self._most_left, self._tell = patterns, most_left, tell
        self._is_small = len(pods) <= FEW_PODS
        self._most = self._last = 0
        self._holding: list[Steps] = []
        self._tried: dict[Steps, LeftPods | None] = {}
        self._fewest = self._found((), pods)

    def run(self, is_at_once: bool, begun: Sequence[FoundNodes] = ()) -> FoundNodes:
        """The cheapest nodes that hold in all orders. If none were found, those that leave the fewest pods."""
        try:
            return self._run(is_at_once, begun)
        except NotOfOneNode:
            self._orders.drop_table()
            return self._run(is_at_once, begun)

    def _run(self, is_at_once: bool, begun: Sequence[FoundNodes]) -> FoundNodes:
        self._begin(AT_ONCE_WORK if is_at_once else STEPS_WORK)
        for each in begun:
            self._try(steps_of(each))
            for steps in () if self._is_small or is_at_once else self._rearranged(steps_of(each)):
                self._complete(steps, False)
        if is_at_once:
            self._search_at_once()
        else:
            self._search_steps()
        best = self._confirmed(is_at_once)
        return self._fewest if best is None else self._found(best)

    def _begin(self, work: int) -> None:
        self._holding.clear()
        self._tried.clear()
        self._most = work if self._is_small else MANY_WORK
        self._last = self._orders.work + self._most

    def _confirmed(self, is_at_once: bool) -> Steps | None:
        """The plan that is preferred of those that hold in all orders; after the last round the cheapest that was mended."""
        best = None
        for _ in range(ROUNDS if self._is_small else MANY_ROUNDS):
            self._improve_best(is_at_once)
            best = self._preferred(is_at_once)
            if best is None or self._orders.confirms(best, self._most_left):
                return best
            self._last = max(self._last, self._orders.work + self._most // ROUNDS)
            self._judge_again()
            self._complete(best, is_at_once)
        return min(self._holding, key=self._cost, default=best)

    def _judge_again(self) -> None:
        """Forget the plans that fail in orders which have come to count."""
        known, self._holding = [*self._holding], []
        self._tried.clear()
        for each in known:
            self._try(each)

    def _try(self, steps: Steps) -> LeftPods | None:
        """The pods that are left in an order in which the steps fail; None if they hold, and then they are noted."""
        if steps in self._tried:
            return self._tried[steps]
        left = self._tried[steps] = self._orders.failure(steps, self._most_left)
        if left is None:
            self._holding.append(steps)
        else:
            self._note(steps, left)
        return left

    def _note(self, steps: Steps, left: LeftPods) -> None:
        found = self._found(steps, left.pods)
        if found.rank() < self._fewest.rank():
            self._fewest = found

    # ---- steps

    def _search_steps(self) -> None:
        """Search with the orders in which the steps before failed, until nothing cheaper than a plan that holds is found."""
        efforts = (MANY_BY_CORE, MANY_BY_TABLE), (BY_CORE, BY_TABLE)
        effort = efforts[self._is_small][self._orders.has_table]
        for number in range(ROUNDS if self._is_small else 1):
            search = StepSearch(self._orders, self._patterns, replace(effort, width=effort.width << number), self._tell)
            found = search.run(self._most_left, self._best_cost())
            if found is None and search.fewest is not None and not self._holding:
                found = search.fewest[2]
            if found is None and (self._orders.has_table or number >= WIDER):
                return
            if found is not None and self._try(found) is not None:
                self._complete(found, False)
            elif self._orders.has_table:
                return
            if self._is_near_bound() or self._is_exhausted():
                return

    def _complete(self, steps: Steps, is_at_once: bool) -> None:
        """Add nodes until the steps hold, unless that costs more than a plan which holds. Where more nodes at once do not
        help, because a scheduler spreads other pods over them, the next time twice as many are added."""
        times, fewest = 1, len(self._pods) + 1
        while self._cost(steps) < self._best_cost() - NEAR:
            left = self._try(steps)
            more = self._more(sum_of(*steps), left) if left is not None else None
            if left is None or more is None:
                return
            is_better = len(left.pods) < fewest
            if times > max(len(self._pods), MAX_TIMES) or (times > MAX_TIMES and not is_at_once):
                return
            times, fewest = (1 if is_better else 2 * times), min(len(left.pods), fewest)
            limits = zip(sum_of(*steps), more, self._demand.limits, strict=True)
            more = tuple(min(times * number, limit - count) for count, number, limit in limits)
            added = self._single(more) if times == 1 else (more,)
            steps = (sum_of(steps[0], more),) if is_at_once else (*steps, *added)

    def _rearranged(self, steps: Steps) -> Iterator[Steps]:
        """The steps, and their nodes one by one: as they come, the last one first, and those with the least room first. What
        repairs of these cost differs by up to two thirds, and none is the cheapest as a rule."""
        single = tuple(one for step in steps for one in self._single(step))
        yield from (steps, single, single[::-1], self._smallest_first(steps))

    def _smallest_first(self, steps: Steps) -> Steps:
        """The nodes of the steps one by one, those with the least room first. Small pods fill the small nodes, and those that
        are left for the large ones are more alike, so that more of these can come together: 56 nodes of a plan came in 2
        steps so, and in 55 as they were found."""
        return tuple(sorted((one for step in steps for one in self._single(step)), key=self._room))

    def _room(self, nodes: Additions) -> float:
        """The resources of nodes, each as a share of the largest node's."""
        offers = self._demand.offers
        most = {place: max(max(free[place] for free in offers), 1) for place in offers[0]}
        return sum(number * free[at] / most[at] for number, free in zip(nodes, offers, strict=True) for at in most)

    def _more(self, counts: Additions, left: LeftPods) -> Additions | None:
        """The nodes that a program adds for pods that are left; None if it adds none. Where it has the pods on present nodes,
        these refused them: others took the room."""
        limits = [limit - count for limit, count in zip(self._demand.limits, counts, strict=True)]
        demand = self._demand.after(left.domains)
        for each in (demand, demand.without_room()):
            solution = solve(each, each.counts(left.pods), limits)
            if solution is not None and any(solution.nodes):
                return solution.nodes
        return None

    def _single(self, counts: Additions) -> Steps:
        """The nodes one by one."""
        return tuple(
            tuple(int(each == offer) for each in range(len(counts)))
            for offer, number in enumerate(counts)
            for _ in range(number)
        )

    # ---- what was found

    def _improve_best(self, is_at_once: bool) -> None:
        for steps in sorted(self._holding, key=self._cost)[:IMPROVED]:
            self._improve(steps)

    def _preferred(self, is_at_once: bool) -> Steps | None:
        """The cheapest of the plans that hold, or one that costs little more and has fewer steps."""
        if not self._holding or is_at_once:
            return min(self._holding, key=self._cost, default=None)
        plans = by_preference([self._found(steps) for steps in self._holding], self._bound)
        self._last = max(self._last, self._orders.work + self._most // 2)  # each step is a time to wait for
        known = [steps_of(each) for each in plans[: IMPROVED if self._is_small else 1]]
        arranged = [each for steps in known for each in (self._smallest_first(steps), steps)]
        merged = [self._found(self._merged(steps)) for steps in arranged if self._try(steps) is None]
        return steps_of(by_preference(merged, self._bound)[0])

    def _found(self, steps: Steps, left: Sequence[Pod] = ()) -> FoundNodes:
        found = found_steps(self._demand, steps, left)
        return found if len(steps) > 1 else replace(found, steps=())

    def _cost(self, steps: Sequence[Additions]) -> float:
        return sum(self._demand.cost_of(step) for step in steps)

    def _best_cost(self) -> float:
        return min(map(self._cost, self._holding), default=float("inf"))

    def _is_near_bound(self) -> bool:
        return self._best_cost() <= self._bound * (1 + NEAR)

    def _is_exhausted(self, share: float = 1.0) -> bool:
        """Whether this share of the work was done."""
        work = self._orders.work
        if self._tell is not None:
            self._tell(min(work, self._last), self._last)
        return work >= self._last - (1 - share) * self._most

    # ---- nodes that come at once

    def _search_at_once(self) -> None:
        proposed: list[Additions] = []
        for counts in self._proposed():
            if counts not in proposed:
                proposed.append(counts)
                self._complete((counts,), True)
            if self._is_near_bound() or self._is_exhausted() or not self._is_small:
                break
        if not self._has_tried_all_cheaper() and self._is_small and not self._is_near_bound():
            self._explore(proposed)

    def _explore(self, known: Sequence[Additions]) -> None:
        """Try nodes that programs propose, and these with one more, those first that may become the cheapest plan."""
        waiting: list[tuple[float, float, Additions]] = []
        seen: set[Additions] = set()
        for counts in known:
            if counts not in seen:
                seen.add(counts)
                heappush(waiting, (self._demand.cost_of(counts), 0.0, counts))
        while waiting and not self._is_exhausted(EXPLORED):
            _, _, counts = heappop(waiting)
            cost = self._demand.cost_of(counts)
            left = self._try((counts,)) if cost < self._best_cost() - NEAR else None
            more = self._more(counts, left) if left is not None else None
            if left is None or more is None:
                continue
            estimate = cost + GREED * self._demand.cost_of(more)
            for child in [sum_of(counts, more), *self._with_one(counts, left.pods)]:
                if child not in seen and not self._exceeds(child):
                    seen.add(child)
                    heappush(waiting, (estimate, len(left.pods), child))

    def _has_tried_all_cheaper(self) -> bool:
        """Try all nodes that cost less than the cheapest plan that holds, if they are few: the first that hold are the
        cheapest. Returns False if they are many, or if decisions run out."""
        cheaper = self._all_cheaper() if self._is_small else None
        for counts in cheaper or ():
            if self._is_exhausted(EXPLORED):
                return False
            if self._try((counts,)) is None:
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
                if solution is not None and any(solution.nodes):
                    yield solution.nodes

    # ---- less

    def _improve(self, steps: Steps) -> None:
        """Take nodes away and exchange them for cheaper ones while the steps hold in all orders."""
        is_improved = True
        while is_improved and not self._is_near_bound() and not self._is_exhausted():
            is_improved = False
            for fewer in self._cheaper(steps):
                if self._try(fewer) is None:
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
        """Join neighbouring steps while they hold in all orders: in blocks that are as large as possible, and then each with
        those that follow, twice as many after they held and half as many after they failed."""
        steps = self._in_blocks(steps)
        at, more = 0, 1
        while at < len(steps) - 1 and not self._is_exhausted():
            more = min(more, len(steps) - 1 - at)
            together = (*steps[:at], sum_of(*steps[at : at + more + 1]), *steps[at + more + 1 :])
            if self._try(together) is None:
                steps, more = together, 2 * more
            elif more > 1:
                more //= 2
            else:
                at += 1
        return steps

    def _in_blocks(self, steps: Steps) -> Steps:
        """The steps in blocks of the largest size with which they hold, of half of them, a quarter, and so on."""
        size = len(steps)
        while size > 2:
            size = (size + 1) // 2
            blocks = tuple(sum_of(*steps[at : at + size]) for at in range(0, len(steps), size))
            if self._try(blocks) is None:
                return blocks
        return steps
