"""Smoke tests for any API server: everything that `mooring run` and the live questions need of one, by objects alone.

`make smoke KUBECONFIG=path` runs them on a real server, and `make test` on an embedded one (tests/smoke_server.py). They need
neither kubelets nor controllers, and ask for nothing that takes them.
"""

import json
from collections.abc import Iterator
from functools import partial
from operator import eq
from typing import Any

import pytest

from mooring.api.api_errors import ApiError
from rollout_policies import ITEMS, a_template, scheduler_of
from smoke_server import SmokeRun, a_smoke_run, is_bound, refuse_users_pods, scheduled, users_pods

pytestmark = pytest.mark.slow
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SHARES = "/api/v1/namespaces/kube-system/configmaps"


@pytest.fixture(scope="module")
def run() -> Iterator[SmokeRun]:
    with a_smoke_run() as running:
        yield running


def test_a_cluster_with_pods_of_users_is_refused() -> None:
    names = [("kube-system", "dns"), ("shop", "web"), ("mooring-smoke-0", "left")]
    pods = [{"metadata": {"namespace": namespace, "name": name}} for namespace, name in names]
    assert users_pods(pods) == ["shop/web"]
    told = "The cluster at https://x has 1 pods of users, such as shop/web. Use an empty cluster, or add ANYWAY=1."
    with pytest.raises(pytest.exit.Exception, match=f"^{told}$"):
        refuse_users_pods(pods, "https://x", "")
    refuse_users_pods(pods, "https://x", "1")
    refuse_users_pods(pods[:1], "https://x", "")


def test_a_pod_is_bound_and_has_its_condition_and_its_event(run: SmokeRun) -> None:
    server = run.server
    node = server.a_node("bound", group="bound")
    pod = server.wait(server.a_pod("bound", group="bound"), is_bound)
    assert pod["spec"]["nodeName"] == node
    assert scheduled(pod)["status"] == "True"
    assert server.has_event("bound", "Scheduled") == f"Successfully assigned {server.run}/bound to {node}"


def test_a_pod_without_room_says_why_and_is_bound_when_a_node_comes(run: SmokeRun) -> None:
    server = run.server
    server.a_node("small", cpu="1", group="room")
    path = server.a_pod("large", cpu="2", group="room")
    waiting = server.wait(path, lambda pod: scheduled(pod).get("status") == "False")
    assert scheduled(waiting)["reason"] == "Unschedulable"
    assert "Insufficient cpu" in scheduled(waiting)["message"]
    assert server.has_event("large", "FailedScheduling") == scheduled(waiting)["message"]
    node = server.a_node("large", cpu="4", group="room")
    assert server.wait(path, is_bound)["spec"]["nodeName"] == node


