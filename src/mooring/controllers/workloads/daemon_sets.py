"""The DaemonSet controller: one pod on each node that is fit for it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_events import NORMAL, WARNING
from mooring.controllers.index import Index
from mooring.controllers.lifecycle.orphans import Orphans, Seekers
from mooring.controllers.nodes.pod_states import available_at_ns, is_finished, is_ready, is_terminating, phase_of
from mooring.controllers.retries import Retries
from mooring.controllers.workloads.daemon_nodes import Eligibility
from mooring.controllers.workloads.daemon_pods import is_updated, node_of
from mooring.controllers.workloads.owned_pods import OwnedPodIndex
from mooring.controllers.workloads.ownership import covers_own_template, managers_concerned, selector_of
from mooring.controllers.workloads.pod_claiming import claim_pods
from mooring.controllers.workloads.pod_control import PODS, PodControl
from mooring.controllers.workloads.revisions import Revisions, hash_of
from mooring.controllers.workloads.rollout_numbers import share_of
from mooring.kit.clock import NS_PER_S
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import RESOURCES
from mooring.rules.workload_pods import REVISION_LABEL, meant_for

DAEMON_SETS = RESOURCES["apps", "v1", "daemonsets"]
NODES = RESOURCES["", "v1", "nodes"]
_BURST = 500
_FIRST_DELAY_NS, _LAST_DELAY_NS = NS_PER_S, 15 * 60 * NS_PER_S


@dataclass(slots=True)
class Rounds:
    """A DaemonSet while it is looked at: its pods by node, and which nodes want one."""

    daemon_set: JsonObject
    digest: str
    """Of the present template."""
    wanted: list[str]
    pods: dict[str, list[JsonObject]]
    """By node, also by nodes that are gone."""
    surplus: list[JsonObject] = field(default_factory=list)
    again_ns: list[int] = field(default_factory=list)


class DaemonSets:
    """A look takes time in proportion to the nodes, so a set rests a while between two."""

    name = "daemonset"
    storages: Sequence[str] = (DAEMON_SETS.storage, PODS.storage, NODES.storage)
    rest_ns = NS_PER_S // 4

    def __init__(self, api: ResourceApi, owned_pods: OwnedPodIndex, orphans: Orphans, revisions: Index) -> None:
        """`orphans` are pods without a controller, `revisions` are ControllerRevisions by their controller."""
        self._api = api
        self._owned_pods = owned_pods
        self._orphans = orphans
        self._revisions = Revisions(api, DAEMON_SETS, revisions)
        self._seekers = Seekers(api.store, DAEMON_SETS.storage)
        self._control = PodControl(api, DAEMON_SETS, "daemonset-controller")
        self._eligibility: dict[Key, Eligibility] = {}
        self._retries = Retries(_FIRST_DELAY_NS, _LAST_DELAY_NS)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == PODS.storage:
            return managers_concerned(write, DAEMON_SETS.kind, self._seekers)
        if write.storage == NODES.storage:
            return self._all_keys() if _matters(write) else ()
        return (write.key,)

    def _all_keys(self) -> list[Key]:
        found = self._api.store.all(DAEMON_SETS.storage)
        return [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in found]

    def sync(self, key: Key) -> int | None:
        daemon_set = self._api.find(DAEMON_SETS, *key)
        if daemon_set is None:
            self._eligibility.pop(key, None)
            return None
        selector = selector_of(daemon_set)
        if selector.is_empty or not covers_own_template(daemon_set, selector):
            return None
        owned = self._owned_pods.of(daemon_set["metadata"]["uid"])
        claim_pods(self._api, DAEMON_SETS, daemon_set, selector, owned, self._orphans)
        revision = self._revisions.settle(daemon_set)
        rounds = self._survey(key, daemon_set, hash_of(revision))
        if "deletionTimestamp" not in daemon_set["metadata"] and (self._place(rounds) or self._update(rounds)):
            rounds = self._survey(key, daemon_set, hash_of(revision))
        self._report(rounds)
        live = {f"{key[1]}-{digest}" for digest in self._digests(daemon_set)}
        self._revisions.trim(daemon_set, live | {revision["metadata"]["name"]})
        return min((at for at in rounds.again_ns if at > self._api.clock.now_ns()), default=None)

    # ---- who is where

    def _survey(self, key: Key, daemon_set: JsonObject, digest: str) -> Rounds:
        """Also notes pods that are where they should not be, and failed ones whose time to be replaced has come."""
        pods: dict[str, list[JsonObject]] = {}
        for pod in self._owned_pods.of(daemon_set["metadata"]["uid"]).pods.values():
            pods.setdefault(node_of(pod), []).append(pod)
        rounds = Rounds(daemon_set, digest, [], pods)
        eligibility = self._eligibility_of(key, daemon_set)
        known: set[str] = set()
        for node in self._api.store.all(NODES.storage):
            name = node["metadata"]["name"]
            known.add(name)
            verdict = eligibility.of(node)
            if verdict.runs:
                rounds.wanted.append(name)
            if name in pods:
                self._sort_out(rounds, pods[name], verdict.stays)
        eligibility.forget(known)
        stranded = [pod for name, held in pods.items() if name not in known for pod in held]
        rounds.surplus += [pod for pod in stranded if not pod["spec"].get("nodeName") and not is_terminating(pod)]
        return rounds

    def _eligibility_of(self, key: Key, daemon_set: JsonObject) -> Eligibility:
        held = self._eligibility.get(key)
        if held is None or held.template != daemon_set["spec"]["template"]:
            held = self._eligibility[key] = Eligibility(daemon_set["spec"]["template"])
        return held

    def _sort_out(self, rounds: Rounds, pods: list[JsonObject], stays: bool) -> None:
        """Of the pods of one node only the oldest stays, and none that has finished."""
        if stays and len(pods) == 1 and not is_finished(pods[0]):
            return
        staying = [pod for pod in pods if not is_terminating(pod)]
        if not stays:
            rounds.surplus += staying
            return
        running = [pod for pod in staying if not is_finished(pod)]
        rounds.surplus += [pod for pod in staying if is_finished(pod) and self._may_replace(rounds, pod)]
        if len(running) > 1:
            running.sort(key=lambda pod: (not pod["spec"].get("nodeName"), pod["metadata"]["creationTimestamp"]))
            rounds.surplus += running[1:]

    def _may_replace(self, rounds: Rounds, pod: JsonObject) -> bool:
        """A pod that fails again and again is replaced after ever longer pauses."""
        if phase_of(pod) != "Failed":
            return True
        mark = f"{rounds.daemon_set['metadata']['uid']}/{node_of(pod)}"
        at_ns = self._retries.due_ns(mark, pod["metadata"]["uid"], self._api.clock.now_ns())
        rounds.again_ns.append(at_ns)
        return at_ns <= self._api.clock.now_ns()

    # ---- making and deleting

    def _place(self, rounds: Rounds) -> bool:
        """Returns whether there was something to do: then updates wait for the next look."""
        missing = [name for name in rounds.wanted if name not in rounds.pods][:_BURST]
        template = self._control.pod_of(rounds.daemon_set, rounds.daemon_set["spec"]["template"])
        self._control.create_many(rounds.daemon_set, [meant_for(template, name, rounds.digest) for name in missing])
        for pod in rounds.surplus:
            if is_finished(pod):
                self._tell_finished(rounds.daemon_set, pod)
        self._control.delete_many(rounds.daemon_set, rounds.surplus[:_BURST])
        return bool(missing or rounds.surplus)

    def _tell_finished(self, daemon_set: JsonObject, pod: JsonObject) -> None:
        name, node = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", node_of(pod)
        if phase_of(pod) == "Failed":
            message = f"Found failed daemon pod {name} on node {node}, will try to kill it"
            self._control.tell(daemon_set, WARNING, "FailedDaemonPod", message)
        else:
            message = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
            self._control.tell(daemon_set, NORMAL, "SucceededDaemonPod", message)

    def _update(self, rounds: Rounds) -> bool:
        """Replace pods of old templates, as many at once as may be missing; those that do not work go anyway.

        Returns whether there were any.
        """
        strategy = rounds.daemon_set["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate" or self._digests(rounds.daemon_set) <= {rounds.digest}:
            return False
        allowed = max(1, share_of(len(rounds.wanted), strategy["rollingUpdate"].get("maxUnavailable"), rounds_up=True))
        broken: list[JsonObject] = []
        working: list[JsonObject] = []
        unavailable = 0
        for name in rounds.wanted:
            staying = [pod for pod in rounds.pods.get(name, ()) if not is_terminating(pod) and not is_finished(pod)]
            old = [pod for pod in staying if not is_updated(pod, rounds.digest)]
            if len(staying) == 1 and old:
                (working if self._is_available(rounds, old[0]) else broken).append(old[0])
            else:
                unavailable += len(staying) != 1 or not self._is_available(rounds, staying[0])
        outdated = [*broken, *working[: max(0, allowed - unavailable)]]
        self._control.delete_many(rounds.daemon_set, outdated)
        return bool(outdated)

    def _is_available(self, rounds: Rounds, pod: JsonObject) -> bool:
        if is_terminating(pod):
            return False
        at_ns = available_at_ns(pod, rounds.daemon_set["spec"].get("minReadySeconds", 0))
        if at_ns is None:
            return False
        if at_ns:
            rounds.again_ns.append(at_ns)
        return at_ns <= self._api.clock.now_ns()

    # ---- status

    def _report(self, rounds: Rounds) -> None:
        wanted = set(rounds.wanted)
        held = {name: _oldest(pods) for name, pods in rounds.pods.items()}
        placed = [pod for name, pod in held.items() if name in wanted]
        available = sum(self._is_available(rounds, pod) for pod in placed)
        misplaced = [name for name, pod in held.items() if name not in wanted and phase_of(pod) == "Running"]
        updated = sum(is_updated(pod, rounds.digest) and not is_terminating(pod) for pod in placed)
        status: JsonObject = {
            "currentNumberScheduled": len(placed),
            "numberMisscheduled": len(misplaced),
            "desiredNumberScheduled": len(wanted),
            "numberReady": sum(is_ready(pod) for pod in placed),
            "observedGeneration": rounds.daemon_set["metadata"]["generation"],
        }
        counts = {
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": len(wanted) - available,
        }
        status |= {key: number for key, number in counts.items() if number}
        if status != rounds.daemon_set.get("status"):
            self._api.put_status(DAEMON_SETS, rounds.daemon_set, status)

    def _digests(self, daemon_set: JsonObject) -> set[str]:
        """Of the templates that its pods are made from."""
        owned = self._owned_pods.of(daemon_set["metadata"]["uid"])
        return {dict(labels).get(REVISION_LABEL, "") for labels, _ in owned.tally}


def _oldest(pods: list[JsonObject]) -> JsonObject:
    if len(pods) == 1:
        return pods[0]
    return min(pods, key=lambda pod: (is_terminating(pod), pod["metadata"]["creationTimestamp"]))


def _matters(write: StoreWrite) -> bool:
    """Whether a node is new, gone, or another to those who ask where daemons run. Heartbeats are nothing to them."""
    if write.type != "MODIFIED" or write.before is None:
        return True
    before, after = write.before, write.object
    if before.get("spec") != after.get("spec"):
        return True
    return bool(before["metadata"].get("labels") != after["metadata"].get("labels"))
