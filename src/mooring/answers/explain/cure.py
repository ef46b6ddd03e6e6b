"""A cure: changes after which a pod gets a node, with the effort that they cost a user.

The cost orders cures, the smallest change first. It is a rough measure of how much is asked of people and of other pods:

| change                                        | cost                                                |
| wait until pods that end already have ended   | 5                                                   |
| remove a scheduling gate, uncordon a node     | 10                                                  |
| use the scheduler name of a profile           | 15                                                  |
| lower a request                               | 20, and up to 60 more for the share that is given up |
| tolerate a taint                              | 30 for each                                         |
| drop or widen a rule of the pod               | 40 for each                                         |
| claim fewer or other devices                  | 40                                                  |
| create or bind a volume, create a claim       | 45                                                  |
| create a claim again, without its data        | 75                                                  |
| free devices that no pod uses                 | 45                                                  |
| remove a taint from a node, label a node      | 45 for each; 20 more for a label with another value |
| let a node run more pods                      | 45                                                  |
| move other pods                               | 50, 60 for two                                      |
| lower a request of another pod                | 55, and up to 20 more for the share that is given up |
| raise the priority, let the pod preempt       | 60, 5 for each victim                               |
| remove other pods                             | 70, 10 more for each further one                    |
| one more node                                 | 90; 85 to mend one that is not ready                |
| a node that is unlike all others              | 95                                                  |
| drop the request of a resource that no node has | 100                                               |
| more nodes for a group                        | 90, 5 for each beyond the first                     |
| a smaller minimum of a gang                   | 40, and up to 60 more for the share that is given up |
| a pod that a disruption budget protects leaves | 50 more for each                                   |

Changes that are needed together cost the sum. Pods that the scheduler evicts after a change add 5 for each.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Protocol

import msgspec
import numpy as np

from mooring.answers.form.published import Count, Form, Number, Published
from mooring.answers.trial.counterfactual import ChangePod, Counterfactual, Edit, PutObject
from mooring.answers.trial.reasons import Reason, reasons_of
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.decision import NoFit

WAIT = 5
REMOVE_GATE = UNCORDON = 10
CHANGE_SCHEDULER = 15
LOWER_REQUEST, GIVE_UP_ALL = 20, 60
TOLERATE = 30
CHANGE_RULE = 40
VOLUME = FREE_CLAIM = CHANGE_NODE = 45
OTHER_LABEL = 20
MOVE, ANOTHER_MOVE = 50, 10
SHRINK_OTHER, OTHERS_SHARE = 55, 20
RAISE_PRIORITY, VICTIM, BROKEN_BUDGET = 60, 5, 50
REMOVE_POD = 70
LOSE_DATA = 75
DROP_REQUEST = 100
MORE_NODES, ANOTHER_NODE, UNLIKE_OTHERS = 90, 5, 5


EACH = 3
"""How many cures of one kind are named."""


class CureForm(Form, frozen=True):
    """A change that would place the pod or the group."""

    kind: str
    """The kind of change in one word, such as `tolerate`."""
    change: str
    """The change as a sentence."""
    node: str
    """The node that the pod would get; for a group all nodes, with the number of pods."""
    verified: Annotated[bool, msgspec.Meta(extra_json_schema={"const": True})]
    """The scheduler placed the pod when this was tried."""
    shown_cost: Number = msgspec.field(name="cost")
    """How much is asked of people and of other pods: cures are in this order."""
    victims: tuple[str, ...]
    """Pods that would be evicted."""
    broken_budgets: Count
    """How many of the victims a disruption budget protects."""


@dataclass(frozen=True, slots=True)
class Cure(Published):
    """Edits after which the pod gets `node`; this was tried."""

    form: ClassVar = CureForm
    verified: ClassVar[bool] = True
    kind: str
    change: str
    node: str
    cost: float
    edits: tuple[Edit, ...] = field(repr=False)
    victims: tuple[str, ...] = ()
    broken_budgets: int = 0

    @property
    def shown_cost(self) -> float:
        """The cost with as many digits as it is worth; the published form reads it by its name."""
        return round(self.cost, 1)


class CountsDecisions(Protocol):
    """A trial that counts its decisions."""

    decisions: int


class SearchBudget:
    """How many decisions a search may still make."""

    def __init__(self, trials: CountsDecisions, decisions: int, whole: "SearchBudget | None" = None) -> None:
        """`whole` is the budget that this one is a part of."""
        self._trials, self._whole = trials, whole
        self._limit = trials.decisions + decisions
        self.was_exhausted = False

    def half(self) -> "SearchBudget":
        """A budget of half of the decisions that are left, for a search that must leave some to the next one."""
        return SearchBudget(self._trials, (self._limit - self._trials.decisions) // 2, self)

    def is_left(self) -> bool:
        """Whether another decision may be made; a search that is told no gives up."""
        left = self._trials.decisions < self._limit
        self.was_exhausted = self.was_exhausted or not left
        if not left and self._whole is not None:
            self._whole.was_exhausted = True
        return left


# ---- The search for a number by halving: where one number suffices, all above it do.


def smallest(suffices: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number above `low` and up to `high` that suffices. `high` is not tried: it is the answer if none below it
    suffices."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def largest(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number from `low` and below `high` that fits, where smaller ones fit as well. `low` is not tried."""
    return smallest(lambda number: not fits(number), low, high) - 1


# ---- One change of a cure: to the pod, to a node, or to other objects.


def _as_it_is(pod: Pod) -> Pod:
    return pod


