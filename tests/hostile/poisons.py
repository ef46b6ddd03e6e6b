"""Objects and requests that were made to hurt: each is accepted by a kube-apiserver, or must be refused as one refuses it.

A poison says what is sent, what the server has to answer, and what is deleted again afterwards. Sizes are the worst that fit
into one object: an API server accepts about 1.5 MiB.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]

NAMESPACE = "hostile"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
NODES = "/api/v1/nodes"
RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

VICTIM_NODE = "hostile-victim"
"""The node that poisons with a nodeName sit on, and whose room must be whole again afterwards."""


@dataclass(frozen=True, slots=True)
class Step:
    """A request, and the status that it must be answered with."""

    method: str
    path: str
    body: Any = None
    code: int = 201
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Poison:
    name: str
    steps: Callable[[], list[Step]]
    placed: tuple[str, ...] = ()
    """Pods of the poison that must get a node all the same."""
    only_up: bool = False
    """Whether it is aimed at the embedded API server and leaves a scheduler cold."""

    def cleaning(self) -> list[Step]:
        """Deletes what the steps create, the last first."""
        created = [step for step in self.steps() if step.method == "POST" and step.code == 201]
        return [_deletion(step) for step in reversed(created)]


def _deletion(step: Step) -> Step:
    return Step("DELETE", f"{step.path}/{step.body['metadata']['name']}", {"gracePeriodSeconds": 0}, 200)


# ---- pods that say too much


def pod(name: str, requests: JsonObject | None = None, **spec: Any) -> JsonObject:
    container: JsonObject = {"name": "c", "image": "registry.example/app:1"}
    if requests is not None:
        container["resources"] = {"requests": requests, "limits": requests}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def _create(*pods: JsonObject) -> list[Step]:
    return [Step("POST", PODS, item) for item in pods]


def _constraints(count: int, when: str) -> list[JsonObject]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": f"hostile.example/key-{number}",
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": f"spread-{number}"}},
        }
        for number in range(count)
    ]


def hard_constraints() -> list[Step]:
    return _create(pod("hard-constraints", topologySpreadConstraints=_constraints(5_000, "DoNotSchedule")))


def soft_constraints() -> list[Step]:
    return _create(pod("soft-constraints", topologySpreadConstraints=_constraints(5_000, "ScheduleAnyway")))


def constraints_on_known_labels() -> list[Step]:
    """One node has every label that the pod's constraints name, so that all of them count."""
    node = _hostile_node("well-labelled")
    node["metadata"]["labels"] = {f"hostile.example/key-{number}": "v" for number in range(5_000)}
    constraints = _constraints(5_000, "DoNotSchedule")
    return [
        Step("POST", NODES, node),
        *_create(
            pod(
                "constraints-on-known-labels",
                topologySpreadConstraints=constraints,
                tolerations=[{"operator": "Exists"}],
            )
        ),
    ]


def _pod_term(number: int) -> JsonObject:
    return {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": f"affine-{number}"}},
    }


