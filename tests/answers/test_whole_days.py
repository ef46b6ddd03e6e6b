"""The answer of a simulated day that is made by hand: every table, sentence, plot and entry, word for word."""

from collections import deque
from dataclasses import replace

import pytest

from build import a_pod
from mooring.answers.form.answer import AnswerTable
from mooring.answers.form.report_parts import BarPlot, CurvePlot, Unit
from mooring.answers.simulate.day_answer import DayAnswer
from mooring.answers.simulate.simulation_form import MeanUseForm
from mooring.answers.simulate.simulation_tables import MeanUses
from mooring.sim.day import Waits
from mooring.sim.gauge import Span
from mooring.sim.results import FailureReason, GroupWait, Moment, SimulatedEviction, Story

GPU, TPU = "example.com/gpu", "example.com/tpu"
HALF = {name: MeanUseForm(name, 2, 4, {"cpu": 0.5, "memory": None}) for name in ("x", "p", "n1")}
NONE = MeanUseForm("y", 1, 0, {"cpu": 0.0, "memory": 0.25})
DAY = DayAnswer(
    simulated_s=7200.0,
    arrived=10,
    planned=12,
    finished=3,
    attempts=21,
    waits=[Waits(9, [1.0, 3.0], 1, 1), Waits(0, [], 2)],
    spans=[
        Span(0.0, {"memory": 0.25, "cpu": 0.0, GPU: 0.5, TPU: 0.0}, 0.0),
        Span(3600.0004, {"memory": 0.75, "cpu": 1.0, GPU: 0.0, TPU: 0.0}, 4.0),
    ],
    mean_used={"memory": 0.5, TPU: 0.0, GPU: 0.25, "cpu": 0.5},
    nodes=["n1", "n2"],
    placements={"ns/a": "n1", "ns/b": "n1"},
    preempted=[SimulatedEviction(a_pod("gone", namespace="ns"), "n1", "ns/a")],
    rescued=2,
    notes=["a note"],
    story=Story("ns/a", deque([Moment(0, 1, 2, "bound")])),
    placed=7,
    placed_by_node={"n1": 5, "n2": 2},
    failed_attempts=11,
    limits=[FailureReason("Fit", "Insufficient cpu", 11, 2)],
    groups=[GroupWait("ns/gang", 2, 60.0)],
    parts_s={"decide": 3.0, "bind": 1.00000049},
    peak_bytes=3 << 20,
    mean_uses=MeanUses({"x": HALF["x"], "y": NONE}, {"p": HALF["p"]}, {"n1": HALF["n1"]}),
    took_s=1.23456,
)
EMPTY = DayAnswer(
    simulated_s=0.0,
    arrived=0,
    planned=0,
    finished=0,
    attempts=0,
    waits=[],
    spans=[],
    mean_used={},
    nodes=[],
    placements={},
)


def table_called(title: str, day: DayAnswer = DAY) -> AnswerTable:
    (found,) = [table for table in day.report_tables() if table.title == title]
    return replace(found, rows=[*found.rows])


def test_the_summary_says_what_became_of_the_pods_and_how_full_it_was() -> None:
    assert DAY.summary() == [
        "10 pods arrived: 7 placed on 2 nodes (2 to 5 on each), 3 finished, 1 preempted, 3 pending",
        "1 of 1 pod group placed, after 1m00s.",
        "2h00m simulated in 1.2 s, with 21 attempts",
        "Requested on average: cpu 50.0%, memory 50.0%; each character of the curves is 1h00m.",
        "What limits: Insufficient cpu (11 failed attempts, up to 2 nodes).",
    ]
    assert EMPTY.summary() == ["0 pods arrived: none placed", "0ms simulated in 0.0 s, with 0 attempts"]


@pytest.mark.parametrize(
    ("placed_by_node", "text"),
    [
        ({"n1": 1}, "1 node"),
        ({"n1": 3, "n2": 3}, "2 nodes (3 on each)"),
        ({"n1": 0, "n2": 3, "n3": 1}, "3 nodes (0 to 3 on each)"),
    ],
)
def test_the_first_line_has_the_range_of_pods_on_each_node(placed_by_node: dict[str, int], text: str) -> None:
    day = replace(DAY, nodes=[*placed_by_node], placed_by_node=placed_by_node, finished=0, preempted=[], waits=[])
    assert day.summary()[0] == f"10 pods arrived: 7 placed on {text}"


def test_means_that_are_missing_are_nothing() -> None:
    assert "Requested on average: nothing; " in replace(DAY, mean_used={GPU: 0.5}).summary()[3]


