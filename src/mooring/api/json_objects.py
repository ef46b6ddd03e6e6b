"""Objects as plain JSON, as the API server stores them, with the fields that no scheduler reads; and media types.

Typed structs (`model/meta.py`) drop unknown fields, so everything that writes an object back works on this form.
"""

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]


def at(item: Mapping[str, Any], path: str, otherwise: Any = None) -> Any:
    """The value at a dotted path; `otherwise` where it is missing, null or an empty text, which Go does not tell apart."""
    found: Any = item
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return otherwise if found is None or found == "" else found


def fill(target: JsonObject, defaults: Mapping[str, Any]) -> None:
    """Set the fields that are missing. An empty text counts as missing, as it does in upstream's defaulting."""
    for key, value in defaults.items():
        if target.get(key) in (None, ""):
            target[key] = value


# ---- media types


APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
"""The patches that the API server accepts, in the order in which its error message lists them."""


def media_type(content_type: str) -> str:
    """The type without its parameters: `application/json; charset=utf-8` is JSON."""
    return content_type.partition(";")[0].strip().lower()
