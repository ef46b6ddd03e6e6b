"""LeaseCandidates: instances that stand for a lease whose holder the API server picks (coordinated leader election)."""

import re
from collections.abc import Iterator

from mooring.api.api_errors import Cause, field_invalid, field_required, field_unsupported
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import AGE, NAME, Column, KindSpec, field_cell
from mooring.api.validation.field_rules import named
from mooring.model.names import config_key_faults, qualified_name_faults

OLDEST_EMULATION = "OldestEmulationVersion"
_NUMBER = "(0|[1-9][0-9]{0,9})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")
"""A semantic version without a suffix: components finalize their versions."""

Version = tuple[int, int, int]
NO_VERSION: Version = (0, 0, 0)


def version_of(text: object) -> Version | None:
    """A semantic version, or None for anything else. Numbers have at most ten digits."""
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def _faults(item: JsonObject) -> list[Cause]:
    spec = item.get("spec") or {}
    found = [] if spec.get("leaseName") else [field_required("spec.leaseName")]
    return [*found, *_version_faults(spec), *_strategy_faults(spec)]


def _version_faults(spec: JsonObject) -> Iterator[Cause]:
    binary, emulated = spec.get("binaryVersion", ""), spec.get("emulationVersion", "")
    if emulated and version_of(emulated) is None:
        yield field_invalid("spec.emulationVersion", emulated, "must be a valid semantic version")
    if not binary:
        yield field_required("spec.binaryVersion")
    elif version_of(binary) is None:
        yield field_invalid("spec.binaryVersion", binary, "must be a valid semantic version")
    if binary and emulated and (version_of(binary) or NO_VERSION) < (version_of(emulated) or NO_VERSION):
        yield field_invalid("spec.binaryVersion", binary, "must be greater than or equal to `emulationVersion`")


def _strategy_faults(spec: JsonObject) -> Iterator[Cause]:
    strategy = spec.get("strategy", "")
    if not strategy:
        yield field_required("spec.strategy")
        return
    if strategy == OLDEST_EMULATION and (version_of(spec.get("emulationVersion")) or NO_VERSION) == NO_VERSION:
        yield field_required("spec.emulationVersion", "must be specified when `strategy` is 'OldestEmulationVersion'")
    # Parity: the server names the field twice. A strategy with a slash is for controllers of others.
    if "/" in strategy:
        yield from (field_invalid("spec.strategy.strategy", strategy, why) for why in qualified_name_faults(strategy))
    elif strategy != OLDEST_EMULATION:
        yield field_unsupported("spec.strategy.strategy", strategy, (OLDEST_EMULATION,))


LEASE_CANDIDATE = KindSpec(
    *("coordination.k8s.io", "v1beta1", "leasecandidates", "LeaseCandidate"),
    faults=_faults,
    fixed=("spec.leaseName",),
    name_rule=lambda path, name: named(path, name, config_key_faults),
    needs_version=True,
    columns=(
        NAME,
        Column("LeaseName", field_cell("spec.leaseName")),
        Column("BinaryVersion", field_cell("spec.binaryVersion")),
        Column("EmulationVersion", field_cell("spec.emulationVersion")),
        AGE,
    ),
)
