"""Every example runs and shows what it should; and so does the code in the documents."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import click
import pytest
import yaml
from click.testing import CliRunner

import build
import mooring
from mooring.api.kinds import KINDS, RESOURCES
from mooring.cli.commands.simulate import DUMP_COMMAND
from mooring.cli.main import main
from mooring.framework import config as configuration
from mooring.framework.profile.registry import load_file
from mooring.inputs.load_plan import read_load_plan
from mooring.plugins.agent_score import python_policy
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Placement
from mooring.scheduler.observer import Observer
from mooring.state.scheduler_assembly import all_plugins, build_runners

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
CLUSTER = "examples/cluster.yaml"
README = (ROOT / "README.md").read_text()
PLUGINS = (ROOT / "docs" / "plugins.md").read_text()
SIMULATION = (ROOT / "docs" / "simulation.md").read_text()
GANG = "examples/gang.yaml --plugin examples/gang.py --config examples/gang-config.yaml"


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def simulate(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["simulate", *arguments], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def blocks(document: str, language: str) -> list[str]:
    """The fenced code in a document."""
    return re.findall(rf"```{language}\n(.*?)```", document, re.DOTALL)


def indented(text: str) -> str:
    """As a document quotes what a command prints."""
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def enabling(name: str, args: Any = None) -> dict[str, Any]:
    profile: dict[str, Any] = {"plugins": {"multiPoint": {"enabled": [{"name": name}]}}}
    profile["pluginConfig"] = [{"name": name, "args": args}] if args else []
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**header, "profiles": [profile]}


# ---- examples/


@pytest.mark.parametrize(
    "path",
    sorted(path for path in EXAMPLES.rglob("*") if path.is_file() and "__pycache__" not in path.parts),
    ids=lambda path: "-".join(path.relative_to(EXAMPLES).parts),
)
def test_every_example_can_be_used(path: Path) -> None:
    """A manifest is simulated, a day run or generated, a configuration loaded, a plugin registered; all else is a script."""
    text = path.read_text()
    if path.suffix == ".yaml" and "kind: KubeSchedulerConfiguration" in text:
        assert configuration.load(text).profiles
    elif path.suffix == ".yaml" and "\narrivals:\n" in text:
        assert mooring.simulate(path.with_name("cluster.yaml"), arrivals=path).arrived
    elif path.suffix == ".yaml" and "\npods:" in text:
        assert read_load_plan(str(path)).nodes
    elif path.suffix == ".yaml" and "\noffers:\n" in text:
        assert mooring.load("examples/crowded.yaml").plan(path).cost
    elif path.suffix == ".yaml" and "--apply examples/" in text:
        assert mooring.load("examples/crowded.yaml").what_if(("apply", path)).placed
    elif path.suffix == ".yaml" and "For `mooring capacity" in text:
        assert mooring.load("examples/crowded.yaml").capacity(path, preempt="--preempt" in text).fits
    elif path.suffix == ".yaml" and path.parent == EXAMPLES:
        assert mooring.simulate(path).nodes
    elif path.suffix == ".yaml":
        assert all(item["kind"] for item in yaml.safe_load_all(text))
    elif path.suffix == ".py" and ("Plugin):" in text or (path.parent / "__init__.py").exists()):
        registry = all_plugins()
        before = len(registry)
        load_file(registry, str(path.parent if (path.parent / "__init__.py").exists() else path))
        assert len(registry) > before
    elif path.suffix == ".py" and "def act(observation" in text:
        assert callable(python_policy(f"{path}:act"))
    elif path.suffix == ".py":
        assert 'if __name__ == "__main__":' in text


def test_the_cluster_has_room_for_all_but_the_giant() -> None:
    report = mooring.simulate(CLUSTER)
    assert [result.pod.name for result in report.pending] == ["giant"]
    zones = [result.node[0] for result in report.placed if result.pod.name.startswith("web")]
    assert sorted(zones) == ["a", "a", "b", "b", "c", "c"], "web is spread over the zones"
    caches = [result.node for result in report.placed if result.pod.name.startswith("cache")]
    assert len(set(caches)) == 3, "no two caches on one node"
    assert {result.node for result in report.placed if result.pod.name.startswith("trainer")} == {"gpu-1"}


def test_packing_leaves_a_node_empty() -> None:
    usual, packed = mooring.simulate(CLUSTER), mooring.simulate(CLUSTER, "examples/packed.yaml")
    assert [node.name for node in usual.nodes if not node.pods] == []
    assert [node.name for node in packed.nodes if not node.pods] == ["a-2"]
    assert len(usual.placed) == len(packed.placed)


def test_the_plugin_limits_the_pods_of_an_application_on_a_node() -> None:
    out = simulate(CLUSTER, "--plugin", "examples/plugin.py", "--config", "examples/plugin.yaml")
    assert pending_of(out) == {
        "default/trainer-1": (
            "unschedulable   0/5 nodes are available: 1 node(s) had 1 pod(s) of the same app already, "
            "4 node(s) didn't match Pod's node affinity/selector. preemption: "
            "0/5 nodes are available: 1 No preemption victims found for incoming pod, "
            "4 Preemption is not helpful for scheduling."
        ),
        "default/web-4, default/web-5": ANY,
        "default/giant": ANY,
    }
    assert out.startswith("8 of 12 pending pods placed, 5 nodes\n")


def pending_of(printed: str) -> dict[str, str]:
    """The table of pending pods: which -> result and reason."""
    lines = printed[printed.index("Pending\n") :].partition("\n\n")[0].splitlines()[2:]
    rows = [re.split(r"   +", line, maxsplit=2) for line in lines]
    return {which: re.sub(r"   +", "   ", rest) for _, which, rest in rows}


@pytest.mark.parametrize("most", [0, -1, "two"])
def test_the_plugin_refuses_arguments_that_make_no_sense(tmp_path: Path, most: Any) -> None:
    written = yaml.safe_load((EXAMPLES / "plugin.yaml").read_text())
    written["profiles"][0]["pluginConfig"][0]["args"]["maxPerNode"] = most
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump(written))
    arguments = ["simulate", CLUSTER, "--plugin", "examples/plugin.py", "--config", str(tmp_path / "odd.yaml")]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"maxPerNode: Invalid value: {most!r}: must be a whole number from 1\n")


def test_the_notebook_script_answers_its_questions() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "examples/notebook.py"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    lines = ran.stdout.splitlines()
    assert lines[0] == "Where do the pods go?"
    assert "  0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 Insufficient cpu." in lines
    assert lines[-5:] == [
        "Would a bigger node help?",
        "  still pending: []",
        "How many nodes stay empty if we pack?",
        "  default: []",
        "  packed: ['a-2']",
    ]


def test_a_gang_starts_complete_or_not_at_all() -> None:
    out = simulate(*GANG.split())
    placed = out[out.index("Placed\n") :]
    assert [line.split()[1] for line in placed.splitlines()[2:]] == ["small-0", "small-1", "small-2"]
    assert "\nn-1    2/110   2     2/4 50% " in out and "\nn-2    1/110   1     1/4 25% " in out, "nobody keeps room"
    assert pending_of(out) == {
        "default/large-0": "unschedulable   0/1 nodes are available: 1 gang large is not complete: large-2 went back.",
        "default/large-1, default/large-2": (
            "unschedulable   0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Gang."
        ),
    }
    assert out.startswith("3 of 6 pending pods placed, 2 nodes\n")


def test_the_arrivals_wait_run_and_make_others_leave() -> None:
    report = mooring.simulate(CLUSTER, arrivals="examples/arrivals.yaml")
    waits = {entry.priority: entry for entry in report.waits}
    assert [*waits] == [1000, 100, 0]
    longest_s = waits[0].quantile_s(1)
    assert longest_s is not None and longest_s > 3600, "the rush takes longer than an hour to be served"
    assert (waits[1000].preempted, waits[1000].pending) == (0, 0)
    assert {eviction.preemptor.rstrip("0123456789") for eviction in report.preempted} == {"default/report-"}
    assert waits[0].pending == 1, "the giant"
    assert report.rescued == 0, "nobody was forgotten"


# ---- README.md


def test_the_readme_is_short_and_its_commands_exist() -> None:
    """Outputs are on the pages of docs/, whose tests compare them with what is printed."""
    assert len(README.splitlines()) <= 119
    assert re.findall(r"!\[", README) == ["!["], "one picture"
    lines = [line.partition("#")[0].strip() for line in README.splitlines() if line.startswith("    mooring ")]
    ran = [part.split()[1] for line in lines for part in line.split("&&")]
    assert len(ran) >= 12
    assert {*ran} <= {*main.list_commands(click.Context(main))}


def test_the_notebook_call_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = (block for block in blocks(README, "python") if block.startswith("import mooring"))
    exec(compile(code, "README.md", "exec"), {})
    assert "'trainer-1': 'gpu-1'" in capsys.readouterr().out


def test_the_plugin_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = (block for block in blocks(README, "python") if "PlainPlugin" in block)
    (tmp_path / "quiet.py").write_text(code)
    (tmp_path / "quiet.yaml").write_text(yaml.safe_dump(enabling("QuietNodes")))
    out = simulate(
        CLUSTER, "--plugin", f"{tmp_path}/quiet.py", "--config", f"{tmp_path}/quiet.yaml", "--explain", "web-3"
    )
    assert "QuietNodes*1" in out


# ---- docs/plugins.md


def test_the_documented_plugin_is_the_example() -> None:
    assert blocks(PLUGINS, "python")[0] == (EXAMPLES / "plugin.py").read_text()
    comment, _, config = (EXAMPLES / "plugin.yaml").read_text().partition("\n")
    assert comment.startswith("#")
    assert blocks(PLUGINS, "yaml")[0] == config


def test_the_documented_explanation_is_what_is_printed() -> None:
    arguments = "--plugin examples/plugin.py --config examples/plugin.yaml --explain web-4"
    printed = simulate(CLUSTER, *arguments.split())
    table = printed[printed.index("Rejected\n") :].partition("\n\n")[0]
    assert f"$ mooring simulate {CLUSTER} {arguments}\n" in PLUGINS
    assert indented(table) in PLUGINS


RACKS = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"


def test_the_documented_placement_plugin_is_the_example_and_prints_what_the_page_shows() -> None:
    assert (EXAMPLES / "gang" / "idle_racks.py").read_text() in blocks(PLUGINS, "python")
    plugin = "--plugin examples/gang/idle_racks.py --config examples/gang/idle-racks.yaml"
    arguments = f"examples/gang/racks.yaml {plugin} --feature-gates {RACKS}"
    printed = simulate(*arguments.split())
    first, placed = printed.splitlines()[0], printed[printed.index("Placed\n") :]
    assert f"    $ mooring simulate {arguments}\n    {first}\n    ...\n{indented(placed)}" in PLUGINS


def test_without_the_plugin_the_gang_takes_the_rack_that_it_fills_up() -> None:
    def racks(*gates: str) -> set[str]:
        printed = simulate("examples/gang/racks.yaml", "--feature-gates", ",".join(gates))
        placed = printed[printed.index("Placed\n") :].splitlines()[2:]
        return {line.split()[-1].partition("-")[0] for line in placed}

    assert racks(RACKS) == {"r1"}
    assert racks("GenericWorkload=true") == {"r1", "r2"}


def documented_plugins() -> Iterator[Any]:
    for code in (block for block in blocks(PLUGINS, "python") if "def score(" in block):
        for name in re.findall(r'^    name = "(\w+)"', code, re.MULTILINE):
            yield pytest.param(code, name, id=name)


@pytest.mark.parametrize(("code", "name"), [*documented_plugins()])
def test_a_documented_plugin_takes_part(tmp_path: Path, code: str, name: str) -> None:
    (tmp_path / "mine.py").write_text(code)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(enabling(name, {"zone": "b"})))
    out = simulate(
        CLUSTER, "--plugin", f"{tmp_path}/mine.py", "--config", f"{tmp_path}/mine.yaml", "--explain", "web-0"
    )
    assert f"{name}*1" in out


def test_the_documented_plugin_over_columns_prefers_its_zone_and_spares_slots() -> None:
    code = next(block for block in blocks(PLUGINS, "python") if "class ZoneFirst" in block)
    scope: dict[str, Any] = {"__name__": "zone_first"}
    exec(compile(code, "plugins.md", "exec"), scope)
    nodes = [a_node(name, zone, pods=8) for name, zone in (("n-1", "a"), ("n-2", "b"))]
    pods = [a_pod(f"p-{i}") for i in range(8)]
    report = mooring.simulate([*nodes, *pods], enabling("ZoneFirst", {"zone": "b"}), plugins=[scope["ZoneFirst"]])
    assert [result.node for result in report.placed] == ["n-2"] * 3 + ["n-1"] * 3
    assert report.pending[0].message.startswith("0/2 nodes are available: 2 node(s) had no pod slots to spare. ")


def test_the_documented_permit_plugin_lets_pods_start_after_another() -> None:
    code = next(block for block in blocks(PLUGINS, "python") if "class StartAfter" in block)
    scope: dict[str, Any] = {"__name__": "start_after"}
    exec(compile(code, "plugins.md", "exec"), scope)
    pods = [a_pod("web", {"start-after": "db"}), a_pod("early", {"start-after": "queue"}), a_pod("db", {"app": "db"})]
    config, plugins = enabling("StartAfter"), [scope["StartAfter"]]
    report = mooring.simulate([a_node("n", "a", 9), *pods], config, plugins=plugins, story="web")
    assert [result.pod.name for result in report.placed] == ["web", "db"]
    assert report.story is not None
    assert [str(moment) for moment in report.story.moments][-2:] == [
        "00:00:00.001 attempt 1 (cycle 1): has room on n and waits for StartAfter (at most 60 s)",
        "00:00:00.003 attempt 1 (cycle 1): is bound to n",
    ]
    assert report.pending[0].message == (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin StartAfter."
    )


def test_the_documented_metric_counts_and_is_shown_as_the_page_shows_it() -> None:
    code = next(block for block in blocks(PLUGINS, "python") if "handle.metrics.declare" in block)
    scope: dict[str, Any] = {"__name__": "quiet_nodes"}
    exec(compile(code, "plugins.md", "exec"), scope)
    observer, registry = Observer(), all_plugins()
    registry.register(scope["QuietNodes"])
    runners = build_runners(configuration.from_object(enabling("QuietNodes")), registry, observer=observer)
    full = [build.a_pod(name, nodeName="n") for name in ("a", "b")]
    cluster = build.a_cluster(build.a_node("n"), build.a_node("m"), *full)
    decision = decide(runners["default-scheduler"], build.a_pod("c", namespace="shop"), cluster, DecideOptions())
    assert isinstance(decision, Placement) and decision.node == "m"
    shown = [line for line in observer.registry.text().splitlines() if "quiet_nodes" in line]
    assert indented("\n".join(shown)) in PLUGINS and len(shown) == 3


def test_the_documented_test_passes() -> None:
    (code,) = (block for block in blocks(PLUGINS, "python") if "def test_" in block)
    scope: dict[str, Any] = {"__name__": "limit_per_node"}
    exec(compile((EXAMPLES / "plugin.py").read_text(), "plugin.py", "exec"), scope)
    tested: dict[str, Any] = {"LimitPerNode": scope["LimitPerNode"]}
    exec(
        compile(code.replace("from my_package.limit_per_node import LimitPerNode\n", ""), "plugins.md", "exec"), tested
    )
    (name,) = (name for name in tested if name.startswith("test_"))
    tested[name]()


# ---- docs/simulation.md


def documented_commands() -> Iterator[str]:
    for line in SIMULATION.splitlines():
        if line.startswith("    $ mooring simulate "):
            yield line.removeprefix("    $ mooring simulate ")


@pytest.mark.parametrize("command", [*documented_commands()])
def test_the_documented_simulation_is_what_is_printed(command: str) -> None:
    printed = re.sub(r"simulated in [0-9.]+ s", "simulated in 0.3 s", simulate(*command.split()))
    assert f"    $ mooring simulate {command}\n{indented(printed)}" in SIMULATION


@pytest.mark.slow
def test_the_documented_calls_run(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(SIMULATION, "python")
    exec(compile(code, "simulation.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0] == "{1000: 0.0351, 100: 0.002, 0: 5419.8095}"


@pytest.mark.parametrize("number", [0, 1])
def test_the_documented_arrivals_can_be_read(tmp_path: Path, number: int) -> None:
    text = [*blocks(SIMULATION, "yaml"), *blocks(SIMULATION, "csv")][number]
    path = tmp_path / ("day.yaml", "day.csv")[number]
    path.write_text(text)
    assert mooring.simulate(CLUSTER, arrivals=path, until="1h").arrived


# ---- Objects


def a_node(name: str, zone: str, pods: int) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": zone}
    status = {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": str(pods)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def a_pod(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "web"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def test_devices_that_nodes_name_are_given_to_pods_that_claim_them() -> None:
    out = simulate("examples/devices/cluster.yaml", "examples/devices/training.yaml")
    assert out.startswith("8 of 8 pending pods placed, 4 nodes\n")
    placed = [line.split()[2] for line in out.splitlines() if line.startswith("default ")]
    assert {node: placed.count(node) for node in placed} == {f"gpu-{i}": 2 for i in range(1, 5)}
    assert "2 of 8 pending pods placed" in simulate("examples/devices/node.yaml", "examples/devices/training.yaml")


def test_the_dump_command_has_all_kinds_that_decisions_read() -> None:
    assert indented("\n".join(DUMP_COMMAND)) in SIMULATION
    named = {kind for line in DUMP_COMMAND[:-1] for kind in line.partition("=")[2].removeprefix("$kinds,").split(",")}
    plurals = {resource.kind: resource.plural for resource in RESOURCES.values()}
    behind_gates = {
        "PodGroup",
        "CompositePodGroup",
        "DeviceTaintRule",
    }  # kubectl refuses the command where a server does not have a kind
    assert named == {plurals[kind] for kind in KINDS if kind not in behind_gates}
