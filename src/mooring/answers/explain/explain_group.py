"""Explains a pod group: lets the scheduler attempt it, and puts into words what stops the pods that do not fit."""

from dataclasses import replace

from mooring.answers.explain.group_cures import find_group_cures
from mooring.answers.explain.group_explanation import GroupExplanation, MemberReason
from mooring.answers.trial.asked_group import AskedGroup, kind_of
from mooring.answers.trial.counterfactual import Counterfactual, PutObject
from mooring.answers.trial.group_trials import GroupOutcome, GroupTrials, TrialRecord
from mooring.inputs.loaded_cluster import LoadedCluster

# ---- How many pods of a gang fit into the best of its topology domains.
#
# The scheduler need not try a gang in each domain: where counting tells that it fits into none, it tries one of them,
# for its message. So the best domain is the one that a smaller gang goes to.


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


def explain_group(
    loaded: LoadedCluster, group: AskedGroup, *, cures: bool = True, decisions: int, asked: str = ""
) -> GroupExplanation:
    """Why the group is pending and what would place it; `asked` is the pod that the question named."""
    known = GroupExplanation(
        group.key,
        group.is_all_or_nothing,
        group.min_count,
        group.member_count,
        [(pod.key, pod.spec.node_name) for pod in group.placed],
        asked=asked,
    )
    if not group.pending:
        return replace(known, is_settled=group.is_placed, waits_for=_waits_for(group))
    trials = GroupTrials(loaded, group)
    outcome = in_best_domain(trials, trials.attempt(explain=True))
    explanation = _explained(known, group, outcome)
    if cures and not explanation.is_settled and group.declared is not None:
        found = find_group_cures(trials, Counterfactual(loaded), outcome, decisions)
        explanation = replace(explanation, cures=found.found, gave_up=found.gave_up)
    return explanation


def _explained(known: GroupExplanation, group: AskedGroup, outcome: GroupOutcome) -> GroupExplanation:
    is_settled = outcome.is_placed and not outcome.victims
    room = outcome.nodes if is_settled else outcome.trial.nodes
    waits = ["its next attempt: nothing keeps it from nodes any more"] if is_settled else _waits_for(group)
    return replace(
        known,
        nodes=sorted(room.items()),
        is_settled=is_settled,
        message=_message(outcome),
        waits_for=waits,
        rejected=_rejected(group, outcome),
        victims=outcome.victims,
        placements=max(outcome.trials, 1),
    )


def _message(outcome: GroupOutcome) -> str:
    """Why the group is pending: why one of its pods fits nowhere, or why none is attempted."""
    rejected = [each.message for each in outcome.trial.rejected.values()]
    return next((text for text in (*rejected, *outcome.messages.values()) if text), "")


def _waits_for(group: AskedGroup) -> list[str]:
    """What has to come before the group is attempted at all."""
    if group.declared is None:
        return [f"PodGroup {group.key}, which does not exist"]
    missing = group.min_count - group.member_count
    if missing > 0:
        return [f"{missing} more pods: {group.member_count} of {group.min_count} came"]
    gated = [pod.key for pod in group.pending if pod.spec.scheduling_gates]
    return [f"the scheduling gates of {len(gated)} pods, such as {gated[0]}"] if gated else []


def _rejected(group: AskedGroup, outcome: GroupOutcome) -> list[MemberReason]:
    """The pods that were rejected, those of one kind together, with the reasons of the first of them."""
    kinds: dict[tuple[object, ...], list[str]] = {}
    for pod in group.pending:
        if pod.key in outcome.trial.rejected:
            kinds.setdefault(kind_of(pod), []).append(pod.key)
    first = outcome.trial.rejected
    return [MemberReason(keys, first[keys[0]].message, first[keys[0]].reasons) for keys in kinds.values()]
