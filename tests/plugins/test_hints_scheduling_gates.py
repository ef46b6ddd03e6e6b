"""SchedulingGates: only its own last gate, once open, wakes a pod."""

from build import a_pod
from hinting import wakes
from mooring.framework.contract.events import UNSCHEDULABLE_POD, Action, ClusterEvent
from mooring.framework.contract.points import Handle
from mooring.plugins.queue_and_bind import SchedulingGates

OPENED = ClusterEvent(UNSCHEDULABLE_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
PLUGIN = SchedulingGates(None, Handle())
GATED = a_pod("waiting", schedulingGates=[{"name": "example.com/hold"}])


def test_a_pod_is_woken_when_its_own_gates_are_gone() -> None:
    assert wakes(PLUGIN, GATED, OPENED, GATED, a_pod("waiting"))


def test_the_gates_of_another_pod_do_not_matter() -> None:
    other = a_pod("other", schedulingGates=[{"name": "example.com/hold"}])
    assert not wakes(PLUGIN, GATED, OPENED, other, a_pod("other"))


def test_pods_are_told_apart_by_uid_not_by_name() -> None:
    waiting, successor = (a_pod("waiting", metadata={"uid": uid}) for uid in ("1", "2"))
    assert not wakes(PLUGIN, waiting, OPENED, GATED, successor)
