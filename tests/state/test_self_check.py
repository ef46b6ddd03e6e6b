"""The self-check finds every planted fault, says both stories, mends it, and then finds nothing."""

import gc
import weakref

import pytest

from build import a_node, a_pod
from device_building import a_claim, a_class, a_device, a_slice, an_ask, claiming
from mooring.plugins.devices.device_search_cache import BURST
from mooring.plugins.devices.dynamic_resources import DynamicResources
from mooring.scheduler.extender_steps import Steps, Suspension
from mooring.state.check.check import RETAKES_S
from planted_faults import PLANTS, group_member_lost, requested_off, row_of
from self_checking import GATES, CheckedCluster, a, a_busy_cluster


def test_a_scheduler_that_is_right_differs_in_nothing() -> None:
    cluster = a_busy_cluster()
    assert cluster.check() == []
    assert cluster.reports == []


@pytest.mark.parametrize("story", PLANTS)
def test_a_planted_fault_is_found_and_mended(story: str) -> None:
    cluster = a_busy_cluster()
    plant, kinds = PLANTS[story]
    plant(cluster)
    found = cluster.check(repairs=True)
    assert found, "it is not found"
    found_kinds = {difference.kind for difference in found}
    # What is counted wrongly may change decisions as well.
    assert found_kinds - {"answer"} == kinds or found_kinds == kinds, [str(difference) for difference in found]
    assert all(difference.believed != difference.fresh for difference in found)
    cluster.driver.settle()
    assert [str(difference) for difference in cluster.check()] == []


def test_a_lost_member_of_a_group_is_found_and_mended() -> None:
    cluster = CheckedCluster(**GATES)
    cluster.put(a_node("n"), a("member", cpu="100", schedulingGroup={"podGroupName": "gang"}))
    assert cluster.check() == []
    group_member_lost(cluster)
    assert {difference.kind for difference in cluster.check(repairs=True)} == {"group"}
    assert cluster.check() == []


def test_while_an_attempt_waits_for_extenders_nothing_is_compared_or_mended() -> None:
    cluster = a_busy_cluster()
    requested_off(cluster)
    check = cluster.begin()
    cluster.core.extender_calls.suspension = Suspension(_no_steps())
    assert check.work(lambda: False) == 0.0
    assert check.mend() is None
    cluster.core.extender_calls.suspension = None
    assert check.work(lambda: False) == RETAKES_S[0]
    assert "row" in {each.kind for each in check.candidates}


def _no_steps() -> Steps[None]:
    return
    yield


def test_what_becomes_right_before_it_is_taken_again_is_not_reported() -> None:
    cluster = a_busy_cluster()
    requested_off(cluster)
    check = cluster.begin()
    assert check.work(lambda: False) == RETAKES_S[0]
    cluster.nodes.amounts.requested[0, row_of(cluster)] -= 500
    assert check.work(lambda: False) is None
    assert check.differences == []


def test_a_check_that_is_discarded_frees_its_memory_without_the_garbage_collector() -> None:
    check = a_busy_cluster().begin()
    while check.work(lambda: False) is not None:
        pass
    column = weakref.ref(check.fresh.cluster.nodes.amounts.requested)
    gc.disable()
    try:
        for _ in check.discard():
            pass
        assert column() is None
    finally:
        gc.enable()


def test_a_pod_whose_search_was_cut_short_is_not_compared() -> None:
    cluster = CheckedCluster()
    devices = [a_device(f"d{i}") for i in range(8)]
    too_many = a_claim("c", *(an_ask(3) for _ in range(3)))  # thousands of steps, until all ways were tried
    cluster.put(a_node("n0"), a_class(), a_slice("s", *devices, node="n0"), too_many)
    plugin = cluster.core.runners["default-scheduler"].profile.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    plugin.searches.shares.charge("default", 1000 * BURST, cluster.clock.now_ns())
    cluster.put(claiming(a_pod("p", schedulerName="default-scheduler"), "c"))
    assert cluster.scheduler.place_in_queue("default/p") == "backoff"
    assert cluster.check() == [], "the other scheduler, whose namespaces owe nothing, has another answer"


COSTLY = "lists.range(100).all(a, lists.range(100).all(b, a + b >= 0)) && device.attributes['gpu.example.com'].numa < 0"
"""Some 20,000 steps for each device."""


def owed_after(checks: int) -> float:
    """What a namespace owes for an attempt with a costly search that comes after so many self-checks."""
    cluster = CheckedCluster()
    devices = [a_device(f"d{i}", numa=i) for i in range(10)]
    cluster.put(a_node("n0"), a_class(), a_slice("s", *devices, node="n0"), a_claim("c", an_ask(1, COSTLY)))
    cluster.driver.create(claiming(a_pod("p", schedulerName="default-scheduler"), "c"))
    for _ in range(checks):
        assert cluster.check() == []
    cluster.driver.attempt_once()
    plugin = cluster.core.runners["default-scheduler"].profile.plugins["DynamicResources"]
    assert isinstance(plugin, DynamicResources)
    return plugin.searches.shares.owed("default", cluster.clock.now_ns())


def test_an_attempt_costs_its_namespace_the_same_with_and_without_self_checks() -> None:
    assert owed_after(checks=2) == owed_after(checks=0) > 100_000
