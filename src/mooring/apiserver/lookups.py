"""What admission asks of the objects that are in the cluster already."""

from collections.abc import Iterable
from typing import Protocol

from mooring.model.json_objects import JsonObject


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
