"""Nodes that see the same devices are one group, which stays the same while nothing that it sees changes; and what the
devices of a pod take from its node."""

from typing import Any

import numpy as np

from build import a_cluster, a_node, a_pod
from device_building import a_claim, a_class, a_device, a_slice, an_ask, claiming
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.status import Rejection, curable, final
from mooring.model.devices import ResourceClaim, ResourceSlice
from mooring.model.pod import Pod
from mooring.model.pod_spec import NodeAllocatableClaimStatus
from mooring.plugins.devices.allocation import DeviceChoice, Pick
from mooring.plugins.devices.device_capacity import Share
from mooring.plugins.devices.device_demand import DeviceFeatures, read_demand
from mooring.plugins.devices.node_groups import NodeGroup, NodeGroups
from mooring.plugins.devices.node_resources import REFUSED, judge, reject_sharing, taken_by, write_taken
from mooring.plugins.devices.pools import view_of
from volume_asking import a_context

IN_ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}
COUNTERS = [{"name": "set", "counters": {"slots": {"value": "2"}}}]


def groups_of(cluster: Cluster, groups: NodeGroups | None = None) -> dict[str, NodeGroup]:
    """By node."""
    groups = groups or NodeGroups(DeviceFeatures())
    groups.refresh(cluster)
    assert groups.fault is None
    return {name: groups.groups[groups.group_of[row]] for name, row in cluster.nodes.row_book.items()}


def a_world(*slices: ResourceSlice) -> Cluster:
    """Node a is alone in its zone; b and c are in zone z."""
    labels = {"zone": "z"}
    return a_cluster(a_node("a"), a_node("b", labels=labels), a_node("c", labels=labels), *slices)


def devices(group: NodeGroup) -> list[str]:
    return [site.id[2] for site in group.sites if site.id not in group.hidden]


# ---- who is in a group


def test_nodes_that_see_the_same_slices_are_one_group() -> None:
    found = groups_of(a_world(a_slice("zone", a_device("d"), nodeSelector=IN_ZONE)))
    assert found["b"] is found["c"] is not found["a"]
    assert (devices(found["a"]), devices(found["b"])) == ([], ["d"])


def test_nodes_with_slices_of_their_own_are_groups_of_their_own() -> None:
    shared = a_slice("all", a_device("net"), pool="net", allNodes=True)
    found = groups_of(a_world(shared, a_slice("b", a_device("d"), node="b"), a_slice("c", a_device("d"), node="c")))
    assert found["b"] is not found["c"]
    assert [sorted(devices(found[name])) for name in "abc"] == [["net"], ["d", "net"], ["d", "net"]]
    assert [site.id[1] for site in found["c"].sites] == ["c", "net"]


def test_nodes_that_see_other_devices_of_a_slice_are_different_groups() -> None:
    each = [a_device(f"d-{name}", nodeName=name) for name in "bc"]
    found = groups_of(a_world(a_slice("s", *each, perDeviceNodeSelection=True)))
    assert [devices(found[name]) for name in "abc"] == [[], ["d-b"], ["d-c"]]


def test_a_node_that_is_gone_is_in_no_group() -> None:
    cluster = a_world(a_slice("a", a_device("d"), node="a"))
    cluster.nodes.remove_node("a")
    groups = NodeGroups(DeviceFeatures())
    found = groups_of(cluster, groups)
    assert set(found) == {"b", "c"} and len(groups.groups) == 1
    assert devices(found["b"]) == []


def test_pools_that_cannot_be_used_have_no_devices_to_choose_from() -> None:
    broken = a_slice("b", a_device("x"), pool="broken", nodeName="a", count=2)
    found = groups_of(a_world(a_slice("a", a_device("d"), node="a"), broken))["a"]
    assert (devices(found), sorted(pool.id[1] for pool in found.pools)) == (["d"], ["a", "broken"])


