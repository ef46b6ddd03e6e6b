"""The claims of a pod, rule by rule: whose they are, what serves extended resources, and what an attempt knows of them."""

from typing import Any

import msgspec
import numpy as np
import pytest

from build import a_cluster, a_node, a_pod
from device_building import DRIVER, a_claim, a_class, an_allocation, an_ask, claiming
from gangs import a_member
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import Change
from mooring.framework.contract.status import PluginError, final
from mooring.model.devices import ClaimConsumer, ResourceClaim
from mooring.plugins.devices.claim_rules import examine, reach_of, settled_score
from mooring.plugins.devices.device_claims import (
    DEVICE_EVENTS,
    MARK,
    ClaimState,
    Served,
    Unresolved,
    asking,
    claim_for,
    claims_of,
    entries_of,
    is_owned_by,
    is_reserved_for,
    is_unwritten,
    needs_devices,
    rows_lacking,
    serve,
    served_by_devices,
)
from mooring.plugins.devices.device_demand import DeviceFeatures, Fatal, read_demand
from mooring.plugins.devices.dynamic_resources import DynamicResources

GPU, NIC = "example.com/gpu", "example.com/nic"
JsonObject = dict[str, Any]


# ---- whose claims they are


def reserved_for(**entry: str) -> ResourceClaim:
    others = [{"resource": "pods", "name": "q", "uid": "other"}]
    return a_claim("c", status={"reservedFor": [*others, *([entry] if entry else [])]})


OF_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-gang"}


def test_a_claim_is_reserved_for_a_pod_by_its_uid() -> None:
    pod = a_pod("p", metadata={"uid": "mine"})
    assert is_reserved_for(reserved_for(resource="pods", name="x", uid="mine"), pod)
    assert not is_reserved_for(reserved_for(resource="pods", name="p", uid="earlier"), pod)
    assert not is_reserved_for(a_claim("c"), pod)


def test_a_claim_is_reserved_for_a_group_by_kind_and_name_where_that_counts() -> None:
    member = a_member("one")
    assert is_reserved_for(reserved_for(**OF_GROUP), member, accepts_group=True)
    assert not is_reserved_for(reserved_for(**OF_GROUP), member)
    assert not is_reserved_for(reserved_for(**OF_GROUP), a_pod("p"), accepts_group=True)
    assert not is_reserved_for(reserved_for(), member, accepts_group=True)
    for other in ({"apiGroup": "other.io"}, {"resource": "pods"}, {"name": "other"}):
        assert not is_reserved_for(reserved_for(**{**OF_GROUP, **other}), member, accepts_group=True)


def owned_by(**owner: Any) -> ResourceClaim:
    reference = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "gang", "uid": "uid-gang"}
    return a_claim("made", metadata={"ownerReferences": [{**reference, "controller": True, **owner}]})


def test_a_claim_is_owned_by_a_pod_by_its_uid_and_by_a_group_by_kind_and_name() -> None:
    member = a_member("one")
    assert is_owned_by(owned_by(kind="Pod", name="x", uid="uid-one"), member)
    assert not is_owned_by(owned_by(kind="Pod", name="one", uid="earlier"), member)
    assert is_owned_by(owned_by(), member, accepts_group=True)
    for other in ({"kind": "Job"}, {"apiVersion": "scheduling.k8s.io.evil/v1"}, {"name": "x"}, {"controller": False}):
        assert not is_owned_by(owned_by(**other), member, accepts_group=True)


def test_entries_that_need_no_claim_are_left_out() -> None:
    cluster = a_cluster(a_claim("c"), a_claim("d"))
    entries = [
        {"name": "first", "resourceClaimName": "c"},
        {"name": "none", "resourceClaimTemplateName": "t"},
        {"name": "last", "resourceClaimName": "d"},
    ]
    pod = a_pod("p", resourceClaims=entries, status={"resourceClaimStatuses": [{"name": "x"}, {"name": "none"}]})
    assert [(name, claim.name) for name, claim in entries_of(pod, cluster.claims)] == [("first", "c"), ("last", "d")]
    assert [claim.name for claim in claims_of(pod, cluster.claims)] == ["c", "d"]
    assert claims_of(a_pod("p"), cluster.claims) == []


