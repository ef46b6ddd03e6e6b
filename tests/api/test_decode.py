"""Decoding: all faults at once, nulls as Kubernetes reads them, and the corpus without loss."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.api.decode import decode, decode_json
from mooring.api.kinds import KINDS, WORKLOADS, is_read, kind_problem
from mooring.api.validation.problem import Problem
from mooring.inputs.field_checks import check_core_fields
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim

CORPUS = Path(__file__).parent.parent / "conformance"


def told(problems: list[Problem]) -> list[str]:
    return [str(problem) for problem in problems]


def test_every_mismatch_is_told() -> None:
    pod, problems = decode(
        "Pod",
        {
            "metadata": {"name": 3, "labels": {"app": True, "example.com/tier": 1}},
            "spec": {
                "containers": [
                    {"name": "a", "resources": {"requests": {"cpu": ["2"]}}},
                    {"name": "b", "ports": [{"containerPort": "80"}]},
                    "c",
                ],
                "hostNetwork": "yes",
                "priority": 1.5,
                "tolerations": {"key": "x"},
            },
        },
    )
    assert pod is None
    assert told(problems) == [
        "metadata.name: Invalid value: 3: must be a string",
        "metadata.labels.app: Invalid value: true: must be a string",
        "metadata.labels[example.com/tier]: Invalid value: 1: must be a string",
        "spec.containers[0].resources.requests.cpu: Invalid value: a list: must be a quantity, e.g. 500m, 2 or 1.5Gi",
        'spec.containers[1].ports[0].containerPort: Invalid value: "80": must be an integer',
        'spec.containers[2]: Invalid value: "c": must be an object',
        "spec.priority: Invalid value: 1.5: must be an integer",
        "spec.tolerations: Invalid value: an object: must be a list",
        'spec.hostNetwork: Invalid value: "yes": must be true or false',
    ]


def test_null_means_left_out() -> None:
    pod, problems = decode(
        "Pod",
        {
            "metadata": {"name": "p", "namespace": None, "labels": {"a": None}},
            "spec": {
                "containers": [{"resources": {"requests": {"cpu": None}}}, None],
                "nodeName": None,
                "priority": 2.0,
            },
            "status": None,
        },
    )
    assert problems == []
    assert isinstance(pod, Pod)
    assert (pod.namespace, pod.labels, pod.spec.node_name, pod.priority) == ("", {"a": ""}, "", 2)
    assert len(pod.spec.containers) == 2
    assert pod.shape.request == {"cpu": 0}


OTHERS = [
    pytest.param("Pod", ["x"], ["Invalid value: a list: must be an object"], id="not an object"),
    pytest.param("Pot", {}, ['kind: Invalid value: "Pot": must be a kind that Mooring reads'], id="an unknown kind"),
    pytest.param(
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 1.5}},
        ["spec.minAvailable: Invalid value: 1.5: must be an integer or a string"],
        id="a number that must be whole",
    ),
    pytest.param(
        "Pod",
        {"metadata": {"labels": {1: "x"}}},
        ["metadata.labels.1: Invalid value: the key 1: must be a string as key"],
        id="a key",
    ),
    pytest.param(
        "Node",
        {"spec": {"taints": [{"key": "k" * 100, "effect": 1}]}},
        ["spec.taints[0].effect: Invalid value: 1: must be a string"],
        id="deep",
    ),
    pytest.param(
        "Node",
        {"metadata": {"name": {"x": "y" * 10**6}}},
        ["metadata.name: Invalid value: an object: must be a string"],
        id="large values are not printed",
    ),
    pytest.param(
        "Node",
        {"spec": {"unschedulable": "y" * 200}},
        [f'spec.unschedulable: Invalid value: "{"y" * 80}...": must be true or false'],
        id="long text is cut",
    ),
]


@pytest.mark.parametrize(("kind", "written", "texts"), OTHERS)
def test_other_faults(kind: str, written: Any, texts: list[str]) -> None:
    decoded, problems = decode(kind, written)
    assert decoded is None
    assert told(problems) == texts


def test_a_problem_is_one_line_whatever_it_shows() -> None:
    assert str(Problem("a\nb", 'x\x00"', "c", "f\r")) == 'f\\r: a\\nb: Invalid value: x\\x00": must be c'


def test_json_goes_straight_into_the_struct() -> None:
    pod = decode_json(b'{"metadata":{"name":"p"},"spec":{"containers":[],"unread":[1,{}]}}', "Pod")
    assert isinstance(pod, Pod)
    assert pod.name == "p"
    with pytest.raises(msgspec.ValidationError):
        decode_json(b'{"metadata":{"name":1}}', "Pod")
    with pytest.raises(msgspec.ValidationError, match="Pot is not a kind that Mooring reads"):
        decode_json(b"{}", "Pot")


MISSPELT = [
    pytest.param(
        {"spec": {"nodeselector": {}}}, ["spec.nodeselector: unknown field; did you mean nodeSelector?"], id="case"
    ),
    pytest.param(
        {"spec": {"node_name": "n"}}, ["spec.node_name: unknown field; did you mean nodeName?"], id="underscore"
    ),
    pytest.param(
        {"spec": {"containers": [{"resources": {"Requests": {}}}]}},
        ["spec.containers[0].resources.Requests: unknown field; did you mean requests?"],
        id="inside a list",
    ),
    pytest.param({"spec": {"dnsPolicy": "x", "restartPolicy": "y"}}, [], id="fields that a scheduler does not read"),
    pytest.param({"metadata": {"labels": {"Name": "x"}, "annotations": {"UID": "x"}}}, [], id="keys of maps are free"),
]


@pytest.mark.parametrize(("written", "texts"), MISSPELT)
def test_misspelt_fields(written: dict[str, Any], texts: list[str]) -> None:
    assert told(check_core_fields("Pod", written)) == texts


PAIRS = [
    pytest.param("Pod", "v1", None, id="a known pair"),
    pytest.param("Deployment", "apps/v1", None, id="a workload"),
    pytest.param("ConfigMap", "v1", None, id="a kind that does not matter"),
    pytest.param("Service", "serving.knative.dev/v1", None, id="the same name in another group"),
    pytest.param("Widget", "example.com/v1", None, id="a custom resource"),
    pytest.param(
        "Deployment", "extensions/v1beta1", 'apiVersion: Invalid value: "extensions/v1beta1": must be apps/v1', id="old"
    ),
    pytest.param(
        "ResourceClaim",
        "resource.k8s.io/v1alpha3",
        'apiVersion: Invalid value: "resource.k8s.io/v1alpha3": must be resource.k8s.io/v1 or resource.k8s.io/v1beta2 or '
        "resource.k8s.io/v1beta1",
        id="a version that no server since v1.33 prefers",
    ),
    pytest.param("pod", "v1", 'kind: Invalid value: "pod": must be Pod', id="wrong case"),
    pytest.param(
        "Jobb",
        "batch/v1",
        'kind: Invalid value: "Jobb": must be one of the kinds of batch/v1: CronJob, Job',
        id="a slip of the pen",
    ),
]


@pytest.mark.parametrize(("kind", "api_version", "text"), PAIRS)
def test_kind_and_version(kind: str, api_version: str, text: str | None) -> None:
    problem = kind_problem(kind, api_version)
    assert (problem and str(problem)) == text


def test_which_kinds_are_read() -> None:
    assert is_read("Pod", "v1")
    assert is_read("DaemonSet", "apps/v1")
    assert not is_read("ConfigMap", "v1")
    assert not is_read("Service", "serving.knative.dev/v1")
    assert all(kind.kind == name for registry in (KINDS, WORKLOADS) for name, kind in registry.items())


def corpus_objects(name: str) -> Iterator[dict[str, Any]]:
    for line in gzip.decompress((CORPUS / f"{name}.jsonl.gz").read_bytes()).splitlines():
        scenario = json.loads(line)["scenario"]
        yield from scenario.get("objects") or (op["object"] for op in scenario["ops"] if "object" in op)


UNREAD = {
    "kind", "apiVersion", "nodeID", "topologyKeys", "persistentVolumeReclaimPolicy", "claims",
    "currentHealthy", "desiredHealthy", "expectedPods",
}  # fmt: skip
"""Fields of the corpus that no page of the specification reads."""


def read_fields(written: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar with its path, without the fields that are not read."""
    if isinstance(written, dict):
        for key, value in written.items():
            if key not in UNREAD:
                yield from read_fields(value, f"{path}.{key}")
    elif isinstance(written, list):
        for i, item in enumerate(written):
            yield from read_fields(item, f"{path}[{i}]")
    else:
        yield path, written