TABLES = [
    AnswerTable(
        "Time from arrival to binding",
        ("priority", "placed", "p50", "p90", "p99", "max", "pending", "preempted"),
        [(9, 1, "2.0s", "2.8s", "3.0s", "3.0s", 1, 1), (0, 0, "-", "-", "-", "-", 2, 0)],
    ),
    AnswerTable("Pod groups", ("group", "pods", "waited"), [("ns/gang", 2, "1m00s")], is_detail=True),
    AnswerTable(
        "Utilisation",
        ("resource", "over time", "mean", "highest"),
        [
            ("cpu", " █|", "50.0%", "100.0%"),
            ("memory", "▂▆|", "50.0%", "75.0%"),
            (GPU, "▄ |", "25.0%", "50.0%"),
            ("waiting pods", " █|", "2.0", "4.0"),
        ],
    ),
    AnswerTable(
        "By zone",
        ("zone", "nodes", "placed", "cpu", "memory"),
        [("x", 2, 4, "50.0%", "-"), ("y", 1, 0, "0.0%", "25.0%")],
    ),
    AnswerTable("By pool", ("pool", "nodes", "placed", "cpu", "memory"), [("p", 2, 4, "50.0%", "-")]),
    AnswerTable("Fullest nodes on average", ("node", "placed", "cpu", "memory"), [("n1", 4, "50.0%", "-")]),
    AnswerTable(
        "What limits", ("reason", "plugin", "attempts", "nodes"), [("Insufficient cpu", "Fit", 11, 2)], is_detail=True
    ),
    AnswerTable(
        "Where the time went",
        ("part", "seconds", "share", "µs a pod"),
        [("decide", "3.0", "75%", "300000"), ("bind", "1.0", "25%", "100000"), ("peak memory 3Mi", "", "", "")],
        is_detail=True,
    ),
    AnswerTable(
        "Spans",
        ("from", "cpu", "memory", GPU, TPU, "waiting pods"),
        [
            ("00:00:00.000", "0.0%", "25.0%", "50.0%", "0.0%", "0.0"),
            ("01:00:00.000", "100.0%", "75.0%", "0.0%", "0.0%", "4.0"),
        ],
        is_detail=True,
    ),
    AnswerTable("Pods placed by node", ("node", "placed"), [("n1", 5), ("n2", 2)], is_detail=True),
    AnswerTable(
        "Preempted",
        ("namespace", "pod", "node", "for", "replaced by"),
        [("ns", "gone", "n1", "ns/a", "-")],
        is_detail=True,
    ),
    AnswerTable("The story of ns/a", ("time", "attempt", "cycle", "what happened"), [("00:00:00.000", 1, 2, "bound")]),
]


@pytest.mark.parametrize("table", TABLES, ids=[table.title for table in TABLES])
def test_a_table_is_as_written_here(table: AnswerTable) -> None:
    assert table_called(table.title) == table


def test_there_are_no_other_tables_and_the_story_comes_first() -> None:
    shown = [table.title for table in DAY.report_tables()]
    assert shown == [TABLES[-1].title, *(table.title for table in TABLES[:-1])]


def test_a_day_without_pods_has_empty_tables() -> None:
    assert [table.title for table in EMPTY.tables() if table.rows] == []


def test_a_generated_day_shows_where_the_time_went() -> None:
    day = replace(DAY, is_generated=True, arrived=0, parts_s={"decide": 0.0}, peak_bytes=None)
    assert table_called("Where the time went", day) == AnswerTable(
        "Where the time went", ("part", "seconds", "share", "µs a pod"), [("decide", "0.0", "0%", "0")]
    )


def test_a_little_is_visible_in_a_curve_and_more_than_everything_is_full() -> None:
    spans = [Span(float(i), {"cpu": share}, 0.0) for i, share in enumerate([0.0, 0.001, 0.5, 2.0])]
    rows = table_called("Utilisation", replace(DAY, spans=spans, mean_used={"cpu": 0.6})).rows
    assert rows == [("cpu", " ▁▄█|", "60.0%", "200.0%"), ("waiting pods", "    |", "0.0", "0.0")]


def test_plots_have_curves_waiting_times_groups_and_limits() -> None:
    assert DAY.plots() == [
        CurvePlot(
            "Requested share over time",
            [0.0, 3600.0004, 7200.0],
            {"cpu": [0.0, 1.0], "memory": [0.25, 0.75], GPU: [0.5, 0.0]},
            Unit.SHARE,
        ),
        CurvePlot("Waiting pods over time", [0.0, 3600.0004, 7200.0], {"waiting pods": [0.0, 4.0]}),
        BarPlot(
            "Time from arrival to binding",
            ["up to 10 ms", "up to 100 ms", "up to 1 s", "up to 10 s"],
            {"pods": [0.0, 0.0, 1.0, 1.0]},
        ),
        BarPlot("Pods placed by zone", ["x", "y"], {"placed": [4.0, 0.0]}),
        BarPlot(
            "Requested share by zone, on average", ["x", "y"], {"cpu": [0.5, 0.0], "memory": [None, 0.25]}, Unit.SHARE
        ),
        BarPlot("Pods placed by pool", ["p"], {"placed": [4.0]}),
        BarPlot("Requested share by pool, on average", ["p"], {"cpu": [0.5], "memory": [None]}, Unit.SHARE),
        BarPlot("Failed attempts by what limits them", ["Insufficient cpu (Fit)"], {"attempts": [11.0]}),
    ]
    assert EMPTY.plots() == []


