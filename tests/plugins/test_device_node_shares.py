"""Devices that take from their node: which of its resources they are, what it costs to use them, and whether nodes have it
(v1.37, 17.9)."""

from typing import Any

import msgspec
import numpy as np
import pytest

from build import a_cluster, a_node, a_pod
from device_building import (
    DRIVER,
    a_claim,
    a_class,
    a_device,
    a_slice,
    a_status,
    an_allocation,
    an_ask,
    claiming,
    parts_of_node,
)
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.status import PluginError, Rejection, curable, final
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeAllocatableClaimStatus, OverheadResource
from mooring.plugins.devices.allocation import Pick
from mooring.plugins.devices.device_capacity import Share
from mooring.plugins.devices.device_demand import read_demand
from mooring.plugins.devices.node_resources import (
    REFUSED,
    HeldDevice,
    held_on,
    judge,
    sharing_refusal,
    taken_by,
    write_taken,
)
from mooring.plugins.devices.pools import view_of
from volume_asking import a_context

JsonObject = dict[str, Any]


def a_held(resources: JsonObject, consumed: dict[str, str] | None = None, name: str = "d") -> HeldDevice:
    """A device that a claim has, with its field nodeAllocatableResources."""
    site = view_of(a_slice("s", a_device(name, nodeAllocatableResources=resources))).sites[0]
    return HeldDevice(name, DRIVER, site.device, consumed)


def of_capacity(key: str, multiplier: str | None = None) -> JsonObject:
    more = {} if multiplier is None else {"capacityMultiplier": multiplier}
    return {"mapping": {"capacityKey": key, **more}}


def costing(**overhead: str) -> JsonObject:
    return {"overhead": overhead}


def taken(pod: Pod, *devices: list[HeldDevice]) -> list[JsonObject]:
    held = [(a_claim(name), each) for name, each in zip("bac", devices, strict=False)]
    found: list[JsonObject] = msgspec.to_builtins(taken_by(pod, held, a_cluster(*map(a_claim, "abc")).claims))
    return found


def a_user(*containers: tuple[str, ...] | None, init: tuple[tuple[str, ...], ...] = ()) -> Pod:
    """A pod with the claims a, b and c, whose containers use these of them; None: a container without resources."""

    def written(kind: str, used: Any) -> list[dict[str, Any]]:
        return [
            {"name": f"{kind}{i}", **({} if each is None else {"resources": {"claims": [{"name": n} for n in each]}})}
            for i, each in enumerate(used)
        ]

    return claiming(a_pod("p", containers=written("c", containers), initContainers=written("i", init)), *"abc")


# ---- what devices take


def test_what_is_taken_is_listed_by_claim_with_the_containers_that_use_it() -> None:
    pod = a_user(("a", "b"), None, (), ("b",), init=(("b",),))
    assert taken(pod, [a_held(parts_of_node(cpu="1"))], [a_held(parts_of_node(memory="1Ki"))]) == [
        {"resourceClaimName": "a", "containers": ["c0"], "mapping": [{"name": "memory", "quantity": "1Ki"}]},
        {"resourceClaimName": "b", "containers": ["i0", "c0", "c3"], "mapping": [{"name": "cpu", "quantity": "1"}]},
    ]


MAPPED: dict[str, tuple[list[HeldDevice], dict[str, str]]] = {
    "so much for each device": ([a_held(parts_of_node(cpu="8"))] * 2, {"cpu": "16"}),
    "what is consumed": ([a_held({"memory": of_capacity("m")}, {"m": "3Gi"})], {"memory": "3Gi"}),
    "what is consumed, once": ([a_held({"memory": of_capacity("m", "1")}, {"m": "3Gi"})], {"memory": "3Gi"}),
    "a multiple of it": ([a_held({"memory": of_capacity("m", "2")}, {"m": "3Gi"})], {"memory": "6Gi"}),
    "a fraction of it": ([a_held({"cpu": of_capacity("m", "500m")}, {"m": "3"})], {"cpu": "1500m"}),
    "rounded up": ([a_held({"cpu": of_capacity("m", "0.3")}, {"m": "1n"})], {"cpu": "1n"}),
    "another capacity is consumed": ([a_held({"cpu": of_capacity("m", "2")}, {"other": "3"})], {}),
    "nothing is consumed": ([a_held({"cpu": of_capacity("m", "2")}, {})], {}),
    "a mapping to nothing": ([a_held({"cpu": {"mapping": {}}})], {}),
    "sums in the format of the first": (
        [a_held(parts_of_node(memory=each)) for each in ("1Ki", "1Ki", "512")],
        {"memory": "2560"},
    ),
    "zero has no format": ([a_held(parts_of_node(memory=each)) for each in ("0", "1Ki", "1024")], {"memory": "2Ki"}),
    "several resources, by name": (
        [a_held(parts_of_node(memory="1Gi", cpu="1")), a_held({}), a_held(parts_of_node(cpu="500m"))],
        {"cpu": "1500m", "memory": "1Gi"},
    ),
}


