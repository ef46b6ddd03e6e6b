"""The question of `mooring study`: make the runs that a file describes."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Unpack

from mooring.answers.experiments.sweep import Sweep, SweepOptions
from mooring.answers.study.study_answer import StudyAnswer
from mooring.answers.study.study_file import ONE_BY_ONE, Study, StudyError, read_study
from mooring.answers.study.study_inputs import Digests
from mooring.answers.study.study_metrics import PYTHON, function_of
from mooring.answers.study.study_plan import StudyPlan, plan_study
from mooring.answers.study.study_rows import StudyRows
from mooring.answers.study.study_run import StudyExperiment
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