def required_anti_affinity() -> list[Step]:
    terms = [_pod_term(number) for number in range(8_000)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return _create(pod("anti-affinity", affinity=affinity))


def required_affinity() -> list[Step]:
    terms = [_pod_term(number) for number in range(8_000)]
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return _create(pod("affinity", affinity=affinity))


def preferred_affinity() -> list[Step]:
    terms = [{"weight": 1 + number % 100, "podAffinityTerm": _pod_term(number)} for number in range(8_000)]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return _create(pod("preferred-affinity", affinity=affinity))


def node_affinity_terms() -> list[Step]:
    terms = [
        {"matchExpressions": [{"key": f"hostile.example/{number}", "operator": "In", "values": [f"v{number}"]}]}
        for number in range(10_000)
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return _create(pod("node-affinity", affinity=affinity))


def node_affinity_values() -> list[Step]:
    values = [f"value-{number}" for number in range(50_000)]
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": values}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    return _create(pod("node-affinity-values", affinity=affinity))


def node_selector() -> list[Step]:
    return _create(pod("node-selector", nodeSelector={f"hostile.example/{n}": "x" for n in range(10_000)}))


def tolerations() -> list[Step]:
    listed = [{"key": f"hostile.example/{n}", "operator": "Exists", "effect": "NoSchedule"} for n in range(10_000)]
    return _create(pod("tolerations", tolerations=listed))


def containers() -> list[Step]:
    item = pod("containers")
    requests = {"cpu": "1n", "memory": "1"}
    item["spec"]["containers"] = [
        {"name": f"c{n}", "image": f"registry.example/{n}:1", "resources": {"requests": requests}} for n in range(8_000)
    ]
    return _create(item)


def host_ports() -> list[Step]:
    item = pod("host-ports")
    item["spec"]["containers"][0]["ports"] = [{"containerPort": n, "hostPort": n} for n in range(1, 20_001)]
    return _create(item)


def extended_resources() -> list[Step]:
    return _create(pod("extended-resources", {f"hostile.example/r{n}": "1" for n in range(5_000)}))


def volumes() -> list[Step]:
    listed = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"missing-{n}"}} for n in range(10_000)]
    return _create(pod("volumes", volumes=listed))


def scheduling_gates() -> list[Step]:
    return _create(pod("gates", schedulingGates=[{"name": f"hostile.example/{n}"} for n in range(10_000)]))


def resource_claims() -> list[Step]:
    """More than 256 are refused by a kube-apiserver only in a claim, not in a pod."""
    listed = [{"name": f"c{n}", "resourceClaimName": f"missing-{n}"} for n in range(10_000)]
    return _create(pod("claims", resourceClaims=listed))


# ---- numbers that do not fit


HUGE = ("9223372036854775807", "9223372036854775808", "1e30", "9E", "99999999999999999999999999")


def huge_requests_of_running_pods() -> list[Step]:
    """Each has one number that is too large beside others that are not: none of them may stay counted."""
    resources = ("cpu", "memory", "ephemeral-storage")
    usual = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
    return _create(
        *(
            pod(f"huge-{resource}-{number}", usual | {resource: huge}, nodeName=VICTIM_NODE)
            for resource in resources
            for number, huge in enumerate(HUGE)
        )
    )


def huge_requests_of_pending_pods() -> list[Step]:
    return _create(*(pod(f"huge-pending-{n}", {"cpu": huge, "memory": huge}) for n, huge in enumerate(HUGE)))


def a_node_with_huge_room() -> list[Step]:
    """The node is repaired while a pod waits for it."""
    huge = {"status": {"allocatable": {"cpu": "0", "memory": HUGE[2], "hostile.example/huge": HUGE[0]}}}
    repaired = {"status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110", "hostile.example/huge": None}}}
    path = f"{NODES}/{VICTIM_NODE}/status"
    waiting = pod(
        "waiting",
        {"cpu": "4"},
        nodeSelector={"kubernetes.io/hostname": VICTIM_NODE},
        tolerations=[{"operator": "Exists"}],
    )
    return [
        Step("PATCH", path, huge, 200, MERGE),
        Step("POST", PODS, waiting),
        Step("PATCH", path, repaired, 200, MERGE),
    ]


# ---- devices


def _device_class(name: str, expression: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _slice(name: str, devices: int) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": f"d{n}", "attributes": {"model": {"string": f"m{n}"}}} for n in range(devices)],
        },
    }


def _claim(name: str, device_class: str) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": device_class}}]}},
    }


def _claiming(name: str, claim: str, requests: JsonObject | None = None) -> JsonObject:
    item = pod(name, requests, resourceClaims=[{"name": "claim", "resourceClaimName": claim}])
    item["spec"]["containers"][0].setdefault("resources", {})["claims"] = [{"name": "claim"}]
    return item


