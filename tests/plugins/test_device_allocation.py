"""What is written of claims, word for word: devices, configuration, node selectors, and the patches that carry them."""

from typing import Any

import msgspec
import pytest

from build import a_pod
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, an_allocation, an_ask
from mooring.framework.contract.intents import Write
from mooring.model.devices import Allocation, ResourceClaim, ResourceClaimStatus
from mooring.model.pod import Pod
from mooring.model.pod_spec import RequestMapping
from mooring.plugins.devices.allocation import (
    BindingFailed,
    DeviceChoice,
    Pick,
    add_finalizer,
    allocated,
    allocation_of,
    create_extended,
    deallocate,
    delete_claim,
    give_back_reservation,
    is_overdue,
    is_prepared,
    must_be_prepared,
    name_extended,
    read_again,
    results_of,
    write_status,
)
from mooring.plugins.devices.device_capacity import Share
from mooring.plugins.devices.device_demand import read_demand
from mooring.plugins.devices.pools import view_of

PROTECTION = "resource.kubernetes.io/delete-protection"
SECOND_NS = 1_000_000_000


def a_pick(claim: ResourceClaim, device: dict[str, Any], request: int = 0, **spec: Any) -> Pick:
    ask = read_demand([claim], {"gpu": a_class()}.get)[0].requests[request][0]
    return Pick(ask, view_of(a_slice("s", device, **spec)).sites[0])


def written(claim: ResourceClaim, *picks: Pick, preferences: tuple[int, ...] = (0,), **classes: Any) -> Any:
    choice = DeviceChoice([(), picks], [[], list(preferences)])
    return msgspec.to_builtins(allocation_of(claim, choice, 1, "a", classes, "share-"))


# ---- one device


def test_a_device_is_written_with_no_more_than_was_asked_for() -> None:
    claim = a_claim("c")
    found = written(claim, a_pick(claim, a_device("d"), allNodes=True))
    assert found == {"devices": {"results": [{"request": "r0", "driver": DRIVER, "pool": "pool", "device": "d"}]}}


def test_a_device_is_written_with_all_that_was_asked_for() -> None:
    toleration = {"key": "sick", "operator": "Exists"}
    claim = a_claim("c", an_ask(), an_ask(adminAccess=True, tolerations=[toleration]))
    conditions: dict[str, Any] = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    pick = a_pick(claim, a_device("d", **conditions), request=1, allNodes=True)
    (result,) = written(claim, pick, preferences=(0, 0))["devices"]["results"]
    assert result == {
        "request": "r1",
        "driver": DRIVER,
        "pool": "pool",
        "device": "d",
        "adminAccess": True,
        "tolerations": [toleration],
        **conditions,
    }


def test_shares_have_numbers_of_twelve_hexadecimal_digits() -> None:
    claim = a_claim("c", an_ask(18))
    picks = [a_pick(claim, a_device(f"d{i}"), allNodes=True) for i in range(18)]
    for pick in picks[1:]:
        pick.shares = {"memory": Share(3, "3n")} if pick is picks[17] else {}
    results = written(claim, *picks)["devices"]["results"]
    assert [each.get("shareID") for each in results[:2]] == [None, "share-000000000001"]
    assert results[17]["shareID"] == "share-000000000011"
    assert [each.get("consumedCapacity") for each in results[:17]] == [None] * 17
    assert results[17]["consumedCapacity"] == {"memory": "3n"}


# ---- configuration


def a_config(say: str, *requests: str) -> dict[str, Any]:
    return {"requests": list(requests), "opaque": {"driver": DRIVER, "parameters": say}}


def told(found: Any) -> list[tuple[str, list[str], str]]:
    return [
        (each["source"], each.get("requests") or [], each["opaque"]["parameters"])
        for each in found["devices"].get("config") or ()
    ]


def test_configuration_of_the_claim_goes_to_the_requests_that_it_names_or_to_all() -> None:
    config = [a_config("all"), a_config("second", "r1"), a_config("none", "r9"), a_config("first", "r0")]
    claim = a_claim("c", an_ask(), an_ask(), config=config)
    assert told(written(claim, preferences=(0, 0), gpu=a_class())) == [
        ("FromClaim", [], "all"),
        ("FromClaim", ["r1"], "second"),
        ("FromClaim", ["r0"], "first"),
    ]


