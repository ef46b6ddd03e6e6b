"""The options of commands that make many runs, and how they tell their progress."""

from typing import Any

import click

from mooring.answers.experiments.workers import SweepOptions
from mooring.cli.answering import tell_notes
from mooring.cli.options import file_option
from mooring.cli.terminal import LateBar

PARTS_OF_A_RUN = 1000
"""Progress counts whole numbers, and runs may be few."""


def makes_runs(command: Any) -> Any:
    """The command with the options for processes and results, which have the names of `SweepOptions`."""
    options = (
        click.option(
            "--processes", type=click.IntRange(1), help="How many processes to use.  [default: one for each core]"
        ),
        click.option("--dask", metavar="ADDRESS", help="Run on this Dask cluster (tcp://...). Needs mooring[dask]."),
        file_option("--results", "Write a row for each run (.csv or .parquet); runs it has are not repeated."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def told_runs(bar: LateBar) -> SweepOptions:
    """Shows the progress of runs, and prints notes as they come."""
    return {
        "on_progress": lambda done, total: bar(int(done * PARTS_OF_A_RUN), total * PARTS_OF_A_RUN),
        "on_note": lambda note: tell_notes([note]),
    }
