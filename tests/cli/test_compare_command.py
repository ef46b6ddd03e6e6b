"""`mooring compare` as users see it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from command import mooring, write, write_config

from build import a_node, a_pod

ROOT = Path(__file__).parent.parent.parent
STRATEGY = "profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.type"
STRATEGIES = f"{STRATEGY}=LeastAllocated,MostAllocated"
PLAN = """\
pods: 40
over: 1h
templates: 5
nodes: [{name: g, count: 4}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    nodes = [a_node("large", cpu="8"), a_node("small", cpu="2")]
    return write(
        tmp_path / "cluster.json", *nodes, a_pod("web", cpu="1", image="web", schedulerName="default-scheduler")
    )


def test_two_configurations_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = mooring("compare", "--from", "examples/cluster.yaml", "default", "examples/packed.yaml")
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == """\
2 runs of 12 pods: 1 pod has different nodes.
Best in cpu fragmented (64.8%), memory fragmented (70.0%), nodes used (4): packed.

Runs, with the difference to the first
RUN       PLACED   PENDING   ATTEMPTS   WAIT P50   WAIT P99   CPU MEAN   MEMORY MEAN   \
CPU FRAGMENTED   MEMORY FRAGMENTED   NODES USED   MOVED
default   11       1         12         6ms        11ms       36.7%      21.9%         \
65.4%            70.3%               5            0
packed    11       1         12         6ms        11ms       36.7%      21.9%         \
64.8% (-0.6)     70.0% (-0.3)        4 (-1)       1

Pods with different nodes
POD             DEFAULT   PACKED
default/web-3   a-2       a-1
"""
    )


def test_json_and_yaml_have_the_same_content(cluster: Path) -> None:
    command = ("compare", "--from", cluster, "--vary", STRATEGIES)
    answer = json.loads(mooring(*command, "-o", "json").out)
    assert answer == yaml.safe_load(mooring(*command, "-o", "yaml").out)
    assert [run["vary"] for run in answer["runs"]] == [{STRATEGY: "LeastAllocated"}, {STRATEGY: "MostAllocated"}]
    one, other = (run["name"] for run in answer["runs"])
    assert answer["differences"] == [{"pod": "default/web", "nodes": {one: "large", other: "small"}}]


def test_the_exit_status_says_whether_placements_differ_if_asked(cluster: Path) -> None:
    command = ("compare", "--from", cluster)
    assert mooring(*command, "--vary", STRATEGIES).code == 0
    assert mooring(*command, "--vary", STRATEGIES, "--exit-code").code == 1
    assert mooring(*command, "default", "default", "--exit-code").code == 0


def test_the_configuration_of_the_cluster_counts_if_none_is_named(cluster: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "own.yaml", percentageOfNodesToScore=7)
    ran = mooring("compare", "--from", cluster, "--config", config, "--vary", "seed=1,2", "-o", "json")
    assert [run["name"] for run in json.loads(ran.out)["runs"]] == ["cluster seed=1", "cluster seed=2"]
    both = mooring("compare", "--from", cluster, "--config", config, "default", "cluster", config, "-o", "json")
    default, own, same = json.loads(both.out)["runs"]
    assert (default["name"], own["name"], same["name"]) == ("default", "cluster", "own")
    assert default["configDigest"] != own["configDigest"] == same["configDigest"]


