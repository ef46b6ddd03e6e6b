"""Objects that say a lot, one builder for each thing that an object may have many of: `build(n)` gives n entries.

A builder answers with a `Large`: the object itself, and what has to be in the cluster for it to make sense.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
RESOURCE_API = "resource.k8s.io/v1"
CAPACITY = {"pods": "110", "cpu": "32", "memory": "256Gi"}


@dataclass(frozen=True, slots=True)
class Large:
    """The object, and what comes before it."""

    item: JsonObject
    before: list[JsonObject] = field(default_factory=list)


def an_object(kind: str, name: str, api_version: str = "v1", **content: Any) -> JsonObject:
    metadata = {"name": name, "uid": f"uid-{kind}-{name}", "resourceVersion": "1", **content.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def a_container(name: str = "main", **content: Any) -> JsonObject:
    return {"name": name, "image": "registry.example/pause:3.10", **content}


def a_pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    metadata = {"namespace": "default", "labels": labels or {"app": "web"}, **spec.pop("metadata", {})}
    container = a_container(resources={"requests": {"cpu": "100m", "memory": "100Mi"}})
    whole = {"schedulerName": "default-scheduler", "containers": [container], **spec}
    return an_object("Pod", name, metadata=metadata, spec=whole, status={"phase": "Pending"})


def a_node(name: str, zone: int = 0, **content: Any) -> JsonObject:
    labels = {HOST: name, ZONE: f"zone-{zone}", **content.pop("labels", {})}
    allocatable = {**CAPACITY, **content.pop("allocatable", {})}
    status = {"capacity": allocatable, "allocatable": allocatable, **content.pop("status", {})}
    return an_object("Node", name, metadata={"labels": labels}, spec=content, status=status)


def _large_pod(**spec: Any) -> Large:
    return Large(a_pod("large", priority=1000, **spec))


def _large_node(**content: Any) -> Large:
    return Large(a_node("large", **content))


# ---- PodTopologySpread


def _constraints(n: int, action: str, key: Callable[[int], str]) -> list[JsonObject]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": key(i),
            "whenUnsatisfiable": action,
            "labelSelector": {"matchExpressions": [{"key": "other", "operator": "NotIn", "values": [f"v{i}"]}]},
        }
        for i in range(n)
    ]


def hard_spread(n: int) -> Large:
    return _large_pod(topologySpreadConstraints=_constraints(n, "DoNotSchedule", lambda i: f"key-{i}"))


def soft_spread(n: int) -> Large:
    return _large_pod(topologySpreadConstraints=_constraints(n, "ScheduleAnyway", lambda i: f"key-{i}"))


def hard_spread_after_host(n: int) -> Large:
    """The first constraint is about a label that nodes have, so that preemption looks at them."""
    constraints = _constraints(n, "DoNotSchedule", lambda i: HOST if i == 0 else f"key-{i}")
    return _large_pod(topologySpreadConstraints=constraints)


def hard_spread_of_a_labelled_node(n: int) -> Large:
    """There is a node that has all the labels."""
    node = a_node("labelled", labels={f"key-{i}": "v" for i in range(n)})
    return Large(hard_spread(n).item, [node])


def soft_spread_of_a_labelled_node(n: int) -> Large:
    node = a_node("labelled", labels={f"key-{i}": "v" for i in range(n)})
    return Large(soft_spread(n).item, [node])


def spread_match_label_keys(n: int) -> Large:
    constraint = {**_constraints(1, "DoNotSchedule", lambda i: ZONE)[0], "matchLabelKeys": [f"l{i}" for i in range(n)]}
    return Large(a_pod("large", {f"l{i}": "v" for i in range(n)}, topologySpreadConstraints=[constraint]))


# ---- affinity


def _selector(i: int) -> JsonObject:
    return {"matchExpressions": [{"key": "other", "operator": "NotIn", "values": [f"v{i}"]}]}


def _terms(n: int, key: Callable[[int], str] = lambda i: ZONE) -> list[JsonObject]:
    return [{"labelSelector": _selector(i), "topologyKey": key(i)} for i in range(n)]


def _weighted(terms: list[JsonObject]) -> list[JsonObject]:
    return [{"weight": 1 + i % 100, "podAffinityTerm": term} for i, term in enumerate(terms)]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(n: int) -> Large:
    return _large_pod(affinity={"podAffinity": {REQUIRED: _terms(n)}})


def anti_affinity(n: int) -> Large:
    return _large_pod(affinity={"podAntiAffinity": {REQUIRED: _terms(n)}})


def anti_affinity_of_keys(n: int) -> Large:
    return _large_pod(affinity={"podAntiAffinity": {REQUIRED: _terms(n, lambda i: f"key-{i}")}})


def preferred_affinity(n: int) -> Large:
    return _large_pod(affinity={"podAffinity": {PREFERRED: _weighted(_terms(n))}})


def preferred_anti_affinity(n: int) -> Large:
    return _large_pod(affinity={"podAntiAffinity": {PREFERRED: _weighted(_terms(n, lambda i: HOST))}})


def affinity_namespaces(n: int) -> Large:
    term = {"labelSelector": {}, "topologyKey": ZONE, "namespaces": [f"ns-{i}" for i in range(n)]}
    return _large_pod(affinity={"podAntiAffinity": {REQUIRED: [term]}})


def affinity_selector(n: int) -> Large:
    lines = [{"key": f"key-{i}", "operator": "DoesNotExist"} for i in range(n)]
    term = {"labelSelector": {"matchExpressions": lines}, "topologyKey": ZONE}
    return _large_pod(affinity={"podAffinity": {REQUIRED: [term]}})


def affinity_values(n: int) -> Large:
    line = {"key": "app", "operator": "In", "values": ["web", *(f"v{i}" for i in range(n))]}
    term = {"labelSelector": {"matchExpressions": [line]}, "topologyKey": ZONE}
    return _large_pod(affinity={"podAffinity": {REQUIRED: [term]}})


def node_terms(n: int) -> Large:
    terms = [{"matchExpressions": [{"key": f"key-{i}", "operator": "In", "values": ["v"]}]} for i in range(n)]
    terms.append({"matchExpressions": [{"key": ZONE, "operator": "Exists"}]})
    return _large_pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def node_expressions(n: int) -> Large:
    term = {"matchExpressions": [{"key": f"key-{i}", "operator": "DoesNotExist"} for i in range(n)]}
    return _large_pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})


def node_values(n: int) -> Large:
    line = {"key": HOST, "operator": "NotIn", "values": [f"v{i}" for i in range(n)]}
    return _large_pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}})


def node_names(n: int) -> Large:
    """Terms that each name a node."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"node-{i}"]}]} for i in range(n)]
    return _large_pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def preferred_node_terms(n: int) -> Large:
    preferred = [
        {
            "weight": 1 + i % 100,
            "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"v{i}"]}]},
        }
        for i in range(n)
    ]
    return _large_pod(affinity={"nodeAffinity": {PREFERRED: preferred}})


