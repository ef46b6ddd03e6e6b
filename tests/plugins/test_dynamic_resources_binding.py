"""From the choice of a node to a bound pod: what is written of claims, what goes wrong on the way, and what is undone."""

from typing import Any

import msgspec

from build import a_node, a_pod
from device_building import DRIVER, a_claim, a_class, a_device, a_slice, claiming, given
from late_claims import LateClaims
from mooring.framework.contract.intents import Bind, Record, Write
from mooring.kit.clock import NS_PER_S
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod

FINALIZER = "resource.kubernetes.io/delete-protection"
EXTENDED = "example.com/gpu"


def a_late(*items: Any, device: dict[str, Any] | None = None) -> LateClaims:
    """A node with one device; all is shown."""
    late = LateClaims()
    late.put(a_node("a"))
    late.put(a_slice("s", device or a_device("d0"), node="a"))
    late.put(a_class("gpu", extendedResourceName=EXTENDED))
    for item in items:
        late.put(item)
    while late.unseen:
        late.show()
    return late


def a_pod_with(*names: str, name: str = "p", **content: Any) -> Pod:
    pod = a_pod(name, metadata={"uid": f"pod-{name}"}, schedulerName="default-scheduler", **content)
    return claiming(pod, *names)


def claim_in(late: LateClaims, name: str = "c") -> ResourceClaim:
    claim = late.store[ResourceClaim, f"default/{name}"]
    assert isinstance(claim, ResourceClaim)
    return claim


def pod_in(late: LateClaims, name: str = "p") -> Pod:
    pod = late.store[Pod, f"default/{name}"]
    assert isinstance(pod, Pod)
    return pod


def pending(late: LateClaims) -> set[str]:
    return late.scheduler.core.cluster.claims.pending_ids()


def wait(late: LateClaims, seconds: int) -> None:
    for _ in range(seconds):
        late.second()
        late.settle()


def error_of(late: LateClaims, name: str = "p") -> str:
    """Why the last attempt of a pod failed, as its status is asked to say."""
    return late.told[f"default/{name}"]


def test_finalizer_then_allocation_and_reservation() -> None:
    late = a_late(a_claim("c"), a_pod_with("c"))
    late.attempt()
    (first,) = late.wanted
    assert isinstance(first, Write)
    assert (first.method, first.subresource) == ("PATCH", "")
    assert first.body == {"metadata": {"finalizers": [FINALIZER], "resourceVersion": "4"}}
    late.carry_out()
    late.answer()
    (second,) = late.wanted
    assert isinstance(second, Write) and isinstance(second.body, dict)
    assert second.subresource == "status"
    status = second.body["status"]
    assert status["allocation"]["allocationTimestamp"] == "2026-02-01T00:00:00Z"
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "pod-p"}]
    assert pending(late) == {"uid-c"}
    late.carry_out()
    late.answer()
    assert pending(late) == set()
    assert isinstance(late.wanted[0], Bind)
    late.settle()
    assert pod_in(late).spec.node_name == "a"
    assert given(claim_in(late)) == ["r0=a/d0"]


def test_an_allocation_is_known_before_the_watch_shows_it() -> None:
    late = a_late(a_claim("c"), a_claim("d"), a_pod_with("c"), a_pod_with("d", name="q"))
    late.attempt()
    for _ in range(2):
        late.carry_out()
        late.answer()
    late.attempt()
    assert pending(late) == set()
    assert [type(each) for each in late.wanted] == [Bind], "the second pod gets nothing"


def test_a_claim_that_is_allocated_is_only_reserved() -> None:
    late = a_late(a_claim("c"), a_pod_with("c"), a_pod_with("c", name="q"))
    late.settle()
    wait(late, 3)
    assert [user.uid for user in claim_in(late).status.reserved_for or ()] == ["pod-p", "pod-q"]
    assert pod_in(late, "q").spec.node_name == "a"


def test_a_conflict_is_tried_again() -> None:
    late = a_late(a_claim("c"), a_pod_with("c"))
    late.attempt()
    late.put(
        msgspec.structs.replace(
            claim_in(late), metadata=msgspec.structs.replace(claim_in(late).metadata, labels={"x": "y"})
        )
    )
    late.settle()
    assert not pod_in(late).spec.node_name, "the write is tried again after a pause"
    wait(late, 1)
    assert pod_in(late).spec.node_name == "a"
    assert claim_in(late).labels == {"x": "y"}


def changed_meanwhile(change: Any) -> str:
    """What is said when a claim changes while it is being written."""
    late = a_late(a_claim("c"), a_pod_with("c"))
    late.attempt()
    change(late)
    late.settle(lambda: "default/p" in late.told)
    if "default/p" not in late.told:
        late.second()
        late.settle(lambda: "default/p" in late.told)
    assert pending(late) == set()
    return error_of(late)


