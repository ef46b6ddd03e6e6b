"""One attempt looks for devices only so long, over all nodes; the next one goes on from there."""

import numpy as np
import pytest

from build import a_cluster, a_node
from device_building import a_claim, a_class, a_device, a_slice, an_ask
from mooring.framework.status import PluginError
from mooring.plugins.device_features import DeviceFeatures
from mooring.plugins.device_offers import Market

NODES = [f"n{i}" for i in range(4)]


def test_an_attempt_is_given_up_when_all_nodes_together_take_too_long() -> None:
    slices = [a_slice(f"s-{node}", a_device("d0", numa=i), pool=node, nodeName=node) for i, node in enumerate(NODES)]
    cluster = a_cluster(*map(a_node, NODES), a_class(), *slices)
    market = Market(DeviceFeatures(), max_steps=150)
    claims = [a_claim("c", an_ask(1, "lists.range(100).all(x, x >= 0)"))]  # some 80 steps for each node
    rows = np.arange(4, dtype=np.intp)
    with pytest.raises(PluginError, match="node n2: timed out trying to allocate devices"):
        market.codes(cluster, claims, rows)
    assert market.codes(cluster, claims, rows).tolist() == [0, 0, 0, 0]
