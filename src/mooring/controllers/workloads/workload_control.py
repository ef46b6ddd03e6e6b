"""Common parts of the controllers of workloads: which writes concern them, how they adopt and release objects by their
selector, how they create and delete pods with events about it, and the revisions of their templates."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.selector_text import selector_from
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_writes import (
    GONE,
    NORMAL,
    PODS,
    REPLACED,
    REVISIONS,
    WARNING,
    change_metadata,
    delete_object,
    put_status,
    record_event,
)
from mooring.controllers.control_loop import Controller
from mooring.controllers.index import Adopters, Index, Orphans, equal_labels, manager_of
from mooring.controllers.nodes.pod_statuses import is_active, is_terminating
from mooring.controllers.workloads.owned_pods import OwnedPodIndex, OwnedPods
from mooring.kit.clock import NS_PER_S
from mooring.model.selectors import Selector
from mooring.rules.workload_pods import REVISION_LABEL, owner_reference, pod_of, template_hash

REST_NS = NS_PER_S // 20
"""50 ms between two syncs of one set: while 500 pods start, each of their writes concerns it."""
BURST = 500
"""Pods created or deleted in one sync; the next one goes on. Upstream's BurstReplicas is 500 for ReplicaSets and 250 for
DaemonSets."""
_TOLD_ONE_BY_ONE = 20
"""How many pods of one sync get an event each: 500 events about one sync help no reader."""


class Workloads(Controller):
    """Keys are workloads of one kind, which own objects of another kind."""

    resource: KindSpec
    owned: KindSpec
    """The kind of the objects that the workloads own."""

    def __init__(self, api: ResourceApi, orphans: Orphans | None = None) -> None:
        """`orphans` are objects of the owned kind without a controller; None: the workloads adopt none."""
        super().__init__(api)
        self.storages = (self.resource.storage, self.owned.storage)
        self._owned_store = self.owned.storage
        self._orphans = orphans
        self._adopters = None if orphans is None else Adopters(api.store, self.resource.storage)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """A workload itself; of an owned object its workload, or those that may adopt it."""
        if write.storage == self._owned_store:
            return managers_concerned(write, self.resource.kind, self._adopters)
        return (write.key,)

    def claim(self, workload: JsonObject, selector: Selector, strangers: Iterable[JsonObject]) -> None:
        """Release owned objects that the selector does not match any more (`strangers`), and adopt orphans that it
        matches. A workload that is being deleted adopts none."""
        for item in strangers:
            held = item["metadata"].get("ownerReferences", [])
            left = [other for other in held if other["uid"] != workload["metadata"]["uid"]]
            change_metadata(self._api, self.owned, item, ownerReferences=left)
        if self._orphans is None or is_terminating(workload):
            return
        reference = owner_reference(self.resource, workload)
        for item in self._orphans.candidates(workload["metadata"]["namespace"], equal_labels(workload)):
            meta = item["metadata"]
            if self.may_adopt(workload, item) and selector.matches(meta.get("labels", {})) and not is_terminating(item):
                others = [other for other in meta.get("ownerReferences", []) if other["uid"] != reference["uid"]]
                change_metadata(self._api, self.owned, item, ownerReferences=[*others, reference])

    def may_adopt(self, workload: JsonObject, orphan: JsonObject) -> bool:
        """Whether the workload may have an orphan that its selector matches."""
        return True

    def record(self, workload: JsonObject, reason: str, message: str, event_type: str = NORMAL) -> None:
        """Record an event about the workload, under upstream's name of the controller (`replicaset-controller`)."""
        record_event(self._api, f"{self.name}-controller", workload, reason, message, event_type)

    def report(self, workload: JsonObject, status: JsonObject) -> JsonObject:
        """Write the status of the workload if it differs."""
        return put_status(self._api, self.resource, workload, status)

    def next_ns(self, moments: Iterable[int]) -> int | None:
        """The first of these times that is still to come; None: there is none."""
        now_ns = self._api.clock.now_ns()
        return min((at_ns for at_ns in moments if at_ns > now_ns), default=None)


def manager_key(item: JsonObject, kind: str) -> Key | None:
    """The key of the workload of this kind that manages an object."""
    owner = manager_of(item)
    if owner is None or owner["kind"] != kind:
        return None
    return item["metadata"].get("namespace", ""), owner["name"]


