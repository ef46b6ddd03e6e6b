"""Writes the tables and plots of docs/performance.md from records of benchmarks (benchmarks/records.py).

python tools/performance.py                    from benchmarks/results/baseline.json, and scale.json if it is there
python tools/performance.py --check            changes nothing; exit code 1 if the page is not what the record gives

The page has a pair of comments for each table, `<!-- table: nodes -->` and `<!-- end -->`; what is between them is replaced.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from cases import Workload
from plot import Axis, Line, Plot, as_svg, linear_axis, linear_axis_at, log_axis, log_axis_at, shown
from records import BASELINE, BUSY_LOAD, SCALE_RECORD, Measurement, Record, RecordError, read_record

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "plots"
MEMORY_TARGET_MIB = 160
"""For 5,000 nodes with 30,000 pods, after 5,000 templates."""
_SCALE_TITLE = "Time of a decision up to 1,000,000 nodes"
_MARKDOWN = re.compile(r"([\\`*_\[\]|!#])")

NumberOf = Callable[[Workload], int]
"""The number of a workload that a series varies."""


class PageError(Exception):
    """A page or a record from which nothing can be made."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write tables and plots of docs/performance.md.")
    parser.add_argument("--record", type=Path, default=BASELINE, metavar="FILE", help="default: the baseline")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something would change")
    options = parser.parse_args(arguments)
    try:
        scale = read_record(SCALE_RECORD) if SCALE_RECORD.exists() else None
        made = files_of(read_record(options.record), scale, PAGE.read_text())
    except (RecordError, PageError, OSError) as error:
        sys.exit(f"performance: {error}")
    changed = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if options.check:
        sys.exit("\n".join(f"{path} is not what the record gives: make performance" for path in changed) or 0)
    for path in changed:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path])
        print(f"wrote {path}")


def files_of(record: Record, scale: Record | None, page: str) -> dict[Path, str]:
    """The page with its tables, and the plots. `scale` is the record of growth to 1,000,000 nodes; without it, the page keeps
    what it says about that. Raises PageError."""
    plots, tables = plots_of(record), tables_of(record)
    if scale is not None:
        plots["scale"], tables["scale"] = scale_plot(scale), scale_table(scale)
    return {PAGE: with_tables(page, tables), **{PLOTS / f"{name}.svg": as_svg(plot) for name, plot in plots.items()}}


