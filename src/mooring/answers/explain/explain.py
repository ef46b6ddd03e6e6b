"""`mooring explain`: asks the core about one pod, or about the pods of a workload, and puts the answer into words."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mooring.answers.explain.controller_notes import ControllerNotes, missing_words, wanted_pods
from mooring.answers.explain.cure import largest
from mooring.answers.explain.cure_search import DECISIONS, before_all, find_cures
from mooring.answers.explain.explanation import (
    GroupExplanation,
    MemberReason,
    PodExplanation,
    WorkloadExplanation,
    best_scores,
    tipped,
)
from mooring.answers.explain.explanation_form import PastEvent, PodPlace
from mooring.answers.explain.group_cures import find_group_cures
from mooring.answers.explain.pod_rule_cures import may_preempt
from mooring.answers.trial.counterfactual import Counterfactual, PutObject
from mooring.answers.trial.group_trials import (
    AskedGroup,
    AttemptRecord,
    GroupOutcome,
    GroupTrials,
    group_named,
    group_of,
    kind_of,
)
from mooring.answers.trial.reasons import Reason, reasons_of, with_obstacles
from mooring.answers.trial.workload_book import WorkloadName, pods_of_workload, workload_named
from mooring.api.kinds import WORKLOADS, split_kind
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.inputs.dump_header import PodEvent
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import count
from mooring.model.pod import Pod, without_nomination
from mooring.model.workloads import Workload
from mooring.queue.queue_record import ON_PERMIT, WaitingPodRecord
from mooring.rules.conditions import typed_condition
from mooring.scheduler.decision import DecisionDetails, DecisionError, NoFit, Placement
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.scheduler.ties import is_tied, tied_with

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
    best = _best_smaller(trials, group)
    if best is None or len(best.nodes) <= len(outcome.record.nodes):
        return outcome
    left = {key: why for key, why in outcome.record.rejected.items() if key not in best.nodes}
    return replace(outcome, record=AttemptRecord(best.nodes, left or outcome.record.rejected))


def _best_smaller(trials: GroupTrials, group: AskedGroup) -> GroupOutcome | None:
    """The outcome of the largest gang below the minimum that is placed, by halving; None if none is."""
    placed: list[GroupOutcome] = []

    def is_placed(number: int) -> bool:
        declared = group.with_min_count(number)
        outcome = trials.attempt([PutObject(declared)], replace(group, declared=declared))
        fits = outcome.is_placed and not outcome.victims
        if fits:
            placed.append(outcome)
        return fits

    largest(is_placed, 0, group.min_count)
    return placed[-1] if placed else None


def explain_group(
    loaded: LoadedCluster, group: AskedGroup, *, cures: bool = True, decisions: int, asked: str = ""
) -> GroupExplanation:
    """Why the group is pending and what would place it; `asked` is the pod that the question named."""
    known = GroupExplanation(
        group.key,
        group.is_all_or_nothing,
        group.min_count,
        group.member_count,
        [PodPlace(pod.key, pod.spec.node_name) for pod in group.placed],
        asked=asked,
    )
    if not group.pending:
        return replace(known, is_settled=group.is_placed, waits_for=_group_waits_for(group))
    trials = GroupTrials(loaded, group)
    outcome = in_best_domain(trials, trials.attempt(explain=True))
    explanation = _explained(known, group, outcome)
    if cures and not explanation.is_settled and group.declared is not None:
        found = find_group_cures(trials, Counterfactual(loaded), outcome, decisions)
        explanation = replace(explanation, cures=found.found, gave_up=found.gave_up)
    return explanation


def _explained(known: GroupExplanation, group: AskedGroup, outcome: GroupOutcome) -> GroupExplanation:
    is_settled = outcome.is_placed and not outcome.victims
    room = outcome.nodes if is_settled else outcome.record.nodes
    waits = ["its next attempt: nothing keeps it from nodes any more"] if is_settled else _group_waits_for(group)
    return replace(
        known,
        nodes=[PodPlace(*each) for each in sorted(room.items())],
        is_settled=is_settled,
        message=_group_message(outcome),
        waits_for=waits,
        rejected=_rejected(group, outcome),
        victims=outcome.victims,
        placements=max(outcome.choices, 1),
    )


def _group_message(outcome: GroupOutcome) -> str:
    """Why the group is pending: why one of its pods fits nowhere, or why none is attempted."""
    rejected = [each.message for each in outcome.record.rejected.values()]
    return next((text for text in (*rejected, *outcome.messages.values()) if text), "")


def _group_waits_for(group: AskedGroup) -> list[str]:
    """The objects that must come before the group is attempted at all."""
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
        if pod.key in outcome.record.rejected:
            kinds.setdefault(kind_of(pod), []).append(pod.key)
    first = outcome.record.rejected
    return [MemberReason(keys, first[keys[0]].message, first[keys[0]].reasons) for keys in kinds.values()]


# ---- A snapshot knows which events a pod waits for in the queue of its scheduler.


def queue_waits(record: WaitingPodRecord) -> list[str]:
    """The ends of a sentence that begins with "It waits for"."""
    if record.place == "backoff":
        until = f" until {record.backoff_until}" if record.backoff_until else ""
        return [f"the end of its backoff{until}, after {count(record.attempts, 'attempt')}"]
    if record.place == ON_PERMIT:
        told = (f"{each.plugin} (at most until {each.until})" if each.until else each.plugin for each in record.permits)
        return [f"the Permit {'plugin' if len(record.permits) == 1 else 'plugins'} {', '.join(told)}"]
    return ["its turn in the active queue"] if record.place == "active" else []


def explain_named(
    loaded: LoadedCluster, name: str, namespace: str = "", *, cures: bool = True, decisions: int = DECISIONS
) -> PodExplanation | WorkloadExplanation | GroupExplanation:
    """Why a pod, a workload or a pod group is where it is, or why it has no node and what would give it one: `cart-0`,
    `shop/cart-0`, `pod/cart-0`, `deployment.apps/cart`, `podgroup/shop/train`.

    A pending pod that is scheduled with its group is explained with the group. Raises NoSuchPod, ConfigError, InputError.
    """
    spec, rest = split_kind(name, (POD_GROUP, *WORKLOADS.values()))
    if spec is None:
        return explain_alone_or_in_group(loaded, loaded.pod(name, namespace), cures=cures, decisions=decisions)
    if spec is POD_GROUP:
        return explain_group(loaded, group_named(loaded, rest, namespace), cures=cures, decisions=decisions)
    inner, _, own = rest.rpartition("/")
    workload = workload_named(loaded, spec.kind, own, inner or namespace)
    pods = pods_of_workload(loaded, spec.kind, own, inner or namespace, may_lack=workload is not None)
    answer = explain_workload(loaded, pods, f"{spec.kind} {rest}", cures=cures, decisions=decisions)
    return answer if workload is None else _with_missing(loaded, workload, len(pods), answer)


def _with_missing(
    loaded: LoadedCluster, workload: Workload, existing: int, answer: WorkloadExplanation
) -> WorkloadExplanation:
    """The explanation with what the controller says about pods that it has not created, if some are missing."""
    wanted = wanted_pods(workload)
    said = ControllerNotes(loaded).about(WorkloadName(workload.kind, workload.key))
    is_lacking = wanted is not None and wanted > existing
    if existing and not (said and (is_lacking or wanted is None)):
        return replace(answer, wanted=wanted)
    why = missing_words(loaded, workload, existing, said)
    is_short = is_lacking or (wanted is None and (not existing or bool(said)))
    return replace(answer, wanted=wanted, said=said, notes=[why], is_short=is_short)


def explain_alone_or_in_group(
    loaded: LoadedCluster, pod: Pod, *, cures: bool = True, decisions: int = DECISIONS
) -> PodExplanation | GroupExplanation:
    """The explanation of a pod; of its group, if the pod is pending and the scheduler attempts them together."""
    group = group_of(loaded, pod)
    if group is not None:
        return explain_group(loaded, group, cures=cures, decisions=decisions, asked=pod.key)
    return explain_pod(Counterfactual(loaded), pod, cures=cures, decisions=decisions)


def explain_workload(
    loaded: LoadedCluster, pods: Sequence[Pod], name: str, *, cures: bool = True, decisions: int = DECISIONS
) -> WorkloadExplanation:
    """Why the pods of a workload are where they are, grouped by what keeps them pending."""
    trials = Counterfactual(loaded)
    groups: dict[tuple[object, ...], list[Pod]] = {}
    for pod in pods:
        if not pod.spec.node_name:
            groups.setdefault((pod.shape, pod.label_set, pod.priority, _message(pod)), []).append(pod)
    pending = [
        _with_others(explain_pod(trials, alike[0], cures=cures, decisions=decisions), alike[1:])
        for alike in groups.values()
    ]
    placed = [PodPlace(pod.key, pod.spec.node_name) for pod in pods if pod.spec.node_name]
    return WorkloadExplanation(name, placed, pending)


def _with_others(explanation: PodExplanation, others: Iterable[Pod]) -> PodExplanation:
    return replace(explanation, others=[pod.key for pod in others])


def explain_pod(trials: Counterfactual, pod: Pod, *, cures: bool = True, decisions: int = DECISIONS) -> PodExplanation:
    """The explanation of a pod of the cluster that is tried."""
    known = PodExplanation(pod.key, node_count=trials.cluster.nodes.alive_count, history=_history(pod, trials.events))
    record = trials.queue.of(pod.key) if trials.queue is not None else None
    if pod.spec.node_name and trials.cluster.nodes.row_of_pod(pod.id) is not None:
        explanation = _of_placed(trials, pod, known)
        if record is None or record.place != ON_PERMIT:
            return explanation
        return replace(explanation, is_placed=False, is_reserved=True, waits_for=queue_waits(record))
    if pod.is_terminating and not pod.spec.node_name:
        return replace(known, message="it is being deleted, and the scheduler attempts no such pod")
    explanation = _of_pending(trials, pod, known)
    if record is not None:
        explanation = replace(explanation, waits_for=[*queue_waits(record), *explanation.waits_for])
    if cures and not explanation.node:
        found = find_cures(trials, pod, decisions)
        explanation = replace(explanation, cures=found.found, gave_up=found.gave_up)
    return explanation


def _of_pending(trials: Counterfactual, pod: Pod, known: PodExplanation) -> PodExplanation:
    gate = trials.gate(pod)
    if gate is not None:
        known = replace(known, message=gate.message, waits_for=[f"{gate.plugin}: {gate.message}"])
        return _of_held_back(trials, pod, known)
    decision = trials.decide(pod, explain=True)
    if isinstance(decision, Placement):
        waits = ["its next attempt: nothing keeps it from a node any more"]
        return _scored(trials, pod, decision, replace(known, node=decision.node, waits_for=waits))
    if isinstance(decision, DecisionError):
        return _of_held_back(trials, pod, replace(known, message=decision.error))
    reasons = _reasons(trials, pod, decision)  # before the next decision: it reads what the runner keeps
    waits = _waits_for(trials, pod, decision.diagnosis.plugins)
    nomination = trials.nominate(pod)
    evicted = nomination.victims if nomination is not None else ()
    victims = [victim.key for victim in evicted if not victim.is_terminating]
    notes = (
        [] if may_preempt(pod) else [f"It evicts no other pod: its preemptionPolicy is {pod.spec.preemption_policy}"]
    )
    return replace(known, message=decision.message, reasons=reasons, waits_for=waits, victims=victims, notes=notes)


def _of_held_back(trials: Counterfactual, pod: Pod, known: PodExplanation) -> PodExplanation:
    """A pod that the scheduler does not look at: what would come once the changes are made without which it never does."""
    changes = before_all(trials, pod)
    form = pod
    for change in changes:
        form = change.apply(form)
    if not changes or trials.gate(form) is not None:
        return known
    decision, when = trials.decide(form, explain=True), _when_looked_at(pod, form)
    if isinstance(decision, NoFit):
        return replace(known, reasons=_reasons(trials, form, decision), notes=[f"{when}: {decision.message}"])
    then = f"it would go to {decision.node}" if isinstance(decision, Placement) else decision.error
    return replace(known, notes=[f"{when}: {then}"])


def _when_looked_at(pod: Pod, form: Pod) -> str:
    """The beginning of a sentence about a form of the pod that the scheduler looks at."""
    parts = ["after its gates are removed"] if pod.spec.scheduling_gates else []
    name = form.spec.scheduler_name
    parts += [f"with schedulerName {name}"] if name != pod.spec.scheduler_name else []
    text = " and ".join(parts)
    return text[:1].upper() + text[1:]


def _reasons(trials: Counterfactual, pod: Pod, decision: NoFit) -> list[Reason]:
    return [with_obstacles(reason, pod, trials.cluster) for reason in reasons_of(decision)]


# ---- pods that would get a node, or have one


def _of_placed(trials: Counterfactual, pod: Pod, known: PodExplanation) -> PodExplanation:
    """A pod that runs: the decision for it if it were not there."""
    loose = without_nomination(pod.with_node(""))
    known = replace(known, is_placed=True, node=pod.spec.node_name, notes=_of_missing_node(trials, pod.spec.node_name))
    with trials.without(pod):
        decision = trials.decide(loose, explain=True)
        if isinstance(decision, NoFit):
            return replace(known, message=decision.message, reasons=_reasons(trials, loose, decision))
    if isinstance(decision, DecisionError):
        return replace(known, message=decision.error)
    totals = decision.details.totals if decision.details is not None else {}
    again = is_tied(totals, decision.node, known.node)  # as good a choice as the node that ties go to here
    return _scored(trials, pod, decision, replace(known, would_go_to=known.node if again else decision.node))


def _of_missing_node(trials: Counterfactual, name: str) -> list[str]:
    """The sentence about a pod whose node does not exist."""
    is_there = trials.cluster.nodes.nodes[trials.cluster.nodes.row_book[name]] is not None
    return [] if is_there else [f"Node {name} does not exist: kube-controller-manager deletes pods on such nodes"]


def _scored(trials: Counterfactual, pod: Pod, decision: Placement, known: PodExplanation) -> PodExplanation:
    """With the scores of the pod's node, if it takes the pod, and of the best others."""
    runner = trials.runner(pod)
    details = decision.details or DecisionDetails()
    scores = best_scores(details, known.node)
    weights = runner.score_weights() if runner is not None else {}
    best = known.would_go_to or decision.node
    return replace(
        known,
        feasible_count=decision.feasible_count,
        scores=scores,
        tied=tied_with(details.totals, best) if known.node == best else (),
        tipped=tipped(scores[0], scores[1]) if len(scores) > 1 else (),
        weights=weights,
        ties=trials.options.tie_break.words,
    )


