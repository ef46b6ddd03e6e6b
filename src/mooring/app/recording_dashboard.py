"""The dashboard of a recording: its time line, and questions about the moment that is shown."""

from collections.abc import Sequence

from mooring.app.dashboards import DashboardPlan
from mooring.dashboard.interfaces import Program, Questions
from mooring.dashboard.questions.asked_cluster import AskedScheduler
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.dashboard.timeline.recorded_decisions import OnProgress, read_decisions
from mooring.dashboard.timeline.recording_source import RecordingSource
from mooring.dashboard.timeline.time_line import RecordedTimeLine
from mooring.framework.profile.registry import Registry
from mooring.kit.process import run_event_loop
from mooring.scheduler.core import Report
from mooring.state.recording.reading import RecordedRun
from mooring.state.replay.recorded_settings import settings_of


def plan_of_recording(
    program: Program,
    runs: Sequence[RecordedRun],
    registry: Registry,
    until_ns: int | None,
    report: Report,
    port: int | None = 0,
    on_progress: OnProgress | None = None,
) -> DashboardPlan:
    """What the dashboard of these runs shows: first the moment `until_ns`, or the end.

    Raises RecordingError if no run can be replayed.
    """
    line = RecordedTimeLine(read_decisions(runs, registry, on_progress), registry)
    run_event_loop(line.go_to(until_ns))
    source = RecordingSource(program, line)

    def asked() -> AskedScheduler:
        """The scheduler of the run that is shown."""
        config, gates = settings_of(line.cursor.span.run.header)
        return AskedScheduler.of(config, gates, registry)

    def questions() -> Questions:
        return ChildQuestions(source, asked, version=lambda: (id(line.cursor), line.cursor.steps), report=report)

    return DashboardPlan(source, port, questions, line)
