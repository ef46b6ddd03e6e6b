"""The live view of `mooring up` with hostile text: the styles are the view's own, and each text stays on its line."""

import io
import re
import unicodedata

import pytest
from rich.console import Console

from asking import ask
from hostile_text import FORGED, HOSTILE, MARK, hostile_objects
from mooring.cli.up_session import UpView
from mooring.embedded.embedded_cluster import (
    ClusterStatistics,
    ClusterSummary,
    EmbeddedCluster,
    EmbeddedSettings,
    NodeUsage,
)
from mooring.embedded.seeding import seed

STYLES = re.compile(r"\x1b\[[\d;]*m")
"""Bold, dim and colours: all that the view itself sends."""
WIDE = "東京" * 100
STACKED = "e" + "\u0301" * 300


def drawn(summary: ClusterSummary, width: int) -> list[str]:
    """The lines of the view on a terminal."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=width, height=40, color_system="standard")
    screen.print(UpView("https://127.0.0.1:6443").draw(summary))
    written = screen.file.getvalue()  # type: ignore[attr-defined]
    return STYLES.sub("", written).rstrip("\n").split("\n")


def check(lines: list[str], width: int) -> None:
    for line in lines:
        hidden = [f"U+{ord(c):04X}" for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]
        assert not hidden, f"{hidden}: {line!r}"
        assert not line.strip().startswith(FORGED)
        assert columns(line) <= width, line


def columns(line: str) -> int:
    """How many columns of a terminal a line takes, by Unicode's own tables."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line.rstrip()
    )


@pytest.mark.parametrize("width", [20, 80, 300])
@pytest.mark.parametrize("text", [HOSTILE, f"{HOSTILE}\ud800", WIDE, STACKED, "x" * 1_000_000], ids=range(5))
def test_every_text_stays_on_its_line(text: str, width: int) -> None:
    nodes = [NodeUsage(text, 0.5, 0.5, 1)]
    summary = ClusterSummary({"Pending": 1}, 0, 0, nodes, [(text, text)] * 2, [text] * 3)
    plain = ClusterSummary({"Pending": 1}, 0, 0, [NodeUsage("n", 0.5, 0.5, 1)], [("p", "w")] * 2, ["e"] * 3)
    lines = drawn(summary, width)
    check(lines, width)
    if width > 70:  # the bars take two lines on a terminal that is narrower
        assert len(lines) == len(drawn(plain, width))
        assert text[:1] in "\n".join(lines)


def test_the_view_of_a_hostile_cluster() -> None:
    cluster = EmbeddedCluster(EmbeddedSettings())
    statistics = ClusterStatistics(cluster)
    seed(cluster.api, hostile_objects())
    events = [item for item in hostile_objects() if item["kind"] == "Event"]
    for event in (each for each in events if MARK in each["message"] + each["reason"]):
        ask(cluster.api, "POST", "/api/v1/namespaces/default/events", event)
    first = statistics.summary()
    cluster.settle()
    later = statistics.summary()
    assert MARK in str(first.events) and MARK in str(later.pending)
    for summary in (first, later):
        lines = drawn(summary, 120)
        check(lines, 120)
        assert MARK in "\n".join(lines)
