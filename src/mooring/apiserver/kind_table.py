"""The kinds that one server serves: those of Kubernetes, and those of the CustomResourceDefinitions in its store."""

from collections.abc import Iterator

from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import REQUESTS, RESOURCES
from mooring.api.kinds.custom_resources import CUSTOM_RESOURCE_DEFINITION, ESTABLISHED, is_true
from mooring.api.schema.openapi import CustomDocuments
from mooring.apiserver.store import Store, StoreWrite

_POSTED = {(kind.group, kind.version, kind.plural): kind for kind in REQUESTS}
"""Kinds that clients only post, by group, version and plural."""


class KindTable:
    """The table of kinds. It follows the definitions in the store, so that a restart finds all kinds again."""

    def __init__(self, store: Store) -> None:
        self._custom: dict[str, list[KindSpec]] = {}
        """By the name of the definition, in the order in which they came."""
        self._by_path: dict[tuple[str, str, str], KindSpec] = {}
        self._by_storage: dict[str, KindSpec] = {}
        self.documents = CustomDocuments()
        """The OpenAPI documents of custom kinds."""
        for write in store.additions(CUSTOM_RESOURCE_DEFINITION.storage):
            self._observe(write)
        store.listen(self._observe, (CUSTOM_RESOURCE_DEFINITION.storage,))

    def find(self, group: str, version: str, plural: str) -> KindSpec | None:
        """The kind at a path; a kind of Kubernetes comes before a custom one."""
        key = group, version, plural
        return RESOURCES.get(key) or _POSTED.get(key) or self._by_path.get(key)

    def named(self, api_version: str, kind: str) -> KindSpec | None:
        """The custom kind that a manifest names."""
        found = (spec for specs in self._custom.values() for spec in specs)
        return next((spec for spec in found if (spec.api_version, spec.kind) == (api_version, kind)), None)

    def custom(self) -> Iterator[KindSpec]:
        """All custom kinds in all their served versions."""
        for specs in self._custom.values():
            yield from specs

    def stored(self) -> dict[str, KindSpec]:
        """One custom kind for each storage."""
        return self._by_storage

    def of_definition(self, name: str) -> KindSpec | None:
        """The kind of a definition in its preferred version; None: it is not served."""
        return next(iter(self._custom.get(name, ())), None)

    def _observe(self, write: StoreWrite) -> None:
        """A definition came, changed or went. A change of what says nothing about the kinds changes nothing."""
        # Not at the start: the rules of schemas are in CEL, which takes 30 ms, and most clusters have no definitions.
        from mooring.rules.custom_kinds import kinds_of

        name, before, after = write.key[1], write.before, write.object
        if write.type == "MODIFIED" and before is not None and _is_alike(before, after):
            return
        for spec in self._custom.pop(name, ()):
            del self._by_path[spec.group, spec.version, spec.plural]
            self._by_storage.pop(spec.storage, None)
        if write.type == "DELETED" or not is_true(after, ESTABLISHED):
            return
        self._custom[name] = kinds_of(after)
        for spec in self._custom[name]:
            self._by_path[spec.group, spec.version, spec.plural] = spec
            self._by_storage.setdefault(spec.storage, spec)


def _is_alike(before: JsonObject, after: JsonObject) -> bool:
    """Whether two states of a definition lead to the same kinds."""
    names = [at(item, "status.acceptedNames") for item in (before, after)]
    is_same = names[0] == names[1] and is_true(before, ESTABLISHED) == is_true(after, ESTABLISHED)
    return is_same and bool(before["spec"] == after["spec"])
