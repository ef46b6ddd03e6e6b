"""The configuration of a scheduler as users give it: a file, a dictionary, or none.

It is apart from the readers of manifests, so that `mooring run` does not import them (20 ms).
"""

import os
from collections.abc import Mapping
from typing import Any

from mooring.api.validation.problem import Problem, show
from mooring.framework import config as configuration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.inputs.input_errors import InputError
from mooring.kit.bounded_reading import read_file


def configuration_of(
    config: str | os.PathLike[str] | Mapping[str, Any] | None, gates: Mapping[str, bool] | None
) -> KubeSchedulerConfiguration:
    """The configuration of a file or a dictionary, or upstream's default. Raises ConfigError, and InputError for a
    file that cannot be read."""
    if config is None:
        return configuration.default(feature_gates=gates)
    if isinstance(config, Mapping):
        return configuration.from_object(config, feature_gates=gates)
    if not isinstance(config, str | os.PathLike):
        raise InputError([Problem("config", show(config), "a file or a dictionary")])
    return configuration.load(configuration_text(config), os.fspath(config), feature_gates=gates)


def configuration_text(path: str | os.PathLike[str]) -> bytes:
    """The content of a configuration file. Raises InputError if it cannot be read."""
    try:
        return read_file(path)
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise InputError([Problem("", f"cannot be read: {reason}", file=os.fspath(path))]) from None
