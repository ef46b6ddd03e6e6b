"""What a request takes of a device's capacity, and whether that may be."""

from typing import Any

import msgspec
import pytest

from mooring.model.devices import DeviceCapacity
from mooring.model.quantity import parse
from mooring.plugins.devices.capacity import fits, share_of

RANGE = {"min": "2Gi", "max": "8Gi", "step": "2Gi"}


def a_capacity(**policy: Any) -> DeviceCapacity:
    return msgspec.convert({"value": "10Gi", "requestPolicy": policy or None}, DeviceCapacity)


TAKEN = {
    "nothing is said, there is no policy: all": (None, a_capacity(), "10Gi"),
    "nothing is said: the default": (None, a_capacity(default="1Gi"), "1Gi"),
    "nothing is said, the policy has no default: all": (None, a_capacity(validRange=RANGE), "10Gi"),
    "what is said, without a policy": ("3Gi", a_capacity(), "3Gi"),
    "at least the minimum": ("1Gi", a_capacity(validRange=RANGE), "2Gi"),
    "up to the next step": ("3Gi", a_capacity(validRange=RANGE), "4Gi"),
    "on a step": ("4096Mi", a_capacity(validRange=RANGE), "4Gi"),
    "a range without steps": ("3Gi", a_capacity(validRange={"min": "2Gi"}), "3Gi"),
    "up to the next value": ("3Gi", a_capacity(validValues=["2Gi", "4Gi"]), "4Gi"),
    "more than all values": ("5Gi", a_capacity(validValues=["2Gi", "4Gi"]), "5Gi"),
    "steps that are no power of two": ("5", a_capacity(validRange={"min": "1", "step": "3"}), "7"),
}


@pytest.mark.parametrize(("requested", "capacity", "taken"), TAKEN.values(), ids=TAKEN.keys())
def test_what_is_taken(requested: str | None, capacity: DeviceCapacity, taken: str) -> None:
    share = share_of(requested, capacity)
    assert (share.nano, share.text) == (parse(taken), taken)


FITS = {
    "all of it": ("10Gi", a_capacity(), {}, True),
    "more than there is": ("11Gi", a_capacity(), {}, False),
    "beside what is consumed": ("4Gi", a_capacity(), {"memory": parse("6Gi")}, True),
    "more than is left": ("5Gi", a_capacity(), {"memory": parse("6Gi")}, False),
    "more than the policy allows": ("9Gi", a_capacity(validRange=RANGE), {}, False),
    "a value that is not listed": ("5Gi", a_capacity(validValues=["2Gi", "4Gi"]), {}, False),
    "the default, whatever else is allowed": (None, a_capacity(default="9Gi", validRange=RANGE), {}, True),
    "all, which is not on a step": (None, a_capacity(validRange={"min": "1Gi", "step": "2Gi"}), {}, False),
}


@pytest.mark.parametrize(("requested", "capacity", "consumed", "is_right"), FITS.values(), ids=FITS.keys())
def test_whether_it_fits(
    requested: str | None, capacity: DeviceCapacity, consumed: dict[str, int], is_right: bool
) -> None:
    assert fits({"memory": capacity}, {"memory": requested} if requested else None, consumed) is is_right


def test_a_capacity_that_the_device_does_not_have() -> None:
    assert not fits({}, {"memory": "1Gi"})
