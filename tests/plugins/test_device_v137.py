"""Rules of the search for devices that came with v1.37: sections 17.4 to 17.7 and 17.10 of its specification."""

from typing import Any

import msgspec
import numpy as np
import pytest

import device_building
from build import a_cluster, a_node
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation, an_ask
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.status import PluginError
from mooring.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.plugins.devices.allocation import allocation_of
from mooring.plugins.devices.cel import compile_derived
from mooring.plugins.devices.device_demand import DeviceFeatures
from mooring.plugins.devices.device_search_cache import DeviceSearchCache
from mooring.plugins.devices.effort import CelFault

JsonObject = dict[str, Any]
looking = device_building.few_and_many_devices

OPTIONAL = "DRAOptionalNodeOperations"


def a_world(*slices: ResourceSlice, held: Any = None, declared: tuple[str, ...] = ()) -> Cluster:
    """One node that sees these slices, and maybe a claim that has devices already."""
    node = a_node("n", features=list(declared))
    cluster = a_cluster(node, a_node("m"), a_class(), *slices)
    if held is not None:
        cluster.put(a_claim("held", status={"allocation": held}))
    return cluster


def allocated(cluster: Cluster, *claims: ResourceClaim, **features: bool) -> list[JsonObject] | str | None:
    """The allocations of the claims on node n; None if there are no devices for them, or an error."""
    cache = DeviceSearchCache(DeviceFeatures(**features), None)
    row = np.array([cluster.nodes.row_book["n"]], np.intp)
    try:
        cache.codes(cluster, claims, row)
    except PluginError as fault:
        return str(fault)
    choice = cache.choice(cluster, claims, int(row[0]))
    if choice is None:
        return None
    classes: Any = cluster.objects[DeviceClass]
    made = (allocation_of(claim, choice, i, "n", classes, "share-") for i, claim in enumerate(claims))
    return [msgspec.to_builtins(each) for each in made]


def given(cluster: Cluster, *claims: ResourceClaim, **features: bool) -> list[list[str]] | str | None:
    """The devices that the claims get, as `request=device`."""
    found = allocated(cluster, *claims, **features)
    if not isinstance(found, list):
        return found
    return [[f"{each['request']}={each['device']}" for each in one["devices"].get("results", ())] for one in found]


# ---- 17.4: constraints, counters, capacity


def numa(*values: int) -> list[JsonObject]:
    return [a_device(f"d{i}", numa=value) for i, value in enumerate(values)]


OTHER = {"distinctAttribute": f"{DRIVER}/numa"}
DISTINCT: dict[str, tuple[list[JsonObject], list[JsonObject], list[str] | None]] = {
    "a value comes again after another": (numa(1, 2, 1), [an_ask(3)], None),
    "a device further on differs": (numa(1, 2, 1, 3), [an_ask(3)], ["r0=d0", "r0=d1", "r0=d3"]),
    "over two requests": (numa(1, 2, 1), [an_ask(2), an_ask()], None),
    "the search goes back": (numa(1, 1, 2), [an_ask(), an_ask()], ["r0=d0", "r1=d2"]),
}


@pytest.mark.parametrize("has_lists", [False, True])
@pytest.mark.parametrize(("devices", "asks", "expected"), DISTINCT.values(), ids=DISTINCT.keys())
def test_v137_17_4_devices_differ_from_all_others(
    devices: list[JsonObject], asks: list[JsonObject], expected: list[str] | None, has_lists: bool
) -> None:
    cluster = a_world(a_slice("s", *devices, node="n"))
    found = given(cluster, a_claim("c", *asks, constraints=[OTHER]), list_attributes=has_lists)
    assert found == (None if expected is None else [expected])


def shareable(name: str, memory: str, **policy: Any) -> JsonObject:
    capacity = {"memory": {"value": memory, **({"requestPolicy": policy} if policy else {})}}
    return a_device(name, capacity, allowMultipleAllocations=True)


def asking(memory: str, mode: str = "ExactCount") -> JsonObject:
    return an_ask(mode=mode, capacity={"requests": {"memory": memory}})


