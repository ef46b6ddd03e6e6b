"""Unknown and repeated fields of manifests: every one is reported, with its line and what was probably meant."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mooring.inputs.field_checks import Validation, nearest
from mooring.inputs.manifests import Manifests, ReadOptions, read

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
SERVER = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read_text(name: str, text: str, validation: Validation = Validation.STRICT) -> Manifests:
    Path(name).write_text(text)
    return read([name], options=ReadOptions(validation=validation))


def read_object(written: dict[str, Any], validation: Validation = Validation.STRICT) -> Manifests:
    return read_text("a.json", json.dumps(written), validation)


def problems(manifests: Manifests) -> list[str]:
    return [str(problem) for problem in manifests.problems]


MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  label: {app: web}
spec:
  nodeSelectr: {disk: ssd}
  priority: high
  containers:
    - name: c
      image: a
      image: b
      resources:
        request: {cpu: 1}
        limits: {cpu: 2x}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: any}
anything: goes
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      tolerations: [{key: a, operator: Exist}]
      containers: [{name: c}]
      restartpolicy: Never
      somethingElse: 1
"""


def test_every_problem_of_a_file_is_reported_at_once_with_its_line() -> None:
    assert problems(read_text("a.yaml", MANIFEST)) == [
        "a.yaml:5: Pod default/web: metadata.label: unknown field; did you mean labels?",
        "a.yaml:7: Pod default/web: spec.nodeSelectr: unknown field; did you mean nodeSelector?",
        'a.yaml:8: Pod default/web: spec.priority: Invalid value: "high": must be an integer',
        "a.yaml:12: Pod default/web: spec.containers[0].image: duplicate field; remove all but one image",
        "a.yaml:14: Pod default/web: spec.containers[0].resources.request: unknown field; did you mean requests?",
        "a.yaml:30: Deployment default/d: spec.template.spec.tolerations[0].operator: "
        'Unsupported value: "Exist": supported values: Equal, Exists',
        "a.yaml:32: Deployment default/d: spec.template.spec.restartpolicy: unknown field; did you mean restartPolicy?",
        "a.yaml:33: Deployment default/d: spec.template.spec.somethingElse: "
        "unknown field; remove it or correct its name",
    ]


def test_the_same_in_json() -> None:
    text = '{"apiVersion": "v1", "kind": "List", "items": [\n' + json.dumps(POD).replace(
        '"spec": {', '\n"spec": {"nodeSelectr": {},\n"hostNetwork": true,\n"hostNetwork": false,\n'
    )
    assert problems(read_text("a.json", text + "]}")) == [
        "a.json:3: Pod default/p: spec.nodeSelectr: unknown field; did you mean nodeSelector?",
        "a.json:5: Pod default/p: spec.hostNetwork: duplicate field; remove all but one hostNetwork",
    ]


def test_all_fields_that_the_api_has_are_known() -> None:
    """Also those that no decision reads."""
    probe = {"httpGet": {"port": 80}, "periodSeconds": 3}
    container = {"name": "c", "env": [{"name": "a", "value": "b"}], "livenessProbe": probe, "volumeMounts": []}
    spec = {"containers": [container], "dnsPolicy": "Default", "securityContext": {"runAsUser": 1}}
    managed = [{"manager": "k", "fieldsV1": {"f:spec": {}}}]
    written = {**POD, "metadata": {"name": "p", "managedFields": managed}, "spec": spec, "status": {"podIP": "1.2.3.4"}}
    assert problems(read_object(written)) == []


def test_kinds_that_no_decision_reads_are_not_checked() -> None:
    assert problems(read_object({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "odd": 1})) == []
    assert problems(read_object({"apiVersion": "example.com/v1", "kind": "Widget", "odd": 1})) == []


def test_warn_reads_the_object_and_reports_the_field() -> None:
    written = {**POD, "spec": {**POD["spec"], "nodeSelectr": {}}}  # type: ignore[dict-item]
    manifests = read_object(written, Validation.WARN)
    assert problems(manifests) == []
    assert [str(warning) for warning in manifests.warnings] == [
        "a.json:1: Pod default/p: spec.nodeSelectr: unknown field; did you mean nodeSelector?"
    ]
    assert "Pod" in [manifest.kind for manifest in manifests.objects]


