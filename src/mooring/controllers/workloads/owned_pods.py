"""The pods of each controller, counted as they change: a controller of 20,000 pods need not look at each of them. And
the order in which surplus pods are deleted."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from mooring.api.json_objects import JsonObject
from mooring.apiserver.store import Key, Store, StoreWrite
from mooring.controllers.index import owner_uid
from mooring.controllers.nodes.pod_statuses import ACTIVE, State, is_ready, phase_of, ready_since, restarts_of, state_of
from mooring.kit.clock import moment_ns
from mooring.model.selectors import Selector, parse_int64

Labels = frozenset[tuple[str, str]]
Group = tuple[Labels, State]
"""Pods that share labels and state."""


class OwnedPods:
    """The pods that one controller owns.

    `tally` says how many of them share labels and state. Pods of one template have the same labels, so there are few
    groups however many pods there are.
    """

    __slots__ = ("_approved", "_approved_by", "_groups", "_labels", "_states", "pods", "tally")

    def __init__(self) -> None:
        self.pods: dict[Key, JsonObject] = {}
        self.tally: dict[Group, int] = {}
        """Group -> number of pods."""
        self._groups: dict[Key, Group] = {}
        """By pod: the group that it is counted in."""
        self._labels: dict[Labels, Labels] = {}
        """Each set of labels once: 20,000 equal ones take room."""
        self._states: Counter[State] = Counter()
        """State -> number of pods, summed over all labels."""
        self._approved: set[Labels] = set()
        """Labels that the selector `_approved_by` matches."""
        self._approved_by: Selector | None = None

    def count(self, *states: State) -> int:
        return sum(self._states[state] for state in states)

    def active(self) -> list[JsonObject]:
        """The pods that count as replicas."""
        return [pod for key, pod in self.pods.items() if self._groups[key][1] in ACTIVE]

    def strange_labels(self, selector: Selector) -> set[Labels]:
        """Labels of pods that the selector does not match. Each set of labels is matched once for each selector."""
        if self._approved_by != selector:
            self._approved_by, self._approved = selector, set()
        unseen = {labels for labels, _ in self.tally if labels not in self._approved}
        strange = {labels for labels in unseen if not selector.matches(dict(labels))}
        self._approved |= unseen - strange
        return strange

    def put(self, key: Key, pod: JsonObject) -> None:
        """Count a pod, or count it anew after a change."""
        labels = self._labels_of(key, pod)
        group = (labels, state_of(pod))
        held = self._groups.get(key)
        self.pods[key] = pod
        if held == group:
            return
        if held is not None:
            self._uncount(held)
        self._groups[key] = group
        self.tally[group] = self.tally.get(group, 0) + 1
        self._states[group[1]] += 1

    def drop(self, key: Key) -> None:
        del self.pods[key]
        self._uncount(self._groups.pop(key))

    def check(self) -> list[str]:
        """Counts that do not agree with the pods, for tests."""
        counted: dict[Group, int] = {}
        for pod in self.pods.values():
            group = (frozenset(pod["metadata"].get("labels", {}).items()), state_of(pod))
            counted[group] = counted.get(group, 0) + 1
        states = Counter(state_of(pod) for pod in self.pods.values())
        faults = [] if counted == self.tally else [f"the tally is {self.tally}, the pods are {counted}"]
        return faults if +self._states == states else [*faults, f"the states are {self._states}, not {states}"]

    def _labels_of(self, key: Key, pod: JsonObject) -> Labels:
        """Labels of a pod as a set. Pods with the same labels share one set."""
        # Hot: a new status leaves the labels what they were, the very same dict, and building a set takes 0.4 µs.
        labels = pod["metadata"].get("labels")
        before = self.pods.get(key)
        if before is not None and before["metadata"].get("labels") is labels:
            return self._groups[key][0]
        found = frozenset((labels or {}).items())
        return self._labels.setdefault(found, found)

    def _uncount(self, group: Group) -> None:
        self._states[group[1]] -= 1
        left = self.tally[group] - 1
        if left:
            self.tally[group] = left
        else:
            del self.tally[group]


NO_PODS = OwnedPods()
"""Shared value for a controller without pods. Nothing may change it."""


class OwnedPodIndex:
    """The pods of all controllers of a cluster, by the uid of the controller. One index serves every controller of
    pods."""

    def __init__(self, store: Store) -> None:
        self._owned_pods: dict[str, OwnedPods] = {}
        for write in store.additions("/pods"):
            self._observe(write)
        store.listen(self._observe)

    def of(self, uid: str) -> OwnedPods:
        return self._owned_pods.get(uid, NO_PODS)

    def _observe(self, write: StoreWrite) -> None:
        """Move a pod to its present controller; entries of controllers without pods are dropped."""
        if write.storage != "/pods":
            return
        before = owner_uid(write.before) if write.before is not None else ""
        after = "" if write.type == "DELETED" else owner_uid(write.object)
        if before and before != after:
            owned = self._owned_pods[before]
            owned.drop(write.key)
            if not owned.pods:
                del self._owned_pods[before]
        if after:
            owned = self._owned_pods.get(after) or self._owned_pods.setdefault(after, OwnedPods())
            owned.put(write.key, write.object)


# ---- Deletion order: which pods go first when there are too many. Upstream's ActivePodsWithRanks.


# The annotation by which users make pods cheaper or dearer to delete.
_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def first_to_go(pods: Sequence[JsonObject], number: int, now_ns: int) -> list[JsonObject]:
    """The `number` pods that are to be deleted, in that order.

    Unassigned before assigned, pending before running, unready before ready, cheap before dear, crowded nodes before
    others, briefly ready before long ready, often restarted before others, new before old.
    """
    neighbours = Counter(pod["spec"].get("nodeName", "") for pod in pods)
    return sorted(pods, key=_order(neighbours, now_ns))[:number]


def _order(neighbours: Counter[str], now_ns: int) -> Callable[[JsonObject], tuple[Any, ...]]:
    """The sort key: what sorts first is deleted first."""

    def order(pod: JsonObject) -> tuple[Any, ...]:
        node, since = pod["spec"].get("nodeName", ""), ready_since(pod)
        return (
            bool(node),
            _PHASES.get(phase_of(pod), 2),
            is_ready(pod),
            _cost(pod),
            -neighbours[node],
            _age_rank(since, now_ns) if since else -1,
            -restarts_of(pod),
            _age_rank(pod["metadata"]["creationTimestamp"], now_ns),
            pod["metadata"]["uid"],
        )

    return order


def _cost(pod: JsonObject) -> int:
    return parse_int64(pod["metadata"].get("annotations", {}).get(_COST)) or 0


def _age_rank(since: str, now_ns: int) -> int:
    """Parity: ages are compared by their binary logarithm, so that not always the very newest pod is hit."""
    return max(now_ns - moment_ns(since), 0).bit_length()
