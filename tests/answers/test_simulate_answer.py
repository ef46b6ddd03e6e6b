"""Simulations as answers: the summary, tables, plain data and frames that all answers have."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written import a_node, a_pod

import mooring
from mooring.answers.form.answer import ClusterAnswer
from mooring.answers.simulate.simulating import run_day
from mooring.framework.contract.status import Code, Rejection
from mooring.inputs.arrivals import arrivals_of
from mooring.scheduler.decision import Diagnosis
from mooring.sim import results
from mooring.sim.gauge import StayFile
from mooring.sim.results import FailureCounter, FailureReason

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/schemas/simulate.v1.json").read_text())
EXPLAIN_SCHEMA = json.loads((ROOT / "docs/schemas/explain.v1.json").read_text())

NODES = [
    a_node("a-1", zone="a", labels={"pool": "blue"}),
    a_node("a-2", zone="a", labels={"pool": "green"}),
    a_node("b-1", cpu="8", zone="b", labels={"pool": "blue"}),
    a_node("gone", zone="b", cordoned=True),
]
PODS = [
    a_pod("running", "1", node="a-1"),
    a_pod("web-0", "2"),
    a_pod("web-1", "2"),
    a_pod("giant-0", "64"),
    a_pod("giant-1", "64", "64Gi"),
]
ARRIVALS = [
    {"at": 0, "run": "1h", "cpu": "2", "name": "early", "count": 2},
    {"at": "10m", "run": "10m", "cpu": "8", "name": "rush", "count": 2},
]


def checked(answer: ClusterAnswer) -> dict[str, Any]:
    """The plain data, which has the documented form and survives JSON."""
    written = answer.to_dict()
    jsonschema.validate(written, SCHEMA)
    assert json.loads(json.dumps(written)) == written
    return written


def test_the_summary_has_counts_utilisation_and_what_limits() -> None:
    answer = mooring.simulate([*NODES, *PODS])
    assert answer.summary() == [
        "2 of 4 pending pods placed, 4 nodes",
        "Requested: cpu 31.3%, memory 12.5%.",
        "What limits: Insufficient cpu (2 pods, up to 3 nodes); node(s) were unschedulable (2 pods, up to 1 node); "
        "Insufficient memory (1 pod, up to 3 nodes).",
    ]
    assert repr(answer) == "<Simulation: 2 of 4 pending pods placed, 4 nodes>"


def test_zones_pools_and_the_fullest_nodes_leave_cordoned_nodes_out() -> None:
    written = checked(mooring.simulate([*NODES, *PODS]))
    use = written["utilisation"]
    assert written["summary"] == {"pods": 4, "placed": 2, "pending": 2, "preempted": 0}
    assert use["total"]["resources"]["cpu"] == {"requested": 5000, "allocatable": 16000}
    assert [(zone["name"], zone["nodes"], zone["cordonedNodes"], zone["pods"]) for zone in use["zones"]] == [
        ("a", 2, 0, 1),
        ("b", 1, 1, 2),
    ]
    assert [(pool["name"], pool["pods"]) for pool in use["pools"]] == [("blue", 3), ("green", 0)]
    assert [node["name"] for node in use["fullestNodes"]] == ["b-1", "a-1", "a-2"]
    assert written["limits"][0] == {
        "plugin": "NodeResourcesFit",
        "message": "Insufficient cpu",
        "pods": 2,
        "nodes": 3,
    }


def test_a_large_cluster_shows_its_fullest_nodes_and_all_on_request() -> None:
    nodes = [a_node(f"n-{i:02}") for i in range(12)]
    answer = mooring.simulate([*nodes, *(a_pod(f"p-{i}", "3", node=f"n-{i:02}") for i in range(3))])
    tables = {table.title: table for table in answer.tables()}
    fullest = tables["Fullest nodes (requested/allocatable)"]
    assert [row[0] for row in fullest.rows] == [f"n-{i:02}" for i in range(10)]
    assert len(tables["Nodes (requested/allocatable)"].rows) == 12 and tables["Nodes (requested/allocatable)"].is_detail
    assert not fullest.is_detail


def test_notebooks_show_tables_without_details() -> None:
    answer = mooring.simulate([*NODES, *PODS])
    shown = answer._repr_html_()
    assert "<p>2 of 4 pending pods placed, 4 nodes</p>" in shown and "<caption>By zone</caption>" in shown
    assert "<caption>Pending pods</caption>" not in shown and "next best" not in shown


def test_an_explanation_and_a_story_are_part_of_the_data() -> None:
    cluster = mooring.load([*NODES, *PODS])
    answer = cluster.simulate(explain=["giant-0", "web-0"], story="web-1")
    written = checked(answer)
    giant, web = written["explanations"]
    assert written["explanation"] == giant and giant["message"].startswith("0/4 nodes are available")
    jsonschema.validate(giant["answer"], EXPLAIN_SCHEMA)
    assert giant["answer"]["cures"] and giant["answer"]["pod"] == "default/giant-0"
    assert web["node"] and "answer" not in web
    assert written["story"][0] == {"at": 0.0, "text": "added to the active queue"}
    assert "default/web-0: Scores (after weights)" in [table.title for table in answer.tables()]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="an empty cluster"),
        pytest.param([NODES[0]], id="no pods"),
        pytest.param([a_pod("web")], id="no nodes"),
        pytest.param([NODES[0], a_pod("gated", schedulingGates=[{"name": "later"}])], id="a gated pod"),
        pytest.param([NODES[0], a_pod("other", schedulerName="another")], id="another scheduler"),
        pytest.param(
            [NODES[0], a_pod("low", "3", node="a-1", priority=0), a_pod("high", "3", priority=9)], id="preemption"
        ),
    ],
)
def test_every_outcome_has_the_documented_form(objects: list[dict[str, Any]]) -> None:
    checked(mooring.simulate(objects))
    checked(mooring.simulate(objects, arrivals=[]))


# ---- days


def test_a_day_has_means_by_zone_and_pool_and_what_limits() -> None:
    answer = mooring.simulate(NODES, arrivals=ARRIVALS)
    written = checked(answer)
    assert answer.summary()[0] == "4 pods arrived: 4 placed on 4 nodes (0 to 4 on each), 4 finished"
    assert answer.summary()[-1] == (
        "What limits: Insufficient cpu (23 failed attempts, up to 3 nodes); "
        "node(s) were unschedulable (23 failed attempts, up to 1 node)."
    )
    assert (written["failedAttempts"], written["limits"][0]["attempts"]) == (23, 23)
    assert [(zone["name"], zone["nodes"], zone["placed"]) for zone in written["zones"]] == [("a", 2, 0), ("b", 2, 4)]
    assert repr(answer) == f"<SimulatedDay: {answer.summary()[0]}>"
    assert "<caption>Utilisation</caption>" in answer._repr_html_()


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(1, 5), st.one_of(st.none(), st.integers(1, 60)), st.integers(0, 2)),
        max_size=12,
    )
)
def test_the_means_of_nodes_are_those_of_a_plain_loop_over_pods(
    plan: list[tuple[int, int, int | None, int]],
) -> None:
    """(arrival, cpu, run time, priority): each pod holds its request from its binding until it is gone."""
    entries = [
        {"at": at, "cpu": str(cpu), "name": f"p{i}", "priority": priority, **({"run": run} if run is not None else {})}
        for i, (at, cpu, run, priority) in enumerate(plan)
    ]
    nodes = [a_node("a-1", zone="a"), a_node("b-1", "6", zone="b"), a_pod("old", "1", "0", node="b-1", priority=9)]
    cluster, file = mooring.load(nodes).loaded, io.StringIO()
    day = run_day(cluster, arrivals_of(entries, cluster.objects), file=StayFile(file))
    if day.node_means is None:
        assert day.simulated_s == 0
        return
    held = {"a-1": 0.0, "b-1": day.simulated_s}
    for stay in csv.DictReader(io.StringIO(file.getvalue())):
        if stay["node"]:
            cpu = plan[int(stay["pod"].removeprefix("default/p").removesuffix("-0"))][1]
            held[stay["node"]] += cpu * (float(stay["ended"] or day.simulated_s) - float(stay["bound"]))
    means = dict(zip(day.node_means.names, day.node_means.requested[0].tolist(), strict=True))
    attempt = 2 * sum(cpu for _, cpu, _, _ in plan) / day.simulated_s  # a pod may leave at either end of a millisecond
    expected = {name: 1000 * sums / day.simulated_s for name, sums in held.items()}
    assert means == pytest.approx(expected, rel=1e-9, abs=attempt + 1e-6)
    shares = {name: use.shares["cpu"] or 0.0 for name, use in day.mean_uses.zones.items()}
    assert 4 * shares["a"] + 6 * shares["b"] == pytest.approx(10 * day.mean_used["cpu"], abs=1e-9)


# ---- reasons


REJECTIONS = st.builds(
    Rejection,
    st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=3).map(tuple),
    st.just(Code.Unschedulable),
    st.sampled_from(["P", "Q"]),
)


@st.composite
def diagnoses(draw: st.DrawFn) -> Diagnosis:
    verdicts = draw(st.lists(st.tuples(REJECTIONS, st.integers(1, 5)), max_size=4))
    others = draw(st.integers(0, 3))
    absent = draw(st.one_of(st.none(), REJECTIONS))
    return Diagnosis(sum(nodes for _, nodes in verdicts) + others, verdicts, absent)


@given(st.lists(diagnoses(), max_size=6))
def test_reasons_are_counted_as_a_plain_loop_over_nodes_counts_them(found: list[Diagnosis]) -> None:
    counter = FailureCounter()
    for diagnosis in found:
        counter.add(diagnosis)
    by_loop: dict[tuple[str, str], list[int]] = {}
    for diagnosis in found:
        nodes = [verdict for verdict, number in diagnosis.verdicts for _ in range(number)]
        if diagnosis.absent is not None:
            nodes += [diagnosis.absent] * (diagnosis.node_count - len(nodes))
        for key in {(node.plugin, reason) for node in nodes for reason in node.reasons}:
            rejected = sum(node.plugin == key[0] and key[1] in node.reasons for node in nodes)
            by_loop.setdefault(key, []).append(rejected)
    expected = {FailureReason(*key, len(rejected), max(rejected)) for key, rejected in by_loop.items()}
    assert {*counter.reasons()} == expected and counter.attempts == len(found)
    ranks = [(-each.times, -each.nodes) for each in counter.reasons()]
    assert ranks == sorted(ranks)


def test_so_many_distinct_reasons_are_counted_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "REASONS", 2)
    counter = FailureCounter()
    for text in ("a", "b", "c", "a"):
        counter.add(Diagnosis(1, [(Rejection((f"pod {text} is in the way",), plugin="P"), 1)]))
    assert [(each.message, each.times) for each in counter.reasons()] == [
        ("pod a is in the way", 2),
        ("pod b is in the way", 1),
    ]
    assert counter.attempts == 4
