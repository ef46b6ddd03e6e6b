"""Explanations of pods that are being deleted, and of pods on nodes that do not exist."""

from written import Written, a_node, a_pod

import mooring


def ending(pod: Written) -> Written:
    pod["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return pod


def test_a_pending_pod_that_is_being_deleted_is_not_attempted() -> None:
    """kube-scheduler skips such a pod (`skip schedule deleting pod`), so room on a node is no answer."""
    answer = mooring.load([a_node("a"), ending(a_pod("wanted"))]).explain("wanted")
    assert answer.summary() == [
        "default/wanted is pending: it is being deleted, and the scheduler attempts no such pod"
    ]
    assert (answer.exit_status, list(answer.to_dict()["cures"])) == (1, [])


def test_a_pod_on_a_node_that_does_not_exist() -> None:
    summary = mooring.load([a_node("a"), a_pod("lost", node="gone")]).explain("lost").summary()
    assert summary == [
        "default/lost is on gone, and would now go to a: the only node that takes it",
        "Node gone does not exist: kube-controller-manager deletes pods on such nodes",
    ]


def test_pods_that_end_already_are_not_said_to_be_evicted() -> None:
    objects = [a_node("a"), ending(a_pod("old", "3", node="a")), a_pod("wanted", "2", priority=5)]
    answer = mooring.load(objects).explain("wanted")
    assert not any("evict" in line for line in answer.summary())