@pytest.mark.parametrize(("devices", "expected"), MAPPED.values(), ids=MAPPED.keys())
def test_resources_of_the_node_that_devices_are(devices: list[HeldDevice], expected: dict[str, str]) -> None:
    listed = [{"name": name, "quantity": amount} for name, amount in expected.items()]
    entry = {"resourceClaimName": "b", "containers": ["c0"], "mapping": listed}
    assert taken(a_user(("b",)), devices) == ([entry] if listed else [])


OVERHEAD: dict[str, tuple[list[JsonObject], list[JsonObject]]] = {
    "for the pod": ([{"cpu": costing(perPod="1")}], [{"name": "cpu", "perPod": "1"}]),
    "for each container": ([{"cpu": costing(perContainer="1")}], [{"name": "cpu", "perContainer": "1"}]),
    "sums of devices": (
        [{"cpu": costing(perPod="1", perContainer="100m")}, {"cpu": costing(perPod="2")}, {"cpu": costing(perPod="3")}],
        [{"name": "cpu", "perPod": "6", "perContainer": "100m"}],
    ),
    "several resources, by name": (
        [{"memory": costing(perPod="1Gi")}, {"cpu": costing(perContainer="1")}],
        [{"name": "cpu", "perContainer": "1"}, {"name": "memory", "perPod": "1Gi"}],
    ),
    "none that is said": ([{"cpu": costing()}], []),
}


@pytest.mark.parametrize(("devices", "expected"), OVERHEAD.values(), ids=OVERHEAD.keys())
def test_resources_of_the_node_that_it_costs_to_use_devices(
    devices: list[JsonObject], expected: list[JsonObject]
) -> None:
    entry = {"resourceClaimName": "b", "containers": ["c0", "c1"], "overhead": expected}
    assert taken(a_user(("b",), ("b",)), [a_held(each) for each in devices]) == ([entry] if expected else [])


def test_a_mapping_by_capacity_needs_a_claim_that_consumes_capacity() -> None:
    with pytest.raises(PluginError) as raised:
        taken(a_user(("b",)), [a_held({"memory": of_capacity("m")})])
    assert str(raised.value) == (
        "claim default/b, device d: ConsumedCapacity is nil, but Capacity key 'm' is set in NodeAllocatableResources "
        "for resource memory"
    )


def test_a_device_that_a_search_picked_consumes_its_shares() -> None:
    ask = read_demand([a_claim("c")], {"gpu": a_class()}.get)[0].requests[0][0]
    pick = Pick(ask, view_of(a_slice("s", a_device("d"), pool="p")).sites[0])
    assert HeldDevice.of(pick) == HeldDevice("d", DRIVER, pick.site.device, None)
    pick.shares = {"memory": Share(5, "5n")}
    assert HeldDevice.of(pick).consumed == {"memory": "5n"}


# ---- devices that claims have already

ZONE_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}


def zone(operator: str = "In") -> JsonObject:
    term = {"matchExpressions": [{"key": "zone", "operator": operator, "values": ["z"]}]}
    return {"nodeSelectorTerms": [term]}


def seen(*slices: Any, devices: tuple[str, ...] = ("pool/d",)) -> dict[str, list[str]]:
    """By node the amounts of cpu that the devices of an allocated claim are there, or why it does not see them."""
    nodes = [a_node("a", labels={"zone": "z"}), a_node("b"), a_node("c")]
    cluster = a_cluster(*nodes, *slices)
    claim = a_claim("c", status={"allocation": an_allocation(*devices)})
    found: dict[str, list[str]] = {}
    for ((_, held),), places in held_on(cluster, [claim], np.arange(3)):
        told = [
            each.fault or (each.device.node_allocatable_resources or {})["cpu"].mapping.device_multiplier  # type: ignore[union-attr]
            for each in held
        ]
        found |= {cluster.nodes.names[place]: [str(each) for each in told] for place in places.tolist()}
    return dict(sorted(found.items()))


