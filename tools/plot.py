"""Line plots as SVG: the few things that docs/performance.md needs, and no dependency.

A plot has a plain light background, so it reads the same on a light and on a dark page. Lines differ in colour and in the
shape of their marks. All text is escaped, and the same plot gives the same bytes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 60, 60
"""Margins; the legend is in the right one."""
COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#a0408a", "#7a5c00", "#333333")
"""After Okabe and Ito, whose colours the colour-blind can tell apart; darker where white needs it."""
BACKGROUND, TEXT, GRID = "#ffffff", "#222222", "#d5d5d5"
_MARK = 4
"""Half the size of a mark."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values with its ticks. A logarithmic axis has no 0."""

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def share(self, value: float) -> float:
        """Where a value is: 0 at the low end, 1 at the high end."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Line:
    """A series of points in the order of x; `is_limit` draws it dashed and without marks."""

    name: str
    points: tuple[Point, ...]
    is_limit: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """What is drawn. Readers who do not see it get `title` and `description`."""

    title: str
    description: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]


# ---- axes


def log_axis(label: str, values: Iterable[float]) -> Axis:
    """Ticks at 1, 2 and 5 times powers of ten, from at or below the lowest value to at or above the highest."""
    values = list(values)
    ticks = [_step_below(min(values))]
    while len(ticks) < 2 or ticks[-1] < max(values):
        ticks.append(_step_above(ticks[-1] * 1.01))
    return Axis(label, ticks[0], ticks[-1], tuple(ticks), is_log=True)


def log_axis_at(label: str, values: Iterable[float]) -> Axis:
    """Ticks at the values themselves."""
    ticks = tuple(sorted(set(values)))
    low, high = ticks[0], ticks[-1]
    margin = (high / low) ** 0.03 if high > low else 2
    return Axis(label, low / margin, high * margin, ticks, is_log=True)


def linear_axis(label: str, values: Iterable[float]) -> Axis:
    """From 0 on, with four to ten ticks."""
    high = max(values) or 1
    step = _step_above(high / 10)
    count = math.ceil(high / step)
    return Axis(label, 0, count * step, tuple(step * i for i in range(count + 1)))


def linear_axis_at(label: str, values: Iterable[float]) -> Axis:
    """From 0 on, with ticks at the values themselves."""
    ticks = tuple(sorted({0.0, *values}))
    return Axis(label, 0, (ticks[-1] or 1) * 1.03, ticks)


def _step_above(value: float) -> float:
    """The lowest 1, 2 or 5 times a power of ten that is not below a value. Logarithms round, so one step more is offered."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10, 20) if step * power >= value)


def _step_below(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (5, 2, 1, 0.5) if step * power <= value)


# ---- drawing


def as_svg(plot: Plot) -> str:
    """The plot as an SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title desc" font-family="sans-serif" font-size="12">',
        f'<title id="title">{escape(plot.title)}</title>',
        f'<desc id="desc">{escape(plot.description)}</desc>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{BACKGROUND}"/>',
        _text(LEFT, 24, plot.title, size=15, weight="bold"),
        *_x_axis(plot.x),
        *_y_axis(plot.y),
    ]
    for index, line in enumerate(plot.lines):
        parts += _line(plot, line, index)
        parts += _legend(line, index)
    return "\n".join([*parts, "</svg>", ""])


def _x_axis(axis: Axis) -> list[str]:
    bottom = HEIGHT - BOTTOM
    parts = []
    for tick in axis.ticks:
        x = _x(axis, tick)
        parts += [_stroke(x, TOP, x, bottom, GRID), _text(x, bottom + 18, shown(tick), anchor="middle")]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, axis.label, anchor="middle"))
    return [*parts, _stroke(LEFT, bottom, WIDTH - RIGHT, bottom, TEXT)]


def _y_axis(axis: Axis) -> list[str]:
    parts = []
    for tick in axis.ticks:
        y = _y(axis, tick)
        parts += [_stroke(LEFT, y, WIDTH - RIGHT, y, GRID), _text(LEFT - 8, y + 4, shown(tick), anchor="end")]
    parts.append(_text(LEFT, TOP - 12, axis.label))
    return [*parts, _stroke(LEFT, TOP, LEFT, HEIGHT - BOTTOM, TEXT)]


def _line(plot: Plot, line: Line, index: int) -> list[str]:
    places = [(_x(plot.x, x), _y(plot.y, y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = ' stroke-dasharray="6 4"' if line.is_limit else ""
    drawn = f'<polyline points="{path}" fill="none" stroke="{_colour(index)}" stroke-width="2"{dashes}/>'
    return [drawn, *([] if line.is_limit else (_mark(x, y, index) for x, y in places))]


def _legend(line: Line, index: int) -> list[str]:
    x, y = WIDTH - RIGHT + 16, TOP + 12 + 22 * index
    dashes = ' stroke-dasharray="6 4"' if line.is_limit else ""
    drawn = f'<line x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" stroke="{_colour(index)}" stroke-width="2"{dashes}/>'
    return [drawn, *([] if line.is_limit else [_mark(x + 12, y, index)]), _text(x + 32, y + 4, line.name)]


def _mark(x: float, y: float, index: int) -> str:
    """A circle, a square, a triangle or a diamond."""
    m = _MARK
    shapes: Sequence[Sequence[Point]] = (
        ((-m, -m), (m, -m), (m, m), (-m, m)),
        ((0, -m - 1), (m + 1, m), (-m - 1, m)),
        ((0, -m - 2), (m + 2, 0), (0, m + 2), (-m - 2, 0)),
    )
    number = index % (len(shapes) + 1)
    if not number:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{m}" fill="{_colour(index)}"/>'
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shapes[number - 1])
    return f'<polygon points="{corners}" fill="{_colour(index)}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12, weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{TEXT}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _stroke(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def shown(value: float) -> str:
    """A number as people write it: 100,000 and 0.5."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"
