"""Changes that were found for some pending pods, counted over all of them: each pod is placed after the change, one by one.

The scheduler decides and reserves for each pod, so that the room that one pod takes is gone for the next one. The work is
bounded by the number of decisions.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mooring.answers.capacity.filling import CopyPlacer
from mooring.answers.explain.cure import Cure
from mooring.answers.pending.pending_answer import CountedChange
from mooring.answers.trial.counterfactual import ChangePod, Edit, edited
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.pod import Pod
from mooring.scheduler.decision import Placement

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

    Pods of a shape come in turn. If the first of them gets no node, nothing has changed for the next one.
    """
    placer = CopyPlacer(replace(loaded, objects=edited(loaded.objects, edits)))
    counts = [0] * len(shapes)
    for place, shape in enumerate(shapes):
        for pod in _forms(shape, (forms or {}).get(place)):
            if placer.decisions >= PLACED:
                return PlacedCount(counts, is_least=True)
            if not isinstance(placer.place(pod), Placement):
                break
            counts[place] += 1
    return PlacedCount(counts)


def _forms(shape: PendingShape, form: Pod | None) -> Iterator[Pod]:
    """The pods of a shape, with the spec of the form of the first one if there is another."""
    for pod in shape.pods:
        yield pod if form is None else Pod(metadata=pod.metadata, spec=form.spec, status=pod.status)


def count_change(
    loaded: LoadedCluster, shapes: Sequence[PendingShape], change: FoundChange, before: PlacedCount
) -> CountedChange | None:
    """How many more pods get a node with the change than before; None if none does."""
    forms = change.forms()
    after = count_placed(loaded, shapes, change.edits, forms)
    more = after.total - before.total
    if more <= 0:
        return None
    owners = sorted({shapes[place].owner or f"Pod {shapes[place].first.key}" for place in forms})
    cure = change.cure
    return CountedChange(cure.kind, cure.change, owners, more, after.is_least, cure.shown_cost)
