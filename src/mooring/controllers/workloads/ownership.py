"""Owner references: which controller manages an object, and how workloads adopt and release objects by their selector."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.api.selector_text import selector_from
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import PODS
from mooring.controllers.cluster_writes import NORMAL, WARNING, record_event
from mooring.controllers.index import Adopters, Index, Orphans, equal_labels
from mooring.controllers.nodes.pod_statuses import is_active
from mooring.controllers.workloads.owned_pods import OwnedPods
from mooring.model.selectors import Selector
from mooring.rules.workload_pods import REVISION_LABEL, owner_reference, pod_of, template_hash

# ---- Creates and deletes the pods of workloads, with events about it: upstream's PodControl.


_TOLD_ONE_BY_ONE = 20
"""How many pods of one sync get an event each: 500 events about one sync help no reader."""


class PodControl:
    """In the name of one controller (`replicaset-controller`), for workloads of one kind."""

    def __init__(self, api: ResourceApi, resource: KindSpec, component: str) -> None:
        self._api = api
        self._resource = resource
        self._component = component

    def record(self, owner: JsonObject, type: str, reason: str, message: str) -> None:
        """Record an event about the owner."""
        record_event(self._api, self._component, owner, reason, message, type)

    def pod_of(self, owner: JsonObject, template: JsonObject) -> JsonObject:
        """A pod by the template of a workload. It shares parts with the template, so it must not be changed in depth."""
        return pod_of(self._resource, owner, template)

    def create_many(self, owner: JsonObject, pods: Sequence[JsonObject]) -> int:
        """Create them all. Returns how many; raises the first refusal, after events about those before it."""
        made: list[str] = []
        try:
            made.extend(self.create_one(owner, pod)["metadata"]["name"] for pod in pods)
        finally:
            self._record_all(owner, "SuccessfulCreate", "Created", made)
        return len(made)

    def delete_many(self, owner: JsonObject, pods: Sequence[JsonObject]) -> None:
        """Delete them all, with events."""
        for pod in pods:
            self.delete_one(pod)
        self._record_all(owner, "SuccessfulDelete", "Deleted", [pod["metadata"]["name"] for pod in pods])

    def delete_one(self, pod: JsonObject) -> None:
        """Delete one, without an event. A pod that is gone already, or replaced by one of the same name, is fine."""
        metadata = pod["metadata"]
        try:
            self._api.delete(PODS, metadata["namespace"], metadata["name"], Deletion(uid=metadata["uid"]))
        except ApiError as refusal:
            if refusal.code not in (404, 409):
                raise

    def create_one(self, owner: JsonObject, pod: JsonObject) -> JsonObject:
        """Create one, with an event only if the API server refuses."""
        try:
            return self._api.create(PODS, owner["metadata"]["namespace"], pod)
        except ApiError as refusal:
            if not _is_leaving(refusal):
                self.record(owner, WARNING, "FailedCreate", f"Error creating: {refusal.message}")
            raise

    def _record_all(self, owner: JsonObject, reason: str, verb: str, names: Sequence[str]) -> None:
        """One event for each pod, or one for all of them if there are many."""
        if len(names) > _TOLD_ONE_BY_ONE:
            self.record(owner, NORMAL, reason, f"{verb} {len(names)} pods: {names[0]} ... {names[-1]}")
            return
        for name in names:
            self.record(owner, NORMAL, reason, f"{verb} pod: {name}")


def _is_leaving(refusal: ApiError) -> bool:
    """Whether the namespace is being deleted: it accepts no pods, and events about that would only be noise."""
    causes = refusal.details.causes if refusal.details else ()
    return any(cause.reason == "NamespaceTerminating" for cause in causes)


# ---- ControllerRevisions: the templates that a StatefulSet or DaemonSet had, so that users can inspect them and roll
# back.


REVISIONS = RESOURCES["apps", "v1", "controllerrevisions"]
_NOT_COPIED = "kubectl.kubernetes.io/last-applied-configuration"


class Revisions:
    """The revisions of workloads of one kind; `owned` has all ControllerRevisions by their controller."""

    def __init__(self, api: ResourceApi, resource: KindSpec, owned: Index) -> None:
        self._api = api
        self._resource = resource
        self._owned = owned

    def of(self, workload: JsonObject) -> list[JsonObject]:
        """The oldest first."""
        return sorted(self._owned[workload["metadata"]["uid"]], key=lambda item: (item["revision"], name_of(item)))

    def settle(self, workload: JsonObject) -> JsonObject:
        """The revision of the present template: created if there is none, and given the highest number if it is an old
        one (a rollback)."""
        data = _data_of(workload)
        held = self.of(workload)
        number = held[-1]["revision"] + 1 if held else 1
        same = next((item for item in reversed(held) if item["data"] == data), None)
        if same is None:
            return self._create(workload, data, number)
        return same if same is held[-1] else self._renumber(same, number)

    def trim(self, workload: JsonObject, live: Collection[str]) -> None:
        """Delete the oldest beyond revisionHistoryLimit, but none that pods still have (`live`, by name)."""
        idle = [item for item in self.of(workload) if name_of(item) not in live]
        surplus = len(idle) - workload["spec"].get("revisionHistoryLimit", 10)
        for item in idle[: max(0, surplus)]:
            self._api.delete(REVISIONS, item["metadata"]["namespace"], name_of(item))

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

    def _renumber(self, revision: JsonObject, number: int) -> JsonObject:
        metadata = revision["metadata"]
        return self._api.change(
            REVISIONS, metadata["namespace"], metadata["name"], lambda held: {**held, "revision": number}
        )


def name_of(revision: JsonObject) -> str:
    name: str = revision["metadata"]["name"]
    return name


def hash_of(revision: JsonObject) -> str:
    digest: str = revision["metadata"]["labels"][REVISION_LABEL]
    return digest


def template_of(revision: JsonObject) -> JsonObject:
    """The template that a revision holds."""
    return {key: value for key, value in revision["data"]["spec"]["template"].items() if key != "$patch"}


def _data_of(workload: JsonObject) -> JsonObject:
    """A patch that restores the template: kubectl applies it to roll back."""
    return {"spec": {"template": {**workload["spec"]["template"], "$patch": "replace"}}}


def manager_of(item: JsonObject) -> JsonObject | None:
    """The reference to the owner that is the controller; None: the object is an orphan."""
    for owner in item["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            found: JsonObject = owner
            return found
    return None


def manager_key(item: JsonObject, kind: str) -> Key | None:
    """The key of the workload of this kind that manages an object."""
    owner = manager_of(item)
    if owner is None or owner["kind"] != kind:
        return None
    return item["metadata"].get("namespace", ""), owner["name"]


def managers_concerned(write: StoreWrite, kind: str, adopters: Adopters | None = None) -> list[Key]:
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


def covers_own_template(workload: JsonObject, selector: Selector) -> bool:
    """Whether the selector matches the workload's own pods. Otherwise each new pod would be released at once, and made
    again for ever."""
    return selector.matches(workload["spec"]["template"].get("metadata", {}).get("labels", {}))


def adopt(
    api: ResourceApi, owner_resource: KindSpec, owner: JsonObject, resource: KindSpec, orphans: Iterable[JsonObject]
) -> bool:
    """Set the owner's reference on objects. Returns whether there were any. An owner that is being deleted adopts none."""
    if "deletionTimestamp" in owner["metadata"]:
        return False
    reference, adopted = owner_reference(owner_resource, owner), False
    for orphan in orphans:
        if "deletionTimestamp" not in orphan["metadata"]:
            held = orphan["metadata"].get("ownerReferences", [])
            others = [other for other in held if other["uid"] != reference["uid"]]
            _set_owners(api, resource, orphan, [*others, reference])
            adopted = True
    return adopted


