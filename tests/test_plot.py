"""Plots as SVG: axes that suit the values, marks where the values are, and text that is escaped."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import plot
from plot import Line, Plot, as_svg, linear_axis, linear_axis_at, log_axis, log_axis_at, shown

SVG = "{http://www.w3.org/2000/svg}"


def a_plot(*lines: Line) -> Plot:
    points = [point for line in lines for point in line.points]
    return Plot(
        "Cost & <growth>",
        "µs a pod",
        log_axis_at("nodes", (x for x, _ in points)),
        log_axis("µs a pod", (y for _, y in points)),
        lines,
    )


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([30, 700], (20, 50, 100, 200, 500, 1000)),
        ([100, 1000], (100, 200, 500, 1000)),
        ([0.3, 4], (0.2, 0.5, 1, 2, 5)),
        ([70], (50, 100)),
        ([100], (100, 200)),
    ],
    ids=str,
)
def test_a_logarithmic_axis_has_ticks_at_1_2_and_5(values: list[float], ticks: tuple[float, ...]) -> None:
    assert log_axis("", values).ticks == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [([160, 230], (0, 50, 100, 150, 200, 250)), ([10], tuple(range(11))), ([0], tuple(i / 10 for i in range(11)))],
    ids=str,
)
def test_a_linear_axis_begins_at_0(values: list[float], ticks: tuple[float, ...]) -> None:
    assert linear_axis("", values).ticks == pytest.approx(ticks)


def test_ticks_may_be_the_values_themselves() -> None:
    assert log_axis_at("", [5000, 1000, 100000]).ticks == (1000, 5000, 100000)
    assert linear_axis_at("", [5000, 30000]).ticks == (0, 5000, 30000)


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=8))
def test_every_value_lies_on_its_axis(values: list[float]) -> None:
    for make in (log_axis, log_axis_at, linear_axis, linear_axis_at):
        axis = make("", values)
        assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value in values)
        assert list(axis.ticks) == sorted(set(axis.ticks))
        assert all(-1e-9 <= axis.share(tick) <= 1 + 1e-9 for tick in axis.ticks)


def test_equal_steps_of_a_logarithmic_axis_are_equal_factors() -> None:
    axis = log_axis("", [1, 100])
    assert axis.share(10) - axis.share(1) == pytest.approx(axis.share(100) - axis.share(10))


def test_a_plot_says_what_it_shows_to_those_who_do_not_see_it() -> None:
    root = ElementTree.fromstring(as_svg(a_plot(Line("basic", ((1000, 50), (5000, 90))))))
    assert root.get("role") == "img" and root.get("aria-labelledby") == "title desc"
    told = {element.get("id"): element.text for element in root if element.tag in (f"{SVG}title", f"{SVG}desc")}
    assert told == {"title": "Cost & <growth>", "desc": "µs a pod"}


def test_axes_have_labels_and_ticks() -> None:
    root = ElementTree.fromstring(as_svg(a_plot(Line("basic", ((1000, 50), (5000, 90))))))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts == ["Cost & <growth>", "1,000", "5,000", "nodes", "50", "100", "µs a pod", "basic"]


def test_the_background_is_plain_and_text_is_dark_on_it() -> None:
    root = ElementTree.fromstring(as_svg(a_plot(Line("basic", ((1000, 50), (5000, 90))))))
    background = root.find(f"{SVG}rect")
    assert background is not None
    assert [background.get(name) for name in ("width", "height", "fill")] == ["760", "420", plot.BACKGROUND]
    assert {element.get("fill") for element in root.iter(f"{SVG}text")} == {plot.TEXT}


def test_lines_differ_in_colour_and_mark() -> None:
    lines = [Line(f"line {i}", ((1000, 50 + i), (5000, 90 + i))) for i in range(4)]
    root = ElementTree.fromstring(as_svg(a_plot(*lines)))
    drawn = list(root.iter(f"{SVG}polyline"))
    assert len({line.get("stroke") for line in drawn}) == 4
    assert len(list(root.iter(f"{SVG}circle"))) == 3, "two points and the legend, of the first line"
    assert len(list(root.iter(f"{SVG}polygon"))) == 9


def test_a_limit_is_dashed_and_has_no_marks() -> None:
    root = ElementTree.fromstring(as_svg(a_plot(Line("target", ((1000, 50), (5000, 50)), is_limit=True))))
    (line,) = root.iter(f"{SVG}polyline")
    assert line.get("stroke-dasharray") == "6 4"
    assert not list(root.iter(f"{SVG}circle"))


def test_a_point_is_where_its_values_are() -> None:
    drawn = a_plot(Line("basic", ((1000, 50), (5000, 100))))
    root = ElementTree.fromstring(as_svg(drawn))
    low, high = list(root.iter(f"{SVG}circle"))[:2]
    assert float(low.get("cy", "")) == plot.HEIGHT - plot.BOTTOM, "50 is the lowest tick"
    assert float(high.get("cy", "")) == plot.TOP, "100 is the highest"
    assert plot.LEFT < float(low.get("cx", "")) < float(high.get("cx", "")) < plot.WIDTH - plot.RIGHT


def test_numbers_are_shown_as_people_write_them() -> None:
    assert [shown(value) for value in (100000, 12.6, 1.0, 0.5, 0)] == ["100,000", "13", "1", "0.5", "0"]


def test_the_same_plot_gives_the_same_text() -> None:
    assert as_svg(a_plot(Line("a", ((1, 2), (3, 4))))) == as_svg(a_plot(Line("a", ((1, 2), (3, 4)))))
