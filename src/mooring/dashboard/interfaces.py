"""Interfaces of the parts of a dashboard: the scheduler that it shows, the questions that it can ask, and the time line of a
recording. The programs that serve a dashboard implement these interfaces, and the paths use nothing else of them.

All methods are called on the event loop that owns the scheduler, and must return at once, except where they are async.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from mooring.dashboard.views.scheduling_flow import FlowCounters, PodStories, SelfCheckFigures
from mooring.scheduler.scheduler import Scheduler

Program = Literal["up", "run", "replay", "simulate"]


class Refused(Exception):
    """The dashboard does not answer a request. The client gets the status and `{"message": ...}`."""

    def __init__(self, status: int, message: str, retry_s: int | None = None) -> None:
        """`retry_s` becomes the header Retry-After."""
        super().__init__(message)
        self.status, self.message, self.retry_s = status, message, retry_s


# ---- what is shown


class SourceFacts(msgspec.Struct, frozen=True):
    """The facts of a source about itself, for /api/session."""

    program: Program
    profiles: Sequence[str]
    is_leader: bool = True


class DashboardSource(Protocol):
    """The scheduler that the pages show, and what was noted beside it."""

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler as it is now. A time line may have another object here after each move."""
        ...

    @property
    def stories(self) -> PodStories | None:
        """The stories of pods; None if nothing was noted."""
        ...

    @property
    def flow(self) -> FlowCounters | None:
        """The counters of attempts; None if nothing is counted."""
        ...

    def now_ns(self) -> int:
        """The time of the cluster: of a recording, the moment that is shown."""
        ...

    def facts(self) -> SourceFacts: ...

    def self_check(self) -> SelfCheckFigures | None:
        """None: the scheduler does not check itself."""
        ...


# ---- questions


class ExplainPod(msgspec.Struct, frozen=True):
    """The question why a pod is where it is: the answer is that of `mooring explain -o json`."""

    namespace: str
    name: str


class RejectionsOnNode(msgspec.Struct, frozen=True):
    """The question why pending pods are rejected on a node."""

    node: str


class AskedChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change of a what-if question: `change` is a flag of `mooring what-if` without its dashes."""

    change: str
    value: str = ""


class AskedChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question what follows from changes, made one after another; the body of `POST api/what-if` and `POST api/do`."""

    changes: Sequence[AskedChange]


Question = ExplainPod | RejectionsOnNode | AskedChanges


class Questions(Protocol):
    """Answers questions about the cluster as it is when they are asked."""

    async def ask(self, question: Question) -> bytes:
        """The answer as JSON. Raises Refused: 404 for what is not there, 422 for what the command line would refuse, 429 if
        too many wait, 503 if the answer takes too much time or memory."""
        ...

    async def close(self) -> None:
        """End what is under way."""
        ...


# ---- changes that are carried out


class Doings(Protocol):
    """Carries changes out through the API of the cluster itself."""

    async def do(self, changes: AskedChanges) -> "DoneChanges":
        """Raises Refused (422) before anything is done, if a change cannot be read."""
        ...


class DoneChanges(msgspec.Struct, frozen=True):
    """One line for each thing that was done, and for each that was not, with the reason."""

    done: Sequence[str]
    failed: Sequence[str]


# ---- recordings


class TimeLineState(msgspec.Struct, frozen=True):
    """The place of the shown moment in a recording. Times are RFC 3339 texts."""

    start: str
    end: str
    now: str
    decisions: int
    """How many decisions the recording has."""
    position: int
    """How many of them are made at the shown moment."""
    density: Sequence[int]
    """Decisions in each of 200 parts of the time between start and end."""
    seeking: bool


class SeekTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The moment to move to: exactly one of these is given."""

    time: str | None = None
    decision: int | None = None
    step: int | None = None


class DecisionLine(msgspec.Struct, frozen=True):
    """A decision of a recording as a list shows it."""

    number: int
    """From 1: so many decisions are made right after it."""
    time: str
    namespace: str
    """Namespace of the first pod."""
    name: str
    node: str
    result: str
    pods: int
    """How many pods the step decided on: those of a group are released together."""


class DecisionsPage(msgspec.Struct, frozen=True):
    """`GET api/replay/decisions`."""

    decisions: Sequence[DecisionLine]
    total: int


class TimeLine(Protocol):
    """Moves the source of a dashboard through a recording."""

    @property
    def version(self) -> int:
        """Grows with each move, so that streams send the new moment at once."""
        ...

    def state(self) -> TimeLineState: ...

    async def seek(self, target: SeekTarget) -> TimeLineState:
        """Move, in slices. A second call while one is under way replaces its target. Raises Refused (422)."""
        ...

    def decisions(self, after: int, limit: int) -> DecisionsPage:
        """The decisions that follow the first `after` ones."""
        ...
