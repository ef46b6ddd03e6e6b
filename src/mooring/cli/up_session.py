"""A cluster on this machine that is served until Ctrl-C, or until the command of --exec ends, and its live view: pods, nodes,
pending pods and events on one screen, drawn twice a second."""

import asyncio
import os
import shlex
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.app.config_reload import FAILED, SAME, ConfigReload, ConfigReloads, ConfigSource
from mooring.app.dashboards import DashboardPortError
from mooring.app.up import EmbeddedService, ServiceSettings, serving
from mooring.cli.refusal import refuse
from mooring.cli.terminal import tell
from mooring.embedded.embedded_cluster import ClusterStatistics, ClusterSummary, EmbeddedCluster, NodeUsage
from mooring.kit import process
from mooring.kit.logs import one_line
from mooring.kit.shown_text import shown
from mooring.kit.tasks import first_of, settle
from mooring.model.quantity import show_percent

LINK_VARIABLE = "MOORING_DASHBOARD"
"""Where the command of --exec finds the link to the dashboard."""
TRY = """\
  kubectl get nodes
  kubectl create deployment web --image=nginx --replicas=10
  kubectl get pods -o wide -w
  mooring nodes fail node-0001
"""
_INTERRUPTED_S = 2.0
"""How long the command of --exec has to end after Ctrl-C."""
_FRAME_S = 0.5
"""How often the live view is drawn."""


def report(text: str, error: Exception | None) -> None:
    """Print what went wrong in a part of the cluster, which goes on."""
    tell(one_line(f"{text}: {type(error).__name__}: {error}" if error is not None else text), err=True)


class StopSignal(asyncio.Event):
    """Set by the first signal that asks the program to stop."""

    number = 0

    def came(self, number: signal.Signals) -> None:
        if number == signal.SIGHUP and not self.is_set():
            tell("received SIGHUP: stopping", err=True)
        self.number = self.number or number
        self.set()


@dataclass(frozen=True, slots=True)
class UpSession:
    """One run of a command that serves a cluster, after its input was read."""

    cluster: EmbeddedCluster
    settings: ServiceSettings
    command: str | None
    quiet: bool
    advice: str = TRY
    source: ConfigSource | None = None
    """The file of the configuration, which is read again when it changes."""

    async def run(self) -> int:
        """Serve until Ctrl-C, SIGTERM, SIGHUP or the end of the command. Returns the exit status."""
        stopped, reloads = StopSignal(), self._reloads()
        process.on_stop_signals(stopped.came, None if reloads is None else reloads.reload)
        following = None if reloads is None else asyncio.create_task(reloads.follow(asyncio.sleep))
        try:
            async with serving(self.cluster, self.settings, report) as service:
                if self.command is not None:
                    if not self.quiet:
                        _tell_dashboard(service)
                    return await _execute(self.command, service, stopped)
                self._announce(service)
                await self._watch(service, stopped)
        except (KubeconfigError, DashboardPortError) as fault:
            refuse(fault)
        except OSError as fault:
            if fault.errno is None or not self.settings.port:
                raise
            refuse(f"port {self.settings.port} is not available: {fault.strerror}. Use --port 0 for a free port")
        finally:
            if following is not None:
                following.cancel()
        tell("stopped", err=True)
        return 0

    def _reloads(self) -> ConfigReloads | None:
        """The reader of the configuration file, which reads it again and again; None without a file."""
        if self.source is None:
            return None
        cluster, shown = self.cluster, self.cluster.settings.metrics
        return ConfigReloads(
            self.source,
            cluster.settings.config,
            cluster.scheduler,
            cluster.reconfigure,
            partial(_tell_reload, self.source.file),
            None if shown is None else shown.registry,
        )

    def _announce(self, service: EmbeddedService) -> None:
        """Print the export line to standard output, for `eval`, and what to try to standard error."""
        tell(f"export KUBECONFIG={shlex.quote(str(service.kubeconfig))}")
        if self.settings.kubeconfig is not None:
            tell(f"The current context is {service.context} until this cluster stops.", err=True)
        _tell_dashboard(service)
        tell("", "Try, in another terminal, after that line:", *self.advice.split("\n"), err=True)

    async def _watch(self, service: EmbeddedService, stopped: StopSignal) -> None:
        """Show the live view on a terminal; otherwise only wait."""
        screen = Console(stderr=True)
        if self.quiet or not screen.is_terminal:
            await stopped.wait()
            return
        with suppress(OSError):  # the terminal has closed, maybe before the first frame, and SIGHUP is on its way
            await _show(screen, ClusterStatistics(service.cluster), UpView(service.url), stopped)
        await stopped.wait()


def _tell_reload(file: str, reload: ConfigReload) -> None:
    """Print the outcome of a reading of the configuration."""
    for section in reload.ignored:
        tell(f"{file}: {section} needs a restart and stays as it is", err=True)
    if reload.result == FAILED:
        tell(*reload.changes, f"{file}: nothing changed", err=True)
    elif reload.result == SAME:
        tell(f"{file}: the configuration is the same", err=True)
    else:
        tell(*(f"{file}: {change}" for change in reload.changes), err=True)