def test_counters_of_a_slice_are_seen_from_all_nodes_whatever_node_it_names() -> None:
    part = a_device("d", nodeName="b", consumesCounters=[{"counterSet": "set", "counters": {"slots": {"value": "1"}}}])
    counters = a_slice("counters", pool="p", nodeName="a", sharedCounters=COUNTERS, count=2)
    found = groups_of(a_world(counters, a_slice("s", part, pool="p", perDeviceNodeSelection=True, count=2)))
    (pool,) = found["b"].pools
    assert pool.is_usable and pool.counters == {"set": {"slots": 2 * 10**9}}


def test_without_their_gate_partitions_and_devices_that_select_nodes_are_not_understood() -> None:
    slices = (
        a_slice("s", a_device("x", nodeName="a"), pool="s", perDeviceNodeSelection=True),
        a_slice("t", a_device("y"), pool="t", nodeName="a", perDeviceNodeSelection=False),
        a_slice("u", pool="u", nodeName="a", sharedCounters=COUNTERS),
        a_slice("v", a_device("z"), pool="v", nodeName="a"),
    )
    on, off = NodeGroups(DeviceFeatures()), NodeGroups(DeviceFeatures(partitionable=False))
    assert sorted(devices(groups_of(a_world(*slices), on)["a"])) == ["x", "y", "z"]
    assert devices(groups_of(a_world(*slices), off)["a"]) == ["z"]
    assert set(on.groups_seeing) == {("gpu.example.com", name) for name in "stuv"}
    assert set(off.groups_seeing) == {("gpu.example.com", "v")}


def test_it_is_known_which_groups_see_a_pool() -> None:
    groups = NodeGroups(DeviceFeatures())
    cluster = a_world(a_slice("all", pool="net", allNodes=True), a_slice("zone", pool="zone", nodeSelector=IN_ZONE))
    found = groups_of(cluster, groups)
    seeing = {id[1]: [groups.groups[index] for index in indexes] for id, indexes in groups.groups_seeing.items()}
    assert seeing == {"net": [found["a"], found["b"]], "zone": [found["b"]]}


# ---- what stays


def test_a_group_stays_while_nothing_that_it_sees_changes() -> None:
    mine, other = a_slice("a", a_device("d"), node="a"), a_slice("b", a_device("d"), node="b")
    cluster, groups = a_world(mine, other), NodeGroups(DeviceFeatures())
    before, version = groups_of(cluster, groups), groups.version
    assert groups_of(cluster, groups) == before and groups.version == version, "nothing happened"
    cluster.put(a_slice("b", a_device("d"), a_device("e"), node="b"))
    after = groups_of(cluster, groups)
    assert groups.version != version
    assert after["a"] is before["a"] and after["c"] is before["c"] and after["b"] is not before["b"]
    cluster.put(a_node("d", labels={"zone": "z"}))
    again = groups_of(cluster, groups)
    assert [again[name] is after[name] for name in "abc"] == [True] * 3
    assert again["d"] is after["c"], "a node that sees nothing either"


def test_a_group_changes_with_slices_of_its_pool_that_it_does_not_see() -> None:
    cluster = a_world(
        a_slice("a", a_device("d"), pool="p", nodeName="a", count=2),
        a_slice("b", a_device("e"), pool="p", nodeName="b", count=2),
    )
    groups = NodeGroups(DeviceFeatures())
    before = groups_of(cluster, groups)
    assert devices(before["a"]) == ["d"]
    cluster.remove(ResourceSlice, "b")
    after = groups_of(cluster, groups)
    assert after["a"] is not before["a"] and devices(after["a"]) == [], "the pool is incomplete now"
    assert after["c"] is before["c"]


def test_a_group_changes_with_the_devices_that_are_hidden_from_it() -> None:
    zone = a_device("d", nodeSelector=IN_ZONE), a_device("all", allNodes=True)
    cluster, groups = a_world(a_slice("s", *zone, perDeviceNodeSelection=True)), NodeGroups(DeviceFeatures())
    before = groups_of(cluster, groups)
    assert (devices(before["a"]), devices(before["b"])) == (["all"], ["d", "all"])
    cluster.put(a_node("a", labels={"zone": "z"}))
    after = groups_of(cluster, groups)
    assert after["a"] is after["b"] is before["b"]


