"""What admission asks of the objects that are in the cluster already: the questions, and the store that answers them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mooring.api.json_objects import JsonObject
from mooring.apiserver.store import Store


class Lookups(Protocol):
    """The store as admission sees it: plain JSON objects, None where there is none. Nothing of it is changed."""

    @property
    def gates(self) -> Mapping[str, bool]:
        """The feature gates of the cluster. One that is not named has its default."""

    def namespace(self, name: str) -> JsonObject | None: ...

    def node(self, name: str) -> JsonObject | None: ...

    def priority_class(self, name: str) -> JsonObject | None: ...

    def priority_classes(self) -> Iterable[JsonObject]: ...

    def runtime_class(self, name: str) -> JsonObject | None: ...

    def limit_ranges(self, namespace: str) -> Iterable[JsonObject]: ...

    def storage_classes(self) -> Iterable[JsonObject]: ...

    def group_templates(self, namespace: str, name: str) -> JsonObject | None:
        """A Workload of scheduling.k8s.io."""


def name_of(item: JsonObject) -> str:
    """The object's name; empty where it has none yet."""
    name: str = item.get("metadata", {}).get("name", "")
    return name


_LIMIT_RANGES = "/limitranges"
"""The storage of LimitRanges, which are looked through for each new pod: a cluster has few."""


@dataclass(frozen=True, slots=True)
class StoreLookups:
    """Answers from the store. Tests of admission answer from dictionaries instead."""

    store: Store
    gates: Mapping[str, bool] = field(default_factory=dict)

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

    def group_templates(self, namespace: str, name: str) -> JsonObject | None:
        return self.store.find("scheduling.k8s.io/workloads", (namespace, name))
