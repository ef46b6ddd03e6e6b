"""`mooring what-if`: options in their order, output, exit status."""

import json
import re
from pathlib import Path

import pytest
import yaml
from command import Ran, enabling, mooring, write, write_config

from what_if_building import ZONE, a_budget, a_deployment, a_running_pod, a_zone_node

NODES = [a_zone_node("a-1", "a"), a_zone_node("b-1", "b")]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write(tmp_path / "dump.json", *NODES, *a_deployment("web", ["a-1", "a-1"], cpu="1500m"))


def ask(dump: Path, *arguments: str | Path) -> Ran:
    return mooring("what-if", "--from", dump, *arguments)


def test_it_prints_the_difference(dump: Path) -> None:
    ran = ask(dump, "--drain", f"{ZONE}=a")
    assert ran.code == 0 and not ran.err
    assert ran.out == (
        "Everything fits.\n"
        "Pods: 2 moved.\n"
        "Schedulable nodes: 2 -> 1. Requested: cpu 37.5% -> 75.0%, memory 0.0% -> 0.0%.\n"
        "\n"
        "Pods\n"
        "POD             CHANGE   FROM   TO\n"
        "default/web-0   moved    a-1    b-1\n"
        "default/web-1   moved    a-1    b-1\n"
        "\n"
        "Workloads\n"
        "WORKLOAD                 MOVED\n"
        "Deployment default/web   2\n"
        "\n"
        "Utilisation\n"
        "GROUP   NODES    RESOURCE   BEFORE   AFTER\n"
        "all     2 -> 1   cpu        37.5%    75.0%\n"
        "all     2 -> 1   memory     0.0%     0.0%\n"
        "\n"
        "Utilisation by zone\n"
        "GROUP   NODES    RESOURCE   BEFORE   AFTER\n"
        "a       1 -> 0   cpu        75.0%    -\n"
        "a       1 -> 0   memory     0.0%     -\n"
        "b       1 -> 1   cpu        0.0%     75.0%\n"
        "b       1 -> 1   memory     0.0%     0.0%\n"
    )


def test_the_exit_status_tells_whether_all_fit(dump: Path, tmp_path: Path) -> None:
    assert ask(dump, "--scale", "Deployment/web=4").code == 0
    assert ask(dump, "--scale", "Deployment/web=6").code == 1
    strict = write(tmp_path / "budget.json", a_budget("strict", "web", minAvailable=2))
    blocked = ask(dump, "--apply", strict, "--drain", "a-1")
    assert blocked.code == 1 and "blocked by strict" in blocked.out
    assert "default/web-0   blocked   a-1    a-1   strict: needs 2 healthy pods and has 2" in blocked.out
    bare = write(tmp_path / "bare.json", *NODES, a_running_pod("bare", "a-1"))
    assert ask(bare, "--drain", "a-1").code == 1
    assert ask(bare, "--delete", "pod/bare").code == 0


def test_changes_are_made_in_the_order_of_the_command_line(dump: Path) -> None:
    """Different options in any order: the one that counts is the last about the node."""
    closed = ask(dump, "--uncordon", "b-1", "--cordon", "b-1", "--scale", "Deployment/web=3")
    opened = ask(dump, "--cordon", "b-1", "--uncordon=b-1", "--scale", "Deployment/web=3")
    assert (closed.code, opened.code) == (1, 0)
    answer = json.loads(ask(dump, "--taint", "a-1=x:NoSchedule", "--label", "a-1=y=z", "--taint=a-1=x-", "-ojson").out)
    assert answer["changes"] == ["taint a-1=x:NoSchedule", "label a-1=y=z", "taint a-1=x-"]


def test_json_and_yaml_have_the_same_data(dump: Path) -> None:
    arguments = ("--remove-nodes", "a-1", "--add-nodes", "2=b-1")
    as_json, as_yaml = (ask(dump, *arguments, "-o", form) for form in ("json", "yaml"))
    answer = json.loads(as_json.out)
    assert answer == yaml.safe_load(as_yaml.out) and answer["kind"] == "WhatIf" and answer["fits"]
    assert [(each["name"], each["from"]) for each in answer["moved"]] == [("web-0", "a-1"), ("web-1", "a-1")]


