"""v1.37, 1.2 to 1.5 and 22: new fields of pods, nodes, devices and Jobs, the gates that drop them, the fields that a status
update keeps, and the names in bindings."""

from dataclasses import replace
from typing import Any

import pytest

from asking import MERGE_PATCH, PODS, a_manifest, ask
from cluster_api import an_api
from mooring.api.json_objects import JsonObject, value_at
from mooring.apiserver.resource_api import ResourceApi

NODES, SLICES = "/api/v1/nodes", "/apis/resource.k8s.io/v1/resourceslices"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads"
CLAIM_URL = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
STRATEGIC = "application/strategic-merge-patch+json"


def a_pod(**spec: Any) -> JsonObject:
    return a_manifest("p", spec={"containers": [{"name": "c", "image": "i"}], **spec})


def with_container(**more: Any) -> JsonObject:
    return a_pod(containers=[{"name": "c", "image": "i", **more}])


def a_slice(**more: Any) -> JsonObject:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": "s"}, "spec": {"driver": "d.x", "pool": pool, "nodeName": "n", **more}}


def a_job(**spec: Any) -> JsonObject:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": "j"}, "spec": {"template": template, "parallelism": 3, **spec}}


RESPONDER = {"name": "example.com/r", "priority": 10_000}
POLICY = {"disableResizePreemption": ["example.com/autoscaler"]}
COUNTERS = {"counterSet": "set", "counters": {"a": {"value": "1"}}, "compatibilityGroups": ["g"]}
GANG: JsonObject = {"schedulingPolicy": {"gang": {"minCount": 2}}}
LEAF: JsonObject = {"name": "leaf", **GANG}
TREE: JsonObject = {"name": "t", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [LEAF]}
MOUNT = {"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}
VOLUMES = [{"name": "v", "emptyDir": {"mode": 448}}]
FILES = [{"name": "v", "configMap": {"name": "m", "defaultUser": 7, "items": [{"key": "k", "path": "p", "user": 8}]}}]

GATED: dict[str, tuple[str, str, JsonObject, str]] = {
    "eviction responders": (
        "EvictionRequestAPI",
        PODS,
        a_pod(evictionResponders=[RESPONDER]),
        "spec.evictionResponders",
    ),
    "the mode of an emptyDir": ("EmptyDirVolumeMode", PODS, a_pod(volumes=VOLUMES), "spec.volumes.0.emptyDir.mode"),
    "options of mounts": (
        "VolumeBindMountOptions",
        PODS,
        a_pod(
            containers=[{"name": "c", "image": "i", "volumeMounts": [MOUNT]}], volumes=[{"name": "v", "emptyDir": {}}]
        ),
        "spec.containers.0.volumeMounts.0.bindMountOptions",
    ),
    "the protocol of a probe": (
        "H2CContainerProbe",
        PODS,
        with_container(livenessProbe={"httpGet": {"port": 80, "protocol": "H2C"}}),
        "spec.containers.0.livenessProbe.httpGet.protocol",
    ),
    "the mode of a probe": (
        "GRPCContainerProbeTLS",
        PODS,
        with_container(readinessProbe={"grpc": {"port": 80, "mode": "TLS"}}),
        "spec.containers.0.readinessProbe.grpc.mode",
    ),
    "the user of a volume": (
        "AtomicWriteVolumeUserFields",
        PODS,
        a_pod(volumes=FILES),
        "spec.volumes.0.configMap.defaultUser",
    ),
    "the user of a file": (
        "AtomicWriteVolumeUserFields",
        PODS,
        a_pod(volumes=FILES),
        "spec.volumes.0.configMap.items.0.user",
    ),
    "resize preemption of a node": (
        "InPlacePodVerticalScalingSchedulerPreemption",
        NODES,
        {"metadata": {"name": "n"}, "spec": {"podPreemptionPolicy": POLICY}},
        "spec.podPreemptionPolicy",
    ),
    "the scheduling of a Job": ("WorkloadWithJob", JOBS, a_job(scheduling=GANG), "spec.scheduling"),
    "templates of pods": (
        "EvictionRequestAPI",
        DEPLOYMENTS,
        {
            "metadata": {"name": "d"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}], "evictionResponders": [RESPONDER]},
                },
            },
        },
        "spec.template.spec.evictionResponders",
    ),
    "node operations of a slice": (
        "DRAOptionalNodeOperations",
        SLICES,
        a_slice(skipNodeOperations=["*"]),
        "spec.skipNodeOperations",
    ),
    "the attribute of partitions": (
        "DRAPartitionableDevicesType",
        SLICES,
        a_slice(
            partitionTypeAttribute="d.x/type",
            devices=[{"name": "a", "attributes": {"type": {"string": "half"}}, "consumesCounters": [COUNTERS]}],
        ),
        "spec.partitionTypeAttribute",
    ),
    "resources of the node": (
        "DRANodeAllocatableResources",
        SLICES,
        a_slice(devices=[{"name": "a", "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "2"}}}}]),
        "spec.devices.0.nodeAllocatableResources",
    ),
    "compatibility groups": (
        "DRADeviceCompatibilityGroups",
        SLICES,
        a_slice(devices=[{"name": "a", "consumesCounters": [COUNTERS]}]),
        "spec.devices.0.consumesCounters.0.compatibilityGroups",
    ),
    "the topology of a group": (
        "TopologyAwareWorkloadScheduling",
        GROUPS,
        {"metadata": {"name": "g"}, "spec": {**GANG, "schedulingConstraints": {"topology": [{"key": "rack"}]}}},
        "spec.schedulingConstraints",
    ),
    "claims of a group": (
        "DRAWorkloadResourceClaims",
        GROUPS,
        {"metadata": {"name": "g"}, "spec": {**GANG, "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}},
        "spec.resourceClaims",
    ),
    "the parent of a group": (
        "CompositePodGroup",
        GROUPS,
        {
            "metadata": {"name": "g"},
            "spec": {
                **GANG,
                "parentCompositePodGroupName": "c",
                "workloadRef": {"workloadName": "w", "templateName": "t"},
            },
        },
        "spec.parentCompositePodGroupName",
    ),
    "the policy of a template": (
        "PodGroupPreemptionPolicy",
        WORKLOADS,
        {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [{**LEAF, "preemptionPolicy": "Never"}]}},
        "spec.podGroupTemplates.0.preemptionPolicy",
    ),
}


def found_at(item: Any, path: str) -> Any:
    for name in path.split("."):
        if item is None:
            return None
        item = item[int(name)] if name.isdigit() else item.get(name)
    return item


@pytest.mark.parametrize(("gate", "url", "item", "path"), GATED.values(), ids=GATED)
def test_v137_22_a_field_whose_gate_is_off_is_dropped(gate: str, url: str, item: JsonObject, path: str) -> None:
    with_gate, without = (ask(an_api(gates={gate: on}), "POST", url, item) for on in (True, False))
    assert (with_gate.code, without.code) == (201, 201), (with_gate.body, without.body)
    assert found_at(with_gate.body, path) == found_at(item, path)
    assert found_at(without.body, path) is None
    assert found_at(ask(an_api(), "POST", url, item).body, path) is None, "the gate is off by default"


@pytest.mark.parametrize(("gate", "url", "item", "path"), GATED.values(), ids=GATED)
def test_v137_22_a_field_that_an_object_has_stays(gate: str, url: str, item: JsonObject, path: str) -> None:
    api = an_api(gates={gate: True})
    held = ask(api, "POST", url, item).body
    api.lookups = replace(api.lookups, gates={})
    name = held["metadata"]["name"]
    changed = ask(api, "PUT", f"{url}/{name}", {**held, "metadata": {**held["metadata"], "labels": {"a": "b"}}})
    assert changed.code == 200, changed.body
    assert found_at(changed.body, path) == found_at(item, path)


def test_v137_22_composite_templates_need_their_gate() -> None:
    item = {"metadata": {"name": "w"}, "spec": {"compositePodGroupTemplates": [TREE]}}
    assert ask(an_api(gates={"CompositePodGroup": True}), "POST", WORKLOADS, item).code == 201
    refused = ask(an_api(), "POST", WORKLOADS, item)
    assert refused.code == 422 and "must specify one of: `podGroupTemplates`" in refused.body["message"]


# ---- pods


def an_api_with_a_pod(**status: Any) -> ResourceApi:
    api = an_api(gates={"DRANodeAllocatableResources": True, "CSIVolumeHealth": True})
    assert ask(api, "POST", PODS, a_pod()).code == 201
    assert ask(api, "PATCH", f"{PODS}/p/status", {"status": status}, MERGE_PATCH).code == 200
    return api


CLAIMS = [{"name": "c", "resourceClaimName": "c-1"}]
EXTENDED = {
    "resourceClaimName": "e",
    "requestMappings": [{"containerName": "c", "resourceName": "x.y/z", "requestName": "r"}],
}
TAKEN = [{"resourceClaimName": "c-1", "containers": ["c"], "mapping": [{"name": "cpu", "quantity": "2"}]}]
KEPT = {
    "resourceClaimStatuses": CLAIMS,
    "extendedResourceClaimStatus": EXTENDED,
    "nodeAllocatableResourceClaimStatuses": TAKEN,
}


def test_v137_1_2_a_status_update_that_leaves_claims_out_keeps_them() -> None:
    api = an_api_with_a_pod(**KEPT)
    held = ask(api, "GET", f"{PODS}/p").body
    reply = ask(api, "PUT", f"{PODS}/p/status", {**held, "status": {"phase": "Running"}})
    assert {key: reply.body["status"].get(key) for key in KEPT} == KEPT
    patch = {"status": dict.fromkeys(KEPT)}
    reply = ask(api, "PATCH", f"{PODS}/p/status", patch, MERGE_PATCH)
    assert {key: reply.body["status"].get(key) for key in KEPT} == KEPT


def test_v137_1_2_an_empty_list_clears_claims() -> None:
    api = an_api_with_a_pod(**KEPT)
    held = ask(api, "GET", f"{PODS}/p").body
    emptied: JsonObject = {"resourceClaimStatuses": [], "nodeAllocatableResourceClaimStatuses": []}
    reply = ask(api, "PUT", f"{PODS}/p/status", {**held, "status": {"phase": "Running", **emptied}})
    assert {key: reply.body["status"].get(key) for key in KEPT} == {
        "resourceClaimStatuses": None,
        "extendedResourceClaimStatus": EXTENDED,
        "nodeAllocatableResourceClaimStatuses": None,
    }


def test_v137_1_2_what_devices_take_from_the_node_is_merged_by_claim() -> None:
    api = an_api_with_a_pod(**KEPT)
    more = {"resourceClaimName": "c-2", "overhead": [{"name": "memory", "perPod": "1Mi"}]}
    patch = {"status": {"nodeAllocatableResourceClaimStatuses": [more]}}
    status = ask(api, "PATCH", f"{PODS}/p/status", patch, STRATEGIC).body["status"]
    names = [each["resourceClaimName"] for each in status["nodeAllocatableResourceClaimStatuses"]]
    assert sorted(names) == ["c-1", "c-2"]


BINDINGS: dict[str, tuple[JsonObject, int, str]] = {
    "no kind": ({"name": "n-1.example"}, 201, ""),
    "a node": ({"kind": "Node", "name": "n"}, 201, ""),
    "no name of a node": (
        {"kind": "Node", "name": "N_1"},
        500,
        'target.name: Invalid value: "N_1": a lowercase RFC 1123 ',
    ),
    "no kind and no name of a node": ({"name": "a/b"}, 500, 'target.name: Invalid value: "a/b": a lowercase RFC 1123 '),
    "no name": ({"kind": "Node"}, 500, "target.name: Required value"),
    "another kind": ({"kind": "Pod", "name": "N_1"}, 500, 'target.kind: Unsupported value: "Pod"'),
}


@pytest.mark.parametrize(("target", "code", "said"), BINDINGS.values(), ids=BINDINGS)
def test_v137_23_a_binding_names_a_node(target: JsonObject, code: int, said: str) -> None:
    api = an_api_with_a_pod()
    reply = ask(api, "POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target})
    assert reply.code == code and reply.body.get("message", "").startswith(said), reply.body


def test_v137_1_2_annotations_that_once_were_init_containers_are_never_stored() -> None:
    api = an_api()
    old = {"pod.beta.kubernetes.io/init-containers": "[]", "pod.alpha.kubernetes.io/init-container-statuses": "[]"}
    given = a_pod()
    given["metadata"]["annotations"] = {**old, "a": "b"}
    made = ask(api, "POST", PODS, given).body
    assert made["metadata"]["annotations"] == {"a": "b"}
    binding = {"metadata": {"name": "p", "annotations": {**old, "c": "d"}}, "target": {"name": "n"}}
    assert ask(api, "POST", f"{PODS}/p/binding", binding).code == 201
    assert ask(api, "GET", f"{PODS}/p").body["metadata"]["annotations"] == {"a": "b", "c": "d"}


LIMITED = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Mi"}}}
QOS: dict[str, tuple[JsonObject, str]] = {
    "empty resources of the pod": ({"resources": {}, "containers": [LIMITED]}, "Guaranteed"),
    "limits of the pod follow from the containers": (
        {"resources": {"requests": {"cpu": "1"}}, "containers": [LIMITED]},
        "Guaranteed",
    ),
    "a request that the containers do not limit": (
        {"resources": {"requests": {"cpu": "2"}}, "containers": [{"name": "c", "image": "i"}]},
        "Burstable",
    ),
    "one container of two": ({"containers": [LIMITED, {"name": "d", "image": "i"}]}, "Burstable"),
}


@pytest.mark.parametrize(("spec", "qos"), QOS.values(), ids=QOS)
def test_v137_1_2_the_qos_class_follows_from_resources_with_their_defaults(spec: JsonObject, qos: str) -> None:
    assert ask(an_api(), "POST", PODS, a_pod(**spec)).body["status"]["qosClass"] == qos


def test_v137_1_2_resources_of_the_pod_are_defaulted_after_limit_ranges() -> None:
    api = an_api()
    usual = {"type": "Container", "default": {"memory": "2Mi"}, "defaultRequest": {"memory": "1Mi"}}
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [usual]}}
    assert ask(api, "POST", "/api/v1/namespaces/default/limitranges", limits).code == 201
    made = ask(api, "POST", PODS, a_pod(resources={"requests": {"cpu": "1"}})).body
    assert made["spec"]["resources"] == {"requests": {"cpu": "1", "memory": "1048576"}, "limits": {"memory": "2097152"}}


def test_v137_1_2_an_update_that_leaves_the_resources_of_the_pod_out_keeps_them() -> None:
    api = an_api()
    made = ask(api, "POST", PODS, a_pod(resources={"requests": {"cpu": "1"}})).body
    spec = {key: value for key, value in made["spec"].items() if key != "resources"}
    reply = ask(api, "PUT", f"{PODS}/p", {**made, "spec": spec})
    assert reply.code == 200 and reply.body["spec"]["resources"] == made["spec"]["resources"], reply.body


RESPONDER_FAULTS: dict[str, tuple[JsonObject, str]] = {
    "in a group": (
        {"evictionResponders": [RESPONDER], "schedulingGroup": {"podGroupName": "g"}},
        "spec.schedulingGroup: Forbidden: may not be set when evictionResponders is set",
    ),
    "too many": (
        {"evictionResponders": [{**RESPONDER, "name": f"example.com/r{i}"} for i in range(11)]},
        "spec.evictionResponders: Too many: 11: must have at most 10 items",
    ),
    "twice": ({"evictionResponders": [RESPONDER, RESPONDER]}, "spec.evictionResponders[1]: Duplicate value"),
    "without priority": (
        {"evictionResponders": [{"name": "e.x/r"}]},
        "spec.evictionResponders[0].priority: Required value",
    ),
    "above all": (
        {"evictionResponders": [{**RESPONDER, "priority": 100_001}]},
        "spec.evictionResponders[0].priority: Invalid value: 100001: must be less than or equal to 100000",
    ),
}


@pytest.mark.parametrize(("spec", "said"), RESPONDER_FAULTS.values(), ids=RESPONDER_FAULTS)
def test_v137_1_2_eviction_responders_that_are_refused(spec: JsonObject, said: str) -> None:
    reply = ask(an_api(gates={"EvictionRequestAPI": True}), "POST", PODS, a_pod(**spec))
    assert reply.code == 422 and said in reply.body["message"], reply.body


def test_v137_1_2_a_pod_of_a_group_drops_responders_without_the_gate() -> None:
    given = a_pod(evictionResponders=[RESPONDER], schedulingGroup={"podGroupName": "g"})
    assert ask(an_api(), "POST", PODS, given).code == 201


# ---- nodes, devices, volumes


@pytest.mark.parametrize(
    ("owners", "said"),
    [
        ([f"o{i}" for i in range(21)], "disableResizePreemption: Too many: 21: must have at most 20 items"),
        (["a", "a"], 'disableResizePreemption[1]: Duplicate value: "a"'),
        (["a b"], 'disableResizePreemption[0]: Invalid value: "a b"'),
    ],
    ids=["too many", "twice", "no label"],
)
def test_v137_1_3_owners_that_disable_resize_preemption(owners: list[str], said: str) -> None:
    node = {"metadata": {"name": "n"}, "spec": {"podPreemptionPolicy": {"disableResizePreemption": owners}}}
    reply = ask(an_api(gates={"InPlacePodVerticalScalingSchedulerPreemption": True}), "POST", NODES, node)
    assert reply.code == 422 and said in reply.body["message"], reply.body


def test_v137_1_3_nodes_say_that_they_run_in_a_user_namespace() -> None:
    """The gate KubeletInUserNamespace is on by default."""
    node = {"metadata": {"name": "n"}, "status": {"nodeInfo": {"runningInUserNamespace": True}}}
    assert value_at(ask(an_api(), "POST", NODES, node).body, "status.nodeInfo.runningInUserNamespace") is True
    off = an_api(gates={"KubeletInUserNamespace": False})
    assert value_at(ask(off, "POST", NODES, node).body, "status.nodeInfo.runningInUserNamespace") is None


def test_v137_1_4_slices_are_selected_by_their_pool() -> None:
    api = an_api()
    assert ask(api, "POST", SLICES, a_slice()).code == 201
    for pool, names in (("pool", ["s"]), ("other", [])):
        listed = ask(api, "GET", SLICES, fieldSelector=f"spec.pool.name={pool}").body
        assert [item["metadata"]["name"] for item in listed["items"]] == names


def test_v137_1_4_derived_attributes_are_kept_whatever_their_gate() -> None:
    """kube-apiserver does not drop them; the scheduler says that it cannot handle them."""
    exactly = {"deviceClassName": "c", "derivedAttributes": [{"name": "d.x/a", "expression": "1"}]}
    asked = {"requests": [{"name": "r", "exactly": exactly}], "constraints": [{"matchAttribute": "d.x/a"}]}
    made = ask(an_api(), "POST", CLAIM_URL, {"metadata": {"name": "c"}, "spec": {"devices": asked}}).body
    assert made["spec"]["devices"]["requests"][0]["exactly"]["derivedAttributes"] == exactly["derivedAttributes"]


def partitioned(attributes: JsonObject) -> JsonObject:
    device = {"name": "a", "attributes": attributes, "consumesCounters": [COUNTERS]}
    return a_slice(partitionTypeAttribute="d.x/type", devices=[device])


SLICE_FAULTS: dict[str, tuple[JsonObject, str]] = {
    "partitions without counters": (
        a_slice(partitionTypeAttribute="d.x/type"),
        'spec.partitionTypeAttribute: Invalid value: "d.x/type": may only be set on a slice which declares devices that '
        "consume counters",
    ),
    "a partition without a type": (
        partitioned({}),
        "spec.devices[0].attributes[d.x/type]: Required value: device consumes",
    ),
    "a type that is no text": (
        partitioned({"type": {"int": 1}}),
        "must be a string value because `partitionTypeAttribute` names this attribute",
    ),
    "prepared and never unprepared": (
        a_slice(skipNodeOperations=["NodePrepareResources"]),
        'spec.skipNodeOperations: Invalid value: ["NodePrepareResources"]: NodePrepareResources cannot be skipped unless '
        "NodeUnprepareResources is also skipped",
    ),
    "an unknown operation": (
        a_slice(skipNodeOperations=["Sleep"]),
        'spec.skipNodeOperations[0]: Unsupported value: "Sleep"',
    ),
    "three groups": (
        a_slice(devices=[{"name": "a", "consumesCounters": [{**COUNTERS, "compatibilityGroups": ["a", "b", "c"]}]}]),
        "spec.devices[0].consumesCounters[0].compatibilityGroups: Too many: 3: must have at most 2 items",
    ),
}
DEVICE_GATES = dict.fromkeys(
    ("DRADeviceCompatibilityGroups", "DRAOptionalNodeOperations", "DRAPartitionableDevicesType"), True
)


@pytest.mark.parametrize(("published", "said"), SLICE_FAULTS.values(), ids=SLICE_FAULTS)
def test_v137_1_4_slices_that_are_refused(published: JsonObject, said: str) -> None:
    reply = ask(an_api(gates=DEVICE_GATES), "POST", SLICES, published)
    assert reply.code == 422 and said in reply.body["message"], reply.body


def derived(*names: str) -> JsonObject:
    return {"deviceClassName": "c", "derivedAttributes": [{"name": name, "expression": "1"} for name in names]}


UNUSED = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
CLAIM_ROWS: dict[str, tuple[JsonObject, JsonObject, str]] = {
    "used by all": ({"exactly": derived("d.x/a")}, {"distinctAttribute": "d.x/a"}, ""),
    "used by its request": ({"exactly": derived("d.x/a")}, {"matchAttribute": "d.x/a", "requests": ["r"]}, ""),
    "used by an alternative": (
        {"firstAvailable": [{"name": "s", **derived("d.x/a")}]},
        {"matchAttribute": "d.x/a", "requests": ["r/s"]},
        "",
    ),
    "not used": ({"exactly": derived("d.x/a")}, {"matchAttribute": "d.x/b"}, f'name: Invalid value: "d.x/a": {UNUSED}'),
    "twice": (
        {"exactly": derived("d.x/a", "d.x/a")},
        {"matchAttribute": "d.x/a"},
        'exactly.derivedAttributes[1]: Duplicate value: "d.x/a"',
    ),
    "too many": (
        {"exactly": derived(*(f"d.x/a{i}" for i in range(33)))},
        {"matchAttribute": "d.x/a0"},
        "derivedAttributes: Too many: 33: must have at most 32 items",
    ),
}


@pytest.mark.parametrize(("request_", "constraint", "said"), CLAIM_ROWS.values(), ids=CLAIM_ROWS)
def test_v137_1_4_derived_attributes_are_for_constraints(
    request_: JsonObject, constraint: JsonObject, said: str
) -> None:
    devices = {"requests": [{"name": "r", **request_}], "constraints": [constraint]}
    reply = ask(an_api(), "POST", CLAIM_URL, {"metadata": {"name": "c"}, "spec": {"devices": devices}})
    assert reply.code == (422 if said else 201) and said in reply.body.get("message", ""), reply.body


def test_v137_1_5_health_of_storage_needs_its_gate() -> None:
    nodes = "/apis/storage.k8s.io/v1/csinodes"
    health = [{"name": "d", "healthConditions": [{"status": "Unreachable", "reason": "BackendDown"}]}]
    for gates, expected in (({"CSIVolumeHealth": True}, health), ({}, None)):
        api = an_api(gates=gates)
        made = ask(
            api,
            "POST",
            nodes,
            {"metadata": {"name": "n"}, "spec": {"drivers": []}, "status": {"storageHealth": health}},
        )
        assert "storageHealth" not in made.body["status"], "a new object starts without status"
        reply = ask(api, "PATCH", f"{nodes}/n/status", {"status": {"storageHealth": health}}, MERGE_PATCH)
        assert reply.body["status"].get("storageHealth") == expected


# ---- Jobs

JOB_FAULTS: dict[str, tuple[JsonObject, str]] = {
    "more than run at once": (
        {"schedulingPolicy": {"gang": {"minCount": 4}}},
        "spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 4: must not be greater than parallelism (3)",
    ),
    "two policies": (
        {"schedulingPolicy": {"gang": {}, "basic": {}}},
        'spec.scheduling.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`',
    ),
    "all of a basic group": (
        {"disruptionMode": {"all": {}}},
        'spec.scheduling.disruptionMode: Invalid value: "": the disruptionMode `all` is not supported with the Basic '
        "scheduling policy",
    ),
    "five claims": (
        {"resourceClaims": [{"name": f"c{i}", "resourceClaimName": "c"} for i in range(5)]},
        "spec.scheduling.resourceClaims: Too many: 5: must have at most 4 items",
    ),
}


@pytest.mark.parametrize(("scheduling", "said"), JOB_FAULTS.values(), ids=JOB_FAULTS)
def test_v137_22_scheduling_of_jobs_that_is_refused(scheduling: JsonObject, said: str) -> None:
    reply = ask(an_api(gates={"WorkloadWithJob": True}), "POST", JOBS, a_job(scheduling=scheduling))
    assert reply.code == 422 and said in reply.body["message"], reply.body


VARIANT = (
    "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated"
)
JOB_CHANGES: dict[str, tuple[JsonObject | None, JsonObject | None, str]] = {
    "the minimum": (GANG, {"schedulingPolicy": {"gang": {"minCount": 3}}}, ""),
    "scheduling that is added": (None, GANG, "spec.scheduling: Invalid value: null: field cannot be set once created"),
    "scheduling that is removed": (
        GANG,
        None,
        "spec.scheduling: Invalid value: null: field cannot be cleared once set",
    ),
    "another policy": (
        GANG,
        {"schedulingPolicy": {"basic": {}}},
        f"spec.scheduling.schedulingPolicy: Invalid value: null: {VARIANT}",
    ),
    "another mode": (
        GANG,
        {**GANG, "disruptionMode": {"all": {}}},
        "spec.scheduling.disruptionMode: Invalid value: null: field is immutable",
    ),
}


@pytest.mark.parametrize(("before", "after", "said"), JOB_CHANGES.values(), ids=JOB_CHANGES)
def test_v137_22_of_the_scheduling_of_a_job_only_the_minimum_changes(
    before: JsonObject | None, after: JsonObject | None, said: str
) -> None:
    api = an_api(gates={"WorkloadWithJob": True})
    made = ask(api, "POST", JOBS, a_job(**({"scheduling": before} if before else {}))).body
    spec = {key: value for key, value in made["spec"].items() if key != "scheduling"}
    reply = ask(api, "PUT", f"{JOBS}/j", {**made, "spec": {**spec, **({"scheduling": after} if after else {})}})
    assert reply.code == (422 if said else 200) and said in reply.body.get("message", ""), reply.body
