"""Reports: what a reader sees is what the answer says, and nothing that an object contains changes the page."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_reading import Element, plots_of, read_page, tables_of
from written import a_node, a_pod

import mooring
from mooring.answers.form.answer import MOST_ROWS, ClusterAnswer, ReportContent, page_html
from mooring.answers.form.plots import (
    BAR_HEIGHT,
    CURVES_HEIGHT,
    LABEL_WIDTH,
    LEFT,
    MOST_BARS,
    RIGHT,
    VALUE_WIDTH,
    WIDTH,
    highest,
    step_for,
    ticks,
    time_ticks,
)
from mooring.answers.form.report_parts import (
    MOST_CHARACTERS,
    MOST_COLUMNS,
    AnswerPlot,
    AnswerTable,
    BarPlot,
    CurvePlot,
    Unit,
    cut,
    visible,
    waits_plot,
)
from mooring.answers.simulate.simulation_answer import SimulationAnswer

HOSTILE = [
    '<script>alert("1")</script>',
    "\"' onload=x '",
    "a‮gnp.b",
    "a\x00b\x1b[31m\n",
    "&amp;&lt;",
    "]]>--><!--",
    "\ud800",
]
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "code", "main", "section", "nav", "ul", "li",
    "a", "div", "figure", "figcaption", "svg", "desc", "line", "rect", "text", "polyline", "table", "caption", "thead",
    "tbody", "tr", "th", "td", "",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "aria-label", "aria-labelledby",
    "aria-describedby", "role", "tabindex", "scope", "viewbox", "x", "y", "x1", "y1", "x2", "y2", "width", "height", "points",
}  # fmt: skip


def page_of(*tables: AnswerTable, plots: Sequence[AnswerPlot] = (), summary: Sequence[str] = ()) -> Element:
    return checked(page_html(ReportContent("Report", summary, tables, plots)))


def checked(html: str) -> Element:
    """The page, which has only what a report may have."""
    html.encode()  # a lone surrogate could not be written
    page = read_page(html)
    assert {each.tag for each in page.every()} <= TAGS
    assert {name for each in page.every() for name in each.attributes} <= ATTRIBUTES
    assert all(link.attributes["href"].startswith("#") for link in page.all("a"))
    ids = [each.attributes["id"] for each in page.every() if "id" in each.attributes]
    assert len(ids) == len({*ids})
    return page


# ---- hostile input


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=60)))
def test_whatever_names_contain_the_page_keeps_its_form(name: str) -> None:
    shown = visible(name)
    table = AnswerTable(f"T {name}", ("c", f"{name} "), [(name, "x"), ("y", name)])
    plots: list[AnswerPlot] = [
        BarPlot("P", [f"l{name}"], {f"b{name}": [1.0]}),
        CurvePlot("C", [0, 1], {f"{name}!": [0.5]}),
    ]
    content = ReportContent(f"H{name}", [name], [table], plots, [name], name, f"mooring {name}")
    page = checked(page_html(content))
    assert tables_of(page) == {f"T {shown}": (["c", f"{shown} "], [[shown, "x"], ["y", shown]])}
    assert page.one("h1").text == f"H{shown}"
    assert page.one("code").text == f"mooring {shown}"


def test_characters_that_nobody_sees_have_a_number() -> None:
    assert visible("a‮gnp.b\x00\n​") == "a⟨U+202E⟩gnp.b⟨U+0000⟩⟨U+000A⟩⟨U+200B⟩"
    assert visible("größe 東京 שלום") == "größe 東京 שלום"


def test_a_policy_forbids_scripts_and_everything_from_elsewhere() -> None:
    page = page_of()
    (policy,) = [each.attributes["content"] for each in page.all("meta") if "http-equiv" in each.attributes]
    digest = base64.b64encode(hashlib.sha256(page.one("style").text.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in page.one("style").text and "@import" not in page.one("style").text


def test_long_tables_are_cut_with_a_count() -> None:
    page = page_of(AnswerTable("Many", ("n",), [(i,) for i in range(10_000)]))
    assert len(tables_of(page)["Many"][1]) == MOST_ROWS
    assert [each.text for each in page.all("p")] == ["... and 9,000 more rows: -o json has all"]


def test_wide_tables_and_long_cells_are_cut() -> None:
    columns = tuple(f"c{i}" for i in range(MOST_COLUMNS + 5))
    page = page_of(AnswerTable("Wide", columns, [tuple("x" * 5000 for _ in columns)]))
    heads, rows = tables_of(page)["Wide"]
    assert (len(heads), len(rows[0]), {len(cell) for cell in rows[0]}) == (
        MOST_COLUMNS,
        MOST_COLUMNS,
        {MOST_CHARACTERS},
    )
    assert [each.text for each in page.all("p")] == ["... and 5 more columns: -o json has all"]
    assert cut("abcd", 3) == "ab…"


# ---- readers who do not see it, or see it on paper


def test_tables_and_plots_are_named() -> None:
    table = AnswerTable("Nodes", ("node", "cpu"), [("a", "1.5%"), ("b", "-")])
    page = page_of(
        table, plots=[BarPlot("Pods", ["a"], {"n": [3.0]}), CurvePlot("Use", [0, 9], {"cpu": [0.5]}, Unit.SHARE)]
    )
    assert [each.attributes for each in page.one("table").all("th")] == [
        {"scope": "col"},
        {"scope": "col", "class": "number"},
        {"scope": "row"},
        {"scope": "row"},
    ]
    region = next(each for each in page.all("div") if each.attributes.get("role") == "region")
    assert (region.attributes["aria-label"], region.attributes["tabindex"]) == ("Nodes", "0")
    for svg, title, told in zip(
        page.all("svg"),
        ("Pods", "Use"),
        ("a: n 3", "cpu: from 50.0% to 50.0%, 50.0% on average"),
        strict=True,
    ):
        title_id, desc_id = svg.attributes["aria-labelledby"], svg.attributes["aria-describedby"]
        assert (svg.attributes["role"], svg.children[0].text, svg.children[1].text) == ("img", title, told)
        assert [each.attributes["id"] for each in svg.children[:2]] == [title_id, desc_id]


def luminance(colour: str) -> float:
    wide = colour if len(colour) == 6 else "".join(2 * letter for letter in colour)
    parts = [int(wide[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_have_contrast_in_light_in_dark_and_on_paper() -> None:
    themes = re.findall(r":root\{([^}]*)\}", page_of().one("style").text)
    assert len(themes) == 3
    for theme in themes:
        colours = dict(re.findall(r"--(\w+):#(\w+)", theme))
        for name in ("text", "muted", "c0", "c1", "c2", "c3", "c4", "c5"):
            for behind in ("page", "band"):
                assert contrast(colours[name], colours[behind]) >= 4.5, (name, behind)


# ---- plots against plain twins

amounts = st.floats(0, 1e12, allow_nan=False)


@given(st.dictionaries(st.sampled_from(["b", "c"]), st.lists(amounts, min_size=3, max_size=3), min_size=1))
def test_bars_are_as_long_as_their_values(bars: Mapping[str, list[float]]) -> None:
    (svg,) = plots_of(page_of(plots=[BarPlot("P", ["x", "y", "z"], bars)])).values()
    widths = [
        float(each.attributes["width"]) for each in svg.all("rect") if each.attributes["height"] == str(BAR_HEIGHT - 2)
    ]
    values = [each.text for each in svg.all("text") if each.attributes["class"] == "value"]
    plain = [bars[name][i] for i in range(3) for name in bars]
    longest = highest(Unit.NUMBER, bars.values())
    assert widths == pytest.approx([value / longest * (WIDTH - LABEL_WIDTH - VALUE_WIDTH) for value in plain], abs=0.06)
    assert values == [Unit.NUMBER.shown(value) for value in plain]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(1, 10**6))
def test_curves_are_where_their_values_are(shares: list[float], length_s: int) -> None:
    edges = [length_s * i / len(shares) for i in range(len(shares) + 1)]
    (svg,) = plots_of(page_of(plots=[CurvePlot("P", edges, {"cpu": shares}, Unit.SHARE)])).values()
    points = [tuple(map(float, point.split(","))) for point in svg.one("polyline").attributes["points"].split()]
    bottom = max(float(each.attributes["y1"]) for each in svg.all("line") if each.attributes["x1"] == str(LEFT))
    plain: list[float] = []
    for i, share in enumerate(shares):
        for edge in (edges[i], edges[i + 1]):
            plain += [LEFT + edge / length_s * (WIDTH - LEFT - RIGHT), bottom - share * CURVES_HEIGHT]
    assert [each for point in points for each in point] == pytest.approx(plain, abs=0.11)


@given(st.floats(1e-6, 1e15))
def test_scales_have_few_round_ticks_and_reach_the_highest_value(value: float) -> None:
    high = highest(Unit.NUMBER, [[value, None, float("nan")]])
    found = ticks(high)
    assert value <= high * (1 + 1e-9) and 3 <= len(found) <= 6
    assert (found[0], found[-1]) == pytest.approx((0, high))
    assert f"{step_for(high):.0e}"[0] in "125"


@given(st.floats(0.001, 1e9))
def test_times_have_few_round_ticks(length_s: float) -> None:
    found = time_ticks(length_s)
    assert found[0] == 0 and found[-1] <= length_s * (1 + 1e-6) and 2 <= len(found) <= 10


def test_values_that_are_no_numbers_have_no_bar() -> None:
    values = [None, float("nan"), float("inf"), -1.0, 2.0]
    (svg,) = plots_of(page_of(plots=[BarPlot("P", list("abcde"), {"n": values})])).values()
    widths = [float(each.attributes["width"]) for each in svg.all("rect")]
    assert widths == [0, 0, 0, 0, WIDTH - LABEL_WIDTH - VALUE_WIDTH]
    assert [each.text for each in svg.all("text")][1::2] == ["-", "-", "-", "-1", "2"]


def test_many_bars_are_cut_with_a_count_and_long_labels_stand_above() -> None:
    labels = [f"a-node-with-a-long-name-{i}" for i in range(MOST_BARS + 7)]
    page = page_of(plots=[BarPlot("P", labels, {"n": [1.0] * len(labels)})])
    assert len(page.all("rect")) == MOST_BARS
    assert {each.attributes["x"] for each in page.all("rect")} == {"0"}
    assert [each.text for each in page.all("p")] == ["... and 7 more: the tables have all"]


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_every_waiting_time_is_in_one_group(waited_s: list[float]) -> None:
    plot = waits_plot("W", waited_s)
    limits = {"up to 10 ms": 0.01, "up to 100 ms": 0.1, "up to 1 s": 1, "up to 10 s": 10, "up to 1 min": 60}
    limits |= {"up to 10 min": 600, "up to 1 h": 3600, "up to 6 h": 21600, "more than 6 h": float("inf")}
    plain = dict.fromkeys(limits, 0)
    for waited in waited_s:
        plain[next(name for name, limit in limits.items() if waited <= limit)] += 1
    assert dict(zip(plot.labels, plot.bars["pods"], strict=True)) == {name: plain[name] for name in plot.labels}
    assert total(bars_of(plot)["pods"]) == len(waited_s)


# ---- the answers

OFFERS = [{"name": "n", "price": 1.5, "node": {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}}}]
ARRIVALS = [{"at": 5 * i, "run": 60, "cpu": "1", "count": 2} for i in range(6)]


def a_questioned() -> mooring.QuestionedCluster:
    zones = [{"topology.kubernetes.io/zone": zone, "pool": "p"} for zone in ("a", "b")]
    nodes = [a_node(f"n{i}", cpu="4", labels=labels) for i, labels in enumerate(zones)]
    return mooring.load([*nodes, *(a_pod(f"p{i}", cpu="3") for i in range(4))])


def answers() -> dict[str, ClusterAnswer]:
    cluster = a_questioned()
    return {
        "simulate": cluster.simulate(),
        "day": cluster.simulate(arrivals=ARRIVALS),
        "what-if": cluster.settle().what_if(("drain", "n0")),
        "compare": cluster.compare(vary={"seed": [1, 2]}, processes=1),
        "plan": cluster.plan(OFFERS),
        "shrink": cluster.plan(shrink=True),
    }


@pytest.fixture(scope="module")
def asked() -> dict[str, ClusterAnswer]:
    return answers()


PLOTS = {
    "simulate": ["Pods placed by zone", "Pods by zone", "Requested share by zone", "Pending pods by what limits them"],
    "day": [
        "Requested share over time",
        "Waiting pods over time",
        "Time from arrival to binding",
        "Pods placed by zone",
    ],
    "what-if": ["Pods that change", "Requested share of schedulable nodes", "Pods by zone", "Requested cpu by zone"],
    "compare": ["Requested share, on average", "Time from arrival to binding", "Free room that pods cannot use"],
    "plan": ["Cost of the new nodes", "Cost by offer", "Where pending pods go"],
    "shrink": ["Where pending pods go"],
}


@pytest.mark.parametrize("kind", [*PLOTS])
def test_a_report_has_the_sentences_tables_and_plots_of_the_answer(kind: str, asked: dict[str, ClusterAnswer]) -> None:
    answer = asked[kind]
    page = checked(answer.to_html(notes=["a note"], made="today"))
    shown = {
        visible(table.title): ([*table.columns], [[visible(cut(str(cell), 500)) for cell in row] for row in table.rows])
        for table in answer.report_tables()
        if table.rows
    }
    assert tables_of(page) == shown and shown
    paragraphs = [each.text for each in page.all("p")]
    assert paragraphs == ["today", *answer.summary(), "Note: a note"]
    assert {*PLOTS[kind]} <= {*plots_of(page)}


@pytest.mark.parametrize("kind", [*PLOTS])
def test_plots_agree_with_the_data(kind: str, asked: dict[str, ClusterAnswer]) -> None:
    answer = asked[kind]
    drawn, data = {plot.title: plot for plot in answer.plots()}, answer.to_dict()
    if kind == "day":
        curves = drawn["Requested share over time"]
        assert isinstance(curves, CurvePlot)
        edges_s = [*(span["from"] for span in data["spans"]), data["simulatedSeconds"]]
        assert [*curves.edges_s] == pytest.approx(edges_s, abs=1e-9)
        assert {*curves.curves} == {"cpu", "memory"}
        of_spans = [span["utilisation"]["cpu"] for span in data["spans"]]
        assert [*curves.curves["cpu"]] == pytest.approx(of_spans, abs=1e-9)
        assert bars_of(drawn["Pods placed by zone"]) == {
            "placed": {each["name"]: each["placed"] for each in data["zones"]}
        }
        assert total(bars_of(drawn["Time from arrival to binding"])["pods"]) == data["placed"]
    elif kind == "simulate":
        assert bars_of(drawn["Pods placed by zone"]) == {"placed": {"a": 1, "b": 1}}
        plain = {
            resource: {each["name"]: share_of(each, resource) for each in data["utilisation"]["zones"]}
            for resource in ("cpu", "memory")
        }
        assert bars_of(drawn["Requested share by zone"]) == plain
        limits = {f"{each['message']} ({each['plugin']})": each["pods"] for each in data["limits"]}
        assert bars_of(drawn["Pending pods by what limits them"]) == {"pods": limits}
        assert limits == {"Insufficient cpu (NodeResourcesFit)": data["summary"]["pending"]}
    elif kind == "what-if":
        changed = {"still pending": len(data["pending"]), "lost": len(data["gone"])}
        assert bars_of(drawn["Pods that change"]) == {"pods": changed} == {"pods": {"still pending": 2, "lost": 1}}
        zones = {each["name"]: each for each in data["utilisation"]["zones"]}
        for resource in ("cpu", "memory"):
            shares = bars_of(drawn[f"Requested {resource} by zone"])
            expected = {when: {name: share_of(zone[when], resource) for name, zone in zones.items()} for when in shares}
            assert shares == expected and [*shares] == ["before", "after"]
        assert bars_of(drawn["Requested cpu by zone"]) == {
            "before": {"a": 0.75, "b": 0.75},
            "after": {"a": None, "b": 0.75},
        }
    elif kind == "compare":
        names = [run["name"] for run in data["runs"]]
        means = {
            name: run["figures"]["utilisation"]["cpu"]["mean"] for name, run in zip(names, data["runs"], strict=True)
        }
        assert bars_of(drawn["Requested share, on average"])["cpu mean"] == means
    else:
        placed = total(bars_of(drawn["Where pending pods go"])["pods"])
        assert placed == data["pendingAtFirst"] - len(data["pending"])
    if kind == "plan":
        assert bars_of(drawn["Cost of the new nodes"]) == {
            "cost": {"this plan": data["cost"], "lower bound": data["lowerBound"]}
        }


def bars_of(plot: object) -> dict[str, dict[str, float | None]]:
    assert isinstance(plot, BarPlot)
    return {name: dict(zip(plot.labels, values, strict=True)) for name, values in plot.bars.items()}


def share_of(group: Mapping[str, Any], resource: str) -> float | None:
    amounts = group["resources"].get(resource)
    return amounts["requested"] / amounts["allocatable"] if amounts else None


def total(values: Mapping[str, float | None]) -> float:
    return sum(value for value in values.values() if value is not None)


def test_a_report_has_the_changes_the_story_and_the_explanation_that_were_asked_for() -> None:
    cluster = a_questioned()
    changed = tables_of(checked(cluster.what_if(("cordon", "n0"), ("drain", "n1")).to_html()))
    assert changed["Changes, in order"][1] == [["1", "cordon n0"], ["2", "drain n1"]]
    answer = cluster.simulate("p3", story="p3")
    tables = tables_of(checked(answer.to_html()))
    assert isinstance(answer, SimulationAnswer) and answer.story is not None
    heads, rows = tables["The story of default/p3"]
    assert heads == ["time", "attempt", "cycle", "what happened"]
    assert [row[3] for row in rows] == [moment.text for moment in answer.story.moments]
    assert {f"default/p3: {table.title}" for table in answer.answers["default/p3"].tables() if table.rows} <= {*tables}
    day = cluster.simulate(arrivals=ARRIVALS, story="p3")
    assert "The story of default/p3" in tables_of(checked(day.to_html()))
