"""Nominations: added, followed through updates, dropped, and looked up by node."""

import pytest
from queue_rig import Rig, a_pending

from build import a_node
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.model.pod import Pod
from mooring.queue.nominations import Nominations


def nominated(node: str = "", name: str = "pod", priority: int = 0) -> Pod:
    """A pod whose status names a node."""
    return a_pending(name, priority, status={"nominatedNodeName": node})


class Known:
    """Nominations with the pods that the watch knows and those that are queued."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {pod.key: pod for pod in pods}
        self.queued = dict(self.pods)
        self.nominations = Nominations(self.pods.get, self.queued.get)

    def on(self, node: str) -> list[str]:
        assert self.nominations.check() == []
        return [pod.name for pod in self.nominations.for_node(node)]


def test_the_status_names_the_node() -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod)
    assert (known.on("n1"), known.nominations.node_of("uid-pod"), list(known.nominations)) == (["pod"], "n1", ["n1"])


def test_without_a_node_in_the_status_nothing_happens() -> None:
    known = Known(pod := nominated(""))
    known.nominations.add(pod)
    assert (len(known.nominations), list(known.nominations)) == (0, [])


def test_a_node_that_is_given_wins_over_the_status() -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod, "n2")
    assert (known.on("n1"), known.on("n2")) == ([], ["pod"])


def test_giving_no_node_clears_the_nomination() -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod)
    known.nominations.add(pod, "")
    assert (known.on("n1"), known.nominations.node_of("uid-pod")) == ([], None)


def test_a_pod_is_nominated_to_one_node_only() -> None:
    known = Known(pod := nominated())
    known.nominations.add(pod, "n1")
    known.nominations.add(pod, "n2")
    assert (known.on("n1"), known.on("n2"), len(known.nominations)) == ([], ["pod"], 1)


@pytest.mark.parametrize("node_name", [None, "n9"], ids=["gone", "on a node"])
def test_a_pod_that_needs_no_nomination_gets_none_and_loses_what_it_had(node_name: str | None) -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod)
    if node_name is None:
        known.pods.clear()
    else:
        known.pods[pod.key] = a_pending(nodeName=node_name)
    known.nominations.add(pod)
    assert known.on("n1") == []


@pytest.mark.parametrize(
    ("memory", "old", "new", "expected"),
    [
        pytest.param("n1", "", "", "n1", id="what was nominated here stays until a status says otherwise"),
        pytest.param("n1", "", "n2", "n2", id="the status names a node for the first time"),
        pytest.param("n1", "n1", "", None, id="the status no longer names a node"),
        pytest.param("n1", "n1", "n2", "n2", id="the status names another node"),
        pytest.param(None, "", "", None, id="nobody ever named a node"),
        pytest.param(None, "n1", "n1", "n1", id="the status names a node that was dropped here"),
    ],
)
def test_updates(memory: str | None, old: str, new: str, expected: str | None) -> None:
    known = Known(pod := nominated())
    if memory is not None:
        known.nominations.add(pod, memory)
    known.nominations.update(nominated(old), nominated(new))
    assert known.nominations.node_of("uid-pod") == expected
    assert known.nominations.check() == []


def test_deleting() -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod)
    known.nominations.delete(pod.id)
    known.nominations.delete(pod.id)
    assert (known.on("n1"), len(known.nominations)) == ([], 0)


def test_pods_of_a_node_come_in_the_order_of_their_nominations() -> None:
    pods = [nominated("n1", name) for name in ("z", "a", "m")]
    known = Known(*pods)
    for pod in pods:
        known.nominations.add(pod)
    assert known.on("n1") == ["z", "a", "m"]


def test_the_pod_of_a_nomination_is_the_queued_one_and_bare_when_it_is_in_none() -> None:
    known = Known(pod := nominated("n1", priority=7))
    known.nominations.add(pod)
    known.queued[pod.key] = newer = nominated("n1", priority=8)
    assert known.nominations.for_node("n1") == [newer]
    known.queued.clear()
    (bare,) = known.nominations.for_node("n1")
    assert (bare.key, bare.id, bare.priority, bare.spec.containers) == ("default/pod", "uid-pod", 0, [])


def test_the_queue_nominates_pods_that_come_with_a_node_in_their_status() -> None:
    rig = Rig()
    rig.add(pod := nominated("n1", priority=5))
    assert rig.queue.nominations.for_node("n1") == [pod]
    entry = rig.pop()
    assert rig.queue.nominations.for_node("n1")[0].priority == 0
    rig.reject(entry, "Fit")
    assert rig.queue.nominations.for_node("n1") == [pod]
    rig.queue.delete(pod)
    assert rig.queue.nominations.for_node("n1") == []
    rig.end()


def test_a_gated_pod_is_not_nominated() -> None:
    rig = Rig()
    rig.add(a_pending(schedulingGates=[{"name": "a"}], status={"nominatedNodeName": "n1"}))
    assert (rig.where(), rig.queue.nominations.for_node("n1")) == ("gated", [])


def test_the_queue_follows_updates_of_the_status_wherever_the_pod_is() -> None:
    rig = Rig()
    rig.add(nominated())
    rig.queue.update(nominated(), nominated("n1"))
    assert rig.queue.nominations.node_of("uid-pod") == "n1"
    rig.reject(rig.pop(), "Fit")
    rig.queue.update(nominated("n1"), nominated("n2"))
    assert rig.queue.nominations.node_of("uid-pod") == "n2"
    rig.end()


def lone_node(nominations: Nominations) -> None:
    nominations._by_node["n2"] = {}


def lost_pod(nominations: Nominations) -> None:
    del nominations._node_of["uid-pod"]


def second_node(nominations: Nominations) -> None:
    nominations._by_node["n0"] = dict(nominations._by_node["n1"])
    nominations._by_node["n1"] = nominations._by_node.pop("n1")


FAULTS = {
    "a node without pods": (lone_node, ["nominations: node n2 is kept without pods"]),
    "a pod without a node": (
        lost_pod,
        ["nominations: pods and nodes do not agree", "nominations: a pod is nominated to two nodes"],
    ),
    "a pod with two nodes": (second_node, ["nominations: a pod is nominated to two nodes"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_check_finds_what_is_wrong(case: str) -> None:
    spoil, problems = FAULTS[case]
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod)
    assert known.nominations.check() == []
    spoil(known.nominations)
    assert known.nominations.check() == problems


def test_a_load_follows_every_nomination() -> None:
    table = NodeTable()
    table.put_node(a_node("n1"))
    load = NominatedLoad(table)
    pod = nominated("n1")
    nominations = Nominations({pod.key: pod}.get, lambda key: None, load)
    nominations.add(pod)
    assert (load.node_of("uid-pod"), load.on("n1")) == ("n1", [pod])
    nominations.add(pod, "n2")
    assert load.node_of("uid-pod") == "n2"
    nominations.delete("uid-pod")
    nominations.delete("uid-pod")
    assert load.node_of("uid-pod") is None and len(nominations) == 0
