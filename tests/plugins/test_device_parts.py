"""Parts of the search for devices, each alone: values of attributes, effort, counts, node selection, and what is written."""

from typing import Any

import msgspec
import numpy as np
import pytest

from build import a_cluster, a_node, a_pod
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation, an_ask
from gangs import a_group, a_member
from mooring.cluster.claims.claim_ledger import ClaimLedger
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.intents import WriteFault
from mooring.model.devices import Device, DeviceAttribute, DeviceClass
from mooring.model.meta import KubeObject
from mooring.plugins.devices import effort as device_effort
from mooring.plugins.devices import node_groups
from mooring.plugins.devices.allocation import (
    DeviceChoice,
    Pick,
    allocation_of,
    delete_claim,
    is_overdue,
    is_prepared,
    is_unreliable,
)
from mooring.plugins.devices.cel import DeviceExpression, compile_selector
from mooring.plugins.devices.claim_rules import idle_group_claims
from mooring.plugins.devices.constraints import find_attribute, value_of, values_of
from mooring.plugins.devices.device_claims import Unresolved, is_owned_by
from mooring.plugins.devices.device_demand import DeviceFeatures, read_demand
from mooring.plugins.devices.effort import BYTES_A_STEP, COST_A_STEP, CelFault, Effort, TookTooLong
from mooring.plugins.devices.node_groups import DeviceTotals, NodeGroup, NodeGroups, count_devices
from mooring.plugins.devices.pools import Likeness, view_of

# ---- attributes

VALUES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "a text": ({"string": "a"}, ("string", "a"), ("string", {"a"})),
    "an empty text": ({"string": ""}, ("string", ""), ("string", {""})),
    "a number": ({"int": 0}, ("int", 0), ("int", {0})),
    "a truth": ({"bool": False}, ("bool", False), ("bool", {False})),
    "a version": ({"version": "1.2.3"}, ("version", "1.2.3"), ("version", {"1.2.3"})),
    "no value": ({}, None, None),
    "numbers": ({"ints": [1, 2]}, None, ("int", {1, 2})),
    "truths": ({"bools": [True]}, None, ("bool", {True})),
    "texts": ({"strings": ["a", "b"]}, None, ("string", {"a", "b"})),
    "versions": ({"versions": ["1.0.0"]}, None, ("version", {"1.0.0"})),
    "an empty list": ({"ints": []}, None, None),
}


@pytest.mark.parametrize(("written", "value", "values"), VALUES.values(), ids=VALUES.keys())
def test_the_value_of_an_attribute_has_its_type(written: dict[str, Any], value: Any, values: Any) -> None:
    attribute = msgspec.convert(written, DeviceAttribute)
    assert value_of(attribute) == value
    assert values_of(attribute) == values


def test_an_attribute_of_the_driver_may_be_named_without_its_domain() -> None:
    device = msgspec.convert(a_device("d", numa=1, attributes={"other.com/numa": {"int": 2}}), Device)

    def number(name: str) -> int | None:
        found = find_attribute(device, DRIVER, name)
        return None if found is None else found.int_value

    assert number("numa") == number(f"{DRIVER}/numa") == 1
    assert number("other.com/numa") == 2
    assert number("third.com/numa") is None
    assert number("cores") is None
    assert find_attribute(Device(name="bare"), DRIVER, "numa") is None


# ---- effort


def test_an_attempt_that_is_short_may_spend_on_a_selector_what_is_left() -> None:
    effort = Effort(max_steps=100, steps=40, is_short=True)
    assert effort.max_cost("x" * 10) == (60 - 10 // BYTES_A_STEP) * COST_A_STEP
    assert effort.max_cost("x" * 59 * BYTES_A_STEP) == COST_A_STEP
    with pytest.raises(TookTooLong):
        effort.max_cost("x" * 60 * BYTES_A_STEP)
    assert Effort(max_steps=100, steps=40).max_cost("x" * 1000) is None
    assert Effort(is_short=True).max_cost("x" * 1000) is None


def test_a_selector_costs_its_length_once_and_its_evaluation_each_time() -> None:
    effort = Effort(max_steps=22)
    effort.learn("x" * 10 * BYTES_A_STEP, 2 * COST_A_STEP)
    assert effort.steps == 12
    effort.learn("x" * 10 * BYTES_A_STEP, 10 * COST_A_STEP)
    assert (effort.steps, effort.compiled) == (22, {"x" * 10 * BYTES_A_STEP})
    with pytest.raises(TookTooLong):
        effort.spend(1)


def test_steps_are_counted_for_so_many_bytes_of_a_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_effort, "BYTES_A_STEP", 5)
    effort = Effort(max_steps=100, is_short=True)
    assert effort.max_cost("x" * 50) == 90 * COST_A_STEP
    effort.learn("x" * 50, 0)
    assert effort.steps == 10


