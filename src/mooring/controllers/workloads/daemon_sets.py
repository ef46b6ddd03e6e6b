"""The DaemonSet controller: one pod on each node that is eligible."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_writes import DAEMON_SETS, NODE_STORE, POD_STORE, WARNING
from mooring.controllers.control_loop import backoff
from mooring.controllers.nodes.pod_statuses import available_at_ns, is_finished, is_ready, is_terminating, phase_of
from mooring.controllers.workloads.workload_control import (
    BURST,
    PodWorkloads,
    Revisions,
    WorkloadIndexes,
    name_of,
    revision_label,
    selector_of,
)
from mooring.kit.clock import NS_PER_S
from mooring.model.node import COMPARISON_GATE, Taint
from mooring.rules.evictions import share_of
from mooring.rules.workload_pods import REVISION_LABEL, DaemonNodes, NodeVerdict, meant_for, node_of

_FIRST_DELAY_NS, _LAST_DELAY_NS = NS_PER_S, 15 * 60 * NS_PER_S
"""How long a failed pod of a node is left before it is replaced: upstream's backoff of failed daemon pods."""


@dataclass(slots=True)
class Eligibility:
    """The verdicts for one pod template, kept for as long as a node has the same labels and spec: 5,000 nodes change
    rarely."""

    template: JsonObject
    compares: bool
    """The gate of the operators Lt and Gt in tolerations."""
    _rule: DaemonNodes = field(init=False)
    _verdicts: dict[str, tuple[Any, Any, NodeVerdict]] = field(default_factory=dict)
    """By name of the node, with the labels and the spec that they were given for."""

    def __post_init__(self) -> None:
        self._rule = DaemonNodes(self.template["spec"], self.compares)

    def of(self, node: JsonObject) -> NodeVerdict:
        """The verdict on a node."""
        name, labels, spec = node["metadata"]["name"], node["metadata"].get("labels", {}), node.get("spec", {})
        held = self._verdicts.get(name)
        if held is not None and held[0] == labels and held[1] == spec:
            return held[2]
        verdict = self._rule.verdict(name, labels, msgspec.convert(spec.get("taints", []), list[Taint]))
        self._verdicts[name] = labels, spec, verdict
        return verdict

    def forget(self, known: set[str]) -> None:
        """Drop verdicts on nodes that are gone."""
        for name in self._verdicts.keys() - known:
            del self._verdicts[name]


# ---- The controller


@dataclass(slots=True)
class DaemonSetSync:
    """A DaemonSet during one sync: its pods by node, and the nodes that should have one."""

    daemon_set: JsonObject
    digest: str
    """The hash of the present template."""
    wanted: list[str]
    """Nodes that should have a pod."""
    pods: dict[str, list[JsonObject]]
    """By node, also by nodes that are gone."""
    surplus: list[JsonObject] = field(default_factory=list)
    """Pods to delete."""
    again_ns: list[int] = field(default_factory=list)
    """Times at which the set has to be synced again."""


