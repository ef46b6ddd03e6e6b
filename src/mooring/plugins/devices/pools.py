"""Devices and pools as nodes see them: which slices of a pool count, and whether the pool can be used at all.

A driver publishes a pool as several ResourceSlices with a generation and a total count. While it replaces them, slices
of two generations exist; the newest counts, and only when it is complete.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

import msgspec

from mooring.model.devices import Device, DeviceAttribute, DeviceId, PoolId, ResourceSlice
from mooring.model.quantity import parse
from mooring.plugins.devices.device_demand import DEFAULT_FEATURES, DeviceFeatures
from mooring.plugins.devices.effort import CelFault, Facts

if TYPE_CHECKING:
    from mooring.plugins.devices.cel import DeviceExpression

# ---- Devices, each with its slice, and with what selectors said of it.


_encode = msgspec.json.Encoder(order="deterministic").encode
# Numbers slices: a changed slice is a new view with a new number, so numbers stand for content in keys.
_serials = count(1)


Answer = bool | CelFault
Derived = DeviceAttribute | CelFault
"""The value of an attribute that a request computes, or why it cannot be computed."""
V = TypeVar("V")

MAX_ANSWERS = 1024
"""Selectors that are remembered for each kind of device. Clusters have few; claims of hostile users may all differ."""


class Likeness:
    """Properties that selectors can read, shared by all devices that have the same ones. Each selector is evaluated once for
    all these devices.

    A cluster has thousands of devices of a few models. Selectors read the driver, attributes, capacity and whether a
    device can be shared, so devices that agree in these share one object.
    """

    __slots__ = ("__weakref__", "_answers", "_derived", "_device", "_driver", "_facts")

    def __init__(self, driver: str, device: Device) -> None:
        self._driver = driver
        self._device = device
        self._facts: Facts | None = None
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._derived: OrderedDict[str, Derived] = OrderedDict()

    def known(self, selector: str) -> Answer | None:
        """Return the kept answer of a selector for these devices; None if the selector was not evaluated yet."""
        return self._answers.get(selector)

    def ask(self, selector: str, max_cost: int | None = None) -> tuple[Answer, int]:
        """Evaluate a selector for these devices and keep the answer. Returns the answer and its cost, in CEL cost units.
        Raises TookTooLong if the cost exceeds `max_cost`; None stands for the limit of a single selector."""
        from mooring.plugins.devices.cel import compile_selector  # not at the start: see effort.py

        answer, cost = self._evaluate(compile_selector(selector), max_cost)
        _keep(self._answers, selector, answer)
        return answer, cost

    def derived(self, expression: str) -> Derived | None:
        """Return the kept value of a derived attribute for these devices; None if it was not computed yet."""
        return self._derived.get(expression)

    def derive(self, expression: str, max_cost: int | None = None) -> tuple[Derived, int]:
        """Compute a derived attribute of these devices and keep it. Returns it and its cost, as `ask` does."""
        from mooring.plugins.devices.cel import compile_derived

        value, cost = self._evaluate(compile_derived(expression), max_cost)
        _keep(self._derived, expression, value)
        return value, cost

    def _evaluate(self, compiled: "DeviceExpression[V] | CelFault", max_cost: int | None) -> tuple[V | CelFault, int]:
        """Evaluate a compiled expression. An error is an answer too. The cost is in CEL cost units and includes work that
        upstream does not charge for."""
        from mooring.cel.budget import WORK
        from mooring.plugins.devices.cel import facts_of
        from mooring.rules.device_expressions import MAX_COST

        if isinstance(compiled, CelFault):
            return compiled, 0
        answer: V | CelFault
        try:
            if self._facts is None:
                self._facts = facts_of(self._driver, self._device)
            answer, cost = compiled.answer(self._facts, MAX_COST if max_cost is None else max_cost)
        except CelFault as fault:
            answer, cost = fault.with_traceback(None), fault.cost
        return answer, cost + WORK.spent  # some work takes time but costs nothing upstream


def _keep(kept: OrderedDict[str, V], expression: str, answer: V) -> None:
    kept[expression] = answer
    if len(kept) > MAX_ANSWERS:
        kept.popitem(last=False)


LikenessBook = WeakValueDictionary[bytes, Likeness]
"""Weak: an entry goes with the last slice that has such a device. Each scheduler has a book of its own: what a search costs
must not depend on what another scheduler in the process, such as that of a self-check, has found out."""


def likeness_of(book: LikenessBook, driver: str, device: Device) -> Likeness:
    """The object for devices like this one."""
    key = _encode((driver, device.attributes, device.capacity, device.allow_multiple_allocations))
    likeness = book.get(key)
    if likeness is None:
        likeness = book[key] = Likeness(driver, device)
    return likeness


class DeviceInSlice(msgspec.Struct, eq=False):
    """A device in its slice."""

    id: DeviceId
    device: Device
    slice: ResourceSlice
    likeness: Likeness

    @property
    def name(self) -> str:
        return "/".join(self.id)

    @property
    def is_shareable(self) -> bool:
        """Whether several claims may use the device at once (allowMultipleAllocations)."""
        return bool(self.device.allow_multiple_allocations)


class SliceView(msgspec.Struct, eq=False):
    """A slice, taken apart once."""

    slice: ResourceSlice
    sites: Sequence[DeviceInSlice]
    has_groups: bool
    """Whether a device of the slice has compatibility groups."""
    serial: int = msgspec.field(default_factory=lambda: next(_serials))

    @property
    def pool(self) -> PoolId:
        return self.slice.spec.driver, self.slice.spec.pool.name

    @property
    def generation(self) -> int:
        return self.slice.spec.pool.generation


def view_of(published: ResourceSlice, book: LikenessBook | None = None) -> SliceView:
    """Take a slice apart. Slices whose devices may be alike need one book."""
    spec, book = published.spec, LikenessBook() if book is None else book
    sites = tuple(
        DeviceInSlice(
            (spec.driver, spec.pool.name, device.name), device, published, likeness_of(book, spec.driver, device)
        )
        for device in spec.devices or ()
    )
    has_groups = any(
        part.compatibility_groups for device in spec.devices or () for part in device.consumes_counters or ()
    )
    return SliceView(published, sites, has_groups)


CounterSets = dict[str, dict[str, int]]
"""Name of a counter set -> name of a counter -> nano-units."""


class PoolView(msgspec.Struct, eq=False):
    """A pool from where some nodes stand."""

    id: PoolId
    sites: Sequence[DeviceInSlice] = ()
    """Devices of the slices that are for these nodes, by name of the slice."""
    others: Sequence[DeviceInSlice] = ()
    """Devices of the pool's other slices, which may use up the counters that all share."""
    counters: CounterSets = msgspec.field(default_factory=dict)
    is_incomplete: bool = False
    """Some slices of its newest generation are missing: the driver is updating it."""
    is_invalid: bool = False
    """Two devices have the same name, or a device names a counter that does not exist."""

    @property
    def name(self) -> str:
        return "/".join(self.id)

    @property
    def is_usable(self) -> bool:
        return not self.is_incomplete and not self.is_invalid


