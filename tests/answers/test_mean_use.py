"""Means of a day by zone, by pool and of the fullest nodes: small columns whose shares are worked out by hand."""

import numpy as np

from build import a_node
from mooring.answers.form.utilisation import POOL_LABELS
from mooring.answers.simulate.simulation_form import MeanUseForm
from mooring.answers.simulate.simulation_tables import MeanUses, mean_uses
from mooring.sim.gauge import NodeMeans

ZONE = "topology.kubernetes.io/zone"
NODES = [a_node("n0", labels={ZONE: "a"}), a_node("n1", labels={ZONE: "a", POOL_LABELS[0]: "big"}), a_node("n2")]
MEANS = NodeMeans(
    ["n0", "n1", "n2", "gone"],
    np.array([[1.0, 2.0, 4.0, 1.0], [0.0, 0.0, 0.0, 0.0]]),
    np.array([[4.0, 4.0, 4.0, 0.0], [8.0, 0.0, 0.0, 0.0]]),
)
"""Cpu and memory; n1 and n2 have no memory, and the last node left during the day."""


def test_zones_and_pools_have_the_shares_of_all_their_nodes() -> None:
    uses = mean_uses(MEANS, {"n0": 3, "n1": 2, "n2": 7}, NODES)
    assert uses.zones == {"a": MeanUseForm("a", 2, 5, {"cpu": 3 / 8, "memory": 0.0})}
    assert uses.pools == {"big": MeanUseForm("big", 1, 2, {"cpu": 0.5, "memory": None})}


def test_the_fullest_nodes_come_first_and_what_is_missing_is_no_share() -> None:
    fullest = mean_uses(MEANS, {"n2": 7}, NODES).fullest
    assert [*fullest] == ["n2", "gone", "n1", "n0"], "where nothing is allocatable, a unit stands for it"
    assert fullest["n2"] == MeanUseForm("n2", 1, 7, {"cpu": 1.0, "memory": None})
    assert fullest["gone"].shares == {"cpu": None, "memory": None}


def test_only_ten_nodes_are_listed() -> None:
    names = [f"n{i}" for i in range(12)]
    means = NodeMeans(names, np.array([[float(i) for i in range(12)]] * 2), np.full((2, 12), 100.0))
    assert [*mean_uses(means, {}, []).fullest] == [f"n{i}" for i in range(11, 1, -1)]


def test_a_day_without_means_has_no_groups() -> None:
    assert mean_uses(None, {}, NODES) == MeanUses({}, {}, {})
    assert mean_uses(NodeMeans([], np.zeros((2, 0)), np.zeros((2, 0))), {}, []) == MeanUses({}, {}, {})


def test_shares_are_shown_in_percent_and_as_data() -> None:
    use = MeanUseForm("a", 2, 5, {"cpu": 0.375, "memory": None})
    assert (use.told_share("cpu"), use.told_share("memory"), use.told_share("gpu")) == ("37.5%", "-", "-")
    assert use.content() == {
        "name": "a",
        "nodes": 2,
        "placed": 5,
        "meanUtilisation": {"cpu": 0.375, "memory": None},
    }
