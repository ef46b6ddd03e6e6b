"""`to_frame`: tables of numbers, with units in the names of columns, that say what the JSON of the answer says."""

import re
from pathlib import Path
from typing import Any

import pandas
import pytest
from written import a_node, a_pod

import mooring
from mooring.answers.explain.explanation import GroupExplanation
from mooring.answers.form.answer import AnsweredCluster, ClusterAnswer, SeveralAnswers
from mooring.answers.recorded.agreement import Agreement
from mooring.answers.recorded.decision_difference import StepDifference
from mooring.answers.recorded.judging import BindingVerdict, JudgedBinding
from mooring.answers.recorded.pod_story import PodFacts, PodStory
from mooring.answers.recorded.replaying import ReplayAnswer, ReplayedRun
from mooring.sim.results import Moment
from mooring.state.replay.differences import ReplayTally

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ZONE = "topology.kubernetes.io/zone"
GI = 1024**3
DTYPES = {"string", "Int64", "float64", "boolean", "datetime64[ns, UTC]"}
GROUPS = {"GenericWorkload": True}
AMOUNT = re.compile(r"-?[0-9][0-9.,]*(m|[KMGT]i?|%|s|ms)?")
"""A number as a text, perhaps with a unit."""


@pytest.fixture(scope="module")
def crowded() -> Any:
    return mooring.load(EXAMPLES / "crowded.yaml")


def rows(frame: Any, *columns: str) -> list[dict[str, Any]]:
    """The rows as dictionaries, with None for what is missing."""
    chosen = frame[list(columns)] if columns else frame
    return [
        {name: None if pandas.isna(value) else value for name, value in row.items()}
        for row in chosen.to_dict("records")
    ]


def dtypes(frame: Any) -> dict[str, str]:
    return {name: str(kind) for name, kind in frame.dtypes.items()}


# ---- simulate


def a_small_cluster() -> list[Any]:
    nodes = [a_node("n-1", "4", "8Gi", zone="a"), a_node("n-2", "2", "8Gi")]
    nodes[1]["status"]["allocatable"]["nvidia.com/gpu"] = "2"
    return [*nodes, a_pod("web", "1500m", "2Gi"), a_pod("giant", "9", "1Gi")]


def test_a_simulation_has_a_row_for_each_pod() -> None:
    frame = mooring.simulate(a_small_cluster()).to_frame()
    assert rows(frame, "namespace", "pod", "result", "node", "feasible_nodes", "attempts") == [
        {
            "namespace": "default",
            "pod": "web",
            "result": "scheduled",
            "node": "n-1",
            "feasible_nodes": 2,
            "attempts": 1,
        },
        {
            "namespace": "default",
            "pod": "giant",
            "result": "unschedulable",
            "node": None,
            "feasible_nodes": None,
            "attempts": 1,
        },
    ]
    assert dtypes(frame)["node"] == "string" and dtypes(frame)["score"] == "Int64"
    assert dtypes(frame)["waited_seconds"] == "float64"
    assert frame["message"][1].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_the_nodes_of_a_simulation_have_amounts_as_numbers() -> None:
    frame = mooring.simulate(a_small_cluster()).to_frame("nodes")
    first, second = rows(frame)
    assert first["cpu_requested_milli"] == 1500 and first["cpu_allocatable_milli"] == 4000
    assert first["cpu_utilisation_percent"] == 37.5 and first["memory_utilisation_percent"] == 25.0
    assert first["memory_requested_bytes"] == 2 * GI and first["memory_allocatable_bytes"] == 8 * GI
    assert (first["zone"], first["new_pods"], second["zone"], second["pods"]) == ("a", 1, None, 0)
    assert second["nvidia.com/gpu_allocatable"] == 2 and first["nvidia.com/gpu_utilisation_percent"] is None
    assert dtypes(frame)["cpu_requested_milli"] == "Int64"
    assert dtypes(frame)["nvidia.com/gpu_utilisation_percent"] == "float64"