# ---- devices that serve a resource

GPU = "example.com/gpu"


def totals(*more: KubeObject, selectors: tuple[str, ...] = (), rows: int = 2) -> list[list[int]] | None:
    """Devices, and those of them that are taken, on the nodes a and b: four devices on a, one on b."""
    serving = a_class("gpu", *selectors, extendedResourceName=GPU)
    slices = [a_slice("a", *(a_device(f"d{i}", number=i) for i in range(4)), node="a")]
    slices.append(a_slice("b", a_device("d0", number=0), node="b"))
    cluster = a_cluster(a_node("a"), a_node("b"), serving, *slices, *more)
    found = DeviceTotals(NodeGroups(DeviceFeatures())).of(cluster, GPU, np.arange(rows))
    return None if found is None else found.tolist()


def a_used(name: str, device: str, **more: Any) -> KubeObject:
    return a_claim(name, status={"allocation": an_allocation(device, **more)})


def test_devices_and_taken_devices_are_counted_by_node() -> None:
    assert totals() == [[4, 1], [0, 0]]
    assert totals(a_used("c1", "a/d1"), a_used("c2", "a/d3"), a_used("c3", "b/d0")) == [[4, 1], [2, 1]]
    assert totals(a_used("c1", "a/d1", shareID="s")) == [[4, 1], [1, 0]]
    assert totals(rows=1) == [[4], [0]]


def test_only_devices_that_all_selectors_of_the_class_match_are_counted() -> None:
    number = f'device.attributes["{DRIVER}"].number'
    taken = (a_used("c1", "a/d0"), a_used("c2", "a/d2"))
    assert totals(*taken, selectors=(f"{number} > 0", f"{number} < 3")) == [[2, 0], [1, 0]]


@pytest.mark.parametrize("selector", ["1 +", f'device.attributes["{DRIVER}"].missing == 1'])
def test_no_device_counts_where_a_selector_fails(selector: str) -> None:
    assert totals(a_used("c1", "a/d0"), selectors=(selector,)) == [[0, 0], [0, 0]]


def test_devices_of_other_nodes_in_a_shared_slice_are_not_counted() -> None:
    devices = (a_device("x0", nodeName="a"), a_device("x1", nodeName="b"), a_device("x2", allNodes=True))
    shared = a_slice("shared", *devices, pool="shared", perDeviceNodeSelection=True)
    assert totals(shared, a_used("c1", "shared/x1")) == [[6, 3], [0, 1]]


def test_a_selector_of_a_class_that_is_of_another_kind_selects_nothing_away() -> None:
    number = f'device.attributes["{DRIVER}"].number > 1'
    serving = a_class("gpu", extendedResourceName=GPU, selectors=[{}, {"cel": {"expression": number}}])
    devices = (a_device(f"d{i}", number=i) for i in range(4))
    cluster = a_cluster(a_node("a"), serving, a_slice("a", *devices, node="a"))
    found = DeviceTotals(NodeGroups(DeviceFeatures())).of(cluster, GPU, np.arange(1))
    assert found is not None and found.tolist() == [[2], [0]]


def test_a_selector_of_a_class_is_evaluated_once_for_devices_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = Likeness.ask

    def counted(self: Likeness, selector: str) -> Any:
        asked.append(selector)
        return ask(self, selector)

    monkeypatch.setattr(Likeness, "ask", counted)
    assert totals(selectors=("device.driver != ''",)) == [[4, 1], [0, 0]]
    assert len(asked) == 4, "d0 is on both nodes"


