"""Claims that belong to a pod group (gate DRAWorkloadResourceClaims): they are reserved for the group, not for its pods."""

from typing import Any

import msgspec
import pytest

from build import a_node
from claim_world import ClaimWorld
from device_building import a_claim, a_class, a_device, a_slice, an_allocation, claiming, given
from gangs import GROUP_GATES, a_group, a_member
from late_claims import LateClaims
from mooring.framework.config.feature_gates import EFFECTIVE
from mooring.model.devices import ClaimConsumer, ResourceClaim
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup

GATES = {**GROUP_GATES, "DRAWorkloadResourceClaims": True}
GROUP_ENTRY = ClaimConsumer("scheduling.k8s.io", "podgroups", "gang", "uid-gang")
OWNED = {
    "ownerReferences": [
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "name": "gang",
            "uid": "uid-gang",
            "controller": True,
        }
    ]
}


def a_claiming_group(*claims: dict[str, str], min_count: int | None = None, **status: Any) -> PodGroup:
    group = msgspec.to_builtins(a_group(min_count=min_count))
    group["metadata"]["uid"] = "uid-gang"
    group["spec"]["resourceClaims"] = [*claims] or [{"name": "shared", "resourceClaimName": "shared"}]
    return msgspec.convert({**group, "status": status}, PodGroup)


def a_template_pod(name: str, claim: str) -> Pod:
    """A member whose entry comes from a template; the controller has named the claim already."""
    pod = msgspec.to_builtins(a_member(name))
    pod["spec"]["resourceClaims"] = [{"name": "shared", "resourceClaimTemplateName": "template"}]
    pod["status"] = {"resourceClaimStatuses": [{"name": "shared", "resourceClaimName": claim}]}
    return msgspec.convert(pod, Pod)


def users_of(world: ClaimWorld, name: str = "shared") -> list[ClaimConsumer]:
    return list(world.claim(name).status.reserved_for or ())


def test_the_gate_has_an_effect() -> None:
    assert "DRAWorkloadResourceClaims" in EFFECTIVE


@pytest.mark.parametrize("min_count", [3, None], ids=["gang", "basic group"])
def test_a_claim_of_the_group_is_reserved_for_the_group_once(min_count: int | None) -> None:
    world = ClaimWorld(gates=GATES)
    world.driver.create(a_claiming_group(min_count=min_count))
    world.claimants("p0", "p1", "p2")
    world.wait(10)
    assert world.where() == {"p0": "a", "p1": "a", "p2": "a"}
    assert users_of(world) == [GROUP_ENTRY]
    world.claimants("late")
    world.wait(10)
    assert world.where()["late"] == "a"
    assert users_of(world) == [GROUP_ENTRY]


def test_without_the_gate_the_claim_is_reserved_for_the_pods() -> None:
    world = ClaimWorld(gates=GROUP_GATES)
    world.driver.create(a_claiming_group(min_count=2))
    world.claimants("p0", "p1")
    world.wait(10)
    assert users_of(world) == [ClaimConsumer("", "pods", name, f"uid-{name}") for name in ("p0", "p1")]


def test_more_pods_than_reservedfor_has_room_for_use_the_claim_of_a_group() -> None:
    world = ClaimWorld(cpu="600", gates=GATES)
    world.driver.create(a_claiming_group())
    world.claimants(*(f"p{i}" for i in range(300)), cpu="10m")
    world.wait(10)
    assert sum(node == "a" for node in world.where().values()) == 110, "as many pods as the node may have"
    assert users_of(world) == [GROUP_ENTRY]