def test_the_frames_of_a_simulation_say_what_its_json_says(crowded: Any) -> None:
    answer = crowded.simulate()
    written = answer.to_dict()
    pods = rows(answer.to_frame("pods"))
    assert [(each["namespace"], each["pod"], each["result"], each["node"], each["message"]) for each in pods] == [
        (each["namespace"], each["name"], each["result"], each.get("node"), each.get("message") or None)
        for each in written["pods"]
    ]
    for row, node in zip(rows(answer.to_frame("nodes")), written["nodes"], strict=True):
        assert (row["node"], row["pods"], row["new_pods"]) == (node["name"], node["pods"], node["newPods"])
        assert row["memory_requested_bytes"] == node["requested"]["memory"]
        assert row["cpu_allocatable_milli"] == node["allocatable"]["cpu"]
    zones = rows(answer.to_frame("zones"), "zone", "nodes", "cordoned_nodes", "pods", "cpu_requested_milli")
    assert zones == [
        {
            "zone": zone["name"],
            "nodes": zone["nodes"],
            "cordoned_nodes": zone["cordonedNodes"],
            "pods": zone["pods"],
            "cpu_requested_milli": zone["resources"]["cpu"]["requested"],
        }
        for zone in written["utilisation"]["zones"]
    ]
    assert rows(answer.to_frame("limits")) == written["limits"]


def test_a_day_has_waits_by_priority_and_spans_of_time() -> None:
    answer = mooring.simulate(EXAMPLES / "cluster.yaml", arrivals=EXAMPLES / "arrivals.yaml")
    assert isinstance(answer, ClusterAnswer)
    written = answer.to_dict()
    names = {"p50": "p50_seconds", "p90": "p90_seconds", "p99": "p99_seconds", "max": "max_seconds"}
    assert rows(answer.to_frame()) == [
        {names.get(key, key): value for key, value in each.items()} for each in written["waits"]
    ]
    spans = rows(answer.to_frame("spans"))
    assert len(spans) == 60 and spans[0]["from_seconds"] == 0.0
    for row, span in zip(spans, written["spans"], strict=True):
        assert row["cpu_utilisation_percent"] == pytest.approx(100 * span["utilisation"]["cpu"], abs=1e-6)
        assert row["waiting_pods"] == span["pending"]
    assert {f"{each['namespace']}/{each['pod']}": each["node"] for each in rows(answer.to_frame("pods"))} == (
        written["placements"]
    )


# ---- the other questions


def test_a_difference_has_a_row_for_each_pod_and_columns_for_differences(crowded: Any) -> None:
    answer = crowded.what_if(("drain", f"{ZONE}=b"))
    frame = answer.to_frame()
    assert dtypes(frame) == dict.fromkeys(("namespace", "pod", "change", "from_node", "to_node", "reason"), "string")
    moved = [each for each in rows(frame) if each["change"] == "moved"]
    assert [
        {"namespace": e["namespace"], "name": e["pod"], "from": e["from_node"], "to": e["to_node"]} for e in moved
    ] == (answer.to_dict()["moved"])
    (total,) = rows(answer.to_frame("total"))
    # Zone b has two of the six schedulable nodes, which have 4 CPUs each except for one with 16.
    assert (total["nodes_before"], total["nodes_after"], total["nodes_difference"]) == (6, 4, -2)
    assert total["cpu_allocatable_milli_difference"] == -8000
    written = answer.to_dict()["utilisation"]["total"]
    shares = [
        100 * each["resources"]["cpu"]["requested"] / each["resources"]["cpu"]["allocatable"]
        for each in written.values()
    ]
    assert total["cpu_utilisation_percent_before"] == pytest.approx(shares[0], abs=1e-6)
    assert total["cpu_utilisation_percent_difference"] == pytest.approx(shares[1] - shares[0], abs=1e-6)
    workloads = answer.to_dict()["workloads"]
    assert rows(answer.to_frame("workloads")) == workloads
    assert [each["zone"] for each in rows(answer.to_frame("zones"))] == ["a", "b", "c"]


def test_capacity_has_a_row_for_each_node(crowded: Any) -> None:
    answer = crowded.capacity(EXAMPLES / "worker.yaml")
    frame = answer.to_frame()
    written = answer.to_dict()["perNode"]
    assert [each["fits"] for each in rows(frame)] == [each["pods"] for each in written]
    assert [each["memory_free_bytes"] for each in rows(frame)] == [each["free"]["memory"] for each in written]
    a2 = next(each for each in rows(frame) if each["node"] == "a-2")
    assert a2["fits"] == 3 and a2["cpu_free_milli"] == 0 and a2["memory_free_bytes"] == 7 * GI and a2["pods_free"] == 25
    assert (a2["zone"], a2["stopped_by_plugin"], a2["stopped_by"]) == ("a", "NodeResourcesFit", "Insufficient cpu")
    assert frame["fits"].sum() == 14
    (cpu,) = [each for each in rows(answer.to_frame("limits")) if each["resource"] == "cpu"]
    assert (cpu["nodes"], cpu["requested"], cpu["most_free"], cpu["best_node"]) == (5, 500, 0, "a-2")


