"""`mooring config`: checks, completes and explains a KubeSchedulerConfiguration without running anything."""

from dataclasses import dataclass

import click

from mooring.cli.options import (
    chosen_gates,
    configured,
    examples,
    feature_gates,
    file_option,
    gathered,
    one_context,
    plugin_files,
    registry_with,
)
from mooring.cli.refusal import refusals, refuse
from mooring.cli.report import format_table
from mooring.cli.suggesting_group import SuggestingGroup
from mooring.cli.terminal import tell, tell_blocks, tell_yaml
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.feature_gates import told_gates
from mooring.framework.config.settings import as_object
from mooring.framework.profile.profiles import Profile, build_profiles
from mooring.inputs.input_errors import LiveSourceError

EPILOG = """
\b
Examples:
  mooring config check scheduler.yaml          does kube-scheduler accept it? if not: its errors
  mooring config defaults scheduler.yaml       the configuration with all defaults
  mooring config defaults                      the default configuration
  mooring config explain scheduler.yaml        the plugins of each profile, in their order of execution

\b
Exit status: 0 when kube-scheduler accepts the configuration, 2 when it does not, or when the API server lacks a kind
that every scheduler needs.
"""


@dataclass(frozen=True, slots=True)
class _AskedConfig:
    """The configuration that a command is about; the fields have the names of the options."""

    file: str | None
    feature_gates: str
    plugins: tuple[str, ...]

    def build(self) -> tuple[KubeSchedulerConfiguration, dict[str, Profile]]:
        """The effective configuration and its profiles. Refuses one that kube-scheduler does not accept."""
        gates = chosen_gates(self.feature_gates)
        with refusals(self.file or "configuration", self.plugins):
            effective = configured(self.file, gates)
            return effective, build_profiles(effective, registry_with(self.plugins), gates)


_asked = gathered("asked", _AskedConfig, click.argument("file", required=False), feature_gates, plugin_files)


@click.group(cls=SuggestingGroup, epilog=EPILOG, short_help="Check, complete and explain a scheduler configuration.")
def config() -> None:
    """Check, complete and explain a KubeSchedulerConfiguration. Without FILE, the default one."""


@config.command(
    epilog=examples(
        "mooring config check scheduler.yaml",
        "mooring config check scheduler.yaml --plugin mine.py    with a plugin of your own",
        "mooring config check --context prod                     can it be used on this cluster?",
    )
)
@_asked
@file_option("--kubeconfig", "Also check what the API server of this kubeconfig serves and allows.")
@one_context("Also check the cluster of this context of the kubeconfig; one only.")
def check(asked: _AskedConfig, kubeconfig: str | None, context: str) -> None:
    """Check whether kube-scheduler accepts FILE, and print what is wrong with it if not.

    With --context or --kubeconfig, also list the kinds that the scheduler watches: the version in which the API server
    serves each, and the kinds that it does not serve, or that you may not list. Nothing is written.
    """
    effective, _ = asked.build()
    if effective.tracing is not None:
        refuse(
            f'{asked.file}: strict decoding error: unknown field "tracing": Mooring has this section, kube-scheduler has none'
        )
    tell(f"{asked.file or 'the default configuration'}: ok")
    for text, told in told_gates(chosen_gates(asked.feature_gates)):
        tell(f"{text}: {', '.join(told)}")
    if kubeconfig is not None or context:
        _check_server(asked, kubeconfig, context)


def _check_server(asked: _AskedConfig, kubeconfig: str | None, context: str) -> None:
    """Print what the API server serves and allows. Refuses a server that lacks a required kind."""
    from mooring.inputs.live_clusters import live_kinds  # Hot: the client of the API takes 0.1 s to import

    try:
        found = live_kinds(kubeconfig, context, chosen_gates(asked.feature_gates))
    except LiveSourceError as fault:
        refuse(fault)
    rows = [(each.kind.resource, each.version or "-", each.state()) for each in found.findings]
    tell_blocks([[f"{found.server} {found.release}".rstrip(), *format_table(("RESOURCE", "VERSION", "STATE"), rows)]])
    for each in found.findings:
        if each.refusal is not None and not each.is_fatal:
            tell(f"note: {each.advice()}", err=True)
    if fatal := [each.advice() for each in found.findings if each.is_fatal]:
        refuse(*fatal)


@config.command(
    epilog=examples(
        "mooring config defaults                    the default configuration",
        "mooring config defaults scheduler.yaml     a file with all defaults",
    )
)
@_asked
def defaults(asked: _AskedConfig) -> None:
    """Print the effective configuration, with all defaults."""
    effective, _ = asked.build()
    tell_yaml(as_object(effective), sort_keys=True)


@config.command(epilog=examples("mooring config explain scheduler.yaml"))
@_asked
def explain(asked: _AskedConfig) -> None:
    """Print the plugins of each profile by extension point, in the order of execution."""
    _, profiles = asked.build()
    blocks = []
    for name, profile in profiles.items():
        rows = [
            (point if i == 0 else "", plugin)
            for point, names in profile.describe().items()
            for i, plugin in enumerate(names)
        ]
        blocks.append([f"Profile {name}", *format_table(("POINT", "PLUGIN (*weight)"), rows)])
    tell_blocks(blocks)
