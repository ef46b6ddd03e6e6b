"""The published form of simulations: docs/schemas/simulate.v1.json.

Amounts are whole numbers: cpu in milli-CPU, memory in bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from mooring.answers.form.published import Count, Form, Number, Positive
from mooring.answers.form.utilisation import NamedUseForm, UseForm
from mooring.kit.clock import NS_PER_S
from mooring.model.quantity import show_percent
from mooring.scheduler.decision import DecisionError, NoFit, Placement
from mooring.sim.day import Waits
from mooring.sim.results import Explanation, Fate, GroupState, NodeUse, PodResult, SimulatedEviction, Story


class SummaryForm(Form, frozen=True):
    """Counts of pods by outcome."""

    pods: Count
    """Pods that were pending at first, and pods that ran before, were preempted and came back."""
    placed: Count
    """Those of them that have a node in the end."""
    pending: Count
    """Those that have none, without pods that were preempted and have no controller: they are gone."""
    preempted: Count
    """Entries of `preempted`: also pods that ran before."""
    groups: Count | UnsetType = UNSET
    """Pod groups, with the feature gate GenericWorkload."""
    groups_placed: Count | UnsetType = UNSET
    groups_pending: Count | UnsetType = UNSET


class SimulatedUseForm(Form, frozen=True):
    """The use of the cluster and of its parts."""

    total: UseForm
    zones: Sequence[NamedUseForm]
    """By the label topology.kubernetes.io/zone."""
    pools: Sequence[NamedUseForm]
    """By the label of the node pool, or else by instance type."""
    fullest_nodes: Sequence[NamedUseForm]
    """The nodes with the largest requested share of cpu or memory, the fullest first."""


class PodLimitForm(Form, frozen=True):
    """A reason why nodes rejected pods that are pending."""

    plugin: str
    message: str
    """The reason in the words of kube-scheduler."""
    times: Positive = field(name="pods")
    """Pending pods for which some node was rejected for this reason."""
    nodes: Positive
    """The most nodes that were rejected for it in one attempt."""


class AttemptLimitForm(PodLimitForm, frozen=True):
    """A reason why nodes rejected pods in attempts that found no node."""

    times: Positive = field(name="attempts")
    """Attempts in which some node was rejected for this reason."""


class BestNodeForm(Form, frozen=True):
    """A node with the score of a pod there."""

    node: str
    score: int


class PodResultForm(Form, frozen=True):
    """A pod that was pending."""

    namespace: str
    name: str
    result: Fate
    attempts: Count
    node: str | UnsetType = UNSET
    """If it is scheduled."""
    feasible_nodes: Count | UnsetType = UNSET
    best: Sequence[BestNodeForm] | UnsetType = UNSET
    """The best nodes with their scores, if more than one was feasible."""
    message: str | UnsetType = UNSET
    """Why it has no node."""
    nominated_node: str = ""
    replaces: str = ""
    """namespace/name of the preempted pod that its controller created this one for."""


_FATES = {
    "if": {"properties": {"result": {"const": Fate.SCHEDULED.value}}},
    "then": {"required": ["node", "feasibleNodes", "best"]},
    "else": {"required": ["message"]},
}
"""The result of a pod decides which other fields a schema requires."""


class NodeUseForm(Form, frozen=True):
    """A node in the end."""

    name: str
    pods: Count
    new_pods: Count
    """Those of them that the simulation placed."""
    allowed_pods: Count
    requested: Mapping[str, int]
    allocatable: Mapping[str, int]


class EvictionForm(Form, frozen=True):
    """A pod that was preempted."""

    namespace: str
    name: str
    node: str
    preemptor: str = field(name="for")
    """namespace/name of the preemptor."""
    replaced_by: str = ""
    """namespace/name of the pod that its controller created instead."""


class GroupStateForm(Form, frozen=True):
    """A pod group: it is placed or pending as one."""

    pod_group: str
    """namespace/name"""
    result: Literal["placed", "pending"]
    min_count: int | None
    """How many pods must fit before any of them goes; null if they need not go together."""
    members: Count
    on_nodes: Count
    waited_seconds: Number | None
    """From the beginning until enough pods were bound; null if they are not, or ran before."""
    message: str
    """Why the group is pending."""


class RejectionForm(Form, frozen=True):
    """Why a node does not take a pod."""

    plugin: str
    code: str
    reasons: Sequence[str]


class ExplainedPodForm(Form, frozen=True):
    """The last decision about a pod, node by node."""

    pod: str
    """namespace/name"""
    result: Fate
    now_on: str = ""
    """The node of a pod that was running already."""
    node: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    preemption: str = ""
    victims: Sequence[str] = []
    scores: Mapping[str, Mapping[str, int]] | UnsetType = UNSET
    """Node -> plugin -> score after weights."""
    totals: Mapping[str, int] | UnsetType = UNSET
    feasible: Sequence[str] | UnsetType = UNSET
    rejected: Mapping[str, RejectionForm] | UnsetType = UNSET
    answer: dict[str, Any] | UnsetType = UNSET
    """For a pod that has no node in the end: what `mooring explain` says (explain.v1.json); for a member of a pod group,
    about the group."""


class StoryMomentForm(Form, frozen=True):
    """A moment of a story. Moments of an attempt have attempt and cycle."""

    at: Number
    """Seconds since the beginning."""
    text: str
    attempt: int | UnsetType = UNSET
    cycle: int | UnsetType = UNSET


class SimulationForm(Form, frozen=True):
    """All pending pods at one moment: without --arrivals and --generate."""

    summary: SummaryForm
    utilisation: SimulatedUseForm
    """Requests of the pods at the end as a share of the nodes' allocatable amounts, without cordoned nodes and their pods."""
    limits: Sequence[PodLimitForm]
    """Why nodes rejected the pods that are pending, in their last attempts; the most frequent reason first."""
    pods: Sequence[Annotated[PodResultForm, Meta(extra_json_schema=_FATES)]]
    """The pods that were pending, in the order of their first attempts."""
    nodes: Sequence[NodeUseForm]
    preempted: Sequence[EvictionForm]
    simulated_seconds: Number
    """How long it took until nothing changed any more."""
    notes: Sequence[str]
    """Sentences about the input and the simulation that a reader should know."""
    groups: Sequence[GroupStateForm] = []
    """Pod groups by name, with the feature gate GenericWorkload: each is placed or pending as one."""
    explanations: Sequence[ExplainedPodForm] = []
    """For each --explain, in their order."""
    explanation: ExplainedPodForm | UnsetType = UNSET
    """The first of `explanations`."""
    story: Sequence[StoryMomentForm] | UnsetType = UNSET


