"""Pods that come over time, as Python code gives them: a file, or plain data of the same form."""

import os
from collections.abc import Mapping, Sequence

from mooring.inputs.arrivals import Arrival, arrivals_of, read_arrivals
from mooring.inputs.field_checks import Validation
from mooring.inputs.load_plan import LoadPlan, load_plan_of, read_load_plan
from mooring.inputs.loaded_cluster import Source, Written
from mooring.model.meta import KubeObject


def arrivals_from(
    given: Source | Sequence[Written],
    objects: Sequence[KubeObject],
    gates: Mapping[str, bool] | None = None,
    validation: Validation = Validation.STRICT,
) -> list[Arrival]:
    """The arrivals of a file, or of entries as such a file has them. Raises ArrivalsError."""
    if isinstance(given, str | os.PathLike):
        return read_arrivals(os.fspath(given), objects, validation, gates=gates)
    return arrivals_of(given, objects, gates)


def plan_from(given: Source | Written) -> LoadPlan:
    """The plan of a file, or of a dictionary as such a file has it. Raises LoadPlanError."""
    return read_load_plan(os.fspath(given)) if isinstance(given, str | os.PathLike) else load_plan_of(dict(given))
