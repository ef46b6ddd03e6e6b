"""Which runs a study has, and which of them are wanted."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mooring.answers.experiments.run_plan import MAX_RUNS
from mooring.answers.study.study_file import ONE_BY_ONE, OPTIMAL, Study, StudyError, WorkloadEntry
from mooring.inputs.field_checks import nearest
from mooring.kit.words import count

CHOICES = ("cluster", "workload", "policy", "seed", "load")
"""The names that `--only` takes."""


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """One run. Clusters, workloads and configurations are given by their place in the study."""

    name: str
    """Unique in a study."""
    cluster: int
    workload: int
    config: int | None
    """None: the run is a bound of all policies."""
    seed: int
    load: float


def plan_study(study: Study, only: Mapping[str, Sequence[str]] | None = None, bound: bool = False) -> list[StudyPlan]:
    """All runs that are wanted: the first cluster first, then workload by workload; seeds vary fastest. With `bound`, the
    policies of a workload are followed by their bound. Raises StudyError."""
    if bound:
        _check_bound(study)
    parts = (study.clusters, study.workloads, study.configurations, study.loads, study.seeds)
    runs = math.prod(len(part) for part in parts)
    if runs > MAX_RUNS:
        raise StudyError(f"{count(runs, 'run')} are more than {MAX_RUNS}: write a smaller study")
    wanted = _wanted(study, only or {}, bound)
    if bound and "policy" in wanted:
        wanted["policy"].add(OPTIMAL)  # it was asked for, and choices are about the policies that it is compared with
    plans = [
        plan for plan in _plans(study, bound) if all(_shown(study, plan)[name] in kept for name, kept in wanted.items())
    ]
    if not plans:
        raise StudyError("--only leaves no run of the study: choose values that belong together")
    return plans


def _check_bound(study: Study) -> None:
    if not any(metric.is_bounded for metric in study.metrics):
        raise StudyError("--bound: no metric is `allocated` at the end; add one, such as {allocated: cpu}")
    if not any(map(_is_bounded, study.workloads)):
        raise StudyError(f"--bound: no workload arrives {ONE_BY_ONE}; others have no bound")
    if any(each.name == OPTIMAL for each in study.configurations):
        raise StudyError(f"--bound: a configuration has the name {OPTIMAL}, which the bound has; write another name")


def _is_bounded(entry: WorkloadEntry) -> bool:
    return entry.arrive == ONE_BY_ONE


def _plans(study: Study, bound: bool) -> Iterator[StudyPlan]:
    counted = (range(len(part)) for part in (study.clusters, study.workloads))
    configs = [*range(len(study.configurations)), *((None,) if bound else ())]
    for cluster, workload, config in itertools.product(*counted, configs):
        if config is None and not _is_bounded(study.workloads[workload]):
            continue
        for load, seed in itertools.product(study.loads, study.seeds):
            plan = StudyPlan("", cluster, workload, config, seed, load)
            yield StudyPlan(" ".join(_shown(study, plan).values()), cluster, workload, config, seed, load)


def _shown(study: Study, plan: StudyPlan) -> dict[str, str]:
    """By name of a choice: the value of the run."""
    names = study.names(plan.cluster, plan.workload, plan.config)
    return dict(zip(CHOICES, (*names, str(plan.seed), f"{plan.load:g}"), strict=True))


def _wanted(study: Study, only: Mapping[str, Sequence[str]], bound: bool) -> dict[str, set[str]]:
    """By name of a choice: the values that are wanted. Raises StudyError for a value that the study does not have."""
    known = {
        "cluster": [each.name for each in study.clusters],
        "workload": [each.name for each in study.workloads],
        "policy": [*(each.name for each in study.configurations), *((OPTIMAL,) if bound else ())],
        "seed": [str(seed) for seed in study.seeds],
        "load": [f"{load:g}" for load in study.loads],
    }
    found: dict[str, set[str]] = {}
    for choice, values in only.items():
        if choice not in known:
            meant = nearest(choice, CHOICES)
            hint = f"did you mean {meant}?" if meant else f"write one of {', '.join(CHOICES)}"
            raise StudyError(f"--only {choice}: no such choice; {hint}")
        expanded = [each for value in values for each in _expanded(value)] if choice == "seed" else [*values]
        for value in expanded:
            if value not in known[choice]:
                meant = nearest(value, known[choice])
                hint = f"did you mean {meant}?" if meant else f"it has {', '.join(known[choice][:20])}"
                raise StudyError(f"--only {choice}={value}: the study has no such {choice}; {hint}")
        found[choice] = {*expanded}
    return found


def _expanded(value: str) -> list[str]:
    """`2..4` as 2, 3, 4."""
    between = re.fullmatch(r"(\d{1,18})\.\.(\d{1,18})", value)
    if between is None or int(between[2]) - int(between[1]) > MAX_RUNS:
        return [value]
    return [str(seed) for seed in range(int(between[1]), int(between[2]) + 1)]