def test_a_pod_of_higher_priority_takes_the_room_of_another(run: SmokeRun) -> None:
    server = run.server
    priority = {"metadata": {"name": f"{server.run}-high"}, "value": 1000}
    server.create("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    node = server.a_node("preempt", cpu="2", group="preempt")
    low = server.a_pod("low", cpu="2", group="preempt")
    server.wait(low, is_bound)
    high = server.a_pod("high", cpu="2", group="preempt", priorityClassName=f"{server.run}-high")
    nominated = server.wait(high, lambda pod: pod["status"].get("nominatedNodeName") or is_bound(pod))
    assert node in (nominated["status"].get("nominatedNodeName"), nominated["spec"].get("nodeName"))
    assert server.has_event("low", "Preempted").startswith("Preempted by pod")
    server.delete(low)  # no kubelet may be there to end it
    assert server.wait(high, is_bound)["spec"]["nodeName"] == node


def test_a_gated_pod_waits_for_its_gate(run: SmokeRun) -> None:
    server = run.server
    server.a_node("gated", group="gated")
    path = server.a_pod("gated", group="gated", schedulingGates=[{"name": "example.com/smoke"}])
    free = server.a_pod("free", group="gated")
    server.wait(free, is_bound)
    assert not is_bound(server.get(path) or {}), "it came first and is still there"
    server.patch(path, {"spec": {"schedulingGates": None}})
    server.wait(path, is_bound)


def test_pods_are_spread_over_zones(run: SmokeRun) -> None:
    server = run.server
    nodes = {server.a_node(f"zone-{zone}", group="spread", zone=f"{server.run}-{zone}") for zone in "abc"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    paths = [server.a_pod(f"spread-{i}", group="spread", topologySpreadConstraints=[spread]) for i in range(6)]
    found = [server.wait(path, is_bound)["spec"]["nodeName"] for path in paths]
    assert sorted(found) == sorted([*nodes] * 2)


def test_a_volume_that_waits_for_its_first_consumer_gets_the_node(run: SmokeRun) -> None:
    server = run.server
    node = server.a_node("volume", group="volume")
    waits = {"provisioner": "example.com/smoke", "volumeBindingMode": "WaitForFirstConsumer"}
    storage = server.create(
        "/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": f"{server.run}-late"}, **waits}
    )
    spec = {
        "storageClassName": storage["metadata"]["name"],
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claims = f"/api/v1/namespaces/{server.run}/persistentvolumeclaims"
    server.create(claims, {"metadata": {"name": "late"}, "spec": spec})
    server.a_pod("volume", group="volume", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "late"}}])
    key = "volume.kubernetes.io/selected-node"
    claim = server.wait(f"{claims}/late", lambda found: key in found["metadata"].get("annotations", {}))
    assert claim["metadata"]["annotations"][key] == node


def test_a_device_is_allocated_and_reserved(run: SmokeRun) -> None:
    server = run.server
    served = [version for version in ("v1", "v1beta2", "v1beta1") if server.get(f"/apis/resource.k8s.io/{version}")]
    if not served:
        pytest.skip("the server does not serve resource.k8s.io")
    group, is_oldest_form = f"/apis/resource.k8s.io/{served[0]}", served[0] == "v1beta1"
    node = server.a_node("device", group="device")
    driver, kind = "smoke.example.com", f"{server.run}-device"
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    server.create(f"{group}/deviceclasses", {"metadata": {"name": kind}, "spec": {"selectors": [selector]}})
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec: dict[str, Any] = {"driver": driver, "nodeName": node, "pool": pool}
    spec["devices"] = [{"name": "one", "basic": {}} if is_oldest_form else {"name": "one"}]
    server.create(f"{group}/resourceslices", {"metadata": {"name": kind}, "spec": spec})
    wanted = {"deviceClassName": kind}
    request = {"name": "r", **(wanted if is_oldest_form else {"exactly": wanted})}
    claims = f"{group}/namespaces/{server.run}/resourceclaims"
    server.create(claims, {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [request]}}})
    container = {"resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "d"}]}}
    own = [{"name": "d", "resourceClaimName": "one"}]
    server.wait(server.a_pod("device", group="device", resourceClaims=own, container=container), is_bound)
    status = (server.get(f"{claims}/one") or {})["status"]
    (result,) = status["allocation"]["devices"]["results"]
    assert (result["driver"], result["pool"], result["device"]) == (driver, node, "one")
    assert [user["name"] for user in status["reservedFor"]] == ["device"]


def test_another_process_takes_over_when_the_leader_is_killed(run: SmokeRun) -> None:
    """Last but for the questions: the process of the run is another one afterwards."""
    server = run.server
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{server.run}/leases/{server.run}"
    holder = server.wait(lease, lambda found: found["spec"].get("holderIdentity"))["spec"]["holderIdentity"]
    server.a_node("leader", group="leader")
    second = run.start()
    assert run.process is not None
    run.process.kill()
    run.process.wait()
    run.process = second
    path = server.a_pod("leader", group="leader")
    server.wait(path, is_bound)
    spec = (server.get(lease) or {})["spec"]
    assert spec["holderIdentity"] not in ("", holder)


def test_questions_are_answered_about_the_cluster(run: SmokeRun) -> None:
    server = run.server
    node = server.a_node("asked", cpu="1", group="asked")
    path = server.a_pod("asked", cpu="3", group="asked")
    server.wait(path, scheduled)
    explained = run.ask("explain", "asked", "-n", server.run, "-o", "json")
    assert explained.returncode == 1, explained.stderr
    reasons = json.loads(explained.stdout)["reasons"]
    assert any(each["message"] == "Insufficient cpu" and node in each["examples"] for each in reasons)
    tried = run.ask("what-if", "--add-nodes", f"1={server.run}-leader", "--drain", node, "-o", "json")
    assert json.loads(tried.stdout)["changes"][1] == f"drain {node}"
    assert run.ask("dump", "-o", str(run.folder / "dump.json")).returncode == 0
    assert f'"{node}"' in (run.folder / "dump.json").read_text()


def test_the_log_has_no_errors_but_those_of_the_lease(run: SmokeRun) -> None:
    """The server refused no write, and no watch failed. The second process asks for the lease while it is held."""
    lines = (run.folder / "log").read_text().splitlines()
    assert [line for line in lines if line.startswith("E") and "lease" not in line] == []


@pytest.fixture(scope="module")
def rollout(run: SmokeRun) -> None:
    """The policies of deploy/rollout, if the server evaluates them."""
    server = run.server
    served = {each["name"] for each in (server.get(ADMISSION) or {"resources": []})["resources"]}
    if "mutatingadmissionpolicies" not in served:
        pytest.skip("the server does not serve MutatingAdmissionPolicy in admissionregistration.k8s.io/v1")
    if server.get(f"{ADMISSION}/mutatingadmissionpolicies/mooring-rollout") is not None:
        pytest.skip("the cluster has the policies already")
    for item in ITEMS:
        plural = "configmaps" if item["kind"] == "ConfigMap" else f"{item['kind'].lower().removesuffix('y')}ies"
        plural = plural if not item["kind"].endswith("Binding") else f"{item['kind'].lower()}s"
        server.create(SHARES if item["kind"] == "ConfigMap" else f"{ADMISSION}/{plural}", item)


def chosen(run: SmokeRun, name: str, **spec: Any) -> str:
    """The scheduler that a pod would get from the server."""
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}
    return str(run.server.would_create(run.server.pods, body)["spec"]["schedulerName"])


