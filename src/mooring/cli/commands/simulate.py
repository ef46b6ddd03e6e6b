"""`mooring simulate`: reads input, runs a simulation or a day of arrivals, and prints the report.

Standard output has only the report, which programs may read; notes, warnings, the progress bar and what plugins print go to
standard error.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from mooring.answers.explain.explanation import GroupExplanation
from mooring.answers.simulate.day_answer import DayAnswer
from mooring.answers.simulate.simulating import place_pending, run_day
from mooring.answers.simulate.simulation_answer import SimulationAnswer, explanation_tables
from mooring.answers.what_if.workload_changes import with_applied
from mooring.api.kinds import KINDS
from mooring.api.validation.problem import Problem, show
from mooring.cli.answering import (
    ClusterSource,
    ShownAnswer,
    asks_cluster,
    own_output,
    shows_answer,
    table_blocks,
    tell_notes,
    warn,
)
from mooring.cli.options import dashboard_port, file_option, idle_plugins, tie_break
from mooring.cli.recording_options import RecordingFlags, recording_options, undeclared_annotations
from mooring.cli.refusal import refusals, refuse, refuse_file, tracebacks
from mooring.cli.report import told_others, told_outcome, told_preemption, told_story
from mooring.cli.terminal import Block, LateBar, tell, tell_blocks
from mooring.framework.config.durations import parse_duration
from mooring.inputs.arrivals import Arrival, read_arrivals
from mooring.inputs.field_checks import Validation
from mooring.inputs.generated_load import GeneratedLoad
from mooring.inputs.load_plan import LoadPlanError, read_load_plan
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.manifests import Manifests
from mooring.kit.private_files import open_private
from mooring.kit.process import relax_collector
from mooring.scheduler.ties import TieRule
from mooring.sim.gauge import StayFile
from mooring.sim.results import Explanation
from mooring.sim.simulated_cluster import RecordTo, SimulationRecording
from mooring.state.recording.run_reading import runs_in

NOT_ALL_PLACED = 1
"""The exit status with --exit-code."""

DUMPED = [spec.plural for spec in KINDS.values() if spec.watch is None or not spec.watch.needs_gate]
"""All kinds that decisions read, without those behind gates that are off by default, which hardly any cluster serves."""
DUMP_COMMAND = (
    *(f"kinds={'$kinds,' if i else ''}{','.join(DUMPED[i : i + 5])}" for i in range(0, len(DUMPED), 5)),
    "kubectl get -A -o json $kinds > dump.json",
)
"""The lines of a shell script, short enough for a terminal."""

EPILOG = """
\b
Examples:
  mooring simulate                                      where would the pending pods of my cluster go?
  mooring simulate --context prod more-pods.yaml        would these fit into my cluster? (nothing is written to it)
  mooring simulate cluster.yaml                         where do the pending pods go?
  mooring simulate dump.json.gz app.yaml                would this version of my app fit? It is applied to the dump
  mooring simulate cluster.yaml --explain web-0         why does web-0 go to its node?
  mooring simulate cluster.yaml --story web-0           what happened to web-0, and when?
  mooring simulate cluster.yaml --arrivals day.yaml     how long will these pods wait over a day?
  mooring simulate --generate day.yaml --results r.csv  a generated day of pods: examples/day.yaml has 1,000,000
  mooring simulate cluster.yaml --html report.html      tables and plots to look at, to print or to send
  mooring simulate cluster.yaml --record DIR            record it, for `mooring replay`
  mooring simulate cluster.yaml --arrivals day.yaml --serve   ... or look at it in a browser, decision by decision
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
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--explain",
    multiple=True,
    metavar="POD",
    help="Show the verdict and scores of this pod, node by node ([namespace/]name). Can be given several times.",
)
@click.option("--story", metavar="POD", help="Show what happened to this pod, moment by moment ([namespace/]name).")
@file_option("--arrivals", "Pods that arrive over time and run for a while (YAML or CSV, see docs/simulation.md).")
@file_option(
    "--generate", "Generate nodes, and pods that arrive over time as in public traces (YAML, see docs/simulation.md)."
)
@file_option("--results", "Write a line of CSV for each pod of --arrivals or --generate.")
@click.option("--until", metavar="DURATION", help="Stop after this much simulated time: 90s, 24h.")
@tie_break
@recording_options
@click.option(
    "--serve", is_flag=True, help="Then open the simulation in the dashboard, with a time line, until Ctrl-C."
)
@dashboard_port
@click.option("--debug", is_flag=True, help="Show the traceback of an exception that a plugin raises.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when a pod is pending in the end, or was preempted.")
@asks_cluster
@shows_answer
def simulate(source: ClusterSource, shown: ShownAnswer, recording: RecordingFlags, **given: Any) -> None:
    """Place the pending pods of a cluster and show where each goes, how full the nodes get, and what does not fit.

    FILE is a manifest, a folder of them, a dump of a cluster (kubectl get -o json), or - for standard input; --from FILE is
    the same. Workloads (Deployments, StatefulSets, Jobs, ...) whose pods are not in the input count as the pods that they
    would make. Without FILE and --generate, the cluster is the one that kubectl would use. With --kubeconfig or --context, it
    is the one that they name, and each FILE is as if it were applied to it. A live cluster is only read.
    Beside a dump, manifests are as if they were applied to its cluster.
    """
    begin_s, flags = time.perf_counter(), _SimulateFlags(**given)
    flags.check()
    if flags.serve and recording.record is not None:
        refuse(
            "--serve cannot be used with --record; record first, then `mooring replay DIR --serve` opens the recording"
        )
    manifests = _read(source, flags)
    # With --serve, the recording of the simulation is looked at and then forgotten.
    with TemporaryDirectory(prefix="mooring-") if flags.serve else nullcontext() as scratch:
        with tracebacks(flags.debug), refusals(_configuration_file(source, manifests), source.plugins):
            loaded = replace(_loaded(source, manifests, flags.files), ties=flags.ties)
            folder = recording.record if scratch is None else Path(scratch)
            with _recorded(replace(recording, record=folder), loaded) as record_to:
                is_done = _Task(loaded, source.validate, flags, shown, record_to).run(begin_s)
        if scratch is not None:
            _serve(scratch, loaded, flags.dashboard_port)
    if flags.exit_code and not is_done:
        sys.exit(NOT_ALL_PLACED)