def test_a_plan_has_costs_as_numbers_without_noise() -> None:
    crowded = mooring.load(EXAMPLES / "crowded.yaml")
    answer = crowded.plan(EXAMPLES / "offers.yaml")
    assert rows(answer.to_frame()) == [
        {"step": 1, "offer": "small", "nodes": 1, "price": 0.19, "cost": 0.19, "pods": 1},
        {"step": 1, "offer": "large", "nodes": 1, "price": 0.7, "cost": 0.7, "pods": 1},
    ]
    assert len(answer.to_frame("new_nodes")) == 2
    shrunk = crowded.plan(shrink=True)
    assert rows(shrunk.to_frame("remove"), "node", "moved_pods")[:2] == [
        {"node": "c-2", "moved_pods": 0},
        {"node": "a-1", "moved_pods": 2},
    ]
    moves = [{"pod": each["pod"], "to": each["to_node"]} for each in rows(shrunk.to_frame("moves"))]
    assert moves == [move for step in shrunk.to_dict()["remove"] for move in step["moved"]]


def test_a_comparison_has_a_row_for_each_run_and_differences_apart() -> None:
    cluster = mooring.load(EXAMPLES / "cluster.yaml")
    answer = cluster.compare(["default", EXAMPLES / "packed.yaml"], vary={"percentageOfNodesToScore": [100]})
    frame = answer.to_frame()
    assert list(frame["nodes_used"]) == [5, 4] and list(frame["nodes_used_difference"]) == [0, -1]
    assert list(frame["moved"]) == [0, 1] and list(frame["percentageOfNodesToScore"]) == [100, 100]
    assert dtypes(frame)["percentageOfNodesToScore"] == "int64"
    for row, run in zip(rows(frame), answer.to_dict()["runs"], strict=True):
        figures, difference = run["figures"], run["difference"]
        assert row["waits_p99_seconds"] == figures["waits"]["p99Seconds"]
        assert row["fragmentation_cpu_percent"] == pytest.approx(100 * figures["fragmentation"]["cpu"], abs=1e-6)
        assert row["fragmentation_cpu_percent_difference"] == pytest.approx(
            100 * difference["fragmentation.cpu"], abs=1e-6
        )
        assert row["utilisation_cpu_mean_percent"] == pytest.approx(
            100 * figures["utilisation"]["cpu"]["mean"], abs=1e-6
        )
    assert "cost" not in frame and dtypes(frame)["nodes_used"] == "Int64"
    assert rows(answer.to_frame("pods")) == [
        {"pod": "default/web-3", "run": run, "node": node}
        for run, node in answer.to_dict()["differences"][0]["nodes"].items()
    ]


def test_the_unit_of_a_cost_is_in_its_name() -> None:
    cluster = mooring.load([a_node("n-1"), a_node("n-2"), a_pod("web")])
    frame = cluster.compare(vary={"seed": [1, 2]}, prices={"n-1": 0.25, "n-2": 0.25}).to_frame()
    assert list(frame["cost_per_hour"]) == [0.25, 0.25] and dtypes(frame)["cost_per_hour"] == "float64"


def test_an_explanation_has_reasons_and_cures_or_scores(crowded: Any) -> None:
    pending = crowded.explain("shop/report-0")
    assert rows(pending.to_frame(), "plugin", "nodes", "resource", "wants", "largest_free", "node")[0] == {
        "plugin": "NodeResourcesFit",
        "nodes": 5,
        "resource": "cpu",
        "wants": 2000,
        "largest_free": 1500,
        "node": "a-2",
    }
    cures = rows(pending.to_frame("cures"), "cost", "change", "node")
    assert cures[0] == {"cost": 10.0, "change": "uncordon node c-2", "node": "c-2"}
    assert [each["change"] for each in cures] == [each["change"] for each in pending.to_dict()["cures"]]
    placed = crowded.explain("shop/cart-5d8f-2").to_frame()
    assert rows(placed, "node", "total", "NodeResourcesFit")[:2] == [
        {"node": "b-2", "total": 624, "NodeResourcesFit": 49},
        {"node": "a-1", "total": 600, "NodeResourcesFit": 25},
    ]


