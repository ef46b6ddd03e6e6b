"""What a request takes of a device's capacity, and whether that may be."""

from typing import Any

import msgspec
import pytest

from device_building import a_claim, a_device, a_slice, an_allocation
from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import DeviceCapacity
from mooring.model.quantity import parse
from mooring.plugins.devices.device_capacity import CapacityFault, Counters, fits, share_of, shares_of
from mooring.plugins.devices.pools import PoolView, gather_pools, view_of

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
    "the minimum itself, as it is written": ("2048Mi", a_capacity(validRange={"min": "2Gi"}), "2048Mi"),
    "steps of nothing": ("3Gi", a_capacity(validRange={"min": "2Gi", "step": "0"}), "3Gi"),
    "a range without a minimum": ("3Gi", a_capacity(validRange={"max": "8Gi", "step": "2Gi"}), "3Gi"),
    "a value that is listed": ("2Gi", a_capacity(validValues=["2Gi", "4Gi"]), "2Gi"),
    "a policy that allows all": ("3Gi", a_capacity(default="1Gi"), "3Gi"),
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
    "as much as the policy allows": ("8Gi", a_capacity(validRange=RANGE), {}, True),
    "as much as a policy without steps allows": ("8Gi", a_capacity(validRange={"max": "8Gi"}), {}, True),
    "more than a policy without steps allows": ("9Gi", a_capacity(validRange={"max": "8Gi"}), {}, False),
    "a step from a minimum of nothing": ("4Gi", a_capacity(validRange={"step": "2Gi"}), {}, True),
    "between steps from a minimum of nothing": ("3Gi", a_capacity(validRange={"step": "2Gi"}), {}, False),
    "a step from the minimum": ("3Gi", a_capacity(validRange={"min": "1Gi", "step": "2Gi"}), {}, True),
    "a value that is listed": ("4Gi", a_capacity(validValues=["2Gi", "4Gi"]), {}, True),
    "other than the default": ("3Gi", a_capacity(default="1Gi"), {}, True),
    "other than the default, more than the range allows": (
        "9Gi",
        a_capacity(default="1Gi", validRange=RANGE),
        {},
        False,
    ),
    "beside a capacity that another device consumes": ("10Gi", a_capacity(), {"cores": parse("1")}, True),
    "all, which is not on a step": (None, a_capacity(validRange={"min": "1Gi", "step": "2Gi"}), {}, False),
}


@pytest.mark.parametrize(("requested", "capacity", "consumed", "is_right"), FITS.values(), ids=FITS.keys())
def test_whether_it_fits(
    requested: str | None, capacity: DeviceCapacity, consumed: dict[str, int], is_right: bool
) -> None:
    assert fits({"memory": capacity}, {"memory": requested} if requested else None, consumed) is is_right


def test_a_capacity_that_the_device_does_not_have() -> None:
    assert not fits({}, {"memory": "1Gi"})
    assert not fits({"memory": a_capacity()}, {"memory": "1Gi", "cores": "1"})
    assert fits({}, None)


def test_all_that_is_consumed_counts_together() -> None:
    consumed = [{"memory": parse("3Gi")}, {"memory": parse("3Gi")}]
    assert fits({"memory": a_capacity()}, {"memory": "4Gi"}, *consumed)
    assert not fits({"memory": a_capacity()}, {"memory": "5Gi"}, *consumed)


def test_a_capacity_that_the_request_does_not_name_counts_with_its_default() -> None:
    capacities = {"memory": a_capacity(), "cores": a_capacity(default="4Gi")}
    assert fits(capacities, {"memory": "1Gi"}, {"cores": parse("6Gi")})
    assert not fits(capacities, {"memory": "1Gi"}, {"cores": parse("7Gi")})
    shares = shares_of(capacities, {"memory": "1Gi"})
    assert {name: share.text for name, share in shares.items()} == {"memory": "1Gi", "cores": "4Gi"}
    assert {name: share.text for name, share in shares_of(capacities, None).items()} == {
        "memory": "10Gi",
        "cores": "4Gi",
    }


