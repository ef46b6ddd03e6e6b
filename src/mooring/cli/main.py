"""`mooring`: the command line. Each module of `cli/commands` is a command."""

import io
import pkgutil
import sys
from importlib import import_module

import click

from mooring.cli import commands
from mooring.kit.process import without_collector
from mooring.kit.version import VERSION

EPILOG = """
\b
Examples:
  mooring simulate examples/cluster.yaml                where do the pending pods go?
  mooring explain -n shop cart-7d9f                     why is it pending, and what would place it?
  mooring what-if --drain topology.kubernetes.io/zone=b what happens if this zone is drained?
  mooring plan --offer offers.yaml                      which nodes should I buy?
  mooring up                                            a cluster on this machine, for kubectl
  mooring run --config scheduler.yaml                   instead of kube-scheduler
  mooring replay ./recording --pod shop/cart-7d9f       why did it land there last night?
  mooring COMMAND --help                                examples of each command
"""


class Commands(click.Group):
    """The modules of `mooring.cli.commands`. Each is imported only when its command runs, so that commands start quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        name = cmd_name.replace("-", "_")
        with without_collector():
            command: click.Command = getattr(import_module(f"{commands.__name__}.{name}"), name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(VERSION, prog_name="mooring")
def main() -> None:
    """A Kubernetes scheduler: kube-scheduler's decisions, faster, explained and simulated."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a character that the terminal cannot encode is shown escaped


if __name__ == "__main__":
    main()