def node_selector(n: int) -> Large:
    return _large_pod(nodeSelector={f"key-{i}": "v" for i in range(n)})


# ---- containers, and what else a pod lists


def containers(n: int) -> Large:
    asks = {"resources": {"requests": {"cpu": "1m", "memory": "1Ki"}}}
    return _large_pod(containers=[a_container(f"c{i}", image=f"image-{i}", **asks) for i in range(n)])


def init_containers(n: int) -> Large:
    asks = {"resources": {"requests": {"cpu": "1m", "memory": "1Ki"}}}
    sidecar = {"restartPolicy": "Always"}
    return _large_pod(
        initContainers=[
            a_container(f"c{i}", image=f"image-{i}", **asks, **(sidecar if i % 2 else {})) for i in range(n)
        ]
    )


def sidecar_resources(n: int) -> Large:
    """Each sidecar requests a resource of its own: at each of them as many are in use as came before it."""
    asks = [{"resources": {"requests": {f"example.com/r{i}": "1"}}} for i in range(n)]
    return _large_pod(
        initContainers=[a_container(f"c{i}", restartPolicy="Always", **ask) for i, ask in enumerate(asks)]
    )


def host_ports(n: int) -> Large:
    ports = [{"hostPort": 1 + i, "containerPort": 1 + i, "protocol": "TCP"} for i in range(n)]
    return _large_pod(containers=[a_container(ports=ports)])


def extended_resources(n: int) -> Large:
    return _large_pod(containers=[a_container(resources={"requests": {f"example.com/r{i}": "1" for i in range(n)}})])


def tolerations(n: int) -> Large:
    taints = [{"key": f"t{i}", "value": "v", "effect": "PreferNoSchedule"} for i in range(20)]
    listed = [{"key": f"key-{i}", "operator": "Equal", "value": "v", "effect": "NoSchedule"} for i in range(n)]
    return Large(_large_pod(tolerations=listed).item, [a_node("tainted", taints=taints)])