def test_an_alternative_is_meant_by_the_name_of_its_request() -> None:
    config = [a_config("x", "r0"), a_config("y", "r0/s0")]
    claim = a_claim("c", [an_ask(), an_ask()], an_ask(), config=config)
    assert told(written(claim, preferences=(1, 0), gpu=a_class())) == [("FromClaim", ["r0"], "x")]


COVERING: dict[str, tuple[list[str], tuple[int, ...], list[str] | None]] = {
    "some requests": (["r1"], (0, 0), ["r1"]),
    "all requests": (["r1", "r0"], (0, 0), []),
    "all requests, one by the alternative that was taken": (["r0/s1", "r1"], (1, 0), []),
    "all requests, one by another alternative": (["r0/s1", "r1"], (0, 0), ["r0/s1", "r1"]),
    "several alternatives of one request": (["r0/s0", "r0/s1"], (0, 0), ["r0/s0", "r0/s1"]),
    "alternatives that were not taken": (["r0/s1"], (0, 0), None),
    "requests that do not exist beside all": (["r0", "r1", "r9"], (0, 0), []),
}


@pytest.mark.parametrize(("named", "taken", "expected"), COVERING.values(), ids=COVERING.keys())
def test_v137_17_4_a_configuration_is_there_once_and_names_no_request_if_it_is_for_all(
    named: list[str], taken: tuple[int, ...], expected: list[str] | None
) -> None:
    claim = a_claim("c", [an_ask(), an_ask()], an_ask(), config=[a_config("x", *named)])
    found = told(written(claim, preferences=taken, gpu=a_class()))
    assert found == ([] if expected is None else [("FromClaim", expected, "x")])


def test_each_configuration_of_a_class_is_there_once_with_all_requests_of_the_class() -> None:
    opaque = [{"opaque": {"driver": DRIVER, "parameters": say}} for say in ("x", "y")]
    claim = a_claim("c", an_ask(), an_ask(device_class="gone"), an_ask(), an_ask(device_class="plain"))
    found = written(claim, preferences=(0, 0, 0, 0), gpu=a_class(config=opaque), plain=a_class("plain"))
    assert told(found) == [("FromClass", ["r0", "r2"], "x"), ("FromClass", ["r0", "r2"], "y")]


def test_a_request_of_no_known_kind_has_no_class() -> None:
    claim = a_claim("c", [], config=[a_config("x", "r0")])
    nameless: Any = {"": a_class("", config=[{"opaque": {"driver": DRIVER, "parameters": "nameless"}}])}
    assert told(written(claim, **nameless)) == [("FromClass", [], "nameless"), ("FromClaim", [], "x")]


# ---- where the devices can be used