# ---- a day


class WaitsForm(Form, frozen=True):
    """Times from arrival to binding of one priority; null if no pod of the priority was bound."""

    priority: int
    placed: Count
    p50: Number | None
    p90: Number | None
    p99: Number | None
    max: Number | None
    pending: Count
    preempted: Count


class MeanUseForm(Form, frozen=True):
    """A zone, a pool or a node, over the time of a simulation."""

    name: str
    nodes: Positive
    placed: Count
    """How often pods were bound to its nodes."""
    shares: Mapping[str, Number | None] = field(name="meanUtilisation")
    """The shares of cpu and memory, averaged over time; null where there is nothing of it."""

    def told_share(self, resource: str) -> str:
        return show_percent(self.shares.get(resource))


class SpanForm(Form, frozen=True):
    """A span of time with its means."""

    from_s: Number = field(name="from")
    used: Mapping[str, Number] = field(name="utilisation")
    pending: Number


class PlacedOnForm(Form, frozen=True):
    """A node with the number of pods that were bound to it."""

    name: str
    placed: Count


class GroupWaitForm(Form, frozen=True):
    """A pod group of a day."""

    key: str = field(name="podGroup")
    """namespace/name"""
    members: Count
    """Pods that arrived."""
    waited_s: Number | None = field(name="waitedSeconds")
    """From the arrival of the last pod that it needs until so many were bound; null if they were not."""


