"""A notebook that loads the results of a study: for people who want to look further than the report."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mooring.answers.study.study_file import Study


def notebook_text(study: Study, results: str, folder: str | os.PathLike[str]) -> bytes:
    """The notebook of a study whose results are in a file; the notebook itself goes to a folder, from which it finds them."""
    path = Path(os.path.relpath(results, folder)).as_posix()
    cells = [_cell(number, *each) for number, each in enumerate(_cells(study, path))]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    written = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(written, indent=1, ensure_ascii=False) + "\n").encode()


def _cells(study: Study, path: str) -> Iterator[tuple[str, str]]:
    """The kind and the text of each cell."""
    metric, first = study.columns[0], study.configurations[0].name
    reader = "read_parquet" if path.lower().endswith(".parquet") else "read_csv"
    about = f"{study.about}\n\n" if study.about else ""
    yield "markdown", f"# Study {study.name}\n\n{about}A row of `runs` is a run; docs/laboratory.md has its columns."
    yield "code", f"import pandas\n\nruns = pandas.{reader}({path!r})\nruns.head()"
    yield "markdown", "Runs that failed, with the reason."
    yield "code", 'runs[runs["failed"].notna() & runs["failed"].ne("")][["workload", "policy", "seed", "failed"]]'
    yield "markdown", "Mean and standard deviation over the seeds, by workload and configuration."
    yield "code", f'metric = {metric!r}\nruns.pivot_table(metric, "workload", "policy", ["mean", "std"])'
    yield "markdown", f"The difference to {first}, paired by seed."
    by_seed = 'runs.pivot_table(metric, ["workload", "seed"], "policy")'
    yield "code", f'by_seed = {by_seed}\nby_seed.sub(by_seed[{first!r}], axis=0).groupby("workload").mean()'


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    cell["source"] = text.splitlines(keepends=True)
    return {**cell, "execution_count": None, "outputs": []} if kind == "code" else cell
