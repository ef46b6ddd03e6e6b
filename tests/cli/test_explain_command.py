"""`mooring explain` as a user runs it."""

import json
from pathlib import Path

import yaml
from command import mooring, write

from build import a_node, a_pod

CLUSTER = Path(__file__).parent.parent.parent / "examples" / "cluster.yaml"


def test_a_pending_pod_with_what_would_place_it() -> None:
    ran = mooring("explain", "--from", CLUSTER, "giant")
    assert ran.code == 1
    assert "cpu: wants 32, but no node is large enough (largest 16)" in ran.out
    assert "lower the cpu request of container giant from 32 to 4" in ran.out


def test_json_and_yaml_are_the_same_answer() -> None:
    as_json = json.loads(mooring("explain", "--from", CLUSTER, "giant", "-o", "json").out)
    assert as_json == yaml.safe_load(mooring("explain", "--from", CLUSTER, "giant", "-o", "yaml").out)
    assert as_json["kind"] == "Explanation" and as_json["cures"][0]["verified"] is True


def test_a_workload_before_and_after_the_scheduler_placed_what_it_can() -> None:
    before = mooring("explain", "--from", CLUSTER, "deploy/cache")
    assert before.code == 1 and before.out.startswith("Deployment cache: 0 pods on nodes, 3 pending")
    after = mooring("explain", "--from", CLUSTER, "deploy/cache", "--settle")
    assert after.code == 0 and after.out == "Deployment cache: 3 pods on nodes, 0 pending\n"


def test_a_pod_that_would_get_a_node_is_no_failure() -> None:
    ran = mooring("explain", "--from", CLUSTER, "-n", "default", "web-0", "--no-cures")
    assert ran.code == 0 and ran.out.startswith("default/web-0 is pending, but would go to a-1 now")


def test_ties_go_to_the_lowest_name_or_as_kube_scheduler_breaks_them(tmp_path: Path) -> None:
    # In the order of the file, b comes first: all nodes are equal, and the first one is on top of kube-scheduler's heap.
    file = write(tmp_path / "c.json", a_node("b"), a_node("a"), a_pod("p", image="i"))
    by_name = mooring("explain", "--from", file, "p").out.splitlines()
    assert by_name[0].startswith("default/p is pending, but would go to a now")
    assert by_name[1].startswith("It is tied with b: ") and by_name[1].endswith("; ties go to the lowest name here")
    as_upstream = mooring("explain", "--from", file, "p", "--tie-break", "kube-scheduler").out.splitlines()
    assert as_upstream[0].startswith("default/p is pending, but would go to b now")
    assert as_upstream[1].endswith("; the order of kube-scheduler's heap decides here")
    for rule, node in (("name", "a"), ("kube-scheduler", "b")):
        simulated = json.loads(mooring("simulate", file, "--tie-break", rule, "-o", "json").out)
        assert [pod["node"] for pod in simulated["pods"]] == [node]


def test_bad_input_is_refused_with_the_nearest_name_and_every_problem(tmp_path: Path) -> None:
    ran = mooring("explain", "--from", CLUSTER, "gian")
    assert (ran.code, ran.err) == (2, "no pod 'gian' among 12 pods; did you mean default/giant?\n")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "spec": {"taint": []},
        "status": {"allocatabel": {}},
    }
    ran = mooring("explain", "--from", write(tmp_path / "bad.json", node), "web")
    assert ran.code == 2 and len(ran.complaints) == 2 and "spec.taint" in ran.err and "status.allocatabel" in ran.err
    assert mooring("explain", "--from", write(tmp_path / "bad.json", node), "web", "--validate", "ignore").code == 2


def test_requests_far_above_use_are_named_with_all_pending_pods_and_with_one(tmp_path: Path) -> None:
    crowded = CLUSTER.with_name("crowded.yaml")
    usage = {"cpu": "10m", "memory": "10Mi"}
    metrics = {"items": [{"metadata": {"name": "cart-5d8f-2", "namespace": "shop"}, "containers": [{"usage": usage}]}]}
    file = tmp_path / "use.json"
    file.write_text(json.dumps(metrics))
    whole = json.loads(mooring("explain", "--from", crowded, "--use", file, "-o", "json").out)
    assert [(each["workload"], each["resource"], each["requested"], each["used"]) for each in whole["unused"]] == [
        ("Deployment shop/cart", "memory", 4 << 30, 10 << 20),
        ("Deployment shop/cart", "cpu", 1000, 10),
    ]
    assert [(each["resource"], each["nodes"], each["used"]) for each in whole["idle"]] == [
        ("cpu", 2, 10),
        ("memory", 2, 10 << 20),
    ]
    shown = mooring("explain", "--from", crowded, "--use", file).out
    assert "RESOURCE   ALLOCATABLE   REQUESTED   IN USE   FREE BUT UNUSABLE   IDLE BUT OUT OF REACH" in shown
    alone = mooring("explain", "--from", crowded, "--use", file, "shop/cart-5d8f-2").out
    assert (
        "A request far above use: Deployment shop/cart requests 1 cpu for 1 pod and uses 10m (at most 10m a pod)"
        in alone
    )
    refused = mooring("explain", "--from", crowded, "--use", "/nowhere")
    assert (refused.code, refused.err) == (2, "/nowhere: cannot be read: No such file or directory\n")