def test_a_configuration_is_a_change_and_there_is_another_before_all_changes(tmp_path: Path) -> None:
    dump = write(tmp_path / "dump.json", *NODES, *a_deployment("web", ["a-1"]))
    packed = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 100}]}}
    profile = enabling("NodeResourcesFit", packed, "score")
    profile["profiles"][0]["plugins"]["score"]["disabled"] = [{"name": "*"}]
    config = write_config(tmp_path / "packed.json", **profile)

    def node(*arguments: str | Path) -> str:
        (placed,) = json.loads(ask(dump, *arguments, "-o", "json").out)["placed"]
        return str(placed["node"])

    more = ("--scale", "Deployment/web=2")
    assert node(*more) == "b-1" and node(*more, "--switch-config", config) == "b-1"
    assert node("--switch-config", config, *more) == "a-1" and node("--config", config, *more) == "a-1"


def test_many_pods_to_which_the_same_happens_are_one_row(tmp_path: Path) -> None:
    dump = write(tmp_path / "dump.json", *NODES, *a_deployment("web", ["a-1"]))
    scaled = ("--scale", "Deployment/web=40")
    out = ask(dump, *scaled).out
    pods = out.partition("\nPods\n")[2].partition("\n\n")[0].splitlines()
    pending = [line for line in pods if " pending " in line]
    assert len(pending) == 1 and re.match(r"default/web-\S+ and \d+ more   pending ", pending[0])
    number = int(pending[0].split(" and ")[1].split()[0]) + 1
    assert number == len(json.loads(ask(dump, *scaled, "-o", "json").out)["pending"])
    wide = ask(dump, *scaled, "-o", "wide").out.partition("\nPods, one by one\n")[2].partition("\n\n")[0]
    assert sum(" pending " in line for line in wide.splitlines()) == number
    assert "Pods, one by one" not in ask(dump, "--scale", "Deployment/web=2", "-o", "wide").out


def test_plugins_of_files_decide_too(dump: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "closed.py"
    plugin.write_text(
        "from mooring.plugin import PlainPlugin\n"
        "class Closed(PlainPlugin):\n"
        "    name = 'Closed'\n"
        "    def filter(self, pod, node):\n"
        "        print('asked')\n"
        "        return 'closed'\n"
        "PLUGINS = (Closed,)\n"
    )
    ran = ask(dump, "--plugin", plugin, "--drain", "a-1", "-o", "json")
    assert ran.code == 1 and [each["name"] for each in json.loads(ran.out)["pending"]] == ["web-0", "web-1"]
    assert "1 closed" in json.loads(ran.out)["pending"][0]["message"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "no change: name at least one, such as --drain NODE; the changes are --drain, --cordon, "),
        (["--drain", "a-2"], 'drain a-2: no node "a-2" among 2 nodes; did you mean a-1?'),
        (["--scale", "Deployment/wob=3"], 'scale Deployment/wob=3: no Deployment "wob" in the cluster; did you mean '),
        (["--apply", "nowhere.yaml"], "nowhere.yaml: cannot be read: No such file or directory"),
        (["--switch-config", "nowhere.yaml"], "nowhere.yaml: cannot be read: No such file or directory"),
        (["--taint", "a-1=x"], 'taint a-1=x: "a-1=x" must be NODE|SELECTOR=key[=value]:Effect'),
        (["--label", "a-1=!=x"], "label a-1=!=x: key: Invalid value"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(dump: Path, arguments: list[str], complaint: str) -> None:
    ran = ask(dump, *arguments)
    assert ran.code == 2 and not ran.out
    assert len(ran.complaints) == 1 and ran.complaints[0].startswith(complaint), ran.err


def test_unknown_fields_of_what_is_applied_are_named_with_file_and_line(dump: Path, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers: [{name: c, image: i}]\n  nodSelector: {}\n"
    )
    ran = ask(dump, "--apply", file)
    assert ran.code == 2 and ran.err.startswith(f"{file}:6: Pod default/x: spec.nodSelector: ")
    warned = ask(dump, "--apply", file, "--validate", "warn")
    assert warned.code == 0 and "Note: " in warned.out and "spec.nodSelector: unknown field" in warned.out
    assert "Note: " not in ask(dump, "--apply", file, "--validate", "ignore").out


def test_without_a_cluster_it_says_where_one_can_come_from() -> None:
    ran = mooring("what-if", "--drain", "a-1")
    assert ran.code == 2 and "--from FILE" in ran.err
