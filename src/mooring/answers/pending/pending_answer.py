"""The answer to "what is pending, why, and which one change would help most?"."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import field

from mooring.answers.explain.controller_notes import NOTE_HEADS, ControllerNote, note_rows
from mooring.answers.explain.unused_capacity import IdleCapacity, UnusedRequest, idle_table, unused_table
from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import DataTable, attribute_table, data_table
from mooring.answers.form.published import ADDED, Count, Form, Number, Positive
from mooring.api.kind_spec import human_duration
from mooring.kit.words import count, some

NAMED_CHANGES = 3
"""How many changes a table names; `-o wide` has all that were counted."""


class PendingReason(Form, frozen=True):
    """A reason for which nodes reject pending pods."""

    plugin: str
    message: str
    """Upstream's words."""
    pods: Positive
    """How many pending pods meet it."""
    owners: Positive
    """How many owners these pods have; a pod without a controller is its own."""
    nodes: Count
    """How many nodes reject at least one of the pods for this reason first."""
    examples: Sequence[str]
    """Some of the nodes, by name."""


class PendingOwner(Form, frozen=True):
    """Pods of one owner that are pending for the same reason."""

    owner: str
    """Kind, namespace and name of the controller: of the Deployment above a ReplicaSet, of the CronJob above a Job. Empty
    for pods without a controller."""
    namespace: str
    node: str
    """The node that the first of the pods would get now; empty if it gets none."""
    message: str
    """Why they have no node, in the words of the PodScheduled condition."""
    oldest: str
    """When the oldest of the pods was created; empty if the input does not say."""
    longest_s: Number | None = field(name="pendingSeconds")
    """For how long the oldest pod has been pending; null where the input does not say when it was read."""
    pods: Sequence[str]
    """namespace/name of the pods, the oldest first."""
    fitting: Annotated[Count, ADDED]
    """How many of the pods get a node now, where all pending pods are placed one after the other."""

    @property
    def shown_owner(self) -> str:
        """The owner for a table; a pod without a controller is named itself."""
        if self.owner:
            return self.owner
        return f"Pod {self.pods[0]}" if len(self.pods) == 1 else f"pods in {self.namespace} without a controller"

    @property
    def shown_time(self) -> str:
        """How long the oldest pod has been pending, or since when."""
        if self.longest_s is not None:
            return human_duration(int(self.longest_s))
        return f"since {self.oldest}" if self.oldest else "-"

    @property
    def shown_reason(self) -> str:
        """Where the pods would go now, or why they have no node."""
        if not self.node:
            return self.message
        if self.fitting == len(self.pods):
            return f"would go to {self.node} now"
        return f"{self.fitting:,} of {len(self.pods):,} would get a node now; alone, the first would go to {self.node}"


class CountedChange(Form, frozen=True):
    """A change that gives nodes to pending pods. All of them were placed by the scheduler, one after the other."""

    kind: str
    """The kind of change in one word, such as `uncordon`."""
    change: str
    """The change as a sentence."""
    owners: Sequence[str]
    """The owners whose pods are changed; none if the change is one of the cluster."""
    pods: Positive
    """How many pods that fit nowhere now get a node."""
    is_least: bool = field(name="atLeast")
    """Whether the count ended before all pods were tried."""
    cost: Number
    """How much is asked of people and of other pods, as in explanations of one pod."""

    @property
    def shown_pods(self) -> str:
        return f"{'at least ' if self.is_least else ''}{self.pods:,}"

    @property
    def where(self) -> str:
        """The owners whose pods are changed, for people."""
        return some([*self.owners], 2) if self.owners else "the cluster"


class MissingPods(Form, frozen=True):
    """A workload whose controller could not create all of its pods."""

    workload: str
    """Kind, namespace and name."""
    wanted: Count | None
    """How many pods it should have; null for a DaemonSet."""
    existing: Count
    """How many pods it has."""
    said: Sequence[ControllerNote]
    """The events and conditions of its controller, the newest first."""


class PendingForm(Form, frozen=True):
    """The pending pods of a cluster or of a namespace, by owner and by reason, and the changes that help most of them."""

    namespace: str
    """The namespace that was asked about; empty for all."""
    at: str
    """When the cluster was read; empty if the input does not say."""
    all_pods: Count
    """How many pods there are that have not finished."""
    pending: Count
    """How many of them have no node."""
    fitting: Count
    """How many pending pods get a node now, placed one after the other."""
    reasons: Sequence[PendingReason]
    """Those of most pods first."""
    groups: Sequence[PendingOwner]
    """Those of most pods first."""
    changes: Sequence[CountedChange]
    """The changes that were counted, those that help most pods first."""
    searched: Count
    """For how many pods changes were looked for; for the others it was too much work."""
    missing: Sequence[MissingPods]
    """Workloads whose controllers could not create pods."""
    unused: Sequence[UnusedRequest]
    """Workloads that request far more than they use, the largest part of the cluster first; empty without --use."""
    idle: Annotated[Sequence[IdleCapacity], ADDED]
    """CPU and memory of the whole cluster: what is requested, what is in use, and how much of the rest pods cannot get; empty
    without --use."""


