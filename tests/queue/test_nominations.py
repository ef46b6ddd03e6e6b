"""Nominations: added, followed through updates, and dropped."""

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
    """Nominations with the pods that the watch knows."""

    def __init__(self, *pods: Pod) -> None:
        self.pods = {pod.key: pod for pod in pods}
        self.nominations = Nominations(self.pods.get, NominatedLoad(NodeTable()))

    def on(self, node: str) -> list[str]:
        return on_node(self.nominations, node)


def on_node(nominations: Nominations, node: str) -> list[str]:
    """The uids of the pods that are nominated to a node."""
    return [uid for uid, name in nominations.node_of_pod.items() if name == node]


def test_the_status_names_the_node() -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod)
    assert (known.on("n1"), known.nominations.node_of("uid-pod")) == (["uid-pod"], "n1")


def test_without_a_node_in_the_status_nothing_happens() -> None:
    known = Known(pod := nominated(""))
    known.nominations.add(pod)
    assert len(known.nominations) == 0


def test_a_node_that_is_given_wins_over_the_status() -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod, "n2")
    assert (known.on("n1"), known.on("n2")) == ([], ["uid-pod"])


def test_giving_no_node_clears_the_nomination() -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod)
    known.nominations.add(pod, "")
    assert (known.on("n1"), known.nominations.node_of("uid-pod")) == ([], None)


def test_a_pod_is_nominated_to_one_node_only() -> None:
    known = Known(pod := nominated())
    known.nominations.add(pod, "n1")
    known.nominations.add(pod, "n2")
    assert (known.on("n1"), known.on("n2"), len(known.nominations)) == ([], ["uid-pod"], 1)


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


def test_deleting() -> None:
    known = Known(pod := nominated("n1"))
    known.nominations.add(pod)
    known.nominations.delete(pod.id)
    known.nominations.delete(pod.id)
    assert (known.on("n1"), len(known.nominations)) == ([], 0)


def test_the_queue_nominates_pods_that_come_with_a_node_in_their_status() -> None:
    rig = Rig()
    rig.add(pod := nominated("n1", priority=5))
    assert on_node(rig.queue.nominations, "n1") == [pod.id]
    entry = rig.pop()
    assert on_node(rig.queue.nominations, "n1") == [pod.id]
    rig.reject(entry, "Fit")
    assert on_node(rig.queue.nominations, "n1") == [pod.id]
    rig.queue.delete(pod)
    assert on_node(rig.queue.nominations, "n1") == []
    rig.end()


def test_v137_5_2_1_a_gated_pod_is_nominated_as_its_status_says() -> None:
    rig = Rig()
    rig.add(a_pending(schedulingGates=[{"name": "a"}], status={"nominatedNodeName": "n1"}))
    assert (rig.where(), on_node(rig.queue.nominations, "n1")) == ("gated", ["uid-pod"])


def test_v137_5_2_2_an_empty_node_name_is_no_nomination() -> None:
    rig = Rig()
    rig.add(pod := a_pending(status={"nominatedNodeName": "n1"}))
    rig.queue.nominations.add(pod, "")
    assert rig.queue.nominations.promised() == {}
    rig.queue.update(pod, a_pending(status={"nominatedNodeName": ""}))
    assert rig.queue.nominations.promised() == {}
    rig.end()


def test_the_queue_follows_updates_of_the_status_wherever_the_pod_is() -> None:
    rig = Rig()
    rig.add(nominated())
    rig.queue.update(nominated(), nominated("n1"))
    assert rig.queue.nominations.node_of("uid-pod") == "n1"
    rig.reject(rig.pop(), "Fit")
    rig.queue.update(nominated("n1"), nominated("n2"))
    assert rig.queue.nominations.node_of("uid-pod") == "n2"
    rig.end()


def test_a_load_follows_every_nomination() -> None:
    table = NodeTable()
    table.put_node(a_node("n1"))
    load = NominatedLoad(table)
    pod = nominated("n1")
    nominations = Nominations({pod.key: pod}.get, load)
    nominations.add(pod)
    assert (load.node_of("uid-pod"), load.on("n1")) == ("n1", [pod])
    nominations.add(pod, "n2")
    assert load.node_of("uid-pod") == "n2"
    assert nominations.check() == []
    load.withdraw("uid-pod")
    assert nominations.check() == ["nominations: uid-pod is nominated to n2, but its load is on None"]
    nominations.add(pod, "n1")
    for _ in range(2):  # the second time nothing happens
        nominations.delete("uid-pod")
        assert (load.node_of("uid-pod"), load.on("n1"), len(nominations)) == (None, [], 0)


def test_a_nomination_of_which_the_queue_or_the_load_has_lost_its_part_is_listed_and_withdrawn() -> None:
    only_queue, only_load, both = (nominated(name=name) for name in ("queue", "load", "both"))
    load = NominatedLoad(NodeTable())
    nominations = Nominations({pod.key: pod for pod in (only_queue, both)}.get, load)
    nominations.add(only_queue, "n1")
    load.withdraw(only_queue.id)
    nominations.add(both, "n1")
    load.promise(only_load, "n1")
    assert sorted(nominations.pod_ids()) == ["uid-both", "uid-load", "uid-queue"]
    for pod in (only_queue, only_load, both):
        nominations.withdraw(pod.id)
        assert (nominations.node_of(pod.id), load.node_of(pod.id)) == (None, None)
    assert (nominations.pod_ids(), nominations.promised()) == ([], {})


def test_a_pod_that_took_the_name_of_another_does_not_have_its_nomination() -> None:
    old, new = nominated("n1"), a_pending(uid="uid-other", status={"nominatedNodeName": "n2"})
    known = Known(old)
    known.nominations.add(old)
    known.pods[new.key] = new
    known.nominations.update(old, new)
    assert (known.on("n1"), known.on("n2")) == ([], ["uid-other"])
