"""Counters that the devices of a pool share: partitions of one device take from what the device as a whole has."""

from collections.abc import Iterator

from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import PoolId
from mooring.model.quantity import parse
from mooring.plugins.devices.device_views import DeviceInSlice
from mooring.plugins.devices.pools import PoolView

Counter = tuple[str, str]
"""Counter set and name."""


class Counters:
    """What is left of the counters of each pool while devices are picked."""

    def __init__(self, ledger: ClaimLedger) -> None:
        self._ledger = ledger
        self._left: dict[PoolId, dict[Counter, int]] = {}

    def take(self, pool: PoolView, site: DeviceInSlice) -> bool:
        """Whether there is enough for the device; if so, it is taken.

        Parity: a pool that was overdrawn in any counter has nothing for anyone.
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
        left = self._left[site.id[:2]]
        for counter, amount in _consumption(site):
            left[counter] += amount

    def _count(self, pool: PoolView) -> dict[Counter, int]:
        """What the devices leave that are given, also those that other nodes see."""
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
