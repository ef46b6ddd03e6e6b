"""The parts that all commands that answer a question share: where the cluster comes from, and how the answer is
printed.

A question is asked of one cluster, or of several of a kubeconfig: they are read beside each other and asked one after
the other. Commands that make many runs share options, and the way in which they tell their progress.

Standard output has only the answer, which programs may read; notes, warnings and progress go to standard error.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from mooring.answers.experiments.workers import SweepOptions
from mooring.answers.form.answer import AnsweredCluster, AnswerTable, ClusterAnswer, SeveralAnswers
from mooring.cli.options import (
    Decorator,
    chosen_gates,
    color_choice,
    config_file,
    configured,
    context_name,
    context_names,
    duration,
    enable_loaded,
    feature_gates,
    field_validation,
    file_option,
    gathered,
    plugin_files,
    read_by,
    registry_with,
    tell_gates,
)
from mooring.cli.refusal import refusals, refuse
from mooring.cli.report import cut_table, with_known_bars, writable, write_page
from mooring.cli.terminal import Block, LateBar, StyledLine, columns_of_terminal, spaced, tell, tell_json, tell_yaml
from mooring.framework.config.durations import Duration
from mooring.inputs.custom_workloads import TemplatePaths, template_paths
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import LiveSourceError, NoKubeconfig, problem_line, problems_of
from mooring.inputs.loaded_cluster import LoadedCluster, from_manifests
from mooring.inputs.manifests import Manifests, ReadOptions, read
from mooring.kit.process import relax_collector

_LIVE_OR_FILE = (
    click.option(
        "--from",
        "sources",
        multiple=True,
        metavar="FILE",
        help="A dump, a snapshot, manifests or a folder of them, also with gzip; - is standard input. Can be given several "
        "times. Without it, the cluster that kubectl would use.",
    ),
    file_option("--kubeconfig", "Ask about the live cluster of this kubeconfig; nothing is written to it."),
)
_SEVERAL_CLUSTERS = (
    context_names,
    click.option("--all-contexts", is_flag=True, help="Ask the clusters of all contexts of the kubeconfig."),
    duration(
        "--cluster-timeout",
        "With several contexts: how long one cluster may take to be read. One that takes longer is a row without an answer.",
        "1m",
    ),
)
_SCHEDULER_OPTIONS = (
    plugin_files,
    feature_gates,
    field_validation(),
    click.option(
        "--pod-template-path",
        "templates",
        multiple=True,
        callback=read_by(template_paths),
        metavar="KIND=PATH",
        help="Where a kind that Mooring does not know has its pod template, with the number of pods (replicas or "
        "parallelism) beside it: CronTab=spec.jobTemplate.spec.template, or PodSet=spec.tasks[].template for each entry of "
        "a list or map. Can be given several times.  [default: spec.template]",
    ),
)
_output_form = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Text, text with every row and table, JSON or YAML (docs/schemas).",
)


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The options that say which cluster a question is about, and how it is scheduled."""

    sources: tuple[str, ...]
    config: str | None
    plugins: tuple[str, ...]
    feature_gates: str
    validate: Validation
    kubeconfig: str | None
    context: str
    templates: TemplatePaths
    contexts: tuple[str, ...] = ()
    """The contexts of a question to several clusters; `context` is empty then."""
    all_contexts: bool = False
    cluster_timeout_s: float = 0.0

    @property
    def is_live(self) -> bool:
        """Whether a live cluster is named."""
        return self.kubeconfig is not None or bool(self.context) or self.is_several

    @property
    def is_several(self) -> bool:
        """Whether several clusters are asked."""
        return bool(self.contexts) or self.all_contexts

    def check(self) -> None:
        """Refuse a file and a live cluster at once."""
        if self.sources and self.is_live:
            refuse("--from cannot be used with --kubeconfig or --context; choose a file or a live cluster")

    def load(self, manifests: Manifests | None = None, of: str = "") -> LoadedCluster:
        """The cluster of these objects; without them it is read. Refuses input that cannot be used. `of` is the context that
        notes name."""
        loaded, notes = self.scheduled(self.read(separates=True) if manifests is None else manifests)
        tell_notes((*loaded.notes, *notes), of)
        return loaded

    def scheduled(self, manifests: Manifests) -> tuple[LoadedCluster, list[str]]:
        """The objects with how they are scheduled, after manifests beside a dump were applied; and notes about plugins."""
        relax_collector()  # Hot: a full collection visits all objects: a third of the time of what-if for 30,000 pods
        settings = manifests.settings
        gates = chosen_gates(self.feature_gates, settings)
        tell_gates(gates)
        config = configured(self.config, gates, settings)
        registry = registry_with(self.plugins)
        notes = enable_loaded(config, registry)
        loaded = replace(from_manifests(manifests, config, registry, gates), templates=self.templates)
        if manifests.to_apply:
            # Hot: most questions are about one file, and need no simulation to read it.
            from mooring.answers.what_if.workload_changes import with_files

            with own_output():
                loaded = with_files(loaded, manifests.to_apply, self.validate)
        return loaded, notes

    def read(self, separates: bool = False) -> Manifests:
        """The objects of the cluster; refuses input that cannot be used. With `separates`, manifests beside a dump are left
        for `scheduled` to apply."""
        if not self.sources:
            return self._read_live()
        self.check()
        gates = chosen_gates(self.feature_gates) if self.feature_gates else None
        options = ReadOptions((), self.validate, gates, self.templates, separates=separates)
        with LateBar("reading") as bar:
            manifests = read(self.sources, sys.stdin.buffer, options, bar)
        for warning in manifests.warnings:
            warn(warning)
        if manifests.problems:
            refuse(*manifests.problems)
        tell_notes(manifests.notes_of_dump())
        return manifests

    def _read_live(self) -> Manifests:
        """Read all objects from the live cluster of the kubeconfig. Raises LiveSourceError if the cluster cannot be read."""
        # Hot: the client of the API takes 0.1 s to import, and most questions are about files.
        from mooring.inputs.live_source import read_live

        try:
            with LateBar("listing") as bar:
                manifests, notes = read_live(self.kubeconfig, self.context, bar)
        except NoKubeconfig as fault:
            refuse(f"no cluster: name a dump, a snapshot or manifests with --from FILE, or a kubeconfig ({fault})")
        tell_notes(notes)
        return manifests


