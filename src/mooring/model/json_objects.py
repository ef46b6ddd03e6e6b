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
