"""Scores by extenders: all are called at once, and their scores are added to those of the plugins."""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import MAX_SCORE
from mooring.framework.attempts.attempt import Attempt, ScoreCard
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import CallReply
from mooring.scheduler.extenders.interest import InterestedExtenders
from mooring.scheduler.extenders.replies import Unusable, prioritize_call, read_scores
from mooring.scheduler.extenders.steps import Steps

MAX_EXTENDER_SCORE = 10
"""Upstream's MaxExtenderPriority: scores are scaled from 0..10 to the plugins' 0..100. Parity: the range is not
checked."""
NO_SCORE = "Failed to run extender's priority function. No score given by this extender."
"""Upstream's log message. An extender that fails to score never fails the attempt."""


def add_scores(
    interested: InterestedExtenders, attempt: Attempt, card: ScoreCard, explain: bool = False
) -> Steps[NDArray[np.bool_]]:
    """Add what extenders give. Returns a mask of the places on the card that one of them scored.

    Parity: those win ties against the others. An extender without a prioritizeVerb counts as having scored every node.
    """
    nodes, pod = attempt.context.nodes, attempt.context.pod
    if not attempt.runner.scores:
        card.totals[:] = 0  # Parity: nodes are worth 1 each only if neither plugins nor extenders score them
    rows: list[int] = np.arange(nodes.height)[card.rows].tolist()
    scoring = [extender for extender in interested.extenders if extender.prioritize_verb]
    spoken_of = np.full(len(rows), len(scoring) < len(interested.extenders), np.bool_)
    calls = tuple(prioritize_call(extender, pod, nodes, rows) for extender in scoring)
    replies = (yield calls) if calls else []
    places = {nodes.names[row]: place for place, row in enumerate(rows)}
    for extender, reply in zip(scoring, replies, strict=True):
        try:
            given = _weighed(extender, reply, places, spoken_of)
        except Unusable as fault:
            interested.tell(f"{NO_SCORE} extender {extender.shown_url}: {fault}")
            continue
        card.totals += given
        if explain:
            card.by_plugin[extender.shown_url] = given
    return spoken_of


def _weighed(
    extender: Extender, reply: CallReply, places: dict[str, int], spoken_of: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """What an extender gives to each place, on the plugins' scale. Nodes that were not asked about are left out."""
    given = [0] * len(places)
    for host, score in read_scores(reply):
        place = places.get(host)
        if place is not None:
            given[place] += score * extender.weight * (MAX_SCORE // MAX_EXTENDER_SCORE)
            spoken_of[place] = True
    return np.array([_wrapped(total) for total in given], np.int64)


def _wrapped(number: int) -> int:
    """Parity: upstream adds int64 without checks, so a sum that does not fit into 64 bits wraps around."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
