"""What several commands take: a scheduler configuration and plugin files."""

from collections.abc import Mapping, Sequence

import click

from mooring.app.assembly import all_plugins
from mooring.cli.refusal import refuse
from mooring.framework import config as configuration
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.feature_gates import GateError, parse_gates
from mooring.framework.registry import Registry, load_file

feature_gates = click.option(
    "--feature-gates", default="", metavar="Name=true,...", help="As kube-scheduler takes them."
)


def configured(path: str | None, gates: Mapping[str, bool] | None = None) -> KubeSchedulerConfiguration:
    """The configuration in a file, or upstream's default. Raises ConfigError."""
    if path is None:
        return configuration.default(feature_gates=gates)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
    return configuration.load(text, path, feature_gates=gates)


def chosen_gates(text: str) -> dict[str, bool]:
    """All feature gates, as `--feature-gates` chooses them."""
    try:
        return parse_gates(text)
    except GateError as fault:
        refuse(fault)


def registry_with(plugin_files: Sequence[str]) -> Registry:
    """All plugins, and those of these files. Raises RegistryError."""
    registry = all_plugins()
    for file in plugin_files:
        load_file(registry, file)
    return registry
