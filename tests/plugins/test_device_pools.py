"""Pools: which slices count, when a pool is incomplete, being replaced or invalid, and in which order they come."""

from collections.abc import Sequence
from typing import Any

import pytest

from device_building import a_device, a_slice
from mooring.model.devices import ResourceSlice
from mooring.plugins.devices.pools import PoolView, gather_pools, view_of

D0, D1, D2 = (a_device(f"d{i}") for i in range(3))
NEEDS = [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]
COUNTERS = [{"name": "set", "counters": {"slots": {"value": "2"}}}]


def seen(slices: Sequence[ResourceSlice], unseen: Sequence[ResourceSlice] = ()) -> list[PoolView]:
    views, others = [view_of(each) for each in slices], [view_of(each) for each in unseen]
    whole: dict[Any, Any] = {}
    for view in (*others, *views):
        whole.setdefault(view.pool, []).append(view)
    return gather_pools(views, whole)


def told(pools: Sequence[PoolView]) -> list[str]:
    def state(pool: PoolView) -> str:
        if pool.is_usable:
            return " ".join(site.id[2] for site in pool.sites)
        return "incomplete" if pool.is_incomplete else "invalid"

    return [f"{pool.id[1]}: {state(pool)}".rstrip() for pool in pools]


STATES: dict[str, tuple[Sequence[ResourceSlice], Sequence[ResourceSlice], list[str]]] = {
    "one slice": ([a_slice("s", D0, D1)], [], ["pool: d0 d1"]),
    "slices by name, as text": (
        [a_slice("s2", D1, count=2), a_slice("s10", D0, count=2)],
        [],
        ["pool: d0 d1"],
    ),
    "an old slice comes after the new one": (
        [a_slice("t", D1, generation=2), a_slice("s", D0)],
        [],
        ["pool: d1"],
    ),
    "a new pool is not whole yet": (
        [a_slice("s", D0), a_slice("t", D1, generation=2, count=2)],
        [],
        ["pool: incomplete"],
    ),
    "an old slice is left elsewhere": (
        [a_slice("s", D0, generation=2, count=2)],
        [a_slice("t", D1, count=2)],
        ["pool: incomplete"],
    ),
    "more slices than the pool says": ([a_slice("s", D0), a_slice("t", D1)], [], ["pool: incomplete"]),
    "counters beside which devices are not looked at": (
        [a_slice("c", D0, sharedCounters=COUNTERS, count=2), a_slice("s", D1, count=2)],
        [],
        ["pool: d1"],
    ),
    "counters of another set": (
        [
            a_slice("c", sharedCounters=[{**COUNTERS[0], "name": "other"}], count=2),
            a_slice("s", a_device("d0", consumesCounters=NEEDS), count=2),
        ],
        [],
        ["pool: invalid"],
    ),
    "a counter that the set does not have": (
        [
            a_slice("c", sharedCounters=[{"name": "set", "counters": {"memory": {"value": "2"}}}], count=2),
            a_slice("s", a_device("d0", consumesCounters=NEEDS), count=2),
        ],
        [],
        ["pool: invalid"],
    ),
    "a device elsewhere that needs counters that are nowhere": (
        [a_slice("s", D0, count=2)],
        [a_slice("t", a_device("d1", consumesCounters=NEEDS), count=2)],
        ["pool: invalid"],
    ),
    "a slice is missing": ([a_slice("s", D0, count=2)], [], ["pool: incomplete"]),
    "the other slice is for other nodes": ([a_slice("s", D0, count=2)], [a_slice("t", D1, count=2)], ["pool: d0"]),
    "an old slice is left": (
        [a_slice("s", D0), a_slice("t", D1, generation=2)],
        [],
        ["pool: d1"],
    ),
    "a newer pool is coming elsewhere, and the old one is whole": (
        [a_slice("s", D0)],
        [a_slice("t", D1, generation=2)],
        ["pool: d0"],
    ),
    "a newer pool is coming elsewhere": ([a_slice("s", D0, count=2)], [a_slice("t", D1, generation=2)], []),
    "a device twice": ([a_slice("s", D0, count=2), a_slice("t", D0, count=2)], [], ["pool: invalid"]),
    "a device twice, but not from here": ([a_slice("s", D0, count=2)], [a_slice("t", D0, count=2)], ["pool: d0"]),
    "counters that are there": (
        [a_slice("c", sharedCounters=COUNTERS, count=2), a_slice("s", a_device("d0", consumesCounters=NEEDS), count=2)],
        [],
        ["pool: d0"],
    ),
    "counters that are nowhere": ([a_slice("s", a_device("d0", consumesCounters=NEEDS))], [], ["pool: invalid"]),
    "counters twice": (
        [a_slice("c", sharedCounters=COUNTERS, count=2), a_slice("d", sharedCounters=COUNTERS, count=2)],
        [],
        ["pool: invalid"],
    ),
    "pools by driver and name, as text": (
        [a_slice("a", D0, pool="gpu-9"), a_slice("b", D1, pool="gpu-10"), a_slice("c", D2, pool="x", driver="a")],
        [],
        ["x: d2", "gpu-10: d1", "gpu-9: d0"],
    ),
    "pools with devices that must be prepared come last": (
        [a_slice("a", a_device("d0", bindingConditions=["ready"]), pool="a"), a_slice("b", D1, pool="b")],
        [],
        ["b: d1", "a: d0"],
    ),
}


@pytest.mark.parametrize(("slices", "unseen", "pools"), STATES.values(), ids=STATES.keys())
def test_pools(slices: Sequence[ResourceSlice], unseen: Sequence[ResourceSlice], pools: list[str]) -> None:
    assert told(seen(slices, unseen)) == pools


def test_devices_and_counters_of_slices_for_other_nodes_are_known_apart() -> None:
    here, away = a_slice("s", D0, count=3), a_slice("t", D1, D2, count=3)
    (pool,) = seen([here], [away, a_slice("c", D1, sharedCounters=COUNTERS, count=3)])
    assert [[site.id[2] for site in sites] for sites in (pool.sites, pool.others)] == [["d0"], ["d1", "d2"]]
    assert pool.counters == {"set": {"slots": 2 * 10**9}}


def test_pools_and_devices_have_full_names() -> None:
    (pool,) = seen([a_slice("s", D0, a_device("d1", allowMultipleAllocations=True))])
    assert pool.name == "gpu.example.com/pool"
    assert [site.name for site in pool.sites] == ["gpu.example.com/pool/d0", "gpu.example.com/pool/d1"]
    assert [site.is_shareable for site in pool.sites] == [False, True]


def test_each_view_of_a_slice_has_a_number_of_its_own() -> None:
    first, second = view_of(a_slice("s", D0)), view_of(a_slice("s", D0))
    assert first.serial != second.serial
    assert (first.pool, first.generation) == (("gpu.example.com", "pool"), 1)
