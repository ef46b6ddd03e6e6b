"""Comparisons of clusters with pod groups: how many were placed, and how long they waited. Without groups nothing is told."""

import json
from pathlib import Path
from typing import Any

import jsonschema
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

from mooring.answers.experiments.comparing import COLUMNS, compare
from mooring.answers.experiments.comparison import Comparison
from mooring.inputs.loaded_cluster import load

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/compare.v1.json").read_text())
STRATEGY = "profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.type"
BOTH = {STRATEGY: ["LeastAllocated", "MostAllocated"]}
NODES = [a_node(f"n{i}", "4", "8Gi") for i in range(3)]
SINGLES = [a_pod(f"single-{i}", "1", "2Gi", priority=10) for i in range(2)]
GANG = [a_pod_group("gang", 2), *members(2, "4")]
"""It needs two empty nodes: there are two only where the single pods share one."""


def compared(*objects: Written, gates: dict[str, bool] = GROUP_GATES, **more: Any) -> Comparison:
    answer = compare(load(list(objects), feature_gates=gates), vary=BOTH, processes=1, **more)
    jsonschema.validate(answer.to_dict(), SCHEMA)
    return answer


def groups_of(answer: Comparison) -> list[Any]:
    return [run["figures"].get("groups") for run in answer.to_dict()["runs"]]


def test_groups_are_placed_under_one_configuration_and_pending_under_another() -> None:
    answer = compared(*NODES, *SINGLES, *GANG)
    spread, packed = groups_of(answer)
    nothing = dict.fromkeys(("p50Seconds", "p95Seconds", "p99Seconds", "maxSeconds"))
    assert spread == {"placed": 0, "pending": 1, "waits": nothing}
    assert (packed["placed"], packed["pending"]) == (1, 0)
    assert packed["waits"]["p50Seconds"] == packed["waits"]["maxSeconds"] > 0
    data = answer.to_dict()
    assert data["runs"][1]["difference"]["groups.placed"] == 1
    assert data["runs"][1]["difference"]["groups.waits.p50Seconds"] is None
    assert data["best"]["groups.pending"]["runs"] == [answer.runs[1].plan.name]


def test_the_table_and_the_report_have_figures_of_groups() -> None:
    answer = compared(*NODES, *SINGLES, *GANG)
    runs = answer.tables()[0]
    rows = [dict(zip(runs.columns, row, strict=True)) for row in runs.rows]
    assert [(row["groups placed"], row["groups pending"]) for row in rows] == [("0", "1"), ("1 (+1)", "0 (-1)")]
    assert rows[0]["group wait p50"] == "-"
    titles = [plot.title for plot in answer.plots()]
    assert {"Pod groups without nodes", "Time until pod groups were placed"} <= {*titles}
    assert "Pod groups without nodes" in answer.to_html()


def test_without_groups_nothing_is_told_of_them() -> None:
    alone = [*NODES, *SINGLES, a_pod("p", "2")]
    for answer in (compared(*alone), compared(*NODES, *SINGLES, *GANG, gates={})):
        assert groups_of(answer) == [None, None]
        assert "group" not in json.dumps(answer.to_dict()).replace("default/gang", "").casefold()
        assert not any("group" in column for table in answer.tables() for column in table.columns)
        assert not any("group" in plot.title for plot in answer.plots())


def test_columns_of_results_files_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    first = compared(*NODES, *SINGLES, *GANG, results=file)
    assert file.read_text().splitlines()[0] == ",".join(COLUMNS)
    assert not any("group" in column for column in COLUMNS)
    again = compared(*NODES, *SINGLES, *GANG, results=file)
    assert groups_of(again) == groups_of(first), "the file keeps the figures of groups beside the columns"


def test_groups_that_arrive_over_a_day_wait() -> None:
    arriving = {"at": 0, "cpu": "4", "name": "gang", "run": "10s", "count": 2}
    arrivals = [{**arriving, "pod": {"spec": {"schedulingGroup": {"podGroupName": "gang"}}}}]
    running = a_pod("old", "1", "2Gi", node="n0")
    answer = compared(*NODES, running, a_pod_group("gang", 2), arrivals=arrivals)
    for groups in groups_of(answer):
        assert (groups["placed"], groups["pending"]) == (1, 0)
        assert groups["waits"]["maxSeconds"] is not None
