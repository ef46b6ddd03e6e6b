"""The settings of a scheduler as an object among others: a snapshot carries them, so that a simulation decides like
the scheduler that wrote it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.framework.config.durations import Duration
from mooring.framework.config.feature_gates import DEFAULTS, GATES, NEEDS
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.kit.shown_text import shown_url
from mooring.model.release import RULES, RULES_BEFORE

# ---- A configuration in the form of a file


def as_object(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The v1 object with all defaults in it: what `--write-config-to` writes. What is not set, and has no default, is left
    out."""
    written: dict[str, Any] = _as_in_a_file(msgspec.to_builtins(config))
    return written


def as_shown_object(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The v1 object without secrets: what `/configz` shows, and what snapshots and recordings hold. A simulation calls no
    extender, and snapshots are passed on to others."""
    written = as_object(config)
    for extender in written.get("extenders", ()):
        extender.get("tlsConfig", {}).pop("keyData", None)
        extender["urlPrefix"] = shown_url(extender.get("urlPrefix", ""))
    if endpoint := written.get("tracing", {}).get("endpoint"):
        written["tracing"]["endpoint"] = shown_url(endpoint)
    return written


def _as_in_a_file(value: Any) -> Any:
    """Durations as text, whole floats as integers, and nothing that is unset: as `kubectl` and upstream's
    --write-config-to show it."""
    if isinstance(value, list):
        return [_as_in_a_file(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    if value.keys() == {"nanoseconds"}:
        return str(Duration(value["nanoseconds"]))
    return {key: _as_in_a_file(inner) for key, inner in value.items() if inner is not None}


API_VERSION = "mooring.dev/v1"
"""Ours, because upstream has no object that holds configuration and gates together."""
KIND = "SchedulerSettings"


class SchedulerSettings(msgspec.Struct, frozen=True):
    """The configuration, in the form of a file, and the feature gates that differ from their defaults."""

    configuration: Mapping[str, Any]
    gates: Mapping[str, bool] = msgspec.field(default_factory=dict)
    file: str = ""
    """The file that they were read from, for error messages."""
    rules: str = RULES
    """The minor release of Kubernetes by whose rules the scheduler decided."""
    dropped: tuple[str, ...] = ()
    """Feature gates of other rules that do not exist any more, or cannot be changed any more: they have no effect."""

    def notes(self, what: str) -> list[str]:
        """Sentences that a user must know before decisions are compared; `what` has the settings: `the recording`."""
        if self.rules == RULES:
            return []
        gone = (
            f"; without the feature gates {', '.join(self.dropped)}, which {RULES} does not have or has locked"
            if self.dropped
            else ""
        )
        return [
            f"{what} was made with the rules of Kubernetes {self.rules}, and this version of Mooring has those of {RULES}: "
            f"decisions and messages may differ{gone}"
        ]

    @property
    def gates_text(self) -> str:
        """As `--feature-gates` takes them."""
        return ",".join(f"{name}={str(on).lower()}" for name, on in self.gates.items())


def settings_object(config: KubeSchedulerConfiguration, gates: Mapping[str, bool] | None) -> dict[str, Any]:
    """The settings to be written into a snapshot."""
    written = as_shown_object(config)
    chosen = {name: on for name, on in (gates or {}).items() if DEFAULTS.get(name) is not on}
    return {"apiVersion": API_VERSION, "kind": KIND, "rules": RULES, "configuration": written, "featureGates": chosen}


def is_settings(kind: str, api_version: str) -> bool:
    """Whether an object of a snapshot holds settings."""
    return (kind, api_version) == (KIND, API_VERSION)


def read_settings(written: Mapping[str, Any], file: str) -> SchedulerSettings | None:
    """None for an object that has another form: the caller reports it with its place in the file."""
    configuration, gates = written.get("configuration"), written.get("featureGates", {})
    if not isinstance(configuration, dict) or not isinstance(gates, dict):
        return None
    if not all(isinstance(on, bool) for on in gates.values()):
        return None
    rules = written.get("rules", RULES_BEFORE)
    if not isinstance(rules, str):
        return None
    dropped = () if rules == RULES else tuple(sorted(name for name, on in gates.items() if _is_past(name, on)))
    kept = {name: on for name, on in gates.items() if name not in dropped}
    if rules != RULES:
        _switch_off_dependants(kept)
    return SchedulerSettings(configuration, kept, file, rules, dropped)


def _is_past(name: str, on: bool) -> bool:
    """Whether a feature gate of other rules is gone, or is locked to another value."""
    gate = GATES.get(name)
    return gate is None or (gate.is_locked and gate.default is not on)


def _switch_off_dependants(gates: dict[str, bool]) -> None:
    """Switch off gates that are on by default under these rules and depend on a gate that was off under other rules."""
    gates_before = -1
    while gates_before != len(gates):  # one may depend on another
        gates_before = len(gates)
        off = {name for name, on in gates.items() if not on}
        gates |= {
            name: False for name, needed in NEEDS.items() if name not in gates and DEFAULTS[name] and off & {*needed}
        }