@pytest.mark.parametrize("name", ["volumes", "dra", "timeline-volumes", "preempt", "mixed"])
def test_the_corpus_decodes_without_loss(name: str) -> None:
    count = 0
    for written in corpus_objects(name):
        decoded, problems = decode(written["kind"], written)
        assert problems == []
        kept = dict(read_fields(msgspec.to_builtins(decoded)))
        lost = [(path, value) for path, value in read_fields(written) if value and kept.get(path) != value]
        assert lost == []
        count += 1
    assert count > 500


CLASSES: list[Any] = [
    pytest.param({"storageClassName": "fast"}, {}, "fast", id="the field"),
    pytest.param({}, {}, "", id="neither"),
    pytest.param(
        {"storageClassName": "fast"},
        {"volume.beta.kubernetes.io/storage-class": "old"},
        "old",
        id="the annotation wins",
    ),
    pytest.param(
        {"storageClassName": "fast"}, {"volume.beta.kubernetes.io/storage-class": ""}, "", id="even an empty one"
    ),
]


@pytest.mark.parametrize(("spec", "annotations", "name"), CLASSES)
def test_storage_class_of_volumes_and_claims(spec: dict[str, str], annotations: dict[str, str], name: str) -> None:
    for kind in ("PersistentVolume", "PersistentVolumeClaim"):
        decoded, _ = decode(kind, {"metadata": {"annotations": annotations}, "spec": spec})
        assert isinstance(decoded, PersistentVolume | PersistentVolumeClaim)
        assert decoded.class_name == name


