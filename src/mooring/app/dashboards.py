"""Serves the dashboard of a program on loopback, or puts it together for the server that the program has anyway."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mooring.answers.trial.node_prices import NO_PRICES
from mooring.dashboard.interfaces import DashboardSource, Doings, Program, Questions, TimeLine
from mooring.dashboard.questions.asked_cluster import AskedScheduler
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.dashboard_handler import DashboardHandler, LoopbackServer
from mooring.dashboard.timeline.recorded_decisions import OnProgress, read_decisions
from mooring.dashboard.timeline.time_line import RecordedTimeLine, RecordingSource
from mooring.dashboard.views.node_map import NodesInUse
from mooring.framework.profile.registry import Registry
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.process import run_event_loop
from mooring.kit.version import VERSION
from mooring.queue.entry import ReportFault
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.replay.replayer import settings_of

DEFAULT_PORT = 6480
"""So that a page that is open finds the cluster again after a restart; another one where it is taken."""


class DashboardPortError(Exception):
    """The port that was asked for is not available."""


@dataclass(frozen=True, slots=True)
class DashboardPlan:
    """The parts of a dashboard, and the port on which it is served."""

    source: DashboardSource
    port: int | None = 0
    """0 takes a free one; None takes DEFAULT_PORT if that is free."""
    make_questions: Callable[[], Questions] | None = None
    """Called on the event loop; None: nothing can be asked."""
    timeline: TimeLine | None = None
    in_use: Callable[[], NodesInUse] | None = None
    """Returns what nodes really use; None: only requests are shown."""
    prices: PriceList = NO_PRICES
    """Prices of nodes beside those that nodes tell themselves."""


def make_handler(plan: DashboardPlan, doings: Doings | None, report: ReportFault) -> DashboardHandler:
    """The handler of a dashboard. Call it on the event loop that owns the scheduler."""
    questions = None if plan.make_questions is None else plan.make_questions()
    parts = DashboardParts(plan.source, VERSION, questions, doings, plan.timeline, plan.in_use, plan.prices)
    return DashboardHandler(parts, report)


async def serve_dashboard(
    stack: AsyncExitStack, plan: DashboardPlan, token: str, doings: Doings | None, report: ReportFault
) -> str:
    """Serve on loopback until `stack` ends. Returns the link. An empty token is replaced by one of this run: what the
    dashboard shows and does must not be open to every page in the browser. Raises DashboardPortError."""
    server = LoopbackServer(make_handler(plan, doings, report), token or secrets.token_urlsafe(32), report)
    stack.push_async_callback(server.stop)
    try:
        return await server.start(DEFAULT_PORT if plan.port is None else plan.port)
    except OSError as fault:
        if plan.port is not None:
            raise DashboardPortError(
                f"port {plan.port} is not available for the dashboard: {fault.strerror}. "
                "Use --dashboard-port 0 for a free port"
            ) from None
    return await server.start(0)


# ---- The dashboard of a recording: its time line, and questions about the moment that is shown.


def plan_of_recording(
    program: Program,
    runs: Sequence[RecordedRun],
    registry: Registry,
    until_ns: int | None,
    report: ReportFault,
    port: int | None = 0,
    on_progress: OnProgress | None = None,
) -> DashboardPlan:
    """The plan for a dashboard of these runs, which shows first the moment `until_ns`, or the end.

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
