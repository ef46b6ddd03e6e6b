"""Commands take names of objects as kubectl prints them: `kubectl get -o name`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main

CROWDED = str(Path(__file__).parents[2] / "examples" / "crowded.yaml")


def printed(*arguments: str) -> str:
    return CliRunner().invoke(main, [*arguments], catch_exceptions=False).output


@pytest.mark.parametrize("name", ["pod/report-0", "po/report-0", "pods/shop/report-0"])
def test_a_pod_may_be_named_with_its_kind(name: str) -> None:
    plain = printed("explain", "--from", CROWDED, "--no-cures", "shop/report-0")
    assert printed("explain", "--from", CROWDED, "--no-cures", name) == plain and "is pending" in plain
    assert "shop/report-0 fits no node" in printed("simulate", CROWDED, "--explain", name)
    assert "The story of shop/report-0" in printed("simulate", CROWDED, "--story", name)


@pytest.mark.parametrize("name", ["deploy/web", "deployments/web", "deployment.apps/web", "Deployment/shop/web"])
def test_a_workload_may_be_named_in_every_form_of_its_kind(name: str) -> None:
    assert "web: 6 pods on nodes, 0 pending" in printed("explain", "--from", CROWDED, name)
    assert ", 1 deleted." in printed("what-if", "--from", CROWDED, "--scale", f"{name}=5")


@pytest.mark.parametrize("name", ["node/c-2", "no/c-2", "nodes/c-2"])
def test_a_node_may_be_named_with_its_kind(name: str) -> None:
    for option in (["--uncordon", name], ["--taint", f"{name}=team=a:NoSchedule"], ["--add-nodes", f"1={name}"]):
        plain = [value.replace(name, "c-2") for value in option]
        told = printed("what-if", "--from", CROWDED, *option)
        assert told == printed("what-if", "--from", CROWDED, *plain) and "Schedulable nodes" in told


def test_another_kind_is_told_instead_of_a_pod_that_is_not_there() -> None:
    assert printed("explain", "--from", CROWDED, "node/a-1") == (
        "no pod 'node/a-1' among 13 pods; it names a Node: name a pod\n"
    )
    told = printed("simulate", CROWDED, "--explain", "deployment/web")
    assert "no pod 'deployment/web' in the input, which has 13 pods; it names a Deployment: name a pod" in told
