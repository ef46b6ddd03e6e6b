"""The decision: where should this pod go? Pure: it reads the cluster and changes nothing but what the runner keeps.

PreFilter -> Filter -> (extenders filter) -> PreScore -> Score -> normalise -> weigh -> (extenders score) -> pick
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Integers, Mask
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.attempt import Attempt, Narrowing, PodRejected, ScoreCard, Verdicts
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.leave_room import leave_room, passes_alone
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import Extender
from mooring.framework.contract.points import Rows
from mooring.framework.contract.status import Rejection
from mooring.framework.kept.asking import AttemptError, count_rows
from mooring.framework.kept.best_rows import MaskedTotals
from mooring.framework.kept.feasible import NARROWED_OUT, PASSED, first_of, nth
from mooring.framework.kept.prepared import SearchCursor
from mooring.kit.choice import choose, mix
from mooring.model.pod import Pod
from mooring.scheduler.decision import (
    Decision,
    DecisionDetails,
    DecisionError,
    Diagnosis,
    NoFit,
    Placement,
    count_nodes,
    diagnose,
    diagnose_rejected_pod,
    rejections_by_node,
)
from mooring.scheduler.extender_asking import InterestedExtenders, add_scores, passing, still_passes
from mooring.scheduler.extender_steps import Steps, at_once

BEST = 3
_ALL = slice(0, None)


class TieBreak(Protocol):
    """Which of several rows with the highest total is taken; the same from a list of them and from the totals."""

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int) -> int: ...

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        """`rows` are ascending, and `totals` are theirs."""

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        """`pick_best` for totals of all rows, which may come with a quicker way to find the best (best_rows.py)."""

    def rank_place(self, place: int, seed: int) -> int:
        """Rank a placement of a pod group: of those that have the same score, the one with the highest rank is taken."""


class LowestName:
    """The row whose node has the lowest name: the same every time."""

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int) -> int:
        return int(tied[nodes.name_rank()[tied].argmin()])

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        if nodes.is_named_by_row():  # Hot: as a rule, because nodes are listed in the order of their names
            return _row_at(rows, int(totals.argmax()))
        if isinstance(rows, slice):
            return first_of(_highest(totals), nodes.rows_by_name())
        return self.pick(nodes, _tied(rows, totals), seed)

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        if card.best is None:
            return self.pick_best(nodes, _ALL, card.totals, seed)
        if nodes.is_named_by_row():
            return card.best.first()
        return card.best.first_by_name(nodes.name_rank(), nodes.rows_by_name())

    def rank_place(self, place: int, seed: int) -> int:
        """The first: generators give placements in the order of their names."""
        return -place


class BySeed:
    """Any of the rows, uniformly, as the seed of the attempt decides."""

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int) -> int:
        return int(tied[choose(seed, len(tied))])

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        highest = _highest(totals)
        return _row_at(rows, nth(highest, choose(seed, int(np.count_nonzero(highest)))))

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        if card.best is None:
            return self.pick_best(nodes, _ALL, card.totals, seed)
        return card.best.nth(partial(choose, seed))

    def rank_place(self, place: int, seed: int) -> int:
        """Mixed twice: the first member picks its node with this seed, and must not draw the same number."""
        return mix(mix(seed) + place)


def _highest(totals: Integers) -> Mask:
    """Which of the totals are the highest."""
    found: Mask = totals == totals[totals.argmax()]  # Hot: of 5,000 totals in 0.4 µs; the maximum itself takes 1.1
    return found


def _tied(rows: Rows, totals: Integers) -> NDArray[np.intp]:
    """The rows that have the highest total."""
    tied = _highest(totals).nonzero()[0]
    return tied if isinstance(rows, slice) else rows[tied]


def _row_at(rows: Rows, place: int) -> int:
    return place if isinstance(rows, slice) else int(rows[place])


lowest_name, by_seed = LowestName(), BySeed()


@dataclass(frozen=True, slots=True)
class DecideOptions:
    """How decisions are made, and how much of them is kept."""

    tie_break: TieBreak = lowest_name
    examine_all: bool = True
    """Whether preemption tries every node, or as few as its arguments allow."""
    record: bool = False
    """Keep the three best nodes and the diagnosis also of pods that were placed."""
    explain: bool = False
    """Keep every verdict and every score."""
    extenders: tuple[Extender, ...] = ()
    """In the order in which they are asked (extenders/interest.py)."""
    names_expected_node: bool = True
    """Whether the status of a pod that waits before it is bound names its node, so that the cluster autoscaler and other
    schedulers see where it is going (gate NominatedNodeNameForExpectation)."""
    within: Mask | None = field(default=None, compare=False)
    """By row: the only nodes to look at, where a member of a pod group is tried in a placement. None: all."""
    decides_on_all_members: bool = False
    """Whether decisions about the members of a pod group go on, for explanations, after it is clear that too few fit."""

    @property
    def keeps_details(self) -> bool:
        """Whether more of a decision is kept than where the pod goes."""
        return self.record or self.explain

    def has_ranking_extender(self) -> bool:
        """Whether an extender, of whatever interest, tells nodes apart."""
        return any(extender.filter_verb or extender.prioritize_verb for extender in self.extenders)


def decide(runner: Runner, pod: Pod, cluster: Cluster, options: DecideOptions, seed: int = 0) -> Decision:
    """Where the pod should go, or why nowhere, where no extender takes part."""
    return at_once(deciding(runner, pod, cluster, options, seed))


def deciding(
    runner: Runner,
    pod: Pod,
    cluster: Cluster,
    options: DecideOptions,
    seed: int = 0,
    interested: InterestedExtenders | None = None,
) -> Steps[Decision]:
    """Where the pod should go, or why nowhere. It waits for the replies of the extenders in `interested`, if there are any.

    The cluster must not change until the steps are over.
    """
    try:
        attempt = runner.open(pod, cluster, seed)
        narrowing = _pre_filter(attempt, options)
        if isinstance(narrowing, NoFit):
            return _reviewed(narrowing, interested)
        promised = _promised_row(attempt, narrowing)
        objections: dict[str, Rejection] = {}
        if promised is not None and (
            interested is None or (yield from still_passes(interested, attempt, objections, promised))
        ):
            return _place_promised(attempt, narrowing, promised, options)
        verdicts = _filter(attempt, narrowing)
        verdicts.objections.update(objections)
        if interested is None and not options.keeps_details and _looks_at_all(attempt, options):
            best = attempt.best(verdicts)
            if best is not None:
                return _take_best(attempt, best, options)
        feasible, scoring = _feasible_rows(attempt, verdicts, options), attempt
        if interested is not None:
            feasible, scoring = yield from passing(interested, attempt, verdicts, feasible)
        found = count_rows(attempt.context, feasible)
        if not found:
            return _reviewed(_no_fit(attempt, verdicts, narrowing, options), interested)
        card = scoring.score(feasible, options.explain) if found > 1 else None
        favoured = None
        if interested is not None and card is not None:
            favoured = yield from add_scores(interested, attempt, card, options.explain)
        return _place(attempt, verdicts, narrowing, feasible, card, options, favoured)
    except AttemptError as error:
        return DecisionError(str(error))


def _reviewed(decision: NoFit, interested: InterestedExtenders | None) -> NoFit:
    """Note whether extenders have a say in who must leave for the pod."""
    if decision.failure is not None and interested is not None:
        decision.failure.is_reviewed = interested.reviews_victims
    return decision


def _place(
    attempt: Attempt,
    verdicts: Verdicts,
    narrowing: Narrowing,
    feasible: Rows,
    card: ScoreCard | None,
    options: DecideOptions,
    favoured: NDArray[np.bool_] | None = None,
) -> Placement:
    """The best of the feasible nodes, of which there is only one where there are no scores.

    `favoured` are those that win ties against the others; None: all are equal.
    """
    placement = _only(attempt.context.nodes, feasible) if card is None else _pick(attempt, card, options, favoured)
    placement.context = attempt.context
    _record(attempt, placement, verdicts, narrowing, feasible, card, options)
    return placement


def _take_best(attempt: Attempt, card: ScoreCard | MaskedTotals, options: DecideOptions) -> Placement:
    """The node with the highest total, where nothing else of the decision is kept."""
    nodes, seed = attempt.context.nodes, attempt.context.seed
    if isinstance(card, MaskedTotals):
        row, count = options.tie_break.pick_kept(nodes, card, seed), card.count
        highest = int(card.totals[row])
    else:
        row, count = options.tie_break.pick_best(nodes, card.rows, card.totals, seed), len(card.totals)
        highest = int(card.totals[row] if isinstance(card.rows, slice) else np.maximum.reduce(card.totals))
    placement = Placement(nodes.names[row], row, highest + card.added, count)
    placement.context = attempt.context
    return placement


def _pre_filter(attempt: Attempt, options: DecideOptions) -> Narrowing | NoFit:
    """PreFilter: the nodes to look at; or that the pod goes nowhere, whatever the node."""
    if not count_nodes(attempt, options.within):
        return NoFit(Diagnosis(0))
    narrowing = attempt.pre_filter()
    if isinstance(narrowing, PodRejected):
        diagnosis = diagnose_rejected_pod(attempt, narrowing, options.within)
        return NoFit(
            diagnosis, DecisionDetails() if options.explain else None, _failure(attempt, None, diagnosis, options)
        )
    narrowing.within = options.within
    return narrowing


def _filter(attempt: Attempt, narrowing: Narrowing) -> Verdicts:
    """Filter: the verdict of each node, also with the pods that are nominated to it."""
    verdicts = attempt.filter(narrowing)
    nominated = attempt.context.cluster.nominated
    if nominated:
        leave_room(attempt, verdicts, nominated)
    return verdicts


def _no_fit(attempt: Attempt, verdicts: Verdicts, narrowing: Narrowing, options: DecideOptions) -> NoFit:
    """No node passed: why, as far as anyone may ask."""
    details = DecisionDetails(rejected=rejections_by_node(attempt, verdicts)) if options.explain else None
    diagnosis = diagnose(attempt, verdicts, narrowing)
    return NoFit(diagnosis, details, _failure(attempt, verdicts, diagnosis, options))


def _promised_row(attempt: Attempt, narrowing: Narrowing) -> int | None:
    """The node that the pod was promised, if it still fits there.

    Parity: it is asked about alone, before all others. A filter that fails there has no say until all nodes are asked about.
    """
    context = attempt.context
    name = context.pod.status.nominated_node_name
    row = context.nodes.row_book.get(name) if name else None
    if row is None or not narrowing.includes(name, row):
        return None
    try:
        return row if passes_alone(attempt, row, context.cluster.nominated) else None
    except AttemptError:
        return None


def _place_promised(attempt: Attempt, narrowing: Narrowing, row: int, options: DecideOptions) -> Placement:
    """Parity: a node that was promised and still fits is taken; no plugin is asked about the others."""
    placement = Placement(attempt.context.nodes.names[row], row)
    placement.context = attempt.context
    if options.keeps_details:
        verdicts = Verdicts(np.full(attempt.context.nodes.height, NARROWED_OUT, np.int8))
        _record(attempt, placement, verdicts, narrowing, np.array([row], np.intp), None, options)
    return placement


def _looks_at_all(attempt: Attempt, options: DecideOptions) -> bool:
    """Whether the profile tells nodes apart, and looks at all that are feasible."""
    count = count_nodes(attempt, options.within)
    percentage = attempt.runner.profile.percentage_of_nodes_to_score
    return bool(attempt.runner.scores) and nodes_to_find(count, percentage) >= count


def _feasible_rows(attempt: Attempt, verdicts: Verdicts, options: DecideOptions) -> Rows:
    """The rows that passed every filter; a profile may ask for fewer than there are."""
    nodes = attempt.context.nodes
    count = count_nodes(attempt, options.within)
    # Parity: where nothing tells nodes apart the first one found will do.
    is_ranked = bool(attempt.runner.scores) or options.has_ranking_extender()
    wanted = nodes_to_find(count, attempt.runner.profile.percentage_of_nodes_to_score) if is_ranked else 1
    if wanted < count:
        if is_ranked:  # Parity: what is enough goes by the nodes that PreFilter left, not by all
            left = int(np.count_nonzero(verdicts.first >= 0))
            wanted = nodes_to_find(left, attempt.runner.profile.percentage_of_nodes_to_score)
        rows, verdicts.first = cut_short(nodes, verdicts.first, wanted, attempt.runner.cursor, count)
        return rows
    passed = verdicts.first == PASSED
    if np.count_nonzero(passed) == nodes.height:
        return slice(0, nodes.height)
    return np.flatnonzero(passed)


def _failure(
    attempt: Attempt, verdicts: Verdicts | None, diagnosis: Diagnosis, options: DecideOptions
) -> RejectedAttempt:
    return RejectedAttempt(attempt, verdicts, diagnosis.absent, options.examine_all)


def _only(nodes: NodeTable, feasible: Rows) -> Placement:
    row = range(nodes.height)[feasible][0] if isinstance(feasible, slice) else int(feasible[0])
    return Placement(nodes.names[row], row)


def _pick(attempt: Attempt, card: ScoreCard, options: DecideOptions, favoured: NDArray[np.bool_] | None) -> Placement:
    """The node with the highest total; ties as the options say."""
    nodes = attempt.context.nodes
    highest = card.totals.max()
    tied = np.flatnonzero(card.totals == highest)
    if favoured is not None and favoured[tied].any():
        tied = tied[favoured[tied]]
    if not isinstance(card.rows, slice):
        tied = card.rows[tied]
    row = options.tie_break.pick(nodes, tied, attempt.context.seed)
    return Placement(nodes.names[row], row, int(highest) + card.added, len(card.totals))


def _record(
    attempt: Attempt,
    placement: Placement,
    verdicts: Verdicts,
    narrowing: Narrowing,
    feasible: Rows,
    card: ScoreCard | None,
    options: DecideOptions,
) -> None:
    """Add to a placement what the options ask to keep of how it came about."""
    nodes = attempt.context.nodes
    if options.keeps_details:
        placement.diagnosis = diagnose(attempt, verdicts, narrowing)
        placement.best = _best(nodes, card) if card else []
    if options.explain:
        names = [nodes.names[row] for row in np.arange(nodes.height)[feasible]]
        details = placement.details = DecisionDetails(names, rejections_by_node(attempt, verdicts))
        if card:
            details.totals = dict(zip(names, card.totals.tolist(), strict=True))
            details.scores = {
                name: {plugin: int(scores[i]) for plugin, scores in card.by_plugin.items()}
                for i, name in enumerate(names)
            }


def _best(nodes: NodeTable, card: ScoreCard) -> list[tuple[str, int]]:
    rows = np.arange(nodes.height)[card.rows]
    rank = nodes.name_rank()[rows]
    best = np.lexsort((rank, -card.totals))[:BEST]
    return [(nodes.names[rows[i]], int(card.totals[i])) for i in best]


# ---- percentageOfNodesToScore: how many nodes to look at, and from where


MIN_FEASIBLE = 100


def nodes_to_find(count: int, percentage: int | None) -> int:
    """How many feasible nodes are enough. Unlike upstream, 0 or unset means all of them: we can afford it."""
    if count < MIN_FEASIBLE or not percentage or percentage >= 100:
        return count
    return max(count * percentage // 100, MIN_FEASIBLE)


def cut_short(
    nodes: NodeTable, first: NDArray[np.int8], wanted: int, cursor: SearchCursor, total: int | None = None
) -> tuple[NDArray[np.intp], NDArray[np.int8]]:
    """Stop after `wanted` feasible nodes, as a walk over the nodes from `cursor.start` would. There are `total` nodes;
    None: all of the table.

    Returns the feasible rows in the order of the walk, and the verdicts with those of nodes never reached taken out.
    """
    walk = np.array([nodes.row_book[name] for name in nodes.order.round_robin()], np.intp)
    candidates = walk[first[walk] != NARROWED_OUT]
    count = len(candidates)
    if not count:
        return candidates, first
    walk = np.roll(candidates, -(cursor.start % count))
    passed = np.flatnonzero(first[walk] == PASSED)
    reached = count if len(passed) <= wanted else int(passed[wanted])
    cursor.start = (cursor.start + reached) % (total or nodes.alive_count)
    seen = np.full(len(first), NARROWED_OUT, np.int8)
    seen[walk[:reached]] = first[walk[:reached]]
    return walk[passed[:wanted]], seen


# ---- Ties: nodes with the same total as the node that was chosen.
#
# kube-scheduler takes one of them at random, so that a decision for one is as good as a decision for another.


_NONE = np.zeros(0, np.intp)


def tied_with(totals: Mapping[str, int], chosen: str) -> list[str]:
    """The other nodes with the total of the chosen one, by name; none where nodes were not scored."""
    total = totals.get(chosen)
    return sorted(node for node, own in totals.items() if own == total and node != chosen)


def is_tied(totals: Mapping[str, int], chosen: str, node: str) -> bool:
    """Whether the node is not the chosen one, but has its total."""
    return node != chosen and chosen in totals and totals.get(node) == totals[chosen]


class KeptTies:
    """Breaks ties as another rule does, and keeps which rows had the highest total in the last decision.

    A decision without scores, for the only feasible node or for a nominated one, has no ties: `take` forgets them.
    """

    def __init__(self, inner: TieBreak) -> None:
        self._inner = inner
        self._rows = _NONE

    def take(self) -> NDArray[np.intp]:
        """The rows of the last decision, once; none if it had no scores."""
        rows, self._rows = self._rows, _NONE
        return rows

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int) -> int:
        self._rows = tied
        return self._inner.pick(nodes, tied, seed)

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        return self.pick(nodes, _tied(rows, totals), seed)

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        return self.pick_best(nodes, _ALL, card.totals, seed)

    def rank_place(self, place: int, seed: int) -> int:
        return self._inner.rank_place(place, seed)