class DaemonSets(PodWorkloads):
    """Keys are DaemonSets. A sync takes time in proportion to the number of nodes, so a set rests between two."""

    name = "daemonset"
    resource = DAEMON_SETS
    rest_ns = NS_PER_S // 4
    """While nodes are added one by one, each of them concerns every DaemonSet."""

    def __init__(self, api: ResourceApi, indexes: WorkloadIndexes) -> None:
        super().__init__(api, indexes)
        self.storages = (DAEMON_SETS.storage, POD_STORE, NODE_STORE)
        self._revisions = Revisions(api, DAEMON_SETS, indexes.revisions)
        self._eligibility: dict[Key, Eligibility] = {}
        self._retries = Retries(_FIRST_DELAY_NS, _LAST_DELAY_NS)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """The owner of a pod; all DaemonSets for a node that changed."""
        if write.storage != NODE_STORE:
            return super().concerned(write)
        return map(key_of, self._api.store.all(DAEMON_SETS.storage)) if _matters(write) else ()

    def sync(self, key: Key) -> int | None:
        """Adopt, survey, place, update, report. After changes the survey is repeated, so that the status counts them."""
        daemon_set = self._api.find(DAEMON_SETS, *key)
        if daemon_set is None:
            self._eligibility.pop(key, None)
            return None
        # An empty selector would adopt every pod of the namespace; upstream refuses such sets as well.
        if selector_of(daemon_set).is_empty or not self.claim_pods(daemon_set):
            return None
        revision = self._revisions.settle(daemon_set)
        sync = self._survey(key, daemon_set, revision_label(revision))
        if not is_terminating(daemon_set) and (self._place(sync) or self._update(sync)):
            sync = self._survey(key, daemon_set, revision_label(revision))
        self._report(sync)
        live = {f"{key[1]}-{digest}" for digest in self._digests(daemon_set)}
        self._revisions.trim(daemon_set, live | {name_of(revision)})
        return self.next_ns(sync.again_ns)

    # ---- who is where

    def _survey(self, key: Key, daemon_set: JsonObject, digest: str) -> DaemonSetSync:
        """Sort pods and nodes. Notes pods that should not be where they are, and failed ones that may be replaced now."""
        pods: dict[str, list[JsonObject]] = {}
        for pod in self.pods_of(daemon_set).pods.values():
            pods.setdefault(node_of(pod), []).append(pod)
        sync = DaemonSetSync(daemon_set, digest, [], pods)
        eligibility = self._eligibility_of(key, daemon_set)
        known: set[str] = set()
        for node in self._api.store.all(NODE_STORE):
            name = node["metadata"]["name"]
            known.add(name)
            verdict = eligibility.of(node)
            if verdict.runs:
                sync.wanted.append(name)
            if name in pods:
                self._sort_out(sync, pods[name], verdict.stays)
        eligibility.forget(known)
        stranded = [pod for name, held in pods.items() if name not in known for pod in held]
        sync.surplus += [pod for pod in stranded if not pod["spec"].get("nodeName") and not is_terminating(pod)]
        return sync

    def _eligibility_of(self, key: Key, daemon_set: JsonObject) -> Eligibility:
        """The verdicts for the present template: a new template makes them void."""
        held = self._eligibility.get(key)
        if held is None or held.template != daemon_set["spec"]["template"]:
            held = self._eligibility[key] = Eligibility(
                daemon_set["spec"]["template"], self._api.is_on(COMPARISON_GATE)
            )
        return held

    def _sort_out(self, sync: DaemonSetSync, pods: list[JsonObject], stays: bool) -> None:
        """Keep the oldest pod of a node; note all others, and finished ones, as surplus."""
        if stays and len(pods) == 1 and not is_finished(pods[0]):
            return
        staying = [pod for pod in pods if not is_terminating(pod)]
        if not stays:
            sync.surplus += staying
            return
        running = [pod for pod in staying if not is_finished(pod)]
        sync.surplus += [pod for pod in staying if is_finished(pod) and self._may_replace(sync, pod)]
        if len(running) > 1:
            running.sort(key=lambda pod: (not pod["spec"].get("nodeName"), pod["metadata"]["creationTimestamp"]))
            sync.surplus += running[1:]

    def _may_replace(self, sync: DaemonSetSync, pod: JsonObject) -> bool:
        """Whether a finished pod may be replaced now: failed ones only after a backoff."""
        if phase_of(pod) != "Failed":
            return True
        mark = f"{sync.daemon_set['metadata']['uid']}/{node_of(pod)}"
        at_ns = self._retries.due_ns(mark, pod["metadata"]["uid"], self._api.clock.now_ns())
        sync.again_ns.append(at_ns)
        return at_ns <= self._api.clock.now_ns()

    # ---- making and deleting

    def _place(self, sync: DaemonSetSync) -> bool:
        """Create missing pods and delete surplus ones. Returns whether there were any: then updates wait for the next
        sync."""
        missing = [name for name in sync.wanted if name not in sync.pods][:BURST]
        template = self.pod_of(sync.daemon_set)
        self.create_many(sync.daemon_set, [meant_for(template, name, sync.digest) for name in missing])
        for pod in sync.surplus:
            if is_finished(pod):
                self._record_finished(sync.daemon_set, pod)
        self.delete_many(sync.daemon_set, sync.surplus[:BURST])
        return bool(missing or sync.surplus)

    def _record_finished(self, daemon_set: JsonObject, pod: JsonObject) -> None:
        """Events about daemon pods that finished, which they should not. Texts are upstream's."""
        name, node = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", node_of(pod)
        if phase_of(pod) == "Failed":
            message = f"Found failed daemon pod {name} on node {node}, will try to kill it"
            self.record(daemon_set, "FailedDaemonPod", message, WARNING)
        else:
            message = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
            self.record(daemon_set, "SucceededDaemonPod", message)

    def _update(self, sync: DaemonSetSync) -> bool:
        """Replace pods of old templates, up to maxUnavailable at once; pods that do not work are replaced in any case.

        Returns whether there were any.
        """
        strategy = sync.daemon_set["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate" or self._digests(sync.daemon_set) <= {sync.digest}:
            return False
        # maxUnavailable, but at least 1: otherwise an update could never begin.
        allowed = max(1, share_of(len(sync.wanted), strategy["rollingUpdate"].get("maxUnavailable"), rounds_up=True))
        broken: list[JsonObject] = []
        working: list[JsonObject] = []
        unavailable = 0
        for name in sync.wanted:
            staying = [pod for pod in sync.pods.get(name, ()) if not is_terminating(pod) and not is_finished(pod)]
            old = [pod for pod in staying if revision_label(pod) != sync.digest]
            if len(staying) == 1 and old:
                (working if self._is_available(sync, old[0]) else broken).append(old[0])
            else:
                unavailable += len(staying) != 1 or not self._is_available(sync, staying[0])
        outdated = [*broken, *working[: max(0, allowed - unavailable)]]
        self.delete_many(sync.daemon_set, outdated)
        return bool(outdated)

    def _is_available(self, sync: DaemonSetSync, pod: JsonObject) -> bool:
        """Whether the pod has been ready for minReadySeconds; otherwise notes when it will be."""
        if is_terminating(pod):
            return False
        at_ns = available_at_ns(pod, sync.daemon_set["spec"].get("minReadySeconds", 0))
        if at_ns is None:
            return False
        if at_ns:
            sync.again_ns.append(at_ns)
        return at_ns <= self._api.clock.now_ns()

    # ---- status

    def _report(self, sync: DaemonSetSync) -> None:
        """Write the status if it differs."""
        wanted = set(sync.wanted)
        held = {name: _oldest(pods) for name, pods in sync.pods.items()}
        placed = [pod for name, pod in held.items() if name in wanted]
        available = sum(self._is_available(sync, pod) for pod in placed)
        misplaced = [name for name, pod in held.items() if name not in wanted and phase_of(pod) == "Running"]
        updated = sum(revision_label(pod) == sync.digest and not is_terminating(pod) for pod in placed)
        status: JsonObject = {
            "currentNumberScheduled": len(placed),
            "numberMisscheduled": len(misplaced),
            "desiredNumberScheduled": len(wanted),
            "numberReady": sum(is_ready(pod) for pod in placed),
            "observedGeneration": sync.daemon_set["metadata"]["generation"],
        }
        counts = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
        }
        status |= {key: number for key, number in counts.items() if number}
        self.report(sync.daemon_set, status)

    def _digests(self, daemon_set: JsonObject) -> set[str]:
        """The hashes of the templates that its pods are made from."""
        return {dict(labels).get(REVISION_LABEL, "") for labels, _ in self.pods_of(daemon_set).tally}


