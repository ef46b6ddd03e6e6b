"""Attributes that are lists: in selectors, whatever the gate DRAListTypeAttributes says (v1.37, 17.7), and with the gate in
constraints of claims."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_ask, claiming
from device_building import given as given_to
from late_claims import LateClaims
from mooring.model.devices import Device, ResourceClaim
from mooring.plugins.devices.cel import compile_selector, facts_of
from mooring.plugins.devices.effort import CelFault

DEVICE = msgspec.convert(
    a_device(
        "d",
        model="a100",
        attributes={
            "nodes": {"ints": [0, 2]},
            "modes": {"strings": ["fast", "slow"]},
            "flags": {"bools": [True]},
            "apis": {"versions": ["1.2.0", "2.0.0"]},
            "long": {"ints": list(range(60))},
            "full": {"ints": list(range(48))},
        },
    ),
    Device,
)
OWN = f'device.attributes["{DRIVER}"]'

ANSWERS = {
    f"{OWN}.nodes.includes(2)": True,
    f"{OWN}.nodes.includes(1)": False,
    f"{OWN}.nodes.includes('2')": False,
    f"{OWN}.modes.includes('fast')": True,
    f"{OWN}.flags.includes(true) && !{OWN}.flags.includes(false)": True,
    f"{OWN}.apis.includes(semver('2.0.0'))": True,
    f"{OWN}.model.includes('a100')": True,
    f"{OWN}.model.includes('a1')": False,
    f"2 in {OWN}.nodes": True,
    f"{OWN}.nodes.exists(n, n > 1)": True,
    f"{OWN}.nodes.all(n, n > 1)": False,
    f"{OWN}.modes.size() == 2": True,
    f"{OWN}.long.includes(40)": True,
    f"{OWN}.long.includes(47)": True,
    f"{OWN}.full.includes(48)": False,
    f"{OWN}.long.includes(60)": False,
    "[1, 2].includes(2) && !'ab'.includes('a')": True,
    "device.allowMultipleAllocations": False,
    f"{OWN}.flags[0]": True,
}


@pytest.mark.parametrize("expression", ANSWERS)
def test_what_selects_the_device(expression: str) -> None:
    matcher = compile_selector(expression)
    assert not isinstance(matcher, CelFault), matcher
    assert matcher.answer(facts_of(DRIVER, DEVICE))[0] is ANSWERS[expression]


def test_a_version_in_a_list_may_be_none() -> None:
    device = msgspec.convert({"name": "d", "attributes": {"x": {"versions": ["1.2.3", "1.2"]}}}, Device)
    with pytest.raises(CelFault) as raised:
        facts_of(DRIVER, device)
    assert str(raised.value) == "attribute x: parse semantic version: No Major.Minor.Patch elements found"


# ---- constraints

Values = dict[str, Any]


def chosen(devices: list[Values], count: int, constraint: str, has_lists: bool = True) -> list[int] | str:
    """The devices that a claim gets whose attribute x they constrain; else why it gets none."""
    late = LateClaims(DRAListTypeAttributes=has_lists)
    made = [a_device(str(i), attributes={"x": values}) for i, values in enumerate(devices)]
    constraints = [{constraint: f"{DRIVER}/x"}]
    requests = [an_ask(count)]
    for item in (
        a_node("a"),
        a_slice("a", *made, node="a"),
        a_class(),
        a_claim("c", *requests, constraints=constraints),
    ):
        late.put(item)
    late.put(claiming(a_pod("p", schedulerName="default-scheduler"), "c"))
    late.settle()
    claim = late.store[ResourceClaim, "default/c"]
    assert isinstance(claim, ResourceClaim)
    found = [int(each.partition("/")[2]) for each in given_to(claim)]
    return found or late.told["default/p"]


NONE = "0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: "
MATCHING: dict[str, tuple[list[Values], int, list[int] | None]] = {
    "a value in common": ([{"ints": [0, 1]}, {"ints": [2]}, {"ints": [1, 5]}], 2, [0, 2]),
    "no value in common": ([{"ints": [0, 1]}, {"ints": [2]}], 2, None),
    "one for all of them": ([{"ints": [0, 1]}, {"ints": [0, 2]}, {"ints": [0, 3]}], 3, [0, 1, 2]),
    "pairs have one, all have none": ([{"ints": [0, 1]}, {"ints": [1, 2]}, {"ints": [0, 2]}], 3, None),
    "a single value is a list of one": ([{"int": 1}, {"ints": [0, 1]}], 2, [0, 1]),
    "values of two types": ([{"ints": [1]}, {"strings": ["1"]}], 2, None),
    "texts": ([{"strings": ["a"]}, {"string": "b"}, {"string": "a"}], 2, [0, 2]),
    "an empty list": ([{"ints": []}, {"ints": [1]}], 1, [1]),
}
DISTINCT: dict[str, tuple[list[Values], int, list[int] | None]] = {
    "nothing in common": ([{"ints": [0, 1]}, {"ints": [1]}, {"ints": [2]}], 2, [0, 2]),
    "something in common": ([{"ints": [0, 1]}, {"ints": [1]}], 2, None),
    "values of two types": ([{"ints": [1]}, {"strings": ["1"]}], 2, [0, 1]),
}


@pytest.mark.parametrize(("devices", "count", "expected"), MATCHING.values(), ids=MATCHING.keys())
def test_devices_that_match_have_a_value_in_common(
    devices: list[Values], count: int, expected: list[int] | None
) -> None:
    found = chosen(devices, count, "matchAttribute")
    assert found == expected if expected is not None else str(found).startswith(NONE)


@pytest.mark.parametrize(("devices", "count", "expected"), DISTINCT.values(), ids=DISTINCT.keys())
def test_distinct_devices_have_nothing_in_common(devices: list[Values], count: int, expected: list[int] | None) -> None:
    found = chosen(devices, count, "distinctAttribute")
    assert found == expected if expected is not None else str(found).startswith(NONE)


def test_v137_17_7_values_that_devices_have_in_common_are_restored_when_one_is_dropped() -> None:
    # 0 and 1 leave {0}; 2 does not match them. Without 1, devices 0, 2 and 3 have 1 in common.
    assert chosen([{"ints": [0, 1]}, {"ints": [0]}, {"ints": [1]}, {"ints": [1]}], 3, "matchAttribute") == [0, 2, 3]


@pytest.mark.parametrize("constraint", ["matchAttribute", "distinctAttribute"])
def test_without_the_gate_lists_match_nothing(constraint: str) -> None:
    devices: list[Values] = [{"ints": [0]}, {"ints": [0]}, {"ints": [1]}]
    assert str(chosen(devices, 2, constraint, has_lists=False)).startswith(NONE)


SINGLE = st.one_of(
    st.integers(0, 2).map(lambda value: {"int": value}), st.sampled_from("ab").map(lambda value: {"string": value})
)


@given(st.lists(SINGLE, max_size=6), st.integers(1, 3), st.sampled_from(["matchAttribute", "distinctAttribute"]))
def test_single_values_mean_the_same_with_and_without_the_gate(
    devices: list[Values], count: int, constraint: str
) -> None:
    assert chosen(devices, count, constraint) == chosen(devices, count, constraint, has_lists=False)