def test_a_selector_that_can_be_read_again_cures_the_fault() -> None:
    lines = [{"key": f"k{i}", "operator": "Sounds"} for i in range(2)]
    bad = {"nodeSelectorTerms": [{"matchExpressions": [line]} for line in lines]}
    cluster, groups = a_world(a_slice("s", a_device("d"), nodeSelector=bad)), NodeGroups(DeviceFeatures())
    groups.refresh(cluster)
    fault = '"Sounds" is not a valid node selector operator'
    assert groups.fault == (
        "gather pool information: failed to perform node selection for slice s: failed to parse node selector: "
        f"[{fault}, {fault}]"
    )
    cluster.put(a_slice("s", a_device("d"), allNodes=True))
    assert devices(groups_of(cluster, groups)["a"]) == ["d"]


# ---- what devices take from the node


def a_pick(
    claim: ResourceClaim, *resources: str, key: str = "", share: str | None = None, multiplier: str = "1"
) -> Pick:
    mapping = {"allocationMultiplier": multiplier, **({"capacityKey": key} if key else {})}
    device = a_device("d", nodeAllocatableResourceMappings=dict.fromkeys(resources, mapping))
    ask = read_demand([claim], {"gpu": a_class()}.get).claims[0].requests[0][0]
    pick = Pick(ask, view_of(a_slice("s", device)).sites[0])
    pick.shares = {"memory": Share(int(share), f"{share}n")} if share else None
    return pick


def taken(pod: Pod, *picks: list[Pick], shared: Any = ()) -> list[tuple[str, Any, Any]]:
    claims = [a_claim(name) for name in "bac"[: len(picks)]]
    choice = DeviceChoice(picks, [[0]] * len(picks)) if picks else None
    found = taken_by(pod, claims, choice, a_cluster(*map(a_claim, "abc")).claims, shared)
    return [(each.resource_claim_name, each.containers, each.resources) for each in found]


def a_user(*containers: tuple[str, ...] | None, init: tuple[tuple[str, ...], ...] = ()) -> Pod:
    """A pod with the claims a, b and c, whose containers use these of them; None: a container without resources."""

    def written(kind: str, used: Any) -> list[dict[str, Any]]:
        return [
            {"name": f"{kind}{i}", **({} if each is None else {"resources": {"claims": [{"name": n} for n in each]}})}
            for i, each in enumerate(used)
        ]

    return claiming(a_pod("p", containers=written("c", containers), initContainers=written("i", init)), *"abc")


def test_what_is_taken_is_listed_by_claim_with_the_containers_that_use_it() -> None:
    claim, pod = a_claim("a"), a_user(("a", "b"), None, (), ("b",), init=(("b",),))
    found = taken(pod, [a_pick(claim, "cpu")], [a_pick(claim, "memory", multiplier="1Ki")])
    assert found == [("a", ["c0"], {"memory": "1Ki"}), ("b", ["i0", "c0", "c3"], {"cpu": "1"})]
    shared = [NodeAllocatableClaimStatus("aa", ["c0"], {"cpu": "9"})]
    assert [each[0] for each in taken(pod, [a_pick(claim, "cpu")], [a_pick(claim, "cpu")], shared=shared)] == [
        *("a", "aa", "b")
    ]
    assert [each[0] for each in taken(pod, shared=shared)] == ["aa"]


def test_claims_whose_devices_take_nothing_are_left_out() -> None:
    claim, pod = a_claim("a"), a_user(("a", "b"))
    assert taken(pod, [a_pick(claim)], [a_pick(claim, "cpu", key="cores", share="5")]) == []


def test_amounts_of_several_devices_are_added() -> None:
    claim, pod = a_claim("a"), a_user(("b",))
    picks = [a_pick(claim, "memory", multiplier=each) for each in ("1Ki", "1Ki", "512")]
    assert taken(pod, picks) == [("b", ["c0"], {"memory": "2560"})]
    picks = [a_pick(claim, "cpu", multiplier="500m"), a_pick(claim), a_pick(claim, "cpu", "memory", multiplier="1500m")]
    assert taken(pod, picks) == [("b", ["c0"], {"cpu": "2", "memory": "1500m"})]


