"""The published form of a what-if answer: docs/schemas/what-if.v1.json."""

from collections.abc import Sequence
from typing import Literal

from msgspec import field

from mooring.answers.form.published import Count, Form, Number
from mooring.answers.form.utilisation import UseForm
from mooring.answers.trial.changing_cluster import BlockedPod, GonePod, NamedPod

GroupChange = Literal["pending", "still pending", "placed", "new"]


class MovedPod(NamedPod, frozen=True):
    """A pod that has another node now."""

    node: str = field(name="from")
    """Its node before."""
    new_node: str = field(name="to")
    """Its node after."""


class PendingPod(NamedPod, frozen=True):
    """A pod without a node in the end."""

    node: str = field(name="from")
    """Its node before; empty if it had none."""
    message: str
    """Why it has no node, from its condition PodScheduled."""
    was_pending: bool
    """Whether it was pending before, too."""
    is_new: bool
    """Whether it came with the changes."""


class PlacedPod(NamedPod, frozen=True):
    """A pod that has a node in the end and had none before."""

    node: str
    """Its node."""
    is_new: bool
    """Whether it came with the changes."""


class PreemptedForm(NamedPod, frozen=True):
    """A preemption."""

    node: str
    """Where it was preempted."""
    preemptor: NamedPod
    """The pod that it had to make room for."""
    to: str
    """Its node in the end; empty if it is pending or gone."""


class WorkloadForm(Form, frozen=True):
    """How many pods of a workload are in which list. A pod may be in several."""

    kind: str
    """Deployment, StatefulSet, DaemonSet, Job or another controller."""
    namespace: str
    name: str
    moved: Count
    pending: Count
    placed: Count
    preempted: Count
    blocked: Count


class UseChangeForm(Form, frozen=True):
    """The use of the cluster before and after the changes."""

    before: UseForm
    after: UseForm


class GroupUseChangeForm(Form, frozen=True):
    """The use of a zone or a pool before and after the changes."""

    name: str
    before: UseForm
    after: UseForm


class UtilisationForm(Form, frozen=True):
    """The use of the cluster and of its parts."""

    total: UseChangeForm
    zones: Sequence[GroupUseChangeForm]
    """By the label topology.kubernetes.io/zone."""
    pools: Sequence[GroupUseChangeForm]
    """By the label of the node pool, or else by instance type."""


class ChangedGroupForm(Form, frozen=True):
    """A group that is pending after the changes, or that was not placed before them."""

    key: str = field(name="podGroup")
    """namespace/name"""
    change: GroupChange
    min_count: int | None
    """How many pods must fit before any of them goes; null if they need not go together."""
    members: Count
    on_nodes: Count
    """How many of its pods have a node."""
    message: str
    """Why it is pending."""


class CostChangeForm(Form, frozen=True):
    """The price of an hour of all nodes, cordoned ones as well."""

    before: Number
    after: Number
    difference: Number
    """The price of an hour that the changes add; below 0 if they save."""
    difference_a_month: Number
    """The amount for 730 hours."""
    idle_before: Number
    """The part of `before` that nothing is requested for: of each node one minus the larger of the requested shares of cpu
    and memory."""
    idle_after: Number
    price_unit: str = ""
    """The unit of the prices, as it was given."""


class WhatIfForm(Form, frozen=True):
    """The difference that changes make to a cluster. The scheduler has tried everything that was pending before the first
    change."""

    fits: bool
    """Whether all pods that were placed or pending before have a node in the end, except those that a change deletes, and no
    drain is blocked. Then the exit status is 0."""
    changes: Sequence[str]
    """The changes in the order in which they were made."""
    moved: Sequence[MovedPod]
    """Pods that have another node now. A pod with a controller that was evicted counts as the pod that replaces it, and keeps
    its name."""
    pending: Sequence[PendingPod]
    """Pods without a node in the end."""
    placed: Sequence[PlacedPod]
    """Pods that have a node in the end and had none before."""
    evictions: Sequence[PreemptedForm] = field(name="preempted")
    """Preemptions, in their order. A pod that was preempted and is placed elsewhere or pending in the end is in `moved` or
    `pending` too."""
    gone: Sequence[GonePod]
    """Pods that are deleted and not replaced."""
    blocked: Sequence[BlockedPod]
    """Pods that a drain could not evict."""
    concerned: Sequence[WorkloadForm] = field(name="workloads")
    """How many pods of each workload are in the lists above, for workloads that are concerned. A pod may be in several."""
    utilisation: UtilisationForm
    """Requests of pods as a share of the nodes' allocatable amounts, without cordoned nodes and their pods."""
    notes: Sequence[str]
    """Sentences about the simulation that a reader should know."""
    groups: Sequence[ChangedGroupForm] = []
    """Pod groups that are pending in the end, or were not placed before; with the feature gate GenericWorkload."""
    cost: CostChangeForm | None = None
    """The price of all nodes before and after; left out if some node has no price."""
