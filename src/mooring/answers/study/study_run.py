"""One run of a study, and the experiment that workers make runs of."""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from mooring.answers.experiments.compared_run import RunResult, run_once, use_now
from mooring.answers.experiments.figures import RunFigures, WaitFigures, unpack
from mooring.answers.experiments.run_plan import RunPlan
from mooring.answers.study.study_bound import bound_of
from mooring.answers.study.study_file import BY_NAME, BY_SEED, ONE_BY_ONE, SHUFFLED, Study
from mooring.answers.study.study_inputs import StudyCluster, StudyInputs, StudyWorkload, arriving_pods, fitted
from mooring.answers.study.study_metrics import FRAGMENTED, StudiedRun, amount_in, values_at
from mooring.answers.study.study_plan import StudyPlan
from mooring.framework.config import ConfigError
from mooring.inputs.input_errors import InputError
from mooring.kit.callbacks import Progress
from mooring.kit.process import relax_collector
from mooring.model.pod import Pod
from mooring.scheduler.ties import TieBreak, by_seed, first_row, lowest_name
from mooring.sim.fragmentation import FilteringCluster, fragmentation_of
from mooring.sim.scenario import OneByOne
from mooring.sim.simulated_cluster import SimulatedCluster

_EVERY = 256
"""How many pods arrive between two reports of progress."""
TIES: Mapping[str, TieBreak] = {BY_SEED: by_seed, BY_NAME: lowest_name, SHUFFLED: first_row}
"""The rules of a configuration for nodes with the same score."""
Values = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class StudyResult:
    """The metrics of a run by column, or why it failed."""

    values: Values
    pods: int | None = None
    """How many pods arrived."""
    failed: str = ""
    bound: str = ""
    """For a bound of the policies: exact, or relaxation."""


@dataclass
class StudyExperiment:
    """The runs of a study. Other processes load its files again, so they need them under the same paths."""

    study: Study
    _inputs: StudyInputs | None = field(default=None, repr=False, compare=False)

    @property
    def inputs(self) -> StudyInputs:
        if self._inputs is None:
            relax_collector()  # Hot: a full collection visits the pods of all workloads that are kept
            self._inputs = StudyInputs(self.study)
        return self._inputs

    def run(self, plan: StudyPlan, on_progress: Progress | None = None) -> StudyResult:
        """The metrics of a run. A run that fails ends no other: whatever it raises is its result."""
        try:
            if plan.config is None:
                return _bounded(self.inputs, plan)
            is_stream = self.study.workloads[plan.workload].arrive != ONE_BY_ONE
            return (_simulated if is_stream else _one_by_one)(self.inputs, plan, on_progress)
        except (ConfigError, InputError) as error:
            return self.failed(plan, "; ".join(str(problem) for problem in error.problems))
        except Exception as error:  # a plugin or a metric of a user may raise anything
            return self.failed(plan, _described(error))

    def failed(self, plan: StudyPlan, reason: str) -> StudyResult:
        return StudyResult({}, failed=" ".join(reason.split()) or "the run failed")

    def __getstate__(self) -> dict[str, Any]:
        return {"study": self.study, "_inputs": None}


def _bounded(inputs: StudyInputs, plan: StudyPlan) -> StudyResult:
    found = bound_of(inputs, plan)
    return StudyResult({**dict.fromkeys(inputs.study.columns), **found.values}, found.pods, bound=found.kind)


