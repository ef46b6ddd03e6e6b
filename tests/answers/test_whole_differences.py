"""The answer of a what-if question that is made by hand: every table, sentence, plot and entry, word for word."""

from collections import Counter
from dataclasses import replace

import pytest

from mooring.answers.form.answer import AnswerTable
from mooring.answers.form.report_parts import BarPlot, Unit
from mooring.answers.form.utilisation import GroupUse, Utilisation
from mooring.answers.trial.changing_cluster import BlockedPod, GonePod, PreemptedPod
from mooring.answers.trial.workload_book import WorkloadName
from mooring.answers.what_if.difference import ChangedGroup, WhatIf, changed_groups, told_changes
from mooring.answers.what_if.difference_form import MovedPod, PendingPod, PlacedPod
from mooring.sim.results import GroupState

BEFORE = GroupUse(2, 0, 5, {"cpu": (2000, 4000), "memory": (0, 0), "gpu/x": (1, 2)})
AFTER = GroupUse(1, 1, 3, {"cpu": (1000, 4000), "memory": (2, 4)})
GANG = ChangedGroup("ns/gang", "pending", {"ns/g0": "", "ns/g1": "n1"}, 2, "too few. preemption: none")
ANSWER = WhatIf(
    changes=["drain n1", "scale Deployment/web=3"],
    moved=[MovedPod.of("ns/moved", "n1", "n2")],
    pending=[
        PendingPod.of("ns/again", "", "as before", True, False),
        PendingPod.of("ns/driven", "n1", "no room. preemption: not helpful", False, False),
        PendingPod.of("ns/fresh", "", "claim preemption: x", False, True),
        PendingPod.of("ns/g0", "", "too few", True, False),
    ],
    placed=[PlacedPod.of("ns/new", "n2", True), PlacedPod.of("ns/old", "n2", False)],
    preempted=[PreemptedPod.of("ns/weak", "n2", "ns/new"), PreemptedPod.of("ns/dead", "n2", "ns/new")],
    gone=[
        GonePod.of("ns/asked", "n1", "it is deleted", True),
        GonePod.of("ns/lost", "n1", "its node is removed", False),
    ],
    blocked=[BlockedPod.of("ns/kept", "n1", "budget", "needs 2 healthy pods and has 2")],
    before=Utilisation(BEFORE, {"x": BEFORE}, {"p": BEFORE}, {}),
    after=Utilisation(AFTER, {"x": AFTER, "y": AFTER}, {"p": AFTER}, {"n2": AFTER}),
    after_nodes={"ns/weak": "n3"},
    workloads={WorkloadName("Deployment", "ns/web"): Counter(moved=2, pending=1)},
    notes=["a note"],
    groups=[GANG],
)
NOTHING = WhatIf([], [], [], [], [], [], [], Utilisation(GroupUse(), {}, {}, {}), Utilisation(GroupUse(), {}, {}, {}))


def table_called(title: str) -> AnswerTable:
    (found,) = [table for table in ANSWER.report_tables() if table.title == title]
    return replace(found, rows=[*found.rows])


def test_the_summary_says_what_does_not_fit_what_happens_and_how_full_it_is() -> None:
    assert ANSWER.summary() == [
        "Not everything fits: 2 pods become pending, 1 pod without a controller is lost, "
        "the eviction of 1 pod is blocked by budget, 2 pods were pending before and still are.",
        "Pods: 1 moved, 1 pending before and placed now, 1 new and placed, 2 preempted, 1 deleted.",
        "Pod groups: 1 pending now (ns/gang).",
        "Schedulable nodes: 2 -> 1. Requested: cpu 50.0% -> 25.0%.",
        "Note: a note",
    ]
    assert NOTHING.summary() == ["Everything fits.", "No pod moves.", "Schedulable nodes: 0 -> 0."]


