"""What becomes of an object on its way into the store: as recorded from kube-apiserver, and what was not recorded."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.admission.admit import prepare_create, prepare_status, prepare_update
from mooring.apiserver.admission.object_meta import Lookups
from mooring.apiserver.store import Store

JsonObject = dict[str, Any]
RECORDED = json.loads((Path(__file__).parent / "data/admission.json").read_text())
NOW, UID = "2026-11-15T07:17:46Z", "00000000-0000-4000-8000-000000000001"
PODS, NODES = RESOURCES["", "v1", "pods"], RESOURCES["", "v1", "nodes"]
CLASSES = RESOURCES["scheduling.k8s.io", "v1", "priorityclasses"]
OWNED = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


def an_object(kind: str, name: str, **content: Any) -> JsonObject:
    return {"kind": kind, "metadata": {"name": name, "namespace": "default"}, **content}


def a_cluster(*more: JsonObject) -> Lookups:
    namespaces = [an_object("Namespace", name) for name in ("default", "kube-system")]
    store, specs = Store(), {spec.kind: spec for spec in RESOURCES.values()}
    for item in (*namespaces, an_object("PriorityClass", "high", value=1000), *more):
        spec = specs[item["kind"]]
        namespace = item["metadata"]["namespace"] if spec.namespaced else ""
        store.create(spec.storage, (namespace, item["metadata"]["name"]), item)
    return Lookups(store)


def a_pod(**spec: Any) -> JsonObject:
    return {"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}], **spec}}


def create(resource: KindSpec, item: JsonObject, *more: JsonObject, namespace: str = "default") -> JsonObject:
    before = copy.deepcopy(item)
    made = prepare_create(resource, namespace, item, a_cluster(*more), NOW, lambda: UID, lambda: "2kl5c")
    assert item == before, "what came in was changed"
    return made


def refusal(resource: KindSpec, item: JsonObject, *more: JsonObject) -> ApiError:
    with pytest.raises(ApiError) as caught:
        create(resource, item, *more)
    return caught.value


def shown(item: JsonObject) -> JsonObject:
    """What clients read: without what differs from one server to the next."""
    meta = {key: value for key, value in item["metadata"].items() if key not in OWNED}
    text = json.dumps({**item, "metadata": meta}).replace(str(item["metadata"].get("creationTimestamp")), "<now>")
    return json.loads(text)  # type: ignore[no-any-return]


def named(rows: list[JsonObject], good: bool) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in rows if (row["status"] < 300) == good]


@pytest.mark.parametrize("row", named(RECORDED["creates"], good=True))
def test_an_object_is_created_as_recorded(row: JsonObject) -> None:
    made = create(RESOURCES[tuple(row["resource"])], row["body"], namespace=row["namespace"])
    assert shown(made) == shown(row["answer"])
    assert (made["metadata"]["uid"], made["metadata"]["creationTimestamp"]) == (UID, NOW)


@pytest.mark.parametrize("row", named(RECORDED["creates"], good=False))
def test_an_object_is_refused_as_recorded(row: JsonObject) -> None:
    with pytest.raises(ApiError) as caught:
        create(RESOURCES[tuple(row["resource"])], row["body"], namespace=row["namespace"])
    assert caught.value.status() == row["answer"]


def update(row: JsonObject) -> JsonObject:
    resource, old, new = RESOURCES[tuple(row["resource"])], row["old"], row["new"]
    before = copy.deepcopy((old, new))
    if row["subresource"] == "status":
        made = prepare_status(resource, old, new, a_cluster())
    else:
        made = prepare_update(resource, old, new, a_cluster())
    assert (old, new) == before, "what came in was changed"
    return made


@pytest.mark.parametrize("row", named(RECORDED["updates"], good=True))
def test_an_object_is_updated_as_recorded(row: JsonObject) -> None:
    assert shown(update(row)) == shown(row["answer"])


@pytest.mark.parametrize("row", named(RECORDED["updates"], good=False))
def test_an_update_is_refused_as_recorded(row: JsonObject) -> None:
    """But for the difference that follows in the message: ours shows JSON, the server's a Go struct."""
    with pytest.raises(ApiError) as caught:
        update(row)
    assert caught.value.code == row["status"]
    assert caught.value.message.partition("\n")[0] == row["answer"]["message"].partition("\n")[0]


