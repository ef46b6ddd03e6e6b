"""`mooring capacity` as users see it: what it prints, its exit codes, and refusals in one line."""

import json
from pathlib import Path

import pytest
import yaml
from command import mooring, write

from build import a_node, a_pod

TEXT = """\
Pod default/web: 4 more pods fit on 2 of 2 nodes.
What stops the next one: 2 nodes: Insufficient cpu (wants 2, largest free 1 on large).

Nodes
NODE    PODS   CPU LEFT   PODS LEFT   STOPS THE NEXT
large   3      1          106         Insufficient cpu
small   1      1          109         Insufficient cpu
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    old = a_pod("old", cpu="1", image="i", nodeName="large")
    return write(
        tmp_path / "cluster.json", a_node("large", cpu="8"), a_node("small", cpu="3"), old, a_pod("wait", image="i")
    )


@pytest.fixture
def web(tmp_path: Path) -> Path:
    return write(tmp_path / "web.json", a_pod("web", cpu="2", image="i"))


def test_the_answer_is_text_with_the_outcome_first(cluster: Path, web: Path) -> None:
    ran = mooring("capacity", web, "--from", cluster)
    assert (ran.code, ran.out) == (0, TEXT)
    assert ran.complaints == ["note: 1 pending pod of the cluster left out"]


def test_preempt_counts_pods_that_evict_others(cluster: Path, tmp_path: Path) -> None:
    urgent = write(tmp_path / "urgent.json", a_pod("urgent", cpu="8", image="i", priority=9))
    without = mooring("capacity", urgent, "--from", cluster)
    assert (without.code, without.out.splitlines()[1]) == (
        1,
        "Preemption is not counted, and 1 pod on nodes has a lower priority; --preempt (in Python preempt=True) counts pods "
        "that fit by evicting such pods.",
    )
    ran = mooring("capacity", urgent, "--from", cluster, "--preempt")
    assert ran.code == 0
    assert ran.out.splitlines()[:2] == [
        "Pod default/urgent: 1 more pod fits on 1 of 2 nodes.",
        "1 of them fits by preemption, which evicts 1 pod: default/old.",
    ]
    assert ran.out.endswith(
        """
Victims
POD           NODE    LEAVES FOR
default/old   large   Pod default/urgent
"""
    )


def test_json_and_yaml_have_the_same_content(cluster: Path, web: Path) -> None:
    as_json = json.loads(mooring("capacity", web, "--from", cluster, "-o", "json").out)
    assert as_json == yaml.safe_load(mooring("capacity", web, "--from", cluster, "-o", "yaml").out)
    assert (as_json["kind"], as_json["fits"]) == ("Capacity", 4)


def test_files_have_numbers_in_a_mix(cluster: Path, web: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "db=1.json", a_pod("db", cpu="1", image="i"))
    ran = mooring("capacity", f"{web}=2", "--mix", other, "--from", cluster, "-o", "json")
    assert [(pod["name"], pod["inTurn"], pod["fits"]) for pod in json.loads(ran.out)["pods"]] == [
        ("Pod default/web", 2, 4),
        ("Pod default/db", 1, 2),
    ]


def test_the_exit_status_is_1_if_nothing_fits(cluster: Path, tmp_path: Path) -> None:
    giant = write(tmp_path / "giant.json", a_pod("giant", cpu="64", image="i"))
    ran = mooring("capacity", giant, "--from", cluster)
    assert ran.code == 1
    assert ran.out.startswith("Pod default/giant: 0 more pods fit.\nWhat stops the next one: 2 nodes: Insufficient cpu")


def test_bad_input_is_one_line_and_exit_status_2(cluster: Path, tmp_path: Path) -> None:
    nowhere = mooring("capacity", tmp_path / "none.yaml", "--from", cluster)
    assert (nowhere.code, nowhere.out) == (2, "")
    assert nowhere.complaints == [f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"]
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n  tolerationz: []\n"
    )
    ran = mooring("capacity", wrong, "--from", cluster)
    assert ran.code == 2
    assert ran.complaints == [f"{wrong}:6: Pod default/p: spec.tolerationz: unknown field; did you mean tolerations?"]
    relaxed = mooring("capacity", wrong, "--from", cluster, "--validate", "warn")
    assert relaxed.code == 0
    assert relaxed.complaints[0].startswith(f"warning: {wrong}:6: ")


def test_a_cluster_is_needed(web: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    ran = mooring("capacity", web)
    assert ran.code == 2 and len(ran.complaints) == 1
    assert ran.err.startswith("no cluster: name a dump, a snapshot or manifests with --from FILE")