def test_policies_of_a_roll_out_choose_as_the_evaluator_of_mooring_does(run: SmokeRun, rollout: None) -> None:
    server = run.server
    space = f"/api/v1/namespaces/{server.run}"
    server.patch(space, {"metadata": {"labels": {"mooring.dev/rollout": "all"}}})
    server.until(lambda: chosen(run, "all"), lambda name: name == "mooring")
    assert chosen(run, "own", schedulerName="mine") == "mine"
    server.patch(space, {"metadata": {"labels": {"mooring.dev/rollout": "share"}}})
    names = [f"web-{i}" for i in range(60)]
    for percent in ("50", "0"):
        server.patch(f"{SHARES}/mooring-rollout-share", {"data": {"percent": percent}})
        expected = [
            scheduler_of(
                a_template(name), namespace=server.run, labels={"mooring.dev/rollout": "share"}, percent=percent
            )
            for name in names
        ]
        assert (percent == "0") == ("mooring" not in expected)
        server.until(lambda: [chosen(run, name) for name in names], partial(eq, expected))


def test_the_guard_of_a_roll_out_rejects_pods_in_kube_system(run: SmokeRun, rollout: None) -> None:
    body: dict[str, Any] = {"metadata": {"name": "guarded"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    body["spec"]["schedulerName"] = "mooring"

    def refusal() -> str:
        try:
            run.server.would_create("/api/v1/namespaces/kube-system/pods", body)
        except ApiError as error:
            return str(error)
        return ""

    told = run.server.until(refusal, bool)
    assert "pods in kube-system are scheduled by kube-scheduler, not by mooring" in told