SMALL_LIMITS = an_object(
    "LimitRange",
    "small",
    spec={"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"memory": "1Gi"}, "min": {"cpu": "100m"}}]},
)
DEFAULT_LIMITS = an_object(
    "LimitRange", "d", spec={"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "2"}}]}
)
SANDBOX = an_object(
    "RuntimeClass",
    "sandbox",
    overhead={"podFixed": {"cpu": "250m"}},
    scheduling={"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
)
COMPLETED = {
    "a hostNetwork pod takes its ports of the node": (
        {"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
        ("containers", 0, "ports", 0),
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
    ),
    "a volume without source is an empty directory": (
        {"volumes": [{"name": "v"}]},
        ("volumes", 0),
        {"name": "v", "emptyDir": {}},
    ),
    "a quantity comes back in its canonical form": (
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}}}]},
        ("containers", 0, "resources", "requests"),
        {"cpu": "500m", "memory": "1Gi"},
    ),
    "an image by digest need not be pulled again": (
        {"containers": [{"name": "c", "image": "r:5000/nginx@sha256:00"}]},
        ("containers", 0, "imagePullPolicy"),
        "IfNotPresent",
    ),
    "a toleration for all keys is enough for nodes in trouble": (
        {"tolerations": [{"operator": "Exists"}]},
        ("tolerations",),
        [{"operator": "Exists"}],
    ),
    "the pod as a whole asks for what its containers ask for": (
        {
            "resources": {"limits": {"cpu": "4"}},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}],
        },
        ("resources", "requests"),
        {"cpu": "1500m"},
    ),
    "matchLabelKeys of a spread constraint become a line of its selector": (
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {},
                    "matchLabelKeys": ["app", "absent"],
                }
            ]
        },
        ("topologySpreadConstraints", 0, "labelSelector"),
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
    ),
    "a null says nothing": ({"affinity": None, "nodeName": None}, ("priority",), 0),
}


@pytest.mark.parametrize(("spec", "path", "expected"), COMPLETED.values(), ids=COMPLETED)
def test_a_pod_is_completed(spec: JsonObject, path: tuple[Any, ...], expected: Any) -> None:
    found: Any = create(PODS, a_pod(**spec))["spec"]
    for part in path:
        found = found[part]
    assert found == expected


def test_limit_ranges_fill_in_what_a_container_does_not_say() -> None:
    made = create(PODS, a_pod(), DEFAULT_LIMITS)
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    note = "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    assert made["metadata"]["annotations"] == {"kubernetes.io/limit-ranger": note}
    assert made["status"]["qosClass"] == "Burstable"


def test_a_limit_range_says_all_its_defaults_itself() -> None:
    made = create(RESOURCES["", "v1", "limitranges"], SMALL_LIMITS | {"apiVersion": "v1"})
    assert made["spec"]["limits"][0]["default"] == {"cpu": "2", "memory": "1Gi"}
    assert made["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2", "memory": "1Gi"}


def test_a_runtime_class_adds_overhead_and_placement() -> None:
    spec = create(PODS, a_pod(runtimeClassName="sandbox"), SANDBOX)["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"sandbox": "yes"})
    assert spec["tolerations"][-1] == {"key": "sandbox", "operator": "Exists"}


def test_a_pod_without_class_gets_the_default_class_with_the_lowest_value() -> None:
    classes = [an_object("PriorityClass", f"c{value}", value=value, globalDefault=True) for value in (7, 5)]
    spec = create(PODS, a_pod(), *classes)["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("c5", 5)


def test_a_pod_created_on_a_node_bears_the_topology_of_the_node_and_no_condition() -> None:
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "a", "x": "y"}}}
    made = create(PODS, a_pod(nodeName="n"), node)
    assert made["metadata"]["labels"] == {"app": "web", "topology.kubernetes.io/zone": "a"}
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


FORBIDDEN = {
    "an unknown runtime class": (
        a_pod(runtimeClassName="nope"),
        'pods "p" is forbidden: pod rejected: RuntimeClass "nope" not found',
    ),
    "a node selector against the runtime class": (
        a_pod(runtimeClassName="sandbox", nodeSelector={"sandbox": "no"}),
        'pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; '
        "pod.spec.nodeSelector[sandbox] = no",
    ),
    "a preemption policy other than that of the class": (
        a_pod(preemptionPolicy="Never"),
        'pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority '
        "admission controller computed PreemptLowerPriority from the given PriorityClass name",
    ),
    "more than a limit range allows": (
        a_pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "3"}}}]),
        'pods "p" is forbidden: [minimum cpu usage per Container is 100m, but request is 50m, maximum cpu usage per '
        "Container is 2, but limit is 3]",
    ),
}