OUTCOMES = {
    "one pod that becomes pending": ({"pending": [ANSWER.pending[1]]}, "1 pod becomes pending"),
    "one pod that stays pending": ({"pending": [ANSWER.pending[0]]}, "1 pod was pending before and still is"),
    "two pods that are lost": ({"gone": [ANSWER.gone[1]] * 2}, "2 pods without a controller are lost"),
    "a block without a budget": (
        {"blocked": [BlockedPod.of("ns/a", "n1", "", "no controller")] * 2},
        "the eviction of 2 pods is blocked",
    ),
}


@pytest.mark.parametrize(("parts", "text"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_the_first_line_says_what_does_not_fit(parts: dict[str, list[object]], text: str) -> None:
    answer = replace(NOTHING, **parts)  # type: ignore[arg-type]
    assert not answer.fits and answer.summary()[0] == f"Not everything fits: {text}."


def test_pods_that_a_change_deletes_do_not_matter_for_the_fit() -> None:
    assert replace(NOTHING, gone=ANSWER.gone[:1]).fits and not replace(NOTHING, gone=ANSWER.gone).fits


POD_ROWS = [
    ("ns/driven", "pending", "n1", "", "no room."),
    ("ns/fresh", "pending", "", "", "claim"),
    ("ns/again", "still pending", "", "", "as before"),
    ("ns/kept", "blocked", "n1", "n1", "budget: needs 2 healthy pods and has 2"),
    ("ns/lost", "lost", "n1", "", "its node is removed"),
    ("ns/asked", "deleted", "n1", "", "it is deleted"),
    ("ns/weak", "preempted", "n2", "n3", "by ns/new"),
    ("ns/dead", "preempted", "n2", "", "by ns/new"),
    ("ns/new", "new", "", "n2", ""),
    ("ns/old", "placed", "", "n2", ""),
    ("ns/moved", "moved", "n1", "n2", ""),
]
TABLES = [
    AnswerTable("Changes, in order", ("number", "change"), [(1, "drain n1"), (2, "scale Deployment/web=3")]),
    AnswerTable(
        "Workloads",
        ("workload", "moved", "pending", "placed", "preempted", "blocked"),
        [(WorkloadName("Deployment", "ns/web"), 2, 1, "-", "-", "-")],
    ),
    AnswerTable(
        "Utilisation",
        ("group", "nodes", "resource", "before", "after"),
        [
            ("all", "2 -> 1", "cpu", "50.0%", "25.0%"),
            ("all", "2 -> 1", "memory", "-", "50.0%"),
            ("all", "2 -> 1", "gpu/x", "50.0%", "-"),
        ],
    ),
    AnswerTable(
        "Utilisation by zone",
        ("group", "nodes", "resource", "before", "after"),
        [
            ("x", "2 -> 1", "cpu", "50.0%", "25.0%"),
            ("x", "2 -> 1", "memory", "-", "50.0%"),
            ("y", "0 -> 1", "cpu", "-", "25.0%"),
            ("y", "0 -> 1", "memory", "-", "50.0%"),
        ],
    ),
    AnswerTable(
        "Utilisation by pool",
        ("group", "nodes", "resource", "before", "after"),
        [("p", "2 -> 1", "cpu", "50.0%", "25.0%"), ("p", "2 -> 1", "memory", "-", "50.0%")],
    ),
    AnswerTable("Fullest nodes", ("node", "pods", "cpu", "memory"), [("n2", 3, "25.0%", "50.0%")], is_detail=True),
]


@pytest.mark.parametrize("table", TABLES, ids=[table.title for table in TABLES])
def test_a_table_is_as_written_here(table: AnswerTable) -> None:
    assert table_called(table.title) == table


def test_the_table_of_pods_has_the_group_instead_of_its_pods() -> None:
    table = table_called("Pods")
    assert table.columns == ("pod", "change", "from", "to", "reason") and not table.is_detail
    (first, *others) = table.rows
    assert first[:3] == ("ns/gang (group of 2)", "pending", "") and first[4] == "too few."
    assert others == POD_ROWS
    assert [*ANSWER.pod_changes()][2:4] == [
        POD_ROWS[2],
        ("ns/g0", "still pending", "", "", "too few"),
    ], "without groups each pod has its line"


def test_plots_count_changes_and_compare_shares() -> None:
    counts = {"pending": 3, "still pending": 1, "blocked": 1, "lost": 1, "deleted": 1, "preempted": 2, "new": 1}
    counts |= {"placed": 1, "moved": 1}
    shares: dict[str, list[float | None]] = {"before": [0.5, None], "after": [0.25, 0.5]}
    plots = ANSWER.plots()
    assert plots[:2] == [
        BarPlot("Pods that change", [*counts], {"pods": [float(number) for number in counts.values()]}),
        BarPlot("Requested share of schedulable nodes", ("cpu", "memory"), shares, Unit.SHARE),
    ]
    assert plots[2] == BarPlot("Pods by zone", ["x", "y"], {"before": [5.0, 0.0], "after": [3.0, 3.0]})
    assert [plot.title for plot in plots[3:]] == [
        *("Requested cpu by zone", "Requested memory by zone"),
        *("Pods by pool", "Requested cpu by pool", "Requested memory by pool"),
    ]
    assert [plot.title for plot in NOTHING.plots()] == ["Requested share of schedulable nodes"]


def test_the_plain_data_has_every_field() -> None:
    def named(name: str) -> dict[str, str]:
        return {"namespace": "ns", "name": name}

    def pending(name: str, node: str, message: str, was: bool, new: bool) -> dict[str, object]:
        return {**named(name), "from": node, "message": message, "wasPending": was, "isNew": new}

    both = {"before": BEFORE.content(), "after": AFTER.content()}
    assert ANSWER.content() == {
        "fits": False,
        "changes": ["drain n1", "scale Deployment/web=3"],
        "moved": [{**named("moved"), "from": "n1", "to": "n2"}],
        "pending": [
            pending("again", "", "as before", True, False),
            pending("driven", "n1", "no room. preemption: not helpful", False, False),
            pending("fresh", "", "claim preemption: x", False, True),
            pending("g0", "", "too few", True, False),
        ],
        "placed": [{**named("new"), "node": "n2", "isNew": True}, {**named("old"), "node": "n2", "isNew": False}],
        "preempted": [
            {**named("weak"), "node": "n2", "preemptor": named("new"), "to": "n3"},
            {**named("dead"), "node": "n2", "preemptor": named("new"), "to": ""},
        ],
        "gone": [
            {**named("asked"), "node": "n1", "reason": "it is deleted", "isWanted": True},
            {**named("lost"), "node": "n1", "reason": "its node is removed", "isWanted": False},
        ],
        "blocked": [
            {**named("kept"), "node": "n1", "budget": "budget", "message": "needs 2 healthy pods and has 2"},
        ],
        "workloads": [
            {
                "kind": "Deployment",
                **named("web"),
                "moved": 2,
                "pending": 1,
                "placed": 0,
                "preempted": 0,
                "blocked": 0,
            },
        ],
        "utilisation": {
            "total": both,
            "zones": [
                {"name": "x", **both},
                {"name": "y", "before": GroupUse().content(), "after": AFTER.content()},
            ],
            "pools": [{"name": "p", **both}],
        },
        "notes": ["a note"],
        "groups": [
            {
                "podGroup": "ns/gang",
                "change": "pending",
                "minCount": 2,
                "members": 2,
                "onNodes": 1,
                "message": "too few. preemption: none",
            },
        ],
    }
    assert "groups" not in NOTHING.content()


def test_frames_have_these_columns_and_rows() -> None:
    tables = ANSWER.data_tables()
    assert [*tables] == ["pods", "workloads", "total", "zones", "pools"]
    assert [*tables["pods"].columns] == ["namespace", "pod", "change", "from_node", "to_node", "reason"]
    assert tables["pods"].rows[0] == ("ns", "driven", "pending", "n1", None, "no room.")
    assert len(tables["pods"].rows) == len(POD_ROWS) + 1, "the pod of the group as well"
    assert [*tables["workloads"].columns] == [
        *("kind", "namespace", "name", "moved", "pending", "placed", "preempted", "blocked"),
    ]
    assert tables["workloads"].rows == [("Deployment", "ns", "web", 2, 1, 0, 0, 0)]
    columns = [*tables["total"].columns]
    assert columns[:6] == [
        *("nodes_before", "nodes_after", "nodes_difference", "pods_before", "pods_after", "pods_difference"),
    ]
    assert columns[6:15] == [
        *("cpu_requested_milli_before", "cpu_requested_milli_after", "cpu_requested_milli_difference"),
        *("cpu_allocatable_milli_before", "cpu_allocatable_milli_after", "cpu_allocatable_milli_difference"),
        *("cpu_utilisation_percent_before", "cpu_utilisation_percent_after", "cpu_utilisation_percent_difference"),
    ]
    whole = (2, 1, -1, 5, 3, -2, 2000, 1000, -1000, 4000, 4000, 0, 50.0, 25.0, -25.0)
    memory_and_devices = (0, 2, 2, 0, 4, 4, None, 50.0, None, 1, 0, -1, 2, 0, -2, 50.0, None, None)
    assert tables["total"].rows == [(*whole, *memory_and_devices)]
    assert next(iter(tables["zones"].columns)) == "zone" and next(iter(tables["pools"].columns)) == "pool"
    assert [row[0] for row in tables["zones"].rows] == ["x", "y"]
    new = (0, 1, 1, 0, 3, 3, 0, 1000, 1000, 0, 4000, 4000, None, 25.0, None)
    assert tables["zones"].rows == [
        ("x", *whole, *memory_and_devices),
        ("y", *new, *(0, 2, 2, 0, 4, 4, None, 50.0, None), *(0, 0, 0, 0, 0, 0, None, None, None)),
    ]
    kinds = {name: kind for name, kind in tables["pools"].columns.items() if kind is not int}
    assert kinds.pop("pool") is str and {*kinds.values()} == {float}
    assert all("utilisation_percent" in name for name in kinds) and len(kinds) == 9


# ---- groups

PLACED = GroupState("ns/a", 1, {"ns/a0": "n1"})
WAITS = GroupState("ns/a", 2, {"ns/a0": "n1", "ns/a1": ""}, message="too few")


@pytest.mark.parametrize(
    ("was", "now", "change"),
    [
        (None, WAITS, "pending"),
        (PLACED, WAITS, "pending"),
        (WAITS, WAITS, "still pending"),
        (None, PLACED, "new"),
        (WAITS, PLACED, "placed"),
    ],
)
def test_a_group_that_is_pending_or_was_has_a_line(was: GroupState | None, now: GroupState, change: str) -> None:
    (found,) = changed_groups({"ns/a": was} if was else {}, {"ns/a": now})
    assert (found.key, found.change, found.nodes) == ("ns/a", change, now.nodes)
    assert (found.min_count, found.message) == (now.min_count, now.message)


def test_a_group_that_stays_placed_has_no_line() -> None:
    assert changed_groups({"ns/a": PLACED}, {"ns/a": PLACED}) == [] and [*told_changes([])] == []


def test_groups_are_counted_by_what_happens_to_them() -> None:
    groups = [
        GANG,
        ChangedGroup("ns/b", "new", {}),
        ChangedGroup("ns/c", "placed", {}),
        ChangedGroup("ns/d", "still pending", {}),
        ChangedGroup("ns/e", "pending", {}),
    ]
    assert [(each.content()["minCount"], each.content()["message"]) for each in groups[:2]] == [
        (2, "too few. preemption: none"),
        (None, ""),
    ]
    assert [*told_changes(groups)] == [
        "Pod groups: 2 pending now (ns/gang, ns/e), 1 pending as before (ns/d), "
        "1 pending before and placed now (ns/c), 1 new and placed (ns/b).",
    ]