def tell_notes(notes: Iterable[str], of: str = "") -> None:
    """Print what the user should know, beside the answer; `of` is the cluster that the notes are about, of several."""
    for note in notes:
        tell(f"note: {of + ': ' if of else ''}{note}", err=True)


def warn(problem: object) -> None:
    """Print a problem that does not prevent the answer."""
    tell(f"warning: {problem}", err=True)


def asks_cluster(
    command: Any, configuration: Decorator = config_file, into: Callable[..., ClusterSource] = ClusterSource
) -> Any:
    """Options of a command that asks about a cluster: it gets them as one argument, `source`.

    `configuration` is the option for the scheduler configuration, for a command in which --config means another one.
    """

    @wraps(command)
    def refusing(source: ClusterSource, **rest: Any) -> Any:
        with refusals(source.config or "configuration", source.plugins):
            return command(source=source, **rest)

    several = (context_name,) if into is ClusterSource else _SEVERAL_CLUSTERS
    options = (*_LIVE_OR_FILE, *several, configuration, *_SCHEDULER_OPTIONS)
    return gathered("source", into, *options)(refusing)


def _several(context: tuple[str, ...], cluster_timeout: Duration, **rest: Any) -> ClusterSource:
    """The source of a command that can ask several clusters."""
    if len(context) == 1 and not rest["all_contexts"]:
        return ClusterSource(context=context[0], **rest)
    if context and rest["all_contexts"]:
        raise click.UsageError("--all-contexts cannot be used with --context; choose some contexts or all")
    return ClusterSource(context="", contexts=context, cluster_timeout_s=cluster_timeout.seconds, **rest)


asks_clusters = partial(asks_cluster, into=_several)
"""`asks_cluster` for a command that may be asked of several clusters at once."""


@contextmanager
def own_output() -> Iterator[None]:
    """A context in which what plugins print goes to standard error."""
    with redirect_stdout(sys.stderr):
        yield


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """How a command shows its answer: on standard output, and as a web page if a file is named."""

    output: str
    page: Path | None

    def end_with(self, answer: ClusterAnswer) -> None:
        """Show the answer, and end the command with its exit status if the answer is no."""
        self.show(answer, answer.side_notes)
        if answer.exit_status:
            sys.exit(answer.exit_status)

    def show(self, answer: ClusterAnswer, notes: Sequence[str] = ()) -> None:
        """Print the answer, write its page, and tell the notes."""
        print_answer(answer, self.output)
        self.write_page(answer, notes)
        tell_notes(notes)

    def write_page(self, answer: ClusterAnswer, notes: Sequence[str]) -> None:
        if self.page is not None:
            write_page(self.page, answer, notes)


def _shown_answer(output: str, html: str | None) -> ShownAnswer:
    return ShownAnswer(output, None if html is None else writable(html))


shows_answer = gathered(
    "shown",
    _shown_answer,
    _output_form,
    color_choice,
    file_option("--html", "Also write the answer as a web page: one file with tables and plots, without scripts."),
)
"""The options -o and --html of a command: it gets them as one argument, `shown`."""


