"""Plots as SVG inside a page. Colours and dashes come from the style of the page, which knows light, dark and paper.

Readers who do not see a plot get its title and its numbers in words; the tables of the page have them too.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mooring.answers.form.report_parts import AnswerPlot, BandPlot, BarPlot, CurvePlot, Unit, safe
from mooring.answers.form.utilisation import GroupUse
from mooring.model.quantity import show_percent
from mooring.sim.gauge import MAIN

# ---- How full zones and pools are, as plots: at one moment, or at several side by side.


Groups = Mapping[str, GroupUse]
_NONE = GroupUse()


def use_plots(kind: str, moments: Mapping[str, Groups]) -> list[AnswerPlot]:
    """Pods and requested shares by group; `kind` is what the groups are, and moments have names. Empty without groups."""
    names = sorted({name for groups in moments.values() for name in groups})
    if not names:
        return []
    pods = {moment: [float(groups.get(name, _NONE).pods) for name in names] for moment, groups in moments.items()}
    counted = BarPlot(f"Pods by {kind}", names, pods if len(moments) > 1 else {"pods": next(iter(pods.values()))})
    return [counted, *_shares(kind, names, moments)]


def _shares(kind: str, names: Sequence[str], moments: Mapping[str, Groups]) -> list[AnswerPlot]:
    """One plot with all resources, or one of each resource that compares moments."""
    shares = {
        (resource, moment): [groups.get(name, _NONE).share(resource) for name in names]
        for resource in MAIN
        for moment, groups in moments.items()
    }
    if len(moments) == 1:
        bars = {resource: values for (resource, _), values in shares.items()}
        return [BarPlot(f"Requested share by {kind}", names, bars, Unit.SHARE)]
    return [
        BarPlot(
            f"Requested {resource} by {kind}",
            names,
            {moment: shares[resource, moment] for moment in moments},
            Unit.SHARE,
        )
        for resource in MAIN
    ]


WIDTH = 600
LEFT, RIGHT, BOTTOM = 64, 20, 34
"""Margins of curves."""
CURVES_HEIGHT = 180
"""The height of the area of curves, without margins."""
LEGEND_WIDTH, LEGEND_HEIGHT = 160, 20
COLOURS = 6
"""How many series are told apart; later ones are left out."""
LABEL_WIDTH, VALUE_WIDTH = 150, 70
"""Room for the label of bars, and for the number behind each."""
BAR_HEIGHT, BAR_GAP = 15, 9
LABEL_HEIGHT = 18
"""The height of long labels, which stand above their bars."""
MOST_BARS = 20
"""How many labels a plot shows; tables have all."""
LABEL_CHARACTERS, LONG_CHARACTERS, LEGEND_CHARACTERS = 20, 80, 18
_ROUNDING = 1e-9
_DURATIONS_S = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Steps of a time axis above seconds."""


def plot_html(plot: AnswerPlot, number: int) -> str:
    """A figure with the plot; `number` makes its ids unique in the page."""
    if isinstance(plot, BandPlot):
        drawn = _bands(plot, number)
    else:
        drawn = _curves(plot, number) if isinstance(plot, CurvePlot) else _bars(plot, number)
    more = len(plot.labels) - MOST_BARS if isinstance(plot, BarPlot) else 0
    rest = f'<p class="more">... and {more:,} more: the tables have all</p>' if more > 0 else ""
    return f"<figure>\n<figcaption>{safe(plot.title)}</figcaption>\n{drawn}{rest}\n</figure>"


def _svg(title: str, told: str, number: int, height: float, parts: Iterator[str]) -> str:
    names = f"plot-{number}-title", f"plot-{number}-desc"
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{names[0]}" aria-describedby="{names[1]}">\n'
        f'<title id="{names[0]}">{safe(title)}</title>\n<desc id="{names[1]}">{safe(told, 2000)}</desc>\n'
        f"{chr(10).join(parts)}\n</svg>"
    )


def _text(x: float, y: float, text: str, kind: str, most: int = LABEL_CHARACTERS) -> str:
    """A short text; all of it shows when the pointer is over it."""
    whole = f"<title>{safe(text)}</title>" if len(text) > most else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{whole}{safe(text, most)}</text>'


def _legend(names: Sequence[str], kind: str) -> Iterator[str]:
    in_row = (WIDTH - LEFT) // LEGEND_WIDTH
    for i, name in enumerate(names if len(names) > 1 else ()):
        x, y = LEFT + i % in_row * LEGEND_WIDTH, i // in_row * LEGEND_HEIGHT + 14
        if kind == "line":
            yield f'<line x1="{x}" y1="{y - 4}" x2="{x + 22}" y2="{y - 4}" class="line c{i}"/>'
        else:
            yield f'<rect x="{x + 8}" y="{y - 10}" width="12" height="12" class="bar c{i}"/>'
        yield _text(x + 28, y, name, "legend", LEGEND_CHARACTERS)