def test_plugins_are_enabled_in_every_configuration(cluster: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "only.py"
    plugin.write_text(
        "from mooring.plugin import PlainPlugin\n"
        "class OnlySmall(PlainPlugin):\n"
        "    name = 'OnlySmall'\n"
        "    def filter(self, pod, node):\n"
        "        return None if node.name == 'small' else 'too large'\n"
    )
    other = write_config(tmp_path / "other.yaml", parallelism=3)
    ran = mooring("compare", "--from", cluster, "--plugin", plugin, "default", other, "-o", "json")
    answer = json.loads(ran.out)
    assert [run["figures"]["placed"] for run in answer["runs"]] == [1, 1]
    assert answer["differences"] == []


def test_a_generated_day_needs_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "day.yaml").write_text(PLAN)
    ran = mooring("compare", "--generate", tmp_path / "day.yaml", "--vary", "load=0.5,1", "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    answer = json.loads(ran.out)
    assert [run["figures"]["pods"] for run in answer["runs"]] == [20, 40]
    assert all(run["figures"]["nodeHours"] > 0 for run in answer["runs"])


def test_values_may_be_lists_and_objects(cluster: Path) -> None:
    path = "profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.resources"
    values = "[{name: cpu, weight: 1}],[{name: memory, weight: 1}]"
    ran = mooring("compare", "--from", cluster, "--vary", f"{path}={values}", "-o", "json")
    assert [run["vary"][path][0]["name"] for run in json.loads(ran.out)["runs"]] == ["cpu", "memory"]


def test_results_are_kept(cluster: Path, tmp_path: Path) -> None:
    command = ("compare", "--from", cluster, "--vary", "seed=1,2,3", "--results", tmp_path / "r.csv", "-o", "json")
    first = mooring(*command)
    with (tmp_path / "r.csv").open() as file:
        assert [row["seed"] for row in csv.DictReader(file)] == ["1", "2", "3"]
    written = (tmp_path / "r.csv").read_bytes()
    again = mooring(*command)
    assert (again.out, again.err) == (first.out, f"note: 3 of 3 runs are in {tmp_path / 'r.csv'} already\n")
    assert (tmp_path / "r.csv").read_bytes() == written


WRONG: dict[str, tuple[list[str], str]] = {
    "one run": (["default"], "nothing to compare: name a second configuration, or vary something (--vary seed=1,2,3)"),
    "no values": (["--vary", "seed"], "--vary seed: no values; write PATH=VALUE,..."),
    "values that are no YAML": (
        ["--vary", "seed=[1"],
        "--vary seed=[1: the values are no YAML; write them as 1,2 or as [{name: cpu}],[{name: memory}]",
    ),
    "values that refer to themselves": (
        ["--vary", "seed=&a [*a]"],
        "--vary seed=&a [*a]: the values are no YAML; write them as 1,2 or as [{name: cpu}],[{name: memory}]",
    ),
    "a path twice": (
        ["--vary", "seed=1", "--vary", "seed=2"],
        "--vary seed: given twice; write all values at once: seed=1,2,3",
    ),
    "an unknown path": (
        ["--vary", "percentageOfNodeToScore=1,2"],
        "percentageOfNodeToScore: unknown field 'percentageOfNodeToScore'; did you mean percentageOfNodesToScore?",
    ),
    "a value out of range": (
        ["--vary", "percentageOfNodesToScore=1,101"],
        "cluster percentageOfNodesToScore=101: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ),
    "a file that is not there": (
        ["default", "/nowhere.yaml"],
        "/nowhere.yaml: cannot be read: No such file or directory",
    ),
    "a load without arrivals": (
        ["--vary", "load=1,2"],
        "load: scales arrivals, and there are none: give arrivals or a plan to generate them",
    ),
    "both kinds of arrivals": (
        ["--arrivals", "a", "--generate", "b"],
        "--generate cannot be used with --arrivals; choose one of the two",
    ),
    "arrivals that are not there": (
        ["default", "default", "--arrivals", "/nowhere.yaml"],
        "/nowhere.yaml: cannot be read: No such file or directory",
    ),
    "a plan that is not there": (
        ["default", "default", "--generate", "/nowhere.yaml"],
        "/nowhere.yaml: cannot be read: No such file or directory",
    ),
    "prices that are not there": (
        ["default", "default", "--prices", "/nowhere.yaml"],
        "/nowhere.yaml: cannot be read: No such file or directory",
    ),
    "results in no folder": (
        ["default", "default", "--results", "/nowhere/r.csv"],
        "/nowhere/r.csv: cannot be written: No such file or directory",
    ),
    "no duration": (
        ["default", "default", "--until", "soon"],
        "until: Invalid value: 'soon': must be seconds, or a duration such as 90s, 15m, 24h",
    ),
}


@pytest.mark.parametrize(("arguments", "expected"), WRONG.values(), ids=WRONG.keys())
def test_wrong_input_is_one_line_and_status_2(arguments: list[str], expected: str, cluster: Path) -> None:
    ran = mooring("compare", "--from", cluster, *arguments)
    assert (ran.code, ran.out, ran.complaints) == (2, "", [expected])


def test_dask_that_is_not_installed(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    ran = mooring("compare", "--from", cluster, "default", "default", "--dask", "tcp://127.0.0.1:1")
    assert (ran.code, ran.complaints) == (2, ["Dask is not installed: pip install 'mooring[dask]'"])


@pytest.mark.slow
def test_what_plugins_print_in_worker_processes_goes_to_standard_error(cluster: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "loud.py"
    plugin.write_text(
        "from mooring.plugin import PlainPlugin\n"
        "print('loaded')\n"
        "class Loud(PlainPlugin):\n"
        "    name = 'Loud'\n"
        "    def filter(self, pod, node):\n"
        "        print('asked about', node.name)\n"
    )
    arguments = ["compare", "--from", str(cluster), "--plugin", str(plugin), "--vary", "seed=1,2", "--processes", "2"]
    command = [sys.executable, "-m", "mooring.cli.main", *arguments, "-o", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(json.loads(ran.stdout)["runs"]) == 2
    assert "asked about small" in ran.stderr


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "day.yaml").write_text(PLAN.replace("40", "150"))
    command = ["compare", "--generate", str(tmp_path / "day.yaml"), "--vary", "seed=1,2,3,4,5,6,7,8", "-o", "json"]
    results = tmp_path / "r.csv"
    on_two = [*command, "--processes", "2", "--results", str(results)]
    process = subprocess.Popen([sys.executable, "-m", "mooring.cli.main", *on_two], stdout=subprocess.DEVNULL)
    end_s = time.monotonic() + 120
    while time.monotonic() < end_s and (not results.exists() or results.read_bytes().count(b"\n") < 3):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    rows = results.read_bytes().splitlines(keepends=True)
    assert 3 <= len(rows) <= 9
    results.write_bytes(b"".join(rows[:2]) + rows[2][:50])
    ran = mooring(*on_two)
    assert ran.out == mooring(*command, "--processes", "1").out
    assert results.read_bytes().count(b"\n") == 9


def test_simulate_what_if_and_compare_tell_the_same_share() -> None:
    """Six of seven nodes are schedulable and have 36 CPUs, of which 25 are requested; the cordoned one has 4 more."""
    crowded = str(ROOT / "examples" / "crowded.yaml")
    said = {
        "simulate": mooring("simulate", crowded),
        "what-if": mooring("what-if", "--from", crowded, "--label", "a-1=x=y"),
        "compare": mooring("compare", "default", "default", "--from", crowded),
    }
    assert [name for name, ran in said.items() if "69.4%" not in ran.out] == []
    assert pytest.approx(0.694, abs=0.0005) == 25 / 36
