"""The question of `mooring compare`: how do several configurations do on the same cluster?"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Unpack

import msgspec

from mooring.answers.experiments.compared_run import RunInputs, RunResult
from mooring.answers.experiments.comparison import (
    NODES,
    PRICE_AN_HOUR,
    PRICE_OF_TIME,
    ComparedRun,
    Comparison,
    PlacementDifference,
)
from mooring.answers.experiments.figures import COMPARED, PlacementTable, RunFigures, flat_figures, unpack
from mooring.answers.experiments.results_file import RUN
from mooring.answers.experiments.run_plan import RunPlan, UnusablePlan, plan_runs
from mooring.answers.experiments.workers import Sweep, SweepOptions, is_portable
from mooring.framework.config import ConfigError, KubeSchedulerConfiguration
from mooring.framework.config.durations import parse_duration
from mooring.inputs.arrivals import Arrival, read_arrivals
from mooring.inputs.configuration_files import configuration_of
from mooring.inputs.load_plan import LoadPlan, read_load_plan
from mooring.inputs.loaded_cluster import Config, LoadedCluster, Source, Written
from mooring.inputs.offers.offer_files import asked_prices
from mooring.kit.version import VERSION
from mooring.model.pod import Pod
from mooring.state.scheduler_assembly import build_runners

DEFAULT, CLUSTER = "default", "cluster"
"""Names of configurations that are no files: the built-in one, and the one that the cluster was loaded with."""
LISTED_NODES = 1_000_000
"""How many nodes `differences` has in all, pods times runs. What is beyond is counted, but not listed."""

COMPARED_NODES = 50_000_000
"""How many nodes are compared, pods times runs: 4 bytes each. Of more, only digests of the placements are."""

AnyConfig = Config | KubeSchedulerConfiguration
Configs = Sequence[AnyConfig | tuple[str, AnyConfig]] | Mapping[str, AnyConfig]
"""Configurations to compare, which may have names."""


def compare(
    cluster: LoadedCluster,
    configs: Configs = (),
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    arrivals: Source | Sequence[Written] | Sequence[Arrival] | None = None,
    generate: Source | Written | LoadPlan | None = None,
    until: float | str | None = None,
    prices: Source | Mapping[str, float] | None = None,
    **how: Unpack[SweepOptions],
) -> Comparison:
    """Run the same cluster under several configurations; `QuestionedCluster.compare` says what the arguments mean.

    Raises UnusablePlan, ConfigError, InputError, ArrivalsError, LoadPlanError, UnusableResults and RunFault, all of which are
    a ValueError.
    """
    if arrivals is not None and generate is not None:
        raise UnusablePlan("generate: cannot be used with arrivals; choose one of the two")
    inputs = RunInputs(
        cluster.objects,
        None if arrivals is None else _arrivals(arrivals, cluster),
        generate if generate is None or isinstance(generate, LoadPlan) else read_load_plan(generate),
        cluster.gates,
        tuple(dict.fromkeys(cluster.registry.files.values())),
        until_ns(until),
        asked_prices(prices),
        cluster.registry,
    )
    named = [*_named_configs(configs, cluster)]
    plans = plan_runs(named, vary or {}, cluster.gates, inputs.is_day)
    _check(plans, inputs)

    def digests() -> tuple[str, list[str]]:
        common = inputs.digest(VERSION)
        return common, [plan.digest(common) for plan in plans]

    sweep = Sweep(inputs, plans, CompareRows(), how, digests, inputs.pods_per_run(), is_portable(inputs.own_registry))
    return comparison_of(inputs, plans, sweep.run(), sweep.notes)


# ---- inputs


def _arrivals(given: Source | Sequence[Written] | Sequence[Arrival], cluster: LoadedCluster) -> list[Arrival]:
    if isinstance(given, str | os.PathLike):
        return read_arrivals(given, cluster.objects, cluster.gates)
    made = [item for item in given if isinstance(item, Arrival)]
    return made or read_arrivals(
        [item for item in given if not isinstance(item, Arrival)], cluster.objects, cluster.gates
    )


def until_ns(until: float | str | None) -> int | None:
    """When a simulation ends on its clock. Raises UnusablePlan for what is no duration."""
    found = parse_duration(until)
    if until is not None and found is None:
        raise UnusablePlan(f"until: Invalid value: {until!r}: must be seconds, or a duration such as 90s, 15m, 24h")
    return found


def _named_configs(configs: Configs, cluster: LoadedCluster) -> Iterator[tuple[str, KubeSchedulerConfiguration]]:
    listed = [*configs.items()] if isinstance(configs, Mapping) else configs
    for i, each in enumerate(listed or (CLUSTER,), 1):
        name, config = each if isinstance(each, tuple) else (_name(each, i), each)
        yield name, _configuration(config, cluster)


def _name(config: AnyConfig, number: int) -> str:
    return config_name(os.fspath(config)) if isinstance(config, str | os.PathLike) else f"config-{number}"


def config_name(path: str) -> str:
    """A file is known by its name without folder and ending."""
    return path if path in (DEFAULT, CLUSTER) else PurePath(path).stem


def _configuration(config: Config | KubeSchedulerConfiguration, cluster: LoadedCluster) -> KubeSchedulerConfiguration:
    if isinstance(config, KubeSchedulerConfiguration):
        return config
    if config == CLUSTER:
        return cluster.config
    return configuration_of(None if config == DEFAULT else config, cluster.gates)


def _check(plans: Sequence[RunPlan], inputs: RunInputs) -> None:
    """Build every profile and find all prices now: a sweep should not fail after an hour. Raises ConfigError, InputError."""
    _ = inputs.node_prices
    built: set[str] = set()
    for plan in plans:
        if plan.config_digest not in built:
            built.add(plan.config_digest)
            try:
                build_runners(plan.config, inputs.own_registry, gates=inputs.gates)
            except ConfigError as error:
                error.source = plan.name
                raise


# ---- the answer


def comparison_of(
    inputs: RunInputs, plans: Sequence[RunPlan], results: Sequence[RunResult], notes: Sequence[str]
) -> Comparison:
    """Runs side by side."""
    listed = LISTED_NODES // len(plans)
    moved, differing, differences = _differences(inputs, results, listed)
    runs = [
        ComparedRun(plan, result.figures, result.placements_digest, None if moved is None else moved[i])
        for i, (plan, result) in enumerate(zip(plans, results, strict=True))
    ]
    unit = (PRICE_OF_TIME if inputs.is_day else PRICE_AN_HOUR) if inputs.node_prices else NODES
    said = [*notes, *_run_notes(runs)]
    if moved is None:
        said.append("there are so many pods that only digests of their placements were kept")
    elif len(differences) < differing:
        said.append(f"differences has {len(differences)} of {differing} pods")
    return Comparison(runs, differences, None if moved is None else differing, unit, said)


def _differences(
    inputs: RunInputs, results: Sequence[RunResult], most: int
) -> tuple[list[int] | None, int, list[PlacementDifference]]:
    """For each run how many pods it places otherwise than the first, or None if only digests are known; how many pods
    differ; and so many of them."""
    cells = sum(result.figures.pods for result in results)
    if cells > COMPARED_NODES or any(not result.placements for result in results):
        return None, 0, []
    before = {item.key: item.spec.node_name for item in inputs.objects if isinstance(item, Pod) and item.spec.node_name}
    table = PlacementTable(before)
    for result in results:
        table.add(unpack(result.placements))
    differing, moved = table.differences(most)
    return table.moved(), differing, [PlacementDifference(pod, nodes) for pod, nodes in moved]


def _run_notes(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """The notes of runs, each once; with the run where not all say the same."""
    for note in dict.fromkeys(note for run in runs for note in run.figures.notes):
        saying = [run.plan.name for run in runs if note in run.figures.notes]
        yield (
            note if len(saying) == len(runs) else f"{', '.join(saying[:3])}{', ...' if len(saying) > 3 else ''}: {note}"
        )


# ---- the rows of the results file: `figures` (JSON) and `placements` (packed) have all that an answer needs

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