def test_a_claim_that_was_made_for_another_is_told_with_who_could_own_it() -> None:
    entry = [{"name": "x", "resourceClaimTemplateName": "t"}]
    status = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "made"}]}
    member = a_member("one", resourceClaims=entry, status=status)
    for gate, why in ((True, "neither Pod nor PodGroup gang is the owner"), (False, "Pod is not owner")):
        cluster = Cluster({"DRAWorkloadResourceClaims": gate, "GenericWorkload": True})
        cluster.put(owned_by(name="other"))
        with pytest.raises(Unresolved) as raised:
            claims_of(member, cluster.claims)
        assert str(raised.value) == f"ResourceClaim default/made was not created for Pod default/one ({why})"


# ---- extended resources


def test_devices_are_needed_for_extended_resources_that_a_class_serves() -> None:
    serving = a_cluster(a_class("gpu", extendedResourceName=GPU)).serving_classes
    odd = a_cluster(a_class("odd", extendedResourceName="cpu")).serving_classes
    assert needs_devices({"cpu": 1, GPU: 2}, serving)
    assert needs_devices({"deviceclass.resource.kubernetes.io/gpu": 1}, serving)
    assert not needs_devices({GPU: 0}, serving)
    assert not needs_devices({NIC: 1}, serving)
    assert not needs_devices({"cpu": 1}, odd)
    assert not needs_devices({GPU: 1}, a_cluster().serving_classes)


def left_over(name: str = "old", mark: str = "true", **owner: Any) -> ResourceClaim:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True, **owner}
    return a_claim(name, metadata={"annotations": {MARK: mark}, "ownerReferences": [reference]})


def test_the_claim_of_an_earlier_attempt_is_found_again() -> None:
    pod = a_pod("p", metadata={"uid": "uid-p"})
    assert claim_for(pod, a_cluster(left_over("a", "no"), left_over("b")).claims).name == "b"
    unmarked = left_over()
    metadata = msgspec.structs.replace(unmarked.metadata, annotations=None)
    for other in (left_over(mark="no"), left_over(uid="earlier"), msgspec.structs.replace(unmarked, metadata=metadata)):
        assert is_unwritten(claim_for(pod, a_cluster(other).claims))
    renamed = a_pod("renamed", metadata={"uid": "uid-p"})
    assert is_unwritten(claim_for(renamed, a_cluster(left_over()).claims))


def test_a_new_claim_for_extended_resources_belongs_to_the_pod() -> None:
    claim = claim_for(a_pod("p", namespace="team", metadata={"uid": "uid-p"}), a_cluster().claims)
    assert is_unwritten(claim) and not is_unwritten(a_claim("c"))
    assert msgspec.to_builtins(claim.metadata) == {
        "name": "<extended-resources>",
        "namespace": "team",
        "uid": "<extended-resources>/uid-p",
        "generateName": "p-extended-resources-",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    }
    assert claim.spec.devices.requests is None and claim.status.allocation is None


def a_container(name: str, restart: str | None = None, **requests: Any) -> JsonObject:
    named = {{"gpu": GPU, "nic": NIC}.get(key, key): str(value) for key, value in requests.items()}
    return {"name": name, "resources": {"requests": named}, "restartPolicy": restart}


def served(*containers: JsonObject, init: tuple[JsonObject, ...] = (), names: tuple[str, ...] = (GPU, NIC)) -> Served:
    cluster = a_cluster(a_class("gpus", extendedResourceName=GPU), a_class("nics", extendedResourceName=NIC))
    pod = a_pod("p", containers=list(containers), initContainers=list(init))
    return serve(pod, names, cluster.serving_classes)


def test_each_container_has_a_request_for_each_resource_that_is_served() -> None:
    found = served(a_container("c", nic=1, cpu=1, gpu=2), names=(NIC, "example.com/unserved", GPU))
    assert [(each.name, msgspec.to_builtins(each.exactly)) for each in found.requests] == [
        ("container-0-request-1", {"deviceClassName": "gpus", "allocationMode": "ExactCount", "count": 2}),
        ("container-0-request-2", {"deviceClassName": "nics", "allocationMode": "ExactCount", "count": 1}),
    ]
    assert [(each.container_name, each.resource_name, each.request_name) for each in found.mappings] == [
        ("c", GPU, "container-0-request-1"),
        ("c", NIC, "container-0-request-2"),
    ]


