"""Slices with the taints of rules, kept up to date change by change, against a plain loop over all slices and rules."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from device_building import a_device, a_rule, a_slice
from mooring.cluster.claims.device_objects import taints_of
from mooring.cluster.cluster import Cluster
from mooring.model.devices import DeviceTaintRule, ResourceSlice
from mooring.model.node import Taint

GATE = {"DRADeviceTaintRules": True}
OWN = {"key": "own", "effect": "NoExecute"}


def a_pool(name: str, driver: str, pool: str) -> ResourceSlice:
    return a_slice(name, a_device("d0"), a_device("d1", taints=[OWN]), driver=driver, pool=pool, allNodes=True)


SLICES = [a_pool(f"{driver}-{pool}", driver, pool) for driver in "ab" for pool in "xy"]
SELECTORS: list[dict[str, str]] = [
    *(
        {},
        {"driver": "a"},
        {"pool": "x"},
        {"driver": "a", "pool": "x"},
        {"device": "d0"},
        {"driver": "b", "device": "d1"},
    ),
    *({"driver": "none"}, {"driver": "a", "pool": "x", "device": "none"}),
]


def plainly_tainted(slice: ResourceSlice, rules: list[DeviceTaintRule]) -> list[set[Taint]]:
    """By device, what the API says of rules, one after another."""
    found = []
    for device in slice.spec.devices or ():
        taints = set(device.taints or ())
        for rule in rules:
            selector: Any = msgspec.to_builtins(rule.spec.device_selector) if rule.spec.device_selector else {}
            names = {"driver": slice.spec.driver, "pool": slice.spec.pool.name, "device": device.name}
            if all(names[part] == wanted for part, wanted in selector.items()):
                taints.add(rule.spec.taint)
        found.append(taints)
    return found


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("rule"), st.integers(0, 3), st.sampled_from([None, *SELECTORS])),
            st.tuples(st.just("slice"), st.integers(0, 3), st.booleans()),
        ),
        max_size=20,
    )
)
def test_each_device_has_its_own_taints_and_those_of_the_rules_that_select_it(
    steps: list[tuple[str, int, Any]],
) -> None:
    cluster = Cluster(GATE)
    rules: dict[str, DeviceTaintRule] = {}
    for what, number, wanted in steps:
        name, version = f"r{number}", cluster.tainted_slices.version
        if what == "rule" and wanted is not None:
            rules[name] = a_rule(name, key=f"k{number}", **wanted)
            cluster.put(rules[name])
        elif what == "rule":
            is_known = rules.pop(name, None) is not None
            cluster.remove(DeviceTaintRule, name)
            version -= not is_known
        elif wanted:
            cluster.put(SLICES[number])
        else:
            version -= SLICES[number].key not in cluster.objects[ResourceSlice]
            cluster.remove(ResourceSlice, SLICES[number].key)
        assert cluster.tainted_slices.version == version + 1
        slices = {slice.name: slice for slice in cluster.tainted_slices.all()}
        assert slices.keys() == cluster.objects[ResourceSlice].keys()
        for published in SLICES:
            if published.name in slices:
                tainted = slices[published.name]
                assert cluster.tainted_slices.get(published.name) is tainted
                found = [set(taints) for taints in taints_of(tainted)]
                assert found == plainly_tainted(published, [*rules.values()])


def test_slices_that_no_rule_taints_are_the_objects_of_their_drivers() -> None:
    cluster = Cluster(GATE)
    for item in (*SLICES, a_rule("one", driver="a", pool="x", device="d0"), a_rule("none", device="d7")):
        cluster.put(item)
    same = [slice.name for slice in cluster.tainted_slices.all() if slice is cluster.objects[ResourceSlice][slice.name]]
    assert same == ["a-y", "b-x", "b-y"]
    cluster.remove(DeviceTaintRule, "one")
    assert all(slice is cluster.objects[ResourceSlice][slice.name] for slice in cluster.tainted_slices.all())


def test_without_the_gate_rules_are_not_kept() -> None:
    cluster = Cluster()
    for item in (SLICES[0], a_rule()):
        cluster.put(item)
    assert [*cluster.tainted_slices.all()] == [SLICES[0]]
    assert DeviceTaintRule not in cluster.objects
