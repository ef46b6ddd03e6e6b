"""The answer of a simulation that is made by hand: every table, sentence, plot and entry, word for word."""

from collections import deque
from dataclasses import replace

import pytest

from build import a_pod
from mooring.answers.form.answer import AnswerTable
from mooring.answers.form.report_parts import BarPlot, Unit
from mooring.answers.form.utilisation import GroupUse, Utilisation
from mooring.answers.simulate.simulation_answer import SimulationAnswer, explanation_tables, told_limits
from mooring.answers.simulate.simulation_form import explained_form, why_not_placed
from mooring.framework.contract.status import Code, Rejection
from mooring.scheduler.decision import DecisionDetails, DecisionError, Diagnosis, NoFit, Placement
from mooring.sim.results import (
    Explanation,
    FailureReason,
    Fate,
    GroupState,
    Moment,
    NodeUse,
    PodResult,
    SimulatedEviction,
    Story,
)

GI = 1 << 30
GPU = "example.com/gpu"


def pod_called(name: str, priority: int = 0) -> PodResult:
    pod = a_pod(name, namespace="ns", schedulerName="own", priority=priority)
    return PodResult(pod, Fate.UNSCHEDULABLE, message="no room", attempts=2)


PLACED = replace(
    pod_called("placed", priority=7),
    fate=Fate.SCHEDULED,
    node="n1",
    score=90,
    feasible_count=3,
    best=[("n1", 90), ("n2", 90), ("n3", 10)],
    message="",
    attempts=1,
    waited_s=0.5,
    replaces="ns/gone",
)
ONLY = replace(PLACED, pod=pod_called("only").pod, node="n2", score=5, feasible_count=1, best=[], replaces="")
LARGE = pod_called("large")
PROMISED = replace(pod_called("promised"), nominated="n2")
WAITING = replace(pod_called("waits"), fate=Fate.WAITING, message="waits on n1", nominated="n1")
MEMBER = pod_called("member")
EVICTED = SimulatedEviction(pod_called("gone").pod, "n1", "ns/placed", "ns/placed")
LOST = SimulatedEviction(pod_called("lost").pod, "n2", "ns/only")
NODES = [
    NodeUse("n1", 3, 110, 1, {"cpu": (1500, 4000), "memory": (GI, 4 * GI), GPU: (1, 2), "ephemeral-storage": (0, GI)}),
    NodeUse("n2", 1, 10, 0, {"cpu": (0, 2000), "memory": (0, 0), "hugepages-2Mi": (0, 0)}),
]
BLUE = GroupUse(1, 0, 3, {"cpu": (1500, 4000), "memory": (GI, 4 * GI)})
GREEN = GroupUse(1, 1, 1, {"cpu": (0, 2000)})
LIMITS = [FailureReason("Fit", "Insufficient cpu", 2, 1), FailureReason("Taints", "tainted", 1, 2)]
GROUP = GroupState("ns/gang", 2, {"ns/member": "", "ns/other": "n1"}, None, "too few")
STORY = Story("ns/placed", deque([Moment(0, 0, 0, "queued"), Moment(1_500_000_000, 1, 4, "bound")]), left_out=3)
ANSWER = SimulationAnswer(
    [PLACED, ONLY, LARGE, PROMISED, WAITING, MEMBER],
    NODES,
    [EVICTED, LOST],
    12.5,
    ["a note"],
    story=STORY,
    limits=LIMITS,
    groups=[GROUP],
    utilisation=Utilisation(
        GroupUse(2, 0, 4, {"cpu": (1500, 6000)}), {"y": GREEN, "x": BLUE}, {"p": BLUE}, {"n2": GREEN, "n1": BLUE}
    ),
    zones={"n1": "x", "n2": "y"},
)
EMPTY = SimulationAnswer([], NODES)


def table_called(title: str, answer: SimulationAnswer = ANSWER) -> AnswerTable:
    (found,) = [table for table in answer.report_tables() if table.title == title]
    return replace(found, rows=[*found.rows])


