"""`mooring simulate`: reads input, runs a simulation or a day of arrivals, and prints the report.

Standard output has only the report, which programs may read; notes, warnings, the progress bar and what plugins print go to
standard error.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import Any

import click

from mooring.answers.counterfactual import Counterfactual
from mooring.answers.explain.explain import explain_pod
from mooring.answers.explain.explanation import PodExplanation
from mooring.answers.loaded_cluster import LoadedCluster
from mooring.cli.answering import tables_as_text
from mooring.cli.day_report import day_as_json, day_as_text
from mooring.cli.options import (
    chosen_gates,
    config_file,
    configured,
    enable_loaded,
    feature_gates,
    idle_plugins,
    plugin_files,
    registry_with,
    tell_gates,
)
from mooring.cli.progress import LateBar
from mooring.cli.refusal import refusals, refuse, tracebacks
from mooring.cli.report import as_json, as_tables
from mooring.cli.report import explain as show_explanation
from mooring.cli.report import tell as tell_story
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.registry import Registry
from mooring.kit.process import relax_collector
from mooring.model.kinds import KINDS
from mooring.model.meta import KubeObject
from mooring.model.validation.problem import Problem, show
from mooring.scheduler.decision import Placement
from mooring.sim.day import Day, DayReport
from mooring.sim.day_record import StayFile
from mooring.sim.generated_load import GeneratedLoad
from mooring.sim.reading.arrivals import Arrival, ArrivalsError, parse_duration, read_arrivals
from mooring.sim.reading.field_checks import Validation
from mooring.sim.reading.load_plan import LoadPlanError, read_load_plan
from mooring.sim.reading.manifests import Manifests, read
from mooring.sim.results import Report
from mooring.sim.simulation import UNTIL_NS, Simulation, note_ignored

NOT_ALL_PLACED = 1
"""The exit status with --exit-code."""

DUMPED = [spec.plural for spec in KINDS.values() if spec.watch is None or not spec.watch.needs_groups]
"""All kinds that decisions read, without those of alpha APIs, which hardly any cluster serves."""
DUMP_COMMAND = (
    *(f"kinds={'$kinds,' if i else ''}{','.join(DUMPED[i : i + 5])}" for i in range(0, len(DUMPED), 5)),
    "kubectl get -A -o json $kinds > dump.json",
)
"""The lines of a shell script, short enough for a terminal."""

EPILOG = """
\b
Examples:
  mooring simulate cluster.yaml                         where do the pending pods go?
  mooring simulate dump.json more-pods.yaml             would these fit into my cluster? (dump.json: see below)
  mooring simulate cluster.yaml --explain web-0         why does web-0 go to its node?
  mooring simulate cluster.yaml --story web-0           what happened to web-0, and when?
  mooring simulate cluster.yaml --arrivals day.yaml     how long will these pods wait over a day?
  mooring simulate --generate day.yaml --results r.csv  a generated day of pods: examples/day.yaml has 1,000,000
  mooring simulate cluster.yaml --config packed.yaml    with another scheduler configuration
  mooring simulate cluster.yaml --plugin mine.py        with your own plugin, enabled in all profiles
  kubectl get nodes,pods -A -o json | mooring simulate - -o json | jq '.pods[] | select(.result != "scheduled")'

\b
A dump of all kinds that decisions read (leave out the kinds that your cluster does not serve):
  DUMP_COMMAND

\b
Amounts in JSON are whole numbers: cpu in milli-CPU, memory in bytes, other resources as counted.

\b
Exit status:
  0  the simulation ran
  1  with --exit-code: a pod is pending in the end, or was preempted
  2  the input is invalid
