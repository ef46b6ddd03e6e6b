"""`mooring replay`: a recording run again, exactly; why a pod went where it went; what would have happened. With
`--step` it goes through the recording step by step, with questions in between.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mooring.answers.experiments.comparing import config_name
from mooring.answers.explain.explain import explain_pod
from mooring.answers.recorded.pod_story import PodStory, follow_pod, view_between_steps
from mooring.answers.recorded.replaying import ReplayAnswer, recorded_settings, would_have
from mooring.answers.recorded.replaying import replay as replay_runs
from mooring.api.kinds import node_name, pod_name
from mooring.cli.answering import ShownAnswer, answer_blocks, own_output, shows_answer, tell_notes, told_runs, warn
from mooring.cli.options import config_file, configured, dashboard_port, enable_loaded, plugin_files, registry_with
from mooring.cli.refusal import refusals, refuse
from mooring.cli.report import cut_table
from mooring.cli.terminal import Block, LateBar, spaced, tell
from mooring.cluster.columns.facts import amounts_on
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import in_micros, in_seconds
from mooring.kit.words import alike, count, did_you_mean, similar
from mooring.model.quantity import show_amount
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.run_reading import RecordedRun, runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.differences import is_decision, outcomes_in_words, step_in_words
from mooring.state.replay.replayer import ReplayedStep, Replayer, concealed_annotations, rules_notes
from mooring.state.replay.run_reader import RecordedSpan, UnusableSpan, began_ns, moment_of, span_of

PROMPT = "(replay) "
HELP = """\
next [COUNT]         the next step, or so many
decision [NS/NAME]   go to the next decision, or to the next one about a pod
difference           go to the next step that comes out otherwise than it was recorded
to TIME              go to a time (RFC 3339, or a duration from the start: 10m)
where                where the replay is
queue                the pods that wait, and where
node NAME            what is on a node
explain NS/NAME      why the pod is where it is, or why it is pending, as of now
help, quit

