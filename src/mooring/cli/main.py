"""`mooring`: the command line."""

import sys
from typing import BinaryIO

import click
import msgspec

from mooring.cli.simulate import simulate


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mooring")
def main() -> None:
    """A Kubernetes scheduler: kube-scheduler's decisions, faster, explained and simulated."""


main.add_command(simulate)


@main.command()
@click.argument("mode", type=click.Choice(["decide", "compact", "config"]))
def conform(mode: str) -> None:
    """Answer conformance scenarios: one JSON scenario a line on stdin, one answer a line on stdout."""
    from mooring.sim.conform import answer_all

    for line in answer_all(mode, sys.stdin.buffer):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


@main.command()
@click.argument("scenario", type=click.File("rb"))
def bench(scenario: BinaryIO) -> None:
    """Attempt every pod of SCENARIO once and print the throughput as one line of JSON."""
    from mooring.sim.bench import measure

    click.echo(msgspec.json.encode(measure(scenario.read())).decode())


if __name__ == "__main__":
    main()
