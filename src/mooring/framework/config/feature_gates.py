"""`--feature-gates`: the gates of kube-scheduler (gates.txt), which of them a user chooses, what is wrong with the choice,
and which of them count here.

All components of a cluster are given the same `--feature-gates`, so all gates of the control plane are known here.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from mooring.model.selectors import aggregated

GATES_FILE = Path(__file__).with_name("gates.txt")
"""One gate a row. tools/upstream_tables.py writes it from upstream's files, and its first lines say what the columns are."""


class Stage(StrEnum):
    """Where a feature is in its life; AllAlpha and AllBeta switch whole stages."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"
    DEPRECATED = "DEPRECATED"


class Gate(NamedTuple):
    """A feature gate as the release that Mooring follows has it."""

    stage: Stage
    default: bool
    is_locked: bool
    """Whether it cannot be set to anything but its default."""


_ROWS = [row.split() for row in GATES_FILE.read_text().splitlines() if not row.startswith("#")]
_STAGES = {stage.value: stage for stage in Stage}

GATES: dict[str, Gate] = {
    name: Gate(_STAGES[stage], default == "true", lock == "locked") for name, stage, _, default, lock, *_ in _ROWS
}
"""All gates by name."""

NEEDS: dict[str, tuple[str, ...]] = {name: tuple(needs) for name, _, _, _, _, _, *needs in _ROWS if needs}
"""Gate -> gates that have to be on as well: upstream's defaultKubernetesFeatureGateDependencies."""

STAGES = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
"""Gates that stand for all of a stage."""

EFFECTIVE = frozenset(row[0] for row in _ROWS if row[5] == "effective")
"""Gates that change what Mooring does."""

OF_SCHEDULERS = EFFECTIVE | {row[0] for row in _ROWS if row[5] == "scheduler"}
"""Gates that change what kube-scheduler does; the others are for other components."""

OF_EMBEDDED = frozenset(row[0] for row in _ROWS if row[5] == "embedded")
"""Gates of other components that change the embedded cluster, and no scheduler."""


# ---- The gates that the configuration being read was given


def with_defaults(chosen: Mapping[str, bool] | None) -> dict[str, bool]:
    """All gates: those that the user did not choose have their default."""
    return {**DEFAULTS, **(chosen or {})}


DEFAULTS: Mapping[str, bool] = {name: gate.default for name, gate in GATES.items()}

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
"""Texts that Go's ParseBool reads as true; below, those that it reads as false."""
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))
_COMPONENT = "kube"
"""The only component whose gates a scheduler has: `kube:Name=true` is `Name=true`."""
_MIXED = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
"""Upstream's words."""
IN_EFFECT = "Feature gates are in effect"
"""Logged at the start, with the gates that differ from their defaults."""


class GateError(ValueError):
    """A choice of gates that is refused, in upstream's words."""


def parse_gates(text: str) -> dict[str, bool]:
    """All gates, with what `Name=true,Other=false` makes of them. Raises GateError."""
    return gates_with(dict(_choices(text)))


def gates_with(chosen: Mapping[str, bool]) -> dict[str, bool]:
    """All gates, with these choices. Raises GateError."""
    _check_types(chosen)
    _check(chosen)
    gates = {**DEFAULTS, **_of_stages(chosen), **chosen}
    for stage in STAGES:
        gates.pop(stage, None)
    _check_needs(gates)
    return gates


def told_gates(gates: Mapping[str, bool]) -> Iterator[tuple[str, list[str]]]:
    """Log lines about gates that differ from their defaults: a text, and the gates that it is about."""
    changed = [f"{name}={str(on).lower()}" for name, on in sorted(gates.items()) if on is not DEFAULTS.get(name, on)]
    for text, names in (
        (IN_EFFECT, EFFECTIVE),
        ("Feature gates have no effect in Mooring yet", OF_SCHEDULERS - EFFECTIVE),
        ("Feature gates have an effect in the embedded cluster only", OF_EMBEDDED),
        ("Feature gates have no effect in a scheduler", GATES.keys() - OF_SCHEDULERS - OF_EMBEDDED),
    ):
        listed = [gate for gate in changed if gate.partition("=")[0] in names]
        if listed:
            yield text, listed


def _choices(text: str) -> Iterator[tuple[str, bool]]:
    """Name and value of each entry in `--feature-gates`; raises GateError with upstream's words."""
    parts = list(filter(None, (part.strip() for part in text.split(","))))
    if len({":" in part.partition("=")[0] for part in parts}) > 1:
        raise GateError(_MIXED)
    for part in parts:
        component, colon, gate = part.partition(":")
        if colon and component.strip() != _COMPONENT:
            raise GateError(f"component not registered: {component.strip()}")
        name, equals, value = (gate if colon else part).partition("=")
        name, value = name.strip(), value.strip()
        if not equals:
            raise GateError(f"missing bool value for {name}")
        if value not in _TRUE | _FALSE:
            why = f'strconv.ParseBool: parsing "{value}": invalid syntax'
            raise GateError(f"invalid value of {name}={value}, err: {why}")
        yield name, value in _TRUE


def _check_types(chosen: Mapping[str, object]) -> None:
    """Notebooks are not type-checked, and the text "false" would count as true."""
    for name, value in chosen.items():
        if not isinstance(value, bool):
            raise GateError(f"invalid value of {name}={value!r}: must be True or False")


def _check(chosen: Mapping[str, bool]) -> None:
    """Parity: the first gate that is not known ends the check."""
    faults = []
    for name, value in chosen.items():
        if name not in GATES and name not in STAGES:
            faults.append(f"unrecognized feature gate: {name}")
            break
        gate = GATES.get(name)
        if gate is not None and gate.is_locked and value is not gate.default:
            locked = str(gate.default).lower()
            faults.append(f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {locked}")
    if faults:
        raise GateError(aggregated(faults))


def _of_stages(chosen: Mapping[str, bool]) -> dict[str, bool]:
    """Values that AllAlpha and AllBeta give to all gates of their stage. A gate that is set by its own name overrides
    them."""
    stages = {stage: chosen[name] for name, stage in STAGES.items() if name in chosen}
    return {name: stages[gate.stage] for name, gate in GATES.items() if gate.stage in stages}


def _check_needs(gates: Mapping[str, bool]) -> None:
    """Refuse gates that are on while a gate that they depend on is off. Defaults are included: switching one off may
    be enough."""
    faults = [
        f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
        for name in NEEDS
        if (missing := _missing(name, gates))
    ]
    if faults:
        raise GateError(aggregated(faults))


def _missing(name: str, gates: Mapping[str, bool]) -> list[str]:
    """The gates that are off and that a gate needs which is on."""
    return [other for other in NEEDS.get(name, ()) if not gates[other]] if gates[name] else []
