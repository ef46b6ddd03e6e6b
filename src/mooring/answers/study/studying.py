"""The question of `mooring study`: make the runs that a file describes. It keeps their rows, and a notebook."""

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from mooring.answers.experiments.results_file import RUN
from mooring.answers.experiments.workers import Sweep, SweepOptions
from mooring.answers.study.study_answer import StudyAnswer
from mooring.answers.study.study_file import ONE_BY_ONE, Study, StudyError, read_study
from mooring.answers.study.study_inputs import Digests
from mooring.answers.study.study_metrics import PYTHON, function_of
from mooring.answers.study.study_plan import StudyPlan, plan_study
from mooring.answers.study.study_run import StudyExperiment, StudyResult
from mooring.framework.config import ConfigError
from mooring.inputs.loaded_cluster import Source, Written
from mooring.kit.version import VERSION
from mooring.kit.words import some
from mooring.state.scheduler_assembly import build_runners


def run_study(
    study: Source | Written | Study,
    *,
    parameters: Mapping[str, Any] | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    retry_failed: bool = False,
    bound: bool = False,
    **how: Unpack[SweepOptions],
) -> StudyAnswer:
    """Make the runs of a study; `mooring.study` says what the arguments mean.

    Raises StudyError, ConfigError, RegistryError, InputError and UnusableResults, all of which are a ValueError.
    """
    read = study if isinstance(study, Study) else read_study(study, parameters)
    plans = plan_study(read, only, bound)
    digests = Digests(read, VERSION)
    digests.of_all(plans)  # a file that cannot be read is told before anything is loaded
    experiment = StudyExperiment(read)
    _check(experiment, plans)
    how = {**how, "processes": how.get("processes") or read.processes}
    sweep = Sweep(
        experiment,
        plans,
        StudyRows(read, digests, retry_failed),
        how,
        lambda: (digests.of_all(plans), [digests.of(plan) for plan in plans]),
        experiment.inputs.pods_of_a_run(),
    )
    results = sweep.run()
    return StudyAnswer(read, plans, results, [*sweep.notes, *_empty_columns(read)])


def _empty_columns(study: Study) -> Iterator[str]:
    """Says which workloads leave columns empty, because metrics are taken at moments that they do not have."""
    columns = [column for metric in study.metrics if metric.at for column in metric.columns()]
    without = [each.name for each in study.workloads if not each.has_moments]
    if columns and without:
        yield f"{some(columns, 3)} are empty for {some(without, 3)}: only {ONE_BY_ONE} with `until` has such moments"


def _check(experiment: StudyExperiment, plans: Sequence[StudyPlan]) -> None:
    """Load plugins and all files and build every profile now: a study should not fail after an hour."""
    inputs, study = experiment.inputs, experiment.study
    if any(plan.config is None for plan in plans):
        _check_solver()
    for metric in study.metrics:
        if metric.kind == PYTHON:
            function_of(*_split(metric.of))
    for place in dict.fromkeys(plan.cluster for plan in plans):
        inputs.cluster(place)
    seen: set[tuple[int, int, int | None]] = set()
    for plan in plans:
        parts = (plan.cluster, plan.workload, plan.config)
        if parts in seen:
            continue
        seen.add(parts)
        inputs.workload(plan.workload, plan.cluster)
        if plan.config is None:
            continue
        entry = study.configuration(plan.config)
        try:
            gates = inputs.cluster(plan.cluster).loaded.gates
            build_runners(inputs.config(plan, gates), inputs.registry(entry), gates=gates)
        except ConfigError as error:
            raise StudyError(
                "\n".join(f"configuration {entry.name}: {problem}" for problem in error.problems)
            ) from None


def _check_solver() -> None:
    try:
        import_module("scipy.optimize")
    except ImportError as error:
        raise StudyError("--bound needs SciPy: pip install 'mooring[plan]'") from error


def _split(of: str) -> tuple[str, str]:
    file, _, name = of.rpartition(":")
    return file, name


# ---- the rows of the results file: the run, its metrics, and what it takes to run it again

OWN = (RUN, "cluster", "workload", "policy", "seed", "load", "pods", "failed", "bound")
BEHIND = ("study", "configuration", "parameters", "mooring", "python", "numpy")
"""The digest of the file of the study and of the configuration with its plugins, the values of parameters, and versions."""


class StudyRows:
    """A row for each run of a study. `retry` says whether runs that failed are to be made again."""

    command = "mooring study"

    def __init__(self, study: Study, digests: Digests, retry: bool = False) -> None:
        self._study, self._digests, self._retry = study, digests, retry
        self._metrics = study.columns
        self.columns: Sequence[str] = (*OWN, *self._metrics, *BEHIND)
        numbers: dict[str, type[float] | type[int]] = {"seed": int, "load": float, "pods": int}
        self.numbers: Mapping[str, type[float] | type[int]] = {**numbers, **dict.fromkeys(self._metrics, float)}

    def row(self, digest: str, plan: StudyPlan, result: StudyResult) -> dict[str, Any]:
        study = self._study
        names = study.names(plan.cluster, plan.workload, plan.config)
        own = (digest, *names, plan.seed, plan.load, result.pods, result.failed, result.bound)
        parameters = json.dumps(dict(study.parameters), sort_keys=True, default=str)
        versions = (VERSION, platform.python_version(), np.__version__)
        return {
            **dict(zip(OWN, own, strict=True)),
            **{name: result.values.get(name) for name in self._metrics},
            **dict(zip(BEHIND, (study.digest, self._digests.config(plan), parameters, *versions), strict=True)),
        }

    def kept(self, row: Mapping[str, Any]) -> StudyResult | None:
        failed = str(row["failed"] or "")
        if failed and self._retry:
            return None
        pods = row["pods"]
        values = {name: _number(row[name]) for name in self._metrics}
        return StudyResult(values, None if pods in ("", None) else int(pods), failed, str(row["bound"] or ""))


def _number(cell: Any) -> float | None:
    return None if cell in ("", None) else float(cell)


# ---- the notebook, for people who want to look further than the report


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
