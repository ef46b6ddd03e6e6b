"""`mooring replay`: a recording run again, exactly; why a pod went where it went; what would have happened."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mooring.answers.replay.following import follow_pod
from mooring.answers.replay.pod_story import PodStory
from mooring.answers.replay.replay_answer import ReplayAnswer
from mooring.answers.replay.replaying import replay as replay_runs
from mooring.cli.answering import output_form, own_output, print_answer, tell_notes
from mooring.cli.options import plugin_files, registry_with
from mooring.cli.progress import LateBar
from mooring.cli.refusal import refusals, refuse
from mooring.framework.registry import Registry
from mooring.recording.reading import RecordedRun, runs_in
from mooring.recording.segment_file import RecordingError
from mooring.sim.replay.recorded_span import RecordedSpan, UnusableSpan, span_of

DIFFERENT = 1
"""The exit status if a decision came out otherwise."""


@click.command(short_help="Run a recording again: is every decision the same, and why did a pod go where it went?")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--from", "begin", metavar="TIME", help="Begin here: a time (RFC 3339), or a duration from the start: 10m."
)
@click.option("--until", "end", metavar="TIME", help="End here.")
@click.option("--pod", metavar="NS/NAME", help="Tell the story of this pod, and explain its decision.")
@plugin_files
@output_form
def replay(directory: Path, **given: Any) -> None:
    """Replay the recording in DIR: all of its runs, or one run."""
    flags = _Flags(directory, **given)
    with refusals("the recording", flags.plugins):
        _Replay(flags, registry_with(flags.plugins)).run()


@dataclass(frozen=True, slots=True)
class _Flags:
    """The command line; the fields have the names of the options."""

    directory: Path
    begin: str | None
    end: str | None
    pod: str | None
    plugins: tuple[str, ...]
    output: str


class _Replay:
    """One call of the command, after its plugins were loaded."""

    def __init__(self, flags: _Flags, registry: Registry) -> None:
        self._flags, self._registry = flags, registry
        try:
            self._runs: list[RecordedRun] = runs_in(flags.directory)
            self._span: RecordedSpan = span_of(self._runs, flags.begin, flags.end)
        except (RecordingError, UnusableSpan, OSError) as fault:
            refuse(fault)

    def run(self) -> None:
        with own_output(), LateBar("replaying") as bar:
            answer: ReplayAnswer | PodStory
            if self._flags.pod is not None:
                answer = follow_pod(self._runs, self._flags.pod, self._registry, self._span, bar)
            else:
                answer = replay_runs(self._runs, self._registry, self._span, bar)
        self._tell(answer)
        if isinstance(answer, ReplayAnswer):
            tell_notes(answer.notes)
        print_answer(answer, self._flags.output)
        if not answer.is_equal:
            sys.exit(DIFFERENT)

    def _tell(self, answer: ReplayAnswer | PodStory) -> None:
        """Print what could not be replayed; refuse a recording of which nothing could."""
        if isinstance(answer, ReplayAnswer) and not answer.is_replayed:
            refuse(*answer.problems, f"{self._flags.directory}: nothing could be replayed")
        for problem in answer.problems:
            click.echo(f"warning: {problem}", err=True)
