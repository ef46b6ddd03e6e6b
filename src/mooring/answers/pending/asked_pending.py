"""`mooring explain` without a name: asks the core about everything that is pending.

Pods about which the scheduler decides alike are asked about once, so that thousands of pending pods take as many decisions as
they have shapes. Changes are looked for only for the largest groups, and counted over all pods: each pod is placed after the
change, one by one. The scheduler decides and reserves for each of them, so that the room that one pod takes is gone for the
next one. The work is bounded by the number of decisions.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import numpy as np

from mooring.answers.capacity.filling import CopyPlacer
from mooring.answers.explain.controller_notes import ControllerNotes, wanted_pods
from mooring.answers.explain.cure import Cure
from mooring.answers.explain.cure_search import DECISIONS, find_cures
from mooring.answers.explain.explain import explain_group
from mooring.answers.explain.explanation import GroupExplanation
from mooring.answers.pending.pending_answer import (
    CountedChange,
    MissingPods,
    PendingExplanation,
    PendingOwner,
    PendingReason,
)
from mooring.answers.trial.counterfactual import ChangePod, Counterfactual, Edit, edited
from mooring.answers.trial.group_trials import asked_group, has_groups, kind_of
from mooring.answers.trial.reasons import EXAMPLES, Reason, reasons_of
from mooring.answers.trial.workload_book import WorkloadName, behind_replica_set
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.pod import Pod
from mooring.model.workloads import ReplicaSet
from mooring.scheduler.decision import DecisionError, Placement

CURED = 8
"""For how many shapes changes are looked for: those of most pods."""
LEAST_DECISIONS = 400
"""How many decisions a search for one shape may make at least: enough for all single changes of most pods."""

Tell = Callable[[int, int], None]
"""Told the progress: done, in all."""


COUNTED = 6
"""How many changes are counted: those that were found for the most pods."""
ALIKE = 2
"""How many changes of one kind for the same pods are counted."""
PLACED = 5_000
"""How many decisions a count may make: two seconds at 5,000 nodes. What it has found by then is told as a minimum."""


@dataclass(frozen=True, slots=True)
class PendingShape:
    """Pending pods about which the scheduler decides alike, the oldest first."""

    owner: str
    """For people; empty for pods without a controller."""
    pods: Sequence[Pod] = field(repr=False)

    @property
    def first(self) -> Pod:
        return self.pods[0]

    @property
    def called(self) -> str:
        """The owner, or the pods where there is none."""
        alone = f"Pod {self.first.key}" if len(self.pods) == 1 else f"{len(self.pods):,} pods such as {self.first.key}"
        return self.owner or alone


@dataclass(slots=True)
class FoundChange:
    """One change in words, with the cures of all shapes that it was found for."""

    cures: dict[int, Cure]
    """By the place of the shape."""

    @property
    def cure(self) -> Cure:
        """The cheapest of them."""
        return min(self.cures.values(), key=lambda cure: cure.cost)

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The changes of the cluster, without those of pods."""
        return tuple(edit for edit in self.cure.edits if not isinstance(edit, ChangePod))

    def forms(self) -> dict[int, Pod]:
        """The forms of the first pods of shapes whose pods are changed."""
        changed = ((place, edit) for place, cure in self.cures.items() for edit in cure.edits)
        return {place: edit.pod for place, edit in changed if isinstance(edit, ChangePod)}


def found_changes(cures: Mapping[int, Sequence[Cure]], shapes: Sequence[PendingShape]) -> list[FoundChange]:
    """The changes that were found for most pods, the cheapest first among those of as many. Of changes of one kind for the
    same pods the cheapest ones are taken. A change that evicts pods is left out: they would be pending instead."""
    found: dict[str, FoundChange] = {}
    for place, listed in cures.items():
        for cure in listed:
            if not cure.victims:
                found.setdefault(cure.change, FoundChange({})).cures.setdefault(place, cure)

    def rank(change: FoundChange) -> tuple[float, float, str]:
        pods = sum(len(shapes[place].pods) for place in change.cures)
        return -pods, change.cure.cost, change.cure.change

    taken, alike = list[FoundChange](), Counter[tuple[str, frozenset[int]]]()
    for change in sorted(found.values(), key=rank):
        kind = change.cure.kind, frozenset(change.cures)
        alike[kind] += 1
        taken += [change] if alike[kind] <= ALIKE else []
    return taken[:COUNTED]