def a_line(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def where(*terms: dict[str, Any], more: tuple[Pick, ...] = ()) -> Any:
    claim = a_claim("c", an_ask(len(terms)))
    picks = [a_pick(claim, a_device("d"), nodeSelector={"nodeSelectorTerms": [term]}) for term in terms]
    return written(claim, *picks, *more).get("nodeSelector")


def test_requirements_of_all_devices_are_joined_each_once() -> None:
    zone, same = a_line("zone", "y", "z"), a_line("zone", "z", "y")
    other_values, other_operator = a_line("zone", "z"), a_line("zone", "y", "z", operator="NotIn")
    other_key = a_line("rack", "y", "z")
    terms = [{"matchExpressions": [line]} for line in (zone, same, other_values, other_operator, other_key, zone)]
    assert where(*terms) == {
        "nodeSelectorTerms": [{"matchExpressions": [zone, other_values, other_operator, other_key]}]
    }


def test_requirements_on_fields_stay_apart_from_those_on_labels() -> None:
    field, label = a_line("metadata.name", "a", "b"), {"key": "gpu", "operator": "Exists"}
    assert where({"matchFields": [field]}) == {"nodeSelectorTerms": [{"matchFields": [field]}]}
    assert where({"matchFields": [field]}, {"matchFields": [field], "matchExpressions": [label]}) == {
        "nodeSelectorTerms": [{"matchFields": [field], "matchExpressions": [label]}]
    }


def test_one_device_of_a_node_ties_all_devices_to_that_node() -> None:
    claim = a_claim("c")
    own = a_pick(claim, a_device("own"), node="a")
    found = where({"matchExpressions": [a_line("zone", "z")]}, more=(own,))
    assert found == {"nodeSelectorTerms": [{"matchFields": [a_line("metadata.name", "a")]}]}


def test_a_slice_that_leaves_nodes_to_its_devices_says_nothing_itself() -> None:
    claim = a_claim("c")
    ignored = {"nodeSelectorTerms": [{"matchExpressions": [a_line("zone", "z")]}]}
    for_all = a_pick(claim, a_device("d", allNodes=True), perDeviceNodeSelection=True, nodeSelector=ignored)
    assert "nodeSelector" not in written(claim, for_all)
    named = a_pick(claim, a_device("d", nodeName="a", nodeSelector=ignored), allNodes=True)
    assert "nodeSelector" not in written(claim, named)


# ---- devices that are prepared

READY: dict[str, Any] = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def a_report(device: str, *conditions: dict[str, str], **more: str) -> dict[str, Any]:
    return {"driver": DRIVER, "pool": "pool", "device": device, "conditions": list(conditions), **more}


def is_true(name: str, **more: str) -> dict[str, str]:
    return {"type": name, "status": "True", **more}


def a_prepared(*reports: dict[str, Any], plain_first: bool = False, devices: tuple[str, ...] = ("d0",)) -> Any:
    allocation = an_allocation(*(f"pool/{name}" for name in devices), **READY)
    if plain_first:
        allocation["devices"]["results"].insert(0, an_allocation("pool/plain")["devices"]["results"][0])
    return a_claim("c", status={"allocation": allocation, "devices": list(reports)})


def test_a_device_that_needs_no_preparation_says_nothing_about_the_next() -> None:
    assert not is_prepared(a_prepared(plain_first=True))
    assert is_prepared(a_prepared(a_report("d0", is_true("ready")), plain_first=True))
    assert must_be_prepared(a_prepared(plain_first=True))
    assert is_prepared(a_claim("c", status={"allocation": an_allocation("pool/plain")}))
    assert not must_be_prepared(a_claim("c", status={"allocation": an_allocation("pool/plain")}))
    assert not must_be_prepared(a_claim("c"))


@pytest.mark.parametrize("other", [{"driver": "other.io"}, {"pool": "other"}, {"device": "other"}])
def test_what_is_reported_of_another_device_does_not_count(other: dict[str, str]) -> None:
    foreign = {**a_report("d0", is_true("ready")), **other}
    assert not is_prepared(a_prepared(foreign))
    assert is_prepared(a_prepared(foreign, a_report("d0", is_true("ready"))))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"reason": "Why", "message": "so"}, 'reason=Why, message="so"'),
        ({}, 'reason=, message=""'),
    ],
)
def test_a_failure_that_a_driver_reports_is_told_in_full(more: dict[str, str], why: str) -> None:
    claim = a_prepared(a_report("d0", is_true("ready"), is_true("broken", **more)))
    with pytest.raises(BindingFailed) as raised:
        is_prepared(claim)
    assert str(raised.value) == f"device binding failed: claim=c, {why}"


def test_a_failure_of_the_second_device_counts_only_after_the_first_is_prepared() -> None:
    second = a_report("d1", is_true("broken"))
    assert not is_prepared(a_prepared(second, devices=("d0", "d1")))
    with pytest.raises(BindingFailed):
        is_prepared(a_prepared(a_report("d0", is_true("ready")), second, devices=("d0", "d1")))


def test_the_time_counts_if_any_device_must_be_prepared() -> None:
    claim = a_prepared(plain_first=True)
    claim.status.allocation.allocation_timestamp = "1970-01-01T00:00:10Z"
    assert is_overdue(claim, 5 * SECOND_NS, 16 * SECOND_NS)
    assert not is_overdue(claim, 5 * SECOND_NS, 14 * SECOND_NS)


def test_a_claim_without_an_allocation_has_no_devices() -> None:
    assert list(results_of(a_claim("c"))) == []
    assert list(results_of(a_claim("c", status={"allocation": {}}))) == []
    assert [each.device for each in results_of(a_claim("c", status={"allocation": an_allocation("pool/d")}))] == ["d"]


# ---- writes


