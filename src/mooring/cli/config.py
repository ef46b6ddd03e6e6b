"""`mooring config`: what a KubeSchedulerConfiguration amounts to, before anything runs with it."""

import click
import yaml

from mooring.cli.configured import chosen_gates, configured, feature_gates, registry_with
from mooring.cli.refusal import refusals
from mooring.cli.table import format_table
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.feature_gates import told_gates
from mooring.framework.config.written import as_object
from mooring.framework.profiles import Profile, build_profiles

EPILOG = """
\b
Examples:
  mooring config check scheduler.yaml          would kube-scheduler take it? exit status 2 if not, with its words
  mooring config defaults scheduler.yaml       the same with all defaults in it
  mooring config defaults                      what a scheduler runs with that was given no file
  mooring config explain scheduler.yaml        the plugins of each profile, in the order in which they are asked
"""

_file = click.argument("file", required=False)
_plugins = click.option(
    "--plugin", "plugins", multiple=True, metavar="FILE.py", help="A Python file with your plugins."
)


@click.group(epilog=EPILOG, short_help="Check, complete and explain a scheduler configuration.")
def config() -> None:
    """Check, complete and explain a KubeSchedulerConfiguration. Without a file, that of a scheduler without one."""


@config.command()
@_file
@feature_gates
@_plugins
def check(file: str | None, feature_gates: str, plugins: tuple[str, ...]) -> None:
    """Say whether kube-scheduler would take FILE, and what is wrong with it if not."""
    _build(file, feature_gates, plugins)
    click.echo(f"{file or 'the default configuration'}: ok")
    for text, told in told_gates(chosen_gates(feature_gates)):
        click.echo(f"{text}: {', '.join(told)}")


@config.command()
@_file
@feature_gates
@_plugins
def defaults(file: str | None, feature_gates: str, plugins: tuple[str, ...]) -> None:
    """Print the effective configuration, with all defaults."""
    effective, _ = _build(file, feature_gates, plugins)
    click.echo(yaml.safe_dump(as_object(effective)), nl=False)


@config.command()
@_file
@feature_gates
@_plugins
def explain(file: str | None, feature_gates: str, plugins: tuple[str, ...]) -> None:
    """Print the plugins of each profile by extension point, in the order of execution."""
    _, profiles = _build(file, feature_gates, plugins)
    parts = []
    for name, profile in profiles.items():
        rows = [
            (point if i == 0 else "", plugin)
            for point, names in profile.describe().items()
            for i, plugin in enumerate(names)
        ]
        parts.append(f"Profile {name}\n{format_table(('POINT', 'PLUGIN (*weight)'), rows)}")
    click.echo("\n\n".join(parts))


def _build(
    file: str | None, feature_gates: str, plugins: tuple[str, ...]
) -> tuple[KubeSchedulerConfiguration, dict[str, Profile]]:
    gates = chosen_gates(feature_gates)
    with refusals(file or "configuration", plugins):
        effective = configured(file, gates)
        return effective, build_profiles(effective, registry_with(plugins), gates)
