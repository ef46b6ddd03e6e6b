"""`mooring simulate --generate` as users see it: a small day from the plan to the report and the file of results."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from command import mooring, write

from build import a_node
from mooring.inputs.generated_load import GeneratedLoad
from mooring.inputs.load_plan import read_load_plan

PLAN = """\
pods: 300
templates: 20
services: 0.2
gpu: 0.1
zonal: 0.1
spread: 0.1
nodes:
- {name: plain, count: 30, cpu: 32, memory: 128Gi}
- name: gpu
  count: 20
  cpu: 64
  memory: 512Gi
  resources: {nvidia.com/gpu: 8}
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "day.yaml").write_text(PLAN)
    return tmp_path / "day.yaml"


def test_the_summary_comes_first_and_the_split_of_the_time_last(plan: Path) -> None:
    ran = mooring("simulate", "--generate", plan)
    assert ran.code == 0
    assert ran.err == f"generated 300 pods of 20 templates, 50 nodes, from {plan}\n"
    summary, waits, _, zones, pools, nodes, parts = ran.out.rstrip().split("\n\n")
    assert summary.startswith("300 pods arrived: 300 placed on 50 nodes (")
    assert "\n24h00m simulated in " in summary
    assert parts.splitlines()[1].split("  ")[-1].strip() == "µs A POD", "a capital µ would look like an M"
    assert [line.split("  ")[0] for line in parts.splitlines()[2:]] == [
        "reading", "generating", "set-up", "arrivals", "decisions", "queue and binding", "ends", "backoffs", "utilisation",
        "report", parts.splitlines()[-1],
    ]  # fmt: skip
    assert parts.splitlines()[-1].startswith("peak memory ")
    assert waits.startswith("Time from arrival to binding\n")
    assert [len(each.splitlines()) for each in (zones, pools, nodes)] == [2 + 3, 2 + 2, 2 + 10]
    assert [line.split()[0] for line in pools.splitlines()[2:]] == ["gpu", "plain"]


def test_json_has_the_split_and_no_names_of_pods(plan: Path) -> None:
    answer = json.loads(mooring("simulate", "--generate", plan, "-o", "json").out)
    assert [answer[key] for key in ("planned", "arrived", "placed", "pending")] == [300, 300, 300, 0]
    assert answer["placements"] == {}
    assert sum(node["placed"] for node in answer["nodes"]) == 300
    assert answer["parts"]["decisions"] > 0
    assert answer["peakMemoryBytes"] > 1 << 20
    assert answer["simulatedSeconds"] == 24 * 3600


def test_the_same_day_twice_is_the_same(plan: Path, tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        mooring("simulate", "--generate", plan, "--results", tmp_path / name)
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()


def test_each_pod_has_one_line_of_results(plan: Path, tmp_path: Path) -> None:
    answer = json.loads(mooring("simulate", "--generate", plan, "--results", tmp_path / "r.csv", "-o", "json").out)
    with (tmp_path / "r.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert len({row["pod"] for row in rows}) == len(rows) == 300
    results = Counter(row["result"] for row in rows)
    assert results["finished"] == answer["finished"] and results["running"] == 300 - answer["finished"]
    assert all(float(row["arrived"]) < float(row["bound"]) for row in rows)
    assert all(row["node"] in {node["name"] for node in answer["nodes"]} for row in rows)
    assert all(float(row["bound"]) <= float(row["ended"]) for row in rows if row["result"] == "finished")


def test_results_tell_pods_that_wait_and_pods_that_were_preempted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "- {name: victim, cpu: 2, run: 1h}\n"
        "- {at: 5s, name: urgent, cpu: 2, priority: 9, run: 10s}\n"
        "- {name: giant, cpu: 9}\n"
    )
    cluster = write(tmp_path / "cluster.json", a_node("n", cpu="2"))
    mooring("simulate", cluster, "--arrivals", tmp_path / "a.yaml", "--results", tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text() == (
        "pod,priority,arrived,bound,ended,node,result\n"
        "default/victim-0,0,0.000,0.001,5.001,n,preempted\n"
        "default/urgent-0,9,5.000,5.003,15.003,n,finished\n"
        "default/giant-0,0,0.000,,,,pending\n"
    )


def test_a_load_can_come_to_a_given_cluster(tmp_path: Path) -> None:
    (tmp_path / "day.yaml").write_text("pods: 20\nrun: {longest: 1m}\nservices: 0\n")
    cluster = write(tmp_path / "cluster.json", a_node("n", cpu="200", memory="2Ti"))
    ran = mooring("simulate", cluster, "--generate", tmp_path / "day.yaml", "--until", "48h")
    assert ran.out.startswith("20 pods arrived: 20 placed on 1 node, 20 finished\n")


def test_a_story_of_a_generated_pod(plan: Path) -> None:
    load = GeneratedLoad(read_load_plan(str(plan)))
    pod = [*load][150].pod
    out = mooring("simulate", "--generate", plan, "--story", pod.key).out
    assert f"The story of {pod.key}\n" in out and " added to the active queue\n" in out
    ran = mooring("simulate", "--generate", plan, "--story", f"{pod.key}x")
    assert ran.complaints[-1].startswith(f"no pod '{pod.key}x' in the input, which has 300 pods; did you mean ")


def test_problems_of_a_plan_are_told_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("pods: 0\nnodes: []\n")
    ran = mooring("simulate", "--generate", path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.complaints == [f"{path}:1: pods: Invalid value: 0: must be from 1 to 10000000"]
    path.write_text("pods: 1\n")
    ran = mooring("simulate", "--generate", path)
    assert ran.complaints == [f"{path}: nodes: Required value: at least one pool of nodes, here or in another file"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--generate", "d", "--arrivals", "a"], "--generate cannot be used with --arrivals; choose one of the two"),
        (
            ["--generate", "d", "--explain", "p"],
            "--explain cannot be used with --generate; --story POD shows what happened to a pod",
        ),
        (["c", "--results", "r"], "--results needs --arrivals or --generate; without them the report names every pod"),
    ],
)
def test_options_that_cannot_be_used_together(arguments: list[str], complaint: str) -> None:
    ran = mooring("simulate", *arguments)
    assert (ran.code, ran.complaints) == (2, [complaint])


def test_a_live_cluster_is_needed_without_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    ran = mooring("simulate")
    assert ran.code == 2
    assert ran.complaints[0].startswith(
        "no cluster: name a dump, a snapshot or manifests with --from FILE, or a kubeconfig"
    )


def test_results_that_cannot_be_written_are_refused(plan: Path) -> None:
    ran = mooring("simulate", "--generate", plan, "--results", "/nowhere/r.csv")
    assert ran.code == 2
    assert ran.complaints[-1] == "/nowhere/r.csv: cannot be written: No such file or directory"
