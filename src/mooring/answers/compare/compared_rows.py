"""The rows of the results file of `mooring compare`.

`figures` (JSON) and `placements` (packed) have all that an answer needs; the other columns are for readers.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mooring.answers.experiments.compared_run import RunResult
from mooring.answers.experiments.figures import COMPARED, RunFigures, flat_figures
from mooring.answers.experiments.placement_table import unpack
from mooring.answers.experiments.results_file import RUN
from mooring.answers.experiments.run_plan import RunPlan
from mooring.kit.version import VERSION

OWN = (RUN, "name", "config", "configDigest", "seed", "load", "vary", "version")
KEPT = ("placementsDigest", "figures", "placements")
COLUMNS = (*OWN, *COMPARED, *KEPT)


class CompareRows:
    """A row has a plan, its figures, and where each pod went."""

    command = "mooring compare"
    columns: Sequence[str] = COLUMNS
    numbers: Mapping[str, type[float] | type[int]] = {**dict.fromkeys(COMPARED, float), "load": float, "seed": int}

    def row(self, digest: str, plan: RunPlan, result: RunResult) -> dict[str, Any]:
        figures = msgspec.json.encode(result.figures).decode()
        own = (digest, plan.name, plan.config_name, plan.config_digest, plan.seed, plan.load)
        kept = (result.placements_digest, figures, result.placements)
        return {
            **dict(zip(OWN, (*own, json.dumps(dict(plan.vary), default=str), VERSION), strict=True)),
            **flat_figures(result.figures, COMPARED),
            **dict(zip(KEPT, kept, strict=True)),
        }

    def kept(self, row: Mapping[str, Any]) -> RunResult:
        figures = msgspec.json.decode(row["figures"], type=RunFigures)
        unpack(row["placements"])  # or else it fails when everything else is done
        return RunResult(figures, row["placements"], row["placementsDigest"])
