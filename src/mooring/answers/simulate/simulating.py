"""Runs simulations of a loaded cluster and makes answers of their reports."""

import time
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from mooring.answers.explain.cure_search import DECISIONS
from mooring.answers.explain.explain import explain_group, explain_pod
from mooring.answers.explain.explanation import GroupExplanation, PodExplanation
from mooring.answers.form.utilisation import utilisation_of, zone_of
from mooring.answers.simulate.day_answer import DayAnswer
from mooring.answers.simulate.simulation_answer import SimulationAnswer
from mooring.answers.simulate.simulation_tables import mean_uses
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.answers.trial.group_trials import group_of
from mooring.inputs.arrivals import Arrival
from mooring.inputs.generated_load import GeneratedLoad
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.callbacks import Progress
from mooring.model.node import Node
from mooring.scheduler.decision import Placement
from mooring.sim.day import Day, DayReport
from mooring.sim.gauge import StayFile
from mooring.sim.results import Report
from mooring.sim.simulated_cluster import RecordTo
from mooring.sim.simulation import UNTIL_NS, Simulation


def place_pending(
    loaded: LoadedCluster,
    explain: str | Sequence[str] | None = None,
    *,
    story: str | None = None,
    until_ns: int | None = None,
    on_progress: Progress | None = None,
    record_to: RecordTo | None = None,
) -> SimulationAnswer:
    """Place all pending pods at one moment. `explain` and `story` name pods. `record_to` makes a recorder.

    Raises NoSuchPod, ConfigError, and InputError for objects that contradict each other.
    """
    simulation = Simulation(loaded.objects, loaded.config, loaded.registry, loaded.gates, loaded.ties, record_to)
    report = simulation.run(explain, on_progress, story, UNTIL_NS if until_ns is None else until_ns)
    report.notes = [*loaded.notes, *report.notes]
    answers = _answers(report, replace(loaded, objects=simulation.objects(), queue=None)) if report.explanations else {}
    nodes = simulation.cluster.nodes
    zones = {node.name: zone for node in nodes.nodes if node is not None and (zone := zone_of(node))}
    return SimulationAnswer(
        **_fields_of(report, Report), utilisation=utilisation_of(nodes), zones=zones, answers=answers
    )


def _answers(report: Report, after: LoadedCluster) -> dict[str, PodExplanation | GroupExplanation]:
    """By key, for explained pods that have no node in the end: the answer of `mooring explain`."""
    waiting = {pod.key: pod for pod in after.pending()}
    groups: dict[str, GroupExplanation] = {}
    answers: dict[str, PodExplanation | GroupExplanation] = {}
    trials: Counterfactual | None = None
    for each in report.explanations:
        key = each.pod.key
        group = group_of(after, waiting[key]) if key in waiting else None
        if group is not None:
            if group.key not in groups:
                groups[group.key] = explain_group(after, group, decisions=DECISIONS)
            answers[key] = replace(groups[group.key], asked=key)
        elif not isinstance(each.decision, Placement):
            trials = trials or Counterfactual(after)
            # Without the history: the story tells it better.
            answers[key] = replace(explain_pod(trials, after.pod(key)), history=())
    return answers


def run_day(
    loaded: LoadedCluster,
    arrivals: Sequence[Arrival] | GeneratedLoad,
    *,
    story: str | None = None,
    until_ns: int | None = None,
    file: StayFile | None = None,
    on_progress: Progress | None = None,
    record_to: RecordTo | None = None,
) -> DayAnswer:
    """Let pods arrive over time; a generated load brings its nodes and its end. `file` gets a line for each pod.

    Raises NoSuchPod, ConfigError, and InputError for objects that contradict each other.
    """
    begin_s = time.perf_counter()
    objects, end_ns, is_generated = list(loaded.objects), until_ns, isinstance(arrivals, GeneratedLoad)
    if isinstance(arrivals, GeneratedLoad):
        objects += arrivals.nodes
        end_ns = arrivals.over_ns if until_ns is None else until_ns
    settings = loaded.config, loaded.registry, loaded.gates
    day = Day(objects, arrivals, *settings, names_placements=not is_generated, ties=loaded.ties, record_to=record_to)
    report = day.run(end_ns, on_progress, story, file)
    report.notes = [*loaded.notes, *report.notes]
    nodes = (item for item in objects if isinstance(item, Node))
    return DayAnswer(
        **_fields_of(report, DayReport),
        mean_uses=mean_uses(report.node_means, report.placed_by_node, nodes),
        took_s=time.perf_counter() - begin_s,
        is_generated=is_generated,
    )


def _fields_of(report: object, kind: type) -> dict[str, Any]:
    return {each.name: getattr(report, each.name) for each in fields(kind)}