def test_explanations_of_workloads_and_groups_have_a_row_for_each_pod(crowded: Any) -> None:
    workload = crowded.explain("deployment/shop/index").to_frame()
    assert set(rows(workload, "pod")[0].values()) == {"shop/index-5d8f-1"} and workload["message"][0]
    training = mooring.load(EXAMPLES / "training.yaml", feature_gates=GROUPS)
    group = training.explain("podgroup/train")
    assert list(group.to_frame()["state"].value_counts().sort_index().items()) == [("rejected", 2), ("room", 6)]
    assert rows(group.to_frame("reasons"), "pods", "plugin", "resource", "wants")[0] == {
        "pods": 2,
        "plugin": "NodeResourcesFit",
        "resource": "nvidia.com/gpu",
        "wants": 1,
    }


# ---- recordings


def a_binding(**fields: Any) -> JudgedBinding:
    values = {"pod": "shop/a", "node": "n-1", "profile": "default-scheduler", "at_ns": 1_500_000_000, **fields}
    return JudgedBinding(**values)


def an_agreement() -> Agreement:
    lower = {"score": 10, "best": "n-2", "best_score": 30, "plugin": "ImageLocality"}
    differences = (("ImageLocality", 0, 20),)
    return Agreement(
        [
            a_binding(verdict=BindingVerdict.SAME, best="n-1"),
            a_binding(verdict=BindingVerdict.LOWER, differences=differences, **lower),
        ]
    )


def a_replay() -> ReplayAnswer:
    tally = ReplayTally(steps=7, first_ns=0, last_ns=2_500_000_000)
    difference = StepDifference("run-1", 3, 1_000_000_000, "another node", ["shop/a"], ["bind a"], ["bind b"])
    runs = [ReplayedRun("run-1", "1.0", tally), ReplayedRun("run-2", "1.0", ReplayTally())]
    return ReplayAnswer(runs, 0.1, difference, [difference], total=tally)


def test_an_agreement_has_a_row_for_each_binding() -> None:
    frame = an_agreement().to_frame()
    assert list(frame["verdict"]) == ["same", "lower"] and list(frame["behind"]) == [0, 20]
    assert frame["at"][0] == pandas.Timestamp("1970-01-01T00:00:01.5", tz="UTC")
    assert dtypes(frame)["at"] == "datetime64[ns, UTC]" and dtypes(frame)["may_be_sampled"] == "boolean"
    assert rows(an_agreement().to_frame("plugins")) == [
        {"plugin": "ImageLocality", "bindings": 1, "largest": 20, "mean": 20.0, "sum": 20}
    ]


def test_a_replay_has_a_row_for_each_run() -> None:
    frame = a_replay().to_frame()
    assert list(frame["steps"]) == [7, 0]
    assert frame["until"][0] == pandas.Timestamp("1970-01-01T00:00:02.5", tz="UTC") and pandas.isna(frame["from"][1])
    assert rows(a_replay().to_frame("differences"), "step", "recorded", "now") == [
        {"step": 3, "recorded": "bind a", "now": "bind b"}
    ]


# ---- every answer