@pytest.mark.parametrize(("pod", "message"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_pod_is_forbidden(pod: JsonObject, message: str) -> None:
    more = [SANDBOX, SMALL_LIMITS] if "usage" in message else [SANDBOX]
    refused = refusal(PODS, pod, *more)
    assert (refused.code, refused.message) == (403, message)


def test_a_namespace_that_is_going_takes_nothing_new() -> None:
    going = [an_object("Namespace", "going", status={"phase": "Terminating"})]
    with pytest.raises(ApiError) as caught:
        create(PODS, a_pod(), *going, namespace="going")
    why = "unable to create new content in namespace going because it is being terminated"
    assert caught.value.message == f'pods "p" is forbidden: {why}'


def test_a_second_default_priority_class_is_forbidden() -> None:
    first = an_object("PriorityClass", "first", value=1, globalDefault=True)
    refused = refusal(CLASSES, {"metadata": {"name": "second"}, "value": 2, "globalDefault": True}, first)
    assert refused.message == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass first is already marked as default. '
        "Only one default can exist"
    )


INVALID = {
    "a gated pod has no node": (
        PODS,
        a_pod(nodeName="n", schedulingGates=[{"name": "a/b"}]),
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ),
    "a taint has an effect that is known": (
        NODES,
        {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "Nope"}]}},
        'spec.taints[0].effect: Unsupported value: "Nope": supported values: "NoSchedule", "PreferNoSchedule", '
        '"NoExecute"',
    ),
    "a toleration for some time is for NoExecute": (
        PODS,
        a_pod(tolerations=[{"key": "a", "operator": "Exists", "tolerationSeconds": 5}]),
        "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    "an extended resource is not overcommitted": (
        PODS,
        a_pod(containers=[{"name": "c", "resources": {"requests": {"a/b": "1"}, "limits": {"a/b": "2"}}}]),
        'spec.containers[0].resources.requests: Invalid value: "1": must be equal to a/b limit of 2',
    ),
    "names with system- are reserved": (
        CLASSES,
        {"metadata": {"name": "system-x"}, "value": 1},
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
        "system-x is not a known system priority class",
    ),
    "a name is needed": (PODS, {"spec": {}}, "metadata.name: Required value: name or generateName is required"),
}


@pytest.mark.parametrize(("resource", "item", "fault"), INVALID.values(), ids=INVALID)
def test_an_object_is_invalid(resource: KindSpec, item: JsonObject, fault: str) -> None:
    refused = refusal(resource, item)
    assert refused.code == 422 and refused.details is not None
    assert [str(cause) for cause in refused.details.causes] == [fault]


def test_a_field_of_the_wrong_type_is_a_bad_request() -> None:
    refused = refusal(PODS, a_pod(terminationGracePeriodSeconds="long"))
    assert (refused.code, refused.message) == (
        400,
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
        "Pod.spec.terminationGracePeriodSeconds of type int64",
    )


def test_the_default_storage_class_is_the_newest_marked_one() -> None:
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    classes = [
        {"kind": "StorageClass", "metadata": {"name": name, "annotations": marked, "creationTimestamp": time}}
        for name, time in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-02-01T00:00:00Z"))
    ]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = create(RESOURCES["", "v1", "persistentvolumeclaims"], {"metadata": {"name": "c"}, "spec": spec}, *classes)
    assert made["spec"]["storageClassName"] == "new"
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert made["status"] == {"phase": "Pending"}


def test_a_priority_class_keeps_its_value() -> None:
    old = create(CLASSES, {"metadata": {"name": "a"}, "value": 1})
    with pytest.raises(ApiError) as caught:
        prepare_update(CLASSES, old, old | {"value": 2}, a_cluster())
    assert caught.value.message.endswith("value: Forbidden: may not be changed in an update.")


def test_an_update_cannot_touch_what_the_server_owns_nor_the_status() -> None:
    old = create(PODS, a_pod())
    meta = {"name": "p", "labels": {"a": "b"}, "generation": 9, "creationTimestamp": "2000-01-01T00:00:00Z"}
    made = prepare_update(PODS, old, old | {"metadata": meta, "status": {"phase": "Running"}}, a_cluster())
    assert made["metadata"] == old["metadata"] | {"labels": {"a": "b"}}
    assert made["status"] == old["status"]


