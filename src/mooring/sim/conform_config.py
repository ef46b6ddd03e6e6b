"""Mode `config` of the conformance run: what becomes of a configuration, and which plugins it makes run where."""

from typing import Any

from mooring.framework.config import ConfigError, default, from_object
from mooring.framework.profiles import build_profiles
from mooring.framework.registry import Registry


def answer(scenario: dict[str, Any], registry: Registry) -> dict[str, Any]:
    """The answer line for one scenario; its form is fixed by the README of the corpus."""
    name, written = scenario["name"], scenario["config"]
    try:
        config = default() if written is None else from_object(written)
        profiles = build_profiles(config, registry)
    except ConfigError as error:
        return {"name": name, "stage": error.stage, "error": str(error)}
    return {"name": name, "stage": "ok", "plugins": {key: profile.describe() for key, profile in profiles.items()}}
