"""Field labels: what clients can select objects of a kind by, such as `spec.nodeName=n1`."""

from collections.abc import Callable, Mapping
from typing import Any

FieldReader = Callable[[dict[str, Any]], str]
FieldLabels = Mapping[str, FieldReader]
"""How to read the text that a selector is compared with, by label."""


def text_at(*places: str, otherwise: str = "") -> FieldReader:
    """Reads the first of the places that has something, as text: what is empty or missing is `otherwise`."""
    ways = [place.split(".") for place in places]

    def read(item: dict[str, Any]) -> str:
        return next((text for way in ways if (text := _read(item, way))), otherwise)

    return read


def _read(value: Any, way: list[str]) -> str:
    for key in way:
        if isinstance(value, list):
            value = value[0] if value else None
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else ""


def labels_at(*places: str) -> FieldLabels:
    return {place: text_at(place) for place in places}


OF_METADATA: FieldLabels = labels_at("metadata.name", "metadata.namespace")
"""The labels of a kind that has no others."""
