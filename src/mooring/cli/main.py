"""`mooring`: the command line. Each module of `cli/commands` is a command."""

import io
import os
import pkgutil
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from mooring.cli import commands
from mooring.cli.completion_scripts import VARIABLE, offer_values, register
from mooring.cli.suggesting_group import SuggestingGroup
from mooring.cli.terminal import guarded_output, open_closed_streams, tell_uncaught
from mooring.kit.process import limit_blas_threads, without_collector
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

\b
Exit status: each command lists its own. In all of them, 2 means that the input is invalid or that
the output cannot be written; 141 means that the reader of the output is gone.
"""


class Commands(SuggestingGroup):
    """The modules of `mooring.cli.commands`. Each is imported only when its command runs, so that commands start quickly."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The program itself, as it is installed."""
        open_closed_streams()
        sys.excepthook = tell_uncaught
        return super().__call__(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with guarded_output():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with guarded_output():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return the command. Only the module of the command that runs is imported, so
        that the program starts quickly."""
        if cmd_name not in self.list_commands(ctx):
            return None
        name = cmd_name.replace("-", "_")
        limit_blas_threads()
        with without_collector():
            command: click.Command = getattr(import_module(f"{commands.__name__}.{name}"), name)
        if VARIABLE in os.environ:
            offer_values(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[Any]]":
        """Commands and flags. Hot: to import every command for its help takes 1.2 s, and a user waits for the answer."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=_short_help(name)) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]


def _short_help(name: str) -> str:
    """The `short_help` of a command, as its source has it; empty where there is no source."""
    for folder in commands.__path__:
        path = Path(folder, f"{name.replace('-', '_')}.py")
        if path.is_file() and (told := re.search(r'short_help="([^"]+)"', path.read_text())):
            return told[1]
    return ""


if VARIABLE in os.environ:
    register()


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
