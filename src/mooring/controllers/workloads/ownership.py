"""Who manages what: owner references, and taking in or letting go of objects by a workload's selector."""

from collections.abc import Iterable

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.selector_text import selector_from
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.lifecycle.orphans import Seekers
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.selectors import Selector
from mooring.rules.workload_pods import owner_reference


def manager_of(item: JsonObject) -> JsonObject | None:
    """The reference to the one owner that manages an object; None: it is an orphan."""
    for owner in item["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            found: JsonObject = owner
            return found
    return None


def manager_key(item: JsonObject, kind: str) -> Key | None:
    """The workload of a kind that manages an object."""
    owner = manager_of(item)
    if owner is None or owner["kind"] != kind:
        return None
    return item["metadata"].get("namespace", ""), owner["name"]


def managers_concerned(write: StoreWrite, kind: str, seekers: Seekers | None = None) -> list[Key]:
    """Whom a write of an owned object concerns: its manager, the one it had, or all who might take in an orphan."""
    item, before = write.object, write.before
    # Hot: every write of a pod comes here once for each controller; that of an orphan's status concerns nobody.
    if before is not None and "ownerReferences" not in item["metadata"] and not _looks_new(item, before):
        return []
    owner = manager_of(item)
    found: list[Key] = []
    if owner is None:
        if seekers is not None and write.type != "DELETED":
            found += seekers.of(item)
    elif owner["kind"] == kind:
        found.append((item["metadata"].get("namespace", ""), owner["name"]))
    if before is not None and before["metadata"].get("ownerReferences") is not item["metadata"].get("ownerReferences"):
        then = manager_key(before, kind)
        if then is not None and then not in found:
            found.append(then)
    return found


def _looks_new(orphan: JsonObject, before: JsonObject) -> bool:
    """Whether somebody may want an orphan now who did not before."""
    now, then = orphan["metadata"], before["metadata"]
    return (
        now.get("labels") != then.get("labels")
        or "ownerReferences" in then
        or now.get("deletionTimestamp") != then.get("deletionTimestamp")
    )


def selector_of(workload: JsonObject) -> Selector:
    """What cannot be read matches nothing: such a workload is left alone."""
    written = workload["spec"].get("selector")
    if workload.get("kind") == "ReplicationController":
        written = {"matchLabels": written} if written else None
    return selector_from(written or None)


def covers_own_template(workload: JsonObject, selector: Selector) -> bool:
    """Or else every pod that it makes would be let go at once, and made again, for ever."""
    return selector.matches(workload["spec"]["template"].get("metadata", {}).get("labels", {}))


def adopt(
    api: ResourceApi, owner_resource: KindSpec, owner: JsonObject, resource: KindSpec, orphans: Iterable[JsonObject]
) -> bool:
    """Make objects the owner's. Returns whether there were any. An owner on its way out takes in nobody."""
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
    """Let go of an object that the owner's selector no longer matches."""
    held = owned["metadata"].get("ownerReferences", [])
    _set_owners(api, resource, owned, [other for other in held if other["uid"] != owner["metadata"]["uid"]])


def _set_owners(api: ResourceApi, resource: KindSpec, item: JsonObject, owners: list[JsonObject]) -> None:
    metadata = item["metadata"]

    def change(held: JsonObject) -> JsonObject:
        return {**held, "metadata": {**held["metadata"], "ownerReferences": owners}}

    api.change(resource, metadata.get("namespace", ""), metadata["name"], change)