def managers_concerned(write: StoreWrite, kind: str, adopters: Adopters | None) -> list[Key]:
    """The workloads that a write of an owned object concerns: its controller, the one it had before, or all that may
    adopt an orphan."""
    item, before = write.object, write.before
    # Hot: every write of a pod comes here once for each controller; a new status of an orphan concerns none.
    if before is not None and "ownerReferences" not in item["metadata"] and not _looks_new(item, before):
        return []
    owner = manager_of(item)
    found: list[Key] = []
    if owner is None:
        if adopters is not None and write.type != "DELETED":
            found += adopters.of(item)
    elif owner["kind"] == kind:
        found.append((item["metadata"].get("namespace", ""), owner["name"]))
    # The very same list means the same owner: a write that changes only the status shares it with the version before.
    if before is not None and before["metadata"].get("ownerReferences") is not item["metadata"].get("ownerReferences"):
        then = manager_key(before, kind)
        if then is not None and then not in found:
            found.append(then)
    return found


def _looks_new(orphan: JsonObject, before: JsonObject) -> bool:
    """Whether a workload may want an orphan now that did not before."""
    now, then = orphan["metadata"], before["metadata"]
    return (
        now.get("labels") != then.get("labels")
        or "ownerReferences" in then
        or now.get("deletionTimestamp") != then.get("deletionTimestamp")
    )


def selector_of(workload: JsonObject) -> Selector:
    """The selector of a workload. One that does not parse matches nothing: such a workload is left alone."""
    written = workload["spec"].get("selector")
    if workload.get("kind") == "ReplicationController":
        written = {"matchLabels": written} if written else None
    return selector_from(written or None)


# ---- Workloads that own pods.


@dataclass(frozen=True, slots=True)
class WorkloadIndexes:
    """Indexes that the controllers of workloads share: each is kept up to date once for all of them."""

    owned_pods: OwnedPodIndex
    orphans: Orphans
    """Pods without a controller."""
    revisions: Index
    """ControllerRevisions by their controller."""


class PodWorkloads(Workloads):
    """Adopts, creates and deletes the pods of workloads of one kind: upstream's PodControl and PodControllerRefManager."""

    owned = PODS

    def __init__(self, api: ResourceApi, indexes: WorkloadIndexes) -> None:
        super().__init__(api, indexes.orphans)
        self._owned_pods = indexes.owned_pods

    def pods_of(self, workload: JsonObject) -> OwnedPods:
        """The pods that the workload owns now."""
        return self._owned_pods.of(workload["metadata"]["uid"])

    def claim_pods(self, workload: JsonObject) -> bool:
        """Make the owned pods what the selector says. Returns whether the selector matches the workload's own pods:
        otherwise each new pod would be released at once, and made again for ever.

        Labels are matched once for all pods that share them.
        """
        selector = selector_of(workload)
        if not selector.matches(workload["spec"]["template"].get("metadata", {}).get("labels", {})):
            return False
        owned = self.pods_of(workload)
        strange = owned.strange_labels(selector) if owned.pods else set()
        strangers = (
            [p for p in owned.pods.values() if frozenset(p["metadata"].get("labels", {}).items()) in strange]
            if strange
            else ()
        )
        self.claim(workload, selector, strangers)
        return True

    def may_adopt(self, workload: JsonObject, orphan: JsonObject) -> bool:
        return is_active(orphan)

    def pod_of(self, workload: JsonObject, template: JsonObject | None = None) -> JsonObject:
        """A pod by a template, or by that of the workload. It shares parts with the template, so it must not be changed in
        depth."""
        return pod_of(self.resource, workload, workload["spec"]["template"] if template is None else template)

    def create_many(self, workload: JsonObject, pods: Sequence[JsonObject]) -> None:
        """Create all of the pods. Raises the first refusal, after events about the pods before it."""
        made: list[str] = []
        try:
            made.extend(self.create_one(workload, pod)["metadata"]["name"] for pod in pods)
        finally:
            self._record_all(workload, "SuccessfulCreate", "Created", made)

    def delete_many(self, workload: JsonObject, pods: Sequence[JsonObject]) -> None:
        """Delete all of the pods, with events."""
        for pod in pods:
            self.delete_one(pod)
        self._record_all(workload, "SuccessfulDelete", "Deleted", [pod["metadata"]["name"] for pod in pods])

    def delete_one(self, pod: JsonObject) -> None:
        """Delete one pod, without an event. A pod that is gone already, or replaced by one of the same name, is fine."""
        delete_object(self._api, PODS, pod, accepted=(GONE, REPLACED))

    def create_one(self, workload: JsonObject, pod: JsonObject) -> JsonObject:
        """Create one pod, with an event only if the API server refuses."""
        try:
            return self._api.create(PODS, workload["metadata"]["namespace"], pod)
        except ApiError as refusal:
            if not _is_leaving(refusal):
                self.record(workload, "FailedCreate", f"Error creating: {refusal.message}", WARNING)
            raise

    def _record_all(self, workload: JsonObject, reason: str, verb: str, names: Sequence[str]) -> None:
        """One event for each pod, or one for all of them if there are many."""
        if len(names) > _TOLD_ONE_BY_ONE:
            self.record(workload, reason, f"{verb} {len(names)} pods: {names[0]} ... {names[-1]}")
            return
        for name in names:
            self.record(workload, reason, f"{verb} pod: {name}")