def gather_pools(
    seen: Iterable[SliceView], whole: Mapping[PoolId, Sequence[SliceView]], features: DeviceFeatures = DEFAULT_FEATURES
) -> list[PoolView]:
    """The pools of the slices that a node sees, in the order in which devices are chosen; `whole` has all slices.

    Pools with binding conditions come last, as upstream prefers devices that need no preparation; then names decide.
    """
    gathered: dict[PoolId, list[SliceView]] = {}
    for view in seen:
        known = gathered.setdefault(view.pool, [])
        if known and view.generation > known[0].generation:
            known.clear()  # newer, so it replaces what was known
        if not known or view.generation == known[0].generation:
            known.append(view)
    pools = [
        pool
        for pool_id, views in gathered.items()
        if (pool := _pool(pool_id, views, whole.get(pool_id, ()), features)) is not None
    ]
    return sorted(pools, key=lambda pool: (_must_be_prepared(pool), pool.id))


def _pool(
    pool_id: PoolId, views: Sequence[SliceView], all_views: Sequence[SliceView], features: DeviceFeatures
) -> PoolView | None:
    """The pool as these slices show it. None: a newer generation exists, of which the node sees nothing yet.

    Fewer slices than the pool has is normal: the others may be for other nodes. They count for completeness and
    counters. Slices that cannot be used because of their compatibility groups count for nothing, so that their pool is
    incomplete.
    """
    expected = views[0].slice.spec.pool.resource_slice_count
    rest: list[SliceView] = []
    if len(views) != expected:
        generation = views[0].generation
        if any(view.generation > generation for view in all_views):
            return None
        has_groups = features.compatibility_groups
        same = [view for view in all_views if view.generation == generation and (has_groups or not view.has_groups)]
        if len(same) != expected:
            return PoolView(pool_id, is_incomplete=True)
        rest = [view for view in same if view not in views]
    return _whole_pool(pool_id, sorted(views, key=lambda view: view.slice.name), rest, features)


