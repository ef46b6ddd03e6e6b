"""Many pods share a claim: its writes go one after another, and each carries the reservations of all pods that wait."""

from typing import Any

from test_dynamic_resources_binding import a_late, a_pod_with, claim_in, pod_in, wait

from device_building import a_claim, an_allocation
from late_claims import LateClaims
from mooring.framework.contract.intents import Bind, Write
from mooring.model.devices import ResourceClaim
from mooring.plugins.devices.claim_work import MAX_CONSUMERS

ALLOCATION = {**an_allocation("a/d0"), "allocationTimestamp": "2026-02-01T00:00:00Z"}
SHARED = a_claim("c", status={"allocation": ALLOCATION})


def names(count: int) -> list[str]:
    return [f"p{i:03}" for i in range(count)]


def a_crowd(count: int, claim: ResourceClaim = SHARED) -> LateClaims:
    """Pods that share a claim, all of them decided; the first write of the claim is on its way."""
    late = a_late(claim, *(a_pod_with("c", name=name) for name in names(count)))
    for _ in range(count):
        late.attempt()
    return late


def writes(late: LateClaims) -> list[Any]:
    return [each.body for each in late.wanted if isinstance(each, Write)]


def users(late: LateClaims) -> list[str]:
    return [user.name for user in claim_in(late).status.reserved_for or ()]


def answered(late: LateClaims) -> None:
    """The write at the head of the line is carried out, and the scheduler hears of it."""
    late.carry_out(next(i for i, each in enumerate(late.wanted) if isinstance(each, Write)))
    late.answer()


def test_one_write_at_a_time_and_all_that_wait_in_the_next() -> None:
    late = a_crowd(5)
    (first,) = writes(late)
    assert [user["name"] for user in first["status"]["reservedFor"]] == ["p000"]
    answered(late)
    (second,) = writes(late)
    assert [user["name"] for user in second["status"]["reservedFor"]] == names(5)
    answered(late)
    assert not writes(late)
    assert [each.pod.name for each in late.wanted if isinstance(each, Bind)] == names(5)
    late.settle()
    assert users(late) == names(5)


def test_as_many_writes_for_many_pods_as_for_few() -> None:
    late = a_crowd(100)
    count = 0
    while writes(late):
        answered(late)
        count += 1
    assert count == 2
    late.settle()
    assert all(pod_in(late, name).spec.node_name == "a" for name in names(100))


def test_a_claim_has_room_for_so_many_pods() -> None:
    reserved = [{"resource": "pods", "name": f"q{i}", "uid": f"q{i}"} for i in range(MAX_CONSUMERS - 3)]
    late = a_crowd(5, a_claim("c", status={"allocation": ALLOCATION, "reservedFor": reserved}))
    answered(late)
    (second,) = writes(late)
    assert len(second["status"]["reservedFor"]) == MAX_CONSUMERS


def test_a_pod_that_goes_while_its_reservation_is_written_gives_it_back() -> None:
    late = a_crowd(3)
    answered(late)  # the write for the other two is under way
    gone = pod_in(late, "p002")
    late.delete(type(gone), gone.key)
    while late.unseen:
        late.show()
    late.settle()
    assert users(late) == ["p000", "p001"]


def test_when_the_pod_that_writes_goes_another_takes_its_turn() -> None:
    late = a_crowd(3)
    gone = pod_in(late, "p000")
    late.delete(type(gone), gone.key)
    while late.unseen:
        late.show()
    late.settle()
    wait(late, 2)
    assert sorted(set(users(late)) - {"p000"}) == ["p001", "p002"]
    assert all(pod_in(late, name).spec.node_name == "a" for name in ("p001", "p002"))


def test_a_write_that_fails_passes_the_turn_on() -> None:
    late = a_crowd(2)
    late.carry_out(next(i for i, each in enumerate(late.wanted) if isinstance(each, Write)), refuse=True)
    late.answer()
    wait(late, 3)
    assert sorted(users(late)) == names(2)


def test_nothing_is_left_of_turns_when_all_is_done() -> None:
    late = a_crowd(4)
    late.settle()
    ledger = late.scheduler.core.cluster.claims
    assert not ledger.turns.consumers("uid-c")
    assert ledger.turns.take("uid-c", "anyone")
