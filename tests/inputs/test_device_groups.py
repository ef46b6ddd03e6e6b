"""Device selectors without names: the same devices are selected, and expressions that fail still fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.inputs.dumps import device_groups
from mooring.inputs.dumps.device_groups import DeviceGroups, TooManySelectors
from mooring.model.devices import (
    CelSelector,
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceClassSpec,
    DeviceSelector,
    ResourceSlice,
    ResourceSliceSpec,
)
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.plugins.devices.cel import DeviceExpression, compile_selector, facts_of
from mooring.plugins.devices.effort import CelFault

DRIVER = "gpu.acme.com"
MODEL = f'device.attributes["{DRIVER}"].model'
SIZE = f'device.attributes["{DRIVER}"].size'
EXPRESSIONS = [
    f'{MODEL} == "a100"',
    f'{MODEL}.startsWith("a")',
    f"{SIZE} > 3",
    f'device.driver == "{DRIVER}"',
    f'"{DRIVER}" in device.attributes && has({MODEL})',
    f"{SIZE}",  # not a boolean
    "device.nonsense",  # does not compile
    "((",
    "true",
    "false",
]


def a_class(*expressions: str) -> DeviceClass:
    selectors = [DeviceSelector(cel=CelSelector(expression=text)) for text in expressions]
    return DeviceClass(metadata=ObjectMeta(name="c"), spec=DeviceClassSpec(selectors=selectors))


def a_device(name: str, model: str | None = None, size: int | None = None) -> Device:
    attributes = {}
    if model is not None:
        attributes["model"] = DeviceAttribute(string_value=model)
    if size is not None:
        attributes[f"{DRIVER}/size"] = DeviceAttribute(int_value=size)
    return Device(name=name, attributes=attributes)


def a_slice(*found: Device) -> ResourceSlice:
    return ResourceSlice(metadata=ObjectMeta(name="s"), spec=ResourceSliceSpec(driver=DRIVER, devices=[*found]))


def says(expression: str, driver: str, device: Device) -> str:
    matcher = compile_selector(expression)
    if not isinstance(matcher, DeviceExpression):
        return "does not compile"
    try:
        return str(matcher.answer(facts_of(driver, device))[0])
    except CelFault:
        return "fails"


devices = st.builds(
    a_device, st.just("d"), st.sampled_from([None, "a100", "h100"]), st.one_of(st.none(), st.integers(0, 8))
)


@given(st.lists(st.sampled_from(EXPRESSIONS), max_size=6), st.lists(devices, min_size=1, max_size=6))
def test_the_same_devices_are_selected(expressions: list[str], found: list[Device]) -> None:
    objects: list[KubeObject] = [a_class(*expressions), a_slice(*found)]
    groups = DeviceGroups.of(objects)
    (old,) = (item for item in objects if isinstance(item, ResourceSlice))
    new = groups.with_groups(groups.without_attributes(old), old)
    for device, other in zip(found, new.spec.devices or (), strict=True):
        for text in expressions:
            assert says(groups.expressions[text], "x1", other) == says(text, DRIVER, device)
            assert "a100" not in groups.expressions[text] and DRIVER not in groups.expressions[text]
        assert not {*(other.attributes or {})} & {"model", f"{DRIVER}/size"}


def test_without_selectors_devices_get_no_group() -> None:
    item = a_slice(a_device("d", "a100"))
    groups = DeviceGroups.of([item])
    marked = groups.with_groups(groups.without_attributes(item), item)
    assert [device.attributes for device in marked.spec.devices or ()] == [None]


def test_too_many_selectors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_groups, "MAX_EVALUATIONS", 3)
    with pytest.raises(TooManySelectors, match="too many device selectors and devices"):
        DeviceGroups.of([a_class("true", "false"), a_slice(a_device("a"), a_device("b"))])


def test_selectors_that_tell_too_many_devices_apart_are_refused() -> None:
    """Twelve selectors, each of which looks at one bit of a number, put each of 4,000 devices into a group of its own."""
    bits = [f"{SIZE} / {1 << bit} % 2 == 1" for bit in range(12)]
    with pytest.raises(TooManySelectors, match="tell too many devices apart"):
        DeviceGroups.of([a_class(*bits), a_slice(*(a_device("d", size=size) for size in range(4000)))])