def tolerations_of_as_many_taints(n: int) -> Large:
    taints = [{"key": f"key-{i}", "value": "v", "effect": "NoSchedule"} for i in range(n)]
    listed = [{"key": f"key-{i}", "operator": "Equal", "value": "v", "effect": "NoSchedule"} for i in range(n)]
    return Large(_large_pod(tolerations=listed).item, [a_node("tainted", taints=taints)])


def scheduling_gates(n: int) -> Large:
    return _large_pod(schedulingGates=[{"name": f"example.com/g{i}"} for i in range(n)])


def pod_labels(n: int) -> Large:
    return Large(a_pod("large", {"app": "web", **{f"l{i}": "v" for i in range(n)}}))


def owner_references(n: int) -> Large:
    owners = [{"apiVersion": "v1", "kind": "Thing", "name": f"o{i}", "uid": f"u{i}"} for i in range(n)]
    return Large(a_pod("large", metadata={"ownerReferences": owners}))


def pod_conditions(n: int) -> Large:
    large = a_pod("large")
    large["status"]["conditions"] = [{"type": f"example.com/c{i}", "status": "True"} for i in range(n)]
    return Large(large)


# ---- volumes


def _claim(i: int, volume: str = "") -> JsonObject:
    spec: JsonObject = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    status = {"phase": "Pending"}
    annotations = {}
    if volume:
        spec["volumeName"], status["phase"] = volume, "Bound"
        annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    metadata = {"namespace": "default", "annotations": annotations}
    return an_object("PersistentVolumeClaim", f"claim-{i}", metadata=metadata, spec=spec, status=status)


def _volume(i: int, claim: str = "") -> JsonObject:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-0", "zone-1"]}]}
    spec: JsonObject = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "csi": {"driver": "disk.example.com", "volumeHandle": f"handle-{i}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    if claim:
        spec["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": claim,
            "uid": f"uid-PersistentVolumeClaim-{claim}",
        }
    return an_object("PersistentVolume", f"volume-{i}", spec=spec, status={"phase": "Bound" if claim else "Available"})


def _storage_class(provisioner: str = "kubernetes.io/no-provisioner") -> JsonObject:
    content = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return an_object("StorageClass", "late", "storage.k8s.io/v1", **content)


def _claim_volumes(n: int) -> list[JsonObject]:
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"claim-{i}"}} for i in range(n)]


def plain_volumes(n: int) -> Large:
    return _large_pod(volumes=[{"name": f"v{i}", "emptyDir": {}} for i in range(n)])


def disk_volumes(n: int) -> Large:
    return _large_pod(volumes=[{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"disk-{i}"}} for i in range(n)])


def csi_volumes(n: int) -> Large:
    return _large_pod(volumes=[{"name": f"v{i}", "csi": {"driver": f"d{i}.example.com"}} for i in range(n)])


def bound_claims(n: int) -> Large:
    volumes = [_volume(i, f"claim-{i}") for i in range(n)]
    before = [_storage_class(), *volumes, *(_claim(i, f"volume-{i}") for i in range(n))]
    return Large(_large_pod(volumes=_claim_volumes(n)).item, before)


def unbound_claims(n: int) -> Large:
    before = [_storage_class(), *(_volume(i) for i in range(n)), *(_claim(i) for i in range(n))]
    return Large(_large_pod(volumes=_claim_volumes(n)).item, before)


def provisioned_claims(n: int) -> Large:
    before = [_storage_class("disk.example.com"), *(_claim(i) for i in range(n))]
    return Large(_large_pod(volumes=_claim_volumes(n)).item, before)


def volume_terms(n: int) -> Large:
    """One volume whose node affinity has many terms."""
    volume = _volume(0, "claim-0")
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"node-{i}"]}]} for i in range(n)]
    volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    before = [_storage_class(), volume, _claim(0, "volume-0")]
    return Large(_large_pod(volumes=_claim_volumes(1)).item, before)


# ---- devices


def _device_class() -> JsonObject:
    return an_object("DeviceClass", "gpu", RESOURCE_API, spec={})


def _devices(n: int) -> list[JsonObject]:
    return [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}} for i in range(n)]


def _slice(devices: list[JsonObject], node: str = "node-0") -> JsonObject:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "devices": devices, "nodeName": node}
    return an_object("ResourceSlice", f"{node}-gpus", RESOURCE_API, spec=spec)


def _device_claim(name: str, requests: list[JsonObject]) -> JsonObject:
    spec = {"devices": {"requests": requests}}
    return an_object("ResourceClaim", name, RESOURCE_API, metadata={"namespace": "default"}, spec=spec)


def _ask(count: int = 1) -> JsonObject:
    return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}


