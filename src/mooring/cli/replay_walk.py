"""`mooring replay --step`: a recording step by step, with questions in between."""

import sys
from collections.abc import Callable, Iterator, Sequence

from mooring.answers.explain.explain import explain_pod
from mooring.answers.recorded.pod_story import view_between_steps
from mooring.api.kinds import node_name, pod_name
from mooring.cli.answering import answer_blocks
from mooring.cli.report import cut_table
from mooring.cli.terminal import Block, spaced, tell
from mooring.cluster.columns.facts import amounts_on
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import in_micros, in_seconds
from mooring.kit.words import alike, count, did_you_mean, similar
from mooring.model.quantity import show_amount
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.replay.differences import is_decision, outcomes_in_words, step_in_words
from mooring.state.replay.replayer import ReplayedStep, Replayer
from mooring.state.replay.run_reader import RecordedSpan, UnusableSpan, began_ns, moment_of

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