class DayForm(Form, frozen=True):
    """Pods that arrive over time: with --arrivals or --generate."""

    simulated_seconds: Number
    took_seconds: Number
    """How long the simulation took on the machine's clock."""
    planned: Count
    """Pods that were to arrive."""
    arrived: Count
    placed: Count
    """Pods that were bound and not preempted later."""
    finished: Count
    pending: Count
    """Pods without a node in the end."""
    attempts: Count
    failed_attempts: Count
    """Attempts that found no node."""
    rescued: Count
    """Pods that were placed only by the flush after five minutes."""
    waits: Sequence[WaitsForm]
    """Times from arrival to binding by priority, the highest first; null if no pod of the priority was bound."""
    mean_utilisation: Mapping[str, Number]
    """By resource: the requested share of what is allocatable, averaged over time."""
    zones: Sequence[MeanUseForm]
    pools: Sequence[MeanUseForm]
    fullest_nodes: Sequence[MeanUseForm]
    """The nodes with the largest mean share of cpu or memory, the fullest first."""
    limits: Sequence[AttemptLimitForm]
    """Why nodes rejected pods in all attempts that found no node; the most frequent reason first."""
    spans: Sequence[SpanForm]
    """The time in spans of the same length, with means; empty if no time passed."""
    nodes: Sequence[PlacedOnForm]
    placements: Mapping[str, str]
    """namespace/name of a pod -> the node that it was bound to; empty with --generate."""
    preempted: Sequence[EvictionForm]
    notes: Sequence[str]
    """Sentences about the input and the simulation that a reader should know."""
    parts: Mapping[str, Number]
    """Seconds of the machine's clock that each part of the work took."""
    peak_memory_bytes: int | None
    groups: Sequence[GroupWaitForm] = []
    """Pod groups by name, with the feature gate GenericWorkload."""
    story: Sequence[StoryMomentForm] | UnsetType = UNSET


# ---- from results to forms


def pod_form(result: PodResult) -> PodResultForm:
    """One entry of `pods`."""
    is_placed = result.fate is Fate.SCHEDULED
    return PodResultForm(
        result.pod.namespace,
        result.pod.name,
        result.fate,
        result.attempts,
        result.node if is_placed else UNSET,
        result.feasible_count if is_placed else UNSET,
        [BestNodeForm(node, score) for node, score in result.best] if is_placed else UNSET,
        UNSET if is_placed else result.message,
        result.nominated,
        result.replaces,
    )


def node_form(node: NodeUse) -> NodeUseForm:
    """One entry of `nodes`."""
    requested = {name: used for name, (used, _) in node.amounts.items()}
    allocatable = {name: room for name, (_, room) in node.amounts.items()}
    return NodeUseForm(node.name, node.pods, node.new_pods, node.allowed_pods, requested, allocatable)


def eviction_forms(evictions: Iterable[SimulatedEviction]) -> list[EvictionForm]:
    """The entries of `preempted`."""
    return [EvictionForm(e.pod.namespace, e.pod.name, e.node, e.preemptor, e.replaced_by) for e in evictions]


def group_form(group: GroupState) -> GroupStateForm:
    """One entry of `groups`."""
    result: Literal["placed", "pending"] = "placed" if group.is_placed else "pending"
    counts = (group.min_count, len(group.nodes), group.placed_count)
    return GroupStateForm(group.key, result, *counts, group.waited_s, group.message)


QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
"""The quantiles of waiting times, by the names of their fields."""


def waits_form(waits: Waits) -> WaitsForm:
    """One entry of `waits`."""
    p50, p90, p99, most = (waits.quantile_s(share) for share in QUANTILES.values())
    return WaitsForm(waits.priority, waits.placed, p50, p90, p99, most, waits.pending, waits.preempted)


def story_forms(story: Story | None) -> list[StoryMomentForm] | UnsetType:
    """The moments of a story, if it was asked for."""
    if story is None:
        return UNSET
    return [
        StoryMomentForm(e.at_ns / NS_PER_S, e.text, *((e.attempt, e.cycle) if e.attempt else ())) for e in story.moments
    ]


def explained_form(explanation: Explanation, answer: dict[str, Any] | UnsetType = UNSET) -> ExplainedPodForm:
    """One entry of `explanations`; `answer` is what `mooring explain` says about the pod."""
    decision = explanation.decision
    message = UNSET if explanation.fate is Fate.SCHEDULED else why_not_placed(explanation)
    details = decision.details if isinstance(decision, Placement | NoFit) else None
    shown: dict[str, Any] = {}
    if details is not None:
        rejected = {node: RejectionForm(r.plugin, r.code.name, r.reasons) for node, r in details.rejected.items()}
        shown = {"scores": details.scores, "totals": details.totals, "feasible": details.feasible, "rejected": rejected}
    return ExplainedPodForm(
        explanation.pod.key,
        explanation.fate,
        explanation.now_on,
        decision.node if isinstance(decision, Placement) else UNSET,
        decision.message if isinstance(decision, NoFit) else message,
        explanation.preemption,
        explanation.victims,
        answer=answer,
        **shown,
    )


def why_not_placed(explanation: Explanation) -> str:
    """Why a pod has no node, in a sentence."""
    decision = explanation.decision
    return decision.error if isinstance(decision, DecisionError) else explanation.message