def test_v137_17_4_all_devices_fail_where_one_has_no_capacity_left() -> None:
    slices = a_slice("s", shareable("d0", "2Gi"), shareable("d1", "2Gi"), shareable("small", "1Gi"), node="n")
    claim = a_claim("c", asking("2Gi", "All"))
    assert given(a_world(slices), claim) == [["r0=d0", "r0=d1"]], "a device that is too small is not meant"
    used = an_allocation("n/d0", shareID="x", consumedCapacity={"memory": "1Gi"})
    assert given(a_world(slices, held=used), claim) is None
    assert given(a_world(slices, held=used), a_claim("c", asking("2Gi"))) == [["r0=d1"]]


def test_v137_17_4_a_capacity_that_the_device_lacks_is_no_error() -> None:
    cluster = a_world(a_slice("s", a_device("d0", allowMultipleAllocations=True), shareable("d1", "2Gi"), node="n"))
    assert given(cluster, a_claim("c", asking("1Gi"))) == [["r0=d1"]]
    assert given(cluster, a_claim("c", asking("1Gi", "All"))) == [["r0=d1"]]


STEPS = {"validRange": {"min": "1", "step": "2"}}
TOO_LARGE = (
    "capacity request cannot be represented in the device's range arithmetic: request 18446744073709551616 is not a "
    "representable milli value"
)


def test_v137_17_4_a_capacity_that_cannot_be_computed_ends_the_attempt() -> None:
    cluster = a_world(a_slice("s", shareable("d0", "4", **STEPS), shareable("d1", "36893488147419103232"), node="n"))
    for mode, name in (("ExactCount", f"{DRIVER}/n/d0"), ("All", "d0")):
        claim = a_claim("c", asking("18446744073709551616", mode))
        where = f'claim default/c, request r0: checking capacity for device {name}: capacity "memory"'
        assert given(cluster, claim) == f"{where}: {TOO_LARGE}"
    plain = a_world(a_slice("s", shareable("d0", "10"), node="n"))
    where = f'claim default/c, request r0: checking capacity for device {DRIVER}/n/d0: capacity "memory"'
    assert given(plain, a_claim("c", asking("-5"))) == f"{where}: capacity value is negative"


COUNTERS = [{"name": "gpu", "counters": {"slots": {"value": "1"}}}]


def a_partition(name: str, slots: str = "1", groups: tuple[str, ...] = (), **more: Any) -> JsonObject:
    consumed = {"counterSet": "gpu", "counters": {"slots": {"value": slots}}, "compatibilityGroups": list(groups)}
    return a_device(name, consumesCounters=[consumed], **more)


def partitions(*devices: JsonObject, slots: str = "1", home: str = "n", **where: Any) -> list[ResourceSlice]:
    """Devices of a node that share a counter, whose slice may be for other nodes."""
    sets = [{"name": "gpu", "counters": {"slots": {"value": slots}}}]
    return [
        a_slice("devices", *devices, node=home, pool="pool", count=2),
        a_slice("counters", sharedCounters=sets, pool="pool", count=2, **(where or {"node": home})),
    ]


def test_v137_17_4_shares_of_a_device_take_from_its_counters_once() -> None:
    slices = partitions(a_partition("d0", allowMultipleAllocations=True))
    assert given(a_world(*slices, held=an_allocation("pool/d0", shareID="x")), a_claim("c")) == [["r0=d0"]]
    whole = partitions(a_partition("d0", allowMultipleAllocations=True), a_partition("d1"))
    held = an_allocation("pool/d0", shareID="x")
    assert given(a_world(*whole, held=held), a_claim("c", an_ask(2))) is None, "the counter is used up"


@pytest.mark.parametrize("where", [{"node": "n"}, {"node": "m"}, {"allNodes": True}], ids=str)
def test_v137_17_4_counters_count_wherever_their_slice_is(where: JsonObject) -> None:
    slices = partitions(a_partition("d0"), a_partition("d1"), slots="2", **where)
    assert given(a_world(*slices), a_claim("c", an_ask(2))) == [["r0=d0", "r0=d1"]]
    assert given(a_world(*slices), a_claim("c", an_ask(3))) is None