def test_ignore_says_nothing() -> None:
    written = {**POD, "spec": {**POD["spec"], "nodeSelectr": {}}}  # type: ignore[dict-item]
    manifests = read_object(written, Validation.IGNORE)
    assert (manifests.problems, manifests.warnings) == ([], [])


def test_a_repeated_key_that_is_let_pass_has_its_last_value() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: b}\nspec: {containers: [{name: c}]}\n"
    manifests = read_text("a.yaml", text, Validation.IGNORE)
    assert [manifest.object.name for manifest in manifests.objects if manifest.kind == "Pod"] == ["b"]


def test_a_dump_of_a_newer_cluster_is_used_with_a_warning() -> None:
    """Its server has admitted the field, so it is one that this version does not know yet; or somebody edited the dump."""
    written = {**POD, "metadata": SERVER, "spec": {**POD["spec"], "nodeSelectr": {}}}  # type: ignore[dict-item]
    manifests = read_object(written)
    assert problems(manifests) == []
    assert ["spec.nodeSelectr" in str(warning) for warning in manifests.warnings] == [True]


def test_kinds_that_the_schema_does_not_describe_are_checked_for_other_spellings() -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "Labels": {}},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    assert problems(read_object(group)) == [
        "a.json:1: PodGroup default/g: metadata.Labels: unknown field; did you mean labels?"
    ]


def test_no_more_than_a_hundred_fields_of_an_object_are_reported() -> None:
    written = {**POD, "spec": {**POD["spec"], **{f"x{i}": 1 for i in range(500)}}}  # type: ignore[dict-item]
    assert len(problems(read_object(written))) == 100
    keys = "".join("  a: b\n" for _ in range(500))
    text = f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  labels:\n  {keys.replace(chr(10), chr(10) + '  ')}\n"
    assert len([p for p in problems(read_text("b.yaml", text)) if "duplicate" in p]) == 100


NEAREST = [
    pytest.param("nodeSelectr", "nodeSelector", id="a letter is missing"),
    pytest.param("node_selector", "nodeSelector", id="in the way of Python"),
    pytest.param("NODESELECTOR", "nodeSelector", id="in capitals"),
    pytest.param("xyz", "", id="nothing alike"),
    pytest.param("nodeSelector" * 100_000, "", id="endless"),
]


@pytest.mark.parametrize(("name", "meant"), NEAREST)
def test_what_was_probably_meant(name: str, meant: str) -> None:
    assert nearest(name, ["nodeName", "nodeSelector", "containers"]) == meant


def test_a_folder_reports_all_its_files() -> None:
    os.mkdir("all")
    for name in ("a", "b"):
        Path(f"all/{name}.yaml").write_text(f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nspecs: {{}}\n")
    assert problems(read(["all"])) == [
        f"all/{name}.yaml:4: Node {name}: specs: unknown field; did you mean spec?" for name in ("a", "b")
    ]


def test_pod_groups_of_manifests_are_checked_as_the_server_checks_them() -> None:
    head = {"apiVersion": "scheduling.k8s.io/v1beta1", "metadata": {"name": "g"}}
    spec = {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 0}}}
    assert problems(read_object({**head, "kind": "PodGroup", "spec": spec})) == [
        "a.json:1: PodGroup default/g: spec.schedulingPolicy: "
        'Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
        "a.json:1: PodGroup default/g: spec.schedulingPolicy.gang.minCount: Required value: at least 1",
    ]


def test_workloads_of_the_scheduling_api_decide_nothing() -> None:
    head = {"apiVersion": "scheduling.k8s.io/v1beta1", "metadata": {"name": "w"}}
    spec = {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}]}
    found = read_object({**head, "kind": "Workload", "spec": spec})
    assert (problems(found), dict(found.ignored)) == ([], {"Workload": 1})
