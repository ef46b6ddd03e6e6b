"""ResourceQuotas: nothing beyond them is created, what is used is counted, and refusals have kube-apiserver's words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import PODS, ask
from cluster_api import an_api
from mooring.api.kinds.pods import POD as POD_KIND
from mooring.apiserver.admission.quotas import usage_of
from mooring.apiserver.resource_api import ResourceApi
from mooring.kit.clock import NS_PER_S, VirtualClock

NAMESPACED = "/api/v1/namespaces/default"
JsonObject = dict[str, Any]


@pytest.fixture
def api() -> ResourceApi:
    return an_api()


def a_quota(api: ResourceApi, name: str = "quota", hard: JsonObject | None = None, **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"hard": hard or {}, **spec}}
    assert ask(api, "POST", f"{NAMESPACED}/resourcequotas", body).code == 201


def a_pod(name: str = "p", cpu: str = "", limit: str = "", **spec: Any) -> JsonObject:
    resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    containers = [{"name": "main", "image": "x", "resources": resources}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def create(api: ResourceApi, body: JsonObject, plural: str = "pods") -> str:
    """Empty, or why not."""
    reply = ask(api, "POST", f"{NAMESPACED}/{plural}", body)
    assert reply.code in (201, 403), reply.body
    return reply.body["message"] if reply.code == 403 else ""


def used(api: ResourceApi, quota: str = "quota") -> JsonObject:
    found: JsonObject = api.quotas.of("default")[quota].status()["used"]
    return found


def test_what_is_beyond_a_quota_is_refused(api: ResourceApi) -> None:
    a_quota(api, hard={"cpu": "2", "limits.cpu": "4", "pods": "10"})
    assert create(api, a_pod("a", "1500m", "2")) == ""
    assert create(api, a_pod("b", "1", "2")) == (
        'pods "b" is forbidden: exceeded quota: quota, requested: cpu=1, used: cpu=1500m, limited: cpu=2'
    )
    assert create(api, a_pod("b", "1", "3")) == (
        'pods "b" is forbidden: exceeded quota: quota, '
        "requested: cpu=1,limits.cpu=3, used: cpu=1500m,limits.cpu=2, limited: cpu=2,limits.cpu=4"
    )
    assert create(api, a_pod("b", "500m", "2")) == ""
    assert used(api) == {"cpu": "2", "limits.cpu": "4", "pods": "2"}


def test_a_quota_for_compute_resources_makes_every_container_speak(api: ResourceApi) -> None:
    a_quota(api, hard={"requests.cpu": "2", "limits.memory": "4Gi", "requests.ephemeral-storage": "1Gi"})
    body = a_pod("p", "1", initContainers=[{"name": "init", "image": "x"}])
    assert create(api, body) == (
        'pods "p" is forbidden: failed quota: quota: must specify limits.memory for: init,main; requests.cpu for: init'
    )


def test_resources_of_the_pod_as_a_whole_speak_for_its_containers(api: ResourceApi) -> None:
    a_quota(api, hard={"requests.cpu": "2", "limits.memory": "4Gi"})
    assert create(api, a_pod(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "1Gi"}})) == ""
    assert used(api) == {"requests.cpu": "1", "limits.memory": "1Gi"}


def test_objects_of_every_kind_can_be_counted(api: ResourceApi) -> None:
    hard = {
        "count/configmaps": "1",
        "configmaps": "2",
        "count/deployments.apps": "0",
        "count/leases.coordination.k8s.io": 5,
    }
    a_quota(api, hard=hard)
    assert create(api, {"metadata": {"name": "a"}}, "configmaps") == ""
    assert create(api, {"metadata": {"name": "b"}}, "configmaps") == (
        'configmaps "b" is forbidden: exceeded quota: quota, '
        "requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1"
    )
    labels = {"matchLabels": {"a": "b"}}
    deployment = {"selector": labels, "template": {"metadata": {"labels": {"a": "b"}}, **a_pod()}}
    deployment["template"]["metadata"] = {"labels": {"a": "b"}}
    body = {"metadata": {"name": "web"}, "spec": deployment}
    reply = ask(api, "POST", "/apis/apps/v1/namespaces/default/deployments", body)
    assert reply.code == 403
    assert reply.body["message"].startswith('deployments.apps "web" is forbidden: exceeded quota: quota, ')
    assert used(api)["configmaps"] == "1"


def test_services_count_by_their_type_and_so_do_changes(api: ResourceApi) -> None:
    a_quota(api, hard={"services": "3", "services.nodeports": "1", "services.loadbalancers": "0"})
    ports: list[JsonObject] = [{"port": 80}]
    assert create(api, {"metadata": {"name": "a"}, "spec": {"ports": ports}}, "services") == ""
    assert "services.loadbalancers=1" in create(
        api, {"metadata": {"name": "b"}, "spec": {"type": "LoadBalancer", "ports": ports}}, "services"
    )
    held = ask(api, "GET", f"{NAMESPACED}/services/a").body
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    wider = {**held, "spec": {**held["spec"], "type": "NodePort", "ports": ports}}
    reply = ask(api, "PUT", f"{NAMESPACED}/services/a", wider)
    assert reply.code == 403
    assert reply.body["message"].endswith(
        "requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1"
    )
    # the service of the API itself is in this namespace, too
    assert used(api) == {"services": "2", "services.nodeports": "0", "services.loadbalancers": "0"}


def test_claims_count_by_class(api: ResourceApi) -> None:
    by_class = "fast.storageclass.storage.k8s.io/requests.storage"
    a_quota(api, hard={"requests.storage": "10Gi", by_class: "3Gi", "persistentvolumeclaims": "5"})

    def claim(name: str, size: str, storage_class: str) -> JsonObject:
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
        return {"metadata": {"name": name}, "spec": {**spec, "resources": {"requests": {"storage": size}}}}

    assert create(api, claim("a", "2Gi", "fast"), "persistentvolumeclaims") == ""
    assert create(api, claim("b", "2Gi", "fast"), "persistentvolumeclaims") == (
        f'persistentvolumeclaims "b" is forbidden: exceeded quota: quota, '
        f"requested: {by_class}=2Gi, used: {by_class}=2Gi, limited: {by_class}=3Gi"
    )
    assert create(api, claim("b", "2Gi", "slow"), "persistentvolumeclaims") == ""
    assert used(api) == {"requests.storage": "4Gi", by_class: "2Gi", "persistentvolumeclaims": "2"}


def test_extended_resources_count_by_their_requests(api: ResourceApi) -> None:
    a_quota(api, hard={"requests.example.com/gpu": "1"})
    body = a_pod()
    gpu = {"example.com/gpu": "2"}
    body["spec"]["containers"][0]["resources"] = {"requests": gpu, "limits": gpu}
    assert "requested: requests.example.com/gpu=2, used: requests.example.com/gpu=0" in create(api, body)


SCOPES = {
    "BestEffort": {"best"},
    "NotBestEffort": {"asks", "timed", "urgent"},
    "Terminating": {"timed"},
    "NotTerminating": {"best", "asks", "urgent"},
    "PriorityClass": {"urgent"},
}


@pytest.mark.parametrize(("scope", "counted"), SCOPES.items(), ids=SCOPES.keys())
def test_scopes_say_which_pods_count(scope: str, counted: set[str], api: ResourceApi) -> None:
    a_quota(api, hard={"pods": "10", "configmaps": "10"}, scopes=[scope])
    assert create(api, a_pod("best")) == ""
    assert create(api, a_pod("asks", "1")) == ""
    assert create(api, a_pod("timed", "1", activeDeadlineSeconds=9)) == ""
    assert create(api, a_pod("urgent", "1", priorityClassName="system-node-critical")) == ""
    assert create(api, {"metadata": {"name": "a"}}, "configmaps") == ""
    assert used(api) == {"pods": str(len(counted)), "configmaps": "0"}


SELECTORS = {
    "In": (["system-node-critical"], 1),
    "NotIn": (["system-node-critical"], 1),
    "Exists": ([], 1),
    "DoesNotExist": ([], 1),
}


@pytest.mark.parametrize("operator", SELECTORS)
def test_priority_classes_can_be_selected(operator: str, api: ResourceApi) -> None:
    values, count = SELECTORS[operator]
    line = {"scopeName": "PriorityClass", "operator": operator, **({"values": values} if values else {})}
    a_quota(api, hard={"pods": "10"}, scopeSelector={"matchExpressions": [line]})
    create(api, a_pod("plain"))
    create(api, a_pod("urgent", priorityClassName="system-node-critical"))
    assert used(api) == {"pods": str(count)}


def test_what_has_ended_is_free_again_but_is_still_an_object(api: ResourceApi) -> None:
    a_quota(api, hard={"pods": "2", "count/pods": "2"})
    create(api, a_pod("a"))
    create(api, a_pod("b"))
    pod = ask(api, "GET", f"{PODS}/a").body
    assert ask(api, "PUT", f"{PODS}/a/status", {**pod, "status": {"phase": "Succeeded"}}).code == 200
    assert used(api) == {"pods": "1", "count/pods": "2"}
    ask(api, "DELETE", f"{PODS}/b")
    assert used(api) == {"pods": "0", "count/pods": "1"}


def test_a_quota_that_comes_late_counts_what_is_there(api: ResourceApi) -> None:
    for name in ("a", "b"):
        create(api, a_pod(name, "1"))
    a_quota(api, hard={"cpu": "1", "pods": "9"})
    assert used(api) == {"cpu": "2", "pods": "2"}
    assert "used: cpu=2, limited: cpu=1" in create(api, a_pod("c", "1"))
    quota = ask(api, "GET", f"{NAMESPACED}/resourcequotas/quota").body
    ask(api, "PUT", f"{NAMESPACED}/resourcequotas/quota", {**quota, "spec": {"hard": {"cpu": "3"}}})
    assert create(api, a_pod("c", "1")) == ""
    ask(api, "DELETE", f"{NAMESPACED}/resourcequotas/quota")
    assert create(api, a_pod("d", "100")) == ""


def test_quotas_of_other_namespaces_do_not_count(api: ResourceApi) -> None:
    body = {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "0"}}}
    ask(api, "POST", "/api/v1/namespaces/kube-system/resourcequotas", body)
    assert create(api, a_pod()) == ""


def test_a_dry_run_is_refused_and_never_charged(api: ResourceApi) -> None:
    a_quota(api, hard={"pods": "1"})
    assert ask(api, "POST", PODS, a_pod(), dryRun="All").code == 201
    assert used(api) == {"pods": "0"}
    create(api, a_pod())
    assert ask(api, "POST", PODS, a_pod("q"), dryRun="All").code == 403


def test_pods_of_a_template_are_counted_one_by_one(api: ResourceApi) -> None:
    """Those that controllers make take a short cut through admission."""
    a_quota(api, hard={"pods": "3"})
    spec = a_pod()["spec"]
    for _ in range(3):
        api.create(POD_KIND, "default", {"metadata": {"generateName": "web-"}, "spec": spec})
    with pytest.raises(Exception, match="exceeded quota: quota, requested: pods=1, used: pods=3, limited: pods=3"):
        api.create(POD_KIND, "default", {"metadata": {"generateName": "web-"}, "spec": spec})


def test_a_resize_is_held_to_the_quota(api: ResourceApi) -> None:
    a_quota(api, hard={"cpu": "2"})
    create(api, a_pod("p", "1"))
    for cpu, code in (("3", 403), ("2", 200)):
        patch = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
        media = "application/strategic-merge-patch+json"
        reply = ask(api, "PATCH", f"{PODS}/p/resize", patch, media)
        assert reply.code == code, reply.body
    assert used(api) == {"cpu": "2"}


def test_a_pod_that_is_stuck_on_its_way_out_ceases_to_count() -> None:
    clock = VirtualClock(1_800_000_000 * NS_PER_S)
    api = an_api(clock)
    a_quota(api, hard={"pods": "1"})
    create(api, a_pod("p", nodeName="gone", terminationGracePeriodSeconds=10))
    ask(api, "DELETE", f"{PODS}/p")
    clock.advance_ns(19 * NS_PER_S)
    assert used(api) == {"pods": "1"}
    clock.advance_ns(2 * NS_PER_S)
    assert used(api) == {"pods": "0"}
    assert create(api, a_pod("q")) == ""


def test_amounts_that_nothing_counts_for_have_no_usage(api: ResourceApi) -> None:
    a_quota(api, hard={"count/gadgets.example.com": "3", "pods": "1"})
    assert used(api) == {"pods": "0"}


def test_overhead_and_limits_of_a_pod(api: ResourceApi) -> None:
    pod = a_pod("p", "1", "2")
    pod["spec"] |= {"overhead": {"cpu": "250m", "memory": "1Gi"}, "nodeName": ""}
    found = usage_of(POD_KIND, pod, 0)
    assert {name: found.get(name, 0) // 1_000_000 for name in ("cpu", "limits.cpu", "limits.memory")} == {
        "cpu": 1250,
        "limits.cpu": 2250,
        "limits.memory": 0,
    }


STEPS = st.lists(st.tuples(st.sampled_from(["create", "finish", "delete"]), st.integers(0, 5), st.integers(1, 4)))


@given(STEPS)
def test_the_ledger_agrees_with_a_count_of_everything(steps: list[tuple[str, int, int]]) -> None:
    api = an_api()
    a_quota(api, hard={"cpu": "8", "pods": "4"})
    for what, number, cpu in steps:
        path = f"{PODS}/p{number}"
        if what == "create":
            ask(api, "POST", PODS, a_pod(f"p{number}", str(cpu)))
        elif what == "delete":
            ask(api, "DELETE", path)
        elif (pod := ask(api, "GET", path)).code == 200:
            ask(api, "PUT", f"{path}/status", {**pod.body, "status": {"phase": "Failed"}})
        alive = [pod for pod in api.store.all("/pods") if pod["status"]["phase"] != "Failed"]
        cpus = [int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for pod in alive]
        assert used(api) == {"cpu": str(sum(cpus)), "pods": str(len(alive))}
        assert sum(cpus) <= 8 and len(alive) <= 4
