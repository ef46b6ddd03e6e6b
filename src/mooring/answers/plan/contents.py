"""A table of what the core says about a node by what it holds. It answers for many orders of pods at once.

Where each filter and score looks at one node alone, a decision follows from what the nodes hold. So the core is asked once
about each content of a node (an offer, and how many pods of each kind are on it): which kinds fit beside that, and with which
score. Then a step of nodes is tried in hundreds of orders together, with a few array operations for each pod. Where the core
says that answers depend on more than one node, there is no table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.trials import Additions, NodeTrials
from mooring.answers.plan.walks import ArrivalOrder, Numbers
from mooring.framework.attempts.attempt import Attempt, PodRejected
from mooring.framework.contract.points import Reads
from mooring.framework.kept.asking import AttemptError
from mooring.framework.kept.feasible import PASSED
from mooring.kit.choice import mix
from mooring.model.names import HOSTNAME
from mooring.model.pod import Pod

MAX_PRESENT = 8
"""With more present nodes than these that take a pending pod, there is no table: it would have too many contents."""
MAX_ASKED = 128
"""How many contents are asked about together: so many nodes of an offer are in the cluster then."""
MAX_CONTENTS = 20_000
"""With more contents than these there is no table: asking about each takes as long as deciding about pods."""
_UNKNOWN, _REFUSED = -2, -1
_ABSENT = 0
"""The content that stands for a node which is not there yet."""
_SHIFT = 10
_BITS = (1 << _SHIFT) - 1
_ODD: Numbers = np.array([mix(at) % (1 << 30) | 1 for at in range(512)], np.int64)
"""Odd numbers: multiplied, the low bits of a number become other ones."""


class NotOfOneNode(Exception):
    """An answer of the core depends on more than one node."""


class ContentTable:
    """By content of a node and kind of pod: the score of the node, or that it refuses the pod; and the content after it."""

    def __init__(self, trials: NodeTrials, demand: NodeDemand) -> None:
        """Raises NotOfOneNode."""
        self._trials, self._demand = trials, demand
        self._book: dict[tuple[int, tuple[int, ...]], int] = {}
        self._contents: list[tuple[int, tuple[int, ...]]] = []
        kinds = len(demand.kinds)
        self.scores: Numbers = np.full((1024, kinds), _REFUSED)
        self.after: Numbers = np.full((1024, kinds), _UNKNOWN)
        self.kind_of = {pod.id: at for at, kind in enumerate(demand.kinds) for pod in kind.pods}
        self.work = 0.0
        """How long walks took, in decisions of the core that take as long."""
        self._names = self._present_takers()
        self._nothing = (0,) * kinds
        self._content(-1, self._nothing)  # _ABSENT
        offers = len(trials.offers)
        found = [self._content(place, self._nothing) for place in range(offers + len(self._names))]
        self.empty: Numbers = np.array(found[:offers], np.int64)
        """The content of a new node of each offer."""
        self.present: Numbers = np.array(found[offers:], np.int64)
        """The contents of the present nodes that can take pending pods."""
        self._ask(found)

    def _present_takers(self) -> list[str]:
        """The present nodes that take pods of some kind."""
        cluster = self._trials.cluster
        rows: set[int] = set()
        for at in range(len(self._demand.kinds)):
            verdicts, _ = self._attempt(at)
            rows.update(np.flatnonzero(verdicts == PASSED).tolist())
        if len(rows) > MAX_PRESENT:
            raise NotOfOneNode
        return [cluster.nodes.names[row] for row in sorted(rows)]

    def _content(self, place: int, held: tuple[int, ...]) -> int:
        """The number of a content. `place` is an offer, or a present node."""
        known = self._book.get((place, held))
        if known is None:
            known = self._book[place, held] = len(self._contents)
            self._contents.append((place, held))
            if known > MAX_CONTENTS:
                raise NotOfOneNode
            if known >= len(self.scores):
                self.scores = np.concatenate([self.scores, np.full_like(self.scores, _REFUSED)])
                self.after = np.concatenate([self.after, np.full_like(self.after, _UNKNOWN)])
        return known

    def follow(self, contents: Numbers, kinds: Numbers) -> Numbers:
        """The contents after a pod of each kind was placed there."""
        after: Numbers = self.after[contents, kinds]
        missing = np.flatnonzero(after == _UNKNOWN)
        if len(missing):
            new = []
            for content, kind in {(int(contents[at]), int(kinds[at])) for at in missing}:
                place, held = self._contents[content]
                before = len(self._contents)
                more = self._content(place, tuple(number + (each == kind) for each, number in enumerate(held)))
                self.after[content, kind] = more
                if more == before:
                    new.append(more)
            self._ask(new)
            after = self.after[contents, kinds]
        return after

    # ---- asking the core

    def _ask(self, contents: Sequence[int]) -> None:
        for batch in self._batches(contents):
            self._ask_batch(batch)

    def _batches(self, contents: Sequence[int]) -> Iterator[list[tuple[int, str]]]:
        """Contents with a node for each, as many as there are nodes for."""
        waiting = [*contents]
        offers = len(self._trials.offers)
        while waiting:
            numbers = [0] * offers
            taken: dict[int, str] = {}
            for content in waiting:
                place = self._contents[content][0]
                if place >= offers:
                    name = self._names[place - offers]
                    if name not in taken.values():
                        taken[content] = name
                elif numbers[place] < MAX_ASKED:
                    numbers[place] += 1
                    taken[content] = ""
            there = [len(offered.present) for offered in self._trials.offers]
            self._trials.add(tuple(max(pair) for pair in zip(numbers, there, strict=True)))
            names = [iter(offered.present) for offered in self._trials.offers]
            yield [(content, name or next(names[self._contents[content][0]])) for content, name in taken.items()]
            waiting = [content for content in waiting if content not in taken]

    def _ask_batch(self, batch: Sequence[tuple[int, str]]) -> None:
        self.work += 2 * len(batch)
        nodes = self._trials.cluster.nodes
        placed = []
        for content, name in batch:
            for kind, number in zip(self._demand.kinds, self._contents[content][1], strict=True):
                for at in range(number):
                    pod = kind.pods[0].with_name(
                        f"{at}-{kind.pods[0].name}-{content}", f"{at} {kind.pods[0].id} {name}"
                    )
                    nodes.place(pod.with_node(name), name)
                    placed.append(pod.id)
        rows = np.array([nodes.row_book[name] for _, name in batch])
        numbers = [content for content, _ in batch]
        try:
            for at in range(len(self._demand.kinds)):
                verdicts, totals = self._attempt(at, rows)
                self.scores[numbers, at] = np.where(verdicts[rows] == PASSED, totals[rows], _REFUSED)
        finally:
            for pod_id in reversed(placed):
                nodes.displace(pod_id)

    def _attempt(self, at: int, rows: Numbers | None = None) -> tuple[NDArray[np.int8], Numbers]:
        """The verdicts of all rows about a pod of a kind, and the scores. Raises NotOfOneNode."""
        kind = self._demand.kinds[at]
        pod = kind.pods[0]
        runner = self._trials.runner(pod)
        totals: Numbers = np.zeros(self._trials.cluster.nodes.height, np.int64)
        if runner is None or self._trials.gangs.gang_of(pod) is not None:
            raise NotOfOneNode
        attempt = runner.open(pod, self._trials.cluster)
        try:
            narrowing = attempt.pre_filter()
            if isinstance(narrowing, PodRejected) or narrowing.names is not None:
                raise NotOfOneNode
            _check_filters(attempt, pod)
            verdicts = attempt.filter(narrowing)
            passed = np.flatnonzero(verdicts.first == PASSED)
            if rows is not None and len(passed):
                card = attempt.score(passed, explain=True)
                _check_scores(attempt, card.by_plugin)
                totals[passed] = card.totals
        except AttemptError as error:
            raise NotOfOneNode from error
        return verdicts.first, totals


def _check_filters(attempt: Attempt, pod: Pod) -> None:
    """Raises NotOfOneNode if a filter reads more than one node."""
    for index, plugin in attempt.active_filters():
        if attempt.runner.filter_reads[index] is Reads.CLUSTER:
            terms = pod.shape.terms(pod.namespace)
            is_of_one = plugin.name == "InterPodAffinity" and not terms.affinity
            if not is_of_one or any(term.topology_key != HOSTNAME for term in terms.anti_affinity):
                raise NotOfOneNode


def _check_scores(attempt: Attempt, by_plugin: dict[str, Numbers]) -> None:
    """Raises NotOfOneNode if scores that are not of one node alone tell nodes apart."""
    for index, plugin in enumerate(attempt.runner.scores):
        scores = by_plugin.get(plugin.name)
        if scores is not None and index not in attempt.runner.summed and len(scores) and scores.min() != scores.max():
            raise NotOfOneNode


@dataclass(frozen=True, slots=True)
class Filled:
    """By order: the contents of the nodes after some steps, and which pods are placed."""

    contents: Numbers
    placed: NDArray[np.bool_]


class ContentWalks:
    """Makes steps in many orders together (`walks.Walks`)."""

    def __init__(self, table: ContentTable, orders: Sequence[ArrivalOrder]) -> None:
        self._table = table
        self._kinds: Numbers = np.array([[table.kind_of[pod.id] for pod in order.pods] for order in orders], np.int64)
        self._alone = np.flatnonzero([order.is_one_by_one for order in orders])
        """The orders in which nodes come one by one."""
        self._chance: Numbers = np.array([[mix(order.seed or 0)] for order in orders], np.uint64).astype(np.int64)
        """By order: a number that shuffles nodes and breaks ties."""

    def begin(self) -> Filled:
        contents = np.tile(self._table.present, (len(self._kinds), 1))
        return self._fill(contents, np.zeros(self._kinds.shape, bool))

    def extended(self, walked: Filled, step: Additions) -> Filled:
        orders, before = len(self._kinds), walked.contents.shape[1]
        new = np.tile(np.repeat(self._table.empty, step), (orders, 1))
        number = new.shape[1]
        if not len(self._alone) or number < 2:
            return self._fill(np.concatenate([walked.contents, new], axis=1), walked.placed)
        shuffled = np.argsort((self._chance * _ODD[:number]) & _BITS, axis=1)
        new = np.take_along_axis(new, shuffled, axis=1)
        contents = np.concatenate([walked.contents, new], axis=1)
        contents[self._alone, before:] = _ABSENT
        placed = walked.placed
        for at in range(number):
            contents[self._alone, before + at] = new[self._alone, at]
            filled = self._fill(contents, placed, None if not at else self._alone)
            contents, placed = filled.contents, filled.placed
        return Filled(contents, placed)

    def left(self, walked: Filled) -> Numbers:
        found: Numbers = np.zeros((len(self._kinds), self._table.scores.shape[1]), np.int64)
        rows, places = np.nonzero(~walked.placed)
        np.add.at(found, (rows, self._kinds[rows, places]), 1)
        return found

    def domains(self, walked: Filled, order: int) -> Mapping[str, str]:
        return {}

    def _fill(self, contents: Numbers, placed: NDArray[np.bool_], only: Numbers | None = None) -> Filled:
        """Place what fits, in some of the orders or in all. A kind that is refused in an order does not fit there later:
        nodes only become fuller. Hot: each round is about the next pod of every order, of kinds that were not refused."""
        contents, placed, table = contents.copy(), placed.copy(), self._table
        rows = np.arange(len(self._kinds)) if only is None else only
        if not contents.shape[1]:
            return Filled(contents, placed)
        waiting = ~placed
        ties = (self._chance * _ODD[: contents.shape[1]]) & _BITS
        while True:
            place = waiting[rows].argmax(axis=1)
            rows, place = _where(waiting[rows, place], rows, place)
            if not len(rows):
                return Filled(contents, placed)
            # Estimated: a quarter of a decision in few orders, a little more than one in 1,000 orders with ten nodes.
            table.work += 0.25 + len(rows) * contents.shape[1] / 10_000
            kind = self._kinds[rows, place]
            scores = table.scores[contents[rows], kind[:, None]]
            best = ((scores << _SHIFT) + ((ties[rows] * _ODD[place % len(_ODD)][:, None]) & _BITS)).argmax(axis=1)
            fits = scores[np.arange(len(rows)), best] >= 0
            if not fits.all():
                no, its_kind = _where(~fits, rows, kind)
                waiting[no] &= self._kinds[no] != its_kind[:, None]
            to, its_kind, place, best = _where(fits, rows, kind, place, best)
            contents[to, best] = table.follow(contents[to, best], its_kind)
            placed[to, place] = True
            waiting[to, place] = False


def _where(mask: NDArray[np.bool_], *columns: Numbers) -> list[Numbers]:
    """The columns where the mask is true."""
    return [column[mask] for column in columns]
