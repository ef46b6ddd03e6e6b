"""KubeSchedulerConfiguration v1: read, completed and validated, with upstream's texts for whatever is wrong with it."""

import json
from collections.abc import Mapping
from typing import Any

from mooring.framework.config.decoding import decode
from mooring.framework.config.defaults import apply_defaults
from mooring.framework.config.feature_gates import with_defaults
from mooring.framework.config.problems import ConfigError
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.config.validation import validate

__all__ = ["ConfigError", "KubeSchedulerConfiguration", "default", "from_object", "load"]


def load(
    text: str | bytes, source: str = "", *, feature_gates: Mapping[str, bool] | None = None
) -> KubeSchedulerConfiguration:
    """The configuration that a file holds, ready to build profiles from; raises ConfigError.

    `source` is where the text is from; errors carry it. Gates that are not given have their v1.36 defaults.
    """
    gates = with_defaults(feature_gates)
    try:
        config = decode(_as_text(text))
        apply_defaults(config, gates)
        problems = validate(config, gates)
        if problems:
            raise ConfigError("validate", problems)
    except ConfigError as error:
        error.source = source
        raise
    return config


def from_object(
    obj: Mapping[str, Any], *, feature_gates: Mapping[str, bool] | None = None
) -> KubeSchedulerConfiguration:
    """The configuration that a parsed file holds. It goes through text, so that faults are the same."""
    return load(json.dumps(obj), feature_gates=feature_gates)


def default(*, feature_gates: Mapping[str, bool] | None = None) -> KubeSchedulerConfiguration:
    """The configuration of a scheduler that runs without a file."""
    config = KubeSchedulerConfiguration()
    apply_defaults(config, with_defaults(feature_gates))
    return config


def _as_text(text: str | bytes) -> str:
    """A byte order mark is dropped. Text that is not UTF-8 is refused with the words of upstream's YAML parser."""
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("decode", ["yaml: invalid leading UTF-8 octet"]) from None