def test_a_claim_that_is_deleted_meanwhile() -> None:
    text = 'running PreBind plugin "DynamicResources": add finalizer to claim default/c: resourceclaim "c" not found'
    assert changed_meanwhile(lambda late: late.delete(ResourceClaim, "default/c")) == text


def test_a_claim_that_is_marked_meanwhile() -> None:
    def mark(late: LateClaims) -> None:
        metadata = msgspec.structs.replace(claim_in(late).metadata, finalizers=["x"])
        late.put(msgspec.structs.replace(claim_in(late), metadata=metadata))
        late.delete(ResourceClaim, "default/c")

    text = 'running PreBind plugin "DynamicResources": claim default/c got deleted in the meantime'
    assert changed_meanwhile(mark) == text


def test_another_claim_of_that_name() -> None:
    def replace(late: LateClaims) -> None:
        late.delete(ResourceClaim, "default/c")
        late.put(a_claim("c", metadata={"uid": "another"}))

    text = 'running PreBind plugin "DynamicResources": claim default/c got deleted in the meantime'
    assert changed_meanwhile(replace) == text


def test_a_claim_that_is_allocated_meanwhile() -> None:
    def allocate(late: LateClaims) -> None:
        status: dict[str, Any] = {"allocation": {"devices": {"results": []}}}
        late.put(msgspec.structs.replace(claim_in(late), status=a_claim(status=status).status))

    text = 'running PreBind plugin "DynamicResources": claim default/c got allocated elsewhere in the meantime'
    assert changed_meanwhile(allocate) == text


def test_a_pod_that_goes_while_its_claim_is_written() -> None:
    """Nobody knows whether the write was carried out until the answer comes, so the device stays taken."""
    late = a_late(a_claim("c"), a_claim("d"), a_pod_with("c"), a_pod_with("d", name="q"))
    late.attempt()
    late.carry_out()
    late.answer()
    late.delete(Pod, "default/p")
    while late.unseen:
        late.show()
    assert pending(late) == {"uid-c"}
    late.attempt()
    assert len(late.wanted) == 1, "only what was on its way"
    late.settle()
    assert pending(late) == set()
    assert given(claim_in(late)) == ["r0=a/d0"]


def test_a_reservation_is_given_back_when_binding_fails() -> None:
    late = a_late(a_claim("c"), a_pod_with("c"))
    late.settle(lambda: bool(late.wanted) and isinstance(late.wanted[0], Bind))
    late.carry_out(refuse=True)
    late.settle(lambda: bool(late.wanted))
    (patch,) = late.wanted
    assert isinstance(patch, Write)
    assert (patch.form, patch.subresource) == ("strategic", "status")
    assert patch.body == {
        "metadata": {"uid": "uid-c"},
        "status": {"reservedFor": [{"$patch": "delete", "uid": "pod-p"}]},
    }
    late.carry_out()
    assert not claim_in(late).status.reserved_for
    wait(late, 3)
    assert pod_in(late).spec.node_name == "a"
    assert [user.uid for user in claim_in(late).status.reserved_for or ()] == ["pod-p"]


# ---- devices that must be prepared

SLOW = a_device("d0", bindingConditions=["ready"], bindingFailureConditions=["broken"])


def report(late: LateClaims, condition: str) -> None:
    """The driver says something of the device."""
    conditions = [{"type": condition, "status": "True", "reason": "Why", "message": "so"}]
    device = {"driver": DRIVER, "pool": "a", "device": "d0", "conditions": conditions}
    reported = a_claim(status={"devices": [device]}).status.devices
    claim = claim_in(late)
    late.put(msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, devices=reported)))


def test_a_pod_waits_until_its_device_is_prepared() -> None:
    late = a_late(a_claim("c"), a_pod_with("c"), device=SLOW)
    late.settle()
    wait(late, 20)
    assert pod_in(late).spec.node_name == ""
    note = "waiting for binding conditions for device on node a"
    assert [(each.reason, each.note) for each in late.events] == [("BindingConditionsPending", note)]
    assert all(isinstance(each, Record) and each.type == "Normal" for each in late.events)
    report(late, "ready")
    late.settle()
    assert pod_in(late).spec.node_name == "a"


def test_a_device_that_cannot_be_prepared() -> None:
    late = a_late(a_claim("c"), a_pod_with("c"), device=SLOW)
    late.settle()
    report(late, "broken")
    late.settle(lambda: "default/p" in late.told)
    assert error_of(late) == (
        'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=Why, message="so"'
    )
    wait(late, 3)
    assert error_of(late).startswith(
        "0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, "
    )
    wait(late, 10)
    assert claim_in(late).status.allocation is not None, "it is allocated anew"


