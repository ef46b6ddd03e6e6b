"""`mooring run --dry-run`: decides for every pod, writes nothing, logs each decision, and compares the decisions with those
of the scheduler that works on the cluster."""

import logging
from collections import Counter
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.json_objects import JsonObject
from mooring.cluster.nodes.table import NodeTable
from mooring.drivers.driver import pod_ref
from mooring.framework.contract.intents import Record
from mooring.kit.logs import Log
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.decision import Decision, Placement
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import KeptTies
from mooring.state.made_decision import showing

_lines = Log(logging.getLogger(__name__))


class _Opinion(msgspec.Struct, frozen=True):
    """The decision of this scheduler about a pod: bind it to a node, or leave it pending for a reason."""

    node_name: str = ""
    reason: str = ""


class TiedNodes(msgspec.Struct, frozen=True):
    """The nodes that shared the highest score, with the one that was chosen. A bit for each row: thousands of nodes may be
    tied for each of thousands of pods. A node that takes the row of another meanwhile counts as that one."""

    chosen: str
    bits: bytes

    def has(self, row: int) -> bool:
        return row < 8 * len(self.bits) and bool(self.bits[row >> 3] >> (7 - (row & 7)) & 1)


class DryRun:
    """Reports every decision in the log when it is made, and again where another scheduler decides otherwise."""

    def __init__(self, log: Log | None = None) -> None:
        self._log = log or _lines
        self._opinions: dict[str, _Opinion] = {}
        """By id of the pod, until another scheduler binds the pod or it is gone."""
        self.compared: Counter[str] = Counter()
        """How often another scheduler chose the `same` node, one that is `tied` with it, a `different` one, or a node for a
        pod that does not fit here (`unexpected`)."""
        self._tied: dict[str, TiedNodes] = {}
        """By id of the pod, for as long as its opinion: the nodes that had the same score as the chosen one."""
        self._nodes: NodeTable | None = None

    def watch(self, scheduler: Scheduler) -> None:
        """Note the ties of every decision of the scheduler."""
        self._nodes = scheduler.cluster.nodes
        ties = KeptTies(scheduler.core.options.tie_break)
        scheduler.decide_with(
            showing(
                lambda made: self._note_ties(made.pod, made.decision, ties.take()),
                inner=scheduler.core.deciding,
                adjust=lambda options: replace(options, tie_break=ties),
            )
        )

    def _note_ties(self, pod: Pod, decision: Decision, rows: NDArray[np.intp]) -> None:
        self._tied.pop(pod.id, None)
        if isinstance(decision, Placement) and len(rows) > 1:
            is_tied = np.zeros(int(rows.max()) + 1, np.bool_)
            is_tied[rows] = True
            self._tied[pod.id] = TiedNodes(decision.node, np.packbits(is_tied).tobytes())

    def _is_tied(self, tied: "TiedNodes | None", opinion: _Opinion, node: str) -> bool:
        row = self._nodes.row_book.get(node) if self._nodes is not None else None
        return tied is not None and row is not None and tied.chosen == opinion.node_name and tied.has(row)

    def report(self, record: Record) -> None:
        """Called with the record that ends each attempt. Statuses would not do: the scheduler leaves out a patch that changes
        nothing."""
        pod = record.pod
        match record.reason:
            case "Scheduled":
                if self._changes(pod, _Opinion(node_name=pod.spec.node_name)):
                    self._log.info("Would bind pod to node", pod=pod_ref(pod), node=pod.spec.node_name)
            case "FailedScheduling":
                if self._changes(pod, _Opinion(reason=record.note)):
                    self._log.info("Would not schedule pod", pod=pod_ref(pod), reason=record.note)
            case "Preempted":
                self._log.info("Would preempt pod", pod=pod_ref(pod), node=pod.spec.node_name, reason=record.note)

    def _changes(self, pod: Pod, opinion: _Opinion) -> bool:
        """Note the decision. Returns whether it differs from the last one: the scheduler attempts a pending pod again and
        again, mostly with the same outcome, and the log should have each outcome once."""
        before = self._opinions.get(pod.id)
        self._opinions[pod.id] = opinion
        return before != opinion

    def saw(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """Take a change, before the scheduler gets it: forget a pod that is gone, and compare one that was changed."""
        if isinstance(old, Pod) and isinstance(new, Pod):
            self._compare(new)
        elif isinstance(old, Pod):
            self._opinions.pop(old.id, None)
            self._tied.pop(old.id, None)

    def _compare(self, pod: Pod) -> None:
        """Compare a pod that another scheduler has bound with the decision that was made here."""
        if not pod.spec.node_name:
            return
        opinion, tied = self._opinions.pop(pod.id, None), self._tied.pop(pod.id, None)
        if opinion is None:
            return
        keys: JsonObject = {"pod": pod_ref(pod), "node": pod.spec.node_name}
        if opinion.node_name == pod.spec.node_name:
            self.compared["same"] += 1
            self._log.v(1, "Another scheduler bound pod to the same node", **keys)
        elif self._is_tied(tied, opinion, pod.spec.node_name):
            self.compared["tied"] += 1
            message = "Another scheduler bound pod to a tied node, which has the same score"
            self._log.v(1, message, **keys, wouldBind=opinion.node_name)
        elif opinion.node_name:
            self.compared["different"] += 1
            self._log.info("Another scheduler bound pod to a different node", **keys, wouldBind=opinion.node_name)
        else:
            self.compared["unexpected"] += 1
            message = "Another scheduler bound a pod that this scheduler would not schedule"
            self._log.info(message, **keys, reason=opinion.reason)

    def check(self) -> list[str]:
        """The invariants that do not hold, between two attempts. Pods that are gone leave nothing behind."""
        return [
            f"dry run: ties of {pod_id}, of which there is no opinion" for pod_id in self._tied.keys() - self._opinions
        ]

    def finish(self) -> None:
        """Log the comparison in numbers."""
        would_bind = sum(bool(opinion.node_name) for opinion in self._opinions.values())
        self._log.info(
            "Dry run finished",
            sameNode=self.compared["same"],
            tiedNode=self.compared["tied"],
            differentNode=self.compared["different"],
            boundThoughUnschedulableHere=self.compared["unexpected"],
            wouldBind=would_bind,
            wouldNotSchedule=len(self._opinions) - would_bind,
        )


class DrySender(msgspec.Struct, frozen=True):
    """Sends nothing and reports success, so that the scheduler goes on as if it had bound the pods."""

    is_told: bool = False
    """Whether the log has what would be written."""

    async def send(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", traceparent: str = ""
    ) -> bytes:
        """Pretend to write: log the request and return the body as the answer, without a request to the server."""
        assert method != "GET", "a dry run never looks for a bind: its binds are never in doubt"
        if self.is_told:
            _lines.v(1, "Would write object", method=method, path=path)
        return body