def test_inline_volume_sources_and_device_fields_are_kept() -> None:
    volumes = [
        {"name": "a", "gcePersistentDisk": {"pdName": "d", "readOnly": True}},
        {"name": "b", "awsElasticBlockStore": {"volumeID": "v"}},
        {"name": "c", "iscsi": {"iqn": "q", "readOnly": True}},
        {"name": "d", "rbd": {"monitors": ["m"], "pool": "p", "image": "i", "readOnly": True}},
        {"name": "e", "azureDisk": {"diskURI": "u"}},
        {"name": "f", "cinder": {"volumeID": "v"}},
        {"name": "g", "portworxVolume": {"volumeID": "v"}},
        {"name": "h", "csi": {"driver": "x"}},
        {"name": "i", "azureFile": {}},
        {"name": "j", "vsphereVolume": {}},
        {"name": "k", "ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": {"storageClassName": "fast"}}}},
    ]
    pod, _ = decode("Pod", {"spec": {"volumes": volumes}})
    assert msgspec.to_builtins(pod)["spec"]["volumes"] == volumes
    result = {
        "request": "r/s", "driver": "d", "pool": "p", "device": "x", "adminAccess": True, "shareID": "s",
        "tolerations": [{"key": "k", "operator": "Exists"}], "consumedCapacity": {"m": "1Gi"},
        "bindingConditions": ["a"], "bindingFailureConditions": ["b"],
    }  # fmt: skip
    allocation = {
        "devices": {
            "results": [result],
            "config": [{"source": "FromClass", "opaque": {"driver": "d", "parameters": {"x": 1}}}],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
        },
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }
    status = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    claim, _ = decode("ResourceClaim", {"status": status})
    assert msgspec.to_builtins(claim)["status"] == status
    device = {
        "name": "x", "attributes": {"a": {"version": "1.0.0"}},
        "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1Gi"}}}],
        "capacity": {"m": {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}}},
        "nodeName": "n", "allNodes": True, "taints": [{"key": "k", "effect": "NoExecute"}], "bindsToNode": True,
        "bindingConditions": ["a"], "bindingFailureConditions": ["b"], "allowMultipleAllocations": True,
    }  # fmt: skip
    spec = {
        "driver": "d", "pool": {"name": "p", "generation": 2, "resourceSliceCount": 1}, "perDeviceNodeSelection": True,
        "devices": [device], "sharedCounters": [{"name": "c", "counters": {"m": {"value": "8Gi"}}}],
    }  # fmt: skip
    written, _ = decode("ResourceSlice", {"spec": spec})
    assert msgspec.to_builtins(written)["spec"] == spec
