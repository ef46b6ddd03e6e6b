"""Constraints of a claim, each alone: which device may join those picked before, and what is left when one is dropped."""

from typing import Any

import msgspec
import pytest

from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_ask
from mooring.model.devices import DeviceConstraint
from mooring.plugins.devices.constraints import PickConstraint, constraint_of
from mooring.plugins.devices.device_demand import Ask, Fatal, read_demand
from mooring.plugins.devices.pools import DeviceInSlice, view_of

JsonObject = dict[str, Any]
PLAIN, BESIDE, SUB = (
    request[0]
    for request in read_demand([a_claim("c", an_ask(9), an_ask(9), [an_ask(9)])], {"gpu": a_class()}.get)[0].requests
)
SAME, DISTINCT = "matchAttribute", "distinctAttribute"


def a_constraint(kind: str, *requests: str, has_lists: bool = False) -> PickConstraint:
    written = msgspec.convert({kind: f"{DRIVER}/x", "requests": list(requests)}, DeviceConstraint)
    return constraint_of(0, 0, written, has_lists)


def a_site(**value: Any) -> DeviceInSlice:
    """A device whose attribute x has this value: `a_site(int=1)`; `a_site()` has an x of an unknown type."""
    return view_of(a_slice("s", a_device("d", attributes={"x": value}))).sites[0]


NO_X = view_of(a_slice("s", a_device("d"))).sites[0]


def admitted(constraint: PickConstraint, *picks: tuple[Ask, DeviceInSlice]) -> list[bool]:
    return [constraint.admit(ask, site) for ask, site in picks]


# ---- which devices a constraint is about


@pytest.mark.parametrize("has_lists", [False, True])
@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ((), [True, True, True]),
        (("r0",), [True, False, False]),
        (("r0", "r1"), [True, True, False]),
        (("r2",), [False, False, True]),
        (("r2/s0",), [False, False, True]),
        (("s0",), [False, False, False]),
    ],
)
def test_a_constraint_is_about_the_requests_that_it_names(
    named: tuple[str, ...], meant: list[bool], has_lists: bool
) -> None:
    for ask, is_meant in zip((PLAIN, BESIDE, SUB), meant, strict=True):
        for kind in (SAME, DISTINCT):
            assert a_constraint(kind, *named, has_lists=has_lists).admit(ask, NO_X) is not is_meant


@pytest.mark.parametrize("has_lists", [False, True])
def test_devices_of_other_requests_are_not_counted(has_lists: bool) -> None:
    constraint = a_constraint(SAME, "r0", has_lists=has_lists)
    assert admitted(constraint, (BESIDE, a_site(int=9)), (PLAIN, a_site(int=1)), (PLAIN, a_site(int=9))) == [
        *(True, True, False)
    ]
    constraint.drop(BESIDE, a_site(int=9))
    assert not constraint.admit(PLAIN, a_site(int=9)), "r0 still has a device"
    constraint.drop(PLAIN, a_site(int=1))
    assert constraint.admit(PLAIN, a_site(int=9)), "the next first device decides anew"


# ---- single values


def test_devices_with_one_value_match() -> None:
    constraint = a_constraint(SAME)
    sites = (a_site(int=1), a_site(int=1), a_site(int=2), a_site(string="1"), a_site(bool=True), NO_X, a_site())
    assert admitted(constraint, *((PLAIN, site) for site in sites)) == [True, True, *[False] * 5]
    for _ in range(2):
        constraint.drop(PLAIN, a_site(int=1))
    assert admitted(constraint, (PLAIN, a_site(int=2)), (PLAIN, a_site(int=1))) == [True, False]


def test_one_of_several_devices_that_is_dropped_leaves_the_value_as_it_is() -> None:
    constraint = a_constraint(SAME)
    admitted(constraint, *[(PLAIN, a_site(int=1))] * 2)
    constraint.drop(PLAIN, a_site(int=1))
    assert admitted(constraint, (PLAIN, a_site(int=2)), (PLAIN, a_site(int=1))) == [False, True]


def test_a_value_of_an_unknown_type_equals_nothing() -> None:
    for has_lists, alone in ((False, True), (True, False)):
        constraint = a_constraint(SAME, has_lists=has_lists)
        assert constraint.admit(PLAIN, a_site()) is alone
    assert admitted(a_constraint(SAME), (PLAIN, a_site()), (PLAIN, a_site())) == [True, False]
    alone_of = {False: True, True: False}
    for has_lists in (False, True):
        constraint = a_constraint(DISTINCT, has_lists=has_lists)
        sites = (a_site(), a_site(), a_site(int=1))
        picks = zip((PLAIN, BESIDE, BESIDE), sites, strict=True)
        assert admitted(constraint, *picks) == [alone_of[has_lists], False, True]


