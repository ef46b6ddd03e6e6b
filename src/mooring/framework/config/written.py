"""A configuration in the form of a file: what `/configz` shows and `--write-config-to` writes."""

from typing import Any

import msgspec

from mooring.framework.config.durations import Duration
from mooring.framework.config.types import KubeSchedulerConfiguration


def as_object(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The v1 object with all defaults in it. What is not set, and has no default, is left out."""
    written: dict[str, Any] = _as_in_a_file(msgspec.to_builtins(config))
    return written


def _as_in_a_file(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_in_a_file(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    if value.keys() == {"nanoseconds"}:
        return str(Duration(value["nanoseconds"]))
    return {key: _as_in_a_file(inner) for key, inner in value.items() if inner is not None}
