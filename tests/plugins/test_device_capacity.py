"""What a request takes of a device's capacity, and whether that may be."""

from typing import Any

import msgspec
import pytest

from device_building import a_claim, a_device, a_slice, an_allocation
from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import DeviceCapacity
from mooring.model.quantity import parse
from mooring.plugins.devices.device_capacity import Counters, binary, fits, share_of, shares_of
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


@pytest.mark.parametrize(
    ("units", "text"),
    [(0, "0"), (1023, "1023"), (1024, "1Ki"), (1536, "1536"), (3 << 20, "3Mi"), (1 << 30, "1Gi"), (1 << 70, "1024Ei")],
)
def test_amounts_are_written_with_the_largest_binary_suffix_that_is_exact(units: int, text: str) -> None:
    assert binary(units) == text


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