@dataclass(frozen=True, slots=True)
class _SimulateFlags:
    """The command line; the fields have the names of the options."""

    files: tuple[str, ...]
    explain: tuple[str, ...]
    story: str | None
    arrivals: str | None
    generate: str | None
    results: str | None
    until: str | None
    ties: TieRule
    serve: bool
    dashboard_port: int | None
    debug: bool
    exit_code: bool

    @property
    def until_ns(self) -> int | None:
        return parse_duration(self.until)

    def check(self) -> None:
        """Refuse options that cannot be used, or not together."""
        if self.until is not None and self.until_ns is None:
            refuse(Problem("--until", show(self.until), "seconds, or a duration such as 90s, 15m, 24h"))
        over_time = "--arrivals" if self.arrivals is not None else "--generate" if self.generate is not None else ""
        if self.arrivals is not None and self.generate is not None:
            refuse("--generate cannot be used with --arrivals; choose one of the two")
        if over_time and self.explain:
            refuse(f"--explain cannot be used with {over_time}; --story POD shows what happened to a pod")
        if self.results is not None and not over_time:
            refuse("--results needs --arrivals or --generate; without them the report names every pod")


# ---- the cluster


def _read(source: ClusterSource, flags: _SimulateFlags) -> Manifests:
    """The objects of the cluster. With a live one, files are applied to it later."""
    if source.is_live:
        return source.read()
    given = (*source.sources, *flags.files)
    return replace(source, sources=given).read(separates=True) if given or flags.generate is None else Manifests()


def _configuration_file(source: ClusterSource, manifests: Manifests) -> str:
    """Where the configuration comes from, for messages."""
    return source.config or (manifests.settings.file if manifests.settings is not None else "configuration")


def _loaded(source: ClusterSource, manifests: Manifests, files: tuple[str, ...]) -> LoadedCluster:
    """The cluster with its scheduler, and all that the user should know about both."""
    loaded, enabled = source.scheduled(manifests)
    idle = idle_plugins(loaded.config, loaded.registry)
    told = [f"plugin {name} is loaded, but no profile enables it" for name in idle]
    notes = [*loaded.notes, *_note_settings(manifests, source.config is not None), *enabled, *told]
    loaded = replace(loaded, notes=notes)
    if not source.is_live or not files:
        return loaded
    with own_output():
        return with_applied(loaded, files, source.validate)


def _note_settings(manifests: Manifests, has_config: bool) -> list[str]:
    settings = manifests.settings
    if settings is None:
        return []
    if has_config:
        return [f"--config replaces the scheduler configuration that {settings.file} has"]
    return [f"the scheduler configuration and feature gates are those of {settings.file}; --config replaces them"]


# ---- the simulation


