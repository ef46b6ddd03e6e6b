"""Admission's questions, answered from the store."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from mooring.apiserver.store import Store
from mooring.model.json_objects import JsonObject

# ---- What admission asks of the objects that are in the cluster already.


class Lookups(Protocol):
    """The store as admission sees it: plain JSON objects, None where there is none. Nothing of it is changed."""

    def namespace(self, name: str) -> JsonObject | None: ...

    def node(self, name: str) -> JsonObject | None: ...

    def priority_class(self, name: str) -> JsonObject | None: ...

    def priority_classes(self) -> Iterable[JsonObject]: ...

    def runtime_class(self, name: str) -> JsonObject | None: ...

    def limit_ranges(self, namespace: str) -> Iterable[JsonObject]: ...

    def storage_classes(self) -> Iterable[JsonObject]: ...


def name_of(item: JsonObject) -> str:
    name: str = item.get("metadata", {}).get("name", "")
    return name


_LIMIT_RANGES = "/limitranges"


@dataclass(frozen=True, slots=True)
class StoreLookups:
    store: Store

    def namespace(self, name: str) -> JsonObject | None:
        return self.store.find("/namespaces", ("", name))

    def node(self, name: str) -> JsonObject | None:
        return self.store.find("/nodes", ("", name))

    def priority_class(self, name: str) -> JsonObject | None:
        return self.store.find("scheduling.k8s.io/priorityclasses", ("", name))

    def priority_classes(self) -> Iterable[JsonObject]:
        return self.store.all("scheduling.k8s.io/priorityclasses")

    def runtime_class(self, name: str) -> JsonObject | None:
        return self.store.find("node.k8s.io/runtimeclasses", ("", name))

    def limit_ranges(self, namespace: str) -> Iterable[JsonObject]:
        return [held for held in self.store.all(_LIMIT_RANGES) if held["metadata"]["namespace"] == namespace]

    def storage_classes(self) -> Iterable[JsonObject]:
        return self.store.all("storage.k8s.io/storageclasses")