def absent_domains() -> list[Step]:
    """A selector of nearly 10 KiB that asks 284 domains which no device has; 1,000 devices."""
    parts = [f'"a" in device.attributes["{n}.x"]' for n in range(284)]
    expression = "||".join(parts)
    assert len(expression) <= 10 * 1024
    return [
        Step("POST", f"{RESOURCE}/deviceclasses", _device_class("absent.example.com", expression)),
        *(Step("POST", f"{RESOURCE}/resourceslices", _slice(f"absent-{n}", 100)) for n in range(10)),
        Step("POST", CLAIMS, _claim("absent", "absent.example.com")),
        Step("POST", PODS, _claiming("absent-domains", "absent")),
    ]


def a_costly_selector() -> list[Step]:
    """Its cost is near the limit for each of 100 devices, none of which it selects."""
    ten = "[0,1,2,3,4,5,6,7,8,9]"
    inner = 'device.attributes["gpu.example.com"].model == "none"'
    expression = f"{ten}.exists(a,{ten}.exists(b,{ten}.exists(c,{ten}.exists(d,{inner}))))"
    return [
        Step("POST", f"{RESOURCE}/resourceslices", _slice("costly", 100)),
        Step("POST", f"{RESOURCE}/deviceclasses", _device_class("costly.example.com", expression)),
        Step("POST", CLAIMS, _claim("costly", "costly.example.com")),
        Step("POST", PODS, _claiming("costly", "costly")),
    ]


def a_search_without_end() -> list[Step]:
    """16 devices of 60, and then five that agree in an attribute in which only four do: every choice is tried."""
    everything = 'device.driver == "gpu.example.com"'
    claim = _claim("endless", "endless.example.com")
    any_devices, alike = ({"deviceClassName": "endless.example.com", "count": count} for count in (16, 5))
    claim["spec"]["devices"] = {
        "requests": [{"name": "any", "exactly": any_devices}, {"name": "alike", "exactly": alike}],
        "constraints": [{"requests": ["alike"], "matchAttribute": "gpu.example.com/kind"}],
    }
    devices = _slice("endless", 60)
    for number, device in enumerate(devices["spec"]["devices"]):
        device["attributes"]["kind"] = {"string": f"k{number % 15}"}
    return [
        Step("POST", f"{RESOURCE}/deviceclasses", _device_class("endless.example.com", everything)),
        Step("POST", f"{RESOURCE}/resourceslices", devices),
        Step("POST", CLAIMS, claim),
        Step("POST", PODS, _claiming("endless", "endless")),
    ]


def a_shared_claim() -> list[Step]:
    """256 pods, as many as one claim can be reserved for."""
    everything = 'device.driver == "gpu.example.com"'
    return [
        Step("POST", f"{RESOURCE}/deviceclasses", _device_class("shared.example.com", everything)),
        Step("POST", f"{RESOURCE}/resourceslices", _slice("shared", 1)),
        Step("POST", CLAIMS, _claim("shared", "shared.example.com")),
        *(Step("POST", PODS, _claiming(f"sharing-{n}", "shared", {"cpu": "1m"})) for n in range(256)),
    ]


# ---- nodes that say too much


