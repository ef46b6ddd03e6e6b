"""Defaults of pods and of templates, as pkg/apis/core/v1/defaults.go of v1.36 and its generated part have them."""

import copy
from typing import Any

import pytest

from mooring.api.json_objects import JsonObject
from mooring.rules.pod_defaults import complete_pod, complete_pod_spec, complete_whole

ROWS: dict[str, tuple[JsonObject, tuple[Any, ...], Any]] = {
    "the pool of an rbd volume": (
        {"volumes": [{"name": "v", "rbd": {"image": "i"}}]},
        ("volumes", 0, "rbd"),
        {"image": "i", "pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    ),
    "the interface of an iscsi volume": (
        {"volumes": [{"name": "v", "iscsi": {"iqn": "q", "iscsiInterface": ""}}]},
        ("volumes", 0, "iscsi"),
        {"iqn": "q", "iscsiInterface": "default"},
    ),
    "an azure disk": (
        {"volumes": [{"name": "v", "azureDisk": {"diskURI": "u", "readOnly": True}}]},
        ("volumes", 0, "azureDisk"),
        {"diskURI": "u", "readOnly": True, "cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared"},
    ),
    "an image volume without tag is pulled each time": (
        {"volumes": [{"name": "v", "image": {"reference": "r/i"}}]},
        ("volumes", 0, "image", "pullPolicy"),
        "Always",
    ),
    "the claim of an ephemeral volume": (
        {
            "volumes": [
                {
                    "name": "v",
                    "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1u"}}}}},
                }
            ]
        },
        ("volumes", 0, "ephemeral", "volumeClaimTemplate", "spec"),
        {"resources": {"requests": {"storage": "1m"}}, "volumeMode": "Filesystem"},
    ),
    "limits of the pod as a whole are rounded up": (
        {"resources": {"limits": {"cpu": "0.1m"}}},
        ("resources",),
        {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}},
    ),
    "v1.37, 1.2: what containers ask for is rounded before it is added up": (
        {
            "resources": {"limits": {"cpu": "1"}},
            "containers": [{"name": n, "resources": {"requests": {"cpu": "500u"}}} for n in "ab"],
        },
        ("resources", "requests"),
        {"cpu": "2m"},
    ),
    "hugepages of the containers are limits and requests of the pod": (
        {
            "resources": {"requests": {"cpu": "1"}},
            "containers": [{"name": n, "resources": {"limits": {"hugepages-2Mi": "4194304"}}} for n in "ab"],
        },
        ("resources",),
        {"limits": {"hugepages-2Mi": "8388608"}, "requests": {"cpu": "1", "hugepages-2Mi": "8388608"}},
    ),
    "v1.37, 1.2: hugepages that the pod asks for are a limit if all containers have one": (
        {
            "resources": {"requests": {"hugepages-2Mi": "4194304"}},
            "containers": [{"name": "a", "resources": {"limits": {"hugepages-2Mi": "2097152"}}}],
        },
        ("resources",),
        {"requests": {"hugepages-2Mi": "4194304"}, "limits": {"hugepages-2Mi": "4194304"}},
    ),
    "v1.37, 1.2: requests of containers are requests of the pod, even if it has no limits": (
        {
            "resources": {"requests": {"cpu": "3"}},
            "containers": [
                {"name": "a", "resources": {"limits": {"memory": "1Mi", "cpu": "1"}}},
                {"name": "b", "resources": {"limits": {"memory": "1Mi"}}},
            ],
        },
        ("resources",),
        {"requests": {"cpu": "3", "memory": "2097152"}, "limits": {"memory": "2097152"}},
    ),
    "v1.37, 1.2: resources of a pod that are empty stay so": (
        {"resources": {}, "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]},
        ("resources",),
        {},
    ),
    "a container that is added later": (
        {"ephemeralContainers": [{"name": "e", "image": "i:1"}]},
        ("ephemeralContainers", 0),
        {
            "name": "e",
            "image": "i:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        },
    ),
}


@pytest.mark.parametrize(("spec", "path", "expected"), ROWS.values(), ids=ROWS)
def test_a_pod_is_completed(spec: JsonObject, path: tuple[Any, ...], expected: Any) -> None:
    pod = {"spec": copy.deepcopy({"containers": [{"name": "c"}], **spec})}
    complete_pod(pod)
    complete_whole(pod["spec"])
    found: Any = pod["spec"]
    for part in path:
        found = found[part]
    assert found == expected
    again = copy.deepcopy(pod)
    complete_pod(again)
    complete_whole(again["spec"])
    assert again == pod


def test_requests_host_ports_and_service_links_are_for_pods_and_not_for_templates() -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "0.1m"}}, "ports": [{"containerPort": 80}]}
    template: JsonObject = {"hostNetwork": True, "containers": [copy.deepcopy(container)]}
    pod: JsonObject = {"spec": copy.deepcopy(template)}
    complete_pod_spec(template)
    complete_pod(pod)
    assert "enableServiceLinks" not in template and pod["spec"]["enableServiceLinks"] is True
    kept, made = template["containers"][0], pod["spec"]["containers"][0]
    assert (kept["resources"], kept["ports"]) == (
        {"limits": {"cpu": "1m"}},
        [{"containerPort": 80, "protocol": "TCP"}],
    )
    assert (made["resources"], made["ports"]) == (
        {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}},
        [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
    )
