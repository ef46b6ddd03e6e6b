"""The live view of `mooring up`: pods, nodes, pending pods and events on one screen, drawn twice a second."""

import time

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mooring.embedded.cluster import ClusterSummary, NodeUsage
from mooring.kit.shown_text import shown
from mooring.model.quantity import show_percent

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


def console() -> Console:
    return Console(stderr=True)
