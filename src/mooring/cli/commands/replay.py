"""`mooring replay`: a recording run again, exactly; why a pod went where it went; what would have happened."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mooring.answers.compare.comparing import config_name
from mooring.answers.compare.comparison import Comparison
from mooring.answers.experiments.workers import RunFault
from mooring.answers.recorded.pod_story import PodStory, follow_pod
from mooring.answers.recorded.replaying import ReplayAnswer, recorded_settings, would_have
from mooring.answers.recorded.replaying import replay as replay_runs
from mooring.cli.answering import ShownAnswer, own_output, shows_answer, tell_notes, warn
from mooring.cli.options import config_file, configured, dashboard_port, enable_loaded, plugin_files, registry_with
from mooring.cli.refusal import refusals, refuse
from mooring.cli.replay_walk import ReplayWalk, lines_of_user
from mooring.cli.terminal import LateBar
from mooring.framework.profile.registry import Registry
from mooring.state.recording.run_reading import RecordedRun, runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.replayer import concealed_annotations, rules_notes
from mooring.state.replay.run_reader import RecordedSpan, UnusableSpan, span_of

DIFFERENT = 1
"""The exit status if a decision came out otherwise."""
PARTS_OF_A_RUN = 1000
"""Progress counts whole numbers, and the runs of a comparison are two."""
OTHER_PLUGINS = "other plugins"
"""The name of the recorded configuration with plugins of --plugin."""

EPILOG = """
\b
Examples:
  mooring replay ./recording                            does every decision come out as it was recorded?
  mooring replay ./recording --since 2026-11-15T22:00:00Z --until 2026-11-16T06:00:00Z
  mooring replay ./recording --pod shop/cart-7d9f       why did this pod land there last night?
  mooring replay ./recording --step --since 10m         walk through it; `help` lists the commands
  mooring replay ./recording --serve                    look at it in a browser: drag the time line, step, ask
  mooring replay ./recording --until 10m --serve        ... and at the cluster of that moment with kubectl
  mooring replay ./recording --plugin mine.py           a recording of a scheduler that has this plugin
  mooring replay ./recording --config packed.yaml       what would have happened with this configuration?
  mooring replay ./recording --open-loop --plugin mine.py   ... or with this plugin?

\b
--plugin brings the code of plugins; the recorded configuration says which of them are enabled. With --config or --open-loop,
pods arrive and nodes come and go as they were recorded, but the placements are those of the configuration; the answer is that
of `mooring compare`. A pod that had a node leaves as long after it gets its node as it did when it was recorded. --open-loop
enables plugins that the recorded configuration does not mention in all profiles.

\b
Exit status:
  0  every decision came out equal; or the comparison ran
  1  a decision came out otherwise
  2  the input is invalid, or nothing could be replayed
