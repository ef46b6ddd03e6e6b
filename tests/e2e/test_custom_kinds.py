"""What people do with kubectl and helm beyond the kinds of Kubernetes: custom kinds, tokens, explain, tests of a chart."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from custom_definitions import a_definition, a_version, a_widget
from kubectl import Kubectl, needs_kubectl
from programs import HELM
from running_cluster import a_process

pytestmark = [needs_kubectl, pytest.mark.slow]

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
    "crds/widgets.yaml": json.dumps(a_definition("gadgets")),
    "templates/gadget.yaml": """
apiVersion: example.com/v1
kind: Gadget
metadata: {name: of-the-chart}
spec: {color: red}
""",
    "templates/test.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: shop-test, annotations: {helm.sh/hook: test, mooring.dev/run-seconds: "1"}}
spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}
""",
}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("home")
    with a_process("--nodes", "1") as cluster:
        yield Kubectl(cluster.kubeconfig, home)


def test_a_custom_kind_from_its_definition_to_its_end(kubectl: Kubectl) -> None:
    rules = [{"rule": "self.color != 'red' || self.replicas < 5", "message": "red widgets are small"}]
    version = a_version()
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = rules
    definition = json.dumps(a_definition(versions=[version]))
    assert kubectl("apply", "-f", "-", stdin=definition) == (
        "customresourcedefinition.apiextensions.k8s.io/widgets.example.com created\n"
    )
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=10s")
    applied = ("apply", "--server-side", "-f", "-")
    assert kubectl(*applied, stdin=json.dumps(a_widget())) == "widget.example.com/w serverside-applied\n"
    assert kubectl("get", "wi").split()[:4] == ["NAME", "SIZE", "READY", "AGE"]
    kubectl("scale", "widget/w", "--replicas=3")
    kubectl("patch", "wi/w", "--type=merge", "-p", '{"spec":{"owner":"me"}}')
    spec = kubectl.json("get", "widgets.example.com", "w")["spec"]
    assert spec == {"color": "green", "replicas": 3, "owner": "me"}
    for tags, said in ((["a"], "created"), (["a", "b"], "configured"), (["b"], "configured"), (["b"], "unchanged")):
        applied_again = kubectl("apply", "-f", "-", stdin=json.dumps(a_widget("again", tags=tags)))
        assert applied_again == f"widget.example.com/again {said}\n"
    assert kubectl.json("get", "widget", "again")["spec"]["tags"] == ["b"]
    assert "The paint of the widget." in kubectl("explain", "widget.spec.color")
    wrong = kubectl.run("create", "-f", "-", stdin=json.dumps(a_widget("x", color="red", replicas=7)))
    assert "red widgets are small" in wrong.error
    unknown = kubectl.run("create", "-f", "-", stdin=json.dumps(a_widget("x", colour="red")))
    assert 'unknown field "spec.colour"' in unknown.error
    kubectl("delete", "crd", "widgets.example.com", "--timeout=20s")
    assert "the server could not find the requested resource" in kubectl.run("get", "widgets").error


def test_a_token_of_a_service_account(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot", "--duration=15m").strip()
    said = kubectl("auth", "whoami", "--token", token)
    assert "system:serviceaccount:default:robot" in said
    refused = kubectl.run("get", "pods", "--token", f"{token}x")
    assert refused.status != 0


def test_explain_says_what_a_field_is_for(kubectl: Kubectl) -> None:
    said = kubectl("explain", "pod.spec.topologySpreadConstraints")
    assert "How evenly pods are spread over topology domains." in said
    assert "By how many selected pods the fullest domain may exceed the emptiest." in said


def test_an_autoscaler_in_the_older_version(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    kubectl("autoscale", "deployment", "web", "--max=4", "--cpu-percent=70")
    assert "cpu: <unknown>/70%" in kubectl("get", "hpa", "web")
    assert (
        kubectl.json("get", "horizontalpodautoscalers.v1.autoscaling", "web")["spec"]["targetCPUUtilizationPercentage"]
        == 70
    )


def test_helm_installs_custom_kinds_and_runs_the_tests_of_a_chart(kubectl: Kubectl, tmp_path: Path) -> None:
    program = HELM.required()
    for name, text in CHART.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for command in (["install", "shop", str(tmp_path)], ["test", "shop", "--timeout", "30s"]):
        ran = subprocess.run(
            [program, *command], env=os.environ | kubectl.environment(), capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stderr
    assert kubectl("get", "gadgets", "-o", "name") == "gadget.example.com/of-the-chart\n"
