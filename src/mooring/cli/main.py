"""`mooring`: the command line."""

import io
import sys
from importlib import import_module
from typing import BinaryIO

import click
import msgspec

from mooring.cli.refusal import refusals, refuse

EPILOG = """
\b
Examples:
  mooring simulate examples/cluster.yaml                where do the pending pods go?
  mooring simulate examples/cluster.yaml --explain giant
  mooring up                                            a cluster on this machine, for kubectl
  mooring run --config scheduler.yaml                   instead of kube-scheduler
  mooring COMMAND --help                                examples of each command
"""

CONFORM_EPILOG = """
\b
Examples:
  echo '{"name": "one", "config": null}' | mooring conform config
  python tests/conformance/check.py tests/conformance --only mixed,timeline -- mooring conform

The answer to a line that cannot be used is its error; the next line is read.
tests/conformance/README.md describes scenarios and answers.

Exit status: 0 at the end of the input, 2 for input that cannot be read.
"""

BENCH_EPILOG = """
\b
Examples:
  python tests/conformance/workloads.py basic 5000 1000 3000 > basic.json
  mooring bench basic.json
  make bench                                            all workloads of docs/parity.md

Exit status: 0 when all pods were attempted, 2 for a scenario that cannot be used.
"""


class Commands(click.Group):
    """Commands in files of their own, each imported when it is asked for: a scheduler should start quickly."""

    FILES = ("simulate", "up", "nodes", "run", "snapshot", "config")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.FILES, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.FILES:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(f"mooring.cli.{cmd_name}"), cmd_name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(package_name="mooring")
def main() -> None:
    """A Kubernetes scheduler: kube-scheduler's decisions, faster, explained and simulated."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter shows its number


@main.command(epilog=CONFORM_EPILOG, short_help="Answer scenarios of the conformance corpus.")
@click.argument("mode", type=click.Choice(["decide", "compact", "timeline", "config"]))
def conform(mode: str) -> None:
    """Answer conformance scenarios: one JSON scenario a line on stdin, one answer a line on stdout."""
    from mooring.sim.conform import answer_all

    with refusals():
        for line in answer_all(mode, sys.stdin.buffer):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


@main.command(epilog=BENCH_EPILOG, short_help="Measure the throughput of a scenario.")
@click.argument("scenario", type=click.File("rb"))
@click.option("--queue", is_flag=True, help="Measure with queue, cache and events; attempt preemptors again.")
def bench(scenario: BinaryIO, queue: bool) -> None:
    """Attempt every pod of SCENARIO once and print the throughput as one line of JSON."""
    from mooring.sim.bench import measure, measure_with_queue
    from mooring.sim.scenario import ScenarioError

    with refusals():
        try:
            figures = (measure_with_queue if queue else measure)(scenario.read())
        except ScenarioError as error:
            refuse(f"{scenario.name}: {error}")
    click.echo(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main()
