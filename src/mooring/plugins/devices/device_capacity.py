"""Amounts that devices have to give: capacity that requests consume of one device, and counters that devices of a pool
share.

Amounts are integers in nano-units, so every quantity is exact. Rounding follows the request policy of the device.
"""

from collections.abc import Iterator, Mapping

import msgspec

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import CapacityPolicy, CapacityRange, DeviceCapacity, PoolId
from mooring.model.meta import MAX_INT64
from mooring.model.quantity import NANO, QuantityText, canonical, parse, to_int, written_like
from mooring.plugins.devices.pools import DeviceInSlice, PoolView

Capacities = Mapping[str, DeviceCapacity]
Requests = Mapping[str, QuantityText]

_MILLI = NANO // 1000


class CapacityFault(Exception):
    """An amount that cannot be computed or is negative: the attempt ends in an error. The text is upstream's."""


class Share(msgspec.Struct, frozen=True):
    """A part of one capacity, in nano-units and as it is written down."""

    nano: int
    text: QuantityText


def share_of(requested: QuantityText | None, capacity: DeviceCapacity, is_fractional: bool = True) -> Share:
    """Compute the amount that a request takes of one capacity. Without a requested amount this is the default of the policy,
    or the whole capacity; otherwise it is the requested amount, rounded up as the policy says. Raises CapacityFault.

    | requested | policy                     | takes |
    | -         | -                          | all   |
    | -         | default 1Gi                | 1Gi   |
    | 3Gi       | range from 2Gi, step 2Gi   | 4Gi   |
    | 250m      | range from 200m, step 100m | 300m  |
    | 3Gi       | values 2Gi, 4Gi            | 4Gi   |
    """
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return _written(capacity.value if default is None else default)
    if policy is None:
        return _written(requested)
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _up_in_range(requested, policy.valid_range, is_fractional)
    larger = (value for value in policy.valid_values or () if parse(value) >= parse(requested))
    return _written(next(larger, requested))


def fits(
    capacities: Capacities, requests: Requests | None, *consumed: Mapping[str, int], is_fractional: bool = True
) -> bool:
    """Whether the device has what is requested beside what is consumed already (each in nano-units). Raises CapacityFault.

    All capacities of the device count, also those that the request does not name: a policy may have a default for them. All
    shares are computed before the first is compared, so that a fault does not depend on the order of capacities.
    """
    if requests and not requests.keys() <= capacities.keys():
        return False
    shares = shares_of(capacities, requests, is_fractional)
    for name, share in shares.items():
        capacity = capacities[name]
        if _breaks(share, capacity.request_policy, is_fractional):
            return False
        if share.nano + sum(amounts.get(name, 0) for amounts in consumed) > parse(capacity.value):
            return False
    return True


def shares_of(capacities: Capacities, requests: Requests | None, is_fractional: bool = True) -> dict[str, Share]:
    """Compute the amount that a request takes of each capacity of a device, by name of the capacity. Raises CapacityFault."""
    shares = {}
    for name, capacity in capacities.items():
        try:
            shares[name] = share = share_of((requests or {}).get(name), capacity, is_fractional)
        except CapacityFault as fault:
            raise CapacityFault(f'capacity "{name}": {fault}') from None
        if share.nano < 0:
            raise CapacityFault(f'capacity "{name}": capacity value is negative')
    return shares


def _written(text: QuantityText) -> Share:
    return Share(parse(text), text)