def test_every_table_of_every_answer_has_dtypes_that_do_not_depend_on_rows(crowded: Any) -> None:
    answers = [
        mooring.simulate([a_node("n-1")]),
        mooring.simulate(a_small_cluster()),
        mooring.simulate([a_node("n-1")], arrivals=[{"at": 0, "cpu": "1"}]),
        crowded.what_if(("cordon", "a-1")),
        crowded.capacity(EXAMPLES / "worker.yaml", mix=[(EXAMPLES / "launch.yaml", 2)]),
        crowded.plan(),
        crowded.compare(vary={"seed": [1, 2]}),
        mooring.study(EXAMPLES / "studies" / "packing.yaml", only={"workload": ["pending"], "seed": [1]}),
        crowded.explain("shop/report-0"),
        crowded.explain("deployment/shop/web"),
        crowded.explain(),
        SeveralAnswers([AnsweredCluster("a", crowded.explain()), AnsweredCluster("b", None, "no answer")]),
        *(an_agreement(), Agreement(), a_replay()),
        PodStory("shop/a", PodFacts(), [Moment(0, 1, 1, "arrived")]),
    ]
    assert {type(each).__name__ for each in answers} >= answer_names() - {GroupExplanation.__name__}
    for answer in answers:
        for name in answer.data_tables():
            frame = answer.to_frame(name)
            assert {str(kind) for kind in frame.dtypes} <= DTYPES, (type(answer), name)
            assert len(set(frame.columns)) == len(frame.columns)
            columns = [column for column in frame.select_dtypes("string") if column != "version"]
            texts = [text for column in columns for text in frame[column].dropna()]
            assert [text for text in texts if AMOUNT.fullmatch(text)] == [], (type(answer), name)
    assert list(answers[0].to_frame().columns) == list(answers[1].to_frame().columns)
    assert dtypes(answers[0].to_frame()) == dtypes(answers[1].to_frame())


def answer_names() -> set[str]:
    found, left = set[str](), [ClusterAnswer]
    while left:
        subclasses = left.pop().__subclasses__()
        found |= {each.__name__ for each in subclasses if each.__module__.startswith("mooring.")}
        left += subclasses
    return found


def test_a_table_that_an_answer_does_not_have_is_an_error_that_names_the_tables(crowded: Any) -> None:
    with pytest.raises(ValueError, match=r"^to_frame: no table 'Nodes'; this answer has nodes, limits, victims$"):
        crowded.capacity(EXAMPLES / "worker.yaml").to_frame("Nodes")


def test_the_page_of_answers_lists_the_tables_of_every_answer() -> None:
    page = (ROOT / "docs" / "answers.md").read_text().partition("| answer | tables |")[2].partition("\n\n")[0]
    crowded = mooring.load(EXAMPLES / "crowded.yaml")
    training = mooring.load(EXAMPLES / "training.yaml", feature_gates=GROUPS)
    answers = {
        "`simulate`": mooring.simulate(a_small_cluster()),
        "`simulate` over time": mooring.simulate([a_node("n-1")], arrivals=[{"at": 0, "cpu": "1"}]),
        "`what_if`": crowded.what_if(("cordon", "a-1")),
        "`capacity`": crowded.capacity(EXAMPLES / "worker.yaml"),
        "`plan`": crowded.plan(),
        "`compare`": crowded.compare(vary={"seed": [1, 2]}),
        "`explain` of a pending pod": crowded.explain("shop/report-0"),
        "`explain` of a pod on a node": crowded.explain("shop/cart-5d8f-2"),
        "`explain` of a workload": crowded.explain("deployment/shop/web"),
        "`explain` of a pod group": training.explain("podgroup/train"),
    }
    for name, answer in answers.items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
        assert line.split("|")[2].strip() == ", ".join(f"`{table}`" for table in answer.data_tables())


# ---- floats of the JSON


def floats_in(written: Any) -> list[float]:
    if isinstance(written, dict):
        return [each for value in written.values() for each in floats_in(value)]
    if isinstance(written, list):
        return [each for value in written for each in floats_in(value)]
    return [written] if isinstance(written, float) else []


def test_json_has_no_noise_in_the_last_bits_of_its_numbers() -> None:
    crowded = mooring.load(EXAMPLES / "crowded.yaml")
    plan = crowded.plan(EXAMPLES / "offers.yaml")
    assert plan.cost == 0.8899999999999999 and plan.to_dict()["cost"] == 0.89
    prices = {"a-1": 0.1, "a-2": 0.1, "b-1": 0.2, "b-2": 0.2, "c-1": 0.7, "c-2": 0.7, "big-1": 1.1}
    answers = [
        plan,
        crowded.simulate(),
        mooring.simulate(EXAMPLES / "cluster.yaml", arrivals=EXAMPLES / "arrivals.yaml"),
        crowded.compare(["default", EXAMPLES / "packed.yaml"], prices=prices),
        a_replay(),
    ]
    for answer in answers:
        found = floats_in(answer.to_dict())
        assert found and all(each == round(each, 9) for each in found), type(answer)
