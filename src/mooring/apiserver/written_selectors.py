"""Label selectors as they stand in stored objects, compiled."""

import msgspec

from mooring.model.json_objects import JsonObject
from mooring.model.meta import LabelSelector
from mooring.model.selectors import NOTHING, Selector, SelectorError, compile_selector


def selector_from(written: JsonObject | None) -> Selector:
    """None, and what cannot be compiled, select nothing; an empty selector selects everything."""
    if written is None:
        return NOTHING
    try:
        return compile_selector(msgspec.convert(written, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return NOTHING


def selector_text(written: JsonObject | None) -> str:
    """The selector in the form of `kubectl get -l`, sorted by key."""
    written = written or {}
    parts = [(key, f"{key}={value}") for key, value in (written.get("matchLabels") or {}).items()]
    for line in written.get("matchExpressions") or ():
        key, values = line["key"], ",".join(sorted(line.get("values") or ()))
        match line["operator"]:
            case "In":
                parts.append((key, f"{key} in ({values})"))
            case "NotIn":
                parts.append((key, f"{key} notin ({values})"))
            case "Exists":
                parts.append((key, key))
            case _:
                parts.append((key, f"!{key}"))
    return ",".join(text for _, text in sorted(parts))
