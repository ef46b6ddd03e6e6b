"""The published form of explanations: docs/schemas/explain.v1.json."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import field

from mooring.answers.explain.controller_notes import ControllerNote
from mooring.answers.explain.cure import CureForm
from mooring.answers.form.published import ADDED, Count, Form, Positive, TupleForm
from mooring.answers.trial.reasons import ReasonForm


class ScoredNode(Form, frozen=True):
    """A node that the pod could go to, with what each plugin gives it after weights."""

    name: str = field(name="node")
    total: int
    by_plugin: Mapping[str, int] = field(name="plugins")
    """The weighted score by plugin."""


class PodPlace(TupleForm, frozen=True):
    """A pod and the node that it has, or would get."""

    pod: str
    node: str


class Tipping(TupleForm, frozen=True):
    """How much more a plugin gives to one node than to another."""

    plugin: str
    difference: int


class PastEvent(TupleForm, frozen=True):
    """Something that was recorded about the pod."""

    at: str
    """The time as the API writes it; empty if it is not known."""
    text: str


class PodExplanationForm(Form, frozen=True):
    """Why a pod is where it is, or why it is nowhere."""

    pod: str
    """namespace/name"""
    node: str
    """Where the pod is, or where it would go now; empty if nowhere."""
    is_placed: bool = field(name="placed")
    """Whether the pod has its node already."""
    is_reserved: Annotated[bool, ADDED] = field(name="reserved")
    """Whether it has room on its node, but is not bound: it waits for Permit plugins."""
    would_go_to: str
    """For a pod that has a node: where it would go if it were decided now; empty if nowhere."""
    message: str
    """Why it has no node, in the words of its PodScheduled condition."""
    node_count: Count = field(name="nodes")
    """How many nodes the cluster has."""
    feasible_count: Count = field(name="feasibleNodes")
    """How many of them take the pod."""
    reasons: Sequence[ReasonForm]
    cures: Sequence[CureForm]
    """Changes that would place the pod, the smallest first."""
    gave_up: bool = field(name="curesGaveUp")
    """Whether the search for cures ended before it had tried everything."""
    tied: Annotated[Sequence[str], ADDED]
    """Other nodes with the score of the pod's node, or of the one that it would go to. kube-scheduler takes one of them at
    random."""
    scores: Sequence[ScoredNode]
    """The chosen node first, then the others from the best on."""
    tipped: Sequence[Tipping]
    """By plugin how much more the chosen node has than the best other one, the largest difference first."""
    waits_for: Sequence[str]
    history: Sequence[PastEvent]
    victims: Sequence[str]
    """Pods that preemption would evict for it."""
    others: Sequence[str]
    """Other pods that are pending for the same reason."""
    notes: Annotated[Sequence[str], ADDED]
    """Sentences about what else keeps it pending: `reasons` after its gates are removed, that it may not preempt."""


class WorkloadExplanationForm(Form, frozen=True):
    """The pods of a workload: where they are, and why those without a node have none."""

    workload: str
    """Kind and name."""
    placed: Sequence[PodPlace]
    """The pods that have nodes."""
    pending: Sequence[PodExplanationForm]
    """One explanation for each group of pods that are pending for the same reason."""
    wanted: Annotated[Count | None, ADDED]
    """How many pods it should have; null for a DaemonSet, or if the input does not have the workload."""
    said: Annotated[Sequence[ControllerNote], ADDED]
    """Where pods are missing: what its controller says, the newest first."""
    notes: Annotated[Sequence[str], ADDED]
    """A sentence about pods that are missing."""


class MemberReasonForm(Form, frozen=True):
    """Pods of a group that are rejected alike."""

    pods: Sequence[str]
    message: str
    """Why the first of them fits nowhere beside the others."""
    reasons: Sequence[ReasonForm]


class GroupExplanationForm(Form, frozen=True):
    """Why a pod group is pending, and what would place it."""

    group: str = field(name="podGroup")
    """namespace/name"""
    is_gang: bool = field(name="gang")
    """Whether its pods go together or not at all."""
    min_count: Positive
    """How many pods must fit before any of them goes."""
    member_count: Count = field(name="members")
    """How many of its pods exist."""
    is_settled: bool = field(name="settled")
    """Whether the group runs, or would go now."""
    fit_count: Count = field(name="fits")
    """How many of its pods run or have room now, beside each other."""
    placements: Positive
    """Among how many choices of nodes (racks, zones) the scheduler looked; `room` is in the best one."""
    message: str
    """Why the group is pending, in the scheduler's words."""
    waits_for: Sequence[str]
    placed: Sequence[PodPlace]
    """Pods that run."""
    nodes: Sequence[PodPlace] = field(name="room")
    """Pending pods that there is room for now, beside each other."""
    rejected: Sequence[MemberReasonForm]
    """Pods that there is no room for beside the others, by reason."""
    victims: Sequence[str]
    """Pods that preemption would evict for the group."""
    cures: Sequence[CureForm]
    """Changes that would place the group, the smallest first."""
    gave_up: bool = field(name="curesGaveUp")
    """Whether the search for cures ended before it had tried everything."""