def _up_in_range(requested: QuantityText, allowed: CapacityRange, is_fractional: bool) -> Share:
    """Round up to the next step of the range, counted from its minimum in thousandths or in whole units."""
    assert allowed.min is not None
    if parse(requested) < parse(allowed.min):
        return _written(allowed.min)
    unit = _unit_of(allowed, is_fractional)
    step = _in_units(allowed.step, unit)
    if allowed.step is None or step <= 0:
        return _written(requested)
    least, wanted = _in_units(allowed.min, unit), _in_units(requested, unit)
    if unit == _MILLI and (parse(requested) % _MILLI or wanted > MAX_INT64):
        raise _unrepresentable(f"request {canonical(requested)} is not a representable milli value")
    if unit == NANO and parse(requested) > MAX_INT64 * NANO:
        raise _unrepresentable(f"request {canonical(requested)} exceeds MaxInt64")
    taken = least + -(-(wanted - least) // step) * step
    if taken > MAX_INT64:
        most = "the milli-value range" if unit == _MILLI else "MaxInt64"
        raise _unrepresentable(f"rounding request {canonical(requested)} up to the next step passes {most}")
    return Share(taken * unit, written_like(taken * unit, allowed.step))


def _unrepresentable(why: str) -> CapacityFault:
    return CapacityFault(f"capacity request cannot be represented in the device's range arithmetic: {why}")


def _unit_of(allowed: CapacityRange, is_fractional: bool) -> int:
    """The unit in which steps are counted, in nano-units: thousandths, if the whole range can be written in them."""
    bounds = [parse(text) for text in (allowed.min, allowed.max, allowed.step) if text is not None]
    is_milli = all(nano % _MILLI == 0 and abs(nano) <= MAX_INT64 * _MILLI for nano in bounds)
    has_steps = allowed.step is None or parse(allowed.step) >= _MILLI
    return _MILLI if is_fractional and is_milli and has_steps else NANO


def _in_units(text: QuantityText | None, unit: int) -> int:
    """A quantity in thousandths or in whole units. Only whole units are rounded; without a quantity 0."""
    if text is None:
        return 0
    return to_int(parse(text)) if unit == NANO else parse(text) // unit


def _breaks(share: Share, policy: CapacityPolicy | None, is_fractional: bool) -> bool:
    """Whether the policy forbids to take so much. The policy's default is always allowed."""
    if policy is None or (policy.default is not None and parse(policy.default) == share.nano):
        return False
    allowed = policy.valid_range
    if allowed is not None:
        if allowed.max is not None and share.nano > parse(allowed.max):
            return True
        unit = _unit_of(allowed, is_fractional)
        step = _in_units(allowed.step, unit)
        if step <= 0:
            return False
        if unit == _MILLI and share.nano % _MILLI:
            return True
        return (_in_units(share.text, unit) - _in_units(allowed.min, unit)) % step != 0
    return bool(policy.valid_values) and all(parse(value) != share.nano for value in policy.valid_values or ())


# ---- Counters: partitions of one device take from what the device as a whole has. A pool declares counter sets, and
# each device says how much of which counter it consumes. Devices that take from one set may have to be compatible, too.


Counter = tuple[str, str]
"""Counter set and name."""


class SharedGroups(msgspec.Struct, frozen=True):
    """Compatibility groups of the devices that take from a counter set.

    Devices without groups go together with each other only, so that this is more than an intersection of sets.
    """

    is_plain: bool
    """Whether the devices have no groups."""
    common: frozenset[str] = frozenset()
    """The groups that all of them have."""

    def admits(self, groups: frozenset[str]) -> bool:
        """Whether a device with these groups may take from the set as well."""
        return self.is_plain if not groups else not self.is_plain and not self.common.isdisjoint(groups)


GroupsBySet = dict[str, SharedGroups]
"""By name of the counter set; a set that no device takes from is missing."""


class Counters:
    """Remaining values of the shared counters of each pool while a search picks devices. A pool is counted when a device of
    it is first needed."""

    def __init__(self, ledger: ClaimLedger, has_groups: bool = False) -> None:
        """`has_groups`: whether devices have to be compatible (gate DRADeviceCompatibilityGroups)."""
        self._ledger = ledger
        self._has_groups = has_groups
        self._left: dict[PoolId, dict[Counter, int]] = {}
        self._groups: dict[PoolId, GroupsBySet] = {}
        self._before: list[GroupsBySet] = []
        """For each device that was taken, the groups of its pool before."""

    def take(self, pool: PoolView, site: DeviceInSlice) -> bool:
        """Whether there is enough for the device, and it is compatible with those that took before; if so, it is taken.

        Parity: a pool that is overdrawn in any counter, also one that this device does not use, has nothing to give.
        """
        if not self._join(pool, site):
            return False
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
        if self._has_groups:
            self._groups[site.id[:2]] = self._before.pop()
        left = self._left[site.id[:2]]
        for counter, amount in _consumption(site):
            left[counter] += amount

    def _count(self, pool: PoolView) -> dict[Counter, int]:
        """Compute the counters of a pool that allocated devices leave. Devices that only other nodes see are included,
        because they consume the same counters."""
        left = {(name, each): amount for name, counters in pool.counters.items() for each, amount in counters.items()}
        for site in self._allocated(pool):
            for counter, amount in _consumption(site):
                left[counter] -= amount
        return left

    def _allocated(self, pool: PoolView) -> Iterator[DeviceInSlice]:
        """The devices of a pool that claims have, also those that only other nodes see."""
        ledger = self._ledger
        return (site for site in (*pool.sites, *pool.others) if site.id in ledger.exclusive or site.id in ledger.shares)

    def _join(self, pool: PoolView, site: DeviceInSlice) -> bool:
        """Whether the device is compatible with those that take from the same counter sets; if so, it counts as one of
        them."""
        if not self._has_groups:
            return True
        before = self._groups.get(pool.id)
        if before is None:
            before = {}
            for each in self._allocated(pool):
                for name, groups in _groups_of(each):
                    before[name] = _joined(before.get(name), groups)
        made = dict(before)
        for name, groups in _groups_of(site):
            shared = made.get(name)
            if shared is not None and not shared.admits(groups):
                return False
            made[name] = _joined(shared, groups)
        self._before.append(before)
        self._groups[pool.id] = made
        return True


def _joined(shared: SharedGroups | None, groups: frozenset[str]) -> SharedGroups:
    """The groups of a counter set with those of one more device. Parity: allocated devices may be incompatible, because
    slices change."""
    if shared is None:
        return SharedGroups(not groups, groups)
    return shared if shared.is_plain or not groups else SharedGroups(False, shared.common & groups)


def _groups_of(site: DeviceInSlice) -> Iterator[tuple[str, frozenset[str]]]:
    """The counter sets that a device takes from, each with the compatibility groups of the device."""
    for part in site.device.consumes_counters or ():
        yield part.counter_set, frozenset(part.compatibility_groups or ())


def _consumption(site: DeviceInSlice) -> Iterator[tuple[Counter, int]]:
    for part in site.device.consumes_counters or ():
        for name, counter in (part.counters or {}).items():
            yield (part.counter_set, name), parse(counter.value)