def counts(found: Served) -> dict[str, int]:
    return {each.name: each.exactly.count for each in found.requests if each.exactly is not None}


def mapped(found: Served) -> list[tuple[str, str]]:
    return [(each.container_name, each.request_name) for each in found.mappings]


def test_amounts_that_are_not_whole_are_not_served() -> None:
    assert counts(served(a_container("c", gpu="1500m"), a_container("d", gpu="2000m"))) == {"container-1-request-0": 2}
    assert counts(served({"name": "c"}, {"name": "d", "resources": {}})) == {}


def test_an_init_container_uses_sidecars_and_containers_that_come_after_it() -> None:
    found = served(
        a_container("main", gpu=1),
        init=(a_container("early", gpu=2), a_container("side", "Always", gpu=1), a_container("late", gpu=2)),
    )
    assert counts(found) == {"container-1-request-0": 1, "container-2-request-0": 1, "container-3-request-0": 1}
    assert mapped(found) == [
        ("side", "container-1-request-0"),
        ("main", "container-3-request-0"),
        ("early", "container-1-request-0"),
        ("early", "container-3-request-0"),
        ("late", "container-3-request-0"),
        ("late", "container-2-request-0"),
    ]


def test_an_init_container_takes_no_more_requests_than_it_needs() -> None:
    found = served(a_container("c", gpu=2), a_container("d", gpu=2), init=(a_container("i", gpu=2),))
    assert mapped(found)[2:] == [("i", "container-1-request-0")]
    found = served(a_container("c", gpu=2), a_container("d", gpu=2), init=(a_container("i", gpu=3),))
    assert mapped(found)[2:] == [("i", "container-1-request-0"), ("i", "container-2-request-0")]
    assert counts(found) == {"container-1-request-0": 2, "container-2-request-0": 2}


def test_the_largest_request_serves_all_init_containers_one_after_another() -> None:
    found = served(a_container("c", gpu=1), init=(a_container("i", gpu=4), a_container("j", gpu=2)))
    assert counts(found) == {"container-0-request-0": 3, "container-2-request-0": 1}
    assert mapped(found) == [
        ("c", "container-2-request-0"),
        *(("i", "container-2-request-0"), ("i", "container-0-request-0")),
        *(("j", "container-2-request-0"), ("j", "container-0-request-0")),
    ]


def test_devices_serve_where_the_node_has_none_of_the_resource() -> None:
    cluster = a_cluster(
        a_class("gpu", extendedResourceName=GPU),
        a_node("none"),
        a_node("some", allocatable={GPU: 1}),
        a_node("zero", allocatable={GPU: 0, NIC: 0}),
    )
    rows = np.array([2, 1, 0], np.intp)
    requested = {"cpu": 1, GPU: 1, NIC: 1}
    found = served_by_devices(requested, cluster.nodes, cluster.serving_classes, rows)
    assert {name: mask.tolist() for name, mask in found.items()} == {GPU: [True, False, True]}
    assert served_by_devices({GPU: 0}, cluster.nodes, cluster.serving_classes, rows) == {}
    lacking = rows_lacking(requested, cluster.nodes, cluster.serving_classes, rows)
    assert lacking.tolist() == [False, True, True], "a node that lists none of the resource still lists it"
    for harmless in ({"cpu": 1, GPU: 1}, {NIC: 0}, {"attachable-volumes-x": 1}):
        assert not rows_lacking(harmless, cluster.nodes, cluster.serving_classes, rows).any()


# ---- what an attempt knows

GIVEN: JsonObject = {"allocation": an_allocation("pool/d0")}