def test_the_plain_data_has_every_field() -> None:
    half = {"nodes": 2, "placed": 4, "meanUtilisation": {"cpu": 0.5, "memory": None}}
    assert DAY.content() == {
        "simulatedSeconds": 7200.0,
        "tookSeconds": 1.235,
        "planned": 12,
        "arrived": 10,
        "placed": 7,
        "finished": 3,
        "pending": 3,
        "attempts": 21,
        "failedAttempts": 11,
        "rescued": 2,
        "waits": [
            {
                "priority": 9,
                "placed": 1,
                "p50": 2.0,
                "p90": pytest.approx(2.8),
                "p99": pytest.approx(2.98),
                "max": 3.0,
                "pending": 1,
                "preempted": 1,
            },
            {
                "priority": 0,
                "placed": 0,
                "p50": None,
                "p90": None,
                "p99": None,
                "max": None,
                "pending": 2,
                "preempted": 0,
            },
        ],
        "meanUtilisation": {"memory": 0.5, TPU: 0.0, GPU: 0.25, "cpu": 0.5},
        "zones": [
            {"name": "x", **half},
            {"name": "y", "nodes": 1, "placed": 0, "meanUtilisation": {"cpu": 0.0, "memory": 0.25}},
        ],
        "pools": [{"name": "p", **half}],
        "fullestNodes": [{"name": "n1", **half}],
        "limits": [{"plugin": "Fit", "message": "Insufficient cpu", "attempts": 11, "nodes": 2}],
        "spans": [
            {"from": 0.0, "utilisation": {"memory": 0.25, "cpu": 0.0, GPU: 0.5, TPU: 0.0}, "pending": 0.0},
            {"from": 3600.0004, "utilisation": {"memory": 0.75, "cpu": 1.0, GPU: 0.0, TPU: 0.0}, "pending": 4.0},
        ],
        "nodes": [{"name": "n1", "placed": 5}, {"name": "n2", "placed": 2}],
        "placements": {"ns/a": "n1", "ns/b": "n1"},
        "preempted": [{"namespace": "ns", "name": "gone", "node": "n1", "for": "ns/a"}],
        "notes": ["a note"],
        "parts": {"decide": 3.0, "bind": 1.0},
        "peakMemoryBytes": 3 << 20,
        "groups": [{"podGroup": "ns/gang", "members": 2, "waitedSeconds": 60.0}],
        "story": [{"at": 0.0, "text": "bound", "attempt": 1, "cycle": 2}],
    }
    assert not {"groups", "story"} & {*EMPTY.content()}


FRAMES = {
    "waits": (
        [
            *("priority", "placed", "p50_seconds", "p90_seconds", "p99_seconds", "max_seconds"),
            *("pending", "preempted"),
        ],
        [
            (9, 1, 2.0, pytest.approx(2.8), pytest.approx(2.98), 3.0, 1, 1),
            (0, 0, None, None, None, None, 2, 0),
        ],
    ),
    "spans": (
        [
            *("from_seconds", "cpu_utilisation_percent", "memory_utilisation_percent"),
            *(f"{GPU}_utilisation_percent", f"{TPU}_utilisation_percent", "waiting_pods"),
        ],
        [(0.0, 0.0, 25.0, 50.0, 0.0, 0.0), (3600.0004, 100.0, 75.0, 0.0, 0.0, 4.0)],
    ),
    "pods": (["namespace", "pod", "node"], [("ns", "a", "n1"), ("ns", "b", "n1")]),
    "nodes": (["node", "placed"], [("n1", 5), ("n2", 2)]),
    "zones": (
        ["zone", "nodes", "placed", "cpu_utilisation_percent", "memory_utilisation_percent"],
        [("x", 2, 4, 50.0, None), ("y", 1, 0, 0.0, 25.0)],
    ),
    "pools": (
        ["pool", "nodes", "placed", "cpu_utilisation_percent", "memory_utilisation_percent"],
        [("p", 2, 4, 50.0, None)],
    ),
    "limits": (["plugin", "message", "attempts", "nodes"], [("Fit", "Insufficient cpu", 11, 2)]),
    "preempted": (["namespace", "pod", "node", "preemptor"], [("ns", "gone", "n1", "ns/a")]),
    "groups": (["group", "members", "waited_seconds"], [("ns/gang", 2, 60.0)]),
}


def test_frames_have_these_columns_and_rows() -> None:
    found = {name: ([*table.columns], [*table.rows]) for name, table in DAY.data_tables().items()}
    assert [*found] == [*FRAMES] and found == FRAMES


def test_the_time_that_a_day_took_does_not_make_it_another() -> None:
    assert replace(DAY, took_s=9.0, mean_uses=MeanUses({}, {}, {}), parts_s={}) == DAY
    assert replace(DAY, arrived=11) != DAY