def _whole_pool(
    pool_id: PoolId, views: Sequence[SliceView], rest: Sequence[SliceView], features: DeviceFeatures
) -> PoolView:
    """A complete pool. Slices with counter sets have no devices. Counters that count for nothing (gate
    DRAPartitionableDevices) do not make a pool invalid."""
    here = [site for view in views if not view.slice.spec.shared_counters for site in view.sites]
    elsewhere = [site for view in rest if not view.slice.spec.shared_counters for site in view.sites]
    sets = [each for view in (*views, *rest) for each in view.slice.spec.shared_counters or ()]
    counters = {
        each.name: {name: parse(counter.value) for name, counter in (each.counters or {}).items()} for each in sets
    }
    has_bad_counters = features.partitionable and (
        len(counters) != len(sets) or not all(_has_counters(site, counters) for site in (*here, *elsewhere))
    )
    is_invalid = has_bad_counters or len({site.id for site in here}) != len(here)
    return PoolView(pool_id, is_invalid=True) if is_invalid else PoolView(pool_id, here, elsewhere, counters)


def _has_counters(site: DeviceInSlice, counters: CounterSets) -> bool:
    """Whether all counters exist that the device consumes."""
    return all(
        part.counter_set in counters and (part.counters or {}).keys() <= counters[part.counter_set].keys()
        for part in site.device.consumes_counters or ()
    )


def _must_be_prepared(pool: PoolView) -> bool:
    """Whether a device of the pool has binding conditions."""
    return any(site.device.binding_conditions is not None for site in pool.sites)


# ---- The devices that a search may still pick, by position in the order of devices; those taken are skipped without a
# look.


class FreeList:
    """Positions from which some are taken out, and put back in the opposite order.

    A linked list of which a member that is taken out keeps its neighbours, so that it finds its place again (dancing
    links). Without it, each of thousands of claims would look at all devices that the claims before it took.
    """

    def __init__(self, size: int, left_out: Iterable[int]) -> None:
        self.size = size
        out = set(left_out)
        members = [position for position in range(size) if position not in out]
        self._after = [size] * (size + 1)
        """By position, the last being the one before all others."""
        self._before = [-1] * (size + 1)
        for one, other in zip([-1, *members], [*members, size], strict=True):
            self._after[one], self._before[other] = other, one
        self._is_in = [position not in out for position in range(size)]

    def after(self, position: int) -> int:
        """The next member, or `size`; -1 stands before the first. One that was just taken out may be asked about."""
        return self._after[position]

    def take_out(self, position: int) -> None:
        """Take a position out; one that never was a member stays out."""
        if self._is_in[position]:
            before, after = self._before[position], self._after[position]
            self._after[before], self._before[after] = after, before

    def put_back(self, position: int) -> None:
        """Put a position back. It must be the one that was taken out last of those that are out."""
        if self._is_in[position]:
            self._after[self._before[position]] = position
            self._before[self._after[position]] = position
