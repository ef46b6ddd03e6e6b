"""Pulls of affinity terms are the same in small and in large integers."""

import pytest

from build import FreshValues, a_cluster, a_node, a_pod
from mooring.cluster.pods.tally import Tally
from mooring.framework.context import SchedulingContext
from mooring.plugins.affinity.affinity_counts import ByKey, add_tally

ZONE = "topology.kubernetes.io/zone"


def pulls(*weights: int) -> tuple[int, dict[str, int]]:
    """How many bytes a number takes; and what each zone gets from two pods in a and one in b, with terms of these weights."""
    nodes = [a_node(f"n{i}", labels={ZONE: zone}) for i, zone in enumerate("abc")]
    cluster = a_cluster(*nodes)
    context = SchedulingContext(a_pod(), cluster, 0, FreshValues())
    tally = Tally(cluster.nodes.capacity)
    for row in (0, 0, 1):
        tally.add((row, 1))
    found: ByKey = {}
    for weight in weights:
        add_tally(found, context, ZONE, tally, weight)
    column, counts = found[ZONE].column, found[ZONE].counts
    return counts.itemsize, {zone: int(counts[column.value_book[zone]]) for zone in "abc"}


def test_weights_of_terms_add_up_in_small_integers() -> None:
    assert pulls(100, -30, 1) == (4, {"a": 142, "b": 71, "c": 0})


@pytest.mark.parametrize("weights", [(1 << 31,), (1 << 29, 1 << 29), (1, 1 << 30), (-(1 << 40), 5)])
def test_weights_that_do_not_fit_add_up_in_large_integers(weights: tuple[int, ...]) -> None:
    total = sum(weights)
    assert pulls(*weights) == (8, {"a": 2 * total, "b": total, "c": 0})
