"""`mooring capacity`: how many more of a pod fit, where, and what stops the next one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from mooring.answers.capacity.filling import (
    CopyPlacer,
    Filling,
    PodCopies,
    Warn,
    fill_at_once,
    fill_one_by_one,
    lay,
    pod_copies,
)
from mooring.answers.capacity.gangs import MOST_SIZE, Gang, GangCount, fill_with_gangs, gang_of
from mooring.answers.capacity.node_budgets import (
    CapacityLimit,
    CapacityLimitForm,
    LimitReason,
    NodeBudget,
    NodeBudgetForm,
    budgets_after,
)
from mooring.answers.capacity.preempting import Preempted, PreemptionForm, RoomMaker, count_lower
from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, amount_column, data_table
from mooring.answers.form.published import Count, Form, Positive
from mooring.answers.form.utilisation import zone_of
from mooring.answers.trial.reasons import Amount
from mooring.api.validation.problem import Problem, show
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, Source, Written
from mooring.kit.words import count
from mooring.model.node import Node
from mooring.model.quantity import show_amount

MOST_ONE_BY_ONE = 100_000
"""How many copies are placed one by one if nobody says how many: at 0.1 ms each, that takes ten seconds."""
MOST = 1_000_000
"""The largest limit that can be asked for."""

PodFile = Source | Written
"""A file with a Pod, a workload, or a list of them; or such an object as a dictionary."""


class CopiesForm(Form, frozen=True):
    """A pod or workload that was placed."""

    name: str
    """Kind, namespace and name of the pod or workload."""
    in_turn: Positive
    """How many of it come in each turn."""
    fits: Count
    """How many of it fit."""


class CapacityForm(Form, frozen=True):
    """How many more pods fit. Amounts are whole numbers: cpu in milli-CPU, memory and storage in bytes, other resources as
    counted."""

    pods: Sequence[CopiesForm]
    """The pods and workloads that were placed in turn."""
    fits: Count
    """How many pods fit in all; with limit.max, at least so many."""
    limit: CapacityLimitForm
    """The reason why the count ended."""
    per_node: Sequence[NodeBudgetForm]
    """All nodes, those with the most pods first."""
    notes: Sequence[str]
    """Sentences about the answer that a user should know."""
    gangs: GangCount | UnsetType = UNSET
    """Only where whole gangs were counted: then fits counts their pods."""
    preemption: PreemptionForm | UnsetType = UNSET
    """Only where preemption was counted, or where it was not and a pod that is placed may preempt others."""


@dataclass(frozen=True, slots=True, repr=False)
class Capacity(ClusterAnswer):
    """How many copies fit."""

    kind: ClassVar[str] = "Capacity"
    form: ClassVar = CapacityForm
    yes_if: ClassVar = "fits"

    pods: Sequence[PodCopies]
    """The kinds of copies that were placed, in turn."""
    fits: int
    by_kind: Mapping[str, int]
    """By name of the kind of copy."""
    nodes: Sequence[NodeBudget]
    limit: CapacityLimit
    zones: Mapping[str, str] = field(default_factory=dict)
    """The zones of nodes that have one."""
    notes: Sequence[str] = ()
    gangs: GangCount | None = None
    """Where whole gangs were counted; `fits` counts their pods."""
    preempted: Preempted | None = None
    """Where preemption was counted, or was not though it might give room."""

    @property
    def side_notes(self) -> Sequence[str]:
        return self.notes

    def summary(self) -> list[str]:
        used = sum(budget.pods > 0 for budget in self.nodes)
        names = " and ".join(f"{self._share(copies)}{copies.name}" for copies in self.pods)
        where = f" on {used} of {count(len(self.nodes), 'node')}" if self.fits else ""
        return [f"{names}: {self._more()}{where}.", *self._shares(), *self._preemption(), self._limit()]

    def _preemption(self) -> list[str]:
        return [] if self.preempted is None else self.preempted.sentences()

    def _more(self) -> str:
        """`12 more pods fit`, `at least 3 more gangs of 8 fit: 24 pods`."""
        least = "at least " if self.limit.most is not None else ""
        if self.gangs is None:
            return f"{least}{count(self.fits, 'more pod')} {'fits' if self.fits == 1 else 'fit'}"
        fits, size = self.gangs.fits, self.gangs.size
        pods = f": {count(self.fits, 'pod')}" if fits else ""
        return f"{least}{count(fits, 'more gang')} of {size} {'fits' if fits == 1 else 'fit'}{pods}"

    def _share(self, copies: PodCopies) -> str:
        return f"{copies.in_turn} of " if len(self.pods) > 1 or copies.in_turn > 1 else ""

    def _shares(self) -> list[str]:
        if len(self.pods) < 2:
            return []
        return [f"They are {', '.join(f'{self.by_kind.get(each, 0)} of {each}' for each in self._kinds())}."]

    def _kinds(self) -> list[str]:
        return [*dict.fromkeys(copies.name for copies in self.pods)]

    def _limit(self) -> str:
        if self.limit.most is not None:
            return f"The count stopped at the limit of {count(self.limit.most, 'pod')}."
        what = "the next one" if len(self.pods) == 1 else f"the next one, of {self.limit.pod}"
        reasons = "; ".join(told(reason) for reason in self.limit.reasons)
        if self.gangs is not None:
            what, reasons = "the next gang", f"{self.gangs.room} of {self.gangs.size} pods fit; {reasons}"
        return f"What stops {what}: {reasons}."

    def tables(self) -> list[AnswerTable]:
        by_zone = self._by_zone()
        return [
            self._node_table(),
            AnswerTable("Zones", ("zone", "nodes", "pods"), by_zone if len(by_zone) > 1 else ()),
            AnswerTable(
                "What stops the next pod",
                ("nodes", "plugin", "reason", "requested", "largest free", "on node"),
                [_reason_row(reason) for reason in self.limit.reasons],
                is_detail=True,
            ),
            AnswerTable("Victims", ("pod", "node", "priority", "leaves for"), self._victims()),
        ]

    def _victims(self) -> list[tuple[object, ...]]:
        return [] if self.preempted is None else [astuple(victim) for victim in self.preempted.victims]

    def _resources_and_kinds(self) -> tuple[list[str], list[str]]:
        """The resources of which something is left, and the kinds of copies where there are several: columns of nodes."""
        resources = [*dict.fromkeys(name for budget in self.nodes for name in budget.free)]
        return resources, self._kinds() if len(self.pods) > 1 else []

    def _node_table(self) -> AnswerTable:
        resources, kinds = self._resources_and_kinds()
        rows = [
            (
                budget.node,
                budget.pods,
                *(budget.by_kind.get(kind, 0) for kind in kinds),
                *(show_amount(name, budget.free.get(name, 0)) for name in resources),
                ", ".join(budget.reasons) or "-",
            )
            for budget in self.nodes
        ]
        columns = ("node", "pods", *kinds, *(f"{name} left" for name in resources), "stops the next")
        return AnswerTable("Nodes", columns, rows)

    def _by_zone(self) -> list[tuple[object, ...]]:
        nodes: Counter[str] = Counter()
        pods: Counter[str] = Counter()
        for budget in self.nodes:
            zone = self.zones.get(budget.node, "-")
            nodes[zone] += 1
            pods[zone] += budget.pods
        return [(zone, nodes[zone], pods[zone]) for zone in sorted(nodes)]

    def data_tables(self) -> Mapping[str, DataTable]:
        victims: Columns = {"pod": str, "node": str, "priority": int, "preemptor": str}
        return {
            "nodes": self._node_data(),
            "limits": _limit_data(self.limit),
            "victims": data_table(victims, self._victims()),
        }

    def _node_data(self) -> DataTable:
        resources, kinds = self._resources_and_kinds()
        columns: Columns = {
            "node": str,
            "zone": str,
            "fits": int,
            **{f"fits of {kind}": int for kind in kinds},
            **{amount_column(name, "free"): int for name in resources},
            "stopped_by_plugin": str,
            "stopped_by": str,
        }
        rows = (
            (
                *(budget.node, self.zones.get(budget.node), budget.pods),
                *(budget.by_kind.get(kind, 0) for kind in kinds),
                *(budget.free.get(name, 0) for name in resources),
                *(budget.plugin, ", ".join(budget.reasons)),
            )
            for budget in self.nodes
        )
        return data_table(columns, rows)

    def published(self) -> CapacityForm:
        return CapacityForm(
            [CopiesForm(copies.name, copies.in_turn, self.by_kind.get(copies.name, 0)) for copies in self.pods],
            self.fits,
            self.limit.published(),
            [budget.published(len(self.pods) > 1) for budget in self.nodes],
            [*self.notes, *(self._preemption() if self.preempted is not None and not self.preempted.counted else ())],
            UNSET if self.gangs is None else self.gangs,
            UNSET if self.preempted is None else self.preempted.published(),
        )


def _limit_data(limit: CapacityLimit) -> DataTable:
    """A row for each reason; amounts are in the units of the resource: cpu in milli, memory in bytes."""
    columns: Columns = {
        "plugin": str,
        "message": str,
        "nodes": int,
        "resource": str,
        "requested": int,
        "most_free": int,
        "best_node": str,
    }
    rows = ((each.plugin, each.message, each.nodes, *_amounts(each.amount)) for each in limit.reasons)
    return data_table(columns, rows)


def _amounts(amount: Amount | None) -> tuple[object, ...]:
    """Resource, what is requested, the most that is free, and where; None for what is not known."""
    if amount is None:
        return None, None, None, None
    return amount.resource, amount.wants, *((amount.largest_free, amount.node) if amount.node else (None, None))


def told(reason: LimitReason) -> str:
    """`4,210 nodes: Insufficient cpu (wants 4, largest free 3700m on node-0412)`."""
    head = f"{reason.nodes:,} {'node' if reason.nodes == 1 else 'nodes'}: " if reason.nodes else ""
    amounts = f" ({reason.amount.text})" if reason.amount is not None else ""
    return f"{head}{reason.message.rstrip('.')}{amounts}"


def _reason_row(reason: LimitReason) -> tuple[object, ...]:
    resource, wanted, free, node = _amounts(reason.amount)
    shown = ("-" if each is None else show_amount(str(resource), cast("int", each)) for each in (wanted, free))
    return (reason.nodes, reason.plugin or "-", reason.message, *shown, node or "-")


# ---- the question


def capacity(
    loaded: LoadedCluster,
    pod: PodFile | tuple[PodFile, int],
    *,
    mix: Sequence[PodFile | tuple[PodFile, int]] = (),
    most: int | None = None,
    gang: int | None = None,
    validation: Validation = Validation.STRICT,
    warn: Warn | None = None,
    preempt: bool = False,
) -> Capacity:
    """How many more of a pod fit. With `mix`, several are taken in turn, each as often as its number says, and the count ends
    when the next in turn does not fit. `most` ends it earlier. With `gang`, or if the file has a PodGroup with a gang policy
    that the pod names, whole gangs are counted. With `preempt`, pods that fit by evicting pods of lower priority count too.

    Raises InputError, ConfigError.
    """
    if most is not None and not 1 <= most <= MOST:
        raise InputError([Problem("most", show(most), f"from 1 to {MOST}")])
    if gang is not None and not 1 <= gang <= MOST_SIZE:
        raise InputError([Problem("gang", show(gang), f"from 1 to {MOST_SIZE}")])
    counted = [each if isinstance(each, tuple) else (each, 1) for each in (pod, *mix)]
    kinds = [each for file, number in counted for each in pod_copies(loaded, file, number, validation, warn)]
    if len(kinds) == 1 and (wanted := gang_of(loaded, kinds[0], gang)) is not None:
        return _capacity_of_gangs(loaded, kinds[0], wanted, most, preempt)
    if gang is not None:
        raise InputError([Problem("", "a gang has pods of one kind; count one pod or workload, without mix")])
    return capacity_of(loaded, kinds, most, preempt)


def _capacity_of_gangs(
    loaded: LoadedCluster, copies: PodCopies, gang: Gang, most: int | None, preempt: bool
) -> Capacity:
    filled = fill_with_gangs(loaded, copies, gang, MOST_ONE_BY_ONE if most is None else most, preempt)
    fits, budgets = filled.filling.fits, filled.budgets
    by_kind, notes = {copies.name: fits}, _notes(loaded)
    return Capacity(
        *([copies], fits, by_kind, budgets.nodes, budgets.limit),
        zones=_zones(loaded),
        notes=notes,
        gangs=filled.count,
        preempted=filled.preempted,
    )


def capacity_of(
    loaded: LoadedCluster, kinds: Sequence[PodCopies], most: int | None = None, preempt: bool = False
) -> Capacity:
    """How many copies fit of kinds that were read already."""
    placer = CopyPlacer(loaded, [item for copies in kinds for item in copies.extras])
    limit = MOST_ONE_BY_ONE if most is None else most
    preempted = Preempted(preempt, count_lower(placer, [copies.pod for copies in kinds], preempt))
    if preempt and preempted.lower_priority:
        filling = _fill_by_preemption(placer, kinds, limit, RoomMaker(loaded, placer, preempted, most is None))
    else:
        filling = _fill(placer, kinds, most, limit)
    budgets = budgets_after(placer, filling, filling.fits)
    by_kind: Counter[str] = Counter()
    for (_, name), number in filling.pods.items():
        by_kind[name] += number
    return Capacity(
        *(kinds, filling.fits, by_kind, budgets.nodes, budgets.limit),
        zones=_zones(loaded),
        notes=[*_notes(loaded), *preempted.notes()],
        preempted=preempted if preempt or preempted.lower_priority else None,
    )


def _zones(loaded: LoadedCluster) -> dict[str, str]:
    return {item.name: zone for item in loaded.objects if isinstance(item, Node) and (zone := zone_of(item))}


def _fill(placer: CopyPlacer, kinds: Sequence[PodCopies], most: int | None, limit: int) -> Filling:
    """At once if that can be done and is within the limit; or else one by one."""
    if len(kinds) == 1:
        filling = fill_at_once(placer, kinds[0])
        if filling is not None and (most is None or filling.fits < most):
            return filling
    return fill_one_by_one(placer, kinds, limit)


def _fill_by_preemption(placer: CopyPlacer, kinds: Sequence[PodCopies], limit: int, rooms: RoomMaker) -> Filling:
    """Place as many as fit without victims at once, if that can be done, and the others one by one."""
    begun = fill_at_once(placer, kinds[0]) if len(kinds) == 1 else None
    if begun is not None:
        begun = lay(placer, kinds[0], begun) if begun.fits < limit else None
    return fill_one_by_one(placer, kinds, limit, rooms.place, begun)


def _notes(loaded: LoadedCluster) -> list[str]:
    notes = []
    pending = loaded.pending()
    nominated = sum(bool(pod.status.nominated_node_name) for pod in pending)
    if pending:
        kept = f", except that {count(nominated, 'pod')} with a nominated node keep their room" if nominated else ""
        notes.append(f"{count(len(pending), 'pending pod')} of the cluster left out{kept}")
    if loaded.config.extenders:
        notes.append(f"{count(len(loaded.config.extenders), 'extender')} of the configuration not called")
    return notes
