"""One attempt looks for devices only so long, over all nodes; the next one goes on from there."""

import numpy as np
import pytest

from build import a_cluster, a_node
from device_building import a_claim, a_class, a_device, a_slice, an_ask
from mooring.framework.contract.status import PluginError
from mooring.plugins.devices import device_search_cache
from mooring.plugins.devices.device_demand import DeviceFeatures
from mooring.plugins.devices.device_search_cache import NO_CHOICE, DeviceSearchCache

NODES = [f"n{i}" for i in range(4)]


def test_an_attempt_is_given_up_when_all_nodes_together_take_too_long() -> None:
    slices = [a_slice(f"s-{node}", a_device("d0", numa=i), pool=node, nodeName=node) for i, node in enumerate(NODES)]
    cluster = a_cluster(*map(a_node, NODES), a_class(), *slices)
    market = DeviceSearchCache(DeviceFeatures(), max_steps=400)
    claims = [a_claim("c", an_ask(1, "lists.range(100).all(node, node >= 0)"))]  # some 150 steps for each node
    rows = np.arange(4, dtype=np.intp)
    with pytest.raises(PluginError, match="node n2: timed out trying to allocate devices"):
        market.codes(cluster, claims, rows)
    assert market.codes(cluster, claims, rows).tolist() == [0, 0, 0, 0]


def test_selectors_that_cost_more_than_one_attempt_may_take_are_evaluated_by_several() -> None:
    devices = [a_device(f"d{i}", numa=i) for i in range(4)]
    cluster = a_cluster(a_node("n0"), a_class(), a_slice("s", *devices, node="n0"))
    market = DeviceSearchCache(DeviceFeatures(), max_steps=150)
    claims = [a_claim("c", an_ask(1, "lists.range(100).exists(several, several < 0)"))]
    rows = np.arange(1, dtype=np.intp)
    outcomes = []
    for _ in range(5):
        try:
            outcomes.append(market.codes(cluster, claims, rows).tolist())
        except PluginError as fault:
            outcomes.append(str(fault))
    assert outcomes[0] == "node n0: timed out trying to allocate devices"
    assert outcomes[-1] == [NO_CHOICE]


def test_a_search_that_has_learnt_nothing_is_not_begun_again() -> None:
    devices = [a_device(f"d{i}") for i in range(20)]
    cluster = a_cluster(a_node("n0"), a_class(), a_slice("s", *devices, node="n0"))
    market = DeviceSearchCache(DeviceFeatures(), max_steps=1000)
    claims = [a_claim("c", an_ask(10), an_ask(11))]
    rows = np.arange(1, dtype=np.intp)
    for _ in range(2):  # the first one has learnt what the selector of the class says
        with pytest.raises(PluginError, match="node n0: timed out trying to allocate devices"):
            market.codes(cluster, claims, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_search_cache, "search", None)
        with pytest.raises(PluginError, match="node n0: timed out trying to allocate devices"):
            market.codes(cluster, claims, rows)
