"""How many pods of a gang fit into the best of its topology domains.

The scheduler need not try a gang in each domain: where counting tells that it fits into none, it tries one of them, for its
message. So the best domain is the one that a smaller gang goes to.
"""

from dataclasses import replace

from mooring.answers.trial.asked_group import AskedGroup
from mooring.answers.trial.edits import PutObject
from mooring.answers.trial.group_trials import GroupOutcome, GroupTrials, TrialRecord


def in_best_domain(trials: GroupTrials, outcome: GroupOutcome) -> GroupOutcome:
    """The outcome of a gang with topology constraints that is not placed, with the room of the best domain."""
    group = trials.group
    if outcome.is_placed or group.declared is None or group.declared.topology_key is None:
        return outcome
    if not group.is_all_or_nothing or group.member_count < group.min_count:
        return outcome
    best = _largest(trials, group)
    if best is None or len(best.nodes) <= len(outcome.trial.nodes):
        return outcome
    left = {key: why for key, why in outcome.trial.rejected.items() if key not in best.nodes}
    return replace(outcome, trial=TrialRecord(best.nodes, left or outcome.trial.rejected))


def _largest(trials: GroupTrials, group: AskedGroup) -> GroupOutcome | None:
    """The outcome of the largest gang that is placed, by halving; None if none is."""
    low, high, best = 1, group.min_count - 1, None
    while low <= high:
        middle = (low + high) // 2
        smaller = replace(group, declared=group.with_min_count(middle))
        assert smaller.declared is not None
        outcome = trials.attempt([PutObject(smaller.declared)], smaller)
        if outcome.is_placed and not outcome.victims:
            best, low = outcome, middle + 1
        else:
            high = middle - 1
    return best