def test_a_device_that_is_not_prepared_in_time() -> None:
    late = a_late(a_claim("c"), a_pod_with("c"), device=SLOW)
    late.settle()
    late.clock.advance_ns(601 * NS_PER_S)
    wait(late, 1)
    assert error_of(late) == 'running PreBind plugin "DynamicResources": device binding timeout: claim=c'


# ---- extended resources


def a_claim_of(late: LateClaims) -> ResourceClaim:
    (claim,) = late.claims()
    return claim


def test_devices_serve_an_extended_resource() -> None:
    late = a_late(a_pod_with(requests={EXTENDED: 1, "cpu": 1}))
    late.settle()
    claim, pod = a_claim_of(late), pod_in(late)
    assert pod.spec.node_name == "a"
    assert claim.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert claim.name.startswith("p-extended-resources-")
    assert given(claim) == ["container-0-request-1=a/d0"]
    assert msgspec.to_builtins(pod.status.extended_resource_claim_status) == {
        "requestMappings": [
            {"containerName": "main", "resourceName": EXTENDED, "requestName": "container-0-request-1"}
        ],
        "resourceClaimName": claim.name,
    }
    assert pending(late) == set()


def test_a_claim_for_nothing_is_deleted() -> None:
    late = a_late(a_pod_with(requests={EXTENDED: 1}))
    late.settle(lambda: bool(late.wanted) and isinstance(late.wanted[0], Bind))
    late.delete(Pod, "default/p")
    late.settle()
    assert late.claims() == []
    assert pending(late) == set()


def test_a_claim_that_is_left_from_before_is_deleted_first() -> None:
    owner = {"kind": "Pod", "name": "p", "uid": "pod-p", "controller": True}
    marks = {"resource.kubernetes.io/extended-resource-claim": "true"}
    old = a_claim("old", metadata={"annotations": marks, "ownerReferences": [owner], "finalizers": [FINALIZER]})
    late = a_late(old, a_pod_with(requests={EXTENDED: 1}))
    late.attempt()
    assert error_of(late).startswith(
        "0/1 nodes are available: 1 cannot schedule extended resource claim. deletion of ResourceClaim completed, "
    )
    late.settle()
    assert late.claims() == []


def test_a_node_that_has_the_resource_itself_needs_no_devices() -> None:
    late = a_late(a_pod_with(requests={EXTENDED: 1}))
    late.put(a_node("a", allocatable={EXTENDED: 1}))
    late.show()
    late.settle()
    assert pod_in(late).spec.node_name == "a"
    assert late.claims() == []


def test_a_claim_and_a_resource_beside_each_other() -> None:
    device = a_device("d0", allowMultipleAllocations=True)
    late = a_late(a_claim("c"), a_pod_with("c", requests={EXTENDED: 1}), device=device)
    late.settle()
    assert pod_in(late).spec.node_name == "a"
    assert sorted(given(claim)[0] for claim in late.claims()) == ["container-0-request-0=a/d0", "r0=a/d0"]


# ---- a server in trouble


def a_late_whose_reservation_is_lost() -> LateClaims:
    """The server has reserved the claim, and its answer was lost."""
    late = a_late(a_claim("c"), a_pod_with("c"))
    late.attempt()
    late.carry_out()
    late.answer()
    late.carry_out(lose=True)
    late.answer()
    return late


def test_a_write_that_was_carried_out_though_the_answer_was_lost() -> None:
    late = a_late_whose_reservation_is_lost()
    assert pending(late) == {"uid-c"}
    assert late.wanted == [], "it waits a second"
    wait(late, 2)
    assert pod_in(late).spec.node_name == "a"
    assert [user.uid for user in claim_in(late).status.reserved_for or ()] == ["pod-p"]


def test_a_server_that_never_does_it() -> None:
    late = a_late(a_claim("c"), a_pod_with("c"))
    late.attempt()
    for _ in range(5):
        late.settle(lambda: bool(late.wanted) and isinstance(late.wanted[0], Write) and bool(late.wanted[0].body))
        late.carry_out(refuse=True)
        late.answer()
        late.second()
    late.settle(lambda: "default/p" in late.told)
    assert error_of(late) == 'running PreBind plugin "DynamicResources": add finalizer to claim default/c: no time'
    assert pending(late) == set()


def test_a_pod_that_goes_while_nobody_knows() -> None:
    late = a_late_whose_reservation_is_lost()
    late.delete(Pod, "default/p")
    while late.unseen[1:]:
        late.show()
    assert pending(late) == {"uid-c"}
    late.settle()
    assert pending(late) == set()
    assert given(claim_in(late)) == ["r0=a/d0"]
