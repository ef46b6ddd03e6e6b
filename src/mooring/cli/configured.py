"""What several commands take: a scheduler configuration and plugin files."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout

import click

from mooring.cli.refusal import refuse
from mooring.framework import config as configuration
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.feature_gates import IN_EFFECT, GateError, parse_gates, told_gates
from mooring.framework.config.settings import SchedulerSettings
from mooring.framework.config.types import PluginEntry, Plugins
from mooring.framework.points import QueueSortPlugin
from mooring.framework.registry import Registry, load_file
from mooring.scheduler.assembly import all_plugins

feature_gates = click.option(
    "--feature-gates",
    multiple=True,
    callback=lambda context, option, parts: ",".join(parts),
    metavar="Name=true,...",
    help="In the form of kube-scheduler's flag; may be repeated.",
)


def configured(
    path: str | None, gates: Mapping[str, bool] | None = None, settings: SchedulerSettings | None = None
) -> KubeSchedulerConfiguration:
    """The configuration in a file, or that of a snapshot, or upstream's default. Raises ConfigError."""
    if path is None and settings is not None:
        return configuration.from_object(settings.configuration, feature_gates=gates)
    if path is None:
        return configuration.default(feature_gates=gates)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
    return configuration.load(text, path, feature_gates=gates)


def enable_loaded(config: KubeSchedulerConfiguration, registry: Registry) -> list[str]:
    """Enable the plugins of files that the configuration does not mention, in all profiles. Returns a note for each."""
    notes = []
    for name in registry.files:
        if any(_mentions(profile.plugins, name) for profile in config.profiles):
            continue
        if _sorts(registry, name):
            continue
        for profile in config.profiles:
            profile.plugins.multi_point.enabled.append(PluginEntry(name=name))
        notes.append(f"plugin {name} is enabled in all profiles, because the configuration does not mention it")
    return notes


def idle_plugins(config: KubeSchedulerConfiguration, registry: Registry) -> dict[str, str]:
    """The plugins that were loaded from files and that no profile enables, with their files."""
    enabled = {name for profile in config.profiles for name in profile.plugins.enabled_names()}
    return {name: file for name, file in registry.files.items() if name not in enabled}


def _mentions(plugins: Plugins, name: str) -> bool:
    return any(
        name == entry.name for chosen in plugins.by_point().values() for entry in (*chosen.enabled, *chosen.disabled)
    )


def _sorts(registry: Registry, name: str) -> bool:
    """Whether the plugin orders the queue: a profile has one such plugin, so it cannot be added to the others."""
    factory = registry.factory(name)
    return isinstance(factory, type) and issubclass(factory, QueueSortPlugin)


def chosen_gates(text: str, settings: SchedulerSettings | None = None) -> dict[str, bool]:
    """All feature gates, as `--feature-gates` chooses them; without it, as a snapshot has them."""
    try:
        return parse_gates(text if text or settings is None else settings.gates_text)
    except GateError as fault:
        refuse(fault)


def tell_gates(gates: Mapping[str, bool]) -> None:
    """Say on stderr which of the gates that were chosen count, and which do not."""
    for text, told in told_gates(gates):
        if told and text != IN_EFFECT:
            click.echo(f"{text}: {', '.join(told)}", err=True)


def registry_with(plugin_files: Sequence[str]) -> Registry:
    """All plugins, and those of these files. Raises RegistryError."""
    registry = all_plugins()
    with redirect_stdout(sys.stderr):  # the report alone goes to standard output
        for file in plugin_files:
            load_file(registry, file)
    return registry