@dataclass(frozen=True, slots=True)
class PlacedCount:
    """How many pods of each shape got a node."""

    by_shape: Sequence[int]
    is_least: bool = False
    """Whether the count ended before all pods were tried."""

    @property
    def total(self) -> int:
        return sum(self.by_shape)


def count_placed(
    loaded: LoadedCluster,
    shapes: Sequence[PendingShape],
    edits: Sequence[Edit] = (),
    forms: Mapping[int, Pod] | None = None,
) -> PlacedCount:
    """Place the pods of all shapes after the edits; `forms` are those of pods that are changed, by the place of the shape.

    Pods of a shape come in turn. If the first of them gets no node, nothing has changed for the next one. Pods that others
    may help are tried again when some were placed after them, as the queue does.
    """
    placer = CopyPlacer(replace(loaded, objects=edited(loaded.objects, edits)))
    counts = [0] * len(shapes)
    waiting = {place: [*_forms(shape, (forms or {}).get(place))] for place, shape in enumerate(shapes)}
    while waiting:
        before = sum(counts)
        for place, pods in waiting.items():
            while pods:
                if placer.decisions >= PLACED:
                    return PlacedCount(counts, is_least=True)
                if not isinstance(placer.place(pods[0]), Placement):
                    break
                del pods[0]
                counts[place] += 1
        is_changed = sum(counts) > before
        waiting = {place: pods for place, pods in waiting.items() if is_changed and pods and _needs_others(pods[0])}
    return PlacedCount(counts)


def _needs_others(pod: Pod) -> bool:
    """Whether pods that are placed may help the pod: those that it wants to be near, and those in other domains."""
    return bool(pod.shape.spread_constraints or pod.shape.terms(pod.namespace).affinity)


def _forms(shape: PendingShape, form: Pod | None) -> Iterator[Pod]:
    """The pods of a shape, with the spec of the form of the first one if there is another."""
    for pod in shape.pods:
        yield pod if form is None else Pod(metadata=pod.metadata, spec=form.spec, status=pod.status)


