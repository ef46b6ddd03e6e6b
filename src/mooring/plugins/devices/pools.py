"""Pools as nodes see them: which slices of a pool count, and whether the pool can be used at all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.model.devices import PoolId
from mooring.model.quantity import parse
from mooring.plugins.devices.device_views import DeviceInSlice, SliceView

CounterSets = dict[str, dict[str, int]]
"""Name of a counter set -> name of a counter -> nano-units."""


@dataclass(slots=True, eq=False)
class PoolView:
    """A pool from where some nodes stand."""

    id: PoolId
    sites: Sequence[DeviceInSlice] = ()
    """Devices of the slices that are for these nodes, by name of the slice."""
    others: Sequence[DeviceInSlice] = ()
    """Devices of the pool's other slices, which may use up the counters that all share."""
    counters: CounterSets = field(default_factory=dict)
    is_incomplete: bool = False
    is_invalid: bool = False

    @property
    def name(self) -> str:
        return "/".join(self.id)

    @property
    def is_usable(self) -> bool:
        return not self.is_incomplete and not self.is_invalid


def gather_pools(seen: Iterable[SliceView], whole: Mapping[PoolId, Sequence[SliceView]]) -> list[PoolView]:
    """The pools of the slices that a node sees, in the order in which devices are chosen; `whole` has all slices.

    Pools with devices that must be prepared before a pod is bound come last.
    """
    gathered: dict[PoolId, list[SliceView]] = {}
    for view in seen:
        known = gathered.setdefault(view.pool, [])
        if known and view.generation > known[0].generation:
            known.clear()  # newer, so it replaces what was known
        if not known or view.generation == known[0].generation:
            known.append(view)
    pools = [pool for id, views in gathered.items() if (pool := _pool(id, views, whole.get(id, ()))) is not None]
    return sorted(pools, key=lambda pool: (_must_be_prepared(pool), pool.id))


def _pool(id: PoolId, views: Sequence[SliceView], all_views: Sequence[SliceView]) -> PoolView | None:
    """None: the pool is being replaced by a newer one, of which the node sees nothing yet."""
    expected = views[0].slice.spec.pool.resource_slice_count
    rest: list[SliceView] = []
    if len(views) != expected:
        generation = views[0].generation
        if any(view.generation > generation for view in all_views):
            return None
        same = [view for view in all_views if view.generation == generation]
        if len(same) != expected:
            return PoolView(id, is_incomplete=True)
        rest = [view for view in same if view not in views]
    return _whole_pool(id, sorted(views, key=lambda view: view.slice.name), rest)


def _whole_pool(id: PoolId, views: Sequence[SliceView], rest: Sequence[SliceView]) -> PoolView:
    here = [site for view in views if not view.slice.spec.shared_counters for site in view.sites]
    elsewhere = [site for view in rest if not view.slice.spec.shared_counters for site in view.sites]
    sets = [each for view in (*views, *rest) for each in view.slice.spec.shared_counters or ()]
    counters = {
        each.name: {name: parse(counter.value) for name, counter in (each.counters or {}).items()} for each in sets
    }
    is_invalid = (
        len({site.id for site in here}) != len(here)
        or len(counters) != len(sets)
        or not all(_has_counters(site, counters) for site in (*here, *elsewhere))
    )
    return PoolView(id, is_invalid=True) if is_invalid else PoolView(id, here, elsewhere, counters)


def _has_counters(site: DeviceInSlice, counters: CounterSets) -> bool:
    """Whether all counters exist that the device consumes."""
    return all(
        part.counter_set in counters and (part.counters or {}).keys() <= counters[part.counter_set].keys()
        for part in site.device.consumes_counters or ()
    )


def _must_be_prepared(pool: PoolView) -> bool:
    return any(site.device.binding_conditions is not None for site in pool.sites)