def test_devices_are_counted_again_only_when_some_changed_hands(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count_devices(*_: Any) -> tuple[int, int]:
        counted.append(1)
        return 3, len(counted)

    monkeypatch.setattr(node_groups, "count_devices", count_devices)
    cluster = a_cluster(a_node("a"), a_class("gpu", extendedResourceName=GPU))
    kept = DeviceTotals(NodeGroups(DeviceFeatures()))

    def taken() -> int:
        found = kept.of(cluster, GPU, np.arange(1))
        assert found is not None
        return int(found[1, 0])

    assert [taken(), taken()] == [1, 1]
    cluster.put(a_used("c1", "a/d1"))
    assert [taken(), taken()] == [2, 2]
    cluster.put(a_slice("a", a_device("d0"), node="a"))
    assert [taken(), taken()] == [3, 3]


def test_counts_follow_the_class() -> None:
    kept = DeviceTotals(NodeGroups(DeviceFeatures()))
    cluster = a_cluster(a_node("a"), a_slice("a", a_device("d0", big=True), a_device("d1", big=False), node="a"))
    for selector, count in (("true", 2), (f'device.attributes["{DRIVER}"].big', 1)):
        cluster.remove(DeviceClass, "gpu")
        cluster.put(a_class("gpu", selector, extendedResourceName=GPU))
        found = kept.of(cluster, GPU, np.arange(1))
        assert found is not None and found.tolist() == [[count], [0]]


def test_a_resource_that_no_class_serves_has_no_counts() -> None:
    cluster = a_cluster(a_node("a"), a_class())
    assert DeviceTotals(NodeGroups(DeviceFeatures())).of(cluster, GPU, np.arange(1)) is None


def test_counts_are_kept_for_64_classes_and_then_all_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def noted(group: NodeGroup, device_class: DeviceClass, ledger: ClaimLedger) -> tuple[int, int]:
        counted.append(device_class.name)
        return count_devices(group, device_class, ledger)

    monkeypatch.setattr(node_groups, "count_devices", noted)
    classes = [a_class(f"c{i}", extendedResourceName=f"example.com/r{i}") for i in range(65)]
    totals_of, cluster = DeviceTotals(NodeGroups(DeviceFeatures())), a_cluster(a_node("a"), *classes)
    for i in (*range(64), *range(64), 64, 0, 0, 63):
        assert totals_of.of(cluster, f"example.com/r{i}", np.arange(1)) is not None
    assert counted == [*(f"c{i}" for i in range(65)), "c0", "c63"]


def test_without_slices_nodes_have_no_devices() -> None:
    cluster = a_cluster(a_node("a"), a_class("gpu", extendedResourceName=GPU))
    found = DeviceTotals(NodeGroups(DeviceFeatures())).of(cluster, GPU, np.arange(1))
    assert found is not None and found.tolist() == [[0], [0]]


def test_a_slice_whose_selector_cannot_be_read_leaves_no_counts() -> None:
    bad = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Sounds"}]}]}
    assert totals(a_slice("bad", pool="bad", nodeSelector=bad)) is None


# ---- which nodes see a device


def seen_from(cluster: Cluster, features: DeviceFeatures | None = None) -> dict[str, list[str]]:
    groups = NodeGroups(features or DeviceFeatures())
    groups.refresh(cluster)
    assert groups.fault is None
    found = {}
    for name, row in cluster.nodes.row_book.items():
        group = groups.groups[groups.group_of[row]]
        found[name] = [site.id[2] for site in group.sites if site.id not in group.hidden]
    return found


def test_each_device_may_say_for_which_nodes_it_is() -> None:
    in_zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}
    devices = (
        a_device("all", allNodes=True),
        a_device("no", allNodes=False),
        a_device("named", nodeName="a"),
        a_device("gone", nodeName="ghost"),
        a_device("zone", nodeSelector=in_zone),
    )
    shared = a_slice("s", *devices, perDeviceNodeSelection=True)
    cluster = a_cluster(a_node("a"), a_node("b", labels={"zone": "z"}), a_node("c"), shared)
    assert seen_from(cluster) == {"a": ["all", "named"], "b": ["all", "zone"], "c": ["all"]}
    assert seen_from(cluster, DeviceFeatures(partitionable=False)) == {"a": [], "b": [], "c": []}


def test_a_slice_is_for_one_node_for_those_that_match_or_for_all() -> None:
    in_zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}
    slices = (
        a_slice("one", a_device("d-one"), node="a"),
        a_slice("zone", a_device("d-zone"), pool="zone", nodeSelector=in_zone),
        a_slice("all", a_device("d-all"), pool="all", allNodes=True),
        a_slice("none", a_device("d-none"), pool="none"),
    )
    cluster = a_cluster(a_node("a"), a_node("b", labels={"zone": "z"}), a_node("c"), *slices)
    found = {name: sorted(devices) for name, devices in seen_from(cluster).items()}
    assert found == {"a": ["d-all", "d-one"], "b": ["d-all", "d-zone"], "c": ["d-all"]}


def test_a_selector_of_a_device_that_cannot_be_read_is_told_with_its_place() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Sounds"}]}]
    devices = (a_device("d", nodeSelector={"nodeSelectorTerms": terms}),)
    groups = NodeGroups(DeviceFeatures())
    groups.refresh(a_cluster(a_node("a"), a_slice("s", *devices, perDeviceNodeSelection=True)))
    assert groups.fault is not None
    place = "failed to perform node selection for device d in slice s: failed to parse node selector: "
    assert groups.fault.startswith(f"gather pool information: {place}")


