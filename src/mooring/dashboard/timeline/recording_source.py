"""The replaying scheduler of a recording as the source of a dashboard: every page shows the moment of the time line."""

from mooring.dashboard.interfaces import Program, SourceFacts
from mooring.dashboard.timeline.time_line import RecordedTimeLine
from mooring.dashboard.views.pod_stories import PodStories
from mooring.dashboard.views.scheduling_flow import FlowCounters, SelfCheckFigures
from mooring.scheduler.scheduler import Scheduler


class RecordingSource:
    """Shows where the time line is. Stories have what was replayed: a move far ahead passes over some of it."""

    def __init__(self, program: Program, line: RecordedTimeLine) -> None:
        self._program: Program = program
        self._line = line
        self.flow: FlowCounters | None = line.flow

    @property
    def scheduler(self) -> Scheduler:
        return self._line.cursor.scheduler

    @property
    def stories(self) -> PodStories | None:
        return self._line.cursor.stories

    def now_ns(self) -> int:
        return self._line.now_ns()

    def facts(self) -> SourceFacts:
        return SourceFacts(self._program, [*self.scheduler.core.runners])

    def self_check(self) -> SelfCheckFigures | None:
        return None