def a_part(cpu: str, name: str = "d", **where: Any) -> JsonObject:
    return a_device(name, nodeAllocatableResources=parts_of_node(cpu=cpu), **where)


MISSING = "device d not found in pool pool for driver gpu.example.com"
OTHER = "device d does not match node"


def test_nodes_see_the_devices_of_allocated_claims_in_slices_that_are_for_them() -> None:
    assert seen() == {"a": [MISSING], "b": [MISSING], "c": [MISSING]}
    assert seen(a_slice("s", a_part("1"), allNodes=True)) == {"a": ["1"], "b": ["1"], "c": ["1"]}
    assert seen(a_slice("s", a_part("1"), node="b", pool="pool")) == {"a": [MISSING], "b": ["1"], "c": [MISSING]}
    assert seen(a_slice("s", a_part("1"), nodeSelector=zone())) == {"a": ["1"], "b": [MISSING], "c": [MISSING]}
    bad = a_slice("s", a_part("1"), nodeSelector=zone("Sounds"))
    assert seen(bad) == {"a": [MISSING], "b": [MISSING], "c": [MISSING]}
    other = (a_slice("s", a_part("1"), allNodes=True, driver="x"), a_slice("t", a_part("1", "e"), allNodes=True))
    assert seen(*other) == {"a": [MISSING], "b": [MISSING], "c": [MISSING]}


def test_the_first_slice_that_is_for_a_node_counts() -> None:
    slices = (a_slice("s", a_part("1"), node="b", pool="pool"), a_slice("t", a_part("2"), allNodes=True, generation=2))
    assert seen(*slices) == {"a": ["2"], "b": ["1"], "c": ["2"]}
    assert seen(*slices, devices=("pool/d", "pool/d")) == {"a": ["2", "2"], "b": ["1", "1"], "c": ["2", "2"]}


def test_a_device_may_say_itself_which_nodes_it_is_for() -> None:
    def where(**fields: Any) -> dict[str, list[str]]:
        return seen(a_slice("s", a_part("1", **fields), perDeviceNodeSelection=True))

    assert where(nodeName="c") == {"a": [OTHER], "b": [OTHER], "c": ["1"]}
    assert where(allNodes=True) == {"a": ["1"], "b": ["1"], "c": ["1"]}
    assert where(nodeSelector=zone()) == {"a": ["1"], "b": [OTHER], "c": [OTHER]}
    assert where() == {"a": [OTHER], "b": [OTHER], "c": [OTHER]}


def test_a_claim_of_which_a_node_sees_only_some_devices_is_an_error() -> None:
    gone = HeldDevice("x", DRIVER, None, fault="device x does not match node")
    assert taken(a_user(("b",)), [gone, a_held({})]) == [], "the other devices take nothing"
    with pytest.raises(PluginError) as raised:
        taken(a_user(("b",)), [gone, a_held(parts_of_node(cpu="1"))])
    assert str(raised.value) == f"claim default/b, device x, driver {DRIVER}: device x does not match node"


# ---- the status of the pod


def test_what_is_taken_is_written_into_the_status_of_the_pod() -> None:
    pod = a_pod("p", namespace="team", metadata={"uid": "u"})
    write = write_taken(pod, [a_status("a", ["c0"], cpu="1")])
    listed = [{"resourceClaimName": "a", "containers": ["c0"], "mapping": [{"name": "cpu", "quantity": "1"}]}]
    assert (write.method, write.kind, write.namespace, write.name, write.subresource) == (
        *("PATCH", Pod, "team", "p", "status"),
    )
    assert write.body == {"status": {"nodeAllocatableResourceClaimStatuses": listed}}
    assert write_taken(pod, None).body == {
        "metadata": {"uid": "u"},
        "status": {"nodeAllocatableResourceClaimStatuses": []},
    }


# ---- whether nodes have it


def judged(
    cluster: Cluster, pod: Pod | None = None, more: NodeAllocatableClaimStatus | None = None, **resources: Any
) -> list[Rejection | None]:
    """By row why a pod does not fit whose devices take this."""
    refusals: list[Rejection] = [curable("something else")]
    taken = [a_status("c", ["main"], **resources), *([more] if more is not None else [])]
    rows = np.arange(cluster.nodes.height)
    codes = judge(a_context(cluster, pod or a_pod("p")), taken, rows, refusals)
    assert len(set(refusals)) == len(refusals), "each reason has one code"
    return [refusals[code - REFUSED] if code else None for code in codes.tolist()]