def count_change(
    loaded: LoadedCluster, shapes: Sequence[PendingShape], change: FoundChange, before: PlacedCount
) -> CountedChange | None:
    """How many more pods get a node with the change than before; None if none does."""
    forms = {place: pod for place, pod in change.forms().items() if pod is not shapes[place].first}
    after = count_placed(loaded, shapes, change.edits, forms)
    more = after.total - before.total
    if more <= 0:
        return None
    owners = sorted({shapes[place].called for place in forms})
    cure = change.cure
    return CountedChange(cure.kind, cure.change, owners, more, after.is_least, cure.shown_cost)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The decision of the scheduler about pods of one shape."""

    shape: PendingShape
    node: str = ""
    message: str = ""
    reasons: Sequence[Reason] = field(default=(), repr=False)


def explain_pending(
    loaded: LoadedCluster,
    namespace: str = "",
    *,
    cures: bool = True,
    decisions: int = DECISIONS,
    tell: Tell = lambda done, total: None,
) -> PendingExplanation:
    """Why pods are pending, in one namespace or in all, and which one change would help most of them.

    Raises ConfigError, and InputError for objects that contradict each other.
    """
    asked = _Asked(loaded, namespace)
    trials = Counterfactual(loaded)
    verdicts = []
    for place, shape in enumerate(asked.shapes):
        verdicts.append(verdict_on(trials, shape))
        tell(place, 2 * len(asked.shapes))
    grouped = [_of_group(loaded, key, pods, cures, decisions) for key, pods in asked.by_group.items()]
    before = PlacedCount([0] * len(asked.shapes))
    if any(verdict.node for verdict in verdicts):
        before = count_placed(loaded, asked.shapes)
    known = PendingExplanation(
        namespace,
        loaded.taken_at,
        len(asked.pods),
        before.total + sum(len(each.pods) for each, _, settled in grouped if settled),
        _reasons(verdicts, trials),
        [*_groups(verdicts, before, loaded.taken_at), *(each for each, _, _ in grouped)],
        missing=asked.missing(),
    )
    known = replace(
        known, groups=sorted(known.groups, key=lambda group: (-len(group.pods), group.owner, group.pods[0]))
    )
    if not cures:
        return known
    largest = _of_every_reason([verdict for verdict in verdicts if not verdict.node])[:CURED]
    found = found_changes(_cures_of(largest, asked.shapes, trials, decisions, tell), asked.shapes)
    counted = [count_change(loaded, asked.shapes, change, before) for change in found]
    changes = [change for change in counted if change is not None]
    changes += [change for _, helping, _ in grouped for change in helping]
    searched = sum(len(verdict.shape.pods) for verdict in largest)
    searched += sum(len(each.pods) for each, _, settled in grouped if not settled)
    return replace(known, changes=sorted(changes, key=lambda each: (-each.pods, each.cost)), searched=searched)


class _Asked:
    """The pods of a question, by shape and by pod group."""

    def __init__(self, loaded: LoadedCluster, namespace: str) -> None:
        self._loaded, self._namespace = loaded, namespace
        self.pods = [pod for pod in loaded.pods() if namespace in ("", pod.namespace)]
        self._sets = {item.key: item for item in loaded.objects if isinstance(item, ReplicaSet)}
        self._jobs = {item.key: item for item in loaded.workloads if item.kind == "Job"}
        self.by_group: dict[str, list[Pod]] = {}
        shapes: dict[tuple[object, ...], list[Pod]] = {}
        with_groups = has_groups(loaded.gates)
        for pod in sorted(filter(_is_pending, self.pods), key=_in_queue):
            if with_groups and pod.group_key is not None:
                self.by_group.setdefault(pod.group_key, []).append(pod)
            else:
                shapes.setdefault((self._owner(pod), *_alike(pod)), []).append(pod)
        self.shapes = [PendingShape(str(key[0]), pods) for key, pods in shapes.items()]

    def _owner(self, pod: Pod) -> str:
        """The controller of a pod: the Deployment above a ReplicaSet, the CronJob above a Job. Empty if it has none."""
        owner = pod.controller()
        if owner is None:
            return ""
        kind, name = owner.kind, owner.name
        if kind == "ReplicaSet":
            kind, name = behind_replica_set(pod, name, self._sets.get(f"{pod.namespace}/{name}")) or (kind, name)
        elif kind == "Job" and (job := self._jobs.get(f"{pod.namespace}/{name}")) and (above := job.controller()):
            kind, name = above.kind, above.name
        return str(WorkloadName(kind, f"{pod.namespace}/{name}"))

    def missing(self) -> list[MissingPods]:
        """The workloads whose controllers say that they could not create pods, and that lack some."""
        notes = ControllerNotes(self._loaded)
        named = [(name, work) for name, work in notes.wanting() if self._namespace in ("", work.namespace)]
        existing = Counter(self._owner(pod) for pod in self.pods) if named else Counter[str]()
        return [
            MissingPods(str(name), wanted, existing[str(name)], notes.about(name))
            for name, workload in named
            if (wanted := wanted_pods(workload)) is None or wanted > existing[str(name)]
        ]


def _is_pending(pod: Pod) -> bool:
    """Whether the scheduler is to find a node: it leaves pods alone that are being deleted."""
    return not pod.spec.node_name and not pod.is_terminating


def _in_queue(pod: Pod) -> tuple[int, str, str]:
    """The order of the active queue: the highest priority first, then the oldest."""
    return -pod.priority, pod.metadata.creation_timestamp or "", pod.key


def _alike(pod: Pod) -> tuple[object, ...]:
    """A key that pods share about which the scheduler decides alike."""
    gates = tuple(gate.name for gate in pod.spec.scheduling_gates or ())
    return *kind_of(pod), gates, pod.spec.scheduler_name, pod.status.nominated_node_name


# ---- why


def verdict_on(trials: Counterfactual, shape: PendingShape) -> _Verdict:
    gate = trials.gate(shape.first)
    if gate is not None:
        return _Verdict(shape, message=gate.message, reasons=[_no_node(gate.plugin, gate.message)])
    decision = trials.decide(shape.first)
    if isinstance(decision, Placement):
        return _Verdict(shape, decision.node)
    if isinstance(decision, DecisionError):
        return _Verdict(shape, message=decision.error, reasons=[_no_node("-", decision.error)])
    return _Verdict(shape, message=decision.message, reasons=reasons_of(decision))


def _no_node(plugin: str, message: str) -> Reason:
    """A reason for which the scheduler looks at no node."""
    return Reason(plugin, message, np.zeros(0, np.intp))


def _reasons(verdicts: Iterable[_Verdict], trials: Counterfactual) -> list[PendingReason]:
    """Each reason with the pods that meet it and the nodes that give it, those of most pods first."""
    pods: Counter[tuple[str, str]] = Counter()
    owners: dict[tuple[str, str], set[str]] = {}
    rows: dict[tuple[str, str], set[int]] = {}
    for verdict in verdicts:
        # One text may be two reasons: on some nodes eviction can help, on others it cannot.
        pods.update(dict.fromkeys(((each.plugin, each.message) for each in verdict.reasons), len(verdict.shape.pods)))
        for reason in verdict.reasons:
            key = reason.plugin, reason.message
            owners.setdefault(key, set()).update(
                [verdict.shape.owner] if verdict.shape.owner else [pod.key for pod in verdict.shape.pods]
            )
            rows.setdefault(key, set()).update(reason.rows.tolist())
    names = trials.cluster.nodes.names
    return [
        PendingReason(
            *key, number, len(owners[key]), len(rows[key]), sorted(names[row] for row in rows[key])[:EXAMPLES]
        )
        for key, number in pods.most_common()
    ]


def _groups(verdicts: Iterable[_Verdict], placed: PlacedCount, taken_at: str) -> list[PendingOwner]:
    """The pods of each owner that are pending for the same reason. `placed` counts by the same shapes as the verdicts."""
    found: dict[tuple[str, str, str], list[tuple[_Verdict, int]]] = {}
    for verdict, fitting in zip(verdicts, placed.by_shape, strict=True):
        key = (verdict.shape.owner, verdict.shape.first.namespace, verdict.message)
        found.setdefault(key, []).append((verdict, fitting))
    return [
        _group(
            *(owner, [pod for each, _ in alike for pod in each.shape.pods], alike[0][0].node, message, taken_at),
            sum(fitting for _, fitting in alike),
        )
        for (owner, _, message), alike in found.items()
    ]


def _group(owner: str, pods: Sequence[Pod], node: str, message: str, taken_at: str, fitting: int) -> PendingOwner:
    created = [pod.metadata.creation_timestamp for pod in pods if pod.metadata.creation_timestamp]
    oldest = min(created, default="")
    return PendingOwner(
        *(owner, pods[0].namespace, node, message, oldest, _passed_s(oldest, taken_at), [pod.key for pod in pods]),
        fitting,
    )


def _passed_s(begin: str, end: str) -> int | None:
    """The seconds between two moments; None if one is not known or not a moment."""
    try:
        return max(0, moment_ns(end) - moment_ns(begin)) // NS_PER_S if begin and end else None
    except ValueError:
        return None


def _of_group(
    loaded: LoadedCluster, key: str, pods: Sequence[Pod], cures: bool, decisions: int
) -> tuple[PendingOwner, list[CountedChange], bool]:
    """A pod group, whose pods the scheduler attempts together: the changes that place it, and whether it is placed now."""
    answer: GroupExplanation = explain_group(loaded, asked_group(loaded, key), cures=cures, decisions=decisions)
    owner = f"PodGroup {key}"
    node = answer.nodes[0].node if answer.is_settled and answer.nodes else ""
    message = "" if node else answer.message or ", ".join(answer.waits_for)
    changes = [
        CountedChange(cure.kind, cure.change, [owner], len(pods), False, cure.shown_cost)
        for cure in answer.cures[:1]
        if not cure.victims
    ]
    fitting = len(pods) if answer.is_settled else 0
    return _group(owner, pods, node, message, loaded.taken_at, fitting), changes, answer.is_settled


# ---- what would help


def _of_every_reason(stuck: Sequence[_Verdict]) -> list[_Verdict]:
    """The verdicts in the order in which changes are looked for: the one of most pods for each combination of reasons, then
    the next one of each."""
    alike: dict[frozenset[tuple[str, str]], list[_Verdict]] = {}
    for verdict in sorted(stuck, key=lambda each: -len(each.shape.pods)):
        alike.setdefault(frozenset((each.plugin, each.message) for each in verdict.reasons), []).append(verdict)
    by_size = sorted(alike.values(), key=lambda found: -sum(len(each.shape.pods) for each in found))
    return [verdict for turn in zip_longest(*by_size) for verdict in turn if verdict is not None]


def _cures_of(
    largest: Sequence[_Verdict], shapes: Sequence[PendingShape], trials: Counterfactual, decisions: int, tell: Tell
) -> dict[int, Sequence[Cure]]:
    """By place of the shape: the changes that would place the first of its pods."""
    places = {id(shape): place for place, shape in enumerate(shapes)}
    each = max(LEAST_DECISIONS, decisions // max(len(largest), 1))
    cures = {}
    for done, verdict in enumerate(largest):
        cures[places[id(verdict.shape)]] = find_cures(trials, verdict.shape.first, each).found
        tell(len(largest) + done, 3 * len(largest))
    return cures
