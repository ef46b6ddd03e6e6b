"""Members of a pod group that share a ResourceClaim which has no devices yet: one allocation serves them all."""

from typing import Any

import pytest

from build import a_node, a_pod
from claim_world import ClaimWorld
from device_building import a_claim, a_class, a_device, a_slice, an_ask, claiming, given
from gangs import a_group, a_member
from late_claims import LateClaims
from mooring.framework.contract.intents import Write
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup

GATES = {"GenericWorkload": True}


def names(count: int) -> list[str]:
    return [f"p{i:02d}" for i in range(count)]


@pytest.mark.parametrize(
    ("pods", "min_count"),
    [(2, 2), (20, 20), (5, 2), (2, None), (20, None)],
    ids=["gang of 2", "gang of 20", "5 members of which 2 must go", "basic group of 2", "basic group of 20"],
)
def test_members_share_a_claim_that_has_no_devices_yet(pods: int, min_count: int | None) -> None:
    world = ClaimWorld()
    world.group(min_count=min_count)
    world.claimants(*names(pods))
    world.wait(20)
    assert world.where() == dict.fromkeys(names(pods), "a"), "the device is on node a"
    assert given(world.claim()) == ["r0=a/dev-0"]
    assert world.users() == set(names(pods))
    assert not world.core.cluster.claims.pending_ids()


@pytest.mark.parametrize(
    ("spec", "placed"),
    [
        pytest.param({"allNodes": True}, {"p0", "p1"}, id="a device of all nodes"),
        pytest.param({"node": "a"}, set(), id="a device of one node"),
    ],
)
def test_v137_17_11_members_share_an_allocation_where_its_node_selector_lets_them(
    spec: dict[str, Any], placed: set[str]
) -> None:
    """Each node has room for one member, and the device is allocated in the cycle of the group."""
    world = ClaimWorld(0, a_claim("shared"), cpu="1")
    world.driver.create(a_slice("more", a_device("dev-0"), pool="more", **spec))
    world.group(min_count=2)
    world.claimants("p0", "p1")
    world.wait(10)
    assert set(world.where()) == placed
    assert world.users() == placed
    if not placed:
        assert "1 resourceclaim not available on the node" in world.said("p1")


def test_each_member_may_have_a_claim_of_its_own_beside_the_shared_one() -> None:
    world = ClaimWorld(3, a_claim("own-1"), a_claim("shared"), a_claim("own-0"))
    world.group(min_count=2)
    for i in range(2):
        world.driver.create(claiming(a_member(f"p{i}"), f"own-{i}", "shared"))
    world.wait(10)
    assert world.where() == {"p0": "a", "p1": "a"}
    devices = [given(world.claim(name)) for name in ("own-0", "shared", "own-1")]
    assert sorted(devices) == [["r0=a/dev-0"], ["r0=a/dev-1"], ["r0=a/dev-2"]]
    assert [world.users(name) for name in ("own-0", "shared", "own-1")] == [{"p0"}, {"p0", "p1"}, {"p1"}]


def test_a_gang_that_does_not_fit_gives_the_devices_back() -> None:
    world = ClaimWorld(cpu="2")
    world.group(min_count=3)
    world.claimants("p0", "p1", "p2")
    assert world.where() == {}
    assert not world.core.cluster.claims.pending_ids()
    assert world.claim().status.allocation is None
    assert world.core.cluster.claims.exclusive == {}
    assert world.said("p2") == "0/2 nodes are available: 1 Insufficient cpu, 1 resourceclaim not available on the node."
    world.driver.create(_alone())
    world.wait(3)
    assert world.where() == {"alone": "a"}, "the devices are free for others"


def test_a_pod_outside_of_the_group_does_not_share_what_is_being_allocated() -> None:
    late = _two_members()
    late.put(_alone())
    _show_all(late)
    late.attempt()
    late.attempt()
    assert late.told["default/alone"].startswith(
        "0/1 nodes are available: resource claim default/shared is in the process of being allocated."
    )