def print_answer(answer: ClusterAnswer, output: str) -> None:
    """Print an answer in the form that `-o` names."""
    if output == "json":
        tell_json(answer.to_dict())
    elif output == "yaml":
        tell_yaml(answer.to_dict())
    else:
        tell(*map(with_known_bars, spaced(answer_blocks(answer, output == "wide"))))


def answer_blocks(answer: ClusterAnswer, wide: bool) -> Iterator[Block]:
    """The summary and the tables of an answer."""
    first, *rest = answer.summary() or [""]
    yield [StyledLine(first, "red" if answer.exit_status else "bold"), *rest]
    yield from table_blocks(answer.tables(), wide)


def table_blocks(tables: Iterable[AnswerTable], wide: bool) -> Iterator[Block]:
    """The tables that have rows; details only if it is `wide`."""
    for table in tables:
        if table.rows and (wide or not table.is_detail):
            shown = table if wide else table.brief().without_zeros()
            heads = [_head(column) for column in shown.columns]
            head, *rows = cut_table(heads, shown.rows, wide, None if wide else columns_of_terminal())
            yield [StyledLine(shown.title, "bold"), StyledLine(head, "dim"), *rows]


def _head(column: str) -> str:
    """Column heads in capitals, as kubectl has them; names of plugins and resources stay as they are, and so does µs, whose
    capital looks like an M."""
    if not column.islower() or "/" in column:
        return column
    return " ".join(word.upper() if word.isascii() else word for word in column.split(" "))


PARTS_OF_A_RUN = 1000
"""Progress counts whole numbers, and runs may be few."""


def makes_runs(command: Any) -> Any:
    """The command with the options for processes and results, which have the names of `SweepOptions`."""
    options = (
        click.option(
            "--processes", type=click.IntRange(1), help="How many processes to use.  [default: one for each core]"
        ),
        click.option("--dask", metavar="ADDRESS", help="Run on this Dask cluster (tcp://...). Needs mooring[dask]."),
        file_option("--results", "Write a row for each run (.csv or .parquet); runs it has are not repeated."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def told_runs(bar: LateBar) -> SweepOptions:
    """Shows the progress of runs, and prints notes as they come."""
    return {
        "on_progress": lambda done, total: bar(int(done * PARTS_OF_A_RUN), total * PARTS_OF_A_RUN),
        "on_note": lambda note: tell_notes([note]),
    }


Ask = Callable[[LoadedCluster], ClusterAnswer]
"""Asks one cluster the question of a command."""


def asked(source: ClusterSource, ask: Ask) -> ClusterAnswer:
    """The answer of the cluster, or of several side by side. Plugins print to standard error meanwhile.

    A cluster that cannot be read, or that does not have what the question is about, is part of the answer. A fault of the
    input that concerns every cluster alike is an error.
    """
    if source.is_several:
        return _several_clusters(source, ask)
    loaded = source.load()
    with own_output():
        return ask(loaded)


def _several_clusters(source: ClusterSource, ask: Ask) -> ClusterAnswer:
    # Hot: the client of the API takes 0.1 s to import, and most questions are about files.
    from mooring.inputs.live_clusters import contexts_of

    source.check()
    contexts = contexts_of(source.kubeconfig, source.contexts)
    with LateBar("asking") as bar:
        found = []
        for each in _answers(source, ask, contexts):
            found.append(each)
            bar(len(found), len(contexts))
    problems = {each.problem for each in found}
    if len(problems) == 1 and "" not in problems and len(found) > 1:
        refuse(*problems)
    return SeveralAnswers(found)


def _answers(source: ClusterSource, ask: Ask, contexts: list[str]) -> Iterator[AnsweredCluster]:
    from mooring.inputs.live_clusters import read_each

    for context, seen in read_each(source.kubeconfig, contexts, source.cluster_timeout_s):
        if isinstance(seen, LiveSourceError):
            yield AnsweredCluster(context, None, problem_line(seen))
        else:
            manifests, notes = seen
            tell_notes(notes, context)
            yield _answer(source, ask, context, manifests)


def _answer(source: ClusterSource, ask: Ask, context: str, manifests: Manifests) -> AnsweredCluster:
    """The answer of a cluster that was read; what is wrong with the question for this cluster is its answer as well."""
    try:
        loaded = source.load(manifests, context)
        with own_output():
            return AnsweredCluster(context, ask(loaded))
    except Exception as fault:
        problems = problems_of(fault, source.config or "configuration")
        if not problems:
            raise
        return AnsweredCluster(context, None, "; ".join(problems))