def test_nodes_must_have_room_for_what_devices_take() -> None:
    cluster = a_cluster(
        a_node("exact", cpu="4"),
        a_node("small", cpu="3999m"),
        a_node("used", cpu="8"),
        a_node("fits", cpu="8"),
        a_node("small-too", cpu="1", memory="1Ki"),
        a_pod("old", cpu="4001m", nodeName="used"),
        a_pod("other", cpu="4", nodeName="fits"),
    )
    never, now = final("Insufficient cpu"), curable("Insufficient cpu")
    assert judged(cluster, cpu="4") == [None, never, now, None, never]
    both = final("Insufficient cpu", "Insufficient memory")
    assert judged(cluster, cpu="4", memory="2Ki") == [None, never, now, None, both]
    assert judged(cluster, a_pod("p", cpu="3"), cpu="1") == [None, never, now, None, never]


def test_a_node_that_lacks_one_thing_now_and_another_for_ever_lacks_both_for_ever() -> None:
    cluster = a_cluster(a_node("n", cpu="4", memory="1Gi"), a_pod("old", cpu="3", nodeName="n"))
    assert judged(cluster, cpu="2", memory="2Gi") == [final("Insufficient cpu", "Insufficient memory")]
    assert judged(cluster, cpu="2", memory="1Gi") == [curable("Insufficient cpu")]


def test_reasons_come_in_a_fixed_order() -> None:
    cluster = a_cluster(a_node("n", cpu="1", memory="1Ki"))
    more: dict[str, Any] = {
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "2Mi",
        "hugepages-1Gi": "1Gi",
        "example.com/gpu": "1",
    }
    found = judged(cluster, cpu="2", memory="2Ki", **more)
    names = ("cpu", "memory", "ephemeral-storage", "hugepages-1Gi", "hugepages-2Mi")
    assert found == [final(*(f"Insufficient {name}" for name in names))]
    other: dict[str, Any] = {"example.com/gpu": "1"}
    assert judged(cluster, **other) == [None], "NodeResourcesFit judges other resources"


def test_amounts_beyond_64_bits_are_compared_exactly() -> None:
    huge = "9223372036854775808"
    cluster = a_cluster(a_node("n", memory=huge), a_node("m", memory="1Gi"))
    assert judged(cluster, memory=huge) == [None, final("Insufficient memory")]
    assert judged(cluster, memory="9223372036854775809") == [final("Insufficient memory")] * 2


def test_requests_of_the_whole_pod_must_cover_its_containers_and_devices() -> None:
    def of(**requests: str) -> Pod:
        return a_pod("p", cpu="2", memory="1Gi", resources={"requests": requests})

    cluster = a_cluster(a_node("n", cpu="8"))
    text = (
        "pod level request for {} is insufficient to cover the aggregated container and node-allocatable DRA requests"
    )
    assert judged(cluster, of(cpu="4"), cpu="2") == [None]
    assert judged(cluster, of(cpu="3999m"), cpu="2") == [final(text.format("cpu"))]
    assert judged(cluster, of(cpu="9", memory="1Gi"), memory="1") == [final(text.format("memory"))]
    assert judged(cluster, of(cpu="3", memory="1Gi"), cpu="2", memory="1") == [final(text.format("cpu"))]
    assert judged(cluster, a_pod("p", cpu="2", resources={}), cpu="2") == [None]


def test_what_it_costs_to_use_devices_counts_for_each_container() -> None:
    cluster = a_cluster(a_node("n", cpu="8"))
    cost = NodeAllocatableClaimStatus("d", ["x", "y"], None, [OverheadResource("cpu", "1", "500m")])
    assert judged(cluster, a_pod("p", cpu="2"), cost, cpu="4") == [None]
    assert judged(cluster, a_pod("p", cpu="2"), cost, cpu="4001m") == [final("Insufficient cpu")]


def test_overhead_of_the_pod_is_not_covered_by_its_requests() -> None:
    cluster = a_cluster(a_node("n", cpu="8"))
    pod = a_pod("p", cpu="2", overhead={"cpu": "3"}, resources={"requests": {"cpu": "4"}})
    assert judged(cluster, pod, cpu="2") == [None]


