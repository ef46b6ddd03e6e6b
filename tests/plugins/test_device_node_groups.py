"""Nodes that see the same devices are one group, which stays the same while nothing that it sees changes; and what the
devices of a pod take from its node."""

from build import a_cluster, a_node
from device_building import a_device, a_slice
from mooring.cluster.cluster import Cluster
from mooring.model.devices import ResourceSlice
from mooring.plugins.devices.device_demand import DeviceFeatures
from mooring.plugins.devices.node_groups import NodeGroup, NodeGroups

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
    supported = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    wrong = f'matchExpressions[0].operator: Unsupported value: "Sounds": supported values: {supported}'
    assert groups.fault == (
        "gather pool information: failed to perform node selection for slice s: failed to parse node selector: "
        f"[nodeSelectorTerms[0].{wrong}, nodeSelectorTerms[1].{wrong}]"
    )
    cluster.put(a_slice("s", a_device("d"), allNodes=True))
    assert devices(groups_of(cluster, groups)["a"]) == ["d"]
