"""Kinds that Mooring does not know: their pod templates are found, counted and simulated."""

import json
from typing import Any

import pytest

from mooring.inputs.custom_workloads import template_paths
from mooring.inputs.documents import ManifestFile
from mooring.inputs.manifests import Manifests, ReadOptions, read_files

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
GUESS = "a guess, because Mooring does not know the kind; name another place with --pod-template-path"


def a_rollout(name: str = "web", **spec: Any) -> dict[str, Any]:
    return an_object("Rollout", name, "argoproj.io/v1alpha1", template=TEMPLATE, **spec)


def an_object(kind: str, name: str, api_version: str = "example.com/v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def read(*items: dict[str, Any], paths: tuple[str, ...] = ()) -> Manifests:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    return read_files([ManifestFile("a.json", text)], ReadOptions(templates=template_paths(paths)))


def pods(found: Manifests) -> list[str]:
    assert found.problems == []
    return [each.object.name for each in found.objects if each.kind == "Pod"]


def test_a_template_at_spec_template_is_simulated_and_a_note_says_so() -> None:
    found = read(a_rollout(replicas=3), a_rollout("db"))
    assert pods(found) == ["web-0", "web-1", "web-2", "db-0"]
    assert found.custom.notes() == [
        f"2 Rollout simulated as 4 pods of the template at spec.template, {GUESS} Rollout=PATH"
    ]
    assert not found.ignored
    owner = next(each.object for each in found.objects if each.kind == "Pod").controller()
    assert owner is not None and (owner.kind, owner.name, owner.api_version) == (
        "Rollout",
        "web",
        "argoproj.io/v1alpha1",
    )


def test_a_path_names_another_place() -> None:
    crontab = an_object("CronTab", "night", jobTemplate={"spec": {"parallelism": 2, "template": TEMPLATE}})
    left_out = read(crontab)
    assert pods(left_out) == [] and left_out.ignored == {"CronTab": 1}
    path = "CronTab=spec.jobTemplate.spec.template"
    assert left_out.custom.notes() == [
        "1 CronTab left out, though there is a pod template at spec.jobTemplate.spec.template; simulate its pods with "
        f"--pod-template-path '{path}'"
    ]
    found = read(crontab, paths=(path,))
    assert pods(found) == ["night-0", "night-1"]
    assert found.custom.notes() == [
        "1 CronTab simulated as 2 pods of the template at spec.jobTemplate.spec.template, as --pod-template-path says"
    ]


def test_a_kind_of_kubernetes_that_has_pods_only_at_times_is_simulated_if_its_path_is_named() -> None:
    cron_job = an_object("CronJob", "night", "batch/v1", jobTemplate={"spec": {"template": TEMPLATE}})
    assert read(cron_job).custom.notes() == []
    assert pods(read(cron_job, paths=("CronJob=spec.jobTemplate.spec.template",))) == ["night-0"]


def test_lists_and_maps_of_templates() -> None:
    tasks = [{"name": "ps", "template": TEMPLATE}, {"name": "worker", "replicas": 2, "template": TEMPLATE}]
    volcano = an_object("Job", "train", "batch.volcano.sh/v1alpha1", tasks=tasks)
    assert pods(read(volcano, paths=("Job=spec.tasks[].template",))) == [
        "train-ps-0",
        "train-worker-0",
        "train-worker-1",
    ]
    assert "--pod-template-path 'Job=spec.tasks[].template'" in read(volcano).custom.notes()[0]
    torch = an_object(
        "PyTorchJob", "train", parts={"Master": {"template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    )
    assert pods(read(torch, paths=("PyTorchJob=spec.parts[].template",))) == [
        *("train-master-0", "train-worker-0", "train-worker-1")
    ]


def test_what_is_no_pod_template_is_ignored_and_counted() -> None:
    machines = an_object("MachineDeployment", "pool", template={"spec": {"bootstrap": {}}}, replicas=3)
    found = read(machines, machines, an_object("Database", "db"))
    assert pods(found) == [] and found.custom.notes() == []
    assert found.ignored == {"MachineDeployment": 2, "Database": 1}


def a_pod(name: str, owner: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": TEMPLATE["spec"]}


ROLLOUT = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": "u"}
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4f", "uid": "v"}


@pytest.mark.parametrize(
    "held",
    [
        pytest.param([a_pod("web-x", ROLLOUT)], id="pods of the object"),
        pytest.param(
            [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "metadata": {"name": "web-6d4f", "ownerReferences": [{**ROLLOUT, "controller": True}]},
                    "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
                }
            ],
            id="a ReplicaSet of the object",
        ),
        pytest.param(
            [a_pod("web-x", REPLICA_SET, **{"rollouts-pod-template-hash": "6d4f"})],
            id="pods of a ReplicaSet that is not there",
        ),
    ],
)
def test_an_object_that_has_its_pods_in_the_input_gets_no_others(held: list[dict[str, Any]]) -> None:
    found = read(a_rollout(replicas=3), *held)
    assert [name for name in pods(found) if name != "web-x"] == []
    assert "1 of them have their pods in the input and get no others" in found.custom.notes()[0]


def test_names_that_are_taken_are_not_given_again() -> None:
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "spec": TEMPLATE["spec"]}
    assert pods(read(a_rollout(replicas=2), bare)) == ["web-rollout-0", "web-rollout-1", "web-1"]


@pytest.mark.parametrize("replicas", [-1, 1_000_001, "3", True, 2.5, [3]])
def test_a_number_of_pods_that_cannot_be_is_a_problem(replicas: Any) -> None:
    (problem,) = read(a_rollout(replicas=replicas)).problems
    assert problem.path == "spec.replicas" and problem.allowed == "a whole number from 0 to 1000000"
    assert str(problem).startswith("a.json:1: Rollout default/web: spec.replicas")


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ({"spec": {"containers": [{"name": 7}]}}, "spec.template.spec.containers[0].name"),
        ({"spec": {"containers": [{"name": "main"}], "nodeSelector": 3}}, "spec.template.spec.nodeSelector"),
        ({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "x"}}}]}}, "spec.template.spec"),
        ({"metadata": 3, "spec": {"containers": [{"name": "main", "image": "x"}]}}, ""),
    ],
)
def test_a_template_that_cannot_be_read_is_a_problem_with_its_path(template: Any, path: str) -> None:
    rollout = a_rollout()
    rollout["spec"]["template"] = template
    problems = read(rollout).problems
    assert bool(problems) == bool(path)
    assert all(problem.path.startswith(path) for problem in problems)


@pytest.mark.parametrize(
    "text", ["Job", "Job=", "=spec.template", "Job=spec..template", "Job=spec.tasks[]", "Job=spec[0].x", "A B=x"]
)
def test_a_path_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no KIND=PATH"):
        template_paths([text])


def test_a_kind_has_one_path() -> None:
    with pytest.raises(ValueError, match=r"Job has two paths, spec\.a and spec\.b; name one"):
        template_paths(["Job=spec.a", "Job=spec.b"])


def test_a_path_without_a_template_is_a_problem() -> None:
    (problem,) = read(an_object("CronTab", "night", x={"containers": []}), paths=("CronTab=spec.y.template",)).problems
    assert problem.path == "spec.y.template"
