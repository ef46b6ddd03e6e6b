"""The report of a simulated day: waiting times, utilisation as small charts, or all of it as JSON.

The JSON is a public interface: fields may be added, but not renamed or removed.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mooring.cli.report import SHOWN_ALWAYS, evictions_as_json, format_table, story_as_json, tell
from mooring.model.quantity import show_bytes
from mooring.sim.day import DayReport, Waits
from mooring.sim.gauge import Span
from mooring.sim.results import show_seconds, show_time

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
BARS, PLAIN_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"
"""Characters for 0 to 100 %; the plain ones are for an output encoding without the others."""


def day_as_text(report: DayReport, took_s: float, wide: bool, summary_first: bool = False) -> Iterator[str]:
    """The parts of the report in their order, each a block of lines. The summary is the last, or else the first, with the
    time that each part of the work took."""
    if summary_first:
        yield _summary(report, took_s)
        yield _parts(report)
    if report.story is not None:
        yield tell(report.story, wide)
    if report.waits:
        yield _waits(report.waits)
    if report.spans:
        yield _utilisation(report)
        if wide:
            yield _span_table(report.spans)
    if wide and report.nodes:
        yield _nodes(report)
    if not summary_first:
        yield _summary(report, took_s)


def day_as_json(report: DayReport, took_s: float) -> dict[str, Any]:
    """The whole report; times in seconds."""
    answer: dict[str, Any] = {
        "simulatedSeconds": report.simulated_s,
        "tookSeconds": round(took_s, 3),
        "planned": report.planned,
        "arrived": report.arrived,
        "placed": report.placed,
        "finished": report.finished,
        "pending": report.pending,
        "attempts": report.attempts,
        "rescued": report.rescued,
        "waits": [_waits_json(waits) for waits in report.waits],
        "meanUtilisation": report.mean_used,
        "spans": [{"from": span.from_s, "utilisation": span.used, "pending": span.pending} for span in report.spans],
        "nodes": [{"name": name, "placed": number} for name, number in report.placed_on().items()],
        "placements": report.placements,
        "preempted": evictions_as_json(report.preempted),
        "notes": report.notes,
        "parts": {part: round(seconds, 6) for part, seconds in report.parts_s.items()},
        "peakMemoryBytes": report.peak_bytes,
    }
    if report.story is not None:
        answer["story"] = story_as_json(report.story)
    return answer


def _waits(waits: Sequence[Waits]) -> str:
    """A row for each priority, the highest first."""
    heads = ("PRIORITY", "PLACED", "P50", "P90", "P99", "MAX", "PENDING", "PREEMPTED")
    rows = [
        (
            entry.priority,
            len(entry.waited_s),
            *(show_seconds(entry.quantile_s(share)) for share in QUANTILES.values()),
            entry.pending,
            entry.preempted,
        )
        for entry in waits
    ]
    return "Time from arrival to binding\n" + format_table(heads, rows)


def _waits_json(waits: Waits) -> dict[str, Any]:
    quantiles = {name: waits.quantile_s(share) for name, share in QUANTILES.items()}
    counts = {"priority": waits.priority, "placed": len(waits.waited_s)}
    return {**counts, **quantiles, "pending": waits.pending, "preempted": waits.preempted}


def _utilisation(report: DayReport) -> str:
    """One line for each resource: a curve over time, its mean and its highest point."""
    spans = report.spans
    names = sorted(report.mean_used, key=lambda name: (name not in SHOWN_ALWAYS, name))
    rows = []
    for name in names:
        shares = [span.used[name] for span in spans]
        if name in SHOWN_ALWAYS or any(shares):
            mean, highest = (f"{100 * share:.1f}%" for share in (report.mean_used[name], max(shares)))
            rows.append((name.upper() if name in SHOWN_ALWAYS else name, _curve(shares, 1.0), mean, highest))
    waiting = [span.pending for span in spans]
    most = max(waiting)
    rows.append(("WAITING PODS", _curve(waiting, most), f"{sum(waiting) / len(waiting):.1f}", f"{most:.1f}"))
    each = show_seconds(report.simulated_s / len(spans))
    title = f"Requested share of the allocatable resources over {show_seconds(report.simulated_s)}; each character is {each}"
    return f"{title}\n" + format_table(("", "", "MEAN", "HIGHEST"), rows)


def _curve(values: Sequence[float], most: float) -> str:
    """A character for each value; anything above nothing is visible. Closed by a bar, so that its end can be seen."""
    bars = BARS if _can_show(BARS) else PLAIN_BARS
    steps = len(bars) - 1
    return (
        "".join(bars[min(steps, max(round(value / most * steps), value > 0)) if most else 0] for value in values) + "|"
    )


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _span_table(spans: Sequence[Span]) -> str:
    """A row for each span, with `-o wide`."""
    names = sorted({name for span in spans for name in span.used}, key=lambda name: (name not in SHOWN_ALWAYS, name))
    heads = ("FROM", *(name.upper() if name in SHOWN_ALWAYS else name for name in names), "WAITING PODS")
    rows = [
        (
            show_time(round(span.from_s * 1000) * 1_000_000),
            *(f"{100 * span.used.get(name, 0):.1f}%" for name in names),
            f"{span.pending:.1f}",
        )
        for span in spans
    ]
    return "Spans\n" + format_table(heads, rows)


def _nodes(report: DayReport) -> str:
    return "Pods placed by node\n" + format_table(("NODE", "PLACED"), [*report.placed_on().items()])


def _summary(report: DayReport, took_s: float) -> str:
    """The last two lines of the report."""
    fates = [
        (report.placed, f"placed on {_spread(report)}"),
        (report.finished, "finished"),
        (len(report.preempted), "preempted"),
        (report.pending, "pending"),
    ]
    told = ", ".join(f"{number} {what}" for number, what in fates if number) or "none placed"
    return (
        f"{report.arrived} {'pod' if report.arrived == 1 else 'pods'} arrived: {told}\n"
        f"{show_seconds(report.simulated_s)} simulated in {took_s:.1f} s, with {report.attempts} attempts"
    )


def _parts(report: DayReport) -> str:
    """Where the time went, and the memory that it needed."""
    total_s, pods = sum(report.parts_s.values()) or 1.0, max(report.arrived, 1)
    rows = [
        (part, f"{seconds:.1f}", f"{100 * seconds / total_s:.0f}%", f"{seconds / pods * 1e6:.0f}")
        for part, seconds in report.parts_s.items()
    ]
    table = "Where the time went\n" + format_table(("PART", "SECONDS", "SHARE", "µs A POD"), rows)
    return table if report.peak_bytes is None else f"{table}\npeak memory {show_bytes(report.peak_bytes)}"


def _spread(report: DayReport) -> str:
    """How many nodes have placements, and the range of their number: `3 nodes (2 to 54 on each)`."""
    counts = report.placed_on().values()
    nodes = f"{len(counts)} {'node' if len(counts) == 1 else 'nodes'}"
    if len(counts) < 2:
        return nodes
    low, high = min(counts), max(counts)
    return f"{nodes} ({low if low == high else f'{low} to {high}'} on each)"