"""


@click.command(
    epilog=EPILOG, short_help="Run a recording again: the same decisions, explained, or with another configuration."
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--since", "begin", metavar="TIME", help="Begin here: a time (RFC 3339), or a duration from the start: 10m."
)
@click.option("--until", "end", metavar="TIME", help="End here.")
@click.option("--pod", metavar="NS/NAME", help="Tell the story of this pod, and explain its decision.")
@click.option("--step", is_flag=True, help="Walk through the recording; commands come from standard input.")
@click.option(
    "--serve", is_flag=True, help="Open the recording in the dashboard, and the cluster at --until for kubectl."
)
@click.option("--schedule", is_flag=True, help="With --serve: let the recorded scheduler work in it.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="With --serve: the port.  [default: a free one]")
@dashboard_port
@click.option(
    "--exec", "command", metavar="CMD", help="With --serve: run a shell command with KUBECONFIG set, then stop."
)
@click.option(
    "--open-loop", is_flag=True, help="Let our placements stand, and enable plugins of --plugin that are new."
)
@config_file
@plugin_files
@shows_answer
def replay(directory: Path, **given: Any) -> None:
    """Run the recording in DIR again (all runs in it, or one run), on its recorded times and as fast as it goes.

    Every decision must come out equal. The first that does not is shown with the scores of the node that was recorded and of
    the one that is chosen now, by plugin, or with the filter that rejects the recorded node.
    """
    flags = _ReplayFlags(directory, **given)
    with refusals(flags.config or "the recording", flags.plugins):
        _Replay(flags, registry_with(flags.plugins)).run()


@dataclass(frozen=True, slots=True)
class _ReplayFlags:
    """The command line; the fields have the names of the options."""

    directory: Path
    begin: str | None
    end: str | None
    pod: str | None
    step: bool
    serve: bool
    schedule: bool
    port: int
    dashboard_port: int | None
    command: str | None
    open_loop: bool
    config: str | None
    plugins: tuple[str, ...]
    shown: ShownAnswer

    def check(self) -> None:
        """Refuse options that contradict each other."""
        chosen = {"--pod": self.pod is not None, "--step": self.step, "--serve": self.serve}
        chosen["--config or --open-loop"] = self.config is not None or self.open_loop
        named = [name for name, is_given in chosen.items() if is_given]
        if len(named) > 1:
            refuse(f"{named[1]} cannot be used with {named[0]}; choose one of the two")
        is_served = self.schedule or self.command is not None or self.port or self.dashboard_port is not None
        if not self.serve and is_served:
            refuse("--schedule, --port, --dashboard-port and --exec are options of --serve")


class _Replay:
    """One call of the command, after its plugins were loaded."""

    def __init__(self, flags: _ReplayFlags, registry: Registry) -> None:
        flags.check()
        self._flags, self._registry = flags, registry
        try:
            self._runs: list[RecordedRun] = runs_in(flags.directory)
            self._span: RecordedSpan = span_of(self._runs, flags.begin, flags.end)
        except (RecordingError, UnusableSpan, OSError) as fault:
            refuse(fault)

    def run(self) -> None:
        try:
            self._run()
        except RecordingError as fault:
            refuse(*str(fault).splitlines())

    def _run(self) -> None:
        """Choose the kind of replay by the flags: step by step, in the dashboard, compared with another configuration, about
        one pod, or a check of all recorded decisions."""
        tell_notes(rules_notes(self._runs))
        if self._flags.config is None and not self._flags.open_loop:
            tell_notes(self._notes())
        if self._flags.step:
            self._walk()
        elif self._flags.serve:
            self._serve()
        elif self._flags.open_loop or self._flags.config is not None:
            self._compare()
        elif self._flags.pod is not None:
            with own_output(), LateBar("replaying") as bar:
                story = follow_pod(self._runs, self._flags.pod, self._registry, self._span, bar)
            self._answer(story)
        else:
            with own_output(), LateBar("replaying") as bar:
                answer = replay_runs(self._runs, self._registry, self._span, bar)
            if not answer.is_replayed:
                refuse(*answer.problems, self._nothing())
            tell_notes(answer.notes)
            self._answer(answer)

    def _nothing(self) -> str:
        is_cut = self._span.from_ns is not None or self._span.until_ns is not None
        return f"{self._flags.directory}: nothing was replayed{'; there are no steps in this time' if is_cut else ''}"

    def _answer(self, answer: ReplayAnswer | PodStory) -> None:
        for problem in answer.problems:
            warn(problem)
        self._flags.shown.end_with(answer)

    def _notes(self) -> list[str]:
        """Notes about plugins, printed before a replay."""
        known = {name for run in self._runs if run.segments for name in run.header.plugins}
        idle = [
            f"plugin {name} is loaded, but the recorded configuration does not enable it; --open-loop shows what would have "
            "happened with it"
            for name in self._registry.files
            if name not in known
        ]
        return [*idle, *concealed_annotations(self._runs, self._registry)]

    # ---- other ways

    def _walk(self) -> None:
        walk = ReplayWalk(self._runs, self._registry, self._span)
        walk.walk(lines_of_user())
        if walk.differing:
            sys.exit(DIFFERENT)

    def _compare(self) -> None:
        """Compare the recorded run with what would have happened."""
        flags, recorded = self._flags, recorded_settings(self._runs)
        if flags.config is not None:
            name, config = config_name(flags.config), configured(flags.config, recorded.gates)
        else:
            name, config = OTHER_PLUGINS, recorded_settings(self._runs).config
        tell_notes(enable_loaded(config, self._registry))
        with own_output(), LateBar("simulating") as bar:
            try:
                answer: Comparison = would_have(
                    self._runs,
                    recorded,
                    name,
                    config,
                    self._registry,
                    self._span,
                    lambda done, total: bar(int(done * PARTS_OF_A_RUN), total * PARTS_OF_A_RUN),
                )
            except RunFault as fault:
                refuse(*str(fault).splitlines())
        flags.shown.show(answer)

    def _serve(self) -> None:
        # Hot: the API server and its client take 0.3 s to import, and most replays need neither.
        from mooring.cli.served_sessions import ServedRecording, serve_recording

        flags = self._flags
        served = ServedRecording(
            "replay", self._runs, self._registry, self._span.until_ns, flags.schedule, flags.port, flags.dashboard_port
        )
        sys.exit(serve_recording(served, flags.command, self._nothing()))
