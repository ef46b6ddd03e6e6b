"""What the scheduler wants, done to the store: also when the object is gone, changed, or somebody else came first."""

import msgspec

from asking import PODS, ask
from mooring.api.kinds import RESOURCES
from mooring.apiserver.admission.object_meta import Deletion
from mooring.drivers.driver import FLUSH_NS
from mooring.framework.contract.intents import Evict, PatchStatus, Record
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from virtual_cluster import VirtualCluster

RESOURCE = RESOURCES["", "v1", "pods"]
DISRUPTED = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message="why")


def seen(cluster: VirtualCluster, name: str = "pod") -> Pod:
    """The pod as the scheduler was told of it."""
    return msgspec.convert(cluster.get(name), Pod)


def test_a_pod_that_somebody_else_has_bound_is_not_bound_again() -> None:
    cluster = VirtualCluster()
    cluster.node()
    cluster.node("elsewhere")
    pods = cluster.api
    pods.create(
        RESOURCE, "default", {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    )
    pods.bind("default", "pod", {"metadata": {"name": "pod"}, "target": {"name": "elsewhere"}})
    cluster.settle()
    cluster.wait(60)
    assert (cluster.place(), cluster.cluster.driver.bound) == ("elsewhere", 0)


def test_a_status_for_a_pod_of_the_same_name_is_not_written() -> None:
    cluster = VirtualCluster()
    cluster.pod(schedulerName="somebody-else")
    cluster.ask("DELETE", f"{PODS}/pod")
    cluster.pod(schedulerName="somebody-else")
    version = cluster.api.store.version
    stale = Pod(metadata=seen(cluster).metadata.__class__(name="pod", namespace="default", uid="another"))
    cluster.cluster.driver.do(PatchStatus(stale, DISRUPTED, "node"))
    gone = Pod(metadata=seen(cluster).metadata.__class__(name="gone", namespace="default", uid="another"))
    cluster.cluster.driver.do(PatchStatus(gone, DISRUPTED, "node"))
    assert cluster.api.store.version == version


def test_a_nominated_node_is_set_and_cleared() -> None:
    cluster = VirtualCluster()
    cluster.pod(schedulerName="somebody-else")
    driver = cluster.cluster.driver
    driver.do(PatchStatus(seen(cluster), nominated_node_name="node"))
    assert cluster.get()["status"]["nominatedNodeName"] == "node"
    driver.do(PatchStatus(seen(cluster), DISRUPTED))
    assert cluster.get()["status"]["nominatedNodeName"] == "node", "what is not spoken of stays"
    driver.do(PatchStatus(seen(cluster), nominated_node_name=""))
    assert "nominatedNodeName" not in cluster.get()["status"]


def test_a_condition_takes_the_place_of_the_one_of_its_type() -> None:
    cluster = VirtualCluster()
    cluster.pod(schedulerName="somebody-else")
    driver = cluster.cluster.driver
    for status, message in (("False", "a"), ("False", "b"), ("True", "c")):
        driver.do(PatchStatus(seen(cluster), Condition(type="PodScheduled", status=status, message=message)))
        cluster.wait(10)
    (condition,) = cluster.get()["status"]["conditions"]
    assert (condition["status"], condition["message"]) == ("True", "c")
    assert condition["lastTransitionTime"] == "2027-01-15T08:00:20Z"


def test_a_victim_that_is_gone_is_as_good_as_evicted() -> None:
    cluster = VirtualCluster()
    cluster.node()
    cluster.pod("victim")
    victim = seen(cluster, "victim")
    cluster.pod("preemptor", cpu="100")
    cluster.api.delete(RESOURCE, "default", "victim", Deletion(grace_s=0))
    cluster.cluster.driver.do(Evict(victim, seen(cluster, "preemptor"), DISRUPTED))
    cluster.settle()
    assert cluster.phase("victim") == "gone"


def test_a_series_whose_event_is_gone_is_told_as_a_new_event() -> None:
    cluster = VirtualCluster()
    cluster.pod(schedulerName="somebody-else")
    record = Record(seen(cluster), "Warning", "Odd", "Scheduling", "hm")
    driver = cluster.cluster.driver
    driver.do(record)
    (event,) = cluster.events("Odd")
    ask(cluster.api, "DELETE", f"/api/v1/namespaces/default/events/{event['metadata']['name']}")
    driver.do(record)
    (again,) = cluster.events("Odd")
    assert (again["metadata"]["name"], again["series"]["count"]) == (event["metadata"]["name"], 2)
    driver.do(record)
    assert len(cluster.events("Odd")) == 1


def test_events_of_ours_are_as_clients_know_them() -> None:
    cluster = VirtualCluster()
    cluster.node()
    cluster.pod()
    scheduled = {"fieldSelector": "reason=Scheduled"}
    (event,) = cluster.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events", **scheduled)["items"]
    assert event["regarding"]["uid"] == cluster.get()["metadata"]["uid"]
    assert event["note"] == "Successfully assigned default/pod to node"
    assert (event["type"], event["action"]) == ("Normal", "Binding")
    assert event["metadata"]["uid"]
    assert event["metadata"]["creationTimestamp"]
    (core,) = cluster.ask("GET", "/api/v1/namespaces/default/events", **scheduled)["items"]
    assert (core["message"], core["source"], core["firstTimestamp"]) == (event["note"], {}, None)


def test_the_driver_says_when_to_come_again() -> None:
    cluster = VirtualCluster()
    driver = cluster.cluster.driver
    assert driver.next_ns() is not None
    cluster.node(cpu="1")
    cluster.api.create(
        RESOURCE, "default", {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    )
    assert driver.next_ns() == 0, "there is a pod to try"
    cluster.settle()
    due_ns = driver.next_ns()
    assert due_ns is not None
    assert cluster.clock.now_ns() < due_ns <= cluster.clock.now_ns() + FLUSH_NS
