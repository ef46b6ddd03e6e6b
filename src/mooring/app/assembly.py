"""From a configuration to runners, one for each profile."""

from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profiles import build_profiles
from mooring.framework.registry import Registry, load_entry_points
from mooring.framework.runner import Runner
from mooring.plugins.builtin import in_tree


def all_plugins() -> Registry:
    """The plugins that come with Mooring and those that installed packages register."""
    registry = in_tree()
    load_entry_points(registry)
    return registry


def build_runners(config: KubeSchedulerConfiguration, registry: Registry | None = None) -> dict[str, Runner]:
    """A runner for each scheduler name; raises ConfigError where the configuration asks for what cannot be had."""
    profiles = build_profiles(config, registry if registry is not None else all_plugins())
    return {name: Runner(profile) for name, profile in profiles.items()}
