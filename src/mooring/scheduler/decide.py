"""The decision: where should this pod go? Pure: it reads the cluster and changes nothing but what the runner keeps.

PreFilter -> Filter -> (extenders filter) -> PreScore -> Score -> normalise -> weigh -> (extenders score) -> pick
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.attempt import Attempt, Narrowing, PodRejected, ScoreCard, Verdicts
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.leave_room import leave_room, rejection_alone
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import Extender
from mooring.framework.contract.points import Rows
from mooring.framework.contract.status import Rejection
from mooring.framework.kept.asking import AttemptError, count_rows
from mooring.framework.kept.best_rows import MaskedTotals
from mooring.framework.kept.feasible import NARROWED_OUT, PASSED
from mooring.framework.kept.prepared import SearchCursor
from mooring.framework.kept.score_by_group import BestOfGroups
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
from mooring.scheduler.ties import TieBreak, lowest_name

BEST = 3


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
    tells_why: bool = True
    """Whether a pod that fits nowhere is told why; trials ask only whether it fits."""
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


@dataclass(frozen=True, slots=True)
class BegunAttempt:
    """An attempt whose filters have run before it is decided: the cluster must not change in between."""

    attempt: Attempt
    narrowing: Narrowing
    verdicts: Verdicts


def begin(runner: Runner, pod: Pod, cluster: Cluster, options: DecideOptions) -> BegunAttempt | None:
    """Run PreFilter and Filter, for callers that look at the feasible nodes before the decision. None if PreFilter rejects
    the pod or a plugin fails: the decision tells why."""
    try:
        attempt = runner.open(pod, cluster)
        narrowing = _pre_filter(attempt, options)
        if isinstance(narrowing, NoFit):
            return None
        return BegunAttempt(attempt, narrowing, _filter(attempt, narrowing))
    except AttemptError:
        return None


def deciding(
    runner: Runner,
    pod: Pod,
    cluster: Cluster,
    options: DecideOptions,
    seed: int = 0,
    interested: InterestedExtenders | None = None,
    begun: BegunAttempt | None = None,
) -> Steps[Decision]:
    """Where the pod should go, or why nowhere. It waits for the replies of the extenders in `interested`, if there are any.
    `begun` is an attempt for this pod that `begin` returned.

    The cluster must not change until the steps are over.
    """
    try:
        attempt = runner.open(pod, cluster, seed) if begun is None else begun.attempt
        narrowing = _pre_filter(attempt, options) if begun is None else begun.narrowing
        if isinstance(narrowing, NoFit):
            return _reviewed(narrowing, interested)
        objections: dict[str, Rejection] = {}
        promised = _promised_row(attempt, narrowing, objections)
        if promised is not None and (
            interested is None or (yield from still_passes(interested, attempt, objections, promised))
        ):
            return _place_promised(attempt, narrowing, promised, options)
        verdicts = _filter(attempt, narrowing) if begun is None else begun.verdicts
        if objections:
            verdicts.objections.update(objections)
        if interested is None and not options.keeps_details and _looks_at_all(attempt, options):
            best = attempt.best(verdicts, options.tie_break is lowest_name)
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


def _take_best(attempt: Attempt, card: ScoreCard | MaskedTotals | BestOfGroups, options: DecideOptions) -> Placement:
    """The node with the highest total, where nothing else of the decision is kept."""
    nodes, seed = attempt.context.nodes, attempt.context.seed
    if isinstance(card, BestOfGroups):
        placement = Placement(nodes.names[card.row], card.row, card.total, card.count)
        placement.context = attempt.context
        return placement
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
    if not options.tells_why:
        return NoFit(Diagnosis(count_nodes(attempt, options.within)))
    details = DecisionDetails(rejected=rejections_by_node(attempt, verdicts)) if options.explain else None
    diagnosis = diagnose(attempt, verdicts, narrowing)
    return NoFit(diagnosis, details, _failure(attempt, verdicts, diagnosis, options))


def _promised_row(attempt: Attempt, narrowing: Narrowing, objections: dict[str, Rejection]) -> int | None:
    """The node that the pod was promised, if it still fits there.

    Parity: it is asked about alone, before all others, and even if PreFilter ruled it out. In that case the rejection is
    added to `objections`, and the plugin to those that name the only nodes. A filter that fails there has no say until all
    nodes are asked about.
    """
    context = attempt.context
    name = context.pod.status.nominated_node_name
    row = context.nodes.row_book.get(name) if name else None
    if row is None or (narrowing.within is not None and not narrowing.within[row]):
        return None
    try:
        rejection = rejection_alone(attempt, row, context.cluster.nominated)
        if rejection is not None and not narrowing.includes(name, row):
            objections[name] = attempt.rejection(*rejection)
            narrowing.plugins = tuple({*narrowing.plugins, objections[name].plugin})
    except AttemptError:
        return None
    return row if rejection is None else None


def _place_promised(attempt: Attempt, narrowing: Narrowing, row: int, options: DecideOptions) -> Placement:
    """Parity: a node that was promised and still fits is taken; no plugin is asked about the others."""
    placement = Placement(attempt.context.nodes.names[row], row)
    placement.context = attempt.context
    if options.keeps_details:
        verdicts = Verdicts(np.full(attempt.context.nodes.height, NARROWED_OUT, np.int8))
        _record(attempt, placement, verdicts, narrowing, np.array([row], np.intp), None, options)
    return placement


def _looks_at_all(attempt: Attempt, options: DecideOptions) -> bool:
    """Whether the profile tells nodes apart, and looks at all that are feasible, in whatever order."""
    if options.tie_break.goes_by_walk:
        return False
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
    if wanted < count or options.tie_break.goes_by_walk:
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
    places = np.flatnonzero(card.totals == highest)
    if favoured is not None and favoured[places].any():
        places = places[favoured[places]]
    tied = places if isinstance(card.rows, slice) else card.rows[places]
    row = options.tie_break.pick(nodes, tied, attempt.context.seed, places) if len(tied) > 1 else int(tied[0])
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