def release(api: ResourceApi, owner: JsonObject, resource: KindSpec, owned: JsonObject) -> None:
    """Remove the owner's reference from an object that its selector no longer matches."""
    held = owned["metadata"].get("ownerReferences", [])
    _set_owners(api, resource, owned, [other for other in held if other["uid"] != owner["metadata"]["uid"]])


def _set_owners(api: ResourceApi, resource: KindSpec, item: JsonObject, owners: list[JsonObject]) -> None:
    """Replace the owner references of an object."""
    metadata = item["metadata"]

    def change(held: JsonObject) -> JsonObject:
        return {**held, "metadata": {**held["metadata"], "ownerReferences": owners}}

    api.change(resource, metadata.get("namespace", ""), metadata["name"], change)


# ---- Pods: adopt those that match, release those that do not any more.


def claim_pods(
    api: ResourceApi,
    resource: KindSpec,
    workload: JsonObject,
    selector: Selector,
    owned: OwnedPods,
    orphans: Orphans,
    fits: Callable[[JsonObject], bool] = is_active,
) -> None:
    """Make the owned pods what the selector says; of orphans only those that `fits`. Labels are matched once for all
    pods that share them."""
    strange = owned.strange_labels(selector) if owned.pods else set()
    if strange:
        for pod in list(owned.pods.values()):
            if frozenset(pod["metadata"].get("labels", {}).items()) in strange:
                release(api, workload, PODS, pod)
    candidates = orphans.candidates(workload["metadata"]["namespace"], equal_labels(workload))
    wanted = [p for p in candidates if fits(p) and selector.matches(p["metadata"].get("labels", {}))]
    adopt(api, resource, workload, PODS, wanted)