""".replace("DUMP_COMMAND", "\n  ".join(DUMP_COMMAND))


@click.command(epilog=EPILOG, short_help="Place the pending pods of a cluster, explain any of them.")
@click.argument("files", nargs=-1, metavar="FILE...")
@config_file
@plugin_files
@feature_gates
@click.option(
    "--validate",
    type=click.Choice([each.value for each in Validation]),
    default=Validation.STRICT.value,
    show_default=True,
    help="Unknown or repeated fields: refuse the input, warn, or ignore them, as kubectl does.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json"]),
    default="table",
    show_default=True,
    help="Tables, tables with every row and column, or JSON.",
)
@click.option(
    "--explain",
    multiple=True,
    metavar="POD",
    help="Show the verdict and scores of this pod, node by node ([namespace/]name). Can be given several times.",
)
@click.option("--story", metavar="POD", help="Show what happened to this pod, moment by moment ([namespace/]name).")
@click.option(
    "--arrivals",
    metavar="FILE",
    help="Pods that arrive over time and run for a while (YAML or CSV, see docs/simulation.md).",
)
@click.option(
    "--generate",
    metavar="FILE",
    help="Generate nodes, and pods that arrive over time as in public traces (YAML, see docs/simulation.md).",
)
@click.option("--results", metavar="FILE", help="Write a line of CSV for each pod of --arrivals or --generate.")
@click.option("--until", metavar="DURATION", help="Stop after this much simulated time: 90s, 24h.")
@click.option("--debug", is_flag=True, help="Show the traceback of an exception that a plugin raises.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when a pod is pending in the end, or was preempted.")
def simulate(
    files: tuple[str, ...],
    config: str | None,
    plugins: tuple[str, ...],
    feature_gates: str,
    validate: str,
    output: str,
    explain: tuple[str, ...],
    story: str | None,
    arrivals: str | None,
    generate: str | None,
    results: str | None,
    until: str | None,
    debug: bool,
    exit_code: bool,
) -> None:
    """Place the pending pods of a cluster and show where each goes, how full the nodes get, and what does not fit.

    FILE is a manifest, a folder of them, a dump of a cluster (kubectl get -o json), or - for standard input. Workloads
    (Deployments, StatefulSets, Jobs, ...) whose pods are not in the input count as the pods that they would make. With
    --generate no FILE is needed.
    """
    begin_s = time.perf_counter()
    until_ns = _until(until)
    _check_use(files, explain, arrivals, generate, results)
    with LateBar("reading") as bar:
        manifests = read(files, sys.stdin.buffer, bar, validation=Validation(validate))
    for warning in manifests.warnings:
        _warn(warning)
    if manifests.problems:
        refuse(*manifests.problems)
    settings = manifests.settings
    gates = chosen_gates(feature_gates, settings)
    tell_gates(gates)
    source = config or (settings.file if settings is not None else "configuration")
    with tracebacks(debug), refusals(source, plugins):
        task = _Task(
            manifests,
            configured(config, gates, settings),
            plugins,
            gates,
            Validation(validate),
            story,
            until_ns,
            output,
            results,
            config is not None,
        )
        if generate is not None:
            is_done = task.run_generated(generate, begin_s)
        else:
            is_done = task.place(explain) if arrivals is None else task.run_day(arrivals)
    if exit_code and not is_done:
        sys.exit(NOT_ALL_PLACED)


def _check_use(
    files: Sequence[str], explain: Sequence[str], arrivals: str | None, generate: str | None, results: str | None
) -> None:
    """Refuse options that cannot be used together."""
    if not files and generate is None:
        raise click.MissingParameter(ctx=click.get_current_context(), param_type="argument", param_hint="'FILE...'")
    over_time = "--arrivals" if arrivals is not None else "--generate" if generate is not None else ""
    if arrivals is not None and generate is not None:
        refuse("--generate cannot be used with --arrivals; choose one of the two")
    if over_time and explain:
        refuse(f"--explain cannot be used with {over_time}; --story POD shows what happened to a pod")
    if results is not None and not over_time:
        refuse("--results needs --arrivals or --generate; without them the report names every pod")


def _warn(problem: object) -> None:
    click.echo(f"warning: {problem}", err=True)


def _until(text: str | None) -> int | None:
    until_ns = parse_duration(text)
    if text is not None and until_ns is None:
        refuse(Problem("--until", show(text), "seconds, or a duration such as 90s, 15m, 24h"))
    return until_ns


@dataclass(frozen=True, slots=True)
class _Task:
    """What to simulate, and how to show the report."""

    manifests: Manifests
    config: KubeSchedulerConfiguration
    plugins: tuple[str, ...]
    gates: dict[str, bool]
    validation: Validation
    story: str | None
    until_ns: int | None
    output: str
    results: str | None
    """A file that gets a line for each pod of a day."""
    has_config: bool
    """Whether --config was given; it replaces the configuration of a snapshot."""

    def place(self, explain: Sequence[str]) -> bool:
        """Place the pending pods. Returns whether all of them are placed in the end."""
        with _own_output(), LateBar("placing") as bar:
            registry, notes = self._registry()
            simulation = Simulation(self._objects(), self.config, registry, self.gates)
            report = simulation.run(explain, bar, self.story, UNTIL_NS if self.until_ns is None else self.until_ns)
            answers = self._answers(report, LoadedCluster(simulation.objects(), self.config, registry, self.gates))
        report.notes = note_ignored(self.manifests) + notes + report.notes
        if self.output == "json":
            _print_json(_with_answers(as_json(report), answers))
        else:
            _print([*_parts(report, answers, self.output == "wide")], report.notes)
        return len(report.placed) == len(report.pods)

    def _answers(self, report: Report, after: LoadedCluster) -> dict[str, PodExplanation]:
        """By key, for explained pods that have no node in the end: the answer of `mooring explain`."""
        pending = [each.pod.key for each in report.explanations if not isinstance(each.decision, Placement)]
        trials = Counterfactual(after) if pending else None
        if trials is None:
            return {}
        # Without the history: --story tells it better.
        return {key: replace(explain_pod(trials, after.pod(key)), history=()) for key in pending}

    def run_day(self, path: str) -> bool:
        """Let pods arrive over time. Returns whether no pod is pending in the end and none was preempted."""
        objects = self._objects()
        try:
            arrivals = read_arrivals(path, objects, self.validation, _warn)
        except ArrivalsError as error:
            refuse(*error.problems)
        begin_s = time.perf_counter()
        report = self._simulate(objects, arrivals)
        return self._show_day(report, time.perf_counter() - begin_s)

    def run_generated(self, path: str, begin_s: float) -> bool:
        """Generate a load and let its pods arrive. Returns the same as `run_day`."""
        objects, read_s = self._objects(), time.perf_counter() - begin_s
        try:
            load = GeneratedLoad(read_load_plan(path), objects)
        except LoadPlanError as error:
            refuse(*(problem.at(problem.where, path) for problem in error.problems))
        told = f"{len(load)} pods of {len(load.templates)} templates, {len(load.nodes)} nodes"
        click.echo(f"generated {told}, from {path}", err=True)
        planned_s = time.perf_counter() - begin_s - read_s
        report = self._simulate([*objects, *load.nodes], load, load.over_ns)
        generated_s = planned_s + report.parts_s.pop("generating", 0)
        report.parts_s = {"reading": read_s, "generating": generated_s, **report.parts_s}
        return self._show_day(report, time.perf_counter() - begin_s, is_generated=True)

    def _simulate(
        self, objects: Sequence[KubeObject], arrivals: Sequence[Arrival] | GeneratedLoad, over_ns: int | None = None
    ) -> DayReport:
        """The report of a day, which ends at --until, or else after `over_ns`."""
        with _own_output(), _stays(self.results) as file, LateBar("simulating") as bar:
            registry, notes = self._registry()
            names = not isinstance(arrivals, GeneratedLoad)
            day = Day(objects, arrivals, self.config, registry, self.gates, names_placements=names)
            if not names:
                relax_collector()  # a full collection would visit the objects of all nodes and pods again and again
            report = day.run(over_ns if self.until_ns is None else self.until_ns, bar, self.story, file)
        report.notes = note_ignored(self.manifests) + notes + report.notes
        return report

    def _show_day(self, report: DayReport, took_s: float, is_generated: bool = False) -> bool:
        if self.output == "json":
            _print_json(day_as_json(report, took_s))
        else:
            _print([*day_as_text(report, took_s, self.output == "wide", is_generated)], report.notes)
        return not report.pending and not report.preempted

    def _registry(self) -> tuple[Registry, list[str]]:
        """The registry with the user's plugins, which are enabled in `config`, and notes about them."""
        registry = registry_with(self.plugins)
        notes = [*_note_settings(self.manifests, self.has_config), *enable_loaded(self.config, registry)]
        idle = idle_plugins(self.config, registry)
        return registry, [*notes, *(f"plugin {name} is loaded, but no profile enables it" for name in idle)]

    def _objects(self) -> list[KubeObject]:
        return [manifest.object for manifest in self.manifests.objects]