def _described(error: Exception) -> str:
    """The error and the line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}, line {frame.lineno}: {type(error).__name__}: {error}"


# ---- pods over time, or all at once


def _simulated(inputs: StudyInputs, plan: StudyPlan, on_progress: Progress | None) -> StudyResult:
    study, run_inputs = inputs.study, inputs.run_inputs(plan)
    workload = inputs.workload(plan.workload, plan.cluster)
    if workload.entry.fit is not None:
        run_inputs.arrivals = fitted(workload, plan)
    if run_inputs.load_plan is not None:
        # Each seed is another load of the same kind.
        run_inputs.load_plan = msgspec.structs.replace(run_inputs.load_plan, seed=plan.seed)
    found: dict[str, float | None] = {}

    def look(simulated: SimulatedCluster, result: RunResult) -> None:
        fragmented = partial(_fragmented, simulated, run_inputs.shapes[0])
        run = _studied(inputs, plan, result.figures, unpack(result.placements), simulated, fragmented)
        found.update(values_at(study.metrics, run))

    config = inputs.config(plan, run_inputs.gates)
    name, ties = study.policy(plan.config), _ties(study, plan)
    run_plan = RunPlan(plan.name, name, config, (), ties, plan.load)
    result = run_once(run_inputs, run_plan, on_progress, look)
    return StudyResult(found, result.figures.pods)


def _ties(study: Study, plan: StudyPlan) -> int | None:
    """The seed that decides among nodes with the same score in a simulation; None: the lowest name is taken. Nodes of a
    simulation keep their order."""
    return plan.seed if study.configuration(plan.config).ties == BY_SEED else None


def _fragmented(asked: FilteringCluster, shapes: Any, resource: str) -> float | None:
    return fragmentation_of(asked, shapes, [resource])[resource]


def _studied(
    inputs: StudyInputs,
    plan: StudyPlan,
    figures: RunFigures,
    placements: Mapping[str, str | None],
    asked: FilteringCluster,
    fragmented: Any,
) -> StudiedRun:
    names = inputs.study.names(plan.cluster, plan.workload, plan.config)
    return StudiedRun(*names, plan.seed, plan.load, figures, placements, asked.cluster, fragmented)


# ---- pods one by one


def _one_by_one(inputs: StudyInputs, plan: StudyPlan, on_progress: Progress | None) -> StudyResult:
    study = inputs.study
    registry = inputs.registry(study.configuration(plan.config))
    cluster, workload = inputs.cluster(plan.cluster), inputs.workload(plan.workload, plan.cluster)
    gates = cluster.loaded.gates
    ties = TIES[study.configuration(plan.config).ties]
    placing = OneByOne(cluster.objects, inputs.config(plan, gates), registry, gates, ties, plan.seed)
    course = _Course(inputs, plan, cluster, workload, placing)
    arriving = [*arriving_pods(workload, plan, placing.cluster)]
    for number, pod in enumerate(arriving):
        placing.place(pod)
        course.arrived(pod)
        if on_progress is not None and number % _EVERY == 0:
            on_progress(number, len(arriving))
    return course.end()


class _Course:
    """Takes the metrics of a run on its way and at its end."""

    def __init__(
        self, inputs: StudyInputs, plan: StudyPlan, cluster: StudyCluster, workload: StudyWorkload, placing: OneByOne
    ) -> None:
        self._inputs, self._plan, self._cluster, self._workload, self._placing = (
            inputs,
            plan,
            cluster,
            workload,
            placing,
        )
        self._pods = 0
        self._asked = 0
        until = workload.entry.until
        self._resource = "" if until is None else until.resource
        room = amount_in(placing.cluster, self._resource, is_requested=False) if self._resource else 0
        percents = sorted({percent for metric in inputs.study.metrics for percent in metric.at}) if room else []
        self._moments = [(percent / 100 * room, percent) for percent in percents]
        self.values: dict[str, float | None] = dict.fromkeys(inputs.study.columns)

    def arrived(self, pod: Pod) -> None:
        """A pod arrived, and was placed or given up."""
        self._pods += 1
        if not self._moments:
            return
        self._asked += pod.shape.request.get(self._resource, 0)
        while self._moments and self._asked >= self._moments[0][0]:
            self._take(self._moments.pop(0)[1])

    def end(self) -> StudyResult:
        self._take(None)
        return StudyResult(self.values, self._pods)

    def _take(self, percent: float | None) -> None:
        placing, metrics = self._placing, self._inputs.study.metrics
        shapes = self._workload.shapes() if any(metric.kind == FRAGMENTED for metric in metrics) else []
        fragmented = partial(_fragmented, placing, shapes)
        figures = self._figures(is_end=percent is None)
        placements: dict[str, str | None] = {**placing.nodes_by_pod} if percent is None else {}
        run = _studied(self._inputs, self._plan, figures, placements, placing, fragmented)
        self.values.update(values_at(metrics, run, percent))

    def _figures(self, is_end: bool) -> RunFigures:
        """The figures of the run; those of nodes only at the end."""
        placing = self._placing
        placed = len(placing.nodes_by_pod)
        used = {*placing.nodes_by_pod.values()} if is_end else set()
        prices = self._cluster.node_prices if is_end else {}
        cost = float(sum(prices[name] for name in sorted(used)) if prices else len(used))
        utilisation = use_now(placing.cluster.nodes) if is_end else {}
        counts = (self._pods, placed, self._pods - placed, 0, placing.attempts)
        return RunFigures(*counts, 0.0, WaitFigures(), [], utilisation, {}, len(used), None, cost)
