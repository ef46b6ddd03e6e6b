"""Owner references: which controller manages an object, and how workloads adopt and release objects by their selector."""

from collections.abc import Callable, Iterable

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.selector_text import selector_from
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import PODS
from mooring.controllers.index import Adopters, Orphans, equal_labels
from mooring.controllers.nodes.pod_states import is_active
from mooring.controllers.workloads.owned_pods import OwnedPods
from mooring.model.selectors import Selector
from mooring.rules.workload_pods import owner_reference


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
