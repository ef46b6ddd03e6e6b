"""`mooring plan`: which nodes to add at least cost so that everything fits, and which nodes can go."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from msgspec import field as named

from mooring.answers.form.answer import AnswerPlot, AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, attribute_table, data_table
from mooring.answers.form.published import ADDED, Count, Form, Number
from mooring.answers.form.report_parts import BarPlot
from mooring.answers.plan.additions import (
    NOT_TRIED,
    AddedNodes,
    AddedNodesForm,
    CheaperPlan,
    PlannedAdditions,
    TriedOrders,
    nodes_to_add,
)
from mooring.answers.plan.demand import pods_at_peak
from mooring.answers.plan.judge import made_patient, patient
from mooring.answers.plan.offer_choice import within_pools
from mooring.answers.plan.offers import NodeOffer, Offered, read_all_offers
from mooring.answers.plan.shrink import KeptNode, Shrinking, ShrinkOptions, nodes_to_remove
from mooring.answers.trial.changing_cluster import ChangingCluster, objects_of
from mooring.answers.trial.drain_trials import NodeDrain
from mooring.answers.what_if.workload_changes import apply as apply_objects
from mooring.inputs.arrivals import read_arrivals
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, Objects, Source, Written
from mooring.inputs.offers.offer_files import asked_prices
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.callbacks import Progress
from mooring.kit.words import count
from mooring.model.quantity import show_percent

POD_ROWS = 5
"""How many pods of a drain the summary of a row names."""


class UnplacedPod(Form, frozen=True):
    """A pod that stays pending, and why."""

    pod: str
    reason: str


class PlanForm(Form, frozen=True):
    """Which nodes to add and to remove. Prices and costs are in the unit of the offers."""

    fits: bool
    """Whether everything is placed."""
    at_first: Count = named(name="pendingAtFirst")
    """How many pods are to be placed."""
    placed_now: Count = named(name="placedOnPresentNodes")
    """How many of them fit on the present nodes."""
    new_nodes: Sequence[AddedNodesForm] = named(name="add")
    """The nodes to add, by step and offer. Nodes of a step come after the scheduler has placed what fits on those before."""
    removed: Sequence[NodeDrain] = named(name="remove")
    """The nodes to drain and remove, in this order; only with --shrink."""
    cost: Number
    """The price of all new nodes."""
    lower_bound: Number
    """No nodes of these offers that place the same pods cost less."""
    fits_at_once: bool
    """Whether everything is placed also if the nodes of all steps are added at once."""
    pending_at_once: Count
    """How many pods stay pending if the nodes of all steps are added at once."""
    unplaced: Sequence[UnplacedPod] = named(name="pending")
    """The pods that stay pending."""
    kept: Sequence[KeptNode]
    """Nodes that have to stay; only with --shrink."""
    safe_steps: Count
    """The number of first drains that hold whichever of equal nodes the scheduler takes, in whatever order pods come."""
    chances: Count
    """In how many simulations these choices fell in other ways; 0 if `safeSteps` was not looked into."""
    cordons_first: bool = named(name="cordonFirst")
    """Whether all nodes of `remove` have to be cordoned before the first one is drained."""
    saved: Number | None = named(name="saves")
    """The price an hour of the nodes of `remove`; null if not all nodes have a price."""
    searched_all: bool
    """Whether the search for nodes that can go ended by itself; if not, more time may find more."""
    notes: Sequence[str]
    """Sentences about the answer that a user should know."""
    orders: Count
    """The orders that were tried: pods of equal priority in any order, nodes of a step together, one by one, or while pods
    are placed."""
    orders_held: Count
    """In how many of these orders every pod that can be placed is placed."""
    cost_to_hold_in_all: Number | None
    """The cost of nodes that hold in all these orders; null if none were found."""
    cheaper: CheaperPlan | None
    """The cheapest nodes that were found for the order of the cluster, if they cost less than this plan."""
    price_unit: Annotated[str, ADDED]
    """The unit of prices and costs, as the user names it; empty if it is not named."""


@dataclass(frozen=True, slots=True, repr=False)
class Plan(ClusterAnswer):
    """The nodes to add and to remove."""

    kind: ClassVar[str] = "Plan"
    form: ClassVar = PlanForm
    yes_if: ClassVar = "fits"

    added: Sequence[AddedNodes]
    removed: Sequence[NodeDrain]
    pending: Mapping[str, str]
    """The pods that stay pending, by key, and why."""
    lower_bound: float
    at_first: int
    placed_now: int
    pending_at_once: int
    kept: Sequence[KeptNode] = ()
    has_offers: bool = True
    shrinks: bool = False
    is_complete: bool = True
    """Whether the search for nodes that can go ended by itself."""
    notes: Sequence[str] = field(default=())
    safe_steps: int = 0
    chances: int = 0
    cordons_first: bool = False
    saved: float | None = None
    tried: TriedOrders = NOT_TRIED
    price_unit: str = ""
    """The unit of all prices and costs, for people: `EUR an hour`."""

    @property
    def orders(self) -> int:
        return self.tried.tried

    @property
    def orders_held(self) -> int:
        return self.tried.held

    @property
    def cheaper(self) -> CheaperPlan | None:
        return self.tried.cheaper

    @property
    def cost_to_hold_in_all(self) -> float | None:
        return self.cost if self.orders == self.orders_held else None

    @property
    def cost(self) -> float:
        return sum(each.cost for each in self.added)

    @property
    def steps(self) -> int:
        """In how many steps the new nodes come."""
        return max((each.step for each in self.added), default=0)

    @property
    def fits(self) -> bool:
        return not self.pending

    @property
    def fits_at_once(self) -> bool:
        return not self.pending_at_once

    @property
    def side_notes(self) -> Sequence[str]:
        return self.notes

    # ---- text

    def summary(self) -> list[str]:
        lines = self._order() if self.steps > 1 else []
        lines.append(self._outcome())
        if self.added:
            lines += [self._cost(), self._holding()]
        return [*lines, *self._shrunk()] if self.shrinks else lines

    def _order(self) -> list[str]:
        """These sentences come first: nodes of several steps do not hold everything if they are added all at once."""
        return [
            f"Add the nodes in {self.steps} steps, in this order: each step when the pods of the step before are placed.",
            f"Added all at once, {count(self.pending_at_once, 'pod')} would stay pending.",
        ]

    def _outcome(self) -> str:
        new = sum(each.pods for each in self.added)
        nodes = sum(len(each.names) for each in self.added)
        if not self.at_first:
            return "No pod is pending: nothing has to be added."
        parts = [f"{count(self.at_first, 'pending pod')}: {self.placed_now} fit on the present nodes"]
        if nodes:
            parts.append(f"{new} on {count(nodes, 'new node')}")
        if self.pending:
            parts.append(f"{len(self.pending)} cannot be placed")
        return f"{', '.join(parts)}."

    def _money(self, amount: float) -> str:
        """The amount with its unit, if the user names one."""
        return f"{_number(amount)} {self.price_unit}".rstrip()

    def _cost(self) -> str:
        bound = f"no plan for these pods costs less than {self._money(self.lower_bound)}"
        over = f" ({show_percent(self.cost / self.lower_bound - 1)} above)" if self.lower_bound else ""
        return f"The new nodes cost {self._money(self.cost)}; {bound}{over}."

    def _holding(self) -> str:
        """In which orders the plan holds, and the price of one that holds in fewer."""
        orders = "orders of pods and nodes that were tried"
        if self.orders_held < self.orders:
            return f"They hold in {self.orders_held} of {self.orders} {orders}; no nodes were found that hold in all."
        cheaper = self.cheaper
        less = f" Nodes for {self._money(cheaper.cost)} hold in {cheaper.orders_held} of them." if cheaper else ""
        return f"They hold in all {self.orders} {orders}.{less}"

    def _shrunk(self) -> list[str]:
        rest = "" if self.is_complete else "; the search ended early, and more time (--seconds) may find more"
        if not self.removed:
            return [f"No node can go{rest}."]
        lines = ["Cordon all of the nodes below before you drain the first one."] if self.cordons_first else []
        in_turn = ", one after the other," if len(self.removed) > 1 else ""
        lines.append(f"{count(len(self.removed), 'node')} can go{in_turn} with everything still placed{rest}.")
        if self.saved is not None:
            hourly = "" if self.price_unit else " an hour"
            lines.append(f"That saves {self._money(self.saved)}{hourly}.")
        if self.chances and self.safe_steps < len(self.removed):
            chance = "on which of equally good nodes the scheduler takes, and on the order in which pods come"
            lines.append(f"From step {self.safe_steps + 1} on, whether everything is placed depends {chance}.")
        return lines

    def tables(self) -> list[AnswerTable]:
        add: list[tuple[object, ...]] = [
            (each.step, each.offer.name, len(each.names), _number(each.offer.price), _number(each.cost), each.pods)
            for each in self.added
        ]
        unit = f" in {self.price_unit}" if self.price_unit else ""
        columns: tuple[str, ...] = ("step", "offer", "nodes", f"price{unit}", f"cost{unit}", "pods")
        if self.steps < 2:
            columns, add = columns[1:], [row[1:] for row in add]
        remove = [
            (number, step.node, len(step.moved), _shown(step), step.daemons)
            for number, step in enumerate(self.removed, 1)
        ]
        return [
            AnswerTable("Nodes to add", columns, add),
            AnswerTable("Nodes to drain, in this order", ("step", "node", "moves", "to", "daemons"), remove),
            AnswerTable("Pods that stay pending", ("pods", "such as", "reason"), self._by_reason()),
            AnswerTable("New nodes", ("offer", "node"), self._names(), is_detail=True),
            AnswerTable("Moves", ("step", "pod", "from", "to"), self._moves(), is_detail=True),
            AnswerTable(
                "Nodes that stay", ("node", "reason"), [(each.node, each.reason) for each in self.kept], is_detail=True
            ),
        ]

    def plots(self) -> list[AnswerPlot]:
        costs: dict[str, float] = {}
        placed = {"present nodes": float(self.placed_now)}
        for each in self.added:
            costs[each.offer.name] = costs.get(each.offer.name, 0.0) + each.cost
            where = f"step {each.step}" if self.steps > 1 else each.offer.name
            placed[where] = placed.get(where, 0.0) + each.pods
        drained = {step.node: float(len(step.moved)) for step in self.removed}
        bound = {"this plan": self.cost, "lower bound": self.lower_bound}
        return [
            *([_bars("Cost of the new nodes", "cost", bound), _bars("Cost by offer", "cost", costs)] if costs else ()),
            *([_bars("Where pending pods go", "pods", placed)] if self.at_first else ()),
            *([_bars("Pods that each drain moves, in order", "pods", drained)] if drained else ()),
        ]

    def _by_reason(self) -> list[tuple[object, ...]]:
        grouped: dict[str, list[str]] = {}
        for key, reason in self.pending.items():
            grouped.setdefault(reason, []).append(key)
        return [
            (len(keys), keys[0], reason) for reason, keys in sorted(grouped.items(), key=lambda each: -len(each[1]))
        ]

    def _names(self) -> list[tuple[object, ...]]:
        return [(each.offer.name, name) for each in self.added for name in each.names]

    def _moves(self) -> list[tuple[object, ...]]:
        return [
            (number, pod.key, step.node, pod.node) for number, step in enumerate(self.removed, 1) for pod in step.moved
        ]

    # ---- data

    def data_tables(self) -> Mapping[str, DataTable]:
        remove = ((number, step.node, len(step.moved), step.daemons) for number, step in enumerate(self.removed, 1))
        return {
            "add": attribute_table(self.added, _ADD_COLUMNS),
            "remove": data_table({"step": int, "node": str, "moved_pods": int, "daemon_pods": int}, remove),
            "moves": data_table({"step": int, "pod": str, "from_node": str, "to_node": str}, self._moves()),
            "pending": data_table({"pod": str, "reason": str}, self.pending.items()),
            "new_nodes": data_table({"offer": str, "node": str}, self._names()),
            "kept": attribute_table(self.kept, {"node": str, "reason": str}),
        }

    @property
    def new_nodes(self) -> list[AddedNodesForm]:
        return [each.published() for each in self.added]

    @property
    def searched_all(self) -> bool:
        return self.is_complete

    @property
    def unplaced(self) -> list[UnplacedPod]:
        return [UnplacedPod(*each) for each in self.pending.items()]


_ADD_COLUMNS: Columns = {
    "step": int,
    "offer.name:offer": str,
    "count:nodes": int,
    "offer.price:price": float,
    "cost": float,
    "pods": int,
}
"""Prices are in the unit of the offers."""


def _number(amount: float) -> str:
    return f"{amount:,.4f}".rstrip("0").rstrip(".")


def _bars(title: str, counted: str, values: Mapping[str, float]) -> BarPlot:
    return BarPlot(title, [*values], {counted: [*values.values()]})


def _shown(step: NodeDrain) -> str:
    nodes = [*dict.fromkeys(pod.node for pod in step.moved)]
    more = f" and {len(nodes) - POD_ROWS} more" if len(nodes) > POD_ROWS else ""
    return f"{', '.join(nodes[:POD_ROWS])}{more}" or "-"


# ---- the question


def plan(
    loaded: LoadedCluster,
    offers: Offered | None = None,
    *,
    apply: Sequence[Objects] = (),
    arrivals: Source | Sequence[Written] | None = None,
    shrink: bool | ShrinkOptions = False,
    at_once: bool = False,
    validation: Validation = Validation.STRICT,
    tell: Progress | None = None,
) -> Plan:
    """Which nodes of `offers` to add at least cost so that everything pending fits, with what `apply` adds and the pods of
    the busiest moment of `arrivals`. Nodes come one step after the other, where that is cheaper;
    with `at_once`, everything fits also if all come at the same time. With `shrink`: which of the present nodes can go.

    Raises InputError with the problems of all of them, ArrivalsError if only the arrivals have any, ConfigError, and
    SolverMissing without SciPy.
    """
    errors = _ReadingErrors()
    chosen: Sequence[NodeOffer] = ()
    known: PriceList | None = None
    applied = _applied(loaded, apply, validation, errors) if apply else None
    wanted = loaded if applied is None else objects_of(applied)
    with errors.kept():
        wanted = _with_arrivals(wanted, arrivals, validation)
    notes: Sequence[str] = ()
    with errors.kept():
        chosen, notes = read_all_offers(offers, wanted, validation) if offers is not None else ((), ())
    asked = shrink if isinstance(shrink, ShrinkOptions) else ShrinkOptions()
    with errors.kept():
        known = asked_prices(asked.prices)
    errors.raise_all()
    begun = made_patient(applied) if applied is not None and arrivals is None else None
    additions = _additions(patient(wanted), chosen, tell, at_once, begun)
    new = [name for each in additions.added for name in each.names]
    shrinking = nodes_to_remove(additions.loaded, new, tell, known, asked.seconds) if shrink else Shrinking()
    answer = _answer(loaded, additions, shrinking, bool(chosen), bool(shrink))
    return replace(answer, notes=[*answer.notes, *notes])


def _additions(
    wanted: LoadedCluster,
    offers: Sequence[NodeOffer],
    tell: Progress | None,
    at_once: bool,
    begun: ChangingCluster | None,
) -> PlannedAdditions:
    """The nodes to add, within the limits of pools that several offers share."""
    additions = nodes_to_add(wanted, offers, tell, at_once=at_once, begun=begun)
    counts = {each.offer.name: 0 for each in additions.added}
    for each in additions.added:
        counts[each.offer.name] += each.count
    fewer = within_pools(offers, counts)
    return additions if fewer is None else nodes_to_add(wanted, fewer, tell, at_once=at_once)


def _answer(
    loaded: LoadedCluster, additions: PlannedAdditions, shrinking: Shrinking, has_offers: bool, shrinks: bool
) -> Plan:
    return Plan(
        additions.added,
        shrinking.steps,
        additions.pending,
        additions.bound,
        additions.at_first,
        additions.placed_now,
        additions.pending_at_once,
        shrinking.kept,
        has_offers,
        shrinks,
        shrinking.is_complete,
        _notes(loaded, additions),
        shrinking.safe_steps,
        shrinking.chances,
        shrinking.cordons_first,
        shrinking.saved,
        additions.orders,
    )


class _ReadingErrors:
    """Errors of several files, so that all their problems are told at once."""

    def __init__(self) -> None:
        self._errors: list[InputError] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            self._errors.append(error)

    def raise_all(self) -> None:
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise InputError([problem for error in self._errors for problem in error.problems])


def _applied(
    loaded: LoadedCluster, files: Sequence[Objects], validation: Validation, errors: _ReadingErrors
) -> ChangingCluster:
    """The cluster with more objects, before any pod is placed."""
    cluster = ChangingCluster(loaded, validation)
    for file in files:
        with errors.kept():
            apply_objects(cluster, file)
    return cluster


def _with_arrivals(
    loaded: LoadedCluster, arrivals: Source | Sequence[Written] | None, validation: Validation
) -> LoadedCluster:
    if arrivals is None:
        return loaded
    listed = read_arrivals(arrivals, loaded.objects, loaded.gates, validation)
    return replace(loaded, objects=[*loaded.objects, *pods_at_peak(listed)])


def _notes(loaded: LoadedCluster, additions: PlannedAdditions) -> list[str]:
    notes = []
    if additions.at_first:
        notes.append("the plan preempts no pod: pods that are pending wait for room")
    notes += additions.order_notes()
    if additions.weight > 1:
        told = f"the search for new nodes made one decision for {additions.weight} in a small cluster"
        notes.append(f"the cluster is large: {told}, and tried fewer orders")
    if additions.offers_left_out:
        told = "no pod can use them, or others cost less for what pods request"
        notes.append(f"{count(additions.offers_left_out, 'offer')} left out of search and lower bound: {told}")
    if loaded.config.extenders:
        notes.append(f"{count(len(loaded.config.extenders), 'extender')} of the configuration not called")
    return notes