# ---- what a pod waits for, and what happened to it


def _waits_for(trials: Counterfactual, pod: Pod, plugins: Iterable[str]) -> list[str]:
    waits = []
    if pod.status.nominated_node_name:
        waits.append(f"room on {pod.status.nominated_node_name}, which it is nominated to")
    events = _waking_events(trials, pod, plugins)
    if events:
        waits.append(f"one of these events: {', '.join(events)}")
    return waits


def _waking_events(trials: Counterfactual, pod: Pod, plugins: Iterable[str]) -> list[str]:
    """The events that the rejecting plugins registered: each may have the pod tried again."""
    runner, rejecting = trials.runner(pod), set(plugins)
    found: dict[str, None] = {}
    for plugin in runner.profile.plugins.values() if runner is not None else ():
        for registration in (plugin.events() or ()) if plugin.name in rejecting else ():
            found |= dict.fromkeys(registration.event.names())
    return list(found)


def _message(pod: Pod) -> str:
    condition = typed_condition(pod.status.conditions, POD_SCHEDULED)
    return (condition.message or "") if condition is not None else ""


def _history(pod: Pod, events: Iterable[PodEvent]) -> list[PastEvent]:
    """The past of the pod, as its object and the events about it tell it, the oldest first."""
    condition = typed_condition(pod.status.conditions, POD_SCHEDULED)
    past = [PastEvent(pod.metadata.creation_timestamp or "", "created")] if pod.metadata.creation_timestamp else []
    if condition is not None:
        told = condition.message or condition.reason or condition.status
        past.append(PastEvent(condition.last_transition_time or "", f"PodScheduled is {condition.status}: {told}"))
    past += [_past(event) for event in events if event.is_about(pod)]
    # Without the Z, a time with a fraction of the second is later than the whole second.
    return sorted(past, key=lambda event: event.at.removesuffix("Z"))


def _past(event: PodEvent) -> PastEvent:
    often = f" ({event.times} times since {event.first_time})" if event.times > 1 else ""
    told = f": {event.message}" if event.message else ""
    return PastEvent(event.last_time, f"{event.reason}{told}{often}")
