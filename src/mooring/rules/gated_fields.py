"""Fields of pods that a cluster admits only with a feature gate."""

from collections.abc import Iterator, Mapping

from mooring.model.json_objects import JsonObject
from mooring.model.node import COMPARISON_GATE, COMPARISON_OPERATORS

TOLERATION_OPERATORS = ("Equal", "Exists", *COMPARISON_OPERATORS)
"""Parity: upstream names Lt and Gt as supported even where it refuses them because of the gate."""


def gated_operators(spec: JsonObject, gates: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Path in the spec, and operator, of each toleration that compares numbers, where that gate is off. A gate that is
    not named is off."""
    if gates.get(COMPARISON_GATE, False):
        return
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("operator") in COMPARISON_OPERATORS:
            yield f"tolerations[{i}].operator", toleration["operator"]