def test_v137_17_4_a_node_that_sees_only_counters_of_other_nodes_sees_no_pool() -> None:
    slices = partitions(a_partition("d0"), home="m")
    every = a_claim("c", an_ask(mode="All"))
    own = a_slice("own", a_device("d9"), node="n")
    assert given(a_world(*slices[1:], own), every) == [["r0=d9"]], "the pool of node m is not incomplete here"


# ---- 17.6: compatibility groups

GROUPS = {"compatibility_groups": True}
COMPATIBLE: dict[str, tuple[list[JsonObject], int, Any, list[str] | None]] = {
    "one group": ([a_partition("d0", groups=("a",)), a_partition("d1", groups=("a",))], 2, None, ["d0", "d1"]),
    "two groups": ([a_partition("d0", groups=("a",)), a_partition("d1", groups=("b",))], 2, None, None),
    "a group in common": (
        [a_partition("d0", groups=("a", "b")), a_partition("d1", groups=("b", "c"))],
        2,
        None,
        ["d0", "d1"],
    ),
    "pairs have a group in common, all three have none": (
        [
            a_partition("d0", groups=("a", "b")),
            a_partition("d1", groups=("b", "c")),
            a_partition("d2", groups=("a", "c")),
        ],
        3,
        None,
        None,
    ),
    "no groups at all": ([a_partition("d0"), a_partition("d1")], 2, None, ["d0", "d1"]),
    "a group and none": ([a_partition("d0", groups=("a",)), a_partition("d1")], 2, None, None),
    "the search goes back": (
        [a_partition("d0", groups=("a",)), a_partition("d1", groups=("b",)), a_partition("d2", groups=("b",))],
        2,
        None,
        ["d1", "d2"],
    ),
    "a taint leaves no trace": (
        [
            a_partition("d0", groups=("a",), taints=[{"key": "k", "effect": "NoSchedule"}]),
            a_partition("d1", groups=("b",)),
        ],
        1,
        None,
        ["d1"],
    ),
    "a device that a claim has": (
        [a_partition("d0", groups=("a",)), a_partition("d1", groups=("b",)), a_partition("d2", groups=("a",))],
        1,
        an_allocation("pool/d0"),
        ["d2"],
    ),
    "claims have devices that are not compatible": (
        [a_partition("d0", groups=("a",)), a_partition("d1", groups=("b",)), a_partition("d2", groups=("a", "b"))],
        1,
        an_allocation("pool/d0", "pool/d1"),
        None,
    ),
    "a share of a device that is shared already": (
        [a_partition("d0", groups=("a",), allowMultipleAllocations=True), a_partition("d1", groups=("b",))],
        1,
        an_allocation("pool/d0", "pool/d1", shareID="x"),
        ["d0"],
    ),
}


@pytest.mark.parametrize(("devices", "count", "held", "expected"), COMPATIBLE.values(), ids=COMPATIBLE.keys())
def test_v137_17_6_devices_of_a_counter_set_have_a_group_in_common(
    devices: list[JsonObject], count: int, held: Any, expected: list[str] | None
) -> None:
    cluster = a_world(*partitions(*devices, slots="9"), held=held)
    found = given(cluster, a_claim("c", an_ask(count)), **GROUPS)
    assert found == (None if expected is None else [[f"r0={name}" for name in expected]])


def test_v137_17_6_groups_count_for_each_counter_set_and_over_claims() -> None:
    sets = [{"name": name, "counters": {"slots": {"value": "9"}}} for name in ("x", "y")]

    def taking(name: str, **groups: str) -> JsonObject:
        consumed = [
            {"counterSet": each, "counters": {"slots": {"value": "1"}}, "compatibilityGroups": [group]}
            for each, group in groups.items()
        ]
        return a_device(name, consumesCounters=consumed)

    def world(*devices: JsonObject) -> Cluster:
        slices = a_slice("d", *devices, node="n", count=2), a_slice("c", node="n", count=2, sharedCounters=sets)
        return a_world(*slices)

    two = (a_claim("a"), a_claim("b"))
    assert given(world(taking("d0", x="a"), taking("d1", y="b")), *two, **GROUPS) == [["r0=d0"], ["r0=d1"]]
    assert given(world(taking("d0", x="a"), taking("d1", x="b", y="b")), *two, **GROUPS) is None
    assert given(world(taking("d0", x="a"), taking("d1", x="b", y="b")), two[0], **GROUPS) == [["r0=d0"]]


