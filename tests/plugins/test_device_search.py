"""The search for devices, case by case: who gets which device, and why nobody does."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import device_building
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation, an_ask
from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.model.devices import DeviceClassSpec, DeviceSelector, ResourceClaim, ResourceSlice
from mooring.plugins.devices.device_demand import DeviceFeatures, Fatal, read_demand
from mooring.plugins.devices.device_search import InvalidPools, search
from mooring.plugins.devices.effort import Effort, TookTooLong
from mooring.plugins.devices.node_groups import NodeGroup
from mooring.plugins.devices.pools import LikenessBook, gather_pools, view_of

OWN = f'device.attributes["{DRIVER}"]'
NUMA = a_slice("s1", a_device("d0", numa=0), a_device("d1", numa=1), a_device("d2", numa=0))
SAME, OTHER = {"matchAttribute": f"{DRIVER}/numa"}, {"distinctAttribute": f"{DRIVER}/numa"}
ANY = an_ask()
BARE = msgspec.structs.replace(a_class("bare"), spec=DeviceClassSpec(selectors=[DeviceSelector()]))


looking = device_building.few_and_many_devices


def found(
    slices: Sequence[ResourceSlice],
    claims: Sequence[ResourceClaim],
    held: Sequence[dict[str, Any]] = (),
    features: DeviceFeatures | None = None,
    max_steps: int | None = None,
    book: LikenessBook | None = None,
) -> list[list[str]] | None:
    """For each claim `request=device`; None: there is no choice. `book` has what earlier searches have learnt."""
    known = LikenessBook() if book is None else book
    views = [view_of(each, book=known) for each in slices]
    whole: dict[Any, Any] = {}
    for view in views:
        whole.setdefault(view.pool, []).append(view)
    ledger = ClaimLedger({})
    for i, allocation in enumerate(held):
        ledger.begin(a_claim(f"held-{i}", status={"allocation": allocation}))
    group = NodeGroup(gather_pools(views, whole), frozenset())
    classes = {
        each.name: each for each in (a_class(), a_class("picky", f"{OWN}.numa == 0"), a_class("bad", "1 +"), BARE)
    }
    demand = read_demand(claims, classes.get)
    choice = search(demand, group, ledger, features or DeviceFeatures(), Effort(max_steps))
    if choice is None:
        return None
    return [[f"{pick.ask.full_name}={pick.site.id[2]}" for pick in picks] for picks in choice.picks]


def counted(*devices: tuple[str, int], slots: int) -> list[ResourceSlice]:
    """Devices that take so many of the slots that they share."""
    made = [
        a_device(name, consumesCounters=[{"counterSet": "set", "counters": {"slots": {"value": str(needs)}}}])
        for name, needs in devices
    ]
    sets = [{"name": "set", "counters": {"slots": {"value": str(slots)}}}]
    return [a_slice("counters", sharedCounters=sets, count=2), a_slice("s", *made, count=2)]


def shareable(memory: str, name: str = "d0", **policy: Any) -> dict[str, Any]:
    capacity = {"memory": {"value": memory, "requestPolicy": policy or None}}
    return a_device(name, capacity, allowMultipleAllocations=True)


def of_memory(text: str) -> dict[str, Any]:
    return an_ask(capacity={"requests": {"memory": text}})


ONE_SLOT = [{"counterSet": "set", "counters": {"slots": {"value": "1"}}}]
TAINTED = a_device("d0", taints=[{"key": "sick", "value": "very", "effect": "NoSchedule"}])
TOLERANT = an_ask(tolerations=[{"key": "sick", "operator": "Exists"}])

CHOICES: dict[str, tuple[Any, Any, Any, list[list[str]] | None]] = {
    "the first device": ([NUMA], [a_claim()], [], [["r0=d0"]]),
    "the first that is free": ([NUMA], [a_claim()], [an_allocation("pool/d0")], [["r0=d1"]]),
    "nothing is free": ([NUMA], [a_claim("c", an_ask(3))], [an_allocation("pool/d0")], None),
    "devices that agree": ([NUMA], [a_claim("c", an_ask(2), constraints=[SAME])], [], [["r0=d0", "r0=d2"]]),
    "devices that differ": ([NUMA], [a_claim("c", an_ask(2), constraints=[OTHER])], [], [["r0=d0", "r0=d1"]]),
    "neighbours that differ": ([NUMA], [a_claim("c", an_ask(3), constraints=[OTHER])], [], None),
    "requests that differ": ([NUMA], [a_claim("c", ANY, ANY, constraints=[OTHER])], [], [["r0=d0", "r1=d1"]]),
    "an attribute that no device has": (
        [NUMA],
        [a_claim("c", constraints=[{"matchAttribute": f"{DRIVER}/x"}])],
        [],
        None,
    ),
    "a constraint of one request": (
        [NUMA],
        [a_claim("c", an_ask(2), ANY, constraints=[{**SAME, "requests": ["r0"]}])],
        [],
        [["r0=d0", "r0=d2", "r1=d1"]],
    ),
    "a constraint of an alternative": (
        [NUMA],
        [a_claim("c", [an_ask(2)], constraints=[{**SAME, "requests": ["r0/s0"]}])],
        [],
        [["r0/s0=d0", "r0/s0=d2"]],
    ),
    "back to an earlier request": (
        [NUMA],
        [a_claim("c", ANY, an_ask(1, f"{OWN}.numa == 0"), an_ask(1, f"{OWN}.numa == 0"))],
        [],
        [["r0=d1", "r1=d0", "r2=d2"]],
    ),
    "back to an earlier claim": (
        [NUMA],
        [a_claim("c"), a_claim("d", an_ask(2, f"{OWN}.numa == 0"))],
        [],
        [["r0=d1"], ["r0=d0", "r0=d2"]],
    ),
    "the class selects too": ([NUMA], [a_claim("c", an_ask(2, device_class="picky"))], [], [["r0=d0", "r0=d2"]]),
    "the best alternative": ([NUMA], [a_claim("c", [an_ask(2), ANY])], [], [["r0/s0=d0", "r0/s0=d1"]]),
    "the next alternative": ([NUMA], [a_claim("c", [an_ask(4), ANY])], [], [["r0/s1=d0"]]),
    "an alternative with which the rest can be served": (
        [NUMA],
        [a_claim("c", [an_ask(2), ANY], an_ask(2))],
        [],
        [["r0/s1=d0", "r1=d1", "r1=d2"]],
    ),
    "an alternative that is too large for a claim": (
        [a_slice("s", *(a_device(f"d{i:02}") for i in range(40)))],
        [a_claim("c", an_ask(31), [an_ask(2), ANY])],
        [],
        [[*(f"r0=d{i:02}" for i in range(31)), "r1/s1=d31"]],
    ),
    "all devices": ([NUMA], [a_claim("c", an_ask(mode="All"))], [], [["r0=d0", "r0=d1", "r0=d2"]]),
    "all devices that are selected": (
        [NUMA],
        [a_claim("c", an_ask(0, f"{OWN}.numa == 1", mode="All"))],
        [],
        [["r0=d1"]],
    ),
    "all devices, of which one is taken": (
        [NUMA],
        [a_claim("c", an_ask(mode="All"))],
        [an_allocation("pool/d1")],
        None,
    ),
    "all devices, and there is none": ([], [a_claim("c", an_ask(mode="All"))], [], None),
    "no device is asked for": ([], [a_claim("c", an_ask(0))], [], [[]]),
    "admin access to what is taken": (
        [NUMA],
        [a_claim("c", an_ask(adminAccess=True))],
        [an_allocation("pool/d0")],
        [["r0=d0"]],
    ),
    "what others have admin access to": (
        [NUMA],
        [a_claim()],
        [an_allocation("pool/d0", adminAccess=True)],
        [["r0=d0"]],
    ),
    "admin access for two claims": (
        [NUMA],
        [a_claim("c", an_ask(adminAccess=True)), a_claim("d", an_ask(adminAccess=True))],
        [],
        [["r0=d0"], ["r0=d0"]],
    ),
    "admin access within a claim": (
        [NUMA],
        [a_claim("c", an_ask(adminAccess=True), an_ask(adminAccess=True))],
        [],
        [["r0=d0", "r1=d1"]],
    ),
    "a taint": ([a_slice("s", TAINTED, a_device("d1"))], [a_claim()], [], [["r0=d1"]]),
    "a taint that is tolerated": ([a_slice("s", TAINTED)], [a_claim("c", TOLERANT)], [], [["r0=d0"]]),
    "a taint without effect": (
        [a_slice("s", a_device("d0", taints=[{"key": "x", "effect": "None"}]))],
        [a_claim()],
        [],
        [["r0=d0"]],
    ),
    "partitions of one device": (
        counted(("a", 1), ("b", 2), ("c", 1), slots=2),
        [a_claim("c", an_ask(2))],
        [],
        [["r0=a", "r0=c"]],
    ),
    "partitions beside what is taken": (
        counted(("a", 1), ("b", 2), ("c", 1), slots=2),
        [a_claim()],
        [an_allocation("pool/a")],
        [["r0=c"]],
    ),
    "nothing is left to share": (counted(("a", 1), ("b", 2), slots=2), [a_claim()], [an_allocation("pool/b")], None),
    "a pool that is overdrawn": (
        counted(("a", 1), ("b", 3), ("c", 0), slots=2),
        [a_claim()],
        [an_allocation("pool/b")],
        None,
    ),
    "a device for two claims": (
        [a_slice("s", shareable("10Gi"))],
        [a_claim("c", of_memory("4Gi")), a_claim("d", of_memory("6Gi"))],
        [],
        [["r0=d0"], ["r0=d0"]],
    ),
    "a device that is too small for two claims": (
        [a_slice("s", shareable("10Gi"))],
        [a_claim("c", of_memory("4Gi")), a_claim("d", of_memory("7Gi"))],
        [],
        None,
    ),
    "a device of which others have a share": (
        [a_slice("s", shareable("10Gi"), shareable("10Gi", "d1"))],
        [a_claim("c", of_memory("7Gi"))],
        [an_allocation("pool/d0", shareID="x", consumedCapacity={"memory": "4Gi"})],
        [["r0=d1"]],
    ),
    "a share is rounded up": (
        [a_slice("s", shareable("10Gi", validRange={"min": "4Gi"}))],
        [a_claim("c", of_memory("1Gi")), a_claim("d", of_memory("1Gi")), a_claim("e", of_memory("1Gi"))],
        [],
        None,
    ),
    "a device that someone has as a whole": (
        [a_slice("s", shareable("10Gi"))],
        [a_claim("c", of_memory("1Gi"))],
        [an_allocation("pool/d0")],
        None,
    ),
    "a capacity that the device does not have": ([NUMA], [a_claim("c", of_memory("1Gi"))], [], None),
    "capacity of a device that is not shared": (
        [a_slice("s", a_device("d0", {"memory": "1Gi"}), a_device("d1", {"memory": "4Gi"}))],
        [a_claim("c", of_memory("2Gi"))],
        [],
        [["r0=d1"]],
    ),
    "too many devices for one claim, but not for two": (
        [a_slice("s", *(a_device(f"d{i:02}") for i in range(33)))],
        [a_claim("c", an_ask(32)), a_claim("d")],
        [],
        [[f"r0=d{i:02}" for i in range(32)], ["r0=d32"]],
    ),
    "a later claim that is too large for every alternative": (
        [a_slice("s", *(a_device(f"d{i:02}") for i in range(40)))],
        [a_claim("c"), a_claim("d", [an_ask(31), ANY], an_ask(2))],
        [],
        [["r0=d00"], ["r0/s1=d01", "r1=d02", "r1=d03"]],
    ),
    "all devices, twice in one claim": ([NUMA], [a_claim("c", an_ask(mode="All"), an_ask(mode="All"))], [], None),
    "all devices, and one more": ([NUMA], [a_claim("c", an_ask(mode="All"), ANY)], [], None),
    "all devices that an earlier request leaves": (
        [NUMA],
        [a_claim("c", an_ask(1, f"{OWN}.numa == 1"), an_ask(0, f"{OWN}.numa == 0", mode="All"))],
        [],
        [["r0=d1", "r1=d0", "r1=d2"]],
    ),
    "back from all devices to an earlier request": (
        [NUMA],
        [a_claim("c", ANY, an_ask(0, f"{OWN}.numa == 0", mode="All"))],
        [],
        [["r0=d1", "r1=d0", "r1=d2"]],
    ),
    "all devices, of which one has a taint": (
        [a_slice("s", TAINTED, a_device("d1"))],
        [a_claim("c", an_ask(mode="All"))],
        [],
        None,
    ),
    "all devices or else one": (
        [a_slice("s", TAINTED, a_device("d1"))],
        [a_claim("c", [an_ask(mode="All"), ANY])],
        [],
        [["r0/s1=d1"]],
    ),
    "all devices that have enough capacity": (
        [a_slice("s", a_device("d0", {"memory": "1Gi"}), a_device("d1", {"memory": "4Gi"}))],
        [a_claim("c", an_ask(mode="All", capacity={"requests": {"memory": "2Gi"}}))],
        [],
        [["r0=d1"]],
    ),
    "all devices, which two requests cannot share": (
        [a_slice("s", shareable("10Gi"))],
        [a_claim("c", of_memory("6Gi"), an_ask(mode="All", capacity={"requests": {"memory": "6Gi"}}))],
        [],
        None,
    ),
    "all devices, which two requests share": (
        [a_slice("s", shareable("10Gi"))],
        [a_claim("c", of_memory("4Gi"), an_ask(mode="All", capacity={"requests": {"memory": "6Gi"}}))],
        [],
        [["r0=d0", "r1=d0"]],
    ),
    "admin access after another claim of the pod": (
        [NUMA],
        [a_claim("c"), a_claim("d", an_ask(adminAccess=True)), a_claim("e")],
        [],
        [["r0=d0"], ["r0=d0"], ["r0=d1"]],
    ),
    "admin access to all devices, some of which are taken": (
        [NUMA],
        [a_claim("c", an_ask(mode="All", adminAccess=True)), a_claim("d", an_ask(mode="All", adminAccess=True))],
        [an_allocation("pool/d1")],
        [["r0=d0", "r0=d1", "r0=d2"]] * 2,
    ),
    "admin access to all devices, twice in one claim": (
        [NUMA],
        [a_claim("c", an_ask(mode="All", adminAccess=True), an_ask(mode="All", adminAccess=True))],
        [],
        None,
    ),
    "admin access to all shared devices": (
        [a_slice("s", shareable("10Gi"))],
        [a_claim("c", an_ask(mode="All", adminAccess=True))],
        [an_allocation("pool/d0")],
        [["r0=d0"]],
    ),
    "admin access to a shared device": (
        [a_slice("s", shareable("10Gi"))],
        [a_claim("c", an_ask(adminAccess=True))],
        [an_allocation("pool/d0")],
        [["r0=d0"]],
    ),
    "nothing after admin access within a claim": (
        [a_slice("s", a_device("d0"))],
        [a_claim("c", an_ask(adminAccess=True), an_ask(adminAccess=True))],
        [],
        None,
    ),
    "back from a constraint, with what it remembers": (
        [a_slice("s", *(a_device(f"d{i}", numa=numa) for i, numa in enumerate((0, 1, 1))))],
        [a_claim("c", an_ask(2), constraints=[SAME])],
        [],
        [["r0=d1", "r0=d2"]],
    ),
    "two constraints, of which the second says no": (
        [a_slice("s", *(a_device(f"d{i}", numa=numa, x=x) for i, (numa, x) in enumerate(((0, 0), (0, 1), (0, 0)))))],
        [a_claim("c", an_ask(2), constraints=[SAME, {"matchAttribute": f"{DRIVER}/x"}])],
        [],
        [["r0=d0", "r0=d2"]],
    ),
    "partitions after one that a constraint forbids": (
        counted(("a", 1), ("b", 1), slots=1),
        [a_claim("c", constraints=[{"matchAttribute": f"{DRIVER}/x"}]), a_claim("d")],
        [],
        None,
    ),
    "back from a partition that is too large": (
        counted(("a", 2), ("b", 1), ("c", 1), slots=2),
        [a_claim("c"), a_claim("d")],
        [],
        [["r0=b"], ["r0=c"]],
    ),
    "a shared partition takes its counters once": (
        [
            a_slice("counters", sharedCounters=[{"name": "set", "counters": {"slots": {"value": "1"}}}], count=2),
            a_slice("s", {**shareable("10Gi"), "consumesCounters": ONE_SLOT}, count=2),
        ],
        [a_claim("c", of_memory("1Gi")), a_claim("d", of_memory("1Gi"))],
        [],
        [["r0=d0"], ["r0=d0"]],
    ),
    "a partition that a claim shares has taken its counters": (
        [
            a_slice("counters", sharedCounters=[{"name": "set", "counters": {"slots": {"value": "1"}}}], count=2),
            a_slice("s", {**shareable("10Gi"), "consumesCounters": ONE_SLOT}, count=2),
        ],
        [a_claim("c", of_memory("1Gi"))],
        [an_allocation("pool/d0", shareID="x", consumedCapacity={"memory": "1Gi"})],
        [["r0=d0"]],
    ),
    "shares are given back on the way": (
        [a_slice("s", shareable("10Gi"), shareable("4Gi", "d1"))],
        [a_claim("c", of_memory("4Gi")), a_claim("d", of_memory("10Gi"))],
        [],
        [["r0=d1"], ["r0=d0"]],
    ),
    "an incomplete pool": ([a_slice("s", a_device(), count=2)], [a_claim()], [], None),
}


@pytest.mark.parametrize(("slices", "claims", "held", "chosen"), CHOICES.values(), ids=CHOICES.keys())
def test_choices(
    slices: Sequence[ResourceSlice],
    claims: Sequence[ResourceClaim],
    held: Sequence[dict[str, Any]],
    chosen: list[list[str]] | None,
) -> None:
    assert found(slices, claims, held) == chosen


ALL = an_ask(mode="All")
FAULTS: dict[str, tuple[Any, Any, str]] = {
    "all of a pool that is being updated": (
        [a_slice("s", a_device(), count=2)],
        a_claim("c", ALL),
        f"claim default/c, request r0: asks for all devices, but resource pool {DRIVER}/pool is currently being updated",
    ),
    "all of a pool that is invalid": (
        [a_slice("s", a_device(), a_device())],
        a_claim("c", [ALL]),
        f"claim default/c, request s0: asks for all devices, but resource pool {DRIVER}/pool is currently invalid",
    ),
    "all, and a constraint": (
        [NUMA],
        a_claim("c", ALL, constraints=[SAME]),
        f"claim default/c, request r0: cannot add device {DRIVER}/pool/d1 "
        "because a claim constraint would not be satisfied",
    ),
    "too many devices": (
        [NUMA],
        a_claim("c", an_ask(20), an_ask(13)),
        "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
    ),
    "no mode": ([NUMA], a_claim("c", an_ask(mode="")), "claim default/c, request r0: unsupported count mode "),
    "no class": (
        [NUMA],
        a_claim("c", an_ask(device_class="nope")),
        "claim default/c, request r0: could not retrieve device class nope: "
        'deviceclass.resource.k8s.io "nope" not found',
    ),
    "no selector": (
        [NUMA],
        a_claim("c", {**ANY, "selectors": [{}]}),
        "claim default/c, request r0, selector #0: CEL expression empty (unsupported selector type?)",
    ),
    "an empty constraint": (
        [NUMA],
        a_claim("c", constraints=[SAME, {}]),
        "claim default/c, constraint #1: empty constraint (unsupported constraint type?)",
    ),
    "a selector of a class that says nothing": (
        [NUMA],
        a_claim("c", an_ask(device_class="bare")),
        "class bare: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:1: Syntax error",
    ),
    "a claim that makes room with less than nothing": (
        [NUMA],
        a_claim("c", an_ask(-5), an_ask(33)),
        "allocation max size exceeded",
    ),
    "a selector that fails": (
        [NUMA],
        a_claim("c", an_ask(1, "true", f"{OWN}.x")),
        "claim default/c: selector #1 on device gpu.example.com/pool/d0: CEL runtime error: no such key: x. consider using "
        "CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields",
    ),
    "a class that fails": (
        [NUMA],
        a_claim("c", an_ask(device_class="bad")),
        "class bad: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:4: Syntax error",
    ),
}


@pytest.mark.parametrize(("slices", "claim", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_what_ends_the_attempt(slices: Sequence[ResourceSlice], claim: ResourceClaim, text: str) -> None:
    with pytest.raises(Fatal) as fault:
        found(slices, [claim])
    assert fault.value.describe([claim]).startswith(text)


def test_a_selector_that_fails_on_a_device_that_nobody_looks_at() -> None:
    slices = [a_slice("s", a_device("d0", x=True), a_device("d1"))]
    assert found(slices, [a_claim("c", an_ask(1, f"{OWN}.x"))]) == [["r0=d0"]]


def test_an_invalid_pool_is_told_only_where_there_is_no_choice() -> None:
    invalid = a_slice("s", a_device(), a_device())
    with pytest.raises(InvalidPools):
        found([invalid], [a_claim()])
    assert found([invalid, a_slice("t", a_device("d0"), pool="b")], [a_claim()]) == [["r0=d0"]]


def test_a_search_that_takes_too_long() -> None:
    devices = [a_device(f"d{i}", numa=i) for i in range(20)]
    claim = a_claim("c", an_ask(10), constraints=[{"matchAttribute": f"{DRIVER}/x"}])
    assert found([a_slice("s", *devices)], [claim], max_steps=1000) is None
    claim = a_claim("c", an_ask(10), an_ask(11))
    with pytest.raises(TookTooLong):
        found([a_slice("s", *devices)], [claim], max_steps=1000)


def test_a_request_that_no_device_serves_is_not_tried_again_for_each_choice_before_it() -> None:
    slices = [a_slice("s", *(shareable("1Gi", f"d{i:02}") for i in range(20)))]
    claim = a_claim("c", of_memory("1Gi"), an_ask(1, "false"))
    assert found(slices, [claim], max_steps=150) is None, "some 80 steps; 400 if each choice is followed by a search"


def test_other_devices_are_not_tried_where_their_number_is_too_large() -> None:
    devices = [a_device(f"d{i:02}") for i in range(40)]
    claims = [a_claim("c", [an_ask(31), ANY], [an_ask(2), an_ask(3)])]
    assert found([a_slice("s", *devices)], claims, max_steps=400) == [["r0/s1=d00", "r1/s0=d01", "r1/s0=d02"]]


MANY_CLAIMS: dict[str, tuple[int, list[Any]]] = {
    "a device each": (600, [ANY]),
    "many devices each": (60, [an_ask(32)]),
    "many requests each": (60, [ANY] * 32),
    "many alternatives each": (60, [[ANY]] * 32),
}


@pytest.mark.parametrize(("count", "requests"), MANY_CLAIMS.values(), ids=MANY_CLAIMS.keys())
def test_a_pod_may_have_so_many_claims_that_the_search_is_deeper_than_python_allows(
    count: int, requests: list[Any]
) -> None:
    limit = sys.getrecursionlimit()
    size = count * (32 if len(requests) > 1 or requests[0] is not ANY else 1)
    chosen = found([a_slice("s", *(a_device(f"d{i:04}") for i in range(size)))], [a_claim("c", *requests)] * count)
    assert chosen is not None and sum(map(len, chosen)) == size
    assert sys.getrecursionlimit() == limit


def test_claims_may_want_all_of_so_many_devices_that_the_search_is_deeper_than_python_allows() -> None:
    devices = [a_device(f"d{i:04}", numa=i // 32) for i in range(40 * 32)]
    claims = [a_claim(f"c{i}", an_ask(0, f"{OWN}.numa == {i}", mode="All")) for i in range(40)]
    chosen = found([a_slice("s", *devices)], claims)
    assert chosen is not None and [len(each) for each in chosen] == [32] * 40


def test_what_selectors_cost_counts_as_steps_once() -> None:
    """Four units of cost are a step; what an earlier search has learnt costs nothing."""
    claim = a_claim("c", an_ask(4, "lists.range(100).all(x, x >= 0)"))  # 610 units for each device
    slices = [a_slice("s", *(a_device(f"d{i}", numa=i) for i in range(4)))]
    book = LikenessBook()
    views = [view_of(slice, book=book) for slice in slices]
    with pytest.raises(TookTooLong):
        found(slices, [claim], max_steps=400, book=book)
    assert views and found(slices, [claim], max_steps=400, book=book) == [["r0=d0", "r0=d1", "r0=d2", "r0=d3"]]


def test_a_selector_that_costs_too_much_ends_the_attempt_as_upstream_does() -> None:
    ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
    costly = "".join(f"{ten}.all(x{i}, " for i in range(7)) + "x0 > 0" + ")" * 7
    with pytest.raises(Fatal) as fault:
        found([a_slice("s", a_device("d0"))], [a_claim("c", an_ask(1, costly))])
    assert fault.value.describe([a_claim("c")]) == (
        "claim default/c: selector #0 on device gpu.example.com/pool/d0: CEL runtime error: "
        "operation cancelled: actual cost limit exceeded"
    )


GATES: dict[str, tuple[DeviceFeatures, Any, Any, list[list[str]] | None]] = {
    "taints are ignored": (DeviceFeatures(taints=False), [a_slice("s", TAINTED)], (), [["r0=d0"]]),
    "devices that must be prepared are left out": (
        DeviceFeatures(binding_conditions=False),
        [a_slice("s", a_device("d0", bindingConditions=["ready"]), a_device("d1"))],
        (),
        [["r0=d1"]],
    ),
    "partitions are left out": (DeviceFeatures(partitionable=False), counted(("a", 1), slots=2), (), None),
    "a shared device is taken": (
        DeviceFeatures(consumable_capacity=False),
        [a_slice("s", shareable("10Gi"))],
        [an_allocation("pool/d0", shareID="x", consumedCapacity={"memory": "1Gi"})],
        None,
    ),
}


@pytest.mark.parametrize(("features", "slices", "held", "chosen"), GATES.values(), ids=GATES.keys())
def test_gates_that_are_off(features: DeviceFeatures, slices: Any, held: Any, chosen: list[list[str]] | None) -> None:
    assert found(slices, [a_claim()], held, features) == chosen
