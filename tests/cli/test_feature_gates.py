"""`--feature-gates` of the commands that schedule: what it changes, and what it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import main

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "gang" / "podgroup.yaml"
GATES = "--feature-gates=GenericWorkload=true"


def simulate(tmp_path: Path, cpu: str, *options: str) -> dict[str, str]:
    """Which pod of the example came to what, on one node."""
    nodes = tmp_path / "node.json"
    status = {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}}
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}))
    result = run("simulate", str(nodes), str(EXAMPLE), "-o", "json", *options)
    assert result.exit_code == 0, result.output
    return {pod["name"]: pod["result"] for pod in json.loads(result.stdout)["pods"]}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_a_gang_is_simulated_as_one(tmp_path: Path) -> None:
    assert set(simulate(tmp_path, "12", GATES).values()) == {"scheduled"}
    assert sorted(simulate(tmp_path, "11", GATES).values()) == ["unschedulable"] * 4
    assert sorted(simulate(tmp_path, "11").values()) == ["scheduled"] * 3 + ["unschedulable"]


@pytest.mark.parametrize("command", [("simulate", str(EXAMPLE)), ("up", "--exec", "true")], ids=["simulate", "up"])
def test_gates_that_cannot_be_had_are_refused(command: tuple[str, ...]) -> None:
    result = run(*command, "--feature-gates", "PodGroupPreemptionPolicy=true")
    assert result.exit_code == 2
    assert (
        "PodGroupPreemptionPolicy is enabled, but depends on features that are disabled: [GenericWorkload]"
        in result.stderr
    )


@pytest.mark.parametrize("gates", ["AllAlpha=true,GenericWorkload=true", "ClientsPreferCBOR=true"])
def test_gates_for_what_is_not_there_yet_are_accepted_and_told(gates: str) -> None:
    checked = run("config", "check", "--feature-gates", gates)
    assert checked.exit_code == 0, checked.output
    assert "no effect in Mooring yet: " in checked.stdout and "ClientsPreferCBOR=true" in checked.stdout
    simulated = run("simulate", str(EXAMPLE), "-o", "json", "--feature-gates", gates)
    assert simulated.exit_code == 0, simulated.output
    assert "Feature gates have no effect in Mooring yet: " in simulated.stderr


LEVELS = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"level-{level}"}}
    | {"spec": {"taints": [{"key": "level", "value": level, "effect": "NoSchedule"}]}}
    | {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
    for level in ("3", "7")
]
COMPARING = {"tolerations": [{"key": "level", "operator": "Gt", "value": "5"}], "containers": [{"name": "c"}]}
COMPARISON_GATE = "--feature-gates=TaintTolerationComparisonOperators=true"


def levels(tmp_path: Path, kind: str) -> str:
    """A file with two nodes and pods that tolerate high levels only."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": COMPARING}
    specs = {
        "Pod": {"apiVersion": "v1", "spec": COMPARING},
        "DaemonSet": {"apiVersion": "apps/v1", "spec": {"selector": {"matchLabels": labels}, "template": template}},
    }
    file = tmp_path / "levels.json"
    written = {"kind": kind, "metadata": {"name": "web"}, **specs[kind]}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*LEVELS, written]}))
    return str(file)


@pytest.mark.parametrize("kind", ["Pod", "DaemonSet"])
def test_manifests_may_compare_numbers_with_the_gate_only(tmp_path: Path, kind: str) -> None:
    file = levels(tmp_path, kind)
    allowed = run("simulate", file, "-o", "json", COMPARISON_GATE)
    assert allowed.exit_code == 0, allowed.output
    assert [pod["node"] for pod in json.loads(allowed.stdout)["pods"]] == ["level-7"]
    refused = run("simulate", file)
    assert refused.exit_code == 2
    fault = 'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: Equal, Exists, Lt, Gt'
    assert fault in refused.stderr


def test_the_flag_may_be_repeated() -> None:
    checked = run(
        "config",
        "check",
        "--feature-gates",
        "GenericWorkload=true",
        "--feature-gates=TopologyAwareWorkloadScheduling=true",
    )
    assert checked.stdout.splitlines() == [
        "the default configuration: ok",
        "Feature gates are in effect: GenericWorkload=true, TopologyAwareWorkloadScheduling=true",
    ]