# ---- ranges with steps (v1.37, 17.5)

HALF = {"min": "200m", "step": "100m", "max": "1"}
MOST = "9223372036854775807"
STEPS: dict[str, tuple[str, dict[str, str], str, str]] = {
    # requested, range, taken, taken without the gate
    "up to a step below one unit": ("250m", HALF, "300m", "1"),
    "on a step below one unit": ("300m", HALF, "300m", "1"),
    "at least the minimum": ("100m", HALF, "200m", "200m"),
    "a whole number is written without thousandths": ("950m", HALF, "1", "1"),
    "no steps: the request itself": ("250m", {"min": "200m"}, "250m", "250m"),
    "the format of the step, decimal": ("3", {"min": "1", "step": "1000"}, "1001", "1001"),
    "the format of the step, a power of ten": ("1500", {"min": "1k", "step": "1k"}, "2k", "2k"),
    "the format of the step, binary": ("3Gi", {"min": "2147483648", "step": "2Gi"}, "4Gi", "4Gi"),
    "binary, but less than 1024": ("3", {"min": "2", "step": "0.0078125Ki"}, "10", "10"),
    "the format of the step, an exponent": ("1500", {"min": "1000", "step": "1e3"}, "2e3", "2e3"),
    "an exponent below one unit": ("150m", {"min": "100m", "step": "100e-3"}, "200e-3", "1"),
    "a step that is finer than thousandths": ("1500m", {"min": "1", "step": "100u"}, "2", "2"),
    "a minimum that is finer than thousandths": ("1500m", {"min": "500u", "step": "1"}, "2", "2"),
    "a maximum that is too large for thousandths": ("1500m", {"min": "500m", "step": "1", "max": MOST}, "2", "2"),
    "a step of nothing": ("1500m", {"min": "1", "step": "0"}, "1500m", "1500m"),
}


@pytest.mark.parametrize(("requested", "allowed", "taken", "whole"), STEPS.values(), ids=STEPS.keys())
def test_v137_17_5_requests_are_rounded_up_to_a_step(
    requested: str, allowed: dict[str, str], taken: str, whole: str
) -> None:
    capacity = a_capacity(validRange=allowed)
    for is_fractional, expected in ((True, taken), (False, whole)):
        share = share_of(requested, capacity, is_fractional)
        assert (share.nano, share.text) == (parse(expected), expected)


UNREPRESENTABLE: dict[str, tuple[str, dict[str, str], bool, str]] = {
    "finer than thousandths": (
        "100500u",
        {"min": "100m", "step": "1m"},
        True,
        "request 100500u is not a representable milli value",
    ),
    "too many thousandths": (
        MOST,
        {"min": "1", "step": "2"},
        True,
        f"request {MOST} is not a representable milli value",
    ),
    "too much for the last step in thousandths": (
        "9223372036854775807m",
        {"min": "0", "step": "2"},
        True,
        "rounding request 9223372036854775807m up to the next step passes the milli-value range",
    ),
    "too many units": (
        "9223372036854775808",
        {"min": "1", "step": "2"},
        False,
        "request 9223372036854775808 exceeds MaxInt64",
    ),
    "too much for the last step": (
        MOST,
        {"min": "0", "step": "2"},
        False,
        f"rounding request {MOST} up to the next step passes MaxInt64",
    ),
}


@pytest.mark.parametrize(
    ("requested", "allowed", "is_fractional", "why"), UNREPRESENTABLE.values(), ids=UNREPRESENTABLE.keys()
)
def test_v137_17_5_amounts_that_do_not_fit_64_bits_are_a_fault(
    requested: str, allowed: dict[str, str], is_fractional: bool, why: str
) -> None:
    capacities = {"small": a_capacity(), "memory": a_capacity(validRange=allowed)}
    with pytest.raises(CapacityFault) as raised:
        fits(capacities, {"small": "99Gi", "memory": requested}, is_fractional=is_fractional)
    what = "capacity request cannot be represented in the device's range arithmetic"
    assert str(raised.value) == f'capacity "memory": {what}: {why}', "a fault wins over what does not fit"


