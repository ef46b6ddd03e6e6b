"""Whatever number of the columns is wrong, the comparison of a running with a fresh scheduler finds it."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.tallies import tally
from mooring.scheduler.scheduler import Scheduler
from mooring.state.check.check import findings
from self_checking import CheckedCluster, a_busy_cluster

Column = Callable[[CheckedCluster], Any]


def _amounts(what: str, place: int, cluster: CheckedCluster) -> Any:
    return getattr(cluster.nodes.amounts, what)[place]


COLUMNS: dict[str, Column] = {
    **{f"{what} {i}": partial(_amounts, what, i) for what in ("allocatable", "requested", "scored") for i in range(3)},
    "allowed pods": lambda c: c.nodes.allowed_pods,
    "pod count": lambda c: c.nodes.pod_count,
    "the first tally": lambda c: next(iter(c.nodes.tallies.kept().values())).counts,
    "carried terms": lambda c: next(iter(c.nodes.tallies.terms.carried.values())).tally.counts,
    "volumes": lambda c: next(iter(c.scheduler.cluster.volumes_on_nodes().by_driver.values())),
    "floats of what is free": lambda c: c.scheduler.cluster.float_columns().free[1],
    "floats of what is held": lambda c: c.scheduler.cluster.float_columns().held[0],
}


@cache
def _both() -> tuple[CheckedCluster, Scheduler]:
    with mock.patch.object(tally, "FEW_ROWS", 0):  # numbers for all rows, which a test can spoil
        cluster = a_busy_cluster()
        for each in cluster.nodes.tallies.kept().values():
            assert len(each.counts)
        for carriers in cluster.nodes.tallies.terms.carried.values():
            assert len(carriers.tally.counts)
    check = cluster.begin()
    while check.work(lambda: False) is not None:
        pass
    return cluster, check.fresh


@given(name=st.sampled_from(sorted(COLUMNS)), row=st.integers(0, 3), change=st.integers(-100, 100).filter(bool))
def test_any_wrong_number_is_found(name: str, row: int, change: int) -> None:
    cluster, fresh = _both()
    column = COLUMNS[name](cluster)
    right = column[row].copy()
    try:
        column[row] += change
        found = [*filter(None, findings(cluster.scheduler, fresh))]
    finally:
        column[row] = right
    assert found
    assert [*filter(None, findings(cluster.scheduler, fresh))] == []


@given(
    key=st.sampled_from(["topology.kubernetes.io/zone", "kubernetes.io/hostname"]),
    row=st.integers(0, 3),
    code=st.integers(0, 2),
)
def test_any_wrong_label_is_found(key: str, row: int, code: int) -> None:
    cluster, fresh = _both()
    codes = cluster.nodes.labels.column(key).codes
    right = codes[row].copy()
    try:
        codes[row] = code
        found = [*filter(None, findings(cluster.scheduler, fresh))]
    finally:
        codes[row] = right
    assert bool(found) == (code != right)
    assert np.array_equal(codes[row], right)
