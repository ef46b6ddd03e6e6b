"""Which class serves an extended resource when several would."""

from typing import Any

import msgspec

from mooring.cluster.claims.device_objects import ServingClasses
from mooring.model.devices import DeviceClass

GPU = "example.com/gpu"


def a_class(name: str, serves: str | None = GPU, born: str = "2026-01-01T00:00:00Z", **spec: Any) -> DeviceClass:
    metadata = {"name": name, "creationTimestamp": born}
    return msgspec.convert({"metadata": metadata, "spec": {"extendedResourceName": serves, **spec}}, DeviceClass)


def served_by(*classes: DeviceClass, resource: str = GPU) -> str | None:
    serving = ServingClasses()
    for each in classes:
        serving.changed(None, each)
    found = serving.get(resource)
    return None if found is None else found.name


def test_the_newest_serves_and_then_the_lowest_name() -> None:
    assert served_by(a_class("b")) == "b"
    assert served_by(a_class("b"), a_class("a")) == "a"
    assert served_by(a_class("a"), a_class("b")) == "a"
    assert served_by(a_class("a"), a_class("b", born="2026-01-02T00:00:00Z")) == "b"
    assert served_by(a_class("b", born="2026-01-02T00:00:00Z"), a_class("a")) == "b"


def test_a_class_serves_the_resource_that_is_named_after_it() -> None:
    assert served_by(a_class("a", None), resource="deviceclass.resource.kubernetes.io/a") == "a"
    # Parity: one that comes too late for its resource does not even serve that.
    assert served_by(a_class("a"), a_class("b"), resource="deviceclass.resource.kubernetes.io/b") is None


def test_a_class_that_serves_something_else_now() -> None:
    serving, old, new = ServingClasses(), a_class("a"), a_class("a", "example.com/other")
    assert serving.changed(None, old)
    assert serving.changed(old, new)
    assert serving.get(GPU) is None
    assert serving.get("example.com/other") is new


def test_what_changes_nothing_is_told_so() -> None:
    serving, old = ServingClasses(), a_class("a")
    serving.changed(None, old)
    assert not serving.changed(old, a_class("a", selectors=[]))
    assert serving.changed(old, None)
    assert serving.is_empty