def test_what_is_taken_is_written_into_the_status_of_the_pod() -> None:
    write = write_taken(a_pod("p", namespace="team"), [NodeAllocatableClaimStatus("a", ["c0"], {"cpu": "1"})])
    listed = [{"resourceClaimName": "a", "containers": ["c0"], "resources": {"cpu": "1"}}]
    assert (write.method, write.kind, write.namespace, write.name, write.subresource) == (
        *("PATCH", Pod, "team", "p", "status"),
    )
    assert write.body == {"status": {"nodeAllocatableResourceClaimStatuses": listed}}


# ---- whether nodes have it


def judged(
    cluster: Cluster, pod: Pod | None = None, containers: tuple[str, ...] = ("main",), **resources: Any
) -> list[Rejection | None]:
    """By row why a pod does not fit whose devices take this."""
    refusals: list[Rejection] = [curable("something else")]
    taken = [NodeAllocatableClaimStatus("c", list(containers), {**resources})]
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


def test_a_claim_that_no_container_uses_fits_nowhere() -> None:
    cluster = a_cluster(a_node("n"), a_node("m"))
    text = "claim c: node-allocatable resource claim not referenced by any container within the pod"
    assert judged(cluster, containers=(), cpu="1") == [final(text)] * 2


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


# ---- claims that several pods use


def sharing(*users: str, asks: str = "p", listed: str = "c", can_be: bool = True) -> list[str]:
    """By node why a claim cannot be used there; users are `pod@node`."""
    status: Any = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": listed, "resources": {"cpu": "1"}}]}
    pods = [
        a_pod(name, metadata={"uid": name}, nodeName=node, status=status)
        for name, node in (user.split("@") for user in users)
    ]
    reserved = [{"resource": "pods", "name": pod.name, "uid": pod.id} for pod in (*pods, a_pod("gone"))]
    claim = a_claim("c", an_ask(), status={"reservedFor": reserved})
    cluster = Cluster({"DRANodeAllocatableResources": True})
    bystander = a_pod("bystander", metadata={"uid": "bystander"}, nodeName="a")
    for item in (a_node("a"), a_node("b"), bystander, *pods, claim):
        cluster.put(item)
    context = a_context(cluster, a_pod(asks, metadata={"uid": asks}))
    codes, refusals = np.zeros(2, np.int64), list[Rejection]()
    reject_sharing(context, claim, np.arange(2), codes, np.full(2, can_be), refusals)
    assert all(each == final(each.message) for each in refusals)
    return [refusals[code - REFUSED].message if code else "" for code in codes.tolist()]


def test_a_claim_that_takes_from_a_node_is_for_one_pod_on_it() -> None:
    used = "node allocatable resource claim c is already used by another pod"
    many = "node allocatable resource claim c shared by multiple pods"
    assert sharing() == ["", ""]
    assert sharing("q@a") == [used, ""]
    assert sharing("q@b") == ["", used]
    assert sharing("q@a", "r@a", "s@b") == [many, used]
    assert sharing("p@a") == ["", ""], "the pod itself"
    assert sharing("p@a", "q@a") == [many, ""]
    assert sharing("q@a", listed="other") == ["", ""], "the claim takes nothing"
    assert sharing("q@a", can_be=False) == ["", ""]


def test_a_pod_that_is_on_a_node_without_a_status_uses_nothing_of_it() -> None:
    pod = a_pod("q", metadata={"uid": "q"}, nodeName="a")
    claim = a_claim("c", status={"reservedFor": [{"resource": "pods", "name": "q", "uid": "q"}]})
    context = a_context(a_cluster(a_node("a"), pod, claim), a_pod("p"))
    codes = np.zeros(1, np.int64)
    reject_sharing(context, claim, np.arange(1), codes, np.ones(1, np.bool_), [])
    assert codes.tolist() == [0]
