"""Results from device objects other than claims: the device class that serves an extended resource, and the ResourceSlices
with the taints of DeviceTaintRules, with which administrators add taints to the devices that drivers publish (feature gate
DRADeviceTaintRules)."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mooring.model.devices import Device, DeviceClass, DeviceTaintRule, DeviceTaintSelector, ResourceSlice
from mooring.model.node import Taint

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""With the name of a DeviceClass after it: the resource that the class serves without naming it."""


class ServingClasses:
    """By name of the resource. Of several classes that name one resource the newest serves it, then the lowest name.

    Parity: classes are taken in one by one, as they come, and a loser is not looked at again when the winner goes.
    """

    def __init__(self) -> None:
        self._serving: dict[str, DeviceClass] = {}

    def get(self, resource: str) -> DeviceClass | None:
        """The class whose devices serve the resource; None: only nodes themselves have it."""
        return self._serving.get(resource)

    @property
    def is_empty(self) -> bool:
        """Hot: lets NodeResourcesFit pass over devices in clusters without any device class."""
        return not self._serving

    def changed(self, old: DeviceClass | None, new: DeviceClass | None) -> bool:
        """Take in a class that came, changed or went. Returns whether some resource is served by another class now."""
        before = {resource: each.name for resource, each in self._serving.items()}
        if new is None:
            self._forget(old)
        elif self._prevails(new):
            self._forget(old)
            for resource in _resources(new):
                self._serving[resource] = new
        return before != {resource: each.name for resource, each in self._serving.items()}

    def adopt(self, other: "ServingClasses") -> bool:
        """Let the classes serve that serve in another view of the same classes: it depends on the order in which they
        came. Returns whether that changed anything."""
        if self._serving == other._serving:
            return False
        self._serving = dict(other._serving)
        return True

    def _prevails(self, new: DeviceClass) -> bool:
        """Parity: a class that owns its resource does not prevail over itself, so what is kept of it stays old."""
        owner = self._serving.get(new.spec.extended_resource_name or "")
        if owner is None:
            return True
        ages = new.metadata.creation_timestamp or "", owner.metadata.creation_timestamp or ""
        return ages[0] > ages[1] or (ages[0] == ages[1] and new.name < owner.name)

    def _forget(self, old: DeviceClass | None) -> None:
        for resource in _resources(old) if old is not None else ():
            self._serving.pop(resource, None)


def _resources(device_class: DeviceClass) -> list[str]:
    """The resources that a class serves: the one that it names, and the implicit one of every class."""
    named = device_class.spec.extended_resource_name
    implicit = IMPLICIT_PREFIX + device_class.name
    return [implicit] if named is None else [named, implicit]


_EVERYTHING = DeviceTaintSelector()

Names = tuple[str | None, str | None]
"""Driver and pool, as a selector names them; None: any."""


class TaintedSlices:
    """All slices as scheduling sees them. A slice that no rule selects is the object that the driver published.

    The cluster reports each change of a slice or a rule. Rules are filed by driver and pool, so a slice that changes costs
    as much as the rules that select it.
    """

    def __init__(self, slices: Mapping[str, ResourceSlice]) -> None:
        self._slices = slices
        self._rules: dict[Names, dict[str, DeviceTaintRule]] = {}
        self._tainted: dict[str, ResourceSlice] = {}
        """By name: the slices with a device that a rule taints, as they are with those taints."""
        self.version = 0
        """Grows with each change."""

    def all(self) -> Iterator[ResourceSlice]:
        """All slices, each with the taints of its rules."""
        return (self._tainted.get(name, published) for name, published in self._slices.items())

    def get(self, name: str) -> ResourceSlice | None:
        return self._tainted.get(name) or self._slices.get(name)

    def selected_by(self, *rules: DeviceTaintRule | None) -> dict[str, ResourceSlice]:
        """The slices in the pools of any of these rules by name, as they are now."""
        wanted = [_names(rule) for rule in rules if rule is not None]
        return {
            name: self._tainted.get(name, published)
            for name, published in self._slices.items()
            if any(_is_of(published, names) for names in wanted)
        }

    # ---- changes

    def slice_changed(self, name: str) -> None:
        """A slice came, changed or went."""
        self.version += 1
        self._taint(name)

    def rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """A rule came, changed or went."""
        self.version += 1
        if old is not None:
            there = self._rules[_names(old)]
            del there[old.name]
            if not there:
                del self._rules[_names(old)]
        if new is not None:
            self._rules.setdefault(_names(new), {})[new.name] = new
        for name in self.selected_by(old, new):
            self._taint(name)

    def _taint(self, name: str) -> None:
        """Compute the tainted version of a ResourceSlice again, or drop it if no DeviceTaintRule taints a device of the
        slice."""
        published = self._slices.get(name)
        tainted = (
            None if published is None or not self._rules else _with_taints(published, list(self._rules_of(published)))
        )
        if tainted is None:
            self._tainted.pop(name, None)
        else:
            self._tainted[name] = tainted

    def _rules_of(self, published: ResourceSlice) -> Iterable[DeviceTaintRule]:
        driver, pool = published.spec.driver, published.spec.pool.name
        for names in ((driver, pool), (driver, None), (None, pool), (None, None)):
            yield from self._rules.get(names, {}).values()


def taints_of(published: ResourceSlice) -> list[list[Taint]]:
    """The taints of its devices, in order."""
    return [device.taints or [] for device in published.spec.devices or ()]


def _names(rule: DeviceTaintRule) -> Names:
    selector = rule.spec.device_selector or _EVERYTHING
    return selector.driver, selector.pool


def _is_of(published: ResourceSlice, names: Names) -> bool:
    driver, pool = names
    return driver in (None, published.spec.driver) and pool in (None, published.spec.pool.name)


def _with_taints(published: ResourceSlice, rules: list[DeviceTaintRule]) -> ResourceSlice | None:
    """The slice with the taints that rules for its pool put on its devices; None: they taint none of them."""
    for_all: list[Taint] = []
    by_device: dict[str, list[Taint]] = {}
    for rule in rules:
        device = (rule.spec.device_selector or _EVERYTHING).device
        (for_all if device is None else by_device.setdefault(device, [])).append(rule.spec.taint)
    devices = [_tainted(each, [*for_all, *by_device.get(each.name, ())]) for each in published.spec.devices or ()]
    if all(new is old for new, old in zip(devices, published.spec.devices or (), strict=True)):
        return None
    return msgspec.structs.replace(published, spec=msgspec.structs.replace(published.spec, devices=devices))


def _tainted(device: Device, taints: list[Taint]) -> Device:
    return msgspec.structs.replace(device, taints=[*(device.taints or ()), *taints]) if taints else device
