"""An object as a server writes it back: what stands for nothing is left out, quantities are in their canonical form."""

import re
from typing import Any

from mooring.api.json_objects import JsonObject
from mooring.model.quantity import NANO, QuantityText, parse

_SHOWN_NULLS = frozenset(
    ("lastProbeTime", "lastTransitionTime", "lastHeartbeatTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")
)
"""Times that are written as null where they are not set; all other nulls are left out."""

_AMOUNTS = {
    *("requests", "limits", "capacity", "allocatable", "podFixed", "overhead"),
    *("default", "defaultRequest", "min", "max", "maxLimitRequestRatio", "hard"),
}
"""Maps of quantities, wherever they are: in containers, nodes, volumes, claims, runtime classes, limit ranges."""
_NOT_SHOWN_EMPTY = _AMOUNTS | {"labels", "annotations", "nodeSelector", "matchLabels"}
"""Maps of strings, which Go leaves out where they are empty."""
_UNTOUCHED = frozenset(("managedFields", "data", "stringData", "parameters"))
"""Data of users and drivers, and FieldsV1: a null or an empty list means something there."""
_BINARY = re.compile(r"[0-9.]+[KMGTPE]i")
"""A quantity in powers of two stays in powers of two."""
_EXPONENT = re.compile(r"[+-]?[0-9.]+[eE][+-]?[0-9]+")
"""Parity: one with an exponent is written back as it came."""
_DECIMAL_SUFFIXES = {-3: "n", -2: "u", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P", 6: "E"}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def tidy(value: Any) -> Any:
    """A deep copy without nulls, empty lists and empty maps of strings. Empty objects stay: `emptyDir: {}` says much."""
    if isinstance(value, list):
        # A null in a list stands for an empty object there, because lists that matter hold objects.
        return [{} if inner is None else tidy(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    made: JsonObject = {}
    for key, inner in value.items():
        if key in _UNTOUCHED or (inner is None and key in _SHOWN_NULLS):
            made[key] = inner
        elif inner is None or inner == [] or (inner == {} and key in _NOT_SHOWN_EMPTY):
            continue
        # A CSINode has an `allocatable` of another kind: `count`, a plain number.
        elif key in _AMOUNTS and isinstance(inner, dict) and inner.keys() != {"count"}:
            made[key] = {name: canonical(text) for name, text in inner.items()}
        else:
            made[key] = tidy(inner) if isinstance(inner, dict | list) else inner
    return made


def canonical(text: Any) -> Any:
    """The one way to write a quantity. What is no quantity stays as it is: validation refuses it.

    | text   | canonical |
    | 0.5    | 500m      |
    | 2000m  | 2         |
    | 1024Mi | 1Gi       |
    """
    if text is None:
        return "0"  # Parity: in a map of quantities null is one of nothing
    if isinstance(text, bool) or not isinstance(text, QuantityText):
        return text
    try:
        nano = parse(text)
    except ValueError:
        return text
    if isinstance(text, str) and _EXPONENT.fullmatch(text):
        return text
    if isinstance(text, str) and _BINARY.fullmatch(text) and nano >= 1024 * NANO and nano % NANO == 0:
        return _scaled_binary(nano // NANO)
    return scaled_decimal(nano)


def show_amount(nano: int) -> str:
    """An amount of which it is not known how it was written: in the shorter of the two forms."""
    decimal = scaled_decimal(nano)
    binary = _scaled_binary(nano // NANO) if nano >= 1024 * NANO and nano % NANO == 0 else decimal
    return min(decimal, binary, key=len)


def _scaled_binary(count: int) -> str:
    """With the largest binary suffix that leaves a whole number."""
    power = 0
    while power < len(_BINARY_SUFFIXES) - 1 and count % 1024 == 0:
        count, power = count // 1024, power + 1
    return f"{count}{_BINARY_SUFFIXES[power]}"


def scaled_decimal(nano: int) -> str:
    """Nano-units with the largest suffix that leaves a whole number."""
    power = -3
    while nano and power < 6 and nano % 1000 == 0:
        nano, power = nano // 1000, power + 1
    return f"{nano}{_DECIMAL_SUFFIXES[power]}" if nano else "0"