@dataclass(frozen=True, slots=True)
class CureChange:
    """One change that a person can make. Its sentence says all that it does."""

    kind: str
    text: str
    cost: float
    apply: Callable[[Pod], Pod] = field(default=_as_it_is, repr=False)
    """The form that the pod has after the change."""
    dropped_key: str = field(default="", repr=False)
    """The label whose line of the node selector is dropped; empty for another change."""
    node: str = field(default="", repr=False)
    """The node that the change is about, if it is about one."""
    apply_to_node: Callable[[Node], Node] | None = field(default=None, repr=False)
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    """Changes of other objects."""
    victims: tuple[Pod, ...] = field(default=(), repr=False)
    """Pods that leave for good."""


@dataclass(frozen=True, slots=True)
class Patient:
    """The pod to be cured as `made` changes leave it, and what a search works with."""

    pod: Pod
    trials: Counterfactual
    budget: SearchBudget
    made: tuple[CureChange, ...] = field(default=(), kw_only=True)
    """The changes that every cure of this patient begins with. Those of other objects are in force where `changed` says."""
    edits: tuple[Edit, ...] = field(default=(), kw_only=True)
    """The changes of other objects among them."""

    @property
    def cost(self) -> float:
        """The cost of the changes that are made."""
        return sum(change.cost for change in self.made)

    def after(self, *changes: CureChange) -> "Patient":
        """The patient after further changes."""
        pod, edits = self.pod, self.edits
        for change in changes:
            pod = change.apply(pod)
            if change.apply_to_node is not None:
                edits = _with_node(edits, change.apply_to_node(self._node(change.node, edits)))
            edits += change.edits
        return replace(self, pod=pod, made=(*self.made, *changes), edits=edits)

    def _node(self, name: str, edits: tuple[Edit, ...]) -> Node:
        """A node as the edits leave it."""
        for edit in edits:
            if isinstance(edit, PutObject) and isinstance(edit.item, Node) and edit.item.name == name:
                return edit.item
        nodes = self.trials.cluster.nodes
        node = nodes.nodes[nodes.row_book[name]]
        assert node is not None, "a change is about a node that exists"
        return node

    def changed(self) -> AbstractContextManager[None]:
        """The edits of other objects are in force inside."""
        return self.trials.changed(self.edits)

    def node_for(self, pod: Pod) -> str | None:
        """The node that this form of the pod gets; None also if the search has to give up."""
        return self.trials.node_for(pod) if self.budget.is_left() else None

    def rejection_on(self, pod: Pod, row: int) -> Reason | None:
        """Why a node rejects this form of the pod; None if it takes it, or the search has to give up."""
        if not self.budget.is_left():
            return None
        nodes = self.trials.cluster.nodes
        within = np.zeros(nodes.height, np.bool_)
        within[row] = True
        decision = self.trials.decide(pod, within=within)
        reasons = reasons_of(decision) if isinstance(decision, NoFit) else []
        return next((reason for reason in reasons if row in reason.rows), None)

    def cured(self, kind: str, change: str, cost: float, *edits: Edit) -> Cure | None:
        """The cure, if the pod gets a node after the edits."""
        node = self.trials.node_for(self.pod, edits) if self.budget.is_left() else None
        return None if node is None else self.cure(CureChange(kind, change, cost), node, edits)

    def cures(self, kind: str, change: str, cost: float, *edits: Edit) -> Iterator[Cure]:
        """`cured` for searches that yield what they find."""
        cure = self.cured(kind, change, cost, *edits)
        if cure is not None:
            yield cure

    def cure(self, change: CureChange | None, node: str, edits: Sequence[Edit] = ()) -> Cure:
        """The cure of the changes that are made and of another one, which `edits` make; that it gives `node` was tried."""
        changes = [*self.made, *([change] if change is not None else [])]
        victims = [pod for each in changes for pod in each.victims]
        if self.made and not any(isinstance(edit, ChangePod) for edit in edits):
            edits = [*edits, ChangePod(self.pod)]
        return Cure(
            "+".join(each.kind for each in changes),
            ", and ".join(each.text for each in changes),
            node,
            sum(each.cost for each in changes),
            (*self.edits, *edits),
            tuple(pod.key for pod in victims),
        )


def _with_node(edits: tuple[Edit, ...], node: Node) -> tuple[Edit, ...]:
    """The edits with this form of a node instead of an earlier one."""
    kept = [
        edit
        for edit in edits
        if not (isinstance(edit, PutObject) and isinstance(edit.item, Node) and edit.item.name == node.name)
    ]
    return (*kept, PutObject(node))


# ---- Changes to the pod itself. A relaxation is one dimension of what a pod asks for: requests, tolerations and so
# on.
#
# Each can be given up altogether (`relax`), to see whether it matters, and has options: the smallest ways to give up
# enough of it. Options are functions from a pod to a pod, so that options of two relaxations can be put together.


class Relaxation(ABC):
    """A dimension of what a pod asks for."""

    @abstractmethod
    def relax(self, pod: Pod) -> Pod | None:
        """The pod without anything of this dimension; None if it has nothing of it."""

    def alone(self, patient: Patient, pod: Pod) -> Iterator[CureChange]:
        """Changes of `pod`, a form of the patient, that may suffice alone."""
        return iter(())

    def together(self, pod: Pod) -> CureChange | None:
        """The change that is tried if none suffices alone."""
        return None

    def instead(self, patient: Patient, change: CureChange, pod: Pod, node: str) -> Iterator[CureChange]:
        """A change with which `pod` gets `node`, after smaller ones that do as well."""
        yield change

    def options(self, patient: Patient, pod: Pod) -> Iterator[CureChange]:
        """Changes after which `pod` gets a node; each was tried."""
        is_found = False
        for change in self.alone(patient, pod):
            node = patient.node_for(change.apply(pod))
            if node is not None:
                is_found = True
                yield from self.instead(patient, change, pod, node)
        together = None if is_found else self.together(pod)
        if together is not None and patient.node_for(together.apply(pod)) is not None:
            yield together