@dataclass(frozen=True, repr=False)
class PendingExplanation(ClusterAnswer):
    """The pending pods, by owner and by reason."""

    kind: ClassVar[str] = "PendingExplanation"
    form: ClassVar = PendingForm
    yes_if: ClassVar = "is_settled"
    namespace: str
    at: str
    all_pods: int
    fitting: int = 0
    reasons: Sequence[PendingReason] = ()
    groups: Sequence[PendingOwner] = ()
    changes: Sequence[CountedChange] = ()
    searched: int = 0
    missing: Sequence[MissingPods] = ()
    unused: Sequence[UnusedRequest] = ()
    idle: Sequence[IdleCapacity] = ()

    @property
    def pending(self) -> int:
        """How many pods have no node."""
        return sum(len(group.pods) for group in self.groups)

    @property
    def is_settled(self) -> bool:
        """Whether every pod has a node or gets one now, and every controller created its pods."""
        return self.pending == self.fitting and not self.missing

    # ---- as text

    def summary(self) -> list[str]:
        lines = [self._headline()]
        if self.fitting:
            what = "all of them" if self.fitting == self.pending else f"{self.fitting:,} of them"
            lines.append(f"The scheduler has room for {what} now, placed one after the other")
        if self.missing:
            lack = "workload lacks" if len(self.missing) == 1 else "workloads lack"
            lines.append(f"{len(self.missing):,} {lack} pods that a controller could not create")
        best = next(iter(self.changes), None)
        if best is not None:
            more = f", in {best.where}" if best.owners else ""
            get = "pod gets" if best.pods == 1 else "pods get"
            lines.append(f"The change that helps most: {best.change}{more}. Then {best.shown_pods} more {get} a node")
        if 0 < self.searched < self.pending - self.fitting:
            lines.append(
                f"Changes were looked for on behalf of {count(self.searched, 'pod', ',')}: the largest groups of every reason"
            )
        return lines

    def _headline(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        if not self.groups:
            return f"No pod is pending{where}, of {count(self.all_pods, 'pod', ',')}"
        owners = len({owner for group in self.groups for owner in ([group.owner] if group.owner else group.pods)})
        waited = max((group.longest_s for group in self.groups if group.longest_s is not None), default=None)
        oldest = f", the oldest for {human_duration(int(waited))}" if waited is not None else ""
        verb = "is" if self.pending == 1 else "are"
        whose = f" of {owners:,} owners" if owners > 1 else ""
        return f"{self.pending:,} of {count(self.all_pods, 'pod', ',')}{where}{whose} {verb} pending{oldest}"

    def tables(self) -> list[AnswerTable]:
        why = [(f"{r.pods:,}", f"{r.owners:,}", f"{r.nodes:,}", r.plugin, r.message) for r in self.reasons]
        changes = [(c.shown_pods, f"{c.cost:.0f}", c.change, c.where) for c in self.changes]
        heads = ("pods", "cost", "change", "in")
        return [
            AnswerTable("Why", ("pods", "owners", "nodes", "plugin", "reason"), why),
            AnswerTable("Who", ("pods", "pending for", "owner", "reason"), [*map(_group_row, self.groups)]),
            AnswerTable("One change that helps", heads, changes[:NAMED_CHANGES]),
            AnswerTable("Other changes that help", heads, changes[NAMED_CHANGES:], is_detail=True),
            AnswerTable(
                "Pods that controllers could not create",
                ("workload", "wants", "has", *NOTE_HEADS),
                [
                    (each.workload, "-" if each.wanted is None else each.wanted, each.existing, *row)
                    for each in self.missing
                    for row in note_rows(each.said[:1])
                ],
            ),
            unused_table(self.unused),
            idle_table(self.idle),
            AnswerTable("Pods", ("pod", "owner"), self._pods(), is_detail=True),
        ]

    def _pods(self) -> list[tuple[object, ...]]:
        return [(pod, group.shown_owner) for group in self.groups for pod in group.pods]

    # ---- as plain data

    def data_tables(self) -> Mapping[str, DataTable]:
        pods = (
            (pod, group.owner, group.node, group.message, group.oldest) for group in self.groups for pod in group.pods
        )
        return {
            "pods": data_table({"pod": str, "owner": str, "node": str, "message": str, "group_oldest": str}, pods),
            "reasons": attribute_table(
                self.reasons, {"plugin": str, "message": str, "pods": int, "owners": int, "nodes": int}
            ),
            "changes": attribute_table(self.changes, {"kind": str, "change": str, "pods": int, "cost": float}),
            "unused": attribute_table(
                self.unused,
                {"workload": str, "pods": int, "resource": str, "requested": int, "used": int, "largest_use": int},
            ),
            "idle": attribute_table(
                self.idle,
                {
                    "resource": str,
                    **dict.fromkeys(("nodes", "allocatable", "requested", "used"), int),
                    "fragmentation": float,
                    "fragmentation_by_use": float,
                },
            ),
        }


def _group_row(group: PendingOwner) -> tuple[object, ...]:
    return f"{len(group.pods):,}", group.shown_time, group.shown_owner, group.shown_reason