def test_claims_without_devices_are_wanted_and_the_extended_one_where_devices_serve_it() -> None:
    extended = claim_for(a_pod("p", metadata={"uid": "u"}), a_cluster().claims)
    claims = [a_claim("a"), a_claim("b", status=GIVEN), a_claim("c"), extended]
    state = ClaimState(claims, extended=extended, shared={2: a_claim("c", status=GIVEN)})
    some = served(a_container("c", gpu=1))
    assert state.missing() == [0]
    assert [(index, claim.name) for index, claim in state.wanted(Served())] == [(0, "a")]
    assert [(index, claim.name) for index, claim in state.wanted(some)] == [(0, "a"), (3, "<extended-resources>")]
    assert state.wanted(some)[1][1].spec.devices.requests == some.requests
    assert ClaimState(claims[:3]).missing() == [0, 2]
    assert [index for index, _ in ClaimState(claims[:1]).wanted(some)] == [0]


def test_the_extended_claim_is_none_of_the_users() -> None:
    extended = a_claim("x")
    assert not ClaimState([extended], extended=extended).has_user_claims
    assert ClaimState([a_claim("a"), extended], extended=extended).has_user_claims
    assert ClaimState([a_claim("a")]).has_user_claims
    assert not ClaimState().has_user_claims
    assert not ClaimState() and ClaimState([extended], extended=extended)


def test_a_claim_is_reserved_for_the_pod_unless_it_is_the_groups() -> None:
    group = ClaimConsumer("scheduling.k8s.io", "podgroups", "gang", "uid-gang")
    state = ClaimState([a_claim("a"), a_claim("b")], group_consumers={1: group}, shared={1: a_claim("b")}, offered={2})
    assert state.consumer(0, a_pod("p", metadata={"uid": "u"})) == ClaimConsumer("", "pods", "p", "u")
    assert state.consumer(1, a_pod("p")) is group
    assert [state.is_shared(index) for index in range(3)] == [False, True, True]


def test_requests_for_the_same_resources_are_built_once() -> None:
    classes = a_cluster(
        a_class("gpu", extendedResourceName=GPU), a_class("nic", extendedResourceName=NIC)
    ).serving_classes
    state, pod = ClaimState(), a_pod("p", requests={GPU: 1, NIC: 1})
    first = state.served(pod, [GPU], classes)
    assert state.served(pod, [GPU], classes) is first
    assert len(first.requests) == 1 and len(state.served(pod, [GPU, NIC], classes).requests) == 2


def test_a_claim_asks_for_what_devices_serve() -> None:
    claim, some = a_claim("c"), served(a_container("c", gpu=1))
    asked = asking(claim, some)
    assert (asked.spec.devices.requests, asked.metadata) == (some.requests, claim.metadata)


# ---- claims that no node can cure


def test_an_allocated_claim_needs_no_check_and_the_extended_one_no_class() -> None:
    cluster = a_cluster(a_claim("c"))
    missing = an_ask(device_class="gone")
    assert examine(cluster, a_claim("c", missing, status=GIVEN), False) is None
    assert examine(cluster, a_claim("c", missing), True) is None
    assert examine(cluster, a_claim("c", missing), False) == final("request r0: device class gone does not exist")
    cluster.claims.begin(a_claim("c", status=GIVEN))
    assert examine(cluster, a_claim("c"), True) == final(
        "resource claim default/c is in the process of being allocated"
    )


def test_all_requests_and_alternatives_are_checked_in_order() -> None:
    cluster = a_cluster(a_class())
    second = a_claim("c", an_ask(), an_ask(device_class="x"), an_ask(device_class="y"))
    assert examine(cluster, second, False) == final("request r1: device class x does not exist")
    third = a_claim("c", [an_ask(), an_ask()], an_ask(device_class="y"))
    assert examine(cluster, third, False) == final("request r1: device class y does not exist")
    assert examine(cluster, a_claim("c", an_ask(), [an_ask(), an_ask()]), False) is None
    assert examine(cluster, a_claim("c", []), False) == final(
        "resource claim default/c, request r0: unknown request type"
    )
    with pytest.raises(PluginError) as raised:
        examine(cluster, a_claim("c", [an_ask(), an_ask(device_class="")]), False)
    assert str(raised.value) == "request r0/s1: unsupported request type"


def test_the_nodes_of_an_allocation_are_those_that_its_selector_matches() -> None:
    assert reach_of(a_claim("c")) is None
    assert reach_of(a_claim("c", status=GIVEN)) is None
    assert reach_of(a_claim("c", status={"allocation": an_allocation("pool/d0", node="a")})) is not None