def _is_leaving(refusal: ApiError) -> bool:
    """Whether the namespace is being deleted: it accepts no pods, and events about that would only be noise."""
    causes = refusal.details.causes if refusal.details else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)


# ---- ControllerRevisions: the templates that a StatefulSet or DaemonSet had, so that users can inspect them and roll back.


_NOT_COPIED = "kubectl.kubernetes.io/last-applied-configuration"


class Revisions:
    """The revisions of workloads of one kind; `owned` has all ControllerRevisions by their controller."""

    def __init__(self, api: ResourceApi, resource: KindSpec, owned: Index) -> None:
        self._api = api
        self._resource = resource
        self._owned = owned

    def of(self, workload: JsonObject) -> list[JsonObject]:
        """The revisions of a workload, the oldest first."""
        return sorted(self._owned[workload["metadata"]["uid"]], key=lambda item: (item["revision"], name_of(item)))

    def settle(self, workload: JsonObject) -> JsonObject:
        """The revision of the present template: created if there is none, and given the highest number if it is an old
        one (a rollback)."""
        # A patch that restores the template: kubectl applies it to roll back.
        data = {"spec": {"template": {**workload["spec"]["template"], "$patch": "replace"}}}
        held = self.of(workload)
        number = held[-1]["revision"] + 1 if held else 1
        same = next((item for item in reversed(held) if item["data"] == data), None)
        if same is None:
            return self._create(workload, data, number)
        if same is held[-1]:
            return same
        place = same["metadata"]["namespace"], name_of(same)
        return self._api.change(REVISIONS, *place, lambda found: {**found, "revision": number})

    def trim(self, workload: JsonObject, live: Collection[str]) -> None:
        """Delete the oldest beyond revisionHistoryLimit, but none that pods still have (`live`, by name)."""
        idle = [item for item in self.of(workload) if name_of(item) not in live]
        surplus = len(idle) - workload["spec"].get("revisionHistoryLimit", 10)
        for item in idle[: max(0, surplus)]:
            delete_object(self._api, REVISIONS, item)

    def _create(self, workload: JsonObject, data: JsonObject, number: int) -> JsonObject:
        """Create a revision. If another object has its name, the hash is computed anew."""
        for collisions in count():
            made = self._new(workload, data, number, collisions)
            try:
                return self._api.create(REVISIONS, workload["metadata"]["namespace"], made)
            except ApiError as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
        raise AssertionError("there is always another name")

    def _new(self, workload: JsonObject, data: JsonObject, number: int, collisions: int) -> JsonObject:
        """The manifest. Its labels are those of the template, so that selectors find revisions with the pods."""
        template, metadata = workload["spec"]["template"], workload["metadata"]
        digest = template_hash(template, collisions)
        annotations = {key: text for key, text in metadata.get("annotations", {}).items() if key != _NOT_COPIED}
        return {
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "labels": {**template.get("metadata", {}).get("labels", {}), REVISION_LABEL: digest},
                "annotations": annotations,
                "ownerReferences": [owner_reference(self._resource, workload)],
            },
            "data": data,
            "revision": number,
        }


def name_of(revision: JsonObject) -> str:
    name: str = revision["metadata"]["name"]
    return name


def revision_label(item: JsonObject) -> str:
    """The revision in the labels of a pod (its name or its hash, by kind of workload) or of a revision (its hash)."""
    text: str = item["metadata"].get("labels", {}).get(REVISION_LABEL, "")
    return text


def template_of(revision: JsonObject) -> JsonObject:
    """The template that a revision holds."""
    return {key: value for key, value in revision["data"]["spec"]["template"].items() if key != "$patch"}
