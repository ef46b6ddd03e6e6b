"""A pod of a manifest becomes what the API server would make of it: the same rules, once typed and once on JSON."""

from typing import Any

import msgspec
import pytest

from mooring.api.decode import decode
from mooring.api.json_objects import JsonObject
from mooring.api.kinds import RESOURCES
from mooring.apiserver.admission.admit import prepare_create
from mooring.apiserver.admission.object_meta import Lookups
from mooring.apiserver.store import Store
from mooring.inputs.admission import Admission
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

CONTAINER = {"name": "c", "image": "nginx"}
SELECTOR = {"matchLabels": {"app": "web"}}
OTHERS: list[tuple[str, str, JsonObject]] = [
    ("", "namespaces", {"metadata": {"name": "default"}}),
    ("scheduling.k8s.io", "priorityclasses", {"metadata": {"name": "low"}, "value": -5, "globalDefault": True}),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        {"metadata": {"name": "high"}, "value": 9, "preemptionPolicy": "Never"},
    ),
    (
        "",
        "limitranges",
        {
            "metadata": {"name": "l", "namespace": "default"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}, "max": {"cpu": "8"}}]},
        },
    ),
    (
        "node.k8s.io",
        "runtimeclasses",
        {
            "metadata": {"name": "vm"},
            "handler": "h",
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"kvm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
        },
    ),
]
PODS: dict[str, JsonObject] = {
    "a bare one": {},
    "with a priority class": {"priorityClassName": "high"},
    "with a runtime class": {"runtimeClassName": "vm", "nodeSelector": {"disk": "ssd"}},
    "with limits": {"containers": [{**CONTAINER, "resources": {"limits": {"cpu": "100500u", "memory": "2Gi"}}}]},
    "with limits as a whole": {
        "resources": {"limits": {"cpu": "3", "memory": "3Gi"}},
        "containers": [{**CONTAINER, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
    },
    "on the network of its node": {
        "hostNetwork": True,
        "containers": [{**CONTAINER, "ports": [{"containerPort": 80}]}],
    },
    "with volumes": {"volumes": [{"name": "a", "rbd": {"monitors": ["m"], "image": "i"}}, {"name": "b"}]},
    "that tolerates nodes in trouble": {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
    "with label keys": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "zone",
                        "labelSelector": SELECTOR,
                        "matchLabelKeys": ["hash"],
                        "mismatchLabelKeys": ["tenant"],
                    }
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "matchLabelKeys": ["hash"],
            }
        ],
    },
}


def by_the_server(pod: JsonObject) -> Pod:
    store = Store()
    for group, plural, item in OTHERS:
        resource = RESOURCES[group, "v1", plural]
        namespace = item["metadata"].get("namespace", "")
        made = prepare_create(resource, namespace, item, Lookups(store), "", lambda: "u", lambda: "")
        store.create(resource.storage, (namespace, made["metadata"]["name"]), made)
    pods = RESOURCES["", "v1", "pods"]
    return msgspec.convert(prepare_create(pods, "default", pod, Lookups(store), "", lambda: "u", lambda: ""), Pod)


def by_the_simulation(pod: JsonObject) -> Pod:
    read: list[KubeObject] = []
    for kind, item in (("Pod", pod), *((RESOURCES[g, "v1", p].kind, item) for g, p, item in OTHERS)):
        typed, problems = decode(kind, item)
        assert typed is not None and problems == []
        read.append(typed)
    admission = Admission.of(read)
    assert not any(map(admission.admit, read))
    first: Any = read[0]
    assert isinstance(first, Pod)
    return first


@pytest.mark.parametrize("spec", PODS.values(), ids=PODS)
def test_a_pod_is_admitted_in_one_way(spec: JsonObject) -> None:
    labels = {"app": "web", "hash": "abc", "tenant": "t1"}
    pod = {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [CONTAINER], **spec}}
    assert msgspec.to_builtins(by_the_simulation(pod).spec) == msgspec.to_builtins(by_the_server(pod).spec)
