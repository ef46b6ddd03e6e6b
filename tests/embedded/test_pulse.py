"""A glance at a running cluster: what it counts is what there is."""

from asking import NODES, PODS
from mooring.embedded.embedded_cluster import ClusterStatistics, EmbeddedSettings
from virtual_cluster import VirtualCluster


def counted(pulse: ClusterStatistics) -> dict[str, int]:
    return {state: count for state, count in pulse.summary().pods.items() if count}


def test_pods_are_counted_by_what_they_are_doing() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    cluster.pod("before")
    pulse = ClusterStatistics(cluster.cluster)
    cluster.pod("running")
    cluster.pod("too-large", cpu="100")
    cluster.pod("short", restartPolicy="Never", metadata={"annotations": {"mooring.dev/run-seconds": "1"}})
    cluster.wait(10)
    assert counted(pulse) == {"Running": 2, "Pending": 1, "Succeeded": 1}
    cluster.ask("DELETE", f"{PODS}/running", {"gracePeriodSeconds": 100})
    assert counted(pulse) == {"Running": 1, "Pending": 1, "Succeeded": 1, "Terminating": 1}
    cluster.wait(200)
    assert counted(pulse) == {"Running": 1, "Pending": 1, "Succeeded": 1}


def test_why_pods_wait_is_told_until_they_do_not() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="4")
    pulse = ClusterStatistics(cluster.cluster)
    cluster.pod("large", cpu="5")
    ((name, why),) = pulse.summary().pending
    assert name == "default/large"
    assert why.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    cluster.ask("DELETE", f"{PODS}/large")
    assert pulse.summary().pending == []
    cluster.pod("larger", cpu="6")
    assert [name for name, _ in pulse.summary().pending] == ["default/larger"]
    cluster.node("big", cpu="8")
    cluster.wait(30)
    assert pulse.summary().pending == []


def test_only_the_latest_are_told() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="1")
    pulse = ClusterStatistics(cluster.cluster)
    for number in range(8):
        cluster.pod(f"p{number}", cpu="2")
    summary = pulse.summary()
    assert [name for name, _ in summary.pending] == [f"default/p{number}" for number in (7, 6, 5, 4, 3)]
    assert len(summary.events) == 5
    assert summary.events[-1].startswith("FailedScheduling  p7  0/1 nodes are available")


def test_the_pace_is_of_the_last_seconds() -> None:
    cluster = VirtualCluster()
    cluster.node(cpu="100")
    pulse = ClusterStatistics(cluster.cluster)
    assert (pulse.summary().created_per_s, pulse.summary().bound_per_s) == (0.0, 0.0)
    for number in range(6):
        cluster.pod(f"p{number}")
    cluster.wait(2)
    summary = pulse.summary()
    assert (summary.created_per_s, summary.bound_per_s) == (3.0, 3.0)
    for _ in range(5):
        cluster.wait(2)
        last = pulse.summary()
    assert (last.created_per_s, last.bound_per_s) == (0.0, 0.0)


def test_how_full_the_nodes_are() -> None:
    cluster = VirtualCluster()
    cluster.node("b", cpu="4")
    cluster.node("a", cpu="8")
    cluster.pod("p", cpu="2", nodeSelector={})
    where = cluster.place("p")
    loads = ClusterStatistics(cluster.cluster).summary().nodes
    assert [load.name for load in loads] == ["a", "b"]
    assert {load.name: load.pods for load in loads} == {"a": int(where == "a"), "b": int(where == "b")}
    assert {load.cpu for load in loads} == {0.0, 2 / (8 if where == "a" else 4)}
    cluster.ask("DELETE", f"{NODES}/{where}")
    cluster.wait(1)
    assert where not in [load.name for load in ClusterStatistics(cluster.cluster).summary().nodes]


def test_how_full_the_nodes_are_where_another_process_schedules() -> None:
    cluster = VirtualCluster(EmbeddedSettings(schedules=False))
    cluster.node("n", cpu="4")
    cluster.pod("p", cpu="1")
    cluster.pod("waiting", cpu="1")
    assert not cluster.cluster.scheduler.has_work(), "no pod is queued that this process never schedules"
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    cluster.ask("POST", f"{PODS}/p/binding", binding)
    (load,) = ClusterStatistics(cluster.cluster).summary().nodes
    assert (load.name, load.cpu, load.pods) == ("n", 0.25, 1)