def told_of(write: Write) -> tuple[Any, ...]:
    return write.method, write.kind, write.namespace, write.name, write.subresource, write.form, write.body


CLAIM = a_claim("c", metadata={"resourceVersion": "7", "finalizers": ["mine"], "namespace": "team"})
BARE = a_claim("c", metadata={"uid": "", "namespace": "team"})


def test_a_patch_is_meant_for_the_version_that_is_known() -> None:
    head = ("PATCH", ResourceClaim, "team", "c")
    finalizers = {"finalizers": ["mine", PROTECTION], "resourceVersion": "7"}
    assert told_of(add_finalizer(CLAIM)) == (*head, "", "merge", {"metadata": finalizers})
    assert told_of(add_finalizer(BARE)) == (*head, "", "merge", {"metadata": {"finalizers": [PROTECTION]}})
    body = {"metadata": {"resourceVersion": "7"}, "status": {"x": 1}}
    assert told_of(write_status(CLAIM, {"x": 1})) == (*head, "status", "merge", body)
    gone = {"metadata": {}, "status": {"allocation": None, "reservedFor": None, "devices": None}}
    assert told_of(deallocate(BARE)) == (*head, "status", "merge", gone)
    assert told_of(read_again(CLAIM)) == (*head, "", "merge", {})


def test_a_reservation_is_taken_out_of_the_claim_with_this_uid_only() -> None:
    entries = {"reservedFor": [{"$patch": "delete", "uid": "pod-1"}]}
    head = ("PATCH", ResourceClaim, "team", "c", "status", "strategic")
    body = {"metadata": {"uid": "uid-c"}, "status": entries}
    assert told_of(give_back_reservation(CLAIM, "pod-1")) == (*head, body)
    assert told_of(give_back_reservation(BARE, "pod-1")) == (*head, {"metadata": {}, "status": entries})


def test_a_claim_that_is_allocated_is_protected_once() -> None:
    allocation = msgspec.convert(an_allocation("pool/d"), Allocation)
    claim = allocated(CLAIM, allocation)
    assert claim.status.allocation is allocation
    assert claim.metadata.finalizers == ["mine", PROTECTION]
    assert allocated(claim, allocation).metadata.finalizers == ["mine", PROTECTION]
    assert allocated(BARE, allocation).metadata.finalizers == [PROTECTION]
    assert (CLAIM.metadata.finalizers, CLAIM.status.allocation) == (["mine"], None)


def test_a_claim_for_extended_resources_gets_its_name_and_uid_from_the_server() -> None:
    status = {"allocation": an_allocation("pool/d")}
    claim = a_claim(
        "x", status=status, metadata={"finalizers": [PROTECTION], "generateName": "p-", "namespace": "team"}
    )
    write = create_extended(claim)
    assert told_of(write)[:5] == ("POST", ResourceClaim, "team", "", "")
    body = write.body
    assert isinstance(body, ResourceClaim)
    assert (body.name, body.uid, body.metadata.finalizers, body.metadata.generate_name) == ("", "", None, "p-")
    assert (body.status, body.spec) == (ResourceClaimStatus(), claim.spec)


def test_the_pod_is_told_which_claim_serves_its_containers() -> None:
    mapping = RequestMapping(container_name="main", resource_name="example.com/gpu", request_name="r0")
    write = name_extended(a_pod("p", namespace="team"), CLAIM, [mapping])
    mappings = [{"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r0"}]
    status = {"extendedResourceClaimStatus": {"requestMappings": mappings, "resourceClaimName": "c"}}
    assert told_of(write) == ("PATCH", Pod, "team", "p", "status", "merge", {"status": status})


def test_the_answers_to_both_writes_of_a_deletion_are_heard() -> None:
    heard: list[Any] = []
    writes = delete_claim(CLAIM, heard.append)
    for write in writes:
        assert write.late is not None
        write.late(None)
    assert heard == [None, None]
    assert told_of(writes[0]) == (
        "PATCH",
        ResourceClaim,
        "team",
        "c",
        "",
        "merge",
        {"metadata": {"finalizers": ["mine"]}},
    )
    assert told_of(writes[1]) == ("DELETE", ResourceClaim, "team", "c", "", "merge", None)
    assert [write.late for write in delete_claim(BARE)] == [None, None]
