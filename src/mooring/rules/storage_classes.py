"""Which class a claim gets that names none: the admission plugin DefaultStorageClass."""

from collections.abc import Iterable

from mooring.model.json_objects import JsonObject

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def default_storage_class(classes: Iterable[JsonObject]) -> str:
    """The newest of the classes marked as default, then the first by name; empty: none is marked."""
    ordered = sorted((c["metadata"] for c in classes), key=lambda meta: meta.get("name", ""))
    marked = [meta for meta in ordered if (meta.get("annotations") or {}).get(_DEFAULT_CLASS) == "true"]
    newest = max(marked, key=lambda meta: meta.get("creationTimestamp") or "", default=None)
    return newest["name"] if newest else ""
