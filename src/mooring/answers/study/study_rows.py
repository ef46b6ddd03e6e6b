"""The rows of the results file of a study: what the run was, its metrics, and what it takes to run it again."""

import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mooring.answers.experiments.results_file import RUN
from mooring.answers.study.study_file import Study
from mooring.answers.study.study_inputs import Digests
from mooring.answers.study.study_plan import StudyPlan
from mooring.answers.study.study_run import StudyResult
from mooring.kit.version import VERSION

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
        names = (study.clusters[plan.cluster].name, study.workloads[plan.workload].name)
        run = (study.policy(plan.config), plan.seed, plan.load, result.pods, result.failed, result.bound)
        own = (digest, *names, *run)
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