# ---- what is written


def a_pick(claim: Any, device: dict[str, Any], request: int = 0, alternative: int = 0, **spec: Any) -> Pick:
    classes = {"gpu": a_class()}
    ask = read_demand([claim], classes.get)[0].requests[request][alternative]
    return Pick(ask, view_of(a_slice("s", device, **spec)).sites[0])


def written(claim: Any, *picks: Pick, preferences: tuple[int, ...] = (0,), **classes: Any) -> Any:
    choice = DeviceChoice([picks], [list(preferences)])
    return msgspec.to_builtins(allocation_of(claim, choice, 0, "a", classes, "share-"))


def a_config(*requests: str, say: str = "x") -> dict[str, Any]:
    return {"requests": list(requests), "opaque": {"driver": DRIVER, "parameters": {"say": say}}}


def test_configuration_of_classes_comes_before_that_of_the_claim() -> None:
    config = [a_config("r1", "r0/s1", say="both"), a_config(say="all"), a_config("r0/s0", say="other")]
    claim = a_claim("c", [an_ask(), an_ask(device_class="big")], an_ask(), config=config)
    big = a_class("big", config=[{"opaque": {"driver": DRIVER, "parameters": {"say": "big"}}}])
    found = written(claim, preferences=(1, 0), big=big, gpu=a_class())
    told = [
        (each["source"], each.get("requests") or [], each["opaque"]["parameters"]["say"])
        for each in found["devices"]["config"]
    ]
    assert told == [
        ("FromClass", ["r0/s1"], "big"),
        ("FromClaim", [], "both"),
        ("FromClaim", [], "all"),
    ]


ZONE_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
RACK_TERM = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r"]}]}


def test_devices_with_selectors_can_be_used_where_all_of_them_match() -> None:
    claim = a_claim("c", an_ask(3))
    picks = [
        a_pick(claim, a_device("d"), nodeSelector={"nodeSelectorTerms": [term]})
        for term in (ZONE_TERM, RACK_TERM, ZONE_TERM)
    ]
    terms = written(claim, *picks)["nodeSelector"]["nodeSelectorTerms"]
    assert [[each["key"] for each in term["matchExpressions"]] for term in terms] == [["zone", "rack"]]


@pytest.mark.parametrize(
    ("device", "spec"),
    [
        pytest.param({}, {"node": "a"}, id="a slice of the node"),
        pytest.param({"nodeName": "a"}, {"perDeviceNodeSelection": True}, id="a device of the node"),
        pytest.param({"bindsToNode": True}, {"allNodes": True}, id="a device that binds to the node"),
    ],
)
def test_devices_of_a_node_can_be_used_there_alone(device: dict[str, Any], spec: dict[str, Any]) -> None:
    claim = a_claim("c")
    terms = written(claim, a_pick(claim, a_device("d", **device), **spec))["nodeSelector"]["nodeSelectorTerms"]
    (requirement,) = terms[0]["matchFields"]
    assert (requirement["key"], requirement["operator"], requirement["values"]) == ("metadata.name", "In", ["a"])


def test_devices_for_all_nodes_can_be_used_anywhere() -> None:
    claim = a_claim("c")
    assert written(claim, a_pick(claim, a_device("d"), allNodes=True)).get("nodeSelector") is None


# ---- devices that are prepared

CONDITIONS = {"bindingConditions": ["Ready", "Warm"], "bindingFailureConditions": ["Broken"]}


def a_claim_with(*conditions: tuple[str, str], since: str | None = None, **more: Any) -> Any:
    allocation = an_allocation("pool/d0", **(more or CONDITIONS))
    if since is not None:
        allocation["allocationTimestamp"] = since
    listed = [{"type": name, "status": status} for name, status in conditions]
    device = {"driver": DRIVER, "pool": "pool", "device": "d0", "conditions": listed}
    return a_claim("c", status={"allocation": allocation, "devices": [device]})


def test_devices_are_prepared_when_all_their_conditions_are_true() -> None:
    assert is_prepared(a_claim_with(("Ready", "True"), ("Warm", "True")))
    assert not is_prepared(a_claim_with(("Ready", "True")))
    assert not is_prepared(a_claim_with(("Ready", "True"), ("Warm", "False")))
    assert not is_prepared(a_claim_with(("Ready", "True"), ("Warm", "False"), ("Warm", "True")))
    assert is_prepared(a_claim_with(("Ready", "True"), ("Warm", "True"), ("Broken", "False")))
    assert not is_prepared(a_claim("c"))


