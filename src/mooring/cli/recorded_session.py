"""Serves a recording until Ctrl-C: the dashboard with its time line, and the cluster of one moment for kubectl."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mooring.answers.recorded.replaying import recorded_settings
from mooring.app.dashboards import DashboardPlan, plan_of_recording
from mooring.app.recorded_cluster import RecordedClusterSettings, moment_in, open_recorded
from mooring.app.up import ServiceSettings
from mooring.cli.answering import own_output
from mooring.cli.refusal import refuse
from mooring.cli.terminal import LateBar, tell
from mooring.cli.up_session import UpSession, report
from mooring.dashboard.interfaces import Program
from mooring.embedded.embedded_cluster import EmbeddedCluster
from mooring.framework.profile.registry import Registry
from mooring.kit import process
from mooring.kit.clock import in_seconds
from mooring.kit.logs import one_line
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.recording.segment_file import RecordingError

LEFT_OUT = 10
"""How many objects that could not be opened are named."""
ADVICE = """\
  kubectl get nodes
  kubectl get pods -A -o wide
  kubectl describe node NAME
"""


@dataclass(frozen=True, slots=True)
class ServedRecording:
    """A recording that is served, and where."""

    program: Program
    runs: Sequence[RecordedRun]
    registry: Registry
    until_ns: int | None = None
    """The moment for kubectl, and the first one of the dashboard; None: the end."""
    schedules: bool = False
    """Whether the recorded scheduler works in the cluster for kubectl."""
    port: int = 0
    dashboard_port: int | None = None


def serve_recording(served: ServedRecording, command: str | None, nothing: str) -> int:
    """Serve until Ctrl-C or the end of the command, and return its status. `nothing` says that there is no cluster at that
    moment."""
    cluster = _cluster(served, nothing)
    settings = ServiceSettings(served.port, dashboard=_dashboard(served, command))
    session = UpSession(cluster, settings, command, True, ADVICE)
    return process.run_event_loop(session.run())


def _cluster(served: ServedRecording, nothing: str) -> EmbeddedCluster:
    """The cluster of the moment, for kubectl."""
    moment = moment_in(served.runs, served.until_ns)
    warn(moment.problems)
    if not moment.objects:
        refuse(nothing)
    recorded = recorded_settings(served.runs)
    settings = RecordedClusterSettings(recorded.config, served.registry, recorded.gates, served.schedules)
    cluster, refusals = open_recorded(moment, settings, report)
    for text in refusals[:LEFT_OUT]:
        tell(one_line(f"left out: {text}"), err=True)
    if len(refusals) > LEFT_OUT:
        tell(f"left out: {len(refusals) - LEFT_OUT} more objects", err=True)
    tell(f"The cluster as it was at {in_seconds(moment.now_ns)}", err=True)
    return cluster


def _dashboard(served: ServedRecording, command: str | None) -> DashboardPlan | None:
    """None if no run can be replayed, such as those of another scheduler: kubectl can look at their objects all the same."""
    port = 0 if command is not None and served.dashboard_port is None else served.dashboard_port
    try:
        with own_output(), LateBar("replaying") as bar:
            return plan_of_recording(served.program, served.runs, served.registry, served.until_ns, report, port, bar)
    except RecordingError as fault:
        warn(f"no dashboard: {line}" for line in str(fault).splitlines())
        return None


def warn(problems: Iterable[str]) -> None:
    for problem in problems:
        tell(one_line(f"warning: {problem}"), err=True)