def _pod_with_claims(names: list[str]) -> JsonObject:
    return _large_pod(resourceClaims=[{"name": name, "resourceClaimName": name} for name in names]).item


def claim_requests(n: int) -> Large:
    claim = _device_claim("claim", [{"name": f"r{i}", "exactly": _ask()} for i in range(n)])
    return Large(_pod_with_claims(["claim"]), [_device_class(), _slice(_devices(8)), claim])


def resource_claims(n: int) -> Large:
    claims = [_device_claim(f"claim-{i}", [{"name": "r", "exactly": _ask()}]) for i in range(n)]
    before = [_device_class(), _slice(_devices(n)), *claims]
    return Large(_pod_with_claims([f"claim-{i}" for i in range(n)]), before)


def too_many_resource_claims(n: int) -> Large:
    """There are not enough devices, so the search for them is given up."""
    return Large(resource_claims(n).item, [*resource_claims(n).before[2:], _device_class(), _slice(_devices(8))])


def slice_devices(n: int) -> Large:
    claim = _device_claim("claim", [{"name": "r", "exactly": _ask()}])
    return Large(_pod_with_claims(["claim"]), [_device_class(), _slice(_devices(n)), claim])


def many_devices_wanted(n: int) -> Large:
    claim = _device_claim("claim", [{"name": "r", "exactly": _ask(n)}])
    return Large(_pod_with_claims(["claim"]), [_device_class(), _slice(_devices(n)), claim])


# ---- nodes


def node_labels(n: int) -> Large:
    return _large_node(labels={f"l{i}": "v" for i in range(n)})


def node_taints(n: int) -> Large:
    return _large_node(taints=[{"key": f"t{i}", "value": "v", "effect": "NoSchedule"} for i in range(n)])


def node_soft_taints(n: int) -> Large:
    return _large_node(taints=[{"key": f"t{i}", "value": "v", "effect": "PreferNoSchedule"} for i in range(n)])


def node_images(n: int) -> Large:
    images = [{"names": [f"image-{i}:latest"], "sizeBytes": 1000 + i} for i in range(n)]
    return _large_node(status={"images": images})


def node_resources(n: int) -> Large:
    return _large_node(allocatable={f"example.com/r{i}": "1" for i in range(n)})


def node_resources_wanted(n: int) -> Large:
    """One node has all the resources, and the pod requests them all."""
    return Large(extended_resources(n).item, [node_resources(n).item])


def node_features(n: int) -> Large:
    return _large_node(status={"declaredFeatures": [f"Feature{i}" for i in range(n)]})


# ---- others


def budget_selector(n: int) -> Large:
    lines = [{"key": f"key-{i}", "operator": "DoesNotExist"} for i in range(n)]
    spec = {"selector": {"matchExpressions": lines}, "minAvailable": 1}
    metadata = {"namespace": "default"}
    budget = an_object("PodDisruptionBudget", "large", "policy/v1", metadata=metadata, spec=spec, status={})
    return Large(budget)


def service_selector(n: int) -> Large:
    spec = {"selector": {f"l{i}": "v" for i in range(n)}}
    return Large(an_object("Service", "large", metadata={"namespace": "default"}, spec=spec))


def namespace_labels(n: int) -> Large:
    return Large(an_object("Namespace", "large", metadata={"labels": {f"l{i}": "v" for i in range(n)}}))


DIMENSIONS: dict[str, Callable[[int], Large]] = {
    build.__name__: build
    for build in (
        *(hard_spread, soft_spread, hard_spread_after_host, spread_match_label_keys),
        *(hard_spread_of_a_labelled_node, soft_spread_of_a_labelled_node),
        *(affinity, anti_affinity, anti_affinity_of_keys, preferred_affinity, preferred_anti_affinity),
        *(affinity_namespaces, affinity_selector, affinity_values),
        *(node_terms, node_expressions, node_values, node_names, preferred_node_terms, node_selector),
        *(containers, init_containers, sidecar_resources, host_ports, extended_resources),
        *(tolerations, tolerations_of_as_many_taints, scheduling_gates, pod_labels, owner_references, pod_conditions),
        *(plain_volumes, disk_volumes, csi_volumes, bound_claims, unbound_claims, provisioned_claims, volume_terms),
        *(claim_requests, resource_claims, too_many_resource_claims, slice_devices, many_devices_wanted),
        *(
            node_labels,
            node_taints,
            node_soft_taints,
            node_images,
            node_resources,
            node_resources_wanted,
            node_features,
        ),
        *(budget_selector, service_selector, namespace_labels),
    )
}
