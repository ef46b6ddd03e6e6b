"""One hostile text in every field of objects that takes it, and a cluster of such objects.

A field takes the text if an object with it passes validation, which is that of the API server: the list of fields is found,
not written.
"""

import copy
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mooring.inputs.manifests import read

MARK = "HOSTILE"
FORGED = "FORGED"
HOSTILE = (
    f"={MARK}\x1b]0;owned\x07\x1b[31m\r\n{FORGED} line\u2028{FORGED}\x85{FORGED}\x0b{FORGED}"
    "\x9b2J\u202etxt\u2066\u200b\ufeff\U000e0041\u3164\ufe0f\xa0"
    "</script></style></title><svg onload=alert(3)><a href=javascript:alert(4)>"
    "[red]markup[/red][link=http://x]y[/link]<img src=x onerror=alert(1)><script>alert(2)</script>'\"\\`$(id)%s{0}\x7f\x00"
)
"""A formula, escape sequences, line ends, characters that hide and reorder, markup of three kinds, and quotes."""

Leaf = tuple[str | int, ...]

_CONTAINER = {
    "name": "c",
    "image": "web",
    "env": [{"name": "A", "value": "b"}],
    "command": ["run"],
    "resources": {"requests": {"cpu": "1"}},
}
_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "pod",
        "namespace": "default",
        "labels": {"app": "web"},
        "annotations": {"note": "text"},
        "generateName": "pod-",
        "finalizers": ["example.com/keep"],
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": True}
        ],
    },
    "spec": {
        "schedulerName": "default-scheduler",
        "priorityClassName": "",
        "serviceAccountName": "default",
        "hostname": "h",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}],
        "containers": [_CONTAINER],
        "volumes": [{"name": "w", "hostPath": {"path": "/tmp"}}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
    },
    "status": {
        "phase": "Pending",
        "reason": "r",
        "message": "m",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}],
    },
}
_NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node", "labels": {"disk": "ssd", "zone": "a"}, "annotations": {"note": "text"}},
    "spec": {"providerID": "cloud://1", "taints": [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}],
        "images": [{"names": ["web"], "sizeBytes": 1}],
        "nodeInfo": {"osImage": "linux"},
    },
}
_OTHERS: list[dict[str, Any]] = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "claimer", "namespace": "default"},
        "spec": {
            "containers": [_CONTAINER],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}],
            "resourceClaims": [{"name": "device", "resourceClaimName": "devices"}],
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "devices", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "one",
                        "exactly": {
                            "deviceClassName": "gpu",
                            "selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
                        },
                    }
                ]
            }
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "slice"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node",
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "big"}}}],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim", "namespace": "default", "annotations": {"note": "text"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "gone",
            "volumeName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu", "annotations": {"note": "text"}},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "deployment", "namespace": "default", "annotations": {"note": "text"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [_CONTAINER]}},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "event", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "pod", "uid": ""},
        "reason": "FailedScheduling",
        "message": "no room",
        "type": "Warning",
        "reportingComponent": "default-scheduler",
    },
]


def leaves(item: Any, path: Leaf = ()) -> Iterator[Leaf]:
    """Where an object has text."""
    below = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    for key, value in below:
        yield from leaves(value, (*path, key))
    if isinstance(item, str):
        yield path


def with_text(item: dict[str, Any], path: Leaf, text: str) -> dict[str, Any]:
    changed = copy.deepcopy(item)
    there: Any = changed
    for step in path[:-1]:
        there = there[step]
    there[path[-1]] = text
    return changed


def hostile_variants(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The object with the hostile text in one field after another, as far as validation accepts it; each has a name of its
    own."""
    for number, path in enumerate(leaves(item)):
        if path in (("kind",), ("apiVersion",), ("metadata", "name")):
            continue
        name = f"{item['metadata']['name']}-{number}"
        changed = with_text(with_text(item, path, HOSTILE), ("metadata", "name"), name)
        if not problems(changed):
            yield changed


def problems(*items: dict[str, Any]) -> list[Any]:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    return read(["-"], io.BytesIO(text)).problems


def hostile_objects() -> list[dict[str, Any]]:
    """Three nodes, pods that fit and pods that do not, and other objects, all with hostile texts."""
    huge = with_text(_POD, ("spec", "containers", 0, "resources", "requests", "cpu"), "99")
    plain = [_POD, _NODE, *_OTHERS, with_text(huge, ("metadata", "name"), "huge")]
    return [*plain, *(each for item in (_POD, _NODE, *_OTHERS) for each in hostile_variants(item))]


PLUGIN = f"""
from mooring.framework.contract.plain import PlainPlugin

HOSTILE = {HOSTILE!r}


class Hostile(PlainPlugin):
    name = "Hostile"

    def filter(self, pod, node):
        if pod.name == "huge":
            raise ValueError(HOSTILE)
        return HOSTILE if pod.name == "pod" else None
"""
"""A plugin that rejects one pod with the text, and raises it for another."""


def write_world(folder: Path) -> Path:
    """The cluster as a file, whose name is hostile too."""
    path = folder / "cluster\x1b]0;owned\x07.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": hostile_objects()}))
    return path