async def _show(screen: Console, statistics: ClusterStatistics, view: "UpView", stopped: StopSignal) -> None:
    """Draw the view until the program is asked to stop. Raises OSError where the terminal takes no writes."""
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        while not stopped.is_set():
            live.update(view.draw(statistics.summary()), refresh=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), _FRAME_S)


def _tell_dashboard(service: EmbeddedService) -> None:
    """The link has the token: whoever has it can do everything with this cluster."""
    if service.dashboard:
        tell(f"Dashboard: {service.dashboard}", err=True)


async def _execute(command: str, service: EmbeddedService, stopped: StopSignal) -> int:
    """The exit status of the command, as a shell counts it. SIGTERM or SIGHUP ends the command first. A terminal
    sends Ctrl-C to the command as well, which then has a moment to end by itself.

    The command gets a kubeconfig that has only this cluster: in a shared file, the current context may change meanwhile.
    """
    environment = {**os.environ, "KUBECONFIG": str(service.own_kubeconfig), LINK_VARIABLE: service.dashboard}
    process = await asyncio.create_subprocess_shell(command, env=environment)
    waiting = asyncio.create_task(process.wait())
    stopping = asyncio.create_task(stopped.wait())
    await first_of(waiting, stopping)
    stopping.cancel()
    if stopped.number == signal.SIGINT:
        await settle((waiting,), _INTERRUPTED_S)
    if not waiting.done():
        process.terminate()
    status = await waiting
    return status if status >= 0 else 128 - status


# ---- the live view

_BAR = 20
"""Characters of a bar."""
_MOST_ROWS = 12
"""Up to so many nodes have a line each; more are shown as a histogram, so that the view fits a terminal of 24 lines."""
_BINS = 10
_WIDEST = 1000
"""No terminal shows more characters of a line: a message may have a million."""
_STATES = ("Pending", "Running", "Terminating", "Succeeded", "Failed")


class UpView:
    """Renders a ClusterSummary."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._since = time.monotonic()

    def draw(self, summary: ClusterSummary) -> RenderableType:
        """The view, which fits itself to the terminal."""
        parts: list[RenderableType] = [self._head(), Text(_pods_line(summary)), Text("")]
        parts.append(_node_bars(summary.nodes) if len(summary.nodes) <= _MOST_ROWS else _histogram(summary.nodes))
        if summary.pending:
            parts += [Text(""), Text("waiting", style="bold")]
            parts += [_line(f"  {name}: {why}") for name, why in summary.pending]
        if summary.events:
            parts += [Text(""), Text("events", style="bold")]
            parts += [_line(f"  {event}", style="dim") for event in summary.events]
        return Group(*parts)

    def _head(self) -> Text:
        up_s = int(time.monotonic() - self._since)
        return Text.assemble(
            ("Mooring", "bold"), f"  {self._url}  up {up_s // 60}:{up_s % 60:02d}  ", ("Ctrl-C stops", "dim")
        )


def _pods_line(summary: ClusterSummary) -> str:
    counts = [f"{summary.pods[state]:,} {state.lower()}" for state in _STATES if summary.pods.get(state)]
    pace = f"{summary.created_per_s:,.0f} created/s   {summary.bound_per_s:,.0f} bound/s"
    return f"pods   {'   '.join(counts) or 'none'}   |   {pace}"


def _node_bars(nodes: list[NodeUsage]) -> Table:
    """A row with bars for each node."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for header in ("node", "cpu", "", "memory", "", "pods"):
        table.add_column(header, justify="right" if header in ("pods", "") else "left")
    for load in nodes:
        cpu, memory = (show_percent(share, decimals=0) for share in (load.cpu, load.memory))
        table.add_row(_line(load.name), _bar(load.cpu), cpu, _bar(load.memory), memory, str(load.pods))
    return table


def _histogram(nodes: list[NodeUsage]) -> Table:
    """How many nodes are how full, by the larger share of cpu and memory."""
    counts = [0] * _BINS
    for load in nodes:
        counts[min(int(max(load.cpu, load.memory) * _BINS), _BINS - 1)] += 1
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("fullness")
    table.add_column(f"{len(nodes):,} nodes")
    table.add_column("", justify="right")
    for i, count in enumerate(counts):
        table.add_row(f"{i * 10:>3}-{i * 10 + 10}%", _bar(count / max(counts), 40), f"{count:,}" if count else "")
    return table


def _bar(share: float, width: int = _BAR) -> Text:
    filled = min(round(share * width), width)
    style = "red" if share > 0.9 else "yellow" if share > 0.7 else "green"
    return Text.assemble(("█" * filled, style), ("·" * (width - filled), "dim"))


def _line(text: str, style: str = "") -> Text:
    """Text of others on one line, cut where the terminal ends: a letter may take two columns, or none."""
    return Text(shown(text[:_WIDEST]), style, no_wrap=True, overflow="ellipsis")