def _legend_height(names: Sequence[str]) -> int:
    in_row = (WIDTH - LEFT) // LEGEND_WIDTH
    return LEGEND_HEIGHT * math.ceil(len(names) / in_row) + 8 if len(names) > 1 else 0


# ---- curves


def _curves(plot: CurvePlot, number: int) -> str:
    curves = dict([*plot.curves.items()][:COLOURS])
    told = [_told_curve(plot.unit, name, values) for name, values in curves.items()]
    top = _legend_height([*curves]) + 10
    high = highest(plot.unit, curves.values())
    parts = (*_legend([*curves], "line"), *_axes(plot, high, top), *_stairs(plot, curves, high, top))
    return _svg(plot.title, "; ".join(told), number, top + CURVES_HEIGHT + BOTTOM, iter(parts))


def _told_curve(unit: Unit, name: str, values: Sequence[float]) -> str:
    if not values:
        return f"{name}: no values"
    mean = sum(values) / len(values)
    return f"{name}: from {unit.shown(min(values))} to {unit.shown(max(values))}, {unit.shown(mean)} on average"


def _axes(plot: CurvePlot, high: float, top: float) -> Iterator[str]:
    for tick in ticks(high):
        y = top + CURVES_HEIGHT * (1 - tick / high)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" class="grid"/>'
        yield _text(LEFT - 8, y + 4, _tick(plot.unit, tick), "end")
    for at_s in time_ticks(plot.edges_s[-1] - plot.edges_s[0]) if plot.edges_s else ():
        x = LEFT + (WIDTH - LEFT - RIGHT) * _share(plot, plot.edges_s[0] + at_s)
        yield f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + CURVES_HEIGHT}" class="grid"/>'
        yield _text(x, top + CURVES_HEIGHT + 18, _time(plot.edges_s[0] + at_s), "middle")


def _stairs(plot: CurvePlot, curves: Mapping[str, Sequence[float]], high: float, top: float) -> Iterator[str]:
    for i, (name, values) in enumerate(curves.items()):
        points = []
        for begin_s, end_s, value in zip(plot.edges_s, plot.edges_s[1:], values, strict=False):
            y = top + CURVES_HEIGHT * (1 - value / high)
            points += [f"{LEFT + (WIDTH - LEFT - RIGHT) * _share(plot, at):.1f},{y:.1f}" for at in (begin_s, end_s)]
        yield f'<polyline points="{" ".join(points)}" class="line c{i}"><title>{safe(name)}</title></polyline>'


def _share(plot: CurvePlot, at_s: float) -> float:
    begin_s, end_s = plot.edges_s[0], plot.edges_s[-1]
    return (at_s - begin_s) / (end_s - begin_s) if end_s > begin_s else 0.0


# ---- lines with bands


def _bands(plot: BandPlot, number: int) -> str:
    curves = dict([*plot.curves.items()][:COLOURS])
    known = [each for values in curves.values() for each in values if each is not None]
    low, high = span_for([mean + sign * half for mean, half in known for sign in (-1, 1)])
    top = _legend_height([*curves]) + 10
    parts = (*_legend([*curves], "line"), *_band_axes(plot, low, high, top))
    lines = [part for i, values in enumerate(curves.values()) for part in _band(plot, i, values, (low, high), top)]
    told = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{Unit.NUMBER.shown(each[0])} at {at:g}" for at, each in zip(plot.points, values, strict=True) if each
        )
        for name, values in curves.items()
    )
    return _svg(plot.title, told, number, top + CURVES_HEIGHT + BOTTOM, iter([*parts, *lines]))


def _band_axes(plot: BandPlot, low: float, high: float, top: float) -> Iterator[str]:
    step = step_for(high - low)
    for i in range(round((high - low) / step) + 1):
        y = top + CURVES_HEIGHT * (1 - step * i / (high - low))
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" class="grid"/>'
        yield _text(LEFT - 8, y + 4, Unit.NUMBER.shown(low + step * i), "end")
    for i, at in enumerate(plot.points):
        yield _text(_point_x(plot, i), top + CURVES_HEIGHT + 18, f"{at:g}", "middle")
    yield _text(WIDTH - RIGHT, top + CURVES_HEIGHT + 32, plot.point_title, "end", LONG_CHARACTERS)


def _point_x(plot: BandPlot, place: int) -> float:
    first, last = plot.points[0], plot.points[-1]
    return LEFT + 12 + (WIDTH - LEFT - RIGHT - 24) * (plot.points[place] - first) / ((last - first) or 1.0)


def _band(
    plot: BandPlot, curve: int, values: Sequence[tuple[float, float] | None], span: tuple[float, float], top: float
) -> Iterator[str]:
    """The line of the means, and the band around it as one closed line."""
    known = [(_point_x(plot, i), each) for i, each in enumerate(values) if each is not None]

    def at(x: float, value: float) -> str:
        return f"{x:.1f},{top + CURVES_HEIGHT * (1 - (value - span[0]) / (span[1] - span[0])):.1f}"

    upper = [at(x, mean + half) for x, (mean, half) in known]
    lower = [at(x, mean - half) for x, (mean, half) in reversed(known)]
    yield f'<polygon points="{" ".join([*upper, *lower])}" class="band c{curve}"/>'
    yield f'<polyline points="{" ".join(at(x, mean) for x, (mean, _) in known)}" class="line c{curve}"/>'