def test_a_member_that_comes_later_does_not_share_either() -> None:
    late = _two_members()
    late.attempt()
    late.put(claiming(a_member("p2"), "shared"))
    _show_all(late)
    late.attempt()
    assert late.told["default/p2"].startswith(
        "0/1 nodes are available: resource claim default/shared is in the process of being allocated."
    )
    _wait(late, 10)
    assert {pod.name for pod in late.pods() if pod.spec.node_name} == {"p0", "p1", "p2"}


def test_one_write_carries_the_allocation_and_the_reservations_of_the_members() -> None:
    late = _two_members()
    late.attempt()
    _finalizer(late)
    assert _bodies(late) == [("allocation", ["p0", "p1"])]
    late.settle()
    assert {pod.name for pod in late.pods() if pod.spec.node_name} == {"p0", "p1"}


def test_another_member_writes_the_allocation_if_the_first_is_deleted() -> None:
    late = _two_members()
    late.attempt()
    late.delete(Pod, "default/p0")
    _wait(late, 10)
    (claim,) = late.claims()
    assert given(claim) == ["r0=a/dev-0"]
    assert [pod.spec.node_name for pod in late.pods()] == ["a"]
    assert "p1" in [each.name for each in claim.status.reserved_for or ()]
    assert not late.scheduler.core.cluster.claims.pending_ids()


def test_a_write_that_got_no_answer_keeps_the_devices_for_the_other_members() -> None:
    late = _two_members()
    late.attempt()
    _finalizer(late)
    late.carry_out(lose=True)  # the allocation is written, and no one knows
    late.delete(Pod, "default/p0")
    _show_all(late)
    assert late.scheduler.core.cluster.claims.pending_ids() == {"uid-shared"}
    _wait(late, 10)
    assert [pod.spec.node_name for pod in late.pods()] == ["a"]
    assert not late.scheduler.core.cluster.claims.pending_ids()


def _alone() -> Pod:
    pod = a_pod("alone", cpu="1", schedulerName="default-scheduler", metadata={"uid": "uid-alone"})
    return claiming(pod, "shared")


def _two_members() -> LateClaims:
    """A gang of two that shares a claim, and a device; nothing was attempted yet."""
    late = LateClaims(**GATES)
    for item in (a_node("a"), a_class(), a_slice("a", a_device("dev-0"), node="a"), a_claim("shared", an_ask())):
        late.put(item)
    late.put(a_group(min_count=2))
    for name in ("p0", "p1"):
        late.put(claiming(a_member(name), "shared"))
    _show_all(late)
    return late


def _wait(late: LateClaims, seconds: int) -> None:
    for _ in range(seconds):
        late.settle()
        late.second()
    late.settle()


def _show_all(late: LateClaims) -> None:
    while late.unseen:
        late.show()


def _finalizer(late: LateClaims) -> None:
    """The group's status and the finalizer of the claim are written: its allocation comes next."""
    late.carry_out()
    late.carry_out()
    late.answer()
    late.answer()


def _bodies(late: LateClaims) -> list[tuple[str, list[str]]]:
    """Writes of the claim's status that are on their way: what they write, and for which users."""
    found = []
    for intent in late.wanted:
        if isinstance(intent, Write) and intent.kind is ResourceClaim and isinstance(intent.body, dict):
            status = intent.body.get("status", {})
            users = [each["name"] for each in status.get("reservedFor", ())]
            found.append(("allocation" if "allocation" in status else "reservation", users))
    return found


def test_the_group_status_is_written_once_all_members_go() -> None:
    late = _two_members()
    late.settle()
    group = late.store[PodGroup, "default/gang"]
    assert isinstance(group, PodGroup)
    assert [(each.type, each.status) for each in group.status.conditions or ()] == [
        ("PodGroupInitiallyScheduled", "True")
    ]