def _hostile_node(name: str, **fields: Any) -> JsonObject:
    status = {"capacity": {"cpu": "1", "pods": "110"}, "allocatable": {"cpu": "1", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status} | fields


def node_labels() -> list[Step]:
    labels = {f"hostile.example/l{n}": f"v{n}" for n in range(10_000)}
    item = _hostile_node("labels")
    item["metadata"]["labels"] = labels
    return [Step("POST", NODES, item)]


def node_taints() -> list[Step]:
    taints = [{"key": f"hostile.example/t{n}", "effect": "NoSchedule"} for n in range(10_000)]
    return [Step("POST", NODES, _hostile_node("taints", spec={"taints": taints}))]


def node_images() -> list[Step]:
    images = [{"names": [f"registry.example/{n}:1"], "sizeBytes": 2**40} for n in range(10_000)]
    item = _hostile_node("images")
    item["status"]["images"] = images
    return [Step("POST", NODES, item)]


def node_resources() -> list[Step]:
    item = _hostile_node("resources")
    room = {f"hostile.example/r{n}": "1" for n in range(5_000)} | {"cpu": "1", "pods": "110"}
    item["status"] = {"capacity": room, "allocatable": room}
    return [Step("POST", NODES, item)]


# ---- requests that hurt an API server


def _config_map(name: str, data_bytes: int) -> JsonObject:
    data = {"blob": "x" * data_bytes}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def a_patch_of_many_containers() -> list[Step]:
    item = pod("many-containers", schedulingGates=[{"name": "hostile.example/hold"}])
    names = [f"c{n}" for n in range(20_000)]
    item["spec"]["containers"] = [{"name": name, "image": "i"} for name in names]
    images = [{"name": name, "image": "j"} for name in names]
    patch = {"spec": {"containers": images}}
    return [Step("POST", PODS, item), Step("PATCH", f"{PODS}/many-containers", patch, 200, STRATEGIC)]


def updates_of_a_large_object() -> list[Step]:
    path = f"{CONFIG_MAPS}/large"
    patches = [Step("PATCH", path, {"metadata": {"labels": {"n": str(n)}}}, 200, MERGE) for n in range(300)]
    return [Step("POST", CONFIG_MAPS, _config_map("large", 1_000_000)), *patches]


def an_object_that_is_too_large() -> list[Step]:
    """No rule for pods forbids the text, but etcd takes no request of more than 1.5 MiB."""
    item = pod("too-large")
    item["spec"]["containers"][0]["env"] = [{"name": "BLOB", "value": "x" * 2_000_000}]
    return [Step("POST", PODS, item, 500)]


def a_quantity_with_a_blank() -> list[Step]:
    """A kube-apiserver trims blanks around a quantity, and refuses those within."""
    return [Step("POST", PODS, pod("blank", {"memory": "1 Mi"}), 400)]


POISONS = [
    Poison("hard-constraints", hard_constraints),
    Poison("soft-constraints", soft_constraints, placed=("soft-constraints",)),
    Poison("constraints-on-known-labels", constraints_on_known_labels, placed=("constraints-on-known-labels",)),
    Poison("required-affinity", required_affinity),
    Poison("required-anti-affinity", required_anti_affinity, placed=("anti-affinity",)),
    Poison("preferred-affinity", preferred_affinity, placed=("preferred-affinity",)),
    Poison("node-affinity-terms", node_affinity_terms),
    Poison("node-affinity-values", node_affinity_values, placed=("node-affinity-values",)),
    Poison("node-selector", node_selector),
    Poison("tolerations", tolerations, placed=("tolerations",)),
    Poison("containers", containers, placed=("containers",)),
    Poison("host-ports", host_ports, placed=("host-ports",)),
    Poison("extended-resources", extended_resources),
    Poison("volumes", volumes),
    Poison("scheduling-gates", scheduling_gates),
    Poison("resource-claims", resource_claims),
    Poison("huge-requests-running", huge_requests_of_running_pods),
    Poison("huge-requests-pending", huge_requests_of_pending_pods),
    Poison("huge-room", a_node_with_huge_room, placed=("waiting",)),
    Poison("absent-domains", absent_domains),
    Poison("costly-selector", a_costly_selector),
    Poison("search-without-end", a_search_without_end),
    Poison("shared-claim", a_shared_claim, placed=tuple(f"sharing-{n}" for n in range(256))),
    Poison("node-labels", node_labels),
    Poison("node-taints", node_taints),
    Poison("node-images", node_images),
    Poison("node-resources", node_resources),
    Poison("patch-of-many-containers", a_patch_of_many_containers, only_up=True),
    Poison("updates-of-a-large-object", updates_of_a_large_object, only_up=True),
    Poison("object-too-large", an_object_that_is_too_large, only_up=True),
    Poison("quantity-with-a-blank", a_quantity_with_a_blank, only_up=True),
]