A command can be shortened to its first letters. An empty line repeats the last one."""
_COMMANDS = ("next", "decision", "difference", "to", "where", "queue", "node", "explain", "help", "quit")
_MOVES = ("next", "decision", "difference")
"""Commands that an empty line repeats."""
_SHORT = {"n": "next", "d": "decision", "q": "quit"}
"""Letters that begin several commands."""

Found = Callable[[ReplayedStep], bool]


class ReplayWalk:
    """Goes through the steps of all runs. Commands are lines; what they find goes to `tell`."""

    def __init__(
        self,
        runs: Sequence[RecordedRun],
        registry: Registry | None,
        span: RecordedSpan,
        tell: Callable[..., None] = tell,
    ) -> None:
        self._runs, self._registry, self._span, self._tell = runs, registry, span, tell
        self._begin_ns = began_ns(runs)
        self._replayer: Replayer | None = None
        self._ahead = self._all_steps()
        self._last: ReplayedStep | None = None
        self.differing = 0
        """How many steps came out otherwise so far."""
        self.count = 0

    def _all_steps(self) -> Iterator[ReplayedStep]:
        for run in self._runs:
            self._replayer = replayer = Replayer(run, self._registry)
            yield from replayer.steps(self._span.from_ns, self._span.until_ns)
            for problem in replayer.problems:
                self._tell(f"warning: {problem}")

    def walk(self, lines: Iterator[str]) -> None:
        """Carry out the commands until they end."""
        if self._span.from_ns is not None:
            from_ns = self._span.from_ns
            self._move(lambda step: step.step.now_ns >= from_ns)
        last = "next"
        for line in lines:
            text = line.strip() or last
            word, *values = text.split()
            name = _command(word)
            if name == "quit":
                return
            if name is None:
                meant = did_you_mean(similar(word, _COMMANDS, 1))
                self._tell(f"{word}: there is no such command; `help` lists them{meant}")
                continue
            last = text if name in _MOVES else last
            self._carry_out(name, values)

    def _carry_out(self, name: str, values: Sequence[str]) -> None:
        """Run one command that the user typed during a replay in steps. Names that do not move the replay show something."""
        value = values[0] if values else ""
        match name:
            case "next":
                self._go_on(value)
            case "decision":
                self._move(lambda step: _is_decision_about(step, pod_name(value)))
            case "difference":
                self._move(lambda step: not step.is_equal)
            case "to":
                self._go_to(value)
            case "help":
                self._tell(*HELP.splitlines())
            case _:
                self._show(name, value)

    # ---- moving

    def _go_on(self, value: str) -> None:
        steps = int(value) if value.isdigit() else 1
        for _ in range(max(steps, 1)):
            if not self._move(lambda step: True):
                return

    def _go_to(self, text: str) -> None:
        try:
            when_ns = moment_of(text, self._begin_ns, "to")
        except UnusableSpan as fault:
            self._tell(str(fault))
            return
        self._move(lambda step: step.step.now_ns >= when_ns)

    def _move(self, found: Found) -> bool:
        """Go on to the next step that is meant. False at the end of the recording."""
        while (replayed := next(self._ahead, None)) is not None:
            self._last = replayed
            self.count += 1
            self.differing += not replayed.is_equal
            if found(replayed):
                self._tell(*_shown(replayed))
                return True
        self._tell(
            f"the recording ends here, after {count(self.count, 'step')}, {self.differing} of which came out otherwise"
        )
        return False

    # ---- questions

    def _show(self, name: str, value: str) -> None:
        """Print what the user asked for in the present state: the place in the recording, the queue, a node or a pod."""
        scheduler = self._replayer.scheduler if self._replayer is not None else None
        if scheduler is None or self._last is None:
            self._tell("nothing has happened yet: `next` makes the first step")
        elif name == "where":
            self._tell(self._where(self._last, scheduler))
        elif name == "queue":
            self._tell(*_queue(scheduler))
        elif not value:
            self._tell(f"{name}: name a {'node' if name == 'node' else 'pod'}")
        elif name == "node":
            self._tell(*_node(scheduler, value))
        else:
            self._tell(*_explained(scheduler, value))

    def _where(self, last: ReplayedStep, scheduler: Scheduler) -> str:
        run = self._replayer.run.name if self._replayer is not None else ""
        waiting = ", ".join(f"{number} {place}" for place, number in scheduler.pending_counts().items())
        return (
            f"step {last.number:,} of {run} at {in_micros(last.step.now_ns)}; {scheduler.cluster.nodes.alive_count:,} nodes, "
            f"{len(scheduler.pods):,} pods; waiting: {waiting}; {self.differing:,} steps came out otherwise"
        )


def _command(word: str) -> str | None:
    if word in _SHORT:
        return _SHORT[word]
    found = [name for name in _COMMANDS if name.startswith(word)]
    return found[0] if len(found) == 1 or word in found else None


def _is_decision_about(replayed: ReplayedStep, pod: str) -> bool:
    outcomes = replayed.step.outcomes
    return is_decision(outcomes) and (not pod or any(pod in outcome for outcome in outcomes))


def _shown(replayed: ReplayedStep) -> Block:
    """One step, with what it led to, and what it leads to now if that is something else."""
    step = replayed.step
    lines = [f"{replayed.number:>7,}  {in_micros(step.now_ns)}  {step_in_words(step)}"]
    lines += [f"         {text}" for text in (outcomes_in_words(step.outcomes) if step.outcomes else ())]
    if not replayed.is_equal:
        lines += [f"         now: {text}" for text in outcomes_in_words(replayed.outcomes)]
    return lines


def _queue(scheduler: Scheduler) -> Block:
    """Table of the waiting pods, the longest waiting first: place in the queue, number of attempts, and the plugins that
    rejected the pod."""
    entries = sorted(scheduler.queued_pods(), key=lambda entry: (entry.timestamp_ns, entry.key))
    if not entries:
        return ["no pod waits"]
    rows = [
        (
            entry.key,
            scheduler.place_in_queue(entry.key) or "-",
            entry.attempts,
            in_seconds(entry.timestamp_ns),
            ", ".join(sorted(entry.unschedulable_plugins)) or "-",
        )
        for entry in entries
    ]
    return cut_table(("POD", "PLACE", "ATTEMPTS", "SINCE", "REJECTED BY"), rows, wide=False)


def _node(scheduler: Scheduler, name: str) -> Block:
    """Tables of a node: requested and allocatable amounts by resource, and its pods. A message with similar names if the node
    does not exist."""
    nodes, name = scheduler.cluster.nodes, node_name(name)
    row = nodes.row_book.get(name)
    if row is None or not nodes.alive[row]:
        known = [node for node in nodes.nodes if node is not None]
        return [f"there is no node {name}{alike(name, known)}"]
    used = [
        (resource, show_amount(resource, held), show_amount(resource, room))
        for resource, (held, room) in amounts_on(nodes.nodes[row], nodes.pods_on[row]).items()
    ]
    pods = [(pod.key, pod.priority, pod.status.phase or "-") for pod in nodes.pods_on[row]]
    resources = cut_table(("RESOURCE", "REQUESTED", "ALLOCATABLE"), used, wide=False)
    return spaced([resources, cut_table(("POD", "PRIORITY", "PHASE"), pods, wide=False)])


def _explained(scheduler: Scheduler, name: str) -> Block:
    name = pod_name(name)
    key = name if "/" in name else f"default/{name}"
    seen = scheduler.pods.get(key)
    if seen is None:
        return [f"there is no pod {key}{alike(key, list(scheduler.pods.values()))}"]
    answer = explain_pod(view_between_steps(scheduler), scheduler.placed(seen.id) or seen, cures=False)
    return spaced(answer_blocks(answer, wide=False))


def lines_of_user() -> Iterator[str]:
    """The lines of standard input, with a prompt where a person types them."""
    is_person = sys.stdin.isatty()
    while True:
        if is_person:
            tell(PROMPT, nl=False)
        line = sys.stdin.readline()
        if not line:
            return
        yield line


DIFFERENT = 1
"""The exit status if a decision came out otherwise."""
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
            name, config = OTHER_PLUGINS, recorded_settings(self._runs).config  # enabled plugins change it
        tell_notes(enable_loaded(config, self._registry))
        with own_output(), LateBar("simulating") as bar:
            on_progress = told_runs(bar)["on_progress"]
            answer = would_have(self._runs, recorded, name, config, self._registry, self._span, on_progress)
        flags.shown.show(answer)

    def _serve(self) -> None:
        # Hot: the API server and its client take 0.3 s to import, and most replays need neither.
        from mooring.cli.recorded_session import ServedRecording, serve_recording

        flags = self._flags
        served = ServedRecording(
            "replay", self._runs, self._registry, self._span.until_ns, flags.schedule, flags.port, flags.dashboard_port
        )
        sys.exit(serve_recording(served, flags.command, self._nothing()))
