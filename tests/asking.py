"""Requests to the embedded server without a network, and one manifest of each kind that it serves."""

import json
from typing import Any

from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.dispatch import answer
from mooring.apiserver.server.request import Answer, Request
from mooring.apiserver.server.watching import WatchResponse

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY_PATCH = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

Headers = dict[str, str]


def ask(
    api: ResourceApi, method: str, path: str, body: Any = None, content_type: Any = "", accept: Any = "", **query: Any
) -> Answer:
    """What is answered to a request: `ask(api, "GET", PODS, limit=2)`. A body is turned into JSON unless it is bytes."""
    reply = answer(api, _request(method, path, body, content_type, accept, query))
    assert isinstance(reply, Answer), "that is a watch"
    return reply


def begin(api: ResourceApi, path: str, accept: Any = "", **query: Any) -> WatchResponse:
    """A watch that has begun."""
    reply = answer(api, _request("GET", path, None, "", accept, {"watch": "true", **query}))
    assert isinstance(reply, WatchResponse), reply
    return reply


def heard(watch: WatchResponse) -> list[Any]:
    """The events that wait in a watch."""
    return [json.loads(line) for line in watch.take().splitlines()]


def _request(method: str, path: str, body: Any, content_type: str, accept: str, query: dict[str, Any]) -> Request:
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    written = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()}
    return Request(method, path, written, data, content_type, accept, "tests/1.0")


def path_of(resource: KindSpec, name: str = "", part: str = "", namespace: str = "default") -> str:
    """Where a resource, an object of it or a part of that is found."""
    within = f"/namespaces/{namespace}" if resource.namespaced else ""
    return "/".join(filter(None, (f"{resource.path}{within}/{resource.plural}", name, part)))


def a_manifest(name: str = "p", **content: Any) -> dict[str, Any]:
    """A pod of one container; `content` replaces what it names."""
    pod: dict[str, Any] = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    return pod | content


_POD_SPEC = {"containers": [{"name": "main", "image": "x"}]}
_POD_TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "a"}}, "spec": _POD_SPEC}
_WORKLOAD = {"selector": {"matchLabels": {"app": "a"}}, "template": _POD_TEMPLATE}
_JOB_TEMPLATE = {"spec": {**_POD_TEMPLATE["spec"], "restartPolicy": "Never"}}
_EVENT_TIME = "2026-11-15T07:17:46.000123Z"
_CLAIM = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}

_GANG = {"gang": {"minCount": 2}}

_CONTENTS: dict[str, dict[str, Any]] = {
    "podgroups": {"spec": {"schedulingPolicy": _GANG}},
    "compositepodgroups": {
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        }
    },
    "workloads": {"spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": _GANG}]}},
    "leasecandidates": {
        "spec": {
            "leaseName": "kube-scheduler",
            "binaryVersion": "1.37.0",
            "emulationVersion": "1.37.0",
            "strategy": "OldestEmulationVersion",
        }
    },
    "pods": {"spec": _POD_TEMPLATE["spec"]},
    "nodes": {"status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}},
    "services": {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": 8080}]}},
    "replicationcontrollers": {"spec": {"replicas": 1, "selector": {"app": "a"}, "template": _POD_TEMPLATE}},
    "persistentvolumes": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}
    },
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "configmaps": {"data": {"key": "value"}},
    "secrets": {"data": {"key": "dmFsdWU="}},
    "limitranges": {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
    "resourcequotas": {"spec": {"hard": {"pods": "10"}}},
    "deployments": {"spec": {"replicas": 1, **_WORKLOAD}},
    "replicasets": {"spec": {"replicas": 1, **_WORKLOAD}},
    "statefulsets": {"spec": {"replicas": 1, "serviceName": "s", **_WORKLOAD}},
    "daemonsets": {"spec": _WORKLOAD},
    "controllerrevisions": {"revision": 1, "data": {"spec": {}}},
    "jobs": {"spec": {"template": _JOB_TEMPLATE}},
    "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _JOB_TEMPLATE}}}},
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
    "priorityclasses": {"value": 1000},
    "runtimeclasses": {"handler": "runc"},
    "leases": {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}},
    "storageclasses": {"provisioner": "example.com/disk"},
    "csinodes": {"spec": {"drivers": []}},
    "csidrivers": {"spec": {"attachRequired": False}},
    "csistoragecapacities": {"storageClassName": "fast", "capacity": "1Gi"},
    "volumeattachments": {
        "spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    "resourceclaims": {"spec": _CLAIM},
    "resourceclaimtemplates": {"spec": {"spec": _CLAIM}},
    "deviceclasses": {"spec": {}},
    "devicetaintrules": {"spec": {"taint": {"key": "broken", "effect": "NoSchedule"}}},
    "resourceslices": {
        "spec": {
            "driver": "example.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }
    },
}
_REPORT = {"reportingInstance": "tests-1", "action": "Testing", "reason": "Tested", "type": "Normal"}
_EVENTS: dict[str, dict[str, Any]] = {
    "": {
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "eventTime": _EVENT_TIME,
        "reportingComponent": "tests",
        "message": "It was tested",
        **_REPORT,
    },
    "events.k8s.io": {
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        "eventTime": _EVENT_TIME,
        "reportingController": "tests",
        "note": "It was tested",
        **_REPORT,
    },
}


def a_body(resource: KindSpec, name: str = "x") -> dict[str, Any]:
    """A manifest that this resource takes."""
    content = _EVENTS[resource.group] if resource.plural == "events" else _CONTENTS.get(resource.plural, {})
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, **content}
    return json.loads(json.dumps(body))  # type: ignore[no-any-return]


def the(plural: str, group: str | None = None) -> KindSpec:
    """A resource by its plural name; the first one where two groups have it."""
    return next(r for r in RESOURCES.values() if r.plural == plural and group in (None, r.group))