def test_other_claims_of_the_pods_are_reserved_for_the_pods() -> None:
    world = ClaimWorld(2, a_claim("shared"), a_claim("own"), gates=GATES)
    world.driver.create(a_claiming_group())
    world.claimants("p0", "p1", claims=("own", "shared"))
    world.wait(10)
    assert users_of(world, "shared") == [GROUP_ENTRY]
    assert {each.name for each in users_of(world, "own")} == {"p0", "p1"}


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "another", "resourceClaimName": "shared"},
        {"name": "shared", "resourceClaimName": "another"},
        {"name": "shared", "resourceClaimTemplateName": "shared"},
    ],
    ids=["another name", "another claim", "a template"],
)
def test_an_entry_is_the_groups_only_if_name_and_source_are_the_same(entry: dict[str, str]) -> None:
    world = ClaimWorld(gates=GATES)
    world.driver.create(a_claiming_group(entry))
    world.claimants("p0")
    world.wait(10)
    assert [each.name for each in users_of(world)] == ["p0"]


def test_a_claim_that_was_made_for_the_group_from_a_template_is_used() -> None:
    world = ClaimWorld(1, a_claim("made", metadata=OWNED), gates=GATES)
    made = [{"name": "shared", "resourceClaimName": "made"}]
    entry = {"name": "shared", "resourceClaimTemplateName": "template"}
    world.driver.create(a_claiming_group(entry, resourceClaimStatuses=made))
    world.driver.create(a_template_pod("p0", "made"))
    world.wait(10)
    assert world.where() == {"p0": "a"}
    assert users_of(world, "made") == [GROUP_ENTRY]


@pytest.mark.parametrize(
    ("gates", "owner", "said"),
    [
        (GATES, "other", "neither Pod nor PodGroup gang is the owner"),
        (GROUP_GATES, "gang", "Pod is not owner"),
    ],
    ids=["of another group", "of the group, without the gate"],
)
def test_a_claim_that_was_made_for_others_is_not_used(gates: dict[str, bool], owner: str, said: str) -> None:
    metadata = {"ownerReferences": [{**OWNED["ownerReferences"][0], "name": owner}]}
    world = ClaimWorld(1, a_claim("made", metadata=metadata), gates=gates)
    world.driver.create(a_claiming_group())
    world.driver.create(a_template_pod("p0", "made"))
    world.wait(2)
    assert world.gate("p0") == f"ResourceClaim default/made was not created for Pod default/p0 ({said})"


def test_an_allocated_claim_that_the_group_has_already_is_not_written_again() -> None:
    world = ClaimWorld(1, _allocated_claim("a", GROUP_ENTRY), gates=GATES)
    before = world.claim().metadata.resource_version
    world.driver.create(a_claiming_group())
    world.claimants("p0")
    world.wait(5)
    assert world.where() == {"p0": "a"}
    assert world.claim().metadata.resource_version == before


def test_a_bind_that_fails_leaves_the_group_in_reservedfor() -> None:
    late = LateClaims(**GATES)
    for item in (a_node("a"), a_class(), a_slice("a", a_device("dev-0"), node="a"), a_claim("shared")):
        late.put(item)
    late.put(a_claiming_group())
    late.put(claiming(a_member("p0"), "shared"))
    late.settle(lambda: any(type(intent).__name__ == "Bind" for intent in late.wanted))
    late.delete(Pod, "default/p0")
    late.settle()
    (claim,) = late.claims()
    assert claim.status.reserved_for == [GROUP_ENTRY]
    assert given(claim) == ["r0=a/dev-0"]


# ---- PodGroupPostFilter: devices on the wrong node


def test_the_group_gives_its_claim_back_if_no_member_can_go_there() -> None:
    world = _stuck(GROUP_ENTRY)
    world.claimants("p0", "p1")
    assert (users_of(world), world.claim().status.allocation) == ([], None)
    world.wait(30)
    assert (world.where()["p0"], world.where()["p1"]) == ("a", "a"), "the devices were freed, and others found"
    assert given(world.claim()) == ["r0=a/dev-0"]
    assert users_of(world) == [GROUP_ENTRY]


def test_the_devices_of_a_claim_that_the_group_does_not_have_are_freed_at_once() -> None:
    world = _stuck()
    world.claimants("p0")
    world.wait(30)
    assert world.where()["p0"] == "a"
    assert given(world.claim()) == ["r0=a/dev-0"]


