"""Devices that take from cpu and memory of their node (gate DRANodeAllocatableResources)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from device_building import a_claim, a_class, a_device, a_slice, an_allocation, an_ask, parts_of_node
from how_many import examples
from late_claims import LateClaims
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.quantity import parse

GATE = "DRANodeAllocatableResources"
JsonObject = dict[str, Any]


def taking(name: str = "d0", **resources: str) -> JsonObject:
    """A device that takes so much of each resource, whatever is requested."""
    return a_device(name, nodeAllocatableResources=parts_of_node(**resources))


def a_pool(multiplier: str | None = None, **capacity: str) -> JsonObject:
    """A device whose capacity is shared, and is that of the node."""
    more = {} if multiplier is None else {"capacityMultiplier": multiplier}
    mappings = {name: {"mapping": {"capacityKey": name, **more}} for name in capacity}
    written = {name: {"value": value} for name, value in capacity.items()}
    return a_device("d0", written, allowMultipleAllocations=True, nodeAllocatableResources=mappings)


def a_world(*devices: JsonObject, gate: bool = True, node: KubeObject | None = None) -> LateClaims:
    late = LateClaims(**{GATE: gate})
    for item in (node or a_node("a", cpu="100", memory="100Gi"), a_slice("a", *devices, node="a"), a_class()):
        late.put(item)
    return late


def a_user(name: str, *claims: str, containers: int = 1, cpu: str | None = None, **spec: Any) -> Pod:
    """A pod all of whose containers use its claims."""
    resources: JsonObject = {"claims": [{"name": each} for each in claims]}
    if cpu is not None:
        resources["requests"] = {"cpu": cpu}
    pod = msgspec.to_builtins(a_pod(name, metadata={"uid": name}, schedulerName="default-scheduler", **spec))
    pod["spec"]["containers"] = [{"name": f"c{i}", "resources": resources} for i in range(containers)]
    pod["spec"]["resourceClaims"] = [{"name": each, "resourceClaimName": each} for each in claims]
    return msgspec.convert(pod, Pod)


def put(late: LateClaims, *items: KubeObject) -> None:
    for item in items:
        late.put(item)
    late.settle()


def node_of(late: LateClaims, name: str) -> str:
    pod = late.store[Pod, f"default/{name}"]
    assert isinstance(pod, Pod)
    return pod.spec.node_name


def why(late: LateClaims, name: str) -> str:
    """Why a pod was rejected by its only node."""
    assert not node_of(late, name)
    return late.told[f"default/{name}"].removeprefix("0/1 nodes are available: 1 ").partition(". ")[0]


def taken(late: LateClaims, name: str) -> Any:
    pod = late.store[Pod, f"default/{name}"]
    assert isinstance(pod, Pod)
    return msgspec.to_builtins(pod.status.node_allocatable_resource_claim_statuses)


def requested(late: LateClaims) -> tuple[int, int]:
    """Milli-cpu and bytes that the scheduler counts on the node."""
    amounts = late.scheduler.cluster.nodes.amounts
    return int(amounts.requested[amounts.resource("cpu"), 0]), int(amounts.requested[amounts.resource("memory"), 0])


STATUS: dict[str, tuple[list[JsonObject], JsonObject, JsonObject]] = {
    "all of a shared capacity": ([a_pool(cpu="100", memory="50Gi")], an_ask(), {"cpu": "100", "memory": "50Gi"}),
    "a part of a shared capacity": (
        [a_pool(cpu="100", memory="50Gi")],
        an_ask(capacity={"requests": {"cpu": "10", "memory": "2Gi"}}),
        {"cpu": "10", "memory": "2Gi"},
    ),
    "more than its capacity says": ([a_pool("1500m", memory="2Gi")], an_ask(), {"memory": "3Gi"}),
    "as much for each device": ([taking("d0", cpu="16"), taking("d1", cpu="16")], an_ask(2), {"cpu": "32"}),
    "for devices of two kinds": (
        [taking("d0", cpu="500m"), taking("d1", memory="1Gi")],
        an_ask(2),
        {"cpu": "500m", "memory": "1Gi"},
    ),
}


@pytest.mark.parametrize(("devices", "ask", "resources"), STATUS.values(), ids=STATUS.keys())
def test_what_devices_take_is_in_the_status_of_the_pod(devices: Any, ask: Any, resources: Any) -> None:
    late = a_world(*devices)
    put(late, a_claim("c", ask), a_user("p", "c", containers=2))
    assert node_of(late, "p") == "a"
    mapping = [{"name": name, "quantity": amount} for name, amount in resources.items()]
    assert taken(late, "p") == [{"resourceClaimName": "c", "containers": ["c0", "c1"], "mapping": mapping}]
    cpu, memory = parse(resources.get("cpu", "0")), parse(resources.get("memory", "0"))
    assert requested(late) == (cpu // 10**6, memory // 10**9)


def test_without_the_gate_devices_take_nothing() -> None:
    late = a_world(taking(cpu="200"), gate=False)
    put(late, a_claim("c"), a_user("p", "c"))
    assert (node_of(late, "p"), taken(late, "p"), requested(late)) == ("a", None, (0, 0))


def test_without_the_gate_a_status_counts_for_nothing() -> None:
    for gate in (False, True):
        late = a_world(gate=gate)
        mapping = [{"name": "cpu", "quantity": "5"}]
        status = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "mapping": mapping}]}
        put(late, a_pod("old", nodeName="a", status=status))
        assert requested(late) == (5000 if gate else 0, 0)
        late.delete(Pod, "default/old")
        late.settle()
        assert requested(late) == (0, 0)


def test_what_devices_take_is_taken_from_other_pods() -> None:
    late = a_world(taking(cpu="98"))
    put(late, a_claim("c"), a_user("p", "c"))
    put(late, a_user("small", cpu="2"), a_user("large", cpu="5"))
    assert node_of(late, "small") == "a"
    assert why(late, "large") == "Insufficient cpu"


@pytest.mark.parametrize("device", [taking(cpu="101"), a_pool(cpu="101")], ids=["of its own", "by its capacity"])
def test_a_device_may_take_more_than_the_node_has(device: JsonObject) -> None:
    late = a_world(device)
    put(late, a_claim("c"), a_user("p", "c"))
    assert why(late, "p") == "Insufficient cpu"
    assert "Preemption is not helpful for scheduling" in late.told["default/p"]


def test_a_device_may_take_more_than_is_left() -> None:
    late = a_world(taking(cpu="60", memory="60Gi"))
    put(late, a_pod("old", cpu="50", memory="50Gi", nodeName="a"))
    put(late, a_claim("c"), a_user("p", "c"))
    assert late.told["default/p"].startswith("0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.")
    assert "No preemption victims found for incoming pod" in late.told["default/p"]


def test_requests_of_the_pod_count_as_well() -> None:
    late = a_world(taking(cpu="60"))
    put(late, a_claim("c"), a_user("p", "c", cpu="50"))
    assert why(late, "p") == "Insufficient cpu"


def test_preemption_makes_room_for_devices() -> None:
    late = a_world(taking(cpu="60"))
    put(late, a_pod("old", cpu="50", nodeName="a", priority=0))
    put(late, a_claim("c"), a_user("p", "c", priority=10))
    assert late.scheduler.core.queue.nominations.node_of("p") == "a"


def test_v137_17_9_a_claim_that_no_container_uses_takes_from_the_node_all_the_same() -> None:
    late = a_world(taking(cpu="1"))
    pod = msgspec.to_builtins(a_user("p", "c"))
    pod["spec"]["containers"] = [{"name": "c0"}]
    put(late, a_claim("c"), msgspec.convert(pod, Pod))
    assert (node_of(late, "p"), requested(late)) == ("a", (1000, 0))


def test_v137_17_9_what_it_costs_to_use_a_device_counts_for_the_pod_and_each_container() -> None:
    costs = {"cpu": {"overhead": {"perPod": "1", "perContainer": "500m"}}}
    late = a_world(a_device("d0", nodeAllocatableResources=costs))
    put(late, a_claim("c"), a_user("p", "c", containers=3))
    overhead = [{"name": "cpu", "perPod": "1", "perContainer": "500m"}]
    assert taken(late, "p") == [{"resourceClaimName": "c", "containers": ["c0", "c1", "c2"], "overhead": overhead}]
    assert requested(late) == (2500, 0)
    put(late, a_user("q", "c"))
    assert (node_of(late, "q"), requested(late)) == ("a", (4000, 0)), "what devices cost may be shared"


@pytest.mark.parametrize(("cpu", "is_room"), [("3", True), ("2", False)])
def test_v137_17_9_devices_of_claims_that_are_allocated_already_count_too(cpu: str, is_room: bool) -> None:
    late = a_world(taking(cpu="3"), node=a_node("a", cpu=cpu, memory="1Gi"))
    allocation = {**an_allocation("a/d0", node="a"), "allocationTimestamp": "2026-01-01T00:00:00Z"}
    put(late, a_claim("c", status={"allocation": allocation}))
    put(late, a_user("p", "c"))
    if is_room:
        assert (node_of(late, "p"), requested(late)) == ("a", (3000, 0))
        assert taken(late, "p") is not None
    else:
        assert why(late, "p") == "Insufficient cpu"


@pytest.mark.parametrize(("cpu", "is_enough"), [("10", True), ("5", False)])
def test_requests_of_the_pod_as_a_whole_must_cover_its_devices(cpu: str, is_enough: bool) -> None:
    late = a_world(taking(cpu="4"))
    put(late, a_claim("c"), a_user("p", "c", cpu="2", resources={"requests": {"cpu": cpu}}))
    if is_enough:
        assert (node_of(late, "p"), requested(late)) == ("a", (10_000, 0))
    else:
        text = "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests"
        assert why(late, "p") == text


def test_two_pods_cannot_share_what_a_claim_takes() -> None:
    late = a_world(taking(cpu="1"))
    put(late, a_claim("c"), a_user("p", "c"))
    put(late, a_user("q", "c"))
    assert why(late, "q") == ("node allocatable resource claim c has a mapped device and cannot be shared across pods")


def test_two_pods_may_share_a_claim_that_takes_nothing() -> None:
    late = a_world(a_device("d0"))
    put(late, a_claim("c"), a_user("p", "c"), a_user("q", "c"))
    assert node_of(late, "p") == node_of(late, "q") == "a"
    assert taken(late, "p") is None


def test_what_was_taken_is_given_back_when_the_binding_fails() -> None:
    late = a_world(taking(cpu="1"))
    for item in (a_claim("c"), a_user("p", "c")):
        late.put(item)
    late.settle(until=lambda: taken(late, "p") is not None)
    assert requested(late) == (1000, 0)
    late.settle(until=lambda: any(type(each).__name__ == "Bind" for each in late.wanted))
    late.carry_out(refuse=True)
    late.answer()
    assert requested(late) == (0, 0)
    late.settle(until=lambda: not taken(late, "p"))
    for _ in range(15):
        late.second()
        late.settle()
    assert (node_of(late, "p"), requested(late)) == ("a", (1000, 0)), "the claim has its devices already"


AMOUNTS = st.integers(1, 60)


@settings(max_examples=examples(60), deadline=None)
@given(devices=st.lists(AMOUNTS, max_size=4), pods=st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=6))
def test_no_node_gives_more_than_it_has(devices: list[int], pods: list[tuple[int, bool]]) -> None:
    late = a_world(*(taking(f"d{i}", cpu=str(cpu)) for i, cpu in enumerate(devices)))
    for i, (cpu, has_claim) in enumerate(pods):
        if has_claim:
            late.put(a_claim(f"c{i}"))
        late.put(a_user(f"p{i}", *([f"c{i}"] if has_claim else []), cpu=str(cpu)))
        late.settle()
        listed = [entry for pod in late.pods() for each in taken(late, pod.name) or () for entry in each["mapping"]]
        held = sum(parse(entry["quantity"]) for entry in listed)
        own = sum(cpu for j, (cpu, _) in enumerate(pods[: i + 1]) if node_of(late, f"p{j}"))
        assert held // 10**9 + own <= 100
        assert requested(late)[0] == (held // 10**9 + own) * 1000
        assert not late.faults
