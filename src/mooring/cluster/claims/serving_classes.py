"""Which device class serves an extended resource, so that pods can request devices like any other resource."""

from mooring.model.devices import DeviceClass

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