def test_the_summary_counts_and_names_what_limits() -> None:
    assert ANSWER.summary() == [
        "2 of 6 pending pods placed, 2 preempted, 2 nodes",
        "0 of 1 pod group placed.",
        "Requested: cpu 25.0%.",
        "What limits: Insufficient cpu (2 pods, up to 1 node); tainted (1 pod, up to 2 nodes).",
    ]
    assert EMPTY.summary() == ["no pending pods, 2 nodes"]
    assert replace(ANSWER, preempted=[]).outcome() == "2 of 6 pending pods placed, 2 nodes"


def test_the_summary_names_three_reasons_and_counts_the_others() -> None:
    reasons = [FailureReason("P", name, 1, 1) for name in "abcde"]
    told = "What limits: a (1 pod, up to 1 node); b (1 pod, up to 1 node); c (1 pod, up to 1 node)"
    assert told_limits(reasons, "pod") == [f"{told}; 2 more: -o wide shows all."]
    assert told_limits(reasons[:3], "pod") == [f"{told}."]


TABLES = [
    AnswerTable(
        "By zone", ("zone", "nodes", "pods", "cpu", "memory"), [("x", 1, 3, "37.5%", "25.0%"), ("y", 1, 1, "0.0%", "-")]
    ),
    AnswerTable("By pool", ("pool", "nodes", "pods", "cpu", "memory"), [("p", 1, 3, "37.5%", "25.0%")]),
    AnswerTable(
        "What limits",
        ("reason", "plugin", "pods", "nodes"),
        [("Insufficient cpu", "Fit", 2, 1), ("tainted", "Taints", 1, 2)],
        is_detail=True,
    ),
    AnswerTable("Fullest nodes (requested/allocatable)", ("node", "pods", "new", "cpu", "memory"), []),
    AnswerTable(
        "Nodes (requested/allocatable)",
        ("node", "pods", "new", "cpu", "memory", GPU, "ephemeral-storage"),
        [
            ("n1", "3/110", 1, "1500m/4 38%", "1Gi/4Gi 25%", "1/2 50%", "0/1Gi 0%"),
            ("n2", "1/10", 0, "0/2 0%", "-", "-", "-"),
        ],
        detail_columns=1,
    ),
    AnswerTable(
        "Pending",
        ("pods", "which", "result", "reason"),
        [
            (1, "ns/large", "unschedulable", "no room"),
            (1, "ns/promised (nominated to n2)", "unschedulable", "no room"),
            (1, "ns/waits", "waiting", "waits on n1"),
        ],
    ),
    AnswerTable(
        "Preempted",
        ("namespace", "pod", "node", "for", "replaced by"),
        [("ns", "gone", "n1", "ns/placed", "placed"), ("ns", "lost", "n2", "ns/only", "-")],
    ),
    AnswerTable(
        "Placed",
        ("namespace", "pod", "node", "priority", "scheduler", "feasible", "score", "next best"),
        [
            ("ns", "placed", "n1", 7, "own", 3, 90, "n2 (90, tied), n3 (10)"),
            ("ns", "only", "n2", 0, "own", 1, "-", "-"),
        ],
        detail_columns=5,
    ),
    AnswerTable(
        "Pending pods",
        ("namespace", "pod", "result", "attempts", "nominated to", "reason"),
        [
            ("ns", "large", "unschedulable", 2, "-", "no room"),
            ("ns", "promised", "unschedulable", 2, "n2", "no room"),
            ("ns", "waits", "waiting", 2, "n1", "waits on n1"),
            ("ns", "member", "unschedulable", 2, "-", "no room"),
        ],
        is_detail=True,
    ),
    AnswerTable(
        "The story of ns/placed, without 3 earlier moments",
        ("time", "attempt", "cycle", "what happened"),
        [("00:00:00.000", "", "", "queued"), ("00:00:01.500", 1, 4, "bound")],
    ),
]