@pytest.mark.parametrize("count", [1, 2])
def test_a_selector_of_an_allocation_that_cannot_be_read_is_an_error(count: int) -> None:
    terms = [{"matchExpressions": [{"key": f"k{i}", "operator": "Sounds"}]} for i in range(count)]
    allocation = {**an_allocation("pool/d0"), "nodeSelector": {"nodeSelectorTerms": terms}}
    with pytest.raises(PluginError) as raised:
        reach_of(a_claim("c", status={"allocation": allocation}))
    supported = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    wrong = f'matchExpressions[0].operator: Unsupported value: "Sounds": supported values: {supported}'
    faults = [f"nodeSelectorTerms[{i}].{wrong}" for i in range(count)]
    assert str(raised.value) == (faults[0] if count == 1 else f"[{', '.join(faults)}]")


def settled(*taken: str, requests: int = 2) -> ResourceClaim:
    results = [{"request": name, "driver": DRIVER, "pool": "p", "device": name} for name in taken]
    alternatives = [[an_ask() for _ in range(8)] for _ in range(requests)]
    return a_claim("c", *alternatives, an_ask(), status={"allocation": {"devices": {"results": results}}})


def test_the_first_of_the_alternatives_is_worth_8_and_the_eighth_1() -> None:
    assert settled_score(ClaimState([settled("r0/s0")])) == 8
    assert settled_score(ClaimState([settled("r0/s7")])) == 1
    assert settled_score(ClaimState([settled("r0/s0", "r0/s0")])) == 8, "two devices of one alternative"
    assert settled_score(ClaimState([settled("r0/s1", "r1/s2", "r2")])) == 7 + 6
    assert settled_score(ClaimState([settled("r2")])) == 0
    assert settled_score(ClaimState([settled(), a_claim("d"), settled("r1/s3")])) == 5
    assert settled_score(ClaimState([settled()], shared={0: settled("r0/s1")})) == 7


def test_alternatives_of_a_request_that_is_exact_are_worth_nothing() -> None:
    odd = msgspec.to_builtins(settled("r0/s0", requests=1))
    odd["spec"]["devices"]["requests"][0]["exactly"] = an_ask()
    assert settled_score(ClaimState([msgspec.convert(odd, ResourceClaim)])) == 0


# ---- what wakes a pod


KINDS = ("ResourceClaim", "DeviceClass", "ResourceSlice")


def test_the_events_are_those_that_upstream_registers() -> None:
    heard = {name for each in DEVICE_EVENTS for name in each.event.names()}
    assert heard == {
        *("Node/Add", "Node/UpdateNodeLabel", "Node/UpdateNodeAllocatable"),
        *("TargetPod/UpdatePodGeneratedResourceClaim", "resource.k8s.io/ResourceClaim/All"),
        *(f"resource.k8s.io/{kind}/{action}" for kind in KINDS[1:] for action in ("Add", "Update")),
    }


def test_a_change_of_a_claim_is_about_the_pods_that_name_it_unless_devices_are_free_again() -> None:
    (keys,) = (each.keys for each in DEVICE_EVENTS if each.event.resource.endswith("/ResourceClaim"))
    assert keys is not None
    made = [{"name": "x", "resourceClaimName": "made"}, {"name": "y"}]
    pod = claiming(a_pod("p", namespace="team", status={"resourceClaimStatuses": made}), "c")
    assert sorted(map(str, keys.of_pod(pod))) == ["team/c", "team/made"]
    assert list(keys.of_pod(a_pod("p"))) == []
    free, given = a_claim("c"), a_claim("c", status=GIVEN)
    cluster = Cluster()
    assert list(keys.of_change(Change(None, free, cluster)) or ()) == ["default/c"]
    assert list(keys.of_change(Change(free, given, cluster)) or ()) == ["default/c"]
    assert keys.of_change(Change(given, free, cluster)) is None
    assert keys.of_change(Change(given, None, cluster)) is None
    assert list(keys.of_change(Change(free, None, cluster)) or ()) == []


