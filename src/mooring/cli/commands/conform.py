"""`mooring conform`: answers of this scheduler to scenarios of the conformance corpus, for tests/conformance/check.py."""

import sys

import click

from mooring.cli.refusal import refusals
from mooring.cli.terminal import tell_json_text

EPILOG = """
\b
Examples:
  echo '{"name": "one", "config": null}' | mooring conform config
  python tests/conformance/check.py tests/conformance --only mixed,timeline -- mooring conform

The answer to an invalid line is its error; the command then reads the next line.
tests/conformance/README.md describes scenarios and answers.

Exit status: 0 at the end of the input, 2 for input that cannot be read.
"""


@click.command(epilog=EPILOG, short_help="Answer scenarios of the conformance corpus.")
@click.argument("mode", type=click.Choice(["decide", "compact", "timeline", "config"]))
def conform(mode: str) -> None:
    """Answer conformance scenarios: one JSON scenario a line on stdin, one answer a line on stdout."""
    from mooring.sim.conform import answer_all

    with refusals():
        for line in answer_all(mode, sys.stdin.buffer):
            tell_json_text(line)