def with_tables(page: str, tables: dict[str, str]) -> str:
    """The page with new tables between the comments. Raises PageError unless each has its place."""
    for name, table in tables.items():
        place = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if len(place.findall(page)) != 1:
            raise PageError(f"{PAGE.name} must have `<!-- table: {name} -->` once, followed by `<!-- end -->`")
        page = place.sub(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", page)  # type: ignore[misc]
    return page


# ---- tables


def tables_of(record: Record) -> dict[str, str]:
    return {
        "source": source_of(record),
        "workloads": workloads_table(record.part("workloads")),
        "nodes": growth_table(record.part("nodes"), "nodes", nodes_of, between=(5000, 100000)),
        "pods": growth_table(record.part("pods"), "pods on nodes", placed_of),
        "templates": growth_table(record.part("templates"), "templates", templates_of),
        "memory": memory_table(record),
    }


def nodes_of(workload: Workload) -> int:
    return workload.nodes


def placed_of(workload: Workload) -> int:
    return workload.placed


def templates_of(workload: Workload) -> int:
    """Without a number each pending pod has its own."""
    return workload.templates or workload.pending


def source_of(record: Record) -> str:
    """Where the figures come from, and whether they are to be trusted."""
    commit, machine = record.commit, record.machine
    changed = " with changes that are not committed" if commit.dirty else ""
    text = f"Measured on {cell(record.date[:10])} at commit {cell(commit.id[:7])}{changed}: {cell(str(machine))}; "
    text += f"{record.runs} run{'s' if record.runs > 1 else ''} of each, load before {machine.load_before:g}."
    if machine.load_before >= BUSY_LOAD:
        text += "\n\n**Provisional: the machine was busy, so these figures are too low.**"
    return text


def workloads_table(measurements: Sequence[Measurement]) -> str:
    """One row for each workload, with and without the queue."""
    rates = {each.workload: each for each in measurements}
    kinds = list(dict.fromkeys(workload.kind for workload in rates))
    rows = []
    for workload, each in sorted(rates.items(), key=lambda item: (kinds.index(item[0].kind), item[0].nodes)):
        plain = replace(workload, queue=False)
        if workload.queue and plain in rates:
            continue
        queued = rates.get(replace(workload, queue=True))
        rows.append([*_named(workload), *_figures(each), *_with_queue(each, queued)])
    head = ["workload", "nodes", "placed", "pending", "pods/s", "µs a pod", "p50 µs", "p99 µs", "peak MiB"]
    return table([*head, "pods/s with queue", "share"], rows)


def _named(workload: Workload) -> list[str]:
    amounts = (workload.nodes, workload.placed, workload.pending)
    return [cell(workload.kind), *(f"{amount:,}" for amount in amounts)]


def _figures(each: Measurement) -> list[str]:
    """Rates are medians, times those of the run with the best rate. A workload that needs the queue has none without."""
    if each.workload.queue:
        return ["", "", *_times(each)]
    return [f"{each.rate:,.0f}", f"{each.cost_us:,.0f}", *_times(each)]


def _times(each: Measurement) -> list[str]:
    best = each.per_second.index(max(each.per_second))
    return [f"{each.p50_us[best]:,.0f}", f"{each.p99_us[best]:,.0f}", f"{max(each.peak_mib):,.0f}"]


def _with_queue(each: Measurement, queued: Measurement | None) -> list[str]:
    if queued is None:
        return ["", ""]
    return [f"{queued.rate:,.0f}", "" if queued is each else f"{queued.rate / each.rate:.0%}"]


def growth_table(
    measurements: Sequence[Measurement], varied: str, number_of: NumberOf, between: tuple[int, int] | None = None
) -> str:
    """µs a pod by kind and number. `between`: by how much the cost grows from one number to another."""
    costs = costs_by_kind(measurements, number_of)
    numbers = sorted({number for points in costs.values() for number in points})
    head = [f"µs a pod, by {varied}", *(f"{number:,}" for number in numbers)]
    rows = [[cell(kind), *(_cost(points.get(number)) for number in numbers)] for kind, points in costs.items()]
    if between is not None:
        head.append(f"{between[0]:,} to {between[1]:,}")
        for row, points in zip(rows, costs.values(), strict=True):
            known = between[0] in points and between[1] in points
            row.append(f"{points[between[1]] / points[between[0]]:.1f}x" if known else "")
    return table(head, rows)


def _cost(cost_us: float | None) -> str:
    return "" if cost_us is None else f"{cost_us:,.0f}"


def costs_by_kind(measurements: Iterable[Measurement], number_of: NumberOf) -> dict[str, dict[int, float]]:
    """Kind -> number -> µs a pod, in the order of the record."""
    costs: dict[str, dict[int, float]] = {}
    for each in measurements:
        costs.setdefault(each.workload.kind, {})[number_of(each.workload)] = each.cost_us
    return costs


def scale_table(record: Record) -> str:
    """The plot, and the median of single decisions by kind and number of nodes, with the peak of memory."""
    times = decision_times(record)
    numbers = sorted({number for points in times.values() for number in points})
    peaks = {each.workload.nodes: max(each.peak_mib) for each in record.part("scale")}
    head = ["p50 µs, by nodes", *(f"{number:,}" for number in numbers), f"{numbers[-2]:,} to {numbers[-1]:,}"]
    rows = [
        [
            cell(kind),
            *(_cost(points.get(number)) for number in numbers),
            f"{points[numbers[-1]] / points[numbers[-2]]:.1f}x",
        ]
        for kind, points in times.items()
    ]
    rows.append(["peak MiB", *(f"{peaks[number]:,.0f}" for number in numbers), ""])
    return f"![{_SCALE_TITLE}](plots/scale.svg)\n\n{source_of(record)}\n\n{table(head, rows)}"


def decision_times(record: Record) -> dict[str, dict[int, float]]:
    """Kind -> number of nodes -> the median of the times of single decisions, in the run where it is least. Raises
    PageError."""
    times: dict[str, dict[int, float]] = {}
    for each in record.part("scale"):
        times.setdefault(each.workload.kind, {})[each.workload.nodes] = min(each.p50_us)
    if any(len(points) < 2 for points in times.values()) or not times:
        raise PageError("the record of growth to 1,000,000 nodes has less than two sizes: make bench-scale")
    return times


def memory_table(record: Record) -> str:
    head = ["nodes", "pods", "templates in use", "templates so far", "MiB resident", "MiB at the peak"]
    rows = []
    for point in record.memory:
        amounts = (point.nodes, point.pods, point.alive, point.templates, point.rss_mib, point.peak_mib)
        rows.append([f"{amount:,.0f}" for amount in amounts])
    return table(head, rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are on the right."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def cell(text: str) -> str:
    """Text of a record in Markdown: on one line, and neither markup nor HTML."""
    return _MARKDOWN.sub(r"\\\1", escape(" ".join(text.split())))


# ---- plots


def plots_of(record: Record) -> dict[str, Plot]:
    own = max((templates_of(each.workload) for each in record.part("templates")), default=0)
    return {
        "nodes": cost_plot(record, "nodes", "Cost of a pod by the number of nodes", nodes_of, _log("nodes")),
        "pods": cost_plot(record, "pods", "Cost of a pod by the number of pods on 5,000 nodes", placed_of, _by_pods),
        "templates": cost_plot(
            record,
            "templates",
            "Cost of a pod by the number of templates, 5,000 nodes",
            templates_of,
            _log(f"templates, logarithmic ({own:,}: each pod has its own)"),
        ),
        "memory": memory_plot(record),
    }


def _log(label: str) -> Callable[[Iterable[float]], Axis]:
    text = label if "logarithmic" in label else f"{label}, logarithmic"
    return lambda values: log_axis_at(text, values)


def _by_pods(values: Iterable[float]) -> Axis:
    return linear_axis_at("pods on nodes", values)


def cost_plot(
    record: Record, part: str, title: str, number_of: NumberOf, x_axis: Callable[[Iterable[float]], Axis]
) -> Plot:
    costs = costs_by_kind(record.part(part), number_of)
    if not costs:
        raise PageError(f"the record has no measurements of the part {part}")
    return _growth_plot(title, "Median time of a decision, in µs a pod.", costs, x_axis)


def scale_plot(record: Record) -> Plot:
    return _growth_plot(_SCALE_TITLE, "Median of single decisions, in µs.", decision_times(record), _log("nodes"))


def _growth_plot(
    title: str, what: str, costs: dict[str, dict[int, float]], x_axis: Callable[[Iterable[float]], Axis]
) -> Plot:
    """Lines by kind over a number."""
    lines = tuple(Line(kind, tuple(sorted(points.items()))) for kind, points in costs.items())
    x = x_axis(number for points in costs.values() for number in points)
    y = log_axis("µs a pod, logarithmic", (cost for points in costs.values() for cost in points.values()))
    told = "; ".join(f"{line.name}: {_told(line, 'µs')}" for line in lines)
    return Plot(title, f"{what} {told}.", x, y, lines)


def _told(line: Line, unit: str) -> str:
    return ", ".join(f"{shown(round(y))} {unit} at {shown(x)}" for x, y in line.points)


def memory_plot(record: Record) -> Plot:
    if not record.memory:
        raise PageError("the record has no measurements of memory")
    sizes: dict[str, dict[float, float]] = {}
    for point in record.memory:
        sizes.setdefault(f"{point.alive:,} templates in use", {})[point.templates] = point.rss_mib
    held = [Line(name, tuple(sorted(points.items()))) for name, points in sizes.items()]
    counts = sorted({point.templates for point in record.memory})
    target = Line(f"target: {MEMORY_TARGET_MIB} MiB", tuple((x, MEMORY_TARGET_MIB) for x in counts), is_limit=True)
    x = log_axis_at("templates so far, logarithmic", counts)
    y = linear_axis("MiB resident", [*(point.rss_mib for point in record.memory), MEMORY_TARGET_MIB])
    told = "; ".join(f"{line.name}: {_told(line, 'MiB')}" for line in held)
    cluster = f"{record.memory[0].nodes:,} nodes with {record.memory[0].pods:,} pods"
    title = f"Memory after pods of many templates, {cluster}"
    return Plot(
        title, f"Resident memory of the process by the number of templates so far. {told}.", x, y, (*held, target)
    )


if __name__ == "__main__":
    main()
