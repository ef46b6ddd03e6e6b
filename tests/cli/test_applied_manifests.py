"""`mooring simulate dump.json app.yaml`: the manifest is applied to the cluster of the dump, as to a live one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import Ran, as_manifest, mooring, write

import mooring as notebook
from build import a_node
from mooring.answers.what_if.workload_changes import with_applied
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, load

NOTE = "note: applied over objects that the cluster has: Deployment default/web"


def a_deployment(replicas: int, cpu: str = "1") -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def pods(ran: Ran) -> dict[str, str]:
    """Pod -> node of all pods that were pending."""
    assert ran.code == 0, ran.err
    return {pod["name"]: pod.get("node") or "" for pod in json.loads(ran.out)["pods"]}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A node with 4 CPUs, and a Deployment with two pods of 1 CPU on it."""
    manifests = write(tmp_path / "cluster.json", a_node("n", cpu="4"), a_deployment(2))
    first = tmp_path / "first.json"
    assert mooring("dump", "-o", first, "--from", manifests).code == 0
    items = json.loads(first.read_text())
    for item in items["items"]:
        if item["kind"] == "Pod":
            item["spec"]["nodeName"] = "n"
            item["status"] = {"phase": "Running"}
    target = tmp_path / "dump.json"
    target.write_text(json.dumps(items))
    return target


def simulate(*arguments: str | Path) -> Ran:
    return mooring("simulate", *arguments, "-o", "json")


def test_more_replicas_are_new_pods_beside_those_that_run(dump: Path, tmp_path: Path) -> None:
    ran = simulate(dump, write(tmp_path / "app.json", a_deployment(5)))
    assert pods(ran) == {"web-2": "n", "web-3": "n", "web-4": ""}
    assert NOTE in ran.complaints


def test_fewer_replicas_make_room(dump: Path, tmp_path: Path) -> None:
    small = write(tmp_path / "app.json", a_deployment(1))
    ran = simulate(dump, small)
    assert pods(ran) == {}
    (node,) = json.loads(ran.out)["nodes"]
    assert node["pods"] == 1


def test_a_new_template_replaces_the_pods(dump: Path, tmp_path: Path) -> None:
    ran = simulate(dump, write(tmp_path / "app.json", a_deployment(2, cpu="3")))
    assert sorted(pods(ran).values()) == ["", "n"], "3 CPUs fit once on 4, when the old pods are gone"
    assert "Deployment default/web has a new pod template: all its pods are replaced at once" in ran.err


def test_the_same_manifest_changes_nothing(dump: Path, tmp_path: Path) -> None:
    assert pods(simulate(dump, write(tmp_path / "app.json", a_deployment(2)))) == {}


def test_the_order_of_files_does_not_matter_and_from_is_the_same(dump: Path, tmp_path: Path) -> None:
    app = write(tmp_path / "app.json", a_deployment(3))
    assert pods(simulate(app, dump)) == pods(simulate("--from", dump, app)) == {"web-2": "n"}


def test_objects_that_an_api_server_has_admitted_are_a_cluster_too(tmp_path: Path) -> None:
    node = as_manifest(a_node("n", cpu="4"))
    deployment = a_deployment(1)
    deployment["metadata"]["namespace"] = "default"
    for item in (node, deployment):
        item["metadata"] |= {
            "uid": f"uid-{item['kind']}",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
    dump = write(tmp_path / "dump.json", node, deployment)
    ran = simulate(dump, write(tmp_path / "app.json", a_deployment(2)))
    assert pods(ran) == {"web-0": "n", "web-1": "n"}
    assert NOTE in ran.complaints


def test_a_manifest_may_come_from_standard_input(dump: Path) -> None:
    ran = mooring("simulate", dump, "-", "-o", "json", stdin=json.dumps(a_deployment(3)).encode())
    assert pods(ran) == {"web-2": "n"}


def test_two_manifests_with_the_same_object_are_an_error_that_names_both(dump: Path, tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, a_deployment(3)) for name in ("one.json", "two.json"))
    for files in ((one, two), (dump, one, two)):
        ran = simulate(*files)
        assert ran.code == 2
        (complaint,) = ran.complaints
        assert complaint.startswith(f"{two}:") and f"the object is in {one}, document 1, item 1, already" in complaint