def test_a_claim_concerns_pods_with_claims_or_extended_resources() -> None:
    assert not DynamicResources.concerns(a_pod("p", cpu="1"))
    assert DynamicResources.concerns(claiming(a_pod("p"), "c"))
    assert DynamicResources.concerns(a_pod("p", requests={GPU: 1}))


# ---- what claims ask for


def test_gates_switch_features_one_by_one() -> None:
    names = {
        "DRAPartitionableDevices": "partitionable",
        "DRADeviceTaints": "taints",
        "DRAConsumableCapacity": "consumable_capacity",
        "DRADeviceBindingConditions": "binding_conditions",
        "DRAFractionalCapacityRange": "fractional_ranges",
    }
    alpha = {
        "DRAListTypeAttributes": "list_attributes",
        "DRADerivedAttributes": "derived_attributes",
        "DRADeviceCompatibilityGroups": "compatibility_groups",
        "DRAOptionalNodeOperations": "optional_node_operations",
        "DRANodeAllocatableResources": "node_resources",
    }
    for gate, feature in names.items():
        assert DeviceFeatures.of({gate: False}) == DeviceFeatures(**{feature: False})
    for gate, feature in alpha.items():
        chosen = DeviceFeatures.of({gate: True})
        assert chosen == DeviceFeatures(**{feature: True})
        assert chosen.is_experimental is (feature != "node_resources")
    assert not DeviceFeatures().is_experimental


def test_a_request_is_read_with_all_that_it_says() -> None:
    toleration = {"key": "sick", "operator": "Exists"}
    rich = an_ask(3, "x", "y", adminAccess=True, tolerations=[toleration], capacity={"requests": {"memory": "1Gi"}})
    claim = a_claim("c", rich, [an_ask(mode="All"), an_ask(2)], constraints=[{"matchAttribute": "a/b"}])
    demand = read_demand([a_claim("b"), claim], {"gpu": a_class("gpu", "of class")}.get)
    asks = demand[1]
    assert [each.match_attribute for each in asks.constraints] == ["a/b"] and not demand[0].constraints
    ((first,), (all_, two)) = asks.requests
    assert (first.claim, first.name, first.parent, first.full_name, first.base_name) == (1, "r0", "", "r0", "r0")
    assert (first.preference, first.class_name, first.class_selectors) == (0, "gpu", ("of class",))
    assert (first.selectors, first.count, first.has_admin_access, first.wants_all) == (("x", "y"), 3, True, False)
    assert ([each.key for each in first.tolerations], first.capacity) == (["sick"], {"memory": "1Gi"})
    assert (two.claim, two.name, two.parent, two.full_name, two.base_name) == (1, "s1", "r1", "r1/s1", "r1")
    assert (all_.preference, all_.wants_all, two.preference, two.count) == (0, True, 1, 2)
    assert (two.has_admin_access, two.tolerations, two.capacity) == (False, (), None)


@pytest.mark.parametrize(
    ("ask", "fault"),
    [
        (an_ask(), None),
        (an_ask(mode="All"), None),
        (an_ask(device_class=""), ", request r0: missing device class name (unsupported request type?)"),
        (
            an_ask(device_class="x"),
            ', request r0: could not retrieve device class x: deviceclass.resource.k8s.io "x" not found',
        ),
        (an_ask(mode="Some"), ", request r0: unsupported count mode Some"),
        (
            {**an_ask(device_class=""), "selectors": [{"cel": {"expression": "true"}}, {}]},
            ", request r0, selector #1: CEL expression empty (unsupported selector type?)",
        ),
    ],
)
def test_the_first_fault_of_a_request_is_told(ask: JsonObject, fault: str | None) -> None:
    assert read_demand([a_claim("c", ask)], {"gpu": a_class()}.get)[0].requests[0][0].fault == fault


def test_an_error_names_the_claim_that_it_is_about() -> None:
    claims = [a_claim("a"), a_claim("b")]
    assert Fatal(": bad", 1).describe(claims) == "claim default/b: bad"
    assert Fatal(": bad", 0).describe(claims) == "claim default/a: bad"
    assert Fatal("bad").describe(claims) == "bad" == str(Fatal("bad", 1))