def test_the_group_keeps_its_claim_while_a_member_has_a_node() -> None:
    world = _stuck(GROUP_ENTRY)
    world.driver.create(a_member("there", nodeName="b"))
    world.claimants("p0")
    world.wait(30)
    assert world.said("p0") == "0/2 nodes are available: 1 Insufficient cpu, 1 resourceclaim not available on the node."
    assert users_of(world) == [GROUP_ENTRY]


def test_without_the_gate_the_group_keeps_its_claim() -> None:
    world = _stuck(GROUP_ENTRY, gates=GROUP_GATES)
    world.claimants("p0")
    world.wait(30)
    assert world.where() == {"full": "b"}
    assert users_of(world) == [GROUP_ENTRY]


def test_a_claim_of_the_pod_is_freed_before_one_of_the_group() -> None:
    own = _allocated_claim("b", name="own", device="far/dev-8")
    world = _stuck(GROUP_ENTRY, more=(own,))
    world.claimants("p0", claims=("shared", "own"))
    assert world.claim("own").status.allocation is None
    assert users_of(world) == [GROUP_ENTRY]


def group_message(world: ClaimWorld) -> str:
    return world.group_says()[0][3] or ""


def test_v137_17_11_groups_that_free_nothing_say_that_they_did() -> None:
    world = _stuck(GROUP_ENTRY, gates=GROUP_GATES)
    world.pod("low", cpu="1", priority=-10)
    world.claimants("p0")
    assert "deallocation and deletion of ResourceClaims completed, pod group preemption: " in group_message(world)


def test_v137_17_11_if_no_member_was_tried_there_is_no_state_of_claims() -> None:
    """Parity: the group fails with an error, and preemption is not asked."""
    world = ClaimWorld(gates=GATES)
    world.driver.create(a_group(min_count=2))
    for name in ("p0", "p1"):
        world.driver.create(
            a_member(name, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"} if name == "p0" else {})
        )
    world.driver.settle()
    assert world.group_says() == [
        (
            "PodGroupInitiallyScheduled",
            "False",
            "SchedulerError",
            'error in "DynamicResources" PodGroupPostFilter plugins: not found',
        )
    ]


def _allocated_claim(node: str, *users: ClaimConsumer, name: str = "shared", device: str = "a/dev-0") -> ResourceClaim:
    status = {"allocation": an_allocation(device, node=node), "reservedFor": msgspec.to_builtins(list(users))}
    return a_claim(name, status=status)


def _stuck(*users: ClaimConsumer, gates: dict[str, bool] = GATES, more: tuple[ResourceClaim, ...] = ()) -> ClaimWorld:
    """The claim has a device of node b, which has no room."""
    world = ClaimWorld(2, _allocated_claim("b", *users, device="far/dev-9"), *more, gates=gates)
    world.driver.create(a_claiming_group())
    world.pod("full", cpu="32", nodeName="b")
    return world


def test_a_pod_whose_group_is_gone_waits_for_it() -> None:
    world = ClaimWorld(gates=GATES)
    world.claimants("p0")
    world.wait(2)
    assert (world.said("p0"), world.place("p0")) == ("", "incomplete")


def test_a_claim_of_the_group_without_a_source_is_an_error_of_the_group() -> None:
    world = ClaimWorld(gates=GATES)
    world.driver.create(a_claiming_group({"name": "shared"}))
    world.claimants("p0")
    world.wait(2)
    where = "PodGroup default/gang, spec.resourceClaim shared: none of the supported fields are set"
    assert world.said("p0") == f'error in "DynamicResources" PodGroupPostFilter plugins: {where}'


def test_a_claim_of_the_group_is_given_back_by_nobody_but_the_group() -> None:
    """The pods end: only the controller takes the group out, when the group is gone."""
    world = ClaimWorld(gates=GATES)
    world.driver.create(a_claiming_group())
    world.claimants("p0", "p1")
    world.wait(10)
    world.delete("p0")
    world.delete("p1")
    world.wait(10)
    assert users_of(world) == [GROUP_ENTRY]
    assert given(world.claim()) == ["r0=a/dev-0"]