def test_other_questions_apply_manifests_as_well(dump: Path, tmp_path: Path) -> None:
    app = write(tmp_path / "app.json", a_deployment(5))
    ran = mooring("explain", "web-4", "--from", dump, "--from", app)
    assert ran.code == 0 and "default/web-4 is pending" in ran.out
    report = notebook.simulate([dump, app])
    assert {result.pod.name: result.node for result in report.pods} == {"web-2": "n", "web-3": "n", "web-4": ""}


def test_a_manifest_without_objects_that_decisions_read_is_a_note(dump: Path, tmp_path: Path) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    ran = simulate(dump, write(tmp_path / "app.json", settings))
    assert pods(ran) == {}
    assert "note: ignored, because decisions do not read these kinds: 1 ConfigMap" in ran.complaints


def test_a_problem_of_the_manifest_names_its_place(dump: Path, tmp_path: Path) -> None:
    broken = a_deployment(3)
    broken["spec"]["replicas"] = "many"
    app = write(tmp_path / "app.json", broken)
    ran = simulate(dump, app)
    assert ran.code == 2
    assert ran.complaints[0].startswith(f"{app}:") and "spec.replicas" in ran.complaints[0]


# ---- over objects that are there


def a_budget(name: str) -> dict[str, Any]:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}


def a_replica_set(name: str) -> dict[str, Any]:
    return {**a_deployment(0), "kind": "ReplicaSet", "metadata": {"name": name}}


def a_loaded(*items: dict[str, Any]) -> LoadedCluster:
    return load([as_manifest(a_node("n", cpu="4")), *items])


def test_objects_that_were_there_are_told_in_the_order_of_the_input() -> None:
    there = a_loaded(a_budget("one"), a_deployment(2), a_replica_set("alone"))
    applied = with_applied(there, [a_replica_set("alone"), a_deployment(3), a_budget("new"), a_budget("one")])
    assert applied.notes == [
        "applied over objects that the cluster has: ReplicaSet default/alone, Deployment default/web, "
        "PodDisruptionBudget default/one",
    ]
    assert sorted(pod.name for pod in applied.pods()) == ["web-0", "web-1", "web-2"], "pods are not told one by one"
    assert sorted(workload.name for workload in applied.workloads) == ["alone", "web"]
    assert there.notes == [] and len(there.pods()) == 2


@pytest.mark.parametrize(("number", "ending"), [(5, "b-4"), (6, "b-4 and 1 more")])
def test_five_of_the_objects_that_were_there_are_named(number: int, ending: str) -> None:
    budgets = [a_budget(f"b-{i}") for i in range(number)]
    (note,) = with_applied(a_loaded(*budgets), budgets).notes
    assert note.startswith("applied over objects that the cluster has: PodDisruptionBudget default/b-0, ")
    assert note.endswith(f"PodDisruptionBudget default/{ending}")


def test_new_objects_are_no_news() -> None:
    there = replace(a_loaded(), notes=["read before"])
    applied = with_applied(there, [a_deployment(1), a_budget("one")])
    assert applied.notes == ["read before"]
    assert [workload.name for workload in applied.workloads] == ["web"]


def test_unknown_fields_are_refused_ignored_or_told_as_the_caller_says() -> None:
    strange = {**a_budget("one"), "colour": "red"}
    with pytest.raises(InputError, match="colour"):
        with_applied(a_loaded(), [strange])
    assert with_applied(a_loaded(), [strange], Validation.IGNORE).notes == []
    (warning,) = with_applied(a_loaded(), [strange], Validation.WARN).notes
    assert "colour" in warning