@pytest.mark.parametrize("has_lists", [False, True])
def test_devices_of_requests_differ_in_their_values(has_lists: bool) -> None:
    constraint = a_constraint(DISTINCT, has_lists=has_lists)
    assert admitted(constraint, (PLAIN, a_site(int=1)), (BESIDE, a_site(int=1)), (BESIDE, NO_X)) == [
        *(True, False, False)
    ]
    assert admitted(constraint, (BESIDE, a_site(int=2)), (SUB, a_site(int=1)), (SUB, a_site(int=2))) == [
        *(True, False, False)
    ]
    constraint.drop(BESIDE, a_site(int=2))
    assert admitted(constraint, (SUB, a_site(int=1)), (SUB, a_site(int=2))) == [False, True]


@pytest.mark.parametrize("has_lists", [False, True])
def test_v137_17_4_a_device_differs_from_all_devices_that_are_picked(has_lists: bool) -> None:
    constraint = a_constraint(DISTINCT, has_lists=has_lists)
    sites = (a_site(int=1), a_site(int=2), a_site(int=1), a_site(int=2), a_site(int=3))
    assert admitted(constraint, *((PLAIN, site) for site in sites)) == [True, True, False, False, True]
    constraint.drop(PLAIN, sites[4])
    assert admitted(constraint, *((BESIDE, site) for site in sites)) == [False, False, False, False, True]
    constraint.drop(BESIDE, sites[4])
    constraint.drop(PLAIN, sites[1])
    assert admitted(constraint, *((SUB, site) for site in sites[:2])) == [False, True], (
        "only the last one was forgotten"
    )


# ---- lists


def test_devices_match_while_they_have_a_value_in_common() -> None:
    constraint = a_constraint(SAME, has_lists=True)
    sites = (a_site(ints=[1, 2, 3]), a_site(ints=[2, 3]), a_site(ints=[1]), a_site(ints=[3, 4]), a_site(int=2))
    assert admitted(constraint, *((PLAIN, site) for site in sites)) == [True, True, False, True, False]
    assert admitted(constraint, (PLAIN, a_site(int=3)), (PLAIN, a_site(ints=[]))) == [True, False]


def test_v137_17_7_values_in_common_come_back_with_each_device_that_is_dropped() -> None:
    constraint = a_constraint(SAME, has_lists=True)
    one, two, three = a_site(ints=[1, 2, 3]), a_site(ints=[2, 3]), a_site(int=3)
    assert admitted(constraint, (PLAIN, one), (PLAIN, two), (PLAIN, three), (PLAIN, a_site(int=2))) == [
        *(True, True, True, False)
    ]
    constraint.drop(PLAIN, three)
    assert admitted(constraint, (PLAIN, a_site(int=2)), (PLAIN, a_site(int=3))) == [True, False]
    for dropped in (a_site(int=2), two):
        constraint.drop(PLAIN, dropped)
    assert admitted(constraint, (PLAIN, a_site(int=1))) == [True]


def test_values_of_different_types_have_nothing_in_common() -> None:
    one, true = a_site(ints=[1]), a_site(bools=[True])
    assert admitted(a_constraint(SAME, has_lists=True), (PLAIN, one), (BESIDE, true)) == [True, False]
    assert admitted(a_constraint(DISTINCT, has_lists=True), (PLAIN, one), (BESIDE, true)) == [True, True]
    text, version = a_site(strings=["1.0.0"]), a_site(versions=["1.0.0"])
    assert admitted(a_constraint(SAME, has_lists=True), (PLAIN, text), (BESIDE, version)) == [True, False]
    assert admitted(a_constraint(DISTINCT, has_lists=True), (PLAIN, text), (BESIDE, version)) == [True, True]


def test_devices_differ_while_they_have_no_value_in_common() -> None:
    constraint = a_constraint(DISTINCT, has_lists=True)
    assert admitted(constraint, (PLAIN, a_site(ints=[1, 2])), (BESIDE, a_site(ints=[2, 3]))) == [True, False]
    assert admitted(constraint, (BESIDE, a_site(ints=[3])), (SUB, a_site(ints=[4, 1]))) == [True, False]
    assert admitted(constraint, (SUB, a_site(ints=[4]))) == [True]


def test_a_constraint_of_an_unknown_kind_ends_the_attempt() -> None:
    with pytest.raises(Fatal) as raised:
        constraint_of(1, 3, DeviceConstraint(requests=["r0"]))
    claims = [a_claim("c"), a_claim("d")]
    assert raised.value.describe(claims) == (
        "claim default/d, constraint #3: empty constraint (unsupported constraint type?)"
    )