@pytest.mark.parametrize(
    "capacity", [a_capacity(), a_capacity(default="-1"), msgspec.convert({"value": "-1"}, DeviceCapacity)], ids=str
)
def test_v137_17_5_a_negative_amount_is_a_fault(capacity: DeviceCapacity) -> None:
    requested = {"memory": "-1"} if capacity == a_capacity() else None
    with pytest.raises(CapacityFault, match='^capacity "memory": capacity value is negative$'):
        fits({"memory": capacity}, requested)


def test_v137_17_5_steps_below_one_unit_are_checked() -> None:
    def is_right(value: str, is_fractional: bool = True, **policy: Any) -> bool:
        capacity = msgspec.convert({"value": value, "requestPolicy": policy}, DeviceCapacity)
        return fits({"memory": capacity}, None, is_fractional=is_fractional)

    assert is_right("900m", validRange=HALF)
    assert not is_right("950m", validRange=HALF), "all of it is not on a step"
    assert not is_right("900100u", validRange=HALF), "finer than a step can be"
    assert not is_right("1100m", validRange=HALF), "more than the maximum"
    assert is_right("950m", is_fractional=False, validRange=HALF), "in whole units it is 1, as the minimum"
    assert is_right("950m", validRange=HALF, default="950m"), "the default is always right"


# ---- counters that devices of a pool share

SETS = [{"name": "gpu-0", "counters": {"slots": {"value": "2"}, "memory": {"value": "8Gi"}}}]


def a_partition(name: str, slots: int = 1, memory: str = "1Gi") -> dict[str, Any]:
    counters = {"slots": {"value": str(slots)}, "memory": {"value": memory}}
    return a_device(name, consumesCounters=[{"counterSet": "gpu-0", "counters": counters}])


def a_pool(*devices: dict[str, Any], elsewhere: tuple[dict[str, Any], ...] = ()) -> PoolView:
    here, away = view_of(a_slice("s", *devices, count=3)), view_of(a_slice("t", *elsewhere, count=3))
    counters = view_of(a_slice("counters", sharedCounters=SETS, count=3))
    (pool,) = gather_pools([here, counters], {here.pool: [here, away, counters]})
    return pool


def taken(pool: PoolView, *names: str, held: dict[str, Any] | None = None) -> list[bool]:
    """Whether each of these devices can be taken, one after another, beside what a claim holds."""
    ledger = ClaimLedger({})
    if held is not None:
        ledger.begin(a_claim("held", status={"allocation": held}))
    counters, sites = Counters(ledger), {site.id[2]: site for site in pool.sites}
    return [counters.take(pool, sites[name]) for name in names]


def test_devices_take_from_counters_until_one_is_used_up() -> None:
    pool = a_pool(
        a_partition("a"), a_partition("b"), a_partition("c"), a_partition("large", 0, "7Gi"), a_device("plain")
    )
    assert taken(pool, "a", "b", "c") == [True, True, False]
    assert taken(pool, "a", "large") == [True, True]
    assert taken(pool, "large", "a", "b", "plain") == [True, True, False, True]


@pytest.mark.parametrize("more", [{}, {"shareID": "s"}], ids=["as a whole", "a share"])
def test_devices_that_claims_hold_have_taken_from_counters(more: dict[str, Any]) -> None:
    pool = a_pool(a_partition("a"), a_partition("b"), elsewhere=(a_partition("far"),))
    assert taken(pool, "a", "b") == [True, True]
    assert taken(pool, "a", held=an_allocation("pool/b", **more)) == [True]
    assert taken(pool, "a", "b", held=an_allocation("pool/far", **more)) == [True, False]
    assert taken(pool, "a", "b", held=an_allocation("other/far", **more)) == [True, True]


def test_devices_that_are_dropped_give_back_what_they_took() -> None:
    pool = a_pool(a_partition("a", 2))
    counters, (site,) = Counters(ClaimLedger({})), pool.sites
    assert counters.take(pool, site)
    assert not counters.take(pool, site)
    counters.give_back(site)
    assert counters.take(pool, site)