def test_devices_are_overdue_once_the_time_since_their_allocation_is_up() -> None:
    claim = a_claim_with(since="1970-01-01T00:00:10Z")
    second = 1_000_000_000
    assert not is_overdue(claim, 5 * second, 15 * second)
    assert is_overdue(claim, 5 * second, 15 * second + 1)
    assert not is_overdue(a_claim_with(), 5 * second, 99 * second)
    assert not is_overdue(a_claim("c"), 5 * second, 99 * second)
    assert not is_overdue(a_claim_with(since="1970-01-01T00:00:10Z", shareID="s"), 5 * second, 99 * second)


@pytest.mark.parametrize(("code", "unreliable"), [(0, True), (409, False), (499, False), (500, True), (503, True)])
def test_answers_with_a_fault_of_the_server_are_not_to_be_relied_on(code: int, unreliable: bool) -> None:
    assert is_unreliable(WriteFault("no", code)) is unreliable


def test_a_claim_loses_its_finalizer_before_it_is_deleted() -> None:
    protection = "resource.kubernetes.io/delete-protection"
    for finalizers, left in (([protection], None), (["mine", protection], ["mine"])):
        patch, delete = delete_claim(a_claim("c", metadata={"finalizers": finalizers}))
        assert (patch.method, patch.name, patch.body) == ("PATCH", "c", {"metadata": {"finalizers": left}})
        assert (delete.method, delete.name, delete.namespace) == ("DELETE", "c", "default")


# ---- claims of groups

GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
MINE = {"name": "x", "resourceClaimTemplateName": "t"}
OF_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-gang"}


def an_owned(name: str, owner: str) -> Any:
    reference = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "gang", "controller": True}
    status = {"allocation": an_allocation("pool/d0"), "reservedFor": [OF_GROUP]}
    return a_claim(name, status=status, metadata={"ownerReferences": [{**reference, "uid": owner}]})


def idle(*claims: Any, entry: dict[str, Any] | None = None, made: str | None = "made", listed: str = "x") -> list[str]:
    cluster = Cluster(GATES)
    group = a_group(uid="uid-gang", resourceClaims=[entry or MINE])
    statuses = [] if made is None else [{"name": listed, **({"resourceClaimName": made} if made else {})}]
    written = {**msgspec.to_builtins(group), "status": {"resourceClaimStatuses": statuses}}
    cluster.put(msgspec.convert(written, type(group)))
    for claim in claims:
        cluster.put(claim)
    return [f"{claim.name} {uid}" for claim, uid in idle_group_claims(a_member("one"), cluster)]


def test_claims_of_a_group_that_no_member_uses_are_found() -> None:
    assert idle(an_owned("made", "uid-gang")) == ["made uid-gang"]
    assert idle(an_owned("made", "uid-other")) == []
    assert idle(made="") == []
    named = {"name": "x", "resourceClaimName": "named"}
    assert idle(an_owned("named", "uid-other"), entry=named) == ["named uid-gang"]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"entry": {"name": "x"}}, "PodGroup default/gang, spec.resourceClaim x: none of the supported fields are set"),
        ({"made": None}, "PodGroup default/gang: ResourceClaim not created yet"),
        ({"listed": "y"}, "PodGroup default/gang: ResourceClaim not created yet"),
        ({"made": "gone"}, 'could not find ResourceClaim "default/gone"'),
    ],
)
def test_a_claim_of_a_group_that_is_not_there_is_told(more: dict[str, Any], text: str) -> None:
    with pytest.raises(Unresolved) as raised:
        idle(**more)
    assert str(raised.value) == text


def test_a_claim_is_owned_by_the_pod_or_by_its_group_where_that_counts() -> None:
    claim = an_owned("made", "uid-gang")
    assert is_owned_by(claim, a_member("one"), accepts_group=True)
    assert not is_owned_by(claim, a_member("one"))
    assert not is_owned_by(claim, a_member("one", "other"), accepts_group=True)
    assert not is_owned_by(claim, a_pod("p"), accepts_group=True)
    assert not is_owned_by(a_claim("c"), a_member("one"), accepts_group=True)


# ---- gates and limits


def test_without_gates_all_features_are_on_but_the_last_five() -> None:
    assert DeviceFeatures.of({}) == DeviceFeatures() == DeviceFeatures(*([True] * 5), *([False] * 5))


def test_the_longest_selector_has_10_kib() -> None:
    longest = "true".ljust(10 * 1024)
    assert isinstance(compile_selector(longest), DeviceExpression)
    fault = compile_selector(f"{longest} ")
    assert isinstance(fault, CelFault)
    assert str(fault) == "compilation failed: Too long: may not be more than 10240 bytes"
