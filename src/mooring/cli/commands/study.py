"""`mooring study`: make the runs that a file describes."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from mooring.answers.study.studying import notebook_text, run_study
from mooring.cli.answering import ShownAnswer, makes_runs, own_output, shows_answer, told_runs
from mooring.cli.options import file_option
from mooring.cli.refusal import refusals, refuse, writing
from mooring.cli.report import writable
from mooring.cli.terminal import LateBar
from mooring.kit.private_files import write_private

RUNS_FAILED = 1
"""The exit status when runs failed."""

EPILOG = """
\b
Examples:
  mooring study examples/studies/fragmentation.yaml --set traces=openb --results runs.csv
                                                                1,020 runs; goes on where it was stopped
  mooring study examples/studies/fragmentation.yaml --set traces=openb --only workload=default --only seed=1,2
                                                                only some of them
  mooring study study.yaml --results runs.parquet --html report.html --notebook runs.ipynb

\b
docs/laboratory.md describes the file. Runs are made on all cores, or on a Dask cluster. A run that fails is a row with the
reason; the others are made. --retry-failed makes such runs again.

\b
Exit status:
  0  all runs were made
  1  some runs failed
  2  the input is invalid, or the results cannot be written
"""


@click.command(epilog=EPILOG, short_help="Runs over clusters, workloads, configurations, seeds and loads, from a file.")
@click.argument("file", metavar="FILE")
@click.option("--set", "values", multiple=True, metavar="NAME=VALUE", help="The value of a parameter of the study.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Make only the runs with these values of cluster, workload, policy, seed or load. Can be given several times.",
)
@makes_runs
@click.option("--retry-failed", is_flag=True, help="Make runs again that failed before, according to --results.")
@click.option(
    "--bound",
    is_flag=True,
    help="Add the policy Optimal: a bound of `allocated` metrics that no placement exceeds. Needs mooring[plan].",
)
@file_option("--notebook", "Also write a notebook (.ipynb) that loads the rows of --results.")
@shows_answer
def study(
    shown: ShownAnswer, file: str, values: tuple[str, ...], only: tuple[str, ...], notebook: str | None, **how: Any
) -> None:
    """Make the runs that FILE describes: every cluster with every workload under every configuration, with every seed and
    load; and show the metrics of the configurations side by side."""
    given, wanted = _pairs("--set", values), _pairs("--only", only)
    if notebook is not None and how["results"] is None:
        refuse("--notebook loads the rows of --results: name that file too")
    target = None if notebook is None else writable(notebook)
    with refusals(file), own_output(), LateBar("studying") as bar:
        answer = run_study(
            file,
            parameters=given,
            only={name: value.split(",") for name, value in wanted.items()},
            **how,
            **told_runs(bar),
        )
    shown.show(answer)
    if target is not None:
        with writing(notebook):
            write_private(target, notebook_text(answer.study, how["results"], target.parent))
    if answer.failures:
        sys.exit(RUNS_FAILED)


def _pairs(option: str, written: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in written:
        name, equals, value = each.partition("=")
        if not equals or not name:
            refuse(f"{option} {each}: no value; write NAME=VALUE")
        if name in found:
            refuse(f"{option} {name}: given twice; write it once")
        found[name] = value
    return found
