"""The decision where extenders have a say: the same steps as in decide.py, with theirs in between.

PreFilter -> Filter -> extenders filter -> PreScore -> Score -> extenders score -> pick
"""

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.framework.attempt import Attempt, AttemptError, Verdicts
from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.scheduler.decide import Manner, feasible_rows, no_fit, place, promised_row, screen, take_promised
from mooring.scheduler.decision import Decision, Failed, NoFit
from mooring.scheduler.extenders.bare_nodes import on_bare_nodes
from mooring.scheduler.extenders.filter import RowArray, passing, settle
from mooring.scheduler.extenders.interest import Panel
from mooring.scheduler.extenders.scores import add_scores
from mooring.scheduler.extenders.steps import Steps


def deciding(
    panel: Panel, runner: Runner, pod: Pod, cluster: Cluster, manner: Manner, seed: int = 0
) -> Steps[Decision]:
    """Where the pod should go, or why nowhere. The cluster must not change until the steps are over."""
    try:
        decision = yield from _deciding(panel, runner.open(pod, cluster, seed), manner)
    except AttemptError as error:
        return Failed(str(error))
    if isinstance(decision, NoFit) and decision.failure is not None:
        decision.failure.is_reviewed = panel.reviews_victims
    return decision


def _deciding(panel: Panel, attempt: Attempt, manner: Manner) -> Steps[Decision]:
    nodes = attempt.cycle.nodes
    screened = screen(attempt, manner)
    if isinstance(screened, NoFit):
        return screened
    verdicts, narrowing = screened
    promised = promised_row(attempt, verdicts)
    if promised is not None and (yield from _still_passes(panel, attempt, verdicts, promised)):
        return place(attempt, verdicts, narrowing, take_promised(verdicts, promised), None, manner)
    before: RowArray = np.arange(nodes.height)[feasible_rows(attempt, verdicts, manner)]
    left = yield from passing(panel, attempt, before, verdicts.objections)
    after = left.rows
    settle(verdicts, nodes, before, after)
    if not len(after):
        return no_fit(attempt, verdicts, narrowing, manner)
    if len(after) == 1:
        return place(attempt, verdicts, narrowing, after, None, manner)
    scoring = on_bare_nodes(attempt, after) if left.are_bare else attempt
    card = scoring.score(after, manner.explain)
    spoken_of = yield from add_scores(panel, attempt, card, manner.explain)
    return place(attempt, verdicts, narrowing, after, card, manner, spoken_of)


def _still_passes(panel: Panel, attempt: Attempt, verdicts: Verdicts, row: int) -> Steps[bool]:
    """Whether extenders agree to the node that the pod was promised, when they are asked about it alone.

    Parity: one that fails here is no reason to give up: all nodes are then asked about.
    """
    try:
        left = yield from passing(panel, attempt, np.array([row], np.intp), verdicts.objections)
    except AttemptError as fault:
        panel.report(f"Evaluation failed on nominated node {attempt.cycle.nodes.names[row]}: {fault}")
        return False
    return bool(np.array_equal(left.rows, [row]))
