"""Devices and pools as nodes see them: which slices of a pool count, and whether the pool can be used at all.

A driver publishes a pool as several ResourceSlices with a generation and a total count. While it replaces them, slices
of two generations exist; the newest counts, and only when it is complete.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from weakref import WeakValueDictionary

import msgspec

from mooring.model.devices import Device, DeviceId, PoolId, ResourceSlice
from mooring.model.quantity import parse
from mooring.plugins.devices.effort import DIALECT, CelFault, Dialect, Facts

# ---- Devices, each with its slice, and with what selectors said of it.


_encode = msgspec.json.Encoder(order="deterministic").encode
# Numbers slices: a changed slice is a new view with a new number, so numbers stand for content in keys.
_serials = count(1)


Answer = bool | CelFault

MAX_ANSWERS = 1024
"""Selectors that are remembered for each kind of device. Clusters have few; claims of hostile users may all differ."""


class Likeness:
    """Properties that selectors can read, shared by all devices that have the same ones. Each selector is evaluated once for
    all these devices.

    A cluster has thousands of devices of a few models. Selectors read the driver, attributes, capacity and whether a
    device can be shared, so devices that agree in these share one object.
    """

    __slots__ = ("__weakref__", "_answers", "_device", "_dialect", "_driver", "_facts")

    def __init__(self, driver: str, device: Device, dialect: Dialect) -> None:
        self._driver = driver
        self._device = device
        self._dialect = dialect
        self._facts: Facts | None = None
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def known(self, selector: str) -> Answer | None:
        """Return the kept answer of a selector for these devices; None if the selector was not evaluated yet."""
        return self._answers.get(selector)

    def ask(self, selector: str, max_cost: int | None = None) -> tuple[Answer, int]:
        """Evaluate a selector for these devices and keep the answer. Returns the answer and its cost, in CEL cost units.
        Raises TookTooLong if the cost exceeds `max_cost`; None stands for the limit of a single selector."""
        answer, cost = self._evaluate(selector, max_cost)
        self._answers[selector] = answer
        if len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)
        return answer, cost

    def _evaluate(self, selector: str, max_cost: int | None) -> tuple[Answer, int]:
        """Compile and evaluate a selector. An error is an answer too. The cost is in CEL cost units and includes work that
        upstream does not charge for."""
        from mooring.cel.budget import WORK
        from mooring.plugins.devices.cel import MAX_COST, compile_selector, facts_of  # not at the start: see effort.py

        answer: Answer
        matcher = compile_selector(selector, self._dialect)
        if isinstance(matcher, CelFault):
            return matcher, 0
        try:
            if self._facts is None:
                self._facts = facts_of(self._driver, self._device, self._dialect)
            answer, cost = matcher.matches(self._facts, MAX_COST if max_cost is None else max_cost)
        except CelFault as fault:
            answer, cost = fault.with_traceback(None), fault.cost
        return answer, cost + WORK.spent  # some work takes time but costs nothing upstream


LikenessBook = WeakValueDictionary[bytes, Likeness]
"""Weak: an entry goes with the last slice that has such a device. Each scheduler has a book of its own: what a search costs
must not depend on what another scheduler in the process, such as that of a self-check, has found out."""


def likeness_of(book: LikenessBook, driver: str, device: Device, dialect: Dialect = DIALECT) -> Likeness:
    """The object for devices like this one, and for selectors of this dialect."""
    key = _encode((driver, device.attributes, device.capacity, device.allow_multiple_allocations, dialect))
    likeness = book.get(key)
    if likeness is None:
        likeness = book[key] = Likeness(driver, device, dialect)
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
    serial: int = msgspec.field(default_factory=lambda: next(_serials))

    @property
    def pool(self) -> PoolId:
        return self.slice.spec.driver, self.slice.spec.pool.name

    @property
    def generation(self) -> int:
        return self.slice.spec.pool.generation


def view_of(published: ResourceSlice, dialect: Dialect = DIALECT, book: LikenessBook | None = None) -> SliceView:
    """Take a slice apart. Slices whose devices may be alike need one book."""
    spec, book = published.spec, LikenessBook() if book is None else book
    sites = tuple(
        DeviceInSlice(
            (spec.driver, spec.pool.name, device.name),
            device,
            published,
            likeness_of(book, spec.driver, device, dialect),
        )
        for device in spec.devices or ()
    )
    return SliceView(published, sites)


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


def gather_pools(seen: Iterable[SliceView], whole: Mapping[PoolId, Sequence[SliceView]]) -> list[PoolView]:
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
        if (pool := _pool(pool_id, views, whole.get(pool_id, ()))) is not None
    ]
    return sorted(pools, key=lambda pool: (_must_be_prepared(pool), pool.id))


def _pool(pool_id: PoolId, views: Sequence[SliceView], all_views: Sequence[SliceView]) -> PoolView | None:
    """The pool as these slices show it. None: a newer generation exists, of which the node sees nothing yet.

    Fewer slices than the pool has is normal: the others may be for other nodes. They count for completeness and
    counters.
    """
    expected = views[0].slice.spec.pool.resource_slice_count
    rest: list[SliceView] = []
    if len(views) != expected:
        generation = views[0].generation
        if any(view.generation > generation for view in all_views):
            return None
        same = [view for view in all_views if view.generation == generation]
        if len(same) != expected:
            return PoolView(pool_id, is_incomplete=True)
        rest = [view for view in same if view not in views]
    return _whole_pool(pool_id, sorted(views, key=lambda view: view.slice.name), rest)


def _whole_pool(pool_id: PoolId, views: Sequence[SliceView], rest: Sequence[SliceView]) -> PoolView:
    """A complete pool. Slices with counter sets have no devices."""
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
            self._link(self._before[position], self._after[position])

    def put_back(self, position: int) -> None:
        """Put a position back. It must be the one that was taken out last of those that are out."""
        if self._is_in[position]:
            self._after[self._before[position]] = position
            self._before[self._after[position]] = position

    def _link(self, one: int, other: int) -> None:
        self._after[one], self._before[other] = other, one
