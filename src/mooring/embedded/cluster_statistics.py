"""What a running cluster looks like at a glance: pods by state, how many are created and bound a second, how full nodes
are."""

from collections import Counter, deque
from dataclasses import dataclass

import numpy as np

from mooring.api.json_objects import JsonObject
from mooring.apiserver.store import StoreWrite
from mooring.embedded.cluster import EmbeddedCluster
from mooring.kit.clock import NS_PER_S
from mooring.rules.conditions import condition_of

WINDOW_NS = 3 * NS_PER_S
"""Over how long rates are averaged: short enough to follow a change, long enough not to flicker."""
_RECENT = 5
"""How many events and pending pods the view has room for."""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Shares of what is allocatable, between 0 and 1 (or above, where pods were forced onto a node)."""

    name: str
    cpu: float
    memory: float
    pods: int


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """One frame of the view of `mooring up`."""

    pods: dict[str, int]
    """How many pods are Pending, Running, Succeeded, Failed, Terminating."""
    created_per_s: float
    bound_per_s: float
    nodes: list[NodeUsage]
    pending: list[tuple[str, str]]
    """Pods that found no node, with the reason: the latest ones."""
    events: list[str]


class ClusterStatistics:
    """Counts with every write, so that a frame costs the same however large the cluster is."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._states: Counter[str] = Counter()
        self._refused: dict[tuple[str, str], str] = {}
        self._events: deque[str] = deque(maxlen=_RECENT)
        self._marks: deque[tuple[int, int, int]] = deque()
        self._created = self._bound = 0
        for pod in cluster.api.store.all("/pods"):
            self._count(pod, 1)
        cluster.api.store.listen(self._hear_pod, ("/pods",))
        cluster.api.store.listen(self._hear_event, ("events",))

    def summary(self) -> ClusterSummary:
        """The present figures."""
        created, bound = self._pace()
        latest = [("/".join(key), text) for key, text in reversed(self._refused.items())][:_RECENT]
        return ClusterSummary(dict(self._states), created, bound, self._loads(), latest, list(self._events))

    def _hear_event(self, write: StoreWrite) -> None:
        """Keep the latest events."""
        if write.type == "ADDED":
            event, about = write.object, write.object.get("involvedObject", {})
            self._events.append(f"{event.get('reason', '')}  {about.get('name', '')}  {event.get('message', '')}")

    def _hear_pod(self, write: StoreWrite) -> None:
        """Count a pod's change of state, and remember why it has no node."""
        before, after = write.before, write.object
        if before is not None:
            self._count(before, -1)
        else:
            self._created += 1
        if write.type != "DELETED":
            self._count(after, 1)
        if before is not None and not before["spec"].get("nodeName") and after["spec"].get("nodeName"):
            self._bound += 1
        reason = "" if write.type == "DELETED" else _refusal(after)
        if reason:
            self._refused[write.key] = reason
        else:
            self._refused.pop(write.key, None)

    def _count(self, pod: JsonObject, change: int) -> None:
        """A pod in its state counts once more, or once less."""
        state = "Terminating" if pod["metadata"].get("deletionTimestamp") else pod.get("status", {}).get("phase", "")
        self._states[state] += change

    def _pace(self) -> tuple[float, float]:
        """Pods a second, created and bound, over the last few seconds."""
        now_ns = self._cluster.api.clock.now_ns()
        self._marks.append((now_ns, self._created, self._bound))
        while len(self._marks) > 2 and self._marks[1][0] <= now_ns - WINDOW_NS:
            self._marks.popleft()
        then_ns, created, bound = self._marks[0]
        if now_ns == then_ns:
            return 0.0, 0.0
        passed_s = (now_ns - then_ns) / NS_PER_S
        return (self._created - created) / passed_s, (self._bound - bound) / passed_s

    def _loads(self) -> list[NodeUsage]:
        """The usage of all nodes, by name, from the columns of the scheduler's table."""
        table = self._cluster.scheduler.cluster.nodes
        rows = np.flatnonzero(table.alive)
        cpu, memory = table.amounts.resource("cpu"), table.amounts.resource("memory")
        room = np.maximum(table.amounts.allocatable[:, rows], 1)
        shares = table.amounts.requested[:, rows] / room
        return sorted(
            (
                NodeUsage(table.names[row], float(shares[cpu, i]), float(shares[memory, i]), int(table.pod_count[row]))
                for i, row in enumerate(rows.tolist())
            ),
            key=lambda load: load.name,
        )


def _refusal(pod: JsonObject) -> str:
    """Why a pod has no node; empty if it has one, or if no scheduler has said why."""
    if pod["spec"].get("nodeName"):
        return ""
    condition = condition_of(pod, "PodScheduled")
    if condition is None or condition.get("status") != "False":
        return ""
    return condition.get("message") or condition.get("reason") or ""
