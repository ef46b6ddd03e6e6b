"""The room that is left on each node in the end, and the reasons that stop the next copy there."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from mooring.answers.capacity.filling import CopyPlacer, Filling, Refusal
from mooring.answers.form.published import Count, Form
from mooring.answers.trial.reasons import INSUFFICIENT, Amount, largest_free
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.status import Rejection
from mooring.model.pod import Pod
from mooring.scheduler.decision import DecisionError, Diagnosis, NoFit, Placement


class StopForm(Form, frozen=True):
    """Why a node does not take the next pod."""

    plugin: str
    reasons: Sequence[str]


class NodeBudgetForm(Form, frozen=True, kw_only=True):
    """A node with the pods that go there."""

    node: str
    pods: Count
    """How many of the pods go there."""
    by_pod: Mapping[str, int] | UnsetType = UNSET
    """The number of pods by name of the pod or workload; only with several of them."""
    free: Mapping[str, int]
    """The amount that is left of each resource that the next pod requests, and of allowed pods."""
    stopped_by: StopForm | None
    """The reason why the next pod does not fit there; null if nothing does, or if no node was asked."""


class LimitReasonForm(Form, frozen=True):
    """A reason of the last decision."""

    plugin: str
    """The plugin that rejected the nodes; empty for an error."""
    message: str
    """The reason in the words of kube-scheduler."""
    nodes: Count
    """On how many nodes; 0 if no node was asked."""
    resource: str | UnsetType = UNSET
    """The resource that is short."""
    requested: int | UnsetType = UNSET
    """How much of it the pod requests."""
    most_free: int | UnsetType = UNSET
    """The most that one of these nodes has free."""
    best_node: str | UnsetType = UNSET
    """That node."""
    largest: int | UnsetType = UNSET
    """The most that one of these nodes has in all; of all nodes, if fitsNoNode is true."""
    fits_no_node: bool | UnsetType = UNSET
    """Whether no node of the cluster has as much in all."""


class CapacityLimitForm(Form, frozen=True, kw_only=True):
    """The reason why the count ended."""

    pod: str
    """The pod or workload whose turn it was."""
    max: int | UnsetType = UNSET
    """The number of pods at which the count stopped; only if that ended it."""
    message: str | UnsetType = UNSET
    """The fit error, as the scheduler writes it into events."""
    reasons: Sequence[LimitReasonForm]


@dataclass(frozen=True, slots=True)
class NodeBudget:
    """One node: how many copies it takes, what is left there, and what stops the next one."""

    node: str
    pods: int
    by_kind: Mapping[str, int]
    """By name of the kind of copy."""
    free: Mapping[str, int]
    """The amount that is left of each resource that the next copy requests, in units of the node table, and of `pods`."""
    plugin: str = ""
    reasons: tuple[str, ...] = ()
    """Empty: nothing does."""

    def published(self, is_mix: bool) -> NodeBudgetForm:
        """The node in its published form; a mix of several kinds counts each kind."""
        stopped = StopForm(self.plugin, self.reasons) if self.reasons else None
        by_pod = self.by_kind if is_mix else UNSET
        return NodeBudgetForm(node=self.node, pods=self.pods, by_pod=by_pod, free=self.free, stopped_by=stopped)


@dataclass(frozen=True, slots=True)
class LimitReason:
    """A reason of the last decision, in upstream's words."""

    plugin: str
    message: str
    nodes: int
    amount: Amount | None = None
    """The resource that is short: how much is asked for, and the most that one of the nodes with this reason has."""

    def published(self) -> LimitReasonForm:
        told, amount = (self.plugin, self.message, self.nodes), self.amount
        if amount is None:
            return LimitReasonForm(*told)
        if not amount.node:
            return LimitReasonForm(*told, amount.resource, amount.wants)
        return LimitReasonForm(*told, *astuple(amount)[:-1])


@dataclass(frozen=True, slots=True)
class CapacityLimit:
    """The reason why the count ended."""

    pod: str
    """The kind of copy whose turn it was."""
    reasons: Sequence[LimitReason] = ()
    message: str = ""
    """The fit error as upstream writes it into events."""
    most: int | None = None
    """The number of pods at which the count stopped, if that ended it."""

    def published(self) -> CapacityLimitForm:
        reasons = [each.published() for each in self.reasons]
        if self.most is not None:
            return CapacityLimitForm(pod=self.pod, max=self.most, reasons=reasons)
        return CapacityLimitForm(pod=self.pod, message=self.message, reasons=reasons)


