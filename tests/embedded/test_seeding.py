"""Objects that a cluster starts with: in whatever order they come, they find each other."""

from typing import Any

from asking import a_body, the
from cluster_api import an_api
from custom_definitions import a_definition, a_widget
from mooring.controllers.nodes.simulated_nodes import missing_nodes
from mooring.embedded.seeding import default_class, seed


def a_pod(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def a_namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def test_what_others_need_comes_first() -> None:
    api = an_api()
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 7,
    }
    pod = a_pod("p", namespace="mine")
    pod["spec"]["priorityClassName"] = "urgent"
    assert seed(api, [pod, a_namespace("mine"), urgent]) == []
    (made,) = api.store.all("/pods")
    assert (made["metadata"]["namespace"], made["spec"]["priority"]) == ("mine", 7)


def test_owners_are_found_again_though_they_get_other_uids() -> None:
    api = an_api()
    replica_set = {**a_body(the("replicasets"), "web"), "metadata": {"name": "web", "uid": "old-set"}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "old-set", "controller": True}
    stranger = {**owner, "name": "gone", "uid": "not-among-them"}
    assert seed(api, [a_pod("p", ownerReferences=[owner, stranger]), replica_set]) == []
    (pod,), (made,) = api.store.all("/pods"), api.store.all("apps/replicasets")
    assert [o["uid"] for o in pod["metadata"]["ownerReferences"]] == [made["metadata"]["uid"]]
    assert made["metadata"]["uid"] != "old-set"


def test_what_only_the_other_cluster_knew_is_left_out() -> None:
    api = an_api()
    dumped = {
        "uid": "old",
        "resourceVersion": "12345",
        "generation": 7,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "managedFields": [{"manager": "kubectl"}],
        "selfLink": "/x",
    }
    assert seed(api, [a_pod("p", **dumped)]) == []
    (pod,) = api.store.all("/pods")
    assert pod["metadata"]["generation"] == 1
    assert not pod["metadata"].keys() & {"deletionTimestamp", "managedFields", "selfLink"}
    assert pod["metadata"]["uid"] != "old"


def test_a_pod_of_a_dump_stays_on_its_node() -> None:
    api = an_api()
    pod = a_pod("p")
    pod["spec"]["nodeName"] = "node-0001"
    assert seed(api, [pod, *missing_nodes(1, ())]) == []
    assert api.store.all("/pods")[0]["spec"]["nodeName"] == "node-0001"


def test_what_is_there_already_stays_as_it_is() -> None:
    api = an_api()
    assert seed(api, [a_pod("p", labels={"a": "1"})]) == []
    version = api.store.version
    assert seed(api, [a_pod("p", labels={"a": "2"}), a_namespace("default")]) == []
    assert api.store.version == version


def test_refusals_are_told_in_words_and_the_rest_is_done() -> None:
    api = an_api()
    unknown = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "namespace": "x"}}
    homeless = a_pod("p", namespace="No_Where")
    refusals = seed(api, [unknown, homeless, {}, a_pod("fine"), {"kind": "Pod", "apiVersion": "v1", "metadata": None}])
    assert sorted(refusal for refusal in refusals if not refusal.startswith("Namespace No_Where:")) == [
        " ...:  is not served here",
        "Gadget x/g: example.com/v1 is not served here",
        'Pod ...: Pod "" is invalid: metadata.name: Required value: name or generateName is required',
        'Pod No_Where/p: namespaces "No_Where" not found',
    ]
    assert [pod["metadata"]["name"] for pod in api.store.all("/pods")] == ["fine"]


def test_events_and_leases_are_not_carried_over() -> None:
    api = an_api()
    assert seed(api, [a_body(the("events")), a_body(the("leases"))]) == []
    assert (api.store.count("events"), api.store.count("coordination.k8s.io/leases")) == (0, 0)


def test_namespaces_that_a_dump_leaves_out_are_made() -> None:
    api = an_api()
    labelled = {**a_namespace("shop"), "metadata": {"name": "shop", "labels": {"team": "a"}}}
    assert seed(api, [a_pod("p", namespace="shop"), a_pod("q", namespace="web"), labelled]) == []
    assert api.store.count("/pods") == 2
    shop, web = (api.store.get("/namespaces", ("", name)) for name in ("shop", "web"))
    assert shop["metadata"]["labels"]["team"] == "a"
    assert web["status"]["phase"] == "Active"


def test_pods_and_jobs_that_had_finished_do_not_run_again() -> None:
    api = an_api()
    done = {**a_pod("done"), "status": {"phase": "Succeeded", "startTime": "2001-01-01T00:00:00Z"}}
    busy = {**a_pod("busy"), "status": {"phase": "Running"}}
    complete = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}
    job = {**a_body(the("jobs"), "job"), "metadata": {"name": "job"}, "status": complete}
    assert seed(api, [done, busy, job]) == []
    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in api.store.all("/pods")}
    assert phases == {"done": "Succeeded", "busy": "Pending"}
    assert api.store.all("batch/jobs")[0]["status"]["succeeded"] == 1


def test_a_quota_does_not_keep_out_what_its_cluster_had() -> None:
    api = an_api()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    assert seed(api, [quota, a_pod("a"), a_pod("b")]) == []
    assert api.store.count("/pods") == 2


def test_volumes_find_their_claims_again() -> None:
    api = an_api()
    claim = {**a_body(the("persistentvolumeclaims"), "data"), "metadata": {"name": "data", "uid": "old-claim"}}
    volume = {**a_body(the("persistentvolumes"), "pv"), "metadata": {"name": "pv"}}
    reference = {"namespace": "default", "name": "data", "uid": "old-claim", "resourceVersion": "7"}
    assert seed(api, [{**volume, "spec": {**volume["spec"], "claimRef": reference}}, claim]) == []
    (made,), (held,) = api.store.all("/persistentvolumeclaims"), api.store.all("/persistentvolumes")
    assert held["spec"]["claimRef"]["uid"] == made["metadata"]["uid"]
    assert "resourceVersion" not in held["spec"]["claimRef"]


def test_claims_without_a_class_get_the_default_one() -> None:
    api = an_api()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    assert seed(api, [*default_class([claim]), claim]) == []
    assert api.store.all("/persistentvolumeclaims")[0]["spec"]["storageClassName"] == "standard"


def test_a_dump_with_classes_gets_no_other() -> None:
    assert default_class([{"kind": "StorageClass", "metadata": {"name": "fast"}}]) == []


def test_definitions_come_before_objects_of_their_kinds() -> None:
    api = an_api()
    widget = a_widget()
    widget["metadata"]["namespace"] = "team"
    assert seed(api, [widget, a_definition()]) == []
    assert [item["metadata"]["namespace"] for item in api.store.all("example.com/widgets")] == ["team"]
