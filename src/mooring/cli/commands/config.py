"""`mooring config`: checks, completes and explains a KubeSchedulerConfiguration without running anything."""

import click

from mooring.cli.options import (
    SuggestingGroup,
    chosen_gates,
    configured,
    examples,
    feature_gates,
    plugin_files,
    registry_with,
)
from mooring.cli.refusal import refusals, refuse
from mooring.cli.report import format_table
from mooring.cli.terminal import tell, tell_blocks, tell_yaml
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.feature_gates import told_gates
from mooring.framework.config.settings import as_object
from mooring.framework.profile.profiles import Profile, build_profiles

EPILOG = """
\b
Examples:
  mooring config check scheduler.yaml          does kube-scheduler accept it? if not: its errors
  mooring config defaults scheduler.yaml       the configuration with all defaults
  mooring config defaults                      the default configuration
  mooring config explain scheduler.yaml        the plugins of each profile, in their order of execution

\b
Exit status: 0 when kube-scheduler accepts the configuration, 2 when it does not.
"""

_file = click.argument("file", required=False)


@click.group(cls=SuggestingGroup, epilog=EPILOG, short_help="Check, complete and explain a scheduler configuration.")
def config() -> None:
    """Check, complete and explain a KubeSchedulerConfiguration. Without FILE, the default one."""


@config.command(
    epilog=examples(
        "mooring config check scheduler.yaml",
        "mooring config check scheduler.yaml --plugin mine.py    with a plugin of your own",
    )
)
@_file
@feature_gates
@plugin_files
def check(file: str | None, feature_gates: str, plugins: tuple[str, ...]) -> None:
    """Check whether kube-scheduler accepts FILE, and print what is wrong with it if not."""
    effective, _ = _build(file, feature_gates, plugins)
    if effective.tracing is not None:
        refuse(
            f'{file}: strict decoding error: unknown field "tracing": Mooring has this section, kube-scheduler has none'
        )
    tell(f"{file or 'the default configuration'}: ok")
    for text, told in told_gates(chosen_gates(feature_gates)):
        tell(f"{text}: {', '.join(told)}")


@config.command(
    epilog=examples(
        "mooring config defaults                    the default configuration",
        "mooring config defaults scheduler.yaml     a file with all defaults",
    )
)
@_file
@feature_gates
@plugin_files
def defaults(file: str | None, feature_gates: str, plugins: tuple[str, ...]) -> None:
    """Print the effective configuration, with all defaults."""
    effective, _ = _build(file, feature_gates, plugins)
    tell_yaml(as_object(effective), sort_keys=True)


@config.command(epilog=examples("mooring config explain scheduler.yaml"))
@_file
@feature_gates
@plugin_files
def explain(file: str | None, feature_gates: str, plugins: tuple[str, ...]) -> None:
    """Print the plugins of each profile by extension point, in the order of execution."""
    _, profiles = _build(file, feature_gates, plugins)
    blocks = []
    for name, profile in profiles.items():
        rows = [
            (point if i == 0 else "", plugin)
            for point, names in profile.describe().items()
            for i, plugin in enumerate(names)
        ]
        blocks.append([f"Profile {name}", *format_table(("POINT", "PLUGIN (*weight)"), rows)])
    tell_blocks(blocks)


def _build(
    file: str | None, feature_gates: str, plugins: tuple[str, ...]
) -> tuple[KubeSchedulerConfiguration, dict[str, Profile]]:
    gates = chosen_gates(feature_gates)
    with refusals(file or "configuration", plugins):
        effective = configured(file, gates)
        return effective, build_profiles(effective, registry_with(plugins), gates)