LIMIT = "pod level limit for {} is insufficient to cover {}"
ALL_LIMITS = "the aggregated container and node-allocatable DRA limits"
HUGE = "hugepages-2Mi"
LIMITS: dict[str, tuple[JsonObject, JsonObject, JsonObject, str | None]] = {
    "enough for the container": ({"cpu": "4"}, {"cpu": "2"}, {"cpu": "2"}, None),
    "not enough for the container": (
        {"cpu": "4"},
        {"cpu": "2"},
        {"cpu": "2001m"},
        LIMIT.format("cpu", "the limit and DRA overhead for container main"),
    ),
    "the container has no limit": ({"cpu": "1"}, {}, {"cpu": "5"}, None),
    "the pod has no such limit": ({"memory": "1Gi"}, {"cpu": "2"}, {"cpu": "5"}, None),
    "enough huge pages": ({HUGE: "4Mi"}, {HUGE: "2Mi"}, {HUGE: "2Mi"}, None),
    "not enough huge pages": ({HUGE: "4Mi"}, {HUGE: "2Mi"}, {HUGE: "4Mi"}, LIMIT.format(HUGE, ALL_LIMITS)),
    "huge pages of devices alone": ({HUGE: "2Mi"}, {}, {HUGE: "4Mi"}, LIMIT.format(HUGE, ALL_LIMITS)),
    "the pod has no limit of huge pages": ({"cpu": "9"}, {HUGE: "2Mi"}, {HUGE: "4Mi"}, None),
}


@pytest.mark.parametrize(("whole", "own", "devices", "text"), LIMITS.values(), ids=LIMITS.keys())
def test_limits_of_the_whole_pod_must_cover_its_containers_and_devices(
    whole: JsonObject, own: JsonObject, devices: JsonObject, text: str | None
) -> None:
    container = {"name": "main", "resources": {"limits": own}}
    pod = a_pod("p", containers=[container], resources={"limits": whole})
    cluster = a_cluster(a_node("n", cpu="16", allocatable={HUGE: "1Gi"}))
    found = judged(cluster, pod, **devices)
    assert found == ([None] if text is None else [final(text)])


# ---- claims that several pods use


def shared(
    resources: JsonObject, *users: str, sharers: tuple[str, ...] = (), group: str = "", has_gate: bool = True
) -> str:
    """Why the pod p of the group gang cannot use a claim whose device takes this, that these pods and this group have
    reserved, and that these pods count on."""
    cluster = Cluster({"GenericWorkload": True, "DRAWorkloadResourceClaims": has_gate})
    reserved = [{"resource": "pods", "name": name, "uid": name} for name in users]
    if group:
        reserved.append({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": group, "uid": group})
    status = {"allocation": an_allocation("a/d"), "reservedFor": reserved}
    claim: ResourceClaim = a_claim("c", an_ask(), status=status)
    device = a_device("d", nodeAllocatableResources=resources)
    for item in (a_node("a"), a_slice("s", device, node="a"), claim):
        cluster.put(item)
    cluster.claims.begin(claim)
    for sharer in sharers:
        cluster.claims.share("uid-c", sharer)
    pod = a_pod("p", metadata={"uid": "p"}, schedulingGroup={"podGroupName": "gang"})
    context = a_context(cluster, pod)
    found = sharing_refusal(context, claim, bool(sharers))
    assert found is None or found == final(found.message)
    return "" if found is None else found.message


def test_a_claim_with_a_device_that_is_a_part_of_its_node_is_for_one_pod() -> None:
    part, cost = parts_of_node(cpu="1"), {"cpu": costing(perPod="1")}
    text = "node allocatable resource claim c has a mapped device and cannot be shared across pods"
    assert shared(part) == "", "nobody uses it"
    assert shared(part, "p") == "", "the pod itself uses it"
    assert shared(part, "q") == text
    assert shared(part, "q", "p") == "", "the pod has its reservation already"
    assert shared(part, sharers=("p",)) == ""
    assert shared(part, sharers=("q",)) == shared(part, sharers=("p", "q")) == text
    assert shared(cost, "q") == shared(cost, sharers=("q",)) == "", "what devices cost may be shared"
    assert shared({"cpu": {**cost["cpu"], **part["cpu"]}}, "q") == text
    assert shared({}, "q") == ""
    assert shared(part, group="gang") == "", "the group of the pod uses it"
    assert shared(part, group="gang", has_gate=False) == shared(part, group="other") == text