def test_a_status_update_takes_the_labels_of_pods_only_and_no_spec() -> None:
    old = create(PODS, a_pod())
    changed = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {}, "status": {"phase": "Running"}}
    made = prepare_status(PODS, old, changed, a_cluster())
    assert made["metadata"]["labels"] == {"a": "b"} and made["spec"] == old["spec"]
    assert made["status"] == {"phase": "Running", "qosClass": "BestEffort"}


def test_another_object_of_the_same_name_is_not_updated() -> None:
    old = create(PODS, a_pod())
    with pytest.raises(ApiError) as caught:
        prepare_update(PODS, old, old | {"metadata": {"name": "p", "uid": "other"}}, a_cluster())
    assert caught.value.code == 409
    assert f"UID in precondition: other, UID in object meta: {UID}" in caught.value.message


TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
SELECTOR = {"matchLabels": {"app": "web"}}
OTHERS: dict[str, tuple[tuple[str, str, str], JsonObject, JsonObject]] = {
    "a namespace is active and labelled with its name": (
        ("", "v1", "namespaces"),
        {"status": {"phase": "Terminating"}},
        {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    ),
    "a volume is pending and of files": (
        ("", "v1", "persistentvolumes"),
        {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}},
        {"status": {"phase": "Pending"}},
    ),
    "a storage class binds at once": (
        ("storage.k8s.io", "v1", "storageclasses"),
        {"provisioner": "p"},
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ),
    "a replica set has one replica and none yet": (
        ("apps", "v1", "replicasets"),
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}, "status": {"replicas": 9}},
        {"status": {"replicas": 0}},
    ),
    "a service forwards to the port of the same number": (
        ("", "v1", "services"),
        {"spec": {"ports": [{"port": 80}]}},
        {
            "spec": {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "internalTrafficPolicy": "Cluster",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            }
        },
    ),
    "a device is asked for once": (
        ("resource.k8s.io", "v1", "resourceclaims"),
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
        {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "r",
                            "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                        }
                    ]
                }
            }
        },
    ),
}


@pytest.mark.parametrize(("key", "item", "expected"), OTHERS.values(), ids=OTHERS)
def test_another_kind_is_completed(key: tuple[str, str, str], item: JsonObject, expected: JsonObject) -> None:
    made = create(RESOURCES[key], {"metadata": {"name": "x"}, **item})
    assert {part: made[part] for part in expected} == expected


def test_the_template_of_a_deployment_is_completed_like_a_pod_and_a_change_counts() -> None:
    deployments = RESOURCES["apps", "v1", "deployments"]
    item = {"metadata": {"name": "web"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}}
    made = create(deployments, item)
    assert made["spec"]["replicas"] == 1 and made["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    same = prepare_update(deployments, made, made, a_cluster())
    more = prepare_update(deployments, made, made | {"spec": made["spec"] | {"replicas": 3}}, a_cluster())
    assert (same, more["metadata"]["generation"]) == (made, 2)


def test_a_job_selects_its_pods_by_its_uid() -> None:
    job = create(RESOURCES["batch", "v1", "jobs"], {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE}})
    wanted, labels = job["spec"]["selector"]["matchLabels"], job["spec"]["template"]["metadata"]["labels"]
    assert wanted == {"batch.kubernetes.io/controller-uid": UID} and wanted.items() <= labels.items()
    assert (labels["job-name"], job["spec"]["completions"], job["spec"]["parallelism"]) == ("j", 1, 1)


NONSENSE: dict[str, JsonObject] = {
    "a probe that is a text": a_pod(containers=[{"name": "c", "livenessProbe": "x"}]),
    "an environment that is a number": a_pod(containers=[{"name": "c", "env": 5}]),
    "a volume source that is a text": a_pod(volumes=[{"name": "v", "secret": "x"}]),
    "a container that is null": a_pod(containers=[None]),
    "containers that are an object": a_pod(containers={}),
    "metadata that is a list": {"metadata": [], "spec": {}},
}


@pytest.mark.parametrize("pod", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_refused_and_breaks_nothing(pod: JsonObject) -> None:
    assert refusal(PODS, pod).code in (400, 422)