def test_v137_17_6_without_the_gate_a_pool_with_groups_is_incomplete() -> None:
    slices = [
        a_slice("d0", a_partition("d0", groups=("a",)), node="n", pool="pool", count=3),
        a_slice("d1", a_partition("d1"), node="n", pool="pool", count=3),
        a_slice("counters", sharedCounters=COUNTERS, node="n", pool="pool", count=3),
    ]
    other = a_slice("other", a_device("d9"), node="n", pool="z")
    assert given(a_world(*slices), a_claim("c")) is None
    assert given(a_world(*slices, other), a_claim("c")) == [["r0=d9"]]
    told = "asks for all devices, but resource pool gpu.example.com/pool is currently being updated"
    assert given(a_world(*slices), a_claim("c", an_ask(mode="All"))) == f"claim default/c, request r0: {told}"
    assert given(a_world(*slices), a_claim("c"), **GROUPS) == [["r0=d0"]]


# ---- 17.7: derived attributes

DERIVED = {"derived_attributes": True}
SAME = [{"matchAttribute": "derived/place"}]


def deriving(expression: str, count: int = 1, name: str = "derived/place") -> JsonObject:
    return an_ask(count, derivedAttributes=[{"name": name, "expression": expression}])


def own(name: str) -> str:
    return f'device.attributes["{DRIVER}"]["{name}"]'


def test_v137_17_7_constraints_read_what_requests_derive() -> None:
    cluster = a_world(a_slice("s", a_device("d0", x="1"), a_device("d1", x="2"), a_device("d2", y="2"), node="n"))
    selected = [{"cel": {"expression": f"has(device.attributes['{DRIVER}'].{each})"}} for each in "xy"]
    asks = [{**deriving(own(each)), "selectors": [selector]} for each, selector in zip("xy", selected, strict=True)]
    assert given(cluster, a_claim("c", *asks, constraints=SAME), **DERIVED) == [["r0=d1", "r1=d2"]]
    alternatives = [{**deriving("'other'"), "selectors": selected[:1]}, asks[0]]
    claim = a_claim("c", alternatives, asks[1], constraints=SAME)
    assert given(cluster, claim, **DERIVED) == [["r0/s1=d1", "r1=d2"]]


def test_v137_17_7_a_derived_attribute_hides_the_published_one_of_its_request_only() -> None:
    cluster = a_world(a_slice("s", a_device("d0", x="1"), a_device("d1", x="2"), node="n"))
    claim = a_claim("c", deriving("'2'", name=f"{DRIVER}/x"), an_ask(), constraints=[{"matchAttribute": f"{DRIVER}/x"}])
    assert given(cluster, claim, **DERIVED) == [["r0=d0", "r1=d1"]]


def test_v137_17_7_values_of_different_types_do_not_match() -> None:
    cluster = a_world(a_slice("s", a_device("d0", x="1"), a_device("d1", x=1), node="n"))
    assert given(cluster, a_claim("c", deriving(own("x"), 2), constraints=SAME), **DERIVED) is None


def test_v137_17_7_lists_are_compared_with_the_gate_of_lists() -> None:
    devices = [a_device(f"d{i}", attributes={"x": {"ints": each}}) for i, each in enumerate(([1, 2], [3], [2, 5]))]
    cluster, claim = a_world(a_slice("s", *devices, node="n")), a_claim("c", deriving(own("x"), 2), constraints=SAME)
    assert given(cluster, claim, list_attributes=True, **DERIVED) == [["r0=d0", "r0=d2"]]
    assert given(cluster, claim, **DERIVED) is None