@pytest.mark.parametrize("table", TABLES, ids=[table.title for table in TABLES])
def test_a_table_is_as_written_here(table: AnswerTable) -> None:
    assert table_called(table.title) == table


def test_the_story_and_then_the_usual_tables_are_in_a_report() -> None:
    titles = [table.title for table in ANSWER.report_tables()]
    assert titles == [TABLES[-1].title, *(table.title for table in ANSWER.tables())]
    whole = replace(STORY, left_out=0)
    assert replace(ANSWER, story=whole).report_tables()[0].title == "The story of ns/placed"
    assert [table.title for table in EMPTY.report_tables()] == [table.title for table in EMPTY.tables()]


def test_six_pods_with_one_reason_are_a_row_that_names_five() -> None:
    alike = replace(ANSWER, pods=[pod_called(f"p{i}") for i in range(6)], groups=[])
    (row,) = table_called("Pending", alike).rows
    assert row == (6, "ns/p0, ns/p1, ns/p2, ns/p3, ns/p4 and 1 more", "unschedulable", "no room")


def test_a_cluster_of_eleven_nodes_shows_the_fullest_and_the_others_on_request() -> None:
    many = replace(ANSWER, nodes=[*NODES, *(NodeUse(f"m{i}", 0, 1, 0, {}) for i in range(9))])
    assert [row[0] for row in table_called("Fullest nodes (requested/allocatable)", many).rows] == ["n2", "n1"]
    assert table_called("Nodes (requested/allocatable)", many).is_detail
    ten = replace(many, nodes=many.nodes[:10])
    assert table_called("Fullest nodes (requested/allocatable)", ten).rows == []
    assert not table_called("Nodes (requested/allocatable)", ten).is_detail


def test_plots_have_zones_pools_limits_and_waiting_times() -> None:
    assert ANSWER.plots() == [
        BarPlot("Pods placed by zone", ["x", "y"], {"placed": [1.0, 1.0]}),
        BarPlot("Pods by zone", ["x", "y"], {"pods": [3.0, 1.0]}),
        BarPlot("Requested share by zone", ["x", "y"], {"cpu": [0.375, 0.0], "memory": [0.25, None]}, Unit.SHARE),
        BarPlot("Pods by pool", ["p"], {"pods": [3.0]}),
        BarPlot("Requested share by pool", ["p"], {"cpu": [0.375], "memory": [0.25]}, Unit.SHARE),
        BarPlot(
            "Pending pods by what limits them", ["Insufficient cpu (Fit)", "tainted (Taints)"], {"pods": [2.0, 1.0]}
        ),
        BarPlot("Time until pods were bound", ["up to 10 ms", "up to 100 ms", "up to 1 s"], {"pods": [0.0, 0.0, 2.0]}),
    ]
    assert EMPTY.plots() == []