@dataclass(frozen=True, slots=True)
class Budgets:
    """All nodes, the ones with the most copies first, and what stopped the count."""

    nodes: Sequence[NodeBudget] = field(repr=False)
    limit: CapacityLimit


def budgets_after(placer: CopyPlacer, filling: Filling, most: int) -> Budgets:
    """Ask the core once more about the copy that was not placed, now for every node."""
    cluster, pod, copies = filling.cluster, filling.pod, filling.refused
    assert cluster is not None and pod is not None and copies is not None, "a filling ends with a copy"
    outcome: Refusal | Placement | None = filling.refusal
    if outcome is None or isinstance(outcome, NoFit):
        outcome = placer.decide(pod, explain=True, cluster=cluster)
    nodes = _budgets(cluster, pod, filling.pods, _by_node(outcome))
    if filling.refusal is None:
        return Budgets(nodes, CapacityLimit(copies.name, most=most))
    return Budgets(nodes, CapacityLimit(copies.name, _reasons(outcome, nodes, pod, cluster), _message(outcome)))


def _by_node(outcome: Refusal | Placement | None) -> Mapping[str, Rejection]:
    """The verdict of each node that the last decision rejected."""
    details = outcome.details if isinstance(outcome, NoFit | Placement) else None
    return details.rejected if details is not None else {}


def _budgets(
    cluster: Cluster, pod: Pod, placed: Counter[tuple[str, str]], rejected: Mapping[str, Rejection]
) -> list[NodeBudget]:
    by_node: dict[str, dict[str, int]] = {}
    for (node, kind), number in placed.items():
        by_node.setdefault(node, {})[kind] = number
    free = _free(cluster, [name for name, amount in pod.shape.request.items() if amount])
    found = []
    for name, left in free.items():
        kinds, rejection = by_node.get(name, {}), rejected.get(name)
        told = (rejection.plugin, rejection.reasons) if rejection is not None else ("", ())
        found.append(NodeBudget(name, sum(kinds.values()), kinds, left, *told))
    return sorted(found, key=lambda budget: (-budget.pods, budget.node))


def _free(cluster: Cluster, resources: Iterable[str]) -> dict[str, dict[str, int]]:
    """By node: what is left of each resource, and of allowed pods."""
    nodes = cluster.nodes
    columns = {name: nodes.amounts.free_on(name, range(nodes.capacity)) for name in resources}
    columns["pods"] = (nodes.allowed_pods - nodes.pod_count).tolist()
    alive = nodes.alive.tolist()
    return {
        name: {resource: column[row] for resource, column in columns.items()}
        for name, row in nodes.row_book.items()
        if alive[row]
    }


# ---- the limit


def _message(outcome: object) -> str:
    match outcome:
        case NoFit():
            return outcome.message
        case Rejection():
            return outcome.message
        case DecisionError():
            return outcome.error
    return ""


def _reasons(outcome: object, nodes: Sequence[NodeBudget], pod: Pod, cluster: Cluster) -> list[LimitReason]:
    """The reasons of the last decision, those of most nodes first."""
    match outcome:
        case NoFit(diagnosis):
            counted = _counted(diagnosis)
        case Rejection():
            counted = Counter(dict.fromkeys(((outcome.plugin, reason) for reason in outcome.reasons), 0))
        case DecisionError(error):
            counted = Counter({("", error): 0})
        case _:
            counted = Counter()
    return [LimitReason(*key, number, _amount(key[1], nodes, pod, cluster)) for key, number in counted.most_common()]


def _counted(diagnosis: Diagnosis) -> Counter[tuple[str, str]]:
    """(Plugin, reason) -> the number of nodes."""
    counted: Counter[tuple[str, str]] = Counter()
    for rejection, number in diagnosis.all_verdicts():
        plugin = rejection.plugin or ", ".join(sorted(diagnosis.plugins))  # the verdict on absent nodes may have none
        for reason in rejection.reasons:
            counted[plugin, reason] += number
    return counted or Counter({("", diagnosis.message()): diagnosis.node_count})


def _amount(reason: str, nodes: Sequence[NodeBudget], pod: Pod, cluster: Cluster) -> Amount | None:
    """The shortage behind a reason: the request of the pod, and the most that one of the nodes with the reason has."""
    resource = reason.removeprefix(INSUFFICIENT) if reason.startswith(INSUFFICIENT) else ""
    if resource not in pod.shape.request:
        return None
    rows = [cluster.nodes.row_book[budget.node] for budget in nodes if reason in budget.reasons]
    return largest_free(resource, pod.shape.exact_request[resource], cluster, np.array(rows, np.intp))
