"""Serves the dashboard of a program on loopback, or puts it together for the server that the program has anyway.

In `mooring up` and `mooring run` the source of the dashboard is a scheduler at work. The source is made before the
scheduler, because the scheduler is built with what takes stories and counts; `show` completes it.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mooring.answers.trial.node_prices import NO_PRICES
from mooring.dashboard.interfaces import DashboardSource, Doings, Program, Questions, SourceFacts, TimeLine
from mooring.dashboard.questions.asked_cluster import AskedScheduler
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.dashboard.recorded_decisions import OnProgress, read_decisions
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.dashboard_handler import DashboardHandler, LoopbackServer
from mooring.dashboard.time_line import RecordedTimeLine, RecordingSource
from mooring.dashboard.views.node_map import NodesInUse
from mooring.dashboard.views.scheduling_flow import FlowCounters, PodStories, SelfCheckFigures
from mooring.drivers.self_checks import SelfChecks
from mooring.framework.profile.registry import Registry
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.clock import Clock, in_millis
from mooring.kit.process import run_event_loop
from mooring.kit.version import VERSION
from mooring.model.pod import Pod
from mooring.queue.entry import ReportFault, TellPod
from mooring.scheduler.observer import Observer
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.replay.replayer import settings_of


class SchedulerSource:
    """Build the scheduler with `telling` and the observer of `counting`, then call `show` with it."""

    def __init__(self, program: Program, clock: Clock, is_leader: Callable[[], bool] = lambda: True) -> None:
        self._program: Program = program
        self._is_leader = is_leader
        self._scheduler: Scheduler | None = None
        self._checks: SelfCheckFigures | None = None
        self.now_ns = clock.now_ns
        self.stories = PodStories(clock.now_ns)
        self.flow = FlowCounters(clock)

    def show(self, scheduler: Scheduler, checks: SelfChecks | None = None) -> None:
        """This is the scheduler; it checks itself by `checks`."""
        self._scheduler = scheduler
        self.flow.profiles = [*scheduler.core.runners]
        self.flow.follow(scheduler)
        if checks is not None:
            self._checks = SelfCheckFigures(0, 0, "")
            checks.on_checked = self._checked

    def counting(self, inner: Observer) -> Observer:
        """The observer to build the scheduler with, around this one."""
        return self.flow.around(inner)

    def telling(self, other: TellPod | None = None) -> TellPod:
        """The function to build the scheduler with for the stories of pods; `other` gets them as well."""
        tell = self.stories.tell
        if other is None:
            return tell

        def both(pod: Pod, text: str) -> None:
            other(pod, text)
            tell(pod, text)

        return both

    @property
    def scheduler(self) -> Scheduler:
        assert self._scheduler is not None, "`show` comes first"
        return self._scheduler

    def facts(self) -> SourceFacts:
        return SourceFacts(self._program, [*self.scheduler.core.runners], self._is_leader())

    def self_check(self) -> SelfCheckFigures | None:
        return self._checks

    def _checked(self, differences: int) -> None:
        """A self-check has ended, and found so many differences."""
        before = self._checks or SelfCheckFigures(0, 0, "")
        self._checks = SelfCheckFigures(before.runs + 1, before.differences + differences, in_millis(self.now_ns()))


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
