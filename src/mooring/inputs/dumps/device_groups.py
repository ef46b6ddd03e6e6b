"""Device selectors without names: each is replaced by one that selects the same devices by a number.

A selector is an expression over attributes that mean something only together with their values: `model.startsWith("a")`. New
names would change what it selects. So all selectors are evaluated on all devices; devices that no selector tells apart form a
group, every device gets the number of its group as an attribute, and each selector becomes a list of numbers. An expression
that fails on a device fails on it afterwards, too. Attributes stay only if a claim compares them between devices.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.model.devices import (
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceSelector,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from mooring.model.meta import KubeObject
from mooring.model.quantity import QuantityError
from mooring.plugins.devices.cel import Matcher, compile_selector, facts_of
from mooring.plugins.devices.effort import CelFault, Facts
from mooring.rules.device_expressions import MAX_BYTES

DOMAIN, GROUP = "anonymous.example", "group"
_NUMBER = f'device.attributes["{DOMAIN}"].{GROUP}'
_FAILS = f'device.attributes["{DOMAIN}"].fails'
"""No device has this attribute, so that to read it is an error."""
_UNREADABLE = "("
"""An expression that does not compile."""
MAX_EVALUATIONS = 5_000_000
"""Some 50 s. A cluster of 5,000 nodes with 8 GPUs each and 100 selectors needs 4,000,000."""

Verdicts = tuple[bool | None, ...]
"""The answer of each selector about a device; None: it fails."""


class TooManySelectors(ValueError):
    """The selectors of a cluster cannot be replaced. The text is for the user."""


@dataclass(slots=True)
class DeviceGroups:
    """The groups of the devices of a cluster."""

    expressions: dict[str, str] = field(default_factory=dict)
    """Selector -> the one that replaces it."""
    _groups: dict[Verdicts, int] = field(default_factory=dict)
    _by_content: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _matchers: list[Matcher | CelFault] = field(default_factory=list)
    _compared: set[str] = field(default_factory=set)
    """Full names of attributes that claims compare."""

    @classmethod
    def of(cls, objects: Sequence[KubeObject]) -> "DeviceGroups":
        """Evaluate all selectors of the objects on all their devices. Raises TooManySelectors."""
        groups = cls()
        texts = [*dict.fromkeys(_expressions(objects))]
        slices = [item for item in objects if isinstance(item, ResourceSlice)]
        if len(texts) * sum(len(item.spec.devices or ()) for item in slices) > MAX_EVALUATIONS:
            raise TooManySelectors(
                "--anonymize: there are too many device selectors and devices to replace the selectors"
            )
        groups._matchers = [compile_selector(text) for text in texts]
        groups._compared = {*_compared(objects)}
        for item in slices:
            for device in item.spec.devices or ():
                groups._group(item.spec.driver, device)
        groups.expressions = {text: groups._replacement(place) for place, text in enumerate(texts)}
        return groups

    def without_attributes(self, item: ResourceSlice) -> ResourceSlice:
        """The slice with those attributes only that claims compare."""
        found = [self._stripped(item.spec.driver, device) for device in item.spec.devices or ()]
        return _with_devices(item, found)

    def with_groups(self, item: ResourceSlice, old: ResourceSlice) -> ResourceSlice:
        """The renamed slice with the groups of the devices that the old one has."""
        pairs = zip(item.spec.devices or (), old.spec.devices or (), strict=True)
        return _with_devices(item, [self._marked(new, self._group(old.spec.driver, device)) for new, device in pairs])

    def _stripped(self, driver: str, device: Device) -> Device:
        kept = {
            name: value
            for name, value in (device.attributes or {}).items()
            if name in self._compared or f"{driver}/{name}" in self._compared
        }
        return msgspec.structs.replace(device, attributes=kept or None)

    def _marked(self, device: Device, group: int) -> Device:
        if not self.expressions:
            return device
        mark = {f"{DOMAIN}/{GROUP}": DeviceAttribute(int_value=group)}
        return msgspec.structs.replace(device, attributes={**(device.attributes or {}), **mark})

    def _group(self, driver: str, device: Device) -> int:
        """The number of the group. Devices with equal attributes are evaluated once."""
        read = (device.attributes, device.capacity, device.allow_multiple_allocations)
        content = (driver, msgspec.json.encode(read))
        if content not in self._by_content:
            verdicts = self._verdicts(driver, device)
            self._by_content[content] = self._groups.setdefault(verdicts, len(self._groups))
        return self._by_content[content]

    def _verdicts(self, driver: str, device: Device) -> Verdicts:
        try:
            facts = facts_of(driver, device)
        except (CelFault, QuantityError):
            return (None,) * len(self._matchers)
        return tuple(_verdict(matcher, facts) for matcher in self._matchers)

    def _replacement(self, place: int) -> str:
        """`number in [1, 4]`; true || error is true, and false && error is false."""
        if isinstance(self._matchers[place], CelFault):
            return _UNREADABLE
        chosen = [number for verdicts, number in self._groups.items() if verdicts[place]]
        failing = [number for verdicts, number in self._groups.items() if verdicts[place] is None]
        text = f"{_NUMBER} in {chosen}" if chosen else "false"
        if failing:
            text = f"{text} || ({_NUMBER} in {failing} && {_FAILS})"
        if len(text) > MAX_BYTES:
            raise TooManySelectors("--anonymize: the device selectors tell too many devices apart")
        return text


def _verdict(matcher: Matcher | CelFault, facts: Facts) -> bool | None:
    if isinstance(matcher, CelFault):
        return None
    try:
        return matcher.answer(facts)[0]
    except CelFault:
        return None


def _with_devices(item: ResourceSlice, found: list[Device]) -> ResourceSlice:
    if item.spec.devices is None:
        return item
    return ResourceSlice(metadata=item.metadata, spec=msgspec.structs.replace(item.spec, devices=found))


def _expressions(objects: Iterable[KubeObject]) -> Iterator[str]:
    for item in objects:
        if isinstance(item, DeviceClass):
            yield from _texts(item.spec.selectors)
        for claim in _claims(item):
            for request in claim.requests or ():
                yield from _texts(request.exactly.selectors if request.exactly is not None else None)
                for alternative in request.first_available or ():
                    yield from _texts(alternative.selectors)


def _texts(selectors: Iterable[DeviceSelector] | None) -> Iterator[str]:
    return (selector.cel.expression for selector in selectors or () if selector.cel is not None)


def _compared(objects: Iterable[KubeObject]) -> Iterator[str]:
    for item in objects:
        for claim in _claims(item):
            for constraint in claim.constraints or ():
                yield from filter(None, (constraint.match_attribute, constraint.distinct_attribute))


def _claims(item: KubeObject) -> Iterator[DeviceClaim]:
    if isinstance(item, ResourceClaim):
        yield item.spec.devices
    elif isinstance(item, ResourceClaimTemplate):
        yield item.spec.spec.devices