def test_the_plain_data_has_every_field() -> None:
    written = ANSWER.content()
    assert written.pop("pods")[:4:2] == [
        {
            "namespace": "ns",
            "name": "placed",
            "result": "scheduled",
            "attempts": 1,
            "node": "n1",
            "feasibleNodes": 3,
            "best": [{"node": "n1", "score": 90}, {"node": "n2", "score": 90}, {"node": "n3", "score": 10}],
            "replaces": "ns/gone",
        },
        {"namespace": "ns", "name": "large", "result": "unschedulable", "attempts": 2, "message": "no room"},
    ]
    assert ANSWER.content()["pods"][3]["nominatedNode"] == "n2"
    assert written.pop("groups")[0]["podGroup"] == "ns/gang"
    use = written.pop("utilisation")
    assert [*use] == ["total", "zones", "pools", "fullestNodes"] and use["total"]["pods"] == 4
    assert [each["name"] for name in ("zones", "pools", "fullestNodes") for each in use[name]] == [
        *("x", "y"),
        "p",
        *("n2", "n1"),
    ]
    assert written == {
        "summary": {
            "pods": 6,
            "placed": 2,
            "pending": 4,
            "preempted": 2,
            "groups": 1,
            "groupsPlaced": 0,
            "groupsPending": 1,
        },
        "limits": [
            {"plugin": "Fit", "message": "Insufficient cpu", "pods": 2, "nodes": 1},
            {"plugin": "Taints", "message": "tainted", "pods": 1, "nodes": 2},
        ],
        "nodes": [
            {
                "name": "n1",
                "pods": 3,
                "newPods": 1,
                "allowedPods": 110,
                "requested": {"cpu": 1500, "memory": GI, GPU: 1, "ephemeral-storage": 0},
                "allocatable": {"cpu": 4000, "memory": 4 * GI, GPU: 2, "ephemeral-storage": GI},
            },
            {
                "name": "n2",
                "pods": 1,
                "newPods": 0,
                "allowedPods": 10,
                "requested": {"cpu": 0, "memory": 0, "hugepages-2Mi": 0},
                "allocatable": {"cpu": 2000, "memory": 0, "hugepages-2Mi": 0},
            },
        ],
        "preempted": [
            {"namespace": "ns", "name": "gone", "node": "n1", "for": "ns/placed", "replacedBy": "ns/placed"},
            {"namespace": "ns", "name": "lost", "node": "n2", "for": "ns/only"},
        ],
        "simulatedSeconds": 12.5,
        "notes": ["a note"],
        "story": [{"at": 0.0, "text": "queued"}, {"at": 1.5, "text": "bound", "attempt": 1, "cycle": 4}],
    }
    assert not {"groups", "explanations", "explanation", "story"} & {*EMPTY.content()}


def test_frames_have_a_row_for_each_thing() -> None:
    tables = ANSWER.data_tables()
    assert [*tables] == ["pods", "nodes", "zones", "pools", "limits", "preempted", "groups"]
    assert [*tables["pods"].columns] == [
        *("namespace", "pod", "result", "node", "attempts", "priority", "scheduler", "feasible_nodes", "score"),
        *("waited_seconds", "nominated_node", "message"),
    ]
    assert tables["pods"].rows[:4] == [
        ("ns", "placed", "scheduled", "n1", 1, 7, "own", 3, 90, 0.5, None, None),
        ("ns", "only", "scheduled", "n2", 1, 0, "own", 1, None, 0.5, None, None),
        ("ns", "large", "unschedulable", None, 2, 0, "own", None, None, None, None, "no room"),
        ("ns", "promised", "unschedulable", None, 2, 0, "own", None, None, None, "n2", "no room"),
    ]
    amounts = [
        *("cpu_requested_milli", "cpu_allocatable_milli", "cpu_utilisation_percent"),
        *("memory_requested_bytes", "memory_allocatable_bytes", "memory_utilisation_percent"),
    ]
    assert [*tables["nodes"].columns][:11] == ["node", "zone", "pods", "new_pods", "allowed_pods", *amounts]
    assert [row[:11] for row in tables["nodes"].rows] == [
        ("n1", "x", 3, 1, 110, 1500, 4000, 37.5, GI, 4 * GI, 25.0),
        ("n2", "y", 1, 0, 10, 0, 2000, 0.0, 0, 0, None),
    ]
    assert [*tables["zones"].columns] == ["zone", "nodes", "cordoned_nodes", "pods", *amounts]
    assert tables["zones"].rows == [
        ("x", 1, 0, 3, 1500, 4000, 37.5, GI, 4 * GI, 25.0),
        ("y", 1, 1, 1, 0, 2000, 0.0, 0, 0, None),
    ]
    assert next(iter(tables["pools"].columns)) == "pool" and [row[0] for row in tables["pools"].rows] == ["p"]
    assert [*tables["limits"].columns] == ["plugin", "message", "pods", "nodes"]
    assert tables["limits"].rows == [("Fit", "Insufficient cpu", 2, 1), ("Taints", "tainted", 1, 2)]
    assert [*tables["preempted"].columns] == ["namespace", "pod", "node", "preemptor"]
    assert tables["preempted"].rows == [("ns", "gone", "n1", "ns/placed"), ("ns", "lost", "n2", "ns/only")]
    assert [*tables["groups"].columns] == [
        *("group", "result", "min_count", "members", "on_nodes", "waited_seconds", "message"),
    ]
    assert tables["groups"].rows == [("ns/gang", "pending", 2, 2, 1, None, "too few")]


