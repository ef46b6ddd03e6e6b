"""Admission's questions, answered from the store."""

from collections.abc import Iterable
from dataclasses import dataclass

from mooring.apiserver.store import Store
from mooring.model.json_objects import JsonObject

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
