"""Devices where they are: each with its slice and its pool, and with what selectors said of it."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from weakref import WeakValueDictionary

import msgspec

from mooring.model.devices import Device, DeviceId, PoolId, ResourceSlice
from mooring.plugins.devices.cel import CelFault, Facts, compile_selector, facts_of

_encode = msgspec.json.Encoder(order="deterministic").encode
_serials = count(1)


Answer = bool | CelFault

MAX_ANSWERS = 1024
"""Selectors that are remembered for each kind of device. Clusters have few; claims of hostile users may all differ."""


class Likeness:
    """What devices have in common that no selector can tell apart: each selector is evaluated once for all of them."""

    __slots__ = ("__weakref__", "_answers", "_device", "_driver", "_facts")

    def __init__(self, driver: str, device: Device) -> None:
        self._driver = driver
        self._device = device
        self._facts: Facts | None = None
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def known(self, selector: str) -> Answer | None:
        """What the selector says of the devices, if it was asked before."""
        return self._answers.get(selector)

    def ask(self, selector: str) -> tuple[Answer, int]:
        """What the selector says of the devices, and what it costs to find out."""
        answer, cost = self._evaluate(selector)
        self._answers[selector] = answer
        if len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)
        return answer, cost

    def _evaluate(self, selector: str) -> tuple[Answer, int]:
        matcher = compile_selector(selector)
        if isinstance(matcher, CelFault):
            return matcher, 0
        try:
            if self._facts is None:
                self._facts = facts_of(self._driver, self._device)
            return matcher.matches(self._facts)
        except CelFault as fault:
            return fault.with_traceback(None), fault.cost


_likenesses: WeakValueDictionary[bytes, Likeness] = WeakValueDictionary()


def likeness_of(driver: str, device: Device) -> Likeness:
    key = _encode((driver, device.attributes, device.capacity, device.allow_multiple_allocations))
    likeness = _likenesses.get(key)
    if likeness is None:
        likeness = _likenesses[key] = Likeness(driver, device)
    return likeness


@dataclass(slots=True, eq=False)
class DeviceInSlice:
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
        return bool(self.device.allow_multiple_allocations)


@dataclass(slots=True, eq=False)
class SliceView:
    """A slice, taken apart once."""

    slice: ResourceSlice
    sites: Sequence[DeviceInSlice]
    serial: int = field(default_factory=lambda: next(_serials))

    @property
    def pool(self) -> PoolId:
        return self.slice.spec.driver, self.slice.spec.pool.name

    @property
    def generation(self) -> int:
        return self.slice.spec.pool.generation


def view_of(slice: ResourceSlice) -> SliceView:
    spec = slice.spec
    sites = tuple(
        DeviceInSlice((spec.driver, spec.pool.name, device.name), device, slice, likeness_of(spec.driver, device))
        for device in spec.devices or ()
    )
    return SliceView(slice, sites)