FAULTS: dict[str, tuple[str, str]] = {
    "an attribute that is missing": (
        own("missing"),
        f"evaluate derived attribute derived/place on device {DRIVER}/n/d0 failed: no such key: missing",
    ),
    "a syntax error": ("1 +", "compile derived attribute derived/place failed: compilation failed: ERROR: <input>:1:4"),
    "a map": (
        "{'a': 1}",
        "compile derived attribute derived/place failed: must evaluate to a primitive scalar (string, integer, boolean, "
        "semver) or a list of these scalars, not map(string, int)",
    ),
    "a value that no attribute has": (
        "dyn(1.5)",
        f"evaluate derived attribute derived/place on device {DRIVER}/n/d0 failed: unsupported CEL return type: float64",
    ),
    "a list of two types": (
        "[dyn(1), dyn('a')]",
        f"evaluate derived attribute derived/place on device {DRIVER}/n/d0 failed: expected list element at index 1 to be "
        "int, got string",
    ),
}


@pytest.mark.parametrize(("expression", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_v137_17_7_a_fault_of_a_derived_attribute_ends_the_attempt(expression: str, text: str) -> None:
    cluster = a_world(a_slice("s", a_device("d0", x="1"), node="n"))
    found = given(cluster, a_claim("c", deriving(expression), constraints=SAME), **DERIVED)
    assert isinstance(found, str) and found.startswith(text)
    assert given(cluster, a_claim("c", deriving(expression)), **DERIVED) == [["r0=d0"]], "no constraint reads it"


def test_v137_17_7_without_the_gate_derived_attributes_are_an_error() -> None:
    cluster = a_world(a_slice("s", a_device("d0"), node="n"))
    text = "claim default/c, request r0: cannot handle request with derived attributes, the feature is disabled"
    assert given(cluster, a_claim("c", deriving("1"))) == text
    assert given(cluster, a_claim("c", [deriving("1")])) == text.replace("r0", "s0")


@pytest.mark.parametrize("text", ["1", "'a'", "true", "semver('1.0.0')", "[1]", "dyn(1)", "[]", own("x")])
def test_v137_17_7_types_that_attributes_can_have(text: str) -> None:
    assert not isinstance(compile_derived(text), CelFault)


# ---- 17.10: optional node operations

SKIPPED = ["NodePrepareResources"]


def test_v137_17_10_devices_without_calls_of_their_driver_are_for_nodes_that_declare_it() -> None:
    slices = (
        a_slice("s", a_device("d0"), node="n", pool="a", skipNodeOperations=SKIPPED),
        a_slice("t", a_device("d1"), node="n", pool="b"),
    )
    on = {"optional_node_operations": True}
    able, unable = a_world(*slices, declared=(OPTIONAL,)), a_world(*slices)
    assert given(able, a_claim("c", an_ask(2)), **on) == [["r0=d0", "r0=d1"]]
    assert given(unable, a_claim("c"), **on) == [["r0=d1"]]
    assert given(unable, a_claim("c", an_ask(mode="All")), **on) is None, "all devices are meant, and one cannot be had"
    assert given(able, a_claim("c"), list_attributes=True) == [["r0=d1"]], "the gate is off"
    assert given(unable, a_claim("c")) == [["r0=d0"]], "Parity: without alpha features the field is not looked at"


def test_v137_17_10_allocations_say_which_calls_are_left_out() -> None:
    slices = a_slice("s", a_device("d0"), node="n", skipNodeOperations=SKIPPED)

    def skipped(**features: bool) -> Any:
        found = allocated(a_world(slices, declared=(OPTIONAL,)), a_claim("c"), **features)
        assert isinstance(found, list)
        return found[0]["devices"]["results"][0].get("skipNodeOperations")

    assert skipped(optional_node_operations=True) == SKIPPED
    assert skipped() is None


# ---- gates that are off


def test_requests_for_capacity_need_their_gate() -> None:
    cluster = a_world(a_slice("s", shareable("d0", "2Gi"), node="n"))
    text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    off = {"consumable_capacity": False}
    assert given(cluster, a_claim("c", asking("1Gi")), **off) == f"claim default/c, request r0: {text}"
    assert given(cluster, a_claim("c", [an_ask(), asking("1Gi")]), **off) == f"claim default/c, subrequest s1: {text}"


def test_counters_that_do_not_exist_matter_only_with_their_gate() -> None:
    cluster = a_world(a_slice("s", a_partition("d0"), a_device("d1"), node="n"))
    assert given(cluster, a_claim("c"), partitionable=False) == [["r0=d1"]]
    assert given(cluster, a_claim("c")) is None