def _oldest(pods: list[JsonObject]) -> JsonObject:
    """The pod that represents a node in the status."""
    if len(pods) == 1:
        return pods[0]
    return min(pods, key=lambda pod: (is_terminating(pod), pod["metadata"]["creationTimestamp"]))


def _matters(write: StoreWrite) -> bool:
    """Whether a node is new, gone, or differs in what decides where daemons run. Heartbeats do not."""
    if write.type != "MODIFIED" or write.before is None:
        return True
    before, after = write.before, write.object
    if before.get("spec") != after.get("spec"):
        return True
    return bool(before["metadata"].get("labels") != after["metadata"].get("labels"))


# ---- Backoff: pauses that double with each failure in a row.


class Retries:
    """The times from which on a failed pod may be replaced, by mark."""

    def __init__(self, first_ns: int, last_ns: int) -> None:
        self._first_ns = first_ns
        self._last_ns = last_ns
        self._rows: dict[str, tuple[str, int, int]] = {}
        """By mark: the last failure that was counted, how many there were, and when to try again."""

    def due_ns(self, mark: str, failure: str, now_ns: int) -> int:
        """When to try again after this failure; the first one at once. To ask again about the same failure changes
        nothing. After twice the longest pause without a failure the count starts over."""
        last, count, due_ns = self._rows.get(mark, ("", 0, now_ns))
        if last == failure:
            return due_ns
        count = 0 if now_ns - due_ns > 2 * self._last_ns else count
        due_ns = now_ns + backoff(self._first_ns, self._last_ns, count)
        self._rows[mark] = failure, count + 1, due_ns
        return due_ns
