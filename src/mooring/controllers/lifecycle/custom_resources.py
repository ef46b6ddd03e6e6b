"""CustomResourceDefinitions: each gets its names as far as they are free, and its objects are deleted before it is."""

from collections.abc import Iterable

from mooring.api.json_objects import JsonObject, at
from mooring.api.kinds.custom_resources import (
    CLEANUP,
    CUSTOM_RESOURCE_DEFINITION,
    ESTABLISHED,
    NAMES_ACCEPTED,
    is_true,
    named_status,
    storage_version,
    terminating,
    with_conditions,
)
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_writes import GONE, REPLACED, delete_object, lift, put_status
from mooring.controllers.control_loop import Controller
from mooring.kit.clock import NS_PER_S

MOST_A_STEP = 500
"""Objects deleted in one sync, so that a large kind does not delay other controllers."""
_LOOK_AGAIN_NS = NS_PER_S // 2
"""When to look again for objects that finalizers keep."""


class CustomResources(Controller):
    """Keys are definitions. Upstream has three controllers for this."""

    name = "custom-resources"
    storages = (CUSTOM_RESOURCE_DEFINITION.storage,)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """A definition that changed. With one that is gone, others of its group may get names that were taken."""
        if write.type != "DELETED":
            return (write.key,)
        group = write.object["spec"]["group"]
        others = self._api.store.all(CUSTOM_RESOURCE_DEFINITION.storage)
        return [key_of(other) for other in others if other["spec"]["group"] == group and not _has_names(other)]

    def sync(self, key: Key) -> int | None:
        """Give the definition its names, or delete its objects and let it go."""
        definition = self._api.find(CUSTOM_RESOURCE_DEFINITION, *key)
        if definition is None:
            return None
        if definition["metadata"].get("deletionTimestamp"):
            return self._empty(definition)
        if not _has_names(definition):
            others = self._api.store.all(CUSTOM_RESOURCE_DEFINITION.storage)
            status = named_status(definition, others, self._api.now())
            put_status(self._api, CUSTOM_RESOURCE_DEFINITION, definition, status)
        return None

    def _empty(self, definition: JsonObject) -> int | None:
        """Delete some of the objects. Returns when to go on; None: none is left, and the finalizer is lifted."""
        store, spec = self._api.store, definition["spec"]
        storage = f"{spec['group']}/{spec['names']['plural']}"
        kind = self._api.kinds.of_definition(definition["metadata"]["name"])
        items = store.all(storage) if is_true(definition, ESTABLISHED) else []
        for item in items[:MOST_A_STEP]:
            if kind is None:  # no version is served, so that no client could remove a finalizer
                store.delete(storage, key_of(item))
            elif not item["metadata"].get("deletionTimestamp"):
                delete_object(self._api, kind, item, "Background", accepted=(GONE, REPLACED))
        if not store.count(storage) or not items:
            lift(self._api, CUSTOM_RESOURCE_DEFINITION, definition, CLEANUP)
            return None
        now_ns = self._api.clock.now_ns()
        status = with_conditions(definition.get("status", {}), terminating(self._api.now()))
        put_status(self._api, CUSTOM_RESOURCE_DEFINITION, definition, status)
        return now_ns if len(items) > MOST_A_STEP else now_ns + _LOOK_AGAIN_NS


def _has_names(definition: JsonObject) -> bool:
    """Whether a definition has all names that it wants, and its kind is served."""
    is_named = at(definition, "status.acceptedNames") == definition["spec"]["names"]
    is_named = is_named and storage_version(definition) in at(definition, "status.storedVersions", ())
    return is_named and is_true(definition, NAMES_ACCEPTED) and is_true(definition, ESTABLISHED)


CONTROLLERS = (CustomResources,)
