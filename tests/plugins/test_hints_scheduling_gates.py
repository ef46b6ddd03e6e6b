"""SchedulingGates: only its own last gate, once open, wakes a pod."""

from build import a_pod
from hinting import wakes_for_pod
from mooring.framework.contract.events import Action
from mooring.framework.contract.points import Handle
from mooring.plugins.queue_and_bind import SchedulingGates

OPENED = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
PLUGIN = SchedulingGates(None, Handle())
GATED = a_pod("waiting", schedulingGates=[{"name": "example.com/hold"}])


def test_a_pod_is_woken_when_its_own_gates_are_gone() -> None:
    assert wakes_for_pod(PLUGIN, GATED, GATED, a_pod("waiting"), OPENED)


def test_the_gates_of_another_pod_do_not_matter() -> None:
    other = a_pod("other", schedulingGates=[{"name": "example.com/hold"}])
    assert not wakes_for_pod(PLUGIN, GATED, other, a_pod("other"), OPENED)


def test_pods_are_told_apart_by_uid_not_by_name() -> None:
    waiting, successor = (a_pod("waiting", metadata={"uid": uid}) for uid in ("1", "2"))
    assert not wakes_for_pod(PLUGIN, waiting, GATED, successor, OPENED)