def span_for(values: Sequence[float]) -> tuple[float, float]:
    """Round numbers around the values."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    step = step_for((high - low) or abs(high) or 1.0)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return (low, high) if high > low else (low, low + step)


# ---- bars


def _bars(plot: BarPlot, number: int) -> str:
    bars = dict([*plot.bars.items()][:COLOURS])
    shown = BarPlot(plot.title, plot.labels[:MOST_BARS], bars, plot.unit)
    top = _legend_height([*bars])
    parts = (*_legend([*bars], "bar"), *_bar_rows(shown, top))
    return _svg(
        plot.title, _told_bars(shown), number, top + _row_height(shown) * len(shown.labels) + BAR_GAP, iter(parts)
    )


def _has_long_labels(plot: BarPlot) -> bool:
    return any(len(label) > LABEL_CHARACTERS for label in plot.labels)


def _row_height(plot: BarPlot) -> int:
    return BAR_HEIGHT * len(plot.bars) + BAR_GAP + (LABEL_HEIGHT if _has_long_labels(plot) else 0)


def _told_bars(plot: BarPlot) -> str:
    told = []
    for i, label in enumerate(plot.labels):
        values = ", ".join(f"{name} {plot.unit.shown(values[i])}" for name, values in plot.bars.items())
        told.append(f"{label}: {values}")
    return "; ".join(told)


def _bar_rows(plot: BarPlot, top: float) -> Iterator[str]:
    each = _row_height(plot)
    left = 0 if _has_long_labels(plot) else LABEL_WIDTH
    for i, label in enumerate(plot.labels):
        begin = top + each * i + BAR_GAP
        if left:
            yield _text(left - 8, begin + BAR_HEIGHT * len(plot.bars) / 2 + 4, label, "end")
        else:
            yield _text(0, begin + LABEL_HEIGHT - 6, label, "label", LONG_CHARACTERS)
            begin += LABEL_HEIGHT
        yield from _bars_of(plot, i, left, begin)
    yield f'<line x1="{left}" y1="{top}" x2="{left}" y2="{top + each * len(plot.labels) + BAR_GAP}" class="axis"/>'


def _bars_of(plot: BarPlot, label: int, left: float, begin: float) -> Iterator[str]:
    """The bars of one label, each with its number."""
    high = highest(plot.unit, plot.bars.values())
    for i, values in enumerate(plot.bars.values()):
        y, value = begin + BAR_HEIGHT * i, values[label]
        width = (WIDTH - left - VALUE_WIDTH) * max(_finite(value), 0.0) / high
        shape = f'x="{left}" y="{y:.1f}" width="{width:.1f}" height="{BAR_HEIGHT - 2}"'
        yield f'<rect {shape} class="bar c{i}"/>'
        yield _text(left + width + 6, y + BAR_HEIGHT - 4, plot.unit.shown(value), "value")


# ---- scales


def highest(unit: Unit, series: Iterable[Sequence[float | None]]) -> float:
    """The upper end of the scale: a round number, at least 100 % for shares."""
    values = [_finite(value) for each in series for value in each]
    high = max(values, default=0.0)
    if unit is Unit.SHARE and high <= 1 + _ROUNDING:
        return 1.0
    return math.ceil(high / step_for(high)) * step_for(high) if high > 0 else 1.0


def ticks(high: float) -> list[float]:
    """Three to six round numbers from 0 to a round number."""
    step = step_for(high)
    return [step * i for i in range(round(high / step) + 1)]


def step_for(high: float) -> float:
    """1, 2 or 5 times a power of ten, of which about five reach the value."""
    power = 10.0 ** math.floor(math.log10(high / 4))
    return next((step * power for step in (1, 2, 5) if high / (step * power) <= 5), 10 * power)


def time_ticks(length_s: float) -> list[float]:
    """Round times from 0 on: four to eight of them."""
    if length_s <= 0:
        return [0.0]
    step = next((float(step) for step in _DURATIONS_S if length_s / step <= 8), 86400 * step_for(length_s / 86400))
    step = step_for(length_s) if length_s < 240 else step
    return [step * i for i in range(int(length_s / step + _ROUNDING) + 1)]


def _finite(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else 0.0


def _tick(unit: Unit, value: float) -> str:
    return show_percent(value, decimals=0) if unit is Unit.SHARE else unit.shown(value)


def _time(at_s: float) -> str:
    """Hours and minutes, or seconds of a short time."""
    if at_s % 60:
        return Unit.SECONDS.shown(at_s)
    return f"{int(at_s) // 3600}:{int(at_s) % 3600 // 60:02}"
