"""Serves the dashboard of a program on loopback, or puts it together for the server that the program has anyway."""

import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mooring.dashboard.interfaces import DashboardSource, Doings, Questions, TimeLine
from mooring.dashboard.serving.api_paths import DashboardParts
from mooring.dashboard.serving.dashboard_handler import DashboardHandler
from mooring.dashboard.serving.loopback_server import LoopbackServer
from mooring.kit.version import VERSION
from mooring.scheduler.core import Report

DEFAULT_PORT = 6480
"""So that a page that is open finds the cluster again after a restart; another one where it is taken."""


class DashboardPortError(Exception):
    """The port that was asked for is not available."""


@dataclass(frozen=True, slots=True)
class DashboardPlan:
    """What is served, and where."""

    source: DashboardSource
    port: int | None = 0
    """0 takes a free one; None takes DEFAULT_PORT if that is free."""
    make_questions: Callable[[], Questions] | None = None
    """Called on the event loop; None: nothing can be asked."""
    timeline: TimeLine | None = None


def make_handler(plan: DashboardPlan, doings: Doings | None, report: Report) -> DashboardHandler:
    """The handler of a dashboard. Call it on the event loop that owns the scheduler."""
    questions = None if plan.make_questions is None else plan.make_questions()
    return DashboardHandler(DashboardParts(plan.source, VERSION, questions, doings, plan.timeline), report)


async def serve_dashboard(
    stack: AsyncExitStack, plan: DashboardPlan, token: str, doings: Doings | None, report: Report
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
