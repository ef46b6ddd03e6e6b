"""Fields of pods that a cluster admits only with a feature gate. Gates that are not named have their defaults."""

from collections.abc import Iterator, Mapping

from mooring.api.json_objects import JsonObject
from mooring.model.node import COMPARISON_GATE, COMPARISON_OPERATORS

LABEL_KEYS_GATE = "MatchLabelKeysInPodTopologySpread"
TOLERATION_OPERATORS = ("Equal", "Exists", *COMPARISON_OPERATORS)
"""Parity: upstream names Lt and Gt as supported even where it refuses them because of the gate."""


def gated_operators(spec: JsonObject, gates: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Path in the spec, and operator, of each toleration that compares numbers, where that gate is off."""
    if gates.get(COMPARISON_GATE, False):
        return
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("operator") in COMPARISON_OPERATORS:
            yield f"tolerations[{i}].operator", toleration["operator"]


def drop_disabled_fields(spec: JsonObject, gates: Mapping[str, bool]) -> None:
    """Take off what the API server drops from a new pod: fields whose gate is off."""
    if not gates.get("PodLevelResources", True):
        spec.pop("resources", None)
    if not gates.get(LABEL_KEYS_GATE, True):
        for constraint in spec.get("topologySpreadConstraints") or ():
            constraint.pop("matchLabelKeys", None)


def merges_spread_keys(gates: Mapping[str, bool]) -> bool:
    """Whether the API server writes matchLabelKeys of spread constraints into their selectors."""
    return gates.get(LABEL_KEYS_GATE, True) and gates.get(f"{LABEL_KEYS_GATE}SelectorMerge", True)