# ---- explanations

DETAILS = DecisionDetails(
    ["n1", "n2"],
    {"n4": Rejection(("tainted",), Code.Unschedulable, "Taints"), "n3": Rejection(("full", "old"), plugin="Fit")},
    {"n1": {"Fit": 20, "Spread": 5}, "n2": {"Fit": 30, "Spread": 5}},
    {"n1": 25, "n2": 35},
)
CHOSEN = Explanation(
    PLACED.pod,
    Placement("n2", 1, 35, details=DETAILS),
    Fate.SCHEDULED,
    now_on="n1",
    weights={"Fit": 2},
    victims=["ns/gone"],
)


def test_an_explanation_has_scores_in_the_order_of_totals_and_rejections_by_name() -> None:
    scores, rejected = explanation_tables(CHOSEN, "ns/placed: ")
    assert (scores.title, scores.columns) == (
        "ns/placed: Scores (after weights)",
        ("node", "total", "Fit*2", "Spread*1"),
    )
    assert scores.rows == [("n2", 35, 30, 5), ("n1", 25, 20, 5)]
    assert (rejected.title, rejected.columns) == ("ns/placed: Rejected", ("node", "plugin", "verdict", "reason"))
    assert rejected.rows == [
        ("n3", "Fit", "UnschedulableAndUnresolvable", "full, old"),
        ("n4", "Taints", "Unschedulable", "tainted"),
    ]
    assert explanation_tables(Explanation(PLACED.pod, DecisionError("broken"), Fate.ERROR)) == []
    shown = [table.title for table in replace(ANSWER, explanations=[CHOSEN]).tables()]
    assert shown[-2:] == [scores.title, rejected.title]


def test_an_explanation_is_plain_data() -> None:
    assert explained_form(CHOSEN).content() == {
        "pod": "ns/placed",
        "result": "scheduled",
        "nowOn": "n1",
        "node": "n2",
        "victims": ["ns/gone"],
        "scores": DETAILS.scores,
        "totals": {"n1": 25, "n2": 35},
        "feasible": ["n1", "n2"],
        "rejected": {
            "n4": {"plugin": "Taints", "code": "Unschedulable", "reasons": ["tainted"]},
            "n3": {"plugin": "Fit", "code": "UnschedulableAndUnresolvable", "reasons": ["full", "old"]},
        },
    }


def test_an_explanation_without_a_node_says_why() -> None:
    failed = Explanation(LARGE.pod, NoFit(Diagnosis(0)), Fate.UNSCHEDULABLE, "later", preemption="no victims")
    assert explained_form(failed).content() == {
        "pod": "ns/large",
        "result": "unschedulable",
        "message": "no nodes available to schedule pods",
        "preemption": "no victims",
    }
    broken = Explanation(LARGE.pod, DecisionError("broken"), Fate.ERROR, "later")
    assert explained_form(broken).content() == {"pod": "ns/large", "result": "error", "message": "broken"}
    gated = Explanation(LARGE.pod, None, Fate.GATED, "a gate is closed")
    assert why_not_placed(gated) == explained_form(gated).content()["message"] == "a gate is closed"


def test_the_data_has_all_explanations_and_the_first_by_itself() -> None:
    written = replace(ANSWER, explanations=[CHOSEN, replace(CHOSEN, now_on="")]).content()
    assert written["explanation"] == written["explanations"][0] == explained_form(CHOSEN).content()
    assert len(written["explanations"]) == 2
