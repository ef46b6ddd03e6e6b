"""`mooring config`: whether a file is taken, what it amounts to, and in which order plugins are asked."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import main
from mooring.framework import config as configuration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments])


def a_file(folder: Path, text: str) -> str:
    path = folder / "scheduler.yaml"
    path.write_text(HEAD + text)
    return str(path)


def test_a_good_file_is_ok(tmp_path: Path) -> None:
    done = ask("check", a_file(tmp_path, "parallelism: 4\n"))
    assert (done.exit_code, done.stdout.strip()[-4:]) == (0, ": ok")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parallelism: 0\n", "parallelism: Invalid value: 0"),
        ("paralelism: 4\n", 'unknown field "paralelism"'),
        ("profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n", "Nope"),
    ],
    ids=["a value", "a field", "a plugin"],
)
def test_a_bad_file_is_told_in_upstreams_words(tmp_path: Path, text: str, said: str) -> None:
    done = ask("check", a_file(tmp_path, text))
    assert done.exit_code == 2 and said in done.stderr


def test_kube_scheduler_refuses_the_section_that_only_mooring_has(tmp_path: Path) -> None:
    file = a_file(tmp_path, "tracing: {samplingRatePerMillion: 100}\n")
    done = ask("check", file)
    text = 'strict decoding error: unknown field "tracing": Mooring has this section, kube-scheduler has none'
    assert (done.exit_code, done.stderr) == (2, f"{file}: {text}\n")
    assert yaml.safe_load(ask("defaults", file).stdout)["tracing"] == {"samplingRatePerMillion": 100}


def test_a_file_that_is_not_there() -> None:
    done = ask("check", "/nowhere.yaml")
    assert done.exit_code == 2 and "/nowhere.yaml: cannot be read: No such file" in done.stderr


def test_defaults_can_be_read_back() -> None:
    """What is written is a configuration again, and the same one."""
    written = ask("defaults").stdout
    assert yaml.safe_load(written)["leaderElection"]["leaseDuration"] == "15s"
    assert configuration.load(written) == configuration.default()


def test_explain_shows_plugins_in_their_order(tmp_path: Path) -> None:
    heavy = "profiles: [{schedulerName: mine, plugins: {score: {enabled: [{name: ImageLocality, weight: 7}]}}}]\n"
    shown = ask("explain", a_file(tmp_path, heavy)).stdout
    assert shown.startswith("Profile mine")
    assert "ImageLocality*7" in shown
    lines = [line.split()[-1] for line in shown.splitlines()]
    assert lines.index("NodeName") < lines.index("NodeUnschedulable") < lines.index("TaintToleration")


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ("Nope=true", "unrecognized feature gate: Nope\n"),
        ("NodeDeclaredFeatures=false", "feature is locked to true"),
        ("PodGroupPreemptionPolicy=true", "depends on features that are disabled: [GenericWorkload]"),
        ("GangScheduling=true", "unrecognized feature gate: GangScheduling"),
        ("GenericWorkload", "missing bool value for GenericWorkload"),
        ("GenericWorkload=maybe", 'parsing "maybe": invalid syntax'),
    ],
)
def test_gates_that_cannot_be_had(gates: str, said: str) -> None:
    done = ask("check", "--feature-gates", gates)
    assert done.exit_code == 2 and said in done.stderr


def test_gates_of_a_stage_and_of_a_component() -> None:
    assert ask("check", "--feature-gates", "kube:AllAlpha=false,kube:WatchListClient=false").exit_code == 0
