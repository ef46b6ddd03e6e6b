"""Objects as plain JSON: what the API server keeps, with the fields that no scheduler reads."""

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]


def at(item: Mapping[str, Any], path: str, otherwise: Any = None) -> Any:
    """What stands at a dotted path; `otherwise` where nothing, or an empty text, does."""
    found: Any = item
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return otherwise if found is None or found == "" else found


def fill(target: JsonObject, defaults: Mapping[str, Any]) -> None:
    """Set what is missing; an empty string counts as missing, as it does to the server."""
    for key, value in defaults.items():
        if target.get(key) in (None, ""):
            target[key] = value


# ---- Names of media types, and what patches are sent as.


APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


def media_type(content_type: str) -> str:
    """Without its settings: `application/json; charset=utf-8` is JSON."""
    return content_type.partition(";")[0].strip().lower()
