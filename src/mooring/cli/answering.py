"""What all commands that answer a question share: where the cluster comes from, and how the answer is printed.

Standard output has only the answer, which programs may read; notes, warnings and progress go to standard error.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import click

from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.cli.options import (
    chosen_gates,
    config_file,
    configured,
    enable_loaded,
    feature_gates,
    plugin_files,
    read_by,
    registry_with,
    tell_gates,
)
from mooring.cli.refusal import refusals, refuse
from mooring.cli.report import cut_table, with_known_bars
from mooring.cli.terminal import Block, LateBar, spaced, tell, tell_json, tell_yaml
from mooring.inputs.custom_workloads import TemplatePaths, template_paths
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import LiveSourceError, NoKubeconfig
from mooring.inputs.loaded_cluster import LoadedCluster, from_manifests
from mooring.inputs.manifests import Manifests, read

F = TypeVar("F", bound=Callable[..., Any])

_FROM = click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="FILE",
    help="A dump, a snapshot, manifests or a folder of them, also with gzip; - is standard input. Can be given several "
    "times. Without it, the cluster that kubectl would use.",
)
_KUBECONFIG = click.option(
    "--kubeconfig", metavar="FILE", help="Ask about the live cluster of this kubeconfig; nothing is written to it."
)
_CONTEXT = click.option("--context", default="", metavar="NAME", help="The context of the kubeconfig.")
_VALIDATE = click.option(
    "--validate",
    type=click.Choice([each.value for each in Validation]),
    default=Validation.STRICT.value,
    show_default=True,
    help="Unknown or repeated fields: refuse the input, warn, or ignore them, as kubectl does.",
)


_TEMPLATES = click.option(
    "--pod-template-path",
    multiple=True,
    callback=read_by(template_paths),
    metavar="KIND=PATH",
    help="Where a kind that Mooring does not know has its pod template, with the number of pods (replicas or parallelism) "
    "beside it: CronTab=spec.jobTemplate.spec.template, or PodSet=spec.tasks[].template for each entry of a list or map. Can "
    "be given several times.  [default: spec.template]",
)
output_form = click.option(
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
    validate: str
    kubeconfig: str | None = None
    context: str = ""
    templates: TemplatePaths = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        """Whether a live cluster is named."""
        return self.kubeconfig is not None or bool(self.context)

    def load(self) -> LoadedCluster:
        """Read the cluster; refuse input that cannot be used."""
        loaded, notes = self.scheduled(self.read(separates=True))
        tell_notes([*loaded.notes, *notes])
        return loaded

    def scheduled(self, manifests: Manifests) -> tuple[LoadedCluster, list[str]]:
        """The objects with how they are scheduled, after manifests beside a dump were applied; and notes about plugins."""
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
                loaded = with_files(loaded, manifests.to_apply, Validation(self.validate))
        return loaded, notes

    def read(self, separates: bool = False) -> Manifests:
        """The objects of the cluster; refuses input that cannot be used. With `separates`, manifests beside a dump are left
        for `scheduled` to apply."""
        if not self.sources:
            return self._read_live()
        if self.is_live:
            refuse("--from cannot be used with --kubeconfig or --context; choose a file or a live cluster")
        gates = chosen_gates(self.feature_gates) if self.feature_gates else None
        with LateBar("reading") as bar:
            manifests = read(
                self.sources,
                sys.stdin.buffer,
                bar,
                validation=Validation(self.validate),
                gates=gates,
                templates=self.templates,
                separates=separates,
            )
        for warning in manifests.warnings:
            tell(f"warning: {warning}", err=True)
        if manifests.problems:
            refuse(*manifests.problems)
        tell_notes(manifests.notes_of_dump())
        return manifests

    def _read_live(self) -> Manifests:
        # Hot: the client of the API takes 0.1 s to import, and most questions are about files.
        from mooring.inputs.live_source import read_live

        try:
            with LateBar("listing") as bar:
                manifests, notes = read_live(self.kubeconfig, self.context, bar)
        except NoKubeconfig as fault:
            refuse(f"no cluster: name a dump, a snapshot or manifests with --from FILE, or a kubeconfig ({fault})")
        except LiveSourceError as fault:
            refuse(fault)
        tell_notes(notes)
        return manifests


def tell_notes(notes: Iterable[str]) -> None:
    """Print what the user should know, beside the answer."""
    for note in notes:
        tell(f"note: {note}", err=True)


def asks_cluster(command: F, configuration: Callable[[Any], Any] = config_file) -> F:
    """Options of a command that asks about a cluster: it gets them as one argument, `source`.

    `configuration` is the option for the scheduler configuration, for a command in which --config means another one.
    """

    def with_source(
        *,
        sources: tuple[str, ...],
        config: str | None,
        plugins: tuple[str, ...],
        feature_gates: str,
        validate: str,
        kubeconfig: str | None,
        context: str,
        pod_template_path: dict[str, str],
        **rest: Any,
    ) -> Any:
        live = kubeconfig, context
        source = ClusterSource(sources, config, plugins, feature_gates, validate, *live, pod_template_path)
        with refusals(config or "configuration", plugins):
            return command(source=source, **rest)

    with_source.__doc__, with_source.__name__ = command.__doc__, command.__name__
    with_source.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (_TEMPLATES, _VALIDATE, feature_gates, plugin_files, configuration, _CONTEXT, _KUBECONFIG, _FROM):
        with_source = option(with_source)
    return with_source  # type: ignore[return-value]


@contextmanager
def own_output() -> Iterator[None]:
    """A context in which what plugins print goes to standard error."""
    with redirect_stdout(sys.stderr):
        yield


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
    yield answer.summary()
    yield from table_blocks(answer.tables(), wide)


def table_blocks(tables: Iterable[AnswerTable], wide: bool) -> Iterator[Block]:
    """Those of the tables that have rows; details only if it is `wide`."""
    for table in tables:
        if table.rows and (wide or not table.is_detail):
            yield _as_text(table if wide else table.brief(), wide)


def _as_text(table: AnswerTable, wide: bool) -> Block:
    return [table.title, *cut_table([_head(column) for column in table.columns], table.rows, wide)]


def _head(column: str) -> str:
    """Column heads in capitals, as kubectl has them; names of plugins and resources stay as they are, and so does µs, whose
    capital looks like an M."""
    if not column.islower() or "/" in column:
        return column
    return " ".join(word.upper() if word.isascii() else word for word in column.split(" "))