@contextmanager
def _stays(path: str | None) -> Iterator[StayFile | None]:
    """The file of results, if there is to be one."""
    if path is None:
        yield None
        return
    try:
        file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115  # the problem of opening it is its own
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        refuse(Problem("", f"cannot be written: {reason}", file=path))
    with file:
        yield StayFile(file)


def _own_output() -> AbstractContextManager[object]:
    """A context in which what plugins print goes to standard error."""
    return redirect_stdout(sys.stderr)


def _note_settings(manifests: Manifests, has_config: bool) -> list[str]:
    settings = manifests.settings
    if settings is None:
        return []
    if has_config:
        return [f"--config replaces the scheduler configuration that {settings.file} has"]
    return [f"the scheduler configuration and feature gates are those of {settings.file}; --config replaces them"]


def _with_answers(written: dict[str, Any], answers: Mapping[str, PodExplanation]) -> dict[str, Any]:
    """The report with the answers beside the explanations of their pods."""
    for explanation in (*written.get("explanations", ()), *filter(None, [written.get("explanation")])):
        if explanation["pod"] in answers:
            explanation["answer"] = answers[explanation["pod"]].to_dict()
    return written


def _parts(report: Report, answers: Mapping[str, PodExplanation], wide: bool) -> Iterator[str]:
    """The explanations and the story with the last line of the report; all of the report if none was asked for."""
    for explanation in report.explanations:
        head, *rest = show_explanation(explanation, wide)
        yield head
        if explanation.pod.key in answers:
            yield from tables_as_text(answers[explanation.pod.key], wide)
        yield from rest
    if report.story is not None:
        yield tell_story(report.story, wide)
    tables = [*as_tables(report, wide)]
    yield from tables if not report.explanations and report.story is None else tables[-1:]


def _print_json(answer: dict[str, Any]) -> None:
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def _print(parts: Sequence[str], notes: Sequence[str]) -> None:
    click.echo("\n\n".join(parts))
    for note in notes:
        click.echo(f"note: {note}", err=True)