@dataclass(frozen=True, slots=True)
class _Task:
    """A cluster to simulate, and how to show the answer."""

    loaded: LoadedCluster
    validation: Validation
    flags: _SimulateFlags
    shown: ShownAnswer
    record_to: RecordTo | None

    def run(self, begin_s: float) -> bool:
        """Simulate and show the answer. Returns whether no pod is pending in the end, and none was preempted."""
        answer: SimulationAnswer | DayAnswer
        if self.flags.generate is not None:
            answer = self._run_generated(self.flags.generate, begin_s)
        elif self.flags.arrivals is not None:
            known = self.loaded
            answer = self._day(read_arrivals(self.flags.arrivals, known.objects, known.gates, self.validation, warn))
        else:
            answer = self._place()
        if isinstance(answer, SimulationAnswer):
            self._show_placed(answer)
        else:
            self._show_day(answer)
        return not answer.counts.pending and not answer.counts.preempted

    def _place(self) -> SimulationAnswer:
        """Place the pending pods."""
        with own_output(), LateBar("placing") as bar:
            return place_pending(
                self.loaded,
                self.flags.explain,
                story=self.flags.story,
                until_ns=self.flags.until_ns,
                on_progress=bar,
                record_to=self.record_to,
            )

    def _show_placed(self, answer: SimulationAnswer) -> None:
        if self.shown.output in ("json", "yaml") or not (answer.explanations or answer.story):
            self.shown.show(answer, answer.notes)
            return
        tell_blocks(_asked(answer, self.shown.output == "wide"))
        self.shown.write_page(answer, answer.notes)
        tell_notes(answer.notes)

    def _run_generated(self, path: str, begin_s: float) -> DayAnswer:
        """Generate a load and let its pods arrive."""
        read_s = time.perf_counter() - begin_s
        try:
            load = GeneratedLoad(read_load_plan(path), self.loaded.objects)
        except LoadPlanError as error:
            refuse(*(problem.at(problem.where, path) for problem in error.problems))
        told = f"{len(load)} pods of {len(load.templates)} templates, {len(load.nodes)} nodes"
        tell(f"generated {told}, from {path}", err=True)
        planned_s = time.perf_counter() - begin_s - read_s
        relax_collector()  # a full collection would visit the objects of all nodes and pods again and again
        answer = self._day(load)
        generated_s = planned_s + answer.parts_s.pop("generating", 0)
        answer.parts_s = {"reading": read_s, "generating": generated_s, **answer.parts_s}
        answer.took_s = time.perf_counter() - begin_s
        return answer

    def _day(self, arrivals: Sequence[Arrival] | GeneratedLoad) -> DayAnswer:
        """Simulate arrivals over time and show the progress on a bar. Results are written to the file of --results while the
        simulation runs."""
        flags = self.flags
        with own_output(), _stays(flags.results) as file, LateBar("simulating") as bar:
            return run_day(
                self.loaded,
                arrivals,
                story=flags.story,
                until_ns=flags.until_ns,
                file=file,
                on_progress=bar,
                record_to=self.record_to,
            )

    def _show_day(self, answer: DayAnswer) -> None:
        if answer.story is not None and self.shown.output in ("table", "wide"):
            tell(*told_story(answer.story, self.shown.output == "wide"), "")
        self.shown.show(answer, answer.notes)


def _recorded(flags: RecordingFlags, loaded: LoadedCluster) -> AbstractContextManager[RecordTo | None]:
    """A context in which the simulation is recorded, if it is to be. The recorder waits for the disk: nothing is lost."""
    settings = flags.settings(loaded.registry, drops=False)
    tell_notes(undeclared_annotations(settings, loaded.registry))
    return nullcontext() if settings is None else closing(SimulationRecording(settings, loaded.gates))


def _serve(directory: str, loaded: LoadedCluster, dashboard_port: int | None) -> None:
    # Hot: the API server and its client take 0.3 s to import, and most simulations need neither.
    from mooring.cli.recorded_session import ServedRecording, serve_recording

    with refusals():
        served = ServedRecording("simulate", runs_in(Path(directory)), loaded.registry, dashboard_port=dashboard_port)
        serve_recording(served, None, "nothing was simulated: there is no node and no pod")


@contextmanager
def _stays(path: str | None) -> Iterator[StayFile | None]:
    """The file of results, if there is to be one."""
    if path is None:
        yield None
        return
    try:
        file = os.fdopen(open_private(path, os.O_TRUNC), "w", encoding="utf-8", newline="")
    except (OSError, ValueError) as error:
        refuse_file(path, error)
    try:
        with file:
            yield StayFile(file)
    except OSError as error:
        if error.filename is not None:
            raise  # this is about another file
        refuse_file(path, error)


# ---- what was asked about single pods


def _asked(answer: SimulationAnswer, wide: bool) -> Iterator[Block]:
    """The explanations and the story, and what became of all pods in one line."""
    for explanation in answer.explanations:
        yield from _explained(answer, explanation, wide)
    if answer.story is not None:
        yield told_story(answer.story, wide)
    yield [answer.outcome()]


def _explained(answer: SimulationAnswer, explanation: Explanation, wide: bool) -> Iterator[Block]:
    """Yield the blocks of text about one pod of a simulation: its outcome, the tables that explain it, and preemption."""
    yield [told_outcome(explanation)]
    found = answer.answers.get(explanation.pod.key)
    if found is not None:
        if isinstance(found, GroupExplanation):
            yield found.summary()
        yield from table_blocks(found.tables(), wide)
    yield from ([line] for line in told_preemption(explanation))
    yield from table_blocks(explanation_tables(explanation), wide)
    yield from ([line] for line in told_others(explanation))
