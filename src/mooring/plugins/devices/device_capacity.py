"""Amounts that devices have to give: capacity that requests consume of one device, and counters that devices of a pool
share.

Amounts are integers in nano-units, so every quantity is exact. Rounding follows the request policy of the device.
"""

from collections.abc import Iterator, Mapping

import msgspec

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import CapacityPolicy, CapacityRange, DeviceCapacity, PoolId
from mooring.model.quantity import NANO, QuantityText, parse, to_int
from mooring.plugins.devices.pools import DeviceInSlice, PoolView

Capacities = Mapping[str, DeviceCapacity]
Requests = Mapping[str, QuantityText]

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Share(msgspec.Struct, frozen=True):
    """A part of one capacity, in nano-units and as it is written down."""

    nano: int
    text: QuantityText


def share_of(requested: QuantityText | None, capacity: DeviceCapacity) -> Share:
    """Compute the amount that a request takes of one capacity. Without a requested amount this is the default of the policy,
    or the whole capacity; otherwise it is the requested amount, rounded up as the policy says.

    | requested | policy                   | takes |
    | -         | -                        | all   |
    | -         | default 1Gi              | 1Gi   |
    | 3Gi       | range from 2Gi, step 2Gi | 4Gi   |
    | 3Gi       | values 2Gi, 4Gi          | 4Gi   |
    """
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return _written(capacity.value if default is None else default)
    if policy is None:
        return _written(requested)
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _up_in_range(requested, policy.valid_range)
    larger = (value for value in policy.valid_values or () if parse(value) >= parse(requested))
    return _written(next(larger, requested))


def fits(capacities: Capacities, requests: Requests | None, *consumed: Mapping[str, int]) -> bool:
    """Whether the device has what is requested beside what is consumed already (each in nano-units).

    All capacities of the device count, also those that the request does not name: a policy may have a default for them.
    """
    if requests and not requests.keys() <= capacities.keys():
        return False
    for name, capacity in capacities.items():
        share = share_of((requests or {}).get(name), capacity)
        if _breaks(share, capacity.request_policy):
            return False
        if share.nano + sum(amounts.get(name, 0) for amounts in consumed) > parse(capacity.value):
            return False
    return True


def shares_of(capacities: Capacities, requests: Requests | None) -> dict[str, Share]:
    """Compute the amount that a request takes of each capacity of a device, by name of the capacity."""
    return {name: share_of((requests or {}).get(name), capacity) for name, capacity in capacities.items()}


def _written(text: QuantityText) -> Share:
    return Share(parse(text), text)


def _up_in_range(requested: QuantityText, allowed: CapacityRange) -> Share:
    """Round up to the next step of the range. Parity: steps are counted in whole units."""
    assert allowed.min is not None
    if parse(requested) < parse(allowed.min):
        return _written(allowed.min)
    step = to_int(parse(allowed.step)) if allowed.step is not None else 0
    if not step:
        return _written(requested)
    least = to_int(parse(allowed.min))
    steps = -(-(to_int(parse(requested)) - least) // step)
    return Share((least + steps * step) * NANO, binary(least + steps * step))


def binary(units: int) -> str:
    """The amount as a quantity with a binary suffix, as upstream writes it: | 4096 | 4Ki |"""
    power = 0
    while units and units % 1024 == 0 and power < len(_BINARY) - 1:
        units, power = units // 1024, power + 1
    return f"{units}{_BINARY[power]}"


def _breaks(share: Share, policy: CapacityPolicy | None) -> bool:
    """Whether the policy forbids to take so much. The policy's default is always allowed."""
    if policy is None or (policy.default is not None and parse(policy.default) == share.nano):
        return False
    allowed = policy.valid_range
    if allowed is not None:
        if allowed.max is not None and share.nano > parse(allowed.max):
            return True
        step = to_int(parse(allowed.step)) if allowed.step is not None else 0
        least = to_int(parse(allowed.min)) if allowed.min is not None else 0
        return bool(step) and (to_int(share.nano) - least) % step != 0
    return bool(policy.valid_values) and all(parse(value) != share.nano for value in policy.valid_values or ())


# ---- Counters: partitions of one device take from what the device as a whole has. A pool declares counter sets, and
# each device says how much of which counter it consumes.


Counter = tuple[str, str]
"""Counter set and name."""


class Counters:
    """Remaining values of the shared counters of each pool while a search picks devices. A pool is counted when a device of
    it is first needed."""

    def __init__(self, ledger: ClaimLedger) -> None:
        self._ledger = ledger
        self._left: dict[PoolId, dict[Counter, int]] = {}

    def take(self, pool: PoolView, site: DeviceInSlice) -> bool:
        """Whether there is enough for the device; if so, it is taken.

        Parity: a pool that is overdrawn in any counter, also one that this device does not use, has nothing to give.
        """
        left = self._left.get(pool.id)
        if left is None:
            left = self._left[pool.id] = self._count(pool)
        for counter, amount in _consumption(site):
            left[counter] -= amount
        if min(left.values(), default=0) < 0:
            self.give_back(site)
            return False
        return True

    def give_back(self, site: DeviceInSlice) -> None:
        """Undo `take`; the search drops devices in reverse order."""
        left = self._left[site.id[:2]]
        for counter, amount in _consumption(site):
            left[counter] += amount

    def _count(self, pool: PoolView) -> dict[Counter, int]:
        """Compute the counters of a pool that allocated devices leave. Devices that only other nodes see are included,
        because they consume the same counters."""
        left = {(name, each): amount for name, counters in pool.counters.items() for each, amount in counters.items()}
        for site in (*pool.sites, *pool.others):
            if site.id in self._ledger.exclusive or site.id in self._ledger.shares:
                for counter, amount in _consumption(site):
                    left[counter] -= amount
        return left


def _consumption(site: DeviceInSlice) -> Iterator[tuple[Counter, int]]:
    for part in site.device.consumes_counters or ():
        for name, counter in (part.counters or {}).items():
            yield (part.counter_set, name), parse(counter.value)
